//! Blocks of all kinds of transactions on one and on several threads, compared with the serial executor.

use super::memory::Memory;
use super::stages::Block;
use super::{execute_on, execute_parallel};
use crate::exec::{BlockEnv, BlockExecution, Verdict, execute};
use crate::state::Changes;
use crate::tx::{SharedTx, Tx, TxEnvelope, TypedTransaction};
use alloy_consensus::{TxEip1559, TxEip2930, TxEip4844, TxEip7702, TxLegacy};
use alloy_eips::eip7702::{Authorization, SignedAuthorization};
use alloy_eips::{eip2935, eip4788, eip7002};
use alloy_primitives::{Address, B256, Bytes, Signature, TxKind, U256, hex, keccak256};
use hearth_testkit::random::Random;
use proptest::prelude::*;
use revm::DatabaseRef;
use revm::database::{CacheDB, EmptyDB};
use revm::primitives::hardfork::SpecId;
use revm::state::{AccountInfo, Bytecode};
use std::collections::BTreeMap;
use std::sync::Arc;

const CHAIN: u64 = 31337;
type Db = CacheDB<EmptyDB>;

/// Counts calls in slot 0.
const COUNTER: &[u8] = &hex!("60016000540160005500");
/// Stores and logs the beneficiary's balance.
const TIP_READER: &[u8] = &hex!("413160005560206000a000");
/// Passes one wei on to the beneficiary.
const TIPPER: &[u8] = &hex!("60006000600060006001415af15000");
/// Adds the value sent to the sender's own slot.
const PURSE: &[u8] = &hex!("33543401335500");
/// Creates a contract with its input as init code, at an address that depends on nothing else.
const FACTORY: &[u8] = &hex!("36600060003760003660006000f560005500");
/// Adds 7 to slot 1 and becomes a contract that counts in slot 2, or self-destructs if it is called without data.
const CHILD: &[u8] = &hex!("600760015401600155703660065733ff5b600160025401600255006000526011600ff3");
/// Stores the time under the first word of its data, and reverts where that is 9.
const MARKER: &[u8] = &hex!("600035600914600e574260003555005b60006000fd");
/// Returns 32 bytes, as the contracts of requests do.
const REQUESTER: &[u8] = &hex!("60005460005260206000f3");

const CONTRACTS: [&[u8]; 6] = [COUNTER, TIP_READER, TIPPER, PURSE, FACTORY, MARKER];

fn account(index: usize) -> Address {
    Address::with_last_byte(index as u8).create(1)
}

fn contract(index: usize) -> Address {
    account(100 + index)
}

fn child() -> Address {
    contract(4).create2(B256::ZERO, keccak256(CHILD))
}

/// Accounts rich and poor, one of them empty, one with more than sums can bear; contracts; the system's contracts.
fn database() -> Db {
    let mut db = Db::default();
    let ether = U256::from(10).pow(U256::from(18));
    for index in 0..40 {
        let balance = match index {
            0..30 => ether * U256::from(1000),
            30..33 => U256::from(50_000_000_000_000u64 * index as u64),
            33 => U256::MAX - U256::from(5),
            34 => U256::ZERO,
            _ => continue,
        };
        db.insert_account_info(account(index), AccountInfo { balance, ..Default::default() });
    }
    let code = CONTRACTS.iter().enumerate().map(|(index, code)| (contract(index), *code));
    let system = [
        (eip2935::HISTORY_STORAGE_ADDRESS, MARKER),
        (eip4788::BEACON_ROOTS_ADDRESS, COUNTER),
        (eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS, REQUESTER),
    ];
    for (address, code) in code.chain(system) {
        let code = Bytecode::new_raw(Bytes::from_static(code));
        let info = AccountInfo::new(ether, 1, code.hash_slow(), code);
        db.insert_account_info(address, info);
        db.insert_account_storage(address, U256::ZERO, U256::from(5)).expect("in memory");
    }
    db
}

fn env(spec: SpecId, beneficiary: Address, gas_limit: u64) -> BlockEnv {
    BlockEnv {
        number: 7,
        timestamp: 1000,
        beneficiary,
        gas_limit,
        base_fee: 1_000_000_000,
        prevrandao: B256::repeat_byte(3),
        parent_hash: Some(B256::with_last_byte(17)),
        parent_beacon_block_root: Some(B256::repeat_byte(5)),
        chain_id: CHAIN,
        spec,
        limits: Default::default(),
        blobs: Default::default(),
        deposit_contract: Default::default(),
    }
}

/// A block by chance, with the nonces that senders are likely to have.
struct Maker {
    random: Random,
    nonces: BTreeMap<Address, u64>,
    txs: Vec<SharedTx>,
}

