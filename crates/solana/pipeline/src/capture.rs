//! capture: copies what a node receives from the network, decrypted, for the recording of a session.
//!
//! reads   datagrams that `net` has passed on; transactions that `quic` has read; data shreds that `shred` has made
//! writes  a queue that the host empties: tiles open no files
//! memory  [`QUEUE_BYTES_MAX`]
//! drops   packets that find the queue full: counted, and the recording is of no use then
//!
//! A shred, a gossip datagram, a request or a response is copied where its datagram enters the node. A transaction is
//! copied behind QUIC, since nobody can encrypt its packets a second time. The data shreds of own blocks are copied,
//! too: other leaders build on these blocks, and a replay does not make them again.
//!
//! The queue is shared beside the links. Its lock is held for a push, or while the host takes the whole queue.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};

use parking_lot::Mutex;

use crate::links::{Datagram, PortKind};

/// Maximum bytes of the queue, with those that each packet takes beside its own.
pub const QUEUE_BYTES_MAX: usize = 16 << 20;
/// Bytes that a packet takes in the queue beside its own.
const PACKET_BYTES: usize = size_of::<CapturedPacket>();

/// The origin of a packet, which is also the tile that it was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum PacketSource {
    /// The Turbine port: a shred, for `shred`.
    Turbine = 0,
    /// The repair port: a response, for `shred`; a ping or hashes of ancestors, for `repair`.
    Repair = 1,
    /// The port of repair's server: a request or a pong, for `rserve`.
    Request = 2,
    /// The gossip port, for `gossip`.
    Gossip = 3,
    /// Behind QUIC, or the plain UDP port: a transaction or a vote, for `verify`.
    Transaction = 4,
    /// A data shred of an own block, as `shred` has made it.
    Own = 5,
}

impl PacketSource {
    /// All sources, each at the place of its number.
    pub const ALL: [Self; 6] = [Self::Turbine, Self::Repair, Self::Request, Self::Gossip, Self::Transaction, Self::Own];
}

/// A packet, and when it was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapturedPacket {
    /// The node's clock, nanoseconds since it was made.
    pub at_ns: u64,
    /// The port or tile that it came from.
    pub source: PacketSource,
    /// The sender's address; unspecified where the tile does not know it.
    pub from: SocketAddr,
    /// The packet's bytes, as the tile received them.
    pub data: Vec<u8>,
}

/// An address that is not known.
pub const UNKNOWN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// The queue between the tiles and the host's recorder. All clones are the same queue.
#[derive(Clone, Debug, Default)]
pub struct Tap(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    dropped: AtomicU64,
    has_ended: AtomicBool,
}

#[derive(Debug, Default)]
struct Queue {
    packets: VecDeque<CapturedPacket>,
    bytes: usize,
}

impl Tap {
    /// Copies a datagram that was received at `at_ns`, unless it is encrypted or a transaction.
    pub fn received(&self, at_ns: u64, datagram: &Datagram<'_>) {
        let source = match datagram.port {
            PortKind::Tvu => PacketSource::Turbine,
            PortKind::Repair => PacketSource::Repair,
            PortKind::ServeRepair => PacketSource::Request,
            PortKind::Gossip => PacketSource::Gossip,
            PortKind::Quic | PortKind::Udp | PortKind::TxSend => return,
        };
        self.push(at_ns, source, datagram.from, datagram.data);
    }

    /// Copies a transaction that was read at `at_ns`.
    pub fn transaction(&self, at_ns: u64, data: &[u8]) {
        self.push(at_ns, PacketSource::Transaction, UNKNOWN, data);
    }

    /// Copies a data shred of an own block that was signed at `at_ns`.
    pub fn own(&self, at_ns: u64, shred: &[u8]) {
        self.push(at_ns, PacketSource::Own, UNKNOWN, shred);
    }

    fn push(&self, at_ns: u64, source: PacketSource, from: SocketAddr, data: &[u8]) {
        if self.0.has_ended.load(Relaxed) {
            return;
        }
        let mut queue = self.0.queue.lock();
        let bytes = queue.bytes + PACKET_BYTES + data.len();
        if bytes > QUEUE_BYTES_MAX {
            self.0.dropped.fetch_add(1, Relaxed);
            return;
        }
        queue.bytes = bytes;
        queue.packets.push_back(CapturedPacket { at_ns, source, from, data: data.to_vec() });
    }

    /// Takes all packets of the queue, the oldest first.
    pub fn take(&self) -> VecDeque<CapturedPacket> {
        let mut queue = self.0.queue.lock();
        queue.bytes = 0;
        std::mem::take(&mut queue.packets)
    }

    /// How many packets found the queue full.
    pub fn dropped(&self) -> u64 {
        self.0.dropped.load(Relaxed)
    }

    /// Ends the recording with what is in the queue: later packets are neither copied nor counted.
    pub fn close(&self) {
        self.0.has_ended.store(true, SeqCst);
    }

    /// Whether the recording has ended.
    pub fn is_closed(&self) -> bool {
        self.0.has_ended.load(SeqCst)
    }

    /// Ends the recording, and empties the queue.
    pub fn end(&self) {
        self.close();
        drop(self.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn datagram(port: PortKind, data: &[u8]) -> Datagram<'_> {
        Datagram { from: UNKNOWN, port, data }
    }

    #[test]
    fn packets_are_taken_in_order_and_encrypted_ones_not_copied() {
        let tap = Tap::default();
        tap.received(1, &datagram(PortKind::Tvu, &[1]));
        for port in [PortKind::Quic, PortKind::Udp, PortKind::TxSend] {
            tap.received(2, &datagram(port, &[2]));
        }
        tap.received(3, &datagram(PortKind::Gossip, &[3]));
        tap.transaction(4, &[4]);
        tap.own(6, &[6, 6]);
        let taken: Vec<_> = tap.take().into_iter().map(|packet| (packet.at_ns, packet.source, packet.data)).collect();
        let expected = [
            (1, PacketSource::Turbine, vec![1]),
            (3, PacketSource::Gossip, vec![3]),
            (4, PacketSource::Transaction, vec![4]),
            (6, PacketSource::Own, vec![6, 6]),
        ];
        assert_eq!(taken, expected);
        assert!(tap.take().is_empty());
    }

    #[test]
    fn full_queue_drops_and_counts() {
        let tap = Tap::default();
        let data = vec![0; QUEUE_BYTES_MAX / 4];
        (0..5).for_each(|at| tap.transaction(at, &data));
        assert_eq!(tap.dropped(), 2);
        assert_eq!(tap.take().len(), 3);
        tap.transaction(9, &data);
        tap.close();
        assert!(tap.is_closed());
        tap.transaction(9, &data);
        assert_eq!(tap.take().len(), 1, "there was room again until the end");
        tap.end();
        tap.transaction(10, &data);
        assert!(tap.take().is_empty());
        assert_eq!(tap.dropped(), 2);
    }

    #[test]
    fn sources_are_at_their_numbers() {
        for (number, source) in PacketSource::ALL.into_iter().enumerate() {
            assert_eq!(source as usize, number);
        }
    }
}
