//! Bandwidth: how many bytes came from whom and went to whom, for the few who have most of them.
//!
//! reads   each datagram's address and length, from the tile that takes and sends them
//! writes  [`words`] of the tile's counters region, at each housekeeping
//! memory  60 B for each peer told apart, and 48 B in the workspace; [`PLACES`] of them
//! drops   nothing: what is counted for nobody in particular is counted for the others
//! source  heavy hitters by decrements (Misra and Gries, 1982), with weights that fade, beside places that are kept
//!
//! A peer is an IP address, as the limits on connections have it: one that opens many ports is one peer still. On
//! loopback everybody shares the address, so that there the port belongs to it.
//!
//! [`Table`] is the tile's side, [`Tally`] what an observer reads. Observers take a place for what it says only where
//! its check word fits the rest, so that none is needed to order the stores.

mod table;

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};

pub use table::Table;

/// Places of a table: what a tile that talks to peers tells apart. Whoever has more than a 33rd of all bytes of late
/// has one, whatever the others do, and the heaviest 32 keep theirs.
pub const PLACES: usize = 64;
/// Words of a place: the peer's three, bytes received, bytes sent, the check.
const PLACE_WORDS: usize = 6;
/// Words before the places: bytes received from the others, and sent to them.
const HEAD_WORDS: usize = 2;
/// A place is read again while it is being written, so often, with the core given away in between.
const READS: usize = 1_000;

/// Words of a table of so many places.
pub const fn words(places: usize) -> usize {
    if places == 0 { 0 } else { HEAD_WORDS + places * PLACE_WORDS }
}

/// Whom bytes are counted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Peer([u64; 3]);

impl Peer {
    /// In a place's third word, where somebody has it.
    const IS_SOMEBODY: u64 = 1 << 16;

    /// The peer at an address.
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

/// `192.0.2.7`, `2001:db8::7`, `127.0.0.1:8001`.
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

/// What came and what went, bytes of datagrams without the headers of IP and UDP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    /// From the peer.
    pub received: u64,
    /// To the peer.
    pub sent: u64,
}

impl Bytes {
    /// With others' beside them.
    pub fn plus(self, other: Self) -> Self {
        Self { received: self.received + other.received, sent: self.sent + other.sent }
    }

    /// What came after `earlier`.
    pub fn since(self, earlier: Self) -> Self {
        Self { received: self.received.saturating_sub(earlier.received), sent: self.sent.saturating_sub(earlier.sent) }
    }
}

/// What tables of one or several tiles say at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Those who have a place, since they have it.
    pub peers: BTreeMap<Peer, Bytes>,
    /// All others, and what peers had who lost their place.
    pub others: Bytes,
}

impl Tally {
    /// Adds a table that a tile has written; nothing where `words` are fewer than a table takes.
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

    /// Everybody's bytes.
    pub fn total(&self) -> Bytes {
        self.peers.values().fold(self.others, |sum, bytes| sum.plus(*bytes))
    }

    /// What came after `earlier`. Who has lost a place since and got one again has only what came after that; the rest
    /// is the others', so that the total is right.
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

/// What a place says; `None` where nobody has it.
fn read_place(words: &[AtomicU64]) -> Option<(Peer, Bytes)> {
    for _ in 0..READS {
        let [high, low, port, received, sent, check] = std::array::from_fn(|at| words[at].load(Ordering::Relaxed));
        if check == self::check([high, low, port, received, sent]) {
            return (port != 0).then_some((Peer([high, low, port]), Bytes { received, sent }));
        }
        std::thread::yield_now();
    }
    // Its writer died while it wrote.
    None
}

/// 0 for zeros, as a workspace begins.
fn check(words: [u64; PLACE_WORDS - 1]) -> u64 {
    words.iter().fold(0, |mixed: u64, word| (mixed ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29))
}

#[cfg(test)]
mod tests;