impl Maker {
    fn new(seed: u64) -> Self {
        Self { random: Random(seed | 1), nonces: BTreeMap::new(), txs: Vec::new() }
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.random.index(count) == 0
    }

    fn nonce(&mut self, sender: Address) -> u64 {
        let right = *self.nonces.entry(sender).and_modify(|nonce| *nonce += 1).or_insert(0);
        match self.random.index(60) {
            0 => right + 1,
            1 => right.saturating_sub(1),
            _ => right,
        }
    }

    fn push(&mut self, sender: Address, to: TxKind, value: U256, input: &[u8], gas_limit: u64) {
        let nonce = self.nonce(sender);
        let input = Bytes::copy_from_slice(input);
        let (gas_price, chain_id) = (1_000_000_000 + self.random.index(3) as u128 * 7, CHAIN);
        let typed: TypedTransaction = match self.random.index(3) {
            0 => TxLegacy { chain_id: Some(CHAIN), nonce, gas_price, gas_limit, to, value, input }.into(),
            1 => TxEip2930 { chain_id, nonce, gas_price, gas_limit, to, value, input, ..Default::default() }.into(),
            _ => TxEip1559 {
                chain_id,
                nonce,
                gas_limit,
                max_fee_per_gas: 2_000_000_000,
                max_priority_fee_per_gas: gas_price - 1_000_000_000,
                to,
                value,
                input,
                ..Default::default()
            }
            .into(),
        };
        self.push_typed(typed, sender, Vec::new());
    }

    fn push_typed(&mut self, typed: TypedTransaction, sender: Address, authorities: Vec<Option<Address>>) {
        let envelope = TxEnvelope::new_unhashed(typed, Signature::test_signature());
        self.txs.push(Arc::new(Tx { raw: Bytes::new(), envelope, hash: B256::ZERO, sender, authorities }));
    }

    fn sender(&mut self) -> Address {
        match self.random.index(40) {
            0 => account(30 + self.random.index(6)),
            _ => account(self.random.index(30)),
        }
    }

    fn transfer(&mut self) {
        let sender = self.sender();
        let to = match self.random.index(60) {
            0 => contract(self.random.index(6)),
            1 => Address::with_last_byte(2),
            2 => sender,
            3 => child(),
            4..8 => account(30 + self.random.index(6)),
            _ => account(self.random.index(200)),
        };
        let value = match self.random.index(40) {
            0 => U256::ZERO,
            1 => U256::from(10).pow(U256::from(21)),
            _ => U256::from(self.random.index(1000)),
        };
        let gas_limit = if self.one_in(80) { 20_999 } else { 21_000 + self.random.index(2) as u64 * 5_000 };
        self.push(sender, to.into(), value, &[], gas_limit);
    }

    fn call(&mut self) {
        let sender = self.sender();
        let word = U256::from(self.random.index(11)).to_be_bytes::<32>();
        let gas_limit = 60_000 + self.random.index(3) as u64 * 60_000;
        let value = U256::from(self.random.index(2) * 3);
        match self.random.index(12) {
            0 | 1 => self.push(sender, contract(4).into(), value, CHILD, 200_000),
            2 => self.push(sender, child().into(), value, &[], gas_limit),
            3 => self.push(sender, child().into(), value, &word, gas_limit),
            4 => {
                let init: [&[u8]; 5] = [&hex!("33ff"), &[], CHILD, &hex!("fe"), &hex!("60006000fd")];
                let init = init[self.random.index(5)];
                self.push(sender, TxKind::Create, value, init, 200_000);
            }
            5 => self.delegate(),
            _ => {
                let to = contract(self.random.index(6));
                self.push(sender, to.into(), value, &word, gas_limit);
            }
        }
    }

    /// Delegates one or two accounts to a contract, or ends their delegation.
    fn delegate(&mut self) {
        let sender = self.sender();
        let nonce = self.nonce(sender);
        let authorities: Vec<_> = (0..1 + self.random.index(2)).map(|_| self.sender()).collect();
        let list = authorities.iter().map(|authority| {
            let address = if self.one_in(3) { Address::ZERO } else { contract(self.random.index(4)) };
            let nonce = *self.nonces.entry(*authority).and_modify(|nonce| *nonce += 1).or_insert(0);
            let authorization = Authorization { chain_id: U256::from(CHAIN), address, nonce };
            SignedAuthorization::new_unchecked(authorization, 0, U256::ONE, U256::ONE)
        });
        let tx = TxEip7702 {
            chain_id: CHAIN,
            nonce,
            gas_limit: 200_000,
            max_fee_per_gas: 2_000_000_000,
            max_priority_fee_per_gas: 5,
            to: contract(3),
            authorization_list: list.collect(),
            ..Default::default()
        };
        self.push_typed(tx.into(), sender, authorities.into_iter().map(Some).collect());
    }

