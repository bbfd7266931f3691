//! The ledger: the set, its log, and the index of what has happened.
//!
//! reads   blocks' transactions, and the EVM's logs of the prism contract
//! writes  `utxo.log`, one record a block that changed something ([`log`]); the set lies in memory and is made anew
//!         from the log at a start
//! memory  the set ([`set`]), and about 100 bytes for each transaction and each block with one
//! drops   –
//! source  –
//!
//! One commit for both ledgers: a block's record is written first, and counts only if the chain then writes its block.
//! A start takes the chain's word for where its head is and cuts off records beyond it ([`Ledger::open`]); that
//! nothing is missing before it, the commitment in the head's header tells. So a process may be killed between the
//! two writes.

mod log;
mod session;
pub(crate) mod set;
#[cfg(test)]
mod tests;

pub use log::Record;
pub use session::{BLOCK_BYTES, Session};
pub use set::Totals;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use alloy_primitives::B256;

use crate::address::OwnerKey;
use crate::asset::{Asset, AssetId};
use crate::output::{OutPoint, Output};
use crate::prism::Incoming;
use crate::rules::prism_out_point;
use crate::tx::{self, SharedTx};
use log::Log;
use set::Set;

/// Why the ledger does not open, or does not commit.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// The disk.
    #[error("{0}: {1}")]
    Io(PathBuf, #[source] std::io::Error),
    /// The log is damaged.
    #[error("{path} at byte {offset}: {what}; remove the data directory to begin anew, or restore it")]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// The log ends before the chain does.
    #[error(
        "{path} at byte {offset}: records are missing that the chain's blocks are built on; remove the data \
        directory to begin anew, or restore it"
    )]
    Behind {
        /// The file.
        path: PathBuf,
        /// Where it ends, or what is there is no record any more.
        offset: u64,
    },
    /// The block was worked out over another state.
    #[error("the block was executed over a state of the UTXO ledger that is no longer its newest")]
    Stale,
}

/// What a chain says of itself when the ledger opens.
pub struct Head<'a> {
    /// The number of its last block.
    pub number: u64,
    /// The hash of its block of a number, as far back as it knows.
    pub hash_of: &'a dyn Fn(u64) -> Option<B256>,
    /// The commitment in the last block's header; `None` where it has none.
    pub commitment: Option<B256>,
}

/// Where to find what has happened.
struct Place {
    number: u64,
    offset: u64,
}

pub(crate) struct State {
    pub(crate) set: Set,
    log: Log,
    /// Blocks with a record, in order.
    blocks: Vec<Place>,
    /// By a transaction's id: which of `blocks`, and which transaction of it. What came from the EVM is counted after
    /// the transactions.
    index: HashMap<B256, (u32, u32)>,
    /// Counts changes, so that a block over an older state is known.
    version: u64,
}

struct Shared {
    chain_id: u64,
    state: RwLock<State>,
    /// Up to which [`State::version`] everything is on disk.
    synced: AtomicU64,
}

/// The ledger of one chain. A clone is the same one.
#[derive(Clone)]
pub struct Ledger(Arc<Shared>);

/// What became of a transaction that is in a block.
#[derive(Clone, Debug)]
pub struct Landed {
    /// In which block.
    pub number: u64,
    /// That block's hash.
    pub hash: B256,
    /// Which of the block's here, from 0.
    pub index: u32,
    /// The transaction.
    pub what: What,
}

/// A transaction of this ledger, or a call of the contract.
#[derive(Clone, Debug)]
pub enum What {
    /// One of this ledger.
    Transaction(SharedTx),
    /// An output that came from the EVM.
    Incoming(Incoming, OutPoint),
}

impl Ledger {
    /// The ledger in `dir`, or one in memory, as it was after the chain's last block.
    pub fn open(dir: Option<&Path>, chain_id: u64, head: &Head<'_>) -> Result<Self, LedgerError> {
        let log = Log::open(dir, chain_id)?;
        let state = State { set: Set::default(), log, blocks: Vec::new(), index: HashMap::new(), version: 0 };
        let ledger = Self(Arc::new(Shared { chain_id, state: RwLock::new(state), synced: AtomicU64::new(0) }));
        ledger.replay(head.number)?;
        ledger.check(head)?;
        Ok(ledger)
    }

    /// The chain's id.
    pub fn chain_id(&self) -> u64 {
        self.0.chain_id
    }

