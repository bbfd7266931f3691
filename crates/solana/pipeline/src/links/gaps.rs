//! gaps: shred's messages to repair about a slot: what is missing of it, or that nothing is.
//!
//! reads   messages
//! writes  messages
//! memory  the link's

use super::codec::{Reader, writer};

/// Control word: the message lists what is missing of the slot.
pub const SLOT_GAPS: u16 = 0;
/// Control word: the slot is whole.
pub const SLOT_WHOLE: u16 = 1;
/// Control word: nothing is known of the slot any longer.
pub const SLOT_GONE: u16 = 2;

/// Maximum shreds listed per message: as many as one look requests.
pub const GAPS_MAX: usize = 64;

/// A partial slot, and which of its shreds are missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotGaps {
    /// The partial slot's number.
    pub slot: u64,
    /// Its parent, once known.
    pub parent: Option<u64>,
    /// Set if the last set is unknown: the highest shred from this index on is missing.
    pub highest_from: Option<u32>,
    /// Missing data shreds of known sets; at most [`GAPS_MAX`].
    pub shreds: Vec<u32>,
}

impl SlotGaps {
    /// Bytes of a message that lists no shreds.
    const HEADER: usize = 8 + 8 + 4;
    /// Bytes of the largest message.
    pub const MTU: usize = Self::HEADER + 4 * GAPS_MAX;

    /// Encodes the message.
    ///
    /// # Panics
    /// If more than [`GAPS_MAX`] shreds are missing.
    pub fn encode(&self) -> Vec<u8> {
        assert!(self.shreds.len() <= GAPS_MAX, "{} shreds", self.shreds.len());
        let mut buffer = vec![0; Self::HEADER + 4 * self.shreds.len()];
        let mut w = writer(&mut buffer);
        // Only the first slot is its own parent, and no shred has the last index.
        w.u64(self.slot).u64(self.parent.unwrap_or(u64::MAX)).u32(self.highest_from.unwrap_or(u32::MAX));
        for index in &self.shreds {
            w.u32(*index);
        }
        buffer
    }

    /// Reads a message that [`Self::encode`] made.
    pub fn read(payload: &[u8]) -> Self {
        let mut r = Reader(payload);
        let (slot, parent, highest_from) = (r.u64(), r.u64(), r.u32());
        let mut shreds = Vec::with_capacity(r.0.len() / 4);
        while !r.0.is_empty() {
            shreds.push(r.u32());
        }
        Self {
            slot,
            parent: (parent != u64::MAX).then_some(parent),
            highest_from: (highest_from != u32::MAX).then_some(highest_from),
            shreds,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_round_trip() {
        for gaps in [
            SlotGaps { slot: 7, parent: None, highest_from: Some(0), shreds: vec![] },
            SlotGaps { slot: 1 << 40, parent: Some(5), highest_from: None, shreds: (0..GAPS_MAX as u32).collect() },
        ] {
            let message = gaps.encode();
            assert!(message.len() <= SlotGaps::MTU);
            assert_eq!(SlotGaps::read(&message), gaps);
        }
    }
}
