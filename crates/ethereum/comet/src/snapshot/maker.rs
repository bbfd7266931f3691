//! Makes snapshots at regular heights while the chain runs.
//!
//! reads   the chain after a block, through immutable views of both ledgers
//! writes  the store of snapshots
//! memory  one chunk; changes that the chain makes meanwhile; the keys of one part of the state
//! drops   a snapshot that is due while another is being written, and one that cannot be written: counted

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use bytes::Bytes;
use hearth_evm::blocks;
use hearth_evm::chain::{Chain, ChainSnapshot};
use hearth_evm::state;
use parking_lot::Mutex;

use super::codec::{Entry, PIECE_BYTES_MAX};
use super::store::Store;

/// Makes snapshots; ends when dropped.
pub struct Maker {
    store: Arc<Store>,
    interval: u64,
    shared: Arc<Shared>,
    frozen: Mutex<Option<SyncSender<ChainSnapshot>>>,
    thread: Option<JoinHandle<()>>,
}

/// State that the thread shares with the application.
#[derive(Debug, Default)]
struct Shared {
    busy: AtomicBool,
    stopping: AtomicBool,
    left_out: AtomicU64,
}

impl Maker {
    /// Starts the thread: a snapshot at each height that `interval` divides (0: none); `kept` of them stay in `folder`.
    pub fn start(folder: &Path, interval: u64, kept: usize) -> io::Result<Self> {
        let store = Arc::new(Store::open(folder, kept)?);
        let shared = Arc::new(Shared::default());
        let (sender, frozen) = sync_channel(1);
        let (to, status) = (store.clone(), shared.clone());
        let thread = thread::Builder::new().name("snapshot".into()).spawn(move || run(&to, &status, &frozen))?;
        Ok(Self { store, interval, shared, frozen: Mutex::new(Some(sender)), thread: Some(thread) })
    }

    /// The store of finished snapshots.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Snapshots that were due and were not made.
    pub fn left_out(&self) -> u64 {
        self.shared.left_out.load(Ordering::Relaxed)
    }

    /// After the commit of block `number`, before the next: takes hold of the chain as it is where a snapshot is due.
    pub fn committed(&self, chain: &Chain, number: u64) {
        if self.interval == 0 || !number.is_multiple_of(self.interval) {
            return;
        }
        let frozen = match self.shared.busy.swap(true, Ordering::AcqRel) {
            true => Err("another is being written".to_owned()),
            false => chain.freeze().map_err(|error| {
                self.shared.busy.store(false, Ordering::Release);
                error.to_string()
            }),
        };
        let sender = self.frozen.lock();
        let is_sent = match (frozen, &*sender) {
            // The thread may have panicked.
            (Ok(Some(frozen)), Some(sender)) => sender.send(frozen).is_ok(),
            (Ok(_), _) => false,
            (Err(why), _) => {
                tracing::warn!(number, %why, "a snapshot is left out");
                self.shared.left_out.fetch_add(1, Ordering::Relaxed);
                return;
            }
        };
        if !is_sent {
            self.shared.busy.store(false, Ordering::Release);
            self.shared.left_out.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Maker {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Relaxed);
        drop(self.frozen.lock().take());
        if let Some(thread) = self.thread.take() {
            // A panic in the thread has already been reported.
            let _ = thread.join();
        }
    }
}

fn run(store: &Store, shared: &Shared, frozen: &Receiver<ChainSnapshot>) {
    while let Ok(frozen) = frozen.recv() {
        let busy = Busy(shared);
        let number = frozen.block.number();
        let headers = frozen.headers.clone();
        let stop = |entry: io::Result<Entry>| match shared.stopping.load(Ordering::Relaxed) {
            true => Err(io::Error::other("the program ends")),
            false => entry,
        };
        if let Err(error) = store.take(&headers, entries(frozen).map(stop), || drop(busy)) {
            shared.left_out.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(number, %error, "a snapshot was not written");
        }
    }
}

/// A snapshot is being written: however that ends, the next can be.
struct Busy<'a>(&'a Shared);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.busy.store(false, Ordering::Release);
    }
}

/// The entries of a snapshot.
pub fn entries(frozen: ChainSnapshot) -> impl Iterator<Item = io::Result<Entry>> {
    let ChainSnapshot { block, view, side, .. } = frozen;
    let block = Bytes::from(blocks::encode(&block));
    let pieces = (0..block.len()).step_by(PIECE_BYTES_MAX).map(move |from| {
        let to = block.len().min(from + PIECE_BYTES_MAX);
        Ok(Entry::Block(block.slice(from..to)))
    });
    let items = side.into_iter().flatten().map(|item| match item {
        Ok(item) => Ok(Entry::Item(item.0)),
        Err(error) => Err(io::Error::other(error)),
    });
    let state = view.sorted().filter_map(move |entry| match entry {
        state::Entry::Account { address, account } => {
            let code = view.code(&account.code_hash).unwrap_or_default();
            let (nonce, balance) = (account.nonce, account.balance);
            Some(Ok(Entry::Account { address, nonce, balance, code: code.0 }))
        }
        state::Entry::Storage { slot, value, .. } => Some(Ok(Entry::Slot { slot, value })),
        state::Entry::Code { .. } => None,
    });
    pieces.chain(items).chain(state)
}
