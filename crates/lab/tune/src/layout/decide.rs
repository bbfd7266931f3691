//! Decides whether one layout is better than another, from alternating runs of both.
//!
//! reads   a difference for each pair of runs
//! writes  a [`Verdict`]
//! source  Fisher's randomisation of signs, with its exact distribution; Hodges and Lehmann for the estimate; Lan and
//!         DeMets for looking more than once
//!
//! If two layouts are equal, either is the better one of a pair with equal odds, whatever the distribution of the
//! noise, because the order in a pair is random. So the odds of a false win are exact: among all assignments of signs,
//! those are counted that win at this look or would have won at an earlier one. A pair's weight may depend on its two
//! rates, but not on which layout had which. A difference above the median gets the weight of the median. A pair with a
//! rare outlier, whose difference is far from all others or whose lower rate is, gets a quarter of that. An outlier of
//! the better layout may hide in a difference of usual size.

use hearth_stats::median_rule::median;
use serde::{Deserialize, Serialize};

/// The odds of a false win in the whole search.
pub const LEVEL: f64 = 0.05;
/// Fewer pairs can show nothing at that level.
pub const PAIRS_LEAST: usize = 5;
/// The most pairs of a comparison.
pub const PAIRS_MOST: usize = 12;
/// This many pairs tolerate one outlier.
pub const PAIRS_ROBUST: usize = 9;

/// A run is an outlier beyond this many times the median distance.
const FAR: f64 = 5.0;
/// The same for the size of a difference.
const FAR_SIZE: f64 = 3.5;
/// Weight of an outlier pair, relative to the median.
const FAR_WEIGHT: f64 = 0.25;

/// The result of comparing a candidate with the default.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The candidate is better.
    Better(Gain),
    /// The candidate is better, but by less than the least gain.
    TooSmall(Gain),
    /// The candidate is not shown to be better.
    NotShown(Gain),
}

/// By how much a candidate is better, as a fraction of the default's rate: 0.1 is a tenth.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gain {
    /// Point estimate over the pairs.
    pub value: f64,
    /// Lower bound at the level of the look.
    pub at_least: f64,
    /// Number of pairs of runs behind the estimate.
    pub pairs: usize,
    /// The odds of such pairs if there were no difference.
    pub odds: f64,
}

/// A look at the pairs so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InterimLook {
    /// Number of pairs at this look.
    pub pairs: usize,
    /// The odds of a false win up to this look.
    pub level: f64,
}

/// Returns the looks of a comparison with at most `pairs` pairs. The first look finds a clear win early.
pub fn looks(pairs: usize) -> Vec<InterimLook> {
    let look = |pairs, level| InterimLook { pairs, level };
    let first = look(6, 1.0 / 64.0);
    match pairs {
        0..PAIRS_LEAST => Vec::new(),
        PAIRS_LEAST..9 => vec![look(pairs, LEVEL)],
        9..PAIRS_MOST => vec![first, look(pairs, LEVEL)],
        _ => vec![first, look(9, 0.032), look(PAIRS_MOST, LEVEL)],
    }
}

/// Judges pairs of rates, the default's and the candidate's, at the last of these looks.
pub fn judge(pairs: &[(f64, f64)], looks: &[InterimLook]) -> Verdict {
    let seen = |look: &InterimLook| InterimData { pairs: logs(&pairs[..look.pairs]), level: look.level };
    let seen: Vec<InterimData> = looks.iter().map(seen).collect();
    let (all, level) = seen.last().map_or((Vec::new(), 0.0), |last| (differences(&last.pairs), last.level));
    let all = &all[..];
    let gain = Gain {
        value: if all.is_empty() { 0.0 } else { median(&walsh(all)).exp_m1() },
        at_least: bound(&seen).exp_m1(),
        pairs: all.len(),
        odds: odds(&seen),
    };
    if gain.odds <= level { Verdict::Better(gain) } else { Verdict::NotShown(gain) }
}

