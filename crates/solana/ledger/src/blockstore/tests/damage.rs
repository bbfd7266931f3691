//! Every kind of damage at every kind of place: the store reports whatever it has lost.

use super::*;
use crate::blockstore::record::SEGMENT_HEAD_SIZE;
use hearth_testkit::damage::{Mutation, copy_folder};
use std::path::PathBuf;

const SLOTS: u64 = 40;
const SIZE: usize = 30_000;

/// A closed store of several segments.
fn closed() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = BlockStore::open(dir.path(), config(64)).unwrap();
    (1..=SLOTS).for_each(|slot| append_slot(&mut store, slot, 1, SIZE).unwrap());
    drop(store);
    dir
}

fn last_log(dir: &Path) -> PathBuf {
    let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|extension| extension == "log")).max().unwrap()
}

fn refusal(dir: &Path) -> Damage {
    match BlockStore::open(dir, config(64)).err() {
        Some(StoreError::Corrupt(damage)) => damage,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_durable_end_that_is_gone_is_refused() {
    let dir = closed();
    let log = last_log(dir.path());
    let length = std::fs::metadata(&log).unwrap().len();
    for left in [length - 1, length - 40_000, 100, SEGMENT_HEAD_SIZE as u64 - 1, 0] {
        Mutation::Cut { length: left }.apply(&log).unwrap();
        let damage = refusal(dir.path());
        assert_eq!((&damage.file, damage.offset, damage.what), (&log, left, Finding::Cut));
        assert!(damage.to_string().contains("on stable storage"), "{damage}");
        assert_eq!(std::fs::metadata(&log).unwrap().len(), left, "nothing is changed");
    }
    std::fs::remove_file(&log).unwrap();
    assert_eq!(refusal(dir.path()).what, Finding::MissingSegment);
    // Without syncs the index may have outlived the log.
    let unsynced = Config { sync: SyncPolicy::Kernel, ..config(64) };
    assert!(BlockStore::open(dir.path(), unsynced).is_ok());
}

#[test]
fn an_older_segment_that_is_cut_is_damaged() {
    let dir = closed();
    let log = log_path(dir.path(), 1);
    Mutation::Cut { length: 100_000 }.apply(&log).unwrap();
    for _ in 0..2 {
        let (store, found) = BlockStore::open(dir.path(), config(64)).unwrap();
        assert_eq!((found.last_whole_slot, found.damage.len()), (Some(SLOTS), 1));
        assert_eq!(
            (&found.damage[0].file, found.damage[0].offset, found.damage[0].what),
            (&log, 100_000, Finding::Cut)
        );
        expect_slot(&store.reader(), 1, 1, SIZE);
        expect_slot(&store.reader(), SLOTS, 1, SIZE);
        assert!(matches!(store.reader().block(5), Err(StoreError::Corrupt(damage)) if damage.file == log));
    }
}

#[test]
fn no_damage_is_silent() {
    let dir = closed();
    let head = SEGMENT_HEAD_SIZE as u64;
    let last = last_log(dir.path());
    for file in [log_path(dir.path(), 1), index_path(dir.path(), 1), last.clone(), last.with_extension("index")] {
        let length = std::fs::metadata(&file).unwrap().len();
        for mutation in Mutation::around(&[0, 16, head, head + 24, length / 2, length - 2], length) {
            let copied = tempfile::tempdir().unwrap();
            copy_folder(dir.path(), copied.path()).unwrap();
            let name = file.file_name().unwrap().to_str().unwrap();
            if mutation.apply(&copied.path().join(name)).unwrap() {
                survives(copied.path(), name, mutation);
            }
        }
    }
}

fn survives(dir: &Path, name: &str, mutation: Mutation) {
    let (store, found) = match BlockStore::open(dir, config(64)) {
        Err(why) => return assert!(why.to_string().contains(name), "{name}: {mutation}: {why}"),
        Ok(opened) => opened,
    };
    let damage = store.reader().verify().unwrap();
    let is_said = found.to_string().contains(name);
    for slot in 1..=SLOTS {
        match store.reader().block(slot) {
            Ok(Some(block)) if block.info.whole => expect_block(&block, slot, 1, SIZE),
            Ok(_) => assert!(is_said, "{name}: {mutation}: slot {slot} is gone: {found}"),
            Err(why) => {
                assert!(why.to_string().contains(name), "{name}: {mutation}: {why}");
                let is_found = is_said || damage.iter().any(|damage| damage.to_string().contains(name));
                assert!(is_found, "{name}: {mutation}: not found by a check");
            }
        }
    }
}
