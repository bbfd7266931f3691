//! A chain that continues while snapshots of it are taken, and another that resumes from one.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use hearth_testkit::{PATIENCE, wait_for, wait_until};
use hearth_wire::program::system;

use super::*;
use crate::blockstore::{self, BlockStore, FecSetRecord};
use crate::snapshot::{LoadedSnapshot, load, prove, prove_on};
use crate::testing::{Chain, IDENTITY, landed, parse, wallet};
use crate::{
    Commitment, Executor, Forks, Genesis, GenesisConfig, Ledger, LedgerConfig, Outcome, StatusCacheConfig,
    TransactionError,
};

const RICH: u64 = 1_000_000_000_000;
/// Bytes of each block.
const SET: usize = 8000;
const SMALL: StatusCacheConfig = StatusCacheConfig { enabled: true, capacity_txns: 0 };

fn store(dir: &Path, mib: u64) -> BlockStore {
    let config = blockstore::Config::new(mib << 20, [0; 32]);
    BlockStore::open(&dir.join("blocks"), config).unwrap().0
}

fn store_block(chain: &Chain, store: &mut BlockStore, slot: u64) {
    append_block(store, slot);
    chain.ledger.mark_stored(slot);
}

fn append_block(store: &mut BlockStore, slot: u64) {
    let set = FecSetRecord {
        slot,
        parent_slot: slot - 1,
        fec_set_index: 0,
        reference_tick: 0,
        last_in_slot: true,
        ends_batch: None,
        merkle_root: [slot as u8; 32],
        chained_root: [0; 32],
        signature: [0; 64],
        data: &[slot as u8; SET],
    };
    store.append_set(&set).unwrap();
}

fn start(chain: &Chain, dir: &Path, store: &BlockStore, interval_slots: u64) -> (Taker, Receiver<SnapshotEvent>) {
    let (tell, events) = channel();
    let folder = Folder::open(&dir.join("snapshots")).unwrap();
    let config = SnapshotConfig { interval_slots, keep: 2 };
    let tell = move |event| {
        let _ = tell.send(event);
    };
    (Taker::start(&chain.ledger, config, None, folder, store.reader(), || {}, tell).unwrap(), events)
}

fn taken(events: &Receiver<SnapshotEvent>) -> SnapshotFile {
    match events.recv_timeout(PATIENCE).expect("a snapshot in time") {
        SnapshotEvent::Taken { file, .. } => file,
        event => panic!("{event:?}"),
    }
}

fn genesis() -> Genesis {
    let development = GenesisConfig::development(IDENTITY, [2; 32], 0);
    let config = GenesisConfig { fund_initial_accounts: 0, identity_lamports: 0, faucet_lamports: 0, ..development };
    Genesis::create(config, |_| {}).unwrap()
}

fn restore(chain: &Chain, file: &SnapshotFile) -> Arc<Ledger> {
    let loaded = load(&file.path, chain.ledger.genesis_hash(), &SMALL).unwrap();
    assert_eq!(loaded.manifest.block_id, [file.slot as u8; 32]);
    Ledger::restore(&genesis(), LedgerConfig { status_cache: SMALL, ..LedgerConfig::default() }, loaded)
}

fn balances(ledger: &Ledger) -> Vec<u64> {
    (0..8).map(wallet).chain([[99; 32]]).map(|address| ledger.balance(&address)).collect()
}

fn pay(chain: &mut Chain, n: u64, lamports: u64) -> Vec<u8> {
    let bytes = chain.txn(&wallet(n), &[system::transfer(&wallet(n), &[99; 32], lamports)]);
    landed(chain.run(std::slice::from_ref(&bytes))[0]);
    bytes
}

