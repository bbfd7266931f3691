//! Tests of the whole store: kills, flipped bits, full disks, a model, concurrent readers.

mod damage;
mod faults;
mod kill;
mod model;

use super::*;
use hearth_testkit::wait_until;

pub(super) const GENESIS: [u8; 32] = [42; 32];

pub(super) fn config(segments: u64) -> Config {
    Config { segment_size: SEGMENT_SIZE_MIN, ..Config::new(segments * SEGMENT_SIZE_MIN, GENESIS) }
}

/// A set whose content is derived from its position, so that a reader can verify it.
pub(super) fn set_of(slot: u64, number: u32, last: bool, data: &[u8]) -> FecSetRecord<'_> {
    FecSetRecord {
        slot,
        parent_slot: slot.saturating_sub(1),
        fec_set_index: number * 32,
        reference_tick: 9,
        last_in_slot: last,
        ends_batch: None,
        merkle_root: [number as u8; 32],
        chained_root: [slot as u8; 32],
        signature: [7; 64],
        data,
    }
}

pub(super) fn data_of(slot: u64, number: u32, len: usize) -> Vec<u8> {
    let seed = slot.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ u64::from(number);
    (0..len as u64).map(|i| (seed.wrapping_mul(i + 1) >> 32) as u8).collect()
}

/// Appends a whole slot of `sets` sets of `len` bytes each.
pub(super) fn append_slot(store: &mut BlockStore, slot: u64, sets: u32, len: usize) -> Result<(), StoreError> {
    for number in 0..sets {
        let last = number + 1 == sets;
        let data = data_of(slot, number, len);
        let done = store.append_set(&set_of(slot, number, last, &data))?;
        assert_eq!(done, AppendResult::Stored { slot_whole: last });
    }
    Ok(())
}

pub(super) fn expect_slot(reader: &Reader, slot: u64, sets: u32, len: usize) {
    let block = reader.block(slot).expect("readable").unwrap_or_else(|| panic!("slot {slot} is kept"));
    expect_block(&block, slot, sets, len);
}

fn expect_block(block: &Block, slot: u64, sets: u32, len: usize) {
    assert!(block.info.whole, "slot {slot}");
    assert_eq!(block.info.set_count, sets);
    let data: Vec<u8> = (0..sets).flat_map(|number| data_of(slot, number, len)).collect();
    assert!(block.data == data, "slot {slot} reads back as it was appended");
    assert_eq!(block.block_id, [(sets - 1) as u8; 32]);
}

#[test]
fn blocks_come_back_now_and_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, found) = BlockStore::open(dir.path(), config(8)).unwrap();
    assert_eq!((found.first_slot, found.last_whole_slot, found.bytes_dropped), (None, None, 0));
    for slot in 1..=20 {
        append_slot(&mut store, slot, 3, 5000).unwrap();
        expect_slot(&store.reader(), slot, 3, 5000);
    }
    let reader = store.reader();
    let reported = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let (ear, at) = (store.reader(), reported.clone());
    store.on_durable(move || at.store(ear.durable_slot().unwrap_or(0), std::sync::atomic::Ordering::SeqCst));
    append_slot(&mut store, 21, 3, 5000).unwrap();
    wait_until("slot 21 to be durable", || reported.load(std::sync::atomic::Ordering::SeqCst) == 21);
    assert_eq!(store.durable_slots().collect::<Vec<_>>(), (1..=21).collect::<Vec<_>>());
    assert_eq!(store.durable_slots().count(), 0);
    drop(store);
    expect_slot(&reader, 7, 3, 5000);
    let (store, found) = BlockStore::open(dir.path(), config(8)).unwrap();
    assert_eq!((found.first_slot, found.last_whole_slot), (Some(1), Some(21)));
    assert_eq!(found.bytes_scanned, 0, "closing wrote a checkpoint");
    (1..=21).for_each(|slot| expect_slot(&store.reader(), slot, 3, 5000));
    let logs = [1, 2].map(|segment| std::fs::metadata(log_path(dir.path(), segment)).unwrap().len());
    let (mut reported, logged) = (vec![], logs.iter().sum::<u64>());
    assert_eq!(store.reader().verify_telling(|bytes| reported.push(bytes)).unwrap(), vec![]);
    assert!(reported.len() > 21 * 3 && reported.is_sorted() && reported.last() == Some(&logged), "{reported:?}");
    assert_eq!(found.to_string(), "blocks from slot 1 to 21 in 2 segments");
    assert_eq!(store.durable_slot(), Some(21));
}

