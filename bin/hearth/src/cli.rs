//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::developer::Flags;
use crate::evm::EvmCommand;
use crate::{cluster, configure, load, machine, tune, wallet};

/// Hearth: a transaction-processing node and the lab that goes with it.
///
/// Begin with `hearth bench`: it needs no configuration, no root and no preparation, and says how many
/// transactions a second this machine can do and what limits it.
#[derive(Parser)]
#[command(version, arg_required_else_help = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Subcommand)]
pub enum Command {
    /// Measure how many transactions per second this machine can execute.
    ///
    /// Boots a node with a new chain, signs transfers, sends them over QUIC on loopback, and prints once a second
    /// how many transactions the chain has executed. Ctrl-C ends it with the summary so far. The ledger is in
    /// `ledger.path`, by default `.hearth/` in the current folder, and is removed at the end.
    Bench(Bench),
    /// Run a node as a lasting local chain.
    ///
    /// Solana clients connect to http://127.0.0.1:8899. The chain is kept in `ledger.path`. Ctrl-C stops it. The options
    /// are those of `solana-test-validator` where the meaning is the same.
    Run(Box<Run>),
    /// Ask a running node what became of a transaction: landed, or dropped where and why.
    ///
    /// Exit codes: 0 it landed successfully, or waits to be handed over again; 3 it landed and failed; 4 it was
    /// dropped, or refused; 5 nothing is known of it; 1 no node answers; 2 wrong use.
    Why(Why),
    /// Watch a running node: tiles, links, where the time goes.
    ///
    /// When the node goes away its last second stays, and the node of that name that starts next is shown; Ctrl-C or
    /// `q` ends it. With --count a node that is gone is an error (exit code 1).
    Monitor(Monitor),
    /// Draw where a node spends its CPU time, as a flame graph.
    ///
    /// The node samples itself, asked over its RPC: from this machine, or with `rpc.admin_token` from another. Writes
    /// an SVG and the stacks for other tools, and says which tile used how much. Ctrl-C ends it early. With too few
    /// samples to tell anything the exit code is 1. `hearth profile bench` profiles a bench.
    Profile(Profile),
    /// Look at a chain on disk: check it, execute it again, list and export its blocks.
    ///
    /// No node may run on it meanwhile. Exit code 1 when something is wrong with it.
    #[command(subcommand)]
    Ledger(LedgerCommand),
    /// Put load on a node that speaks Ethereum's JSON-RPC or Solana's, ours or another, and measure it.
    #[command(subcommand)]
    Load(load::Options),
    /// Find out which build or layout is best, with statistics one can trust.
    #[command(subcommand)]
    Tune(tune::Command),
    /// See what becomes of blocks among many nodes.
    #[command(subcommand)]
    Cluster(cluster::Command),
    /// The EVM ledger: a chain that Ethereum's wallets and tools talk to.
    #[command(subcommand)]
    Evm(EvmCommand),
    /// Say what this machine is: cores, caches, memory, network, settings, and who else wants the cores.
    Machine(machine::Options),
    /// Set this machine up for a node, or say what is not ideal in it.
    #[command(subcommand)]
    Configure(configure::Command),
    /// Make and show keys.
    #[command(subcommand)]
    Keys(Keys),
    /// Keep assets on the UTXO ledger of an EVM node: balances, payments, and the way to its EVM and back.
    #[command(subcommand)]
    Wallet(wallet::Command),
    /// Show and check the configuration.
    #[command(subcommand)]
    Config(ConfigCommand),
}

/// The configuration file.
#[derive(Args, Default)]
pub struct ConfigFile {
    /// Configuration file [default: none; `hearth config show --default` prints the values in effect then].
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
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

/// Seconds that a bench measures, where nothing else is said.
pub const DURATION: u64 = 30;
/// Seconds of warm-up, where nothing else is said.
pub const WARMUP: u64 = 5;

/// The longest warm-up, and the longest time to measure: more than a year.
const SECONDS_MAX: u64 = 100_000_000;

fn seconds(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(seconds) if seconds <= SECONDS_MAX => Ok(seconds),
        Ok(_) => Err(format!("at most {SECONDS_MAX} seconds")),
        Err(_) => Err("it must be a whole number of seconds".into()),
    }
}

fn count(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| "it must be a whole number".into())
}

