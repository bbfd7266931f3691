//! Tile tests: orders in, verdicts out.

use hearth_crypto::ed25519::SigningKey;
use hearth_crypto::sha256::sha256_chain;
use hearth_ledger::history::{self, Batch, History};
use hearth_ledger::{Account, Outcome, TransactionError, builders};
use hearth_tile::rig::Rig;

use super::*;
use crate::bank::RecorderConfig;
use crate::poh::check::ChainEntry;

const ORDERS: &str = "replay_exec:0";
const REPORTS: &str = "exec_replay:0";

struct Trial {
    rig: Rig<Exec>,
    ledger: Arc<Ledger>,
    buffer: Vec<u8>,
}

fn key(number: u8) -> SigningKey {
    SigningKey::from_seed(&[number; 32])
}

impl Trial {
    fn new(recording: Option<RecorderConfig>) -> Self {
        let ledger = builders::ledger(0);
        (0..80).for_each(|n| ledger.accounts().store(&key(n).public_key(), Account::wallet(1 << 40)));
        ledger.begin_slot(1, 0).unwrap();
        let worker = WorkerConfig { table_bytes: 1 << 20, recording };
        let rig = Rig::new(Config { ledger: ledger.clone(), worker }, &[ORDERS], &[REPORTS]);
        Self { rig, ledger, buffer: vec![0; MICROBLOCK_MTU] }
    }

    fn transfers(&self, range: std::ops::Range<u8>) -> Vec<Vec<u8>> {
        let blockhash = self.ledger.recent_blocks(1)[0].blockhash;
        let transfer = |from: u8| builders::transfer(&key(from), &key(from + 100).public_key(), 1 << 30, &blockhash);
        range.map(transfer).collect()
    }

    fn give(&mut self, id: u64, slot: u64, txns: &[Vec<u8>], is_known: bool) {
        let mut at = 0;
        let mut place = |txn: &Vec<u8>| {
            at += txn.len();
            TransactionRange { at: (at - txn.len()) as u32, len: txn.len() as u16 }
        };
        let work = Work::Execute { txns: txns.iter().map(&mut place).collect(), is_known, records: true };
        self.give_order(&WorkOrder { id, slot, work }, &txns.concat());
    }

    fn give_order(&mut self, order: &WorkOrder, data: &[u8]) {
        let size = ExecOrder::write(&mut self.buffer, order, data);
        self.rig.give(ORDERS, order.id, &self.buffer[..size]);
    }

    fn verdicts(&mut self) -> Vec<(u64, Option<Failure>)> {
        self.rig.run();
        let frags = self.rig.take(REPORTS);
        frags.into_iter().map(|(id, payload)| (id, ExecVerdict::read(&payload).failure)).collect()
    }
}

#[test]
fn orders_are_executed_one_after_the_other() {
    let mut trial = Trial::new(None);
    let txns = trial.transfers(0..70);
    trial.give(5, 1, &txns[..64], false);
    trial.give(6, 1, &txns[64..], true);
    assert_eq!(trial.verdicts(), [(5, None), (6, None)]);
    assert_eq!(trial.ledger.account(&key(169).public_key()).unwrap().lamports, 1 << 30);
    let count = trial.rig.count();
    assert_eq!((count.orders, count.orders_failed), (2, 0));
    assert_eq!((count.transactions, count.signatures), (70, 64), "those of the second are known");
}

#[test]
fn a_known_block_is_not_charged() {
    let mut trial = Trial::new(None);
    let txns = trial.transfers(0..3);
    trial.give(1, 1, &txns[..2], false);
    trial.give(2, 1, &txns[2..], true);
    trial.rig.run();
    let verdicts = trial.rig.take(REPORTS);
    let costs: Vec<usize> = verdicts.iter().map(|(_, payload)| ExecVerdict::read(payload).costs.len()).collect();
    assert_eq!(costs, [2, 0]);
}

