//! load: reads and fully verifies a snapshot on all cores.
//!
//! reads   a snapshot file, once, in order
//! writes  a new account store and status cache, which are used only after everything is verified
//! memory  two chunks per thread besides the loaded state
//! drops   nothing: the first error is a [`SnapshotError`] with its position
//! source  format.rs

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};

use hearth_crypto::sha256::sha256;
use hearth_wire::Hash;
use parking_lot::Mutex;

use super::account;
use super::error::{Fault, SnapshotError};
use super::format::{CHUNK_HEAD_SIZE, ChunkHead, EndChunk, Head, Kind, VERSION, decode_head, unpack};
use super::manifest::Manifest;
use crate::accounts::Accounts;
use crate::epochs::VoteAccounts;
use crate::status_cache::{ClaimEntry, StatusCache, StatusCacheConfig, StatusEntry};

/// The state in a snapshot.
#[derive(Debug)]
pub struct LoadedSnapshot {
    /// All accounts, in a store of their own.
    pub accounts: Accounts,
    /// The landed messages and the results that had not expired.
    pub statuses: StatusCache,
    /// The state besides accounts and statuses.
    pub manifest: Manifest,
    /// Counts of the contents.
    pub summary: Summary,
}

/// Counts of a valid snapshot's contents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The slot at whose end the state was captured.
    pub slot: u64,
    /// Number of accounts in the file.
    pub accounts: u64,
    /// Sum of the accounts' lamports.
    pub lamports: u128,
    /// Messages that may not land again.
    pub claims: u64,
    /// Results of transactions that can be queried.
    pub statuses: u64,
    /// File size in bytes.
    pub bytes: u64,
}

/// Loads the snapshot in `path`, which must be of the chain with this genesis.
pub fn load(path: &Path, genesis_hash: &Hash, config: &StatusCacheConfig) -> Result<LoadedSnapshot, SnapshotError> {
    let (mut file, head) = Chunks::open(path, Some(genesis_hash))?;
    let accounts = Accounts::new();
    let statuses = StatusCache::with_seed(config, head.seed);
    let take = |kind: Kind, mut content: &[u8]| match kind {
        Kind::Accounts => {
            let mut sums = Summary::default();
            while !content.is_empty() {
                let (address, account) = account::decode(&mut content).ok_or("an account")?;
                sums.accounts += 1;
                sums.lamports += u128::from(account.lamports);
                accounts.store(&address, account);
            }
            Ok(sums)
        }
        Kind::Claims => {
            let entries = ClaimEntry::all(content).ok_or("a claim")?;
            let claims = entries.map(|entry| statuses.restore_claim(&entry, head.height)).count();
            Ok(Summary { claims: claims as u64, ..Summary::default() })
        }
        _ => {
            let entries = StatusEntry::all(content).ok_or("a status")?;
            let count = entries.map(|entry| statuses.restore_status(&entry, head.height)).count();
            Ok(Summary { statuses: count as u64, ..Summary::default() })
        }
    };
    let (manifest, summary) = file.read_all(&head, &take)?;
    if accounts.count() as u64 != summary.accounts {
        return Err(SnapshotError::damaged(path, 0, Fault::Content("an address is there twice")));
    }
    Ok(LoadedSnapshot { accounts, statuses, manifest, summary })
}

/// Verifies the snapshot in `path` as [`load`] does, without keeping its contents.
pub fn verify(path: &Path, genesis_hash: Option<&Hash>) -> Result<(Manifest, Summary), SnapshotError> {
    let (mut file, head) = Chunks::open(path, genesis_hash)?;
    let take = |kind: Kind, mut content: &[u8]| {
        let mut sums = Summary::default();
        match kind {
            Kind::Accounts => {
                while !content.is_empty() {
                    let (_, account) = account::decode(&mut content).ok_or("an account")?;
                    sums.accounts += 1;
                    sums.lamports += u128::from(account.lamports);
                }
            }
            Kind::Claims => sums.claims = ClaimEntry::all(content).ok_or("a claim")?.count() as u64,
            _ => sums.statuses = StatusEntry::all(content).ok_or("a status")?.count() as u64,
        }
        Ok(sums)
    };
    file.read_all(&head, &take)
}

/// Consumes a chunk's content; returns its counts, or why it does not parse.
type ChunkConsumer<'a> = dyn Fn(Kind, &[u8]) -> Result<Summary, &'static str> + Sync + 'a;

