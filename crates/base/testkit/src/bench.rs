//! A measuring harness for `cargo bench`: rounds, medians and spread, compared with a goal.
//!
//! reads   the bench's name filter from the command line (`cargo bench -- NAME`)
//! writes  one line per bench: median, p5–p95, the unit, the floor and whether it is met
//! memory  one f64 per round
//! source  order statistics; each round's rate is work ÷ elapsed wall time of that round
//!
//! A figure is a rate or a time per item. Rounds are short so that a disturbed one becomes an outlier instead of the
//! result; compare with a baseline measured in alternation by [`Bench::paired`].

use std::time::{Duration, Instant};

/// How a bench's result is printed, and in which direction it is better.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Unit {
    /// Items per second, printed with a metric prefix (`M/s`). Higher is better.
    PerSecond,
    /// Bits per second, printed with a metric prefix (`Gb/s`). The work is counted in bytes.
    BitsPerSecond,
    /// Nanoseconds per item. Lower is better.
    NanosPerItem,
}

/// Order statistics over the rounds of one bench, in the bench's unit.
#[derive(Clone, Copy, Debug)]
pub struct Stats {
    /// 5th percentile over the rounds.
    pub p5: f64,
    /// Median over the rounds.
    pub median: f64,
    /// 95th percentile over the rounds.
    pub p95: f64,
}

impl Stats {
    /// Order statistics of `samples`, nearest rank. Panics when there is no sample.
    pub fn of(samples: &mut [f64]) -> Self {
        assert!(!samples.is_empty(), "a bench needs at least one round");
        samples.sort_by(f64::total_cmp);
        let at = |q: f64| samples[((samples.len() as f64 * q).ceil() as usize).max(1) - 1];
        Self { p5: at(0.05), median: at(0.5), p95: at(0.95) }
    }
}

/// One bench binary's run: holds the filter and prints the results.
pub struct Bench {
    filter: Option<String>,
    rounds: usize,
    round: Duration,
}

impl Default for Bench {
    fn default() -> Self {
        Self::from_args()
    }
}

impl Bench {
    /// Reads the name filter that `cargo bench -- NAME` passes on. 15 rounds of 100 ms each.
    pub fn from_args() -> Self {
        let filter = std::env::args().skip(1).find(|a| !a.starts_with('-'));
        Self { filter, rounds: 15, round: Duration::from_millis(100) }
    }

    /// Sets the number of rounds and the minimum length of one.
    pub fn with_rounds(mut self, rounds: usize, round: Duration) -> Self {
        self.rounds = rounds;
        self.round = round;
        self
    }

    fn skipped(&self, name: &str) -> bool {
        self.filter.as_ref().is_some_and(|f| !name.contains(f.as_str()))
    }

    /// Measures `work`, which returns how many items (bytes for [`Unit::BitsPerSecond`]) it did, and
    /// prints the line. `goal` is the floor (a ceiling for times) in the bench's unit.
    pub fn run(&self, name: &str, unit: Unit, goal: Option<f64>, mut work: impl FnMut() -> u64) -> Option<Stats> {
        if self.skipped(name) {
            return None;
        }
        let mut samples = Vec::with_capacity(self.rounds);
        self.one_round(unit, &mut work);
        for _ in 0..self.rounds {
            samples.push(self.one_round(unit, &mut work));
        }
        let stats = Stats::of(&mut samples);
        print_line(name, unit, goal, stats);
        Some(stats)
    }

    /// Measures `work` and `yardstick` in alternating rounds and prints both and the median of the
    /// per-round ratios work ÷ yardstick. `goal_ratio` is its floor (a ceiling for times).
    pub fn paired(
        &self,
        name: &str,
        unit: Unit,
        goal_ratio: Option<f64>,
        work: impl FnMut() -> u64,
        yardstick: impl FnMut() -> u64,
    ) -> Option<Stats> {
        self.paired_with_floor(name, unit, None, goal_ratio, work, yardstick)
    }