/// `hearth bench`
#[derive(Args)]
pub struct Bench {
    /// The file.
    #[command(flatten)]
    pub config: ConfigFile,
    /// Seconds to measure, after warm-up.
    #[arg(long, value_name = "SECONDS", default_value_t = DURATION, value_parser = seconds, allow_negative_numbers = true)]
    pub duration: u64,
    /// Seconds before measuring starts.
    #[arg(long, value_name = "SECONDS", default_value_t = WARMUP, value_parser = seconds, allow_negative_numbers = true)]
    pub warmup: u64,
    /// Accounts that send [default: all funded ones].
    #[arg(long, value_name = "N", value_parser = count, allow_negative_numbers = true)]
    pub accounts_from: Option<usize>,
    /// Accounts that receive [default: all funded ones].
    #[arg(long, value_name = "N", value_parser = count, allow_negative_numbers = true)]
    pub accounts_to: Option<usize>,
    /// Fraction of the transfers, 0 to 1, that write-lock one shared recipient and so conflict with each other.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, allow_negative_numbers = true)]
    pub conflict: f64,
    /// Send this many transactions per second [default: as many as the node accepts]. Each transfer has a scheduled
    /// send time, which does not depend on what became of earlier ones. A transfer that backpressure delays is sent
    /// late, and the summary reports the largest delay.
    #[arg(long, value_name = "TPS", allow_negative_numbers = true)]
    pub rate: Option<f64>,
    /// Sign all transfers before measuring, so that signing takes no CPU time from the node.
    #[arg(long)]
    pub presign: bool,
    /// Write the result as JSON to this file, `-` for standard output [default: none is written].
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Time stock ed25519-dalek before and after the load, and report the rate relative to it, as efficiency.
    #[arg(long)]
    pub yardstick: bool,
    /// End when this process, which has started it, does.
    #[arg(long, value_name = "PID", hide = true)]
    pub parent: Option<u32>,
    /// Another node.
    #[command(flatten)]
    pub target: Target,
}

/// `hearth bench --target`
#[derive(Args)]
pub struct Target {
    /// Drive the Solana node whose RPC is at this URL, as http://127.0.0.1:8899, instead of booting one. Its senders
    /// are new accounts, funded by an airdrop. With --rate 0, only probes and RPC queries are sent.
    #[arg(long = "target", value_name = "URL")]
    pub url: Option<String>,
    /// Send transactions to this QUIC address [default: the node's `tpuQuic` in its `getClusterNodes`].
    #[arg(long, value_name = "ADDRESS", requires = "url")]
    pub tpu: Option<SocketAddr>,
    /// Fund the senders from this key's account [default: by an airdrop].
    #[arg(long, value_name = "KEYPAIR", requires = "url")]
    pub funder: Option<PathBuf>,
    /// Identity of the QUIC connections, for a node with stake-weighted QoS [default: a new keypair].
    #[arg(long, value_name = "KEYPAIR", requires = "url")]
    pub identity: Option<PathBuf>,
    /// The node's process on this machine: its CPU time and memory are reported.
    #[arg(long, value_name = "PID", requires = "url")]
    pub pid: Option<u32>,
    /// Submit this many transactions per second by `sendTransaction`, and measure the time until their status is
    /// `processed` and `confirmed`.
    #[arg(long, value_name = "PER_SECOND", default_value_t = 10.0, requires = "url", allow_negative_numbers = true)]
    pub probes: f64,
    /// Send this many RPC queries per second, and measure response times.
    #[arg(long, value_name = "PER_SECOND", default_value_t = 0.0, requires = "url", allow_negative_numbers = true)]
    pub questions: f64,
}

/// `hearth run`
#[derive(Args)]
pub struct Run {
    /// The file.
    #[command(flatten)]
    pub config: ConfigFile,
    /// What goes before it.
    #[command(flatten)]
    pub flags: Flags,
    /// End when this process, which has started it, does.
    #[arg(long, value_name = "PID", hide = true)]
    pub parent: Option<u32>,
}

/// `hearth why`
#[derive(Args)]
pub struct Why {
    /// The file; it says on which port the node's JSON-RPC is.
    #[command(flatten)]
    pub config: ConfigFile,
    /// The transaction's first signature, in base58; or `0x` and the hash of one of the Ethereum chain or of its ledger
    /// of outputs.
    pub signature: String,
    /// The node's JSON-RPC; by default, where the running node of that name has it.
    #[arg(short = 'u', long, value_name = "URL", conflicts_with = "name")]
    pub url: Option<String>,
    /// Which node to ask, by the name that it was started with (`hearth run --name`); by default that of the
    /// configuration, or else the only one that runs.
    #[arg(long, value_name = "NODE")]
    pub name: Option<String>,
    /// Print the node's answer as JSON.
    #[arg(long)]
    pub json: bool,
}

/// `hearth monitor`
#[derive(Args)]
pub struct Monitor {
    /// The file.
    #[command(flatten)]
    pub config: ConfigFile,
    /// Which node to watch, by the `name` of its configuration. Without this: the node of `--config` (`hearth` where
    /// there is none) if it runs, or else a running `hearth bench`, or else, without `--config`, any that runs. Where
    /// others run beside it, they are named.
    #[arg(long, value_name = "NODE")]
    pub name: Option<String>,
    /// Print so many snapshots, one a second, and end; 0 goes on until Ctrl-C, full-screen on a terminal.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub count: u64,
    /// Print JSON, one object a second and line.
    #[arg(long)]
    pub json: bool,
}

