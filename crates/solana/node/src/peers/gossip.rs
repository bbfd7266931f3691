//! Gossip's interface to the rest of the node: its configuration, and its nodes for the RPC.
//!
//! reads   the configuration; the [`Board`] of gossip
//! writes  the configuration of the gossip tile; the nodes of getClusterNodes
//! memory  the result
//! source  `docs/gossip.md`

use std::net::{IpAddr, SocketAddrV4};

use hearth_gossip::Config;
use hearth_gossip::board::Board;
use hearth_rpc::ClusterNode;
use hearth_wire::gossip::{ContactInfo, SocketKind};

/// Configures gossip at an address. Addresses of private networks count only if its own is one.
pub fn config(ip: IpAddr, entrypoints: Vec<SocketAddrV4>) -> Config {
    let allow_private = match ip {
        IpAddr::V4(ip) => ip.is_loopback() || ip.is_private(),
        IpAddr::V6(_) => false,
    };
    Config { entrypoints, allow_private, ..Config::default() }
}

/// The nodes known to gossip.
pub fn nodes(board: &Board) -> Vec<ClusterNode> {
    board.nodes().iter().map(listed).collect()
}

/// Names of client programs by their number in gossip; the others are shown by number.
const CLIENTS: [&str; 8] =
    ["SolanaLabs", "JitoLabs", "Frankendancer", "Agave", "AgavePaladin", "Firedancer", "AgaveBam", "Sig"];

fn listed(contact: &ContactInfo) -> ClusterNode {
    let socket = |kind| contact.socket(kind).map(Into::into);
    ClusterNode {
        identity: contact.pubkey,
        gossip: socket(SocketKind::Gossip),
        tvu: socket(SocketKind::Tvu),
        tpu: socket(SocketKind::Tpu),
        tpu_quic: socket(SocketKind::TpuQuic),
        tpu_forwards_quic: socket(SocketKind::TpuForwardsQuic),
        tpu_vote: socket(SocketKind::TpuVote),
        serve_repair: socket(SocketKind::ServeRepair),
        rpc: socket(SocketKind::Rpc),
        pubsub: socket(SocketKind::RpcPubsub),
        version: contact.version.to_string(),
        client: match contact.version.client {
            CLIENT => "Hearth".into(),
            client => CLIENTS.get(usize::from(client)).map_or(format!("Unknown({client})"), ToString::to_string),
        },
        feature_set: Some(contact.version.feature_set),
        shred_version: contact.shred_version,
    }
}

/// This program's client number in gossip, which no other program uses.
pub const CLIENT: u16 = 0x4865;
