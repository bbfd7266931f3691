//! Both ledgers of one chain: transfers between them, and conservation of the native asset.

mod damage;
mod restore;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use alloy_consensus::TxEip1559;
use alloy_eips::eip4788::BEACON_ROOTS_ADDRESS;
use alloy_primitives::{Address, B256, Bytes, TxKind, U256};
use hearth_crypto::ed25519::SigningKey;
use hearth_evm::builders::{account, rich, riches, signer};
use hearth_evm::chain::{BlockInput, BlockTime, Chain, ChainConfig};
use hearth_evm::genesis::{Genesis, SideGenesis};
use hearth_evm::tx::{Tx, TypedTransaction};
use hearth_utxo::amount::{WEI_PER_UNIT, to_wei};
use hearth_utxo::prism::{ADDRESS, call_data};
use hearth_utxo::tx::{Action, Builder};
use hearth_utxo::{AssetId, Output, OwnerKey};
use hearth_wal::faulty::Faulty;
use proptest::prelude::*;

use crate::prism::call;
use crate::{UtxoChain, genesis};

const CHAIN: u64 = 31337;
const PRICE: u128 = 100_000_000_000;
const COIN: u64 = 1_000_000;
/// Accounts and owners of the tests.
const N: u8 = 4;
/// Forwards its call data to the prism contract, then stops, or reverts if the first word of storage is set.
const CALLER: Address = Address::repeat_byte(0xcc);

fn key(n: u8) -> SigningKey {
    SigningKey::from_seed(&[n; 32])
}

fn owner(n: u8) -> OwnerKey {
    OwnerKey(key(n).public_key())
}

fn chain() -> Chain {
    let genesis = genesis::dev(CHAIN, &rich(1..=N), 500_000_000);
    let config = ChainConfig { block_time: BlockTime::Manual, beneficiary: account(N), ..ChainConfig::new(genesis) };
    Chain::open(config).unwrap()
}

fn nonce(chain: &Chain, n: u8) -> u64 {
    let nonce = chain.view().account(&account(n)).map_or(0, |account| account.nonce);
    chain.pool().next_nonce(&account(n), nonce)
}

fn send(chain: &Chain, raw: Bytes) -> B256 {
    chain.submit(vec![raw]).remove(0).unwrap()
}

fn to_outputs(chain: &Chain, n: u8, to: u8, units: u64) -> B256 {
    send(chain, call(CHAIN, nonce(chain, n), PRICE, &owner(to), units, &signer(n)).raw)
}

fn evm_call(chain: &Chain, n: u8, to: Address, value: U256, input: Bytes) -> B256 {
    let transaction: TypedTransaction = TxEip1559 {
        chain_id: CHAIN,
        nonce: nonce(chain, n),
        gas_limit: 100_000,
        max_fee_per_gas: PRICE,
        max_priority_fee_per_gas: 7,
        to: TxKind::Call(to),
        value,
        input,
        ..Default::default()
    }
    .into();
    send(chain, Tx::signed(transaction, &signer(n)).raw)
}

/// Returns a transaction that spends an owner's outputs in blocks; `None` if they do not suffice.
fn spend(chain: &Chain, n: u8, outputs: Vec<Output>, action: Action) -> Option<Bytes> {
    let all = chain.outputs().outputs_of(&owner(n), None, usize::MAX);
    let pool = chain.outputs_pool();
    let available: Vec<_> = all.into_iter().filter(|(at, _)| pool.spender(at).is_none()).collect();
    let key = key(n);
    let builder = Builder { chain_id: CHAIN, key: &key, available: &available, outputs, action };
    builder.build().ok().map(Bytes::from)
}

fn pay(chain: &Chain, from: u8, to: u8, amount: u64) -> Option<Bytes> {
    let output = Output { asset: AssetId::NATIVE, amount, owner: owner(to), memo: Bytes::new() };
    spend(chain, from, vec![output], Action::Transfer)
}

