//! A study of builds: a matrix is built, measured in rounds, and put to the analysis.
//!
//! reads   a [`spec::Spec`]; a folder in which the study may have been begun
//! writes  that folder: builds, `results.csv`, layouts, `report.json`
//! memory  the results
//!
//! All that was measured is on the disk as soon as it is known. Whenever it is stopped, and however, the same command
//! goes on from there and ends with the same rows that it would have ended with.

mod building;
pub mod cargo;
pub mod events;
mod finals;
pub mod kept;
pub mod layout;
pub mod make;
mod manifest;
mod measure;
pub mod race;
pub mod report;
pub mod results;
pub mod round_plan;
pub mod rounds;
pub mod source;
pub mod spec;
pub mod study;
pub mod study_dir;
pub mod workload;

use std::path::{Path, PathBuf};

use hearth_stats::quiet::Seen;
use hearth_stats::table::TableError;

use crate::analysis::QuestionError;

/// Whether others disturbed a run, and how.
pub type Judge<'a> = &'a dyn Fn(&Seen) -> Option<String>;

/// What a study asks of whoever started it.
pub struct Control<'a> {
    /// Whether to stop.
    pub stop: &'a dyn Fn() -> bool,
    /// Takes a line of progress.
    pub tell: &'a dyn Fn(&str),
    /// Says whether a run was disturbed.
    pub judge: Judge<'a>,
}

/// Why a study has no answer.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// What was asked cannot be done.
    #[error("{0}")]
    Asked(String),
    /// A file.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Another is at it.
    #[error("another `hearth tune build` is at work in {}", .0.display())]
    Locked(PathBuf),
    /// The folder holds results of another study.
    #[error(
        "{} holds a study with other {what}: what was measured does not belong together. Give this one another folder \
         with --out, or remove that one", folder.display()
    )]
    Other {
        /// The folder.
        folder: PathBuf,
        /// What differs.
        what: String,
    },
    /// The folder holds results, and does not say of what.
    #[error(
        "{} holds results, and its `study.json` is gone or torn: what they belong to is not known. Give this study \
         another folder with --out, or remove that one", .0.display()
    )]
    Unknown(PathBuf),
    /// They are no longer those that it began with.
    #[error(
        "the sources changed while the study was at work: {what}. Builds of before and after do not belong together: \
         put it back, and the same command goes on; or begin another study with --out. What runs leave behind in the \
         project is to be ignored by git"
    )]
    Changed {
        /// The first file.
        what: String,
    },
    /// A program is another one.
    #[error(
        "`{build}` is another program than the one that was measured under that name: its values do not belong \
         together. Put that one back, or give this study another folder with --out, or remove {}", folder.display()
    )]
    Replaced {
        /// The build.
        build: String,
        /// The folder.
        folder: PathBuf,
    },
    /// There is nothing to compare with.
    #[error("the reference `{name}` cannot be built: {why}")]
    Reference {
        /// Its name.
        name: String,
        /// What went wrong.
        why: String,
    },
    /// What is compared with does not run.
    #[error("with the reference (`{build}`) the workload fails: {why}")]
    Workload {
        /// Its name, or its copy's.
        build: String,
        /// What went wrong.
        why: String,
    },
    /// Nothing can be measured.
    #[error(
        "the machine stays busy: in round {round} every run was disturbed, the last since {why}. End what else runs, \
         also what a run hands its work to and leaves behind; the same command goes on from {}. To allow more under \
         [quiet] is to begin another study, where something is measured already", folder.display()
    )]
    Busy {
        /// In which round.
        round: u32,
        /// By what.
        why: String,
        /// Where it goes on.
        folder: PathBuf,
    },
    /// It was asked to stop.
    #[error("stopped: {done} runs are kept in {}, and the same command goes on there", folder.display())]
    Stopped {
        /// Runs that are kept.
        done: usize,
        /// Where it goes on.
        folder: PathBuf,
    },
    /// The question cannot be answered.
    #[error(transparent)]
    Question(#[from] QuestionError),
    /// The results cannot be read.
    #[error(transparent)]
    Table(#[from] TableError),
}

/// A path as the shell takes it for one word.
pub(crate) fn quote(path: &Path) -> String {
    format!("'{}'", path.to_string_lossy().replace('\'', r"'\''"))
}
