//! The folder of a search, with a record of which search it belongs to, so that nothing else is mixed in.
//!
//! reads   `search.json`
//! writes  the same, atomically

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use hearth_command::output::note;
use hearth_node::config::Config;
use serde_json::{Value, json};

use super::config::differing;
use super::{LayoutError, Options};
use crate::layout::Space;
use crate::matrix::{StudyError, study_dir};
use crate::run::identity::{digest, machine};
use crate::run::process;

/// The locked folder of a search.
pub struct Folder {
    pub path: PathBuf,
    _lock: File,
}

impl From<StudyError> for LayoutError {
    fn from(why: StudyError) -> Self {
        match why {
            StudyError::Locked(path) => Self::Locked(path),
            StudyError::Io { path, source } => Self::Io { path, source },
            other => Self::Asked(other.to_string()),
        }
    }
}

impl Folder {
    pub fn take(path: &Path) -> Result<Self, LayoutError> {
        let failed = |source| LayoutError::Io { path: path.into(), source };
        fs::create_dir_all(path).map_err(failed)?;
        let path = path.canonicalize().map_err(failed)?;
        study_dir::is_free(&path)?;
        let lock = study_dir::lock(&path)?;
        let left = process::end_marked(&path.to_string_lossy());
        if left > 0 {
            note(format_args!("  … {left} processes of this search were still there, and are ended"));
        }
        Ok(Self { path, _lock: lock })
    }

    /// Refuses to continue with trials of another program, configuration or machine, or with other limits.
    pub fn is_same_search(&self, options: &Options, base: &Config, space: &Space) -> Result<(), LayoutError> {
        let program = super::program()?;
        let digest = digest(&program).map_err(|source| LayoutError::Io { path: program, source })?;
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let now = json!({
            "program": digest,
            "configuration": differing(base),
            "machine": machine(),
            "kernel": kernel.trim(),
            "cores": space.cores.allowed,
            "siblings": space.cores.siblings,
            "duration": [options.warmup, options.duration],
            "budget": [options.minutes, f64::from(options.runs), options.least_gain],
            "disturbance": [options.steal, options.foreign, options.pressure, options.pace, f64::from(options.retries)],
            "seed": options.seed,
        });
        self.is_same(&now)
    }

    fn is_same(&self, now: &Value) -> Result<(), LayoutError> {
        let path = self.path.join("search.json");
        let before = fs::read_to_string(&path).ok().and_then(|text| serde_json::from_str::<Value>(&text).ok());
        let has_trials = fs::metadata(self.path.join("trials")).is_ok_and(|trials| trials.len() > 0);
        let keys = now.as_object().into_iter().flatten().map(|(key, _)| key.clone());
        let differs = before.as_ref().map(|before| keys.into_iter().find(|key| before[key] != now[key]));
        match differs {
            Some(None) => Ok(()),
            None if has_trials => Err(LayoutError::Unknown(self.path.clone())),
            Some(Some(what)) if has_trials => Err(LayoutError::Other { folder: self.path.clone(), what }),
            _ => Ok(study_dir::write_whole(&path, &format!("{now:#}\n"))?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trials_of_what_is_not_known_are_not_taken() {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = Folder::take(dir.path()).expect("free");
        assert!(matches!(Folder::take(dir.path()), Err(LayoutError::Locked(_))));
        let at = |name: &str| folder.path.join(name);
        let now = json!({ "seed": 1, "machine": "this" });
        folder.is_same(&now).expect("a new one");
        folder.is_same(&json!({ "seed": 2, "machine": "this" })).expect("nothing was tried yet");
        folder.is_same(&now).expect("nothing was tried yet");
        fs::write(at("trials"), "{}\n").expect("written");
        folder.is_same(&now).expect("its own");
        let why = folder.is_same(&json!({ "seed": 1, "machine": "that" })).expect_err("another");
        assert!(why.to_string().contains("another machine"), "{why}");
        let whole = fs::read_to_string(at("search.json")).expect("there");
        for torn in ["", &whole[..whole.len() / 2]] {
            fs::write(at("search.json"), torn).expect("torn");
            let why = folder.is_same(&now).expect_err("unknown");
            assert!(matches!(why, LayoutError::Unknown(_)), "{why}");
        }
        drop(folder);
        let other = tempfile::tempdir().expect("a folder");
        fs::write(other.path().join("letter"), "").expect("written");
        assert!(matches!(Folder::take(other.path()), Err(LayoutError::Asked(_))), "others' files");
    }
}
