//! `hearth evm`: the EVM ledger as a node, and a network of such nodes under CometBFT.
//!
//! reads   options; the folder of a chain; CometBFT's answers
//! writes  the chain's folder, the node's workspace
//!
//! Reading order: [`run()`] opens the chain and serves it; [`stage_reporter`] shows its threads as tiles; [`comet`]
//! connects it to CometBFT; [`testnet`] starts a network of such nodes; [`chain_file`] reads and writes chains as
//! files of blocks.

#![deny(clippy::print_stdout, clippy::print_stderr)] // `output` does not panic when nobody reads.

mod accounts;
mod chain_file;
mod comet;
mod dump;
mod genesis_file;
mod limits;
mod run;
mod stage_reporter;
mod testnet;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use alloy_primitives::U256;
use clap::{Args, Subcommand};
use hearth_comet::rpc::RpcError as CometError;
use hearth_command::exit_code::{ExitCode, FAILED, INTERRUPTED, WRONG_USE};
use hearth_command::output::CommandOutput;
use hearth_command::stop::StopSignal;
use hearth_evm::chain::{BlockTime, Chain, ChainError};
use hearth_evm::exec::SpecId;
use hearth_machine::port::PortError;
use hearth_rpc_client::RpcError;
use hearth_serve::dashboard::LookAt;
use hearth_web3::Profiler;

pub use stage_reporter::WEB3;

/// The subcommands of `hearth evm`.
#[derive(Subcommand)]
pub enum EvmCommand {
    /// Run an EVM chain for Ethereum's wallets and tools.
    ///
    /// Wallets and tools connect to http://127.0.0.1:8545, over HTTP or WebSocket. The accounts printed are funded, and
    /// their keys are public unless you give words of your own. Ctrl-C stops it. The chain is in memory only, unless
    /// `--data-dir` names a folder.
    Run(Box<EvmRun>),
    /// Run a network of CometBFT validators with this chain as their application, on loopback addresses.
    ///
    /// Needs CometBFT's program (`go install github.com/cometbft/cometbft/cmd/cometbft@v0.38.21`). Prints the URL of
    /// each node's RPC. Ctrl-C stops all of them; the same command continues the same network.
    Testnet(Box<testnet::EvmTestnet>),
    /// Append a file of blocks to a chain; each block is verified by every rule and executed.
    ///
    /// The chain is that of --genesis, in the folder of --data-dir, which is created if it is missing. It may begin
    /// before the merge. If a block is invalid, the command names the block and the fault; the blocks before it stay.
    Import(Box<chain_file::EvmImport>),
    /// Write a chain's blocks to a file, which `hearth evm import` and geth read.
    Export(Box<chain_file::EvmExport>),
    /// Verify a file of blocks from the genesis on, in memory, without importing it.
    Verify(Box<chain_file::EvmVerify>),
}

