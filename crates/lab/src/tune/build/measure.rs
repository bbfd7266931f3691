//! A run: a build does a workload, and what came of it is looked at.
//!
//! reads   what the workload prints, what the kernel counts meanwhile
//! writes  an [`Outcome`]; a scratch folder, emptied before each run
//! memory  what is printed

use std::fs;
use std::path::Path;
use std::process::Command;

use super::events::{Event, Events};
use super::results::{NOTHING, Results, Run};
use super::rounds::{Rounds, Subject};
use super::workload::{Shown, Workload};
use super::{StudyError, quote};
use crate::tune::run::pace::Watch;
use crate::tune::run::process::{Bounds, Ended, run};
use crate::tune::run::quiet::{Seen, counted};
use crate::tune::unit;

/// What came of a run.
pub(super) enum Outcome {
    /// Its values, and the seconds that it took.
    Values(Vec<String>, f64),
    /// Disturbed by others; and what went wrong, which may be their doing.
    Disturbed(String, Option<String>),
    /// It went wrong.
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
        if ran.ended == Ended::Stopped {
            return Err(StudyError::Stopped { done: results.count(), folder: self.folder.into() });
        }
        let read = |path: &Path| fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let printed = read(&out).and_then(|out| Ok(out + &read(&err)?)).map_err(failed)?;
        let (best_ns, is_elsewhere) = (events.best_ns(at), subject.is_elsewhere);
        let seen = before.zip(after).map(|(before, after)| Seen { before, after, pace, best_ns, is_elsewhere });
        let disturbed = seen.as_ref().and_then(|seen| (self.control.judge)(seen));
        if let Some(ns) = pace.piece_ns {
            let added = events.add(&[(Event::Pace, of, &format!("{ns:.0}"))]);
            added.map_err(|source| self.failed_events(source))?;
        }
        let wall_s = ran.wall.as_secs_f64();
        let cpu_s = seen.filter(|seen| !seen.is_elsewhere).map(|seen| seen.cpu_seconds());
        let values = match ran.fault(limit) {
            Some(fault) => Err(format!("{fault}; it printed {}", super::workload::quoted(&printed))),
            None => workload.values(&Shown { printed: &printed, wall_s, cpu_s }),
        };
        let values = values.and_then(|values| alike(workload, values, at, results));
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

/// What is read now must be of the kind that was read before: else nothing could be compared in the end.
fn alike(workload: &Workload, values: Vec<String>, at: usize, results: &Results) -> Result<Vec<String>, String> {
    let kind = |text: &str| unit::parse(text).ok().flatten().map(|(_, dimension)| dimension);
    for (metric, value) in values.iter().enumerate() {
        let Some(first) = results.first_value(at, metric + usize::from(at == 0)) else { continue };
        if kind(first) != kind(value) {
            let name = &workload.metrics[metric].name;
            return Err(format!("`{name}` is `{value}`, and was `{first}` before: two kinds of value"));
        }
    }
    Ok(values)
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
        let options = [("plain".to_owned(), Vec::new())].into();
        let names = vec![vec!["binary_bytes".into(), "time".into()]];
        let mut results = Results::open(&folder.path().join("results.csv"), &[], options, names).expect("new");
        assert!(alike(&workload, vec!["12 s".into()], 0, &results).is_ok(), "the first may be anything");
        results.add(("plain".into(), 0, 1), vec!["7 B".into(), "12 s".into()]).expect("added");
        assert!(alike(&workload, vec!["13 s".into()], 0, &results).is_ok());
        let why = alike(&workload, vec!["13".into()], 0, &results).expect_err("no time");
        assert_eq!(why, "`time` is `13`, and was `12 s` before: two kinds of value");
    }
}
