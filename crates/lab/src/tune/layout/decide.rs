//! Whether one layout is better than another, from runs of both in turn.
//!
//! reads   a difference for each pair of runs
//! writes  a [`Verdict`]
//! source  Fisher's randomisation of signs, with its exact distribution; Hodges and Lehmann for the estimate;
//!         Bonferroni over the looks
//!
//! Of two layouts that are equal, in each pair either may be the better one with the same odds, however noise is
//! spread, since the order in a pair is drawn. So the odds of a wrong win are exact. A difference that is greater than
//! the median has the weight of the median, so that a rare outlier has that of any other pair.

use serde::{Deserialize, Serialize};

/// The odds of a wrong win in the whole search.
pub const LEVEL: f64 = 0.05;
/// Fewer pairs say nothing at that level.
pub const PAIRS_LEAST: usize = 5;
/// More pairs are not taken.
pub const PAIRS_MOST: usize = 12;
/// So many pairs can do with an outlier among them.
pub const PAIRS_ROBUST: usize = 9;

/// A run is far from the others from so many times the distance on that half of them are nearer.
const FAR: f64 = 4.0;

/// What pairs of runs say of a candidate beside the default.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It is better.
    Better(Gain),
    /// That is not shown.
    NotShown(Gain),
}

/// How much better, as a part of the default's rate: 0.1 is a tenth.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gain {
    /// The estimate.
    pub value: f64,
    /// At least so much, at the level of the look.
    pub at_least: f64,
    /// Pairs of runs.
    pub pairs: usize,
    /// The odds of pairs like these if there were no difference.
    pub odds: f64,
}

/// The looks of a comparison of so many pairs at most: after how many pairs, and with which part of the level. A clear
/// win is seen at the first.
pub fn looks(pairs: usize) -> Vec<(usize, f64)> {
    let first = (6, 1.0 / 64.0);
    let second = (9, 1.0 / 51.0);
    match pairs {
        0..PAIRS_LEAST => Vec::new(),
        PAIRS_LEAST..9 => vec![(pairs, LEVEL)],
        9..PAIRS_MOST => vec![first, (pairs, LEVEL - first.1)],
        _ => vec![first, second, (PAIRS_MOST, LEVEL - first.1 - second.1)],
    }
}

/// Looks at pairs of rates, the default's and the candidate's; the level is that of the look.
pub fn judge(pairs: &[(f64, f64)], level: f64) -> Verdict {
    let differences = &differences(pairs)[..];
    let mut means = walsh(differences);
    means.sort_by(f64::total_cmp);
    let gain = Gain {
        value: median(&means).exp_m1(),
        at_least: bound(differences, level).exp_m1(),
        pairs: differences.len(),
        odds: odds(differences),
    };
    if gain.odds <= level { Verdict::Better(gain) } else { Verdict::NotShown(gain) }
}

/// The candidate's logarithm less the default's. A run that is far from all others, to whichever layout it belongs, is
/// taken to be as far as a bound that both share, so that two of them in a pair are not told apart by chance.
fn differences(pairs: &[(f64, f64)]) -> Vec<f64> {
    let mut logs: Vec<f64> = pairs.iter().flat_map(|(usual, ours)| [usual.ln(), ours.ln()]).collect();
    logs.sort_by(f64::total_cmp);
    let middle = median(&logs);
    let mut far: Vec<f64> = logs.iter().map(|log| (log - middle).abs()).collect();
    far.sort_by(f64::total_cmp);
    let most = FAR * median(&far);
    let near = |rate: f64| (rate.ln() - middle).clamp(-most, most);
    pairs.iter().map(|(usual, ours)| near(*ours) - near(*usual)).collect()
}

/// Means of each two differences, and each with itself.
fn walsh(all: &[f64]) -> Vec<f64> {
    (0..all.len()).flat_map(|a| (a..all.len()).map(move |b| (all[a] + all[b]) / 2.0)).collect()
}

/// The odds that signs drawn at random give as much or more: of all ways to draw them.
fn odds(differences: &[f64]) -> f64 {
    let mut sizes: Vec<f64> = differences.iter().map(|one| one.abs()).collect();
    sizes.sort_by(f64::total_cmp);
    let most = median(&sizes);
    let weights: Vec<f64> = differences.iter().map(|one| one.clamp(-most, most)).collect();
    let seen: f64 = weights.iter().sum();
    let sum = |signs: u32| -> f64 {
        weights.iter().enumerate().map(|(at, one)| if signs >> at & 1 == 1 { one.abs() } else { -one.abs() }).sum()
    };
    let ways = 1u32 << weights.len();
    // Sums that are equal but for their last digits are equal.
    let least = seen - 1e-9 * most;
    (0..ways).filter(|signs| sum(*signs) >= least).count() as f64 / f64::from(ways)
}

