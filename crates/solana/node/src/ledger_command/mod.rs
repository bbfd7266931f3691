//! `hearth ledger`: inspects a chain on disk while no node runs on it.
//!
//! reads   genesis, blocks and snapshots of a ledger folder
//! writes  only what each start would: a torn record at the end of the blocks is truncated. `tower` writes a tower if
//!         instructed, `snapshot create` an archive
//! memory  one block; `verify`, `replay` and `snapshot create` the state too; `snapshot verify` a slot an account
//! drops   nothing: every problem is reported with its place, and makes the exit code 1

mod command;
mod create;
mod export;
mod replay;
mod snapshot;
mod tower;
mod verify;

use std::path::{Path, PathBuf};

use hearth_command::exit_code::{ExitCode, FAILED, UNSUPPORTED_CHAIN};
use hearth_command::output::CommandOutput;
use hearth_command::shell;
use hearth_ledger::archive::ArchiveError;
use hearth_ledger::archiver::StatusesError;
use hearth_ledger::blockstore::{self, Block, BlockStore, Reader, Recovery, SlotInfo, StoreError, SyncPolicy};
use hearth_ledger::genesis::GENESIS_NAME;
use hearth_ledger::history::HistoryError;
use hearth_ledger::snapshot::{Folder, SnapshotError, SnapshotFile};
use hearth_ledger::{FeatureError, Genesis, GenesisError};
use hearth_wire::entry::EntryError;

use crate::config::{Config, ConfigError, ConfigFile};
use crate::recorded::{self, RecordedError};
use crate::replay::{ReplayError, is_history_damaged, is_replay_of_damage, is_replay_of_unsupported, is_store_damaged};
use crate::restore::{self, RestoreError};
use command::Slots;
pub use command::{Command, SnapshotCommand, TowerCommand};

/// Why a chain cannot be inspected.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// There is no chain.
    #[error(
        "there is no chain in {}: `hearth run{options}` begins one; --ledger, --name or --config says which is meant",
        folder.display()
    )]
    NoChain {
        /// The folder that was searched.
        folder: PathBuf,
        /// The options that select it.
        options: String,
    },
    /// The range of slots is empty.
    #[error("--from {from} is after --to {to}")]
    Range {
        /// First slot of the range.
        from: u64,
        /// Last slot of the range.
        to: u64,
    },
    /// The configuration is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The genesis cannot be read.
    #[error(transparent)]
    Genesis(#[from] GenesisError),
    /// The blocks cannot be read, or a node runs on them.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The history cannot be read.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// The snapshots cannot be read.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// The chain has other features than this program.
    #[error("cannot run this chain: {0}")]
    Feature(#[from] FeatureError),
    /// The blocks cannot be replayed.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// Recorded ledgers cannot be read, or differ.
    #[error(transparent)]
    Recorded(#[from] RecordedError),
    /// A block is not a valid sequence of entries.
    #[error("slot {slot}: {source}")]
    Entries {
        /// The slot of that block.
        slot: u64,
        /// Why its bytes are not valid entries.
        source: EntryError,
    },
    /// There is no such snapshot.
    #[error("there is no snapshot of slot {slot} in {}; there are those of {there}", folder.display())]
    NoSnapshot {
        /// The slot whose snapshot was requested.
        slot: u64,
        /// The folder that was searched.
        folder: PathBuf,
        /// The slots of the existing snapshots.
        there: String,
    },
    /// The tower cannot be shown, imported or exported.
    #[error(transparent)]
    Tower(#[from] tower::TowerFailure),
    /// An archive of a snapshot is not what its name says, or cannot be read.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The state from which to go on cannot be read.
    #[error(transparent)]
    Restore(#[from] RestoreError),
    /// There is no block whose state can be written.
    #[error(
        "the state of slot {slot} cannot be written: no leader's block of that slot is here, or the stored blocks do \
         not lead there; the last one is of slot {last}"
    )]
    NoBlock {
        /// The slot whose state was requested.
        slot: u64,
        /// The slot of the last block that is there.
        last: u64,
    },
    /// The block may still be left for another fork, or was.
    #[error("the state of slot {slot} cannot be written: that is no final block; the newest one is of slot {root}")]
    NotFinal {
        /// The slot whose state was requested.
        slot: u64,
        /// The newest final slot.
        root: u64,
    },
    /// The results of a block's transactions, which an archive needs, are not known.
    #[error("no archive can be written: {0}")]
    NoStatuses(StatusesError),
    /// A file cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The path of that file.
        path: PathBuf,
        /// Why it cannot be written, as the system says it.
        source: std::io::Error,
    },
    /// The chain has problems, which were reported.
    #[error("{} wrong with this chain; {}", problem_count(*count), recovery_advice(options))]
    Wrong {
        /// Number of problems, all of them reported before.
        count: u64,
        /// The options that select this chain, each preceded by a space.
        options: String,
    },
    /// Files of the chain are damaged.
    #[error("{damage}. {}", to_do(options, *by_verify))]
    Damaged {
        /// The error that found the damage.
        damage: Box<LedgerError>,
        /// The options that select this chain, each preceded by a space.
        options: String,
        /// Whether `verify` found it.
        by_verify: bool,
    },
}

impl ExitCode for LedgerError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Feature(_) => UNSUPPORTED_CHAIN,
            Self::Replay(why) if is_replay_of_unsupported(why) => UNSUPPORTED_CHAIN,
            _ => FAILED,
        }
    }
}

