//! A run: executes a workload with a build, and reads its values.
//!
//! reads   the workload's output, the kernel's counts meanwhile
//! writes  an [`Outcome`]; a scratch folder, emptied before each run
//! memory  the output

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use hearth_stats::pace::Watch;
use hearth_stats::quiet::{RunConditions, counted};
use hearth_stats::unit;

use super::events::{Event, Events};
use super::results::{NOTHING, Results, Run};
use super::round_plan::{Rounds, Subject};
use super::workload::{RunOutput, Workload};
use super::{StudyError, quote};
use crate::run::process::{Bounds, ProcessEnd, run};

/// The outcome of a run.
pub(super) enum Outcome {
    /// The values, and the run's duration in seconds.
    Values(Vec<String>, f64),
    /// Why the run was disturbed; and its failure, if any, which may be a consequence.
    Disturbed(String, Option<String>),
    /// The run failed without a disturbance, for this reason.
    Failed(String),
}

impl Rounds<'_> {
    /// Runs a workload once.
    pub(super) fn measure(
        &self,
        subject: &Subject,
        of: &Run,
        results: &Results,
        events: &mut Events,
    ) -> Result<Outcome, StudyError> {
        let at = of.1;
        let workload = &self.spec.workloads[at];
        let scratch = self.folder.join("scratch");
        let failed = |source| StudyError::Io { path: scratch.clone(), source };
        if scratch.exists() {
            fs::remove_dir_all(&scratch).map_err(failed)?;
        }
        fs::create_dir_all(&scratch).map_err(failed)?;
        let line = workload.line(&subject.bin, &quote(&scratch), &quote(&self.spec.project));
        let (out, err) = (self.folder.join("run.out"), self.folder.join("run.err"));
        let mark = self.folder.to_string_lossy();
        let limit = self.spec.run_limit;
        let bounds = Bounds { mark: &mark, limit, out: &out, err: &err, stop: self.control.stop };
        let (before, watch) = (counted(), Watch::begin());
        let mut command = Command::new("sh");
        let ran = run(command.args(["-c", &line]).current_dir(&self.spec.project), &bounds)
            .map_err(|source| StudyError::Io { path: "sh".into(), source })?;
        let pace = watch.end();
        let after = counted();
        if ran.ended == ProcessEnd::Stopped {
            return Err(StudyError::Stopped { done: results.count(), folder: self.folder.into() });
        }
        let read = |path: &Path| fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let printed = read(&out).and_then(|out| Ok(out + &read(&err)?)).map_err(failed)?;
        let (best_ns, is_elsewhere) = (events.best_ns(at), subject.is_elsewhere);
        let seen =
            before.zip(after).map(|(before, after)| RunConditions { before, after, pace, best_ns, is_elsewhere });
        let disturbed = seen.as_ref().and_then(|seen| (self.control.judge)(seen));
        if let Some(ns) = pace.piece_ns {
            let added = events.add(&[(Event::Pace, of, &format!("{ns:.0}"))]);
            added.map_err(|source| self.failed_events(source))?;
        }
        let wall_s = ran.wall.as_secs_f64();
        let cpu_s = seen.filter(|seen| !seen.is_elsewhere).map(|seen| seen.cpu_seconds());
        let values = match ran.fault(limit) {
            Some(fault) => Err(format!("{fault}; it printed {}", super::workload::quoted(&printed))),
            None => workload.values(&RunOutput { printed: &printed, wall_s, cpu_s }),
        };
        let values = values.and_then(|values| alike(workload, values, at, results, &self.bases()));
        let values = values.map_err(|why| format!("`{}`: {why}", workload.run));
        Ok(match (disturbed, values) {
            (Some(why), values) => Outcome::Disturbed(why, values.err()),
            (None, Err(why)) => Outcome::Failed(why),
            (None, Ok(values)) if at > 0 => Outcome::Values(values, wall_s),
            (None, Ok(values)) => {
                let bytes = subject.bytes.map_or(NOTHING.into(), |bytes| format!("{bytes} B"));
                Outcome::Values([vec![bytes], values].concat(), wall_s)
            }
        })
    }
}

/// Values must have the same dimension as those of the reference, or they could not be compared. Before the reference
/// has run, any dimension is accepted.
fn alike(
    workload: &Workload,
    values: Vec<String>,
    at: usize,
    results: &Results,
    bases: &[&str],
) -> Result<Vec<String>, String> {
    for (metric, value) in values.iter().enumerate() {
        let Some(first) = results.first_value(at, metric + usize::from(at == 0), bases) else { continue };
        if !is_one_kind(first, value) {
            let name = &workload.metrics[metric].name;
            return Err(format!("`{name}` is `{value}`, and of the reference it was `{first}`: two kinds of value"));
        }
    }
    Ok(values)
}

/// Returns whether two values have the same dimension; a missing value matches any.
fn is_one_kind(one: &str, other: &str) -> bool {
    let kind = |text: &str| unit::parse(text).ok().flatten().map(|(_, dimension)| dimension);
    kind(one).zip(kind(other)).is_none_or(|(one, other)| one == other)
}

/// Builds that ran before the reference and whose values have another dimension: each with a description.
pub(super) fn odd(results: &Results, at: usize, values: &[String], bases: &[&str]) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for (build, theirs) in results.of_workload(at).filter(|(build, _)| !bases.contains(build)) {
        if let Some((is, was)) = theirs.iter().zip(values).find(|(is, was)| !is_one_kind(is, was)) {
            found.insert(
                build.to_owned(),
                format!("a value is `{is}`, and of the reference it is `{was}`: two kinds of value"),
            );
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::workload::Metric;
    use super::*;

    #[test]
    fn values_of_two_kinds_are_seen_at_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let metrics = vec![Metric::parse(r"time=(.+)", Some("lower")).expect("fine")];
        let workload = Workload { run: "{bin}".into(), metrics };
        let options = ["plain", "other"].map(|name| (name.to_owned(), Vec::new())).into();
        let names = vec![vec!["binary_bytes".into(), "time".into()]];
        let mut results = Results::open(&folder.path().join("results.csv"), &[], options, names).expect("new");
        let alike = |results: &Results, value: &str| alike(&workload, vec![value.into()], 0, results, &["plain"]);
        results.add(("other".into(), 0, 1), vec!["7 B".into(), "12".into()]).expect("added");
        assert!(alike(&results, "12 s").is_ok(), "another build's is no measure");
        let plain = ["7 B".to_owned(), "12 s".to_owned()];
        let found = odd(&results, 0, &plain, &["plain"]);
        assert_eq!(found["other"], "a value is `12`, and of the reference it is `12 s`: two kinds of value");
        assert!(odd(&results, 0, &[NOTHING.into(), "9".into()], &["plain"]).is_empty());
        results.add(("plain".into(), 0, 1), plain.to_vec()).expect("added");
        assert!(alike(&results, "13 s").is_ok());
        let why = alike(&results, "13").expect_err("no time");
        assert_eq!(why, "`time` is `13`, and of the reference it was `12 s`: two kinds of value");
    }
}
