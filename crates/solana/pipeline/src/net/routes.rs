//! routes: which tile gets a datagram, by the port that it came to.
//!
//! reads   a datagram
//! writes  the links from net
//! memory  a port for each link
//! drops   what a tile has no room for, but for quic's: counted
//!
//! The simulator's network delivers by the same routes as the tile with the sockets.

use std::net::{IpAddr, SocketAddr};

use hearth_tile::{Host, Out, Port, Tile};
use hearth_wire::repair::{PING_DATAGRAM_SIZE, is_hashes_size};
use hearth_wire::shred::SLOT;

use super::Counters;
use crate::links::{Datagram, NET_GOSSIP, NET_QUIC, NET_REPAIR, NET_RSERVE, NET_SHRED, NET_TXSEND, PortKind};

/// The links from net to the tiles that take datagrams.
pub struct Routes {
    quic: Vec<Port>,
    shred: Vec<Port>,
    repair: Vec<Port>,
    gossip: Option<Port>,
    rserve: Vec<Port>,
    txsend: Option<Port>,
}

impl Routes {
    /// Makes the routes from the outputs that the topology gives this tile; all are elective from now on.
    pub fn new(host: &mut Host<'_>) -> Self {
        let routes = Self {
            quic: host.outputs(NET_QUIC),
            shred: host.outputs(NET_SHRED),
            repair: host.outputs(NET_REPAIR),
            gossip: host.outputs(NET_GOSSIP).first().copied(),
            rserve: host.outputs(NET_RSERVE),
            txsend: host.outputs(NET_TXSEND).first().copied(),
        };
        let Self { quic, shred, repair, gossip, rserve, txsend } = &routes;
        for port in quic.iter().chain(shred).chain(repair).chain(gossip).chain(rserve).chain(txsend) {
            host.elective(*port);
        }
        routes
    }

    /// Whether there are links for just these ports: of transactions, of shreds, of gossip.
    pub(super) fn fit(&self, (transactions, shreds, gossip): (bool, bool, bool)) -> bool {
        self.quic.is_empty() != transactions
            && [&self.shred, &self.repair, &self.rserve].iter().all(|ports| ports.is_empty() != shreds)
            && self.gossip.is_some() == gossip
    }

    /// Gives a datagram to its tile. False where quic has no room: then the same datagram is offered again.
    pub fn deliver<T: Tile<Counters = Counters>>(&self, datagram: Datagram<'_>, out: &mut Out<'_, T>) -> bool {
        if self.is_for_cluster(datagram, out) {
            return true;
        }
        let port = self.quic[flow_hash(datagram.from) as usize % self.quic.len()];
        let has_room = out.credits(port, 1) > 0;
        if has_room {
            publish(port, datagram, out);
        }
        has_room
    }

    /// Publishes a datagram that is not for quic, if it is one. For none of these does the socket wait.
    fn is_for_cluster<T: Tile<Counters = Counters>>(&self, datagram: Datagram<'_>, out: &mut Out<'_, T>) -> bool {
        match datagram.port {
            // No shred is as long as either.
            PortKind::Repair if is_for_repair(datagram.data.len()) => {
                if !offer(self.repair[0], datagram, out) {
                    out.count.dropped_pings += 1;
                }
            }
            PortKind::Tvu | PortKind::Repair => publish_shred(&self.shred, datagram, out),
            PortKind::ServeRepair => {
                if !offer(self.rserve[0], datagram, out) {
                    out.count.dropped_requests += 1;
                }
            }
            PortKind::Gossip => {
                let port = self.gossip.expect("the socket of gossip and the link go together");
                if !offer(port, datagram, out) {
                    out.count.dropped_gossip += 1;
                }
            }
            PortKind::TxSend => {
                let port = self.txsend.expect("who sends to leaders has the socket");
                if !offer(port, datagram, out) {
                    out.count.dropped_answers += 1;
                }
            }
            PortKind::Quic | PortKind::Udp => return false,
        }
        true
    }
}

/// Whether what comes to the port of repair is no shred: a ping, or hashes of ancestors.
const fn is_for_repair(size: usize) -> bool {
    size == PING_DATAGRAM_SIZE || is_hashes_size(size)
}

/// Gives a shred to the tile that takes its slot. Nobody waits for it: a shred that is lost here is asked for again.
fn publish_shred<T: Tile<Counters = Counters>>(shred: &[Port], datagram: Datagram<'_>, out: &mut Out<'_, T>) {
    let slot =
        datagram.data.get(SLOT..SLOT + 8).map_or(0, |slot| u64::from_le_bytes(slot.try_into().expect("8 bytes")));
    if !offer(shred[(slot % shred.len() as u64) as usize], datagram, out) {
        out.count.dropped_shreds += 1;
    }
}

/// Publishes a datagram that nobody waits for. False where its link has no room. One that is longer than anything that
/// the link carries is dropped, and counted as such.
fn offer<T: Tile<Counters = Counters>>(port: Port, datagram: Datagram<'_>, out: &mut Out<'_, T>) -> bool {
    if Datagram::HEADER + datagram.data.len() > out.mtu(port) {
        out.count.dropped_oversize += 1;
        return true;
    }
    if out.credits(port, 1) == 0 {
        return false;
    }
    publish(port, datagram, out);
    true
}

fn publish<T: Tile<Counters = Counters>>(port: Port, datagram: Datagram<'_>, out: &mut Out<'_, T>) {
    out.publish_with(port, 0, |buffer| datagram.write(buffer));
    out.count.received += 1;
    out.count.received_bytes += datagram.data.len() as u64;
    out.received_from(datagram.from, datagram.data.len());
}

/// One flow always goes to the same quic tile, since that holds the connection.
pub(super) fn flow_hash(from: SocketAddr) -> u64 {
    let ip = match from.ip() {
        IpAddr::V4(v4) => u64::from(v4.to_bits()),
        IpAddr::V6(v6) => (v6.to_bits() >> 64) as u64 ^ v6.to_bits() as u64,
    };
    // Each multiplication carries upwards only, so that the high half comes down in between: every bit of address and
    // port moves the low bits, of which the choice is made.
    let mixed = (ip.rotate_left(16) ^ u64::from(from.port())).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
}
