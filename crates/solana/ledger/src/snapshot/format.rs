//! format: the byte layout of a snapshot file (no I/O).
//!
//! reads   chunk headers and contents
//! writes  the same
//! source  our own format, version [`VERSION`]; all integers little endian
//!
//! A file is a line of chunks: one head, then statuses, accounts and the vote accounts of epochs' stakes in any order,
//! the manifest, the end. A chunk is
//! `magic u32 | kind u16 | codec u16 | number u32 | size u32 | stored size u32 | crc u32 | stored bytes`. The
//! checksum (CRC-32, IEEE) covers the header without it, and the stored bytes. The end holds a SHA-256 digest over
//! the headers of all chunks before it, so that chunks of two files cannot be mixed, and sums over the accounts.

use super::error::Fault;
use crate::seed::Seed;

/// Version of the format, stored in each file's first chunk.
pub const VERSION: u32 = 3;

pub(super) const CHUNK_HEAD_SIZE: usize = 24;
/// A chunk is closed once its content has this length: accounts are not split.
pub(super) const CHUNK_SIZE: usize = 1 << 20;
/// The longest content: a chunk that was not quite full, and the largest account.
pub(super) const CHUNK_SIZE_MAX: usize = CHUNK_SIZE + (11 << 20);
/// The longest manifest: while rewards are distributed it has 250 B for each stake that waits for its own, so this is
/// enough for a million.
pub(super) const MANIFEST_SIZE_MAX: usize = 256 << 20;

const MAGIC: [u8; 4] = *b"hSnp";
const CODEC_PLAIN: u16 = 0;
const CODEC_ZSTD: u16 = 1;
/// The fastest level: a snapshot is written beside a running node.
const ZSTD_LEVEL: i32 = 1;

/// The type of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// First chunk, once: [`Head`].
    Head,
    /// Landed messages: key (16 bytes), height from which each expires (4).
    Claims,
    /// Results: key, slot, status (8 bytes each), height from which each expires (4).
    Statuses,
    /// Accounts, each as account.rs encodes it.
    Accounts,
    /// Last but one, once: everything else, as JSON.
    Manifest,
    /// Last chunk, once: [`EndChunk`].
    End,
    /// Vote accounts as they were when the stakes of an epoch were counted: epoch (8 bytes), account (account.rs).
    VoteAccounts,
}

impl Kind {
    const ALL: [Self; 7] =
        [Self::Head, Self::Claims, Self::Statuses, Self::Accounts, Self::Manifest, Self::End, Self::VoteAccounts];

    fn of(number: u16) -> Option<Self> {
        Self::ALL.get(usize::from(number).checked_sub(1)?).copied()
    }

    fn number(self) -> u16 {
        self as u16 + 1
    }

    /// The longest content of such a chunk.
    fn size_max(self) -> usize {
        if self == Self::Manifest { MANIFEST_SIZE_MAX } else { CHUNK_SIZE_MAX }
    }
}

/// The decoded header of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChunkHead {
    pub kind: Kind,
    pub packed: bool,
    pub number: u32,
    /// Bytes of the content.
    pub size: u32,
    /// Bytes in the file.
    pub stored: u32,
    pub crc: u32,
}

/// Compresses a content if that makes it shorter, and prepends a header.
pub(super) fn encode_chunk(kind: Kind, number: u32, content: &[u8]) -> Vec<u8> {
    let packed = match kind {
        Kind::Head | Kind::End => None,
        _ => zstd::bulk::compress(content, ZSTD_LEVEL).ok().filter(|packed| packed.len() < content.len()),
    };
    let codec = if packed.is_some() { CODEC_ZSTD } else { CODEC_PLAIN };
    let stored = packed.as_deref().unwrap_or(content);
    let mut out = Vec::with_capacity(CHUNK_HEAD_SIZE + stored.len());
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&kind.number().to_le_bytes());
    out.extend_from_slice(&codec.to_le_bytes());
    out.extend_from_slice(&number.to_le_bytes());
    out.extend_from_slice(&(content.len() as u32).to_le_bytes());
    out.extend_from_slice(&(stored.len() as u32).to_le_bytes());
    let crc = checksum(&out, stored);
    out.extend_from_slice(&crc.to_le_bytes());
    out.extend_from_slice(stored);
    out
}

