//! Blocks executed on a state of few accounts.

use std::sync::Arc;

use alloy_consensus::{ReceiptEnvelope, ReceiptWithBloom, TxEip1559, TxLegacy};
use alloy_primitives::{TxKind, address, b256, hex};
use revm::context::TxEnv as MessageEnv;
use revm::inspector::NoOpInspector;
use revm::interpreter::Interpreter;

use super::*;
use crate::block::{Block, Body, Roots};
use crate::builders::{account, signer};
use crate::genesis::Genesis;
use crate::state::{State, StateView};
use crate::tx::TypedTransaction;

const CHAIN: u64 = 31337;
const GWEI: u128 = 1_000_000_000;
const HISTORY: Address = address!("0000F90827F1C53a10cb7A02335B175320002935");
const BEACON: Address = address!("000F3df6D732807Ef1319fB7B8bB8522d0Beac02");

fn state() -> State {
    let accounts: Vec<_> = (1..=4).map(|seed| (account(seed), U256::from(10u128.pow(20)))).collect();
    State::open(None, &Genesis::dev(CHAIN, &accounts, 30_000_000)).expect("in memory")
}

fn env(spec: SpecId) -> BlockEnv {
    BlockEnv {
        number: 1,
        timestamp: 1_700_000_000,
        beneficiary: Address::repeat_byte(0xbe),
        gas_limit: 30_000_000,
        base_fee: GWEI as u64,
        prevrandao: B256::repeat_byte(5),
        parent_hash: Some(B256::repeat_byte(0xaa)),
        parent_beacon_block_root: Some(B256::repeat_byte(0xbb)),
        chain_id: CHAIN,
        spec,
        limits: Default::default(),
        blobs: Default::default(),
        deposit_contract: Default::default(),
    }
}

/// The same with the deposits of that contract.
pub(super) fn env_of(spec: SpecId, deposit_contract: Address) -> BlockEnv {
    BlockEnv { deposit_contract, ..env(spec) }
}

fn transfer(seed: u8, nonce: u64, value: u128) -> SharedTx {
    let to = TxKind::Call(Address::repeat_byte(0x77));
    let value = U256::from(value);
    let tx = TxEip1559 {
        chain_id: CHAIN,
        nonce,
        gas_limit: 21_000,
        max_fee_per_gas: 2 * GWEI,
        max_priority_fee_per_gas: GWEI / 2,
        to,
        value,
        ..Default::default()
    };
    Arc::new(Tx::signed(tx.into(), &signer(seed)))
}

/// Runs `code` as init code.
fn create(seed: u8, nonce: u64, code: &[u8]) -> SharedTx {
    let tx = TxLegacy {
        chain_id: Some(CHAIN),
        nonce,
        gas_price: 2 * GWEI,
        gas_limit: 200_000,
        to: TxKind::Create,
        value: U256::ZERO,
        input: code.to_vec().into(),
    };
    Arc::new(Tx::signed(TypedTransaction::from(tx), &signer(seed)))
}

fn outcome(verdict: &Verdict) -> &Outcome {
    match verdict {
        Verdict::Included(outcome) => outcome,
        Verdict::Refused(refusal) => panic!("refused: {refusal}"),
    }
}

fn refusal(verdict: &Verdict) -> &Refusal {
    match verdict {
        Verdict::Refused(refusal) => refusal,
        Verdict::Included(_) => panic!("it is included"),
    }
}

fn balance(executed: &BlockExecution, address: Address) -> U256 {
    let change = executed.changes.accounts.get(&address).expect("it changed");
    change.info.as_ref().expect("it is there").balance
}

#[test]
fn transfers_pay_the_beneficiary_and_burn_the_base_fee() {
    let (state, env) = (state(), env(SpecId::OSAKA));
    let executed = execute(&state.head(), &env, &[transfer(1, 0, 5), transfer(1, 1, 6), transfer(2, 0, 7)]);
    assert!(executed.verdicts.iter().all(|verdict| outcome(verdict).status));
    assert_eq!(executed.gas_used, 63_000);
    assert_eq!(balance(&executed, Address::repeat_byte(0x77)), U256::from(18));
    assert_eq!(balance(&executed, env.beneficiary), U256::from(63_000 * GWEI / 2));
    let paid = 2 * 21_000 * (GWEI + GWEI / 2) + 11;
    assert_eq!(balance(&executed, account(1)), U256::from(10u128.pow(20) - paid));
    assert_eq!(executed.changes.accounts[&account(1)].info.as_ref().map(|info| info.nonce), Some(2));
}

