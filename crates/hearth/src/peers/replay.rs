//! Replay of a node that follows: every block that is whole is executed, and its hash held against its leader's vote.
//!
//! reads   the block store
//! writes  the ledger, the history
//! memory  one block
//! drops   nothing: a block that does not execute as its leader did, or to another hash, ends the node
//!
//! Every signature is checked before a block is executed. Blocks are executed in the order of their slots, each on
//! the last: a node that follows one leader has no forks.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use hearth_crypto::ed25519::{Verifier, VerifierConfig, VerifyItem};
use hearth_ledger::blockstore::{Block, Reader};
use hearth_ledger::history::History;
use hearth_ledger::tower::voted_for;
use hearth_ledger::{Genesis, Ledger};
use hearth_wire::base58::{encode_32, encode_64};
use hearth_wire::{Hash, Pubkey, Signature, Txn};

use crate::replay::{ReplayError, Replayer, entries};

/// How often it is looked for the next block.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// Transactions whose signatures are checked together.
const BURST: usize = 64;
/// Fewer are not worth a thread.
const VERIFIED_AT_LEAST: usize = 128;
/// Bytes for the tables of keys that sign again and again.
const TABLE_BYTES: usize = 16 << 20;
/// Blocks whose hashes are remembered until their leader has voted.
const HASHES_KEPT: usize = 1_024;

/// Why a node can no longer follow.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    /// A block does not execute.
    #[error("a block of the cluster does not execute here: {0}")]
    Replay(#[from] ReplayError),
    /// Two processes are one node.
    #[error(
        "another process runs with this node's identity, and began later: one identity is one node (consensus.identity_path)"
    )]
    Double,
    /// A signature in a block.
    #[error("slot {slot}: a transaction of the block has a wrong signature, {signature}")]
    Signature {
        /// The slot.
        slot: u64,
        /// The transaction's first signature.
        signature: String,
    },
    /// Another state.
    #[error(
        "slot {slot}: its leader has voted for the bank hash {theirs}, and here it is {ours}: this node's state is not the cluster's. \
         Keep the ledger folder for whoever looks into it, and begin anew in an empty one"
    )]
    Mismatch {
        /// The slot.
        slot: u64,
        /// What the leader voted for.
        theirs: String,
        /// What came out here.
        ours: String,
    },
}

/// Replay, running; dropping it stops it.
pub struct ReplayThread {
    stop: Arc<AtomicBool>,
    failure: Arc<Mutex<Option<FollowError>>>,
    thread: Option<JoinHandle<()>>,
}

impl ReplayThread {
    /// Goes on behind the last block of the ledger.
    pub fn start(
        ledger: Arc<Ledger>,
        genesis: Genesis,
        reader: Reader,
        history: Option<(History, bool)>,
    ) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let failure = Arc::new(Mutex::new(None));
        let (stopped, failed) = (Arc::clone(&stop), Arc::clone(&failure));
        let thread = std::thread::Builder::new().name("replay".into()).spawn(move || {
            let mut history = history;
            let history = history.as_mut().map(|(history, extended)| (history, *extended));
            let mut follower = Follower {
                replayer: Replayer::new(&ledger, &genesis, history),
                verifiers: verifiers(),
                hashes: BTreeMap::new(),
                reader,
            };
            while !stopped.load(SeqCst) {
                match follower.next() {
                    Ok(true) => {}
                    Ok(false) => std::thread::sleep(LOOK_EVERY),
                    Err(why) => {
                        *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
                        return;
                    }
                }
            }
        })?;
        Ok(Self { stop, failure, thread: Some(thread) })
    }

    /// Why it has ended by itself, if it has.
    pub fn failure(&self) -> Option<FollowError> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for ReplayThread {
    fn drop(&mut self) {
        self.stop.store(true, SeqCst);
        self.thread.take().map(JoinHandle::join);
    }
}

/// As many as there are cores.
fn verifiers() -> Vec<Verifier> {
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    let config = VerifierConfig { cache_bytes: TABLE_BYTES / count, ..VerifierConfig::default() };
    (0..count).map(|_| Verifier::new(config)).collect()
}

