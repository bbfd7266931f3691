//! writer: an archive, file by file.
//!
//! reads   fields, statuses, accounts
//! writes  `tmp-snapshot-archive-SLOT.tar.zst` in a folder; once it is whole and durable, it gets its name
//! memory  the fields as a file, one account, what the packer takes; what the system writes is synced every 16 MiB, so
//!         that the end does not delay the blocks'
//! drops   the unfinished file, if it does not become whole
//! source  `agave-snapshots` 4.2, `archive.rs`: the files and their order

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use hearth_wire::Pubkey;
use zstd::stream::write::Encoder;

use super::entry::{self, BLOCK, Entry};
use super::error::{ArchiveError, Fault};
use super::fields::{BankFields, StorageInfo};
use super::name::ArchiveName;
use super::reader::VERSION;
use super::statuses::{self, SlotStatuses};
use super::storage::{self, STORAGE_MAX};
use crate::account::Account;

/// How hard the packer works: its fastest regular level.
const LEVEL: i32 = 1;
/// Bytes that are written at once.
const BUFFER: usize = 1 << 20;
/// Bytes after which a file is synced.
const SYNC_BYTES: usize = 16 << 20;
/// How the names of unfinished files begin.
pub(crate) const PART_PREFIX: &str = "tmp-snapshot-archive-";

/// A file that is synced as it grows.
struct SyncedWriter {
    file: File,
    unsynced: usize,
}

