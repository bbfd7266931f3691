//! Opens a state: from the genesis, from a dump, or from disk.
//!
//! reads   checkpoints and logs
//! memory  a million entries at a time besides the state

use std::path::Path;
use std::sync::{Arc, OnceLock};

use alloy_primitives::{Address, B256};
use parking_lot::Mutex;

use super::code::bytecode;
use super::disk::{Checkpoint, Files, Log, Record};
use super::flat_state::{FlatState, SlimAccount, SlotKey, Word};
use super::persist::{MadeBy, Persist};
use super::tries::{TrieTop, Tries};
use super::version::{Hashes, Version};
use super::write_batch::Fingerprint;
use super::{Entry, State, StateError, StateFile, StateHandle, StateView, Tables};

/// The block that a state begins with.
pub trait BlockZero {
    /// Its state: each account after its code and before its storage.
    fn entries(&self) -> impl Iterator<Item = Entry>;

    /// Its hash, where its state has this root.
    fn hash_over(&self, state_root: B256) -> B256;
}

/// Entries that are put into the tries together.
const PIECE: usize = if cfg!(test) { 16 } else { 1 << 20 };

impl State {
    /// Opens the state in `dir`, or creates one of `genesis` in memory without a `dir`. A state in `dir` must be of
    /// this genesis.
    pub fn open(dir: Option<&Path>, genesis: &impl BlockZero) -> Result<Self, StateError> {
        let (tables, top) = of_genesis(genesis)?;
        let zero = genesis.hash_over(top.root());
        match dir {
            None => Ok(Self::over(tables, 0, &[zero], top)),
            Some(dir) => Self::open_disk(dir, zero, tables, top),
        }
    }

    /// Creates a state from `entries`, after block `number`, with the hashes of the last blocks, `number`'s last;
    /// without hashes it is that of `genesis` with these entries as its accounts. `dir`, if given, must not have a
    /// state.
    pub fn load(
        dir: Option<&Path>,
        genesis: &impl BlockZero,
        number: u64,
        hashes: &[B256],
        entries: impl Iterator<Item = Result<Entry, StateError>>,
    ) -> Result<Self, StateError> {
        let (_, top) = of_genesis(genesis)?;
        let zero = genesis.hash_over(top.root());
        let tables = Tables::new();
        let top = fill(&tables, entries)?;
        let hashes = if hashes.is_empty() { vec![genesis.hash_over(top.root())] } else { hashes.to_vec() };
        let mut state = Self::over(tables, number, &hashes, top);
        dir.map_or(Ok(()), |dir| state.keep_of(dir, zero))?;
        Ok(state)
    }

    /// Stores a state that was in memory only in `dir` from now on; `dir` must not have one.
    pub fn keep(&mut self, dir: &Path, genesis: &impl BlockZero) -> Result<(), StateError> {
        let (_, top) = of_genesis(genesis)?;
        self.keep_of(dir, genesis.hash_over(top.root()))
    }

    fn keep_of(&mut self, dir: &Path, zero: B256) -> Result<(), StateError> {
        let files = Files::open(dir)?;
        if !files.logs()?.is_empty() || !files.checkpoints()?.is_empty() {
            return Err(StateError::NotEmpty(dir.to_path_buf()));
        }
        self.head().write(&files.checkpoint(0), zero, 0)?;
        let log = Log::create(&files.log(0), zero, 0)?;
        let mut made_by = MadeBy::default();
        made_by.note(self.head().number(), 0);
        self.disk = Some(Persist::new(files, log, zero, 0, made_by, &self.tables.flat));
        Ok(())
    }

    /// Stops storing on disk, and closes the files.
    pub fn detach(&mut self) {
        self.disk = None;
    }

    /// Becomes another state: existing handles then find views of that one. The history's limits stay.
    pub fn adopt(&mut self, mut other: Self) {
        if let Some(history) = self.history() {
            other.keep_history(history);
        }
        let Self { tables, handle, disk, .. } = other;
        let versions = std::mem::take(&mut handle.window.write().views);
        let gone = {
            let mut window = self.handle.window.write();
            std::mem::replace(&mut window.views, versions)
        };
        (self.tables, self.disk, self.ahead) = (tables, disk, Mutex::default());
        drop(gone);
    }

