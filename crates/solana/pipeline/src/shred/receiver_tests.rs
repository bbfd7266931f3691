//! A leader's shreds in any order, with loss, forged and contradictory.

use hearth_crypto::ed25519::SigningKey;
use hearth_wire::entry::write_entry;
use proptest::prelude::*;
use proptest::sample::subsequence;

use hearth_gossip::duplicate::{NoProof, check};

use super::super::{Conflict, ContradictedShred, Shredder, ShredderConfig, ShredderError};
use super::*;

const VERSION: u16 = 7;
const OWN: Pubkey = [9; 32];

fn leader() -> SigningKey {
    SigningKey::from_seed(&[1; 32])
}

/// Makes the signed sets of a slot on its parent; another `mark` makes another block of the same slot.
fn block(slot: u64, parent: u64, sets: usize, mark: u8) -> Vec<FecSet> {
    let mut shredder =
        Shredder::new(ShredderConfig { version: VERSION, batch_sets: 1, ..ShredderConfig::default() }, [3; 32]);
    shredder.begin_slot(slot, parent).unwrap();
    let mut found = vec![];
    let mut drain = |shredder: &mut Shredder| {
        let mut set = FecSet::new();
        while shredder.next_set(&mut set) {
            let signature = leader().sign(set.root());
            set.sign(&signature);
            found.push(set.clone());
        }
    };
    let mut entry = vec![];
    write_entry(1, &[mark; 32], 1, &[mark; 20_000], &mut entry);
    for _ in 0..sets {
        while shredder.push(&entry, 1) == Err(ShredderError::BatchFull) {
            shredder.end_batch(false);
            drain(&mut shredder);
        }
    }
    shredder.end_batch(true);
    drain(&mut shredder);
    found
}

fn receiver(slots_max: usize, sets_max: usize) -> Receiver {
    let config = ReceiverConfig {
        version: VERSION,
        own: OWN,
        shreds_per_slot_max: 1_024,
        slots_per_epoch: 100,
        slots_max,
        sets_max,
    };
    Receiver::new(config, 4)
}

fn take(receiver: &mut Receiver, shred: &[u8], source: ShredSource) -> Result<SetProgress, ShredRefusal> {
    let leader = |slot| (slot != 99).then(|| leader().public_key());
    receiver.take(shred, source, 0, leader, |_| false).map(|resolved| resolved.progress)
}

/// Like [`take`], at a given time and with any leader.
fn take_at(
    receiver: &mut Receiver,
    shred: &[u8],
    source: ShredSource,
    now_ns: u64,
    leader: Pubkey,
) -> Result<SetProgress, ShredRefusal> {
    receiver.take(shred, source, now_ns, |_| Some(leader), |_| false).map(|resolved| resolved.progress)
}

/// The contradictions revealed by the last shred.
fn conflicts(receiver: &Receiver) -> Vec<Conflict> {
    let of = |finding: &Finding| match finding {
        Finding::Contradiction(conflict) => Some(conflict.clone()),
        _ => None,
    };
    receiver.findings().iter().filter_map(of).collect()
}