#[test]
fn an_unfinished_slot_continues_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = BlockStore::open(dir.path(), config(4)).unwrap();
    let data = [data_of(3, 0, 999), data_of(3, 1, 999), data_of(3, 2, 999)];
    store.append_set(&set_of(3, 2, true, &data[2])).unwrap();
    store.append_set(&set_of(3, 0, false, &data[0])).unwrap();
    assert_eq!(store.reader().block(3).unwrap().unwrap().data, data[0], "up to the first missing set");
    drop(store);
    let (mut store, found) = BlockStore::open(dir.path(), config(4)).unwrap();
    assert_eq!((found.first_slot, found.last_whole_slot), (Some(3), None));
    assert_eq!(store.append_set(&set_of(3, 0, false, &data[0])).unwrap(), AppendResult::Duplicate);
    let done = store.append_set(&set_of(3, 1, false, &data[1])).unwrap();
    assert_eq!(done, AppendResult::Stored { slot_whole: true });
    assert_eq!(store.append_set(&set_of(3, 1, false, &data[1])).unwrap(), AppendResult::Duplicate);
    let block = store.reader().block(3).unwrap().unwrap();
    assert_eq!((block.data, block.block_id), (data.concat(), [2; 32]));
}

#[test]
fn a_block_knows_where_its_batches_end() {
    use hearth_wire::entry::{write_batch_header, write_entry};
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = BlockStore::open(dir.path(), config(4)).unwrap();
    let batch = |hash: u8| {
        let mut bytes = vec![];
        write_batch_header(1, &mut bytes);
        write_entry(1, &[hash; 32], 0, &[], &mut bytes);
        bytes
    };
    let first = [&batch(1)[..], b"ignored"].concat();
    let second = batch(2);
    // The first batch is in two sets, and the last set comes first.
    let sets = [(2, true, &second[..], true), (0, false, &first[..20], false), (1, false, &first[20..], true)];
    for (number, last, data, ends) in sets {
        store.append_set(&FecSetRecord { ends_batch: Some(ends), ..set_of(3, number, last, data) }).unwrap();
    }
    let block = store.reader().block(3).unwrap().unwrap();
    assert_eq!(block.batch_ends, Some(vec![first.len() as u32, (first.len() + second.len()) as u32]));
    let hashes: Vec<u8> = block.entries().unwrap().iter().map(|entry| entry.hash[0]).collect();
    assert_eq!(hashes, [1, 2]);
    // A record of an older version does not say so.
    store.append_set(&set_of(4, 0, true, &second)).unwrap();
    let block = store.reader().block(4).unwrap().unwrap();
    assert_eq!((block.batch_ends.clone(), block.entries().unwrap().len()), (None, 1));
}

#[test]
fn chained_root_is_read_from_the_first_set() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = BlockStore::open(dir.path(), config(4)).unwrap();
    let data = [0, 1, 2].map(|number| data_of(3, number, 999));
    store.append_set(&set_of(3, 1, false, &data[1])).unwrap();
    assert_eq!(store.reader().chained_root(3).unwrap(), None, "the first set is not here");
    store.append_set(&set_of(3, 0, false, &data[0])).unwrap();
    store.append_set(&set_of(3, 2, true, &data[2])).unwrap();
    let reader = store.reader();
    assert_eq!(reader.chained_root(4).unwrap(), None, "there is no such slot");
    assert_eq!(reader.chained_root(3).unwrap(), Some([3; 32]));
    let path = log_path(dir.path(), 1);
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.windows(64).position(|part| part == &data[2][..64]).expect("the last set is in the log");
    bytes[at] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    assert!(matches!(reader.block(3), Err(StoreError::Corrupt(_))));
    assert_eq!(reader.chained_root(3).unwrap(), Some([3; 32]), "the last set was not read");
}