impl Write for SyncedWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.unsynced += written;
        if self.unsynced >= SYNC_BYTES {
            self.file.sync_data()?;
            self.unsynced = 0;
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Writes an archive: version, statuses and fields first, then the account files that the fields list, in their order.
pub struct ArchiveWriter<W: Write> {
    to: Encoder<'static, W>,
    /// The account files to come, the last one first.
    storages: Vec<StorageInfo>,
    /// Bytes that are left of the current account file.
    left: u64,
    /// Bytes of the current account file, until it is padded.
    size: u64,
}

impl<W: Write> ArchiveWriter<W> {
    /// Begins an archive of a bank.
    pub fn begin(to: W, fields: &BankFields, statuses: &[SlotStatuses]) -> Result<Self, Fault> {
        let mut to = Encoder::new(to, LEVEL).map_err(Fault::Write)?;
        to.include_checksum(true).map_err(Fault::Write)?;
        let mut storages = fields.storages.clone();
        storages.reverse();
        let mut writer = Self { to, storages, left: 0, size: 0 };
        writer.file(Entry::Version, VERSION.as_bytes())?;
        writer.file(Entry::Folder, &[])?;
        writer.file(Entry::Statuses, &statuses::encode(statuses))?;
        writer.raw(entry::folder_of(fields.slot).as_bytes())?;
        writer.file(Entry::Fields { slot: fields.slot }, &fields.encode())?;
        Ok(writer)
    }

    /// Writes the next account. The lengths of the files that the fields list must add up to those of the accounts.
    pub fn account(&mut self, key: &Pubkey, account: &Account) -> Result<(), Fault> {
        if self.left == 0 {
            self.next_storage()?;
        }
        let written = storage::write_account(&mut self.to, key, account)?;
        self.left =
            self.left.checked_sub(written).ok_or(Fault::Malformed("an account that no account file ends with"))?;
        Ok(())
    }

    /// Writes all accounts from a file that has them as they are stored, in the order of the account files.
    pub(crate) fn accounts_from(&mut self, from: &mut impl Read) -> Result<(), Fault> {
        while !self.storages.is_empty() {
            self.next_storage()?;
            let copied = io::copy(&mut from.by_ref().take(self.left), &mut self.to).map_err(Fault::Write)?;
            self.left -= copied;
            if self.left > 0 {
                return Err(Fault::Malformed("fewer accounts than the account files are long"));
            }
        }
        Ok(())
    }

    /// Ends the archive once all accounts are written, and returns the medium.
    pub fn finish(mut self) -> Result<W, Fault> {
        if self.left > 0 || !self.storages.is_empty() {
            return Err(Fault::Malformed("fewer accounts than the account files are long"));
        }
        self.pad()?;
        self.raw(&[0; 2 * BLOCK])?;
        self.to.finish().map_err(Fault::Write)
    }

    fn next_storage(&mut self) -> Result<(), Fault> {
        self.pad()?;
        let next = self.storages.pop().ok_or(Fault::Malformed("more accounts than the account files are long"))?;
        if next.len == 0 || next.len > STORAGE_MAX {
            return Err(Fault::Storage { slot: next.slot, why: "is empty, or longer than any may be" });
        }
        self.raw(Entry::Storage { slot: next.slot, id: next.id }.header(next.len).as_bytes())?;
        (self.left, self.size) = (next.len, next.len);
        Ok(())
    }

    fn file(&mut self, entry: Entry, content: &[u8]) -> Result<(), Fault> {
        self.raw(entry.header(content.len() as u64).as_bytes())?;
        self.raw(content)?;
        self.size = content.len() as u64;
        self.pad()
    }

    /// Fills the last block of the file that was written.
    fn pad(&mut self) -> Result<(), Fault> {
        let padding = self.size.next_multiple_of(BLOCK as u64) - self.size;
        self.size = 0;
        self.raw(&[0; BLOCK][..padding as usize])
    }

    fn raw(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        self.to.write_all(bytes).map_err(Fault::Write)
    }
}

/// A new archive in a folder. Dropped before it is finished, it leaves nothing.
pub struct NewArchive {
    writer: Option<ArchiveWriter<BufWriter<SyncedWriter>>>,
    name: ArchiveName,
    part: PathBuf,
    folder: PathBuf,
}

impl NewArchive {
    /// Begins the archive of a bank in `folder`: an incremental one, if it builds on the full one of slot `base`.
    pub fn create(
        folder: &Path,
        base: Option<u64>,
        fields: &BankFields,
        statuses: &[SlotStatuses],
    ) -> Result<Self, ArchiveError> {
        let name = ArchiveName { base, slot: fields.slot, hash: fields.lattice.checksum() };
        let part = folder.join(format!("{PART_PREFIX}{}.tar.zst", fields.slot));
        let file = File::create(&part).map_err(|e| ArchiveError::of(&part, Fault::Write(e)))?;
        // From here on the file goes when this does.
        let mut archive = Self { writer: None, name, part, folder: folder.to_path_buf() };
        let synced = SyncedWriter { file, unsynced: 0 };
        let writer = ArchiveWriter::begin(BufWriter::with_capacity(BUFFER, synced), fields, statuses);
        archive.writer = Some(writer.map_err(|fault| archive.fault(fault))?);
        Ok(archive)
    }

    /// Writes the next account, as [`ArchiveWriter::account`] does.
    pub fn account(&mut self, key: &Pubkey, account: &Account) -> Result<(), ArchiveError> {
        let written = self.writer.as_mut().expect("not finished").account(key, account);
        written.map_err(|fault| self.fault(fault))
    }

    /// Writes all accounts, as [`ArchiveWriter::accounts_from`] does.
    pub(crate) fn accounts_from(&mut self, from: &mut impl Read) -> Result<(), ArchiveError> {
        let written = self.writer.as_mut().expect("not finished").accounts_from(from);
        written.map_err(|fault| self.fault(fault))
    }

    /// Ends the archive, and gives it its name once it is durable.
    pub fn finish(mut self) -> Result<PathBuf, ArchiveError> {
        let path = self.folder.join(self.name.to_string());
        let writer = self.writer.take().expect("not finished");
        self.publish(writer, &path).map_err(|fault| self.fault(fault))?;
        Ok(path)
    }

    fn publish(&self, writer: ArchiveWriter<BufWriter<SyncedWriter>>, path: &Path) -> Result<(), Fault> {
        let synced = writer.finish()?.into_inner().map_err(|e| Fault::Write(e.into_error()))?;
        synced.file.sync_all().map_err(Fault::Write)?;
        fs::rename(&self.part, path).map_err(Fault::Write)?;
        File::open(&self.folder).and_then(|folder| folder.sync_all()).map_err(Fault::Write)
    }

    fn fault(&self, fault: Fault) -> ArchiveError {
        ArchiveError::of(&self.part, fault)
    }
}

impl Drop for NewArchive {
    fn drop(&mut self) {
        // After it was given its name it is no longer there.
        let _ = fs::remove_file(&self.part);
    }
}