fn shreds(sets: &[FecSet]) -> Vec<Vec<u8>> {
    sets.iter().flat_map(|set| set.shreds().map(<[u8]>::to_vec)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_32_of_each_set_are_enough(
        chosen in subsequence((0..SHREDS_PER_SET).collect::<Vec<_>>(), DATA_PER_SET),
        order in any::<u64>(),
    ) {
        let sets = block(9, 7, 3, 5);
        let mut given: Vec<Vec<u8>> =
            sets.iter().flat_map(|set| chosen.iter().map(|place| set.shreds().nth(*place).unwrap().to_vec())).collect();
        fastrand::Rng::with_seed(order).shuffle(&mut given);
        let mut receiver = receiver(4, 8);
        let mut complete = vec![];
        for shred in &given {
            let taken = take(&mut receiver, shred, ShredSource::Turbine).unwrap();
            prop_assert_eq!((taken.slot, taken.leader), (9, leader().public_key()));
            if taken.completes {
                let done = receiver.completed().unwrap();
                prop_assert_eq!(done.parent_slot, 7);
                prop_assert_eq!(done.recovered.count_ones(), 32);
                let wanted = &sets[taken.set_index as usize / DATA_PER_SET];
                prop_assert!(done.set.shreds().eq(wanted.shreds()));
                complete.push(taken.set_index);
            }
        }
        complete.sort_unstable();
        let all: Vec<u32> = sets.iter().map(|set| set.header().set_index).collect();
        prop_assert_eq!(complete, all);
        prop_assert_eq!(receiver.slots().count(), 0);
        for shred in given {
            prop_assert_eq!(take(&mut receiver, &shred, ShredSource::Turbine), Err(ShredRefusal::Duplicate));
        }
    }

    #[test]
    fn nothing_that_was_changed_is_taken(place in 0..SHREDS_PER_SET, byte in 0..1_203usize, bit in 0..8u8) {
        let sets = block(9, 8, 1, 5);
        let mut shred = sets[0].shreds().nth(place).unwrap().to_vec();
        shred[byte] ^= 1 << bit;
        let mut receiver = receiver(4, 8);
        let taken = take(&mut receiver, &shred, ShredSource::Turbine);
        // The last set has room for the retransmitter's signature, which the leader did not sign.
        let variant = Variant::from_byte(sets[0].shreds().nth(place).unwrap()[VARIANT]).unwrap();
        let is_free = variant.retransmitter_signature().is_some_and(|range| range.contains(&byte));
        prop_assert_eq!(taken.is_ok(), is_free, "{:?}", taken);
        if !is_free {
            prop_assert_eq!((receiver.slots().count(), receiver.sets.len()), (0, 0));
        }
    }

    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..1_300), variant in 0x60u8..0xc0) {
        let mut bytes = bytes;
        let mut receiver = receiver(4, 8);
        let _ = take(&mut receiver, &bytes, ShredSource::Turbine);
        if let Some(byte) = bytes.get_mut(VARIANT) {
            *byte = variant;
        }
        prop_assert!(take(&mut receiver, &bytes, ShredSource::Turbine).is_err());
    }
}

#[test]
fn each_rule_has_its_answer() {
    let sets = block(9, 8, 1, 5);
    let good = shreds(&sets);
    let mut receiver = receiver(4, 8);
    let mut refused = |bytes: &[u8], way| take(&mut receiver, bytes, way).unwrap_err();
    assert_eq!(refused(b"", ShredSource::Turbine), ShredRefusal::Malformed);
    assert_eq!(refused(&good[40], ShredSource::Repair), ShredRefusal::Malformed, "code shreds are not served");
    let slot = |slot: u64, parent| shreds(&block(slot, parent, 1, 5))[0].clone();
    assert_eq!(refused(&slot(4, 3), ShredSource::Turbine), ShredRefusal::Old);
    assert_eq!(refused(&slot(6, 3), ShredSource::Turbine), ShredRefusal::Old, "on what is no longer");
    assert_eq!(refused(&slot(505, 504), ShredSource::Turbine), ShredRefusal::Ahead);
    assert_eq!(refused(&slot(99, 98), ShredSource::Turbine), ShredRefusal::NoLeader);
    let mut other = good[0].clone();
    other[77] ^= 1;
    assert_eq!(refused(&other, ShredSource::Turbine), ShredRefusal::Version);
    let mut forged = good[0].clone();
    forged[3] ^= 1;
    assert_eq!(refused(&forged, ShredSource::Turbine), ShredRefusal::Signature);
    let mut trailing = good[0].clone();
    trailing.extend([0; 20]);
    assert!(take(&mut receiver, &trailing, ShredSource::Turbine).is_ok());
    assert_eq!(take(&mut receiver, &good[0], ShredSource::Turbine), Err(ShredRefusal::Duplicate));
    // Its own blocks are not accepted back.
    let own = take_at(&mut receiver, &good[1], ShredSource::Turbine, 0, OWN);
    assert!(own.is_ok(), "a slot that has begun has its leader");
    let own = take_at(&mut receiver, &slot(10, 9), ShredSource::Turbine, 0, OWN);
    assert_eq!(own, Err(ShredRefusal::Own));
    // But those of a previous run are, if they were requested.
    receiver.makes(12);
    let own = take_at(&mut receiver, &slot(12, 11), ShredSource::Repair, 0, OWN);
    assert_eq!(own, Err(ShredRefusal::Own));
    let own = take_at(&mut receiver, &slot(10, 9), ShredSource::Repair, 0, OWN);
    assert_eq!(own, Err(ShredRefusal::Signature), "it is looked at, and signed by another");
    // Nor where the cluster has chosen another block that this node's key has signed.
    receiver.dump(12, []);
    let own = take_at(&mut receiver, &slot(12, 11), ShredSource::Turbine, 0, OWN);
    assert_eq!(own, Err(ShredRefusal::Own));
    let own = take_at(&mut receiver, &slot(12, 11), ShredSource::Repair, 0, OWN);
    assert_eq!(own, Err(ShredRefusal::Signature), "it is looked at, and signed by another");
    let kept = receiver.take(&slot(11, 10), ShredSource::Turbine, 0, |_| Some([1; 32]), |_| true);
    assert_eq!(kept.err(), Some(ShredRefusal::Duplicate));
}

