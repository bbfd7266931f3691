//! `hearth ledger`: looks at a chain on disk while no node runs on it.
//!
//! reads   genesis, blocks and snapshots of a ledger folder
//! writes  nothing but what each start would: a record that a kill tore off the end of the blocks is cut off
//! memory  one block; `verify` and `replay` the state too
//! drops   nothing: what is wrong is told, each with its place, and makes the exit code 1

mod export;
mod replay;
mod verify;

use std::path::{Path, PathBuf};

use hearth_ledger::blockstore::{self, Block, BlockStore, Reader, Recovery, SlotInfo, StoreError, SyncPolicy};
use hearth_ledger::history::HistoryError;
use hearth_ledger::snapshot::{Folder, SnapshotError, SnapshotFile};
use hearth_ledger::{Genesis, GenesisError};
use hearth_wire::entry::EntryError;

use crate::cli::{LedgerCommand, Slots};
use crate::config::{Config, ConfigError};
use crate::replay::{ReplayError, entries};
use crate::restore;
use crate::say::Say;

/// Why a look at a chain fails.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// There is nothing to look at.
    #[error(
        "there is no chain in {}: `hearth run{options}` begins one; --ledger, --name or --config says which is meant",
        folder.display()
    )]
    NoChain {
        /// Where.
        folder: PathBuf,
        /// The options by which it is named.
        options: String,
    },
    /// A range without a slot.
    #[error("--from {from} lies after --to {to}")]
    Range {
        /// Its begin.
        from: u64,
        /// Its end.
        to: u64,
    },
    /// The configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The genesis.
    #[error(transparent)]
    Genesis(#[from] GenesisError),
    /// The blocks, or a node that runs on them.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The history.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// The snapshots.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// The blocks, when they are executed.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// A block is no sequence of entries.
    #[error("slot {slot}: {source}")]
    Entries {
        /// The slot.
        slot: u64,
        /// Why.
        source: EntryError,
    },
    /// There is no such snapshot.
    #[error("there is no snapshot of slot {slot} in {}; there are those of {there}", folder.display())]
    NoSnapshot {
        /// The slot that was asked for.
        slot: u64,
        /// Where it was looked for.
        folder: PathBuf,
        /// The slots of those there are.
        there: String,
    },
    /// A file cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Something is wrong with the chain; it has been told.
    #[error(
        "{} wrong with this chain; put back a copy of its folder, or begin a new one: `hearth run{options} --reset`",
        things(*count)
    )]
    Wrong {
        /// How many things.
        count: u64,
        /// The options that name this chain, each behind a space.
        options: String,
    },
}

fn things(count: u64) -> String {
    if count == 1 { "one thing is".into() } else { format!("{count} things are") }
}

/// The options by which `hearth run` and `hearth ledger` take the chain of a configuration, each behind a space.
pub fn options(config: &Config) -> String {
    let default = Config::default();
    let name = if config.name == default.name { String::new() } else { format!(" --name {}", config.name) };
    match config.ledger.path == default.ledger.path {
        true => name,
        false => format!("{name} --ledger {}", config.expand(&config.ledger.path).display()),
    }
}

/// A chain that is looked at.
struct Offline {
    folder: PathBuf,
    genesis: Genesis,
    reader: Reader,
    recovery: Recovery,
    snapshots: Vec<SnapshotFile>,
    /// Holds the lock.
    _store: BlockStore,
}

impl Offline {
    fn open(config: &Config) -> Result<Self, LedgerError> {
        let folder = config.expand(&config.ledger.path);
        let (genesis, blocks) = (folder.join("genesis.json"), folder.join("blocks"));
        // Blocks without their genesis are a damaged chain, which the next line names.
        if !blocks.is_dir() {
            return Err(LedgerError::NoChain { folder, options: options(config) });
        }
        let genesis = Genesis::load(&genesis)?;
        let store_config = blockstore::Config {
            // As a start would: where blocks are synced, an end that is missing is refused.
            sync: if config.ledger.sync { SyncPolicy::EachSlot } else { SyncPolicy::Kernel },
            // Nothing is dropped by looking.
            limit_size: u64::MAX / 2,
            ..blockstore::Config::new(config.ledger.limit_size, *genesis.hash())
        };
        let (store, recovery) = BlockStore::open(&blocks, store_config)?;
        let snapshots = restore::folder(config, &folder);
        let snapshots = Folder::existing(&snapshots).map_or(Ok(vec![]), |folder| folder.files())?;
        Ok(Self { folder, genesis, reader: store.reader(), recovery, snapshots, _store: store })
    }

    /// The whole blocks of a range that follow one another without a hole.
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

/// `hearth ledger …`
pub fn run(command: &LedgerCommand, config: &Config, say: &Say) -> Result<(), LedgerError> {
    let chain = Offline::open(config)?;
    match command {
        LedgerCommand::Verify { .. } => verify::run(&chain, config, say),
        LedgerCommand::Replay { from, to, .. } => replay::run(&chain, config, *from, *to, say),
        LedgerCommand::Blocks { slots, .. } => list(&chain, slots, say),
        LedgerCommand::Export { slots, out, .. } => export::run(&chain, slots, out.as_deref(), say),
    }
}

/// One line for each block.
fn list(chain: &Offline, slots: &Slots, say: &Say) -> Result<(), LedgerError> {
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
        let entries = entries(&block.data).map_err(|source| LedgerError::Entries { slot, source })?;
        let txns: usize = entries.iter().map(|entry| entry.transactions().count()).sum();
        let (count, bytes) = (entries.len(), block.data.len());
        say.line(format_args!("{slot:>10} {parent_slot:>10} {set_count:>6} {count:>8} {txns:>8} {bytes:>10}"));
        if say.is_closed() {
            break;
        }
    }
    Ok(())
}

/// A snapshot of this slot.
fn snapshot_of<'a>(chain: &'a Offline, folder: &Path, slot: u64) -> Result<&'a SnapshotFile, LedgerError> {
    chain.snapshots.iter().find(|file| file.slot == slot).ok_or_else(|| {
        let slots: Vec<String> = chain.snapshots.iter().map(|file| file.slot.to_string()).collect();
        let there = if slots.is_empty() { "none".into() } else { format!("slots {}", slots.join(", ")) };
        LedgerError::NoSnapshot { slot, folder: folder.into(), there }
    })
}
