//! tag_cache: the set of the most recent tags, by which `dedup` and each `verify` detect duplicates.
//!
//! reads   64-bit tags, by [`hearth_wire::hash64()`] of a transaction's first signature
//! writes  nothing but its own state
//! memory  [`TagCache::bytes`]: history × 24 B + 8 B, allocated and touched in [`TagCache::new`]
//! drops   nothing; forgets the oldest tag when the history is full, and tags older than [`AGE_NS`]
//! source  a FIFO of the last `history` distinct tags; oracle `matches_model` below. Expiry by age: `Deduper` of
//!         `solana-perf` 4.2
//!
//! Open addressing with linear probing over 2 × history words, half full, so a probe rarely leaves its cache line.
//! Removal shifts the followers back, so there are no tombstones and nothing to rebuild. A ring in order of arrival
//! shows which tag leaves next, and therefore which cache line the next insert will need: it is prefetched.
//!
//! Two signatures with the same 64-bit tag are a false duplicate: odds history / 2^64 per insert. A sender cannot
//! search for one, because the tags depend on a secret.

use std::collections::{TryReserveError, VecDeque};
use std::hint::black_box;

use thiserror::Error;

/// How long a tag is remembered, plus at most [`MARK_NS`]: copies in flight arrive within that time. Senders repeat a
/// transaction after two seconds if they have not seen it in a block, because its block may have been abandoned for
/// another fork. Only the bank knows whether the current fork has it.
const AGE_NS: u64 = 1_000_000_000;
/// How often the cache records its position, to forget by age.
const MARK_NS: u64 = 250_000_000;
const _: () = assert!(AGE_NS + MARK_NS < 2_000_000_000, "what senders send again passes");
/// Maximum tags forgotten by age at a time.
const FORGOTTEN_MAX: usize = 1024;
/// How many inserts in advance the cache line of a leaving tag is loaded.
const LOOKAHEAD: usize = 32;
/// The word of a free place. A tag with this value is stored as [`ZERO_TAG`].
const FREE: u64 = 0;
const ZERO_TAG: u64 = 0x9e37_79b9_7f4a_7c15;
const WORDS_PER_PAGE: usize = 4096 / size_of::<u64>();

/// Why a [`TagCache`] could not be made.
#[derive(Debug, Error)]
pub enum TagCacheError {
    /// A history of no tags would pass every duplicate.
    #[error("a tag cache needs a history of at least one tag")]
    NoHistory,
    /// The memory cannot be allocated.
    #[error("no memory for a tag cache of {history} tags ({bytes} bytes)")]
    NoMemory {
        /// The requested history, in tags.
        history: usize,
        /// The bytes that it needs.
        bytes: u64,
    },
}

/// The last `history` distinct tags.
#[derive(Debug)]
pub struct TagCache {
    map: Vec<u64>,
    ring: Vec<u64>,
    next: usize,
    len: usize,
    secret: u64,
    /// Number of tags inserted so far.
    taken: u64,
    /// Times, and the number of tags inserted until then; the oldest first.
    marks: VecDeque<(u64, u64)>,
}

impl TagCache {
    /// The memory that a cache of `history` tags takes, in bytes.
    pub const fn bytes(history: usize) -> u64 {
        (map_words(history) + history) as u64 * size_of::<u64>() as u64
    }

    /// Creates an empty cache of the last `history` tags. `secret` decides which places collide; take it from the
    /// host's entropy.
    pub fn new(history: usize, secret: u64) -> Result<Self, TagCacheError> {
        if history == 0 {
            return Err(TagCacheError::NoHistory);
        }
        let no_memory = |_: TryReserveError| TagCacheError::NoMemory { history, bytes: Self::bytes(history) };
        let map = resident_words(map_words(history)).map_err(no_memory)?;
        let ring = resident_words(history).map_err(no_memory)?;
        let marks = VecDeque::with_capacity((AGE_NS / MARK_NS) as usize + 2);
        Ok(Self { map, ring, next: 0, len: 0, secret, taken: 0, marks })
    }

