//! Tests of the whole crate in one process, on heap memory, so that Miri can run them.

mod stress;

use crate::*;
use proptest::prelude::*;
use std::collections::VecDeque;

fn plan(depth: u32, mtu: u32, consumers: &[(&str, bool)]) -> WorkspacePlan {
    let consumers = consumers.iter().map(|&(name, reliable)| ConsumerPlan { name: name.into(), reliable }).collect();
    WorkspacePlan { links: vec![LinkPlan { name: "a_b".into(), depth, mtu, consumers }], ..WorkspacePlan::default() }
}

/// Makes one link on the heap; returns its ends in the order of `consumers`.
fn link(depth: u32, mtu: u32, consumers: &[(&str, bool)]) -> (Producer, Vec<Consumer>) {
    let workspace = Workspace::in_heap(&plan(depth, mtu, consumers)).unwrap();
    let taken = consumers.iter().map(|(name, _)| workspace.consumer("a_b", name).unwrap()).collect();
    (workspace.producer("a_b").unwrap(), taken)
}

fn ready(consumer: &mut Consumer) -> FragMeta {
    match consumer.poll() {
        PollResult::Ready(meta) => meta,
        other => panic!("{other:?} instead of a frag"),
    }
}

#[test]
fn a_frag_arrives_with_its_metadata_and_payload() {
    let (mut producer, mut consumers) = link(4, 100, &[("b", true)]);
    let consumer = &mut consumers[0];
    assert_eq!(consumer.poll(), PollResult::Empty);
    for round in 0..20u64 {
        assert_eq!(producer.credits(4), 4);
        producer.buffer()[..5].copy_from_slice(b"heart");
        producer.publish(5, round, 7, 8, 9);
        producer.send(&[round as u8; 100], 1, 2, 3, 4);
        let meta = ready(consumer);
        assert_eq!(
            (meta.seq, meta.tag, meta.size, meta.control, meta.origin_us, meta.publish_ns),
            (2 * round, round, 5, 7, 8, 9)
        );
        assert_eq!(consumer.payload(&meta), Ok(&b"heart"[..]));
        consumer.advance();
        let meta = ready(consumer);
        assert_eq!((meta.tag, meta.size, meta.control, meta.origin_us, meta.publish_ns), (1, 100, 2, 3, 4));
        assert_eq!(consumer.payload(&meta), Ok(&[round as u8; 100][..]));
        consumer.advance();
        consumer.release();
        assert_eq!(producer.seq(), consumer.seq());
    }
}

#[test]
fn metadata_survives_the_way_through_words() {
    let meta = FragMeta {
        seq: 1 << 40,
        tag: u64::MAX - 1,
        chunk: 0x8765_4321,
        size: 0xfedc,
        control: 0x1234,
        origin_us: 0xdead_beef,
        publish_ns: 7,
    };
    assert_eq!(FragMeta::from_words(meta.to_words()), meta);
}

#[test]
fn credits_end_where_the_slowest_reliable_consumer_is() {
    let (mut producer, mut consumers) = link(8, 0, &[("quick", true), ("slow", true), ("lossy", false)]);
    for _ in 0..8 {
        assert_ne!(producer.credits(1), 0);
        producer.publish(0, 0, 0, 0, 0);
    }
    assert_eq!(producer.credits(1), 0);
    for taken in 0..8 {
        ready(&mut consumers[0]);
        consumers[0].advance();
        if taken < 3 {
            ready(&mut consumers[1]);
            consumers[1].skip();
        }
    }
    assert_eq!(producer.credits(1), 0, "nothing is released yet");
    consumers[0].release();
    consumers[1].release();
    assert_eq!(producer.credits(1), 3);
    assert_eq!(producer.credits(4), 3);
}

#[test]
fn without_a_reliable_consumer_credits_are_endless() {
    let (mut producer, _consumers) = link(2, 8, &[("lossy", false)]);
    for _ in 0..10 {
        assert_eq!(producer.credits(usize::MAX), usize::MAX);
        producer.send(b"frag", 0, 0, 0, 0);
    }
}

