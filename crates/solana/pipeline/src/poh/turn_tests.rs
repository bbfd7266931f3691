//! Tests of a chain with leader turns: a slot's skipped ticks come first, and form a chain by the cluster's rules.

use super::chain::{Config, Entry, PohChain, Step};
use super::check::verify_entries;
use hearth_wire::entry::{self, Entries};

const PARENT: [u8; 32] = [7; 32];
const TICKS: u64 = 8;
const SLOT_NS: u64 = 400_000;

fn chain(hashes_per_tick: Option<u64>) -> PohChain {
    let config = Config { hashes_per_tick, ticks_per_slot: TICKS, slot_ns: SLOT_NS, max_microblocks: 10 };
    let mut chain = PohChain::new(config, 1, 0, [1; 32], 0).unwrap();
    chain.wait_on(4, PARENT, 0);
    chain
}

/// Steps the chain until `end_ns`.
fn wait_until(chain: &mut PohChain, end_ns: u64) {
    let mut now = 0;
    loop {
        match chain.step(now) {
            Step::Early(when) if when <= end_ns => now = when,
            Step::Early(_) | Step::Waiting => return,
            Step::Hashed => {}
            step => panic!("it waits for its turn: {step:?}"),
        }
    }
}

/// Makes the ordered slot; returns its entries and when it started.
fn make(chain: &mut PohChain, mut now: u64) -> (Vec<Entry>, u64) {
    let (mut entries, mut began) = (vec![], None);
    loop {
        assert!(!chain.is_between_slots(), "it is its turn until the slot's end");
        match chain.step(now) {
            Step::SlotBegan { slot, start_ns, .. } => {
                assert_eq!((slot, start_ns, began.replace(start_ns)), (7, now, None));
                chain.done_packing(slot, 0).unwrap();
            }
            Step::Tick(entry) => {
                assert_eq!((entry.slot, entry.parent_slot), (7, 4));
                entries.push(entry);
                if entry.last {
                    return (entries, began.unwrap());
                }
            }
            Step::Early(when) => now = when,
            Step::Hashed => {}
            Step::Waiting => panic!("pack is done"),
        }
    }
}

fn check(hashes_per_tick: Option<u64>, entries: &[Entry]) {
    let skipped = 2 * TICKS as usize;
    let ticks: Vec<u8> = entries.iter().map(|entry| entry.tick).collect();
    assert_eq!(ticks[..skipped], [0; 16]);
    assert_eq!(ticks[skipped..], [1, 2, 3, 4, 5, 6, 7, 8]);
    let mut block = vec![];
    entry::write_batch_header(entries.len(), &mut block);
    entries.iter().for_each(|it| entry::write_entry(it.num_hashes, &it.hash, 0, &[], &mut block));
    let entries: Vec<_> = Entries::parse(&block).unwrap().map(Result::unwrap).collect();
    verify_entries(&PARENT, &entries, hashes_per_tick, 3 * TICKS, 1).unwrap();
}

#[test]
fn skipped_ticks_come_first() {
    for hashes in [None, Some(2), Some(700)] {
        // Before anything is hashed ahead, in the middle of it, just in time, and long after its time.
        for waited_ns in [0, SLOT_NS / 3, 2 * SLOT_NS, 5 * SLOT_NS + 17] {
            let mut chain = chain(hashes);
            wait_until(&mut chain, waited_ns);
            chain.lead(7, waited_ns);
            let (entries, began) = make(&mut chain, waited_ns);
            check(hashes, &entries);
            assert_eq!(began, waited_ns, "{hashes:?}");
            assert!(chain.waits_on().is_none());
        }
    }
}

#[test]
fn hashes_ahead_no_faster_than_the_clock() {
    let mut chain = chain(Some(700));
    assert!(matches!(chain.step(0), Step::Early(_)));
    wait_until(&mut chain, 2 * SLOT_NS);
    let ahead = chain.clone();
    assert!(matches!(chain.step(2 * SLOT_NS), Step::Early(_)), "all that is due is done");
    // Waiting on another block: nothing hashed so far counts.
    chain.wait_on(4, PARENT, 2 * SLOT_NS);
    chain.lead(7, 2 * SLOT_NS);
    check(Some(700), &make(&mut chain, 2 * SLOT_NS).0);
    assert_eq!(ahead.waits_on(), Some((4, PARENT)));
}

#[test]
fn on_the_block_before_nothing_is_skipped() {
    let mut chain = chain(Some(3));
    wait_until(&mut chain, SLOT_NS);
    chain.lead(5, SLOT_NS);
    assert!(matches!(chain.step(SLOT_NS), Step::SlotBegan { slot: 5, .. }));
    chain.done_packing(5, 0).unwrap();
    let mut now = SLOT_NS;
    let mut hash = PARENT;
    while !chain.is_between_slots() {
        match chain.step(now) {
            Step::Early(when) => now = when,
            Step::Tick(entry) => {
                hash = (0..entry.num_hashes).fold(hash, |hash, _| hearth_crypto::sha256::sha256(&[&hash]));
                assert_eq!(entry.hash, hash);
            }
            Step::Hashed => {}
            step => panic!("{step:?}"),
        }
        if chain.slot() > 5 {
            break;
        }
    }
}
