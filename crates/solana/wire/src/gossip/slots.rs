//! The slots that a node has completely, as runs of bits, compressed or not.
//!
//! reads   the runs of a value of kind 5
//! writes  the same; own runs are never compressed
//! memory  a run borrows; decompressing one takes 2 KiB
//! drops   what the cluster refuses; a run that does not decompress has no slots
//! source  `solana-gossip` 4.2.2, `epoch_slots.rs`; RFC 1951

use std::ops::Range;

use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};

use super::MAX_SLOT;
use super::read::{GossipErrorKind, Reader, Result, write_u32, write_u64};

/// Upper bound of a run's slots, exclusive.
pub const MAX_SLOTS_PER_RUN: u64 = 2_048 * 8;

/// A run of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotRun<'a> {
    /// The slot of the first bit; below [`MAX_SLOT`].
    pub first_slot: u64,
    /// Number of slots; below [`MAX_SLOTS_PER_RUN`].
    pub count: u64,
    /// Whether `bytes` are compressed with DEFLATE, without a header.
    pub is_compressed: bool,
    /// Eight slots per byte, the first in the lowest bit.
    pub bytes: &'a [u8],
}

impl<'a> SlotRun<'a> {
    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self> {
        let at = reader.at();
        let tag = reader.u32()?;
        Reader::check(tag < 2, GossipErrorKind::Tag, at)?;
        let (first_slot, count) = (reader.below(MAX_SLOT)?, reader.below(MAX_SLOTS_PER_RUN)?);
        let bytes = if tag == 0 { reader.bytes()? } else { read_bits(reader)? };
        Ok(Self { first_slot, count, is_compressed: tag == 0, bytes })
    }

    /// Appends the run in the form that [`Self::is_compressed`] says.
    pub fn write(&self, out: &mut Vec<u8>) {
        write_u32(u32::from(!self.is_compressed), out);
        write_u64(self.first_slot, out);
        write_u64(self.count, out);
        match (self.is_compressed, self.bytes) {
            (false, []) => out.push(0),
            (compressed, bytes) => {
                if !compressed {
                    out.push(1);
                }
                write_u64(bytes.len() as u64, out);
                out.extend_from_slice(bytes);
            }
        }
        if !self.is_compressed {
            write_u64(8 * self.bytes.len() as u64, out);
        }
    }

    /// Visits the slots in ascending order; none if the run does not decompress.
    pub fn for_each(&self, slot: impl FnMut(u64)) {
        self.for_each_in(0..MAX_SLOT + MAX_SLOTS_PER_RUN, slot);
    }

    /// The same within a range. A run outside the range is not decompressed.
    pub fn for_each_in(&self, range: Range<u64>, mut slot: impl FnMut(u64)) {
        let mut buffer = [0; (MAX_SLOTS_PER_RUN / 8) as usize];
        let from = range.start.saturating_sub(self.first_slot);
        let to = range.end.saturating_sub(self.first_slot).min(self.count);
        if from >= to {
            return;
        }
        let bits = match self.is_compressed {
            false => self.bytes,
            true => inflate(self.bytes, &mut buffer),
        };
        for index in from..to.min(8 * bits.len() as u64) {
            if bits[(index / 8) as usize] >> (index % 8) & 1 == 1 {
                slot(self.first_slot + index);
            }
        }
    }
}

/// The bytes of a bit vector, and its number of bits, which must need all of these bytes.
pub(super) fn read_bit_vector<'a>(reader: &mut Reader<'a>) -> Result<(&'a [u8], u64)> {
    let at = reader.at();
    let bytes: &[u8] = match reader.flag()? {
        true => reader.bytes()?,
        false => &[],
    };
    let is_none = reader.since(at) == [0];
    let bits = reader.u64()?;
    let fits = bits.div_ceil(8) == bytes.len() as u64 && is_none == bytes.is_empty();
    Reader::check(fits, GossipErrorKind::Bits, at)?;
    Ok((bytes, bits))
}

/// The bytes of a bit vector whose bits fill them.
fn read_bits<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8]> {
    let at = reader.at();
    let (bytes, bits) = read_bit_vector(reader)?;
    Reader::check(bits.is_multiple_of(8), GossipErrorKind::Bits, at)?;
    Ok(bytes)
}

fn inflate<'b>(bytes: &[u8], buffer: &'b mut [u8]) -> &'b [u8] {
    let mut state = Box::<DecompressorOxide>::default();
    let (status, _, written) = decompress(&mut state, bytes, buffer, 0, TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF);
    match status {
        TINFLStatus::Done => &buffer[..written],
        _ => &[],
    }
}

/// A node's slots for publication, as bits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotBits {
    first_slot: u64,
    count: u64,
    bytes: Vec<u8>,
}

impl SlotBits {
    /// Adds a slot, unless it is before the first one or the run would exceed `bytes_max` bytes.
    pub fn add(&mut self, slot: u64, bytes_max: usize) -> bool {
        if self.count == 0 {
            self.first_slot = slot;
        }
        let Some(index) = slot.checked_sub(self.first_slot).filter(|index| *index < MAX_SLOTS_PER_RUN - 1) else {
            return false;
        };
        let byte = (index / 8) as usize;
        if byte >= bytes_max {
            return false;
        }
        if byte >= self.bytes.len() {
            self.bytes.resize(byte + 1, 0);
        }
        self.bytes[byte] |= 1 << (index % 8);
        self.count = self.count.max(index + 1);
        true
    }

    /// Whether there is none yet.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The slots as a run.
    pub fn run(&self) -> SlotRun<'_> {
        SlotRun { first_slot: self.first_slot, count: self.count, is_compressed: false, bytes: &self.bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(run: &SlotRun<'_>) -> Vec<u64> {
        let mut slots = Vec::new();
        run.for_each(|slot| slots.push(slot));
        slots
    }

    #[test]
    fn slots_come_back_compressed_or_not() {
        let mut bits = SlotBits::default();
        let wanted = [1_000, 1_001, 1_007, 1_008, 1_500, 9_000];
        assert!(wanted.iter().all(|slot| bits.add(*slot, 2_048)));
        assert!(!bits.add(999, 2_048), "before the first");
        assert!(!bits.add(1_000 + MAX_SLOTS_PER_RUN, 2_048), "too far");
        assert!(!bits.add(9_100, 1_001), "no room");
        assert_eq!(slots(&bits.run()), wanted);
        let packed = miniz_oxide::deflate::compress_to_vec(&bits.bytes, 9);
        let run = SlotRun { is_compressed: true, bytes: &packed, ..bits.run() };
        assert_eq!(slots(&run), wanted);
        for (range, wanted) in [(0..1_000, &[][..]), (1_001..1_500, &wanted[1..4]), (1_500..u64::MAX, &wanted[4..])] {
            let mut found = Vec::new();
            run.for_each_in(range.clone(), |slot| found.push(slot));
            assert_eq!(found, wanted, "{range:?}");
        }
        for len in 0..packed.len() {
            assert_eq!(slots(&SlotRun { bytes: &packed[..len], ..run }), [0; 0], "cut to {len}");
        }
    }

    #[test]
    fn decompression_bomb_gives_no_slots() {
        let bomb = miniz_oxide::deflate::compress_to_vec(&vec![0xff; 1 << 20], 9);
        assert!(bomb.len() < 1_232);
        let run = SlotRun { first_slot: 5, count: MAX_SLOTS_PER_RUN - 1, is_compressed: true, bytes: &bomb };
        assert_eq!(slots(&run), [0; 0]);
    }
}
