//! Compares the fast path for transfers with the engine over generated microblocks: outcomes with errors, fees, compute
//! units and loaded bytes; every account afterwards; the block's counts. Also checks that this detects a wrong fast
//! path.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use hearth_ledger::bank::{
    BankCounts, Outcome, ProgramRuntime, RuntimeBatch, RuntimeOutcome, RuntimeWorker, TransferRules,
};
use hearth_ledger::features::{feature_accounts, supported};
use hearth_ledger::rent::minimum_balance;
use hearth_ledger::{Account, Executor};
use hearth_svm::Svm;
use hearth_wire::consts::*;
use hearth_wire::message::{AccountMeta, Instruction};
use hearth_wire::program::compute_budget::ComputeBudgetInstruction;
use hearth_wire::{Pubkey, Txn};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::common::{SOL, bytes_of, ledger, wallet};

/// Number of accounts that a case may start with, each of some kind.
const ACCOUNTS: u64 = 6;

/// The engine, and the number of transactions that it was given.
#[derive(Clone)]
struct CountedEngine(Svm, Arc<AtomicU64>);

#[derive(Debug)]
struct CountedWorker(Box<dyn RuntimeWorker>, Arc<AtomicU64>);

impl ProgramRuntime for CountedEngine {
    fn worker(&self) -> Box<dyn RuntimeWorker> {
        Box::new(CountedWorker(self.0.worker(), self.1.clone()))
    }
}

impl RuntimeWorker for CountedWorker {
    fn execute(&mut self, batch: &RuntimeBatch<'_>, outcomes: &mut Vec<RuntimeOutcome>) {
        self.1.fetch_add(batch.txns.len() as u64, Relaxed);
        self.0.execute(batch, outcomes);
    }
}

/// The initial state of an account.
fn account() -> impl Strategy<Value = Option<Account>> {
    let edge = minimum_balance(0);
    let lamports = prop_oneof![
        4 => Just(SOL),
        2 => Just(edge),
        1 => Just(edge - 1),
        1 => Just(edge + 5_000),
        1 => Just(edge + 4_999),
        1 => Just(5_000),
        1 => Just(4_999),
        1 => Just(1),
        1 => 0..3 * edge,
        1 => Just(u64::MAX / 2),
    ];
    let kind = prop_oneof![8 => Just(0), 1 => 1..10];
    (lamports, kind).prop_map(|(lamports, kind)| {
        let mut account = match kind {
            1 => return None,
            2 => Account::with_data(lamports, SYSTEM_PROGRAM, &[7; 5]),
            3 => Account::with_data(lamports, [9; 32], &[7; 100]),
            4 => Account::with_data(lamports, SYSTEM_PROGRAM, &nonce()),
            5 => Account::with_data(lamports, SYSTEM_PROGRAM, &[0; 80]),
            6 => Account::with_data(lamports, [9; 32], &[]),
            7 => Account::with_data(lamports, BPF_LOADER_UPGRADEABLE, &[2; 36]),
            8 => Account::with_data(lamports, BPF_LOADER, &[7; 9]),
            _ => Account::wallet(lamports),
        };
        if kind == 9 {
            account.rent_epoch = 0;
        }
        (lamports != 0).then_some(account)
    })
}

/// A nonce account's data: version, state, authority, value, fee.
fn nonce() -> Vec<u8> {
    [&1u32.to_le_bytes()[..], &1u32.to_le_bytes(), &wallet(0), &[3; 32], &5_000u64.to_le_bytes()].concat()
}

fn address() -> impl Strategy<Value = Pubkey> {
    prop_oneof![
        12 => (0..ACCOUNTS).prop_map(wallet),
        1 => Just(wallet(99)),
        1 => Just(SYSTEM_PROGRAM),
        1 => Just(COMPUTE_BUDGET_PROGRAM),
        1 => Just(VOTE_PROGRAM),
        1 => Just(SYSVAR_CLOCK),
        1 => Just(SYSVAR_INSTRUCTIONS),
        1 => Just(INCINERATOR),
    ]
}

