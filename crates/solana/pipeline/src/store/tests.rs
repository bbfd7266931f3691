//! Tile tests: frags in, blocks on disk, reports to the ledger.

use super::*;
use crate::links::{MORE, write_set};
use hearth_ledger::blockstore::{self, FecSetRecord};
use hearth_ledger::history::{BatchWriter, HistoryKey, HistoryReader, MetaParts};
use hearth_ledger::{Commitment, LedgerConfig, builders};
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
    let ledger = builders::ledger(1);
    let (store, _) = BlockStore::open(&dir.0, config).unwrap();
    let reader = store.reader();
    let inputs = ["shred_store:0", "shred_store:1"];
    let rig = Rig::<Store>::new(Config::new(store, ledger.clone()), &inputs, &[]);
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
        ends_batch: None,
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
    let deadline = Instant::now() + hearth_testkit::PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain for {what}");
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
    assert_eq!(rig.latencies()[0].count(), 0, "nor is what follows durable with all before it");
    rig.advance(Duration::from_millis(3));
    rig.give("shred_store:0", 0, &set(1, 0, true));
    rig.give("shred_store:0", 0, &set(4, 5, false)[..200]);
    run_until(&mut rig, "the ledger to hear", || ledger.slot(Commitment::Confirmed) == 3);
    assert_eq!(reader.block(2).unwrap().unwrap().data, [2; 200]);
    let durable = &rig.latencies()[0];
    assert_eq!((durable.count(), durable.sum_us()), (4, 3 * 2_999), "a set's age, but not that of slot 4's");
    let count = rig.count();
    assert_eq!((count.sets, count.blocks, count.dropped_duplicate, count.dropped_malformed), (5, 3, 1, 0));
}

#[test]
fn where_the_node_votes_tower_hears_of_the_newest_block() {
    let dir = Dir::new("tower");
    let ledger = builders::ledger(1);
    let (store, _) = BlockStore::open(&dir.0, small()).unwrap();
    let reader = store.reader();
    let mut rig = Rig::<Store>::new(Config::new(store, ledger.clone()), &["shred_store:0"], &["store_tower"]);
    [set(2, 1, true), set(3, 1, true), set(3, 0, false)].iter().for_each(|set| rig.give("shred_store:0", 0, set));
    rig.give("shred_store:0", 0, &set(2, 0, false));
    rig.run();
    run_until(&mut rig, "slots 2 and 3 to be durable", || reader.durable_slot() == Some(3));
    rig.run();
    assert!(rig.take("store_tower").is_empty(), "slot 1 is not stored");
    rig.give("shred_store:0", 0, &set(1, 0, true));
    let mut heard = vec![];
    let deadline = Instant::now() + hearth_testkit::PATIENCE;
    while heard.is_empty() {
        assert!(Instant::now() < deadline, "waited in vain for the block to be said");
        rig.run();
        heard = rig.take("store_tower");
    }
    assert_eq!(heard, [(3, vec![1; 32])], "with its id, the root of its last set");
    assert_eq!(ledger.slot(Commitment::Confirmed), 0, "it is confirmed once it is voted for");
    assert!(rig.tile().block_ids.is_empty());
}

