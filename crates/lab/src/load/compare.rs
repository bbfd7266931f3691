//! Two loads compared: what changed beyond the noise.
//!
//! reads   reports of `hearth load run --json`, before and after, in pairs
//! writes  a [`Comparison`]
//! memory  a few figures a report
//! source  Student's t for paired samples, of the logarithms of ratios
//!
//! A pair is two runs, one after the other on the same machine: what the machine does to one it does to the other. The
//! noise is what the ratio does from pair to pair: one pair alone says nothing of it.

use std::fmt::Write;

use serde_json::Value;

/// Figures that are compared: where they stand in a report, how they are called, whether more is better.
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

/// The quantile 0.975 of Student's t for 1 to 30 degrees of freedom.
const T_975: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/// Why two loads cannot be compared.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum CompareError {
    /// Not as many before as after.
    #[error("{before} reports before and {after} after: they are compared in pairs")]
    Unequal {
        /// Reports before.
        before: usize,
        /// Reports after.
        after: usize,
    },
    /// One is no report.
    #[error("report {0} of {1} is none of `hearth load run --json`: it has no `tps` and `kind`")]
    NoReport(usize, &'static str),
    /// They are of different loads.
    #[error("pair {0} has different loads: {1} before, {2} after")]
    Different(usize, String, String),
}

/// What became of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Beyond the noise.
    Better,
    /// Beyond the noise.
    Worse,
    /// The interval has «no change» in it.
    Noise,
    /// One pair: nobody knows.
    OnePair,
    /// Some of the reports have it, others nought or nothing.
    Missing,
}

/// A figure before and after.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its name.
    pub name: &'static str,
    /// The geometric mean before; not a number where a report has none.
    pub before: f64,
    /// The geometric mean after; not a number where a report has none.
    pub after: f64,
    /// The interval in which the true ratio of after to before lies in 95 of 100 cases.
    pub interval: Option<(f64, f64)>,
    /// What that says.
    pub verdict: Verdict,
}

/// All figures that a report has.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Pairs.
    pub pairs: usize,
    /// A line a figure.
    pub lines: Vec<Line>,
    /// What else is to be known: how the runs were not alike, and what in them did not go well.
    pub remarks: Vec<String>,
}

/// Compares reports in pairs.
pub fn compare(before: &[Value], after: &[Value]) -> Result<Comparison, CompareError> {
    if before.len() != after.len() || before.is_empty() {
        return Err(CompareError::Unequal { before: before.len(), after: after.len() });
    }
    let runs = |reports: &[Value]| reports.iter().map(run_of).cloned().collect::<Vec<_>>();
    let (before, after) = (&runs(before)[..], &runs(after)[..]);
    for (side, reports) in [("those before", before), ("those after", after)] {
        let wrong = reports.iter().position(|report| !report["tps"].is_number() || !report["kind"].is_string());
        if let Some(index) = wrong {
            return Err(CompareError::NoReport(index + 1, side));
        }
    }
    let load =
        |report: &Value| format!("{} from {} accounts, rate {}", report["kind"], report["accounts"], report["rate"]);
    for (index, (before, after)) in before.iter().zip(after).enumerate() {
        let (before, after) = (load(before), load(after));
        if before != after {
            return Err(CompareError::Different(index + 1, before, after));
        }
    }
    let lines = FIGURES.into_iter().filter_map(|(path, name, more_is_better)| {
        let figure = |report: &Value| report.pointer(path)?.as_f64().filter(|figure| *figure > 0.0);
        let figures = |reports: &[Value]| reports.iter().map(figure).collect::<Option<Vec<f64>>>();
        let one_has_it = before.iter().chain(after).any(|report| figure(report).is_some());
        match (figures(before), figures(after)) {
            (Some(before), Some(after)) => Some(line(name, &before, &after, more_is_better)),
            (before, after) if one_has_it => {
                let mean = |values: Option<Vec<f64>>| values.map_or(f64::NAN, |values| geometric_mean(&values));
                let (before, after) = (mean(before), mean(after));
                Some(Line { name, before, after, interval: None, verdict: Verdict::Missing })
            }
            _ => None,
        }
    });
    let mut remarks = differences(&before[0], &after[0]);
    for (side, reports) in [("before", before), ("after", after)] {
        remarks.extend(reports.iter().enumerate().filter_map(|(index, report)| losses(index + 1, side, report)));
    }
    Ok(Comparison { pairs: before.len(), lines: lines.collect(), remarks })
}

/// The run in a report: a search for the highest rate has that of the highest good one in it.
fn run_of(report: &Value) -> &Value {
    report.get("report").filter(|inner| report["steps"].is_array() && inner.is_object()).unwrap_or(report)
}

/// What was asked for otherwise, in the first pair; where the nodes are is no matter.
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

/// What of a run was not included, or failed: its figures are of the rest.
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