/// Parses the header of the chunk that should have this number.
pub(super) fn decode_head(bytes: &[u8; CHUNK_HEAD_SIZE], expected: u32) -> Result<ChunkHead, Fault> {
    if bytes[..4] != MAGIC {
        return Err(Fault::Magic);
    }
    let u16_at = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    let u32_at = |at: usize| u32::from_le_bytes(*bytes[at..].first_chunk().expect("within the header"));
    let (codec, number, size, stored) = (u16_at(6), u32_at(8), u32_at(12), u32_at(16));
    let sized = |max: usize| size as usize <= max && stored <= size && (codec != CODEC_PLAIN || stored == size);
    match Kind::of(u16_at(4)) {
        Some(_) if number != expected => Err(Fault::Order { found: number, expected }),
        Some(kind) if sized(kind.size_max()) && codec <= CODEC_ZSTD => {
            Ok(ChunkHead { kind, packed: codec == CODEC_ZSTD, number, size, stored, crc: u32_at(20) })
        }
        _ => Err(Fault::Header),
    }
}

/// Verifies a chunk's stored bytes and returns its content.
pub(super) fn unpack(head: &ChunkHead, bytes: &[u8; CHUNK_HEAD_SIZE], stored: Vec<u8>) -> Result<Vec<u8>, Fault> {
    let computed = checksum(&bytes[..CHUNK_HEAD_SIZE - 4], &stored);
    if head.crc != computed {
        return Err(Fault::Checksum { stored: head.crc, computed });
    }
    if !head.packed {
        return Ok(stored);
    }
    let content = zstd::bulk::decompress(&stored, head.size as usize);
    content.ok().filter(|content| content.len() == head.size as usize).ok_or(Fault::Content("it does not unpack"))
}

fn checksum(head: &[u8], stored: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(head);
    hasher.update(stored);
    hasher.finalize()
}

/// The first chunk of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub version: u32,
    pub slot: u64,
    pub height: u64,
    pub genesis_hash: [u8; 32],
    /// The seed of the statuses' keys.
    pub seed: Seed,
}

impl Head {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = self.version.to_le_bytes().to_vec();
        out.extend_from_slice(&self.slot.to_le_bytes());
        out.extend_from_slice(&self.height.to_le_bytes());
        out.extend_from_slice(&self.genesis_hash);
        self.seed.to_words().iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
        out
    }

    /// For another version only the version is parsed.
    pub fn decode(bytes: &[u8]) -> Option<Result<Self, u32>> {
        let version = u32::from_le_bytes(*bytes.first_chunk()?);
        if version != VERSION {
            return Some(Err(version));
        }
        let (slot, height) = (u64_at(bytes, 4)?, u64_at(bytes, 12)?);
        let genesis_hash = *bytes.get(20..)?.first_chunk()?;
        let mut words = [0; 6];
        for (at, word) in words.iter_mut().enumerate() {
            *word = u64_at(bytes, 52 + 8 * at)?;
        }
        let seed = Seed::from_words(words);
        (bytes.len() == 100).then_some(Ok(Self { version, slot, height, genesis_hash, seed }))
    }
}

/// The last chunk of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EndChunk {
    pub accounts: u64,
    pub lamports: u128,
    pub digest: [u8; 32],
}

impl EndChunk {
    pub fn encode(&self) -> Vec<u8> {
        [&self.accounts.to_le_bytes()[..], &self.lamports.to_le_bytes(), &self.digest].concat()
    }

    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; 56] = bytes.try_into().ok()?;
        Some(Self {
            accounts: u64_at(bytes, 0)?,
            lamports: u128::from_le_bytes(*bytes[8..].first_chunk()?),
            digest: *bytes[24..].first_chunk()?,
        })
    }
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}
