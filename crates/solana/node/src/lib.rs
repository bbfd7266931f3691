//! node: assembles and runs a Solana node: its configuration, ports, chain on disk, and the commands for it.
//!
//! reads   a configuration, a ledger folder
//! writes  the ledger folder, the workspace file; starts tiles, threads and the RPC
//! memory  printed by `hearth config show --memory`
//!
//! A start goes through [`config`] → [`ports`] (bound before anything is created) → [`peers::join`] (in a cluster: the
//! genesis and a snapshot from peers) → [`boot::open_chain`] ([`restore`], [`history_repair`], [`mod@replay`]) →
//! [`boot::boot`] (tiles and RPC) → [`mod@run`], which waits for the end. [`developer`] sets up a new chain,
//! [`genesis_command`] makes the genesis of a cluster, [`ledger_command`] inspects a chain offline, and [`recorded`]
//! replays what the cluster's own bank did. [`capture`] records what a node receives, for the simulator. [`archives`]
//! serves the cluster's snapshots. [`validator`] runs a node with Agave's options and controls it by the socket of
//! [`admin`]; [`catchup`] compares two nodes. [`apart`] starts and is the process of a tile. The other modules are
//! parts of `hearth config`.

#![deny(clippy::print_stdout, clippy::print_stderr)] // `output` does not panic when nobody reads.

pub mod admin;
pub mod apart;
pub mod archives;
pub mod boot;
pub mod capture;
pub mod catchup;
pub mod check;
pub mod config;
pub mod developer;
pub mod genesis_command;
pub mod history_repair;
pub mod hugepages;
pub mod ledger_command;
pub mod memory;
pub mod peers;
pub mod ports;
pub mod recorded;
pub mod replay;
pub mod restore;
pub mod run;
pub mod start_checks;
pub mod tile_kinds;
pub mod validator;