#[test]
fn snapshot_keeps_its_slot_while_the_chain_continues() {
    let dir = tempfile::tempdir().unwrap();
    let mut chain = Chain::new(&[RICH; 8]);
    let mut store = store(dir.path(), 8);
    let (taker, events) = start(&chain, dir.path(), &store, 3);
    (0..8).for_each(|n| drop(pay(&mut chain, n, 1_000_000)));
    chain.next_slot();
    chain.next_slot();
    let before = pay(&mut chain, 0, 1_000_001);
    chain.next_slot();
    let last = chain.ledger.recent_blocks(1)[0];
    assert_eq!(last.slot, 3);
    let (expected, burned) = (balances(&chain.ledger), chain.ledger.burned_lamports());
    // The block is not durable yet, so there is no snapshot; the chain continues.
    let after: Vec<_> = (0..8).map(|n| pay(&mut chain, n, 2_000_000)).collect();
    chain.next_slot();
    assert_eq!(taker.snapshots().newest_slot(), None);
    (1..=4).for_each(|slot| store_block(&chain, &mut store, slot));
    let file = taken(&events);
    assert_eq!((file.slot, taker.snapshots().newest_slot(), taker.snapshots().counts()), (3, Some(3), (1, 0)));

    let ledger = restore(&chain, &file);
    assert_eq!((balances(&ledger), ledger.burned_lamports()), (expected, burned));
    assert_eq!(ledger.recent_blocks(512), chain.ledger.recent_blocks(512)[1..]);
    assert_eq!(ledger.transaction_count(Commitment::Processed), 9);
    assert_eq!(ledger.slot(Commitment::Confirmed), 3);
    let hash_of_3 = ledger.hash_all();
    assert_eq!(hash_of_3.0, 3);
    assert_eq!(ledger.blockhashes().last(), &last.blockhash);
    let prices = |ledger: &Ledger| ledger.blockhashes().newest_first().map(|(_, price)| price).collect::<Vec<_>>();
    assert_eq!(prices(&ledger), prices(&chain.ledger)[1..]);
    let signature = *parse(&before).first_signature();
    assert_eq!(ledger.signature_status(&signature).unwrap().slot, 3);

    // Transactions from before the cut cannot land again, later ones can, and then both ledgers are equal.
    let bank = ledger.begin_slot(4, 3).unwrap();
    assert_eq!(bank.height(), 4);
    let mut outcomes = vec![];
    bank.execute(&mut Executor::new(), &[parse(&before)], &mut outcomes);
    assert_eq!(outcomes, [Outcome::NotCommitted(TransactionError::AlreadyProcessed)]);
    let txns: Vec<_> = after.iter().map(|bytes| parse(bytes)).collect();
    bank.execute(&mut Executor::new(), &txns, &mut outcomes);
    assert!(outcomes.iter().all(Outcome::is_committed));
    ledger.end_slot(4, chain.ledger.recent_blocks(1)[0].blockhash).unwrap();
    assert_eq!(balances(&ledger), balances(&chain.ledger));
    assert_eq!(ledger.hash_all(), chain.ledger.hash_all());
    assert_eq!(ledger.lattice(), chain.ledger.lattice());
    assert_ne!(ledger.hash_all(), hash_of_3);
    assert_eq!(ledger.recent_blocks(1)[0].transaction_count, chain.ledger.recent_blocks(1)[0].transaction_count);
}

#[test]
fn failure_is_reported_and_the_next_taken() {
    let dir = tempfile::tempdir().unwrap();
    let mut chain = Chain::new(&[RICH; 8]);
    let mut store = store(dir.path(), 8);
    let (taker, events) = start(&chain, dir.path(), &store, 2);
    let folder = dir.path().join("snapshots");
    std::fs::remove_dir(&folder).unwrap();
    for slot in 1..=2 {
        chain.next_slot();
        store_block(&chain, &mut store, slot);
    }
    let event = events.recv_timeout(PATIENCE).unwrap();
    assert!(matches!(event, SnapshotEvent::GivenUp { slot: 2, why: SnapshotError::Io { .. } }), "{event:?}");
    std::fs::create_dir(&folder).unwrap();
    for slot in 3..=9 {
        pay(&mut chain, 0, slot);
        chain.next_slot();
        store_block(&chain, &mut store, slot);
        if slot % 2 == 0 {
            assert_eq!(taken(&events).slot, slot);
        }
    }
    assert_eq!(taker.snapshots().counts(), (3, 1));
    // A taker that ends leaves no part file; one that starts finds the existing snapshots.
    drop(taker);
    let names = |files: Vec<SnapshotFile>| files.iter().map(|file| file.slot).collect::<Vec<_>>();
    assert_eq!(names(Folder::existing(&folder).unwrap().files().unwrap()), [8, 6]);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 2);
    let (taker, _) = start(&Chain::new(&[]), dir.path(), &store, 2);
    assert_eq!(taker.snapshots().newest_slot(), Some(8));
}