    fn over(tables: Arc<Tables>, number: u64, hashes: &[B256], top: TrieTop) -> Self {
        let hash = hashes.last().copied().unwrap_or_default();
        let version = Version::first(number, hash, Hashes::of(hashes), top);
        let first = StateView { tables: tables.clone(), version };
        let (handle, ahead, fingerprint) = (StateHandle::new(first), Mutex::default(), Fingerprint::default());
        Self { tables, handle, ahead, fingerprint, disk: None }
    }

    fn open_disk(dir: &Path, zero: B256, tables: Arc<Tables>, top: TrieTop) -> Result<Self, StateError> {
        let files = Files::open(dir)?;
        // The oldest: the blocks after it then have views again, and can be reverted.
        let base = files.checkpoints()?.first().copied();
        let (mut state, base) = match base {
            None => (Self::over(tables, 0, &[zero], top), 0),
            Some(sequence) => {
                drop(tables);
                (Self::of_checkpoint(&files.checkpoint(sequence), zero, sequence)?, sequence)
            }
        };
        let mut made_by = MadeBy::default();
        made_by.note(state.head().number(), base);
        let mut logs = files.logs()?;
        let needless = logs.iter().rposition(|before| *before <= base).unwrap_or(0);
        logs.drain(..needless);
        let Some(first) = logs.first().copied() else {
            let log = Log::create(&files.log(base), zero, base)?;
            state.disk = Some(Persist::new(files, log, zero, base, made_by, &state.tables.flat));
            return Ok(state);
        };
        if first > base {
            let what = format!("the records from {} to {first} are not there", base + 1);
            return Err(StateError::Damaged { path: files.log(first), offset: 0, what });
        }
        let mut sequence = first;
        let mut open = None;
        // All of them: a record may go back further than the window.
        let mut past = state.head().version.hashes().to_vec();
        for (at, before) in logs.iter().enumerate() {
            let path = files.log(*before);
            let last = at + 1 == logs.len();
            if *before != sequence {
                let what = format!("the records from {} to {before} are not there", sequence + 1);
                return Err(StateError::Damaged { path, offset: 0, what });
            }
            let replay = |bytes: &[u8], offset| {
                let made = state.replay(bytes, base, &mut past, &path, offset)?;
                made.into_iter().for_each(|(number, sequence)| made_by.note(number, sequence));
                Ok(())
            };
            (sequence, open) = Log::read(&path, zero, *before, last, replay)?;
        }
        let log = open.expect("the last log is opened");
        if sequence < base {
            // The checkpoint's contents were synced before it: a log that ends earlier is incomplete.
            let what = format!("it ends with record {sequence}, and the checkpoint has {base}");
            return Err(StateError::Damaged { path: files.log(first), offset: 0, what });
        }
        state.disk = Some(Persist::new(files, log, zero, sequence, made_by, &state.tables.flat));
        Ok(state)
    }

    fn of_checkpoint(path: &Path, zero: B256, sequence: u64) -> Result<Self, StateError> {
        let mut file = Checkpoint::open(path)?;
        let header = file.header.clone();
        if header.genesis != zero {
            return Err(StateError::OtherChain { path: path.into(), found: header.genesis, expected: zero });
        }
        let tables = Tables::new();
        let top = fill(&tables, &mut file)?;
        if header.sequence != sequence || header.state_root != top.root() {
            let what = format!("its entries have the root {}, its header says {}", top.root(), header.state_root);
            return Err(StateError::Damaged { path: path.into(), offset: 0, what });
        }
        Ok(Self::over(tables, header.number, &header.hashes, top))
    }

    /// Replays a record, if it is after `base`; returns the number of its block, and its own. `past` are the hashes of
    /// the blocks so far, the head's last.
    fn replay(
        &mut self,
        bytes: &[u8],
        base: u64,
        past: &mut Vec<B256>,
        path: &Path,
        offset: usize,
    ) -> Result<Option<(u64, u64)>, StateError> {
        let damaged = |what: String| StateError::Damaged { path: path.to_path_buf(), offset: offset as u64, what };
        let Some((record, applied)) = Record::decode(bytes, &self.tables.flat) else {
            return Err(damaged("the record's bytes make no sense".into()));
        };
        if record.sequence <= base {
            return Ok(None);
        }
        let head = self.head();
        let Tables { flat, tries, .. } = &*self.tables;
        if record.number > head.number() + 1 {
            return Err(damaged(format!("block {} cannot follow block {}", record.number, head.number())));
        }
        let prepared = tries.prepare(flat, &head.version.top, &applied.accounts, &applied.slots);
        if prepared.root() != record.state_root {
            let what = format!("the state after block {} has the root {}", record.number, prepared.root());
            return Err(damaged(format!("{what}, the record says {}", record.state_root)));
        }
        let first = (head.number() + 1).saturating_sub(past.len() as u64);
        past.truncate(usize::try_from(record.number.saturating_sub(first)).unwrap_or(usize::MAX));
        past.push(record.block_hash);
        self.advance(record.number, Hashes::of(past), applied, prepared);
        Ok(Some((record.number, record.sequence)))
    }
}

