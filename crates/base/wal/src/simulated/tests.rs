//! Unit tests of the simulated disk: the result of each kind of crash, and of each fault.

use super::*;
use crate::mount::mount;
use crate::store_file::{OpenMode, StoreFile, put as put_file};

fn disk() -> (tempfile::TempDir, SimulatedDisk) {
    let dir = tempfile::tempdir().expect("a folder");
    let disk = SimulatedDisk::new(dir.path(), Files::new()).expect("laid out");
    (dir, disk)
}

fn files(all: &[(&str, &[u8])]) -> Files {
    all.iter().map(|(name, bytes)| (PathBuf::from(name), bytes.to_vec())).collect()
}

/// Always the same number, as far as it is allowed.
fn always(number: u64) -> impl FnMut(u64) -> u64 {
    move |bound| number.min(bound - 1)
}

#[test]
fn kill_keeps_what_was_written() {
    let (dir, disk) = disk();
    let _mount = mount(dir.path(), Arc::new(disk.clone()));
    let file = StoreFile::open(&dir.path().join("log"), OpenMode::New).expect("made");
    file.write_at(b"abcd", 0).expect("written");
    file.write_at(b"efgh", 4).expect("written");
    put_file(&dir.path().join("part"), &dir.path().join("whole"), b"x").expect("put");
    let trace = disk.trace();
    let shown: Vec<String> = trace.steps.iter().map(Step::to_string).collect();
    assert_eq!(shown[..3], ["create log as file 0", "write 4 bytes of file 0 at 0", "write 4 bytes of file 0 at 4"]);
    assert_eq!(shown[5..], ["sync file 1", "rename part to whole", "sync folder "]);
    assert_eq!(trace.after_kill(0, false), Files::new());
    assert_eq!(trace.after_kill(2, false), files(&[("log", b"abcd")]));
    assert_eq!(trace.after_kill(2, true), files(&[("log", b"abcdef")]));
    assert_eq!(trace.after_kill(6, false), files(&[("log", b"abcdefgh"), ("part", b"x")]));
    assert_eq!(trace.after_kill(8, false), files(&[("log", b"abcdefgh"), ("whole", b"x")]));
    assert_eq!(fs::read(dir.path().join("log")).expect("a file"), b"abcdefgh", "it is there to be read");
}

#[test]
fn power_loss_keeps_what_was_synced() {
    let (dir, disk) = disk();
    let _mount = mount(dir.path(), Arc::new(disk.clone()));
    let file = StoreFile::open(&dir.path().join("log"), OpenMode::New).expect("made");
    file.write_at(b"abcd", 0).expect("written");
    file.sync().expect("synced");
    assert_eq!(disk.trace().after_power_loss(3, &mut always(0)), Files::new(), "its name is not synced");
    crate::files::sync_dir(dir.path()).expect("synced");
    file.write_at(&[7; 1_000], 4).expect("written");
    let trace = disk.trace();
    assert_eq!(trace.after_power_loss(5, &mut always(0)), files(&[("log", b"abcd")]));
    let whole = trace.after_power_loss(5, &mut always(1));
    assert_eq!(whole[Path::new("log")].len(), 1_004);
    // Mode 2; no whole write, and the first of the next one's two sectors.
    let torn = trace.after_power_loss(5, &mut |bound| if bound == 4 { 2 } else { u64::from(bound == 3) });
    assert_eq!(torn[Path::new("log")].len(), 512);
    let mut turn = 0;
    let holed = trace.after_power_loss(5, &mut |bound| {
        turn += 1;
        // Mode 3; the first sector is lost and the second is not.
        if bound == 4 { 3 } else { u64::from(bound == 2 && turn == 3) }
    });
    let bytes = &holed[Path::new("log")];
    assert_eq!(bytes.len(), 1_004);
    assert_eq!(bytes[..4], *b"abcd");
    assert!(bytes[4..512].iter().all(|byte| *byte == 0) && bytes[512..].iter().all(|byte| *byte == 7));
}

#[test]
fn removed_file_comes_back_until_the_folder_is_synced() {
    let dir = tempfile::tempdir().expect("a folder");
    let disk = SimulatedDisk::new(dir.path(), files(&[("old", b"1")])).expect("laid out");
    let _mount = mount(dir.path(), Arc::new(disk.clone()));
    crate::store_file::remove(&dir.path().join("old")).expect("removed");
    assert_eq!(disk.trace().after_power_loss(1, &mut always(0)), files(&[("old", b"1")]));
    assert_eq!(disk.trace().after_power_loss(1, &mut always(1)), Files::new());
    crate::files::sync_dir(dir.path()).expect("synced");
    assert_eq!(disk.trace().after_power_loss(2, &mut always(0)), Files::new());
}

#[test]
fn failed_sync_loses_what_it_should_have_brought() {
    let (dir, disk) = disk();
    let _mount = mount(dir.path(), Arc::new(disk.clone()));
    let file = StoreFile::open(&dir.path().join("log"), OpenMode::New).expect("made");
    crate::files::sync_dir(dir.path()).expect("synced");
    disk.plan(DiskFault { step: 0, kind: FaultKind::Sync });
    file.write_at(b"ab", 0).expect("written");
    assert!(file.sync().is_err() && disk.has_failed());
    file.write_at(b"cd", 2).expect("written");
    file.sync().expect("the fault happens once");
    let left = disk.trace().after_power_loss(disk.steps(), &mut always(0));
    assert_eq!(left, files(&[("log", b"\0\0cd")]));
}

#[test]
fn full_disk_takes_half_a_write_and_then_nothing() {
    let (dir, disk) = disk();
    let _mount = mount(dir.path(), Arc::new(disk.clone()));
    let file = StoreFile::open(&dir.path().join("log"), OpenMode::New).expect("made");
    disk.plan(DiskFault { step: 1, kind: FaultKind::Full });
    assert_eq!(file.write_at(b"abcd", 0).expect_err("no room").kind(), io::ErrorKind::StorageFull);
    assert!(StoreFile::open(&dir.path().join("other"), OpenMode::Any).is_err());
    disk.heal();
    file.write_at(b"efgh", 2).expect("there is room");
    assert_eq!(disk.trace().after_kill(disk.steps(), false), files(&[("log", b"abefgh")]));
    disk.plan(DiskFault { step: 0, kind: FaultKind::Write });
    assert!(file.write_at(b"ijkl", 6).is_err());
    file.write_at(b"m", 6).expect("the fault happens once");
    assert_eq!(disk.trace().after_kill(disk.steps(), false), files(&[("log", b"abefghmj")]));
}
