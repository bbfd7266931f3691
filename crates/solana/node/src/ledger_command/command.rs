//! The command line of `hearth ledger`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::config::{Config, ConfigError, ConfigFile};

/// `hearth ledger`
#[derive(Subcommand)]
pub enum Command {
    /// Check checksums, hash chain, signatures, the transaction history and snapshots.
    Verify {
        /// Which chain.
        #[command(flatten)]
        chain: ChainOf,
    },
    /// Execute all blocks again and print each bank's hash; compare those that snapshots have.
    Replay {
        /// Which chain.
        #[command(flatten)]
        chain: ChainOf,
        /// Begin with the snapshot of this slot, 0 is the genesis.
        #[arg(long, value_name = "SLOT", default_value_t = 0)]
        from: u64,
        /// End with this slot [default: the last].
        #[arg(long, value_name = "SLOT")]
        to: Option<u64>,
        /// Replay what the cluster's own bank recorded instead: each folder at or below this one that holds
        /// `genesis.bin.zst` and `blocks.jsonl.zst`. Compare all of it, and print seconds a slot.
        #[arg(long, value_name = "DIR", conflicts_with_all = ["from", "to", "config", "name", "ledger"])]
        recorded: Option<PathBuf>,
    },
    /// List the blocks: FEC sets, entries, transactions, bytes.
    Blocks {
        /// Which chain.
        #[command(flatten)]
        chain: ChainOf,
        /// Which.
        #[command(flatten)]
        slots: Slots,
    },
    /// Write blocks and transactions as JSON, one a line.
    Export {
        /// Which chain.
        #[command(flatten)]
        chain: ChainOf,
        /// Which.
        #[command(flatten)]
        slots: Slots,
        /// Write to this file [default: standard output].
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// The votes that bind a node in a cluster: show them, take them from Agave's file, give them to Agave.
    #[command(subcommand)]
    Tower(TowerCommand),
    /// The archives of snapshots that the cluster's nodes exchange: write one, what one holds, whether it is whole.
    #[command(subcommand)]
    Snapshot(SnapshotCommand),
}

/// `hearth ledger snapshot`
#[derive(Subcommand)]
pub enum SnapshotCommand {
    /// Write the state as a full archive, which nodes of Hearth and of Agave read.
    ///
    /// Goes on from the newest snapshot up to the slot, and executes the blocks since. No node may run on the chain.
    /// An archive that is there is not replaced; one that does not become whole is removed.
    Create {
        /// Which chain.
        #[command(flatten)]
        chain: ChainOf,
        /// The state at the end of this slot's block [default: of the last one that is final].
        #[arg(long, value_name = "SLOT")]
        slot: Option<u64>,
        /// Write into this folder [default: that of the chain's snapshots].
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
    /// Show the bank of an archive: slot, hashes, epoch, capitalization, stakes.
    ///
    /// All of it is read; its accounts are parsed and not added up, as `verify` does.
    Info {
        /// `snapshot-SLOT-HASH.tar.zst` or `incremental-snapshot-BASE-SLOT-HASH.tar.zst`.
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Check all of an archive, or of one and an incremental one that builds on it.
    ///
    /// Adds up the hashes and the lamports of the newest versions of all accounts, and compares these with the bank's
    /// fields, these with the bank's hash, and all with the files' names. No file is written.
    Verify {
        /// The full archive: `snapshot-SLOT-HASH.tar.zst`.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// The one that builds on it: `incremental-snapshot-BASE-SLOT-HASH.tar.zst`.
        #[arg(long, value_name = "FILE")]
        incremental: Option<PathBuf>,
        /// Check that the bank is of the chain with this `genesis.bin`.
        #[arg(long, value_name = "FILE")]
        genesis: Option<PathBuf>,
    },
}

/// `hearth ledger tower`
#[derive(Subcommand)]
pub enum TowerCommand {
    /// Show the votes that bind, the root and the last vote.
    Show {
        /// Whose tower, and where.
        #[command(flatten)]
        of: TowerOf,
        /// Agave's file (`tower-1_9-IDENTITY.bin`), where it is not the ledger folder's own that is meant.
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Take the tower from Agave's file, so that an identity that voted there goes on voting here.
    ///
    /// Agave must not run with this identity any more. The file's signature is checked.
    Import {
        /// Whose tower, and where.
        #[command(flatten)]
        of: TowerOf,
        /// Agave's file: `tower-1_9-IDENTITY.bin`.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Take it in place of an older one of this node.
        #[arg(long)]
        replace: bool,
    },
    /// Write the tower as Agave's file, so that an identity that voted here goes on voting there.
    Export {
        /// Whose tower, and where.
        #[command(flatten)]
        of: TowerOf,
        /// The file, or the folder for it [default: `tower-1_9-IDENTITY.bin` in the ledger's folder].
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
}

impl TowerCommand {
    /// Whose tower, and where.
    pub fn of(&self) -> &TowerOf {
        match self {
            Self::Show { of, .. } | Self::Import { of, .. } | Self::Export { of, .. } => of,
        }
    }
}

/// Whose tower, and where.
#[derive(Args, Default)]
pub struct TowerOf {
    /// Which chain.
    #[command(flatten)]
    pub chain: ChainOf,
    /// The node's identity key [default: that of the configuration, or the ledger folder's].
    #[arg(long, value_name = "KEY")]
    pub identity: Option<PathBuf>,
}

impl Command {
    /// Which chain; `None` for files that are in no chain's folder.
    pub fn chain(&self) -> Option<&ChainOf> {
        match self {
            Self::Verify { chain }
            | Self::Replay { chain, .. }
            | Self::Blocks { chain, .. }
            | Self::Export { chain, .. } => Some(chain),
            Self::Tower(command) => Some(&command.of().chain),
            Self::Snapshot(SnapshotCommand::Create { chain, .. }) => Some(chain),
            Self::Snapshot(SnapshotCommand::Info { .. } | SnapshotCommand::Verify { .. }) => None,
        }
    }

    /// The configuration of the node whose chain it is, with the chain's folder.
    pub fn config(&self) -> Result<Config, ConfigError> {
        self.chain().map_or_else(|| Ok(Config::default()), ChainOf::read)
    }
}

/// Which chain on disk.
#[derive(Args, Default)]
pub struct ChainOf {
    /// The file.
    #[command(flatten)]
    pub config: ConfigFile,
    /// The chain of the node of this name, as `hearth run --name` has it.
    #[arg(long, value_name = "NODE")]
    pub name: Option<String>,
    /// The chain in this folder.
    #[arg(short = 'l', long, value_name = "DIR")]
    pub ledger: Option<PathBuf>,
}

impl ChainOf {
    /// The configuration of the node whose chain it is, with the chain's folder.
    pub fn read(&self) -> Result<Config, ConfigError> {
        let mut config = self.config.named(self.name.as_deref())?;
        if let Some(ledger) = &self.ledger {
            config.ledger.path.clone_from(ledger);
        }
        Ok(config)
    }
}

/// A range of slots.
#[derive(Args, Default)]
pub struct Slots {
    /// Begin with this slot [default: the first].
    #[arg(long, value_name = "SLOT")]
    pub from: Option<u64>,
    /// End with this slot [default: the last].
    #[arg(long, value_name = "SLOT")]
    pub to: Option<u64>,
}
