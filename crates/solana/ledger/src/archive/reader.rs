//! reader: an archive as a stream, each file checked as it passes.
//!
//! reads   an archive, once, in its order
//! memory  the bank's fields, the statuses, one account, 24 B a file, and what the unpacker takes: a window of 128 MiB
//!         at most
//! drops   nothing: the first fault ends it
//! source  `agave-snapshots` 4.2: version, names and the tar; `snapshot_storage_rebuilder.rs` of `solana-runtime` 4.2:
//!         one account file a slot

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::io::{self, BufReader, Read};
use std::rc::Rc;

use hearth_wire::Pubkey;

use super::entry::{self, BLOCK, Entry};
use super::error::Fault;
use super::fields::BankFields;
use super::name::ArchiveName;
use super::statuses::{self, SlotStatuses};
use super::storage::{self, STORAGE_MAX};
use crate::account::Account;

/// The version of the format.
pub(super) const VERSION: &str = "1.2.0";
/// Bytes that are unpacked ahead.
const BUFFER: usize = 1 << 20;
/// Largest window of the unpacker, as a power of two: 128 MiB.
const WINDOW_LOG_MAX: u32 = 27;

/// The most that an archive may hold. More is an error, so that a small file does not fill the memory.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of the bank's fields, and of the statuses.
    pub fields: u64,
    /// Accounts, older versions included.
    pub accounts: u64,
    /// Bytes of all files.
    pub unpacked: u64,
}

impl Limits {
    /// Limits for an archive of so many packed bytes.
    ///
    /// Fields pack to a quarter or less, seldom to a hundredth. An account has a key that does not pack, so there are
    /// never more accounts than bytes.
    pub const fn of_packed(len: u64) -> Self {
        const FIELDS_MAX: u64 = 32 << 30;
        let fields = (64 << 20) + len.saturating_mul(64);
        let fields = if fields < FIELDS_MAX { fields } else { FIELDS_MAX };
        Self { fields, accounts: (1 << 16) + len, unpacked: 4 << 40 }
    }
}

/// How far reading has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Packed bytes that were read.
    pub packed: u64,
    /// Packed bytes of the archive.
    pub packed_total: u64,
    /// Accounts that were read.
    pub accounts: u64,
}

/// The contents of an archive besides its accounts.
#[derive(Debug)]
pub struct Contents {
    /// The fields of the bank at whose end the state was captured.
    pub fields: BankFields,
    /// The transactions of the last slots with their results, by slot.
    pub statuses: Vec<SlotStatuses>,
    /// Number of accounts, older versions included.
    pub accounts: u64,
}

/// A receiver of an archive's accounts, and of the progress of reading it.
pub trait Sink {
    /// Takes an account, which the block of `slot` wrote.
    fn account(&mut self, slot: u64, key: &Pubkey, account: Account) -> Result<(), Fault>;

    /// Learns how far it is, once a file.
    fn progress(&mut self, progress: Progress);
}

/// Takes what an archive holds and keeps nothing.
impl Sink for () {
    fn account(&mut self, _: u64, _: &Pubkey, _: Account) -> Result<(), Fault> {
        Ok(())
    }

    fn progress(&mut self, _: Progress) {}
}

/// Counts the bytes that are read.
struct CountingReader<R> {
    from: R,
    count: Rc<Cell<u64>>,
}

impl<R: Read> Read for CountingReader<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(into)?;
        self.count.set(self.count.get() + read as u64);
        Ok(read)
    }
}

/// Reads the archive of this name, `packed_total` bytes long.
pub fn read(
    packed: impl Read,
    packed_total: u64,
    name: &ArchiveName,
    limits: &Limits,
    sink: &mut dyn Sink,
) -> Result<Contents, Fault> {
    let count = Rc::new(Cell::new(0));
    let counted = CountingReader { from: packed, count: Rc::clone(&count) };
    let mut unpacker = zstd::stream::read::Decoder::new(counted).map_err(Fault::reading)?;
    unpacker.window_log_max(WINDOW_LOG_MAX).map_err(Fault::reading)?;
    let from = BufReader::with_capacity(BUFFER, unpacker);
    read_tar(from, name, limits, sink, &|accounts| Progress { packed: count.get(), packed_total, accounts })
}

