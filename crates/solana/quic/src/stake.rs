//! The benefits of stake: more streams, and a rate that shrinks only when staked peers fill the server.
//!
//! reads   a table of identities and their stake; the caller's time
//! writes  limits of a connection
//! memory  48 B per identity
//! drops   nothing; a peer over its limit is not read for a while
//! source  Agave 4.2's `solana-streamer` (`swqos`, `stream_throttle`), but for its scaling of streams with round trips
//!         over 50 ms

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Concurrent streams by stake: the minimum, the maximum, and the number for all stake without a maximum.
const STREAMS_MIN: u32 = 128;
const STREAMS_MAX: u32 = 512;
const STREAMS_TOTAL: u32 = 100_000;

/// A share of all stake below this counts as none: of the 50,000 streams in a window of 100 ms (500 a millisecond), it
/// would be less than one.
const SHARE_MIN: f64 = 1.0 / 50_000.0;

/// Length of an interval; the load of staked peers is averaged over this many of them.
const INTERVAL: Duration = Duration::from_millis(5);
const INTERVALS: f64 = 40.0;
/// Newest interval's weight in an exponential average over [`INTERVALS`].
const WEIGHT: f64 = 2.0 / (INTERVALS + 1.0);
/// From this load on staked peers are limited by their stake.
const SATURATED: f64 = 0.95;

/// The stake of each identity, as of some epoch. Clones share the table.
#[derive(Clone, Debug, Default)]
pub struct Stakes(Arc<Table>);

#[derive(Debug, Default)]
struct Table {
    // SipHash: peers choose the keys that are looked up.
    by_key: HashMap<[u8; 32], u64>,
    total: u128,
}

impl Stakes {
    /// A table of identities with their stake in lamports. Duplicate identities are summed; those without stake are
    /// left out.
    pub fn new(identities: impl IntoIterator<Item = ([u8; 32], u64)>) -> Self {
        let mut table = Table::default();
        for (key, lamports) in identities.into_iter().filter(|(_, lamports)| *lamports > 0) {
            let stake = table.by_key.entry(key).or_default();
            *stake = stake.saturating_add(lamports);
        }
        table.total = table.by_key.values().map(|stake| u128::from(*stake)).sum();
        Self(Arc::new(table))
    }

    /// The part of all stake that an identity has, above 0 up to 1; `None` if it has none.
    pub fn share(&self, key: &[u8; 32]) -> Option<f64> {
        let stake = self.0.by_key.get(key)?;
        Some(*stake as f64 / self.0.total as f64)
    }

    /// The share that sets a peer's limits; `None` if it is too small to count.
    pub(crate) fn counted_share(&self, key: &[u8; 32]) -> Option<f64> {
        self.share(key).filter(|share| *share >= SHARE_MIN)
    }
}

/// Concurrent streams of a peer with this share of all stake.
pub(crate) fn streams_concurrent(share: f64) -> u32 {
    let streams = STREAMS_MIN + (share * f64::from(STREAMS_TOTAL - STREAMS_MIN)) as u32;
    streams.min(STREAMS_MAX)
}

/// The total rate of streams opened by staked peers.
pub(crate) struct Load {
    started: Instant,
    count: u32,
    average: f64,
}

impl Load {
    pub(crate) fn new(now: Instant) -> Self {
        Self { started: now, count: 0, average: 0.0 }
    }

    /// Counts a stream of a staked peer.
    pub(crate) fn add(&mut self, now: Instant) {
        self.pass(now);
        self.count += 1;
    }

    /// Streams that a peer with `share` of the stake may have read in a window if all staked peers may have `rate` per
    /// second: all of them, or its share if they are nearly used up.
    pub(crate) fn per_window(&mut self, rate: u32, window: Duration, share: f64, now: Instant) -> u32 {
        self.pass(now);
        let whole = f64::from(rate) * window.as_secs_f64();
        let saturated = self.average >= SATURATED * f64::from(rate) * INTERVAL.as_secs_f64();
        if saturated { (whole * share) as u32 } else { whole as u32 }
    }

    /// Processes the intervals that have ended.
    fn pass(&mut self, now: Instant) {
        let intervals = now.saturating_duration_since(self.started).as_nanos() / INTERVAL.as_nanos();
        if intervals == 0 {
            return;
        }
        self.average += WEIGHT * (f64::from(self.count) - self.average);
        // After a thousand empty intervals the average is zero.
        let empty = (intervals - 1).min(1000) as i32;
        self.average *= (1.0 - WEIGHT).powi(empty);
        self.started += INTERVAL * intervals.min(u128::from(u32::MAX)) as u32;
        self.count = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_grow_with_the_share_between_bounds() {
        let stakes = Stakes::new([([1; 32], 1), ([2; 32], 999), ([3; 32], 900), ([3; 32], 98_100), ([4; 32], 0)]);
        let share = |n| stakes.share(&[n; 32]);
        assert_eq!((share(1), share(2), share(3)), (Some(1e-5), Some(0.00999), Some(0.99)));
        assert_eq!((share(4), share(5)), (None, None));
        let counted = |n| stakes.counted_share(&[n; 32]);
        assert_eq!((counted(1), counted(2), counted(5)), (None, Some(0.00999), None));
        let streams = [0.0, 1e-5, 0.001, 0.0038, 0.004, 1.0].map(streams_concurrent);
        // 128 + 0.001 × 99,872 = 227.9; 128 + 0.0038 × 99,872 = 507.5.
        assert_eq!(streams, [128, 128, 227, 507, 512, 512]);
    }

    #[test]
    fn stake_limits_staked_peers_only_on_a_full_server() {
        let (start, window) = (Instant::now(), Duration::from_millis(100));
        let mut load = Load::new(start);
        let mut fill = |from: u32, intervals: u32, streams: u32| {
            let mut now = start;
            for n in from..from + intervals {
                now = start + INTERVAL * n;
                (0..streams).for_each(|_| load.add(now));
            }
            load.per_window(4000, window, 0.25, now + INTERVAL)
        };
        // 4,000 a second are 20 in 5 ms and 400 in the window.
        assert_eq!(fill(0, 200, 18), 400, "at nine tenths");
        assert_eq!(fill(200, 200, 20), 100, "full");
        assert_eq!(fill(400, 3, 0), 400, "no longer full");
        assert_eq!(fill(500, 10, 40), 400, "a burst is not yet a load");
        assert_eq!(fill(510, 20, 40), 100, "though it soon is");
        assert_eq!(fill(10_000_000, 1, 0), 400);
    }
}
