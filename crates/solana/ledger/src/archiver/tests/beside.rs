//! Archives of a chain that continues.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::sync::mpsc::Receiver;

use hearth_wire::entry::{write_batch_header, write_entry};

use super::*;
use crate::snapshot::SnapshotError;

/// Slots between two full archives, and between two incremental ones.
const INTERVALS: (u64, u64) = (16, 4);

/// A chain beside which archives are written: of slot 4 a full one, since there is none yet.
struct RunningChain {
    rig: Rig,
    store: BlockStore,
    taker: Taker,
    events: Receiver<SnapshotEvent>,
    folder: tempfile::TempDir,
}

impl RunningChain {
    fn new(retention: Retention) -> Self {
        Self::on(Rig::new(), retention)
    }

    fn on(rig: Rig, retention: Retention) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = blockstore::Config::new(8 << 20, *rig.genesis.hash());
        let (store, _) = BlockStore::open(&folder.path().join("blocks"), config).unwrap();
        let snapshots = Folder::open(&folder.path().join("snapshots")).unwrap();
        let archives = folder.path().join("archives");
        // A node that was killed left this.
        fs::create_dir(&archives).unwrap();
        fs::write(archives.join("tmp-snapshot-archive-3.tar.zst"), "half").unwrap();
        let archives = ArchiveConfig {
            folder: archives,
            incremental_interval_slots: INTERVALS.1,
            retention,
            genesis: rig.genesis.config().clone(),
        };
        let (tell, events) = channel();
        let when = SnapshotConfig { interval_slots: INTERVALS.0, keep: 1 };
        let tell = move |event| drop(tell.send(event));
        let taker = Taker::start(&rig.ledger, when, Some(archives), snapshots, store.reader(), || {}, tell).unwrap();
        let running = Self { rig, store, taker, events, folder };
        assert_eq!(names(&running.archives()), [""; 0]);
        running
    }

    fn archives(&self) -> PathBuf {
        self.folder.path().join("archives")
    }

    /// Makes a block, and stores it.
    fn block(&mut self, slot: u64, changes: &[(u8, u64)]) {
        self.make(slot, changes);
        self.rig.ledger.mark_stored(slot);
    }

    /// Makes a block that is not confirmed yet.
    fn make(&mut self, slot: u64, changes: &[(u8, u64)]) {
        let parent_slot = self.rig.ledger.recent_blocks(1)[0].slot;
        self.rig.block_with(slot, changes);
        let (txns, mut data) = (&self.rig.blocks[&slot], vec![]);
        write_batch_header(1, &mut data);
        write_entry(1, &[slot as u8; 32], txns.len(), &txns.concat(), &mut data);
        append(&mut self.store, (parent_slot, slot), &data);
    }

    /// Blocks up to `last`, at whose end an archive is due; returns that.
    fn until(&mut self, last: u64) -> PathBuf {
        let next = self.rig.ledger.recent_blocks(1)[0].slot + 1;
        (next..=last).for_each(|slot| self.block(slot, &[]));
        self.archived(last)
    }

    /// The next archive, which is of this slot.
    fn archived(&self, slot: u64) -> PathBuf {
        loop {
            match self.events.recv_timeout(PATIENCE).expect("an archive in time") {
                SnapshotEvent::Archived { archive, .. } => {
                    assert_eq!(archive.name.slot, slot);
                    assert_eq!(fs::metadata(&archive.path).unwrap().len(), archive.bytes);
                    assert_eq!(held(&archive.path).len() as u64, archive.accounts);
                    return archive.path;
                }
                SnapshotEvent::Taken { .. } => {}
                event => panic!("{event:?}"),
            }
        }
    }

    /// The slot of the next archive, which is given up, and why.
    fn given_up(&self) -> (u64, ArchiveError) {
        match self.events.recv_timeout(PATIENCE).expect("a failure in time") {
            SnapshotEvent::ArchiveGivenUp { slot, why } => (slot, why),
            event => panic!("{event:?}"),
        }
    }

    /// Bases and slots of the archives that are there.
    fn kept(&self) -> BTreeSet<(Option<u64>, u64)> {
        let name = |name: &String| ArchiveName::parse(name).unwrap_or_else(|why| panic!("{name}: {why}"));
        names(&self.archives()).iter().map(name).map(|name| (name.base, name.slot)).collect()
    }
}