#[test]
fn nodes_that_began_at_different_slots_take_the_same() {
    let dirs = [(); 2].map(|()| tempfile::tempdir().unwrap());
    for (dir, began) in dirs.iter().zip([2, 3]) {
        for (interval, slots) in [(began, vec![began]), (5, vec![5, 10])] {
            let mut chain = Chain::new(&[RICH; 8]);
            let blocks = tempfile::tempdir().unwrap();
            let mut store = store(blocks.path(), 8);
            let (_taker, events) = start(&chain, dir.path(), &store, interval);
            let mut expected = slots.into_iter();
            for slot in 1..=*expected.as_slice().last().unwrap() {
                chain.next_slot();
                store_block(&chain, &mut store, slot);
                if expected.as_slice().first() == Some(&slot) {
                    assert_eq!(Some(taken(&events).slot), expected.next());
                }
            }
        }
    }
}

#[test]
fn a_stepped_taker_writes_the_state_of_the_cut() {
    let dir = tempfile::tempdir().unwrap();
    let mut chain = Chain::new(&[RICH; 8]);
    let mut store = store(dir.path(), 8);
    let config = SnapshotConfig { interval_slots: 2, keep: 2 };
    let folder = Folder::open(&dir.path().join("snapshots")).unwrap();
    let mut taker = SteppedTaker::new(&chain.ledger, config, folder, store.reader()).unwrap();
    assert!(!taker.has_work() && taker.step().is_none(), "nothing is due");
    (0..2).for_each(|n| drop(pay(&mut chain, n, 1_000_000)));
    chain.next_slot();
    chain.next_slot();
    let expected = balances(&chain.ledger);
    pay(&mut chain, 0, 2_000_000);
    assert!(taker.has_work() && taker.step().is_none(), "the block is not on disk");
    (1..=2).for_each(|slot| store_block(&chain, &mut store, slot));
    let file = wait_for("the block is on disk", || taker.step().ok_or_else(String::new)).unwrap();
    assert_eq!(file.slot, 2);
    assert!(!taker.has_work(), "it is done");
    assert_eq!(balances(&restore(&chain, &file)), expected);
}

#[test]
fn a_snapshot_that_waits_for_its_block_does_not_hold_up_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let mut chain = Chain::new(&[RICH; 8]);
    let store = store(dir.path(), 8);
    let (taker, events) = start(&chain, dir.path(), &store, 1);
    chain.next_slot();
    drop(taker);
    assert!(events.recv().is_err(), "nothing to tell");
    assert_eq!(std::fs::read_dir(dir.path().join("snapshots")).unwrap().count(), 0);
}

