//! table: the tile's side: a table of fixed size that the heaviest peers keep.
//!
//! reads   addresses and lengths
//! writes  the places that changed, at each flush
//! memory  [`PLACES`](super::PLACES) places and a tag of 4 B for each
//!
//! Runs of one peer cost a comparison of addresses. Half of the places are kept: the heaviest peers have them, and lose
//! one only to a heavier peer, moving to the other half. There a new peer wears down all weights equally, all at once
//! by raising the floor from which they are counted, and takes a place whose weight is gone. However many addresses are
//! spoofed, they wear down at most their bytes divided by the number of places in that half plus one; a peer with more
//! bytes than that stays.
//! than that stays.

use std::net::SocketAddr;
use std::sync::atomic::AtomicU64;

use super::{Bytes, HEAD_WORDS, PLACE_WORDS, Peer, check};
use crate::counters::put;

/// Interval at which weights are halved, in nanoseconds, so that silent peers give way to current ones.
const FADES_EVERY_NS: u64 = 8_000_000_000;

/// Bytes by peer, as the tile counts them.
#[derive(Clone, Debug)]
pub struct Table {
    /// Keys the tags, so that attackers cannot choose addresses with equal tags.
    secret: [u64; 2],
    tags: Vec<u32>,
    places: Vec<PeerEntry>,
    /// Per place: its fading bytes; if it is not kept, counted above the floor.
    weights: Vec<u64>,
    /// Bit sets of places: the kept ones, and those found with no weight left.
    kept: u64,
    free: u64,
    floor: u64,
    /// Lower bound of the weights of places that are neither kept nor free.
    least: u64,
    others: Bytes,
    /// The last datagram's sender and the last one's destination: usually the next ones are the same.
    runs: [Option<(SocketAddr, usize)>; 2],
    fades_at: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct PeerEntry {
    peer: [u64; 3],
    bytes: Bytes,
    is_new: bool,
}

/// Direction of a datagram.
#[derive(Clone, Copy)]
enum Direction {
    In,
    Out,
}

impl Table {
    /// Creates a table with at most 64 places; `secret` must be unpredictable.
    pub fn new(places: usize, secret: [u64; 2]) -> Self {
        assert!(places <= u64::BITS as usize, "more places than bits");
        Self {
            secret,
            tags: vec![0; places],
            places: vec![PeerEntry::default(); places],
            weights: vec![0; places],
            kept: 0,
            free: u64::MAX.checked_shr(u64::BITS - places as u32).unwrap_or(0),
            floor: 0,
            least: u64::MAX,
            others: Bytes::default(),
            runs: [None; 2],
            fades_at: 0,
        }
    }

    /// Counts bytes received from a peer, or from the others if it has no place.
    #[inline]
    pub fn received(&mut self, from: SocketAddr, bytes: u64) {
        match self.place(from, bytes, Direction::In) {
            Some(place) => self.places[place].bytes.received += bytes,
            None => self.others.received += bytes,
        }
    }

    /// Counts bytes sent to a peer, or to the others if it has no place.
    #[inline]
    pub fn sent(&mut self, to: SocketAddr, bytes: u64) {
        match self.place(to, bytes, Direction::Out) {
            Some(place) => self.places[place].bytes.sent += bytes,
            None => self.others.sent += bytes,
        }
    }

    /// Writes changes to the workspace, and lets weights fade. Panics if `words` are too short for the table.
    pub fn flush(&mut self, words: &[AtomicU64], now: u64) {
        if self.places.is_empty() {
            return;
        }
        put(&words[0], self.others.received);
        put(&words[1], self.others.sent);
        let regions = words[HEAD_WORDS..].chunks_exact(PLACE_WORDS);
        assert!(regions.len() >= self.places.len(), "counters region too small");
        for (place, words) in self.places.iter_mut().zip(regions) {
            if std::mem::take(&mut place.is_new) {
                let ([high, low, port], Bytes { received, sent }) = (place.peer, place.bytes);
                let said = [high, low, port, received, sent];
                words.iter().zip(said).for_each(|(word, value)| put(word, value));
                put(&words[PLACE_WORDS - 1], check(said));
            }
        }
        if now >= self.fades_at {
            self.fades_at = now + FADES_EVERY_NS;
            self.fade();
        }
        self.keep();
    }

    /// Returns the place that counts the bytes; `None` if the others do.
    #[inline]
    fn place(&mut self, address: SocketAddr, bytes: u64, way: Direction) -> Option<usize> {
        let place = match self.runs[way as usize] {
            Some((last, place)) if last == address => place,
            _ => {
                let found = self.look_up(address, bytes)?;
                self.runs[way as usize] = Some((address, found));
                found
            }
        };
        self.weights[place] += bytes;
        self.places[place].is_new = true;
        Some(place)
    }

