//! Columns of values that are rounder than what they measure: they can decide a front by themselves.
//!
//! reads   a [`Table`]
//! writes  a sentence for each such metric
//! memory  the values of one metric
//! source  a published study read «1.02 GiB/s» as 1020 MiB/s, which put its best builds among a few round values

use super::table::Table;
use super::unit::Dimension;

/// Fewer values than this show no pattern.
const VALUES_MIN: usize = 10;
/// Steps of this part of the spread are coarse.
const STEP: f64 = 0.1;

/// What is odd about a metric's values.
pub fn odd(table: &Table, metric: usize) -> Option<String> {
    let mut values: Vec<f64> = table.metrics[metric].values.iter().copied().filter(|value| !value.is_nan()).collect();
    values.sort_by(f64::total_cmp);
    let varies = |build: usize| {
        let values = table.present(metric, build);
        values.iter().any(|value| *value != values[0])
    };
    // What is the same in each round of a build is counted, not measured: the size of a program.
    if values.len() < VALUES_MIN || !(0..table.builds.len()).any(varies) {
        return None;
    }
    let name = &table.metrics[metric].name;
    clipped(name, table.metrics[metric].dimension, &values).or_else(|| coarse(name, &values))
}

/// Values of a thousand and more that are all multiples of ten, beside smaller ones that are not.
fn clipped(name: &str, dimension: Dimension, values: &[f64]) -> Option<String> {
    let from = values.partition_point(|value| *value < 1000.0);
    let (below, above) = values.split_at(from);
    let is_round = |value: &&f64| (**value / 10.0 - (**value / 10.0).round()).abs() < 1e-9;
    let round_below = below.iter().filter(is_round).count();
    let is_pattern = dimension == Dimension::Number
        && above.len() >= 3
        && above.iter().all(|value| is_round(&value))
        && 2 * round_below < below.len();
    is_pattern.then(|| {
        format!(
            "`{name}`: from 1000 on all {} values are multiples of 10, below they are not. It looks as if «1.02 Gi» had been \
             read as 1020 of the smaller unit, where it is up to 1049: what is best is cut off and rounded",
            above.len()
        )
    })
}

fn coarse(name: &str, values: &[f64]) -> Option<String> {
    let mut distinct = values.to_vec();
    distinct.dedup();
    let step = distinct.windows(2).map(|pair| pair[1] - pair[0]).fold(f64::INFINITY, f64::min);
    let quarter = |part: usize| values[values.len() * part / 4];
    let spread = quarter(3) - quarter(1);
    // Where more than half are equal, the step is the spread.
    (distinct.len() > 1 && step >= STEP * spread).then(|| {
        format!(
            "`{name}`: {} different values among {}, {step} apart at least: rounded, with ties that can decide a front; \
             take exact values",
            distinct.len(),
            values.len()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn odd_of(values: &[&str]) -> Option<String> {
        let row = |(at, value): (usize, &&str)| format!("b{},m,{value},{}\n", at % 2, at / 2);
        let rows: String = values.iter().enumerate().map(row).collect();
        odd(&Table::read(format!("build,metric,value,repetition\n{rows}").as_bytes()).expect("fine"), 0)
    }

    #[test]
    fn round_values_are_pointed_out() {
        let rounded = ["1.01", "1.02", "1.01", "1.03", "1.02", "1.01", "1.02", "1.03", "1.02", "1.01"];
        assert!(odd_of(&rounded).expect("odd").starts_with("`m`: 3 different values among 10"));
        let clipped = ["977.31", "1000", "1010", "1020", "981.02", "999.95", "1010", "1020", "1000", "993.41"];
        assert!(odd_of(&clipped).expect("odd").contains("all 6 values are multiples of 10"));
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