    /// How many tags it holds now.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True while it holds none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many tags it remembers.
    pub fn history(&self) -> usize {
        self.ring.len()
    }

    /// True when `tag` is among the last `history`.
    #[inline]
    pub fn contains(&self, tag: u64) -> bool {
        let tag = stored(tag);
        self.map[self.find(tag)] == tag
    }

    /// Forgets tags older than [`AGE_NS`], a part of them at a time; call it about every millisecond.
    pub fn forget_old(&mut self, now: u64) {
        if self.marks.back().is_none_or(|(at, _)| now >= at + MARK_NS) {
            self.marks.push_back((now, self.taken));
        }
        let Some(&(at, taken)) = self.marks.front() else { return };
        if now < at + AGE_NS {
            return;
        }
        let old = taken.saturating_sub(self.taken - self.len as u64) as usize;
        for _ in 0..old.min(FORGOTTEN_MAX) {
            let oldest = (self.next + self.ring.len() - self.len) % self.ring.len();
            let tag = std::mem::replace(&mut self.ring[oldest], FREE);
            self.remove(tag);
            self.len -= 1;
        }
        if old <= FORGOTTEN_MAX {
            self.marks.pop_front();
        }
    }

    /// Inserts `tag`: returns true if it is new, false if it is among the last `history` (its age is unchanged). The
    /// oldest tag leaves when the history is full.
    #[inline]
    pub fn insert(&mut self, tag: u64) -> bool {
        let tag = stored(tag);
        let place = self.find(tag);
        if self.map[place] == tag {
            return false;
        }
        self.map[place] = tag;
        self.taken += 1;
        let oldest = std::mem::replace(&mut self.ring[self.next], tag);
        if oldest == FREE {
            self.len += 1;
        } else {
            self.remove(oldest);
        }
        self.next += 1;
        if self.next == self.ring.len() {
            self.next = 0;
        }
        self.load_ahead();
        true
    }

    /// Loads the cache lines that inserting `tags` will need, all at once. Call it with the tags of a burst before
    /// inserting them: their cache misses then overlap instead of adding up.
    #[inline]
    pub fn prefetch(&self, tags: &[u64]) {
        let mut any = 0;
        for &tag in tags {
            any |= self.map[self.home(stored(tag))];
        }
        black_box(any);
    }

    #[inline]
    fn load_ahead(&self) {
        let ahead = self.next + LOOKAHEAD;
        let leaving = self.ring[if ahead < self.ring.len() { ahead } else { ahead % self.ring.len() }];
        black_box(self.map[self.home(leaving)]);
    }

    /// The first place of `tag`'s chain. The top bits of a product with an odd constant spread over
    /// a map of any length.
    #[inline]
    fn home(&self, tag: u64) -> usize {
        let mixed = (tag ^ self.secret).wrapping_mul(0xd6e8_feb8_6659_fd93);
        ((u128::from(mixed) * self.map.len() as u128) >> 64) as usize
    }

    /// Returns the place of `tag`, or the free place where it belongs.
    #[inline]
    fn find(&self, tag: u64) -> usize {
        let mut place = self.home(tag);
        loop {
            let there = self.map[place];
            if there == tag || there == FREE {
                return place;
            }
            place = self.after(place);
        }
    }

    #[inline]
    fn after(&self, place: usize) -> usize {
        let next = place + 1;
        if next == self.map.len() { 0 } else { next }
    }

    /// The distance of `place` from `from`, around the end of the map.
    #[inline]
    fn distance(&self, from: usize, place: usize) -> usize {
        if place >= from { place - from } else { place + self.map.len() - from }
    }

    /// Removes `tag` and shifts back each follower whose chain crossed the gap.
    #[inline]
    fn remove(&mut self, tag: u64) {
        let mut gap = self.find(tag);
        assert_eq!(self.map[gap], tag, "the ring and the map hold the same tags");
        let mut place = gap;
        loop {
            place = self.after(place);
            let follower = self.map[place];
            if follower == FREE {
                break;
            }
            if self.distance(self.home(follower), place) >= self.distance(gap, place) {
                self.map[gap] = follower;
                gap = place;
            }
        }
        self.map[gap] = FREE;
    }
}