fn to_evm(chain: &Chain, from: u8, to: u8, amount: u64) -> Option<Bytes> {
    spend(chain, from, vec![], Action::Prism { recipient: account(to), amount })
}

fn balance(chain: &Chain, of: Address) -> U256 {
    chain.view().account(&of).map_or(U256::ZERO, |account| account.balance)
}

fn native(chain: &Chain, n: u8) -> u128 {
    chain.outputs().balances(&owner(n)).get(&AssetId::NATIVE).map_or(0, |(amount, _)| *amount)
}

/// Checks the total of the native asset, in wei: unspendable amounts count while they are known.
fn check(chain: &Chain) {
    let accounts: U256 = (1..=N).map(account).chain([CALLER]).map(|of| balance(chain, of)).sum();
    let totals = chain.outputs().totals();
    let (mut burnt, mut head) = (U256::ZERO, chain.head());
    while head.number() > 0 {
        burnt += U256::from(head.header.gas_used) * U256::from(head.base_fee());
        head = chain.block(head.number() - 1).unwrap();
    }
    let outputs: u128 = (1..=N).map(|n| native(chain, n)).sum();
    assert_eq!(totals.native, outputs);
    assert_eq!(accounts + burnt + to_wei(outputs) + to_wei(totals.burnt), riches() * U256::from(N));
    assert_eq!(balance(chain, ADDRESS), to_wei(totals.received), "the contract holds what went through it");
}

#[test]
fn a_coin_goes_there_and_back() {
    let chain = chain();
    let hash = to_outputs(&chain, 1, 2, 5 * COIN);
    let first = chain.mine().unwrap();
    assert!(first.receipts[0].status);
    assert_eq!(native(&chain, 2), u128::from(5 * COIN));
    let [(at, output)] = &chain.outputs().outputs_of(&owner(2), None, 9)[..] else { panic!("one") };
    assert_eq!((output.amount, at.index), (5 * COIN, 0));
    let landed = chain.outputs().transaction(&at.transaction).unwrap().unwrap();
    assert_eq!((landed.number, landed.hash), (1, first.hash));
    assert!(matches!(landed.what, hearth_utxo::ledger::TxOrCall::Incoming(one, _) if one.transaction == hash));
    let before = balance(&chain, account(3));
    let raw = to_evm(&chain, 2, 3, 2 * COIN).unwrap();
    let id = send(&chain, raw.clone());
    assert!(chain.submit(vec![vec![1].into()])[0].is_err());
    let metrics = chain.metrics();
    assert_eq!((metrics.submitted, metrics.to_outputs, metrics.undecodable, metrics.refused), (3, 1, 1, 1));
    let second = chain.mine().unwrap();
    assert_eq!(chain.outputs().landed_in(&id), Some(2));
    assert_eq!(balance(&chain, account(3)) - before, to_wei(u128::from(2 * COIN)));
    assert_eq!((second.withdrawals.len(), second.withdrawals[0].amount), (1, 2 * COIN * 1_000));
    // No later block has brought an output from the EVM, so the header's commitment is that of the current set.
    assert_eq!(second.header.parent_beacon_block_root, Some(chain.outputs().commitment()));
    // EIP-4788 shows it to contracts.
    let slot = U256::from(second.header.timestamp % 8191 + 8191);
    let shown = chain.view().storage(&BEACON_ROOTS_ADDRESS, &slot);
    assert_eq!(B256::from(shown), chain.outputs().commitment());
    check(&chain);
    let again = chain.submit(vec![raw]).remove(0).unwrap_err();
    assert_eq!(again.to_string(), "already known: it is in block 2");
}

