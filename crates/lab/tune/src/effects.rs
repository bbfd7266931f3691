//! Computes the effect of each option by itself, and what very bad builds have in common.
//!
//! reads   a [`Table`], the [`Goal`]s
//! writes  [`Effects`]
//! memory  some words per build
//! source  an analysis of variance without interactions, fitted by backfitting, so that builds may be missing from the
//!         grid

use hearth_stats::median_rule::median;
use hearth_stats::objective::Goal;
use hearth_stats::table::Table;

use crate::confounding::{ConfoundedOption, confounded};
use crate::level::{Level, levels};
use crate::options::NO_OPTION;

/// A column with more values than this is a name, not an option.
const LEVELS_MAX: usize = 20;
/// Maximum iterations of the fit.
const TURNS: usize = 200;
/// A build is very bad if it is worse than the median build by this many deviations,
const BAD_DEVIATIONS: f64 = 4.0;
/// and by at least this fraction.
const BAD_AT_LEAST: f64 = 0.05;
/// Maximum options in an explanation.
const TERMS_MAX: usize = 3;
/// A further option must improve the explanation by this much.
const TERM_GAIN: f64 = 0.03;

/// The effect of one value of an option.
#[derive(Clone, Debug)]
pub struct Effect {
    /// The option, its value and the builds that have it.
    pub level: Level,
    /// For each goal, by which fraction builds with it are above the mean of all, the other options being equal. NaN if
    /// the goal's values are not positive.
    pub parts: Vec<f64>,
}

/// The values of options that very bad builds have in common.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The values of options that together explain it best.
    pub terms: Vec<Level>,
    /// Builds with all of them.
    pub builds: usize,
    /// Very bad builds among these.
    pub bad: usize,
    /// All very bad builds.
    pub bad_in_all: Vec<usize>,
}

/// The effects of all options.
#[derive(Clone, Debug)]
pub struct Effects {
    /// One effect per option and value.
    pub effects: Vec<Effect>,
    /// For each goal, the share of the variance between builds that the options' separate effects explain.
    pub explained: Vec<f64>,
    /// The values of options that the very bad builds share; `None` if no build is very bad.
    pub bad: Option<Explanation>,
    /// Pairs of an option and a later one that always changes together with it.
    pub aliased: Vec<(usize, usize)>,
    /// Options that the other options explain, entirely or for the most part.
    pub confounded: Vec<ConfoundedOption>,
}

/// Computes the effects of options.
///
/// Builds in `without`, like the copy of another build, are left out, and so are builds without options.
pub fn effects(table: &Table, goals: &[Goal], without: &[usize]) -> Effects {
    let has_options = |build: &usize| table.builds[*build].options.iter().any(|value| value != NO_OPTION);
    let takes_part = |build: &usize| !without.contains(build) && has_options(build);
    let there: Vec<usize> = (0..table.builds.len()).filter(takes_part).collect();
    let options: Vec<Vec<Level>> = (0..table.options.len()).map(|option| levels(table, option, &there)).collect();
    let used = |levels: &&Vec<Level>| (2..=LEVELS_MAX).contains(&levels.len());
    let aliased = aliased(&options);
    let free: Vec<&Vec<Level>> = options
        .iter()
        .enumerate()
        .filter(|(at, levels)| used(levels) && !aliased.iter().any(|(_, again)| again == at))
        .map(|(_, levels)| levels)
        .collect();
    let values: Vec<Vec<f64>> = goals.iter().map(|goal| values(table, goal, &there)).collect();
    let fits: Vec<(Vec<Vec<f64>>, f64)> = values.iter().map(|values| fit(values, &free)).collect();
    let effects = free.iter().enumerate().flat_map(|(option, levels)| {
        let fits = &fits;
        levels.iter().enumerate().map(move |(at, level)| Effect {
            level: level.clone(),
            parts: fits.iter().map(|(fit, _)| fit[option][at].exp_m1()).collect(),
        })
    });
    let effects = effects.collect();
    let bad = explain(&bad_builds(&values, goals), &free);
    let confounded = confounded(&free, table.builds.len());
    Effects { effects, explained: fits.into_iter().map(|(_, explained)| explained).collect(), bad, aliased, confounded }
}

