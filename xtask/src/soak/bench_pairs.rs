//! `hearth bench` of two binaries in turn: whether the newer one has lost speed.
//!
//! reads   the reports of `hearth bench --json`
//! writes  a line about each pair; the interval of the median ratio
//! memory  a ratio a pair
//!
//! The order alternates between pairs, so that a machine that slows down over time favours neither.

use std::path::Path;

use serde_json::{Value, json};

use super::observe::{median, rank_of_interval};
use super::{Outcome, bench};
use crate::run::{self, Args};

/// The interval of the ratio must be above this: a loss of 5 %.
const RATIO_MIN: f64 = 0.95;

pub fn run(mut args: Args<'_>) -> Result<Outcome, String> {
    let pairs = args.number("--pairs", 10)?;
    let seconds = args.number("--seconds", 20)?;
    let before = args.value("--before")?.ok_or("--before FILE names the binary to compare with")?;
    let after = args.value("--binary")?;
    args.end()?;
    let binaries = [run::hearth(Some(before))?, run::hearth(after)?];
    let mut ratios = vec![];
    for number in 0..pairs {
        let mut rates = [0.0; 2];
        let order = if number % 2 == 0 { [0, 1] } else { [1, 0] };
        for at in order {
            rates[at] = rate(&binaries[at], seconds)?;
        }
        let [before, after] = rates;
        println!("pair {:>2}: {before:.0} txn/s before, {after:.0} after: {:.4}", number + 1, after / before);
        ratios.push(after / before);
    }
    Ok(judge(ratios))
}

/// The transactions a second of a bench.
fn rate(binary: &Path, seconds: u64) -> Result<f64, String> {
    let report: Value = bench::measured(binary, seconds, None)?;
    let rate = report["txn_per_s"]["mean"].as_f64().filter(|rate| *rate > 0.0);
    rate.ok_or_else(|| format!("{} executed nothing", binary.display()))
}

fn judge(mut ratios: Vec<f64>) -> Outcome {
    ratios.sort_by(f64::total_cmp);
    let rank = rank_of_interval(ratios.len());
    let (low, high, middle) = (ratios[rank - 1], ratios[ratios.len() - rank], median(ratios.clone()));
    let loss =
        format!("the median ratio is {middle:.4}, its interval {low:.4} to {high:.4}: a loss of 5 % is possible");
    let wrong = (low <= RATIO_MIN).then_some(loss).into_iter().collect();
    let figures = json!({ "pairs": ratios.len(), "ratio": { "median": middle, "low": low, "high": high } });
    Outcome { figures, wrong }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_that_is_possible_fails() {
        let of = |lowest: [f64; 2]| judge([&lowest[..], &[1.0; 8]].concat());
        // Of ten pairs the second lowest is the interval's end.
        let passed = of([0.5, 0.96]);
        assert_eq!(passed.wrong, [] as [&str; 0]);
        let expected = json!({ "pairs": 10, "ratio": { "median": 1.0, "low": 0.96, "high": 1.0 } });
        assert_eq!(passed.figures, expected);
        let lost = of([0.94, 0.95]).wrong;
        assert!(lost.len() == 1 && lost[0].contains("its interval 0.9500 to 1.0000"), "{lost:?}");
    }
}
