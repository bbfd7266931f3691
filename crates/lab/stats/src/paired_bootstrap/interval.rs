//! Intervals that hold simultaneously for all builds and goals.
//!
//! reads   [`Cell`]s
//! writes  half-widths
//! memory  8 B per build, goal and round
//! source  Yuen for the error of a trimmed mean; Westfall and Young for the least p-value of all comparisons under
//!         random signs

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::cell::Cell;
use super::{LANES, Lanes, ROUNDS_MIN, Settings, each, in_parallel};

/// For each goal and build the half-width that holds simultaneously for all; 0 if nothing varies, none if unknown.
pub(super) fn intervals(
    cells: &[Vec<Cell>],
    rounds: usize,
    settings: &Settings,
    reference: Option<usize>,
) -> Vec<Vec<Option<f64>>> {
    // Each with the sum of its squares; the reference is not compared with itself.
    let mut compared: Vec<(Vec<f64>, f64, usize)> = Vec::new();
    let mut places: Vec<Vec<Option<usize>>> = Vec::new();
    for goal in cells {
        let mut place = |(build, cell): (usize, &Cell)| {
            (Some(build) != reference && cell.sorted.len() >= ROUNDS_MIN).then(|| {
                let influences = cell.influences(rounds);
                let squares = influences.iter().map(|one| one * one).sum::<f64>();
                compared.push((influences, squares, cell.sorted.len()));
                compared.len() - 1
            })
        };
        places.push(goal.iter().enumerate().map(&mut place).collect());
    }
    let beyond = beyond(&compared, rounds, settings);
    let half_width = |place: &Option<usize>, cell: &Cell| {
        let (_, squares, count) = &compared[(*place)?];
        let error = (squares / (count - 1) as f64 / *count as f64).sqrt();
        // The trimmed tails leave fewer degrees of freedom than there are rounds.
        Some(error * -student(count - 2 * cell.cut()).inverse_cdf(beyond[kind(*count)]))
    };
    places
        .iter()
        .zip(cells)
        .map(|(places, cells)| places.iter().zip(cells).map(|(p, c)| half_width(p, c)).collect())
        .collect()
}

/// Comparisons are grouped by their number of values: each group starts at one of these.
const KINDS: [usize; 3] = [0, 8, 12];

fn kind(count: usize) -> usize {
    KINDS.iter().rposition(|from| *from <= count).unwrap_or_default()
}

/// For each group of comparisons, the one-sided probability of |t| such that, under random signs of rounds, only the
/// permitted share of draws has a less likely |t| anywhere in the group.
///
/// A few values have equal signs every so often, and then |t| is arbitrarily large: a comparison of six rounds would
/// widen all others. So each group gets a share of the permitted misses, proportional to its number of comparisons.
/// Within a group, |t| of different counts is compared by its probability.
fn beyond(compared: &[(Vec<f64>, f64, usize)], rounds: usize, settings: &Settings) -> [f64; KINDS.len()] {
    let mut counts: Vec<usize> = compared.iter().map(|(_, _, count)| *count).collect();
    counts.sort_unstable();
    counts.dedup();
    let place = |count: usize| counts.binary_search(&count).unwrap_or_default();
    let places: Vec<usize> = compared.iter().map(|(_, _, count)| place(*count)).collect();
    let least = in_parallel(settings.resamples.div_ceil(LANES), |group| {
        let mut random = fastrand::Rng::with_seed(settings.seed.wrapping_mul(0x9e37_79b9).wrapping_add(group as u64));
        let sign = |random: &mut fastrand::Rng| if random.bool() { 1.0 } else { -1.0 };
        let signs: Vec<Lanes> = (0..rounds).map(|_| std::array::from_fn(|_| sign(&mut random))).collect();
        // Among equally many values the greatest |t| is the least likely one.
        let mut greatest = vec![[0.0f64; LANES]; counts.len()];
        for ((influences, squares, count), place) in compared.iter().zip(&places) {
            let found = t(influences, &signs, *squares, *count);
            each(|lane| greatest[*place][lane] = greatest[*place][lane].max(found[lane]));
        }
        let mut least = [[0.5f64; KINDS.len()]; LANES];
        for (greatest, count) in greatest.iter().zip(&counts) {
            let of = kind(*count);
            each(|lane| least[lane][of] = least[lane][of].min(student(*count).sf(greatest[lane])));
        }
        least
    });
    let least: Vec<_> = least.into_iter().flatten().take(settings.resamples).collect();
    std::array::from_fn(|of| {
        let many = compared.iter().filter(|(_, _, count)| kind(*count) == of).count();
        let may_miss = (1.0 - settings.level) * many as f64 / compared.len().max(1) as f64;
        // The greatest first, as for |t|. Events rarer than one resample are extrapolated as proportionally less
        // likely.
        let found = -quantile(least.iter().map(|least| -least[of]).collect(), 1.0 - may_miss);
        let rarer = (may_miss * (least.len() + 1) as f64).min(1.0);
        (found * rarer).max(f64::MIN_POSITIVE)
    })
}

/// Student's distribution for this many values.
fn student(count: usize) -> StudentsT {
    StudentsT::new(0.0, 1.0, (count - 1) as f64).expect("two rounds at least")
}

/// |t| of numbers with these signs applied.
fn t(values: &[f64], signs: &[Lanes], squares: f64, count: usize) -> Lanes {
    let count = count as f64;
    let mut sums = [0.0; LANES];
    for (value, signs) in values.iter().zip(signs) {
        each(|lane| sums[lane] += value * signs[lane]);
    }
    sums.map(|sum| {
        let mean = sum / count;
        let variance = (squares - count * mean * mean) / (count - 1.0);
        // All of one size and sign: without variation there is no t.
        if variance <= squares * 1e-12 { 0.0 } else { mean.abs() * (count / variance).sqrt() }
    })
}

fn quantile(mut values: Vec<f64>, level: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let place = (level * (values.len() + 1) as f64).ceil() as usize;
    values[place.clamp(1, values.len()) - 1]
}