    #[inline(never)]
    fn look_up(&mut self, address: SocketAddr, bytes: u64) -> Option<usize> {
        let Peer(peer) = Peer::at(address);
        let tag = self.tag(peer);
        for (at, tags) in self.tags.chunks(16).enumerate() {
            // Comparing all is faster than stopping at the first match.
            if tags.iter().fold(false, |is_there, other| is_there | (*other == tag)) {
                let here = (16 * at..16 * at + tags.len()).find(|place| self.places[*place].peer == peer);
                if here.is_some() {
                    return here;
                }
            }
        }
        self.take(peer, tag, bytes)
    }

    /// Takes a place for a peer without one, if one is free or can be worn down.
    fn take(&mut self, peer: [u64; 3], tag: u32, bytes: u64) -> Option<usize> {
        let floor = self.floor;
        let place = match self.free_place() {
            Some(place) => place,
            None => self.wear_down(bytes)?,
        };
        self.others = self.others.plus(self.places[place].bytes);
        self.places[place] = PeerEntry { peer, ..PeerEntry::default() };
        self.tags[place] = tag;
        // Bytes spent on wearing others down do not count as its weight: the caller adds all bytes.
        self.weights[place] = floor;
        self.least = self.least.min(floor + bytes);
        for run in &mut self.runs {
            run.take_if(|(_, of_run)| *of_run == place);
        }
        Some(place)
    }

    /// Returns a place without weight. The floor stays while there is any.
    fn free_place(&mut self) -> Option<usize> {
        while self.free != 0 {
            let place = self.free.trailing_zeros() as usize;
            self.free &= self.free - 1;
            let weight = self.weights[place];
            if weight == self.floor {
                return Some(place);
            }
            // Its peer has sent again.
            self.least = self.least.min(weight);
        }
        None
    }

    /// Raises the floor by this many bytes, or until a place is free.
    fn wear_down(&mut self, bytes: u64) -> Option<usize> {
        let floor = self.floor + bytes;
        if floor > self.least {
            let (least, free, next) = self.lightest();
            if floor > least {
                (self.floor, self.free, self.least) = (least, free, next);
                return self.free_place();
            }
            self.least = least;
        }
        self.floor = floor;
        None
    }

    /// Returns the least weight that can be worn down, the places that have it, and the least of the other weights.
    fn lightest(&self) -> (u64, u64, u64) {
        let weight = |place: usize| if self.kept >> place & 1 == 0 { self.weights[place] } else { u64::MAX };
        let least = (0..self.weights.len()).map(weight).fold(u64::MAX, u64::min);
        let (mut of_least, mut next) = (0, u64::MAX);
        for place in 0..self.weights.len() {
            let weight = weight(place);
            let is_least = weight == least;
            of_least |= u64::from(is_least) << place;
            next = next.min(if is_least { u64::MAX } else { weight });
        }
        (least, of_least, next)
    }

    /// Halves all weights, so that old traffic counts less than new traffic.
    fn fade(&mut self) {
        let (kept, floor) = (self.kept, std::mem::take(&mut self.floor));
        for (place, weight) in self.weights.iter_mut().enumerate() {
            *weight = if kept >> place & 1 == 0 { *weight - floor } else { *weight } / 2;
        }
        self.least = (self.least - floor) / 2;
    }

    /// Lets the heaviest place that can be worn down be kept, replacing a lighter kept one if half are kept. One per
    /// flush is enough.
    fn keep(&mut self) {
        let (mut rises, mut falls) = ((0, None), (u64::MAX, None));
        for (place, weight) in self.weights.iter().enumerate() {
            if self.kept >> place & 1 == 0 {
                rises = rises.max((weight - self.floor, Some(place)));
            } else {
                falls = falls.min((*weight, Some(place)));
            }
        }
        let (weight, Some(place)) = rises else { return };
        if self.kept.count_ones() as usize >= self.weights.len() / 2 {
            let (lighter, Some(other)) = falls else { return };
            if lighter >= weight {
                return;
            }
            self.kept &= !(1 << other);
            self.weights[other] += self.floor;
            self.least = self.least.min(self.weights[other]);
        }
        self.weights[place] = weight;
        self.kept |= 1 << place;
        self.free &= !(1 << place);
    }

    fn tag(&self, [high, low, port]: [u64; 3]) -> u32 {
        let [a, b] = self.secret;
        let product = u128::from(high ^ a) * u128::from(low ^ port.rotate_left(32) ^ b);
        (product as u64 ^ (product >> 64) as u64) as u32
    }
}
