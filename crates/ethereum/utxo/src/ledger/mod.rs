//! The ledger: the set, its log, and the index of past transactions.
//!
//! reads   blocks' transactions, and the EVM's logs of the prism contract
//! writes  logs, one record per block that changed something ([`log`]); the set is in memory and is rebuilt from them
//!         at a start, or from the set after a block that is on disk and the later records ([`files`])
//! memory  the set ([`set`]), and about 100 bytes for each kept transaction and each kept block with one
//!
//! One commit covers both ledgers: a block's record is written first, and counts only if the chain then writes its
//! block. A start takes the chain's head as given and truncates records beyond it ([`Ledger::open`]); the commitment in
//! the head's header shows that no record before it is missing. So a process may be killed between the two writes.

mod capture;
mod compact;
mod dump;
mod files;
mod log;
mod session;
pub(crate) mod set;
#[cfg(test)]
mod tests;

pub use capture::{Capture, SetAnchor};
pub use dump::{Item, OutOfOrder, SetBuilder};
pub use log::Record;
pub use session::{BLOCK_BYTES, Session};
pub use set::Totals;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use alloy_primitives::B256;
use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::address::OwnerKey;
use crate::asset::{Asset, AssetId};
use crate::output::{OutPoint, Output};
use crate::prism::Incoming;
use crate::rules::prism_out_point;
use crate::tx::{self, SharedTx};
use capture::ChangesSince;
use compact::Compaction;
use files::Generation;
use log::Log;
use set::Set;

/// Why the ledger does not open, or does not commit.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// Reading or writing a file failed.
    #[error("{0}: {1}")]
    Io(PathBuf, #[source] std::io::Error),
    /// The log is damaged.
    #[error("{path} at byte {offset}: {what}; remove the data directory to start a new chain, or restore it")]
    Corrupt {
        /// Path of the file.
        path: PathBuf,
        /// Byte offset in the file.
        offset: u64,
        /// Description of the damage.
        what: &'static str,
    },
    /// The log ends before the chain does.
    #[error(
        "{path} at byte {offset}: records are missing that the chain's blocks are built on; remove the data \
        directory to start a new chain, or restore it"
    )]
    Behind {
        /// Path of the file.
        path: PathBuf,
        /// Offset of the end, or of the first invalid record.
        offset: u64,
    },
    /// The file of waiting transactions is damaged.
    #[error(transparent)]
    Waiting(#[from] hearth_wal::pool_file::PoolFileError),
    /// The record's block is not the chain's.
    #[error("the UTXO ledger's record of block {0} is not that of the block")]
    Undecodable(u64),
    /// The block was worked out over another state.
    #[error("the block was executed on a state of the UTXO ledger that is no longer its newest")]
    Stale,
    /// A set that is not the one that a block's header commits to.
    #[error("the UTXO ledger's set has the commitment {found}, and the block's header says {wanted}")]
    OtherSet {
        /// Commitment to the set.
        found: B256,
        /// Commitment in the header.
        wanted: B256,
    },
}

/// The chain's state when the ledger opens.
pub struct Head<'a> {
    /// The number of its last block.
    pub number: u64,
    /// Returns the hash of a block by number, as far back as the chain knows.
    pub hash_of: &'a dyn Fn(u64) -> Option<B256>,
    /// The commitment in the last block's header; `None` if it has none.
    pub commitment: Option<B256>,
}

/// The place of a stored block's record.
struct RecordPlace {
    number: u64,
    /// The generation, by its first block.
    from: u64,
    offset: u64,
}

/// The newest block with changes. Its header commits to the set before the block's transfers from the EVM.
struct NewestBlock {
    number: u64,
    header: B256,
    before: Totals,
    came: Vec<OutPoint>,
}

pub(crate) struct State {
    pub(crate) set: Set,
    /// Oldest first, never empty; the last one's log is written.
    generations: Vec<Generation>,
    /// After which block the set was that everything was made from; nothing where that is the first.
    footing: Option<SetAnchor>,
    /// Blocks whose records are kept, in order.
    blocks: VecDeque<RecordPlace>,
    /// How many more there were before them.
    gone: u32,
    /// By transaction id: the index of the block, removed ones included, and the index within the block. Transfers from
    /// the EVM are numbered after the transactions.
    index: HashMap<B256, (u32, u32)>,
    last: Option<NewestBlock>,
    captures: Vec<Weak<Mutex<ChangesSince>>>,
    /// Counts changes, so that a block over an older state is known.
    version: u64,
}

