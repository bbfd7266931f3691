//! The tile's side: a table of fixed size, which the heaviest peers keep.
//!
//! reads   addresses and lengths
//! writes  the places that changed, at each flush
//! memory  [`PLACES`](super::PLACES) places and a tag of 4 B for each
//!
//! Runs of one peer cost a comparison of addresses. Who is new takes a free place, or wears down the weight of the
//! lightest place and takes that when it is gone. Thus spoofed addresses fight for one place among themselves, each
//! with less weight than whoever really sends, and cannot drive out who has more than they have together by place.

use std::net::SocketAddr;
use std::sync::atomic::AtomicU64;

use super::{Bytes, HEAD_WORDS, PLACE_WORDS, Peer, check};
use crate::counters::put;

/// Weights are halved so often, nanoseconds: who fell silent gives way to who sends now.
const FADES_EVERY_NS: u64 = 8_000_000_000;

/// Bytes by peer.
#[derive(Clone, Debug)]
pub struct Table {
    /// So that nobody can choose addresses of equal tags.
    secret: [u64; 2],
    tags: Vec<u32>,
    places: Vec<Place>,
    others: Bytes,
    /// Whom the last datagram came from, and to whom the last one went: mostly the next does too.
    runs: [Option<(SocketAddr, usize)>; 2],
    /// The place of least weight when it was looked for, and the least of all other weights then.
    lightest: (usize, u64),
    fades_at: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Place {
    peer: [u64; 3],
    bytes: Bytes,
    weight: u64,
    is_new: bool,
}

/// Where a datagram goes.
#[derive(Clone, Copy)]
enum Way {
    In,
    Out,
}

impl Table {
    /// A table of so many places; `secret` is known to nobody else.
    pub fn new(places: usize, secret: [u64; 2]) -> Self {
        Self {
            secret,
            tags: vec![0; places],
            places: vec![Place::default(); places],
            others: Bytes::default(),
            runs: [None; 2],
            lightest: (0, 0),
            fades_at: 0,
        }
    }

    /// Counts bytes that came.
    #[inline]
    pub fn received(&mut self, from: SocketAddr, bytes: u64) {
        match self.place(from, bytes, Way::In) {
            Some(place) => self.places[place].bytes.received += bytes,
            None => self.others.received += bytes,
        }
    }

    /// Counts bytes that went.
    #[inline]
    pub fn sent(&mut self, to: SocketAddr, bytes: u64) {
        match self.place(to, bytes, Way::Out) {
            Some(place) => self.places[place].bytes.sent += bytes,
            None => self.others.sent += bytes,
        }
    }

    /// Writes what is new to the workspace, and lets weights fade. Panics when `words` are fewer than a table takes.
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
            self.places.iter_mut().for_each(|place| place.weight /= 2);
            self.lightest.1 /= 2;
        }
    }

    /// The place that counts them; `None` where the others do.
    #[inline]
    fn place(&mut self, address: SocketAddr, bytes: u64, way: Way) -> Option<usize> {
        let place = match self.runs[way as usize] {
            Some((last, place)) if last == address => place,
            _ => {
                let found = self.look_up(address, bytes)?;
                self.runs[way as usize] = Some((address, found));
                found
            }
        };
        let at = &mut self.places[place];
        at.weight += bytes;
        at.is_new = true;
        Some(place)
    }

    #[inline(never)]
    fn look_up(&mut self, address: SocketAddr, bytes: u64) -> Option<usize> {
        let Peer(peer) = Peer::at(address);
        let tag = self.tag(peer);
        for (at, tags) in self.tags.chunks(16).enumerate() {
            // All at once is quicker than up to the first.
            if tags.iter().fold(false, |is_there, other| is_there | (*other == tag)) {
                let here = (16 * at..16 * at + tags.len()).find(|place| self.places[*place].peer == peer);
                if here.is_some() {
                    return here;
                }
            }
        }
        self.take(peer, tag, bytes)
    }

    /// A place for who has none, if the lightest is light enough.
    fn take(&mut self, peer: [u64; 3], tag: u32, bytes: u64) -> Option<usize> {
        let (lightest, next) = self.lightest;
        if self.places.get(lightest)?.weight > next {
            self.find_lightest();
        }
        let place = self.lightest.0;
        let at = &mut self.places[place];
        if at.weight > bytes {
            at.weight -= bytes;
            return None;
        }
        self.others = self.others.plus(at.bytes);
        *at = Place { peer, ..Place::default() };
        self.tags[place] = tag;
        self.runs = [None; 2];
        Some(place)
    }

    fn find_lightest(&mut self) {
        let (mut lightest, mut least, mut next) = (0, u64::MAX, u64::MAX);
        for (at, place) in self.places.iter().enumerate() {
            if place.weight < least {
                (lightest, least, next) = (at, place.weight, least);
            } else {
                next = next.min(place.weight);
            }
        }
        self.lightest = (lightest, next);
    }

    fn tag(&self, [high, low, port]: [u64; 3]) -> u32 {
        let [a, b] = self.secret;
        let product = u128::from(high ^ a) * u128::from(low ^ port.rotate_left(32) ^ b);
        (product as u64 ^ (product >> 64) as u64) as u32
    }
}
