//! A value of gossip's table: data published by a node, with its signature.
//!
//! reads   a signature and data at the front of more bytes
//! writes  data to be signed
//! memory  a value borrows; the lists of two kinds take 40 B for at least 28 B received
//! drops   what breaks a rule of its kind: the whole datagram is refused
//! source  `solana-gossip` 4.2.2, `crds_value.rs`, `crds_data.rs`, `duplicate_shred.rs`, `restart_crds_values.rs`
//!
//! The signed data starts with the tag. Its encoding is canonical, so the received bytes are the signed ones, and
//! verifying a signature needs no reserialization.

use super::contact::ContactInfo;
use super::read::{GossipErrorKind, Reader, Result, write_u32, write_u64};
use super::slots::{SlotRun, read_bit_vector};
use super::vote::read_transaction;
use super::{
    EPOCH_SLOTS_INDEX_END, MAX_DUPLICATE_SHREDS, MAX_SLOT, MAX_WALLCLOCK, SIGNATURE_SIZE, VALUE_SIZE_MAX,
    VOTE_INDEX_END,
};
use crate::consts::{Hash, Pubkey, Signature};

/// The data of a value. The tag on the wire is that of [`CrdsKind`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant)]
pub enum CrdsData<'a> {
    /// One of the recent vote transactions of a node.
    Vote(Vote<'a>),
    /// The lowest slot for which a node has shreds.
    LowestSlot(LowestSlot),
    /// Slots that a node has completely.
    EpochSlots(EpochSlots<'a>),
    /// A piece of a proof that a leader produced two blocks for a slot.
    DuplicateShred(DuplicateShred<'a>),
    /// Snapshots that a node serves.
    SnapshotHashes(SnapshotHashes),
    /// A node's contact info.
    ContactInfo(ContactInfo),
    /// Data of a cluster restart, which is skipped.
    Restart(Restart<'a>),
}

/// A vote transaction that a node publishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vote<'a> {
    /// Index among the node's votes; below [`VOTE_INDEX_END`].
    pub index: u8,
    /// The identity of the node that publishes the vote, which signs the value.
    pub from: Pubkey,
    /// A legacy transaction in wire format; its signatures are not verified.
    pub transaction: &'a [u8],
    /// The last slot that it votes for; parsed from the transaction, and not written.
    pub slot: Option<u64>,
    /// Unix time in milliseconds when the node made the value; below [`MAX_WALLCLOCK`].
    pub wallclock: u64,
}

/// The lowest slot for which a node has shreds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LowestSlot {
    /// The identity of the node that has the shreds, which signs the value.
    pub from: Pubkey,
    /// The lowest slot with shreds; below [`MAX_SLOT`].
    pub lowest: u64,
    /// Unix time in milliseconds when the node made the value; below [`MAX_WALLCLOCK`].
    pub wallclock: u64,
}

/// Slots that a node has completely.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EpochSlots<'a> {
    /// Index among the node's values; below [`EPOCH_SLOTS_INDEX_END`].
    pub index: u8,
    /// The identity of the node that has the slots, which signs the value.
    pub from: Pubkey,
    /// The slots as bit sets, each of a run of consecutive ones.
    pub runs: Vec<SlotRun<'a>>,
    /// Unix time in milliseconds when the node made the value; below [`MAX_WALLCLOCK`].
    pub wallclock: u64,
}

/// A piece of a duplicate proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DuplicateShred<'a> {
    /// Index among the node's pieces; below [`MAX_DUPLICATE_SHREDS`].
    pub index: u16,
    /// The node that publishes the proof.
    pub from: Pubkey,
    /// Unix time in milliseconds when the node made the value; below [`MAX_WALLCLOCK`].
    pub wallclock: u64,
    /// The slot with two blocks; not range-checked.
    pub slot: u64,
    /// No longer in use.
    pub unused: u32,
    /// No longer in use; [`super::DUPLICATE_SHRED_TYPE`] is sent.
    pub shred_type: u8,
    /// Number of pieces of the proof.
    pub chunk_count: u8,
    /// Index of this piece; below `chunk_count`.
    pub chunk_index: u8,
    /// The bytes of the piece.
    pub chunk: &'a [u8],
}