/// The data of one look.
#[derive(Clone)]
struct InterimData {
    /// Logarithms of the default's rate and the candidate's.
    pairs: Vec<(f64, f64)>,
    level: f64,
}

/// The logarithms of rates. An outlier of either layout is clamped to a bound that both share, so that two outliers in
/// a pair do not decide it by chance.
fn logs(pairs: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let logs: Vec<f64> = pairs.iter().flat_map(|(usual, ours)| [usual.ln(), ours.ln()]).collect();
    if logs.is_empty() {
        return Vec::new();
    }
    let middle = median(&logs);
    let most = 2.0 * FAR * spread(&logs, middle);
    let near = |rate: f64| (rate.ln() - middle).clamp(-most, most);
    pairs.iter().map(|(usual, ours)| (near(*usual), near(*ours))).collect()
}

/// The candidate's logarithms minus the default's.
fn differences(pairs: &[(f64, f64)]) -> Vec<f64> {
    pairs.iter().map(|(usual, ours)| ours - usual).collect()
}

/// The median distance of the values from the middle.
fn spread(values: &[f64], middle: f64) -> f64 {
    median(&values.iter().map(|value| (value - middle).abs()).collect::<Vec<f64>>())
}

/// The Walsh averages: the means of all pairs of differences, each also with itself.
fn walsh(all: &[f64]) -> Vec<f64> {
    (0..all.len()).flat_map(|a| (a..all.len()).map(move |b| (all[a] + all[b]) / 2.0)).collect()
}

/// The weight of each pair, whichever layout had which rate.
fn weights(pairs: &[(f64, f64)]) -> Vec<f64> {
    if pairs.is_empty() {
        return Vec::new();
    }
    let sizes: Vec<f64> = pairs.iter().map(|(usual, ours)| (ours - usual).abs()).collect();
    let lower: Vec<f64> = pairs.iter().map(|(usual, ours)| usual.min(*ours)).collect();
    let (middle, low) = (median(&sizes), median(&lower));
    // If the spread is zero the sizes are equal and none is an outlier.
    let most = middle + FAR_SIZE * spread(&sizes, middle) + 1e-9 * middle;
    let least = low - FAR * spread(&lower, low) - 1e-9 * middle;
    let of = |(size, lower): (&f64, &f64)| match *size > most || *lower < least {
        true => FAR_WEIGHT * middle,
        false => size.min(middle),
    };
    sizes.iter().zip(&lower).map(of).collect()
}

/// The odds that random signs win as clearly at the last look, or at an earlier one. If an earlier look was already
/// won, returns the odds of the first such look.
fn odds(looks: &[InterimData]) -> f64 {
    // The sign assignments of the pairs so far that had already won.
    let mut won = vec![false];
    let mut found = 1.0;
    for (at, InterimData { pairs, level }) in looks.iter().enumerate() {
        let (weights, differences) = (weights(pairs), differences(pairs));
        let ways = 1usize << weights.len();
        // Each difference doubles the assignments: those with a negative sign come first.
        let mut sums = vec![-weights.iter().sum::<f64>()];
        weights.iter().for_each(|one| sums.extend(sums.clone().iter().map(|sum| sum + 2.0 * one)));
        let seen: f64 = weights.iter().zip(&differences).map(|(one, by)| if *by > 0.0 { *one } else { -*one }).sum();
        // Sums that differ only in their last digits count as equal.
        let same = 1e-9 * weights.iter().copied().fold(0.0, f64::max);
        let had_won = |signs: usize| won[signs & (won.len() - 1)];
        let as_much = |least: f64| (0..ways).filter(|signs| had_won(*signs) || sums[*signs] >= least - same).count();
        found = as_much(seen) as f64 / ways as f64;
        if found <= *level || at + 1 == looks.len() {
            return found;
        }
        let mut rest: Vec<f64> = (0..ways).filter(|signs| !had_won(*signs)).map(|signs| sums[signs]).collect();
        rest.sort_by(|a, b| b.total_cmp(a));
        let room = (level * ways as f64 + 1e-9) as usize;
        let room = room.saturating_sub(ways - rest.len()).min(rest.len());
        // Of equal sums either all may win or none.
        let wins =
            (1..=room).rev().find(|count| rest.get(*count).is_none_or(|next| rest[count - 1] > next + 2.0 * same));
        let least = wins.map_or(f64::INFINITY, |count| rest[count - 1]);
        won = (0..ways).map(|signs| had_won(signs) || sums[signs] >= least - same).collect();
    }
    found
}