#[test]
fn payloads_in_flight_are_intact_while_the_next_is_prepared() {
    for mtu in [1, 63, 64, 65, 128, 1232] {
        let (mut producer, mut consumers) = link(4, mtu, &[("b", true)]);
        for round in 0..if cfg!(miri) { 2 } else { 50u8 } {
            for frag in 0..4 {
                producer.buffer().fill(round ^ frag);
                assert!(producer.credits(1) > 0);
                producer.publish(mtu as usize, 0, 0, 0, 0);
            }
            producer.buffer().fill(0xff);
            for frag in 0..4 {
                let meta = ready(&mut consumers[0]);
                assert!(consumers[0].payload(&meta).unwrap().iter().all(|&byte| byte == round ^ frag));
                consumers[0].advance();
            }
            consumers[0].release();
            assert_eq!(producer.credits(4), 4);
        }
    }
}

#[test]
fn a_lossy_consumer_is_moved_on_and_counts_what_it_lost() {
    let (mut producer, mut consumers) = link(8, 8, &[("lossy", false)]);
    let consumer = &mut consumers[0];
    for seq in 0..100u64 {
        producer.send(&seq.to_le_bytes(), seq, 0, 0, 0);
    }
    // Frag 0's entry holds frag 96 now; half a lap behind that is frag 93.
    assert_eq!(consumer.poll(), PollResult::Overrun { lost: 93 });
    for seq in 93..100u64 {
        let meta = ready(consumer);
        assert_eq!((meta.seq, meta.tag), (seq, seq));
        assert_eq!(consumer.payload(&meta), Ok(&seq.to_le_bytes()[..]));
        consumer.advance();
    }
    assert_eq!(consumer.poll(), PollResult::Empty);
}

#[test]
fn a_payload_overtaken_between_poll_and_read_is_refused() {
    let (mut producer, mut consumers) = link(4, 8, &[("lossy", false)]);
    let consumer = &mut consumers[0];
    producer.send(b"old", 0, 0, 0, 0);
    let meta = ready(consumer);
    assert_eq!(consumer.payload(&meta), Ok(&b"old"[..]));
    for seq in 1..=4u64 {
        producer.send(&seq.to_le_bytes(), seq, 0, 0, 0);
    }
    assert_eq!(consumer.payload(&meta), Err(Overrun { lost: 3 }));
    consumer.advance();
    consumer.skip();
    assert_eq!(consumer.seq(), 3, "the overrun has moved it on, nothing else does");
    assert_eq!(ready(consumer).seq, 3);
}

#[test]
fn a_reliable_consumer_borrows_beside_a_lossy_one_that_copies() {
    let (mut producer, mut consumers) = link(4, 200, &[("reliable", true), ("lossy", false)]);
    for round in 0..100u8 {
        assert!(producer.credits(1) > 0);
        producer.buffer()[..=usize::from(round)].fill(round);
        producer.publish(usize::from(round) + 1, 0, 0, 0, 0);
        for consumer in &mut consumers {
            let meta = ready(consumer);
            assert_eq!(consumer.payload(&meta), Ok(&vec![round; usize::from(round) + 1][..]));
            consumer.advance();
            consumer.release();
        }
    }
}

#[test]
#[should_panic(expected = "without a credit")]
fn publishing_without_a_credit_is_refused() {
    let (mut producer, _consumers) = link(2, 8, &[("b", true)]);
    (0..3).for_each(|_| producer.publish(0, 0, 0, 0, 0));
}

#[test]
#[should_panic(expected = "larger than the link's mtu")]
fn a_payload_over_the_mtu_is_refused() {
    let (mut producer, _consumers) = link(2, 8, &[("b", true)]);
    producer.send(&[0; 9], 0, 0, 0, 0);
}

#[test]
#[should_panic(expected = "advance without a frag")]
fn advancing_over_nothing_is_refused() {
    let (mut producer, mut consumers) = link(2, 8, &[("b", true)]);
    producer.publish(0, 0, 0, 0, 0);
    consumers[0].advance();
}