/// `hearth profile`
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Profile {
    /// Not a node that runs, but a bench.
    #[command(subcommand)]
    pub of: Option<ProfileOf>,
    /// What of which node.
    #[command(flatten)]
    pub node: ProfileNode,
}

/// What else can be profiled.
#[derive(Subcommand)]
pub enum ProfileOf {
    /// Profile a bench, and write one report of it: an HTML file that needs nothing else.
    ///
    /// Takes the options of `hearth bench`. The report has the rate over time, what limited it, tiles, links, latency
    /// by stage, the flame graph of node and load, the configuration and the machine.
    Bench(ProfileBench),
}

/// `hearth profile bench`
#[derive(Args)]
pub struct ProfileBench {
    /// The bench.
    #[command(flatten)]
    pub bench: Bench,
    /// The report, to be opened in a browser.
    #[arg(long, short, value_name = "FILE", default_value = "hearth-bench.html")]
    pub output: PathBuf,
    /// Samples a second of CPU time.
    #[arg(long, value_name = "HZ", default_value_t = 99, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub hz: u32,
}

/// A profile of a node that runs.
#[derive(Args)]
pub struct ProfileNode {
    /// The file.
    #[command(flatten)]
    pub config: ConfigFile,
    /// Which node, by its `--name`.
    #[arg(long, value_name = "NODE", conflicts_with = "url")]
    pub name: Option<String>,
    /// Its RPC, on this machine or another.
    #[arg(long, short, value_name = "URL")]
    pub url: Option<String>,
    /// For how long.
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 10,
        conflicts_with = "next_block",
        value_parser = clap::value_parser!(u64).range(1..=600)
    )]
    pub seconds: u64,
    /// The next block, from its begin to its end.
    #[arg(long)]
    pub next_block: bool,
    /// One kind of tile alone.
    #[arg(long, value_name = "KIND")]
    pub tile: Option<String>,
    /// Samples a second of CPU time.
    #[arg(long, value_name = "HZ", default_value_t = 99, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub hz: u32,
    /// The graph, to be opened in a browser.
    #[arg(long, short, value_name = "FILE", default_value = "hearth-profile.svg")]
    pub output: PathBuf,
    /// The stacks, one a line, for other tools [default: beside the graph, `.folded`].
    #[arg(long, value_name = "FILE")]
    pub folded: Option<PathBuf>,
    /// The node's `rpc.admin_token`; others see it here, so rather give it in the variable `HEARTH_ADMIN_TOKEN`. By
    /// default that of this configuration.
    #[arg(long, value_name = "TOKEN")]
    pub token: Option<String>,
}

/// `hearth ledger`
#[derive(Subcommand)]
pub enum LedgerCommand {
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
}

impl LedgerCommand {
    /// Which chain.
    pub fn chain(&self) -> &ChainOf {
        match self {
            Self::Verify { chain }
            | Self::Replay { chain, .. }
            | Self::Blocks { chain, .. }
            | Self::Export { chain, .. } => chain,
        }
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

/// `hearth keys`
#[derive(Subcommand)]
pub enum Keys {
    /// Make a key pair.
    New {
        /// The file to write; it must not exist.
        path: PathBuf,
    },
    /// Show a key pair's public key.
    Pubkey {
        /// The key file.
        path: PathBuf,
    },
}

/// `hearth config`
#[derive(Subcommand)]
pub enum ConfigCommand {
    /// Print the configuration in effect.
    Show {
        /// The file.
        #[command(flatten)]
        config: ConfigFile,
        /// Print the default file with a text for every key.
        #[arg(long, conflicts_with_all = ["config", "memory", "counters", "tiles"])]
        default: bool,
        /// Print what memory `hearth run` and `hearth bench` take at the start, part by part.
        #[arg(long, conflicts_with_all = ["counters", "tiles"])]
        memory: bool,
        /// Print every counter with its meaning, as Markdown.
        #[arg(long, conflicts_with_all = ["config", "tiles"])]
        counters: bool,
        /// Print every kind of tile: which nodes have it, how many, and what it needs; as Markdown.
        #[arg(long, conflicts_with = "config")]
        tiles: bool,
    },
    /// Check a configuration: keys, values, and whether the layout fits this machine.
    ///
    /// Prints which tile runs on which core, in `hearth run` and in `hearth bench`. Of a file with mistakes all are
    /// told at once, with their lines: types, unknown keys and the nearest right ones, places of tiles, what excludes
    /// each other.
    Check {
        /// The file to check; without one, the defaults are checked.
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
        /// The file, given as other commands take it.
        #[arg(long, value_name = "FILE", conflicts_with = "file")]
        config: Option<PathBuf>,
    },
}
