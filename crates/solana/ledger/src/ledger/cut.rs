//! cut: the state at a slot's end for a snapshot, and a ledger that goes on from one.
//!
//! reads   the ledger between two slots; a loaded snapshot
//! writes  a manifest; a ledger
//! memory  the manifest, about 50 KB
//! source  snapshot/mod.rs

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::{Chain, Ledger, LedgerConfig, RECENT_BLOCKS, State};
use crate::bank_hash::{Hashes, Hashing};
use crate::blockhash::BlockhashQueue;
use crate::commitment::Commitment;
use crate::epoch::EpochSchedule;
use crate::epochs::Epochs;
use crate::genesis::Genesis;
use crate::snapshot::{Cut, Loaded, Manifest, Snapshots};

/// Accounts that are hashed in one go by the thread that writes snapshots.
const HASH_AT_ONCE: usize = 1000;

impl Ledger {
    /// The ledger as a snapshot of the same genesis has it: its block has ended, the next slot may begin.
    pub fn restore(genesis: &Genesis, config: LedgerConfig, loaded: Loaded) -> Arc<Self> {
        let Loaded { accounts, statuses, manifest, .. } = loaded;
        let height = manifest.last().height;
        let hashing = Hashing::restore(&accounts, manifest.hashes, config.hash_accounts);
        accounts.note_changes();
        let schedule = EpochSchedule::without_warmup(genesis.config().slots_per_epoch);
        let state = State {
            accounts,
            statuses,
            hashing,
            blockhashes: BlockhashQueue::restore(&manifest.blockhashes, height),
            blocks: VecDeque::from(manifest.blocks),
            epochs: Epochs::restore(schedule, manifest.epochs),
            samples: manifest.samples,
            burned_lamports: manifest.burned_lamports,
        };
        Self::assemble(genesis, (config.general, config.forks), state)
    }

    /// Has snapshots taken from now on. The first given stays.
    pub(crate) fn take_snapshots(&self, snapshots: Arc<Snapshots>) {
        let _ = self.snapshots.set(snapshots);
    }

    /// The snapshots, when they are taken.
    pub fn snapshots(&self) -> Option<&Arc<Snapshots>> {
        self.snapshots.get()
    }

    /// The hashes that the bank of `slot` ended with, once they are known, for the snapshot that was cut there; works
    /// towards them where nobody else does.
    pub(crate) fn cut_hashes(&self, slot: u64) -> Option<Hashes> {
        self.hash_some(HASH_AT_ONCE);
        self.shared.hashing.kept(slot)
    }

    /// Whether the block of `slot` stays for good: it is confirmed, or, where forks are kept, rooted. One that was
    /// undone must not be asked for.
    pub(crate) fn is_settled(&self, slot: u64) -> bool {
        let level = if self.shared.keeps_forks { Commitment::Finalized } else { Commitment::Confirmed };
        self.block(&self.chain(), level).slot >= slot
    }

    /// At the end of a slot, before the next may begin: cuts when a snapshot is due.
    pub(super) fn cut_if_due(&self, chain: &Chain) {
        let Some(snapshots) =
            self.snapshots.get().filter(|snapshots| snapshots.is_due(chain.last().slot, chain.last().parent))
        else {
            return;
        };
        self.shared.accounts.cut();
        self.shared.statuses.cut();
        self.shared.hashing.keep(chain.last().slot);
        let older = chain.blocks.len().saturating_sub(RECENT_BLOCKS);
        let manifest = Manifest {
            blocks: chain.blocks.iter().skip(older).copied().collect(),
            blockhashes: chain.blockhashes.by_age().copied().collect(),
            block_id: [0; 32],
            hashes: Hashes::default(),
            epochs: chain.epochs.kept(),
            samples: chain.samples.clone(),
            burned_lamports: self.burned_lamports.load(Relaxed),
        };
        snapshots.take(Cut { manifest });
    }
}
