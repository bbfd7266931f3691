//! The command-line options of a development chain.
//!
//! reads   the command line
//! writes  numbers, paths and texts; the files that they name are read elsewhere
//! memory  the texts
//!
//! Names and short forms are those of `solana-test-validator`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;
use hearth_ledger::genesis::SLOTS_PER_EPOCH_MAX;

use crate::config::{Address, EPOCH_LEAST, LOG_BYTES_MAX, TICKS_LEAST};

/// Maximum slot duration of the option: nothing is confirmed before its slot has ended.
const SLOT_MS_MOST: u64 = 60_000;
/// Minimum shreds: the store keeps three segments of 256 KiB.
const SHREDS_LEAST: u64 = 1_000;
const DECIMALS: usize = 9;

/// How the chain begins, and how the node runs.
#[derive(Args, Default)]
#[command(next_help_heading = "A new chain (an existing chain must have the same values)")]
pub struct Flags {
    /// A program that cannot be upgraded. May be repeated.
    #[arg(long, value_names = ["ADDRESS_OR_KEYPAIR", "PROGRAM.SO"], num_args = 2)]
    pub bpf_program: Vec<String>,
    /// A program that UPGRADE_AUTHORITY (`none`: nobody) can upgrade. May be repeated.
    #[arg(long, value_names = ["ADDRESS_OR_KEYPAIR", "PROGRAM.SO", "UPGRADE_AUTHORITY"], num_args = 3)]
    pub upgradeable_program: Vec<String>,
    /// An account from a file, as `solana account --output json` writes it; `-` takes the file's address. May be
    /// repeated.
    #[arg(long, value_names = ["ADDRESS", "DUMP.JSON"], num_args = 2, allow_hyphen_values = true)]
    pub account: Vec<String>,
    /// Every account of a folder of such files (`*.json`). May be repeated.
    #[arg(long, value_name = "DIR")]
    pub account_dir: Vec<PathBuf>,
    /// Clone an account: from a dump, the JSON of `solana account` or the program of `solana program dump`, or without
    /// FILE from the node at --url. May be repeated.
    #[arg(short = 'c', long, value_names = ["ADDRESS", "FILE"], num_args = 1..)]
    pub clone: Vec<String>,
    /// As --clone from the node at --url, but a missing account is no error.
    #[arg(long, value_name = "ADDRESS", num_args = 1.., requires = "url")]
    pub maybe_clone: Vec<String>,
    /// Clone an upgradeable program, with its data, from the node at --url.
    #[arg(long, value_name = "ADDRESS", num_args = 1.., requires = "url")]
    pub clone_upgradeable_program: Vec<String>,
    /// Begin without this feature, which mainnet has. May be repeated.
    #[arg(long, value_name = "FEATURE")]
    pub deactivate_feature: Vec<String>,
    /// Begin with the features that are active at the node at --url.
    #[arg(long, requires = "url")]
    pub clone_feature_set: bool,
    /// The RPC of the node to clone from, at its newest confirmed block: `http://host:port`.
    #[arg(short = 'u', long, value_name = "URL")]
    pub url: Option<String>,
    /// The address that gets 500,000,000 SOL.
    #[arg(long, value_name = "ADDRESS")]
    pub mint: Option<String>,
    /// The faucet's balance.
    #[arg(long, value_name = "SOL", value_parser = sol, allow_negative_numbers = true)]
    pub faucet_sol: Option<u64>,
    /// Ticks per slot, of 6.25 ms unless configured otherwise.
    #[arg(long, value_name = "TICKS", value_parser = ticks, allow_negative_numbers = true)]
    pub ticks_per_slot: Option<u64>,
    /// Duration of a slot.
    #[arg(long, value_name = "MILLISECONDS", value_parser = slot_ms, allow_negative_numbers = true)]
    pub slot_ms: Option<u64>,
    /// Slots per epoch.
    #[arg(long, value_name = "SLOTS", value_parser = epoch, allow_negative_numbers = true)]
    pub slots_per_epoch: Option<u64>,
    /// The slot after which the chain begins; without SLOT, that of the node at --url.
    #[arg(short = 'w', long, value_name = "SLOT", num_args = 0..=1, value_parser = number, allow_negative_numbers = true)]
    pub warp_slot: Option<Option<u64>>,

