//! shred: entries of 64 transfers in, sets out once the signing requests are answered with synthetic signatures.

use std::hint::black_box;

use hearth_pipeline::links::{
    MICROBLOCK_MTU, POH_SHRED, PohEntry, PohEntryAt, SHRED_NET, SHRED_SIGN, SHRED_STORE, SIGN_SHRED, read_set,
};
use hearth_pipeline::shred::{Config, Shred, entry_bytes_within};
use hearth_tile::rig::Rig;

use crate::Work;
use crate::synthetic::{MICROBLOCK, TRANSFER_SIZE, transfers};

/// Entries that a round shreds.
const ROUND: u64 = 16;
/// Entries after which a new slot begins.
pub const SLOT: u64 = 1024;
/// Maximum shreds of a slot.
pub const SHREDS: u32 = 32_768;
/// Bytes of an entry.
pub const ENTRY_SIZE: usize = PohEntry::ENTRY_HEADER + MICROBLOCK * TRANSFER_SIZE;
const _: () = assert!(SLOT * ENTRY_SIZE as u64 <= entry_bytes_within(SHREDS as u64) && SLOT.is_multiple_of(ROUND));

/// The tile, with synthetic answers to its signing requests.
pub struct Load {
    rig: Rig<Shred>,
    transfers: Vec<u8>,
    buffer: Vec<u8>,
    slot: u64,
    entries: u64,
    /// Entry bytes given and stored in the slot so far.
    given: usize,
    stored: usize,
    to_sign: String,
    signed: String,
    store: String,
}

impl Load {
    /// Starts at the first slot.
    pub fn new() -> Self {
        let [to_sign, signed, store, net] =
            [SHRED_SIGN, SIGN_SHRED, SHRED_STORE, SHRED_NET].map(|link| format!("{link}:0"));
        let config = Config {
            shred_version: 7,
            shreds_per_slot_max: SHREDS,
            chained_root: [9; 32],
            first_slot: 1,
            takes_turns: false,
            destinations: vec![],
            cluster: None,
            tap: None,
        };
        let rig = Rig::new(config, &[POH_SHRED, &signed], &[&to_sign, &store, &net]);
        let (transfers, buffer) = (transfers(), vec![0; MICROBLOCK_MTU]);
        Self { rig, transfers, buffer, slot: 1, entries: 0, given: 0, stored: 0, to_sign, signed, store }
    }

    /// Gives an entry: of transfers, or the tick that ends the slot.
    fn give(&mut self, last: bool) {
        let at = PohEntryAt { slot: self.slot, parent_slot: self.slot - 1, tick: u8::from(last), last };
        let (count, txns) = if last { (0, &[][..]) } else { (MICROBLOCK as u64, &self.transfers[..]) };
        let size = PohEntry::write(&mut self.buffer, &at, 1, &[5; 32], count, txns);
        self.rig.give(POH_SHRED, self.slot, &self.buffer[..size]);
        self.given += size - PohEntry::HEADER;
    }
}

impl Default for Load {
    fn default() -> Self {
        Self::new()
    }
}

impl Work for Load {
    fn round(&mut self) -> u64 {
        (0..ROUND).for_each(|_| self.give(false));
        self.entries += ROUND;
        if self.entries == SLOT {
            self.give(true);
        }
        self.rig.run();
        for (tag, root) in self.rig.take(&self.to_sign) {
            self.rig.give(&self.signed, tag, &[&root[..], &root].concat());
        }
        self.rig.run();
        self.rig.drain(&self.store, |_, payload| self.stored += read_set(black_box(payload)).data.len());
        if self.entries == SLOT {
            assert!(self.stored > self.given, "with the batches' headers there is more in the sets");
            (self.slot, self.entries, self.given, self.stored) = (self.slot + 1, 0, 0, 0);
        }
        ROUND * MICROBLOCK as u64
    }
}
