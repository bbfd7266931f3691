//! What developers do to a chain, and that it holds.

use std::time::Duration;

use alloy_consensus::TxEip1559;
use alloy_primitives::TxKind;

use super::super::now_s;
use super::super::tests::{CHAIN, GWEI, accepted, account, chain, in_folder, rich, signer, transfer, unsigned};
use super::*;
use crate::chain::SubmitError;
use crate::genesis::Genesis;
use crate::pool::PoolError;
use crate::tx::Tx;

/// Stores 1 in slot 0.
const CODE: &[u8] = &[0x60, 0x01, 0x5f, 0x55, 0x00];

fn funded_contract(chain: &Chain) -> Address {
    let contract = Address::repeat_byte(0x43);
    chain.set_balance(contract, U256::from(10u128.pow(20))).expect("set");
    chain.set_code(contract, Bytes::from_static(CODE)).expect("set");
    contract
}

#[test]
fn impersonated_contract_sends() {
    let chain = chain(BlockTime::Manual);
    let contract = funded_contract(&chain);
    let hashes: Vec<B256> =
        (0..3).map(|nonce| chain.submit_as(contract, unsigned(nonce, 100 * GWEI)).expect("taken")).collect();
    let block = chain.mine().expect("made");
    assert_eq!(block.txs.iter().map(|tx| tx.hash).collect::<Vec<_>>(), hashes);
    assert!(block.receipts.iter().all(|receipt| receipt.status));
    assert_eq!(chain.view().account(&contract).map(|account| account.nonce), Some(3));
}

#[test]
fn impersonated_contract_sends_among_many_threads() {
    let genesis = Genesis::dev(CHAIN, &rich(1..=8), 500_000_000);
    let block_time = BlockTime::Manual;
    let chain = Chain::open(ChainConfig { block_time, threads: 3, ..ChainConfig::new(genesis) }).expect("it opens");
    let contract = funded_contract(&chain);
    for nonce in 0..40 {
        chain.submit_as(contract, unsigned(nonce, 100 * GWEI)).expect("taken");
        accepted(chain.submit((1..=8).map(|seed| transfer(seed, nonce)).collect()));
    }
    let block = chain.mine().expect("made");
    assert_eq!(block.txs.len(), 9 * 40);
    let again =
        crate::exec::execute(&chain.view_at(block.number() - 1).expect("kept"), &chain.env_of(&block), &block.txs);
    assert_eq!(again.gas_used, block.header.gas_used);
}

#[test]
fn impersonated_contract_survives_a_replay() {
    let dir = tempfile::tempdir().expect("a folder");
    let chain = in_folder(dir.path(), BlockTime::Manual).expect("it opens");
    let contract = funded_contract(&chain);
    chain.submit_as(contract, unsigned(0, 100 * GWEI)).expect("taken");
    let block = chain.mine().expect("made");
    assert_eq!(block.txs.len(), 1);
    chain.stop();
    drop(chain);
    // Without the state every block is executed again.
    std::fs::remove_dir_all(dir.path().join("state")).expect("removed");
    let chain = in_folder(dir.path(), BlockTime::Manual).expect("it opens");
    assert_eq!(chain.head().hash, block.hash);
}

#[test]
fn a_contract_signs_nothing() {
    let chain = chain(BlockTime::Manual);
    chain.set_code(account(1), Bytes::from_static(CODE)).expect("set");
    let refused = chain.submit(vec![transfer(1, 0)]).remove(0);
    assert_eq!(refused, Err(SubmitError::Pool(PoolError::NotEoa(account(1)))));
    // A delegation is not such code.
    let delegation = [&[0xef, 0x01, 0x00][..], Address::repeat_byte(7).as_slice()].concat();
    chain.set_code(account(2), delegation.into()).expect("set");
    accepted(chain.submit(vec![transfer(2, 0)]));
    assert_eq!(chain.mine().expect("made").txs.len(), 1);
}

#[test]
fn gas_is_judged_by_the_next_block() {
    let chain = chain(BlockTime::Manual);
    let of_gas = |seed: u8, gas_limit: u64| {
        let to = TxKind::Call(Address::repeat_byte(0x77));
        let max_fee_per_gas = 100 * GWEI;
        let tx = TxEip1559 { chain_id: CHAIN, gas_limit, max_fee_per_gas, to, ..Default::default() };
        Tx::signed(tx.into(), &signer(seed)).raw
    };
    chain.set_gas_limit(100_000);
    let refused = chain.submit(vec![of_gas(1, 100_001)]).remove(0);
    assert_eq!(refused, Err(SubmitError::Pool(PoolError::GasLimit)));
    accepted(chain.submit(vec![of_gas(1, 100_000)]));
    assert_eq!(chain.mine().expect("made").txs.len(), 1);
    chain.set_gas_limit(1_000_000);
    accepted(chain.submit(vec![of_gas(2, 1_000_000)]));
    assert_eq!(chain.mine().expect("made").txs.len(), 1);
}

#[test]
fn blocks_run_ahead_of_the_clock() {
    let chain = chain(BlockTime::Manual);
    chain.mine_many(700, None).expect("made");
    let times: Vec<u64> = (1..=700).map(|number| chain.block(number).expect("made").header.timestamp).collect();
    assert!(times.windows(2).all(|pair| pair[1] > pair[0]), "each is later than the one before: {times:?}");
    // A time that is set explicitly is used as it is.
    let later = times[699] + 5_000;
    chain.set_next_timestamp(later).expect("it is later");
    assert_eq!(chain.mine().expect("made").header.timestamp, later);
    assert!(chain.mine().expect("made").header.timestamp > later);
    let error = chain.set_next_timestamp(1 << 63).expect_err("no time would be left");
    assert!(matches!(error, ChainError::TimestampTooLate(_)), "{error}");
}

