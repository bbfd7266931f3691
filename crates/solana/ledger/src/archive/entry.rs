//! entry: the files in an archive, by the headers of its tar.
//!
//! reads   a header of 512 bytes
//! writes  the same
//! drops   nothing: a name that a snapshot does not have, a link, a sparse file or a device is an error
//! source  `agave-snapshots` 4.2, `hardened_unpack.rs`: the names; the tar layout by the crate `tar`

use std::io::Read;

use tar::{EntryType, Header};

use super::error::Fault;
use super::name::number;

/// Bytes of a header, and what files are padded to.
pub(super) const BLOCK: usize = 512;

/// A file in an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// `version`: the version of the format, as text.
    Version,
    /// A folder, which has a header and no content.
    Folder,
    /// `snapshots/status_cache`: the transactions of the last slots.
    Statuses,
    /// `snapshots/SLOT/SLOT`: the bank's fields.
    Fields {
        /// The slot of the bank.
        slot: u64,
    },
    /// `accounts/SLOT.ID`: accounts that a slot wrote.
    Storage {
        /// The slot whose accounts it holds.
        slot: u64,
        /// The number that the node gave the file.
        id: u64,
    },
}

impl Entry {
    /// The entry's name; of a folder that of the one which holds the others, `snapshots`.
    fn name(self) -> String {
        match self {
            Self::Version => "version".into(),
            Self::Folder => "snapshots/".into(),
            Self::Statuses => "snapshots/status_cache".into(),
            Self::Fields { slot } => format!("snapshots/{slot}/{slot}"),
            Self::Storage { slot, id } => format!("accounts/{slot}.{id}"),
        }
    }

    /// The header of a file with `size` bytes.
    pub fn header(self, size: u64) -> Header {
        header(&self.name(), if self == Self::Folder { EntryType::Directory } else { EntryType::Regular }, size)
    }

    fn parse(name: &str, kind: EntryType) -> Option<Self> {
        let parts: Vec<&str> = name.split('/').collect();
        match (&parts[..], kind) {
            (["version"], EntryType::Regular) => Some(Self::Version),
            (["snapshots", "status_cache"], EntryType::Regular) => Some(Self::Statuses),
            (["snapshots", folder, file], EntryType::Regular) => {
                let slot = number(folder)?;
                (number(file)? == slot).then_some(Self::Fields { slot })
            }
            (["accounts", file], EntryType::Regular) => {
                let (slot, id) = file.split_once('.')?;
                Some(Self::Storage { slot: number(slot)?, id: number(id)? })
            }
            (["accounts" | "snapshots"] | ["accounts" | "snapshots", ""], EntryType::Directory) => Some(Self::Folder),
            (["snapshots", slot] | ["snapshots", slot, ""], EntryType::Directory) => number(slot).map(|_| Self::Folder),
            _ => None,
        }
    }
}

/// The header of the folder `snapshots/SLOT/`.
pub(super) fn folder_of(slot: u64) -> Header {
    header(&format!("snapshots/{slot}/"), EntryType::Directory, 0)
}

fn header(name: &str, kind: EntryType, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_path(name).expect("a short name");
    header.set_entry_type(kind);
    header.set_mode(if kind == EntryType::Directory { 0o755 } else { 0o644 });
    header.set_size(size);
    header.set_cksum();
    header
}

