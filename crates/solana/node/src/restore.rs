//! The state to start from: the newest valid snapshot, else the genesis.
//!
//! reads   the snapshot folder
//! writes  renames an unusable snapshot to `SLOT.refused`, so that it is neither tried nor counted again
//! memory  the ledger
//! drops   nothing: each unused snapshot is reported, with the reason

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hearth_ledger::hard_forks::shred_version_with;
use hearth_ledger::ledger::LedgerConfig;
use hearth_ledger::snapshot::{self, Folder, SnapshotConfig, SnapshotError, Snapshots};
use hearth_ledger::snapshot_taker::{SnapshotEvent, Taker};
use hearth_ledger::{Forks, Genesis, Ledger, StatusCacheConfig, blockstore};

use hearth_svm::Svm;

use crate::config::Config;

/// The state before blocks are replayed.
pub struct Restored {
    /// The restored ledger.
    pub ledger: Arc<Ledger>,
    /// The id of its last block; `None` at genesis.
    pub block_id: Option<[u8; 32]>,
}

impl Restored {
    /// The slot of the state.
    pub fn slot(&self) -> u64 {
        self.ledger.recent_blocks(1)[0].slot
    }
}

/// The snapshot folder of a chain.
pub fn folder(config: &Config, chain: &Path) -> PathBuf {
    let given = config.expand(&config.snapshots.path);
    if given.as_os_str().is_empty() { chain.join("snapshots") } else { given }
}

/// The ledger's configuration.
pub fn ledger_config(config: &Config) -> LedgerConfig {
    let enabled = !config.development.bench.disable_status_cache;
    let status_cache = StatusCacheConfig { enabled, capacity_txns: config.rpc.status_capacity };
    LedgerConfig {
        status_cache,
        general: Box::new(Svm::with_log_bytes(config.rpc.log_messages_bytes_limit)),
        forks: config.gossip.enabled.then(Forks::default),
        hard_forks: config.consensus.hard_forks.clone(),
        ..LedgerConfig::default()
    }
}

/// The shred version of the configured chain, with its hard forks.
pub fn shred_version(config: &Config, genesis: &Genesis) -> u16 {
    shred_version_with(genesis.hash(), &config.consensus.hard_forks)
}

/// The state of the newest valid snapshot in `folder`, or of the genesis if there is none. `refused` receives why each
/// newer snapshot is unusable.
pub fn newest(
    config: &Config,
    genesis: &Genesis,
    folder: &Path,
    refused: impl FnMut(&SnapshotError),
) -> Result<Restored, SnapshotError> {
    let newest = up_to(config, genesis, folder, u64::MAX, refused)?;
    Ok(newest.expect("a genesis is of no later slot"))
}

/// As [`newest`], among snapshots up to slot `highest`. `None` if the genesis is at a later slot.
pub fn up_to(
    config: &Config,
    genesis: &Genesis,
    folder: &Path,
    highest: u64,
    mut refused: impl FnMut(&SnapshotError),
) -> Result<Option<Restored>, SnapshotError> {
    let files = match Folder::existing(folder) {
        Some(folder) => folder.files()?,
        None => vec![],
    };
    for file in files.into_iter().filter(|file| file.slot <= highest) {
        let made = ledger_config(config);
        match snapshot::load(&file.path, genesis.hash(), &made.status_cache) {
            Ok(loaded) => {
                let block_id = Some(loaded.manifest.block_id);
                return Ok(Some(Restored { ledger: Ledger::restore(genesis, made, loaded), block_id }));
            }
            Err(why) => {
                refused(&why);
                // A failed rename does no harm: the next start refuses the snapshot again.
                let _ = std::fs::rename(&file.path, file.path.with_extension("refused"));
            }
        }
    }
    let is_late = genesis.config().genesis_slot > highest;
    Ok((!is_late).then(|| Restored { ledger: Ledger::new(genesis, ledger_config(config)), block_id: None }))
}

/// Starts taking snapshots, if they are configured.
pub fn take_snapshots(
    config: &Config,
    folder: &Path,
    ledger: &Arc<Ledger>,
    blocks: blockstore::Reader,
) -> Result<Option<Taker>, SnapshotError> {
    // Blocks that are not stored cannot be replayed, so such a chain does not survive a restart.
    if !config.snapshots.enabled || config.development.bench.disable_blockstore_from_slot > 0 {
        return Ok(None);
    }
    let when = SnapshotConfig {
        interval_slots: config.snapshots.full_snapshot_interval_slots,
        keep: config.snapshots.maximum_full_snapshots_to_retain,
    };
    // The pipeline has priority. If the thread cannot be made nicer it runs as it is.
    let prepare = || {
        let _ = rustix::process::nice(19);
    };
    let tell = |event| match event {
        SnapshotEvent::Taken { file, bytes, took } => {
            tracing::info!("snapshot {}: {bytes} bytes in {} ms", file.path.display(), took.as_millis());
        }
        SnapshotEvent::GivenUp { slot, why } => tracing::warn!("the snapshot of slot {slot} was given up: {why}"),
    };
    Taker::start(ledger, when, Folder::open(folder)?, blocks, prepare, tell).map(Some)
}

/// The slot of the newest snapshot, for the RPC.
pub fn newest_slot(snapshots: Option<&Arc<Snapshots>>) -> impl Fn() -> Option<u64> + Send + Sync + 'static {
    let snapshots = snapshots.cloned();
    move || snapshots.as_ref()?.newest_slot()
}
