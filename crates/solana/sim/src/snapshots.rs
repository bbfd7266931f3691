//! Snapshots: a node takes them while it runs, and starts from the newest. One that was down long gets another node's.
//!
//! reads   a node's ledger and blocks; the files of a peer
//! writes  files of snapshots
//! memory  the snapshot in progress
//! drops   a snapshot whose block is undone
//!
//! A real node has a snapshot thread; here the seed draws the instant of each step. So the accounts are written some
//! time after the cut, when later slots have changed them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hearth_ledger::Ledger;
use hearth_ledger::blockstore::Reader;
use hearth_ledger::snapshot::{Folder, SnapshotConfig, SnapshotError, SnapshotFile};
use hearth_ledger::snapshot_taker::SteppedTaker;

use crate::network::MS;

/// A snapshot is taken at each multiple of this many slots, unless one is in progress. It takes 32 slots until the
/// block of a snapshot is rooted.
pub const INTERVAL_SLOTS: u64 = 16;
/// Snapshots that a node keeps.
const KEEP: usize = 2;
/// Maximum time from the cut until the accounts are written, ms.
const WRITTEN_WITHIN_MS: u64 = 400;
/// How often to look whether the block is permanent, nanoseconds.
const LOOK_EVERY_NS: u64 = 100 * MS;

/// The folder of a node's snapshots, in that of its chain.
pub fn folder(chain: &Path) -> PathBuf {
    chain.join("snapshots")
}

/// The newest snapshot of a node whose chain is in this folder.
pub fn newest(chain: &Path) -> Option<SnapshotFile> {
    Folder::existing(&folder(chain))?.files().ok()?.into_iter().next()
}

/// Copies a snapshot into the folder of a node that is down.
///
/// # Errors
/// The file cannot be copied.
pub fn copy(file: &SnapshotFile, chain: &Path) -> io::Result<()> {
    let to = folder(chain);
    std::fs::create_dir_all(&to)?;
    let name = file.path.file_name().expect("a snapshot has a name");
    std::fs::copy(&file.path, to.join(name)).map(|_| ())
}

/// Takes the snapshots of a running node.
pub struct SnapshotTaker {
    taker: SteppedTaker,
    random: fastrand::Rng,
    /// When there is something to do, nanoseconds since the run began.
    due: Option<u64>,
    done: Vec<Result<SnapshotFile, SnapshotError>>,
}

impl SnapshotTaker {
    /// Begins to take snapshots of a ledger in the folder of its chain; `seed` draws when.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn new(ledger: &Arc<Ledger>, chain: &Path, blocks: Reader, seed: u64) -> Result<Self, SnapshotError> {
        let config = SnapshotConfig { interval_slots: INTERVAL_SLOTS, keep: KEEP };
        let taker = SteppedTaker::new(ledger, config, Folder::open(&folder(chain))?, blocks)?;
        Ok(Self { taker, random: fastrand::Rng::with_seed(seed), due: None, done: vec![] })
    }

    /// Does what is due by now.
    pub fn step(&mut self, now: u64) {
        if !self.taker.has_work() {
            return;
        }
        let due = match self.due {
            Some(due) => due,
            None => now + self.random.u64(0..=WRITTEN_WITHIN_MS) * MS,
        };
        self.due = Some(due);
        if due > now {
            return;
        }
        self.due = match self.taker.step() {
            Some(result) => {
                self.done.push(result);
                None
            }
            None => Some(now + LOOK_EVERY_NS),
        };
    }

    /// The snapshots that were completed or abandoned since the last call.
    pub fn take_done(&mut self) -> Vec<Result<SnapshotFile, SnapshotError>> {
        std::mem::take(&mut self.done)
    }
}