#[test]
fn blocks_that_need_room_bring_a_snapshot_early() {
    let dir = tempfile::tempdir().unwrap();
    let mut chain = Chain::new(&[RICH; 8]);
    let mut store = store(dir.path(), 4);
    let (taker, events) = start(&chain, dir.path(), &store, u64::MAX);
    let reader = store.reader();
    let mut newest = 0;
    // Three times the store's limit: each snapshot lets blocks be dropped.
    let mut stored = 0;
    for slot in 1.. {
        chain.next_slot();
        store_block(&chain, &mut store, slot);
        stored += SET as u64;
        if slot % 8 == 0 {
            // As in a node, the chain does not run far ahead of the disk.
            wait_until("it is on disk", || reader.durable_slot() >= Some(slot));
            newest = events.try_iter().fold(newest, |_, event| match event {
                SnapshotEvent::Taken { file, .. } => file.slot,
                event => panic!("{event:?}"),
            });
            assert!(
                [0, slot].contains(&newest) || reader.slot(newest + 1).is_some(),
                "the blocks after slot {newest} are kept"
            );
        }
        if stored > 12 << 20 {
            break;
        }
    }
    drop(taker);
    assert!(reader.first_slot() > Some(1) && newest > 100, "{:?} {newest}", reader.first_slot());
}

#[test]
fn hashes_are_kept_whether_they_are_known_before_or_after() {
    let mut chain = Chain::new(&[RICH; 8]);
    pay(&mut chain, 0, 1_000_000);
    chain.next_slot();
    let hashing = &chain.ledger.shared.hashing;
    hashing.keep(1);
    assert_eq!(hashing.kept(1), None, "not known yet");
    let hash = chain.ledger.hash_all();
    let later = hashing.kept(1).unwrap();
    assert_eq!((hashing.kept(1), (1, later.bank_hash())), (None, hash));
    hashing.keep(1);
    assert_eq!(hashing.kept(1), Some(later));
}

#[test]
fn where_forks_are_kept_a_snapshot_is_of_what_stays() {
    let dir = tempfile::tempdir().unwrap();
    let config = LedgerConfig { forks: Some(Forks::default()), ..LedgerConfig::default() };
    let mut chain = Chain::with_config(&[RICH; 8], config);
    let mut store = store(dir.path(), 8);
    let (taker, events) = start(&chain, dir.path(), &store, 3);
    pay(&mut chain, 0, 1_000_000);
    (1..=4).for_each(|_| chain.next_slot());
    pay(&mut chain, 0, 1_000_000);
    chain.next_slot();
    // The state of slot 3 is written, and waits.
    (1..=5).for_each(|slot| append_block(&mut store, slot));
    wait_until("all is on disk", || store.reader().durable_slot() >= Some(5));
    assert!(chain.ledger.mark_stored(5));
    chain.ledger.rewind(4).unwrap();
    assert!(chain.ledger.mark_rooted(2));
    assert!(chain.ledger.is_settled(2) && !chain.ledger.is_settled(3));
    assert_eq!((taker.snapshots().newest_slot(), events.try_recv().is_err()), (None, true), "not final yet");
    chain.ledger.rewind(2).unwrap();
    let event = events.recv_timeout(PATIENCE).unwrap();
    assert!(matches!(event, SnapshotEvent::GivenUp { slot: 3, why: SnapshotError::Undone { slot: 3 } }), "{event:?}");
    assert_eq!(std::fs::read_dir(dir.path().join("snapshots")).unwrap().count(), 0);
    // Another block of slot 3, whatever follows it and is undone.
    chain.bank = chain.ledger.begin_slot(3, 2).unwrap();
    pay(&mut chain, 1, 3_000_000);
    chain.next_slot();
    chain.ledger.rewind(3).unwrap();
    let (expected, hash) = (balances(&chain.ledger), chain.ledger.hash_all());
    chain.bank = chain.ledger.begin_slot(4, 3).unwrap();
    for n in 0..8 {
        pay(&mut chain, n, 7_000_000);
        chain.next_slot();
    }
    chain.ledger.rewind(3).unwrap();
    assert_eq!(balances(&chain.ledger), expected);
    assert!(chain.ledger.mark_stored(3) && chain.ledger.mark_rooted(3));
    let file = taken(&events);
    assert_eq!((file.slot, taker.snapshots().counts()), (3, (1, 1)));
    // A ledger that resumes from it can rewind to it.
    let loaded = load(&file.path, chain.ledger.genesis_hash(), &SMALL).unwrap();
    let config = LedgerConfig { status_cache: SMALL, forks: Some(Forks::default()), ..LedgerConfig::default() };
    let ledger = Ledger::restore(&genesis(), config, loaded);
    for _ in 0..3 {
        assert_eq!((balances(&ledger), ledger.hash_all()), (expected.clone(), hash));
        chain.bank = ledger.begin_slot(4, 3).unwrap();
        pay(&mut chain, 0, 5_000_000);
        ledger.end_slot(4, [4; 32]).unwrap();
        assert_ne!(balances(&ledger), expected);
        ledger.rewind(3).unwrap();
    }
}

