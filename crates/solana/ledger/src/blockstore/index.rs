//! index: the position of each slot's records in the log, and the index file beside each segment.
//!
//! reads   index files when the store is opened
//! writes  one checkpoint block at a time, appended to a segment's index file
//! memory  about 64 B per slot in memory; 40 B on disk
//! drops   the slots that began in a dropped segment
//! source  our own format: `magic u32 | entry count u32 | upto u32 | crc u32 | entries × 40 B`
//!
//! The index can always be rebuilt by scanning the log, so a torn or missing checkpoint only costs time at the next
//! start.

use super::LogPosition;
use super::record::{u32_at, u64_at};
use std::collections::{BTreeMap, HashMap};

const MAGIC: u32 = u32::from_le_bytes(*b"hIdx");
const BLOCK_HEAD_SIZE: usize = 16;
const ENTRY_SIZE: usize = 40;
const COMPLETE_BIT: u32 = 1 << 31;

/// The range of one slot's records: all between `first` and `end`, possibly interleaved with those of other slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SlotEntry {
    pub slot: u64,
    pub parent_slot: u64,
    pub first: LogPosition,
    pub end: LogPosition,
    /// In a checkpoint 0 means that the slot is no longer stored.
    pub set_count: u32,
    pub complete: bool,
}

impl SlotEntry {
    /// A checkpoint's entry for a slot that is no longer stored.
    pub fn gone(slot: u64, at: LogPosition) -> Self {
        Self { slot, parent_slot: 0, first: at, end: at, set_count: 0, complete: false }
    }
}

/// The index in memory.
#[derive(Default)]
pub(super) struct Index {
    pub slots: BTreeMap<u64, SlotEntry>,
    /// The slots that began in each segment, so that dropping a segment does not search all slots.
    began: HashMap<u32, Vec<u64>>,
}

impl Index {
    /// Adds a slot's entry, or replaces it by a newer one.
    pub fn put(&mut self, entry: SlotEntry) {
        let before = self.slots.insert(entry.slot, entry);
        if before.is_none_or(|b| b.first.segment() != entry.first.segment()) {
            self.began.entry(entry.first.segment()).or_default().push(entry.slot);
        }
    }

    /// Removes one slot, if it is there.
    pub fn remove(&mut self, slot: u64) {
        if let Some(entry) = self.slots.remove(&slot)
            && let Some(began) = self.began.get_mut(&entry.first.segment())
        {
            began.retain(|s| *s != slot);
        }
    }

    /// Removes and returns all slots from `slot` on.
    pub fn discard(&mut self, slot: u64) -> Vec<SlotEntry> {
        let entries: Vec<SlotEntry> = self.slots.range(slot..).map(|(_, e)| *e).collect();
        entries.iter().for_each(|e| self.remove(e.slot));
        entries
    }

    /// Removes the slots that began before `segment`.
    pub fn forget_before(&mut self, segment: u32) {
        let segments: Vec<u32> = self.began.keys().copied().filter(|s| *s < segment).collect();
        for old in segments {
            self.forget(old, usize::MAX);
        }
    }

    /// Removes up to `count` slots that began in `segment`; false if there are none left.
    pub fn forget(&mut self, segment: u32, count: usize) -> bool {
        let Some(began) = self.began.get_mut(&segment) else { return false };
        for slot in began.drain(began.len().saturating_sub(count)..) {
            // A discarded slot may have begun again in a later segment.
            if self.slots.get(&slot).is_some_and(|e| e.first.segment() == segment) {
                self.slots.remove(&slot);
            }
        }
        let left = !began.is_empty();
        if !left {
            self.began.remove(&segment);
        }
        left
    }
}

/// A checkpoint: the entries that changed since the previous one, and how far it covers the segment.
pub(super) struct Checkpoint {
    /// The log is indexed up to this position.
    pub upto: LogPosition,
    /// Whether the segment ends here. It decides when the index file is synced, and is not stored in it.
    pub sealed: bool,
    pub entries: Vec<SlotEntry>,
}