#[test]
fn failed_transfer_changes_neither_side() {
    let chain = chain();
    // CALLDATACOPY(0, 0, 36), CALL(gas, prism, callvalue, 0, 36, 0, 0), and SLOAD(0) decides whether to REVERT.
    let address = ADDRESS;
    let code = [
        &[0x60, 36, 0x60, 0, 0x60, 0, 0x37, 0x60, 0, 0x60, 0, 0x60, 36, 0x60, 0, 0x34, 0x73][..],
        address.as_slice(),
        &[0x5a, 0xf1, 0x50, 0x60, 0, 0x54, 0x60, 47, 0x57, 0x00, 0x5b, 0x60, 0, 0x60, 0, 0xfd],
    ]
    .concat();
    assert_eq!(code.iter().rposition(|byte| *byte == 0x5b), Some(47), "where JUMPI goes");
    chain.set_code(CALLER, code.into()).unwrap();
    let data = call_data(&owner(1));
    // Dust, a bare payment, and a call that is right but in a transaction that is reverted.
    let dust = evm_call(&chain, 1, ADDRESS, U256::from(WEI_PER_UNIT + 1), data.clone());
    let bare = evm_call(&chain, 1, ADDRESS, U256::from(WEI_PER_UNIT), Bytes::new());
    let through = evm_call(&chain, 1, CALLER, to_wei(7), data.clone());
    let block = chain.mine().unwrap();
    let status = |hash| block.txs.iter().position(|tx| tx.hash == hash).map(|at| block.receipts[at].status);
    assert_eq!([dust, bare, through].map(status), [Some(false), Some(false), Some(true)]);
    assert_eq!(native(&chain, 1), 7);
    chain.set_storage(CALLER, U256::ZERO, U256::from(1)).unwrap();
    evm_call(&chain, 1, CALLER, to_wei(9), data);
    let block = chain.mine().unwrap();
    assert_eq!((block.receipts[0].status, block.receipts[0].logs.len()), (false, 0));
    assert_eq!(native(&chain, 1), 7);
    check(&chain);
}

#[test]
fn refusals_of_a_block_are_reported() {
    let chain = chain();
    to_outputs(&chain, 1, 2, 5 * COIN);
    chain.mine().unwrap();
    let snapshot = chain.snapshot();
    let raw = pay(&chain, 2, 3, COIN).unwrap();
    let id = send(&chain, raw.clone());
    assert_eq!(chain.outputs_pool().status().0, 1);
    chain.mine().unwrap();
    assert_eq!((chain.outputs_pool().status().0, native(&chain, 3)), (0, u128::from(COIN)));
    assert!(chain.revert(snapshot).unwrap());
    assert_eq!((native(&chain, 3), native(&chain, 2)), (0, u128::from(5 * COIN)));
    assert_eq!(chain.outputs().landed_in(&id), None);
    check(&chain);
    // It can be sent again, but a double spend of the same outputs cannot.
    send(&chain, raw);
    let mut other = chain.verify_side(&[&to_evm_of_all(&chain)]);
    let error = chain.submit(vec![other.remove(0).unwrap().raw.clone()]).remove(0).unwrap_err();
    assert!(error.to_string().contains("which waits already"), "{error}");
    chain.mine().unwrap();
    check(&chain);
}

/// Spends every output of owner 2, be it spoken for or not.
fn to_evm_of_all(chain: &Chain) -> Bytes {
    let available = chain.outputs().outputs_of(&owner(2), None, usize::MAX);
    let action = Action::Prism { recipient: account(2), amount: COIN };
    let key = key(2);
    let builder = Builder { chain_id: CHAIN, key: &key, available: &available, outputs: vec![], action };
    builder.build().unwrap().into()
}

