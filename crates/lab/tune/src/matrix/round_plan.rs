//! What rounds are made of: what takes part, how often, and in which folder.

use std::path::{Path, PathBuf};

use super::spec::Spec;
use super::{Control, StudyError};

/// What takes part in rounds.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Its name.
    pub name: String,
    /// What stands where a workload has `{bin}`.
    pub bin: String,
    /// The size of the program, where it is a file.
    pub bytes: Option<u64>,
    /// Whether its work is done elsewhere, as that of a container is.
    pub is_elsewhere: bool,
    /// Whether there is no study without it.
    pub is_needed: bool,
    /// Whether others are compared with it, so that it takes part in every round.
    pub is_base: bool,
    /// The program and its digest, where it is a file.
    pub program: Option<(PathBuf, String)>,
}

/// Rounds of a study, or of its layouts.
pub struct Rounds<'a> {
    /// The study.
    pub spec: &'a Spec,
    /// Its folder.
    pub folder: &'a Path,
    /// Whether to stop, and whom to tell.
    pub control: &'a Control<'a>,
    /// What takes part.
    pub subjects: &'a [Subject],
    /// How many each build is to have.
    pub rounds: u32,
    /// Where randomness begins.
    pub seed: u64,
}

impl Rounds<'_> {
    /// What builds are compared with.
    pub(super) fn bases(&self) -> Vec<&str> {
        self.subjects.iter().filter(|one| one.is_base).map(|one| one.name.as_str()).collect()
    }

    pub(super) fn failed_events(&self, source: std::io::Error) -> StudyError {
        StudyError::Io { path: self.folder.join("events.csv"), source }
    }
}
