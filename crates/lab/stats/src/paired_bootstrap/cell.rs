//! A build's differences from the reference, round by round, and their trimmed mean.
//!
//! reads   values of a metric
//! writes  [`Cell`]s
//! memory  16 B per value

use super::{LANES, Lanes, Scale, each};
use crate::median_rule::median;
use crate::table::Table;

/// This share of the rounds is trimmed at each end.
const CUT: f64 = 0.2;

/// A build's differences from the base, in one goal.
pub(super) struct Cell {
    /// The differences in ascending order, each with its round.
    pub(super) sorted: Vec<(f64, usize)>,
}

impl Cell {
    /// Returns the trimmed mean, with each round weighted.
    pub(super) fn locations(&self, weights: &[Lanes]) -> Lanes {
        let mut total = [0.0; LANES];
        for (_, round) in &self.sorted {
            each(|lane| total[lane] += weights[*round][lane]);
        }
        let cut = total.map(|total| (total * CUT).floor());
        let (mut before, mut sum) = ([0.0f64; LANES], [0.0; LANES]);
        for (value, round) in &self.sorted {
            let weights = &weights[*round];
            each(|lane| {
                let after = before[lane] + weights[lane];
                let taken = (after.min(total[lane] - cut[lane]) - before[lane].max(cut[lane])).max(0.0);
                sum[lane] += taken * value;
                before[lane] = after;
            });
        }
        // Without any of its rounds this is 0 / 0: unknown.
        std::array::from_fn(|lane| sum[lane] / (total[lane] - 2.0 * cut[lane]))
    }

    /// Returns the trimmed mean of all rounds, with equal weights.
    pub(super) fn location(&self, rounds: usize) -> f64 {
        self.locations(&vec![[1.0; LANES]; rounds])[0]
    }

    /// Returns how many values are trimmed at each end.
    pub(super) fn cut(&self) -> usize {
        (self.sorted.len() as f64 * CUT) as usize
    }

    /// The influence of each round on the location, scaled so that the location's error is that of these numbers' mean;
    /// by round.
    pub(super) fn influences(&self, rounds: usize) -> Vec<f64> {
        let (count, cut) = (self.sorted.len(), self.cut());
        let (low, high) = (self.sorted[cut].0, self.sorted[count - 1 - cut].0);
        let clamped = || self.sorted.iter().map(|(value, _)| value.clamp(low, high));
        let mean = clamped().sum::<f64>() / count as f64;
        let mut all = vec![0.0; rounds];
        for (value, (_, round)) in clamped().zip(&self.sorted) {
            all[*round] = (value - mean) / (1.0 - 2.0 * cut as f64 / count as f64);
        }
        all
    }
}

fn on_scale(value: f64, scale: Scale) -> f64 {
    if scale == Scale::Ratio { value.ln() } else { value }
}

/// The values to compare with, by round: the reference's, or the median of all builds.
pub(super) fn base(table: &Table, metric: usize, reference: Option<usize>, scale: Scale) -> Vec<f64> {
    let all = |round: usize| -> Vec<f64> {
        let values = (0..table.builds.len()).map(|build| table.of(metric, build)[round]);
        values.filter(|value| !value.is_nan()).collect()
    };
    let value = |round: usize| reference.map_or_else(|| median(&all(round)), |build| table.of(metric, build)[round]);
    (0..table.rounds.len()).map(|round| on_scale(value(round), scale)).collect()
}

/// Computes a build's cell. With fewer than two rounds in common with the base, values are paired in order of
/// appearance, and `by_order` is set.
pub(super) fn cell(values: &[f64], base: &[f64], scale: Scale, by_order: &mut bool) -> Cell {
    let difference = |(round, (value, base)): (usize, (&f64, &f64))| (on_scale(*value, scale) - base, round);
    let mut sorted: Vec<(f64, usize)> =
        values.iter().zip(base).enumerate().map(difference).filter(|(value, _)| !value.is_nan()).collect();
    if sorted.len() < 2 {
        let there = |all: &[f64]| all.iter().copied().filter(|value| !value.is_nan()).collect::<Vec<_>>();
        let (values, base) = (there(values), there(base));
        if values.len().min(base.len()) > sorted.len() {
            *by_order = true;
            sorted = values.iter().zip(&base).enumerate().map(difference).collect();
        }
    }
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    Cell { sorted }
}