#[test]
fn received_snapshot_must_match_its_hash() {
    let dir = tempfile::tempdir().unwrap();
    let mut chain = Chain::new(&[RICH; 8]);
    let mut store = store(dir.path(), 8);
    let (taker, events) = start(&chain, dir.path(), &store, 2);
    (0..8).for_each(|n| drop(pay(&mut chain, n, 1_000_000)));
    for slot in 1..=2 {
        chain.next_slot();
        store_block(&chain, &mut store, slot);
    }
    let file = taken(&events);
    let proved = prove(&file.path, chain.ledger.genesis_hash()).unwrap();
    assert_eq!(Some(proved), taker.snapshots().newest());
    assert_eq!(proved, (2, chain.ledger.bank_hash(2).unwrap()));
    assert_eq!(taker.snapshots().file(2), Some(file.path.clone()));
    assert!(matches!(prove(&file.path, &[7; 32]), Err(SnapshotError::OtherChain { .. })));

    // The same with a richer account: every checksum is right, but the hash is another's.
    let LoadedSnapshot { accounts, manifest, .. } = load(&file.path, chain.ledger.genesis_hash(), &SMALL).unwrap();
    let folder = Folder::open(&dir.path().join("lying")).unwrap();
    let (genesis, height) = (chain.ledger.genesis_hash(), manifest.last().height);
    let mut writer = Writer::create(&folder, genesis, (2, height), chain.ledger.statuses().seed()).unwrap();
    accounts.for_each(|key, account| {
        let mut account = account.clone();
        account.lamports += u64::from(*key == wallet(3));
        writer.account(key, &account).unwrap();
    });
    let (lying, _) = writer.finish(&manifest).unwrap();
    let why = prove(&lying.path, genesis).unwrap_err().to_string();
    assert!(why.contains("not those of the bank's hash"), "{why}");
}

#[test]
fn a_snapshot_of_a_forks_first_block_is_proved() {
    let dir = tempfile::tempdir().unwrap();
    let config = LedgerConfig { hard_forks: vec![2, 2, 9], ..LedgerConfig::default() };
    let mut chain = Chain::with_config(&[RICH; 8], config);
    let mut store = store(dir.path(), 8);
    let (_taker, events) = start(&chain, dir.path(), &store, 2);
    for slot in 1..=2 {
        chain.next_slot();
        store_block(&chain, &mut store, slot);
    }
    let file = taken(&events);
    let genesis = chain.ledger.genesis_hash();
    let loaded = load(&file.path, genesis, &SMALL).unwrap();
    assert_eq!(loaded.manifest.hard_forks, Some(vec![(2, 2), (9, 1)]));
    let proved = (2, chain.ledger.bank_hash(2).unwrap());
    assert_eq!(prove(&file.path, genesis).unwrap(), proved);
    // The hash covers the fork at slot 2 alone, so a peer could make up the other.
    for hard_forks in [&[9, 2, 2][..], &[2, 2, 9, 12]] {
        assert_eq!(prove_on(&file.path, genesis, hard_forks).unwrap(), proved);
    }
    for hard_forks in [&[][..], &[2, 2], &[2, 9]] {
        let why = prove_on(&file.path, genesis, hard_forks).unwrap_err().to_string();
        assert!(why.contains("other hard forks"), "{why}");
    }
}
