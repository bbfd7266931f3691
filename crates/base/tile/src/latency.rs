//! latency: histograms of how long ago the current transaction entered the node.
//!
//! reads   the receipt time that travels with each frag ([`FragMeta::origin_us`](hearth_ring::FragMeta::origin_us))
//! writes  [`WORDS`] words of the tile's counters region per declared histogram, at each housekeeping
//! memory  [`WORDS`] × 8 B per histogram
//!
//! A receipt time is a number of microseconds modulo 2³², which wraps after 71 minutes. A time that seems to be up to
//! 35 minutes in the future comes from a core whose clock is slightly ahead, so its age is zero. A transaction dies
//! with its blockhash, a minute or two after it was made; one with a nonce that waits longer than 35 minutes shows as
//! new.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::counters::put;

/// Buckets per doubling: a bucket's width is at most a quarter of its lower bound, and its middle at most an eighth
/// off.
const STEPS: usize = 4;
/// Doublings covered, from 4 µs on: the last bucket starts at 117 s and holds everything longer.
const DOUBLINGS: usize = 25;
/// Buckets of a histogram: 0, 1, 2 and 3 µs, then four per doubling.
pub const BUCKETS: usize = STEPS + STEPS * DOUBLINGS;
/// Words of a histogram: its buckets, the sum, and the maximum.
pub const WORDS: usize = BUCKETS + 2;
const SUM: usize = BUCKETS;
const MAX: usize = BUCKETS + 1;

const _: () = assert!(bucket_of(117_440_512) == BUCKETS - 1 && bucket_of(117_440_511) == BUCKETS - 2);

/// A histogram's declaration, which `metric`, `monitor` and the docs show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyDecl {
    /// Name in snake case, without a unit.
    pub name: &'static str,
    /// Help text, one sentence.
    pub help: &'static str,
    /// Whether the loop records it for each frag that it hands to the tile. Allowed only for the first of a tile.
    pub by_loop: bool,
}

/// Latency until a frag is handed to the tile; recorded by the loop.
pub const TAKEN: LatencyDecl = LatencyDecl {
    name: "received_to_taken",
    help: "Time from the receipt of a transaction until this tile reads it.",
    by_loop: true,
};

/// Returns the receipt time for an entry into the node at `now`, in nanoseconds on the host's clock. Never 0, which
/// means "none".
#[inline]
pub fn stamp(now: u64) -> u32 {
    ((now / 1_000) as u32).max(1)
}

/// Microseconds from a receipt time until `now`; `None` if there is no receipt time.
#[inline]
pub fn age_us(origin_us: u32, now: u64) -> Option<u32> {
    let age = stamp(now).wrapping_sub(origin_us);
    (origin_us != 0).then_some(if age > u32::MAX / 2 { 0 } else { age })
}

/// A histogram of latencies: recorded, read by an observer, or the difference of two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    words: [u64; WORDS],
    /// The buckets from the first to the last that changed since the last flush.
    changed: Range<usize>,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { words: [0; WORDS], changed: 0..0 }
    }
}

impl Histogram {
    /// Counts one latency in microseconds.
    #[inline]
    pub fn record(&mut self, us: u32) {
        let bucket = bucket_of(us);
        self.words[bucket] += 1;
        self.words[SUM] += u64::from(us);
        self.words[MAX] = self.words[MAX].max(us.into());
        self.changed = match self.changed.is_empty() {
            true => bucket..bucket + 1,
            false => self.changed.start.min(bucket)..self.changed.end.max(bucket + 1),
        };
    }

    /// Writes changes to the workspace: after a few latencies of a similar size, a few words. Panics if `words` are
    /// fewer than [`WORDS`].
    pub fn flush(&mut self, words: &[AtomicU64]) {
        assert!(words.len() >= WORDS, "counters region too small");
        let changed = std::mem::take(&mut self.changed);
        if !changed.is_empty() {
            changed.chain([SUM, MAX]).for_each(|at| put(&words[at], self.words[at]));
        }
    }

    /// Reads a tile's histogram; returns an empty one if `words` are fewer than [`WORDS`].
    pub fn read(words: &[AtomicU64]) -> Self {
        let mut read = Self::default();
        if words.len() >= WORDS {
            read.words.iter_mut().zip(words).for_each(|(value, word)| *value = word.load(Ordering::Relaxed));
        }
        read
    }

    /// Returns what was recorded after `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        let mut since = self.clone();
        let counts = since.words[..=SUM].iter_mut().zip(&earlier.words);
        counts.for_each(|(now, then)| *now = now.saturating_sub(*then));
        since
    }

    /// Adds another tile's histogram.
    pub fn add(&mut self, other: &Self) {
        self.words[..=SUM].iter_mut().zip(&other.words).for_each(|(sum, more)| *sum += more);
        self.words[MAX] = self.words[MAX].max(other.words[MAX]);
    }

    /// The number of recorded latencies.
    pub fn count(&self) -> u64 {
        self.words[..BUCKETS].iter().sum()
    }

    /// The number of latencies below `us`, which must be a power of two from 4 to 2²⁶, or above all.
    pub fn count_below(&self, us: u64) -> u64 {
        self.words[..bucket_of(us.try_into().unwrap_or(u32::MAX))].iter().sum()
    }

    /// The sum in microseconds.
    pub fn sum_us(&self) -> u64 {
        self.words[SUM]
    }

    /// The quantile by nearest rank in microseconds, at most an eighth off; `None` if nothing was recorded.
    pub fn quantile_us(&self, q: f64) -> Option<f64> {
        let rank = ((self.count() as f64 * q).ceil() as u64).max(1);
        let mut seen = 0;
        let found = (0..BUCKETS).find(|bucket| {
            seen += self.words[*bucket];
            seen >= rank
        })?;
        let Range { start, end } = bounds(found);
        let middle = if found < STEPS { start as f64 } else { (start + end) as f64 / 2.0 };
        Some(middle.min(self.max_us() as f64))
    }

    /// The maximum in microseconds; for a difference, at most the end of the last used bucket.
    pub fn max_us(&self) -> u64 {
        let last = self.words[..BUCKETS].iter().rposition(|count| *count > 0);
        match last {
            None => 0,
            Some(last) if last == BUCKETS - 1 => self.words[MAX],
            Some(last) => (bounds(last).end - 1).min(self.words[MAX]),
        }
    }
}

