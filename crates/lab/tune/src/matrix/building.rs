//! The first part of a study: makes the builds, and times them if requested.
//!
//! reads   the plan; builds of earlier runs
//! writes  builds; rows of `build_seconds`; builds that failed
//! memory  a line per build

use std::collections::BTreeMap;

use hearth_stats::pace::PaceResult;
use hearth_stats::quiet::{RunConditions, counted};

use super::StudyError;
use super::events::{Event, Events};
use super::make::{Failure, FinishedBuild, Maker};
use super::results::{NOTHING, Results};
use super::rounds::order;
use super::study::{Entry, Study};
use crate::options::Options;

/// The builds by name, and the failures by name.
pub(super) type BuildResults = (BTreeMap<String, FinishedBuild>, BTreeMap<String, String>);

impl Study<'_> {
    /// Makes all builds. A failed one is left out; without the reference there is no study.
    pub(super) fn build(&self, results: &mut Results, events: &mut Events) -> Result<BuildResults, StudyError> {
        let (mut built, mut failed) = (BTreeMap::new(), events.failed.clone());
        let Some(maker) = &self.maker else { return Ok((built, failed)) };
        let reference = &self.entries[0];
        for repetition in 1..=self.spec.build_repetitions {
            // The last one builds the reference again, as its copy.
            let mut all: Vec<usize> = order(self.entries.len() + 1, !self.spec.seed, repetition);
            if repetition == 1 {
                // If the reference cannot be built, all others are useless.
                all.sort_by_key(|at| *at != 0);
            }
            for at in all {
                let (name, entry) = match self.entries.get(at) {
                    Some(entry) => (&entry.name, entry),
                    None => (&self.copy, reference),
                };
                let Some(options) = entry.options().filter(|_| !failed.contains_key(name)) else { continue };
                let run = (name.clone(), self.spec.workloads.len(), repetition);
                let has = results.has(&run);
                let is_made = repetition == 1 && *name != self.copy;
                let seconds = match is_made {
                    true => self.build_one(maker, entry, options, has).map(|(made, seconds)| {
                        built.insert(name.clone(), made);
                        seconds
                    }),
                    // With a single timing there is nothing to compare, so the copy is not timed.
                    false if has || self.spec.build_repetitions == 1 => continue,
                    false => self.time(maker, name, options),
                };
                match seconds {
                    Ok(_) if has => {}
                    Ok(seconds) => {
                        let seconds = seconds.map_or(NOTHING.into(), |seconds| format!("{seconds} s"));
                        let added = results.add(run, vec![seconds]);
                        added.map_err(|source| StudyError::Io { path: self.folder.join("results.csv"), source })?;
                    }
                    Err(Failure::Stopped) => return Err(self.stopped(results)),
                    Err(Failure::Io(error)) => return Err(error),
                    Err(Failure::Failed(why)) if entry.name == reference.name => {
                        return Err(StudyError::Reference { name: entry.name.clone(), why });
                    }
                    Err(Failure::Failed(why)) => {
                        self.cannot_be_built(name, &why, events)?;
                        failed.insert(name.clone(), why);
                    }
                }
            }
        }
        if let (Some(options), Some(made)) = (reference.options(), built.get(&reference.name)) {
            built.insert(self.copy.clone(), maker.copy(options, made)?);
        }
        Ok((built, failed))
    }

    fn cannot_be_built(&self, name: &str, why: &str, events: &mut Events) -> Result<(), StudyError> {
        (self.control.tell)(&format!("`{name}` cannot be built: {why}"));
        let added = events.add(&[(Event::Failed, &(name.to_owned(), 0, 0), why)]);
        added.map_err(|source| StudyError::Io { path: self.folder.join("events.csv"), source })
    }

    /// Makes one build and returns it with its build time; no time if others disturbed it.
    fn build_one(
        &self,
        maker: &Maker<'_>,
        entry: &Entry,
        options: &Options,
        is_timed: bool,
    ) -> Result<(FinishedBuild, Option<f64>), Failure> {
        if let Some(kept) = maker.kept(&maker.key(options, "")) {
            let seconds = match self.spec.build_repetitions {
                _ if is_timed => None,
                1 => Some(kept.seconds),
                // For an existing build the conditions of its timing are unknown, and no others were timed next to it.
                _ => self.time(maker, &entry.name, options)?,
            };
            return Ok((kept, seconds));
        }
        (self.control.tell)(&format!("building `{}`", entry.name));
        let (made, is_quiet) = self.quietly(&entry.name, || maker.build(options))?;
        let seconds = match is_quiet {
            true => Some(made.seconds),
            false if is_timed => None,
            false => self.time(maker, &entry.name, options)?,
        };
        Ok((made, seconds))
    }

    /// Times a build again; none if others disturbed every attempt.
    fn time(&self, maker: &Maker<'_>, name: &str, options: &Options) -> Result<Option<f64>, Failure> {
        for _ in 0..=self.spec.retries {
            if let (seconds, true) = self.quietly(name, || maker.time(options))? {
                return Ok(Some(seconds));
            }
        }
        Ok(None)
    }

    /// Runs `make`, and returns whether it was undisturbed. Builds that are timed only once are not checked, because
    /// their time is no measurement.
    fn quietly<T>(&self, name: &str, make: impl FnOnce() -> Result<T, Failure>) -> Result<(T, bool), Failure> {
        let before = counted();
        let made = make()?;
        let looks = before.filter(|_| self.spec.build_repetitions > 1).zip(counted());
        // Different builds do different work, so the pace says nothing.
        let why = looks.and_then(|(before, after)| {
            let seen = RunConditions { before, after, pace: PaceResult::default(), best_ns: None, is_elsewhere: false };
            (self.control.judge)(&seen)
        });
        if let Some(why) = &why {
            (self.control.tell)(&format!("`{name}` was built while others were at work, which is no time: {why}"));
        }
        Ok((made, why.is_none()))
    }

    fn stopped(&self, results: &Results) -> StudyError {
        StudyError::Stopped { done: results.count(), folder: self.folder.clone() }
    }
}
