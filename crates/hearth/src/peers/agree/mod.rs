//! Agreement: the thread by which a node in a cluster executes blocks, chooses among forks, votes, and takes its turns.
//!
//! reads   the block store; votes and slots that gossip heard; what others say of ancestors; the time
//! writes  the ledger; votes, to leaders and to gossip; poh's orders; what store is told; `tower.bin` and `root.bin`
//! memory  that of the two below
//! drops   what they drop
//! source  `docs/consensus.md`
//!
//! It runs two state machines, one after the other, and does their I/O: [`Position`] owns the ledger,
//! [`Core`](hearth_pipeline::tower::Core) consensus.
//!
//! ```text
//! store ─► Position ─► Core ─► vote: tower to disk, then leaders, gossip
//!          │  ▲        ▲  └─► build on, begin, root, drop: Position
//!     poh ◄┘  └ ledger └ gossip's votes, slots
//! ```
//!
//! [`Position`]: hearth_pipeline::replay::position::Position

mod ancestors;
mod differs;
mod driver;
mod gossip_link;
mod vote;

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use hearth_cluster::board::Board;
use hearth_cluster::view::Views;
use hearth_ledger::blockstore::Reader;
use hearth_ledger::{Genesis, Ledger, RewindError};
use hearth_pipeline::bank::Recording;
use hearth_pipeline::poh::Lead;
use hearth_pipeline::store::Agreed;
use hearth_pipeline::tower::TowerError;
use hearth_tile::wake::Waker;
use hearth_wire::{Hash, Pubkey};

use super::Words;
use crate::replay::ReplayError;
pub use ancestors::Asker;
use driver::Driver;
pub use driver::counter_decls;
pub use gossip_link::GossipLink;
pub use vote::Voter;

/// How long the thread sleeps when there is nothing to do and no block comes.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Why a node can no longer be in its cluster.
#[derive(Debug, thiserror::Error)]
pub enum AgreeError {
    /// The store, or a block that was executed before.
    #[error("a block of the cluster does not execute here: {0}")]
    Replay(#[from] ReplayError),
    /// A block that was executed before.
    #[error("a block of the cluster does not execute here: {0}")]
    Again(hearth_pipeline::replay::ReplayError),
    /// The ledger cannot leave a fork.
    #[error("the ledger cannot leave a fork: {0}")]
    Rewind(#[from] RewindError),
    /// The system gives no thread.
    #[error("cannot start the thread of agreement: {0}")]
    Thread(io::Error),
    /// Two processes are one node.
    #[error(
        "another process runs with this node's identity, and began later: one identity is one node (consensus.identity_path)"
    )]
    Double,
    /// Another state.
    #[error(
        "slot {slot}: the cluster has voted for the bank hash {theirs}, and here it is {ours}: this node's state is not the cluster's. \
         {differs}. Keep the ledger folder for whoever looks into it, and begin anew in an empty one"
    )]
    Mismatch {
        /// The slot.
        slot: u64,
        /// What more than a third of the stake voted for.
        theirs: String,
        /// What came out here.
        ours: String,
        /// The first account that differs, if it can be known.
        differs: String,
    },
    /// What the cluster has executed does not execute here.
    #[error(
        "slot {slot}: the cluster has voted for this very block, and here it cannot be executed: {why}. This node's state \
         is not the cluster's, or its program does otherwise. Keep the ledger folder for whoever looks into it"
    )]
    Dead {
        /// The slot.
        slot: u64,
        /// Why it cannot be executed here.
        why: String,
    },
    /// A block came to another hash than the first time.
    #[error("slot {0} has come to another bank hash than when it was executed first: the node cannot trust its state")]
    NotTheSame(u64),
    /// A defect of this program.
    #[error("the thread of agreement has panicked, which is a defect of this program: what it said is above")]
    Panicked,
    /// The tower does not fit the chain, or the disk does not take it.
    #[error(transparent)]
    Tower(#[from] TowerError),
}

/// How the node makes blocks.
pub struct Maker {
    /// Poh's orders.
    pub lead: Arc<Lead>,
    /// Wakes poh.
    pub wake: Waker,
}