#[test]
fn full_and_incremental_ones_are_the_state() {
    let mut chain = RunningChain::new(Retention { full: 2, incremental: 4 });
    chain.block(1, &[(100, 5), (101, 5), (102, 5), (103, 5), (104, 5)]);
    let full = chain.until(4);
    assert_eq!(ArchiveName::of_path(&full).unwrap().base, None);
    assert_eq!(accounts_in(&full, None), accounts_of(&chain.rig.ledger));
    assert_eq!(started(&chain.rig, &full, None).hash_all(), chain.rig.ledger.hash_all());

    // 102 goes, 103 goes and comes back, 105 is new, 106 comes and goes.
    chain.block(5, &[(100, 6), (102, 0), (103, 0), (105, 5), (106, 5)]);
    chain.block(6, &[(106, 0)]);
    chain.block(7, &[(103, 7)]);
    let first = chain.until(8);
    assert_eq!(ArchiveName::of_path(&first).unwrap().base, Some(4));
    assert_eq!(accounts_in(&full, Some(&first)), accounts_of(&chain.rig.ledger));
    let held_by = held(&first);
    let lamports = |n: u8| held_by.get(&[n; 32]).map(|account| account.lamports);
    let expected = [Some(6), None, Some(0), Some(7), None, Some(5), Some(0)];
    assert_eq!([100, 101, 102, 103, 104, 105, 106].map(lamports), expected);
    assert!(held_by.len() < chain.rig.ledger.accounts().count() / 2, "{} accounts", held_by.len());

    // The next one has all since the full one, too, and what has become of it.
    chain.block(9, &[(101, 0), (102, 8), (105, 0)]);
    let second = chain.until(12);
    assert_eq!(accounts_in(&full, Some(&second)), accounts_of(&chain.rig.ledger));
    let held_by = held(&second);
    let lamports = |n: u8| held_by.get(&[n; 32]).map(|account| account.lamports);
    let expected = [Some(6), Some(0), Some(8), Some(7), None, Some(0), Some(0)];
    assert_eq!([100, 101, 102, 103, 104, 105, 106].map(lamports), expected);
    assert_eq!(chain.taker.snapshots().archive_counts(), (3, 0));

    // A ledger that starts from the two makes the next block with the same hash.
    let (ledger, own) = (started(&chain.rig, &full, Some(&second)), &chain.rig.ledger);
    assert_eq!(ledger.hash_all(), own.hash_all());
    for ledger in [&ledger, own] {
        ledger.begin_slot(13, 12).unwrap();
        ledger.end_slot(13, [13; 32]).unwrap();
    }
    assert_eq!(ledger.hash_all(), own.hash_all());
    let cut = chain.folder.path().join(second.file_name().unwrap());
    let bytes = fs::read(&second).unwrap();
    fs::write(&cut, &bytes[..bytes.len() / 2]).unwrap();
    let why = read_state(&full, Some(&cut), &mut ()).unwrap_err();
    assert!(matches!(why.fault, Fault::Cut), "{why}");
}

#[test]
fn beside_the_accounts_they_hold_what_those_of_a_standing_ledger_do() {
    let contents = |path: &Path| {
        let mut contents = archive::read_fields(path, &mut ()).unwrap().1;
        let fields = &mut contents.fields;
        // The id of the block is the caller's, an incremental one has fewer accounts, and these come in any order.
        fields.block_id = None;
        fields.storages = vec![];
        fields.stakes.votes.sort_by_key(|vote| vote.address);
        fields.stakes.delegations.sort_by_key(|delegation| delegation.address);
        contents
    };
    let mut chain = RunningChain::new(Retention { full: 2, incremental: 4 });
    // An epoch ends on the way.
    for slot in (4..=36).step_by(INTERVALS.1 as usize) {
        let (beside, folder) = (contents(&chain.until(slot)), tempfile::tempdir().unwrap());
        let standing = contents(&chain.rig.write(folder.path()).unwrap());
        assert!(beside.fields == standing.fields, "slot {slot}:\n{:?}\n{:?}", beside.fields, standing.fields);
        assert_eq!(beside.statuses, standing.statuses, "slot {slot}");
    }
}

