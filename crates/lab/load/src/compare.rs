//! Compares two loads and reports what changed beyond the noise.
//!
//! reads   reports of `hearth load run --json`, before and after, in pairs
//! writes  a [`Comparison`]
//! memory  a few figures per report
//! source  [`hearth_stats::paired_bootstrap`]
//!
//! A pair is two runs in succession on the same machine, so that both see the same disturbances. The noise is how much
//! the ratio varies from pair to pair. The intervals hold simultaneously for all figures: comparing equal runs reports
//! a difference in one of twenty cases, however many figures there are.

use std::fmt::Write;

use hearth_stats::objective::Goal;
use hearth_stats::paired_bootstrap::{self, ROUNDS_MIN, Settings, paired};
use hearth_stats::table::Table;
use serde_json::Value;

/// Compared figures: JSON pointer in the report, name, whether higher is better.
const FIGURES: [(&str, &str, bool); 8] = [
    ("/tps", "txn/s", true),
    ("/tps_median", "txn/s, median second", true),
    ("/mgas_per_s", "Mgas/s", true),
    ("/latency/p50_ms", "latency p50, ms", false),
    ("/latency/p99_ms", "latency p99, ms", false),
    ("/server_cpu_us", "node's CPU, µs a txn", false),
    ("/server_resident", "node's memory, bytes", false),
    ("/client_cpu_us", "load's CPU, µs a txn", false),
];

/// Message for reports without any figure.
const NOTHING: &str = "nothing can be compared: no report has a rate, a latency or a cost above 0, as nothing was included \
                       in the measured time";

/// Why two loads cannot be compared.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum CompareError {
    /// The numbers of reports before and after differ.
    #[error("{before} reports before and {after} after: they are compared in pairs")]
    Unequal {
        /// Number of reports before.
        before: usize,
        /// Number of reports after.
        after: usize,
    },
    /// A file is not a report.
    #[error("report {0} of {1} is not one of `hearth load run --json`: it has no `tps` and `kind`")]
    NoReport(usize, &'static str),
    /// A report is of a search that found no rate.
    #[error("report {0} of {1} is of a search in which no rate was good, so there is nothing to compare")]
    NoRate(usize, &'static str),
    /// The reports are of different loads.
    #[error("pair {0} has different loads: {1} before, {2} after")]
    Different(usize, String, String),
}

/// How a figure changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Better beyond the noise.
    Better,
    /// Worse beyond the noise.
    Worse,
    /// The interval includes "no change".
    Noise,
    /// With fewer than [`ROUNDS_MIN`] pairs the noise is unknown.
    TooFew,
    /// Some reports have the figure; in others it is zero or absent.
    Missing,
}

/// One figure before and after.
#[derive(Clone, Debug)]
pub struct FigureChange {
    /// Name of the figure.
    pub name: &'static str,
    /// Geometric mean before; NaN if a report lacks the figure.
    pub before: f64,
    /// Geometric mean after; NaN if a report lacks the figure.
    pub after: f64,
    /// Ratio of after to before, trimmed by a fifth of the pairs at each end; NaN if a report lacks the figure.
    pub ratio: f64,
    /// Confidence interval of the ratio. All figures' intervals hold together in 95 of 100 comparisons.
    pub interval: Option<(f64, f64)>,
    /// How the figure changed.
    pub verdict: Verdict,
}

/// All figures that any report has.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Number of pairs of reports.
    pub pairs: usize,
    /// One line per figure.
    pub lines: Vec<FigureChange>,
    /// Remarks: how the runs differed, and what went wrong in them.
    pub remarks: Vec<String>,
}

