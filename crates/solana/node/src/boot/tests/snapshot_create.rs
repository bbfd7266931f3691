//! `hearth ledger snapshot create` on chains with and without forks.

use hearth_command::output::CommandOutput;
use hearth_ledger::archive::{ArchiveName, State, read_state};

use super::*;
use crate::ledger_command::{Command, SnapshotCommand, run};

/// Makes an archive of the configured chain in `out`.
fn create(config: &Config, slot: Option<u64>, out: &Path) -> Result<(), String> {
    create_on(config, slot, None, out)
}

/// An incremental one, if it has a base.
fn create_on(config: &Config, slot: Option<u64>, base: Option<PathBuf>, out: &Path) -> Result<(), String> {
    let create = SnapshotCommand::Create { chain: Default::default(), slot, base, out: Some(out.to_owned()) };
    run(&Command::Snapshot(create), config, &CommandOutput::nothing()).map_err(|why| why.to_string())
}

/// Reads the archive of this slot in `out`.
fn archive(out: &Path, slot: u64) -> State {
    let mut paths = std::fs::read_dir(out).unwrap().map(|entry| entry.unwrap().path());
    let of_slot = |path: &PathBuf| ArchiveName::of_path(path).unwrap().slot == slot;
    read_state(&paths.find(of_slot).expect("an archive of the slot"), None, &mut ()).unwrap()
}

#[test]
fn an_archive_is_of_a_final_block() {
    let (folder, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut config = config(true);
    config.ledger.path = folder.path().to_owned();
    chain(&config, folder.path(), &[(1, 0), (2, 1), (3, 1), (4, 3)]);
    let why = create(&config, None, out.path()).unwrap_err();
    assert!(why.contains("no leader's block"), "none is final: {why}");
    save_root(folder.path(), BankId { slot: 3, hash: [3; 32] }).unwrap();
    for slot in [2, 4, 5] {
        let why = create(&config, Some(slot), out.path()).unwrap_err();
        assert!(why.contains("no final block; the newest one is of slot 3"), "{slot}: {why}");
    }
    assert_eq!(std::fs::read_dir(out.path()).unwrap().count(), 0);
    create(&config, None, out.path()).unwrap();
    create(&config, Some(1), out.path()).unwrap();
    for (slot, parent, blocks) in [(3, 1, vec![0, 1, 3]), (1, 0, vec![0, 1])] {
        let contents = archive(out.path(), slot).contents;
        assert_eq!((contents.fields.slot, contents.fields.parent_slot), (slot, parent));
        let statuses: Vec<u64> = contents.statuses.iter().map(|of| of.slot).collect();
        assert_eq!(statuses, blocks);
        // In these blocks the id is the last hash.
        assert_eq!(contents.fields.block_id, contents.fields.blockhashes.last);
    }
    let why = create(&config, None, out.path()).unwrap_err();
    assert!(why.contains("cannot be written"), "it is there: {why}");
    assert_eq!(std::fs::read_dir(out.path()).unwrap().count(), 2);
}

#[test]
fn a_clusters_folder_is_known_without_its_configuration() {
    let (folder, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut config = config(false);
    config.ledger.path = folder.path().to_owned();
    chain(&config, folder.path(), &[(1, 0), (2, 1), (3, 2)]);
    let node = identity(&config, folder.path()).unwrap().public;
    save_tower(folder.path(), &Tower::new(BankId { slot: 1, hash: [1; 32] }).save(&node)).unwrap();
    create(&config, None, out.path()).unwrap();
    assert_eq!(archive(out.path(), 1).contents.fields.slot, 1, "the tower's root");
    save_root(folder.path(), BankId { slot: 2, hash: [2; 32] }).unwrap();
    create(&config, None, out.path()).unwrap();
    assert_eq!(archive(out.path(), 2).contents.fields.slot, 2);
    create(&config, Some(3), out.path()).unwrap();
    assert_eq!(archive(out.path(), 3).contents.fields.slot, 3, "the operator has named it");
}

#[test]
fn an_archive_of_a_chain_without_forks_is_of_its_end() {
    let (folder, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut config = config(false);
    config.ledger.path = folder.path().to_owned();
    chain(&config, folder.path(), &[(1, 0), (2, 1), (5, 2)]);
    create(&config, None, out.path()).unwrap();
    assert_eq!(archive(out.path(), 5).contents.fields.parent_slot, 2);
    for slot in [0, 3, 6] {
        let why = create(&config, Some(slot), out.path()).unwrap_err();
        assert!(why.contains("no leader's block of that slot") && why.contains("is of slot 5"), "{slot}: {why}");
    }
    config.development.bench.disable_status_cache = true;
    create(&config, Some(2), out.path()).unwrap();
    assert_eq!(archive(out.path(), 2).contents.fields.slot, 2, "blocks without transactions need no statuses");
}

#[test]
fn an_archive_follows_an_archive() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(false);
    config.ledger.path = folder.path().to_owned();
    chain(&config, folder.path(), &[(1, 0), (2, 1), (5, 2)]);
    let out = folder.path().join("snapshots");
    std::fs::create_dir_all(&out).unwrap();
    create(&config, Some(2), &out).unwrap();
    // It continues from the first one, which has the blocks before it as statuses alone.
    create(&config, None, &out).unwrap();
    let contents = archive(&out, 5).contents;
    assert_eq!(contents.statuses.iter().map(|of| of.slot).collect::<Vec<_>>(), [0, 1, 2, 5]);
}

#[test]
fn an_incremental_archive_is_of_what_changed() {
    let (folder, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut config = config(false);
    config.ledger.path = folder.path().to_owned();
    chain(&config, folder.path(), &[(1, 0), (2, 1), (5, 2)]);
    create(&config, Some(2), out.path()).unwrap();
    let only = |folder: &Path| std::fs::read_dir(folder).unwrap().next().expect("a file").unwrap().path();
    let full = only(out.path());
    let newer = tempfile::tempdir().unwrap();
    create_on(&config, None, Some(full.clone()), newer.path()).unwrap();
    let incremental = only(newer.path());
    let name = ArchiveName::of_path(&incremental).unwrap();
    assert_eq!((name.base, name.slot), (Some(2), 5));
    let state = read_state(&full, Some(&incremental), &mut ()).unwrap();
    create(&config, None, out.path()).unwrap();
    let whole = archive(out.path(), 5);
    assert_eq!(
        (name.hash, state.contents.fields.hash),
        (whole.contents.fields.lattice.checksum(), whole.contents.fields.hash)
    );
    assert_eq!(state.contents.accounts, whole.contents.accounts);
    assert_eq!(state.contents.statuses, whole.contents.statuses);
    // A base that is not earlier, and one that is incremental.
    for (slot, base, what) in [(2, &full, "not of an earlier slot"), (5, &incremental, "where a full one is needed")] {
        let why = create_on(&config, Some(slot), Some(base.clone()), newer.path()).unwrap_err();
        assert!(why.contains(what), "{why}");
    }
    assert_eq!(std::fs::read_dir(newer.path()).unwrap().count(), 1);
}
