//! name: what an archive's file name says.
//!
//! reads   `snapshot-SLOT-HASH.tar.zst`, `incremental-snapshot-BASE-SLOT-HASH.tar.zst`
//! writes  the same
//! source  `agave-snapshots` 4.2, `paths.rs`

use std::fmt;
use std::path::Path;

use hearth_wire::Hash;
use hearth_wire::base58::{decode_32, encode_32};

use super::error::Fault;

const FULL: &str = "snapshot-";
const INCREMENTAL: &str = "incremental-snapshot-";
const EXTENSION: &str = ".tar.zst";
const OTHER_EXTENSION: &str = ".tar.lz4";

/// The parts of an archive's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArchiveName {
    /// The slot of the full archive on which an incremental one builds; `None` for a full one.
    pub base: Option<u64>,
    /// The slot at whose end the state was.
    pub slot: u64,
    /// The checksum of the accounts' lattice hash.
    pub hash: Hash,
}

impl ArchiveName {
    /// Parses a file name.
    pub fn parse(name: &str) -> Result<Self, Fault> {
        if name.ends_with(OTHER_EXTENSION) {
            return Err(Fault::Lz4);
        }
        let stem = name.strip_suffix(EXTENSION).ok_or(Fault::Name)?;
        let (base, rest) = match stem.strip_prefix(INCREMENTAL) {
            Some(rest) => {
                let (base, rest) = rest.split_once('-').ok_or(Fault::Name)?;
                (Some(number(base).ok_or(Fault::Name)?), rest)
            }
            None => (None, stem.strip_prefix(FULL).ok_or(Fault::Name)?),
        };
        let (slot, hash) = rest.split_once('-').ok_or(Fault::Name)?;
        let slot = number(slot).ok_or(Fault::Name)?;
        let hash = decode_32(hash).map_err(|_| Fault::Name)?;
        if base.is_some_and(|base| base >= slot) {
            return Err(Fault::Name);
        }
        Ok(Self { base, slot, hash })
    }

    /// Parses the last part of a path.
    pub fn of_path(path: &Path) -> Result<Self, Fault> {
        Self::parse(path.file_name().and_then(|name| name.to_str()).ok_or(Fault::Name)?)
    }
}

impl fmt::Display for ArchiveName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.base {
            Some(base) => write!(f, "{INCREMENTAL}{base}-")?,
            None => f.write_str(FULL)?,
        }
        write!(f, "{}-{}{EXTENSION}", self.slot, encode_32(&self.hash))
    }
}

/// A number of digits alone; `parse` alone takes a sign too.
pub(super) fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        for base in [None, Some(7)] {
            let name = ArchiveName { base, slot: 90, hash: [9; 32] };
            assert_eq!(ArchiveName::parse(&name.to_string()).unwrap(), name);
            assert_eq!(ArchiveName::of_path(&Path::new("some/where").join(name.to_string())).unwrap(), name);
        }
        assert!(
            ArchiveName { base: Some(7), slot: 90, hash: [9; 32] }
                .to_string()
                .starts_with("incremental-snapshot-7-90-")
        );
    }

    #[test]
    fn other_names_are_refused() {
        let hash = encode_32(&[9; 32]);
        for name in [
            "snapshot.tar.zst".to_owned(),
            format!("snapshot-1-{hash}.tar"),
            format!("snapshot-1-{hash}.tar.zst.part"),
            format!("snapshot-+1-{hash}.tar.zst"),
            format!("snapshot--{hash}.tar.zst"),
            format!("snapshot-99999999999999999999-{hash}.tar.zst"),
            format!("snapshot-1-{hash}x.tar.zst"),
            "snapshot-1-0.tar.zst".to_owned(),
            format!("incremental-snapshot-1-{hash}.tar.zst"),
            format!("incremental-snapshot-2-1-{hash}.tar.zst"),
            format!("incremental-snapshot-2-2-{hash}.tar.zst"),
            format!("tmp-snapshot-1-{hash}.tar.zst"),
        ] {
            assert!(matches!(ArchiveName::parse(&name), Err(Fault::Name)), "{name}");
        }
        assert!(matches!(ArchiveName::parse(&format!("snapshot-1-{hash}.tar.lz4")), Err(Fault::Lz4)));
    }
}