/// Reads the next header: a file and its size. `None` for a block of zeros, with which the end begins.
pub(super) fn read<R: Read>(from: &mut R) -> Result<Option<(Entry, u64)>, Fault> {
    let mut header = Header::new_old();
    from.read_exact(header.as_mut_bytes()).map_err(Fault::reading)?;
    let bytes = header.as_bytes();
    if bytes.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    // The checksum is over the header with spaces in its place.
    let sum = |bytes: &[u8]| bytes.iter().map(|byte| u32::from(*byte)).sum::<u32>();
    let computed = sum(&bytes[..148]) + 8 * u32::from(b' ') + sum(&bytes[156..]);
    if header.cksum().ok() != Some(computed) {
        return Err(Fault::Header);
    }
    let size = header.entry_size().map_err(|_| Fault::Header)?;
    let name = header.path_bytes();
    let entry = std::str::from_utf8(&name).ok().and_then(|name| Entry::parse(name, header.entry_type()));
    match entry {
        Some(Entry::Folder) if size > 0 => Err(Fault::Header),
        Some(entry) => Ok(Some((entry, size))),
        None => Err(Fault::Entry {
            name: name.escape_ascii().to_string(),
            why: "no snapshot of version 1.2.0 has under that name and of that kind",
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Entry; 5] = [
        Entry::Version,
        Entry::Folder,
        Entry::Statuses,
        Entry::Fields { slot: u64::MAX },
        Entry::Storage { slot: u64::MAX, id: u64::MAX },
    ];

    #[test]
    fn headers_come_back() {
        for entry in ALL {
            let size = if entry == Entry::Folder { 0 } else { 12 << 30 };
            let header = entry.header(size);
            assert_eq!(read(&mut &header.as_bytes()[..]).unwrap(), Some((entry, size)));
            assert!(matches!(read(&mut &header.as_bytes()[..511]), Err(Fault::Cut)));
        }
        assert_eq!(read(&mut &folder_of(7).as_bytes()[..]).unwrap(), Some((Entry::Folder, 0)));
        assert_eq!(read(&mut &[0u8; BLOCK][..]).unwrap(), None);
    }

    #[test]
    fn names_and_kinds_that_no_snapshot_has_are_refused() {
        use EntryType::{Directory, Regular};
        let with = |name: &[u8], kind: EntryType| {
            let mut header = Header::new_gnu();
            header.as_mut_bytes()[..name.len()].copy_from_slice(name);
            header.set_entry_type(kind);
            header.set_size(0);
            header.set_cksum();
            read(&mut &header.as_bytes()[..])
        };
        let files: [&[u8]; 20] = [
            b"/version",
            b"./version",
            b"version/",
            b"../version",
            b"Version",
            b"version\xff",
            b"snapshots/7",
            b"snapshots/7/8",
            b"snapshots/7/7/7",
            b"snapshots//7",
            b"snapshots/../version",
            b"snapshots/+7/+7",
            b"accounts/7",
            b"accounts/7.",
            b"accounts/.7",
            b"accounts/7.1.2",
            b"accounts/a.1",
            b"accounts/7.1/",
            b"accounts/99999999999999999999.1",
            b"status_cache",
        ];
        for name in files {
            assert!(matches!(with(name, Regular), Err(Fault::Entry { .. })), "{}", name.escape_ascii());
        }
        for name in [
            &b"version"[..],
            b"accounts/7.1",
            b"snapshots/status_cache",
            b"snapshots/7/7",
            b"/snapshots",
            b"snapshots/a",
        ] {
            assert!(matches!(with(name, Directory), Err(Fault::Entry { .. })), "{}", name.escape_ascii());
        }
        for kind in [
            EntryType::Link,
            EntryType::Symlink,
            EntryType::GNUSparse,
            EntryType::XHeader,
            EntryType::GNULongName,
            EntryType::Char,
        ] {
            assert!(matches!(with(b"accounts/7.1", kind), Err(Fault::Entry { .. })), "{kind:?}");
        }
    }

    #[test]
    fn damaged_headers_are_refused() {
        let header = Entry::Storage { slot: 7, id: 1 }.header(5);
        for at in 0..BLOCK {
            let mut bytes = *header.as_bytes();
            bytes[at] ^= 4;
            assert!(read(&mut &bytes[..]).is_err(), "{at}");
        }
        let mut full = Entry::Folder.header(1);
        assert!(matches!(read(&mut &full.as_bytes()[..]), Err(Fault::Header)));
        full.set_size(0);
        assert!(
            matches!(read(&mut &full.as_bytes()[..]), Err(Fault::Header)),
            "its checksum is that of the other size"
        );
    }
}