#[test]
fn old_ones_go() {
    let mut chain = RunningChain::new(Retention { full: 1, incremental: 1 });
    [4, 8, 12].iter().for_each(|slot| drop(chain.until(*slot)));
    assert_eq!(chain.kept(), BTreeSet::from([(None, 4), (Some(4), 12)]));
    chain.until(16);
    assert_eq!(chain.kept(), BTreeSet::from([(None, 16)]));
    assert_eq!(chain.taker.snapshots().newest_slot(), Some(16), "our own format has it, too");
    chain.until(20);
    assert_eq!(chain.kept(), BTreeSet::from([(None, 16), (Some(16), 20)]));
    assert_eq!(chain.taker.snapshots().counts(), (1, 0));
}

#[test]
fn a_turn_that_was_missed_is_made_up_for() {
    let mut chain = RunningChain::new(Retention { full: 2, incremental: 4 });
    [4, 8].iter().for_each(|slot| drop(chain.until(*slot)));
    // The archive of slot 12 waits for its block when the turn of a full one comes.
    (9..=18).for_each(|slot| chain.make(slot, &[]));
    chain.rig.ledger.mark_stored(18);
    let late = chain.archived(12);
    assert_eq!(ArchiveName::of_path(&late).unwrap().base, Some(4));
    let full = chain.until(20);
    assert_eq!(ArchiveName::of_path(&full).unwrap().base, None);
    assert_eq!(accounts_in(&full, None), accounts_of(&chain.rig.ledger));
    assert_eq!(chain.taker.snapshots().newest_slot(), Some(20));
}

#[test]
fn a_full_disk_leaves_nothing_and_the_chain_continues() {
    let mut chain = RunningChain::new(Retention { full: 2, incremental: 4 });
    // Devices on which there is no room: for the accounts, and for the archive.
    let full = |chain: &RunningChain, name: &str| symlink("/dev/full", chain.archives().join(name)).unwrap();
    full(&chain, "tmp-snapshot-archive-4.accounts");
    (1..=4).for_each(|slot| chain.block(slot, &[]));
    let (slot, why) = chain.given_up();
    assert!(slot == 4 && matches!(&why.fault, Fault::Write(e) if e.kind() == ErrorKind::StorageFull), "{why}");
    assert_eq!(names(&chain.archives()), [""; 0]);
    chain.until(8);
    full(&chain, "tmp-snapshot-archive-12.tar.zst");
    (9..=12).for_each(|slot| chain.block(slot, &[]));
    let (slot, why) = chain.given_up();
    assert!(slot == 12 && matches!(&why.fault, Fault::Write(e) if e.kind() == ErrorKind::StorageFull), "{why}");
    assert_eq!(chain.kept(), BTreeSet::from([(None, 8)]));
    let full = chain.until(16);
    assert_eq!(accounts_in(&full, None), accounts_of(&chain.rig.ledger));
    assert_eq!(chain.taker.snapshots().archive_counts(), (2, 2));
}

#[test]
fn where_forks_are_kept_an_archive_is_of_what_stays() {
    let rig = Rig::with_forks(Some(Forks::default()));
    let mut chain = RunningChain::on(rig, Retention { full: 2, incremental: 4 });
    let root = |chain: &RunningChain, slot| {
        assert!(chain.rig.ledger.mark_stored(slot) && chain.rig.ledger.mark_rooted(slot));
        chain.archived(slot)
    };
    (1..=4).for_each(|slot| chain.make(slot, &[(100, slot)]));
    let full = root(&chain, 4);
    chain.make(5, &[(101, 5)]);
    // Blocks that are left for another fork: the archive of the last of them is, too.
    chain.make(6, &[(100, 0), (101, 0), (102, 6)]);
    chain.make(7, &[(100, 7), (103, 7)]);
    chain.make(8, &[(103, 0)]);
    chain.rig.ledger.rewind(5).unwrap();
    let event = chain.events.recv_timeout(PATIENCE).expect("it is given up");
    assert!(matches!(event, SnapshotEvent::GivenUp { slot: 8, why: SnapshotError::Undone { slot: 8 } }), "{event:?}");
    chain.make(10, &[(104, 1)]);
    let incremental = root(&chain, 10);
    assert_eq!(accounts_in(&full, Some(&incremental)), accounts_of(&chain.rig.ledger));
    assert_eq!(started(&chain.rig, &full, Some(&incremental)).hash_all(), chain.rig.ledger.hash_all());
    assert_eq!(chain.kept(), BTreeSet::from([(None, 4), (Some(4), 10)]));
    // What was left is no failure.
    assert_eq!(chain.taker.snapshots().archive_counts(), (2, 0));
}