#[test]
fn a_leader_that_makes_two_blocks_is_found_out() {
    let [one, other] = [5, 6].map(|mark| block(9, 8, 2, mark));
    let mut receiver = receiver(4, 8);
    for shred in one[0].shreds().take(5) {
        take(&mut receiver, shred, ShredSource::Turbine).unwrap();
    }
    let contradicting = other[0].shreds().next().unwrap().to_vec();
    assert_eq!(take(&mut receiver, &contradicting, ShredSource::Turbine), Err(ShredRefusal::Equivocation));
    assert!(receiver.equivocates(9));
    // The first one continues, and is still contradicted once its set is complete.
    for shred in one[0].shreds().skip(5).take(32) {
        let _ = take(&mut receiver, shred, ShredSource::Turbine);
    }
    assert_eq!(take(&mut receiver, &contradicting, ShredSource::Turbine), Err(ShredRefusal::Equivocation));
    // Another length, and another parent.
    for (number, other) in [block(9, 8, 1, 5), block(9, 7, 2, 5)].iter().enumerate() {
        let mut receiver = self::receiver(4, 8);
        shreds(&one[1..])
            .iter()
            .take(20)
            .for_each(|shred| assert!(take(&mut receiver, shred, ShredSource::Turbine).is_ok()));
        let last = other.last().unwrap().shreds().nth(31).unwrap();
        assert_eq!(take(&mut receiver, last, ShredSource::Turbine), Err(ShredRefusal::Equivocation), "{number}");
    }
}

#[test]
fn memory_is_bounded_and_the_next_slots_come_first() {
    let mut receiver = receiver(3, 4);
    let first = |slot: u64| shreds(&block(slot, slot - 1, 6, 5))[0].clone();
    for slot in [20, 21, 22] {
        take(&mut receiver, &first(slot), ShredSource::Turbine).unwrap();
    }
    assert_eq!(take(&mut receiver, &first(23), ShredSource::Turbine), Err(ShredRefusal::NoRoom));
    take(&mut receiver, &first(10), ShredSource::Turbine).unwrap();
    assert_eq!(receiver.slots().collect::<Vec<_>>(), [10, 20, 21]);
    assert_eq!(receiver.evicted(), EvictionTotals { sets: 1, slots: 1 });
    let many = block(20, 19, 6, 5);
    let mut firsts =
        many.iter().skip(1).map(|set| take(&mut receiver, set.shreds().next().unwrap(), ShredSource::Turbine));
    assert!(firsts.next().unwrap().is_ok(), "the fourth set");
    assert!(firsts.next().unwrap().is_ok(), "that of slot 21 has made room");
    assert!(firsts.all(|taken| taken == Err(ShredRefusal::NoRoom)));
    assert_eq!(receiver.evicted(), EvictionTotals { sets: 2, slots: 1 });
    // Evicted sets are known to be missing, and can arrive again.
    assert!(!receiver.missing(21, 50, 0, 10).shreds.is_empty());
    receiver.set_root(20);
    assert_eq!((receiver.slots().collect::<Vec<_>>(), receiver.sets.len()), (vec![21], 0));
    take(&mut receiver, &first(21), ShredSource::Turbine).unwrap();
}

