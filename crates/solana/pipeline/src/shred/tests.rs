//! Shredding and deshredding against each other; `vectors` has the cluster's own shreds.

use super::*;
use hearth_wire::entry::{ENTRY_HEADER_SIZE, write_entry};
use hearth_wire::shred::{DATA_PER_SET, SHREDS_PER_SET, SHREDS_PER_SLOT_MAX, Shred};
use proptest::prelude::*;
use proptest::sample::subsequence;

mod vectors;

const SIGNATURE: [u8; 64] = [0x5e; 64];

/// Makes an entry of `len` bytes; the bytes after its header stand for transactions.
fn entry(seed: u64, len: usize) -> Vec<u8> {
    let rest: Vec<u8> = (0..len - ENTRY_HEADER_SIZE).map(|i| (seed as usize * 131 + i * i) as u8).collect();
    let mut bytes = Vec::new();
    write_entry(seed, &[seed as u8; 32], 3, &rest, &mut bytes);
    bytes
}

/// Makes all signed sets of a slot from `batches` of entries.
fn shred_slot(shredder: &mut Shredder, slot: u64, parent: u64, batches: &[Vec<Vec<u8>>]) -> Vec<FecSet> {
    let mut sets = Vec::new();
    let mut drain = |shredder: &mut Shredder| {
        let mut set = FecSet::new();
        while shredder.next_set(&mut set) {
            set.sign(&SIGNATURE);
            sets.push(set.clone());
        }
    };
    shredder.begin_slot(slot, parent).unwrap();
    for (i, batch) in batches.iter().enumerate() {
        for entry in batch {
            if shredder.push(entry, i as u8) == Err(ShredderError::BatchFull) {
                shredder.end_batch(false);
                drain(shredder);
                shredder.push(entry, i as u8).unwrap();
            }
        }
        shredder.end_batch(i + 1 == batches.len());
        drain(shredder);
    }
    sets
}

/// Concatenates the entries of a slot, without the counts of batches.
fn without_counts(batches: &[Vec<u8>]) -> Vec<u8> {
    batches.iter().flat_map(|b| b[8..].iter().copied()).collect()
}

fn config(batch_sets: usize) -> ShredderConfig {
    ShredderConfig { version: 7, batch_sets, ..ShredderConfig::default() }
}

#[test]
fn sets_are_chained_across_slots() {
    let mut shredder = Shredder::new(config(1), [9; 32]);
    let batches = [vec![entry(1, 40_000)], vec![entry(2, 100)]];
    let mut sets = shred_slot(&mut shredder, 5, 3, &batches);
    sets.extend(shred_slot(&mut shredder, 6, 5, &batches));
    let mut before = [9; 32];
    for (i, set) in sets.iter().enumerate() {
        assert_eq!(set.chained_root(), &before);
        assert_eq!(set.header().set_index as usize, i % 3 * DATA_PER_SET);
        assert_eq!((set.header().ends_slot, set.header().resigned), (i % 3 == 2, i % 3 == 2));
        before = *set.root();
    }
    assert_eq!((sets.len(), shredder.chained_root()), (6, &before));
}

#[test]
fn a_slot_ends_in_a_resigned_set_with_no_signature_yet() {
    let sets = shred_slot(&mut Shredder::new(config(1), [0; 32]), 1, 0, &[vec![entry(1, 300)]]);
    assert_eq!(sets.len(), 1);
    for bytes in sets[0].shreds() {
        let shred = Shred::parse(bytes).unwrap();
        assert_eq!(shred.retransmitter_signature(), Some([0; 64]));
        assert_eq!(shred.check_set(SHREDS_PER_SLOT_MAX), Ok(()));
        assert_eq!(merkle_root(&shred).as_ref(), Some(sets[0].root()));
        assert_eq!(shred.signature(), SIGNATURE);
    }
    let last = Shred::parse(sets[0].shreds().nth(31).unwrap()).unwrap();
    assert!(last.ends_slot() && last.ends_batch());
}

#[test]
fn a_slot_may_end_without_entries() {
    let sets = shred_slot(&mut Shredder::new(config(1), [0; 32]), 1, 0, &[vec![]]);
    assert_eq!((sets.len(), sets[0].entry_len(), sets[0].header().ends_slot), (1, 0, true));
}

#[test]
fn shred_out_of_order_is_refused() {
    let mut shredder = Shredder::new(ShredderConfig { shreds_per_slot_max: 64, ..config(4) }, [0; 32]);
    assert_eq!(shredder.push(&entry(1, 100), 0), Err(ShredderError::NoSlot));
    for (slot, parent) in [(3, 3), (3, 4), (70_000, 1)] {
        assert_eq!(shredder.begin_slot(slot, parent), Err(ShredderError::Parent { slot, parent }));
    }
    shredder.begin_slot(3, 2).unwrap();
    assert_eq!(shredder.begin_slot(4, 3), Err(ShredderError::Unfinished));
    assert_eq!(shredder.push(&entry(1, 60_000), 0), Err(ShredderError::SlotFull));
    shredder.push(&entry(1, 50_000), 0).unwrap();
    shredder.end_batch(true);
    assert_eq!(shredder.push(&entry(1, 100), 0), Err(ShredderError::BatchFull));
    shredder.abandon_slot([4; 32]);
    assert_eq!(shredder.begin_slot(4, 2), Ok(()));
    assert_eq!(shredder.chained_root(), &[4; 32]);
}

