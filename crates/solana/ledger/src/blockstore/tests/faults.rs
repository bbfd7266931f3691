//! A disk that is full or fails: simulated by a volume, and a real small file system where one can be mounted.

use super::*;
use hearth_wal::faulty::FaultyVolume;
use std::sync::Arc;

/// A file system with `left` free bytes.
fn limited(left: u64) -> FaultyVolume {
    let volume = FaultyVolume::default();
    volume.0.leave(left);
    volume
}

/// With every amount of free space from none to plenty: an append that does not fit leaves nothing behind, and succeeds
/// when there is room.
#[test]
fn a_full_disk_loses_nothing_and_appending_resumes() {
    for room in (100..70_000).step_by(1571) {
        for fail_truncate in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let volume = limited(room);
            volume.0.refuse_cuts(fail_truncate);
            let (mut store, _) = BlockStore::open_on(Arc::new(volume.clone()), dir.path(), config(4)).unwrap();
            let mut refused = 0;
            for slot in 1..=4 {
                for number in 0..3 {
                    let data = data_of(slot, number, 5000);
                    let set = set_of(slot, number, number == 2, &data);
                    let mut outcome = store.append_set(&set);
                    if let Err(StoreError::NoRoom { file, .. }) = &outcome {
                        assert_eq!(*file, log_path(dir.path(), 1));
                        refused += 1;
                        if fail_truncate {
                            volume.0.leave(0);
                            assert!(matches!(store.append_set(&set), Err(StoreError::Io { .. })));
                            volume.0.refuse_cuts(false);
                        }
                        assert!(matches!(store.append_set(&set), Err(StoreError::NoRoom { .. })));
                        volume.0.leave(1 << 20);
                        outcome = store.append_set(&set);
                    }
                    assert_eq!(outcome.unwrap(), AppendResult::Stored { slot_whole: number == 2 });
                }
            }
            assert_eq!(refused, i32::from(room < 62_000), "room for {room}");
            (1..=4).for_each(|slot| expect_slot(&store.reader(), slot, 3, 5000));
            assert_eq!(store.reader().verify().unwrap(), vec![]);
            drop(store);
            let (_, found) = BlockStore::open(dir.path(), config(4)).unwrap();
            assert_eq!((found.bytes_dropped, found.last_whole_slot, found.damage), (0, Some(4), vec![]));
        }
    }
}

/// The space ends where a new segment would begin.
#[test]
fn a_segment_that_cannot_begin_is_begun_later() {
    let dir = tempfile::tempdir().unwrap();
    let volume = limited(SEGMENT_SIZE_MIN);
    let (mut store, _) = BlockStore::open_on(Arc::new(volume.clone()), dir.path(), config(4)).unwrap();
    let data = data_of(1, 0, 60_000);
    for number in 0..4 {
        store.append_set(&set_of(1, number, false, &data)).unwrap();
    }
    volume.0.leave(10);
    for _ in 0..3 {
        let refused = store.append_set(&set_of(1, 4, true, &data));
        assert!(matches!(refused, Err(StoreError::NoRoom { .. })));
    }
    assert_eq!(store.disk_bytes(), std::fs::metadata(log_path(dir.path(), 1)).unwrap().len());
    volume.0.leave(1 << 20);
    let done = store.append_set(&set_of(1, 4, true, &data)).unwrap();
    assert_eq!(done, AppendResult::Stored { slot_whole: true });
    assert_eq!(store.reader().block(1).unwrap().unwrap().data, data.repeat(5));
}

const CHILD_DIR: &str = "HEARTH_TEST_FULL_DISK_DIR";

/// Runs only in the child process: fills the file system mounted there.
#[test]
fn child_on_a_small_disk() {
    let Ok(dir) = std::env::var(CHILD_DIR) else { return };
    let ballast = Path::new(&dir).join("ballast");
    std::fs::write(&ballast, vec![1; 300_000]).unwrap();
    let (mut store, _) = BlockStore::open(&Path::new(&dir).join("blocks"), config(8)).unwrap();
    let mut refused = 0;
    for slot in 1..=40 {
        let data = data_of(slot, 0, 20_000);
        let set = set_of(slot, 0, true, &data);
        if let Err(error) = store.append_set(&set) {
            assert!(matches!(error, StoreError::NoRoom { .. }), "{error}");
            refused += 1;
            std::fs::remove_file(&ballast).unwrap();
            store.append_set(&set).unwrap();
        }
    }
    assert_eq!(refused, 1);
    (1..=40).for_each(|slot| expect_slot(&store.reader(), slot, 1, 20_000));
    drop(store);
    let (store, found) = BlockStore::open(&Path::new(&dir).join("blocks"), config(8)).unwrap();
    assert_eq!((found.last_whole_slot, found.bytes_dropped, found.damage), (Some(40), 0, vec![]));
    assert_eq!(store.reader().verify().unwrap(), vec![]);
    println!("the child is done");
}

/// A real file system of 1 MB, mounted in a namespace of the child's own. Reports that it is skipped where the system
/// does not allow such a namespace; the simulated volume above covers the same cases.
#[test]
fn a_real_small_disk_fills_up_and_continues() {
    let dir = tempfile::tempdir().unwrap();
    let unshare = |script: &str| {
        let mut command = std::process::Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]).arg(dir.path());
        command
    };
    let mount = "mount -t tmpfs -o size=1000k none \"$1\"";
    if !unshare(mount).output().is_ok_and(|o| o.status.success()) {
        eprintln!("skipped: a user may not mount a file system here");
        return;
    }
    let child = unshare(&format!(
        "{mount} && exec \"$2\" --exact blockstore::tests::faults::child_on_a_small_disk --nocapture"
    ))
    .arg(std::env::current_exe().unwrap())
    .env(CHILD_DIR, dir.path())
    .output()
    .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(said.contains("the child is done"), "{said}{}", String::from_utf8_lossy(&child.stderr));
}

#[test]
fn a_failed_sync_is_final_and_nothing_more_counts_as_durable() {
    let dir = tempfile::tempdir().unwrap();
    let volume = FaultyVolume::default();
    let (mut store, _) = BlockStore::open_on(Arc::new(volume.clone()), dir.path(), config(4)).unwrap();
    append_slot(&mut store, 1, 1, 1000).unwrap();
    wait_until("the first sync", || store.durable_slot() == Some(1));
    volume.0.refuse_syncs(true);
    let mut slot = 2;
    wait_until("the failure to be reported", || {
        slot += 1;
        let data = data_of(slot, 0, 1000);
        match store.append_set(&set_of(slot, 0, true, &data)) {
            Ok(_) => false,
            Err(StoreError::SyncFailed(why)) => why.contains("the disk is broken"),
            Err(other) => panic!("{other}"),
        }
    });
    volume.0.refuse_syncs(false);
    assert!(matches!(store.append_set(&set_of(900, 0, true, b"")), Err(StoreError::SyncFailed(_))));
    assert_eq!(store.durable_slot(), Some(1));
}