    /// The node's name. Nodes with different names run side by side, each with its own chain (in `.hearth/NAME/` unless
    /// --ledger names a folder).
    #[arg(long, value_name = "NAME", help_heading = "How the node runs")]
    pub name: Option<String>,
    /// The chain's folder.
    #[arg(short = 'l', long, value_name = "DIR", help_heading = "How the node runs")]
    pub ledger: Option<PathBuf>,
    /// Delete the chain, but not its keys, and begin a new one.
    #[arg(short = 'r', long, help_heading = "How the node runs")]
    pub reset: bool,
    /// Make slots on demand: when there is work, and until it is final; then the chain pauses.
    #[arg(long, help_heading = "How the node runs")]
    pub slots_on_demand: bool,
    /// Vote in a cluster although the vote account has voted before and the tower here is missing or older; lost votes
    /// may still bind, so this risks a lockout violation.
    #[arg(long, help_heading = "How the node runs")]
    pub vote_without_tower: bool,
    /// End with an error where this machine lacks a step of the sandbox of a tile that has a process of its own.
    #[arg(long, help_heading = "How the node runs")]
    pub require_isolation: bool,
    /// The identity of a node that may vouch for snapshots when this node joins a cluster, in addition to the
    /// configuration's. May be repeated.
    #[arg(long, value_name = "ADDRESS", help_heading = "How the node runs")]
    pub known_validator: Vec<Address>,
    /// Download snapshots from known validators only.
    #[arg(long, help_heading = "How the node runs")]
    pub only_known_rpc: bool,
    /// A hard fork's slot, in addition to the configuration's. May be repeated.
    #[arg(long, value_name = "SLOT", value_parser = number, allow_negative_numbers = true, help_heading = "How the node runs")]
    pub hard_fork: Vec<u64>,
    /// The port of JSON-RPC; WebSocket is on the next one.
    #[arg(long, value_name = "PORT", value_parser = port, allow_negative_numbers = true, help_heading = "How the node runs")]
    pub rpc_port: Option<u16>,
    /// The address of JSON-RPC, WebSocket and TPU.
    #[arg(long, value_name = "ADDRESS", help_heading = "How the node runs")]
    pub bind_address: Option<IpAddr>,
    /// Disk space for blocks, in data shreds of 1,203 bytes.
    #[arg(long, value_name = "SHREDS", value_parser = shreds, allow_negative_numbers = true, help_heading = "How the node runs")]
    pub limit_ledger_size: Option<u64>,
    /// Maximum amount of one airdrop.
    #[arg(long, value_name = "SOL", value_parser = sol, allow_negative_numbers = true, help_heading = "How the node runs")]
    pub faucet_per_request_sol_cap: Option<u64>,
    /// Maximum amount of all airdrops in a time slice.
    #[arg(long, value_name = "SOL", value_parser = sol, allow_negative_numbers = true, help_heading = "How the node runs")]
    pub faucet_per_time_sol_cap: Option<u64>,
    /// Duration of that time slice.
    #[arg(long, value_name = "SECONDS", value_parser = at_least_one, allow_negative_numbers = true, help_heading = "How the node runs")]
    pub faucet_time_slice_secs: Option<u64>,
    /// Maximum bytes of log lines kept for one transaction.
    #[arg(long, value_name = "BYTES", value_parser = log_bytes, allow_negative_numbers = true, help_heading = "How the node runs")]
    pub log_messages_bytes_limit: Option<usize>,
    /// Print only notices and errors.
    #[arg(short = 'q', long, conflicts_with = "log", help_heading = "How the node runs")]
    pub quiet: bool,
    /// Log the node's activity to standard error (RUST_LOG=info).
    #[arg(long, help_heading = "How the node runs")]
    pub log: bool,
}

pub(crate) fn port(text: &str) -> Result<u16, String> {
    text.parse().map_err(|_| "it must be a port, 0 to 65534 (WebSocket has the next)".into())
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "it must be a whole number, 0 or more".into())
}

fn from(text: &str, least: u64, what: &str) -> Result<u64, String> {
    number(text)
        .ok()
        .filter(|n| *n >= least)
        .ok_or_else(|| format!("it must be a whole number of {what}, at least {least}"))
}

fn ticks(text: &str) -> Result<u64, String> {
    from(text, TICKS_LEAST, "ticks").ok().filter(|ticks| *ticks <= 255).ok_or("it must be 2 to 255 ticks".into())
}

fn slot_ms(text: &str) -> Result<u64, String> {
    let refused =
        format!("it must be 1 to {SLOT_MS_MOST} milliseconds; for slots that start with work, use --slots-on-demand");
    from(text, 1, "milliseconds").ok().filter(|ms| *ms <= SLOT_MS_MOST).ok_or(refused)
}

fn epoch(text: &str) -> Result<u64, String> {
    let refused = format!("it must be {EPOCH_LEAST} to {SLOTS_PER_EPOCH_MAX} slots");
    from(text, EPOCH_LEAST, "slots").ok().filter(|slots| *slots <= SLOTS_PER_EPOCH_MAX).ok_or(refused)
}

fn log_bytes(text: &str) -> Result<usize, String> {
    let bytes = text.parse().ok().filter(|bytes| *bytes <= LOG_BYTES_MAX);
    bytes.ok_or_else(|| format!("it must be a whole number of bytes, at most {LOG_BYTES_MAX}"))
}

pub(crate) fn shreds(text: &str) -> Result<u64, String> {
    from(text, SHREDS_LEAST, "shreds")
}

fn at_least_one(text: &str) -> Result<u64, String> {
    from(text, 1, "seconds")
}

/// Converts an amount of SOL to lamports, exactly.
fn sol(text: &str) -> Result<u64, String> {
    let wrong = || "it must be an amount of SOL, such as 1000 or 0.5".to_owned();
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(part) || part.len() > DECIMALS || whole.len() + part.len() == 0 {
        return Err(wrong());
    }
    format!("{whole}{part:0<DECIMALS$}").parse().map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_exact() {
        for (text, lamports) in [("1", 1_000_000_000), ("0.5", 500_000_000), (".000000001", 1), ("7.", 7_000_000_000)] {
            assert_eq!(sol(text), Ok(lamports), "{text}");
        }
        for wrong in ["", ".", "-1", "1e3", "0.0000000001", "18446744073.709551616", "NaN"] {
            assert!(sol(wrong).is_err(), "{wrong}");
        }
        assert_eq!(sol("18446744073.709551615"), Ok(u64::MAX));
    }

    #[test]
    fn numbers_that_no_chain_can_have_are_refused() {
        assert!(ticks("1").is_err() && ticks("256").is_err() && ticks("2").is_ok());
        assert!(epoch("31").is_err() && epoch("32").is_ok());
        assert!(slot_ms("0").is_err() && slot_ms("60001").is_err() && slot_ms("60000").is_ok());
        assert!(shreds("999").is_err() && at_least_one("0").is_err());
    }
}
