//! Incremental archives of a ledger that does not change meanwhile.

use super::*;

/// A full archive of slot 9, in which accounts 100 to 104 are, and the chain at slot 12.
fn rig(folder: &Path) -> (Rig, PathBuf) {
    let mut rig = Rig::new();
    (1..=8).for_each(|slot| rig.block(slot));
    rig.block_with(9, &[(100, 5), (101, 5), (102, 5), (103, 5), (104, 5)]);
    let full = rig.write(folder).unwrap();
    // 101 is rewritten unchanged, 102 deleted, 103 deleted and created again, 105 created, 106 created and deleted.
    rig.block_with(10, &[(100, 6), (101, 5), (102, 0), (103, 0), (105, 5), (106, 5)]);
    rig.block_with(11, &[(103, 7), (106, 0)]);
    rig.block(12);
    (rig, full)
}

fn write(rig: &Rig, full: &Path, folder: &Path) -> Result<PathBuf, ArchiveError> {
    let facts = ChainFacts::of(&rig.ledger, &rig.genesis, rig.statuses(), [9; 32]);
    let changes = Changes::since(full, &rig.ledger, &mut |_, _| {})?;
    write_incremental(&rig.ledger, &facts, folder, &changes, |_| {})
}

#[test]
fn incremental_and_full_archive_make_the_state() {
    let folder = tempfile::tempdir().unwrap();
    let (rig, full) = rig(folder.path());
    let path = write(&rig, &full, folder.path()).unwrap();
    let name = ArchiveName::of_path(&path).unwrap();
    assert_eq!((name.base, name.slot, name.hash), (Some(9), 12, rig.ledger.lattice().checksum()));
    assert_eq!(accounts_in(&full, Some(&path)), accounts_of(&rig.ledger));
    let held = held(&path);
    let lamports = |n: u8| held.get(&[n; 32]).map(|account| account.lamports);
    let expected = [Some(6), None, Some(0), Some(7), None, Some(5), None];
    assert_eq!([100, 101, 102, 103, 104, 105, 106].map(lamports), expected);
    assert!(held.len() < rig.ledger.accounts().count() / 2, "{} accounts", held.len());
    let again = started(&rig, &full, Some(&path));
    assert_eq!(again.hash_all(), rig.ledger.hash_all());
    // An existing archive is not replaced.
    let why = write(&rig, &full, folder.path()).unwrap_err();
    assert!(matches!(&why.fault, Fault::Write(e) if e.kind() == ErrorKind::AlreadyExists), "{why}");
}

#[test]
fn earlier_full_archive_of_the_chain_is_required() {
    let folder = tempfile::tempdir().unwrap();
    let (mut rig, full) = rig(folder.path());
    let fails = |rig: &Rig, full: &Path, what: &str| {
        let why = write(rig, full, folder.path()).unwrap_err().to_string();
        assert!(why.contains(what), "{why}\ndoes not say: {what}");
    };
    let same_slot = rig.write(folder.path()).unwrap();
    fails(&rig, &same_slot, "not of an earlier slot");
    let incremental = write(&rig, &full, folder.path()).unwrap();
    rig.block(13);
    fails(&rig, &incremental, "where a full one is needed");
    let mut other = Rig::new();
    (1..=9).for_each(|slot| other.block_with(slot, &[(100, slot)]));
    let elsewhere = tempfile::tempdir().unwrap();
    let of_other = other.write(elsewhere.path()).unwrap();
    fails(&rig, &of_other, "of another chain");
    let bytes = fs::read(&full).unwrap();
    let cut = elsewhere.path().join(full.file_name().unwrap());
    fs::write(&cut, &bytes[..bytes.len() / 2]).unwrap();
    fails(&rig, &cut, "cut off");
    assert_eq!(names(folder.path()).len(), 3);
}
