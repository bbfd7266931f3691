//! Kill -9 in the middle of appends, and the files that power failures leave.

use super::*;
use crate::blockstore::record::{SEGMENT_HEAD_SIZE, set_record_size};
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};

const CHILD_DIR: &str = "HEARTH_TEST_BLOCKSTORE_DIR";
const CHILD_FROM: &str = "HEARTH_TEST_BLOCKSTORE_FROM";
const SETS: u32 = 4;
const LEN: usize = 7000;

/// Runs only in the child process: appends slots forever and prints those reported durable.
#[test]
fn child_that_is_killed() {
    let Ok(dir) = std::env::var(CHILD_DIR) else { return };
    let from: u64 = std::env::var(CHILD_FROM).unwrap().parse().unwrap();
    let (mut store, _) = BlockStore::open(Path::new(&dir), config(4096)).unwrap();
    let mut out = std::io::stdout();
    for slot in from.. {
        // A slow disk must not let the log run into its limit.
        wait_until("the disk", || slot < store.durable_slot().unwrap_or(0).max(from) + 500);
        append_slot(&mut store, slot, SETS, LEN).unwrap();
        for durable in store.durable_slots() {
            writeln!(out, "durable {durable}").unwrap();
        }
    }
}

#[test]
fn every_slot_reported_durable_survives_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let (mut from, mut unfinished) = (1, vec![]);
    for round in 0..6u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "blockstore::tests::kill::child_that_is_killed", "--nocapture"])
            .env(CHILD_DIR, dir.path())
            .env(CHILD_FROM, from.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let durable_in = |line: String| line.strip_prefix("durable ").and_then(|n| n.parse::<u64>().ok());
        let mut durable = vec![];
        while (durable.len() as u64) < 20 + 37 * round {
            durable.extend(durable_in(lines.next().expect("the child runs until it is killed").unwrap()));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        durable.extend(lines.map_while(Result::ok).filter_map(durable_in));
        let (store, found) = BlockStore::open(dir.path(), config(4096)).unwrap();
        let reader = store.reader();
        assert_eq!(found.damage, vec![], "only the tail can be torn");
        assert_eq!(found.torn.is_some(), found.bytes_dropped > 0);
        let last = found.last_whole_slot.unwrap();
        assert!(*durable.last().unwrap() <= last);
        let whole = (1..=last).filter(|slot| !unfinished.contains(slot));
        whole.for_each(|slot| expect_slot(&reader, slot, SETS, LEN));
        assert_eq!(reader.verify().unwrap(), vec![]);
        // At most one slot was being written; the next child starts after it.
        from = reader.last_slot().unwrap() + 1;
        unfinished.extend(last + 1..from);
        assert!(unfinished.len() as u64 <= round + 1);
    }
}

/// Truncates the log at every relevant length within its last records: the store must open, report what it dropped, and
/// continue.
#[test]
fn a_tail_torn_anywhere_is_cut_off() {
    let whole = tempfile::tempdir().unwrap();
    let (mut store, _) = BlockStore::open(whole.path(), config(4)).unwrap();
    append_slot(&mut store, 1, 2, 500).unwrap();
    append_slot(&mut store, 2, 2, 500).unwrap();
    drop(store);
    let bytes = std::fs::read(log_path(whole.path(), 1)).unwrap();
    let slot_size = 2 * set_record_size(500) + 80;
    assert_eq!(bytes.len(), SEGMENT_HEAD_SIZE + 2 * slot_size);
    for cut in (0..bytes.len()).step_by(3).chain([bytes.len()]) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(log_path(dir.path(), 1), &bytes[..cut]).unwrap();
        let (mut store, found) = BlockStore::open(dir.path(), config(4)).unwrap();
        let kept = cut.saturating_sub(SEGMENT_HEAD_SIZE);
        // A truncated closing record is rewritten if all the sets are stored.
        let sets_of_slots = [2 * set_record_size(500), slot_size + 2 * set_record_size(500)];
        let slots_kept = sets_of_slots.iter().filter(|s| kept >= **s).count() as u64;
        let on_record = [0, slot_size, 2 * slot_size, set_record_size(500), 2 * set_record_size(500)]
            .into_iter()
            .chain([slot_size + set_record_size(500), slot_size + 2 * set_record_size(500)])
            .any(|n| kept == n && cut >= SEGMENT_HEAD_SIZE);
        assert_eq!(found.bytes_dropped == 0, on_record || cut == 0, "cut at {cut}: {found}");
        assert_eq!(found.damage, vec![], "cut at {cut}");
        let next = store.reader().last_slot().unwrap_or(0) + 1;
        (1..=slots_kept).for_each(|slot| expect_slot(&store.reader(), slot, 2, 500));
        append_slot(&mut store, next, 3, 100).unwrap();
        drop(store);
        let (store, found) = BlockStore::open(dir.path(), config(4)).unwrap();
        assert_eq!((found.last_whole_slot, found.bytes_dropped), (Some(next), 0), "cut at {cut}");
        expect_slot(&store.reader(), next, 3, 100);
        assert_eq!(store.reader().verify().unwrap(), vec![]);
    }
}