struct Shared {
    chain_id: u64,
    dir: Option<PathBuf>,
    state: RwLock<State>,
    /// Up to which [`State::version`] everything is on disk.
    synced: AtomicU64,
    /// Whether a sync has failed; locked during a sync. A later sync would not report the failure again.
    has_failed: Mutex<bool>,
    shortening: Mutex<Option<Compaction>>,
    /// Held while the logs change. Readers do not wait for it.
    writing: Mutex<()>,
    #[cfg(test)]
    on_write: Mutex<Option<Box<dyn Fn() + Send>>>,
}

/// The ledger of one chain. Clones share it.
#[derive(Clone)]
pub struct Ledger(Arc<Shared>);

/// A transaction that is in a block.
#[derive(Clone, Debug)]
pub struct IncludedTx {
    /// Height of the block.
    pub number: u64,
    /// Hash of the block.
    pub hash: B256,
    /// Index among the block's transactions on this ledger, from 0.
    pub index: u32,
    /// The transaction or transfer.
    pub what: TxOrCall,
}

/// A transaction of this ledger, or a call of the contract.
#[derive(Clone, Debug)]
pub enum TxOrCall {
    /// One of this ledger.
    Transaction(SharedTx),
    /// An output that came from the EVM.
    Incoming(Incoming, OutPoint),
}

impl Ledger {
    /// Opens the ledger in `dir`, or creates one in memory, as of the chain's last block. All records found were on
    /// disk.
    pub fn open(dir: Option<&Path>, chain_id: u64, head: &Head<'_>) -> Result<Self, LedgerError> {
        Self::open_synced(dir, chain_id, head, u64::MAX)
    }

    /// As [`Ledger::open`]; of blocks up to `synced` everything was on disk, of others the machine's end may have cost
    /// some.
    pub fn open_synced(dir: Option<&Path>, chain_id: u64, head: &Head<'_>, synced: u64) -> Result<Self, LedgerError> {
        let state = State::over(files::open(dir, chain_id)?);
        let dir = dir.map(Path::to_path_buf);
        let ledger = Self(Arc::new(Shared {
            chain_id,
            dir,
            state: RwLock::new(state),
            synced: AtomicU64::new(0),
            has_failed: Mutex::default(),
            shortening: Mutex::default(),
            writing: Mutex::default(),
            #[cfg(test)]
            on_write: Mutex::default(),
        }));
        ledger.replay(head.number, synced)?;
        ledger.check(head)?;
        Ok(ledger)
    }