fn line(name: &'static str, before: &[f64], after: &[f64], more_is_better: bool) -> Line {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let logs = |values: &[f64]| values.iter().map(|value| value.ln()).collect::<Vec<_>>();
    let (before, after) = (logs(before), logs(after));
    let ratios: Vec<_> = before.iter().zip(&after).map(|(before, after)| after - before).collect();
    let (middle, freedom) = (mean(&ratios), ratios.len() - 1);
    let interval = (freedom > 0).then(|| {
        let variance = ratios.iter().map(|ratio| (ratio - middle).powi(2)).sum::<f64>() / freedom as f64;
        let half = T_975[freedom.min(T_975.len()) - 1] * (variance / ratios.len() as f64).sqrt();
        ((middle - half).exp(), (middle + half).exp())
    });
    let verdict = match interval {
        None => Verdict::OnePair,
        Some((low, _)) if low > 1.0 => {
            if more_is_better {
                Verdict::Better
            } else {
                Verdict::Worse
            }
        }
        Some((_, high)) if high < 1.0 => {
            if more_is_better {
                Verdict::Worse
            } else {
                Verdict::Better
            }
        }
        Some(_) => Verdict::Noise,
    };
    Line { name, before: mean(&before).exp(), after: mean(&after).exp(), interval, verdict }
}

impl Comparison {
    /// For people.
    pub fn text(&self) -> String {
        let (columns, interval) = (("", "before", "after", "ratio"), "95 % interval");
        let mut text = format!("{:<22}{:>14}{:>14}{:>8}  {interval}\n", columns.0, columns.1, columns.2, columns.3);
        for Line { name, before, after, interval, verdict } in &self.lines {
            let interval = interval.map_or(String::new(), |(low, high)| format!("{low:.3} to {high:.3}"));
            let verdict = match verdict {
                Verdict::Better => "better",
                Verdict::Worse => "worse",
                Verdict::Noise => "within the noise",
                Verdict::OnePair => "",
                Verdict::Missing => "not in every report",
            };
            let told = |figure: f64, digits| if figure.is_nan() { "–".into() } else { format!("{figure:.digits$}") };
            let (ratio, before, after) = (told(after / before, 3), told(*before, 1), told(*after, 1));
            let line = format!("{name:<22}{before:>14}{after:>14}{ratio:>8}  {interval:<16}  {verdict}");
            writeln!(text, "{}", line.trim_end()).expect("a string takes all");
        }
        if self.pairs == 1 {
            text.push_str("One pair says nothing of the noise: give several reports of each, in pairs.\n");
        } else {
            text.push_str("Of figures that did not change, one in twenty is called better or worse all the same.\n");
        }
        for remark in &self.remarks {
            writeln!(text, "{remark}").expect("a string takes all");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn report(tps: f64, p99_ms: f64) -> Value {
        json!({ "kind": "transfer", "accounts": 10, "rate": null, "tps": tps, "latency": { "p99_ms": p99_ms } })
    }

    #[test]
    fn what_changes_in_every_pair_is_told_from_noise() {
        // The machine is half as fast in the second pair: the pairs agree all the same.
        let before = [report(1000.0, 50.0), report(500.0, 52.0), report(990.0, 49.0)];
        let after = [report(1100.0, 55.0), report(551.0, 46.0), report(1087.0, 50.0)];
        let found = compare(&before, &after).unwrap();
        let verdicts: Vec<_> = found.lines.iter().map(|line| (line.name, line.verdict)).collect();
        assert_eq!(verdicts, [("txn/s", Verdict::Better), ("latency p99, ms", Verdict::Noise)]);
        let (low, high) = found.lines[0].interval.unwrap();
        assert!(low > 1.09 && high < 1.11, "{low} to {high}");
        let back = compare(&after, &before).unwrap();
        assert_eq!(back.lines[0].verdict, Verdict::Worse);
        assert!(back.text().contains("worse") && back.text().contains("within the noise"), "{}", back.text());
    }

    #[test]
    fn one_pair_has_no_interval() {
        let found = compare(&[report(1.0, 1.0)], &[report(2.0, 1.0)]).unwrap();
        assert_eq!((found.lines[0].verdict, found.lines[0].interval), (Verdict::OnePair, None));
        assert!(found.text().contains("One pair says nothing"));
    }

    #[test]
    fn what_was_lost_or_asked_otherwise_is_told() {
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
    fn what_cannot_be_compared_is_refused() {
        let one = report(1.0, 1.0);
        let unequal = compare(&[one.clone()], &[one.clone(), one.clone()]).unwrap_err();
        assert_eq!(unequal, CompareError::Unequal { before: 1, after: 2 });
        let none = compare(&[one.clone()], &[json!({ "tps": 3 })]).unwrap_err();
        assert_eq!(none, CompareError::NoReport(1, "those after"));
        let other = json!({ "kind": "swap", "accounts": 10, "rate": null, "tps": 1.0 });
        assert!(compare(&[one], &[other]).unwrap_err().to_string().contains("\"swap\""));
    }
}
