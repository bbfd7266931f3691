//! Decides whether a build is better by more than the effect of function order.
//!
//! reads   results of the reference and of finalists, each linked with several function orders
//! writes  a [`Gain`] for each finalist and goal
//! source  Welch for the difference of two means; Bonferroni over finalists and goals
//!
//! The same code in another order runs faster or slower, by more than many options gain. Layouts are drawn at random,
//! so a build's value is the mean over its layouts, and its error comes from the variation between layouts, not between
//! rounds.

use hearth_stats::median_rule::median;
use hearth_stats::objective::Goal;
use hearth_stats::paired_bootstrap::Scale;
use hearth_stats::table::Table;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// The share of studies in which every interval holds.
const LEVEL: f64 = 0.95;
/// This many deviations to both sides cover 95 of 100 layouts.
const DEVIATIONS: f64 = 1.96;

/// A finalist compared with the reference in one goal, over layouts. A ratio, or a difference if values are not
/// positive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gain {
    /// Estimate of finalist to reference.
    pub value: f64,
    /// Its interval, which holds simultaneously with all others.
    pub interval: (f64, f64),
    /// The effect of the layout alone, to either side: a fraction, or a difference.
    pub spread: f64,
    /// Whether the values are ratios.
    pub is_ratio: bool,
    /// Better by more than noise and the effect of layouts.
    pub is_better: bool,
    /// Worse beyond the noise.
    pub is_worse: bool,
}

/// Returns the name of a build in one layout.
pub fn name(build: &str, seed: usize) -> String {
    format!("{build}#{seed}")
}

/// Compares the layouts of finalists; none if one of them has too few values.
pub fn gains(
    table: &Table,
    goals: &[Goal],
    scales: &[Scale],
    reference: &str,
    finalists: &[String],
    layouts: usize,
) -> Vec<Vec<Option<Gain>>> {
    let comparisons = (finalists.len() * goals.len()).max(1);
    let of = |finalist: &String| {
        let one = |(goal, scale): (&Goal, &Scale)| {
            let base = builds(table, reference, layouts);
            let (ours, theirs) = (
                means(table, goal, *scale, finalist, layouts, &base),
                means(table, goal, *scale, reference, layouts, &base),
            );
            gain(&ours, &theirs, goal, *scale, comparisons)
        };
        goals.iter().zip(scales).map(one).collect()
    };
    finalists.iter().map(of).collect()
}

fn builds(table: &Table, name_of: &str, layouts: usize) -> Vec<usize> {
    (1..=layouts).filter_map(|seed| table.build(&name(name_of, seed))).collect()
}

/// A build's layouts, each as the median over rounds of its value relative to the reference's layouts in that round.
fn means(table: &Table, goal: &Goal, scale: Scale, build: &str, layouts: usize, base: &[usize]) -> Vec<f64> {
    let on_scale = |value: f64| if scale == Scale::Ratio { value.ln() } else { value };
    let at = |build: usize, round: usize| on_scale(table.of(goal.metric, build)[round]);
    let usual = |round: usize| {
        let all: Vec<f64> = base.iter().map(|build| at(*build, round)).filter(|value| value.is_finite()).collect();
        all.iter().sum::<f64>() / all.len() as f64
    };
    let usual: Vec<f64> = (0..table.rounds.len()).map(usual).collect();
    let of = |build: usize| {
        let all = (0..usual.len()).map(|round| at(build, round) - usual[round]);
        median(&all.filter(|value| value.is_finite()).collect::<Vec<_>>())
    };
    builds(table, build, layouts).into_iter().map(of).filter(|value| value.is_finite()).collect()
}