/// Compares reports in pairs.
pub fn compare(before: &[Value], after: &[Value]) -> Result<Comparison, CompareError> {
    if before.len() != after.len() || before.is_empty() {
        return Err(CompareError::Unequal { before: before.len(), after: after.len() });
    }
    let runs = |reports: &[Value]| reports.iter().map(run_of).cloned().collect::<Vec<_>>();
    // The rate that a search found is a result, not an option.
    let are_searches: Vec<bool> =
        before.iter().zip(after).map(|(before, after)| is_search(before) && is_search(after)).collect();
    let (before, after) = (&runs(before)[..], &runs(after)[..]);
    for (side, reports) in [("those before", before), ("those after", after)] {
        let wrong = reports.iter().position(|report| !report["tps"].is_number() || !report["kind"].is_string());
        if let Some(index) = wrong {
            let has_no_rate = reports[index]["steps"].is_array() && reports[index]["report"].is_null();
            let why = if has_no_rate { CompareError::NoRate } else { CompareError::NoReport };
            return Err(why(index + 1, side));
        }
    }
    for (index, (before, after)) in before.iter().zip(after).enumerate() {
        let are_alike = |name: &str| before[name] == after[name];
        let is_rate_alike = are_searches[index] || are_alike("rate");
        if !(are_alike("kind") && are_alike("accounts") && is_rate_alike) {
            return Err(CompareError::Different(index + 1, load(before), load(after)));
        }
    }
    let lines = lines(before, after);
    let mut remarks = differences(&before[0], &after[0]);
    for (side, reports) in [("before", before), ("after", after)] {
        remarks.extend(reports.iter().enumerate().filter_map(|(index, report)| losses(index + 1, side, report)));
    }
    Ok(Comparison { pairs: before.len(), lines, remarks })
}

/// Describes the load of a report in words.
fn load(report: &Value) -> String {
    let rate = match report["rate"].as_f64() {
        Some(rate) => format!("at {} txn/s", (rate * 10.0).round() / 10.0),
        None => "with as many as the node takes".into(),
    };
    format!("{} from {} accounts, {rate}", report["kind"], report["accounts"])
}

fn is_search(report: &Value) -> bool {
    report["steps"].is_array() && report["report"].is_object()
}

/// The run in a report. A search contains the report of its highest good rate.
fn run_of(report: &Value) -> &Value {
    if is_search(report) { &report["report"] } else { report }
}

/// Options that differ in the first pair; the nodes' addresses are ignored.
fn differences(before: &Value, after: &Value) -> Vec<String> {
    let asked = |report: &Value| -> Vec<(String, String)> {
        serde_json::from_value(report["configuration"].clone()).unwrap_or_default()
    };
    let (before, after) = (asked(before), asked(after));
    let value = |all: &[(String, String)], name: &str| {
        all.iter().find(|(other, _)| other == name).map_or("nothing".to_owned(), |(_, value)| value.clone())
    };
    let mut names: Vec<&String> = before.iter().chain(&after).map(|(name, _)| name).collect();
    names.sort_unstable();
    names.dedup();
    let both = |name: &String| (name.clone(), value(&before, name), value(&after, name));
    let unlike = names.into_iter().filter(|name| *name != "nodes").map(both).filter(|(_, one, other)| one != other);
    unlike.map(|(name, one, other)| format!("not alike, {name}: {one} before, {other} after")).collect()
}

/// The transactions of a run that were not included or failed: its figures cover the rest.
fn losses(number: usize, side: &str, report: &Value) -> Option<String> {
    let count = |name: &str| report[name].as_u64().unwrap_or(0);
    let lost = ["rejected", "dropped", "unknown", "unsent", "failed"].map(|name| (name, count(name)));
    let lost: Vec<_> =
        lost.into_iter().filter(|(_, count)| *count > 0).map(|(name, count)| format!("{count} {name}")).collect();
    let sent = count("sent");
    (!lost.is_empty()).then(|| format!("report {number} {side}: of {sent} sent {}", lost.join(", ")))
}