/// Snapshots that a node serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotHashes {
    /// The identity of the node that serves the snapshots, which signs the value.
    pub from: Pubkey,
    /// Slot and hash of the full snapshot.
    pub full: (u64, Hash),
    /// Slots and hashes of the incremental ones; each slot is above the full one's.
    pub incremental: Vec<(u64, Hash)>,
    /// Unix time in milliseconds when the node made the value; below [`MAX_WALLCLOCK`].
    pub wallclock: u64,
}

/// Data of a cluster restart, unparsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restart<'a> {
    /// One of [`CrdsKind::RestartLastVotedForkSlots`] and [`CrdsKind::RestartHeaviestFork`].
    pub kind: CrdsKind,
    /// The identity of the node that restarts, which signs the value.
    pub from: Pubkey,
    /// Unix time in milliseconds when the node made the value; below [`MAX_WALLCLOCK`].
    pub wallclock: u64,
    /// The bytes after these two.
    pub rest: &'a [u8],
}

/// The kinds in use, by tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
pub enum CrdsKind {
    /// Kind of a [`CrdsData::Vote`].
    Vote = 1,
    /// Kind of a [`CrdsData::LowestSlot`].
    LowestSlot = 2,
    /// Kind of a [`CrdsData::EpochSlots`].
    EpochSlots = 5,
    /// Kind of a [`CrdsData::DuplicateShred`].
    DuplicateShred = 9,
    /// Kind of a [`CrdsData::SnapshotHashes`].
    SnapshotHashes = 10,
    /// Kind of a [`CrdsData::ContactInfo`].
    ContactInfo = 11,
    /// Kind of a [`CrdsData::Restart`] with the slots of the fork that the node last voted on.
    RestartLastVotedForkSlots = 12,
    /// Kind of a [`CrdsData::Restart`] with the fork that the node finds heaviest.
    RestartHeaviestFork = 13,
}

/// The key of a value in the table: node, kind, and an index that is 0 for a kind without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Label {
    /// The identity of the node that published the value.
    pub pubkey: Pubkey,
    /// The kind of value.
    pub kind: CrdsKind,
    /// The index within the kind.
    pub index: u16,
}

impl CrdsKind {
    fn read(reader: &mut Reader<'_>) -> Result<Self> {
        let at = reader.at();
        Ok(match reader.u32()? {
            1 => Self::Vote,
            2 => Self::LowestSlot,
            5 => Self::EpochSlots,
            9 => Self::DuplicateShred,
            10 => Self::SnapshotHashes,
            11 => Self::ContactInfo,
            12 => Self::RestartLastVotedForkSlots,
            13 => Self::RestartHeaviestFork,
            0 | 3 | 4 | 6 | 7 | 8 => return Err(Reader::error(GossipErrorKind::Deprecated, at)),
            _ => return Err(Reader::error(GossipErrorKind::Tag, at)),
        })
    }
}

impl<'a> CrdsData<'a> {
    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self> {
        Ok(match CrdsKind::read(reader)? {
            CrdsKind::Vote => Self::Vote(Vote::read(reader)?),
            CrdsKind::LowestSlot => Self::LowestSlot(LowestSlot::read(reader)?),
            CrdsKind::EpochSlots => Self::EpochSlots(EpochSlots::read(reader)?),
            CrdsKind::DuplicateShred => Self::DuplicateShred(DuplicateShred::read(reader)?),
            CrdsKind::SnapshotHashes => Self::SnapshotHashes(SnapshotHashes::read(reader)?),
            CrdsKind::ContactInfo => Self::ContactInfo(ContactInfo::read(reader)?),
            kind => Self::Restart(Restart::read(kind, reader)?),
        })
    }