/// One slot is rewritten while the store runs: the dumped version does not return, and the other slots stay.
#[test]
fn a_dumped_slot_is_written_again() {
    for scanned in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let (mut store, _) = BlockStore::open(dir.path(), config(6)).unwrap();
        (1..=5).for_each(|slot| append_slot(&mut store, slot, 2, 40_000).unwrap());
        store.append_set(&set_of(6, 0, false, b"unfinished")).unwrap();
        assert!(store.dump(3).unwrap() && store.dump(6).unwrap() && !store.dump(9).unwrap());
        assert!(!store.dump(3).unwrap());
        assert!(store.reader().slot(3).is_none() && store.reader().block(3).unwrap().is_none());
        assert_eq!((store.reader().slot(6), store.reader().last_slot()), (None, Some(5)));
        // A different number of sets.
        append_slot(&mut store, 3, 3, 30_000).unwrap();
        append_slot(&mut store, 6, 1, 10).unwrap();
        append_slot(&mut store, 7, 1, 10).unwrap();
        assert!(store.dump(7).unwrap());
        store.settle_all();
        expect_slot(&store.reader(), 3, 3, 30_000);
        drop(store);
        if scanned {
            (1..=3).for_each(|segment| drop(std::fs::remove_file(index_path(dir.path(), segment))));
        }
        let (mut store, found) = BlockStore::open(dir.path(), config(6)).unwrap();
        assert_eq!((found.last_whole_slot, &found.damage), (Some(6), &vec![]), "scanned: {scanned}");
        [1, 2, 4, 5].into_iter().for_each(|slot| expect_slot(&store.reader(), slot, 2, 40_000));
        expect_slot(&store.reader(), 3, 3, 30_000);
        expect_slot(&store.reader(), 6, 1, 10);
        assert!(store.reader().slot(7).is_none());
        assert_eq!(store.reader().verify().unwrap(), vec![]);
        append_slot(&mut store, 7, 2, 100).unwrap();
        expect_slot(&store.reader(), 7, 2, 100);
    }
}

/// Slots rewritten after a restart: neither the index nor a scan may bring the old versions back.
#[test]
fn discarded_slots_are_written_again() {
    for scanned in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let (mut store, _) = BlockStore::open(dir.path(), config(6)).unwrap();
        (1..=6).for_each(|slot| append_slot(&mut store, slot, 2, 40_000).unwrap());
        store.append_set(&set_of(7, 0, false, b"unfinished")).unwrap();
        drop(store);
        let (mut store, _) = BlockStore::open(dir.path(), config(6)).unwrap();
        assert_eq!(store.discard_from(5).unwrap(), 3);
        assert_eq!(store.discard_from(5).unwrap(), 0);
        assert_eq!((store.reader().last_slot(), store.durable_slot()), (Some(4), Some(4)));
        assert!(store.reader().block(5).unwrap().is_none());
        // A different parent, and a different number of sets.
        append_slot(&mut store, 5, 3, 30_000).unwrap();
        append_slot(&mut store, 7, 1, 10).unwrap();
        assert!(store.reader().slot(6).is_none());
        drop(store);
        if scanned {
            (1..=3).for_each(|segment| drop(std::fs::remove_file(index_path(dir.path(), segment))));
        }
        let (store, found) = BlockStore::open(dir.path(), config(6)).unwrap();
        assert_eq!((found.last_whole_slot, &found.damage), (Some(7), &vec![]), "scanned: {scanned}");
        assert_eq!(found.bytes_scanned > 0, scanned);
        (1..=4).for_each(|slot| expect_slot(&store.reader(), slot, 2, 40_000));
        expect_slot(&store.reader(), 5, 3, 30_000);
        expect_slot(&store.reader(), 7, 1, 10);
        assert!(store.reader().slot(6).is_none());
        assert_eq!(store.reader().verify().unwrap(), vec![]);
    }
}

#[test]
fn sets_that_cannot_be_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = BlockStore::open(dir.path(), config(4)).unwrap();
    store.append_set(&set_of(9, 1, false, b"one")).unwrap();
    store.append_set(&set_of(9, 3, false, b"three")).unwrap();
    let long = vec![0; SET_DATA_SIZE_MAX + 1];
    let bad = [
        FecSetRecord { fec_set_index: 33, ..set_of(9, 0, false, b"") },
        FecSetRecord { fec_set_index: 65_536 * 32, ..set_of(9, 0, false, b"") },
        FecSetRecord { parent_slot: 9, ..set_of(9, 0, false, b"") },
        FecSetRecord { parent_slot: 7, ..set_of(9, 0, false, b"") },
        set_of(9, 0, false, &long),
        set_of(9, 2, true, b"the last below a higher one"),
    ];
    for set in &bad {
        assert!(matches!(store.append_set(set), Err(StoreError::BadSet { slot: 9, .. })), "{}", set.fec_set_index);
    }
    store.append_set(&set_of(9, 4, true, b"last")).unwrap();
    for number in [5, 2] {
        let beyond = store.append_set(&set_of(9, number, number == 2, b""));
        assert!(matches!(beyond, Err(StoreError::BadSet { .. })), "set {number}");
    }
    assert_eq!(store.reader().slot(9).unwrap().set_count, 3);
    assert_eq!(store.reader().verify().unwrap(), vec![]);
}