    /// Like [`Bench::paired`], with a `goal` for `work` itself, as in [`Bench::run`].
    pub fn paired_with_floor(
        &self,
        name: &str,
        unit: Unit,
        goal: Option<f64>,
        goal_ratio: Option<f64>,
        mut work: impl FnMut() -> u64,
        mut yardstick: impl FnMut() -> u64,
    ) -> Option<Stats> {
        if self.skipped(name) {
            return None;
        }
        let (mut ours, mut theirs, mut ratios) = (vec![], vec![], vec![]);
        self.one_round(unit, &mut work);
        self.one_round(unit, &mut yardstick);
        for _ in 0..self.rounds {
            let (a, b) = (self.one_round(unit, &mut work), self.one_round(unit, &mut yardstick));
            ours.push(a);
            theirs.push(b);
            ratios.push(a / b);
        }
        print_line(name, unit, goal, Stats::of(&mut ours));
        print_line(&format!("{name} (yardstick)"), unit, None, Stats::of(&mut theirs));
        let ratio = Stats::of(&mut ratios);
        let verdict = verdict(unit, goal_ratio, ratio, |v| format!("{v:.2}×"));
        println!("{name:<44} {:>9.2}×      [{:.2} – {:.2}]{verdict}", ratio.median, ratio.p5, ratio.p95);
        Some(ratio)
    }

    fn one_round(&self, unit: Unit, work: &mut impl FnMut() -> u64) -> f64 {
        let start = Instant::now();
        let mut items = 0u64;
        loop {
            items += work();
            let elapsed = start.elapsed();
            if elapsed >= self.round {
                let seconds = elapsed.as_secs_f64();
                return match unit {
                    Unit::PerSecond => items as f64 / seconds,
                    Unit::BitsPerSecond => items as f64 * 8.0 / seconds,
                    Unit::NanosPerItem => seconds * 1e9 / items as f64,
                };
            }
        }
    }
}

fn print_line(name: &str, unit: Unit, goal: Option<f64>, s: Stats) {
    let show = |v: f64| match unit {
        Unit::NanosPerItem => format!("{v:.1} ns"),
        Unit::PerSecond => prefixed(v, "/s"),
        Unit::BitsPerSecond => prefixed(v, "b/s"),
    };
    let verdict = verdict(unit, goal, s, show);
    println!("{name:<44} {:>14}  [{} – {}]{verdict}", show(s.median), show(s.p5), show(s.p95));
}

/// Whether the median keeps the goal, if there is one.
fn verdict(unit: Unit, goal: Option<f64>, s: Stats, show: impl Fn(f64) -> String) -> String {
    goal.map_or(String::new(), |g| {
        let met = if unit == Unit::NanosPerItem { s.median <= g } else { s.median >= g };
        let sign = if unit == Unit::NanosPerItem { "≤" } else { "≥" };
        format!("   floor {sign} {} {}", show(g), if met { "met" } else { "MISSED" })
    })
}

fn prefixed(v: f64, unit: &str) -> String {
    match v {
        v if v >= 1e9 => format!("{:.2} G{unit}", v / 1e9),
        v if v >= 1e6 => format!("{:.2} M{unit}", v / 1e6),
        v if v >= 1e3 => format!("{:.2} K{unit}", v / 1e3),
        v => format!("{v:.1} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_statistics_are_nearest_rank() {
        let of = |samples: &mut [f64]| {
            let Stats { p5, median, p95 } = Stats::of(samples);
            (p5, median, p95)
        };
        let mut samples: Vec<f64> = (0..=100).rev().map(f64::from).collect();
        assert_eq!(of(&mut samples), (5.0, 50.0, 95.0));
        // A rank between 0 and 19, rounded, would be 1, 10 and 18, the values 2, 11 and 19.
        let mut samples: Vec<f64> = (1..=20).rev().map(f64::from).collect();
        assert_eq!(of(&mut samples), (1.0, 10.0, 19.0));
        assert_eq!(of(&mut [7.0]), (7.0, 7.0, 7.0));
    }
    #[test]
    fn rates_have_floors_and_times_have_ceilings() {
        let stats = Stats { p5: 1.0, median: 2.0, p95: 3.0 };
        let verdict = |unit, goal| verdict(unit, Some(goal), stats, |v| format!("{v}×"));
        assert_eq!(verdict(Unit::PerSecond, 1.5), "   floor ≥ 1.5× met");
        assert_eq!(verdict(Unit::PerSecond, 2.5), "   floor ≥ 2.5× MISSED");
        assert_eq!(verdict(Unit::NanosPerItem, 2.5), "   floor ≤ 2.5× met");
        assert_eq!(verdict(Unit::NanosPerItem, 1.5), "   floor ≤ 1.5× MISSED");
    }
}
