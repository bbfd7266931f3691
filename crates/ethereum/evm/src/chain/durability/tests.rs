//! A disk with slow syncs, and a power failure meanwhile: finalized blocks survive.

use std::fs::File;
use std::path::{Path, PathBuf};

use alloy_primitives::{Address, U256};
use hearth_testkit::wait_until;
use hearth_wal::faulty::{Faults, Faulty};

use super::super::{BlockTime, ChainConfig};
use super::*;
use crate::genesis::Genesis;

fn open(dir: &Path) -> Chain {
    let genesis = Genesis::dev(31337, &[(Address::repeat_byte(1), U256::from(1u64 << 60))], 500_000_000);
    let (dir, block_time) = (Some(dir.to_owned()), BlockTime::Manual);
    Chain::open(ChainConfig { dir, block_time, ..ChainConfig::new(genesis) }).expect("it opens")
}

/// A chain whose blocks and state are on a disk that syncs when `faults` allows.
struct SlowChain {
    // Before the chain, which waits for its last sync.
    _release: Release,
    chain: Chain,
    dir: tempfile::TempDir,
    faults: Arc<Faults>,
    blocks: (PathBuf, Arc<Faulty>),
    state: (PathBuf, Arc<Faulty>),
}

/// Ends all waiting for the disk, also where a test fails.
struct Release(Arc<Faults>);

impl Drop for Release {
    fn drop(&mut self) {
        self.0.allow_syncs(u64::MAX);
    }
}

impl SlowChain {
    /// With a first block, which is on disk.
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let (chain, faults) = (open(dir.path()), Arc::new(Faults::default()));
        chain.mine().expect("it is made");
        wait_until("the first block is on disk", || chain.synced() == 1);
        chain.inner.syncer.lock().sync().expect("the disk works");
        faults.hold_syncs();
        let slow = |path: &str| {
            let path = PathBuf::from(path);
            let file = File::options().write(true).open(dir.path().join(&path)).expect("it is there");
            (path, Arc::new(Faulty::sharing(file, &faults)))
        };
        let (blocks, state) = (slow(&format!("blocks/{:020}.blocks", 1)), slow(&format!("state/{:020}.log", 0)));
        chain.inner.store.as_ref().expect("a folder").put_disk(blocks.1.clone());
        chain.inner.writer().expect("it goes on").put_disk(state.1.clone());
        Self { _release: Release(faults.clone()), chain, dir, faults, blocks, state }
    }

    /// Copies the folder as a power failure would leave it now: each log cut to its last completed sync.
    fn after_power_loss(&self) -> tempfile::TempDir {
        let to = tempfile::tempdir().expect("a folder");
        // The state first: it may be on disk further than the blocks, and never is on this disk.
        let covered = [&self.state, &self.blocks].map(|(path, disk)| (path.clone(), disk.covered()));
        copy_all(self.dir.path(), to.path());
        for (path, length) in covered {
            let file = File::options().write(true).open(to.path().join(path)).expect("it is there");
            file.set_len(length).expect("it is cut");
        }
        to
    }
}

fn copy_all(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).expect("a folder").map(|entry| entry.expect("listed")) {
        let to = to.join(entry.file_name());
        if entry.file_type().expect("known").is_dir() {
            std::fs::create_dir(&to).expect("made");
            copy_all(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).expect("copied");
        }
    }
}

#[test]
fn finalized_waits_for_the_disk_and_latest_does_not() {
    let slow = SlowChain::new();
    let (chain, faults) = (&slow.chain, &slow.faults);
    chain.mine_many(9, None).expect("they are made");
    assert_eq!((chain.head().number(), chain.synced(), chain.finalized().number()), (10, 1, 1));
    let woken = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let wake = woken.clone();
    let _watch = chain.watch_synced(move || wake.store(true, std::sync::atomic::Ordering::SeqCst));
    faults.allow_syncs(u64::MAX);
    wait_until("all is on disk", || chain.synced() == 10);
    assert_eq!(chain.finalized().hash, chain.head().hash);
    wait_until("those who wait are woken", || woken.load(std::sync::atomic::Ordering::SeqCst));
}