/// The first signature of a transaction one of whose signatures is wrong.
fn wrong(txns: &[Txn<'_>], verifier: &mut Verifier) -> Option<Signature> {
    let mut verdicts = vec![];
    txns.chunks(BURST).find_map(|burst| {
        let of = |txn: &Txn<'_>| -> Vec<(Pubkey, Signature)> {
            txn.signer_keys().iter().copied().zip(txn.signatures().iter().copied()).collect()
        };
        let signed: Vec<(usize, (Pubkey, Signature))> =
            burst.iter().enumerate().flat_map(|(at, txn)| of(txn).into_iter().map(move |pair| (at, pair))).collect();
        let items: Vec<VerifyItem<'_>> = signed
            .iter()
            .map(|(at, (public_key, signature))| VerifyItem { public_key, signature, message: burst[*at].message() })
            .collect();
        verifier.verify_burst(&items, &mut verdicts);
        let place = verdicts.iter().position(Result::is_err)?;
        Some(*burst[signed[place].0].first_signature())
    })
}

struct Follower<'a> {
    replayer: Replayer<'a>,
    /// One for each thread.
    verifiers: Vec<Verifier>,
    /// Of slots whose leaders' votes have not been seen.
    hashes: BTreeMap<u64, Hash>,
    reader: Reader,
}

impl Follower<'_> {
    /// Executes the next block, if it is there.
    fn next(&mut self) -> Result<bool, FollowError> {
        let ledger = self.replayer.ledger;
        let last = ledger.recent_blocks(1)[0].slot;
        let next = self.reader.slots(last + 1.., HASHES_KEPT);
        let Some(next) = next.into_iter().find(|info| info.whole && info.parent_slot == last) else { return Ok(false) };
        let Some(block) = self.reader.block(next.slot).map_err(ReplayError::from)? else { return Ok(false) };
        self.verify(&block)?;
        self.replayer.block(&block)?;
        let (slot, hash) = ledger.hash_all();
        self.hashes.insert(slot, hash);
        if self.hashes.len() > HASHES_KEPT {
            self.hashes.pop_first();
        }
        self.compare(&block)?;
        Ok(true)
    }

    /// Checks every signature of a block, on as many threads as it is worth.
    fn verify(&mut self, block: &Block) -> Result<(), FollowError> {
        let slot = block.info.slot;
        let entries = entries(&block.data).map_err(|source| ReplayError::Entries { slot, source })?;
        let txns: Vec<Txn<'_>> = entries.iter().flat_map(|entry| entry.transactions()).collect();
        let share = txns.len().div_ceil(self.verifiers.len()).max(VERIFIED_AT_LEAST);
        let parts = txns.chunks(share).zip(&mut self.verifiers);
        let wrong = std::thread::scope(|scope| {
            let threads: Vec<_> = parts.map(|(part, verifier)| scope.spawn(|| wrong(part, verifier))).collect();
            threads.into_iter().find_map(|thread| thread.join().expect("checking signatures does not panic"))
        });
        match wrong {
            Some(signature) => Err(FollowError::Signature { slot, signature: encode_64(&signature).to_string() }),
            None => Ok(()),
        }
    }

    /// Holds the votes that are in a block against what came out here.
    fn compare(&mut self, block: &Block) -> Result<(), FollowError> {
        let ledger = self.replayer.ledger;
        let entries = entries(&block.data).map_err(|source| ReplayError::Entries { slot: block.info.slot, source })?;
        let votes = entries.iter().flat_map(|entry| entry.transactions()).filter_map(|txn| voted_for(&txn));
        for (account, slot, theirs) in votes.collect::<Vec<_>>() {
            let is_leaders = ledger.leader_at(slot).is_some_and(|leader| leader.vote == account);
            let Some(ours) = self.hashes.get(&slot).filter(|_| is_leaders) else { continue };
            if *ours != theirs {
                let [theirs, ours] = [&theirs, ours].map(|hash| encode_32(hash).to_string());
                return Err(FollowError::Mismatch { slot, theirs, ours });
            }
            self.hashes.remove(&slot);
        }
        Ok(())
    }
}
