//! The options of `hearth bench`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use hearth_node::config::ConfigFile;

/// Default number of measured seconds.
pub const DURATION: u64 = 30;
/// Default number of warm-up seconds.
pub const WARMUP: u64 = 5;

/// The longest warm-up, and the longest measurement: more than a year.
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

/// The options of `hearth bench`.
#[derive(Args)]
pub struct Options {
    /// Names the node's configuration file.
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
    /// Write the result as JSON to FILE, or to standard output without FILE [default: none is written].
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub json: Option<PathBuf>,
    /// Time stock ed25519-dalek before and after the load, and report the rate relative to it, as efficiency.
    #[arg(long)]
    pub yardstick: bool,
    /// End when this process, which has started it, does.
    #[arg(long, value_name = "PID", hide = true)]
    pub parent: Option<u32>,
    /// The options for driving a node of another process.
    #[command(flatten)]
    pub target: Target,
}

/// The options of `hearth bench --url`, which drives a node that already runs.
#[derive(Args)]
pub struct Target {
    /// Drive the Solana node whose RPC is at this URL, as http://127.0.0.1:8899, instead of booting one. Its senders
    /// are new accounts, funded by an airdrop. With --rate 0, only probes and RPC queries are sent.
    #[arg(short = 'u', long, alias = "target", value_name = "URL")]
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