/// The options of `hearth evm run`.
#[derive(Args)]
pub struct EvmRun {
    /// The chain's id (EIP-155) [default: 31337, or what --genesis says].
    #[arg(long, value_name = "ID", conflicts_with = "genesis", value_parser = clap::value_parser!(u64).range(1..))]
    pub chain_id: Option<u64>,
    /// Accounts to fund and to print.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    pub accounts: u32,
    /// The initial balance of each of these accounts, in ETH.
    #[arg(long, value_name = "ETH", default_value = "10000", conflicts_with = "genesis", value_parser = ether)]
    pub balance: U256,
    /// The words from which the accounts follow.
    #[command(flatten)]
    pub words: accounts::MnemonicOptions,
    /// Seconds between blocks, or `instant`: a block as soon as there is a transaction [default: instant].
    #[arg(long, value_name = "SECONDS", value_parser = block_time)]
    pub block_time: Option<BlockTime>,
    /// The gas limit of a block [default: 1000 million for each second of block time].
    #[arg(long, value_name = "GAS", conflicts_with = "genesis",
        value_parser = clap::value_parser!(u64).range(21_000..=1_000_000_000_000))]
    pub gas_limit: Option<u64>,
    /// The time of block 0 in seconds since 1970, from which the chain's time continues [default: now].
    #[arg(long, value_name = "SECONDS", conflicts_with = "genesis",
        value_parser = clap::value_parser!(u64).range(0..=i64::MAX as u64))]
    pub timestamp: Option<u64>,
    /// Leave out the CREATE2 deployer at 0x4e59b44847b379578588920ca78fbf26c0b4956c, which tools use.
    #[arg(long, alias = "no-create2", conflicts_with = "genesis")]
    pub disable_default_create2_deployer: bool,
    /// The fork from the first block on: `paris`, `shanghai`, `cancun`, `prague` or `osaka` [default: osaka, the
    /// newest].
    ///
    /// A genesis names its forks itself, and a file of --state has the newest rules, so neither goes with --hardfork.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["genesis", "state"], value_parser = hardfork)]
    pub hardfork: Option<SpecId>,
    /// The limits of code and gas that may be above Ethereum's.
    #[command(flatten)]
    pub limits: limits::LimitOptions,
    /// Begin with the accounts and outputs of this file if it exists, and write them to it at the end.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["genesis", "data_dir"])]
    pub state: Option<PathBuf>,
    /// Begin with this genesis, in geth's JSON form, instead of the accounts above.
    #[arg(long, value_name = "FILE")]
    pub genesis: Option<PathBuf>,
    /// Keep the chain in this folder, and continue an existing one.
    ///
    /// A block survives the end of this program from the moment it is visible. It survives a power loss once `safe` and
    /// `finalized` reach it, which is after the next sync: `latest` runs up to 100 blocks ahead of the disk. The start
    /// after a power loss reports how many blocks are lost.
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Delay receipts, and `eth_sendRawTransactionSync`, until their block is on disk.
    ///
    /// Without it a receipt comes as soon as the block is made, and a power failure can remove the block again.
    #[arg(long, requires = "data_dir")]
    pub durable: bool,
    /// Listen on this port.
    #[arg(long, alias = "port", value_name = "PORT", default_value_t = 8545)]
    pub rpc_port: u16,
    /// Listen on this address.
    #[arg(long, alias = "host", value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub bind_address: IpAddr,
    /// Let clients reach the node by this name, too, besides addresses and `localhost`; `*`: by any. Repeatable.
    #[arg(long, value_name = "NAME")]
    pub allow_host: Vec<String>,
    /// Accept requests from web pages of this origin, such as `https://a.page`, in addition to this machine's; `*`:
    /// any. Repeatable.
    #[arg(long, value_name = "ORIGIN")]
    pub allow_origin: Vec<String>,
    /// Maximum connections of one IP address; 0 is no limit.
    ///
    /// One connection more closes its longest idle one, or gets a 503 if all have a request in progress.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub max_connections_per_address: usize,
    /// Do not serve the dashboard at that address.
    #[arg(long)]
    pub no_dashboard: bool,
    /// The answer to `web3_clientVersion` [default: this program's name and version].
    ///
    /// Hardhat's network helpers work only with a node whose version begins with `anvil/` or `HardhatNetwork/`.
    #[arg(long, value_name = "TEXT")]
    pub client_version: Option<String>,
    /// Do not print what contracts send to `console.log`.
    #[arg(long)]
    pub no_console_log: bool,
    /// Threads that execute a block's transactions [default: as many as cores, at most four].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub threads: Option<u16>,
    /// Maximum MiB of blob sidecars in memory [default: 64, about 480 blobs].
    ///
    /// Sidecars of pending transactions come first: if they fill it, further blob transactions are refused.
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub sidecar_mib: Option<u32>,
    /// Drop the sidecars of a block after this many blocks [default: 4096].
    #[arg(long, value_name = "N")]
    pub sidecar_blocks: Option<u64>,
    /// Keep the state after each of the last N blocks, in memory [default: 128].
    ///
    /// Balances, storage, calls, proofs and traces are available at any of these blocks, within --history-mib. After a
    /// start with --data-dir there are at most the last 128 blocks, and more as blocks come.
    #[arg(long, value_name = "N", conflicts_with = "archive", value_parser = clap::value_parser!(u64).range(128..))]
    pub history: Option<u64>,
    /// Keep the state after every block, in memory, within --history-mib.
    #[arg(long)]
    pub archive: bool,
    /// Maximum MiB of older states, with --history or --archive [default: 1024].
    ///
    /// Beyond that, the oldest states are dropped. A block of a few transactions takes about 10 KB, a changed account
    /// or slot in a large state about 1 KB.
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    pub history_mib: Option<u32>,
    /// The consensus that decides on blocks.
    #[command(flatten)]
    pub comet: comet::CometOptions,
    /// Log a line for each block, with the times of its parts.
    #[arg(long)]
    pub log: bool,
    /// Print only errors.
    #[arg(long, short)]
    pub quiet: bool,
}