    /// A block in work, over the newest state.
    pub fn begin(&self) -> Session {
        let state = self.read();
        Session::over(self.clone(), state.version, &state.set)
    }

    /// Takes a block over: writes its record, then changes the set. To be called before the chain commits its block.
    pub fn commit(&self, number: u64, hash: B256, session: Session) -> Result<(), LedgerError> {
        let mut state = self.write();
        if state.version != session.version {
            return Err(LedgerError::Stale);
        }
        if session.is_empty() {
            return Ok(());
        }
        let record = Record {
            number,
            hash,
            header: session.header,
            after: set::commitment(&session.sum, &session.totals),
            txs: session.txs.iter().map(|tx| tx.raw.clone()).collect(),
            incoming: session.incoming.clone(),
        };
        let offset = state.log.append(&record)?;
        state.take(self.0.chain_id, offset, number, session);
        Ok(())
    }

    /// Takes back all blocks after `number`. The set is made anew from the log, unless none of them changed anything.
    pub fn rewind(&self, number: u64) -> Result<(), LedgerError> {
        if self.read().blocks.last().is_some_and(|last| last.number > number) {
            self.replay(number)?;
        }
        Ok(())
    }

    /// Puts what was committed before the call on the disk for good. The ledger goes on meanwhile.
    pub fn sync(&self) -> Result<(), LedgerError> {
        let (syncer, version) = {
            let state = self.read();
            (state.log.syncer(), state.version)
        };
        if self.0.synced.load(Ordering::Acquire) < version {
            syncer()?;
            self.0.synced.fetch_max(version, Ordering::AcqRel);
        }
        Ok(())
    }

    /// Makes the set from the log's records of blocks up to `number`, and cuts off those after it.
    fn replay(&self, number: u64) -> Result<(), LedgerError> {
        let mut state = self.write();
        state.set = Set::default();
        state.blocks.clear();
        state.index.clear();
        state.version += 1;
        state.log.restart();
        while let Some((offset, record)) = state.log.next()? {
            if record.number > number {
                state.log.truncate(offset)?;
                break;
            }
            let wrong = |what| state.log.corrupt(offset, what);
            if state.blocks.last().is_some_and(|last| last.number >= record.number) {
                return Err(wrong("a record is not after the one before"));
            }
            let txs = record.txs.iter().map(|raw| tx::decode(raw, self.0.chain_id).map(tx::Unverified::trusted));
            let Ok(txs) = txs.collect::<Result<Vec<_>, _>>() else {
                return Err(wrong("a transaction does not decode"));
            };
            let mut session = Session::over(self.clone(), state.version, &state.set);
            if session.apply_over(&state.set, &txs).iter().any(Result::is_err) {
                return Err(wrong("a transaction is not right"));
            }
            session.receive(record.number, &record.incoming);
            if (session.header, set::commitment(&session.sum, &session.totals)) != (record.header, record.after) {
                return Err(wrong("a block's commitment is not that of its transactions"));
            }
            state.take(self.0.chain_id, offset, record.number, session);
        }
        Ok(())
    }

    /// Whether the last record is of the chain whose head is given, and none is missing.
    fn check(&self, head: &Head<'_>) -> Result<(), LedgerError> {
        let state = self.read();
        let Some(last) = state.blocks.last() else {
            let wanted = head.commitment.filter(|root| !root.is_zero() && head.number > 0);
            return match wanted {
                Some(root) if root != state.set.commitment() => Err(state.log.behind()),
                _ => Ok(()),
            };
        };
        let record = state.log.read(last.offset)?;
        if (head.hash_of)(last.number).is_some_and(|hash| hash != record.hash) {
            return Err(state.log.corrupt(last.offset, "the record is of a block of another chain"));
        }
        let expected = if last.number == head.number { record.header } else { record.after };
        if head.commitment.is_some_and(|root| root != expected) {
            return Err(match last.number == head.number {
                true => state.log.corrupt(last.offset, "the record is not that of the chain's newest block"),
                false => state.log.behind(),
            });
        }
        Ok(())
    }

    /// Refuses a log without a record of that block, which did something here: no header before the next block's says so.
    pub fn require(&self, number: u64) -> Result<(), LedgerError> {
        let state = self.read();
        let there = state.blocks.binary_search_by_key(&number, |place| place.number).is_ok();
        if there { Ok(()) } else { Err(state.log.behind()) }
    }

