//! spool: accounts of an archive to come, as they will be stored, until the fields are known that precede them.
//!
//! reads   the file, once
//! writes  `tmp-snapshot-archive-SLOT.accounts`
//! memory  a buffer of 1 MiB
//! drops   the file, when this is dropped

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};

use hearth_wire::Pubkey;

use super::error::{ArchiveError, Fault};
use super::storage::write_account;
use super::writer::PART_PREFIX;
use crate::account::Account;

const BUFFER: usize = 1 << 20;

/// Accounts in a temporary file.
pub(crate) struct Spool {
    path: PathBuf,
    file: BufWriter<File>,
}

impl Spool {
    /// An empty one beside the archive of `slot` in `folder`.
    pub(crate) fn create(folder: &Path, slot: u64) -> Result<Self, ArchiveError> {
        let path = folder.join(format!("{PART_PREFIX}{slot}.accounts"));
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path);
        let file = file.map_err(|e| ArchiveError::of(&path, Fault::Write(e)))?;
        Ok(Self { path, file: BufWriter::with_capacity(BUFFER, file) })
    }

    /// Adds an account; returns the bytes that it takes.
    pub(crate) fn account(&mut self, key: &Pubkey, account: &Account) -> Result<u64, ArchiveError> {
        write_account(&mut self.file, key, account).map_err(|fault| ArchiveError::of(&self.path, fault))
    }

    /// All that was added. Reading fails once `stops` says so.
    pub(crate) fn read_back<'a>(&'a mut self, stops: &'a dyn Fn() -> bool) -> Result<impl Read + 'a, ArchiveError> {
        let rewound = self.file.flush().and_then(|()| self.file.get_mut().rewind());
        rewound.map_err(|e| ArchiveError::of(&self.path, Fault::Write(e)))?;
        Ok(BufReader::with_capacity(BUFFER, StoppableReader { from: self.file.get_mut(), stops }))
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        // If it cannot be removed now, the next start removes it.
        let _ = fs::remove_file(&self.path);
    }
}

/// Fails once it is to stop.
struct StoppableReader<'a> {
    from: &'a mut File,
    stops: &'a dyn Fn() -> bool,
}

impl Read for StoppableReader<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if (self.stops)() { Err(io::Error::other("the node stops")) } else { self.from.read(into) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::stored_size;

    #[test]
    fn added_entries_are_read_and_the_file_removed() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = Spool::create(folder.path(), 7).unwrap();
        let accounts: Vec<_> =
            (1..=3u8).map(|n| ([n; 32], Account::with_data(n.into(), [9; 32], &vec![n; 5 << n]))).collect();
        let mut expected = vec![];
        for (key, account) in &accounts {
            let size = spool.account(key, account).unwrap();
            assert_eq!(size, stored_size(account.data().len()));
            write_account(&mut expected, key, account).unwrap();
        }
        let mut found = vec![];
        spool.read_back(&|| false).unwrap().read_to_end(&mut found).unwrap();
        assert_eq!(found, expected);
        let why = spool.read_back(&|| true).unwrap().read_to_end(&mut found).unwrap_err();
        assert_eq!(why.to_string(), "the node stops");
        drop(spool);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
