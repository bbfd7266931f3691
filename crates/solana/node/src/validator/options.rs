//! The options of `hearth validator` that start a node, and what they mean in the configuration.
//!
//! reads   the command line
//! writes  the configuration
//! memory  the texts
//!
//! Names and short forms are those of `agave-validator` where the meaning is the same.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use hearth_ledger::hard_forks::union;
use hearth_wire::base58::decode_32;

use super::ValidatorError;
use crate::config::{Address, Config, Entrypoint};
use crate::developer::{SHRED_BYTES, port, shreds};
use crate::peers::join::ArchiveUrl;

/// The ports that a node takes of a range: gossip, shreds, repair's two, and TPU's two.
const PORTS: u16 = 6;

/// The options of a node.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = "The node that starts (each option goes before the configuration file)")]
pub struct NodeOptions {
    /// The node's identity.
    #[arg(short = 'i', long, value_name = "KEYPAIR")]
    pub identity: Option<PathBuf>,
    /// The vote account. Without one the node only follows.
    #[arg(long, value_name = "ADDRESS_OR_KEYPAIR")]
    pub vote_account: Option<PathBuf>,
    /// The key of an authorized voter of the vote account, at most four; without any the identity is the authorized
    /// voter. May be repeated.
    #[arg(long, value_name = "KEYPAIR")]
    pub authorized_voter: Vec<PathBuf>,
    /// Do not vote.
    #[arg(long)]
    pub no_voting: bool,
    /// Vote although the vote account has voted before and the tower here is missing or older; lost votes may still
    /// bind, so this risks a lockout violation.
    #[arg(long)]
    pub vote_without_tower: bool,
    /// End with an error where this machine lacks a step of the sandbox of a tile that has a process of its own.
    #[arg(long)]
    pub require_isolation: bool,
    /// A node of the cluster at which gossip begins. May be repeated.
    #[arg(short = 'n', long, value_name = "HOST:PORT")]
    pub entrypoint: Vec<Entrypoint>,
    /// Accept only the genesis with this hash.
    #[arg(long, value_name = "HASH", value_parser = hash)]
    pub expected_genesis_hash: Option<String>,
    /// Join only a cluster with this shred version.
    #[arg(long, value_name = "VERSION", value_parser = clap::value_parser!(u16).range(1..))]
    pub expected_shred_version: Option<u16>,
    /// A hard fork's slot, in addition to the configuration's. May be repeated.
    #[arg(long, value_name = "SLOT")]
    pub hard_fork: Vec<u64>,
    /// A node that may vouch for snapshots; with one, no other node may. May be repeated.
    #[arg(long, value_name = "ADDRESS")]
    pub known_validator: Vec<Address>,
    /// Download snapshots from known validators only.
    #[arg(long)]
    pub only_known_rpc: bool,
    /// Take this archive in place of a snapshot that nodes announce: http://HOST:PORT/snapshot-SLOT-HASH.tar.zst.
    #[arg(long, value_name = "URL", value_parser = archive_url, conflicts_with = "no_snapshot_fetch")]
    pub snapshot_url: Option<String>,
    /// Take no snapshot of a peer.
    #[arg(long)]
    pub no_snapshot_fetch: bool,
    /// The folder of the snapshots.
    #[arg(long, value_name = "DIR")]
    pub snapshots: Option<PathBuf>,
    /// Take no snapshots of the own state.
    #[arg(long)]
    pub no_snapshots: bool,
    /// Slots between two snapshots of the own state.
    #[arg(long, value_name = "SLOTS", value_parser = clap::value_parser!(u64).range(1..))]
    pub full_snapshot_interval_slots: Option<u64>,
    /// Snapshots that are kept.
    #[arg(long, value_name = "NUMBER", value_parser = at_least_one)]
    pub maximum_full_snapshots_to_retain: Option<usize>,
    /// Take a peer's snapshot at the start if it is at least this many slots ahead of the newest final block.
    #[arg(long, value_name = "SLOTS")]
    pub maximum_local_snapshot_age: Option<u64>,
    /// Disk space for blocks, in data shreds of 1,203 bytes.
    #[arg(long, value_name = "SHREDS", value_parser = shreds)]
    pub limit_ledger_size: Option<u64>,
    /// The address of gossip, shreds, repair and TPU, and of the RPC unless that is private or has its own; other
    /// nodes reach this one there.
    #[arg(long, value_name = "IPV4")]
    pub bind_address: Option<Ipv4Addr>,
    /// The port of gossip, UDP and TCP.
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub gossip_port: Option<u16>,
    /// The range of all other ports but those of RPC and metrics, gossip's first unless --gossip-port is given: shreds,
    /// repair, repair's server, TPU, TPU over QUIC.
    #[arg(long, value_name = "MIN-MAX")]
    pub dynamic_port_range: Option<PortRange>,
    /// The port of JSON-RPC; WebSocket is on the next one.
    #[arg(long, value_name = "PORT", value_parser = port)]
    pub rpc_port: Option<u16>,
    /// The address of JSON-RPC and WebSocket.
    #[arg(long, value_name = "ADDRESS")]
    pub rpc_bind_address: Option<IpAddr>,
    /// Keep the RPC's address out of gossip.
    #[arg(long)]
    pub private_rpc: bool,
    /// Record the session into this folder, the identity key too: with test keys only.
    #[arg(long, value_name = "DIR")]
    pub capture: Option<PathBuf>,
}