#[test]
fn a_consensus_engine_makes_the_same_block_of_both_everywhere() {
    let (one, other) = (chain(), chain());
    let hash = to_outputs(&one, 1, 2, 5 * COIN);
    let txs = one.propose(usize::MAX);
    let input = BlockInput { number: 1, timestamp: 1_700_000_000, txs, ..Default::default() };
    for chain in [&one, &other] {
        chain.commit(chain.execute_block(input.clone()).unwrap()).unwrap();
    }
    assert_eq!(one.tx(&hash).unwrap().0.hash, other.head().hash);
    let raws = [to_evm(&one, 2, 3, COIN).unwrap(), pay(&one, 2, 4, COIN).unwrap()];
    let side: Vec<_> = raws.iter().map(|raw| other.verify_side(&[raw]).remove(0).unwrap()).collect();
    let input = BlockInput { number: 2, timestamp: 1_700_000_001, side, ..Default::default() };
    // Executed twice and committed once, as an engine does that proposes before it decides.
    one.execute_block(input.clone()).unwrap();
    let blocks = [&one, &other].map(|chain| chain.commit(chain.execute_block(input.clone()).unwrap()).unwrap());
    assert_eq!(blocks[0].hash, blocks[1].hash);
    assert_eq!(one.outputs().commitment(), other.outputs().commitment());
    assert_eq!((blocks[0].withdrawals.len(), native(&one, 4)), (1, 0), "the second spends what the first has");
    check(&one);
}

#[derive(Clone, Debug)]
enum Step {
    There(u8, u8, u64),
    Back(u8, u8, u64),
    Pay(u8, u8, u64),
    Transfer(u8, u8, u64),
    Fail(u8, u64),
    Mine,
    Snapshot,
    Revert,
}