#[test]
fn withheld_sets_starve_no_later_slot() {
    const SETS: usize = 1_024;
    const SLOTS: usize = 256;
    let config = ReceiverConfig { shreds_per_slot_max: 32_768, ..receiver(SLOTS, SETS).config };
    let mut receiver = Receiver::new(config, 4);
    let mut at = |shred: &[u8], source, now_ns| take_at(&mut receiver, shred, source, now_ns, leader().public_key());
    let firsts = |slot, sets| -> Vec<Vec<u8>> {
        block(slot, slot - 1, sets, 5).iter().map(|set| set.shreds().next().unwrap().to_vec()).collect()
    };
    // One shred of each set that a slot may have: as many as there is room for.
    firsts(9, SETS).iter().for_each(|shred| assert!(at(shred, ShredSource::Turbine, 0).is_ok()));
    let later = block(13, 12, 20, 5);
    let ends =
        later.iter().flat_map(|set| set.shreds().take(DATA_PER_SET)).map(|shred| at(shred, ShredSource::Turbine, 0));
    assert_eq!(ends.filter(|taken| taken.is_ok_and(|taken| taken.ends)).count(), 1, "the block is whole");
    // Many later ones leave the slot its share, its lowest sets; an earlier slot has priority.
    for slot in 14..14 + SETS as u64 / 4 {
        for shred in firsts(slot, 4) {
            let _ = at(&shred, ShredSource::Turbine, 0);
        }
    }
    assert!(
        block(8, 7, 3, 5)
            .iter()
            .flat_map(|set| set.shreds().take(DATA_PER_SET))
            .all(|shred| { at(shred, ShredSource::Repair, 0).is_ok() })
    );
    let mut of_slot = receiver.sets.keys().filter(|(slot, _)| *slot == 9).map(|(_, set)| *set as usize / DATA_PER_SET);
    assert!((0..SETS / 16).all(|number| of_slot.next() == Some(number)));
}

#[test]
fn slots_of_which_nothing_comes_make_room() {
    const SECOND: u64 = 1_000_000_000;
    let mut receiver = receiver(8, 64);
    let turbine = ShredSource::Turbine;
    let mut at = |shred: &[u8], now_ns| take_at(&mut receiver, shred, turbine, now_ns, leader().public_key());
    for slot in 10..18 {
        let some = shreds(&block(slot, slot - 1, 2, 5));
        assert!(at(&some[0], 0).is_ok());
        // The first two receive more.
        (slot < 12).then(|| assert!(at(&some[1], SECOND).is_ok()));
    }
    let later = block(20, 19, 2, 5);
    assert_eq!(at(later[0].shreds().next().unwrap(), SECOND), Err(ShredRefusal::NoRoom), "they may be on their way");
    let all = later.iter().flat_map(|set| set.shreds().take(DATA_PER_SET)).map(|shred| at(shred, 2 * SECOND));
    assert_eq!(all.filter(|taken| taken.is_ok_and(|taken| taken.ends)).count(), 1, "the block is whole");
    assert_eq!(receiver.slots().collect::<Vec<_>>(), [10, 11, 13, 14, 15, 16, 17]);
    assert_eq!(receiver.evicted(), EvictionTotals { sets: 1, slots: 1 });
    // With too many sets and no slot over its share it is the same.
    let mut receiver = self::receiver(32, 8);
    let turbine = ShredSource::Turbine;
    let mut at = |shred: &[u8], now_ns| take_at(&mut receiver, shred, turbine, now_ns, leader().public_key());
    (10..18).for_each(|slot| assert!(at(&shreds(&block(slot, slot - 1, 1, 5))[0], slot).is_ok()));
    let first = later[0].shreds().next().unwrap();
    assert_eq!(at(first, SECOND), Err(ShredRefusal::NoRoom));
    assert!(at(first, 3 * SECOND).is_ok());
    assert_eq!(receiver.slots().collect::<Vec<_>>(), [11, 12, 13, 14, 15, 16, 17, 20]);
}