#[test]
fn nothing_is_stored_from_the_slot_on_that_switches_it_off() {
    let dir = tempfile::tempdir().unwrap();
    let off = Config { disable_from_slot: Some(3), ..config(4) };
    let (mut store, _) = BlockStore::open(dir.path(), off).unwrap();
    append_slot(&mut store, 2, 1, 100).unwrap();
    let bytes = store.disk_bytes();
    assert_eq!(store.append_set(&set_of(3, 0, true, b"x")).unwrap(), AppendResult::Disabled);
    assert_eq!((store.disk_bytes(), store.reader().last_slot()), (bytes, Some(2)));
}

#[test]
fn the_oldest_segments_go_and_the_limit_holds_at_any_time() {
    let dir = tempfile::tempdir().unwrap();
    let limit = 6 * SEGMENT_SIZE_MIN;
    let (mut store, _) = BlockStore::open(dir.path(), config(6)).unwrap();
    for slot in 1..=200 {
        append_slot(&mut store, slot, 2, 30_000).unwrap();
        let bytes = fs_bytes(dir.path());
        assert!(bytes <= limit, "{bytes} bytes at slot {slot}");
    }
    let reader = store.reader();
    wait_until("deletions", || reader.first_slot().is_some_and(|s| s > 150));
    let first = reader.first_slot().unwrap();
    assert!(reader.block(first - 1).unwrap().is_none());
    for slot in first..=200 {
        match reader.block(slot).unwrap() {
            Some(block) => expect_block(&block, slot, 2, 30_000),
            // Another segment may be dropped meanwhile, which is detected first.
            None => assert!(reader.first_slot() > Some(slot), "slot {slot} is kept"),
        }
    }
    assert!(reader.first_slot().is_some_and(|first| first < 195), "several segments are kept");
    drop(store);
    let (store, found) = BlockStore::open(dir.path(), config(6)).unwrap();
    assert_eq!((found.last_whole_slot, found.damage), (Some(200), vec![]));
    assert!(store.disk_bytes() <= limit);
    wait_until("the count of bytes to be the files'", || store.disk_bytes() == fs_bytes(dir.path()));
}

/// Bytes of logs and indexes according to the file system.
fn fs_bytes(dir: &Path) -> u64 {
    let files = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).filter(|p| !p.ends_with("lock"));
    files.filter_map(|p| std::fs::metadata(p).ok()).map(|m| m.len()).sum()
}

#[test]
fn a_slot_longer_than_the_whole_log_is_not_kept() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = BlockStore::open(dir.path(), config(3)).unwrap();
    append_slot(&mut store, 1, 40, 60_000).unwrap();
    append_slot(&mut store, 2, 1, 1000).unwrap();
    assert!(store.reader().block(1).unwrap().is_none());
    expect_slot(&store.reader(), 2, 1, 1000);
    drop(store);
    let (store, found) = BlockStore::open(dir.path(), config(3)).unwrap();
    assert_eq!(found.first_slot, Some(2));
    expect_slot(&store.reader(), 2, 1, 1000);
}

#[test]
fn one_process_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = BlockStore::open(dir.path(), config(4)).unwrap();
    let Err(second) = BlockStore::open(dir.path(), config(4)) else { panic!("opened twice") };
    let text = second.to_string();
    assert!(text.contains(&std::process::id().to_string()) && text.contains("in use"), "{text}");
    drop(store);
    BlockStore::open(dir.path(), config(4)).unwrap();
}

#[test]
fn another_chain_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    drop(BlockStore::open(dir.path(), config(4)).unwrap());
    let other = BlockStore::open(dir.path(), Config { genesis_hash: [1; 32], ..config(4) });
    assert!(matches!(other, Err(StoreError::OtherChain { .. })));
    BlockStore::clear(dir.path()).unwrap();
    let (store, found) = BlockStore::open(dir.path(), Config { genesis_hash: [1; 32], ..config(4) }).unwrap();
    assert_eq!(found.first_slot, None);
    assert!(matches!(BlockStore::clear(dir.path()), Err(StoreError::InUse { .. })));
    drop(store);
    BlockStore::clear(&dir.path().join("not there")).unwrap();
    let small = BlockStore::open(dir.path(), config(2));
    assert!(matches!(small, Err(StoreError::Limit { needed, .. }) if needed == 3 * SEGMENT_SIZE_MIN));
}