#[test]
fn contradictions_are_refused() {
    let mut one = Shredder::new(config(1), [0; 32]);
    let mut two = Shredder::new(config(1), [1; 32]);
    let (ours, other) = ([vec![entry(1, 300)]], [vec![entry(2, 300)]]);
    let sets = [shred_slot(&mut one, 1, 0, &ours), shred_slot(&mut two, 1, 0, &other)].concat();
    let shred = |set: usize, i: usize| Shred::parse(sets[set].shreds().nth(i).unwrap()).unwrap();
    let mut deshredder = Deshredder::new(1, Some([1; 32]), SHREDS_PER_SLOT_MAX);
    assert_eq!(deshredder.add(&shred(0, 0)), Ok(AddResult::Kept));
    assert_eq!(deshredder.add(&shred(0, 0)), Ok(AddResult::Unneeded));
    assert_eq!(deshredder.add(&shred(1, 1)), Err(DeshredError::Conflict));
    for i in 1..31 {
        assert_eq!(deshredder.add(&shred(0, i)), Ok(AddResult::Kept));
    }
    assert_eq!(deshredder.add(&shred(0, 63)), Ok(AddResult::Completed));
    assert_eq!(deshredder.next_batch(), Err(DeshredError::Chain(0)));
    assert_eq!(Deshredder::new(2, None, 64).add(&shred(0, 0)), Err(DeshredError::Slot(1)));
    let limited = Deshredder::new(1, None, 16).add(&shred(0, 20)).unwrap_err();
    assert!(matches!(limited, DeshredError::Shred(_)));
}

#[test]
fn a_signed_set_that_is_no_codeword_is_refused() {
    let mut set = FecSet::new();
    let header = SetHeader { slot: 1, parent_offset: 1, ends_batch: true, ..SetHeader::default() };
    set.prepare(header, &[1; 500]);
    // The leader signs a tree over parity that does not belong to the data.
    set.code[7][200] ^= 1;
    let root = *set.rehash(0, &mut [[0; 32]; SHREDS_PER_SET], &[0; 32]);
    set.sign(&SIGNATURE);
    let mut deshredder = Deshredder::new(1, None, SHREDS_PER_SLOT_MAX);
    let mut last = Ok(AddResult::Kept);
    for bytes in set.shreds().take(DATA_PER_SET) {
        let shred = Shred::parse(bytes).unwrap();
        assert_eq!(merkle_root(&shred), Some(root));
        last = deshredder.add(&shred);
    }
    assert_eq!(last, Err(DeshredError::Recovered(0)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_half_of_each_set_gives_the_entries_back(
        lens in prop::collection::vec(prop::collection::vec(ENTRY_HEADER_SIZE..40_000, 1..6), 1..4),
        batch_sets in 1usize..4,
        keep in prop::collection::vec(subsequence((0..SHREDS_PER_SET).collect::<Vec<_>>(), DATA_PER_SET), 64),
    ) {
        let batches: Vec<Vec<Vec<u8>>> = lens
            .iter()
            .enumerate()
            .map(|(i, lens)| lens.iter().map(|&len| entry(i as u64 + 1, len)).collect())
            .collect();
        let sets = shred_slot(&mut Shredder::new(config(batch_sets), [3; 32]), 8, 7, &batches);
        let mut deshredder = Deshredder::new(8, Some([3; 32]), SHREDS_PER_SLOT_MAX);
        // The last set first: order does not matter.
        for (set, keep) in sets.iter().zip(&keep).rev() {
            for (n, &i) in keep.iter().enumerate() {
                let shred = Shred::parse(set.shreds().nth(i).unwrap()).unwrap();
                let added = if n + 1 == DATA_PER_SET { AddResult::Completed } else { AddResult::Kept };
                prop_assert_eq!(deshredder.add(&shred), Ok(added));
            }
            let recovered = deshredder.set(set.header().set_index).unwrap();
            prop_assert!(recovered.shreds().eq(set.shreds()), "all 64 shreds are as they were");
            prop_assert_eq!(recovered.header(), set.header());
        }
        let mut found = Vec::new();
        while let Some(batch) = deshredder.next_batch().unwrap() {
            found.push(batch);
        }
        prop_assert!(deshredder.ended());
        prop_assert_eq!(deshredder.last_root(), sets.last().map(|s| s.root()));
        let entries: Vec<u8> = batches.concat().concat();
        prop_assert_eq!(without_counts(&found), entries);
        let counts: u64 = found.iter().map(|b| u64::from_le_bytes(b[..8].try_into().unwrap())).sum();
        prop_assert_eq!(counts as usize, batches.concat().len());
    }
}
