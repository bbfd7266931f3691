//! `hard-forks.json`: the hard forks of the chain in a ledger folder.
//!
//! reads   the slots, a JSON list in which a slot is named as often as it counts
//! writes  the same, atomically and durably
//! memory  8 B per hard fork
//! drops   a file that is no such list or has too many: a [`GenesisError`]
//!
//! Every start writes it, also the list without a slot. So a folder that lacks it is of an older version, which left
//! the hard forks to the configuration.

use std::path::Path;

use super::GenesisError;
use super::file::{damaged, read_up_to, remove, write_whole};

/// The name of the file.
pub const HARD_FORKS_NAME: &str = "hard-forks.json";
/// Maximum size of the file in bytes.
const BYTES_MAX: u64 = 1 << 16;

/// The hard forks that a ledger folder names; `None` if it has no such file.
///
/// # Errors
/// The file cannot be read, or is no list of slots.
pub fn read_hard_forks(folder: &Path) -> Result<Option<Vec<u64>>, GenesisError> {
    let path = folder.join(HARD_FORKS_NAME);
    let Some(bytes) = read_up_to(&path, BYTES_MAX)? else { return Ok(None) };
    serde_json::from_slice(&bytes).map(Some).map_err(|why| damaged(&path)(why.to_string()))
}

/// Writes the hard forks of the chain in a ledger folder, unless the file says the same.
///
/// # Errors
/// The file cannot be read or written.
pub fn save_hard_forks(folder: &Path, slots: &[u64]) -> Result<(), GenesisError> {
    if read_hard_forks(folder)?.is_some_and(|saved| saved == slots) {
        return Ok(());
    }
    let mut text = serde_json::to_string(slots).expect("it has only numbers");
    text.push('\n');
    write_whole(&folder.join(HARD_FORKS_NAME), text.as_bytes())
}

/// Removes what an earlier chain in the folder has left.
///
/// # Errors
/// The file cannot be removed.
pub fn forget_hard_forks(folder: &Path) -> Result<(), GenesisError> {
    remove(&folder.join(HARD_FORKS_NAME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_keeps_its_hard_forks() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        assert_eq!(read_hard_forks(folder).unwrap(), None);
        for slots in [&[][..], &[4, 4, 9]] {
            save_hard_forks(folder, slots).unwrap();
            assert_eq!(read_hard_forks(folder).unwrap().as_deref(), Some(slots));
        }
        std::fs::write(folder.join(HARD_FORKS_NAME), "[-1]").unwrap();
        assert!(read_hard_forks(folder).unwrap_err().is_damage());
        forget_hard_forks(folder).unwrap();
        forget_hard_forks(folder).unwrap();
        assert_eq!(std::fs::read_dir(folder).unwrap().count(), 0);
    }
}
