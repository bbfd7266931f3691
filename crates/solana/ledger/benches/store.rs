//! Benchmarks the block store: FEC sets appended per second by one thread, in transfers, and reads.
//!
//! reads   the bench's name filter; `HEARTH_BENCH_DIR` (default /dev/shm if it exists, else the temporary dir)
//! writes  at most 512 MB there, removed at the end
//! memory  one set
//! source  a transfer is 215 B; a full FEC set carries 30,816 B, so 143 transfers
//!
//! cargo bench -p hearth-ledger --bench store

use hearth_ledger::blockstore::{BlockStore, Config, FecSetRecord, SyncPolicy};
use hearth_testkit::bench::{Bench, Unit};
use hearth_wire::transfer::TRANSFER_SIZE;
use std::path::Path;

const SET_SIZE: usize = 30_816;
const TRANSFERS_PER_SET: u64 = (SET_SIZE / TRANSFER_SIZE) as u64;
const SETS_PER_SLOT: u32 = 280;
const LIMIT_SIZE: u64 = 512 << 20;

fn main() {
    let bench = Bench::from_args();
    let root = std::env::var("HEARTH_BENCH_DIR").unwrap_or_else(|_| "/dev/shm".into());
    let root = if Path::new(&root).is_dir() { root.into() } else { std::env::temp_dir() };
    let dir = tempfile::Builder::new().prefix("hearth-bench-store").tempdir_in(root).expect("a directory to write to");
    let config = |sync| Config { sync, ..Config::new(LIMIT_SIZE, [0; 32]) };
    let data: Vec<u8> = (0..SET_SIZE).map(|i| (i * 31) as u8).collect();
    for (name, sync) in [
        ("store append, synced each slot, transfers", SyncPolicy::EachSlot),
        ("store append, synced by the kernel, transfers", SyncPolicy::Kernel),
    ] {
        let (mut store, _) = BlockStore::open(dir.path(), config(sync)).expect("the store opens");
        let mut slot = store.reader().last_slot().unwrap_or(0);
        bench.run(name, Unit::PerSecond, Some(1e6), || {
            slot += 1;
            append_slot(&mut store, slot, &data)
        });
    }
    let (store, _) = BlockStore::open(dir.path(), config(SyncPolicy::Kernel)).expect("the store opens");
    // Only the newest blocks: the oldest may be pruned meanwhile.
    let newest: Vec<u64> = store.reader().slots(.., usize::MAX).iter().filter(|s| s.whole).map(|s| s.slot).collect();
    let newest = &newest[newest.len().saturating_sub(8)..];
    let mut whole = newest.iter().copied().cycle();
    if !newest.is_empty() {
        bench.run("store read a block, bytes", Unit::BitsPerSecond, None, || {
            let slot = whole.next().expect("there is a whole slot");
            store.reader().block(slot).expect("readable").expect("kept").data.len() as u64
        });
    }
}

/// Appends a slot of 280 full sets; returns the number of transfers, 40,040.
fn append_slot(store: &mut BlockStore, slot: u64, data: &[u8]) -> u64 {
    for number in 0..SETS_PER_SLOT {
        let set = FecSetRecord {
            slot,
            parent_slot: slot - 1,
            fec_set_index: number * 32,
            reference_tick: 9,
            last_in_slot: number + 1 == SETS_PER_SLOT,
            ends_batch: None,
            merkle_root: [number as u8; 32],
            chained_root: [1; 32],
            signature: [2; 64],
            data,
        };
        store.append_set(&set).expect("there is room");
    }
    u64::from(SETS_PER_SLOT) * TRANSFERS_PER_SET
}
