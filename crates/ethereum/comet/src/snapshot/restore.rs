//! Starts a node from a peer's snapshot.
//!
//! Each chunk is checked against the hash in the offer, the headers against the app hash that CometBFT's light client
//! has verified, and at the end the block, the outputs and the state against that header. So a false chunk is detected
//! at once, and any other lie at the end.
//!
//! reads   the offer; chunks, in order
//! writes  the chunks to a folder, until the last is there; then the chain
//! memory  the current chunk, or all of them without a folder; at the end the restored state
//! drops   chunks that differ from the offer: requested again, and no more from that peer; the whole snapshot if a
//!         chunk holds an invalid entry, if there is no room for it, or if a block exceeds what its gas pays for

use std::collections::VecDeque;
use std::path::PathBuf;
use std::{fs, io};

use alloy_consensus::Header;
use alloy_primitives::{Address, B256, KECCAK256_EMPTY};
use bytes::Bytes;
use hearth_abci::request;
use hearth_abci::response::{self, ApplyChunkResult, Offer};
use hearth_evm::blocks;
use hearth_evm::chain::{Chain, RestoreError};
use hearth_evm::state::{self, Account, StateError};

use super::codec::{CHUNK_BYTES_MAX, Entry, FORMAT, Reader, chunk_hash, decode_headers};
use super::store::{snapshot_hash, split};
use crate::app_hash::app_hash;

/// Maximum number of chunks: at 4 MiB each, 64 GiB of state, which is held in memory.
const CHUNKS_MAX: usize = 1 << 14;

/// Chunks of a snapshot that is still incomplete, in memory or in files.
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
            // Leftovers are removed at the next start.
            let _ = fs::remove_dir_all(path);
        }
    }
}

/// A snapshot that was accepted and is not whole yet.
#[derive(Debug)]
pub struct PendingRestore {
    height: u64,
    app_hash: Bytes,
    hashes: Vec<B256>,
    next: usize,
    headers: Vec<Header>,
    /// Looks at chunks as they come.
    reader: Reader,
    spool: Spool,
}

/// Outcome of a chunk.
#[derive(Debug)]
pub enum Step {
    /// Go on, or try again: the response for CometBFT.
    Say(response::ApplySnapshotChunk),
    /// The chunk was the last: see [`PendingRestore::give`].
    Whole,
}

/// Judges an offer. Chunks go to a folder, which is recreated, or stay in memory.
pub fn offer(request: &request::OfferSnapshot, folder: Option<PathBuf>) -> io::Result<Result<PendingRestore, Offer>> {
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
    Ok(Ok(PendingRestore { height, app_hash, hashes, next: 0, headers: Vec::new(), reader: Reader::default(), spool }))
}

impl PendingRestore {
    /// Takes the next chunk.
    pub fn apply(&mut self, request: request::ApplySnapshotChunk) -> io::Result<Step> {
        let index = request.index as usize;
        if index != self.next || self.hashes.get(index) != Some(&chunk_hash(&request.chunk)) {
            let reject_senders = if request.sender.is_empty() { vec![] } else { vec![request.sender] };
            let refetch_chunks = vec![self.next as u32];
            let result = ApplyChunkResult::Retry.into();
            return Ok(Step::Say(response::ApplySnapshotChunk { result, refetch_chunks, reject_senders }));
        }
        if index > 0 {
            if let Err(why) = self.keep(index, &request.chunk) {
                tracing::warn!(height = self.height, index, why, "a snapshot is given up");
                return Ok(Step::Say(say(ApplyChunkResult::RejectSnapshot)));
            }
        } else if !self.take_headers(&request.chunk) {
            return Ok(Step::Say(say(ApplyChunkResult::RejectSnapshot)));
        }
        self.next += 1;
        if self.next < self.hashes.len() { Ok(Step::Say(say(ApplyChunkResult::Accept))) } else { Ok(Step::Whole) }
    }

    /// Keeps a chunk that can be one of a snapshot.
    fn keep(&mut self, index: usize, chunk: &Bytes) -> Result<(), String> {
        if chunk.len() > CHUNK_BYTES_MAX {
            return Err(format!("a chunk of {} bytes", chunk.len()));
        }
        self.reader.read(chunk, drop).map_err(|error| error.to_string())?;
        self.spool.put(index, chunk).map_err(|error| error.to_string())
    }