fn step() -> impl Strategy<Value = Step> {
    let n = 1..=N;
    let units = 1..20 * COIN;
    prop_oneof![
        4 => (n.clone(), n.clone(), units.clone()).prop_map(|(from, to, units)| Step::There(from, to, units)),
        4 => (n.clone(), n.clone(), units.clone()).prop_map(|(from, to, units)| Step::Back(from, to, units)),
        4 => (n.clone(), n.clone(), units.clone()).prop_map(|(from, to, units)| Step::Pay(from, to, units)),
        2 => (n.clone(), n.clone(), units).prop_map(|(from, to, units)| Step::Transfer(from, to, units)),
        1 => (n, 1..WEI_PER_UNIT).prop_map(|(from, wei)| Step::Fail(from, wei)),
        4 => Just(Step::Mine),
        1 => Just(Step::Snapshot),
        1 => Just(Step::Revert),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn nothing_comes_from_nowhere_in_random_histories(steps in prop::collection::vec(step(), 1..60)) {
        let (chain, mut snapshots) = (chain(), Vec::new());
        for step in steps {
            match step {
                Step::There(from, to, units) => drop(to_outputs(&chain, from, to, units)),
                Step::Back(from, to, units) => drop(to_evm(&chain, from, to, units).map(|raw| send(&chain, raw))),
                Step::Pay(from, to, units) => drop(pay(&chain, from, to, units).map(|raw| send(&chain, raw))),
                Step::Transfer(from, to, units) => {
                    evm_call(&chain, from, account(to), U256::from(units), Bytes::new());
                }
                Step::Fail(from, wei) => {
                    evm_call(&chain, from, ADDRESS, U256::from(wei), call_data(&owner(from)));
                }
                Step::Mine => {
                    chain.mine().unwrap();
                    check(&chain);
                }
                Step::Snapshot => snapshots.push(chain.snapshot()),
                Step::Revert => {
                    if let Some(id) = snapshots.pop() {
                        chain.revert(id).unwrap();
                        check(&chain);
                    }
                }
            }
        }
        chain.mine().unwrap();
        check(&chain);
    }
}

fn open(dir: &Path) -> Chain {
    let genesis = genesis::dev(CHAIN, &rich(1..=N), 500_000_000);
    let dir = Some(dir.to_owned());
    let config =
        ChainConfig { dir, block_time: BlockTime::Manual, beneficiary: account(N), ..ChainConfig::new(genesis) };
    Chain::open(config).unwrap()
}

#[test]
fn both_ledgers_and_what_waits_continue_from_the_folder() {
    let dir = tempfile::tempdir().unwrap();
    let chain = open(dir.path());
    to_outputs(&chain, 1, 2, 5 * COIN);
    chain.mine().unwrap();
    send(&chain, to_evm(&chain, 2, 3, COIN).unwrap());
    chain.mine().unwrap();
    let (commitment, held) = (chain.outputs().commitment(), native(&chain, 2));
    let id = send(&chain, pay(&chain, 2, 4, COIN).unwrap());
    chain.stop();
    drop(chain);
    let chain = open(dir.path());
    assert_eq!((chain.outputs().commitment(), native(&chain, 2)), (commitment, held));
    check(&chain);
    assert!(chain.outputs_pool().get(&id).is_some());
    chain.mine().unwrap();
    assert_eq!((chain.outputs().landed_in(&id), native(&chain, 4)), (Some(3), u128::from(COIN)));
    check(&chain);
}

#[test]
fn reverted_transactions_do_not_return_after_a_start() {
    let (dir, killed) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let chain = open(dir.path());
    to_outputs(&chain, 1, 2, 5 * COIN);
    chain.mine().unwrap();
    let snapshot = chain.snapshot();
    send(&chain, pay(&chain, 2, 4, COIN).unwrap());
    chain.mine().unwrap();
    let (from, to) = (dir.path().to_owned(), killed.path().to_owned());
    let events = chain.subscribe_with(move || copy_all(&from, &to));
    assert!(chain.revert(snapshot).unwrap());
    drop((events, chain));
    for dir in [killed, dir] {
        let chain = open(dir.path());
        assert_eq!((chain.head().number(), chain.outputs_pool().status().0, native(&chain, 4)), (1, 0, 0));
        check(&chain);
    }
}

/// Pays with an output of owner 3, and takes one of owner 2 back to the EVM.
fn spend_both(chain: &Chain) {
    let id = send(chain, pay(chain, 3, 4, COIN / 2).unwrap());
    let (before, had) = (balance(chain, account(3)), native(chain, 4));
    send(chain, to_evm(chain, 2, 3, COIN).unwrap());
    let block = chain.mine().unwrap();
    assert_eq!(chain.outputs().landed_in(&id), Some(block.number()));
    assert_eq!(native(chain, 4) - had, u128::from(COIN / 2));
    assert_eq!(balance(chain, account(3)) - before, to_wei(u128::from(COIN)));
    to_outputs(chain, 1, 1, COIN);
    chain.mine().unwrap();
}

fn of_genesis(genesis: &Genesis, dir: Option<&Path>) -> Chain {
    let (dir, block_time) = (dir.map(Path::to_owned), BlockTime::Manual);
    let config = ChainConfig { dir, block_time, beneficiary: account(N), ..ChainConfig::new(genesis.clone()) };
    Chain::open(config).unwrap()
}

/// A chain with outputs, as another one's genesis.
fn dumped() -> (Chain, Genesis) {
    let chain = chain();
    to_outputs(&chain, 1, 2, 5 * COIN);
    chain.mine().unwrap();
    send(&chain, pay(&chain, 2, 3, COIN).unwrap());
    to_outputs(&chain, 1, 3, COIN);
    chain.mine().unwrap();
    let text = chain.dump(hearth_evm::genesis::dump::newest_rules(CHAIN)).unwrap().to_string();
    (chain, genesis::from_json(&text).unwrap())
}

#[test]
fn both_ledgers_are_another_chains_beginning() {
    let ((from, genesis), dir) = (dumped(), tempfile::tempdir().unwrap());
    let begun = from.outputs().commitment();
    for dir in [None, Some(dir.path())] {
        let chain = of_genesis(&genesis, dir);
        assert_eq!(chain.head().header.parent_beacon_block_root, Some(begun));
        assert_eq!((chain.outputs().commitment(), chain.outputs().totals()), (begun, from.outputs().totals()));
        let snapshot = chain.snapshot();
        spend_both(&chain);
        assert!(chain.revert(snapshot).unwrap());
        assert_eq!(chain.outputs().commitment(), begun);
        spend_both(&chain);
        let after = (chain.head().hash, chain.outputs().commitment());
        chain.stop();
        drop(chain);
        if dir.is_some() {
            let chain = of_genesis(&genesis, dir);
            assert_eq!((chain.head().hash, chain.outputs().commitment()), after);
            spend_both(&chain);
        }
    }
    // The beginning is in the hash of block zero.
    let other = Genesis { side: Some(SideGenesis::empty(&genesis::Kind)), ..genesis.clone() };
    let config = ChainConfig { dir: Some(dir.path().to_owned()), ..ChainConfig::new(other) };
    assert!(Chain::open(config).is_err());
    let plain = of_genesis(&genesis::dev(CHAIN, &rich(1..=N), 500_000_000), None);
    let text = plain.dump(hearth_evm::genesis::dump::newest_rules(CHAIN)).unwrap();
    assert!(text.get("hearthOutputs").is_none(), "what has no outputs is what geth reads");
}

#[test]
fn both_ledgers_are_loaded_into_a_chain_that_continues() {
    let ((from, genesis), dir) = (dumped(), tempfile::tempdir().unwrap());
    let chain = open(dir.path());
    chain.mine().unwrap();
    let empty = chain.outputs().commitment();
    for _ in 0..2 {
        let snapshot = chain.snapshot();
        chain.load(&genesis).unwrap();
        assert_eq!((chain.head().number(), chain.outputs().commitment()), (2, from.outputs().commitment()));
        assert_eq!(chain.head().header.parent_beacon_block_root, Some(from.outputs().commitment()));
        assert_eq!(balance(&chain, ADDRESS), balance(&from, ADDRESS));
        // The same once more: accounts alone.
        chain.load(&genesis).unwrap();
        spend_both(&chain);
        let refused = chain.load(&genesis).unwrap_err().to_string();
        assert!(refused.contains("a history of its own"), "{refused}");
        assert!(chain.revert(snapshot).unwrap());
        assert_eq!((chain.head().number(), chain.outputs().commitment()), (1, empty));
    }
    chain.load(&genesis).unwrap();
    spend_both(&chain);
    let after = (chain.head().hash, chain.outputs().commitment());
    chain.stop();
    drop(chain);
    let chain = open(dir.path());
    assert_eq!((chain.head().hash, chain.outputs().commitment()), after);
    spend_both(&chain);
}

/// A chain in `dir` with something on both sides, and something that waits for the next block on both.
fn with_both(dir: &Path) -> Chain {
    let chain = open(dir);
    to_outputs(&chain, 1, 2, 5 * COIN);
    chain.mine().unwrap();
    send(&chain, pay(&chain, 2, 3, COIN).unwrap());
    to_outputs(&chain, 1, 4, COIN);
    chain
}

fn filling(path: &Path) -> Arc<Faulty> {
    let disk = Arc::new(Faulty::new(File::options().write(true).open(path).unwrap()));
    disk.faults().leave(40);
    disk
}

/// Fills the disk that holds the blocks, or the state, of a chain of one block.
fn fill(chain: &Chain, dir: &Path, blocks: bool) -> Arc<Faulty> {
    if blocks {
        let disk = filling(&dir.join(format!("blocks/{:020}.blocks", 1)));
        chain.put_disk_of_blocks(disk.clone());
        disk
    } else {
        let disk = filling(&dir.join(format!("state/{:020}.log", 0)));
        chain.put_disk_of_state(disk.clone()).unwrap();
        disk
    }
}

#[test]
fn a_block_that_cannot_be_kept_whole_is_not_kept_at_all() {
    for blocks in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let chain = with_both(dir.path());
        let (head, before) = (chain.head(), chain.outputs().commitment());
        let disk = fill(&chain, dir.path(), blocks);
        for _ in 0..2 {
            let error = chain.mine().unwrap_err().to_string();
            assert!(error.contains("cannot write"), "{error}");
            assert_eq!((chain.head().hash, chain.outputs().commitment()), (head.hash, before));
            assert_eq!((chain.view().state_root(), chain.failure()), (head.header.state_root, None));
            assert!(!chain.is_stored(2).unwrap());
            check(&chain);
        }
        disk.faults().leave(1 << 20);
        let block = chain.mine().unwrap();
        assert_eq!((block.number(), block.txs.len(), native(&chain, 3)), (2, 1, u128::from(COIN)));
        check(&chain);
        let after = (block.hash, chain.outputs().commitment());
        chain.stop();
        drop(chain);
        let chain = open(dir.path());
        assert_eq!((chain.head().hash, chain.outputs().commitment()), after);
        check(&chain);
    }
}