/// A chunk as stored in the file.
struct StoredChunk {
    offset: u64,
    head: ChunkHead,
    head_bytes: [u8; CHUNK_HEAD_SIZE],
    bytes: Vec<u8>,
}

impl StoredChunk {
    fn unpack(self) -> Result<Vec<u8>, (u64, Fault)> {
        unpack(&self.head, &self.head_bytes, self.bytes).map_err(|fault| (self.offset, fault))
    }
}

/// The chunks of a file, in order.
struct Chunks<'p> {
    path: &'p Path,
    file: BufReader<File>,
    offset: u64,
    number: u32,
    heads: Vec<u8>,
}

impl<'p> Chunks<'p> {
    /// Opens a file and reads its first chunk.
    fn open(path: &'p Path, genesis_hash: Option<&Hash>) -> Result<(Self, Head), SnapshotError> {
        let file = File::open(path).map_err(|e| SnapshotError::io("opening", path, e))?;
        let mut chunks = Self { path, file: BufReader::new(file), offset: 0, number: 0, heads: vec![] };
        let first = chunks.next()?;
        if first.head.kind != Kind::Head {
            return Err(SnapshotError::damaged(path, 0, Fault::Content("it does not begin with its head")));
        }
        let content = chunks.content(first)?;
        match Head::decode(&content) {
            None => Err(SnapshotError::damaged(path, 0, Fault::Content("its head"))),
            Some(Err(found)) => Err(SnapshotError::Version { file: path.into(), found, expected: VERSION }),
            Some(Ok(head)) if genesis_hash.is_some_and(|genesis_hash| *genesis_hash != head.genesis_hash) => {
                Err(SnapshotError::OtherChain { file: path.into() })
            }
            Some(Ok(head)) => Ok((chunks, head)),
        }
    }

    fn next(&mut self) -> Result<StoredChunk, SnapshotError> {
        let offset = self.offset;
        let mut head_bytes = [0; CHUNK_HEAD_SIZE];
        self.fill(&mut head_bytes)?;
        let head = decode_head(&head_bytes, self.number).map_err(|f| SnapshotError::damaged(self.path, offset, f))?;
        let mut bytes = vec![0; head.stored as usize];
        self.fill(&mut bytes)?;
        if head.kind != Kind::End {
            self.heads.extend_from_slice(&head_bytes);
        }
        self.number += 1;
        self.offset += (CHUNK_HEAD_SIZE + bytes.len()) as u64;
        Ok(StoredChunk { offset, head, head_bytes, bytes })
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), SnapshotError> {
        self.file.read_exact(bytes).map_err(|e| match e.kind() {
            io::ErrorKind::UnexpectedEof => SnapshotError::damaged(self.path, self.offset, Fault::Cut),
            _ => SnapshotError::io("reading", self.path, e),
        })
    }

    fn content(&self, chunk: StoredChunk) -> Result<Vec<u8>, SnapshotError> {
        chunk.unpack().map_err(|(offset, fault)| SnapshotError::damaged(self.path, offset, fault))
    }

