//! shred, compared with the shredder that it drives.

use std::hint::black_box;

use hearth_pipeline::shred::{FecSet, Shredder, ShredderConfig, ShredderError};
use hearth_testkit::bench::{Bench, Unit};
use hearth_wire::entry::write_entry;
use hearth_workload::Work;
use hearth_workload::shred::{ENTRY_SIZE, Load, SHREDS, SLOT};
use hearth_workload::synthetic::{MICROBLOCK, transfers};

pub fn entries(bench: &Bench) {
    let (mut tile, mut bare) = (Load::new(), Bare::new());
    let name = "shred tile, entries of 64 transfers";
    bench.paired(name, Unit::PerSecond, None, || tile.round(), || bare.round());
}

/// The shredder alone; its sets are signed but not copied.
struct Bare {
    shredder: Shredder,
    entry: Vec<u8>,
    set: FecSet,
    slot: u64,
}

impl Bare {
    fn new() -> Self {
        let mut entry = vec![];
        write_entry(1, &[5; 32], MICROBLOCK, &transfers(), &mut entry);
        assert_eq!(entry.len(), ENTRY_SIZE);
        let config = ShredderConfig { version: 7, batch_sets: 8, shreds_per_slot_max: SHREDS };
        Self { shredder: Shredder::new(config, [9; 32]), entry, set: FecSet::new(), slot: 0 }
    }

    /// Shreds one slot, and returns how many transactions it has.
    fn round(&mut self) -> u64 {
        self.slot += 1;
        self.shredder.begin_slot(self.slot, self.slot - 1).expect("the one before has ended");
        for _ in 0..SLOT {
            while self.shredder.push(black_box(&self.entry), 0) == Err(ShredderError::BatchFull) {
                self.end_batch(false);
            }
        }
        self.end_batch(true);
        SLOT * MICROBLOCK as u64
    }

    fn end_batch(&mut self, ends_slot: bool) {
        self.shredder.end_batch(ends_slot);
        while self.shredder.next_set(&mut self.set) {
            self.set.sign(&[3; 64]);
            black_box(&self.set);
        }
    }
}
