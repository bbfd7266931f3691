//! What strangers and a hostile node send beside what the protocol says.
//!
//! reads   what was sent before
//! writes  datagrams
//! memory  none of its own

use hearth_pipeline::links::PortKind;

use crate::network::Network;

/// Every port that takes something of strangers.
const PORTS: [PortKind; 6] =
    [PortKind::Gossip, PortKind::Tvu, PortKind::Repair, PortKind::ServeRepair, PortKind::Udp, PortKind::Quic];

/// Strangers send so many datagrams to a port of each node: what they have seen there, and noise.
pub fn flood(network: &mut Network, now: u64, nodes: usize, port: PortKind, count: u64) {
    for number in 0..count {
        let seen = network.captured(port).filter(|_| number % 4 > 0);
        let data = seen.unwrap_or_else(|| network.noise());
        network.send_strange(now, (number as usize) % nodes, port, data);
    }
}

/// Noise to all ports of each node.
pub fn noise(network: &mut Network, now: u64, nodes: usize) {
    for node in 0..nodes {
        for port in PORTS {
            let data = network.noise();
            network.send_strange(now, node, port, data);
        }
    }
}