    /// Id of the chain.
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
        let _writing = self.writing();
        let (from, mut log) = {
            let state = self.read();
            if state.version != session.version {
                return Err(LedgerError::Stale);
            }
            if session.is_empty() {
                return Ok(());
            }
            let newest = state.generations.last().expect("there is always one");
            (newest.from, newest.log.clone())
        };
        let record = Record {
            number,
            hash,
            header: session.header,
            after: set::commitment(&session.sum, &session.totals),
            txs: session.txs.iter().map(|tx| tx.raw.clone()).collect(),
            incoming: session.incoming.clone(),
        };
        // The write may be slow: readers do not wait for it.
        let written = self.append(&mut log, &record);
        let mut state = self.write();
        // Also on failure: the log knows what the failed write has left beyond its end.
        state.newest().log = log;
        let offset = written?;
        state.take(self.0.chain_id, RecordPlace { number, from, offset }, session);
        Ok(())
    }

    fn append(&self, log: &mut Log, record: &Record) -> Result<u64, LedgerError> {
        #[cfg(test)]
        if let Some(on_write) = &*self.0.on_write.lock() {
            on_write();
        }
        log.append(record)
    }

    /// Reverts all blocks after `number`. Rebuilds the set from the log, unless none of them changed anything.
    pub fn rewind(&self, number: u64) -> Result<(), LedgerError> {
        let state = self.read();
        let begun = state.generations.last().map_or(0, |generation| generation.from);
        if state.blocks.back().map_or(0, |last| last.number).max(begun) > number {
            drop(state);
            self.replay(number, u64::MAX)?;
        }
        Ok(())
    }

    /// Syncs everything committed before the call, while the ledger stays in use. After a failed sync every later one
    /// fails too: the kernel marks pages clean that it could not write.
    pub fn sync(&self) -> Result<(), LedgerError> {
        let (syncer, version) = {
            let state = self.read();
            (state.generations.last().expect("there is always one").log.syncer(), state.version)
        };
        if self.0.synced.load(Ordering::Acquire) >= version {
            return Ok(());
        }
        let mut has_failed = self.0.has_failed.lock();
        let earlier = || {
            let error = std::io::Error::other("an earlier sync failed, and what it was for may be lost");
            LedgerError::Io(self.0.dir.clone().unwrap_or_default(), error)
        };
        let synced = if *has_failed { Err(earlier()) } else { syncer() };
        *has_failed = synced.is_err();
        synced?;
        self.0.synced.fetch_max(version, Ordering::AcqRel);
        Ok(())
    }

    /// The set after block `number`, which must be the chain's newest, to be read while later blocks change it.
    pub fn capture(&self, number: u64, hash: B256) -> Result<Capture, LedgerError> {
        let mut state = self.write();
        if state.last.as_ref().is_some_and(|last| last.number > number) {
            return Err(LedgerError::Stale);
        }
        let after = state.set.commitment();
        let (header, before) = match &state.last {
            Some(last) if last.number == number => (last.header, (last.before, last.came.iter().copied().collect())),
            _ => (after, (state.set.totals, Default::default())),
        };
        let since = Arc::new(Mutex::default());
        state.captures.retain(|capture| capture.strong_count() > 0);
        state.captures.push(Arc::downgrade(&since));
        let footing = SetAnchor { number, hash, header, after };
        let (totals, assets) = (state.set.totals, state.set.assets().clone());
        Ok(Capture { ledger: self.clone(), since, footing, totals, before, assets })
    }

    /// Replaces the set with `loading`, which must match the commitment in the header of block `number`, plus the
    /// block's transfers from the EVM. The previous contents are gone, on disk too: call this only when nothing of them
    /// is needed, and again if it was interrupted.
    pub fn restore(
        &self,
        loading: SetBuilder,
        number: u64,
        hash: B256,
        header: Option<B256>,
        incoming: &[Incoming],
    ) -> Result<(), LedgerError> {
        let (found, wanted) = (loading.commitment(), header.unwrap_or_else(|| Set::default().commitment()));
        if found != wanted {
            return Err(LedgerError::OtherSet { found, wanted });
        }
        let _writing = self.writing();
        let mut state = self.write();
        state.go_back();
        let (version, chain_id, dir) = (state.version + 1, self.0.chain_id, self.0.dir.as_deref());
        let mut fresh = State { version, ..State::over(Vec::new()) };
        fresh.set = loading.into_set();
        let mut session = Session::over(self.clone(), version, &fresh.set);
        session.receive(number, incoming);
        let came = incoming_points(chain_id, number, incoming);
        fresh.last = Some(NewestBlock { number, header: session.header, before: session.before, came });
        fresh.set.absorb(session.overlay, session.sum, session.totals);
        let footing = SetAnchor { number, hash, header: found, after: fresh.set.commitment() };
        dir.map_or(Ok(()), files::clear)?;
        let outputs = fresh.set.outputs_after(None).map(|(at, output)| Item::Output(*at, output.clone()));
        let items = dump::items(fresh.set.totals, fresh.set.assets().clone()).chain(outputs).map(Ok);
        let base = files::keep(dir, chain_id, &footing, items)?;
        fresh.generations.push(Generation { base: Some(base), ..Generation::create(dir, chain_id, number)? });
        fresh.footing = Some(footing);
        *state = fresh;
        drop(state);
        self.sync()
    }

    /// Gives an empty ledger the set in `loading`, as of block `number` with that hash, which must be the chain's next
    /// block and commit to this set. Call it in the place of [`Ledger::commit`].
    pub fn begin_with(&self, loading: SetBuilder, number: u64, hash: B256) -> Result<(), LedgerError> {
        let _writing = self.writing();
        let state = self.read();
        if state.set.commitment() != Set::default().commitment() || !state.blocks.is_empty() || number == 0 {
            return Err(LedgerError::Stale);
        }
        drop(state);
        let (chain_id, dir, set) = (self.0.chain_id, self.0.dir.as_deref(), loading.into_set());
        let after = set.commitment();
        let footing = SetAnchor { number, hash, header: after, after };
        let outputs = set.outputs_after(None).map(|(at, output)| Item::Output(*at, output.clone()));
        let items = dump::items(set.totals, set.assets().clone()).chain(outputs).map(Ok);
        // The log comes first: a base without a log is ignored.
        let log = Generation::create(dir, chain_id, number)?;
        let base = files::keep(dir, chain_id, &footing, items)?;
        let mut state = self.write();
        state.go_back();
        state.generations.push(Generation { base: Some(base), ..log });
        (state.set, state.footing) = (set, Some(footing));
        state.version += 1;
        Ok(())
    }

    /// Whether nothing has ever happened here.
    pub fn is_untouched(&self) -> bool {
        self.commitment() == Set::default().commitment()
    }

    /// Makes the set from the records of blocks up to `number`, and cuts off those after it. Those of blocks up to
    /// `synced` were on disk.
    fn replay(&self, number: u64, synced: u64) -> Result<(), LedgerError> {
        let _writing = self.writing();
        let mut state = self.write();
        state.go_back();
        let mut generations = std::mem::take(&mut state.generations);
        let kept = generations.partition_point(|generation| generation.from <= number);
        if kept == 0 {
            let error = generations[0].log.corrupt(0, "the records before its first are not kept");
            state.generations = generations;
            return Err(error);
        }
        for gone in generations.drain(kept..) {
            gone.remove()?;
        }
        let begin = generations.iter().rposition(|generation| generation.base.is_some()).unwrap_or(0);
        *state = State { version: state.version + 1, ..State::over(generations) };
        match &state.generations[begin].base {
            None if state.generations[begin].from > 0 => {
                return Err(state.generations[begin].log.corrupt(0, "the set before its first record is not there"));
            }
            None => {}
            Some(base) => {
                let (footing, loading) = base.load(self.0.chain_id)?;
                (state.set, state.footing) = (loading.into_set(), Some(footing));
            }
        }
        for at in 0..state.generations.len() {
            self.replay_log(&mut state, at, at >= begin, number, synced)?;
        }
        Ok(())
    }

    /// Reads the log of one generation. If the set starts from a later one, this only indexes its transactions.
    fn replay_log(
        &self,
        state: &mut State,
        at: usize,
        over: bool,
        number: u64,
        synced: u64,
    ) -> Result<(), LedgerError> {
        state.generations[at].log.restart();
        let from = state.generations[at].from;
        while let Some((offset, record)) = state.generations[at].log.next(synced)? {
            if record.number > number {
                state.generations[at].log.truncate(offset)?;
                break;
            }
            let wrong = |what| state.generations[at].log.corrupt(offset, what);
            if record.number <= state.blocks.back().map_or(from, |last| last.number.max(from)) {
                return Err(wrong("a record is not after the one before"));
            }
            let txs = record.txs.iter().map(|raw| tx::decode(raw, self.0.chain_id).map(tx::UnverifiedTx::trusted));
            let Ok(txs) = txs.collect::<Result<Vec<_>, _>>() else {
                return Err(wrong("a transaction does not decode"));
            };
            let place = RecordPlace { number: record.number, from, offset };
            if !over {
                state.note(place, txs.iter().map(|tx| tx.id).collect(), &incoming_of(self.0.chain_id, &record));
                continue;
            }
            let mut session = Session::over(self.clone(), state.version, &state.set);
            if session.apply_over(&state.set, &txs).iter().any(Result::is_err) {
                return Err(wrong("a transaction is not right"));
            }
            session.receive(record.number, &record.incoming);
            if (session.header, set::commitment(&session.sum, &session.totals)) != (record.header, record.after) {
                return Err(wrong("a block's commitment is not that of its transactions"));
            }
            state.take(self.0.chain_id, place, session);
        }
        Ok(())
    }

    /// Checks that the last record belongs to the chain with this head, and that none is missing.
    fn check(&self, head: &Head<'_>) -> Result<(), LedgerError> {
        let state = self.read();
        let log = &state.generations.last().expect("there is always one").log;
        let begun = state.footing.as_ref().map_or(0, |footing| footing.number);
        let last = state.blocks.back().filter(|last| last.number > begun);
        let (last, offset) = match (last, &state.footing) {
            (Some(place), _) => {
                let Record { number, hash, header, after, .. } = state.log(place).read(place.offset)?;
                (SetAnchor { number, hash, header, after }, place.offset)
            }
            (None, Some(footing)) => (footing.clone(), 0),
            (None, None) => {
                let wanted = head.commitment.filter(|root| !root.is_zero() && head.number > 0);
                return match wanted {
                    Some(root) if root != state.set.commitment() => Err(log.behind()),
                    _ => Ok(()),
                };
            }
        };
        if (head.hash_of)(last.number).is_some_and(|hash| hash != last.hash) {
            return Err(log.corrupt(offset, "the record is of a block of another chain"));
        }
        let expected = if last.number == head.number { last.header } else { last.after };
        if head.commitment.is_some_and(|root| root != expected) {
            return Err(match last.number == head.number {
                true => log.corrupt(offset, "the record is not that of the chain's newest block"),
                false => log.behind(),
            });
        }
        Ok(())
    }

    /// Rejects a log that lacks the record of a block with changes: no header before the next block's would reveal
    /// that.
    pub fn require(&self, number: u64) -> Result<(), LedgerError> {
        let state = self.read();
        let there = state.blocks.binary_search_by_key(&number, |place| place.number).is_ok();
        let in_base = state.footing.as_ref().is_some_and(|footing| footing.number >= number);
        let log = &state.generations.last().expect("there is always one").log;
        if there || in_base { Ok(()) } else { Err(log.behind()) }
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
        let found = all.outputs.range((from, Unbounded)).take(limit);
        found.map(|at| (*at, state.set.output(at).expect("an owner's list holds outputs").clone())).collect()
    }

    /// Returns an owner's balance per asset, in units, and the number of outputs.
    pub fn balances(&self, owner: &OwnerKey) -> BTreeMap<AssetId, (u128, usize)> {
        self.read().set.of_owner(owner).map(|owned| owned.balances.clone()).unwrap_or_default()
    }

    /// The newest block that changed something here. It may be one that the chain does not show yet, or never.
    pub fn newest(&self) -> u64 {
        self.read().last.as_ref().map_or(0, |last| last.number)
    }

    /// Returns the record of an issued asset.
    pub fn asset(&self, id: &AssetId) -> Option<Asset> {
        self.read().set.asset(id).cloned()
    }

    /// Returns the running totals of the native asset.
    pub fn totals(&self) -> Totals {
        self.read().set.totals
    }

    /// Returns the commitment to the current set.
    pub fn commitment(&self) -> B256 {
        self.read().set.commitment()
    }

    /// Returns the transaction with this id, if it is in a block; a transfer from the EVM has the id of its output.
    pub fn transaction(&self, id: &B256) -> Result<Option<IncludedTx>, LedgerError> {
        let find = |state: &State| {
            let (block, index) = state.index.get(id).copied()?;
            Some((block - state.gone, index))
        };
        let Some((record, index)) = self.record_of(find)? else { return Ok(None) };
        self.landed(&record, index).map(Some)
    }

    /// Returns all transactions and transfers of that block on this ledger, in order.
    pub fn transactions_in(&self, number: u64) -> Result<Vec<IncludedTx>, LedgerError> {
        let Some(record) = self.record(number)? else { return Ok(vec![]) };
        let count = record.txs.len() + record.incoming.len();
        (0..count as u32).map(|index| self.landed(&record, index)).collect()
    }

    fn landed(&self, record: &Record, index: u32) -> Result<IncludedTx, LedgerError> {
        let at = index as usize;
        let what = match record.txs.get(at) {
            Some(raw) => {
                let tx = tx::decode(raw, self.0.chain_id).map_err(|_| LedgerError::Undecodable(record.number))?;
                TxOrCall::Transaction(tx.trusted())
            }
            None => {
                let one = record.incoming[at - record.txs.len()].clone();
                let at = prism_out_point(self.0.chain_id, record.number, &one.transaction, one.log);
                TxOrCall::Incoming(one, at)
            }
        };
        Ok(IncludedTx { number: record.number, hash: record.hash, index, what })
    }

    /// The number of the block that holds the transaction with this id.
    pub fn landed_in(&self, id: &B256) -> Option<u64> {
        let state = self.read();
        state.index.get(id).map(|(block, _)| state.place(*block).number)
    }

    /// Returns the record of that block; `None` if it changed nothing.
    pub fn record(&self, number: u64) -> Result<Option<Record>, LedgerError> {
        let find = |state: &State| {
            let at = state.blocks.binary_search_by_key(&number, |place| place.number).ok()?;
            Some((u32::try_from(at).ok()?, 0))
        };
        Ok(self.record_of(find)?.map(|(record, _)| record))
    }

    /// Reads the record at a place in [`State::blocks`], and returns the second number that `find` gave. The disk is
    /// read without the lock; if the ledger reverts meanwhile, `find` runs again.
    fn record_of(&self, find: impl Fn(&State) -> Option<(u32, u32)>) -> Result<Option<(Record, u32)>, LedgerError> {
        loop {
            let state = self.read();
            let Some((at, more)) = find(&state) else { return Ok(None) };
            let place = &state.blocks[at as usize];
            let (log, number, offset, version) = (state.log(place).clone(), place.number, place.offset, state.version);
            drop(state);
            match log.read(offset) {
                Ok(record) if record.number == number => return Ok(Some((record, more))),
                _ if self.read().version != version => {}
                Ok(_) => return Err(LedgerError::Undecodable(number)),
                Err(error) => return Err(error),
            }
        }
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, State> {
        // A writer that panicked has found its own books wrong, and the process ends with it.
        self.0.state.read()
    }

    fn writing(&self) -> MutexGuard<'_, ()> {
        self.0.writing.lock()
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.0.state.write()
    }
}