/// Pairs of an option and a later one that partitions the builds in the same way.
fn aliased(options: &[Vec<Level>]) -> Vec<(usize, usize)> {
    let parts = |levels: &[Level]| {
        let mut parts: Vec<Vec<usize>> = levels.iter().map(|level| level.builds.clone()).collect();
        parts.sort();
        parts
    };
    let all: Vec<_> = options.iter().map(|levels| parts(levels)).collect();
    let same = |at: usize| (0..at).find(|before| all[*before] == all[at] && all[at].len() > 1);
    (1..options.len()).filter_map(|at| Some((same(at)?, at))).collect()
}

/// The logarithm of each build's median; NaN if there is none, or the build is left out.
fn values(table: &Table, goal: &Goal, there: &[usize]) -> Vec<f64> {
    let mut all = vec![f64::NAN; table.builds.len()];
    there.iter().for_each(|build| all[*build] = median(&table.present(goal.metric, *build)).ln());
    all
}

/// For each option and value, how far builds with it are from the mean, the others being equal; and the share of
/// variance explained.
fn fit(values: &[f64], options: &[&Vec<Level>]) -> (Vec<Vec<f64>>, f64) {
    let there: Vec<usize> = (0..values.len()).filter(|at| values[*at].is_finite()).collect();
    let mean = there.iter().map(|at| values[*at]).sum::<f64>() / there.len() as f64;
    let mut left: Vec<f64> = values.iter().map(|value| value - mean).collect();
    let squares = |left: &[f64]| there.iter().map(|at| left[*at].powi(2)).sum::<f64>();
    let all = squares(&left);
    let mut fits: Vec<Vec<f64>> = options.iter().map(|levels| vec![0.0; levels.len()]).collect();
    for _ in 0..TURNS {
        let mut moved = 0.0f64;
        for (levels, fit) in options.iter().zip(&mut fits) {
            for (level, fit) in levels.iter().zip(fit) {
                let of: Vec<usize> = level.builds.iter().copied().filter(|at| values[*at].is_finite()).collect();
                let step = of.iter().map(|at| left[*at]).sum::<f64>() / of.len() as f64;
                if !step.is_finite() {
                    *fit = f64::NAN;
                    continue;
                }
                *fit += step;
                of.iter().for_each(|at| left[*at] -= step);
                moved = moved.max(step.abs());
            }
        }
        if moved < 1e-9 {
            break;
        }
    }
    (fits, if all > 0.0 { 1.0 - squares(&left) / all } else { 0.0 })
}

