//! bandwidth: bytes received from and sent to each peer, for the few peers with most of them.
//!
//! reads   each datagram's address and length, from the tile that receives and sends them
//! writes  [`words`] of the tile's counters region, at each housekeeping
//! memory  60 B per distinguished peer, and 48 B in the workspace; [`PLACES`] of them
//! drops   nothing: bytes without a peer of their own count for "others"
//! source  heavy hitters by decrements (Misra and Gries, 1982), with fading weights, next to places that are kept
//!
//! A peer is an IP address, as in the limits on connections: one that opens many ports is still one peer. On loopback
//! all peers share the address, so there the port is included.
//!
//! [`Table`] is the tile's side, [`Tally`] what an observer reads. Observers accept a place only if its check word
//! matches the rest, so the stores need no ordering.

mod table;

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};

pub use table::Table;

/// Places in a table: how many peers a tile distinguishes. A peer with more than 1/33 of all recent bytes has a place,
/// whatever the others do, and the heaviest 32 keep theirs.
pub const PLACES: usize = 64;
/// Words of a place: three for the peer, bytes received, bytes sent, the check.
const PLACE_WORDS: usize = 6;
/// Words before the places: bytes received from the others, and sent to them.
const HEAD_WORDS: usize = 2;
/// How often to reread a place that is being written, yielding the core in between.
const READS: usize = 1_000;

/// Words of a table with this many places.
pub const fn words(places: usize) -> usize {
    if places == 0 { 0 } else { HEAD_WORDS + places * PLACE_WORDS }
}

/// A peer by its IP address, and by its port too if the address is a loopback one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Peer([u64; 3]);

impl Peer {
    /// Bit in a place's third word that marks it as taken.
    const IS_SOMEBODY: u64 = 1 << 16;

    /// Returns the peer at an address.
    #[inline]
    pub fn at(address: SocketAddr) -> Self {
        let (ip, is_loopback) = match address.ip() {
            IpAddr::V4(v4) => (v4.to_ipv6_mapped(), v4.is_loopback()),
            IpAddr::V6(v6) => (v6, v6.is_loopback() || v6.to_ipv4_mapped().is_some_and(|v4| v4.is_loopback())),
        };
        let bits = ip.to_bits();
        let port = if is_loopback { u64::from(address.port()) } else { 0 };
        Self([(bits >> 64) as u64, bits as u64, Self::IS_SOMEBODY | port])
    }
}

/// The address, and the port if it is a loopback one: `192.0.2.7`, `2001:db8::7`, `127.0.0.1:8001`.
impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [high, low, port] = self.0;
        let ip = Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low)).to_canonical();
        match port as u16 {
            0 => write!(f, "{ip}"),
            port => write!(f, "{}", SocketAddr::new(ip, port)),
        }
    }
}

/// Received and sent bytes of datagrams, without IP and UDP headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    /// Bytes from the peer.
    pub received: u64,
    /// Bytes to the peer.
    pub sent: u64,
}

impl Bytes {
    /// The sums of both counts.
    pub fn plus(self, other: Self) -> Self {
        Self { received: self.received + other.received, sent: self.sent + other.sent }
    }

    /// The difference from an earlier count.
    pub fn since(self, earlier: Self) -> Self {
        Self { received: self.received.saturating_sub(earlier.received), sent: self.sent.saturating_sub(earlier.sent) }
    }
}

/// A snapshot of the tables of one or several tiles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Peers with a place, counted since they got it.
    pub peers: BTreeMap<Peer, Bytes>,
    /// All others, including earlier bytes of peers that lost their place.
    pub others: Bytes,
}

impl Tally {
    /// Adds a table that a tile has written; ignores `words` that are too short for it.
    pub fn add(&mut self, words: &[AtomicU64], places: usize) {
        if places == 0 || words.len() < self::words(places) {
            return;
        }
        let (head, places) = words[..self::words(places)].split_at(HEAD_WORDS);
        let [received, sent] = [&head[0], &head[1]].map(|word| word.load(Ordering::Relaxed));
        self.others = self.others.plus(Bytes { received, sent });
        for (peer, bytes) in places.chunks_exact(PLACE_WORDS).filter_map(read_place) {
            let of_peer = self.peers.entry(peer).or_default();
            *of_peer = of_peer.plus(bytes);
        }
    }

    /// The sum over all peers and the others.
    pub fn total(&self) -> Bytes {
        self.peers.values().fold(self.others, |sum, bytes| sum.plus(*bytes))
    }

    /// The difference from `earlier`. A peer that lost its place and regained it has only the bytes since then; the
    /// rest counts for the others, so that the total is right.
    pub fn since(&self, earlier: &Self) -> Self {
        let of_peer = |(peer, now): (&Peer, &Bytes)| {
            let then = earlier.peers.get(peer).copied().unwrap_or_default();
            let is_same_place = now.received >= then.received && now.sent >= then.sent;
            (*peer, if is_same_place { now.since(then) } else { *now })
        };
        let peers: BTreeMap<Peer, Bytes> = self.peers.iter().map(of_peer).collect();
        let named = peers.values().fold(Bytes::default(), |sum, bytes| sum.plus(*bytes));
        Self { others: self.total().since(earlier.total()).since(named), peers }
    }
}

/// Reads a place; `None` if it is free.
fn read_place(words: &[AtomicU64]) -> Option<(Peer, Bytes)> {
    for _ in 0..READS {
        let [high, low, port, received, sent, check] = std::array::from_fn(|at| words[at].load(Ordering::Relaxed));
        if check == self::check([high, low, port, received, sent]) {
            return (port != 0).then_some((Peer([high, low, port]), Bytes { received, sent }));
        }
        std::thread::yield_now();
    }
    // Its writer died during a write.
    None
}

/// Computes the check word: 0 for zeros, as in a fresh workspace.
fn check(words: [u64; PLACE_WORDS - 1]) -> u64 {
    words.iter().fold(0, |mixed: u64, word| (mixed ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29))
}

#[cfg(test)]
mod tests;