#[test]
fn nothing_is_made_after_a_block_that_can_neither_be_kept_nor_taken_back() {
    let dir = tempfile::tempdir().unwrap();
    let chain = with_both(dir.path());
    let id = chain.snapshot();
    let (blocks, state) = (fill(&chain, dir.path(), true), fill(&chain, dir.path(), false));
    blocks.faults().leave(1 << 20);
    blocks.faults().refuse_cuts(true);
    chain.mine().unwrap_err();
    let why = chain.failure().unwrap();
    assert!(why.contains("block 2 is kept in part"), "{why}");
    blocks.faults().refuse_cuts(false);
    state.faults().leave(1 << 20);
    for error in [
        chain.mine().err(),
        chain.set_balance(CALLER, U256::ZERO).err(),
        chain.revert(id).err(),
        chain.execute_block(BlockInput { number: 2, ..Default::default() }).err(),
    ] {
        assert_eq!(error.unwrap().to_string(), format!("no more blocks can be made: {why}"));
    }
    assert_eq!(chain.head().number(), 1);
    chain.stop();
    drop(chain);
    // The log has the whole block, which is decisive.
    let chain = open(dir.path());
    assert_eq!((chain.head().number(), native(&chain, 3)), (2, u128::from(COIN)));
    check(&chain);
}

