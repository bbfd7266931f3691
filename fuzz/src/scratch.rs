//! The folder for files that a target's fixture needs.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

static FOLDER: OnceLock<PathBuf> = OnceLock::new();

/// A folder for temporary files of this process, made when it is first asked for.
///
/// # Panics
/// It cannot be made.
pub fn folder() -> &'static Path {
    FOLDER.get_or_init(|| {
        let path = std::env::temp_dir().join(format!("hearth-fuzz-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        path
    })
}

/// Removes the folder, if it was made. What is open in it stays usable.
pub fn remove() {
    if let Some(path) = FOLDER.get() {
        // Nothing depends on it: the system cleans up what is left in its temporary folder.
        let _ = std::fs::remove_dir_all(path);
    }
}
