//! Beginning from a peer's snapshot.
//!
//! Each chunk is checked against the hash that the offer named, the headers against the app hash that CometBFT's light
//! client vouches for, and at the end the block, the outputs and the state against that header: a peer that lies is
//! found out at once for a chunk and at the latest then.
//!
//! reads   the offer; chunks, in order
//! writes  the chunks to a folder, until the last is there; then the chain
//! memory  the chunk at hand, and all of them where there is no folder; in the end the state that is restored
//! drops   chunks that are not what was offered: asked for again, and their sender no more

use std::collections::VecDeque;
use std::path::PathBuf;
use std::{fs, io};

use alloy_consensus::Header;
use alloy_primitives::{Address, B256, KECCAK256_EMPTY};
use bytes::Bytes;
use hearth_abci::request;
use hearth_abci::response::{self, Applied, Offer};
use hearth_evm::blocks;
use hearth_evm::chain::{Chain, RestoreError};
use hearth_evm::state::{self, Account, StateError};
use hearth_utxo::ledger::{Item, Loading};

use super::codec::{Entry, FORMAT, Reader, chunk_hash, decode_headers};
use super::store::{snapshot_hash, split};
use crate::app_hash::app_hash;

/// A snapshot may have so many chunks: CometBFT's own bound.
const CHUNKS_MAX: usize = 100_000;
/// A block is not longer; CometBFT's have 100 MB at most, and logs take gas.
const BLOCK_BYTES_MAX: usize = 1 << 30;

/// Where chunks are until all are there.
#[derive(Debug)]
enum Spool {
    Memory(Vec<Bytes>),
    Folder(PathBuf),
}

impl Spool {
    fn put(&mut self, index: usize, chunk: &Bytes) -> io::Result<()> {
        match self {
            Self::Memory(chunks) => chunks.push(chunk.clone()),
            Self::Folder(path) => fs::write(path.join(index.to_string()), chunk)?,
        }
        Ok(())
    }

    fn get(&self, index: usize) -> io::Result<Bytes> {
        match self {
            // Chunk 0 is not put here.
            Self::Memory(chunks) => Ok(chunks[index - 1].clone()),
            Self::Folder(path) => fs::read(path.join(index.to_string())).map(Bytes::from),
        }
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        if let Self::Folder(path) = self {
            // What stays goes at the next start.
            let _ = fs::remove_dir_all(path);
        }
    }
}

/// A snapshot that was accepted and is not whole yet.
#[derive(Debug)]
pub struct Restoring {
    height: u64,
    app_hash: Bytes,
    hashes: Vec<B256>,
    next: usize,
    headers: Vec<Header>,
    spool: Spool,
}

/// What came of a chunk.
#[derive(Debug)]
pub enum Step {
    /// Go on, or try again: what CometBFT is to be told.
    Say(response::ApplySnapshotChunk),
    /// It was the last: [`Restoring::give`].
    Whole,
}

/// Looks at an offer; the chunks go to a folder, which is made anew, or stay in memory.
pub fn offer(request: &request::OfferSnapshot, folder: Option<PathBuf>) -> io::Result<Result<Restoring, Offer>> {
    let Some(snapshot) = request.snapshot.as_ref() else { return Ok(Err(Offer::Reject)) };
    if snapshot.format != FORMAT {
        return Ok(Err(Offer::RejectFormat));
    }
    let Some(hashes) = split(&snapshot.metadata) else { return Ok(Err(Offer::Reject)) };
    let fits = hashes.len() == snapshot.chunks as usize && (2..=CHUNKS_MAX).contains(&hashes.len());
    if !fits || snapshot_hash(&hashes).as_slice() != &snapshot.hash[..] || request.app_hash.len() != 32 {
        return Ok(Err(Offer::Reject));
    }
    let spool = match folder {
        None => Spool::Memory(Vec::new()),
        Some(path) => {
            if path.exists() {
                fs::remove_dir_all(&path)?;
            }
            fs::create_dir_all(&path)?;
            Spool::Folder(path)
        }
    };
    let (height, app_hash) = (snapshot.height, request.app_hash.clone());
    Ok(Ok(Restoring { height, app_hash, hashes, next: 0, headers: Vec::new(), spool }))
}