#[test]
fn a_turn_is_bounded() {
    let mut trial = Trial::new(None);
    let txns = trial.transfers(0..64);
    trial.give(1, 1, &txns, false);
    let mut most = [0, 0];
    let mut before = [0, 0];
    while trial.rig.count().orders == 0 {
        trial.rig.turn();
        let now = [trial.rig.count().signatures, trial.rig.count().transactions];
        most = std::array::from_fn(|at| most[at].max(now[at] - before[at]));
        before = now;
    }
    assert_eq!((before, most), ([64, 64], [32, 32]));
}

#[test]
fn the_first_fault_ends_an_order() {
    let mut trial = Trial::new(None);
    let mut txns = trial.transfers(0..50);
    txns[40][7] ^= 1;
    trial.give(1, 1, &txns, false);
    assert_eq!(trial.verdicts(), [(1, Some(Failure::Signature { txn: 40 }))]);
    assert!(trial.ledger.account(&key(139).public_key()).is_some(), "what is before it is executed");
    assert!(trial.ledger.account(&key(140).public_key()).is_none());
    // It has landed before, which is checked before the signature.
    txns.rotate_left(39);
    trial.give(2, 1, &txns, false);
    let outcome = Outcome::NotCommitted(TransactionError::AlreadyProcessed);
    assert_eq!(trial.verdicts(), [(2, Some(Failure::Outcome { txn: 0, outcome }))]);
    assert_eq!(trial.rig.count().orders_failed, 2);
}

#[test]
fn a_slot_that_is_not_in_the_making_ends_the_order() {
    let mut trial = Trial::new(None);
    let txns = trial.transfers(0..2);
    let ended = Some(Failure::Outcome { txn: 0, outcome: Outcome::SlotEnded });
    trial.give(1, 2, &txns[..1], false);
    assert_eq!(trial.verdicts(), [(1, ended)]);
    trial.give(2, 1, &txns[..1], false);
    assert_eq!(trial.verdicts(), [(2, None)]);
    trial.ledger.end_slot(1, [9; 32]).unwrap();
    trial.give(3, 1, &txns[1..], false);
    assert_eq!(trial.verdicts(), [(3, ended)]);
}

#[test]
fn hashes_are_checked_in_pieces() {
    let mut trial = Trial::new(None);
    let ticks: Vec<ChainEntry> = (1..=3)
        .map(|tick| ChainEntry { num_hashes: 5_000, mixin: None, hash: sha256_chain([7; 32], 5_000 * tick) })
        .collect();
    let mut order = WorkOrder { id: 1, slot: 1, work: Work::Hash { before: [7; 32], entries: ticks.clone() } };
    trial.give_order(&order, &[]);
    trial.rig.turn();
    assert_eq!(trial.rig.count().orders, 0, "not all in one turn");
    assert_eq!(trial.verdicts(), [(1, None)]);
    let Work::Hash { entries, .. } = &mut order.work else { unreachable!() };
    entries[1].hash[0] ^= 1;
    trial.give_order(&order, &[]);
    assert_eq!(trial.verdicts(), [(1, Some(Failure::Hash { entry: 1 }))]);
}

#[test]
fn the_history_comes_in_pieces_before_the_verdict() {
    let folder = tempfile::tempdir().unwrap();
    let log = History::open(folder.path(), history::Config::new(1 << 20, [1; 32]), 0).unwrap();
    let mut trial = Trial::new(Some(RecorderConfig { key: log.key(), extended: false }));
    let txns = trial.transfers(0..64);
    trial.give(3, 1, &txns, false);
    trial.rig.run();
    let frags = trial.rig.take_control(REPORTS);
    let (verdict, pieces) = frags.split_last().unwrap();
    let ExecVerdict { failure, costs } = ExecVerdict::read(&verdict.1);
    assert_eq!((verdict.0, failure, costs.len()), (0, None, 64));
    // A signature, two accounts, twelve bytes of data, a transfer, a page of loaded accounts.
    assert!(costs.iter().all(|cost| (cost.units, cost.allocated_bytes) == (720 + 600 + 3 + 150 + 8, 0)));
    assert!(pieces.iter().all(|(control, _)| *control == MORE));
    let batch: Vec<u8> = pieces.iter().flat_map(|(_, piece)| piece).copied().collect();
    let read = Batch::read(&batch);
    assert_eq!((read.slot, read.count, read.pieces().count()), (1, 64, 64));
}