/// Reads an archive of this name that is unpacked already: its tar.
pub fn read_unpacked(
    tar: impl Read,
    name: &ArchiveName,
    limits: &Limits,
    sink: &mut dyn Sink,
) -> Result<Contents, Fault> {
    read_tar(tar, name, limits, sink, &|accounts| Progress { accounts, ..Progress::default() })
}

fn read_tar(
    mut from: impl Read,
    name: &ArchiveName,
    limits: &Limits,
    sink: &mut dyn Sink,
    progress: &dyn Fn(u64) -> Progress,
) -> Result<Contents, Fault> {
    let mut reading = EntryReader { name, limits, sink, found: ArchiveParts::default(), unpacked: 0 };
    while let Some((entry, size)) = entry::read(&mut from)? {
        reading.file(&mut from, entry, size)?;
        reading.sink.progress(progress(reading.found.accounts));
    }
    end(&mut from)?;
    reading.found.contents(name)
}

/// Reads what is behind the last file: zeros, and at least another block of them.
fn end(from: &mut impl Read) -> Result<(), Fault> {
    const PADDING_MAX: usize = 1 << 20;
    let mut block = [0; BLOCK];
    from.read_exact(&mut block).map_err(Fault::reading)?;
    let mut rest = vec![];
    from.by_ref().take(PADDING_MAX as u64 + 1).read_to_end(&mut rest).map_err(Fault::reading)?;
    let zeros = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
    match rest.len() <= PADDING_MAX && zeros(&block) && zeros(&rest) {
        true => Ok(()),
        false => Err(Fault::Malformed("bytes after the archive's end")),
    }
}

/// The parts of an archive that were read so far.
#[derive(Default)]
struct ArchiveParts {
    has_version: bool,
    fields: Option<BankFields>,
    statuses: Option<Vec<SlotStatuses>>,
    /// Number and length of each slot's account file.
    storages: HashMap<u64, (u64, u64)>,
    accounts: u64,
}

impl ArchiveParts {
    /// Checks that everything is there and fits together.
    fn contents(self, name: &ArchiveName) -> Result<Contents, Fault> {
        if !self.has_version {
            return Err(Fault::Missing("the file `version`"));
        }
        let fields = self.fields.ok_or(Fault::Missing("the bank's fields"))?;
        let statuses = self.statuses.ok_or(Fault::Missing("the file `status_cache`"))?;
        if fields.slot != name.slot {
            return Err(Fault::Slot { place: "the bank", found: fields.slot, expected: name.slot });
        }
        let last_tick = fields.slot.checked_add(1).and_then(|slots| slots.checked_mul(fields.ticks_per_slot));
        if last_tick != Some(fields.max_tick_height) {
            return Err(Fault::Malformed("the bank ends with a tick that is not the last of its slot"));
        }
        let checksum = fields.lattice.checksum();
        if checksum != name.hash {
            return Err(Fault::Hash { what: "the hash in the archive's name", found: name.hash, computed: checksum });
        }
        let hash = fields.computed_hash();
        if fields.hash != hash {
            return Err(Fault::Hash { what: "the bank's hash", found: fields.hash, computed: hash });
        }
        statuses::check(&statuses, fields.slot)?;
        let mut listed = HashSet::new();
        // Those of an incremental archive may list account files that only the full one has.
        for info in fields.storages.iter().filter(|info| name.base.is_none_or(|base| info.slot > base)) {
            let fault = |why| Err(Fault::Storage { slot: info.slot, why });
            match self.storages.get(&info.slot) {
                None => return fault("is not there"),
                Some((id, _)) if *id != info.id => return fault("has another number than the bank's fields say"),
                Some((_, len)) if *len < info.len => return fault("is shorter than the bank's fields say"),
                Some(_) if !listed.insert(info.slot) => return fault("is listed twice"),
                Some(_) => {}
            }
        }
        match self.storages.keys().find(|slot| !listed.contains(*slot)) {
            Some(slot) => Err(Fault::Storage { slot: *slot, why: "is not listed in the bank's fields" }),
            None => Ok(Contents { fields, statuses, accounts: self.accounts }),
        }
    }
}

