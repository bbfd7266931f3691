//! Compares the store with a model, which is a map, over random appends, reopenings and kills.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
enum Step {
    /// Appends set `number` of the slot at `slot` above the highest begun one minus 3: near enough that no slot is
    /// dropped by age while it still grows.
    Append {
        slot: u64,
        number: u32,
        last: bool,
        len: usize,
    },
    Reopen,
    /// Reopens a copy of the files in their current state, as after a kill, with some bytes truncated.
    Kill {
        cut: u64,
    },
}

/// Maximum size of a segment's index file: a checkpoint per reopening, and an entry for each slot changed since.
const INDEX_SIZE_MAX: u64 = 8 << 10;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let append = (0..6u64, 0..4u32, any::<bool>(), 0..12_000usize).prop_map(|(slot, number, last, len)| Step::Append {
        slot,
        number,
        last,
        len,
    });
    let step = prop_oneof![24 => append, 1 => Just(Step::Reopen), 1 => (0..200u64).prop_map(|cut| Step::Kill { cut })];
    proptest::collection::vec(step, 1..400)
}

/// The expected contents: per slot its sets, and whether each may have been lost.
#[derive(Default)]
struct Model {
    slots: BTreeMap<u64, BTreeMap<u32, (bool, usize)>>,
}

impl Model {
    fn whole(&self, slot: u64) -> bool {
        let Some(sets) = self.slots.get(&slot) else { return false };
        sets.iter().any(|(number, (last, _))| *last && sets.len() as u32 == number + 1)
    }

    /// The expected result of an append.
    fn expected(&self, slot: u64, number: u32, last: bool) -> Option<bool> {
        let Some(sets) = self.slots.get(&slot) else { return Some(true) };
        if sets.contains_key(&number) || self.whole(slot) {
            return Some(false);
        }
        let known_last = sets.iter().find(|(_, (last, _))| *last).map(|(n, _)| *n);
        let highest = sets.keys().max().copied().unwrap_or(0);
        let contradicts = known_last.is_some_and(|l| number > l || last) || (last && number < highest);
        (!contradicts).then_some(true)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, max_shrink_iters: 2000, ..ProptestConfig::default() })]

    #[test]
    fn the_store_is_the_model(steps in steps()) {
        let mut dir = tempfile::tempdir().unwrap();
        let mut model = Model::default();
        let mut base = 3u64;
        let mut store = BlockStore::open(dir.path(), config(5)).unwrap().0;
        for (nth, step) in steps.into_iter().enumerate() {
            let quiet = matches!(step, Step::Append { .. }) && nth % 16 != 0;
            match step {
                Step::Append { slot, number, last, len } => {
                    let slot = base - 3 + slot;
                    base = base.max(slot);
                    let data = data_of(slot, number, len);
                    let outcome = store.append_set(&set_of(slot, number, last, &data));
                    match model.expected(slot, number, last) {
                        None => prop_assert!(matches!(outcome, Err(StoreError::BadSet { .. })), "slot {}", slot),
                        Some(false) => prop_assert_eq!(outcome.unwrap(), AppendResult::Duplicate),
                        Some(true) => {
                            model.slots.entry(slot).or_default().insert(number, (last, len));
                            let slot_whole = model.whole(slot);
                            prop_assert_eq!(outcome.unwrap(), AppendResult::Stored { slot_whole });
                        }
                    }
                }
                Step::Reopen => {
                    drop(store);
                    let (opened, found) = BlockStore::open(dir.path(), config(5)).unwrap();
                    prop_assert_eq!((found.bytes_dropped, found.damage), (0, vec![]));
                    store = opened;
                }
                Step::Kill { cut } => {
                    // A kill may bring back a segment whose deletion had begun, which the model does not cover.
                    store.settle_all();
                    let copy = tempfile::tempdir().unwrap();
                    copy_torn(dir.path(), copy.path(), cut);
                    drop(store);
                    let (opened, found) = BlockStore::open(copy.path(), config(5)).unwrap();
                    prop_assert_eq!(found.damage, vec![]);
                    store = opened;
                    dir = copy;
                    forget_lost(&mut model, &store.reader());
                }
            }
            if !quiet {
                check(&mut model, &mut store)?;
            }
        }
        check(&mut model, &mut store)?;
        prop_assert_eq!(store.reader().verify().unwrap(), vec![]);
        prop_assert!(store.disk_bytes() <= 5 * SEGMENT_SIZE_MIN);
    }
}

/// Drops from the model what the store has dropped by age; everything else must read back.
fn check(model: &mut Model, store: &mut BlockStore) -> Result<(), TestCaseError> {
    store.settle_all();
    let reader = store.reader();
    let kept: Vec<u64> = reader.slots(.., usize::MAX).iter().map(|s| s.slot).collect();
    // The oldest segments are dropped while there are more than three, each with its index file.
    let disk_bytes = store.disk_bytes();
    let may_have_dropped = disk_bytes + INDEX_SIZE_MAX > 2 * SEGMENT_SIZE_MIN;
    let all = kept.len() == model.slots.len();
    prop_assert!(all || may_have_dropped, "sets were dropped below the limit: {disk_bytes} bytes are left");
    model.slots.retain(|slot, _| kept.binary_search(slot).is_ok());
    for slot in &kept {
        let sets = &model.slots[slot];
        let Some(block) = reader.block(*slot).unwrap() else { continue };
        prop_assert_eq!(block.info.set_count as usize, sets.len());
        prop_assert_eq!(block.info.whole, model.whole(*slot));
        let ordered = sets.iter().zip(0..).take_while(|((n, _), at)| *n == at);
        let data: Vec<u8> = ordered.flat_map(|((n, (_, len)), _)| data_of(*slot, *n, *len)).collect();
        prop_assert!(block.data == data, "slot {}", slot);
    }
    Ok(())
}

/// Copies the files in their current state, the last segment without its last `cut` bytes and without its index, which
/// would name data that was durable.
fn copy_torn(from: &Path, to: &Path, cut: u64) {
    let mut logs = vec![];
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        // The keeper may delete an old segment between listing and copying.
        if std::fs::copy(&path, to.join(path.file_name().unwrap())).is_ok()
            && path.extension().is_some_and(|e| e == "log")
        {
            logs.push(to.join(path.file_name().unwrap()));
        }
    }
    let last = logs.iter().max().unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(last).unwrap();
    file.set_len(file.metadata().unwrap().len().saturating_sub(cut)).unwrap();
    let _ = std::fs::remove_file(last.with_extension("index"));
}

/// A kill may lose the newest sets and nothing else; the model continues from what is left.
fn forget_lost(model: &mut Model, reader: &Reader) {
    let slots = std::mem::take(&mut model.slots);
    for (slot, sets) in slots {
        let mut left = BTreeMap::new();
        let there = reader.sets(slot, |set| {
            left.insert(set.fec_set_index / 32, sets[&(set.fec_set_index / 32)]);
        });
        if there.unwrap() {
            model.slots.insert(slot, left);
        }
    }
}