impl Restoring {
    /// Takes the next chunk.
    pub fn apply(&mut self, request: request::ApplySnapshotChunk) -> io::Result<Step> {
        let index = request.index as usize;
        if index != self.next || self.hashes.get(index) != Some(&chunk_hash(&request.chunk)) {
            let reject_senders = if request.sender.is_empty() { vec![] } else { vec![request.sender] };
            let refetch_chunks = vec![self.next as u32];
            let result = Applied::Retry.into();
            return Ok(Step::Say(response::ApplySnapshotChunk { result, refetch_chunks, reject_senders }));
        }
        if index > 0 {
            self.spool.put(index, &request.chunk)?;
        } else if !self.take_headers(&request.chunk) {
            return Ok(Step::Say(say(Applied::RejectSnapshot)));
        }
        self.next += 1;
        if self.next < self.hashes.len() { Ok(Step::Say(say(Applied::Accept))) } else { Ok(Step::Whole) }
    }

    fn take_headers(&mut self, chunk: &Bytes) -> bool {
        let Ok(headers) = decode_headers(chunk) else { return false };
        let newest = &headers[0];
        let good = newest.number == self.height && app_hash(&newest.hash_slow()) == self.app_hash;
        // Hashes that are missing would be zero to contracts here and nowhere else.
        let all = newest.number.saturating_add(1).min(state::HASHES as u64) == headers.len() as u64;
        self.headers = headers;
        good && all
    }

    /// Gives a snapshot that is whole to the chain.
    pub fn give(self, chain: &Chain) -> Result<(), RestoreError> {
        let wrong = |what: String| RestoreError::Wrong(what);
        let (next, reader, entries) = (1, Reader::default(), VecDeque::new());
        let mut entries = Entries { restoring: &self, next, reader, entries, failed: false }.peekable();
        let mut block = Vec::new();
        while let Some(Ok(Entry::Block(piece))) = entries.next_if(|entry| matches!(entry, Ok(Entry::Block(_)))) {
            if block.len() + piece.len() > BLOCK_BYTES_MAX {
                return Err(wrong("a block that is too long".into()));
            }
            block.extend_from_slice(&piece);
        }
        let block = blocks::decode_foreign(&block, chain.chain_id()).map_err(|what| wrong(what.into()))?;
        let mut outputs = Loading::default();
        while let Some(Ok(Entry::Item(item))) = entries.next_if(|entry| matches!(entry, Ok(Entry::Item(_)))) {
            let taken = Item::decode(&item).and_then(|item| outputs.add(item).ok());
            taken.ok_or_else(|| wrong("an item of the outputs that cannot be there".into()))?;
        }
        let mut current = Address::ZERO;
        let entries = entries.flat_map(|entry| of_state(&mut current, entry));
        chain.restore(&self.headers, block, outputs, entries)
    }
}

/// What a state has of an entry: an account's code comes before it.
fn of_state(current: &mut Address, entry: Result<Entry, StateError>) -> Vec<Result<state::Entry, StateError>> {
    match entry {
        Ok(Entry::Account { address, nonce, balance, code }) => {
            *current = address;
            let code_hash = if code.is_empty() { KECCAK256_EMPTY } else { chunk_hash(&code) };
            let account = state::Entry::Account { address, account: Account { nonce, balance, code_hash } };
            let code = (!code.is_empty()).then(|| state::Entry::Code { hash: code_hash, code: code.into() });
            code.into_iter().chain([account]).map(Ok).collect()
        }
        Ok(Entry::Slot { slot, value }) => vec![Ok(state::Entry::Storage { address: *current, slot, value })],
        Ok(Entry::Block(_) | Entry::Item(_)) => vec![Err(StateError::BadEntry("an entry of another kind".into()))],
        Err(error) => vec![Err(error)],
    }
}

/// The entries of all chunks.
struct Entries<'a> {
    restoring: &'a Restoring,
    next: usize,
    reader: Reader,
    entries: VecDeque<Entry>,
    failed: bool,
}

impl Iterator for Entries<'_> {
    type Item = Result<Entry, StateError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.entries.is_empty() && self.next < self.restoring.hashes.len() && !self.failed {
            let Self { reader, entries, .. } = self;
            let chunk = self.restoring.spool.get(self.next).map_err(|error| error.to_string());
            let read = chunk.and_then(|chunk| {
                reader.read(&chunk, |entry| entries.push_back(entry)).map_err(|error| error.to_string())
            });
            self.next += 1;
            if let Err(what) = read {
                self.failed = true;
                return Some(Err(StateError::BadEntry(what)));
            }
        }
        self.entries.pop_front().map(Ok)
    }
}

/// An answer without more.
pub fn say(applied: Applied) -> response::ApplySnapshotChunk {
    response::ApplySnapshotChunk { result: applied.into(), ..Default::default() }
}