#[test]
fn each_sync_policy_reports_durable_slots() {
    for sync in [SyncPolicy::EachSlot, SyncPolicy::Every(Duration::from_millis(3)), SyncPolicy::Kernel] {
        let dir = tempfile::tempdir().unwrap();
        let (mut store, _) = BlockStore::open(dir.path(), Config { sync, ..config(4) }).unwrap();
        assert_eq!(store.durable_slot(), None);
        for slot in 0..30 {
            append_slot(&mut store, slot, 2, 8000).unwrap();
            if slot % 10 == 9 {
                wait_until("durability", || store.durable_slot() == Some(slot));
            }
        }
        assert_eq!(store.durable_slots().collect::<Vec<_>>(), (0..30).collect::<Vec<_>>(), "{sync:?}");
    }
}

#[test]
fn readers_see_whole_blocks_while_they_are_written() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = BlockStore::open(dir.path(), config(12)).unwrap();
    let reader = store.reader();
    let done = std::sync::atomic::AtomicBool::new(false);
    let read = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let (reader, done) = (reader.clone(), &done);
                scope.spawn(move || {
                    let mut read = 0;
                    while !done.load(std::sync::atomic::Ordering::SeqCst) || read == 0 {
                        for info in reader.slots(.., usize::MAX).into_iter().rev().take(8) {
                            // It can only be missing if it was dropped since it was listed.
                            let Some(block) = reader.block(info.slot).unwrap() else { continue };
                            assert!(!info.whole || block.info.whole);
                            let (sets, len) = (block.info.set_count, 20_000);
                            let data: Vec<u8> = (0..sets).flat_map(|n| data_of(info.slot, n, len)).collect();
                            assert!(block.data == data);
                            read += 1;
                        }
                        assert_eq!(reader.verify().unwrap(), vec![]);
                    }
                    read
                })
            })
            .collect();
        for slot in 1..=400 {
            append_slot(&mut store, slot, 3, 20_000).unwrap();
        }
        done.store(true, std::sync::atomic::Ordering::SeqCst);
        readers.into_iter().map(|r| r.join().unwrap()).collect::<Vec<u64>>()
    });
    assert!(read.iter().all(|n| *n > 0));
}

#[test]
fn blocks_of_the_next_start_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = BlockStore::open(dir.path(), config(5)).unwrap();
    let reader = store.reader();
    let mut slot = 0;
    let mut append = |store: &mut BlockStore| {
        let done = append_slot(store, slot + 1, 2, 20_000);
        slot += u64::from(done.is_ok());
        (slot, done)
    };
    // Wanted from the start, needed from slot 10: earlier blocks are dropped at last, the others never.
    reader.hold_after(0, 10);
    let error = loop {
        let (slot, done) = append(&mut store);
        if let Err(error) = done {
            break error;
        }
        assert!(slot < 1000, "a store of 5 segments took {} bytes", store.disk_bytes());
    };
    let StoreError::Held { needed_after: 10, limit_size } = error else { panic!("{error}") };
    assert!(store.disk_bytes() <= limit_size);
    store.settle_all();
    wait_until("the oldest to be dropped", || reader.first_slot() > Some(1));
    assert!(reader.slot(11).is_some_and(|info| info.whole), "{:?}", reader.first_slot());
    let (last, done) = append(&mut store);
    assert!(matches!(done, Err(StoreError::Held { .. })));
    expect_slot(&reader, last, 2, 20_000);
    assert!(reader.bytes_after(10) > reader.bytes_after(11) && reader.bytes_after(last) < 21_000);
    // With a snapshot, appending continues, and so does dropping.
    reader.hold_after(last - 2, last);
    for _ in 0..50 {
        append(&mut store).1.unwrap();
        let newest = reader.last_slot().unwrap_or(0);
        reader.hold_after(newest - 3, newest - 1);
    }
    assert!(reader.first_slot() > Some(11));
    // Nothing is held: the limit alone decides.
    reader.hold_after(u64::MAX, u64::MAX);
    (0..50).for_each(|_| append(&mut store).1.unwrap());
}