    /// The unspent output of that name.
    pub fn output(&self, at: &OutPoint) -> Option<Output> {
        self.read().set.output(at).cloned()
    }

    /// At most `limit` outputs of an owner, in the order of their names, those after `after`.
    pub fn outputs_of(&self, owner: &OwnerKey, after: Option<OutPoint>, limit: usize) -> Vec<(OutPoint, Output)> {
        use std::ops::Bound::{Excluded, Unbounded};
        let state = self.read();
        let from = after.map_or(Unbounded, Excluded);
        let Some(all) = state.set.of_owner(owner) else { return Vec::new() };
        let found = all.range((from, Unbounded)).take(limit);
        found.map(|at| (*at, state.set.output(at).expect("an owner's list holds outputs").clone())).collect()
    }

    /// What an owner has, by asset, in units; and in how many outputs.
    pub fn balances(&self, owner: &OwnerKey) -> BTreeMap<AssetId, (u128, usize)> {
        let state = self.read();
        let mut balances = BTreeMap::<AssetId, (u128, usize)>::new();
        for at in state.set.of_owner(owner).into_iter().flatten() {
            let output = state.set.output(at).expect("an owner's list holds outputs");
            let balance = balances.entry(output.asset).or_default();
            *balance = (balance.0 + u128::from(output.amount), balance.1 + 1);
        }
        balances
    }

    /// What is known of an issued asset.
    pub fn asset(&self, id: &AssetId) -> Option<Asset> {
        self.read().set.asset(id).cloned()
    }

    /// What has happened to the native asset.
    pub fn totals(&self) -> Totals {
        self.read().set.totals
    }

    /// What stands for the set as it is.
    pub fn commitment(&self) -> B256 {
        self.read().set.commitment()
    }

    /// The transaction with this id, if it is in a block; the id of what came from the EVM is that of its output.
    pub fn transaction(&self, id: &B256) -> Result<Option<Landed>, LedgerError> {
        let state = self.read();
        let Some((block, index)) = state.index.get(id).copied() else { return Ok(None) };
        let place = &state.blocks[block as usize];
        let record = state.log.read(place.offset)?;
        let at = index as usize;
        let what = match record.txs.get(at) {
            Some(raw) => match tx::decode(raw, self.0.chain_id) {
                Ok(tx) => What::Transaction(tx.trusted()),
                Err(_) => return Err(state.log.corrupt(place.offset, "a transaction does not decode")),
            },
            None => {
                let one = record.incoming[at - record.txs.len()].clone();
                let at = prism_out_point(self.0.chain_id, record.number, &one.transaction, one.log);
                What::Incoming(one, at)
            }
        };
        Ok(Some(Landed { number: record.number, hash: record.hash, index, what }))
    }

    /// The number of the block that holds the transaction with this id.
    pub fn landed_in(&self, id: &B256) -> Option<u64> {
        let state = self.read();
        state.index.get(id).map(|(block, _)| state.blocks[*block as usize].number)
    }

    /// What the block of that number did here; `None` where it did nothing.
    pub fn record(&self, number: u64) -> Result<Option<Record>, LedgerError> {
        let state = self.read();
        match state.blocks.binary_search_by_key(&number, |place| place.number) {
            Ok(at) => state.log.read(state.blocks[at].offset).map(Some),
            Err(_) => Ok(None),
        }
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, State> {
        // A writer that panicked has found its own books wrong, and the process ends with it.
        self.0.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.0.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Takes over a block whose record is at `offset`.
    fn take(&mut self, chain_id: u64, offset: u64, number: u64, session: Session) {
        let block = u32::try_from(self.blocks.len()).expect("fewer than 2^32 blocks have a record");
        let came = session.incoming.iter().map(|one| prism_out_point(chain_id, number, &one.transaction, one.log));
        let ids = session.txs.iter().map(|tx| tx.id).chain(came.map(|at| at.transaction));
        for (at, id) in ids.enumerate() {
            // Two logs of one transaction have one id; the first is found by it.
            self.index.entry(id).or_insert((block, u32::try_from(at).expect("a block's are fewer")));
        }
        self.blocks.push(Place { number, offset });
        self.set.absorb(session.overlay, session.sum, session.totals);
        self.version += 1;
    }
}