    /// Parses exactly the data of a value, tag included.
    ///
    /// # Errors
    ///
    /// The first violated rule.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        let data = Self::read(&mut reader)?;
        reader.end().map(|()| data)
    }

    /// The key of the value.
    pub fn label(&self) -> Label {
        let (pubkey, kind, index) = match self {
            Self::Vote(vote) => (vote.from, CrdsKind::Vote, u16::from(vote.index)),
            Self::LowestSlot(lowest) => (lowest.from, CrdsKind::LowestSlot, 0),
            Self::EpochSlots(slots) => (slots.from, CrdsKind::EpochSlots, u16::from(slots.index)),
            Self::DuplicateShred(piece) => (piece.from, CrdsKind::DuplicateShred, piece.index),
            Self::SnapshotHashes(hashes) => (hashes.from, CrdsKind::SnapshotHashes, 0),
            Self::ContactInfo(node) => (node.pubkey, CrdsKind::ContactInfo, 0),
            Self::Restart(restart) => (restart.from, restart.kind, 0),
        };
        Label { pubkey, kind, index }
    }

    /// Its time in ms.
    pub fn wallclock(&self) -> u64 {
        match self {
            Self::Vote(vote) => vote.wallclock,
            Self::LowestSlot(lowest) => lowest.wallclock,
            Self::EpochSlots(slots) => slots.wallclock,
            Self::DuplicateShred(piece) => piece.wallclock,
            Self::SnapshotHashes(hashes) => hashes.wallclock,
            Self::ContactInfo(node) => node.wallclock,
            Self::Restart(restart) => restart.wallclock,
        }
    }

    /// Sets its time, in Unix milliseconds; the value must then be signed again.
    pub fn set_wallclock(&mut self, wallclock: u64) {
        let said = match self {
            Self::Vote(vote) => &mut vote.wallclock,
            Self::LowestSlot(lowest) => &mut lowest.wallclock,
            Self::EpochSlots(slots) => &mut slots.wallclock,
            Self::DuplicateShred(piece) => &mut piece.wallclock,
            Self::SnapshotHashes(hashes) => &mut hashes.wallclock,
            Self::ContactInfo(node) => &mut node.wallclock,
            Self::Restart(restart) => &mut restart.wallclock,
        };
        *said = wallclock;
    }

    /// Appends tag and data, which are the signed bytes.
    pub fn write(&self, out: &mut Vec<u8>) {
        write_u32(self.label().kind as u32, out);
        match self {
            Self::Vote(vote) => vote.write(out),
            Self::LowestSlot(lowest) => lowest.write(out),
            Self::EpochSlots(slots) => slots.write(out),
            Self::DuplicateShred(piece) => piece.write(out),
            Self::SnapshotHashes(hashes) => hashes.write(out),
            Self::ContactInfo(node) => node.write(out),
            Self::Restart(restart) => {
                out.extend_from_slice(&restart.from);
                write_u64(restart.wallclock, out);
                out.extend_from_slice(restart.rest);
            }
        }
    }
}

impl<'a> Vote<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self> {
        let at = reader.at();
        let index = reader.u8()?;
        Reader::check(index < VOTE_INDEX_END, GossipErrorKind::Range, at)?;
        let from = reader.array()?;
        let (transaction, slot) = read_transaction(reader)?;
        Ok(Self { index, from, transaction, slot, wallclock: reader.below(MAX_WALLCLOCK)? })
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.push(self.index);
        out.extend_from_slice(&self.from);
        out.extend_from_slice(self.transaction);
        write_u64(self.wallclock, out);
    }
}

impl LowestSlot {
    fn read(reader: &mut Reader<'_>) -> Result<Self> {
        let at = reader.at();
        Reader::check(reader.u8()? == 0, GossipErrorKind::NotEmpty, at)?;
        let from = reader.array()?;
        reader.zero()?;
        let lowest = reader.below(MAX_SLOT)?;
        reader.zero()?;
        reader.zero()?;
        Ok(Self { from, lowest, wallclock: reader.below(MAX_WALLCLOCK)? })
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.push(0);
        out.extend_from_slice(&self.from);
        // A root, then the slot, then slots and bytes: three of these are no longer in use.
        [0, self.lowest, 0, 0, self.wallclock].iter().for_each(|number| write_u64(*number, out));
    }
}

impl<'a> EpochSlots<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self> {
        let at = reader.at();
        let index = reader.u8()?;
        Reader::check(index < EPOCH_SLOTS_INDEX_END, GossipErrorKind::Range, at)?;
        let from = reader.array()?;
        // Tag, first slot, count; then at least one byte and a length.
        let count = reader.count(4 + 8 + 8 + 8)?;
        let runs = (0..count).map(|_| SlotRun::read(reader)).collect::<Result<_>>()?;
        Ok(Self { index, from, runs, wallclock: reader.below(MAX_WALLCLOCK)? })
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.push(self.index);
        out.extend_from_slice(&self.from);
        write_u64(self.runs.len() as u64, out);
        self.runs.iter().for_each(|run| run.write(out));
        write_u64(self.wallclock, out);
    }
}

