//! store_message: the message that carries a set to store.
//!
//! reads   a signed set
//! writes  `shred_store`: the set's record, and the bytes of its entries

use hearth_ledger::blockstore::FecSetRecord;

use super::set::FecSet;
use crate::links::{SET_HEADER, write_set};

/// Writes the message for store; returns its size.
pub(super) fn write_message(set: &FecSet, parent_slot: u64, buffer: &mut [u8]) -> usize {
    let mut at = SET_HEADER;
    for chunk in set.entry_chunks() {
        buffer[at..at + chunk.len()].copy_from_slice(chunk);
        at += chunk.len();
    }
    let (header, shred) = (set.header(), set.shreds().next().expect("a set has 64 shreds"));
    let record = FecSetRecord {
        slot: header.slot,
        parent_slot,
        fec_set_index: header.set_index,
        reference_tick: header.reference_tick,
        last_in_slot: header.ends_slot,
        ends_batch: Some(header.ends_batch),
        merkle_root: *set.root(),
        chained_root: *set.chained_root(),
        signature: *shred.first_chunk().expect("a shred begins with its signature"),
        data: &[],
    };
    write_set(&record, buffer);
    at
}