/// Gives shreds of a block until a set of it is complete; returns that set's progress.
fn fill(receiver: &mut Receiver, set: &FecSet) -> Option<SetProgress> {
    set.shreds().find_map(|shred| take(receiver, shred, ShredSource::Turbine).ok().filter(|taken| taken.completes))
}

#[test]
fn a_second_block_is_noticed_after_the_first_is_whole_and_proved_once() {
    let [one, other] = [5, 6].map(|mark| block(9, 8, 2, mark));
    let mut receiver = receiver(4, 8);
    for set in &one {
        fill(&mut receiver, set).unwrap();
    }
    assert_eq!(receiver.slots().count(), 0);
    let late = one[0].shreds().nth(63).unwrap();
    assert_eq!(take(&mut receiver, late, ShredSource::Turbine), Err(ShredRefusal::Duplicate));
    let mut forged = other[1].shreds().next().unwrap().to_vec();
    forged[5] ^= 1;
    assert_eq!(take(&mut receiver, &forged, ShredSource::Turbine), Err(ShredRefusal::Signature));
    assert_eq!(conflicts(&receiver), []);
    let theirs = other[1].shreds().next().unwrap();
    assert_eq!(take(&mut receiver, theirs, ShredSource::Turbine), Err(ShredRefusal::Equivocation));
    let conflict = conflicts(&receiver).pop().unwrap();
    assert_eq!((conflict.slot, &conflict.theirs[..]), (9, theirs));
    let ContradictedShred::Shred(ours) = &conflict.ours else { panic!("{conflict:?}") };
    let mut verifier = Verifier::new(VerifierConfig::default());
    let mut check = |shreds: [&[u8]; 2], leader: &Pubkey| check(9, shreds, VERSION, leader, &mut verifier);
    assert_eq!(check([ours, theirs], &leader().public_key()), Ok(()));
    assert_eq!(check([ours, theirs], &OWN), Err(NoProof::Signature));
    assert_eq!(check([ours, ours], &leader().public_key()), Err(NoProof::Consistent));
    // Once the equivocation is proved, further proofs are not examined.
    assert!(receiver.equivocates(9));
    assert_eq!(take(&mut receiver, theirs, ShredSource::Turbine), Err(ShredRefusal::Duplicate));
    assert_eq!(conflicts(&receiver), []);
}

#[test]
fn ends_that_contradict_each_other_are_proved() {
    let long = block(9, 8, 4, 5);
    let short = block(9, 8, 2, 5);
    let end = short[1].shreds().nth(31).unwrap();
    let mut verifier = Verifier::new(VerifierConfig::default());
    let mut is_proved = |receiver: &Receiver| {
        let Some(Conflict { theirs, ours: ContradictedShred::Shred(ours), .. }) = conflicts(receiver).pop() else {
            return false;
        };
        check(9, [&ours, &theirs], VERSION, &leader().public_key(), &mut verifier) == Ok(())
    };
    // The slot's end arrives after the sets behind it.
    let mut receiver = self::receiver(4, 8);
    take(&mut receiver, long[3].shreds().nth(4).unwrap(), ShredSource::Turbine).unwrap();
    assert_eq!(take(&mut receiver, end, ShredSource::Turbine), Err(ShredRefusal::Equivocation));
    assert!(is_proved(&receiver));
    // And before them.
    let mut receiver = self::receiver(4, 8);
    take(&mut receiver, end, ShredSource::Turbine).unwrap();
    assert_eq!(
        take(&mut receiver, long[3].shreds().nth(40).unwrap(), ShredSource::Turbine),
        Err(ShredRefusal::Equivocation)
    );
    assert!(!is_proved(&receiver), "parity proves nothing of that");
    assert_eq!(
        take(&mut receiver, long[3].shreds().nth(4).unwrap(), ShredSource::Turbine),
        Err(ShredRefusal::Equivocation)
    );
    assert!(is_proved(&receiver));
}