/// At most half full, and never without a free place while an insert holds one extra tag.
const fn map_words(history: usize) -> usize {
    history.saturating_mul(2).saturating_add(1)
}

#[inline]
fn stored(tag: u64) -> u64 {
    if tag == FREE { ZERO_TAG } else { tag }
}

/// Allocates `len` words and writes to each page, so that no page fault is left for later.
pub(crate) fn resident_words(len: usize) -> Result<Vec<u64>, TryReserveError> {
    let mut words: Vec<u64> = Vec::new();
    words.try_reserve_exact(len)?;
    // Lookups are random: with small pages most of their time would be address translation.
    hearth_tile::sys::memory::advise_huge_pages(words.spare_capacity_mut());
    words.resize(len, FREE);
    for word in words.iter_mut().step_by(WORDS_PER_PAGE) {
        *black_box(word) = FREE;
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Compares with the plain definition: a queue of the last `history` accepted tags. Small tags and histories,
        /// so that duplicates, wrap-around and leaving tags are all frequent; steps of time, so that some tags expire.
        #[test]
        fn matches_model(
            history in 1usize..40,
            secret in any::<u64>(),
            tags in prop::collection::vec((prop_oneof![0u64..60, any::<u64>()], 0u64..4), 0..400),
        ) {
            let mut cache = TagCache::new(history, secret).unwrap();
            let mut model: VecDeque<(u64, u64)> = VecDeque::new();
            let mut now = 0;
            cache.forget_old(now);
            for (tag, marks) in tags {
                for _ in 0..marks {
                    now += MARK_NS;
                    cache.forget_old(now);
                }
                model.retain(|(_, at)| at + AGE_NS >= now);
                cache.prefetch(&[tag]);
                let new = !model.iter().any(|(held, _)| *held == tag);
                prop_assert_eq!(cache.contains(tag), !new);
                prop_assert_eq!(cache.insert(tag), new);
                if new {
                    model.push_back((tag, now));
                    if model.len() > history {
                        model.pop_front();
                    }
                }
                prop_assert_eq!(cache.len(), model.len());
                for (held, _) in &model {
                    prop_assert!(cache.contains(*held));
                }
                let used = cache.map.iter().filter(|w| **w != FREE).count();
                prop_assert_eq!(used, model.len());
            }
        }
    }

    #[test]
    fn old_tags_are_forgotten_in_parts() {
        let mut cache = TagCache::new(4 * FORGOTTEN_MAX, 7).unwrap();
        let old = FORGOTTEN_MAX + 10;
        (0..old as u64).for_each(|tag| assert!(cache.insert(tag)));
        cache.forget_old(MARK_NS);
        assert!(cache.insert(1 << 32));
        cache.forget_old(MARK_NS + AGE_NS - 1);
        assert_eq!(cache.len(), old + 1);
        cache.forget_old(MARK_NS + AGE_NS);
        assert_eq!(cache.len(), 11);
        cache.forget_old(MARK_NS + AGE_NS);
        assert_eq!(cache.len(), 1);
        assert!(!cache.insert(1 << 32) && cache.insert(0));
        // A long time without new tags: all tags expire.
        for mark in 0..3600 {
            cache.forget_old(mark * MARK_NS + AGE_NS * 2);
        }
        assert!(cache.is_empty());
    }

    #[test]
    fn memory_is_what_bytes_says() {
        let cache = TagCache::new(1000, 7).unwrap();
        let words = cache.map.capacity() + cache.ring.capacity();
        assert_eq!(words as u64 * 8, TagCache::bytes(1000));
    }

    #[test]
    fn refuses_no_history_and_too_much() {
        assert!(matches!(TagCache::new(0, 1), Err(TagCacheError::NoHistory)));
        assert!(matches!(TagCache::new(1 << 60, 1), Err(TagCacheError::NoMemory { .. })));
    }
}