#[test]
fn unincludable_transaction_is_refused_as_by_geth() {
    let (state, env) = (state(), env(SpecId::OSAKA));
    let poor = transfer(9, 0, 1);
    let early = transfer(1, 1, 1);
    let good = transfer(1, 0, 1);
    let cheap = TxEip1559 { chain_id: CHAIN, gas_limit: 21_000, max_fee_per_gas: 1, ..Default::default() };
    let cheap = Arc::new(Tx::signed(cheap.into(), &signer(2)));
    let executed = execute(&state.head(), &env, &[poor, early, good.clone(), good, cheap]);
    let said = |index: usize| refusal(&executed.verdicts[index]).reason.clone();
    assert!(said(0).starts_with("insufficient funds for gas * price + value: address "), "{}", said(0));
    assert_eq!(said(1), format!("nonce too high: address {}, tx: 1 state: 0", account(1)));
    assert!(outcome(&executed.verdicts[2]).status);
    assert_eq!(said(3), format!("nonce too low: address {}, tx: 0 state: 1", account(1)));
    assert!(said(4).starts_with("max fee per gas less than block base fee: "), "{}", said(4));
    let kinds: Vec<_> = [0, 1, 3, 4].map(|index| refusal(&executed.verdicts[index]).kind).into();
    use RefusalKind::{BaseFee, Funds, NonceTooHigh, NonceTooLow};
    assert_eq!(kinds, [Funds, NonceTooHigh, NonceTooLow, BaseFee]);
    assert_eq!(executed.gas_used, 21_000);
}

#[test]
fn the_blocks_gas_limit_holds_for_all_together() {
    let state = state();
    let env = BlockEnv { gas_limit: 50_000, ..env(SpecId::OSAKA) };
    let executed = execute(&state.head(), &env, &[transfer(1, 0, 1), transfer(2, 0, 1), transfer(3, 0, 1)]);
    assert_eq!(refusal(&executed.verdicts[2]), &Refusal::block_gas());
    assert_eq!(executed.gas_used, 42_000);
}

#[test]
fn the_system_contracts_remember_the_parent() {
    let (state, env) = (state(), env(SpecId::OSAKA));
    let executed = execute(&state.head(), &env, &[]);
    let slot =
        |contract: Address, index: u64| executed.changes.accounts[&contract].storage.get(&U256::from(index)).copied();
    let parent = env.parent_hash.expect("it is set");
    assert_eq!(slot(HISTORY, 0), Some(U256::from_be_bytes(parent.0)));
    assert_eq!(slot(BEACON, env.timestamp % 8191), Some(U256::from(env.timestamp)));
    let root = env.parent_beacon_block_root.expect("it is set");
    assert_eq!(slot(BEACON, env.timestamp % 8191 + 8191), Some(U256::from_be_bytes(root.0)));
    assert!(executed.requests.is_empty());
    let older = execute(&state.head(), &BlockEnv { spec: SpecId::SHANGHAI, ..env }, &[]);
    assert!(older.changes.accounts.is_empty());
}

#[test]
fn a_withdrawal_request_is_in_the_header() {
    let (mut state, env) = (state(), env(SpecId::OSAKA));
    // 48 bytes of a validator's key and 8 of an amount, with the least fee.
    let contract = alloy_eips::eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS;
    // The first call of a fork's first block ends the contract's state of before.
    let first = execute(&state.head(), &env, &[]);
    let hash = state.head().block_hash();
    state.commit(1, hash, first.changes).expect("it follows");
    let input: Vec<u8> = (0..56).collect();
    let tx = TxLegacy {
        chain_id: Some(CHAIN),
        gas_price: 2 * GWEI,
        gas_limit: 300_000,
        to: TxKind::Call(contract),
        value: U256::from(1),
        input: input.clone().into(),
        nonce: 0,
    };
    let tx = Arc::new(Tx::signed(TypedTransaction::from(tx), &signer(1)));
    let env = BlockEnv { number: 2, ..env };
    let mut executed = execute(&state.head(), &env, &[tx.clone()]);
    assert!(outcome(&executed.verdicts[0]).status);
    let expected: Vec<u8> = [&[1], account(1).as_slice(), &input].concat();
    // The amount comes back little-endian.
    assert_eq!(executed.requests.len(), 1);
    assert_eq!(executed.requests[0][..69], expected[..69]);
    let block = crate::block::seal(&env, &[tx], &mut executed, B256::ZERO, Bytes::new());
    assert_ne!(block.header.requests_hash, Some(alloy_eips::eip7685::EMPTY_REQUESTS_HASH));
}