/// Three blocks, each later than its parent and within a minute of `offset` seconds from now.
fn mines_at(chain: &Chain, offset: i64) {
    for _ in 0..3 {
        let parent = chain.head().header.timestamp;
        let due = now_s().saturating_add_signed(offset);
        let time = chain.mine().expect("made").header.timestamp;
        assert!(time > parent && (due - 60..due + 60).contains(&time), "{time} after {parent}, due at {due}");
    }
}

#[test]
fn time_offset_survives_a_restart() {
    let dir = tempfile::tempdir().expect("a folder");
    let chain = in_folder(dir.path(), BlockTime::Manual).expect("it opens");
    let snapshot = chain.snapshot();
    chain.set_next_timestamp(now_s() + 1_000_000).expect("it is later");
    mines_at(&chain, 1_000_000);
    chain.stop();
    drop(chain);
    let chain = in_folder(dir.path(), BlockTime::Manual).expect("it opens");
    mines_at(&chain, 1_000_000);
    // An offset that no block uses yet is kept, too.
    chain.increase_time(1_000);
    drop(chain);
    let chain = in_folder(dir.path(), BlockTime::Manual).expect("it opens");
    mines_at(&chain, 1_001_000);
    assert!(!chain.revert(snapshot).expect("no snapshot outlives the program"));
}

#[test]
fn time_offset_is_taken_back_with_its_blocks() {
    let dir = tempfile::tempdir().expect("a folder");
    let chain = in_folder(dir.path(), BlockTime::Manual).expect("it opens");
    let snapshot = chain.snapshot();
    chain.increase_time(5_000);
    chain.mine().expect("made");
    assert!(chain.revert(snapshot).expect("it goes back"));
    drop(chain);
    mines_at(&in_folder(dir.path(), BlockTime::Manual).expect("it opens"), 0);
}

#[test]
fn time_offset_travels_in_a_dump() {
    let first = chain(BlockTime::Manual);
    first.set_next_timestamp(now_s() + 1_000_000).expect("it is later");
    first.mine().expect("made");
    let dump = first.dump(crate::genesis::dump::newest_rules(CHAIN)).expect("dumped").to_string();
    let genesis = Genesis::from_json(&dump).expect("a genesis");
    let block_time = BlockTime::Manual;
    let second = Chain::open(ChainConfig { block_time, ..ChainConfig::new(genesis) }).expect("it opens");
    assert_eq!(second.head().header.timestamp, first.head().header.timestamp);
    mines_at(&second, 1_000_000);
}

#[test]
fn console_calls_are_noticed() {
    let speaks = alloy_primitives::hex!("365f5f375f5f365f73000000000000000000636f6e736f6c652e6c6f675afa00");
    let contract = Address::repeat_byte(0x45);
    let call = |seed: u8, nonce: u64| {
        let (to, max_fee_per_gas, gas_limit) = (TxKind::Call(contract), 100 * GWEI, 100_000);
        let input = Bytes::from_static(&[7; 36]);
        let tx = TxEip1559 { chain_id: CHAIN, nonce, gas_limit, max_fee_per_gas, to, input, ..Default::default() };
        Tx::signed(tx.into(), &signer(seed)).raw
    };
    for threads in [1, 3] {
        let genesis = Genesis::dev(CHAIN, &rich(1..=8), 500_000_000);
        let block_time = BlockTime::Manual;
        let chain = Chain::open(ChainConfig { block_time, threads, ..ChainConfig::new(genesis) }).expect("it opens");
        let blocks = chain.console().expect("nobody has them");
        assert!(chain.console().is_none());
        chain.set_code(contract, Bytes::copy_from_slice(&speaks)).expect("set");
        accepted(chain.submit((1..=8).map(|seed| transfer(seed, 0)).collect()));
        chain.mine().expect("made");
        assert!(blocks.try_recv().is_err(), "transfers call nobody");
        let sent = (1..=8).flat_map(|seed| [transfer(seed, 1), call(seed, 2)]).collect();
        accepted(chain.submit(sent));
        let block = chain.mine().expect("made");
        assert_eq!(blocks.try_recv().expect("it called the console").hash, block.hash);
    }
}

#[test]
fn nonce_gap_is_not_under_way() {
    let chain = chain(BlockTime::Instant);
    let gapped = accepted(chain.submit(vec![transfer(1, 1)]));
    let mut hashes = gapped.clone();
    chain.retain_under_way(&mut hashes);
    assert!(hashes.is_empty(), "a nonce is missing, whether the sequencer has looked or not");
    let cheap = chain.submit_as(account(2), unsigned(0, 2)).expect("taken");
    hashes.push(cheap);
    chain.retain_under_way(&mut hashes);
    assert!(hashes.is_empty(), "it does not pay the base fee");
    let mut sent = accepted(chain.submit(vec![transfer(1, 0)]));
    assert!(chain.caught_up(Duration::from_secs(60)));
    assert!(gapped.iter().chain(&sent).all(|hash| chain.tx(hash).is_some()));
    chain.retain_under_way(&mut sent);
    assert!(sent.is_empty(), "it can be read");
}
