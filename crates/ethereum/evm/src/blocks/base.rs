//! The first block of a folder, if that is not block 1: `base`.
//!
//! ```text
//! magic 8 | chain id u64 | hash of block zero 32 | first u64 | headers in RLP | crc u32
//! ```
//!
//! The headers are those before the first block, newest first, as far as `BLOCKHASH` reaches: a snapshot of a later
//! state needs them.

use std::fs;
use std::io;
use std::path::Path;

use alloy_consensus::Header;
use alloy_primitives::B256;
use alloy_rlp::{Decodable, Encodable};
use hearth_wal::store_file;

use super::BlocksError;
use super::segment::SegmentHead;

const MAGIC: &[u8; 8] = b"HRTHBLB1";
const NAME: &str = "base";
const HEAD_BYTES: usize = 8 + 8 + 32 + 8;
/// Maximum headers that are kept.
pub(super) const HEADERS_MAX: u64 = 256;

/// The first block of a folder, and the headers before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Base {
    /// The first block's number.
    pub first: u64,
    /// The headers of the blocks before it, newest first.
    pub headers: Vec<Header>,
}

impl Base {
    /// Reads a folder's file; by default, the blocks begin with the first.
    pub(super) fn read(dir: &Path, wanted: &SegmentHead) -> Result<Self, BlocksError> {
        let path = dir.join(NAME);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Self { first: 1, headers: Vec::new() });
            }
            Err(source) => return Err(BlocksError::Io { what: "read", path, source }),
        };
        let damaged = |what| BlocksError::Damaged { path: path.clone(), offset: 0, what };
        let (said, sum) = bytes.split_at_checked(bytes.len().wrapping_sub(4)).ok_or(damaged("it is too short"))?;
        if said.len() < HEAD_BYTES || said[..8] != MAGIC[..] || crc32fast::hash(said).to_le_bytes() != sum {
            return Err(damaged("its checksum is wrong"));
        }
        let long = |at: usize| u64::from_le_bytes(said[at..at + 8].try_into().expect("eight bytes"));
        let (found_id, found) = (long(8), B256::from_slice(&said[16..48]));
        if (found_id, found) != (wanted.chain_id, wanted.zero) {
            let SegmentHead { chain_id: wanted_id, zero: wanted } = *wanted;
            return Err(BlocksError::OtherChain { path, found_id, found, wanted_id, wanted });
        }
        let (mut rest, mut headers) = (&said[HEAD_BYTES..], Vec::new());
        while !rest.is_empty() {
            headers.push(Header::decode(&mut rest).map_err(|_| damaged("a header does not decode"))?);
        }
        Ok(Self { first: long(48), headers })
    }

    /// Puts it in the folder, in the place of the one before, and on the disk.
    pub(super) fn write(&self, dir: &Path, of: &SegmentHead) -> Result<(), BlocksError> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(of.chain_id.to_le_bytes());
        bytes.extend(of.zero);
        bytes.extend(self.first.to_le_bytes());
        self.headers.iter().for_each(|header| header.encode(&mut bytes));
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        let (path, part) = (dir.join(NAME), dir.join("base.part"));
        store_file::put(&part, &path, &bytes).map_err(|source| BlocksError::Io {
            what: "write",
            path: path.clone(),
            source,
        })
    }

    /// The header of a block before the first.
    pub(super) fn header(&self, number: u64) -> Option<Header> {
        let back = usize::try_from(self.first.checked_sub(number + 1)?).ok()?;
        self.headers.get(back).cloned()
    }
}