/// Returns the bucket of a latency.
#[inline]
const fn bucket_of(us: u32) -> usize {
    if us < STEPS as u32 {
        return us as usize;
    }
    let exponent = us.ilog2() as usize;
    let step = (us >> (exponent - 2)) as usize & (STEPS - 1);
    let bucket = (exponent - 1) * STEPS + step;
    if bucket < BUCKETS { bucket } else { BUCKETS - 1 }
}

/// Returns the range of latencies in a bucket, in microseconds.
fn bounds(bucket: usize) -> Range<u64> {
    let start = |bucket: usize| match bucket {
        0..STEPS => bucket as u64,
        _ => ((STEPS + bucket % STEPS) as u64) << (bucket / STEPS - 1),
    };
    start(bucket)..start(bucket + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Latencies of all sizes: numbers of up to 27 bits.
    fn latencies() -> impl Iterator<Item = u32> {
        let mut random = fastrand::Rng::with_seed(1);
        std::iter::repeat_with(move || random.u32(..1 << 27) >> random.u32(..27))
    }

    #[test]
    fn a_bucket_holds_what_it_says() {
        for us in latencies().filter(|us| *us < 117_440_512).take(100_000) {
            let Range { start, end } = bounds(bucket_of(us));
            assert!((start..end).contains(&u64::from(us)), "{us}");
        }
    }

    /// Compares with the sorted list, to an eighth.
    #[test]
    fn quantiles_are_those_of_the_list() {
        let mut all = latencies().filter(|us| *us < 100_000_000);
        for size in 1..300 {
            let mut list: Vec<u32> = all.by_ref().take(size).collect();
            let mut histogram = Histogram::default();
            list.iter().for_each(|us| histogram.record(*us));
            list.sort_unstable();
            for q in [0.0, 0.1, 0.5, 0.9, 0.99, 1.0] {
                let rank = ((size as f64 * q).ceil() as usize).max(1);
                let (true_us, estimate) = (f64::from(list[rank - 1]), histogram.quantile_us(q).unwrap());
                assert!((estimate - true_us).abs() <= true_us / 8.0, "{estimate} for {true_us}");
            }
            assert_eq!(histogram.max_us(), u64::from(list[size - 1]));
            assert_eq!(histogram.sum_us(), list.iter().map(|us| u64::from(*us)).sum::<u64>());
        }
    }

    #[test]
    fn the_difference_tells_of_the_time_between() {
        let words: Vec<AtomicU64> = (0..WORDS).map(|_| AtomicU64::new(0)).collect();
        let mut histogram = Histogram::default();
        histogram.record(9_000_000);
        histogram.flush(&words);
        let before = Histogram::read(&words);
        (0..99).for_each(|_| histogram.record(100));
        histogram.record(1_000);
        histogram.flush(&words);
        let between = Histogram::read(&words).since(&before);
        assert_eq!((between.count(), between.sum_us()), (100, 10_900));
        assert_eq!((between.count_below(64), between.count_below(128)), (0, 99));
        assert_eq!((between.quantile_us(0.99), between.quantile_us(1.0)), (Some(104.0), Some(960.0)));
        assert_eq!(between.max_us(), 1_023, "the end of the bucket that holds it");
        let mut both = between.clone();
        both.add(&before);
        assert_eq!((both.count(), both.max_us()), (101, 9_000_000));
        assert_eq!(Histogram::default().quantile_us(0.5), None);
        assert_eq!(Histogram::read(&words[1..]), Histogram::default());
    }

    #[test]
    fn flush_writes_all_that_changed() {
        let words: Vec<AtomicU64> = (0..WORDS).map(|_| AtomicU64::new(0)).collect();
        let mut histogram = Histogram::default();
        let mut all = latencies();
        for size in (0..100).chain([0, 1]) {
            all.by_ref().take(size).for_each(|us| histogram.record(us));
            histogram.flush(&words);
            assert_eq!(Histogram::read(&words), histogram);
        }
    }

    #[test]
    fn receipt_times_come_round() {
        let second = 1_000_000_000;
        assert_eq!(age_us(stamp(5 * second), 7 * second), Some(2_000_000));
        // 2^32 µs and a bit: the stamps are on either side of the wrap.
        let turn = (1u64 << 32) * 1_000;
        assert_eq!(age_us(stamp(turn - second), turn + second), Some(2_000_000));
        assert_eq!(age_us(stamp(5 * second + 9_000), 5 * second), Some(0), "another core's clock is ahead");
        assert_eq!(age_us(0, 7 * second), None);
        assert_eq!(stamp(0), 1);
    }
}
