//! `genesis.tar.bz2`: the genesis as nodes offer it to those that join.
//!
//! reads   an archive of any origin
//! writes  an archive that holds `genesis.bin` and nothing else
//! memory  the genesis; for reading at most the limit that the caller names
//! drops   an archive without a genesis, with a larger one, or that unpacks to much more: a text that says so. Nothing
//!         is written to a disk, so names in the archive do no harm
//! source  `create_new_ledger` of `solana-ledger` 4.2, `hardened_unpack.rs` of `solana-genesis-utils` 4.2

use std::io::{self, Read};

use tar::EntryType;

/// The genesis's name in an archive and in a ledger folder.
pub const GENESIS_NAME: &str = "genesis.bin";
/// The archive's name in a ledger folder, and its path at a node's RPC port.
pub const ARCHIVE_NAME: &str = "genesis.tar.bz2";
/// Unpacked bytes around the genesis that are read: headers, and the first blocks that Agave adds to it.
const AROUND_MAX: u64 = 64 << 20;

/// Packs the bytes of a genesis as `genesis.bin` in a tar archive compressed with bzip2.
pub fn pack(genesis: &[u8]) -> io::Result<Vec<u8>> {
    let packer = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::best());
    let mut archive = tar::Builder::new(packer);
    let mut header = tar::Header::new_gnu();
    header.set_size(genesis.len() as u64);
    header.set_mode(0o644);
    archive.append_data(&mut header, GENESIS_NAME, genesis)?;
    archive.into_inner()?.finish()
}

/// Unpacks the genesis, of at most `bytes_max` bytes.
pub fn unpack(archive: impl Read, bytes_max: u64) -> Result<Vec<u8>, String> {
    unpack_within(archive, bytes_max, AROUND_MAX)
}

/// As [`unpack`]; what comes before the genesis may have `around_max` bytes.
fn unpack_within(archive: impl Read, bytes_max: u64, around_max: u64) -> Result<Vec<u8>, String> {
    let broken = |why: io::Error| format!("the archive cannot be unpacked: {why}");
    let limit = bytes_max.saturating_add(around_max);
    let mut archive = tar::Archive::new(bzip2::read::BzDecoder::new(archive).take(limit));
    // Raw: extensions, such as long names, would be read into memory at their own length.
    for entry in archive.entries().map_err(broken)?.raw(true) {
        let entry = entry.map_err(broken)?;
        if !is_genesis(&entry.path_bytes()) || entry.header().entry_type() != EntryType::Regular {
            continue;
        }
        let size = entry.size();
        if size > bytes_max {
            return Err(format!("its {GENESIS_NAME} has {size} bytes, more than {bytes_max}"));
        }
        let mut genesis = vec![];
        entry.take(size).read_to_end(&mut genesis).map_err(broken)?;
        if genesis.len() as u64 != size {
            return Err(format!("its {GENESIS_NAME} ends after {} of {size} bytes", genesis.len()));
        }
        return Ok(genesis);
    }
    Err(format!("it has no {GENESIS_NAME}"))
}

fn is_genesis(name: &[u8]) -> bool {
    name.strip_prefix(b"./").unwrap_or(name) == GENESIS_NAME.as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An archive with these entries: name, type, the size that its header says, content.
    fn archive(entries: &[(&str, EntryType, u64, &[u8])]) -> Vec<u8> {
        let mut tar: Vec<u8> = vec![];
        for (name, kind, size, content) in entries {
            let mut header = tar::Header::new_gnu();
            // Unchecked, as a hostile peer would write it.
            header.as_gnu_mut().expect("it is new").name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_entry_type(*kind);
            header.set_size(*size);
            header.set_mode(0o644);
            header.set_cksum();
            tar.extend(header.as_bytes());
            tar.extend(*content);
            tar.resize(tar.len().next_multiple_of(512), 0);
        }
        tar.resize(tar.len() + 1024, 0);
        packed(&tar)
    }

    fn packed(bytes: &[u8]) -> Vec<u8> {
        use std::io::Write;
        let mut packer = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
        packer.write_all(bytes).unwrap();
        packer.finish().unwrap()
    }

    #[test]
    fn a_genesis_survives_it() {
        for size in [0, 1, 511, 512, 100_000] {
            let genesis: Vec<u8> = (0..size as u64).map(|n| (n * n % 1_009 / 7) as u8).collect();
            let archive = pack(&genesis).unwrap();
            assert_eq!(unpack(&archive[..], 100_000), Ok(genesis), "{size}");
        }
    }

    #[test]
    fn extra_files_of_agave_are_skipped() {
        let (regular, block) = (EntryType::Regular, [7; 700]);
        let packed = archive(&[
            ("rocksdb/", EntryType::Directory, 0, b""),
            ("rocksdb/000042.log", regular, 700, &block),
            ("../../etc/genesis.bin", regular, 4, b"evil"),
            ("/genesis.bin", regular, 4, b"evil"),
            ("genesis.bin", EntryType::Symlink, 0, b""),
            ("genesis.bin", regular, 4, b"good"),
        ]);
        assert_eq!(unpack(&packed[..], 1_000), Ok(b"good".to_vec()));
    }

    #[test]
    fn hostile_archives_are_refused() {
        let regular = EntryType::Regular;
        let refused = |bytes: &[u8]| unpack(bytes, 1_000).unwrap_err();
        let none = refused(&archive(&[("other", regular, 3, b"abc")]));
        assert!(none.contains("no genesis.bin"), "{none}");
        let large = refused(&archive(&[("genesis.bin", regular, 1_001, &[0; 1_001])]));
        assert!(large.contains("more than 1000"), "{large}");
        let lying = refused(&archive(&[("genesis.bin", regular, u64::MAX / 2, b"abc")]));
        assert!(lying.contains("more than 1000"), "{lying}");
        let whole = pack(&[5; 900]).unwrap();
        for end in 0..whole.len() - 20 {
            assert!(unpack(&whole[..end], 1_000).is_err(), "cut at {end}");
        }
        assert!(unpack(&b"no archive at all"[..], 1_000).is_err());
    }

    #[test]
    fn a_bomb_ends_at_the_limit() {
        const AROUND: u64 = 100_000;
        let zeros = vec![0; 400_000];
        let genesis = ("genesis.bin", EntryType::Regular, 4, &b"late"[..]);
        // A file in front of the genesis, and a name that would be held.
        for (name, kind) in [("bomb", EntryType::Regular), ("././@LongLink", EntryType::GNULongName)] {
            let bomb = archive(&[(name, kind, zeros.len() as u64, &zeros), genesis]);
            assert!(bomb.len() < 5_000, "{} bytes", bomb.len());
            assert!(unpack_within(&bomb[..], 1_000, AROUND).is_err(), "{name}");
            assert_eq!(unpack_within(&bomb[..], 1_000, 10 * AROUND), Ok(b"late".to_vec()), "{name}");
        }
    }
}