    fn take_headers(&mut self, chunk: &Bytes) -> bool {
        let Ok(headers) = decode_headers(chunk) else { return false };
        let newest = &headers[0];
        let good = newest.number == self.height && app_hash(&newest.hash_slow()) == self.app_hash;
        // Missing hashes would read as zero in contracts on this node only.
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
        let block_bytes_max = blocks::foreign_bytes_max(&self.headers[0]);
        while let Some(Ok(Entry::Block(piece))) = entries.next_if(|entry| matches!(entry, Ok(Entry::Block(_)))) {
            if (block.len() + piece.len()) as u64 > block_bytes_max {
                return Err(wrong("a block that is too long".into()));
            }
            block.extend_from_slice(&piece);
        }
        let block =
            blocks::decode_foreign(&block, &self.headers[0], chain.chain_id()).map_err(|what| wrong(what.into()))?;
        let mut side = chain.side().map(|side| side.set());
        while let Some(Ok(Entry::Item(item))) = entries.next_if(|entry| matches!(entry, Ok(Entry::Item(_)))) {
            if !side.as_mut().is_some_and(|set| set.add(&item)) {
                return Err(wrong("an item of the outputs that cannot be there".into()));
            }
        }
        let mut current = Address::ZERO;
        let entries = entries.flat_map(|entry| of_state(&mut current, entry));
        chain.restore(&self.headers, block, side, entries)
    }
}

/// Converts an entry to the state's form: an account's code precedes it.
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

/// Iterator over the entries of all chunks.
struct Entries<'a> {
    restoring: &'a PendingRestore,
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
pub fn say(applied: ApplyChunkResult) -> response::ApplySnapshotChunk {
    response::ApplySnapshotChunk { result: applied.into(), ..Default::default() }
}

#[cfg(test)]
mod tests {
    use hearth_abci::types::Snapshot;

    use super::*;
    use crate::snapshot::codec::encode_headers;

    /// Applies all chunks; returns the outcome of the last.
    fn last(
        chunks: &[Bytes],
        headers: &[Header],
        folder: Option<PathBuf>,
        before_last: impl FnOnce(),
    ) -> ApplyChunkResult {
        let all: Vec<Bytes> = [encode_headers(headers)].into_iter().chain(chunks.iter().cloned()).collect();
        let hashes: Vec<B256> = all.iter().map(|chunk| chunk_hash(chunk)).collect();
        let snapshot = Snapshot {
            height: headers[0].number,
            format: FORMAT,
            chunks: all.len() as u32,
            hash: Bytes::copy_from_slice(snapshot_hash(&hashes).as_slice()),
            metadata: hashes.iter().flat_map(|hash| hash.0).collect::<Vec<_>>().into(),
        };
        let app_hash = app_hash(&headers[0].hash_slow());
        let request = request::OfferSnapshot { snapshot: Some(snapshot), app_hash };
        let mut restoring = offer(&request, folder).unwrap().unwrap();
        let mut give = |index: usize| {
            let request =
                request::ApplySnapshotChunk { index: index as u32, chunk: all[index].clone(), ..Default::default() };
            match restoring.apply(request).unwrap() {
                Step::Say(said) => ApplyChunkResult::try_from(said.result).unwrap(),
                Step::Whole => ApplyChunkResult::Accept,
            }
        };
        assert!((0..all.len() - 1).all(|index| give(index) == ApplyChunkResult::Accept));
        before_last();
        give(all.len() - 1)
    }

    #[test]
    fn a_chunk_that_no_snapshot_has_ends_it_at_once() {
        let (headers, whole) = ([Header::default()], Bytes::from_static(&[3, 0, 0, 0, 1, 7]));
        let last = |chunks: &[Bytes]| last(chunks, &headers, None, || ());
        assert_eq!(last(std::slice::from_ref(&whole)), ApplyChunkResult::Accept);
        assert_eq!(last(&[whole.clone(), Bytes::from_static(&[3, 0, 0, 0, 0])]), ApplyChunkResult::RejectSnapshot);
        assert_eq!(last(&[whole.clone(), Bytes::from_static(&[9])]), ApplyChunkResult::RejectSnapshot);
        // An account after which the block continues.
        let account = [&[1][..], &[0; 20 + 8 + 32 + 4]].concat();
        assert_eq!(last(&[account.clone().into()]), ApplyChunkResult::Accept);
        assert_eq!(last(&[account.clone().into(), whole]), ApplyChunkResult::RejectSnapshot);
        let long = vec![[&account[..1], &[2; 20], &account[21..]].concat(); 1 + CHUNK_BYTES_MAX / 65].concat();
        assert_eq!(last(&[long.into()]), ApplyChunkResult::RejectSnapshot);
    }

    #[test]
    fn a_chunk_that_there_is_no_room_for_ends_the_snapshot_and_not_the_node() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("incoming");
        let chunks = [Bytes::from_static(&[3, 0, 0, 0, 1, 7]), Bytes::from_static(&[3, 0, 0, 0, 1, 8])];
        let without = || fs::remove_dir_all(&at).unwrap();
        assert_eq!(last(&chunks, &[Header::default()], Some(at.clone()), without), ApplyChunkResult::RejectSnapshot);
    }
}