#[test]
fn without_a_contract_of_requests_there_is_no_block() {
    let genesis = |code: Option<&[u8]>| {
        let mut genesis = Genesis::dev(CHAIN, &[], 30_000_000);
        let contract = alloy_eips::eip7251::CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS;
        let account = genesis.alloc.get_mut(&contract).expect("it is there");
        account.code = code.map(Bytes::copy_from_slice);
        genesis
    };
    let fault = |code: Option<&[u8]>, spec: SpecId| {
        let state = State::open(None, &genesis(code)).expect("in memory");
        execute(&state.head(), &env(spec), &[]).fault
    };
    let contract = alloy_eips::eip7251::CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS;
    let eip = "EIP-7251";
    assert_eq!(fault(None, SpecId::OSAKA), Some(BlockFault::NoSystemContract { contract, eip }));
    // It reverts; it runs out of gas; it stops.
    assert_eq!(fault(Some(&hex!("5f5ffd")), SpecId::PRAGUE), Some(BlockFault::SystemCallFailed { contract, eip }));
    assert_eq!(fault(Some(&hex!("5b5f56")), SpecId::PRAGUE), Some(BlockFault::SystemCallFailed { contract, eip }));
    assert_eq!(fault(Some(&hex!("00")), SpecId::PRAGUE), None);
    assert_eq!(fault(None, SpecId::CANCUN), None);
}

#[test]
fn a_contract_is_created_and_called_in_one_block() {
    let (state, env) = (state(), env(SpecId::OSAKA));
    // Init code that returns runtime code: log the number 7, and revert if it was sent anything.
    let runtime = hex!("34600e5760006000600760006000a2005b600080fd");
    let init = [&hex!("601580600b6000396000f3")[..], &runtime].concat();
    let contract = account(1).create(0);
    let call = |nonce, value: u64| {
        let tx = TxLegacy {
            chain_id: Some(CHAIN),
            nonce,
            gas_price: 2 * GWEI,
            gas_limit: 100_000,
            to: TxKind::Call(contract),
            value: U256::from(value),
            ..Default::default()
        };
        Arc::new(Tx::signed(TypedTransaction::from(tx), &signer(1)))
    };
    let txs = [create(1, 0, &init), call(1, 0), call(2, 9)];
    let mut executed = execute(&state.head(), &env, &txs);
    assert!(outcome(&executed.verdicts[0]).status);
    assert_eq!(outcome(&executed.verdicts[1]).logs.len(), 1);
    assert!(!outcome(&executed.verdicts[2]).status);
    let block = crate::block::seal(&env, &txs, &mut executed, B256::ZERO, Bytes::new());
    assert_eq!(block.receipts[0].contract_address, Some(contract));
    check_roots(&block);
}

#[test]
fn refunds_and_gas_are_those_of_a_rerun_by_parts() {
    let (state, env) = (state(), env(SpecId::OSAKA));
    let txs = [transfer(1, 0, 1), transfer(2, 0, 2)];
    let view = state.head();
    let whole = execute(&view, &env, &txs);
    let mut parts = BlockExecutor::new(&view, &env);
    parts.begin();
    let mut steps = Steps::default();
    let verdicts = vec![parts.run(&txs[0]), parts.inspect(&txs[1], &mut steps)];
    let parts = parts.finish(verdicts);
    assert_eq!((whole.verdicts, whole.changes, whole.gas_used), (parts.verdicts, parts.changes, parts.gas_used));
}