struct EntryReader<'a> {
    name: &'a ArchiveName,
    limits: &'a Limits,
    sink: &'a mut dyn Sink,
    found: ArchiveParts,
    unpacked: u64,
}

impl EntryReader<'_> {
    /// Reads a file and what pads it.
    fn file(&mut self, from: &mut impl Read, entry: Entry, size: u64) -> Result<(), Fault> {
        let most = match entry {
            Entry::Version => 8,
            Entry::Folder => 0,
            Entry::Statuses | Entry::Fields { .. } => self.limits.fields,
            Entry::Storage { .. } => STORAGE_MAX,
        };
        self.unpacked = self.unpacked.saturating_add(size);
        if size > most {
            return Err(Fault::TooLarge { what: "bytes in a file", most });
        }
        if self.unpacked > self.limits.unpacked {
            return Err(Fault::TooLarge { what: "bytes", most: self.limits.unpacked });
        }
        match entry {
            Entry::Version => self.version(from, size)?,
            Entry::Folder => {}
            Entry::Statuses => {
                let statuses = statuses::decode(&mut *from, size)?;
                once(self.found.statuses.replace(statuses).is_some(), "snapshots/status_cache")?;
            }
            Entry::Fields { slot } => {
                if slot != self.name.slot {
                    return Err(Fault::Slot { place: "the bank's folder", found: slot, expected: self.name.slot });
                }
                let fields = BankFields::decode(&mut *from, size)?;
                once(self.found.fields.replace(fields).is_some(), "the bank's fields")?;
            }
            Entry::Storage { slot, id } => self.storage(from, slot, id, size)?,
        }
        let padding = size.next_multiple_of(BLOCK as u64) - size;
        from.read_exact(&mut [0; BLOCK][..padding as usize]).map_err(Fault::reading)
    }

    fn version(&mut self, from: &mut impl Read, size: u64) -> Result<(), Fault> {
        let mut text = vec![0; size as usize];
        from.read_exact(&mut text).map_err(Fault::reading)?;
        let version = text.trim_ascii();
        if version.strip_prefix(b"v").unwrap_or(version) != VERSION.as_bytes() {
            return Err(Fault::Version(text.escape_ascii().to_string()));
        }
        once(std::mem::replace(&mut self.found.has_version, true), "version")
    }

    fn storage(&mut self, from: &mut impl Read, slot: u64, id: u64, size: u64) -> Result<(), Fault> {
        let fault = |why| Err(Fault::Storage { slot, why });
        if slot > self.name.slot {
            return fault("is later than the snapshot");
        }
        if self.name.base.is_some_and(|base| slot <= base) {
            return fault("is of the full snapshot on which this one builds");
        }
        if size == 0 {
            return fault("is empty");
        }
        if self.found.storages.insert(slot, (id, size)).is_some() {
            return fault("is there twice");
        }
        let (accounts, most) = (&mut self.found.accounts, self.limits.accounts);
        storage::read_accounts(from, size, &mut |key, account| {
            *accounts += 1;
            if *accounts > most {
                return Err(Fault::TooLarge { what: "accounts", most });
            }
            self.sink.account(slot, key, account)
        })
    }
}

fn once(again: bool, name: &str) -> Result<(), Fault> {
    if again { Err(Fault::Entry { name: name.into(), why: "is there twice" }) } else { Ok(()) }
}