fn amount() -> impl Strategy<Value = u64> {
    let edge = minimum_balance(0);
    prop_oneof![
        Just(0),
        Just(1),
        Just(edge),
        Just(edge - 1),
        Just(SOL - edge - 5_000),
        Just(SOL - edge - 5_001),
        Just(SOL - 5_000),
        Just(SOL),
        Just(u64::MAX / 2),
        Just(u64::MAX),
        0..2 * SOL,
    ]
}

fn transfer() -> impl Strategy<Value = Instruction> {
    let shape = prop_oneof![12 => Just(0), 1 => 1..8];
    (address(), address(), amount(), shape).prop_map(|(from, to, lamports, shape)| {
        let mut instruction = hearth_wire::program::system::transfer(&from, &to, lamports);
        match shape {
            1 => instruction.accounts.truncate(1),
            2 => instruction.accounts.clear(),
            3 => instruction.accounts[0].is_signer = false,
            4 => instruction.accounts[1].is_writable = false,
            5 => instruction.data.truncate(7),
            6 => instruction.data.push(1),
            7 => instruction.accounts.push(AccountMeta::readonly(to, false)),
            _ => {}
        }
        instruction
    })
}

fn instruction() -> impl Strategy<Value = Instruction> {
    use ComputeBudgetInstruction::*;
    let units = prop_oneof![Just(0), Just(149), Just(150), Just(299), Just(300), Just(450), 0..2_000_000u32];
    let bytes = prop_oneof![Just(0), Just(1), 60..700u32, Just(u32::MAX)];
    let budget = prop_oneof![
        units.prop_map(SetComputeUnitLimit),
        prop_oneof![Just(0), Just(1), 0..3_000_000_000u64].prop_map(SetComputeUnitPrice),
        bytes.prop_map(SetLoadedAccountsDataSizeLimit),
        prop_oneof![Just(32 << 10), Just(1), Just(256 << 10)].prop_map(RequestHeapFrame),
    ];
    let other = (address(), proptest::collection::vec(any::<u8>(), 0..6)).prop_map(|(program_id, data)| Instruction {
        program_id,
        accounts: vec![],
        data,
    });
    prop_oneof![
        10 => transfer(),
        3 => budget.prop_map(|budget| budget.instruction()),
        1 => other,
    ]
}

/// A microblock: the accounts before it, and its transactions.
type Case = (Vec<Option<Account>>, Vec<(Pubkey, Vec<Instruction>)>);

fn case() -> impl Strategy<Value = Case> {
    let payer = prop_oneof![10 => (0..ACCOUNTS).prop_map(wallet), 1 => address()];
    let txn = (payer, proptest::collection::vec(instruction(), 0..4));
    (proptest::collection::vec(account(), ACCOUNTS as usize), proptest::collection::vec(txn, 1..4))
}

/// The observable results of a microblock.
#[derive(Debug, PartialEq)]
struct MicroblockResult {
    outcomes: Vec<Outcome>,
    accounts: Vec<Option<Account>>,
    counts: BankCounts,
}

fn run(engine: &CountedEngine, executor: Executor, case: &Case) -> MicroblockResult {
    run_with(vec![], engine, executor, case)
}

/// The same on a chain that begins with more accounts, those of its features.
fn run_with(
    extra_accounts: Vec<(Pubkey, Account)>,
    engine: &CountedEngine,
    mut executor: Executor,
    (accounts, txns): &Case,
) -> MicroblockResult {
    let ledger = ledger(Box::new(engine.clone()), extra_accounts);
    for (n, account) in accounts.iter().enumerate() {
        if let Some(account) = account {
            ledger.accounts().store(&wallet(n as u64), account.clone());
        }
    }
    let bank = ledger.begin_slot(1, 0).expect("the first slot");
    let bytes: Vec<_> =
        txns.iter().map(|(payer, instructions)| bytes_of(payer, instructions, bank.parent_blockhash())).collect();
    // A payer that a program's rules keep from paying does not parse as a transaction.
    let txns: Vec<_> = bytes.iter().filter_map(|bytes| Txn::parse(bytes).ok()).collect();
    let mut outcomes = vec![];
    bank.execute(&mut executor, &txns, &mut outcomes);
    let others = [wallet(99), SYSTEM_PROGRAM, COMPUTE_BUDGET_PROGRAM, VOTE_PROGRAM, SYSVAR_CLOCK, INCINERATOR];
    let keys = (0..ACCOUNTS).map(wallet).chain(others).chain([SYSVAR_INSTRUCTIONS]);
    MicroblockResult { outcomes, accounts: keys.map(|key| ledger.account(&key)).collect(), counts: bank.counts() }
}

