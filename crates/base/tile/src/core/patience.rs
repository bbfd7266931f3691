//! patience: how long an idle core spins before it parks.
//!
//! reads   the lengths of idle times
//! writes  a spinning time
//! memory  a count for each power of two
//! source  Karlin, Manasse, McGeoch, Owicki, "Competitive randomized algorithms for nonuniform problems" (1994): the
//!         best time to wait follows from the distribution of waits
//!
//! Parking and waking cost as much as spinning for [`IdlePolicy::park_after_ns`](super::IdlePolicy). Work arrives in
//! bursts: gaps within a burst are short and gaps between bursts long, so the best time is just above the gaps within a
//! burst. A core that slept cannot tell when it would have found work, because waking up takes time. So one idle time
//! of [`SAMPLE_EVERY`] spins for the maximum, and only these are counted.

/// One idle time of this many is a sample.
const SAMPLE_EVERY: u32 = 32;
/// The spin time is recomputed after this many samples.
const CHOOSE_EVERY: u32 = 8;
/// Counts are halved at this many samples.
const SAMPLES_MAX: u32 = 128;
/// Counts by power of two of nanoseconds; the last one holds everything longer.
const BUCKETS: usize = 37;

/// Chooses how long an idle core spins.
pub struct Patience {
    most_ns: u64,
    chosen_ns: u64,
    counts: [u32; BUCKETS],
    samples: u32,
    idle_times: u32,
}

impl Patience {
    /// Spins for `most_ns` until enough samples exist.
    pub fn new(most_ns: u64) -> Self {
        Self { most_ns, chosen_ns: most_ns, counts: [0; BUCKETS], samples: 0, idle_times: 0 }
    }

    /// How long to spin this time.
    #[inline]
    pub fn ns(&self) -> u64 {
        if self.idle_times.is_multiple_of(SAMPLE_EVERY) { self.most_ns } else { self.chosen_ns }
    }

    /// Records that work arrived after `idle_ns`; work without a gap is no sample.
    pub fn worked_after(&mut self, idle_ns: u64) {
        if idle_ns == 0 {
            return;
        }
        let is_sample = self.idle_times.is_multiple_of(SAMPLE_EVERY);
        self.idle_times = self.idle_times.wrapping_add(1);
        if !is_sample || self.most_ns == u64::MAX {
            return;
        }
        let bits = (u64::BITS - idle_ns.leading_zeros()) as usize;
        self.counts[bits.min(BUCKETS - 1)] += 1;
        self.samples += 1;
        if self.samples.is_multiple_of(CHOOSE_EVERY) {
            self.choose();
        }
        if self.samples >= SAMPLES_MAX {
            self.counts.iter_mut().for_each(|count| *count /= 2);
            self.samples = self.counts.iter().sum();
        }
    }

    /// Chooses the time that would have cost least: each gap costs its length if it is shorter than the time, else the
    /// time and a sleep.
    fn choose(&mut self) {
        let (mut shorter_ns, mut longer) = (0, u64::from(self.samples));
        // Never spinning costs a sleep for each gap.
        let (mut least_ns, mut chosen_ns) = (longer.saturating_mul(self.most_ns), 0);
        for (bits, count) in self.counts.iter().enumerate() {
            // All gaps counted so far are shorter than this.
            let time_ns = 1 << bits;
            let time_ns = if time_ns < self.most_ns { time_ns } else { self.most_ns };
            let count = u64::from(*count);
            longer -= count;
            shorter_ns += count.saturating_mul(3 << bits >> 2);
            let cost_ns = shorter_ns.saturating_add(longer.saturating_mul(time_ns.saturating_add(self.most_ns)));
            if cost_ns < least_ns {
                (least_ns, chosen_ns) = (cost_ns, time_ns);
            }
            if time_ns == self.most_ns {
                break;
            }
        }
        self.chosen_ns = chosen_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: u64 = 50_000;

    fn chosen(gaps: &[u64]) -> u64 {
        let mut patience = Patience::new(MOST);
        for gap in gaps.iter().cycle().take(10_000) {
            patience.worked_after(*gap);
        }
        patience.chosen_ns
    }

    #[test]
    fn gaps_of_bursts_are_waited_for_and_no_more() {
        assert_eq!(chosen(&[1_500, 3_000, 3_500, 2_000_000, 1_900]), 4096);
    }

    #[test]
    fn work_that_comes_soon_is_waited_for() {
        assert!((32_768..=MOST).contains(&chosen(&[20_000, 30_000, 25_000])));
    }

    #[test]
    fn work_that_comes_late_is_not() {
        assert!(chosen(&[6_000_000, 200_000, 90_000]) <= 1024);
    }

    #[test]
    fn spin_time_follows_a_change_of_load() {
        let mut patience = Patience::new(MOST);
        (0..10_000).for_each(|_| patience.worked_after(1_000_000));
        assert!(patience.chosen_ns <= 1024);
        (0..3_000).for_each(|_| patience.worked_after(10_000));
        assert_eq!(patience.chosen_ns, 16_384);
    }

    #[test]
    fn extremes_are_kept() {
        for most in [0, u64::MAX] {
            let mut patience = Patience::new(most);
            (0..1_000).for_each(|n| patience.worked_after(n * 1_000_003));
            assert_eq!(patience.ns(), most);
            (0..7).for_each(|_| patience.worked_after(u64::MAX));
            assert_eq!(patience.ns(), most);
        }
    }

    #[test]
    fn samples_are_waited_for_as_long_as_any() {
        let mut patience = Patience::new(MOST);
        let mut long = 0;
        for _ in 0..800 {
            long += u64::from(patience.ns() == MOST);
            patience.worked_after(1_000_000);
        }
        assert!((225..260).contains(&long), "{long}");
    }
}