impl From<StatusesError> for LedgerError {
    fn from(why: StatusesError) -> Self {
        match why {
            StatusesError::Store(source) => Self::Store(source),
            StatusesError::Entries { slot, source } => Self::Entries { slot, source },
            why @ StatusesError::Unknown { .. } => Self::NoStatuses(why),
        }
    }
}

impl LedgerError {
    /// Adds advice if files of the chain are damaged.
    fn with_advice(self, config: &Config, by_verify: bool) -> Self {
        let is_damage = match &self {
            Self::Genesis(error) => error.is_damage(),
            Self::Store(error) => is_store_damaged(error),
            Self::History(error) => is_history_damaged(error),
            Self::Replay(error) => is_replay_of_damage(error),
            Self::Snapshot(error) => matches!(error, SnapshotError::Damaged { .. }),
            Self::Entries { .. } => true,
            _ => false,
        };
        if !is_damage {
            return self;
        }
        Self::Damaged { damage: Box::new(self), options: options(config), by_verify }
    }

    /// The same for a chain whose configuration is in `file`: the commands in its advice name the file, too.
    fn of_file(mut self, file: &ConfigFile) -> Self {
        if let Self::NoChain { options, .. } | Self::Wrong { options, .. } | Self::Damaged { options, .. } = &mut self {
            *options = with_file(file, options);
        }
        self
    }
}

/// Advice for a damaged chain. `verify` has already reported all its problems.
fn to_do(options: &str, by_verify: bool) -> String {
    if by_verify { capital(&recovery_advice(options)) } else { advice(options) }
}

/// Advice for a damaged chain, which these options select.
pub fn advice(options: &str) -> String {
    format!("`hearth ledger verify{options}` lists everything that is wrong there; {}", recovery_advice(options))
}

fn recovery_advice(options: &str) -> String {
    format!("put back a copy of the ledger folder, or begin a new chain with `hearth run{options} --reset`")
}

/// The text with a capital first letter.
fn capital(text: &str) -> String {
    let (first, rest) = text.split_at(text.chars().next().map_or(0, char::len_utf8));
    first.to_uppercase() + rest
}

fn problem_count(count: u64) -> String {
    if count == 1 { "one thing is".into() } else { format!("{count} things are") }
}

/// The options with which `hearth run` and `hearth ledger` select a configuration's chain, each preceded by a space.
pub fn options(config: &Config) -> String {
    let default = Config::default();
    let name =
        if config.name == default.name { String::new() } else { format!(" --name {}", shell::word(&config.name)) };
    match config.ledger.path == default.ledger.path {
        true => name,
        false => format!("{name} --ledger {}", shell::path(&config.expand(&config.ledger.path))),
    }
}