#[test]
fn blocks_go_whose_outputs_the_machines_end_has_cost() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("utxo.log");
    let length = || std::fs::metadata(&log).unwrap().len();
    let chain = open(dir.path());
    let mut ends = vec![length()];
    let mut heads = vec![chain.head().hash];
    let mut held = None;
    for number in 1..=6 {
        match number {
            // Transfers from the EVM are only in the next block's commitment.
            1 | 3 | 6 => drop(to_outputs(&chain, 1, 2, 5 * COIN)),
            2 | 5 => drop(send(&chain, pay(&chain, 2, 3, COIN).unwrap())),
            _ => {}
        }
        chain.mine().unwrap();
        (ends.push(length()), heads.push(chain.head().hash));
        if number == 2 {
            chain.sync_blocks().unwrap();
            held = chain.hold_syncs();
        }
    }
    // As the machine's end leaves them: the blocks are all there, the outputs are not.
    for kept in (0..=6).rev() {
        for rubbish in [0, 500] {
            let copy = tempfile::tempdir().unwrap();
            copy_all(dir.path(), copy.path());
            let file = File::options().write(true).open(copy.path().join("utxo.log")).unwrap();
            file.set_len(ends[kept]).unwrap();
            file.set_len(ends[kept] + rubbish).unwrap();
            drop(file);
            let genesis = genesis::dev(CHAIN, &rich(1..=N), 500_000_000);
            let (dir, beneficiary, block_time) = (Some(copy.path().to_owned()), account(N), BlockTime::Manual);
            let config = ChainConfig { dir, beneficiary, block_time, ..ChainConfig::new(genesis) };
            match Chain::open(config) {
                Ok(chain) => {
                    let head = chain.head();
                    // Block 4 did nothing there.
                    let expected = if kept == 3 { 4 } else { kept };
                    assert_eq!((head.number(), head.hash), (expected as u64, heads[expected]));
                    check(&chain);
                    chain.mine().unwrap();
                    check(&chain);
                }
                Err(error) => {
                    assert!(kept < 2, "{kept}: {error}");
                    assert!(error.to_string().contains("records are missing"), "{error}");
                }
            }
        }
    }
    drop(held);
}

fn copy_all(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir(&to).unwrap();
            copy_all(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}
