//! The folder of a study: validation, its lock, and atomic writes.
//!
//! reads   the names of its files
//! writes  `lock`; files for other modules, each atomically

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::StudyError;

/// How long to wait for a lock: a child process inherits open files until it executes another program.
const HELD: Duration = Duration::from_millis(500);

/// Locks a folder for a study. It must be empty or a study's, and must not contain the project, because a study removes
/// folders.
pub fn lock(folder: &Path) -> Result<File, StudyError> {
    let begin = Instant::now();
    lock_while(folder, &mut || {
        std::thread::sleep(Duration::from_millis(10));
        begin.elapsed() <= HELD
    })
}

/// Retries while `waits` returns true.
fn lock_while(folder: &Path, waits: &mut dyn FnMut() -> bool) -> Result<File, StudyError> {
    let failed = |source| StudyError::Io { path: folder.into(), source };
    let lock = File::create(folder.join("lock")).map_err(failed)?;
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(lock),
            Err(TryLockError::Error(source)) => return Err(failed(source)),
            Err(TryLockError::WouldBlock) if waits() => {}
            Err(TryLockError::WouldBlock) => return Err(StudyError::Locked(folder.into())),
        }
    }
}

/// Verifies that a folder may be used for a study.
pub fn is_for_studies(folder: &Path, project: &Path) -> Result<(), StudyError> {
    if project.canonicalize().is_ok_and(|project| project.starts_with(folder)) {
        return Err(StudyError::Asked(format!("--folder: {} has the project in it; name another", folder.display())));
    }
    is_free(folder)
}

/// Returns whether a folder belongs to a study, of builds or of layouts.
pub fn is_a_study(folder: &Path) -> bool {
    let has = |name: &str| folder.join(name).is_file();
    has("lock") && (has("study.json") || has("search.json"))
}

/// Verifies that a folder is empty, or was locked before.
pub fn is_free(folder: &Path) -> Result<(), StudyError> {
    let failed = |source| StudyError::Io { path: folder.into(), source };
    if !folder.join("lock").exists() && fs::read_dir(folder).map_err(failed)?.next().is_some() {
        return Err(StudyError::Asked(format!("--folder: {} has other files in it; name another", folder.display())));
    }
    Ok(())
}

/// Replaces a file atomically.
pub fn write_whole(path: &Path, text: &str) -> Result<(), StudyError> {
    let new = PathBuf::from(format!("{}.new", path.display()));
    let write = || -> io::Result<()> {
        let mut file = File::create(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, path)?;
        path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
    };
    write().map_err(|source| StudyError::Io { path: path.into(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_others_is_left_alone() {
        let dir = tempfile::tempdir().expect("a folder");
        let (project, own) = (dir.path().join("app"), dir.path().join("study"));
        [&project, &own].into_iter().for_each(|folder| fs::create_dir(folder).expect("made"));
        assert!(is_for_studies(&own, &project).is_ok());
        for wrong in [dir.path(), &project] {
            let why = is_for_studies(&wrong.canonicalize().expect("there"), &project).expect_err("refused").to_string();
            assert!(why.contains("--folder") && why.contains("project"), "{why}");
        }
        fs::write(own.join("letter"), "").expect("written");
        assert!(is_for_studies(&own, &project).is_err());
        fs::write(own.join("lock"), "").expect("written");
        assert!(is_for_studies(&own, &project).is_ok(), "a study's own");
    }

    #[test]
    fn a_lock_that_is_held_for_an_instant_is_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let held = lock(folder.path()).expect("free");
        assert!(matches!(lock_while(folder.path(), &mut || false), Err(StudyError::Locked(_))));
        let (mut held, mut seen) = (Some(held), 0);
        let lock = lock_while(folder.path(), &mut || {
            seen += 1;
            // A child that another test is just starting may hold the file, too.
            held = None;
            true
        });
        assert!(lock.is_ok() && held.is_none() && seen > 0);
    }
}