/// The same options after that for the configuration file.
pub fn with_file(file: &ConfigFile, options: &str) -> String {
    let file = file.config.as_ref().map_or_else(String::new, |path| format!(" --config {}", shell::path(path)));
    file + options
}

/// A chain that is opened for inspection.
struct OfflineChain {
    folder: PathBuf,
    genesis: Genesis,
    reader: Reader,
    recovery: Recovery,
    snapshots: Vec<SnapshotFile>,
    /// Holds the store's lock.
    _store: BlockStore,
}

impl OfflineChain {
    fn open(config: &Config) -> Result<Self, LedgerError> {
        let folder = config.expand(&config.ledger.path);
        let (genesis, blocks) = (folder.join(GENESIS_NAME), folder.join("blocks"));
        // Blocks without their genesis are a damaged chain, which the next line reports.
        if !blocks.is_dir() {
            return Err(LedgerError::NoChain { folder, options: options(config) });
        }
        Genesis::refuse_older(&folder)?;
        if !genesis.exists() {
            return Err(GenesisError::Missing { path: genesis, file: blocks }.into());
        }
        let genesis = Genesis::load(&genesis)?;
        let store_config = blockstore::Config {
            // As at a start: where blocks are synced, missing data at the end is refused.
            sync: if config.ledger.sync { SyncPolicy::EachSlot } else { SyncPolicy::Kernel },
            // An inspection must not drop blocks.
            limit_size: u64::MAX / 2,
            ..blockstore::Config::new(config.ledger.limit_size, *genesis.hash())
        };
        let (store, recovery) = BlockStore::open(&blocks, store_config)?;
        let snapshots = restore::folder(config, &folder);
        let snapshots = Folder::existing(&snapshots).map_or(Ok(vec![]), |folder| folder.files())?;
        Ok(Self { folder, genesis, reader: store.reader(), recovery, snapshots, _store: store })
    }

    /// The whole blocks of a range that follow each other without a gap.
    fn blocks(&self, slots: &Slots) -> Result<impl Iterator<Item = SlotInfo> + use<>, LedgerError> {
        let (from, to) = (slots.from.unwrap_or(0), slots.to.unwrap_or(u64::MAX));
        if from > to {
            return Err(LedgerError::Range { from, to });
        }
        Ok(self.reader.slots(from..=to, usize::MAX).into_iter())
    }

    fn block(&self, slot: u64) -> Result<Block, LedgerError> {
        Ok(self.reader.block(slot)?.expect("nothing is dropped while the lock is held"))
    }
}

/// Runs a subcommand of `hearth ledger`.
pub fn run(command: &Command, config: &Config, say: &CommandOutput) -> Result<(), LedgerError> {
    let verifies = matches!(command, Command::Verify { .. });
    look(command, config, say).map_err(|why| {
        let why = why.with_advice(config, verifies);
        match command.chain() {
            Some(chain) => why.of_file(&chain.config),
            None => why,
        }
    })
}

fn look(command: &Command, config: &Config, say: &CommandOutput) -> Result<(), LedgerError> {
    let chain = || OfflineChain::open(config);
    match command {
        Command::Verify { .. } => verify::run(&chain()?, config, say),
        Command::Replay { recorded: Some(folder), .. } => Ok(recorded::run(folder, say)?),
        Command::Replay { from, to, .. } => replay::run(&chain()?, config, *from, *to, say),
        Command::Blocks { slots, .. } => list(&chain()?, slots, say),
        Command::Export { slots, out, .. } => export::run(&chain()?, slots, out.as_deref(), say),
        // A tower does not need a chain.
        Command::Tower(command) => tower::run(command, config, say),
        Command::Snapshot(SnapshotCommand::Create { slot, base, out, .. }) => {
            create::run(&chain()?, config, (*slot, base.as_deref()), out.as_deref(), say)
        }
        // Other archives are files of their own.
        Command::Snapshot(SnapshotCommand::Info { file }) => snapshot::info(file, say),
        Command::Snapshot(SnapshotCommand::Verify { file, incremental, genesis }) => {
            snapshot::verify(file, incremental.as_deref(), genesis.as_deref(), say)
        }
    }
}

