//! A value of the table that gossip spreads: what a node says of itself, and its signature.
//!
//! reads   a signature and data at the front of more bytes
//! writes  data, to be signed
//! memory  a value borrows; the lists of two kinds take 40 B for at least 28 B that came
//! drops   what breaks a rule of its kind: the whole datagram is refused
//! source  `solana-gossip` 4.2.2, `crds_value.rs`, `crds_data.rs`, `duplicate_shred.rs`, `restart_crds_values.rs`
//!
//! The data that is signed begins with the tag. There is one form of it only, so the bytes that came are those that
//! were signed, and nothing is written again to check a signature.

use super::contact::ContactInfo;
use super::read::{GossipErrorKind, Reader, Result, write_u32, write_u64};
use super::slots::{SlotRun, read_bit_vector};
use super::vote::read_transaction;
use super::{
    EPOCH_SLOTS_INDEX_END, MAX_DUPLICATE_SHREDS, MAX_SLOT, MAX_WALLCLOCK, SIGNATURE_SIZE, VALUE_SIZE_MAX,
    VOTE_INDEX_END,
};
use crate::consts::{Hash, Pubkey, Signature};

/// What a value says. The tag on the wire is that of [`CrdsKind`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant)]
pub enum CrdsData<'a> {
    /// A vote.
    Vote(Vote<'a>),
    /// The lowest slot of which a node has shreds.
    LowestSlot(LowestSlot),
    /// Slots that a node has in whole.
    EpochSlots(EpochSlots<'a>),
    /// A piece of a proof that a leader made two blocks for a slot.
    DuplicateShred(DuplicateShred<'a>),
    /// Snapshots that a node serves.
    SnapshotHashes(SnapshotHashes),
    /// Who a node is and where.
    ContactInfo(ContactInfo),
    /// Of a restart of the cluster; parsed to find its end, and not used.
    Restart(Restart<'a>),
}

/// A vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vote<'a> {
    /// Which of the node's votes; below [`VOTE_INDEX_END`].
    pub index: u8,
    /// Who sends it.
    pub from: Pubkey,
    /// A legacy transaction, as on the wire; its signatures are not checked.
    pub transaction: &'a [u8],
    /// The last slot that it votes for; read from the transaction, and not written.
    pub slot: Option<u64>,
    /// When, ms.
    pub wallclock: u64,
}

/// The lowest slot of which a node has shreds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LowestSlot {
    /// Whose.
    pub from: Pubkey,
    /// That slot.
    pub lowest: u64,
    /// When, ms.
    pub wallclock: u64,
}

/// Slots that a node has in whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EpochSlots<'a> {
    /// Which of the node's; below [`EPOCH_SLOTS_INDEX_END`].
    pub index: u8,
    /// Whose.
    pub from: Pubkey,
    /// The slots.
    pub runs: Vec<SlotRun<'a>>,
    /// When, ms.
    pub wallclock: u64,
}

/// A piece of a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DuplicateShred<'a> {
    /// Which of the node's; below [`MAX_DUPLICATE_SHREDS`].
    pub index: u16,
    /// Who proves.
    pub from: Pubkey,
    /// When, ms.
    pub wallclock: u64,
    /// The slot with two blocks; any number.
    pub slot: u64,
    /// No longer in use.
    pub unused: u32,
    /// No longer in use; [`super::DUPLICATE_SHRED_TYPE`] is sent.
    pub shred_type: u8,
    /// Pieces of the proof.
    pub chunk_count: u8,
    /// Which of them; below `chunk_count`.
    pub chunk_index: u8,
    /// The piece.
    pub chunk: &'a [u8],
}

/// Snapshots that a node serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotHashes {
    /// Whose.
    pub from: Pubkey,
    /// Slot and hash of the full one.
    pub full: (u64, Hash),
    /// Slots and hashes of those that build on it; each slot above the full one's.
    pub incremental: Vec<(u64, Hash)>,
    /// When, ms.
    pub wallclock: u64,
}

/// Of a restart of the cluster: its kind and its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restart<'a> {
    /// Which of the two: [`CrdsKind::RestartLastVotedForkSlots`] or [`CrdsKind::RestartHeaviestFork`].
    pub kind: CrdsKind,
    /// Whose.
    pub from: Pubkey,
    /// When, ms.
    pub wallclock: u64,
    /// What follows these two.
    pub rest: &'a [u8],
}

/// The kinds that are in use, by their tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
pub enum CrdsKind {
    /// [`CrdsData::Vote`].
    Vote = 1,
    /// [`CrdsData::LowestSlot`].
    LowestSlot = 2,
    /// [`CrdsData::EpochSlots`].
    EpochSlots = 5,
    /// [`CrdsData::DuplicateShred`].
    DuplicateShred = 9,
    /// [`CrdsData::SnapshotHashes`].
    SnapshotHashes = 10,
    /// [`CrdsData::ContactInfo`].
    ContactInfo = 11,
    /// [`CrdsData::Restart`].
    RestartLastVotedForkSlots = 12,
    /// [`CrdsData::Restart`].
    RestartHeaviestFork = 13,
}

/// What there is one value of: of a node, a kind, and a number that is 0 where the kind has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Label {
    /// Whose.
    pub pubkey: Pubkey,
    /// Which kind.
    pub kind: CrdsKind,
    /// Which of that kind.
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
    /// The first rule that is broken.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        let data = Self::read(&mut reader)?;
        reader.end().map(|()| data)
    }

    /// What it is the value of.
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

    /// When it was said, ms.
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

    /// Says it at another time.
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

    /// Appends tag and data: the bytes that are signed.
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
        // A root, then the slot, then slots and bytes: three of these have gone out of use.
        [0, self.lowest, 0, 0, self.wallclock].iter().for_each(|number| write_u64(*number, out));
    }
}

impl<'a> EpochSlots<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self> {
        let at = reader.at();
        let index = reader.u8()?;
        Reader::check(index < EPOCH_SLOTS_INDEX_END, GossipErrorKind::Range, at)?;
        let from = reader.array()?;
        // Tag, first slot, count; then at least a byte and a length.
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
                // Lengths of runs of slots, by turns voted for and not.
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

/// A value as it came: a view.
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

    /// Parses exactly a value. The signature is not checked.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        let value = Self::read(&mut reader)?;
        reader.end().map(|()| value)
    }

    /// Signature and data. The value's hash is SHA-256 over them.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// That of [`Label::pubkey`], over [`Self::signed`].
    pub fn signature(&self) -> &'a Signature {
        self.bytes.first_chunk().expect("a value begins with its signature")
    }

    /// The bytes that are signed.
    pub fn signed(&self) -> &'a [u8] {
        &self.bytes[SIGNATURE_SIZE..]
    }

    /// What it says.
    pub fn data(&self) -> &CrdsData<'a> {
        &self.data
    }

    /// What it is the value of.
    pub fn label(&self) -> Label {
        self.data.label()
    }

    /// When it was said, ms.
    pub fn wallclock(&self) -> u64 {
        self.data.wallclock()
    }
}