/// The state of block zero.
fn of_genesis(genesis: &impl BlockZero) -> Result<(Arc<Tables>, TrieTop), StateError> {
    let tables = Tables::new();
    let top = fill(&tables, genesis.entries().map(Ok))?;
    Ok((tables, top))
}

/// Puts entries into empty tables.
fn fill(tables: &Tables, entries: impl Iterator<Item = Result<Entry, StateError>>) -> Result<TrieTop, StateError> {
    let mut fill = Fill { tables, top: TrieTop::default(), accounts: Vec::new(), slots: Vec::new() };
    for entry in entries {
        fill.add(entry?)?;
        if fill.accounts.len() + fill.slots.len() >= PIECE {
            fill.flush();
        }
    }
    fill.flush();
    Ok(fill.top)
}

struct Fill<'a> {
    tables: &'a Tables,
    top: TrieTop,
    accounts: Vec<(Address, Option<SlimAccount>)>,
    slots: Vec<(SlotKey, Word)>,
}

impl Fill<'_> {
    fn add(&mut self, entry: Entry) -> Result<(), StateError> {
        let flat = &self.tables.flat;
        match entry {
            Entry::Code { hash, code } => {
                if B256::from(hearth_crypto::keccak::keccak256(&code)) != hash {
                    return Err(StateError::BadEntry(format!("a code that does not have the hash {hash}")));
                }
                flat.codes.add(hash, bytecode(code));
            }
            Entry::Account { address, account } => {
                let hash = account.code_hash;
                let code = flat.codes.number(&hash).ok_or(StateError::UnknownCode { address, hash })?;
                self.accounts.push((address, Some(SlimAccount::new(account.balance, account.nonce, code))));
            }
            Entry::Storage { address, slot, value } => {
                // Nearly always the account is the one before, and goes into the tables with its slots.
                let is_next = self.accounts.last().is_some_and(|(last, _)| *last == address);
                if !is_next && !self.accounts.is_empty() {
                    self.flush();
                }
                if !is_next && flat.account(&address).is_none() {
                    return Err(StateError::BadEntry(format!("storage of {address}, which is no account")));
                }
                self.slots.push(((address, slot.to_be_bytes()), value.to_be_bytes()));
            }
        }
        Ok(())
    }

    fn flush(&mut self) {
        let Tables { flat, tries, .. } = self.tables;
        self.accounts.sort_by_key(|(address, _)| *address);
        self.accounts.dedup_by_key(|(address, _)| *address);
        self.slots.sort_by_key(|(key, _)| *key);
        self.slots.dedup_by_key(|(key, _)| *key);
        self.top = tries.install(tries.prepare(flat, &self.top, &self.accounts, &self.slots));
        flat.set_accounts(&self.accounts);
        flat.set_slots(&self.slots);
        self.accounts.clear();
        self.slots.clear();
    }
}

impl Tables {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { flat: FlatState::new(), tries: Tries::new(), past: OnceLock::new() })
    }
}

impl StateFile {
    /// Opens a file that [`StateView::save`] wrote.
    pub fn open(path: &Path) -> Result<Self, StateError> {
        Checkpoint::open(path).map(Self)
    }

    /// The block after which the state was so.
    pub fn number(&self) -> u64 {
        self.0.header.number
    }

    /// The root that the state has.
    pub fn state_root(&self) -> B256 {
        self.0.header.state_root
    }

    /// The hashes of the last blocks, that of [`StateFile::number`] last.
    pub fn hashes(&self) -> &[B256] {
        &self.0.header.hashes
    }
}

impl Iterator for StateFile {
    type Item = Result<Entry, StateError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next()
    }
}