/// Prints one line per block.
fn list(chain: &OfflineChain, slots: &Slots, say: &CommandOutput) -> Result<(), LedgerError> {
    say.line(format_args!(
        "{:>10} {:>10} {:>6} {:>8} {:>8} {:>10}",
        "slot", "parent", "sets", "entries", "txns", "bytes"
    ));
    for info in chain.blocks(slots)? {
        let SlotInfo { slot, parent_slot, set_count, whole, .. } = info;
        if !whole {
            say.line(format_args!("{slot:>10} {parent_slot:>10} {set_count:>6}  not whole"));
            continue;
        }
        let block = chain.block(slot)?;
        let entries = block.entries().map_err(|source| LedgerError::Entries { slot, source })?;
        let txns: usize = entries.iter().map(|entry| entry.transactions().count()).sum();
        let (count, bytes) = (entries.len(), block.data.len());
        say.line(format_args!("{slot:>10} {parent_slot:>10} {set_count:>6} {count:>8} {txns:>8} {bytes:>10}"));
        if say.is_closed() {
            break;
        }
    }
    Ok(())
}

/// The snapshot of this slot.
fn snapshot_of<'a>(chain: &'a OfflineChain, folder: &Path, slot: u64) -> Result<&'a SnapshotFile, LedgerError> {
    chain.snapshots.iter().find(|file| file.slot == slot).ok_or_else(|| {
        let slots: Vec<String> = chain.snapshots.iter().map(|file| file.slot.to_string()).collect();
        let there = if slots.is_empty() { "none".into() } else { format!("slots {}", slots.join(", ")) };
        LedgerError::NoSnapshot { slot, folder: folder.into(), there }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error of opening a damaged chain, as other commands print it and as `verify` does.
    fn said(config: &Config) -> [String; 2] {
        [false, true].map(|verifies| match OfflineChain::open(config) {
            Err(why) => why.with_advice(config, verifies).to_string(),
            Ok(_) => panic!("the chain is damaged"),
        })
    }

    #[test]
    fn damage_comes_with_commands_that_a_shell_takes() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("my chain");
        std::fs::create_dir_all(place.join("blocks")).unwrap();
        let mut config = Config { name: "mine".into(), ..Config::default() };
        config.ledger.path = place.clone();
        let options = format!("--name mine --ledger '{}'", place.display());
        let way_out =
            format!("ut back a copy of the ledger folder, or begin a new chain with `hearth run {options} --reset`");
        let verify = format!(". `hearth ledger verify {options}` lists everything that is wrong there; p{way_out}");
        let [missing, _] = said(&config);
        assert!(missing.contains("genesis.bin is missing") && missing.ends_with(&verify), "{missing}");
        std::fs::write(place.join(GENESIS_NAME), "{").unwrap();
        let [damaged, by_verify] = said(&config);
        assert!(damaged.contains("genesis.bin is damaged") && damaged.ends_with(&verify), "{damaged}");
        assert!(by_verify.ends_with(&format!(". P{way_out}")), "{by_verify}");
        assert!(!by_verify.contains("hearth ledger verify"), "{by_verify}");
    }

    #[test]
    fn advice_names_the_configuration_file() {
        let file = ConfigFile { config: Some("my node.toml".into()) };
        let wrong = |options: &str| LedgerError::Wrong { count: 1, options: options.into() };
        let said = wrong(" --name mine").of_file(&file).to_string();
        assert!(said.ends_with("`hearth run --config 'my node.toml' --name mine --reset`"), "{said}");
        let said = wrong(" --name mine").of_file(&ConfigFile::default()).to_string();
        assert!(said.ends_with("`hearth run --name mine --reset`"), "{said}");
        let damaged = LedgerError::Damaged { damage: Box::new(wrong("")), options: String::new(), by_verify: false };
        let said = damaged.of_file(&file).to_string();
        assert!(said.contains("`hearth ledger verify --config 'my node.toml'` lists everything"), "{said}");
    }
}