#[test]
#[should_panic(expected = "not held")]
fn a_released_payload_is_refused() {
    let (mut producer, mut consumers) = link(2, 8, &[("b", true)]);
    producer.send(b"frag", 0, 0, 0, 0);
    let meta = ready(&mut consumers[0]);
    consumers[0].advance();
    consumers[0].release();
    let _ = consumers[0].payload(&meta);
}

#[test]
fn ends_are_taken_once_and_by_their_names() {
    let workspace = Workspace::in_heap(&plan(2, 8, &[("b", true)])).unwrap();
    let _ends = (workspace.producer("a_b").unwrap(), workspace.consumer("a_b", "b").unwrap());
    assert!(matches!(workspace.producer("a_b"), Err(WorkspaceError::Taken { .. })));
    assert!(matches!(workspace.consumer("a_b", "b"), Err(WorkspaceError::Taken { .. })));
    assert!(matches!(workspace.producer("b_a"), Err(WorkspaceError::Unknown { .. })));
    assert!(matches!(workspace.consumer("a_b", "c"), Err(WorkspaceError::Unknown { .. })));
    assert!(matches!(workspace.counters("net"), Err(WorkspaceError::Unknown { .. })));
}

#[test]
fn counters_of_one_name_are_the_same_words() {
    let counters = vec![CountersPlan { name: "net".into(), words: 3 }, CountersPlan { name: "quic".into(), words: 1 }];
    let workspace = Workspace::in_heap(&WorkspacePlan { counters, ..WorkspacePlan::default() }).unwrap();
    let (net, quic) = (workspace.counters("net").unwrap(), workspace.counters("quic").unwrap());
    net.words()[2].store(5, std::sync::atomic::Ordering::Relaxed);
    let loaded = |counters: &Counters| {
        counters.words().iter().map(|word| word.load(std::sync::atomic::Ordering::Relaxed)).collect::<Vec<_>>()
    };
    assert_eq!(loaded(&workspace.counters("net").unwrap()), [0, 0, 5]);
    assert_eq!(loaded(&quic), [0]);
}

#[test]
fn the_parts_of_a_plan_sum_to_its_size() {
    let mut plan = plan(64, 1232, &[("b", true), ("c", false)]);
    plan.topology = vec![7; 1000];
    plan.counters = vec![CountersPlan { name: "net".into(), words: 3 }];
    let share = SharePlan { reads: vec!["a_b".into()], counters: vec!["net".into()], ..SharePlan::default() };
    let shares = [None, Some(share)];
    let all = [HugePages::None, HugePages::TwoMiB, HugePages::OneGiB];
    for (pages, share) in all.into_iter().flat_map(|pages| shares.clone().map(|share| (pages, share))) {
        plan.huge_pages = pages;
        plan.share = share;
        let parts = plan.parts();
        assert_eq!(parts.iter().map(|(_, bytes)| bytes).sum::<u64>(), plan.size());
        assert!(plan.size().is_multiple_of(pages.page_size()));
        let of = |name: &str| parts.iter().find(|(part, _)| part == name).unwrap().1;
        // 64 entries, 65 slots of 21 chunks (odd), the producer's and two consumers' lines.
        assert_eq!(of("link a_b"), (64 * 32 + 65 * 21 * 64 + 128 + 2 * 256u64).next_multiple_of(128));
        assert_eq!(of("topology"), 1024);
        assert_eq!(of("counters net"), 128);
    }
}