#[test]
fn slots_behind_the_chain_are_stored_again() {
    let dir = Dir::new("restart");
    let (mut store, _) = BlockStore::open(&dir.0, small()).unwrap();
    let old = FecSetRecord {
        slot: 1,
        parent_slot: 0,
        fec_set_index: 0,
        reference_tick: 0,
        last_in_slot: false,
        ends_batch: None,
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

/// Makes the metadata of a microblock of slot 1.
fn batch(key: &HistoryKey, id: u64, signatures: &[[u8; 64]]) -> Vec<u8> {
    let mut writer = BatchWriter::new(key.clone());
    writer.begin(1, id);
    for signature in signatures {
        writer.push(&MetaParts {
            signature,
            static_accounts: &[[6; 32]],
            result: Ok(()),
            fee: id,
            compute_units: 0,
            cost_units: 0,
            balances: &[(5, 4)],
            pre_token_balances: &[],
            post_token_balances: &[],
            loaded_writable: &[],
            loaded_readonly: &[],
            memo: None,
            details: None,
        });
    }
    writer.finish().expect("it has transactions").to_vec()
}

fn with_history(dir: &Dir) -> (Rig<Store>, Arc<Ledger>, HistoryReader) {
    let ledger = builders::ledger(2);
    let (store, _) = BlockStore::open(&dir.0.join("blocks"), small()).unwrap();
    let config = hearth_ledger::history::Config::new(8 << 20, [7; 32]);
    let history = History::open(&dir.0.join("history"), config, 0).unwrap();
    let (key, reader) = (history.key(), history.reader());
    let config = Config::new(store, ledger.clone()).with_history(history);
    let mut rig = Rig::<Store>::new(config, &["shred_store:0", "bank_store:0", "bank_store:1"], &[]);
    let signatures = [[1; 64], [2; 64], [3; 64]];
    // The later microblock comes first, in three chunks.
    for (link, id, mine, pieces) in [("bank_store:1", 4, &signatures[1..], 3), ("bank_store:0", 0, &signatures[..1], 1)]
    {
        let batch = batch(&key, id, mine);
        let count = batch.len().div_ceil(pieces);
        let last = batch.chunks(count).len() - 1;
        for (nth, piece) in batch.chunks(count).enumerate() {
            rig.give_control(link, id, if nth < last { MORE } else { 0 }, piece);
        }
    }
    (rig, ledger, reader)
}

/// Lands three transfers in a slot of the ledger, and ends the slot.
fn three_in_slot(ledger: &Ledger, slot: u64) {
    let bank = ledger.begin_slot(slot, slot - 1).unwrap();
    let from = hearth_ledger::genesis::funded_account_key(0);
    let to = hearth_ledger::genesis::funded_account_key(1).public_key();
    for lamports in 1..=3 {
        let bytes = builders::transfer(&from, &to, lamports, bank.parent_blockhash());
        let (mut executor, mut outcomes) = (hearth_ledger::Executor::new(), vec![]);
        bank.execute(&mut executor, &[hearth_wire::Txn::parse(&bytes).unwrap()], &mut outcomes);
        assert!(outcomes[0].is_committed());
    }
    ledger.end_slot(slot, [slot as u8; 32]).unwrap();
}

#[test]
fn a_block_is_confirmed_once_its_history_can_be_found() {
    let dir = Dir::new("history");
    let (mut rig, ledger, reader) = with_history(&dir);
    rig.give("shred_store:0", 0, &set(1, 0, true));
    let blocks = rig.tile().store.as_ref().unwrap().reader();
    run_until(&mut rig, "the block to be durable", || blocks.durable_slot() == Some(1));
    rig.run();
    assert_eq!((reader.block(1).unwrap(), ledger.slot(Commitment::Confirmed)), (None, 0), "the slot has not ended");
    three_in_slot(&ledger, 1);
    rig.advance(Duration::from_millis(2));
    run_until(&mut rig, "the ledger to hear", || ledger.slot(Commitment::Confirmed) == 1);
    let block = reader.block(1).unwrap().unwrap();
    assert_eq!((block.transaction_count, block.blockhash), (3, [1; 32]));
    assert_eq!(Some(block.time), ledger.block_time(1));
    assert_eq!(block.previous_blockhash, *ledger.genesis_hash());
    assert_eq!(block.rewards.iter().map(|r| r.lamports).collect::<Vec<_>>(), [7_500], "half of three signatures' fees");
    let signatures: Vec<u8> = reader.transactions(1).unwrap().unwrap().iter().map(|t| t.signature[0]).collect();
    assert_eq!(signatures, [1, 2, 3], "in the order of the microblocks");
    assert_eq!(reader.of_address(&[6; 32], 1, (None, None), 9).unwrap().len(), 3);
}

#[test]
fn in_a_cluster_what_it_confirms_is_confirmed() {
    let dir = Dir::new("cluster");
    let (store, _) = BlockStore::open(&dir.0, small()).unwrap();
    let reader = store.reader();
    let ledger = builders::ledger(1);
    let config = Config::new(store, ledger.clone()).in_cluster(0);
    let mut rig = Rig::<Store>::new(config, &["shred_store:0", "replay_store"], &[]);
    for slot in [1, 3] {
        ledger.begin_slot(slot, ledger.recent_blocks(1)[0].slot).unwrap();
        ledger.end_slot(slot, [slot as u8; 32]).unwrap();
    }
    // 2 is a fork on 1; 3 claims to be on 2, which does not matter here.
    [1, 2, 3].iter().for_each(|slot| rig.give("shred_store:0", 0, &set(*slot, 0, true)));
    rig.run();
    run_until(&mut rig, "slot 3 to be durable", || reader.durable_slot() == Some(3));
    let confirmed = || ledger.slot(Commitment::Confirmed);
    assert_eq!((confirmed(), rig.count().blocks), (0, 3));
    confirm(&mut rig, 1);
    run_until(&mut rig, "slot 1", || confirmed() == 1);
    confirm(&mut rig, 3);
    run_until(&mut rig, "slot 3", || confirmed() == 3);
}

/// Reports on replay's behalf that the cluster has confirmed a slot.
fn confirm(rig: &mut Rig<Store>, slot: u64) {
    rig.give_control("replay_store", slot, CONFIRMED, &[]);
}

/// A store tile in a cluster, with a history and a ledger that can switch forks.
struct Member {
    rig: Rig<Store>,
    ledger: Arc<Ledger>,
    history: HistoryReader,
    key: HistoryKey,
}

fn in_cluster(dir: &Dir) -> Member {
    let config = LedgerConfig { forks: Some(hearth_ledger::Forks::default()), ..LedgerConfig::default() };
    let ledger = Ledger::new(&builders::genesis(2), config);
    let (store, _) = BlockStore::open(&dir.0.join("blocks"), small()).unwrap();
    let config = hearth_ledger::history::Config::new(8 << 20, [7; 32]);
    let history = History::open(&dir.0.join("history"), config, 0).unwrap();
    let reader = history.reader();
    let key = history.key();
    let config = Config::new(store, ledger.clone()).with_history(history).in_cluster(0);
    let rig = Rig::<Store>::new(config, &["shred_store:0", "bank_store:0", "replay_store"], &[]);
    Member { rig, ledger, history: reader, key }
}

fn empty_block(ledger: &Ledger, slot: u64) {
    ledger.begin_slot(slot, ledger.recent_blocks(1)[0].slot).unwrap();
    ledger.end_slot(slot, [slot as u8; 32]).unwrap();
}

#[test]
fn block_confirmed_after_a_pause_has_history() {
    let dir = Dir::new("pause");
    let Member { mut rig, ledger, history, .. } = in_cluster(&dir);
    (1..=1_300).for_each(|slot| empty_block(&ledger, slot));
    rig.run();
    confirm(&mut rig, 1_300);
    run_until(&mut rig, "slot 1300", || ledger.slot(Commitment::Confirmed) == 1_300);
    let first = history.block(1).unwrap().unwrap();
    assert_eq!((first.parent, first.previous_blockhash), (0, *ledger.genesis_hash()));
    assert_eq!(history.block(1_300).unwrap().unwrap().previous_blockhash, [1_299u32 as u8; 32]);
}

#[test]
fn a_recorder_that_falls_behind_what_is_final_misses_nothing() {
    let dir = Dir::new("behind");
    let Member { mut rig, ledger, history, .. } = in_cluster(&dir);
    for slot in 1..=1_300 {
        empty_block(&ledger, slot);
        ledger.mark_rooted(slot);
    }
    confirm(&mut rig, 1_300);
    rig.run();
    run_until(&mut rig, "slot 1300", || history.block(1_300).unwrap().is_some());
    assert_eq!(history.block(2).unwrap().unwrap().previous_blockhash, [1; 32]);
}

#[test]
fn while_the_ledger_is_on_another_fork_nothing_is_recorded() {
    let dir = Dir::new("fork");
    let Member { mut rig, ledger, history, .. } = in_cluster(&dir);
    [1, 2, 5].into_iter().for_each(|slot| empty_block(&ledger, slot));
    confirm(&mut rig, 5);
    ledger.rewind(1).unwrap();
    [3, 4].into_iter().for_each(|slot| empty_block(&ledger, slot));
    rig.run();
    rig.advance(Duration::from_millis(2));
    rig.run();
    ledger.rewind(1).unwrap();
    [2, 5].into_iter().for_each(|slot| empty_block(&ledger, slot));
    rig.advance(Duration::from_millis(2));
    run_until(&mut rig, "slot 5", || ledger.slot(Commitment::Confirmed) == 5);
    let recorded: Vec<u64> = (1..=5).filter(|slot| history.block(*slot).unwrap().is_some()).collect();
    assert_eq!(recorded, [1, 2, 5]);
}

#[test]
fn others_history_is_recorded_once_confirmed() {
    let dir = Dir::new("others");
    let Member { mut rig, ledger, history, key } = in_cluster(&dir);
    three_in_slot(&ledger, 1);
    // Replay has executed another block of the slot before.
    let none_dropped = 0u64.to_le_bytes();
    rig.give_control("replay_store", 1, HISTORY_BEGINS, &none_dropped);
    rig.give("replay_store", 1, &batch(&key, 0, &[[8; 64], [9; 64]]));
    rig.give_control("replay_store", 1, HISTORY_BEGINS, &none_dropped);
    let whole = batch(&key, 0, &[[1; 64], [2; 64], [3; 64]]);
    let (first, last) = whole.split_at(whole.len() / 2);
    rig.give_control("replay_store", 1, MORE, first);
    rig.give("replay_store", 1, last);
    rig.run();
    assert_eq!(ledger.slot(Commitment::Confirmed), 0);
    assert_eq!(history.block(1).unwrap(), None);
    confirm(&mut rig, 1);
    run_until(&mut rig, "slot 1", || ledger.slot(Commitment::Confirmed) == 1);
    let signatures: Vec<u8> = history.transactions(1).unwrap().unwrap().iter().map(|t| t.signature[0]).collect();
    assert_eq!(signatures, [1, 2, 3]);
    assert_eq!(rig.count().history_pieces, 3);
    assert_eq!(rig.count().history_lost_blocks, 0);
}

#[test]
fn own_block_that_is_replayed_is_recorded_once() {
    let dir = Dir::new("again");
    let Member { mut rig, ledger, history, key } = in_cluster(&dir);
    three_in_slot(&ledger, 1);
    // One of a bank's batches of the own block is here, another is late: meanwhile replay executes the block again.
    rig.give_control("bank_store:0", 0, 0, &batch(&key, 0, &[[1; 64]]));
    rig.run();
    rig.give_control("replay_store", 1, HISTORY_BEGINS, &0u64.to_le_bytes());
    rig.run();
    rig.give_control("bank_store:0", 1, 0, &batch(&key, 1, &[[2; 64], [3; 64]]));
    rig.run();
    confirm(&mut rig, 1);
    rig.run();
    assert_eq!(history.block(1).unwrap(), None, "replay's batches are still to come");
    rig.give("replay_store", 1, &batch(&key, 0, &[[1; 64], [2; 64], [3; 64]]));
    // A turn looks at the block before it reads them, and the next look is a while later.
    rig.run();
    rig.advance(Duration::from_millis(2));
    run_until(&mut rig, "slot 1", || ledger.slot(Commitment::Confirmed) == 1);
    let signatures: Vec<u8> = history.transactions(1).unwrap().unwrap().iter().map(|t| t.signature[0]).collect();
    assert_eq!(signatures, [1, 2, 3]);
    assert_eq!(history.block(1).unwrap().unwrap().transaction_count, 3);
}

#[test]
fn block_without_its_metadata_is_recorded_and_counted() {
    let dir = Dir::new("incomplete");
    let Member { mut rig, ledger, history, .. } = in_cluster(&dir);
    three_in_slot(&ledger, 1);
    rig.give_control("replay_store", 1, HISTORY_BEGINS, &3u64.to_le_bytes());
    confirm(&mut rig, 1);
    run_until(&mut rig, "slot 1", || ledger.slot(Commitment::Confirmed) == 1);
    assert_eq!(history.block(1).unwrap().unwrap().transaction_count, 0);
    rig.advance(Duration::from_millis(2));
    rig.run();
    assert_eq!(rig.count().history_lost_blocks, 1);
    empty_block(&ledger, 2);
    confirm(&mut rig, 2);
    run_until(&mut rig, "slot 2", || ledger.slot(Commitment::Confirmed) == 2);
    assert_eq!(history.block(2).unwrap().unwrap().parent, 1);
}

#[test]
fn full_disk_does_not_hold_replay_up() {
    let dir = Dir::new("replay");
    let Member { mut rig, .. } = in_cluster(&dir);
    rig.tile().retry_at = Some(u64::MAX);
    rig.give("shred_store:0", 0, &set(1, 0, true));
    // More than the link holds at once.
    for slot in 1..=1_000 {
        confirm(&mut rig, slot);
        rig.run();
    }
    assert_eq!(rig.tile().confirmed, Some(1_000));
    assert_eq!(rig.count().sets, 0, "the set waits for the disk");
}

/// Simulates a disk without room for the current set.
fn fill(rig: &mut Rig<Store>) {
    rig.tile().retry_at = Some(u64::MAX);
    rig.tile().halt(&std::fmt::Error);
}

#[test]
fn poh_hears_that_the_disk_is_full_and_that_it_has_room() {
    let dir = Dir::new("poh");
    let ledger = builders::ledger(1);
    let (store, _) = BlockStore::open(&dir.0, small()).unwrap();
    let mut rig = Rig::<Store>::new(Config::new(store, ledger), &["shred_store:0"], &["store_poh"]);
    rig.run();
    assert!(rig.take_control("store_poh").is_empty(), "it has room at the start");
    fill(&mut rig);
    rig.run();
    rig.run();
    assert_eq!(rig.take_control("store_poh"), [(DISK_FULL, vec![])], "once");
    // The retained set is stored.
    rig.tile().retry_at = None;
    rig.run();
    assert_eq!(rig.take_control("store_poh"), [(0, vec![])]);
}

#[test]
fn store_does_not_wait_for_poh() {
    let dir = Dir::new("slow-poh");
    let ledger = builders::ledger(1);
    let (store, _) = BlockStore::open(&dir.0, small()).unwrap();
    let mut rig = Rig::<Store>::new(Config::new(store, ledger), &["shred_store:0"], &["store_poh"]);
    // More often than the link holds at once.
    for round in 0..2 * hearth_tile::rig::DEPTH {
        if round % 2 == 0 {
            fill(&mut rig);
        } else {
            rig.tile().retry_at = None;
        }
        rig.turn();
    }
    rig.give("shred_store:0", 0, &set(1, 0, true));
    rig.run();
    assert_eq!(rig.count().sets, 1, "though poh has taken nothing");
    fill(&mut rig);
    rig.turn();
    assert_eq!(rig.take_control("store_poh").len(), hearth_tile::rig::DEPTH as usize);
    rig.run();
    assert_eq!(rig.take_control("store_poh"), [(DISK_FULL, vec![])], "the last word is the newest");
}

#[test]
fn in_a_cluster_nothing_that_is_there_is_discarded_at_the_start() {
    let dir = Dir::new("kept");
    let open = || BlockStore::open(&dir.0, small()).unwrap().0;
    let (mut rig, ..) = rig(&dir, small());
    rig.give("shred_store:0", 0, &set(1, 0, true));
    rig.give("shred_store:0", 0, &set(2, 0, false));
    rig.run();
    drop(rig);
    let ledger = builders::ledger(1);
    let store = open();
    let reader = store.reader();
    let config = Config::new(store, ledger).in_cluster(0);
    let rig = Rig::<Store>::new(config, &["shred_store:0", "replay_store"], &[]);
    let kept: Vec<(u64, bool)> = reader.slots(.., 9).iter().map(|slot| (slot.slot, slot.whole)).collect();
    assert_eq!(kept, [(1, true), (2, false)]);
    drop(rig);
}
