//! What developers do to a chain, and that it holds.

use alloy_consensus::TxEip1559;
use alloy_primitives::TxKind;
use hearth_crypto::secp256k1::Signer;

use super::super::tests::{CHAIN, GWEI, accepted, account, chain, in_folder, transfer, unsigned};
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
    let accounts: Vec<_> = (1..=8).map(|seed| (account(seed), U256::from(10u128.pow(22)))).collect();
    let genesis = Genesis::dev(CHAIN, &accounts, 500_000_000);
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
    // A delegation is no such code.
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
        Tx::signed(tx.into(), &Signer::new(&[seed; 32]).expect("a key")).raw
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
