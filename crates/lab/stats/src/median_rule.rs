//! The rule of the original study: medians with an error, overlapping boxes, builds that beat the reference.
//!
//! reads   a [`Table`], the [`Goal`]s, and which build is the reference
//! writes  [`MedianRuleResult`]: the exact front, the builds that cannot be distinguished from it, and the better ones
//!         among those
//! source  the median's half-width of a normal sample, Δ = 1.25 × 1.96 × s/√n with s over n − 1: at 95 of 100
//!
//! Every interval here stands for itself: among many builds and metrics some miss the true value. The other rule,
//! [`crate::paired_bootstrap`], covers all of them simultaneously.

use crate::objective::{Goal, front};
use crate::table::Table;

/// A median with its error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Median {
    /// The median; NaN if there is no value.
    pub median: f64,
    /// The half-width of the interval; 0 for a single value, whose error is unknown.
    pub half_width: f64,
    /// Number of values from which the median was computed.
    pub count: usize,
}

impl Median {
    /// Computes the median of these values.
    pub fn of(values: &[f64]) -> Self {
        let count = values.len();
        let mean = values.iter().sum::<f64>() / count as f64;
        let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        let half_width = match count {
            0 | 1 => 0.0,
            _ => 1.25 * 1.96 * (squares / (count - 1) as f64).sqrt() / (count as f64).sqrt(),
        };
        Self { median: median(values), half_width, count }
    }

    /// Returns the half-width, if there are enough values for one.
    pub fn known_half_width(&self) -> Option<f64> {
        (self.count > 1).then_some(self.half_width)
    }

    /// Returns whether both boxes have a point in common.
    pub fn meets(&self, other: &Self) -> bool {
        (self.median - other.median).abs() <= self.half_width + other.half_width
    }
}

/// Returns the middle value, or the mean of the two middle ones.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        count if count.is_multiple_of(2) => (sorted[count / 2 - 1] + sorted[count / 2]) / 2.0,
        count => sorted[count / 2],
    }
}

/// The result of the rule.
#[derive(Clone, Debug)]
pub struct MedianRuleResult {
    /// Each build's medians, goal by goal.
    pub medians: Vec<Vec<Median>>,
    /// Builds that no other dominates by medians.
    pub exact: Vec<usize>,
    /// Builds whose boxes overlap, in every goal, those of some build of the exact front.
    pub boxes: Vec<usize>,
    /// Among these, the builds whose medians are better than the reference's in every goal.
    pub better: Vec<usize>,
}

/// Applies the median rule to all builds of a table.
pub fn article(table: &Table, goals: &[Goal], reference: Option<usize>) -> MedianRuleResult {
    let of = |build: usize| goals.iter().map(|goal| Median::of(&table.present(goal.metric, build))).collect();
    let medians: Vec<Vec<Median>> = (0..table.builds.len()).map(of).collect();
    let points: Vec<f64> =
        medians.iter().flat_map(|all| all.iter().zip(goals).map(|(one, goal)| goal.gain(one.median))).collect();
    let on = front(&points, goals.len());
    let exact: Vec<usize> = (0..on.len()).filter(|at| on[*at]).collect();
    let near = |build: &Vec<Median>| {
        let meets = |other: &usize| build.iter().zip(&medians[*other]).all(|(one, other)| one.meets(other));
        exact.iter().any(meets)
    };
    let boxes: Vec<usize> = (0..medians.len()).filter(|at| near(&medians[*at])).collect();
    let than = |reference: usize, build: &usize| {
        let mut pairs = medians[*build].iter().zip(&medians[reference]).zip(goals);
        pairs.all(|((one, than), goal)| goal.gain(one.median) > goal.gain(than.median))
    };
    let better = reference
        .map_or_else(Vec::new, |reference| boxes.iter().copied().filter(|build| than(reference, build)).collect());
    MedianRuleResult { medians, exact, boxes, better }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_half_width_is_as_by_hand() {
        let median = Median::of(&[1.0, 2.0, 4.0, 9.0]);
        // The mean is 4, the squares are 9 + 4 + 0 + 25 = 38, s² is 38/3.
        let by_hand = 1.25 * 1.96 * (38.0f64 / 3.0).sqrt() / 2.0;
        assert_eq!((median.median, median.count), (3.0, 4));
        assert!((median.half_width - by_hand).abs() < 1e-12);
        assert_eq!(Median::of(&[5.0]), Median { median: 5.0, half_width: 0.0, count: 1 });
        assert!(Median::of(&[]).median.is_nan());
    }

    /// Four builds: `a` is fast and large, `b` slow and small, `c` within the error of `a` but dominated, `d` far off.
    const STUDY: &str = "nb_build,metric,value,repetition\n\
        a,speed,10,1\na,speed,12,2\na,speed,14,3\na,size,20,1\na,size,20,2\na,size,20,3\n\
        b,speed,6,1\nb,speed,7,2\nb,speed,8,3\nb,size,10,1\nb,size,10,2\nb,size,10,3\n\
        c,speed,10,1\nc,speed,11,2\nc,speed,12,3\nc,size,20,1\nc,size,20,2\nc,size,20,3\n\
        d,speed,1,1\nd,speed,1,2\nd,speed,1,3\nd,size,30,1\nd,size,30,2\nd,size,30,3\n";

    #[test]
    fn fronts_and_boxes_are_as_by_hand() {
        let table = Table::read(STUDY.as_bytes()).expect("fine");
        let goals = [Goal::new(0, true), Goal::new(1, false)];
        let found = article(&table, &goals, Some(3));
        assert_eq!(found.exact, [0, 1]);
        assert_eq!(found.boxes, [0, 1, 2]);
        assert_eq!(found.better, [0, 1, 2]);
        // Compared with `c` only `a` could be better, but it is as large: not better in every goal.
        assert_eq!(article(&table, &goals, Some(2)).better, [0; 0]);
    }
}