fn geometric_mean(values: &[f64]) -> f64 {
    (values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp()
}

/// Returns a line for each figure that any report has.
fn lines(before: &[Value], after: &[Value]) -> Vec<FigureChange> {
    let figure = |report: &Value, path: &str| report.pointer(path)?.as_f64().filter(|figure| *figure > 0.0);
    let figures = |reports: &[Value], path: &str| -> Option<Vec<f64>> {
        reports.iter().map(|report| figure(report, path)).collect()
    };
    let mut compared = vec![];
    let mut lines = vec![];
    for (path, name, more_is_better) in FIGURES {
        if !before.iter().chain(after).any(|report| figure(report, path).is_some()) {
            continue;
        }
        let (before, after) = (figures(before, path), figures(after, path));
        let mean = |values: &Option<Vec<f64>>| values.as_ref().map_or(f64::NAN, |values| geometric_mean(values));
        let verdict = Verdict::Missing;
        let (mean_before, mean_after) = (mean(&before), mean(&after));
        lines.push(FigureChange {
            name,
            before: mean_before,
            after: mean_after,
            ratio: f64::NAN,
            interval: None,
            verdict,
        });
        if let (Some(mut values), Some(after)) = (before, after) {
            values.extend(after);
            compared.push((lines.len() - 1, more_is_better, (name.to_owned(), values)));
        }
    }
    if compared.is_empty() {
        return lines;
    }
    let goals: Vec<Goal> = compared.iter().enumerate().map(|(at, (_, more, _))| Goal::new(at, *more)).collect();
    let places: Vec<usize> = compared.iter().map(|(place, ..)| *place).collect();
    let metrics = compared.into_iter().map(|(.., metric)| metric).collect();
    let table = Table::of_values(&["before", "after"], metrics, before.len());
    let found = paired(&table, &goals, Some(0), &Settings::default());
    for (place, estimate) in places.into_iter().zip(&found.estimates[1]) {
        let line = &mut lines[place];
        (line.ratio, line.interval) = (estimate.value, estimate.interval);
        line.verdict = match estimate.verdict {
            paired_bootstrap::Verdict::Better => Verdict::Better,
            paired_bootstrap::Verdict::Worse => Verdict::Worse,
            paired_bootstrap::Verdict::NoDifference => Verdict::Noise,
            paired_bootstrap::Verdict::Unknown => Verdict::TooFew,
        };
    }
    lines
}

impl Comparison {
    /// Returns the figures that are worse beyond the noise.
    pub fn worse(&self) -> Vec<&'static str> {
        self.names_of(Verdict::Worse)
    }

    /// Why it cannot be said that no figure is worse; none if it can.
    pub fn undecided(&self) -> Option<String> {
        let missing = self.names_of(Verdict::Missing);
        if self.lines.is_empty() {
            return Some(NOTHING.into());
        }
        if !self.names_of(Verdict::TooFew).is_empty() {
            return Some(too_few(self.pairs));
        }
        (!missing.is_empty()).then(|| format!("not in every report: {}", missing.join("; ")))
    }

    fn names_of(&self, verdict: Verdict) -> Vec<&'static str> {
        self.lines.iter().filter(|line| line.verdict == verdict).map(|line| line.name).collect()
    }

    /// Formats the comparison as text.
    pub fn text(&self) -> String {
        if self.lines.is_empty() {
            return NOTHING.to_owned()
                + "\n"
                + &self.remarks.iter().map(|remark| format!("{remark}\n")).collect::<String>();
        }
        let (columns, interval) = (("", "before", "after", "ratio"), "95 % interval");
        let mut text = format!("{:<22}{:>14}{:>14}{:>8}  {interval}\n", columns.0, columns.1, columns.2, columns.3);
        for FigureChange { name, before, after, ratio, interval, verdict } in &self.lines {
            let interval = interval.map_or(String::new(), |(low, high)| format!("{low:.3} to {high:.3}"));
            let verdict = match verdict {
                Verdict::Better => "better",
                Verdict::Worse => "worse",
                Verdict::Noise => "within the noise",
                Verdict::TooFew => "",
                Verdict::Missing => "not in every report",
            };
            let formatted =
                |figure: f64, digits| if figure.is_nan() { "–".into() } else { format!("{figure:.digits$}") };
            let (ratio, before, after) = (formatted(*ratio, 3), formatted(*before, 1), formatted(*after, 1));
            let line = format!("{name:<22}{before:>14}{after:>14}{ratio:>8}  {interval:<16}  {verdict}");
            writeln!(text, "{}", line.trim_end()).expect("a string takes all");
        }
        if self.pairs < ROUNDS_MIN {
            text.push_str(&(too_few(self.pairs) + "\n"));
        } else {
            text.push_str(
                "All intervals hold together: of twenty comparisons of equal loads one reports a difference.\n",
            );
        }
        for remark in &self.remarks {
            writeln!(text, "{remark}").expect("a string takes all");
        }
        text
    }
}