/// What the thread is made of.
pub struct Start {
    /// The node.
    pub node: Pubkey,
    /// The chain.
    pub ledger: Arc<Ledger>,
    /// How it began.
    pub genesis: Genesis,
    /// Blocks.
    pub reader: Reader,
    /// The id of the ledger's last block.
    pub block_id: Hash,
    /// What store is told.
    pub agreed: Arc<Agreed>,
    /// What it says to the tiles of single blocks.
    pub views: Arc<Views>,
    /// The way to gossip and back.
    pub gossip: GossipLink,
    /// The nodes of the cluster, as the RPC shows them.
    pub board: Arc<Board>,
    /// Where the node makes blocks.
    pub maker: Option<Maker>,
    /// Where it votes.
    pub voter: Option<Voter>,
    /// Who asks others for the ancestors of what cannot be executed here.
    pub asker: Asker,
    /// Where a history is kept: what it hashes under, and whether it has logs and calls.
    pub recording: Option<Recording>,
    /// Whether the chain begins: there is no block yet, executed or not.
    pub is_begin: bool,
    /// Where tower and root are kept.
    pub folder: PathBuf,
}

/// Agreement, running; dropping it stops it.
pub struct AgreeThread {
    stop: Arc<AtomicBool>,
    failure: Arc<Mutex<Option<AgreeError>>>,
    /// Where it counts.
    pub words: Words,
    thread: Option<JoinHandle<()>>,
}

impl AgreeThread {
    /// Goes on from the ledger's last block, which is the root.
    ///
    /// # Errors
    /// The tower cannot be read, or is of another chain; or there is no thread to be had.
    pub fn start(start: Start) -> Result<Self, AgreeError> {
        let agreed = Arc::clone(&start.agreed);
        let mut driver = Driver::new(start)?;
        Self::spawn(agreed, move |words| {
            let work = driver.turn()?;
            driver.count(words);
            Ok(work)
        })
    }

    /// Takes turns until it is stopped, or one fails.
    fn spawn(
        agreed: Arc<Agreed>,
        mut turn: impl FnMut(&Words) -> Result<bool, AgreeError> + Send + 'static,
    ) -> Result<Self, AgreeError> {
        let (stop, words) = (Arc::new(AtomicBool::new(false)), Words::default());
        let failure = Arc::new(Mutex::new(None));
        let (stopped, failed, counts) = (Arc::clone(&stop), Failed(Arc::clone(&failure)), Arc::clone(&words));
        let thread = std::thread::Builder::new().name("agree".into()).spawn(move || {
            agreed.wait_for_blocks();
            while !stopped.load(SeqCst) {
                match turn(&counts) {
                    Ok(true) => {}
                    Ok(false) => std::thread::park_timeout(LOOK_EVERY),
                    Err(why) => return failed.set(why),
                }
            }
        });
        let thread = Some(thread.map_err(AgreeError::Thread)?);
        Ok(Self { stop, failure, words, thread })
    }

    /// Why it has ended by itself, if it has.
    pub fn failure(&self) -> Option<AgreeError> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Where the thread says why it ends by itself. A panic is said too: else the node would go on, and serve for ever what
/// it had by then.
struct Failed(Arc<Mutex<Option<AgreeError>>>);

impl Failed {
    fn set(&self, why: AgreeError) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
    }
}

impl Drop for Failed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.set(AgreeError::Panicked);
        }
    }
}

impl Drop for AgreeThread {
    fn drop(&mut self) {
        self.stop.store(true, SeqCst);
        self.thread.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn ended(turn: impl FnMut(&Words) -> Result<bool, AgreeError> + Send + 'static) -> AgreeError {
        let (thread, until) =
            (AgreeThread::spawn(Arc::default(), turn).unwrap(), Instant::now() + Duration::from_secs(60));
        loop {
            if let Some(why) = thread.failure() {
                return why;
            }
            assert!(Instant::now() < until, "it has ended, and nobody says so");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_thread_that_ends_by_itself_says_why_a_panic_included() {
        assert!(matches!(ended(|_| Err(AgreeError::NotTheSame(7))), AgreeError::NotTheSame(7)));
        let mut left = 3;
        let panics = move |_: &Words| {
            left -= 1;
            assert!(left > 0, "this is what a test says");
            Ok(true)
        };
        assert!(matches!(ended(panics), AgreeError::Panicked));
    }
}