/// Why the chain does not run.
#[derive(Debug, thiserror::Error)]
pub enum EvmError {
    /// The mnemonic is invalid.
    #[error("{from}: {what}")]
    Mnemonic {
        /// The option, variable or file that gave the words.
        from: String,
        /// Why it is invalid.
        what: String,
    },
    /// A file given by an option is invalid.
    #[error("{option} {}: {what}", path.display())]
    File {
        /// The option that names it.
        option: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Why it is invalid.
        what: String,
    },
    /// A file of blocks is invalid from some place on.
    #[error("{}: {what}; {kept}", path.display())]
    BlockFile {
        /// Path of the file.
        path: PathBuf,
        /// The fault, and its place.
        what: String,
        /// The part that was read anyway.
        kept: String,
    },
    /// A stop was requested while a file of blocks was read.
    #[error("interrupted: {0}")]
    Interrupted(String),
    /// These options have no effect together.
    #[error("{0} does nothing {1}")]
    Idle(&'static str, &'static str),
    /// An option that would have this node make other blocks than the others of its network.
    #[error("{0} is for a chain of one node: with --consensus cometbft all nodes must have the same limits")]
    OneNode(&'static str),
    /// The network in this folder already runs.
    #[error("the network in {} runs already: stop it first, or name another folder with --folder", .0.display())]
    Running(PathBuf),
    /// The chain cannot be opened.
    #[error("{0}{hint}", hint = hint(.0))]
    Chain(#[from] ChainError),
    /// The chain has stopped with an error.
    #[error("the chain has stopped: {0}")]
    Stopped(String),
    /// CometBFT cannot be served.
    #[error("--abci {address}: {source}")]
    Abci {
        /// The address to listen on.
        address: String,
        /// Why the address cannot be listened on, as the operating system says it.
        source: std::io::Error,
    },
    /// The folder of snapshots.
    #[error("cannot keep snapshots in {}: {source}", path.display())]
    Snapshots {
        /// Folder of the snapshots.
        path: PathBuf,
        /// Why the folder cannot be used, as the operating system says it.
        source: std::io::Error,
    },
    /// The RPC of CometBFT failed.
    #[error(transparent)]
    CometRpc(#[from] CometError),
    /// CometBFT's program was not found.
    #[error(transparent)]
    Program(#[from] hearth_comet::program::ProgramError),
    /// A network's homes cannot be written or read.
    #[error(transparent)]
    Homes(#[from] hearth_comet::testnet_dirs::HomesError),
    /// A node's process cannot be started.
    #[error("cannot start {what}: {source}")]
    Start {
        /// The program to start.
        what: String,
        /// Why the program did not start, as the operating system says it.
        source: std::io::Error,
    },
    /// No free port was found.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The RPC server cannot start.
    #[error(transparent)]
    Serve(#[from] hearth_web3::ServeError),
}

impl ExitCode for EvmError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Mnemonic { .. } | Self::Idle(..) | Self::OneNode(_) => WRONG_USE,
            Self::CometRpc(CometError::Client(RpcError::Url { .. })) => WRONG_USE,
            Self::Interrupted(_) => INTERRUPTED,
            _ => FAILED,
        }
    }
}

/// Returns advice for the user, or an empty string.
fn hint(error: &ChainError) -> &'static str {
    use hearth_evm::blocks::BlocksError;
    use hearth_evm::state::StateError;
    match error {
        ChainError::Blocks(BlocksError::OtherChain { .. }) | ChainError::State(StateError::OtherChain { .. }) => {
            ". A chain's beginning cannot be changed: give the options that it began with, or another --data-dir"
        }
        ChainError::Blocks(BlocksError::InUse(_)) | ChainError::State(StateError::InUse(_)) => {
            ". Stop the other program, or give another --data-dir"
        }
        ChainError::Blocks(BlocksError::Damaged { .. }) | ChainError::State(StateError::Damaged { .. }) => {
            ". Put back a copy of the folder, or start a new chain in another --data-dir"
        }
        _ => "",
    }
}

/// Instruments that observe a node from within its process. They belong to the lab, which a node does not depend on, so
/// the program passes them in; a program without the lab has none.
#[derive(Clone, Copy)]
pub struct Instruments {
    /// Makes the dashboard's view of a node. The workspace path is set once the node has a port.
    pub look_at: fn(Arc<OnceLock<PathBuf>>) -> LookAt,
    /// Makes the profiler of a node that has this chain.
    pub profiler: fn(Chain) -> Arc<dyn Profiler>,
}

/// Runs a `hearth evm` command.
pub fn run(
    command: &EvmCommand,
    instruments: Option<Instruments>,
    stop: &StopSignal,
    say: &CommandOutput,
) -> Result<(), EvmError> {
    match command {
        EvmCommand::Run(options) => run::run(options, instruments, stop, say),
        EvmCommand::Testnet(options) => testnet::run(options, stop, say),
        EvmCommand::Import(options) => chain_file::import(options, stop, say),
        EvmCommand::Export(options) => chain_file::export(options, stop, say),
        EvmCommand::Verify(options) => chain_file::verify(options, stop, say),
    }
}

/// Wei of a decimal number of ETH.
fn ether(text: &str) -> Result<U256, String> {
    const DECIMALS: usize = 18;
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_number(whole) || !is_number(part) || part.len() > DECIMALS {
        return Err("it must be a number of ETH, as 10000 or 0.5".into());
    }
    let digits = format!("{whole}{part:0<DECIMALS$}");
    let wei = U256::from_str_radix(&digits, 10).ok().filter(|wei| wei.bit_len() <= 128);
    wei.ok_or_else(|| "so much ETH there cannot be".into())
}

/// A fork that a chain may begin with.
fn hardfork(text: &str) -> Result<SpecId, String> {
    match text.to_ascii_lowercase().as_str() {
        "paris" | "merge" => Ok(SpecId::MERGE),
        "shanghai" => Ok(SpecId::SHANGHAI),
        "cancun" => Ok(SpecId::CANCUN),
        "prague" => Ok(SpecId::PRAGUE),
        "osaka" | "latest" => Ok(SpecId::OSAKA),
        _ => Err("a chain begins with paris, shanghai, cancun, prague or osaka".into()),
    }
}

/// Its name, as `--hardfork` takes it.
fn hardfork_name(spec: SpecId) -> &'static str {
    match spec {
        SpecId::MERGE => "paris",
        SpecId::SHANGHAI => "shanghai",
        SpecId::CANCUN => "cancun",
        SpecId::PRAGUE => "prague",
        _ => "osaka",
    }
}

fn block_time(text: &str) -> Result<BlockTime, String> {
    if text == "instant" {
        return Ok(BlockTime::Instant);
    }
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.01..=86_400.0).contains(seconds));
    let seconds = seconds.ok_or("it must be `instant`, or seconds between 0.01 and 86400")?;
    Ok(BlockTime::Every(Duration::from_secs_f64(seconds)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ether_is_read_to_the_wei() {
        assert_eq!(ether("10000"), Ok(U256::from(10_000u128 * 10u128.pow(18))));
        assert_eq!(ether("0.5"), Ok(U256::from(5u128 * 10u128.pow(17))));
        assert_eq!(ether("1.000000000000000001"), Ok(U256::from(10u128.pow(18) + 1)));
        for wrong in ["", ".5", "-1", "1e3", "1.0000000000000000001", "0x10", "999999999999999999999999999999"] {
            assert!(ether(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_block_time_is_instant_or_seconds() {
        assert_eq!(block_time("instant"), Ok(BlockTime::Instant));
        assert_eq!(block_time("0.5"), Ok(BlockTime::Every(Duration::from_millis(500))));
        for wrong in ["0", "-1", "now", "NaN", "1e9"] {
            assert!(block_time(wrong).is_err(), "{wrong}");
        }
    }
}