fn gain(ours: &[f64], theirs: &[f64], goal: &Goal, scale: Scale, comparisons: usize) -> Option<Gain> {
    let count = ours.len().min(theirs.len());
    if count < 2 {
        return None;
    }
    let mean = |all: &[f64]| all.iter().sum::<f64>() / all.len() as f64;
    let variance = |all: &[f64]| {
        let mean = mean(all);
        all.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / (all.len() - 1) as f64
    };
    let (a, b) = (variance(ours), variance(theirs));
    let (part_a, part_b) = (a / ours.len() as f64, b / theirs.len() as f64);
    let difference = mean(ours) - mean(theirs);
    let least = (count - 1) as f64;
    let parts = part_a.powi(2) / (ours.len() - 1) as f64 + part_b.powi(2) / (theirs.len() - 1) as f64;
    // Welch's degrees of freedom; if nothing varies any number will do.
    let freedom = if parts > 0.0 { ((part_a + part_b).powi(2) / parts).max(least) } else { least };
    let beyond = (1.0 - LEVEL) / 2.0 / comparisons as f64;
    let t = StudentsT::new(0.0, 1.0, freedom).ok()?.inverse_cdf(1.0 - beyond);
    let half = t * (part_a + part_b).sqrt();
    let spread = DEVIATIONS * ((a + b) / 2.0).sqrt();
    let gains = [goal.gain(difference - half), goal.gain(difference + half)];
    let matters = scale.of_part(goal.matters);
    let back = |value: f64| if scale == Scale::Ratio { value.exp() } else { value };
    Some(Gain {
        value: back(difference),
        interval: (back(difference - half), back(difference + half)),
        spread: if scale == Scale::Ratio { spread.exp_m1() } else { spread },
        is_ratio: scale == Scale::Ratio,
        is_better: gains[0].min(gains[1]) > matters && difference.abs() > spread,
        is_worse: gains[0].max(gains[1]) < -matters,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four layouts per build, six rounds. Layouts differ by `spread` to either side; `fat` is `factor` times as fast.
    fn study(factor: f64, spread: f64) -> Gain {
        let mut text = "nb_build,metric,value,repetition\n".to_owned();
        for round in 1..=6 {
            for seed in 1..=4 {
                let layout = 1.0 + spread * [-1.0, 0.5, 1.0, -0.5][seed - 1];
                let drift = 1.0 + f64::from(round) / 10.0;
                let (plain, fat) = (100.0 * layout * drift, 100.0 * factor * (2.0 - layout) * drift);
                text.push_str(&format!("plain#{seed},tps,{plain},{round}\nfat#{seed},tps,{fat},{round}\n"));
            }
        }
        let table = Table::read(text.as_bytes()).expect("fine");
        let goals = [Goal::new(0, true)];
        let found = gains(&table, &goals, &[Scale::Ratio], "plain", &["fat".into()], 4);
        found[0][0].expect("known")
    }

    #[test]
    fn a_gain_within_what_layouts_do_is_none() {
        let small = study(1.02, 0.05);
        assert!(!small.is_better && !small.is_worse && small.spread > 0.05, "{small:?}");
        let great = study(1.3, 0.05);
        assert!(great.is_better && (great.value - 1.3).abs() < 0.01, "{great:?}");
        assert!(great.interval.0 > 1.1 && great.interval.1 < 1.5, "{great:?}");
        assert!(study(0.7, 0.05).is_worse);
        let exact = study(1.01, 0.0);
        assert!(exact.is_better, "where nothing varies a hundredth is one: {exact:?}");
    }

    #[test]
    fn irrelevant_layout_is_neither_better_nor_worse() {
        for (factor, is_better, is_worse) in
            [(1.005, false, false), (0.995, false, false), (1.02, true, false), (0.98, false, true)]
        {
            let goal = Goal { matters: 0.01, ..Goal::new(0, true) };
            let (ours, theirs) = ([factor; 3].map(f64::ln), [0.0; 3]);
            let found = gain(&ours, &theirs, &goal, Scale::Ratio, 1).expect("known");
            assert_eq!((found.is_better, found.is_worse), (is_better, is_worse), "{factor}");
        }
    }

    #[test]
    fn one_layout_says_nothing() {
        let table = Table::read("nb_build,metric,value,repetition\na#1,x,1,1\nb#1,x,2,1\n".as_bytes()).expect("fine");
        let goals = [Goal::new(0, true)];
        assert_eq!(gains(&table, &goals, &[Scale::Ratio], "a", &["b".into()], 1), [[None]]);
    }
}
