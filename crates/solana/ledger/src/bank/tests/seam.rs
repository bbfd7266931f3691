//! The interface to the general engine, simulation, and the end of a slot.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use hearth_wire::consts::{LAMPORTS_PER_SOL, VOTE_PROGRAM};
use hearth_wire::message::Instruction;
use hearth_wire::program::system;
use parking_lot::Mutex;

use crate::TransactionError::{self, *};
use crate::account::Account;
use crate::bank::{
    AccountReader, Outcome, ProgramRuntime, RuntimeBatch, RuntimeOutcome, RuntimeTransaction, RuntimeWorker,
};
use crate::testing::{Chain, landed, parse, wallet};
use crate::{Commitment, Executor, LedgerConfig};

const RICH: u64 = LAMPORTS_PER_SOL;

fn transfer(from: u64, to: u64, lamports: u64) -> Instruction {
    system::transfer(&wallet(from), &wallet(to), lamports)
}

/// A call that the fast path does not handle.
fn call(data: u8) -> Instruction {
    Instruction { program_id: VOTE_PROGRAM, accounts: vec![], data: vec![data] }
}

/// Gives wallet 5 the payer's balance, as `scripted` says, and counts its transactions and batches.
#[derive(Clone, Debug, Default)]
struct Scripted {
    calls: Arc<AtomicU64>,
    batches: Arc<AtomicU64>,
    refuse: Arc<Mutex<Option<TransactionError>>>,
}

impl ProgramRuntime for Scripted {
    fn worker(&self) -> Box<dyn RuntimeWorker> {
        Box::new(self.clone())
    }
}

impl RuntimeWorker for Scripted {
    fn execute(&mut self, batch: &RuntimeBatch<'_>, outcomes: &mut Vec<RuntimeOutcome>) {
        self.batches.fetch_add(1, Relaxed);
        outcomes.extend(batch.txns.iter().map(|txn| self.run(txn, batch.accounts)));
    }
}

impl Scripted {
    fn run(&self, request: &RuntimeTransaction<'_>, accounts: &dyn AccountReader) -> RuntimeOutcome {
        self.calls.fetch_add(1, Relaxed);
        if let Some(error) = *self.refuse.lock() {
            return RuntimeOutcome::Refused(error);
        }
        let payer = accounts.load(request.txn.fee_payer()).unwrap();
        assert!(!request.needs_nonce);
        RuntimeOutcome::Committed {
            result: Ok(()),
            compute_units: 1234,
            loaded_bytes: 64,
            writes: vec![
                (*request.txn.fee_payer(), Account::wallet(0)),
                (wallet(5), Account::wallet(payer.lamports - request.fee.total())),
            ],
            record: None,
        }
    }
}

#[test]
fn the_general_path_sees_and_leaves_what_the_microblock_has() {
    let general = Scripted::default();
    let config = LedgerConfig { general: Box::new(general.clone()), ..LedgerConfig::default() };
    let mut chain = Chain::with_config(&[RICH, RICH], config);
    let total = chain.total_lamports();
    let txns = [
        chain.txn(&wallet(0), &[transfer(0, 1, 100)]),
        chain.txn(&wallet(1), &[call(1)]),
        chain.txn(&wallet(1), &[transfer(1, 0, 0)]),
        chain.txn(&wallet(5), &[transfer(5, 0, 7)]),
    ];
    let outcomes = chain.run(&txns);
    assert_eq!((landed(outcomes[1]).err, landed(outcomes[1]).compute_units), (None, 1234));
    assert_eq!(outcomes[2], Outcome::NotCommitted(AccountNotFound), "its lamports went to 5");
    assert_eq!(landed(outcomes[3]).err, None);
    let left = [0, 1, 5].map(|n| chain.balance(n));
    assert_eq!(left, [RICH - 100 - 5_000 + 7, 0, RICH + 100 - 5_000 - 5_000 - 7]);
    assert_eq!((chain.total_lamports(), general.calls.load(Relaxed)), (total, 1));
    assert_eq!(chain.run(&txns[1..2])[0], Outcome::NotCommitted(AlreadyProcessed));
    // A refused transaction may be retried.
    *general.refuse.lock() = Some(InsufficientFundsForFee);
    for _ in 0..2 {
        assert_eq!(chain.run_one(&wallet(0), &[call(2)]), Outcome::NotCommitted(InsufficientFundsForFee));
    }
}

