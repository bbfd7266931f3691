//! The state to start from: the newest valid snapshot or archive of the cluster's, else the genesis.
//!
//! reads   the snapshot folder; archives there and in the ledger folder
//! writes  renames an unusable snapshot to `SLOT.refused`, so that it is neither tried nor counted again; progress on
//!         standard error while an archive is read
//! memory  the ledger
//! drops   nothing: each unused snapshot is reported, with the reason
//!
//! A snapshot of our own that is damaged is passed over: the blocks after an older state are here as well. An archive
//! is what the operator put there to start from, and those blocks are not: a start that cannot use it fails.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hearth_command::numbers::grouped;
use hearth_command::output::{note, plural};
use hearth_command::progress::{Progress as Shown, megabytes};
use hearth_ledger::archive::{ArchiveError, ArchiveName, Fault, Progress};
use hearth_ledger::archiver::{ArchiveConfig, Retention, WrittenArchive};
use hearth_ledger::genesis::read_hard_forks;
use hearth_ledger::hard_forks::{self, HardForkError};
use hearth_ledger::ledger::LedgerConfig;
use hearth_ledger::snapshot::{self, Folder, LoadedSnapshot, SnapshotConfig, SnapshotError, Snapshots};
use hearth_ledger::snapshot_taker::{SnapshotEvent, Taker};
use hearth_ledger::{Forks, Genesis, GenesisError, Ledger, StatusCacheConfig, blockstore};

use hearth_svm::Svm;

use crate::config::Config;

/// Why the state cannot be restored.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The snapshots cannot be read.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// The archives cannot be listed.
    #[error("cannot list {}: {source}", path.display())]
    List {
        /// The folder that was searched for archives.
        path: PathBuf,
        /// Why it cannot be listed, as the system says it.
        source: std::io::Error,
    },
    /// An archive that is newer than what is here cannot be used.
    #[error("cannot start from {0}; replace the archive, or remove it to start from an older state")]
    Archive(#[from] ArchiveError),
    /// An incremental archive is there without its full one, and nothing else to start from.
    #[error(
        "{} holds what changed since the full archive of slot {base}, which is not there: put that one, \
         snapshot-{base}-….tar.zst, beside it, or remove the file to begin at the genesis",
        path.display()
    )]
    NoBase {
        /// The path of the incremental archive.
        path: PathBuf,
        /// The slot of its full archive.
        base: u64,
    },
    /// The folder's hard forks cannot be read.
    #[error(transparent)]
    Genesis(#[from] GenesisError),
    /// The hard forks contradict a state.
    #[error(transparent)]
    HardForks(#[from] HardForkError),
    /// A hard fork is new, and the blocks after it exist.
    #[error(
        "the hard fork at slot {slot} (consensus.hard_forks, --hard-fork) is not after the newest final block, which is \
         of slot {newest} and was made without it: name a later slot, or remove it"
    )]
    LateHardFork {
        /// The slot of the fork.
        slot: u64,
        /// The slot of the newest final block.
        newest: u64,
    },
}

/// The hard forks of a chain, as far as they are declared: by its folder and by the configuration.
pub struct Declared {
    /// The hard forks that the folder names; `None` if it is new, or of a version that did not write them.
    stored: Option<Vec<u64>>,
    /// All, each slot as often as it counts.
    pub all: Vec<u64>,
}

impl Declared {
    /// Reads the hard forks of the chain in a ledger folder, and adds those of the configuration.
    ///
    /// # Errors
    /// The folder's file cannot be read.
    pub fn of(config: &Config, chain: &Path) -> Result<Self, GenesisError> {
        let stored = read_hard_forks(chain)?;
        let all = hard_forks::union(stored.as_deref().unwrap_or_default(), &config.consensus.hard_forks);
        Ok(Self { stored, all })
    }

    /// Fails if a fork that the folder does not know is in `(state, newest]`: the blocks there were made without it.
    /// Forks up to the state's slot are those of the state.
    ///
    /// # Errors
    /// The first such fork.
    pub fn check_new(&self, state: u64, newest: u64) -> Result<(), RestoreError> {
        let Some(stored) = &self.stored else { return Ok(()) };
        match hard_forks::first_new(&self.all, stored, (state, newest)) {
            Some(slot) => Err(RestoreError::LateHardFork { slot, newest }),
            None => Ok(()),
        }
    }
}

/// The state before blocks are replayed.
pub struct RestoredState {
    /// The ledger at the slot of the snapshot, or at genesis.
    pub ledger: Arc<Ledger>,
    /// The id of its last block; `None` at genesis.
    pub block_id: Option<[u8; 32]>,
}

impl RestoredState {
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

/// The folder of the archives that a running node writes. A start takes none from there: the node's own snapshots have
/// more, and the blocks after them are here.
pub fn archive_folder(config: &Config, chain: &Path) -> PathBuf {
    folder(config, chain).join("archives")
}

/// A state on disk. Whether it is valid is known only after reading it.
pub struct StateFile {
    /// The slot at whose end it was.
    pub slot: u64,
    form: Form,
}

/// The file or files of a state.
enum Form {
    Snapshot(PathBuf),
    Archive { full: PathBuf, incremental: Option<PathBuf> },
}

/// The folders in which a chain's states are.
pub struct StateFolders {
    snapshots: PathBuf,
    chain: PathBuf,
}

impl StateFolders {
    /// The folders of the chain in a ledger folder.
    pub fn of(config: &Config, chain: &Path) -> Self {
        Self { snapshots: folder(config, chain), chain: chain.into() }
    }