impl<'a> DuplicateShred<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self> {
        let at = reader.at();
        let index = reader.u16()?;
        Reader::check(index < MAX_DUPLICATE_SHREDS, GossipErrorKind::Range, at)?;
        let (from, wallclock) = (reader.array()?, reader.below(MAX_WALLCLOCK)?);
        let (slot, unused, shred_type) = (reader.u64()?, reader.u32()?, reader.u8()?);
        let at = reader.at();
        let (chunk_count, chunk_index) = (reader.u8()?, reader.u8()?);
        Reader::check(chunk_index < chunk_count, GossipErrorKind::Range, at)?;
        let chunk = reader.bytes()?;
        Ok(Self { index, from, wallclock, slot, unused, shred_type, chunk_count, chunk_index, chunk })
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.index.to_le_bytes());
        out.extend_from_slice(&self.from);
        write_u64(self.wallclock, out);
        write_u64(self.slot, out);
        write_u32(self.unused, out);
        out.extend_from_slice(&[self.shred_type, self.chunk_count, self.chunk_index]);
        write_u64(self.chunk.len() as u64, out);
        out.extend_from_slice(self.chunk);
    }
}

impl SnapshotHashes {
    fn read(reader: &mut Reader<'_>) -> Result<Self> {
        let from = reader.array()?;
        let full: (u64, Hash) = (reader.below(MAX_SLOT)?, reader.array()?);
        let count = reader.count(8 + 32)?;
        let mut incremental = Vec::with_capacity(count);
        for _ in 0..count {
            let at = reader.at();
            let slot = reader.below(MAX_SLOT)?;
            Reader::check(slot > full.0, GossipErrorKind::Range, at)?;
            incremental.push((slot, reader.array()?));
        }
        Ok(Self { from, full, incremental, wallclock: reader.below(MAX_WALLCLOCK)? })
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.from);
        write_u64(self.full.0, out);
        out.extend_from_slice(&self.full.1);
        write_u64(self.incremental.len() as u64, out);
        for (slot, hash) in &self.incremental {
            write_u64(*slot, out);
            out.extend_from_slice(hash);
        }
        write_u64(self.wallclock, out);
    }
}

impl<'a> Restart<'a> {
    fn read(kind: CrdsKind, reader: &mut Reader<'a>) -> Result<Self> {
        let (from, wallclock, start) = (reader.array()?, reader.below(MAX_WALLCLOCK)?, reader.at());
        if kind == CrdsKind::RestartLastVotedForkSlots {
            let at = reader.at();
            match reader.u32()? {
                // Lengths of runs of slots, alternately voted for and not.
                0 => {
                    for _ in 0..reader.count(1)? {
                        reader.varint_u16()?;
                    }
                }
                1 => drop(read_bit_vector(reader)?),
                _ => return Err(Reader::error(GossipErrorKind::Tag, at)),
            }
            // The last slot voted for and its hash, then the shred version.
            reader.take(8 + 32 + 2)?;
        } else {
            // A slot and its hash, a stake, the shred version.
            reader.take(8 + 32 + 8 + 2)?;
        }
        Ok(Self { kind, from, wallclock, rest: reader.since(start) })
    }
}

/// A received value: a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrdsValue<'a> {
    bytes: &'a [u8],
    data: CrdsData<'a>,
}

impl<'a> CrdsValue<'a> {
    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self> {
        let start = reader.at();
        reader.take(SIGNATURE_SIZE)?;
        let data = CrdsData::read(reader)?;
        let bytes = reader.since(start);
        Reader::check(bytes.len() <= VALUE_SIZE_MAX, GossipErrorKind::TooLong, start)?;
        Ok(Self { bytes, data })
    }

    /// Parses exactly a value. The signature is not verified.
    ///
    /// # Errors
    ///
    /// The first violated rule.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        let value = Self::read(&mut reader)?;
        reader.end().map(|()| value)
    }

    /// Signature and data, over which the value's hash is SHA-256.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The signature of [`Label::pubkey`] over [`Self::signed`].
    pub fn signature(&self) -> &'a Signature {
        self.bytes.first_chunk().expect("a value begins with its signature")
    }

    /// The bytes after the signature: tag and data, which the signature covers.
    pub fn signed(&self) -> &'a [u8] {
        &self.bytes[SIGNATURE_SIZE..]
    }

    /// The data, parsed when the value was read.
    pub fn data(&self) -> &CrdsData<'a> {
        &self.data
    }

    /// The key of the value.
    pub fn label(&self) -> Label {
        self.data.label()
    }

    /// Its time in ms.
    pub fn wallclock(&self) -> u64 {
        self.data.wallclock()
    }
}
