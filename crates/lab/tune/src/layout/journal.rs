//! The trials of a search on disk: however it is stopped, the same search resumes from there.
//!
//! reads   an existing file of trials, even with a torn end
//! writes  a line per trial, synced before the next begins
//! memory  the trials
//! drops   a torn last line
//!
//! The search is deterministic, given its seed and its measurements. So a resumed search asks for the same layouts
//! again and gets the recorded results; beyond those it runs new trials.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::space::Layout;
use super::{Evaluate, Outcome, Trial};

/// A trial as stored in the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Row {
    layout: Layout,
    trial: Trial,
}

impl Row {
    fn is_measured(&self) -> bool {
        matches!(self.trial.outcome, Outcome::Measured(_))
    }
}

/// Why a trial cannot be stored or read.
#[derive(Debug, thiserror::Error)]
pub enum JournalError<E> {
    /// The file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// Path of the journal.
        path: PathBuf,
        /// Why the file could not be read or written, as the system says it.
        source: io::Error,
    },
    /// The journal belongs to a search that took another path.
    #[error("{}: line {line} is of another search: give this one another folder", path.display())]
    Other {
        /// Path of the journal.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
    },
    /// No further layout can be tried.
    #[error(transparent)]
    Evaluate(E),
}

/// Tries layouts, and records their results.
pub struct Journal<T> {
    inner: T,
    path: PathBuf,
    file: File,
    before: VecDeque<Row>,
    given: usize,
    /// The end of each complete line, and whether its trial was measured.
    lines: Vec<(u64, bool)>,
}

impl<T> Journal<T> {
    /// Opens a journal, or creates it.
    pub fn open(path: &Path, inner: T) -> io::Result<Self> {
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let (mut before, mut lines) = (VecDeque::new(), Vec::new());
        let mut whole = 0;
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            match serde_json::from_slice::<Row>(line) {
                Ok(row) if line.ends_with(b"\n") => {
                    lines.push(((whole + line.len()) as u64, row.is_measured()));
                    before.push_back(row);
                }
                _ if whole + line.len() == bytes.len() => break,
                _ => {
                    let what = format!("line {} is not a trial", before.len() + 1);
                    return Err(io::Error::new(io::ErrorKind::InvalidData, what));
                }
            }
            whole += line.len();
        }
        if whole < bytes.len() {
            file.set_len(whole as u64)?;
            file.sync_all()?;
        }
        Ok(Self { inner, path: path.into(), file, before, given: 0, lines })
    }

    /// Drops trailing trials without a rate: their cause may be gone when the search resumes.
    pub fn forget_unmeasured(&mut self) -> io::Result<()> {
        while self.lines.pop_if(|(_, is_measured)| !*is_measured).is_some() {}
        self.file.set_len(self.lines.last().map_or(0, |(end, _)| *end))?;
        self.file.sync_all()
    }

    /// Returns the number of recorded trials that were not asked for yet.
    pub fn kept(&self) -> usize {
        self.before.len()
    }
}

impl<T: Evaluate> Evaluate for Journal<T> {
    type Error = JournalError<T::Error>;