    /// The folder of our own snapshots.
    pub fn snapshots(&self) -> &Path {
        &self.snapshots
    }

    /// The states, the newest first; of one slot, our own snapshot first.
    pub fn states(&self) -> Result<Vec<StateFile>, RestoreError> {
        let own = Folder::existing(&self.snapshots).map_or(Ok(vec![]), |folder| folder.files())?;
        let own = own.into_iter().map(|file| StateFile { slot: file.slot, form: Form::Snapshot(file.path) });
        let mut states: Vec<StateFile> = own.collect();
        let archives = self.archives()?;
        for (full, name) in archives.iter().filter(|(_, name)| name.base.is_none()) {
            let form = |incremental| Form::Archive { full: full.clone(), incremental };
            states.push(StateFile { slot: name.slot, form: form(None) });
            let newer = archives.iter().filter(|(_, newer)| newer.base == Some(name.slot));
            states.extend(newer.map(|(path, newer)| StateFile { slot: newer.slot, form: form(Some(path.clone())) }));
        }
        // Archives come behind our own, and stay there among those of one slot.
        states.sort_by_key(|state| std::cmp::Reverse(state.slot));
        Ok(states)
    }

    /// Reports each incremental archive whose full one is missing.
    ///
    /// # Errors
    /// The first of these, unless `has_other`: there is a state or a block to continue from.
    pub fn check_bases(&self, has_other: bool) -> Result<(), RestoreError> {
        let archives = self.archives()?;
        let has_full = |slot: u64| archives.iter().any(|(_, name)| name.base.is_none() && name.slot == slot);
        for (path, name) in &archives {
            let Some(base) = name.base.filter(|base| !has_full(*base)) else { continue };
            if !has_other {
                return Err(RestoreError::NoBase { path: path.clone(), base });
            }
            note(format_args!(
                "notice: {} is not used: the full archive of slot {base}, snapshot-{base}-….tar.zst, is not there",
                path.display()
            ));
        }
        Ok(())
    }

