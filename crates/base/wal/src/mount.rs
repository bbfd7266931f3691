//! Maps a folder to its volume: the system's files, unless a test has mounted another one there.
//!
//! A chain has a dozen files in three stores, and some are created, renamed and removed while it runs. A fake disk
//! under one file sees only part of that. A mount covers them all, from before the first is created, and no store has
//! to pass a volume on to the next. Paths are compared literally.
//!
//! memory  a path and a pointer per mount; without one, opening a file only reads an uncontended lock

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;

use crate::disk::{FileSystem, Volume};

static MOUNTS: RwLock<Vec<(PathBuf, Arc<dyn Volume>)>> = RwLock::new(Vec::new());

/// A volume that has a folder until this is dropped. Files that are open stay with it.
#[must_use]
pub struct Mount {
    dir: PathBuf,
}

/// For tests: has everything that stores do below `dir` done by `volume`.
///
/// # Panics
/// Another volume is mounted on the same folder.
pub fn mount(dir: &Path, volume: Arc<dyn Volume>) -> Mount {
    let mut mounts = MOUNTS.write();
    assert!(mounts.iter().all(|(other, _)| other != dir), "{} has a volume", dir.display());
    mounts.push((dir.to_owned(), volume));
    Mount { dir: dir.to_owned() }
}

impl Drop for Mount {
    fn drop(&mut self) {
        MOUNTS.write().retain(|(dir, _)| *dir != self.dir);
    }
}

/// The volume that is mounted above a path, or nothing where that is the file system.
pub(crate) fn mounted_at(path: &Path) -> Option<Arc<dyn Volume>> {
    let mounts = MOUNTS.read();
    mounts.iter().find(|(dir, _)| path.starts_with(dir)).map(|(_, volume)| volume.clone())
}

/// Returns the volume that has the files at a path.
pub fn volume_at(path: &Path) -> Arc<dyn Volume> {
    mounted_at(path).unwrap_or_else(|| Arc::new(FileSystem))
}
