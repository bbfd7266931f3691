//! Finds metrics whose values are more coarsely rounded than what they measure: rounding can decide a front by itself.
//!
//! reads   a [`Table`]
//! writes  a sentence for each such metric
//! memory  the values of one metric
//! source  a published study read "1.02 GiB/s" as 1020 MiB/s, which put its best builds among a few round values
//!
//! A few exact values among many round ones hide nothing: the column is judged by four fifths of its values. Tools
//! change the unit with the size, so values are examined in the unit in which they were printed.

use std::collections::BTreeMap;

use hearth_stats::table::Table;
use hearth_stats::unit::{Dimension, figure, named};

/// Fewer values than this show no pattern.
const VALUES_MIN: usize = 10;
/// Steps above this fraction of the spread are coarse.
const STEP: f64 = 0.1;
/// Share of the values that makes a pattern.
const SHARE: f64 = 0.8;
/// Minimum values of one unit.
const UNIT_MIN: usize = 3;
/// Up to this many distinct values are ties, if most others equal one of them.
const TIED_MAX: usize = 20;
/// A last digit worth more than this fraction of the value hides the variation.
const LAST_DIGIT: f64 = 0.001;

/// A build's values as printed, each with the size of its unit.
type PrintedValues = Vec<(f64, f64)>;

/// Describes what is odd about a metric's values.
pub fn odd(table: &Table, metric: usize) -> Option<String> {
    let (name, dimension) = (&table.metrics[metric].name, table.metrics[metric].dimension);
    let all = (0..table.builds.len()).map(|build| table.printed(metric, build));
    let measured: Vec<PrintedValues> =
        all.filter(|values| !values.is_empty() && !is_counted(values, dimension)).collect();
    let mut values: PrintedValues = measured.iter().flatten().copied().collect();
    if values.len() < VALUES_MIN {
        return None;
    }
    values.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (same, varying): (Vec<PrintedValues>, Vec<PrintedValues>) = measured.into_iter().partition(is_same);
    let repeated = || repeated(name, &same, varying.len());
    let tied = || tied(name, varying.iter().flatten().map(|(value, _)| *value).collect());
    clipped(name, dimension, &values).or_else(repeated).or_else(|| coarse(name, dimension, &values)).or_else(tied)
}

fn is_same(values: &PrintedValues) -> bool {
    values.iter().all(|(value, _)| *value == values[0].0)
}

/// Whole numbers that are the same in each round of a build are counted, not measured, like the size of a program.
fn is_counted(values: &PrintedValues, dimension: Dimension) -> bool {
    let is_whole = |(value, unit): &(f64, f64)| {
        matches!(dimension, Dimension::Number | Dimension::Bytes) && *unit == 1.0 && value.fract() == 0.0
    };
    is_same(values) && values.iter().all(|one| one.0 == 0.0 || is_whole(one))
}

fn is_most(part: usize, all: usize) -> bool {
    part as f64 >= SHARE * all as f64
}

fn is_multiple(value: f64, of: f64) -> bool {
    let times = value / of;
    (times - times.round()).abs() < 1e-6
}

/// Detects multiples of ten above a thousand next to smaller values that are not.
fn clipped(name: &str, dimension: Dimension, values: &[(f64, f64)]) -> Option<String> {
    let from = values.partition_point(|(value, _)| *value < 1000.0);
    let (below, above) = values.split_at(from);
    let round = |all: &[(f64, f64)]| all.iter().filter(|(value, _)| is_multiple(*value, 10.0)).count();
    let is_pattern = dimension == Dimension::Number
        && above.len() >= UNIT_MIN
        && is_most(round(above), above.len())
        && 2 * round(below) < below.len();
    is_pattern.then(|| {
        format!(
            "`{name}`: from 1000 on {} of {} values are multiples of 10, below they are not. It looks as if \"1.02 Gi\" had been \
             read as 1020 of the smaller unit, where it is up to 1049: what is best is cut off and rounded",
            round(above),
            above.len()
        )
    })
}

