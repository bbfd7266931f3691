//! retention: which archives a node keeps in its folder.
//!
//! reads   the names in the folder
//! writes  removes archives, and unfinished files that a kill left
//! memory  a name a file
//! drops   old archives; nothing with another name
//! source  `purge_old_snapshot_archives` of `snapshot_utils.rs` of `solana-runtime` 4.2

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::archive::{ArchiveError, ArchiveName, Fault, PART_PREFIX};

/// How many archives are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Full archives, at least one.
    pub full: usize,
    /// Incremental archives on the newest full one, at least one. Of those on older ones that are kept, the newest is.
    pub incremental: usize,
}

impl Retention {
    /// Removes the archives in `folder` that are not kept: the oldest full ones, and incremental ones whose full one is
    /// not there.
    ///
    /// # Errors
    ///
    /// The folder cannot be listed, or a file cannot be removed; others may have been.
    pub fn prune(&self, folder: &Path) -> Result<(), ArchiveError> {
        let mut archives: BTreeMap<Option<u64>, Vec<(u64, PathBuf)>> = BTreeMap::new();
        for path in files(folder)? {
            if let Ok(name) = ArchiveName::of_path(&path) {
                archives.entry(name.base).or_default().push((name.slot, path));
            }
        }
        let mut full = archives.remove(&None).unwrap_or_default();
        keep(&mut full, self.full.max(1))?;
        for (base, mut incremental) in archives {
            let at = full.iter().position(|(slot, _)| Some(*slot) == base);
            let most = match at {
                Some(0) => self.incremental.max(1),
                Some(_) => 1,
                None => 0,
            };
            keep(&mut incremental, most)?;
        }
        Ok(())
    }
}

/// Keeps the newest `most` of these archives, the newest first.
fn keep(archives: &mut Vec<(u64, PathBuf)>, most: usize) -> Result<(), ArchiveError> {
    archives.sort_unstable();
    archives.reverse();
    archives.drain(most.min(archives.len())..).try_for_each(|(_, path)| remove_if_exists(&path))
}

/// Removes the files that a kill left unfinished: only one process may write into the folder.
pub(super) fn clear_unfinished(folder: &Path) -> Result<(), ArchiveError> {
    files(folder)?.iter().filter(|path| is_unfinished(path)).try_for_each(|path| remove_if_exists(path))
}

fn is_unfinished(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PART_PREFIX))
}

fn files(folder: &Path) -> Result<Vec<PathBuf>, ArchiveError> {
    let list = || -> io::Result<Vec<PathBuf>> { fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect() };
    list().map_err(|e| ArchiveError::of(folder, Fault::Read(e)))
}

fn remove_if_exists(path: &Path) -> Result<(), ArchiveError> {
    match fs::remove_file(path) {
        Err(why) if why.kind() != io::ErrorKind::NotFound => Err(ArchiveError::of(path, Fault::Write(why))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn name(base: Option<u64>, slot: u64) -> String {
        ArchiveName { base, slot, hash: [slot as u8; 32] }.to_string()
    }

    fn there(folder: &Path) -> BTreeSet<String> {
        files(folder).unwrap().iter().map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn the_newest_are_kept_and_none_without_its_full_one() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let put = |name: &str| fs::write(folder.join(name), name).unwrap();
        for slot in [100, 200, 300] {
            put(&name(None, slot));
            (1..=4).for_each(|n| put(&name(Some(slot), slot + 10 * n)));
        }
        put(&name(Some(250), 290));
        put("notes.txt");
        put("000000000300.snapshot");
        Retention { full: 2, incremental: 3 }.prune(folder).unwrap();
        let kept = [
            name(None, 300),
            name(Some(300), 320),
            name(Some(300), 330),
            name(Some(300), 340),
            name(None, 200),
            name(Some(200), 240),
            "notes.txt".to_owned(),
            "000000000300.snapshot".to_owned(),
        ];
        assert_eq!(there(folder), BTreeSet::from(kept));
        // One of each is kept in any case.
        Retention { full: 0, incremental: 0 }.prune(folder).unwrap();
        let kept = [name(None, 300), name(Some(300), 340), "notes.txt".to_owned(), "000000000300.snapshot".to_owned()];
        assert_eq!(there(folder), BTreeSet::from(kept));
        let why = Retention { full: 1, incremental: 1 }.prune(&folder.join("none")).unwrap_err();
        assert!(matches!(why.fault, Fault::Read(_)), "{why}");
    }

    #[test]
    fn remains_of_a_kill_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let whole = name(None, 5);
        for name in ["tmp-snapshot-archive-5.tar.zst", "tmp-snapshot-archive-5.accounts", &whole, "tmp.txt"] {
            fs::write(folder.path().join(name), name).unwrap();
        }
        clear_unfinished(folder.path()).unwrap();
        assert_eq!(there(folder.path()), BTreeSet::from([whole, "tmp.txt".to_owned()]));
    }
}
