//! Beginning from a peer's snapshot.
//!
//! Each chunk is checked against the hash that the offer named, the headers against the app hash that CometBFT's light
//! client vouches for, and the whole state, at the end, against the root in its header: a peer that lies is found out
//! at once for a chunk and at the latest then.
//!
//! reads   the offer; chunks, in order
//! memory  the state that is restored
//! drops   chunks that are not what was offered: asked for again, and their sender no more

use alloy_consensus::Header;
use alloy_primitives::{Address, B256};
use bytes::Bytes;
use hearth_abci::request;
use hearth_abci::response::{self, Applied, Offer};
use hearth_evm::state::{AccountChange, Changes};
use revm::bytecode::Bytecode;
use revm::state::AccountInfo;

use super::codec::{Entry, FORMAT, Reader, chunk_hash, decode_headers};
use super::store::{snapshot_hash, split};
use crate::app_hash::app_hash;

/// A snapshot may have so many chunks: CometBFT's own bound.
const CHUNKS_MAX: usize = 100_000;

/// A snapshot that was accepted and is not whole yet.
#[derive(Debug)]
pub struct Restoring {
    height: u64,
    app_hash: Bytes,
    hashes: Vec<B256>,
    next: usize,
    headers: Vec<Header>,
    reader: Reader,
    changes: Changes,
    account: Option<Address>,
}

/// A snapshot that is whole; the root of its state is still to be checked.
#[derive(Debug)]
pub struct Restored {
    /// Of the block and of those before it, newest first.
    pub headers: Vec<Header>,
    /// The state after it.
    pub changes: Changes,
}

/// What came of a chunk.
#[derive(Debug)]
pub enum Step {
    /// Go on, or try again: what CometBFT is to be told.
    Say(response::ApplySnapshotChunk),
    /// It was the last.
    Whole(Box<Restored>),
}

/// Looks at an offer.
pub fn offer(request: &request::OfferSnapshot) -> Result<Restoring, Offer> {
    let snapshot = request.snapshot.as_ref().ok_or(Offer::Reject)?;
    if snapshot.format != FORMAT {
        return Err(Offer::RejectFormat);
    }
    let hashes = split(&snapshot.metadata).ok_or(Offer::Reject)?;
    let fits = hashes.len() == snapshot.chunks as usize && (2..=CHUNKS_MAX).contains(&hashes.len());
    if !fits || snapshot_hash(&hashes).as_slice() != &snapshot.hash[..] || request.app_hash.len() != 32 {
        return Err(Offer::Reject);
    }
    Ok(Restoring {
        height: snapshot.height,
        app_hash: request.app_hash.clone(),
        hashes,
        next: 0,
        headers: Vec::new(),
        reader: Reader::default(),
        changes: Changes::default(),
        account: None,
    })
}

impl Restoring {
    /// Takes the next chunk.
    pub fn apply(&mut self, request: request::ApplySnapshotChunk) -> Step {
        let index = request.index as usize;
        if index != self.next || self.hashes.get(index) != Some(&chunk_hash(&request.chunk)) {
            let reject_senders = if request.sender.is_empty() { vec![] } else { vec![request.sender] };
            let refetch_chunks = vec![self.next as u32];
            return Step::Say(response::ApplySnapshotChunk {
                result: Applied::Retry.into(),
                refetch_chunks,
                reject_senders,
            });
        }
        let good = if index == 0 { self.take_headers(&request.chunk) } else { self.take_entries(&request.chunk) };
        if !good {
            return Step::Say(say(Applied::RejectSnapshot));
        }
        self.next += 1;
        if self.next < self.hashes.len() {
            return Step::Say(say(Applied::Accept));
        }
        let (headers, changes) = (std::mem::take(&mut self.headers), std::mem::take(&mut self.changes));
        Step::Whole(Box::new(Restored { headers, changes }))
    }

    fn take_headers(&mut self, chunk: &Bytes) -> bool {
        let Ok(headers) = decode_headers(chunk) else { return false };
        let newest = &headers[0];
        let good = newest.number == self.height && app_hash(&newest.hash_slow()) == self.app_hash;
        self.headers = headers;
        good
    }

    fn take_entries(&mut self, chunk: &Bytes) -> bool {
        let Self { reader, changes, account: current, .. } = self;
        let read = reader.read(chunk, |entry| match entry {
            Entry::Account { address, nonce, balance, code } => {
                let mut info = AccountInfo { nonce, balance, ..Default::default() };
                if !code.is_empty() {
                    info.code_hash = chunk_hash(&code);
                    info.code = Some(Bytecode::new_raw(code.into()));
                }
                *current = Some(address);
                changes.accounts.insert(address, AccountChange { info: Some(info), ..Default::default() });
            }
            Entry::Slot { slot, value } => {
                // The reader lets no slot come before an account.
                if let Some(change) = current.and_then(|address| changes.accounts.get_mut(&address)) {
                    change.storage.insert(slot, value);
                }
            }
        });
        read.is_ok()
    }
}