#[test]
fn every_finalized_block_survives_a_power_loss() {
    let slow = SlowChain::new();
    let (chain, faults) = (&slow.chain, &slow.faults);
    for round in 0..12 {
        chain.mine_many(1 + round % 5 * 5, None).expect("they are made");
        faults.allow_syncs(round % 3);
        // Whatever has been answered before the power is lost.
        let finalized = chain.finalized();
        let folder = slow.after_power_loss();
        let again = open(folder.path());
        let head = again.head();
        assert!(head.number() >= finalized.number(), "block {} is lost", finalized.number());
        let block = |number| chain.block(number).expect("it is there").hash;
        assert_eq!((head.hash, again.synced()), (block(head.number()), head.number()));
        assert_eq!(again.block(finalized.number()).expect("it is there").hash, finalized.hash);
        let made = chain.head().number();
        let recovery = again.recovery().expect("it was not stopped in order");
        assert_eq!((recovery.head, recovery.lost_min), (head.number(), made - head.number()), "{recovery}");
        assert!(recovery.lost_max >= recovery.lost_min && recovery.lost_max <= AHEAD_MAX, "{recovery}");
        again.mine().expect("it goes on");
        drop(again);
        assert_eq!(open(folder.path()).recovery(), None, "it was stopped in order");
    }
}

#[test]
fn no_block_is_further_ahead_of_the_disk_than_may_be_lost() {
    let slow = SlowChain::new();
    let (chain, faults) = (&slow.chain, &slow.faults);
    std::thread::scope(|scope| {
        let _release = Release(faults.clone());
        scope.spawn(|| chain.mine_many(3 * AHEAD_MAX, None).expect("they are made"));
        wait_until("it is as far ahead as it may be", || chain.head().number() == 1 + AHEAD_MAX);
        let folder = slow.after_power_loss();
        let again = open(folder.path());
        assert_eq!(again.head().number(), 1);
        let recovery = again.recovery().expect("blocks are lost");
        assert_eq!((recovery.lost_min, recovery.lost_max), (AHEAD_MAX, AHEAD_MAX));
        assert_eq!(chain.head().number(), 1 + AHEAD_MAX, "it waits for the disk");
        faults.allow_syncs(u64::MAX);
    });
    assert_eq!(chain.head().number(), 1 + 3 * AHEAD_MAX);
}

#[test]
fn a_state_further_on_disk_than_the_blocks_goes_back_to_them() {
    let slow = SlowChain::new();
    let chain = &slow.chain;
    chain.mine_many(AHEAD_MAX, None).expect("they are made");
    let folder = tempfile::tempdir().expect("a folder");
    copy_all(slow.dir.path(), folder.path());
    let (path, disk) = &slow.blocks;
    let file = File::options().write(true).open(folder.path().join(path)).expect("it is there");
    file.set_len(disk.covered()).expect("it is cut");
    // The file of the last run says nothing either.
    std::fs::remove_file(folder.path().join("blocks/status")).expect("it is there");
    let again = open(folder.path());
    let recovery = again.recovery().expect("blocks are lost");
    assert_eq!((again.head().number(), recovery.lost_min), (1, AHEAD_MAX));
}

#[test]
fn a_chain_that_goes_back_reports_nothing_lost() {
    let dir = tempfile::tempdir().expect("a folder");
    let chain = open(dir.path());
    let id = chain.snapshot();
    chain.mine_many(30, None).expect("they are made");
    assert!(chain.revert(id).expect("it goes back"));
    chain.mine_many(2, None).expect("they are made");
    assert!(chain.synced() <= 2);
    let killed = tempfile::tempdir().expect("a folder");
    copy_all(dir.path(), killed.path());
    let again = open(killed.path());
    assert_eq!(again.head().number(), 2);
    // Where the system does not say which boot it is, the machine may have stopped.
    assert!(again.recovery().is_some_and(|recovery| recovery.lost_min == 0));
}

#[test]
fn a_chain_in_memory_has_nothing_to_wait_for() {
    let genesis = Genesis::dev(31337, &[], 500_000_000);
    let chain = Chain::open(ChainConfig { block_time: BlockTime::Manual, ..ChainConfig::new(genesis) });
    let chain = chain.expect("it opens");
    chain.mine_many(3, None).expect("they are made");
    assert_eq!((chain.finalized().hash, chain.recovery()), (chain.head().hash, None));
}

#[test]
fn the_report_says_how_much_is_lost() {
    let of =
        |lost_min, lost_max, machine_stopped| Recovery { head: 7, lost_min, lost_max, machine_stopped }.to_string();
    assert_eq!(
        of(0, 0, false),
        "the node did not stop in order: the chain continues from block 7. Every block that the folder knows of is \
         there"
    );
    assert_eq!(
        of(0, 100, true),
        "the machine stopped while the node ran: the chain continues from block 7. Up to 100 newer blocks had not \
         reached the disk and may be lost; none that `finalized` named"
    );
    assert!(of(1, 100, true).contains("At least 1 newer block had not reached the disk and is lost, 100 at most;"));
    assert!(of(65, 100, true).contains("At least 65 newer blocks had not reached the disk and are lost, 100 at most;"));
    assert!(of(100, 100, true).contains("100 newer blocks had not reached the disk: lost;"));
}