#[test]
fn plans_that_cannot_be_are_refused() {
    let refused = |change: &dyn Fn(&mut WorkspacePlan)| {
        let mut plan = plan(4, 8, &[("b", true)]);
        change(&mut plan);
        matches!(Workspace::in_heap(&plan), Err(WorkspaceError::Plan { .. }))
    };
    assert!(!refused(&|_| {}));
    for depth in [0, 1, 3, 1 << 27] {
        assert!(refused(&|plan| plan.links[0].depth = depth), "depth {depth}");
    }
    assert!(refused(&|plan| plan.links[0].mtu = 65_536));
    assert!(refused(&|plan| (plan.links[0].depth, plan.links[0].mtu) = (1 << 26, 65_535)));
    assert!(refused(&|plan| plan.links.push(plan.links[0].clone())));
    assert!(refused(&|plan| plan.links[0].consumers.push(ConsumerPlan { name: "b".into(), reliable: false })));
    assert!(refused(&|plan| plan.links[0].name.clear()));
    assert!(refused(&|plan| plan.links[0].consumers[0].name = "b".repeat(256)));
    assert!(refused(&|plan| plan.counters = vec![CountersPlan { name: "net".into(), words: usize::MAX }]));
    let share = |reads: &[&str], writes: &[&str]| {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        SharePlan { reads: owned(reads), writes: owned(writes), counters: vec![] }
    };
    assert!(!refused(&|plan| plan.share = Some(share(&["a_b"], &[]))));
    assert!(refused(&|plan| plan.share = Some(share(&["b_a"], &[]))));
    assert!(refused(&|plan| plan.share = Some(share(&["a_b"], &["a_b"]))));
    assert!(refused(&|plan| plan.share = Some(SharePlan { counters: vec!["net".into()], ..SharePlan::default() })));
}

#[derive(Clone, Debug)]
enum Step {
    Publish { size: usize, in_place: bool },
    Take { read: bool },
    Release,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let publish = (0..200usize, any::<bool>()).prop_map(|(size, in_place)| Step::Publish { size, in_place });
    let take = any::<bool>().prop_map(|read| Step::Take { read });
    proptest::collection::vec(
        prop_oneof![4 => publish, 4 => take, 1 => Just(Step::Release)],
        0..if cfg!(miri) { 40 } else { 400 },
    )
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 4 } else { 256 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// A reliable link is a bounded queue; a lossy consumer next to it loses only what is counted.
    #[test]
    fn matches_a_bounded_queue(steps in steps(), depth in 1..5u32, beside_lossy in any::<bool>()) {
        let depth = 1 << depth;
        let consumers: &[_] = if beside_lossy { &[("b", true), ("lossy", false)] } else { &[("b", true)] };
        let (mut producer, mut ends) = link(depth, 199, consumers);
        let (mut queue, mut held) = (VecDeque::new(), 0usize);
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Publish { size, in_place } => {
                    let payload = vec![number as u8; size];
                    prop_assert_eq!(producer.credits(depth as usize), depth as usize - queue.len() - held);
                    if producer.credits(1) == 0 {
                        continue;
                    }
                    if in_place {
                        producer.buffer()[..size].copy_from_slice(&payload);
                        producer.publish(size, number as u64, 0, 0, 0);
                    } else {
                        producer.send(&payload, number as u64, 0, 0, 0);
                    }
                    queue.push_back((number as u64, payload));
                }
                Step::Take { read } => match (ends[0].poll(), queue.pop_front()) {
                    (PollResult::Empty, None) => {}
                    (PollResult::Ready(meta), Some((tag, payload))) => {
                        prop_assert_eq!((meta.tag, usize::from(meta.size)), (tag, payload.len()));
                        if read {
                            prop_assert_eq!(ends[0].payload(&meta), Ok(&payload[..]));
                            ends[0].advance();
                        } else {
                            ends[0].skip();
                        }
                        held += 1;
                    }
                    (found, expected) => prop_assert!(false, "{:?} instead of {:?}", found, expected),
                },
                Step::Release => {
                    ends[0].release();
                    held = 0;
                }
            }
        }
        if let Some(lossy) = ends.get_mut(1) {
            let (mut taken, mut lost) = (0, 0);
            loop {
                match lossy.poll() {
                    PollResult::Empty => break,
                    PollResult::Overrun { lost: more } => lost += more,
                    PollResult::Ready(_) => {
                        lossy.advance();
                        taken += 1;
                    }
                }
            }
            prop_assert_eq!(taken + lost, producer.seq());
        }
    }
}
