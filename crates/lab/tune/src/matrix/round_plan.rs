//! The inputs of rounds: the builds, their number of rounds, the folder.

use std::path::{Path, PathBuf};

use super::spec::Spec;
use super::{Control, StudyError};

/// A build that takes part in rounds.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Name of the build.
    pub name: String,
    /// Replaces `{bin}` in a workload.
    pub bin: String,
    /// The size of the program, if it is a file.
    pub bytes: Option<u64>,
    /// Whether its work is done elsewhere, as in a container.
    pub is_elsewhere: bool,
    /// Whether the study ends if it fails.
    pub is_needed: bool,
    /// Whether others are compared with it, so that it takes part in every round.
    pub is_base: bool,
    /// Path and digest of the program, if it is a file.
    pub program: Option<(PathBuf, String)>,
}

/// Rounds of a study, or of its layouts.
pub struct Rounds<'a> {
    /// Spec of the study, with its workloads and limits.
    pub spec: &'a Spec,
    /// Folder of the study, which holds results and events.
    pub folder: &'a Path,
    /// Callbacks to the study's caller.
    pub control: &'a Control<'a>,
    /// The builds that take part.
    pub subjects: &'a [Subject],
    /// Number of rounds for each build.
    pub rounds: u32,
    /// Seed of the builds' order in each round.
    pub seed: u64,
}

impl Rounds<'_> {
    /// Names of the builds that others are compared with.
    pub(super) fn bases(&self) -> Vec<&str> {
        self.subjects.iter().filter(|one| one.is_base).map(|one| one.name.as_str()).collect()
    }

    pub(super) fn failed_events(&self, source: std::io::Error) -> StudyError {
        StudyError::Io { path: self.folder.join("events.csv"), source }
    }
}