/// The greatest gain that would be shown as not enough at this level: how much may be taken off each difference.
fn bound(differences: &[f64], level: f64) -> f64 {
    let less = |by: f64| differences.iter().map(|one| one - by).collect::<Vec<_>>();
    let is_shown = |by: f64| odds(&less(by)) <= level;
    let size = differences.iter().map(|one| one.abs()).fold(0.0, f64::max);
    let (mut low, mut high) = (-3.0 * size - 1e-6, size + 1e-6);
    if !is_shown(low) {
        return f64::NEG_INFINITY;
    }
    for _ in 0..20 {
        let middle = (low + high) / 2.0;
        if is_shown(middle) { low = middle } else { high = middle }
    }
    low
}

fn median(sorted: &[f64]) -> f64 {
    match sorted.len() {
        0 => 0.0,
        count if count % 2 == 1 => sorted[count / 2],
        count => (sorted[count / 2 - 1] + sorted[count / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odds_are_counted() {
        assert_eq!(odds(&[1.0, 2.0, 3.0, 4.0, 5.0]), 1.0 / 32.0);
        assert_eq!(odds(&[-1.0, -2.0, -3.0, -4.0, -5.0]), 1.0);
        // The outlier weighs as much as each of the others: none or one of nine may be below.
        assert_eq!(odds(&[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, -7.0]), 10.0 / 512.0);
        assert_eq!(odds(&[0.0, 0.0]), 1.0, "no difference is none");
        assert_eq!(odds(&[]), 1.0);
        assert!(matches!(judge(&[(1.0, 1.25); 6], 1.0 / 64.0), Verdict::Better(gain) if gain.at_least > 0.24));
        let nothing = judge(&[(1.0, 1.1); 2], LEVEL);
        assert!(matches!(nothing, Verdict::NotShown(gain) if gain.at_least == -1.0), "{nothing:?}");
    }

    #[test]
    fn outliers_of_both_cost_little() {
        let mut pairs =
            vec![(28.0, 31.0), (28.3, 30.8), (28.1, 31.2), (27.9, 30.1), (28.6, 31.3), (28.4, 30.9), (28.2, 31.4)];
        pairs.extend([(17.0, 15.0), (28.2, 16.0)]);
        let found = judge(&pairs, LEVEL);
        assert!(matches!(found, Verdict::Better(gain) if (0.05..0.12).contains(&gain.value)), "{found:?}");
    }

    #[test]
    fn looks_spend_the_level_and_no_more() {
        for pairs in 0..40 {
            let looks = looks(pairs);
            assert!(looks.iter().map(|(_, level)| level).sum::<f64>() <= LEVEL + 1e-12, "{pairs}");
            assert!(looks.iter().all(|(at, _)| *at <= pairs) && looks.is_sorted());
            assert_eq!(looks.is_empty(), pairs < PAIRS_LEAST);
        }
    }

    #[test]
    fn equal_layouts_seldom_win() {
        let mut random = fastrand::Rng::with_seed(7);
        let wins = (0..2_000).filter(|_| {
            // Outliers are as likely on either side, and large.
            let mut run = || if random.f64() < 0.05 { -0.4 } else { 0.03 * (random.f64() + random.f64() - 1.0) };
            let all: Vec<(f64, f64)> =
                (0..PAIRS_MOST).map(|_| (run(), run())).map(|(a, b): (f64, f64)| (a.exp(), b.exp())).collect();
            looks(PAIRS_MOST).iter().any(|(at, level)| matches!(judge(&all[..*at], *level), Verdict::Better(_)))
        });
        let wins = wins.count();
        assert!((40..=110).contains(&wins), "{wins} of 2,000, of which 100 at most are asked");
    }

    #[test]
    fn the_bound_is_below_the_truth_as_often_as_the_level_says() {
        let mut random = fastrand::Rng::with_seed(3);
        let mut missed = 0;
        for _ in 0..1_000 {
            let mut run = || 0.1 * (random.f64() + random.f64());
            let all: Vec<(f64, f64)> = (0..8).map(|_| (run().exp(), (0.05 + run()).exp())).collect();
            let (Verdict::Better(gain) | Verdict::NotShown(gain)) = judge(&all, LEVEL);
            missed += usize::from(gain.at_least > 0.05f64.exp_m1());
            assert_eq!(gain.odds <= LEVEL, gain.at_least > 0.0, "both say the same: {all:?}");
        }
        assert!((20..=65).contains(&missed), "{missed} of 1,000");
    }
}