/// An answer without more.
pub fn say(applied: Applied) -> response::ApplySnapshotChunk {
    response::ApplySnapshotChunk { result: applied.into(), ..Default::default() }
}

#[cfg(test)]
mod tests {
    use alloy_primitives::U256;
    use hearth_abci::types::Snapshot;

    use super::super::store::Store;
    use super::*;

    fn chain(newest: u64) -> Vec<Header> {
        let mut headers = vec![Header { number: newest - 3, ..Default::default() }];
        for number in newest - 2..=newest {
            headers.insert(0, Header { number, parent_hash: headers[0].hash_slow(), ..Default::default() });
        }
        headers
    }

    fn taken() -> (tempfile::TempDir, Store, request::OfferSnapshot) {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path(), 1).unwrap();
        let entry = |byte: u8| {
            let code = if byte == 7 { Bytes::from_static(&[0x60, 0]) } else { Bytes::new() };
            let (address, balance) = (Address::repeat_byte(byte), U256::from(byte));
            let account = Entry::Account { address, nonce: 1, balance, code };
            [account, Entry::Slot { slot: U256::from(3), value: U256::from(byte) }]
        };
        let headers = chain(30);
        store.take(&headers, (1..50).flat_map(entry)).unwrap();
        let snapshot = store.list().pop();
        let request = request::OfferSnapshot { snapshot, app_hash: app_hash(&headers[0].hash_slow()) };
        (folder, store, request)
    }

    fn chunk(store: &Store, index: u32) -> request::ApplySnapshotChunk {
        request::ApplySnapshotChunk { index, chunk: store.chunk(30, FORMAT, index).unwrap(), sender: "peer".into() }
    }

    #[test]
    fn a_snapshot_comes_back() {
        let (_folder, store, request) = taken();
        let mut restoring = offer(&request).unwrap();
        let first = restoring.apply(chunk(&store, 0));
        assert!(matches!(first, Step::Say(say) if say.result() == Applied::Accept));
        let Step::Whole(restored) = restoring.apply(chunk(&store, 1)) else { panic!("two chunks") };
        assert_eq!(restored.headers, chain(30));
        assert_eq!(restored.changes.accounts.len(), 49);
        let seven = &restored.changes.accounts[&Address::repeat_byte(7)];
        assert_eq!(seven.storage[&U256::from(3)], U256::from(7));
        assert!(seven.info.as_ref().unwrap().code.is_some());
    }

    #[test]
    fn what_was_not_offered_is_refused() {
        let (_folder, store, request) = taken();
        let with = |change: &dyn Fn(&mut Snapshot)| {
            let mut request = request.clone();
            change(request.snapshot.as_mut().unwrap());
            offer(&request).unwrap_err()
        };
        assert_eq!(with(&|snapshot| snapshot.format = 9), Offer::RejectFormat);
        assert_eq!(with(&|snapshot| snapshot.chunks = 1), Offer::Reject);
        assert_eq!(with(&|snapshot| snapshot.hash = Bytes::from_static(&[1; 32])), Offer::Reject);
        assert_eq!(with(&|snapshot| snapshot.metadata = Bytes::from_static(&[1; 33])), Offer::Reject);
        assert_eq!(offer(&request::OfferSnapshot::default()).unwrap_err(), Offer::Reject);

        let mut restoring = offer(&request).unwrap();
        let other = request::ApplySnapshotChunk { chunk: Bytes::from_static(b"else"), ..chunk(&store, 0) };
        let Step::Say(say) = restoring.apply(other) else { panic!("it is not whole") };
        assert_eq!(
            (say.result(), &say.refetch_chunks[..], &say.reject_senders[0][..]),
            (Applied::Retry, &[0][..], "peer")
        );
        // The right chunk still does.
        assert!(matches!(restoring.apply(chunk(&store, 0)), Step::Say(say) if say.result() == Applied::Accept));

        let mut of_another_block =
            offer(&request::OfferSnapshot { app_hash: [1; 32].to_vec().into(), ..request }).unwrap();
        let Step::Say(say) = of_another_block.apply(chunk(&store, 0)) else { panic!("it is not whole") };
        assert_eq!(say.result(), Applied::RejectSnapshot);
    }
}