    /// A few runs of transfers, of calls, and of both.
    fn block(mut self) -> Vec<SharedTx> {
        for _ in 0..1 + self.random.index(4) {
            let kind = self.random.index(3);
            for _ in 0..self.random.index(120) {
                match kind {
                    0 => self.transfer(),
                    1 => self.call(),
                    _ if self.one_in(2) => self.call(),
                    _ => self.transfer(),
                }
            }
        }
        self.txs
    }
}

type After = BTreeMap<Address, (Option<(U256, u64, B256)>, BTreeMap<U256, U256>)>;

/// The whole state after the changes.
fn after(db: &Db, changes: &Changes) -> After {
    let essence = |info: &AccountInfo| (info.balance, info.nonce, info.code_hash);
    let mut after = After::new();
    for (address, account) in &db.cache.accounts {
        after.insert(*address, (Some(essence(&account.info)), account.storage.iter().map(|(k, v)| (*k, *v)).collect()));
    }
    for (address, change) in &changes.accounts {
        let (info, storage) = after.entry(*address).or_default();
        *info = change.info.as_ref().map(essence);
        if change.storage_cleared {
            storage.clear();
        }
        storage.extend(change.storage.iter().map(|(k, v)| (*k, *v)));
        if let Some(info) = change.info.as_ref().filter(|info| !info.is_empty_code_hash()) {
            let code = info.code.clone().or_else(|| db.code_by_hash_ref(info.code_hash).ok());
            assert_eq!(code.expect("the code is there").hash_slow(), info.code_hash);
        }
    }
    for (_, storage) in after.values_mut() {
        storage.retain(|_, value| !value.is_zero());
    }
    after.retain(|_, (info, storage)| info.is_some() || !storage.is_empty());
    after
}

fn assert_equal(db: &Db, serial: &BlockExecution, other: &BlockExecution, threads: usize) {
    for (index, (want, have)) in serial.verdicts.iter().zip(&other.verdicts).enumerate() {
        assert_eq!(have, want, "transaction {index} on {threads} threads");
    }
    assert_eq!(other.verdicts.len(), serial.verdicts.len());
    assert_eq!(other.gas_used, serial.gas_used);
    assert_eq!(other.requests, serial.requests);
    assert_eq!(other.fault, serial.fault);
    let (want, have) = (after(db, &serial.changes), after(db, &other.changes));
    for (address, want) in &want {
        assert_eq!(have.get(address), Some(want), "{address} on {threads} threads");
    }
    assert_eq!(have, want);
}

fn assert_as_serial(db: &Db, env: &BlockEnv, txs: &[SharedTx]) -> BlockExecution {
    let serial = execute(db, env, txs);
    for threads in [1, 2, 4] {
        assert_equal(db, &serial, &execute_on(db, env, txs, threads), threads);
    }
    assert_equal(db, &serial, &execute_parallel(db, env, txs, 2), 2);
    serial
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn mixed_blocks_end_as_in_order(seed in any::<u64>(), fork in 0usize..5, beneficiary in 0usize..6, room in 0u8..3) {
        let spec = [SpecId::LONDON, SpecId::SHANGHAI, SpecId::CANCUN, SpecId::PRAGUE, SpecId::OSAKA][fork];
        let beneficiary = match beneficiary {
            0 => account(3),
            1 => contract(0),
            2 => account(34),
            3 => child(),
            _ => account(250),
        };
        let gas_limit = if room == 0 { 4_000_000 } else { 500_000_000 };
        assert_as_serial(&database(), &env(spec, beneficiary, gas_limit), &Maker::new(seed).block());
    }
}

fn included(executed: &BlockExecution) -> usize {
    executed.verdicts.iter().filter(|verdict| matches!(verdict, Verdict::Included(_))).count()
}

#[test]
fn transfers_in_a_row_that_fund_each_other() {
    let mut maker = Maker::new(1);
    let value = U256::from(10).pow(U256::from(17));
    for index in 0..200 {
        // What an account that had nothing has received it passes on.
        maker.push(account(index % 30), account(60 + index).into(), value, &[], 21_000);
        if index % 50 == 49 {
            maker.push(account(60 + index), account(34).into(), value / U256::from(2), &[], 21_000);
        }
    }
    let txs: Vec<_> = maker.txs;
    let executed = assert_as_serial(&database(), &env(SpecId::OSAKA, account(250), 500_000_000), &txs);
    assert!(included(&executed) > 150);
}