/// A range of ports, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    /// The lowest port of the range.
    pub first: u16,
    /// The highest port, which belongs to the range.
    pub last: u16,
}

impl FromStr for PortRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let ports = text.split_once('-').and_then(|(first, last)| {
            let (first, last) = (first.parse().ok()?, last.parse().ok()?);
            Some(Self { first, last })
        });
        ports
            .filter(|ports| ports.first > 0 && ports.first <= ports.last)
            .ok_or_else(|| format!("`{text}` is not a range of ports, as 8000-8025"))
    }
}

fn hash(text: &str) -> Result<String, String> {
    match decode_32(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err("it is not a hash in base58".into()),
    }
}

fn archive_url(text: &str) -> Result<String, String> {
    text.parse::<ArchiveUrl>().map(|url| url.to_string())
}

fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|number| *number > 0).ok_or_else(|| "it must be a whole number, at least 1".into())
}

/// Sets a key if the option is given.
fn set<T: Clone>(key: &mut T, given: &Option<T>) {
    if let Some(given) = given {
        key.clone_from(given);
    }
}

impl NodeOptions {
    /// Applies the options to the configuration, and puts the node into a cluster.
    ///
    /// # Errors
    ///
    /// The range of ports is too small. Whether values fit each other is not checked here.
    pub fn apply(&self, config: &mut Config) -> Result<(), ValidatorError> {
        self.apply_consensus(config);
        self.apply_snapshots(config);
        self.apply_addresses(config);
        self.apply_ports(config)
    }

    fn apply_consensus(&self, config: &mut Config) {
        config.gossip.enabled = true;
        if !self.entrypoint.is_empty() {
            config.gossip.entrypoints.clone_from(&self.entrypoint);
        }
        let consensus = &mut config.consensus;
        set(&mut consensus.identity_path, &self.identity);
        set(&mut consensus.vote_account_path, &self.vote_account);
        set(&mut consensus.expected_genesis_hash, &self.expected_genesis_hash);
        set(&mut consensus.expected_shred_version, &self.expected_shred_version);
        if !self.authorized_voter.is_empty() {
            consensus.authorized_voter_paths.clone_from(&self.authorized_voter);
        }
        consensus.vote &= !self.no_voting;
        consensus.vote_without_tower |= self.vote_without_tower;
        consensus.hard_forks = union(&consensus.hard_forks, &self.hard_fork);
        set(&mut config.development.capture.folder, &self.capture);
        config.security.require_isolation |= self.require_isolation;
    }

    fn apply_snapshots(&self, config: &mut Config) {
        let snapshots = &mut config.snapshots;
        if !self.known_validator.is_empty() {
            snapshots.known_validators.clone_from(&self.known_validator);
        }
        snapshots.only_known_rpc |= self.only_known_rpc;
        // A file that takes no snapshots of peers would make nothing of the archive that is named here.
        snapshots.download = (snapshots.download || self.snapshot_url.is_some()) && !self.no_snapshot_fetch;
        snapshots.enabled &= !self.no_snapshots;
        set(&mut snapshots.path, &self.snapshots);
        set(&mut snapshots.url, &self.snapshot_url);
        set(&mut snapshots.full_snapshot_interval_slots, &self.full_snapshot_interval_slots);
        set(&mut snapshots.maximum_full_snapshots_to_retain, &self.maximum_full_snapshots_to_retain);
        set(&mut snapshots.maximum_local_snapshot_age, &self.maximum_local_snapshot_age);
        set(&mut config.ledger.limit_size, &self.limit_ledger_size.map(|shreds| shreds.saturating_mul(SHRED_BYTES)));
    }

    fn apply_addresses(&self, config: &mut Config) {
        config.rpc.private |= self.private_rpc;
        if let Some(address) = self.bind_address {
            config.gossip.bind_address = address;
            config.tiles.net.bind_address = address.into();
            if !config.rpc.private {
                config.rpc.bind_address = address.into();
            }
        }
        set(&mut config.rpc.bind_address, &self.rpc_bind_address);
    }

    fn apply_ports(&self, config: &mut Config) -> Result<(), ValidatorError> {
        set(&mut config.rpc.port, &self.rpc_port);
        set(&mut config.gossip.port, &self.gossip_port);
        let Some(PortRange { first, last }) = self.dynamic_port_range else { return Ok(()) };
        let needed = if self.gossip_port.is_some() { PORTS - 1 } else { PORTS };
        if last - first < needed - 1 {
            let what = format!("{first}-{last} has too few ports: the node needs {needed}");
            return Err(ValidatorError::Option { option: "--dynamic-port-range", what });
        }
        let tiles = &mut config.tiles;
        let gossip = if self.gossip_port.is_some() { None } else { Some(&mut config.gossip.port) };
        let others = [
            &mut tiles.shred.shred_listen_port,
            &mut tiles.repair.repair_client_listen_port,
            &mut tiles.repair.repair_serve_listen_port,
            &mut tiles.quic.regular_transaction_listen_port,
            &mut tiles.quic.quic_transaction_listen_port,
        ];
        gossip.into_iter().chain(others).zip(first..=last).for_each(|(key, port)| *key = port);
        Ok(())
    }
}
