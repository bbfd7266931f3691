//! The command line of `hearth genesis`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use hearth_ledger::genesis::ClusterType;

/// The subcommands of `hearth genesis`.
#[derive(Subcommand)]
pub enum Command {
    /// Create the genesis of a cluster: genesis.bin, and genesis.tar.bz2 for joining nodes.
    ///
    /// The options are those of `solana-genesis`, and equal options make the same file; docs/genesis.md lists the
    /// exceptions. `hearth run --ledger DIR` runs on the folder, and so does agave-validator.
    Create(Box<Options>),
    /// Show a genesis: its hash, shred version, times, prices, and stakes.
    Show {
        /// The file, or its ledger folder.
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

/// The contents of a new genesis.
#[derive(Args)]
pub struct Options {
    /// The ledger folder.
    #[arg(short = 'l', long, value_name = "DIR")]
    pub ledger: PathBuf,
    /// Identity, vote account and stake account of a staked node: addresses or key files. May be repeated.
    #[arg(short = 'b', long, value_names = ["IDENTITY", "VOTE", "STAKE"], num_args = 3, required = true)]
    pub bootstrap_validator: Vec<String>,
    /// Lamports of each of these identities.
    #[arg(long, value_name = "LAMPORTS", default_value_t = 500_000_000_000)]
    pub bootstrap_validator_lamports: u64,
    /// Lamports of each of these stake accounts.
    #[arg(long, value_name = "LAMPORTS", default_value_t = 500_000_000)]
    pub bootstrap_validator_stake_lamports: u64,
    /// The stake authority [default: the identity].
    #[arg(long, value_name = "ADDRESS")]
    pub bootstrap_stake_authorized_pubkey: Option<String>,
    /// The faucet: an address or a key file.
    #[arg(short = 'm', long, value_name = "ADDRESS", requires = "faucet_lamports")]
    pub faucet_pubkey: Option<String>,
    /// Lamports of the faucet.
    #[arg(short = 't', long, value_name = "LAMPORTS", requires = "faucet_pubkey")]
    pub faucet_lamports: Option<u64>,
    /// A file of accounts, in YAML or JSON: `ADDRESS: {balance, owner, data, executable}`. May be repeated.
    #[arg(long, value_name = "FILE")]
    pub primordial_accounts_file: Vec<PathBuf>,
    /// A file of nodes with stake, in YAML or JSON: a list `validator_accounts`. May be repeated.
    #[arg(long, value_name = "FILE")]
    pub validator_accounts_file: Vec<PathBuf>,
    /// A program that cannot be upgraded. May be repeated.
    #[arg(long, value_names = ["ADDRESS", "LOADER", "PROGRAM.SO"], num_args = 3)]
    pub bpf_program: Vec<String>,
    /// A program that UPGRADE_AUTHORITY (`none`: nobody) can upgrade. May be repeated.
    #[arg(long, value_names = ["ADDRESS", "LOADER", "PROGRAM.SO", "UPGRADE_AUTHORITY"], num_args = 4)]
    pub upgradeable_program: Vec<String>,
    /// Add the cluster's programs and SPL's, with which `hearth run` begins a chain.
    #[arg(long)]
    pub usual_programs: bool,
    /// Hashes per tick; `auto`: 62500, or on a development cluster half of this machine's speed; `sleep`: ticks are
    /// timed.
    #[arg(long, value_name = "NUMBER|auto|sleep", default_value = "auto")]
    pub hashes_per_tick: String,
    /// Duration of a tick in microseconds.
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 6_250)]
    pub target_tick_duration: u64,
    /// Ticks per slot.
    #[arg(long, value_name = "TICKS", default_value_t = 64)]
    pub ticks_per_slot: u64,
    /// Slots per epoch [default: 8192 for a development cluster, else 432000].
    #[arg(long, value_name = "SLOTS")]
    pub slots_per_epoch: Option<u64>,
    /// Warm up: begin with an epoch of 32 slots; each of the next has twice as many.
    #[arg(long)]
    pub enable_warmup_epochs: bool,
    /// The kind of cluster.
    #[arg(long, value_name = "KIND", default_value = "development")]
    pub cluster_type: Kind,
    /// The chain's creation time, such as 2026-01-31T12:00:00Z [default: now].
    #[arg(long, value_name = "RFC3339")]
    pub creation_time: Option<String>,
    /// Inflation [default: 8 % in the first year, 15 % less each year until it is 1.5 %, of which 5 % go to a
    /// foundation].
    #[arg(long, value_name = "INFLATION")]
    pub inflation: Option<Rate>,
    /// Target lamports per signature, in slots with the target number of signatures.
    #[arg(long, value_name = "LAMPORTS", default_value_t = 10_000)]
    pub target_lamports_per_signature: u64,
    /// Target signatures per slot, above which the price rises; 0: it is constant.
    #[arg(long, value_name = "NUMBER", default_value_t = 20_000)]
    pub target_signatures_per_slot: u64,
    /// Share of burned fees, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 50, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub fee_burn_percentage: u8,
    /// Lamports of each byte of an account's minimum balance.
    #[arg(long, value_name = "LAMPORTS", default_value_t = 6_960, alias = "lamports-per-byte-year")]
    pub lamports_per_byte: u64,
    /// Factor of the minimum balance (the rent exemption threshold).
    #[arg(long, value_name = "NUMBER", default_value_t = 1.0)]
    pub rent_exemption_threshold: f64,
    /// The share of rent that was burned, in percent. Rent is not collected any more.
    #[arg(long, value_name = "PERCENT", default_value_t = 50, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub rent_burn_percentage: u8,
    /// Leave this feature out. May be repeated.
    #[arg(long, value_name = "FEATURE")]
    pub deactivate_feature: Vec<String>,
    /// The validators' share of the rewards, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 100, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub vote_commission_percentage: u8,
}

/// The kind of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// A cluster of your own.
    Development,
    /// The public cluster for developers.
    Devnet,
    /// The public cluster for operators.
    Testnet,
    /// The main public cluster.
    MainnetBeta,
}

impl Kind {
    /// The same in the genesis.
    pub fn cluster_type(self) -> ClusterType {
        match self {
            Self::Development => ClusterType::Development,
            Self::Devnet => ClusterType::Devnet,
            Self::Testnet => ClusterType::Testnet,
            Self::MainnetBeta => ClusterType::MainnetBeta,
        }
    }
}

/// A schedule of inflation, chosen by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Rate {
    /// A hundredth of a percent a year.
    Pico,
    /// As on the main cluster.
    Full,
    /// Nothing is added.
    #[value(name = "none")]
    Off,
}
