//! Benchmark of the tile `store`: it receives full FEC sets, writes slots of 288 sets to disk, and syncs each slot.

use std::path::{Path, PathBuf};

use hearth_ledger::blockstore::{self, BlockStore, FecSetRecord, SyncPolicy};
use hearth_pipeline::links::{SHRED_STORE, STORED_SET_MTU, write_set};
use hearth_pipeline::shred::SET_CAPACITY;
use hearth_pipeline::store::{Config, Store};
use hearth_testkit::bench::{Bench, Unit};
use hearth_tile::rig::Rig;
use hearth_workload::synthetic::{TRANSFER_SIZE, ledger};

/// Sets per round, and per slot.
const ROUND: u32 = 32;
const SLOT: u32 = 288;
const LIMIT_SIZE: u64 = 512 << 20;
const TRANSFERS_PER_ROUND: u64 = ROUND as u64 * (SET_CAPACITY / TRANSFER_SIZE) as u64;
const _: () = assert!(SLOT.is_multiple_of(ROUND) && SET_CAPACITY == 30_816);

pub fn sets(bench: &Bench) {
    let link = format!("{SHRED_STORE}:0");
    let (one, other) = (Dir::new("tile"), Dir::new("bare"));
    let config = Config::new(open(&one), ledger(&[]));
    let mut rig = Rig::<Store>::new(config, &[&link], &[]);
    let (mut sets, mut buffer) = (Sets::new(), vec![0; STORED_SET_MTU]);
    let through_tile = || {
        for _ in 0..ROUND {
            let size = write_set(&sets.next(), &mut buffer);
            rig.give(&link, sets.slot, &buffer[..size]);
        }
        rig.run();
        TRANSFERS_PER_ROUND
    };
    let (mut others, mut store) = (Sets::new(), open(&other));
    let bare = || {
        for _ in 0..ROUND {
            store.append_set(&others.next()).expect("there is room");
        }
        TRANSFERS_PER_ROUND
    };
    bench.paired_with_floor("store tile, full sets, transfers", Unit::PerSecond, Some(1e6), None, through_tile, bare);
    let (count, given) = (rig.count(), sets.given());
    assert_eq!((count.sets, count.failed_attempts), (given, 0), "all were stored");
}

fn open(dir: &Dir) -> BlockStore {
    let config = blockstore::Config { sync: SyncPolicy::EachSlot, ..blockstore::Config::new(LIMIT_SIZE, [7; 32]) };
    BlockStore::open(&dir.0, config).expect("the store opens").0
}

/// Generates FEC sets in the order of their slots.
struct Sets {
    data: Vec<u8>,
    slot: u64,
    number: u32,
}

impl Sets {
    fn new() -> Self {
        Self { data: (0..SET_CAPACITY).map(|i| (i * 31) as u8).collect(), slot: 1, number: 0 }
    }

    fn next(&mut self) -> FecSetRecord<'_> {
        if self.number == SLOT {
            (self.slot, self.number) = (self.slot + 1, 0);
        }
        self.number += 1;
        FecSetRecord {
            slot: self.slot,
            parent_slot: self.slot - 1,
            fec_set_index: 32 * (self.number - 1),
            reference_tick: 9,
            last_in_slot: self.number == SLOT,
            ends_batch: None,
            merkle_root: [self.number as u8; 32],
            chained_root: [1; 32],
            signature: [2; 64],
            data: &self.data,
        }
    }

    fn given(&self) -> u64 {
        (self.slot - 1) * u64::from(SLOT) + u64::from(self.number)
    }
}

/// A folder, removed on drop.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let root = std::env::var("HEARTH_BENCH_DIR").unwrap_or_else(|_| "/dev/shm".into());
        let root = if Path::new(&root).is_dir() { root.into() } else { std::env::temp_dir() };
        Self(root.join(format!("hearth-bench-store-{}-{name}", std::process::id())))
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