#[test]
fn a_block_that_was_dumped_is_replaced_by_the_other() {
    let [one, other] = [5, 6].map(|mark| block(9, 8, 3, mark));
    let mut receiver = receiver(4, 8);
    for set in &one {
        fill(&mut receiver, set).unwrap();
    }
    receiver.dump(9, []);
    for set in &one {
        for shred in set.shreds() {
            assert_eq!(
                take(&mut receiver, shred, ShredSource::Repair).err(),
                match Shred::parse(shred).unwrap().variant().kind {
                    ShredKind::Data => Some(ShredRefusal::Dumped),
                    ShredKind::Code => Some(ShredRefusal::Malformed),
                }
            );
        }
    }
    assert_eq!(receiver.missing(9, 0, 0, 10).highest_from, Some(0));
    let ends: Vec<bool> = other.iter().rev().map(|set| fill(&mut receiver, set).unwrap().ends).collect();
    assert_eq!(ends, [false, false, true]);
    assert_eq!(fill(&mut receiver, &one[0]), None);
}

#[test]
fn a_mixture_of_two_blocks_becomes_one_of_them() {
    let [one, other] = [5, 6].map(|mark| block(9, 8, 4, mark));
    let mut receiver = receiver(4, 8);
    fill(&mut receiver, &one[0]).unwrap();
    fill(&mut receiver, &other[3]).unwrap();
    fill(&mut receiver, &one[1]).unwrap();
    // This one fits the first two, but not the last.
    assert_eq!(
        take(&mut receiver, one[2].shreds().next().unwrap(), ShredSource::Turbine),
        Err(ShredRefusal::BrokenSet)
    );
    assert_eq!(receiver.findings(), [Finding::Torn(9)]);
    assert_eq!(take(&mut receiver, one[0].shreds().next().unwrap(), ShredSource::Turbine), Err(ShredRefusal::Dumped));
    let ends: Vec<bool> = other.iter().rev().map(|set| fill(&mut receiver, set).unwrap().ends).collect();
    assert_eq!(ends, [false, false, false, true]);
}

#[test]
fn rebuilt_block_gives_way_to_the_version_of_others() {
    let [one, other] = [5, 6].map(|mark| block(9, 8, 4, mark));
    let mut receiver = receiver(4, 8);
    fill(&mut receiver, &one[0]).unwrap();
    fill(&mut receiver, &one[1]).unwrap();
    fill(&mut receiver, &other[3]).unwrap();
    let broken = take(&mut receiver, one[2].shreds().next().unwrap(), ShredSource::Repair);
    assert_eq!(broken, Err(ShredRefusal::BrokenSet));
    take(&mut receiver, other[3].shreds().next().unwrap(), ShredSource::Repair).unwrap();
    // Only sets of the block with a known set are requested.
    let asked = receiver.missing(9, 0, 0, 1_000);
    assert!(asked.shreds.iter().all(|shred| *shred >= 2 * STEP), "{asked:?}");
    assert_eq!(asked.highest_from, Some(4 * STEP));
    assert_eq!(receiver.take_lost(STANDS_NS - 1), None);
    assert_eq!(receiver.take_lost(STANDS_NS), Some(9));
    assert_eq!(receiver.missing(9, STANDS_NS, 0, 1_000), MissingShreds { shreds: vec![], highest_from: Some(0) });
    let mut answers = shreds(&one).into_iter().map(|shred| take(&mut receiver, &shred, ShredSource::Repair));
    assert!(answers.any(|taken| taken.is_ok_and(|progress| progress.ends)), "the other one is taken whole");
}

