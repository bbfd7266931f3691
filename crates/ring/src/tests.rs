//! Tests of the whole crate in one process, in heap memory, so that Miri can run them.

use crate::*;

fn plan(depth: u32, mtu: u32, consumers: &[(&str, bool)]) -> WorkspacePlan {
    let consumers = consumers.iter().map(|&(name, reliable)| ConsumerPlan { name: name.into(), reliable }).collect();
    WorkspacePlan { links: vec![LinkPlan { name: "a_b".into(), depth, mtu, consumers }], ..WorkspacePlan::default() }
}

fn ready(consumer: &mut Consumer) -> FragMeta {
    match consumer.poll() {
        Polled::Ready(meta) => meta,
        other => panic!("{other:?} instead of a frag"),
    }
}

#[test]
fn a_frag_arrives_with_its_metadata_and_payload() {
    let workspace = Workspace::in_heap(&plan(4, 100, &[("b", true)])).unwrap();
    let (mut producer, mut consumer) = (workspace.producer("a_b").unwrap(), workspace.consumer("a_b", "b").unwrap());
    assert_eq!(consumer.poll(), Polled::Empty);
    for round in 0..20u64 {
        assert_eq!(producer.credits(1), 4);
        producer.buffer()[..5].copy_from_slice(b"heart");
        producer.publish(5, round, 7, 8, 9);
        producer.send(&[round as u8; 100], 1, 2, 3, 4);
        let meta = ready(&mut consumer);
        assert_eq!((meta.seq, meta.tag, meta.size, meta.control, meta.origin_ns, meta.publish_ns), (2 * round, round, 5, 7, 8, 9));
        assert_eq!(consumer.payload(&meta), Ok(&b"heart"[..]));
        consumer.advance();
        let meta = ready(&mut consumer);
        assert_eq!((meta.tag, meta.size, meta.control, meta.origin_ns, meta.publish_ns), (1, 100, 2, 3, 4));
        assert_eq!(consumer.payload(&meta), Ok(&[round as u8; 100][..]));
        consumer.advance();
        consumer.release();
        assert_eq!(producer.seq(), consumer.seq());
        producer.credits(4);
    }
}