    /// Passes every content to `take`, on all cores; verifies digest and sums.
    fn read_all(&mut self, head: &Head, take: &ChunkConsumer<'_>) -> Result<(Manifest, Summary), SnapshotError> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let vote_accounts = Mutex::new(VoteAccounts::new());
        let take: &ChunkConsumer<'_> = &|kind: Kind, content: &[u8]| match kind {
            Kind::VoteAccounts => take_vote_accounts(&vote_accounts, content),
            _ => take(kind, content),
        };
        let (chunks, inbox) = sync_channel(threads);
        let inbox = Mutex::new(inbox);
        let (read, taken) = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads).map(|_| scope.spawn(|| work(&inbox, take))).collect();
            let read = self.read_bulk(|chunk| chunks.send(chunk).is_ok());
            drop(chunks);
            let join = |worker: std::thread::ScopedJoinHandle<'_, _>| {
                worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            (read, workers.into_iter().map(join).collect::<Vec<Result<Summary, (u64, Fault)>>>())
        });
        let mut sums = Summary { slot: head.slot, ..Summary::default() };
        let mut wrong: Vec<(u64, Fault)> = vec![];
        for worker in taken {
            match worker {
                Ok(part) => sums.add(&part),
                Err(fault) => wrong.push(fault),
            }
        }
        if let Some((offset, fault)) = wrong.into_iter().min_by_key(|(offset, _)| *offset) {
            return Err(SnapshotError::damaged(self.path, offset, fault));
        }
        let (mut manifest, end) = read?;
        if end.digest != sha256(&[&self.heads]) {
            return Err(SnapshotError::damaged(self.path, 0, Fault::Digest));
        }
        if (end.accounts, end.lamports) != (sums.accounts, sums.lamports) {
            let (accounts, lamports) = (end.accounts, end.lamports);
            let (found_accounts, found_lamports) = (sums.accounts, sums.lamports);
            let fault = Fault::Sums { found_accounts, found_lamports, accounts, lamports };
            return Err(SnapshotError::damaged(self.path, 0, fault));
        }
        if !manifest.epochs.set_vote_accounts(vote_accounts.into_inner()) {
            let fault = Fault::Content("other vote accounts than those of its epochs' stakes");
            return Err(SnapshotError::damaged(self.path, 0, fault));
        }
        sums.bytes = self.offset;
        Ok((manifest, sums))
    }

    /// Reads to the end; passes statuses and accounts to `send`, which returns whether anyone accepts them.
    fn read_bulk(&mut self, send: impl Fn(StoredChunk) -> bool) -> Result<(Manifest, EndChunk), SnapshotError> {
        let mut manifest = None;
        loop {
            let chunk = self.next()?;
            let offset = chunk.offset;
            let malformed = |what| SnapshotError::damaged(self.path, offset, Fault::Content(what));
            match (chunk.head.kind, &manifest) {
                (Kind::Claims | Kind::Statuses | Kind::Accounts | Kind::VoteAccounts, None) => {
                    if !send(chunk) {
                        return Err(malformed("chunks before this one"));
                    }
                }
                (Kind::Manifest, None) => {
                    let content = self.content(chunk)?;
                    let read = serde_json::from_slice::<Manifest>(&content).ok().filter(Manifest::is_consistent);
                    manifest = Some(read.ok_or_else(|| malformed("its manifest"))?);
                }
                (Kind::End, Some(_)) => {
                    let content = self.content(chunk)?;
                    let end = EndChunk::decode(&content).ok_or_else(|| malformed("its end"))?;
                    if self.file.read(&mut [0]).map_err(|e| SnapshotError::io("reading", self.path, e))? > 0 {
                        return Err(malformed("bytes after its end"));
                    }
                    return Ok((manifest.expect("matched above"), end));
                }
                _ => return Err(malformed("a chunk out of place")),
            }
        }
    }
}

/// Takes the vote accounts in a chunk's content.
fn take_vote_accounts(to: &Mutex<VoteAccounts>, mut content: &[u8]) -> Result<Summary, &'static str> {
    while let Some((epoch, rest)) = content.split_first_chunk() {
        content = rest;
        let (address, account) = account::decode(&mut content).ok_or("a vote account")?;
        if to.lock().insert((u64::from_le_bytes(*epoch), address), account).is_some() {
            return Err("a vote account of an epoch that is there twice");
        }
    }
    if content.is_empty() { Ok(Summary::default()) } else { Err("a vote account") }
}

fn work(inbox: &Mutex<Receiver<StoredChunk>>, take: &ChunkConsumer<'_>) -> Result<Summary, (u64, Fault)> {
    let (mut sums, mut wrong) = (Summary::default(), None);
    loop {
        let chunk = inbox.lock().recv();
        let Ok(chunk) = chunk else { return wrong.map_or(Ok(sums), Err) };
        // After a fault the remaining chunks are drained without decoding, so that the sender can finish.
        if wrong.is_some() {
            continue;
        }
        let (kind, offset) = (chunk.head.kind, chunk.offset);
        let taken =
            chunk.unpack().and_then(|content| take(kind, &content).map_err(|what| (offset, Fault::Content(what))));
        match taken {
            Ok(part) => sums.add(&part),
            Err(fault) => wrong = Some(fault),
        }
    }
}

impl Summary {
    fn add(&mut self, part: &Self) {
        self.accounts += part.accounts;
        self.lamports += part.lamports;
        self.claims += part.claims;
        self.statuses += part.statuses;
    }
}