/// Makes a block in whose last set the leader has signed parity that does not match the data.
fn block_with_wrong_parity() -> Vec<FecSet> {
    let mut sets = block(9, 8, 2, 5);
    let (set, chained_root) = (&mut sets[1], *block(9, 8, 2, 5)[1].chained_root());
    set.code[7][200] ^= 1;
    set.rehash(0, &mut [[0; 32]; SHREDS_PER_SET], &chained_root);
    set.sign(&leader().sign(set.root()));
    sets
}

#[test]
fn a_set_whose_parity_is_none_of_its_data_is_taken_by_its_data() {
    let sets = block_with_wrong_parity();
    let all = shreds(&sets[1..]);
    let completed = |receiver: &Receiver| {
        let done = receiver.completed().unwrap();
        assert_eq!((done.recovered, done.set.root(), done.set.chained_root()), (0, sets[1].root(), sets[0].root()));
        assert_eq!((done.set.header(), done.parent_slot), (sets[1].header(), 8));
        // Each data shred with its proof, as received.
        assert!(done.set.shreds().take(DATA_PER_SET).eq(sets[1].shreds().take(DATA_PER_SET)));
        assert!(done.set.entry_chunks().eq(sets[1].entry_chunks()));
    };
    // All data shreds have arrived, so nothing is recovered.
    let mut receiver = self::receiver(4, 8);
    assert!(fill(&mut receiver, &sets[0]).is_some_and(|taken| !taken.ends));
    assert!(fill(&mut receiver, &sets[1]).is_some_and(|taken| taken.ends));
    completed(&receiver);
    for late in &all {
        assert_eq!(take(&mut receiver, late, ShredSource::Turbine), Err(ShredRefusal::Duplicate));
    }
    // Parity arrived first: it does not count, and the missing data shreds are requested.
    for parity in [32..33, 32..48, 39..64] {
        let mut receiver = self::receiver(4, 8);
        assert!(fill(&mut receiver, &sets[0]).is_some());
        let lacks = parity.len();
        for place in parity.clone() {
            assert!(take(&mut receiver, &all[place], ShredSource::Turbine).is_ok());
        }
        let taken: Vec<_> = (lacks..32).map(|place| take(&mut receiver, &all[place], ShredSource::Turbine)).collect();
        assert_eq!(taken.last(), Some(&Err(ShredRefusal::BrokenSet)), "{parity:?}");
        assert!(taken[..taken.len() - 1].iter().all(Result::is_ok));
        assert_eq!(take(&mut receiver, &all[63], ShredSource::Turbine), Err(ShredRefusal::BrokenSet));
        let missing = receiver.missing(9, 50, 0, 100);
        assert_eq!((missing.shreds, missing.highest_from), ((32..32 + lacks as u32).collect(), None));
        let ends = (0..lacks).map(|place| take(&mut receiver, &all[place], ShredSource::Repair).unwrap().ends);
        assert_eq!(ends.filter(|ends| *ends).count(), 1);
        completed(&receiver);
    }
}

#[test]
fn missing_shreds_are_known() {
    let sets = block(9, 8, 4, 5);
    let step = DATA_PER_SET as u32;
    let mut receiver = receiver(4, 8);
    assert_eq!(receiver.missing(9, 0, 0, 10), MissingShreds { shreds: vec![], highest_from: Some(0) });
    // 30 of the first set, none of the second, all of the third.
    for shred in sets[0].shreds().take(30).chain(sets[2].shreds().take(32)) {
        take(&mut receiver, shred, ShredSource::Turbine).unwrap();
    }
    let second = step..2 * step;
    let shreds: Vec<u32> = [30, 31].into_iter().chain(second).collect();
    assert_eq!(receiver.missing(9, 50, 0, 100), MissingShreds { shreds: shreds.clone(), highest_from: Some(3 * step) });
    assert_eq!(receiver.missing(9, 50, 0, 3).shreds, shreds[..3]);
    assert_eq!(receiver.missing(9, 50, 60, 100), MissingShreds { shreds: vec![], highest_from: None });
    // Shreds of a later set do not delay the requests for earlier sets.
    let fourth = sets[3].shreds().next().unwrap();
    receiver.take(fourth, ShredSource::Turbine, 40, |_| Some(leader().public_key()), |_| false).unwrap();
    assert_eq!(receiver.missing(9, 70, 60, 100), MissingShreds { shreds: shreds.clone(), highest_from: None });
    let last = 3 * step + 1..4 * step;
    let with_last: Vec<u32> = shreds.iter().copied().chain(last).collect();
    assert_eq!(receiver.missing(9, 100, 60, 100), MissingShreds { shreds: with_last, highest_from: Some(4 * step) });
    // Two of the first set's code shreds serve as well.
    for shred in sets[0].shreds().skip(40).take(1) {
        take(&mut receiver, shred, ShredSource::Turbine).unwrap();
    }
    assert_eq!(receiver.missing(9, 50, 0, 1).shreds, [30]);
    assert_eq!(receiver.parent(9), Some(8));
}