/// Detects builds with one value in all rounds, because its last digit is worth more than the variation.
fn repeated(name: &str, same: &[PrintedValues], varying: usize) -> Option<String> {
    let last_digit = |values: &PrintedValues| {
        let (value, unit) = values[0];
        let number = (value / unit).abs();
        let digits = (0..=9).find(|digits| is_multiple(number, 0.1f64.powi(*digits)))?;
        Some(0.1f64.powi(digits) / number)
    };
    let again = same.iter().filter(|values| values.len() > 1);
    let few = again.clone().filter(|values| last_digit(values).is_some_and(|part| part >= LAST_DIGIT)).count();
    (few > 0 && is_most(few, again.count() + varying)).then(|| {
        format!(
            "`{name}`: {few} builds have the same value in each round, of few digits: what varies is below the last one, so \
             ±0 is no noise that was measured; take exact values"
        )
    })
}

/// Detects values of a unit that are multiples of a step that is large compared with the spread.
fn coarse(name: &str, dimension: Dimension, values: &[(f64, f64)]) -> Option<String> {
    let quarter = |part: usize| values[values.len() * part / 4].0;
    let spread = quarter(3) - quarter(1);
    let mut units: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    values.iter().for_each(|(value, unit)| units.entry(unit.to_bits()).or_default().push(*value / *unit));
    units.into_iter().find_map(|(unit, numbers)| {
        let one = f64::from_bits(unit);
        let step = step(&numbers, STEP * spread / one).filter(|_| numbers.len() >= UNIT_MIN)?;
        let written = format!("{step:.12}");
        let written = match written.contains('.') {
            true => written.trim_end_matches('0').trim_end_matches('.'),
            false => &written,
        };
        let hits = numbers.iter().filter(|number| is_multiple(**number, step)).count();
        let unit = named(one, dimension).map_or(String::new(), |unit| format!(" {unit}"));
        let of = if numbers.len() < values.len() { format!(" of those in{unit}") } else { String::new() };
        Some(format!(
            "`{name}`: {hits} of {} values{of} are multiples of {written}{unit}, and half of all are within {}: rounded, \
             with ties that can decide a front; take exact values",
            numbers.len(),
            figure(spread / one) + &unit
        ))
    })
}

/// The greatest of 1, 2, 5, 10 and so on, from `least`, that divides most of the numbers.
fn step(numbers: &[f64], least: f64) -> Option<f64> {
    if least <= 0.0 {
        return None;
    }
    let power = least.log10().floor() as i32;
    let all = (power..).flat_map(|power| [1.0, 2.0, 5.0].map(|one| one * 10f64.powi(power)));
    let size = numbers.iter().fold(0.0f64, |size, number| size.max(number.abs()));
    let (mut found, mut missed) = (None, 0);
    // Multiples of a larger step are also multiples of one of the last three.
    for step in all.skip_while(|step| *step < least).take_while(|step| *step <= size) {
        let is_step = is_most(numbers.iter().filter(|number| is_multiple(**number, step)).count(), numbers.len());
        missed = if is_step { 0 } else { missed + 1 };
        found = if is_step { Some(step) } else { found };
        if missed == 3 {
            break;
        }
    }
    found
}