/// Builds that are far worse than the median build in some goal.
fn bad_builds(values: &[Vec<f64>], goals: &[Goal]) -> Vec<usize> {
    let bad = |(values, goal): (&Vec<f64>, &Goal)| -> Vec<usize> {
        let there: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
        let middle = median(&there);
        let deviation = 1.4826 * median(&there.iter().map(|value| (value - middle).abs()).collect::<Vec<_>>());
        let far = (BAD_DEVIATIONS * deviation).max(BAD_AT_LEAST);
        (0..values.len()).filter(|at| goal.gain(values[*at] - middle) < -far).collect()
    };
    let mut all: Vec<usize> = values.iter().zip(goals).flat_map(bad).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// The values of options that best separate the bad builds from the others.
fn explain(bad: &[usize], options: &[&Vec<Level>]) -> Option<Explanation> {
    let score = |builds: &[usize]| {
        let hits = builds.iter().filter(|at| bad.binary_search(at).is_ok()).count();
        2.0 * hits as f64 / (builds.len() + bad.len()) as f64
    };
    let mut best: (f64, Vec<&Level>, Vec<usize>) = (0.0, Vec::new(), Vec::new());
    let mut open: Vec<(Vec<&Level>, Vec<usize>)> = vec![(Vec::new(), Vec::new())];
    for _ in 0..TERMS_MAX {
        let mut next: Vec<(Vec<&Level>, Vec<usize>)> = Vec::new();
        for (terms, builds) in &open {
            let later = options.iter().filter(|levels| terms.last().is_none_or(|last| levels[0].option > last.option));
            for level in later.flat_map(|levels| levels.iter()) {
                let both = |at: &&usize| terms.is_empty() || builds.binary_search(at).is_ok();
                let builds: Vec<usize> = level.builds.iter().filter(both).copied().collect();
                if builds.iter().any(|at| bad.binary_search(at).is_ok()) {
                    next.push((terms.iter().copied().chain([level]).collect(), builds));
                }
            }
        }
        let found = next.iter().max_by(|a, b| score(&a.1).total_cmp(&score(&b.1)));
        if let Some((terms, builds)) = found
            && score(builds) > best.0 + TERM_GAIN
        {
            best = (score(builds), terms.clone(), builds.clone());
        }
        open = next;
    }
    let (_, terms, builds) = best;
    (!terms.is_empty()).then(|| Explanation {
        terms: terms.into_iter().cloned().collect(),
        bad: builds.iter().filter(|at| bad.binary_search(at).is_ok()).count(),
        builds: builds.len(),
        bad_in_all: bad.to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// lto and units multiply the speed; `off` and `16` together halve it.
    fn study() -> Table {
        let mut text = "build,lto,units,twin,metric,value\n".to_owned();
        for (lto, factor) in [("off", 1.0), ("thin", 1.1), ("fat", 1.21)] {
            for (units, more) in [("1", 1.0), ("16", 0.9)] {
                for cpu in ["x", "y"] {
                    let half = if lto == "off" && units == "16" { 0.5 } else { 1.0 };
                    let value = 100.0 * factor * more * half;
                    text.push_str(&format!("{lto}-{units}-{cpu},{lto},{units},t{units},speed,{value}\n"));
                }
            }
        }
        Table::read(text.as_bytes()).expect("fine")
    }

    #[test]
    fn options_are_distinguished() {
        let table = study();
        let found = effects(&table, &[Goal::new(0, true)], &[]);
        assert_eq!(found.aliased, [(1, 2)]);
        let part = |value: &str| found.effects.iter().find(|one| one.level.value == value).expect("there").parts[0];
        assert!(part("fat") > part("thin") && part("thin") > part("off"), "{found:?}");
        assert!(((1.0 + part("fat")) / (1.0 + part("thin")) - 1.1).abs() < 1e-6, "{found:?}");
        let bad = found.bad.expect("there are bad ones");
        let terms: Vec<&str> = bad.terms.iter().map(|term| term.value.as_str()).collect();
        assert_eq!((terms, bad.builds, bad.bad, bad.bad_in_all.len()), (vec!["off", "16"], 2, 2, 2));
    }

    #[test]
    fn an_additive_study_is_explained_wholly() {
        let rows = [("a", "p", "u", 1.0), ("b", "p", "v", 2.0), ("c", "q", "u", 3.0), ("d", "q", "v", 6.0)];
        let rows: String = rows.map(|(name, one, two, value)| format!("{name},{one},{two},m,{value}\n")).concat();
        let table = Table::read(format!("build,one,two,metric,value\n{rows}").as_bytes()).expect("fine");
        let found = effects(&table, &[Goal::new(0, true)], &[]);
        assert!((found.explained[0] - 1.0).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn build_without_options_has_no_effects() {
        let rows = [("plain", "off", 1.0), ("fat", "fat", 1.1), ("copy", "off", 1.3), ("official", "-", 0.2)];
        let rows: String = rows.map(|(name, lto, value)| format!("{name},{lto},m,{value}\n")).concat();
        let table = Table::read(format!("build,lto,metric,value\n{rows}").as_bytes()).expect("fine");
        let found = effects(&table, &[Goal::new(0, true)], &[2]);
        let values: Vec<&str> = found.effects.iter().map(|one| one.level.value.as_str()).collect();
        assert_eq!(values, ["fat", "off"]);
        assert!(
            ((1.0 + found.effects[0].parts[0]) / (1.0 + found.effects[1].parts[0]) - 1.1).abs() < 1e-9,
            "{found:?}"
        );
        assert!(found.bad.is_none(), "{found:?}");
    }

    #[test]
    fn lto_true_is_lto_fat() {
        let rows = [("a", "true", 1.2), ("b", "fat", 1.2), ("c", "off", 1.0), ("d", "thin", 1.1)];
        let rows: String = rows.map(|(name, lto, value)| format!("{name},{lto},m,{value}\n")).concat();
        let table = Table::read(format!("build,lto,metric,value\n{rows}").as_bytes()).expect("fine");
        let found = effects(&table, &[Goal::new(0, true)], &[]);
        let fat = found.effects.iter().find(|one| one.level.value == "fat").expect("there");
        assert_eq!(fat.level.builds, [0, 1]);
        assert!(found.effects.iter().all(|one| one.level.value != "true"), "{found:?}");
    }

    #[test]
    fn names_and_single_values_are_no_options() {
        let rows: String = (0..30).map(|at| format!("b{at},name{at},same,m,{}\n", at + 1)).collect();
        let table = Table::read(format!("build,note,one,metric,value\n{rows}").as_bytes()).expect("fine");
        let found = effects(&table, &[Goal::new(0, false)], &[]);
        assert!(found.effects.is_empty() && found.bad.is_none(), "{found:?}");
    }
}
