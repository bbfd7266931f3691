//! The command line of `hearth ledger`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::config::{Config, ConfigError, ConfigFile};

/// The subcommands of `hearth ledger`.
#[derive(Subcommand)]
pub enum Command {
    /// Check checksums, hash chain, signatures, the transaction history and snapshots.
    Verify {
        /// The chain to be verified.
        #[command(flatten)]
        chain: ChainOf,
    },
    /// Replay all blocks and print each bank's hash; compare those that snapshots have.
    Replay {
        /// The chain to be replayed.
        #[command(flatten)]
        chain: ChainOf,
        /// Begin with the snapshot of this slot; 0 is the genesis.
        #[arg(long, value_name = "SLOT", default_value_t = 0)]
        from: u64,
        /// End with this slot [default: the last].
        #[arg(long, value_name = "SLOT")]
        to: Option<u64>,
        /// Replay recorded ledgers of the cluster's own bank instead: each folder at or below this one with
        /// `genesis.bin.zst` and `blocks.jsonl.zst`. Compare everything, and print seconds per slot.
        #[arg(long, value_name = "DIR", conflicts_with_all = ["from", "to", "config", "name", "ledger"])]
        recorded: Option<PathBuf>,
    },
    /// List the blocks: FEC sets, entries, transactions, bytes.
    Blocks {
        /// The chain whose blocks are listed.
        #[command(flatten)]
        chain: ChainOf,
        /// The slots of the blocks to list.
        #[command(flatten)]
        slots: Slots,
    },
    /// Write blocks and transactions as JSON, one a line.
    Export {
        /// The chain whose blocks are exported.
        #[command(flatten)]
        chain: ChainOf,
        /// The slots of the blocks to export.
        #[command(flatten)]
        slots: Slots,
        /// Write to this file [default: standard output].
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// The tower: a node's votes in a cluster. Show it, import it from Agave's file, export it to Agave.
    #[command(subcommand)]
    Tower(TowerCommand),
    /// Snapshot archives, which the cluster's nodes exchange: write, show or verify one.
    #[command(subcommand)]
    Snapshot(SnapshotCommand),
}

/// The subcommands of `hearth ledger snapshot`.
#[derive(Subcommand)]
pub enum SnapshotCommand {
    /// Write the state as an archive, which nodes of Hearth and of Agave read.
    ///
    /// Starts from the newest snapshot up to the slot, and executes the blocks after it. No node may run on the chain.
    /// An existing archive is not replaced; an unfinished one is removed.
    Create {
        /// The chain whose state is written.
        #[command(flatten)]
        chain: ChainOf,
        /// The state at the end of this slot's block [default: of the last one that is final].
        #[arg(long, value_name = "SLOT")]
        slot: Option<u64>,
        /// Write an incremental archive: what changed since this full one, which is verified.
        #[arg(long, value_name = "FILE")]
        base: Option<PathBuf>,
        /// Write into this folder, which is created if it is missing [default: the folder of the chain's snapshots].
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
    /// Show the bank of an archive: slot, hashes, epoch, capitalization, stakes.
    ///
    /// Reads the whole archive; parses accounts without adding up their hashes, which `verify` does.
    Info {
        /// `snapshot-SLOT-HASH.tar.zst` or `incremental-snapshot-BASE-SLOT-HASH.tar.zst`.
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Verify an archive, or a full one together with an incremental one.
    ///
    /// Adds up the hashes and the lamports of the newest versions of all accounts, compares these with the bank's
    /// fields, the fields with the bank's hash, and all with the files' names. No file is written.
    Verify {
        /// The full archive: `snapshot-SLOT-HASH.tar.zst`.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// The incremental archive: `incremental-snapshot-BASE-SLOT-HASH.tar.zst`.
        #[arg(long, value_name = "FILE")]
        incremental: Option<PathBuf>,
        /// Check that the bank belongs to the chain of this `genesis.bin`.
        #[arg(long, value_name = "FILE")]
        genesis: Option<PathBuf>,
    },
}

/// The subcommands of `hearth ledger tower`.
#[derive(Subcommand)]
pub enum TowerCommand {
    /// Show the tower's votes, the root and the last vote.
    Show {
        /// The owner of the tower, and its folder.
        #[command(flatten)]
        of: TowerOf,
        /// Agave's file (`tower-1_9-IDENTITY.bin`) [default: the ledger folder's own tower].
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Import the tower from Agave's file, so that an identity that voted there continues here.
    ///
    /// Agave must no longer run with this identity. The file's signature is verified.
    Import {
        /// The owner of the tower, and its folder.
        #[command(flatten)]
        of: TowerOf,
        /// Agave's file: `tower-1_9-IDENTITY.bin`.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Replace an older tower of this node.
        #[arg(long)]
        replace: bool,
    },
    /// Export the tower as Agave's file, so that an identity that voted here continues there.
    Export {
        /// The owner of the tower, and its folder.
        #[command(flatten)]
        of: TowerOf,
        /// The file, or the folder for it [default: `tower-1_9-IDENTITY.bin` in the ledger's folder].
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
}

impl TowerCommand {
    /// The owner of the tower, and its folder.
    pub fn of(&self) -> &TowerOf {
        match self {
            Self::Show { of, .. } | Self::Import { of, .. } | Self::Export { of, .. } => of,
        }
    }
}

/// The options that select the owner of a tower, and its folder.
#[derive(Args, Default)]
pub struct TowerOf {
    /// The chain in whose folder the tower is.
    #[command(flatten)]
    pub chain: ChainOf,
    /// The node's identity key [default: that of the configuration, or the ledger folder's].
    #[arg(long, value_name = "KEY")]
    pub identity: Option<PathBuf>,
}

impl Command {
    /// The chain that the command is about; `None` for files that are in no chain's folder.
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

/// The options that select a chain on disk.
#[derive(Args, Default)]
pub struct ChainOf {
    /// The option `--config`, whose file names the ledger folder.
    #[command(flatten)]
    pub config: ConfigFile,
    /// The chain of the node with this name, as given to `hearth run --name`.
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