#[test]
fn consecutive_transfers_run_together() {
    let general = Scripted::default();
    let config = LedgerConfig { general: Box::new(general.clone()), ..LedgerConfig::default() };
    let mut chain = Chain::with_config(&[RICH; 4], config);
    let general_txn = |chain: &Chain, n: u64| chain.txn(&wallet(n), &[call(n as u8)]);
    let txns = [
        general_txn(&chain, 0),
        general_txn(&chain, 1),
        chain.txn(&wallet(2), &[transfer(2, 3, 1)]),
        general_txn(&chain, 2),
        general_txn(&chain, 2),
        general_txn(&chain, 3),
    ];
    let outcomes = chain.run(&txns);
    assert_eq!(outcomes[4], Outcome::NotCommitted(AlreadyProcessed));
    assert!(outcomes.iter().enumerate().all(|(index, outcome)| index == 4 || landed(*outcome).err.is_none()));
    let (calls, batches) = (general.calls.load(Relaxed), general.batches.load(Relaxed));
    assert_eq!((calls, batches), (4, 3), "one of two, one alone, and one after the refused");
}

#[test]
fn a_record_says_what_a_transfer_did() {
    let chain = Chain::new(&[RICH, RICH]);
    let mut executor = Executor::new();
    executor.set_recording(true);
    let bytes = [
        chain.txn(&wallet(0), &[transfer(0, 1, 5)]),
        chain.txn(&wallet(9), &[]),
        chain.txn(&wallet(0), &[transfer(0, 1, 2 * RICH)]),
    ];
    let txns = [parse(&bytes[0]), parse(&bytes[1]), parse(&bytes[2])];
    chain.bank.execute(&mut executor, &txns, &mut vec![]);
    let [Some(good), None, Some(bad)] = executor.records() else { panic!("{:?}", executor.records()) };
    assert_eq!(good.balances, [(RICH, RICH - 5_005), (RICH, RICH + 5), (1, 1)]);
    let system = "11111111111111111111111111111111";
    assert_eq!(good.logs, [format!("Program {system} invoke [1]"), format!("Program {system} success")]);
    assert_eq!(bad.balances[..2], [(RICH - 5_005, RICH - 10_005), (RICH + 5, RICH + 5)]);
    let bytes = chain.txn(&wallet(0), &[transfer(0, 1, 6)]);
    let simulation = chain.bank.simulate(&mut executor, &parse(&bytes));
    assert_eq!(simulation.accounts[1].1, Some(Account::wallet(RICH + 11)));
    assert_eq!(simulation.record.expect("it would land").balances[1], (RICH + 5, RICH + 11));
    assert_eq!(chain.balance(1), RICH + 5);
}

#[test]
fn without_a_general_path_nothing_happens() {
    let mut chain = Chain::new(&[RICH]);
    for _ in 0..2 {
        assert_eq!(chain.run_one(&wallet(0), &[call(1)]), Outcome::Unsupported);
    }
    assert_eq!((chain.balance(0), chain.bank.counts().unsupported), (RICH, 2));
    assert_eq!(chain.ledger.transaction_count(Commitment::Processed), 0);
}

#[test]
fn a_simulation_changes_nothing() {
    let mut chain = Chain::new(&[RICH, RICH]);
    let good = [transfer(0, 1, 5)];
    for _ in 0..2 {
        assert_eq!(landed(chain.simulate(&wallet(0), &good)).err, None);
    }
    let bad = landed(chain.simulate(&wallet(0), &[transfer(0, 1, 2 * RICH)]));
    assert_eq!(bad.err, Some(InstructionError(0, crate::InstructionError::Custom(1))));
    assert_eq!(chain.simulate(&wallet(9), &[]), Outcome::NotCommitted(AccountNotFound));
    assert_eq!((chain.balance(0), chain.balance(1), chain.bank.counts()), (RICH, RICH, Default::default()));
    assert_eq!(landed(chain.run_one(&wallet(0), &good)).err, None);
    assert_eq!(chain.simulate(&wallet(0), &good), Outcome::NotCommitted(AlreadyProcessed));
}

#[test]
fn nothing_runs_after_the_end() {
    let mut chain = Chain::new(&[RICH, RICH]);
    let txn = chain.txn(&wallet(0), &[transfer(0, 1, 5)]);
    let ended = Arc::clone(&chain.bank);
    chain.next_slot();
    let next = std::mem::replace(&mut chain.bank, ended);
    assert_eq!(chain.run(std::slice::from_ref(&txn))[0], Outcome::SlotEnded);
    chain.bank = next;
    assert_eq!(landed(chain.run(&[txn])[0]).err, None, "no trace was left");
}