#[test]
fn all_on_one_counter() {
    let mut maker = Maker::new(7);
    for index in 0..600 {
        maker.push(account(index % 30), contract(0).into(), U256::ZERO, &[], 60_000);
    }
    assert_as_serial(&database(), &env(SpecId::OSAKA, account(250), 500_000_000), &maker.txs);
}

#[test]
fn a_full_block_refuses_the_rest() {
    for gas_limit in [2_000_000, 5_010_000] {
        let mut maker = Maker::new(11);
        for index in 0..900 {
            match index / 100 % 2 {
                0 => maker.push(account(index % 30), account(60 + index % 90).into(), U256::ONE, &[], 26_000),
                _ => maker.push(account(index % 30), contract(0).into(), U256::ZERO, &[], 60_000),
            }
        }
        let executed = assert_as_serial(&database(), &env(SpecId::OSAKA, account(250), gas_limit), &maker.txs);
        let included = included(&executed);
        assert!((20..240).contains(&included), "{included} of 900");
    }
}

#[test]
fn all_look_at_the_beneficiary() {
    let mut maker = Maker::new(9);
    for index in 0..150 {
        maker.push(account(index % 30), contract(1 + index % 2).into(), U256::ONE, &[], 60_000);
    }
    assert_as_serial(&database(), &env(SpecId::OSAKA, account(250), 500_000_000), &maker.txs);
}

#[test]
fn blobs_are_paid_for() {
    let blob = |nonce: u64| {
        let tx = TxEip4844 {
            chain_id: CHAIN,
            nonce,
            gas_limit: 21_000,
            max_fee_per_gas: 1_000_000_000,
            to: account(250),
            value: U256::from(5),
            // The first byte is the only version.
            blob_versioned_hashes: vec![B256::right_padding_from(&[1, 7])],
            max_fee_per_blob_gas: 9,
            ..Default::default()
        };
        let envelope = TxEnvelope::new_unhashed(TypedTransaction::Eip4844(tx), Signature::test_signature());
        Arc::new(Tx::with_sender(envelope, account(1)))
    };
    let env = env(SpecId::OSAKA, account(251), 500_000_000);
    let executed = assert_as_serial(&database(), &env, &[blob(0), blob(1)]);
    assert_eq!(included(&executed), 2);
    let after = executed.changes.accounts[&account(1)].info.as_ref().expect("it is there").balance;
    let before = U256::from(10).pow(U256::from(18)) * U256::from(1000);
    let blob_gas = u128::from(alloy_eips::eip4844::DATA_GAS_PER_BLOB) * env.blobs.price();
    assert_eq!(before - after, U256::from(2 * (21_000 * 1_000_000_000 + 5 + blob_gas)));
}

/// One lost wake-up leaves a thread asleep, and the block without an end.
#[test]
fn no_wake_up_is_lost_among_many_threads() {
    /// Many more than there are cores, so that most of them sleep.
    const THREADS: usize = 32;
    let seed = hearth_testkit::random::seed();
    println!("HEARTH_SEED={seed} cargo test --release -p hearth-evm --lib no_wake_up_is_lost_among_many_threads");
    let blocks = std::thread::spawn(move || {
        let (db, env) = (database(), env(SpecId::OSAKA, account(250), 500_000_000));
        for round in 0..8 {
            let mut maker = Maker::new(seed.wrapping_add(2 * round));
            // In order on one thread, while the others sleep, and ahead again.
            for index in 0..300 {
                maker.push(account(index % 30), contract(0).into(), U256::ZERO, &[], 60_000);
            }
            let txs = maker.block();
            let serial = execute(&db, &env, &txs);
            assert_equal(&db, &serial, &execute_on(&db, &env, &txs, THREADS), THREADS);
        }
    });
    hearth_testkit::wait_until("all threads of the blocks to end", || blocks.is_finished());
    blocks.join().expect("every block ends as in order");
}

/// The thread that has started waits for the one that has not, unless it is notified.
#[test]
fn a_thread_that_cannot_be_started_ends_the_others() {
    let block = std::thread::spawn(|| {
        let (db, env) = (database(), env(SpecId::OSAKA, account(250), 500_000_000));
        let memory = Memory::new(&db, 0, true);
        let block = Block::new(&memory, &env, &[], 3);
        std::thread::scope(|scope| {
            let block = &block;
            block.work_on_all(move |thread| {
                assert!(thread < 2, "there are no more threads");
                scope.spawn(move || block.work(thread));
            });
        });
    });
    hearth_testkit::wait_until("the thread that was started to end", || block.is_finished());
    let panic = block.join().expect_err("a block lacks a thread");
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"there are no more threads"));
}

#[test]
fn an_empty_block() {
    assert_as_serial(&database(), &env(SpecId::OSAKA, account(250), 500_000_000), &[]);
}