/// The greatest gain that would just be shown at the last look's level: how much may be subtracted from each of the
/// candidate's logarithms.
fn bound(looks: &[InterimData]) -> f64 {
    let Some(last) = looks.last() else { return f64::NEG_INFINITY };
    let is_shown = |by: f64| {
        let mut less = looks.to_vec();
        less.iter_mut().flat_map(|look| &mut look.pairs).for_each(|(_, ours)| *ours -= by);
        odds(&less) <= last.level
    };
    let size = differences(&last.pairs).iter().map(|one| one.abs()).fold(0.0, f64::max);
    // Start from the same test, so that this bound never contradicts whether anything is shown.
    let (mut low, mut high) = if is_shown(0.0) { (0.0, size + 1e-6) } else { (-3.0 * size - 1e-6, 0.0) };
    if !is_shown(low) {
        return f64::NEG_INFINITY;
    }
    for _ in 0..20 {
        let middle = (low + high) / 2.0;
        if is_shown(middle) { low = middle } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pairs with these differences and the same lower rate.
    fn differing(differences: &[f64]) -> Vec<(f64, f64)> {
        differences.iter().map(|by| ((-by).max(0.0), by.max(0.0))).collect()
    }

    fn odds_of(differences: &[f64]) -> f64 {
        odds(&[InterimData { pairs: differing(differences), level: 0.0 }])
    }

    fn once(pairs: &[(f64, f64)], level: f64) -> Verdict {
        judge(pairs, &[InterimLook { pairs: pairs.len(), level }])
    }

    #[test]
    fn odds_are_counted() {
        assert_eq!(odds_of(&[1.0, 2.0, 3.0, 4.0, 5.0]), 1.0 / 32.0);
        assert_eq!(odds_of(&[-1.0, -2.0, -3.0, -4.0, -5.0]), 1.0);
        // The outlier weighs less than any other: only the assignments with it alone negative, or with none, win.
        assert_eq!(odds_of(&[1.0, 1.1, 0.9, 1.0, 1.2, 1.0, 0.8, 1.0, -7.0]), 2.0 / 512.0);
        // A pair that is no outlier weighs as much as each of the others: none or one of nine may be negative.
        assert_eq!(odds_of(&[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, -1.0]), 10.0 / 512.0);
        assert_eq!(odds_of(&[0.0, 0.0]), 1.0, "no difference is none");
        assert_eq!(odds_of(&[]), 1.0);
        assert!(matches!(once(&[(1.0, 1.25); 6], 1.0 / 64.0), Verdict::Better(gain) if gain.at_least > 0.24));
        let nothing = once(&[(1.0, 1.1); 2], LEVEL);
        assert!(matches!(nothing, Verdict::NotShown(gain) if gain.at_least == -1.0), "{nothing:?}");
    }

    #[test]
    fn a_win_at_an_earlier_look_counts() {
        // By signs alone: 6 of 6 win at the first look, 8 of 9 at the second.
        let looks = |differences: &[f64]| {
            let of = |pairs: usize, level| InterimData { pairs: differing(&differences[..pairs]), level };
            odds(&[of(6, 1.0 / 64.0), of(9, LEVEL)])
        };
        let with =
            |below: &[usize]| (0..9).map(|at| if below.contains(&at) { -1.0 } else { 1.0 }).collect::<Vec<f64>>();
        assert_eq!(looks(&with(&[])), 1.0 / 64.0, "won at once");
        assert_eq!(looks(&with(&[8])), 1.0 / 64.0, "won at the first look, whatever came later");
        // Eight assignments have the first six positive; six more have one of those negative and all others positive.
        assert_eq!(looks(&with(&[0])), 14.0 / 512.0);
    }

    #[test]
    fn outliers_of_both_cost_little() {
        let mut pairs =
            vec![(28.0, 31.0), (28.3, 30.8), (28.1, 31.2), (27.9, 30.1), (28.6, 31.3), (28.4, 30.9), (28.2, 31.4)];
        pairs.extend([(17.0, 15.0), (28.2, 16.0)]);
        let found = once(&pairs, LEVEL);
        assert!(matches!(found, Verdict::Better(gain) if (0.05..0.12).contains(&gain.value)), "{found:?}");
    }

    #[test]
    fn outliers_of_the_better_one_do_not_hide_its_gain() {
        // The candidate is better by a quarter, but two of its runs were slowed to about as far below the default.
        let mut pairs: Vec<(f64, f64)> =
            (0..8).map(|at| (100.0 + f64::from(at % 3), 125.0 + f64::from(at % 4))).collect();
        pairs.extend([(101.0, 80.0), (100.0, 79.0)]);
        let found = once(&pairs, LEVEL);
        let Verdict::Better(gain) = found else { panic!("{found:?}") };
        assert!(gain.odds == 4.0 / 1024.0 && gain.at_least > 0.2, "none, either or both of the two below: {gain:?}");
        // A pair's weight does not depend on which of the two was slowed.
        let turned: Vec<(f64, f64)> = pairs.iter().map(|(usual, ours)| (*ours, *usual)).collect();
        let (one, other) = (weights(&logs(&pairs)), weights(&logs(&turned)));
        assert!(one.iter().zip(&other).all(|(a, b)| (a - b).abs() < 1e-12), "{one:?} {other:?}");
    }

    #[test]
    fn looks_spend_the_level_and_no_more() {
        for pairs in 0..40 {
            let looks = looks(pairs);
            assert!(looks.iter().all(|look| look.pairs <= pairs && look.level <= LEVEL));
            assert!(looks.windows(2).all(|two| two[0].pairs < two[1].pairs && two[0].level < two[1].level));
            assert_eq!(looks.is_empty(), pairs < PAIRS_LEAST);
        }
    }

    #[test]
    fn equal_layouts_seldom_win() {
        let mut random = fastrand::Rng::with_seed(7);
        let wins = (0..2_000).filter(|_| {
            // Outliers are large, and equally likely on either side.
            let mut run = || if random.f64() < 0.05 { -0.4 } else { 0.03 * (random.f64() + random.f64() - 1.0) };
            let all: Vec<(f64, f64)> =
                (0..PAIRS_MOST).map(|_| (run(), run())).map(|(a, b): (f64, f64)| (a.exp(), b.exp())).collect();
            let looks = looks(PAIRS_MOST);
            (1..=looks.len()).any(|at| matches!(judge(&all[..looks[at - 1].pairs], &looks[..at]), Verdict::Better(_)))
        });
        let wins = wins.count();
        assert!((60..=130).contains(&wins), "{wins} of 2,000, of which 100 at most are asked");
    }

    #[test]
    fn the_bound_is_below_the_truth_as_often_as_the_level_says() {
        let mut random = fastrand::Rng::with_seed(3);
        let mut missed = 0;
        for _ in 0..1_000 {
            let mut run = || 0.1 * (random.f64() + random.f64());
            let all: Vec<(f64, f64)> = (0..8).map(|_| (run().exp(), (0.05 + run()).exp())).collect();
            let (Verdict::Better(gain) | Verdict::TooSmall(gain) | Verdict::NotShown(gain)) = once(&all, LEVEL);
            missed += usize::from(gain.at_least > 0.05f64.exp_m1());
            assert_eq!(gain.odds <= LEVEL, gain.at_least > 0.0, "both say the same: {all:?}");
        }
        assert!((20..=65).contains(&missed), "{missed} of 1,000");
    }
}