    fn evaluate(&mut self, layout: &Layout, left: f64) -> Result<Trial, Self::Error> {
        self.given += 1;
        if let Some(row) = self.before.pop_front() {
            if row.layout != *layout {
                return Err(JournalError::Other { path: self.path.clone(), line: self.given });
            }
            return Ok(row.trial);
        }
        let trial = self.inner.evaluate(layout, left).map_err(JournalError::Evaluate)?;
        let row = Row { layout: layout.clone(), trial };
        let failed = |source| JournalError::Io { path: self.path.clone(), source };
        let line = serde_json::to_string(&row).map_err(|why| failed(io::Error::other(why)))?;
        let written = self.file.write_all(format!("{line}\n").as_bytes()).and_then(|()| self.file.sync_data());
        written.map_err(failed)?;
        let begin = self.lines.last().map_or(0, |(end, _)| *end);
        self.lines.push((begin + line.len() as u64 + 1, row.is_measured()));
        // Read back from the text: parsing may change the last digit of a number, which would lead the resumed search
        // elsewhere.
        let row: Row = serde_json::from_str(&line).map_err(|why| failed(io::Error::other(why)))?;
        Ok(row.trial)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::LayoutMeasurement;
    use super::*;

    /// Each trial's rate is a little higher than the last.
    struct Counter(u32);

    impl Evaluate for Counter {
        type Error = io::Error;

        fn evaluate(&mut self, _: &Layout, _: f64) -> Result<Trial, io::Error> {
            self.0 += 1;
            let measured = LayoutMeasurement { rate: f64::from(self.0) + 0.1, ..LayoutMeasurement::default() };
            Ok(Trial { outcome: Outcome::Measured(measured), seconds: 1.0 })
        }
    }

    #[test]
    fn wherever_the_file_is_torn_whole_trials_stay() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("trials");
        let layout = |core| Layout::new(vec![vec![Some(core)]]);
        let mut journal = Journal::open(&path, Counter(0)).expect("new");
        let all: Vec<Trial> = (0..3).map(|core| journal.evaluate(&layout(core), 1.0).expect("tried")).collect();
        let whole = fs::read(&path).expect("there");
        for end in 0..=whole.len() {
            fs::write(&path, &whole[..end]).expect("torn");
            let kept = Journal::open(&path, Counter(0)).expect("opened").kept();
            let mut journal = Journal::open(&path, Counter(kept as u32)).expect("opened");
            let again: Vec<Trial> = (0..3).map(|core| journal.evaluate(&layout(core), 1.0).expect("tried")).collect();
            assert_eq!(again, all, "{end}");
            assert_eq!(fs::read(&path).expect("there"), whole, "{end}");
        }
    }

    /// Fails at first, then is disturbed.
    struct Unlucky(Vec<Outcome>);

    impl Evaluate for Unlucky {
        type Error = io::Error;

        fn evaluate(&mut self, _: &Layout, _: f64) -> Result<Trial, io::Error> {
            Ok(Trial { outcome: self.0.remove(0), seconds: 1.0 })
        }
    }

    #[test]
    fn final_failures_can_be_forgotten() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("trials");
        let layout = |core| Layout::new(vec![vec![Some(core)]]);
        let measured = || Outcome::Measured(LayoutMeasurement { rate: 2.0, ..LayoutMeasurement::default() });
        let failed = || Outcome::Failed("no".into());
        let all = vec![failed(), measured(), failed(), Outcome::Disturbed("others".into())];
        let mut journal = Journal::open(&path, Unlucky(all)).expect("new");
        (0..4).for_each(|core| drop(journal.evaluate(&layout(core), 1.0).expect("tried")));
        journal.forget_unmeasured().expect("forgotten");
        let mut journal = Journal::open(&path, Unlucky(vec![measured()])).expect("opened");
        assert_eq!(journal.kept(), 2, "one that failed, and one that was measured");
        (0..3).for_each(|core| drop(journal.evaluate(&layout(core), 1.0).expect("tried")));
        journal.forget_unmeasured().expect("nothing to forget");
        assert_eq!(Journal::open(&path, Unlucky(Vec::new())).expect("opened").kept(), 3);
    }

    #[test]
    fn trials_of_another_search_are_not_taken() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("trials");
        let mut journal = Journal::open(&path, Counter(0)).expect("new");
        journal.evaluate(&Layout::new(vec![vec![Some(0)]]), 1.0).expect("tried");
        let mut journal = Journal::open(&path, Counter(0)).expect("opened");
        let why = journal.evaluate(&Layout::new(vec![vec![Some(1)]]), 1.0).expect_err("another");
        assert!(matches!(why, JournalError::Other { line: 1, .. }), "{why}");
        fs::write(&path, "hello\n{}\n").expect("written");
        assert!(Journal::open(&path, Counter(0)).is_err());
    }
}
