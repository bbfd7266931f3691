//! The goals of a study, and which builds are best by them.
//!
//! reads   the metrics' names
//! writes  [`Goal`]s; which points are not dominated
//! source  Pareto: a build is dominated by another that is at least as good in every goal, and better in one

/// A metric to maximize or minimize.
#[derive(Clone, Debug, PartialEq)]
pub struct Goal {
    /// Index of the metric in the table.
    pub metric: usize,
    /// Whether more is better.
    pub more: bool,
    /// The smallest difference that matters: a fraction, or an absolute difference if values are not positive.
    pub matters: f64,
}

impl Goal {
    /// Creates a goal in which every difference matters.
    pub fn new(metric: usize, more: bool) -> Self {
        Self { metric, more, matters: 0.0 }
    }

    /// Returns the value with its sign set so that more is better.
    pub fn gain(&self, value: f64) -> f64 {
        if self.more { value } else { -value }
    }
}

/// Maximum number of goals: more than that cannot be weighed sensibly.
pub const GOALS_MAX: usize = 16;

/// Returns which of `points` are not dominated. Each point has `goals` numbers of which more is better; ties are kept.
/// A point with a NaN is on no front. Panics beyond [`GOALS_MAX`] goals.
pub fn front(points: &[f64], goals: usize) -> Vec<bool> {
    match goals {
        0..=2 => front_of::<2>(points, goals),
        3..=4 => front_of::<4>(points, goals),
        5..=8 => front_of::<8>(points, goals),
        _ => front_of::<GOALS_MAX>(points, goals),
    }
}

/// The same for points padded to `N` numbers with equal values.
fn front_of<const N: usize>(points: &[f64], goals: usize) -> Vec<bool> {
    let padded = |point: &[f64]| std::array::from_fn::<f64, N, _>(|at| if at < goals { point[at] } else { 0.0 });
    let points: Vec<[f64; N]> = points.chunks(goals.max(1)).map(padded).collect();
    let is_whole = |point: &[f64; N]| point.iter().all(|gain| !gain.is_nan());
    let mut order: Vec<usize> = (0..points.len()).filter(|at| is_whole(&points[*at])).collect();
    // In descending lexicographic order, a point comes after every point that dominates it.
    order.sort_unstable_by(|a, b| {
        let pairs = points[*b].iter().zip(&points[*a]);
        pairs.map(|(b, a)| b.total_cmp(a)).find(|order| order.is_ne()).unwrap_or(a.cmp(b))
    });
    let mut on = vec![false; points.len()];
    let mut members: Vec<[f64; N]> = Vec::new();
    for at in order {
        match members.iter().position(|member| dominates(member, &points[at])) {
            // A member that dominates one point likely dominates the next, so move it forward.
            Some(place) => members.swap(place / 2, place),
            None => {
                members.push(points[at]);
                on[at] = true;
            }
        }
    }
    on
}

/// Whether `a` is at least as good as `b` everywhere and better somewhere.
fn dominates<const N: usize>(a: &[f64; N], b: &[f64; N]) -> bool {
    // Branch-free, which is faster than stopping early.
    let is_as_good = a.iter().zip(b).fold(true, |all, (a, b)| all & (a >= b));
    is_as_good && a != b
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ties_stay_and_what_is_missing_does_not() {
        let points = [1.0, 2.0, 2.0, 1.0, 1.0, 1.0, 1.0, 2.0, f64::NAN, 9.0];
        assert_eq!(front(&points, 2), [true, true, false, true, false]);
        assert_eq!(front(&[1.0, 3.0, 3.0], 1), [false, true, true]);
        assert_eq!(front(&[], 2), Vec::<bool>::new());
    }

    proptest! {
        #[test]
        fn the_front_is_as_by_definition(goals in 1usize..5, values in prop::collection::vec(0u8..6, 0..120)) {
            let values: Vec<f64> = values.iter().map(|value| f64::from(*value)).collect();
            let points = &values[..values.len() / goals * goals];
            let all: Vec<&[f64]> = points.chunks(goals).collect();
            let beats = |a: &[f64], b: &[f64]| {
                a.iter().zip(b).all(|(a, b)| a >= b) && a.iter().zip(b).any(|(a, b)| a > b)
            };
            let by_definition: Vec<bool> = all.iter().map(|one| !all.iter().any(|other| beats(other, one))).collect();
            prop_assert_eq!(front(points, goals), by_definition);
        }
    }
}