#[test]
fn a_block_of_nothing_has_the_known_roots() {
    let block = empty_block(SpecId::OSAKA);
    let empty = b256!("56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421");
    assert_eq!(block.header.transactions_root, empty);
    assert_eq!(block.header.receipts_root, empty);
    assert_eq!(block.header.withdrawals_root, Some(empty));
    let empty = b256!("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_eq!(block.header.requests_hash, Some(empty));
    let london = empty_block(SpecId::LONDON);
    assert_eq!((london.header.withdrawals_root, london.header.blob_gas_used), (None, None));
    assert_eq!(london.header.base_fee_per_gas, Some(GWEI as u64));
}

#[test]
fn roots_sizes_and_blooms_are_alloys() {
    let (state, env) = (state(), env(SpecId::OSAKA));
    let mut txs: Vec<SharedTx> = (0..150).map(|nonce| transfer(1, nonce, 1)).collect();
    // LOG1 with a topic, in init code.
    txs.extend((0..10).map(|nonce| create(2, nonce, &hex!("60ff60006000a100"))));
    let mut executed = execute(&state.head(), &env, &txs);
    let block = crate::block::seal(&env, &txs, &mut executed, B256::ZERO, Bytes::new());
    assert_eq!(block.txs.len(), 160);
    check_roots(&block);
}

fn empty_block(spec: SpecId) -> Arc<Block> {
    let body = Body::default();
    let roots = Roots::of(&body);
    Block::seal(&env(spec), body, roots, Vec::new(), B256::ZERO, Bytes::new())
}

/// The block's roots, bloom and size by alloy's own types.
fn check_roots(block: &Block) {
    let txs: Vec<_> = block.txs.iter().map(|tx| tx.envelope.clone()).collect();
    assert_eq!(block.header.transactions_root, alloy_consensus::proofs::calculate_transaction_root(&txs));
    let receipts: Vec<ReceiptEnvelope> = block
        .receipts
        .iter()
        .map(|receipt| {
            let inner = alloy_consensus::Receipt {
                status: receipt.status.into(),
                cumulative_gas_used: receipt.cumulative_gas_used,
                logs: receipt.logs.clone(),
            };
            ReceiptEnvelope::from_typed(receipt.tx_type, ReceiptWithBloom::from(inner))
        })
        .collect();
    assert_eq!(block.header.receipts_root, alloy_consensus::proofs::calculate_receipt_root(&receipts));
    let logs = block.receipts.iter().flat_map(|receipt| &receipt.logs);
    assert_eq!(block.header.logs_bloom, alloy_primitives::logs_bloom(logs));
    assert_eq!(block.hash, block.header.hash_slow());
    let body =
        alloy_consensus::BlockBody { transactions: txs, ommers: Vec::new(), withdrawals: Some(Default::default()) };
    let whole = alloy_consensus::Block::new(block.header.clone(), body);
    assert_eq!(block.size(), alloy_rlp::Encodable::length(&whole) as u64);
}

#[derive(Default)]
struct Steps(u64);

impl<CTX> Inspector<CTX> for Steps {
    fn step(&mut self, _: &mut Interpreter, _: &mut CTX) {
        self.0 += 1;
    }
}

fn message(from: Address, to: Address) -> MessageEnv {
    MessageEnv {
        caller: from,
        kind: TxKind::Call(to),
        gas_limit: 1_000_000,
        gas_price: 0,
        chain_id: None,
        ..Default::default()
    }
}

#[test]
fn a_call_sees_what_is_overridden_and_each_step_is_shown() {
    let (state, env) = (state(), env(SpecId::OSAKA));
    let contract = Address::repeat_byte(0x42);
    // Returns slot 1.
    let code = Bytes::from_static(&hex!("60015460005260206000f3"));
    let with = AccountOverride {
        code: Some(code),
        state_diff: [(U256::from(1), U256::from(99))].into(),
        ..Default::default()
    };
    let view: StateView = state.head();
    let overlay = Overlay::new(&view, [(contract, with)]);
    let mut steps = Steps::default();
    let nobody = Address::repeat_byte(0xdd);
    let done = simulate(&overlay, &env, &BlockExtras::default(), message(nobody, contract), Checks::Call, &mut steps)
        .expect("it runs");
    assert_eq!(done.result.output().map(|output| U256::from_be_slice(output)), Some(U256::from(99)));
    assert_eq!(steps.0, 7);
    // As a transaction it is none: it offers no fee.
    let strict =
        simulate(&overlay, &env, &BlockExtras::default(), message(nobody, contract), Checks::All, NoOpInspector);
    assert!(matches!(strict, Err(SimulateError::Invalid(_))));
}

#[test]
fn a_call_cannot_send_what_the_caller_does_not_have() {
    let (state, env) = (state(), env(SpecId::OSAKA));
    let message = MessageEnv { value: U256::from(1), ..message(Address::repeat_byte(0xdd), account(1)) };
    let done = simulate(&state.head(), &env, &BlockExtras::default(), message, Checks::Call, NoOpInspector);
    assert!(matches!(done, Err(SimulateError::Invalid(InvalidTransaction::LackOfFundForMaxFee { .. }))));
}
