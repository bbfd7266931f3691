//! Blocks before Byzantium, in which each receipt has the root of the state after its transaction.

use std::sync::Arc;

use alloy_consensus::TxLegacy;
use alloy_primitives::{Bytes, TxKind};

use super::super::{BlockTime, Chain, ChainConfig, ImportError, Paths};
use super::*;
use crate::block::{Block, Body, Roots};
use crate::builders::{rich, signer};
use crate::genesis::Forks;
use crate::import::{GivenBlock, decode_block, env_of};
use crate::state::State;
use crate::tx::Tx;

const TXS: u64 = 1_000;

/// Transfers of one account to as many others, a few of them twice.
fn transfers() -> Vec<SharedTx> {
    let to = |nonce: u64| Address::from_word(U256::from(1_000 + nonce % 900).into());
    let tx = |nonce: u64| {
        let (to, value) = (TxKind::Call(to(nonce)), U256::from(nonce));
        TxLegacy { nonce, gas_limit: 21_000, gas_price: 1_000, to, value, ..Default::default() }
    };
    (0..TXS).map(|nonce| Arc::new(Tx::signed(tx(nonce).into(), &signer(1)))).collect()
}

fn given(block: &Block) -> GivenBlock {
    let mut bytes = Vec::new();
    block.encode(&mut bytes);
    decode_block(&bytes, 0).expect("it decodes")
}

#[test]
fn a_thousand_receipts_have_the_state_after_their_transactions() {
    let (forks, difficulty) = (Forks::all_until(SpecId::HOMESTEAD), U256::from(1 << 20));
    let genesis = Genesis { forks, difficulty, timestamp: 1_000, ..Genesis::dev(31337, &rich(1..=2), 30_000_000) };
    let config = ChainConfig { block_time: BlockTime::Manual, ..ChainConfig::new(genesis.clone()) };
    let chain = Chain::open(config).expect("it may take such blocks");
    let (zero, view) = chain.head_and_view();
    let header = Header {
        parent_hash: zero.hash,
        number: 1,
        beneficiary: Address::repeat_byte(0x33),
        timestamp: 1_015,
        difficulty,
        gas_limit: zero.header.gas_limit,
        ..Default::default()
    };
    let (env, txs) = (env_of(&header, &genesis), transfers());
    let (mut executed, roots) = execute_in_order(&view, &env, &txs).expect("the view is the newest");
    assert_eq!(roots.len() as u64, TXS);
    // The same by another way, from all changes of the block so far.
    let state = State::open(None, &genesis).expect("in memory");
    for count in [1, 2, 3, 500, 950, 1_000] {
        let changes = execute(&view, &env, &txs[..count]).changes;
        assert_eq!(roots[count - 1], state.root_after(&changes), "after {count} transactions");
    }
    Credits::of(&header, &[], &[], &genesis).add(&view, &mut executed.changes).expect("it reads");
    let mut body = Body::new(&txs, executed.verdicts.clone(), 0);
    body.set_roots(&roots);
    let state_root = state.root_after(&executed.changes);
    let seal = |body: Body| {
        let trie_roots = Roots::of(&body);
        Block::seal(&env, body, trie_roots, Vec::new(), state_root, Bytes::new())
    };
    let mut wrong = body.clone();
    wrong.receipts[700].root = Some(roots[699]);
    let refused = chain.import(given(&seal(wrong)), Paths::Both(2)).expect_err("a root is that of another transaction");
    assert!(matches!(refused, ImportError::Invalid { .. }), "{refused}");
    assert!(refused.to_string().contains("invalid receipt root hash"), "{refused}");
    let imported = chain.import(given(&seal(body)), Paths::Both(2)).expect("it is valid");
    assert!(imported.block.receipts.iter().zip(&roots).all(|(receipt, root)| receipt.root == Some(*root)));
    assert_eq!(chain.view().state_root(), state_root);
}