/// Says that this many pairs do not show the noise.
fn too_few(pairs: usize) -> String {
    let pairs = if pairs == 1 { "one pair is".to_owned() } else { format!("{pairs} pairs are") };
    format!(
        "too few pairs to tell a change from noise: {pairs} there, {ROUNDS_MIN} are needed, and more show smaller changes"
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn report(tps: f64, p99_ms: f64) -> Value {
        json!({ "kind": "transfer", "accounts": 10, "rate": null, "tps": tps, "latency": { "p99_ms": p99_ms } })
    }

    #[test]
    fn consistent_change_is_separated_from_noise() {
        // The machine is half as fast in every second pair, yet the ratios agree.
        let pace = |pair: usize| if pair % 2 == 0 { 1000.0 } else { 500.0 };
        let noise = |pair: usize| [1.0, 1.004, 0.997, 1.002, 0.996, 1.001, 0.999, 1.003][pair];
        let latency = |pair: usize| [50.0, 52.0, 49.0, 51.0, 47.0, 55.0, 50.0, 53.0][pair];
        let before: Vec<_> = (0..8).map(|pair| report(pace(pair), latency(pair))).collect();
        let after: Vec<_> = (0..8).map(|pair| report(1.1 * pace(pair) * noise(pair), latency(7 - pair))).collect();
        let found = compare(&before, &after).unwrap();
        let verdicts: Vec<_> = found.lines.iter().map(|line| (line.name, line.verdict)).collect();
        assert_eq!(verdicts, [("txn/s", Verdict::Better), ("latency p99, ms", Verdict::Noise)]);
        let (low, high) = found.lines[0].interval.unwrap();
        assert!(low > 1.08 && high < 1.12, "{low} to {high}");
        assert_eq!((found.worse(), found.undecided()), (vec![], None));
        let back = compare(&after, &before).unwrap();
        assert_eq!(back.worse(), ["txn/s"]);
        assert!(back.text().contains("worse") && back.text().contains("within the noise"), "{}", back.text());
    }

    #[test]
    fn reports_without_a_figure_say_why_nothing_is_compared() {
        let empty = || report(0.0, 0.0);
        let found = compare(&[empty()], &[empty()]).unwrap();
        assert!(found.text().starts_with("nothing can be compared: no report has a rate"), "{}", found.text());
        assert!(!found.text().contains("95 % interval"), "no empty table: {}", found.text());
        assert_eq!(found.undecided().as_deref(), Some(NOTHING));
    }

    #[test]
    fn few_pairs_have_no_interval() {
        let one = compare(&[report(1.0, 1.0)], &[report(2.0, 1.0)]).unwrap();
        assert_eq!((one.lines[0].verdict, one.lines[0].interval), (Verdict::TooFew, None));
        assert!((one.lines[0].ratio - 2.0).abs() < 1e-9);
        assert!(one.text().contains("one pair is there, 6 are needed"), "{}", one.text());
        let runs = |tps: f64| (0..5).map(|pair| report(tps + f64::from(pair), 1.0)).collect::<Vec<_>>();
        let five = compare(&runs(100.0), &runs(900.0)).unwrap();
        assert_eq!(five.lines[0].verdict, Verdict::TooFew, "a factor of nine, and nobody knows the noise");
        assert!(five.undecided().is_some_and(|why| why.contains("5 pairs are there, 6 are needed")));
    }

    /// Several runs of one load. A pair shares the machine's pace, some runs are disturbed, and latencies follow the
    /// rate.
    fn runs(random: &mut fastrand::Rng, pairs: usize, change: f64) -> [Vec<Value>; 2] {
        let mut normal = || {
            let (a, b) = (1.0 - random.f64(), random.f64());
            let normal = (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos();
            if random.f64() < 0.05 { normal + 5.0 } else { normal }
        };
        let mut sides = [vec![], vec![]];
        for _ in 0..pairs {
            let pace = 0.1 * normal();
            for (side, change) in sides.iter_mut().zip([1.0, change]) {
                let disturbed = 0.03 * normal();
                let mut figure = |value: f64| value * (pace + disturbed + 0.02 * normal()).exp();
                side.push(json!({
                    "kind": "transfer", "accounts": 10, "rate": null,
                    "tps": change * figure(1000.0), "tps_median": change * figure(1000.0), "mgas_per_s": figure(21.0),
                    "latency": { "p50_ms": figure(15.0), "p99_ms": figure(70.0) },
                    "server_cpu_us": figure(120.0), "server_resident": figure(4e8), "client_cpu_us": figure(50.0),
                }));
            }
        }
        sides
    }

    #[test]
    fn equal_loads_seldom_differ() {
        // 400 comparisons of eight figures each. One in twenty may report a difference; fewer than one set of seeds in
        // a hundred exceeds 32 by chance.
        for (pairs, most) in [(3, 0), (6, 32), (12, 32)] {
            let differ = |seed: &u64| {
                let [before, after] = runs(&mut fastrand::Rng::with_seed(*seed), pairs, 1.0);
                let found = compare(&before, &after).unwrap();
                found.lines.iter().any(|line| matches!(line.verdict, Verdict::Better | Verdict::Worse))
            };
            let count = (0..400).filter(differ).count();
            println!("{pairs} pairs: {count} of 400");
            assert!(count <= most, "{pairs} pairs: {count} of 400 comparisons of equal loads report a difference");
        }
    }

    #[test]
    fn a_true_change_is_found_with_enough_pairs() {
        let found = |seed: &u64| {
            let [before, after] = runs(&mut fastrand::Rng::with_seed(*seed), 12, 0.8);
            compare(&before, &after).unwrap().worse().contains(&"txn/s")
        };
        let count = (0..100).filter(found).count();
        println!("{count} of 100");
        assert!(count >= 90, "a rate that is a fifth lower is found in {count} of 100 comparisons");
    }

    #[test]
    fn losses_and_other_options_are_reported() {
        let mut before = report(10.0, 5.0);
        before["configuration"] = json!([["in a request", "100"], ["nodes", "a"]]);
        let mut after =
            json!({ "kind": "transfer", "accounts": 10, "rate": null, "tps": 0.0, "sent": 9, "rejected": 9 });
        after["configuration"] = json!([["in a request", "10"], ["nodes", "b"]]);
        let searched = json!({ "steps": [], "report": before });
        let found = compare(&[before, searched], &[after, report(11.0, 4.0)]).unwrap();
        assert_eq!(found.lines.iter().map(|line| line.verdict).collect::<Vec<_>>(), [Verdict::Missing; 2]);
        assert_eq!(
            found.remarks,
            ["not alike, in a request: 100 before, 10 after", "report 1 after: of 9 sent 9 rejected"]
        );
        let text = found.text();
        assert!(text.contains("–") && text.contains("not in every report"), "{text}");
    }

    #[test]
    fn incomparable_reports_are_refused() {
        let one = report(1.0, 1.0);
        let unequal = compare(&[one.clone()], &[one.clone(), one.clone()]).unwrap_err();
        assert_eq!(unequal, CompareError::Unequal { before: 1, after: 2 });
        let none = compare(&[one.clone()], &[json!({ "tps": 3 })]).unwrap_err();
        assert_eq!(none, CompareError::NoReport(1, "those after"));
        let nothing = json!({ "steps": [{ "rate": 50.0 }], "highest": null, "report": null });
        assert_eq!(compare(&[nothing], &[one.clone()]).unwrap_err(), CompareError::NoRate(1, "those before"));
        let other = json!({ "kind": "swap", "accounts": 10, "rate": null, "tps": 1.0 });
        assert!(compare(&[one.clone()], &[other]).unwrap_err().to_string().contains("\"swap\""));
        let mut paced = one.clone();
        paced["rate"] = json!(23475.303506039585);
        let said = compare(&[one.clone()], &[paced.clone()]).unwrap_err().to_string();
        let loads = "\"transfer\" from 10 accounts, with as many as the node takes before, \"transfer\" from 10 accounts, \
                     at 23475.3 txn/s after";
        assert!(said.ends_with(loads), "{said}");
        // Two searches may find different rates.
        let search = |run: &Value| json!({ "steps": [], "report": run });
        let mut other = paced.clone();
        other["rate"] = json!(20_000.0);
        assert!(compare(&[search(&paced)], &[search(&other)]).is_ok());
        assert!(compare(&[paced], &[search(&other)]).is_err());
    }
}
