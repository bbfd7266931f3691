//! snapshot_view: captures the state at a slot's end for a snapshot, and restores a ledger from one.
//!
//! reads   the ledger between two slots; a loaded snapshot
//! writes  a manifest; a ledger
//! memory  the manifest, about 50 KB
//! source  snapshot/mod.rs

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::{Chain, Ledger, LedgerConfig, RECENT_BLOCKS, State};
use crate::accounts::DELETED_MAX;
use crate::bank_hash::{BankHasher, Hashes};
use crate::blockhash::BlockhashQueue;
use crate::commitment::Commitment;
use crate::epochs::Epochs;
use crate::features::ActiveFeatures;
use crate::genesis::Genesis;
use crate::snapshot::{Cut, DueArchive, LoadedSnapshot, Manifest, Snapshots};

/// Accounts that the snapshot thread hashes at a time.
const HASH_AT_ONCE: usize = 1000;

impl Ledger {
    /// Restores a ledger from a snapshot of the same genesis: its block has ended, and the next slot may begin. The
    /// hard forks are those of `config`: [`continued_snapshot`](crate::hard_forks::continued_snapshot) finds them.
    pub fn restore(genesis: &Genesis, config: LedgerConfig, loaded: LoadedSnapshot) -> Arc<Self> {
        let LoadedSnapshot { accounts, statuses, manifest, .. } = loaded;
        let height = manifest.last().height;
        let features = Arc::new(ActiveFeatures::load(&accounts, manifest.last().slot));
        let hashing = BankHasher::restore(&accounts, manifest.hashes, config.hash_accounts);
        accounts.note_changes();
        let schedule = genesis.config().epoch_schedule();
        let state = State {
            accounts,
            statuses,
            hashing,
            blockhashes: BlockhashQueue::restore(&manifest.blockhashes, height),
            blocks: VecDeque::from(manifest.blocks),
            epochs: Epochs::restore(schedule, manifest.epochs),
            features,
            samples: manifest.samples,
            burned_lamports: manifest.burned_lamports,
        };
        Self::assemble(genesis, config, state)
    }

    /// Enables snapshots. Only the first call has an effect.
    pub(crate) fn take_snapshots(&self, snapshots: Arc<Snapshots>) {
        let _ = self.snapshots.set(snapshots);
    }

    /// The snapshots, if they are enabled.
    pub fn snapshots(&self) -> Option<&Arc<Snapshots>> {
        self.snapshots.get()
    }

    /// The hashes at the end of `slot`, once they are known, for the snapshot that was cut there; helps compute them if
    /// no other thread does.
    pub(crate) fn cut_hashes(&self, slot: u64) -> Option<Hashes> {
        self.hash_some(HASH_AT_ONCE);
        self.shared.hashing.kept(slot)
    }

    /// Whether the block of `slot` is permanent: confirmed or, where forks are kept, rooted. It must not be a block
    /// that was undone.
    pub(crate) fn is_settled(&self, slot: u64) -> bool {
        let level = if self.shared.keeps_forks { Commitment::Finalized } else { Commitment::Confirmed };
        self.block(&self.chain(), level).slot >= slot
    }

    /// Makes a cut if a snapshot is due, at the end of a slot and before the next may begin.
    pub(super) fn cut_if_due(&self, chain: &Chain) {
        let Some(snapshots) = self.snapshots.get() else { return };
        let mut due = snapshots.due(chain.last().slot, chain.last().parent);
        if !due.own && due.archive.is_none() {
            return;
        }
        // What an archive says of transactions is in no snapshot: a start from one would let them land again.
        if self.shared.statuses.has_archived() {
            return;
        }
        let is_incremental = due.archive.is_some_and(|archive| archive.base().is_some());
        if is_incremental && self.shared.accounts.deleted_count() > DELETED_MAX {
            due.archive = Some(DueArchive::Full);
        }
        self.shared.accounts.cut();
        self.shared.statuses.cut();
        self.shared.hashing.keep(chain.last().slot);
        let older = chain.blocks.len().saturating_sub(RECENT_BLOCKS);
        let manifest = Manifest {
            blocks: chain.blocks.iter().skip(older).copied().collect(),
            blockhashes: chain.blockhashes.by_age().map(|(hash, price)| (*hash, price)).collect(),
            block_id: [0; 32],
            hashes: Hashes::default(),
            epochs: chain.epochs.kept(),
            samples: chain.samples.clone(),
            burned_lamports: self.burned_lamports.load(Relaxed),
            hard_forks: Some(self.hard_forks()),
        };
        let era = *chain.eras.back().expect("an era for each block");
        snapshots.take(Cut { manifest, features: Arc::clone(&chain.features), era, due });
    }
}