/// Returns the out points that a block's transfers from the EVM created.
fn incoming_points(chain_id: u64, number: u64, incoming: &[Incoming]) -> Vec<OutPoint> {
    incoming.iter().map(|one| prism_out_point(chain_id, number, &one.transaction, one.log)).collect()
}

fn incoming_of(chain_id: u64, record: &Record) -> Vec<OutPoint> {
    incoming_points(chain_id, record.number, &record.incoming)
}

impl State {
    /// The empty set, before any record was read.
    fn over(generations: Vec<Generation>) -> Self {
        let (set, footing, blocks, gone, index, last, captures, version) = Default::default();
        Self { set, generations, footing, blocks, gone, index, last, captures, version }
    }

    fn newest(&mut self) -> &mut Generation {
        self.generations.last_mut().expect("there is always one")
    }

    fn place(&self, block: u32) -> &RecordPlace {
        &self.blocks[(block - self.gone) as usize]
    }

    fn log(&self, place: &RecordPlace) -> &Log {
        let generation = self.generations.iter().find(|generation| generation.from == place.from);
        &generation.expect("a place is in a log that is kept").log
    }

    /// Tells the readers of the old set that it no longer exists.
    fn go_back(&mut self) {
        for since in self.captures.drain(..).filter_map(|capture| capture.upgrade()) {
            since.lock().go_back();
        }
    }