fn engine() -> CountedEngine {
    CountedEngine(Svm::new(), Arc::default())
}

fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(3_000)
}

#[test]
fn the_fast_path_is_the_engine() {
    let (fast, slow) = (engine(), engine());
    let (seen, landed) = (AtomicU64::new(0), AtomicU64::new(0));
    TestRunner::new(Config { cases: cases(), failure_persistence: None, ..Config::default() })
        .run(&case(), |case| {
            let by_engine = run(&slow, Executor::without_fast_path(), &case);
            seen.fetch_add(by_engine.outcomes.len() as u64, Relaxed);
            landed.fetch_add(by_engine.counts.committed, Relaxed);
            prop_assert_eq!(run(&fast, Executor::new(), &case), by_engine);
            Ok(())
        })
        .unwrap_or_else(|failure| panic!("{failure}\nrun it again with PROPTEST_RNG_SEED"));
    let (seen, general, landed) = (seen.into_inner(), fast.1.load(Relaxed), landed.into_inner());
    assert!(general * 2 < seen, "of {seen} transactions the fast path left {general} alone");
    assert!(landed * 3 > seen && landed < seen, "of {seen} transactions {landed} landed");
}

#[test]
fn the_fast_path_is_the_engine_under_older_rules() {
    use agave_feature_set::{define_ltds_fee_only_semantics, relax_post_exec_min_balance_check};
    let newer = [define_ltds_fee_only_semantics::ID, relax_post_exec_min_balance_check::ID].map(|id| id.to_bytes());
    let features = feature_accounts(supported().filter(|feature| !newer.contains(&feature.id)));
    let (fast, slow) = (engine(), engine());
    let differs = AtomicU64::new(0);
    TestRunner::new(Config { cases: cases() / 3, failure_persistence: None, ..Config::default() })
        .run(&case(), |case| {
            let by_engine = run_with(features.clone(), &slow, Executor::without_fast_path(), &case);
            differs.fetch_add(u64::from(run(&slow, Executor::without_fast_path(), &case) != by_engine), Relaxed);
            prop_assert_eq!(run_with(features.clone(), &fast, Executor::new(), &case), by_engine);
            Ok(())
        })
        .unwrap_or_else(|failure| panic!("{failure}\nrun it again with PROPTEST_RNG_SEED"));
    assert!(differs.into_inner() > 0, "no case depends on the rules");
}

#[test]
fn a_fast_path_that_is_wrong_is_found() {
    let wrong: [(&str, fn(&mut TransferRules)); 6] = [
        ("compute units", |rules| rules.instruction_units = 151),
        ("loaded bytes", |rules| rules.account_base_bytes = 63),
        ("rent", |rules| rules.leaves_rent_alone = true),
        ("reserved accounts", |rules| rules.writes_reserved = true),
        ("failures", |rules| rules.keeps_failures = true),
        ("data", |rules| rules.sends_from_data = true),
    ];
    let engine = engine();
    for (what, change) in wrong {
        let mut rules = TransferRules::CLUSTER;
        change(&mut rules);
        let mut runner = TestRunner::new_with_rng(Config::default(), TestRng::deterministic_rng(RngAlgorithm::ChaCha));
        let found = (0..4_000).any(|_| {
            let case = case().new_tree(&mut runner).expect("a case").current();
            run(&engine, Executor::with_rules(rules), &case) != run(&engine, Executor::without_fast_path(), &case)
        });
        assert!(found, "nothing notices a fast path that is wrong about {what}");
    }
}
