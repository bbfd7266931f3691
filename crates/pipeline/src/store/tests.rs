//! Tile tests: frags in, blocks on disk, the ledger told.

use super::*;
use crate::links::write_set;
use hearth_ledger::blockstore::{self, FecSetRecord};
use hearth_ledger::{Commitment, Genesis, GenesisConfig, LedgerConfig};
use hearth_tile::rig::Rig;
use std::path::PathBuf;
use std::time::{Duration, Instant};

struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("hearth-store-tile-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        Self(dir)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn rig(dir: &Dir, config: blockstore::Config) -> (Rig<Store>, Arc<Ledger>, blockstore::Reader) {
    let genesis = GenesisConfig { fund_initial_accounts: 1, ..GenesisConfig::development([1; 32], [2; 32], 0) };
    let ledger = Ledger::new(&Genesis::create(genesis, |_| {}).unwrap(), LedgerConfig::default());
    let (store, _) = BlockStore::open(&dir.0, config).unwrap();
    let reader = store.reader();
    let inputs = ["shred_store:0", "shred_store:1"];
    let rig = Rig::<Store>::new(&Config::new(store, ledger.clone()), &inputs, &[]);
    for slot in 1..=3 {
        ledger.begin_slot(slot, slot - 1).unwrap();
        ledger.end_slot(slot, [slot as u8; 32]).unwrap();
    }
    (rig, ledger, reader)
}

fn small() -> blockstore::Config {
    blockstore::Config::new(8 << 20, [7; 32])
}

fn set(slot: u64, number: u32, last: bool) -> Vec<u8> {
    let mut buffer = vec![0; 1000];
    let set = FecSetRecord {
        slot,
        parent_slot: slot - 1,
        fec_set_index: 32 * number,
        reference_tick: 3,
        last_in_slot: last,
        merkle_root: [number as u8; 32],
        chained_root: [2; 32],
        signature: [3; 64],
        data: &[slot as u8; 100],
    };
    let size = write_set(&set, &mut buffer);
    buffer.truncate(size);
    buffer
}

fn run_until(rig: &mut Rig<Store>, what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "waited a minute for {what}");
        rig.run();
    }
}

#[test]
fn sets_reach_the_disk_and_the_ledger_hears_in_order() {
    let dir = Dir::new("order");
    let (mut rig, ledger, reader) = rig(&dir, small());
    rig.give("shred_store:0", 0, &set(2, 0, false));
    rig.give("shred_store:1", 0, &set(2, 1, true));
    rig.give("shred_store:1", 0, &set(2, 1, true));
    rig.give("shred_store:0", 0, &set(3, 0, true));
    rig.run();
    run_until(&mut rig, "slot 3 to be durable", || reader.durable_slot() == Some(3));
    rig.run();
    assert_eq!(ledger.slot(Commitment::Confirmed), 0, "slot 1 is not stored");
    rig.give("shred_store:0", 0, &set(1, 0, true));
    rig.give("shred_store:0", 0, &set(4, 5, false)[..200]);
    run_until(&mut rig, "the ledger to hear", || ledger.slot(Commitment::Confirmed) == 3);
    assert_eq!(reader.block(2).unwrap().unwrap().data, [2; 200]);
    let count = rig.count();
    assert_eq!((count.sets, count.blocks, count.dropped_duplicate, count.dropped_malformed), (5, 3, 1, 0));
}

#[test]
fn what_lies_behind_the_chain_comes_anew() {
    let dir = Dir::new("anew");
    let (mut store, _) = BlockStore::open(&dir.0, small()).unwrap();
    let old = FecSetRecord {
        slot: 1,
        parent_slot: 0,
        fec_set_index: 0,
        reference_tick: 0,
        last_in_slot: false,
        merkle_root: [0; 32],
        chained_root: [0; 32],
        signature: [0; 64],
        data: b"of a run that was killed",
    };
    store.append_set(&old).unwrap();
    drop(store);
    let (mut rig, ledger, reader) = rig(&dir, small());
    rig.give("shred_store:0", 0, &set(1, 0, true));
    run_until(&mut rig, "the ledger to hear", || ledger.slot(Commitment::Confirmed) == 1);
    assert_eq!(reader.block(1).unwrap().unwrap().data, [1; 100]);
    assert_eq!(rig.count().dropped_duplicate, 0);
}

#[test]
fn malformed_sets_are_counted() {
    let dir = Dir::new("malformed");
    let (mut rig, _, reader) = rig(&dir, small());
    let mut odd = set(1, 0, false);
    odd[16] = 5;
    rig.give("shred_store:0", 0, &odd);
    rig.run();
    assert_eq!((rig.count().dropped_malformed, reader.last_slot()), (1, None));
}

#[test]
fn switched_off_blocks_count_as_stored() {
    let dir = Dir::new("off");
    let (mut rig, ledger, reader) = rig(&dir, blockstore::Config { disable_from_slot: Some(2), ..small() });
    for slot in 1..=3 {
        rig.give("shred_store:0", 0, &set(slot, 0, true));
    }
    run_until(&mut rig, "the ledger to hear", || ledger.slot(Commitment::Confirmed) == 3);
    assert_eq!((rig.count().sets, rig.count().switched_off, reader.last_slot()), (1, 2, Some(1)));
}

#[test]
fn stopping_closes_the_store() {
    let dir = Dir::new("stop");
    let (mut rig, ..) = rig(&dir, small());
    rig.give("shred_store:0", 0, &set(1, 0, true));
    rig.run();
    rig.stop();
    let (_, found) = BlockStore::open(&dir.0, small()).unwrap();
    assert_eq!((found.last_whole_slot, found.bytes_scanned), (Some(1), 0));
}