/// Gives the first `count` shreds of a set at a time.
fn give(receiver: &mut Receiver, set: &FecSet, count: usize, now_ns: u64) {
    for shred in set.shreds().take(count) {
        take_at(receiver, shred, ShredSource::Turbine, now_ns, leader().public_key()).unwrap();
    }
}

/// The times at which slot 9 schedules a look; each finds more missing, and no other time does.
fn looks(receiver: &Receiver) -> Vec<u64> {
    const PATIENCE_NS: u64 = 60;
    let missing = |now_ns: u64| receiver.missing(9, now_ns, PATIENCE_NS, 1_000);
    let next = |now_ns: u64| receiver.due_after(9, now_ns, PATIENCE_NS);
    let changes: Vec<u64> = (1..=200).filter(|now_ns| missing(*now_ns) != missing(*now_ns - 1)).collect();
    let looks: Vec<u64> = std::iter::successors(next(0), |now_ns| next(*now_ns)).collect();
    assert_eq!(looks, changes);
    looks
}

#[test]
fn complete_set_asks_for_no_look() {
    let sets = block(9, 8, 4, 5);
    let mut receiver = receiver(4, 8);
    give(&mut receiver, &sets[0], DATA_PER_SET, 10);
    give(&mut receiver, &sets[1], DATA_PER_SET, 20);
    assert_eq!(looks(&receiver), [80], "for the end of the slot alone");
    give(&mut receiver, &sets[3], DATA_PER_SET, 30);
    assert_eq!(looks(&receiver), [90], "none of the set before it has come");
    give(&mut receiver, &sets[2], 1, 50);
    assert_eq!(looks(&receiver), [90], "the later set still counts");
}

#[test]
fn incomplete_set_asks_for_a_look() {
    let sets = block(9, 8, 4, 5);
    let mut receiver = receiver(4, 8);
    give(&mut receiver, &sets[0], 1, 10);
    give(&mut receiver, &sets[1], DATA_PER_SET, 20);
    assert_eq!(looks(&receiver), [70, 80], "one for its shreds, one for the end of the slot");
    give(&mut receiver, &sets[3], DATA_PER_SET, 30);
    assert_eq!(looks(&receiver), [70, 90], "the end is known, and one more set is missing");
}

#[test]
fn a_set_that_was_kept_is_made_again() {
    use hearth_ledger::blockstore::FecSetRecord;
    for set in block(9, 7, 3, 5) {
        let (header, data) = (*set.header(), set.entry_chunks().collect::<Vec<_>>().concat());
        let record = FecSetRecord {
            slot: 9,
            parent_slot: 7,
            fec_set_index: header.set_index,
            reference_tick: header.reference_tick,
            last_in_slot: header.ends_slot,
            ends_batch: None,
            merkle_root: *set.root(),
            chained_root: *set.chained_root(),
            signature: *set.shreds().next().unwrap().first_chunk().unwrap(),
            data: &data,
        };
        let again = FecSet::of_record(&record, VERSION).unwrap();
        assert!(again.shreds().eq(set.shreds()));
        assert!(FecSet::of_record(&record, VERSION + 1).is_none());
        assert!(FecSet::of_record(&FecSetRecord { parent_slot: 8, ..record }, VERSION).is_none());
    }
}
