//! Finds options that a study's design cannot separate from each other.
//!
//! reads   the levels of each option, and the builds that have them
//! writes  [`ConfoundedOption`] options
//! memory  8 B per build and level
//! source  the aliasing of main effects in a linear model: an option is confounded where its indicator columns are
//!         linear combinations of the other options'
//!
//! A study of the full grid separates all options. One that leaves builds out may not: if fat LTO was only built with
//! one codegen unit, no analysis can say which of the two made the program faster.

use crate::level::Level;

/// An option's column is partly confounded if the other options explain more than this share of its variance. At 0.8
/// its effect has √5 times the standard error of a balanced design.
const PARTLY: f64 = 0.8;
/// A remainder below this share of a column's length is a rounding error.
const ROUNDING: f64 = 1e-9;

/// An option whose effect cannot be separated from others'.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfoundedOption {
    /// Index of the option in the table.
    pub option: usize,
    /// Whether the option is fully confounded, or only for the most part.
    pub is_whole: bool,
    /// The options that explain it, all of them needed for that.
    pub with: Vec<usize>,
}

/// Finds the options that the others explain, in the order of the options. `builds` is the number of builds in the
/// table; only those that have a level take part.
pub fn confounded(options: &[&Vec<Level>], builds: usize) -> Vec<ConfoundedOption> {
    let columns: Vec<Vec<Vec<f64>>> = options.iter().map(|levels| indicators(levels, builds)).collect();
    let explained = |at: usize, by: &[usize]| {
        let others: Vec<&Vec<f64>> = by.iter().flat_map(|other| &columns[*other]).collect();
        let basis = orthonormal(&others);
        columns[at].iter().map(|column| share_explained(column, &basis)).fold(0.0, f64::max)
    };
    let of = |at: usize| {
        let mut by: Vec<usize> = (0..options.len()).filter(|other| *other != at).collect();
        let share = explained(at, &by);
        let least = if share > 1.0 - ROUNDING { 1.0 - ROUNDING } else { PARTLY };
        if share <= PARTLY {
            return None;
        }
        // Drop options that are not needed for the explanation.
        for other in by.clone() {
            let rest: Vec<usize> = by.iter().copied().filter(|one| *one != other).collect();
            if explained(at, &rest) > least {
                by = rest;
            }
        }
        let with = by.iter().map(|other| options[*other][0].option).collect();
        Some(ConfoundedOption { option: options[at][0].option, is_whole: share > 1.0 - ROUNDING, with })
    };
    (0..options.len()).filter_map(of).collect()
}

/// Returns a column for each level but one: 1 for builds that have it, minus the column's mean.
fn indicators(levels: &[Level], builds: usize) -> Vec<Vec<f64>> {
    let there: Vec<usize> = levels.iter().flat_map(|level| level.builds.iter().copied()).collect();
    let column = |level: &Level| {
        let mean = level.builds.len() as f64 / there.len().max(1) as f64;
        let mut column = vec![0.0; builds];
        there.iter().for_each(|build| column[*build] = -mean);
        level.builds.iter().for_each(|build| column[*build] = 1.0 - mean);
        column
    };
    levels.iter().skip(1).map(column).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Returns a column's component orthogonal to a basis.
fn remainder(column: &[f64], basis: &[Vec<f64>]) -> Vec<f64> {
    let mut left = column.to_vec();
    for axis in basis {
        let along = dot(&left, axis);
        left.iter_mut().zip(axis).for_each(|(value, axis)| *value -= along * axis);
    }
    left
}

fn orthonormal(columns: &[&Vec<f64>]) -> Vec<Vec<f64>> {
    let mut basis: Vec<Vec<f64>> = Vec::new();
    for column in columns {
        let left = remainder(column, &basis);
        let length = dot(&left, &left).sqrt();
        if length > ROUNDING.sqrt() * dot(column, column).sqrt() {
            basis.push(left.iter().map(|value| value / length).collect());
        }
    }
    basis
}

fn share_explained(column: &[f64], basis: &[Vec<f64>]) -> f64 {
    let left = remainder(column, basis);
    1.0 - dot(&left, &left) / dot(column, column).max(f64::MIN_POSITIVE)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Analyzes options given as one row per build.
    fn found(rows: &[&[&str]]) -> Vec<ConfoundedOption> {
        let level = |option: usize, value: &str| Level {
            option,
            value: value.into(),
            builds: (0..rows.len()).filter(|build| rows[*build][option] == value).collect(),
        };
        let levels = |option: usize| {
            let mut values: Vec<&str> = rows.iter().map(|row| row[option]).collect();
            values.sort_unstable();
            values.dedup();
            values.into_iter().map(|value| level(option, value)).collect::<Vec<_>>()
        };
        let all: Vec<Vec<Level>> = (0..rows[0].len()).map(levels).collect();
        confounded(&all.iter().collect::<Vec<_>>(), rows.len())
    }

    #[test]
    fn full_grid_separates_all() {
        let mut rows = Vec::new();
        for lto in ["off", "thin", "fat"] {
            for units in ["1", "16"] {
                for panic in ["abort", "unwind"] {
                    rows.push([lto, units, panic]);
                }
            }
        }
        assert_eq!(found(&rows.iter().map(|row| &row[..]).collect::<Vec<_>>()), []);
        // A design that changes one option at a time separates them, too.
        let one_at_a_time: [&[&str]; 4] =
            [&["off", "16", "no"], &["fat", "16", "no"], &["off", "1", "no"], &["off", "16", "yes"]];
        assert_eq!(found(&one_at_a_time), []);
    }

    #[test]
    fn options_that_change_together_are_confounded() {
        let rows: [&[&str]; 4] = [&["off", "16", "x"], &["off", "16", "y"], &["fat", "1", "x"], &["fat", "1", "y"]];
        let whole = |option, with: &[usize]| ConfoundedOption { option, is_whole: true, with: with.to_vec() };
        assert_eq!(found(&rows), [whole(0, &[1]), whole(1, &[0])]);
    }

    #[test]
    fn half_fraction_confounds_three_options() {
        // The third option is the exclusive or of the others: separable. A fourth that is the parity of all three keeps
        // it so.
        let separate: [&[&str]; 4] = [&["0", "0", "0"], &["0", "1", "1"], &["1", "0", "1"], &["1", "1", "0"]];
        assert_eq!(found(&separate), []);
        // Three levels that two other options determine together.
        let rows: [&[&str]; 3] = [&["a", "x", "p"], &["b", "x", "q"], &["c", "y", "q"]];
        let found = found(&rows);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found.iter().all(|one| one.is_whole), "{found:?}");
    }

    #[test]
    fn nearly_together_is_partly_confounded() {
        let mut rows: Vec<&[&str]> = vec![];
        for _ in 0..10 {
            rows.push(&["off", "16"]);
            rows.push(&["fat", "1"]);
        }
        rows.push(&["fat", "16"]);
        let found = found(&rows);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found.iter().all(|one| !one.is_whole), "{found:?}");
    }
}
