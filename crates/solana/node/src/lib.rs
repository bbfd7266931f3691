//! node: what assembles and runs a Solana node: its configuration, ports, chain on disk, and the commands for it.
//!
//! reads   a configuration, a ledger folder
//! writes  the ledger folder, the workspace file; starts tiles, threads and the RPC
//! memory  printed by `hearth config show --memory`
//!
//! The walk: [`config`] → [`ports`] (taken before anything is made) → [`peers::join`] (in a cluster: the genesis and a
//! snapshot of others) → [`boot::open_chain`] ([`restore`], [`history_repair`], [`mod@replay`]) → [`boot::boot`] (the
//! tiles and the RPC) → [`mod@run`], which waits for the end. [`developer`] is what a chain begins with,
//! [`ledger_command`] looks at one that does not run. The rest are parts of `hearth config`.

#![deny(clippy::print_stdout, clippy::print_stderr)] // `output` does not panic when nobody reads.

pub mod boot;
pub mod check;
pub mod config;
pub mod developer;
pub mod history_repair;
pub mod hugepages;
pub mod ledger_command;
pub mod memory;
pub mod peers;
pub mod ports;
pub mod replay;
pub mod restore;
pub mod run;
pub mod start_checks;
pub mod tile_kinds;
