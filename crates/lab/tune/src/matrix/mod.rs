//! A study of builds: builds a matrix, measures it in rounds, and analyzes the results.
//!
//! reads   a [`spec::Spec`]; a folder in which the study may have been begun
//! writes  that folder: builds, `results.csv`, layouts, `report.json`
//! memory  the results
//!
//! Every measurement is on disk as soon as it is known. However the study is stopped, the same command resumes it and
//! ends with the same rows as an uninterrupted one.

mod building;
pub mod cargo;
pub mod events;
mod finals;
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
pub mod study_identity;
pub mod workload;

use std::path::{Path, PathBuf};

use hearth_stats::quiet::RunConditions;
use hearth_stats::table::TableError;

use crate::analysis::QuestionError;

/// Decides whether others disturbed a run, and says how.
pub type Judge<'a> = &'a dyn Fn(&RunConditions) -> Option<String>;

/// Callbacks to the caller of a study.
pub struct Control<'a> {
    /// Returns whether to stop.
    pub stop: &'a dyn Fn() -> bool,
    /// Receives a line of progress.
    pub tell: &'a dyn Fn(&str),
    /// Decides whether a run was disturbed.
    pub judge: Judge<'a>,
}

/// Why a study has no answer.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// The options or the spec cannot be carried out.
    #[error("{0}")]
    Asked(String),
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Why the file could not be read or written, as the system says it.
        source: std::io::Error,
    },
    /// Another study uses the folder.
    #[error("another `hearth tune build` runs in {}", .0.display())]
    Locked(PathBuf),
    /// The folder holds results of another study.
    #[error(
        "{} holds a study with other {what}: what was measured does not belong together. Give this one another folder \
         with --folder, or remove that one", folder.display()
    )]
    Other {
        /// Path of the folder.
        folder: PathBuf,
        /// The part of `study.json` that differs, with the difference if it is known.
        what: String,
    },
    /// The folder holds results, but no valid record of their study.
    #[error(
        "{} holds results, and its `study.json` is gone or torn: what they belong to is not known. Give this study \
         another folder with --folder, or remove that one", .0.display()
    )]
    Unknown(PathBuf),
    /// The sources changed while the study ran.
    #[error(
        "the sources changed while the study was at work: {what}. Builds of before and after do not belong together: \
         put it back, and the same command goes on; or begin another study with --folder. What runs leave behind in \
         the project is to be ignored by git"
    )]
    Changed {
        /// The first changed file.
        what: String,
    },
    /// A program was replaced by another one.
    #[error(
        "`{build}` is another program than the one that was measured under that name: its values do not belong \
         together. Put that one back, or give this study another folder with --folder, or remove {}", folder.display()
    )]
    Replaced {
        /// Name of the build.
        build: String,
        /// Folder of the study.
        folder: PathBuf,
    },
    /// The reference cannot be built.
    #[error("the reference `{name}` cannot be built: {why}")]
    Reference {
        /// Name of the reference.
        name: String,
        /// Why its build failed, with errors from Cargo's output if there are any.
        why: String,
    },
    /// The reference or its copy fails at the workload.
    #[error("with the reference (`{build}`) the workload fails: {why}")]
    Workload {
        /// Name of the reference, or of its copy.
        build: String,
        /// Fault of the run, with the disturbance if there was one.
        why: String,
    },
    /// The machine is too busy to measure.
    #[error(
        "the machine stays busy: in round {round} every run was disturbed, the last since {why}. End what else runs, \
         also what a run hands its work to and leaves behind; the same command goes on from {}. To allow more under \
         [quiet] is to begin another study, where something is measured already", folder.display()
    )]
    Busy {
        /// Number of the round.
        round: u32,
        /// The cause of the last disturbance.
        why: String,
        /// Folder in which the same command continues.
        folder: PathBuf,
    },
    /// The user stopped the study.
    #[error("stopped: {done} runs are kept in {}, and the same command continues there", folder.display())]
    Stopped {
        /// Number of recorded runs.
        done: usize,
        /// Folder in which the same command continues.
        folder: PathBuf,
    },
    /// The question cannot be answered.
    #[error(transparent)]
    Question(#[from] QuestionError),
    /// The results cannot be read.
    #[error(transparent)]
    Table(#[from] TableError),
}

/// Quotes a path as one word for the shell.
pub(crate) fn quote(path: &Path) -> String {
    format!("'{}'", path.to_string_lossy().replace('\'', r"'\''"))
}