impl Checkpoint {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(BLOCK_HEAD_SIZE + self.entries.len() * ENTRY_SIZE);
        out.extend_from_slice(&MAGIC.to_le_bytes());
        out.extend_from_slice(&(self.entries.len() as u32).to_le_bytes());
        out.extend_from_slice(&self.upto.offset().to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        for e in &self.entries {
            out.extend_from_slice(&e.slot.to_le_bytes());
            out.extend_from_slice(&e.parent_slot.to_le_bytes());
            out.extend_from_slice(&e.first.to_bits().to_le_bytes());
            out.extend_from_slice(&e.end.to_bits().to_le_bytes());
            out.extend_from_slice(&(e.set_count | if e.complete { COMPLETE_BIT } else { 0 }).to_le_bytes());
            out.extend_from_slice(&[0; 4]);
        }
        let crc = block_checksum(self.upto.segment(), &out);
        out[12..16].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Decodes the block at the start of `bytes`, and returns it with its size. `None` if it is torn or damaged.
    fn decode(segment: u32, bytes: &[u8]) -> Option<(Self, usize)> {
        let head = bytes.get(..BLOCK_HEAD_SIZE)?;
        if u32_at(head, 0) != MAGIC {
            return None;
        }
        let size = BLOCK_HEAD_SIZE.checked_add((u32_at(head, 4) as usize).checked_mul(ENTRY_SIZE)?)?;
        let block = bytes.get(..size)?;
        if block_checksum(segment, block) != u32_at(block, 12) {
            return None;
        }
        let entries = block[BLOCK_HEAD_SIZE..].chunks_exact(ENTRY_SIZE).map(decode_entry).collect();
        let upto = LogPosition::new(segment, u32_at(block, 8));
        Some((Self { upto, sealed: false, entries }, size))
    }
}

/// The contents of an index file: how far its segment is indexed, and how many of the file's bytes are valid.
pub(super) struct IndexFile {
    pub upto: Option<LogPosition>,
    pub size: u64,
    /// The end of the next checkpoint, if it is beyond the segment's length. Checkpoints cover only durable data, so
    /// the segment has lost bytes.
    pub ahead: Option<u64>,
}

/// Replays the blocks of a segment's index file into `index`. Stops at the first that fails verification or covers more
/// than `segment_len` bytes of log.
pub(super) fn load(segment: u32, bytes: &[u8], segment_len: u64, index: &mut Index) -> IndexFile {
    let mut out = IndexFile { upto: None, size: 0, ahead: None };
    let mut at = 0;
    while let Some((block, size)) = Checkpoint::decode(segment, &bytes[at..]) {
        let upto = u64::from(block.upto.offset());
        if upto > segment_len {
            out.ahead = Some(upto);
            break;
        }
        for entry in block.entries {
            if entry.set_count == 0 { index.remove(entry.slot) } else { index.put(entry) }
        }
        at += size;
        (out.upto, out.size) = (Some(block.upto), at as u64);
    }
    out
}

fn decode_entry(bytes: &[u8]) -> SlotEntry {
    SlotEntry {
        slot: u64_at(bytes, 0),
        parent_slot: u64_at(bytes, 8),
        first: LogPosition::from_bits(u64_at(bytes, 16)),
        end: LogPosition::from_bits(u64_at(bytes, 24)),
        set_count: u32_at(bytes, 32) & !COMPLETE_BIT,
        complete: u32_at(bytes, 32) & COMPLETE_BIT != 0,
    }
}

fn block_checksum(segment: u32, block: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&segment.to_le_bytes());
    hasher.update(&block[..12]);
    hasher.update(&block[BLOCK_HEAD_SIZE..]);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(slot: u64, segment: u32) -> SlotEntry {
        let first = LogPosition::new(segment, 64);
        let end = LogPosition::new(segment + 1, 128);
        SlotEntry { slot, parent_slot: slot - 1, first, end, set_count: 3, complete: slot.is_multiple_of(2) }
    }

    #[test]
    fn checkpoints_come_back_up_to_a_torn_one() {
        let block = |upto, slots: std::ops::Range<u64>| {
            let entries = slots.map(|s| entry(s, 2)).collect();
            Checkpoint { upto: LogPosition::new(2, upto), sealed: false, entries }.encode()
        };
        let (a, b) = (block(1000, 1..4), block(2000, 3..6));
        let whole = [&a[..], &b[..]].concat();
        for cut in 0..=whole.len() {
            let mut index = Index::default();
            let file = load(2, &whole[..cut], 5000, &mut index);
            let expected = if cut == whole.len() {
                5
            } else if cut >= a.len() {
                3
            } else {
                0
            };
            assert_eq!(index.slots.len(), expected, "cut at {cut}");
            assert_eq!(file.size as usize, [0, a.len(), whole.len()][expected.div_ceil(3)]);
        }
        let mut index = Index::default();
        assert_eq!(load(2, &whole, 1500, &mut index).upto, Some(LogPosition::new(2, 1000)));
        assert_eq!(index.slots[&3], entry(3, 2));
        assert_eq!(load(1, &whole, 5000, &mut Index::default()).upto, None, "another segment's index");
    }

    #[test]
    fn forgetting_a_segment_takes_its_slots_only() {
        let mut index = Index::default();
        (1..=10).for_each(|s| index.put(entry(s, 1)));
        (11..=15).for_each(|s| index.put(entry(s, 2)));
        index.put(entry(5, 1));
        let mut rounds = 1;
        while index.forget(1, 4) {
            rounds += 1;
        }
        assert_eq!(rounds, 3);
        assert_eq!(index.slots.keys().copied().collect::<Vec<_>>(), vec![11, 12, 13, 14, 15]);
    }
}
