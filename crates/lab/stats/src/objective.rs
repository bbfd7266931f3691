//! What a study is to make great or small, and a build's place among others by it.
//!
//! reads   the metrics' names
//! writes  [`Goal`]s; which points nothing dominates
//! source  Pareto: a build is dominated by another that is at least as good in every goal, and better in one

/// A metric that is to be great, or small.
#[derive(Clone, Debug, PartialEq)]
pub struct Goal {
    /// Which metric of the table.
    pub metric: usize,
    /// Whether more is better.
    pub more: bool,
    /// The smallest difference that matters: a part of one; of values that are not positive, a difference.
    pub matters: f64,
}

impl Goal {
    /// A goal in which every difference matters.
    pub fn new(metric: usize, more: bool) -> Self {
        Self { metric, more, matters: 0.0 }
    }

    /// A value so that more of it is better.
    pub fn gain(&self, value: f64) -> f64 {
        if self.more { value } else { -value }
    }
}

/// Goals at most: more than that nobody weighs.
pub const GOALS_MAX: usize = 16;

/// Which of `points` nothing dominates, each with `goals` numbers of which more is better; ties stay. A point with a
/// number that is not there is on no front. Panics beyond [`GOALS_MAX`] goals.
pub fn front(points: &[f64], goals: usize) -> Vec<bool> {
    match goals {
        0..=2 => front_of::<2>(points, goals),
        3..=4 => front_of::<4>(points, goals),
        5..=8 => front_of::<8>(points, goals),
        _ => front_of::<GOALS_MAX>(points, goals),
    }
}

/// The same, of points that are filled up with what is equal in all.
fn front_of<const N: usize>(points: &[f64], goals: usize) -> Vec<bool> {
    let padded = |point: &[f64]| std::array::from_fn::<f64, N, _>(|at| if at < goals { point[at] } else { 0.0 });
    let points: Vec<[f64; N]> = points.chunks(goals.max(1)).map(padded).collect();
    let is_whole = |point: &[f64; N]| point.iter().all(|gain| !gain.is_nan());
    let mut order: Vec<usize> = (0..points.len()).filter(|at| is_whole(&points[*at])).collect();
    // In the order of a dictionary, greatest first, whoever dominates another comes before it.
    order.sort_unstable_by(|a, b| {
        let pairs = points[*b].iter().zip(&points[*a]);
        pairs.map(|(b, a)| b.total_cmp(a)).find(|order| order.is_ne()).unwrap_or(a.cmp(b))
    });
    let mut on = vec![false; points.len()];
    let mut members: Vec<[f64; N]> = Vec::new();
    for at in order {
        match members.iter().position(|member| dominates(member, &points[at])) {
            // What beat one beats the next soonest, too.
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
    // Without a branch for each: that is faster than to stop early.
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