    /// The archives, by name.
    pub fn archives(&self) -> Result<Vec<(PathBuf, ArchiveName)>, RestoreError> {
        let mut archives = vec![];
        let folders = [&self.snapshots, &self.chain];
        for path in folders.into_iter().filter(|path| path.is_dir()) {
            let list = |source| RestoreError::List { path: path.clone(), source };
            for entry in std::fs::read_dir(path).map_err(list)? {
                let file = entry.map_err(list)?.path();
                match ArchiveName::of_path(&file) {
                    Ok(name) => archives.push((file, name)),
                    Err(why @ Fault::Lz4) => note(format_args!("notice: {}: {why}", file.display())),
                    Err(_) => {}
                }
            }
        }
        archives.sort_by(|(a, _), (b, _)| a.cmp(b));
        // The two folders may be one.
        archives.dedup();
        Ok(archives)
    }
}

/// How far the reading of an archive is, as a text.
pub fn archive_progress(archive: &ArchiveName, progress: Progress) -> String {
    let Progress { packed, packed_total, accounts } = progress;
    let kind = if archive.base.is_some() { "incremental" } else { "full" };
    format!("{kind}: {}, {} {}", megabytes(packed, packed_total), grouped(accounts), plural(accounts, "account"))
}

/// The state in a full archive, and an incremental one that builds on it.
fn from_archive(
    config: &Config,
    genesis: &Genesis,
    hard_forks: Vec<u64>,
    (full, incremental): (&Path, Option<&Path>),
) -> Result<RestoredState, ArchiveError> {
    let newest = incremental.unwrap_or(full);
    note(format_args!("reading the state in {}", newest.display()));
    let mut shown = Shown::new();
    let mut progress = |archive: &ArchiveName, progress: Progress| {
        shown.tell(|| archive_progress(archive, progress));
    };
    let started = Ledger::from_archive(genesis, (full, incremental), ledger_config(config, hard_forks), &mut progress)?;
    Ok(RestoredState { ledger: started.ledger, block_id: Some(started.block_id) })
}

/// The state in a snapshot of our own. Its chain keeps the snapshot's hard forks.
pub fn from_snapshot(
    config: &Config,
    genesis: &Genesis,
    declared: &[u64],
    loaded: LoadedSnapshot,
) -> Result<RestoredState, HardForkError> {
    let (block_id, slot) = (Some(loaded.manifest.block_id), loaded.manifest.last().slot);
    let found = loaded.manifest.hard_forks.as_deref();
    let forks = hard_forks::continued_snapshot(slot, found, &loaded.accounts, declared)?;
    Ok(RestoredState { ledger: Ledger::restore(genesis, ledger_config(config, forks), loaded), block_id })
}

/// The state at the genesis.
pub fn from_genesis(config: &Config, genesis: &Genesis, declared: &[u64]) -> Result<RestoredState, HardForkError> {
    let forks = hard_forks::continued(genesis.config().genesis_slot, &[], declared)?;
    Ok(RestoredState { ledger: Ledger::new(genesis, ledger_config(config, forks)), block_id: None })
}

/// The configuration of the status cache.
pub fn status_cache(config: &Config) -> StatusCacheConfig {
    let enabled = !config.development.bench.disable_status_cache;
    StatusCacheConfig { enabled, capacity_txns: config.rpc.status_capacity }
}

/// The configuration of a ledger with these hard forks.
fn ledger_config(config: &Config, hard_forks: Vec<u64>) -> LedgerConfig {
    LedgerConfig {
        status_cache: status_cache(config),
        general: Box::new(Svm::with_log_bytes(config.rpc.log_messages_bytes_limit)),
        forks: config.gossip.enabled.then(Forks::default),
        hard_forks,
        ..LedgerConfig::default()
    }
}

/// The state of the newest valid snapshot or archive in these folders, or of the genesis if there is none. `refused`
/// receives why each newer snapshot is unusable.
pub fn newest(
    config: &Config,
    genesis: &Genesis,
    folders: &StateFolders,
    refused: impl FnMut(&SnapshotError),
) -> Result<RestoredState, RestoreError> {
    let newest = up_to(config, genesis, folders, u64::MAX, refused)?;
    Ok(newest.expect("a genesis is of no later slot"))
}

/// As [`newest`], among states up to slot `highest`. `None` if the genesis is at a later slot.
pub fn up_to(
    config: &Config,
    genesis: &Genesis,
    folders: &StateFolders,
    highest: u64,
    mut refused: impl FnMut(&SnapshotError),
) -> Result<Option<RestoredState>, RestoreError> {
    let declared = Declared::of(config, &folders.chain)?.all;
    for state in folders.states()?.into_iter().filter(|state| state.slot <= highest) {
        let path = match state.form {
            Form::Snapshot(path) => path,
            Form::Archive { full, incremental } => {
                return Ok(Some(from_archive(config, genesis, declared, (&full, incremental.as_deref()))?));
            }
        };
        match snapshot::load(&path, genesis.hash(), &status_cache(config)) {
            Ok(loaded) => return Ok(Some(from_snapshot(config, genesis, &declared, loaded)?)),
            Err(why) => {
                refused(&why);
                // A failed rename does no harm: the next start refuses the snapshot again.
                let _ = std::fs::rename(&path, path.with_extension("refused"));
            }
        }
    }
    let is_late = genesis.config().genesis_slot > highest;
    if is_late { Ok(None) } else { Ok(Some(from_genesis(config, genesis, &declared)?)) }
}

/// Starts taking snapshots, if they are configured, and writing archives, if these are: each is passed to `archived`.
pub fn take_snapshots(
    config: &Config,
    chain: &Path,
    (genesis, ledger): (&Genesis, &Arc<Ledger>),
    blocks: blockstore::Reader,
    archived: impl Fn() + Send + 'static,
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
    let tell = move |event| match event {
        SnapshotEvent::Taken { file, bytes, took } => {
            tracing::info!("snapshot {}: {bytes} bytes in {} ms", file.path.display(), took.as_millis());
        }
        SnapshotEvent::GivenUp { slot, why } => tracing::warn!("the snapshot of slot {slot} was given up: {why}"),
        SnapshotEvent::Archived { archive, took } => {
            let WrittenArchive { path, bytes, accounts, .. } = archive;
            let (path, ms) = (path.display(), took.as_millis());
            tracing::info!("archive {path}: {accounts} accounts, {bytes} bytes in {ms} ms");
            archived();
        }
        SnapshotEvent::ArchiveGivenUp { slot, why } => {
            tracing::warn!("the archive of slot {slot} was given up: {why}; the next is tried at its turn");
        }
    };
    let archives = archives(config, chain, genesis);
    Taker::start(ledger, when, archives, Folder::open(&folder(config, chain))?, blocks, prepare, tell).map(Some)
}

/// By what archives are written, if they are.
fn archives(config: &Config, chain: &Path, genesis: &Genesis) -> Option<ArchiveConfig> {
    let snapshots = &config.snapshots;
    snapshots.write_archives.then(|| ArchiveConfig {
        folder: archive_folder(config, chain),
        incremental_interval_slots: snapshots.incremental_snapshot_interval_slots,
        retention: Retention {
            full: snapshots.maximum_full_snapshots_to_retain,
            incremental: snapshots.maximum_incremental_snapshots_to_retain,
        },
        genesis: genesis.config().clone(),
    })
}

/// The slot of the newest snapshot, for the RPC.
pub fn newest_slot(snapshots: Option<&Arc<Snapshots>>) -> impl Fn() -> Option<u64> + Send + Sync + 'static {
    let snapshots = snapshots.cloned();
    move || snapshots.as_ref()?.newest_slot()
}