#[test]
fn a_hole_before_good_records_loses_only_what_lay_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = BlockStore::open(dir.path(), config(4)).unwrap();
    (1..=9).for_each(|slot| append_slot(&mut store, slot, 1, 4000).unwrap());
    drop(store);
    std::fs::remove_file(index_path(dir.path(), 1)).unwrap();
    let record = set_record_size(4000) + 80;
    let fifth = (SEGMENT_HEAD_SIZE + 4 * record) as u64;
    let log = OpenOptions::new().write(true).open(log_path(dir.path(), 1)).unwrap();
    log.write_all_at(&vec![0; set_record_size(4000)], fifth).unwrap();
    let (store, found) = BlockStore::open(dir.path(), config(4)).unwrap();
    assert_eq!((found.bytes_dropped, found.last_whole_slot), (0, Some(9)));
    assert_eq!(found.damage[0].offset, fifth);
    assert_eq!(found.damage[0].length, set_record_size(4000) as u64);
    assert!(matches!(found.damage[1].what, Finding::MissingSets { slot: 5, found: 0, written: 1 }));
    let left: Vec<u64> = store.reader().slots(.., 99).iter().filter(|s| s.whole).map(|s| s.slot).collect();
    assert_eq!(left, vec![1, 2, 3, 4, 6, 7, 8, 9]);
    left.into_iter().for_each(|slot| expect_slot(&store.reader(), slot, 1, 4000));
}

#[test]
fn lost_and_torn_index_files_only_cost_time() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = BlockStore::open(dir.path(), config(64)).unwrap();
    (1..=100).for_each(|slot| append_slot(&mut store, slot, 2, 20_000).unwrap());
    drop(store);
    std::fs::remove_file(index_path(dir.path(), 2)).unwrap();
    let third = index_path(dir.path(), 3);
    let cut = std::fs::metadata(&third).unwrap().len() - 1;
    OpenOptions::new().write(true).open(&third).unwrap().set_len(cut).unwrap();
    std::fs::write(index_path(dir.path(), 999), b"of a segment that is gone").unwrap();
    let (store, found) = BlockStore::open(dir.path(), config(64)).unwrap();
    assert_eq!((found.last_whole_slot, found.damage.len(), found.bytes_dropped), (Some(100), 0, 0));
    assert!(found.bytes_scanned > SEGMENT_SIZE_MIN && found.bytes_scanned < 3 * SEGMENT_SIZE_MIN);
    (1..=100).for_each(|slot| expect_slot(&store.reader(), slot, 2, 20_000));
    assert!(!index_path(dir.path(), 999).exists());
}

#[test]
fn flipped_bits_are_found_and_named() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = BlockStore::open(dir.path(), config(64)).unwrap();
    (1..=40).for_each(|slot| append_slot(&mut store, slot, 1, 30_000).unwrap());
    let reader = store.reader();
    let record = (set_record_size(30_000) + 80) as u64;
    // In slot 3: its data, its slot number, its magic number, its length, its checksum.
    for within in [16 + 160 + 9000, 16, 0, 8, 12] {
        let at = SEGMENT_HEAD_SIZE as u64 + 2 * record + within;
        let log = OpenOptions::new().read(true).write(true).open(log_path(dir.path(), 1)).unwrap();
        let flip = || {
            let mut byte = [0];
            log.read_exact_at(&mut byte, at).unwrap();
            log.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
        };
        flip();
        let damage = reader.verify().unwrap();
        assert_eq!(damage.len(), 1, "{damage:?}");
        assert_eq!((damage[0].offset, &damage[0].file), (at - within, &log_path(dir.path(), 1)));
        assert!(damage[0].to_string().contains("0000000001.log at byte"), "{}", damage[0]);
        assert!(matches!(reader.block(3), Err(StoreError::Corrupt(_))), "flip at {within}");
        expect_slot(&reader, 2, 1, 30_000);
        expect_slot(&reader, 4, 1, 30_000);
        flip();
        expect_slot(&reader, 3, 1, 30_000);
    }
}
