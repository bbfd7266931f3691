//! shred: how fast entries become FEC sets: headers, parity, Merkle trees and chaining, without signing.
//!
//! reads   the bench's name filter
//! writes  one line per figure
//! memory  the entries of one slot
//! source  the required minimum is Firedancer's shredder on a machine of the same class

use hearth_pipeline::shred::{FecSet, SET_CAPACITY, SetHeader, Shredder, ShredderConfig, ShredderError};
use hearth_testkit::bench::{Bench, Unit};
use hearth_wire::entry::write_entry;
use hearth_wire::transfer::TRANSFER_SIZE;
use std::hint::black_box;

/// Bytes of an entry of 64 transfers.
const TRANSACTIONS: usize = 64 * TRANSFER_SIZE;

fn main() {
    let bench = Bench::from_args();
    let mut entry = Vec::new();
    write_entry(1, &[1; 32], 64, &[0x3c; TRANSACTIONS], &mut entry);
    let mut shredder = Shredder::new(ShredderConfig { batch_sets: 8, ..ShredderConfig::default() }, [0; 32]);
    let (mut set, mut slot) = (FecSet::new(), 0);
    bench.run("shred: entries to FEC sets", Unit::BitsPerSecond, Some(2.9e9), || {
        slot += 1;
        shredder.begin_slot(slot, slot - 1).unwrap();
        let mut bytes = 0;
        for _ in 0..200 {
            while shredder.push(black_box(&entry), 0) == Err(ShredderError::BatchFull) {
                shredder.end_batch(false);
                while shredder.next_set(&mut set) {}
            }
            bytes += entry.len() as u64;
        }
        shredder.end_batch(true);
        while shredder.next_set(&mut set) {}
        bytes
    });

    let entries = vec![0x3c; SET_CAPACITY];
    let header = SetHeader { slot: 1, parent_offset: 1, ..SetHeader::default() };
    bench.run("shred: prepare a set", Unit::NanosPerItem, None, || {
        set.prepare(header, black_box(&entries));
        1
    });
    let mut root = [0; 32];
    let prepared = set.clone();
    bench.run("shred: copy and chain a set", Unit::NanosPerItem, None, || {
        set.clone_from(&prepared);
        root = *set.chain(&root);
        1
    });
}