/// Detects values most of which equal another: ticks of any size.
fn tied(name: &str, mut values: Vec<f64>) -> Option<String> {
    values.sort_by(f64::total_cmp);
    let mut counts: Vec<usize> = values.chunk_by(|a, b| a == b).map(<[f64]>::len).collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let mut covered = 0;
    let most = counts.iter().take_while(|count| {
        let goes_on = !is_most(covered, values.len());
        covered += **count;
        goes_on
    });
    let most = most.count();
    (values.len() >= VALUES_MIN && most <= TIED_MAX && SHARE * values.len() as f64 >= (2 * most) as f64).then(|| {
        format!(
            "`{name}`: {most} different values are most of {}: rounded, with ties that can decide a front; take exact \
             values",
            values.len()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Examines values that come from this many builds in turn.
    fn odd_among(builds: usize, values: &[String]) -> Option<String> {
        let row = |(at, value): (usize, &String)| format!("b{},m,{value},{}\n", at % builds, at / builds);
        let rows: String = values.iter().enumerate().map(row).collect();
        odd(&Table::read(format!("build,metric,value,repetition\n{rows}").as_bytes()).expect("fine"), 0)
    }

    fn odd_of(values: &[&str]) -> Option<String> {
        odd_among(2, &values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>())
    }

    /// Distinct numbers around a middle.
    fn numbers(count: usize, middle: f64, width: f64) -> Vec<f64> {
        let mut random = fastrand::Rng::with_seed(5);
        (0..count).map(|_| middle + width * (random.f64() + random.f64() - 1.0)).collect()
    }

    #[test]
    fn round_values_are_pointed_out() {
        let rounded = ["1.01", "1.02", "1.01", "1.03", "1.02", "1.01", "1.02", "1.03", "1.02", "1.01"];
        let said = odd_of(&rounded).expect("odd");
        assert!(said.starts_with("`m`: 10 of 10 values are multiples of 0.01, and half of all are within"), "{said}");
        let clipped = ["977.31", "1000", "1010", "1020", "981.02", "999.95", "1010", "1020", "1000", "993.41"];
        assert!(odd_of(&clipped).expect("odd").contains("6 of 6 values are multiples of 10"));
        // Ticks that are not decimal.
        let ticks: Vec<String> = (0..40).map(|at| format!("{}", f64::from(at * 7 % 5) / 60.0)).collect();
        assert!(odd_among(2, &ticks).expect("odd").contains("different values are most of 40"));
    }

    #[test]
    fn a_few_exact_values_hide_nothing() {
        let rounded = numbers(80, 1040.0, 30.0).into_iter().enumerate();
        let of = |(at, value): (usize, f64)| {
            if at < 3 { format!("{value:.2}") } else { format!("{:.0}", (value / 10.0).round() * 10.0) }
        };
        let mut all: Vec<String> = rounded.map(of).collect();
        let said = odd_among(4, &all).expect("odd");
        assert!(said.contains("are multiples of 10"), "{said}");
        // As a tool prints it: exact up to 1024 of the smaller unit.
        all.extend(numbers(40, 980.0, 30.0).iter().map(|value| format!("{value:.2}")));
        let said = odd_among(4, &all).expect("odd");
        assert!(said.starts_with("`m`: from 1000 on "), "{said}");
        let exact: Vec<String> = numbers(80, 1.0, 0.1).iter().map(|value| format!("{value:.4}")).collect();
        assert_eq!(odd_among(4, &exact), None);
    }

    #[test]
    fn each_unit_is_looked_at_by_itself() {
        let print = |mib: &f64| match *mib < 1024.0 {
            true => format!("{mib:.2} MiB/s"),
            false => format!("{:.2} GiB/s", mib / 1024.0),
        };
        let mixed: Vec<String> = numbers(80, 1024.0, 40.0).iter().map(print).collect();
        let said = odd_among(4, &mixed).expect("odd");
        assert!(said.contains("of those in GiB/s are multiples of 0.01 GiB/s"), "{said}");
        let fine: Vec<String> = numbers(80, 900.0, 40.0).iter().map(print).collect();
        assert_eq!(odd_among(4, &fine), None);
    }

    #[test]
    fn one_value_in_each_round_is_counted_only_where_it_is_whole() {
        let of = |values: [&str; 4]| odd_among(4, &values.repeat(10).into_iter().map(String::from).collect::<Vec<_>>());
        let said = of(["1.02 GiB/s", "1.05 GiB/s", "1.31 GiB/s", "1.02 GiB/s"]).expect("odd");
        assert!(said.contains("4 builds have the same value in each round"), "{said}");
        assert_eq!(of(["5701632 B", "5800960 B", "6000128 B", "7001 B"]), None);
        assert_eq!(of(["0.31415926", "0.27182818", "0.14142135", "0.57721566"]), None, "of many digits");
    }

    #[test]
    fn exact_values_are_not() {
        let exact = ["10.13", "10.92", "10.45", "11.31", "10.77", "10.2", "10.66", "10.81", "11.02", "10.53"];
        assert_eq!(odd_of(&exact), None);
        // Counted, not measured.
        assert_eq!(odd_of(&["100", "200"].repeat(6)), None);
        assert_eq!(odd_of(&["1", "2", "1"]), None);
    }
}