    /// Remembers where a block's transactions are.
    fn note(&mut self, place: RecordPlace, ids: Vec<B256>, came: &[OutPoint]) {
        let block = self.gone + u32::try_from(self.blocks.len()).expect("fewer than 2^32 blocks have a record");
        let ids = ids.into_iter().chain(came.iter().map(|at| at.transaction));
        for (at, id) in ids.enumerate() {
            // Two logs of one transaction share an id; the first is found by it.
            self.index.entry(id).or_insert((block, u32::try_from(at).expect("a block's are fewer")));
        }
        self.blocks.push_back(place);
    }

    /// Applies a block whose record is at `place`.
    fn take(&mut self, chain_id: u64, place: RecordPlace, session: Session) {
        for since in self.captures.iter().filter_map(Weak::upgrade) {
            since.lock().note(&session);
        }
        let came = incoming_points(chain_id, place.number, &session.incoming);
        let number = place.number;
        self.note(place, session.txs.iter().map(|tx| tx.id).collect(), &came);
        self.last = Some(NewestBlock { number, header: session.header, before: session.before, came });
        self.set.absorb(session.overlay, session.sum, session.totals);
        self.version += 1;
    }
}

/// Removes the ledger in `dir`, except its waiting transactions.
pub fn clear(dir: &Path) -> Result<(), LedgerError> {
    files::clear(dir)
}
