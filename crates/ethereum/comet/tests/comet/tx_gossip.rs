//! Transactions received by one node are submitted to CometBFT's RPC, and through it reach the others' pools.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use base64::Engine;
use bytes::Bytes;
use hearth_abci::{Application, request};
use hearth_comet::app::Config;
use hearth_comet::rpc::Rpc;
use hearth_comet::{App, Spreader};
use hearth_crypto::ed25519::SigningKey;
use hearth_evm::builders::{rich, signer};
use hearth_evm::chain::{BlockInput, BlockTime, Chain, ChainConfig};
use hearth_evm_utxo::{UtxoChain, genesis};
use hearth_testkit::PATIENCE;
use hearth_testkit::http::serve_calls;
use hearth_utxo::tx::{Action, Builder};
use hearth_utxo::{AssetId, Output, OwnerKey};
use serde_json::json;

const CHAIN: u64 = 777;

fn key() -> SigningKey {
    SigningKey::from_seed(&[5; 32])
}

fn node() -> App {
    let genesis = genesis::dev(CHAIN, &rich(1..=1), 500_000_000);
    let config = ChainConfig { block_time: BlockTime::Manual, ..ChainConfig::new(genesis) };
    App::new(Chain::open(config).unwrap(), Config::default())
}

/// A mock of CometBFT's RPC, which forwards broadcasts to a channel.
fn rpc() -> (Rpc, Receiver<Bytes>) {
    let (sender, receiver) = channel();
    let url = serve_calls(move |method, params| {
        assert_eq!(method, "broadcast_tx_async");
        let tx = base64::engine::general_purpose::STANDARD.decode(params["tx"].as_str().unwrap()).unwrap();
        sender.send(tx.into()).map_err(|_| (-32603, "the test has ended".to_owned()))?;
        Ok(json!({ "code": 0 }))
    });
    (Rpc::at(&url).unwrap(), receiver)
}

fn pay(chain: &Chain, amount: u64) -> Bytes {
    let key = key();
    let owner = OwnerKey(key.public_key());
    let pool = chain.outputs_pool();
    let all = chain.outputs().outputs_of(&owner, None, usize::MAX);
    let available: Vec<_> = all.into_iter().filter(|(at, _)| pool.spender(at).is_none()).take(1).collect();
    let outputs = vec![Output { asset: AssetId::NATIVE, amount, owner, memo: Default::default() }];
    Builder { chain_id: CHAIN, key: &key, available: &available, outputs, action: Action::Transfer }
        .build()
        .unwrap()
        .into()
}

#[test]
fn both_ledgers_transactions_reach_the_other_nodes_pools() {
    let (one, other) = (Arc::new(node()), node());
    let owner = OwnerKey(key().public_key());
    let call = |nonce| hearth_evm_utxo::prism::call(CHAIN, nonce, 100_000_000_000, &owner, 5_000_000, &signer(1));
    let txs = (0..2).map(|nonce| Arc::new(call(nonce))).collect();
    let input = BlockInput { number: 1, timestamp: 1_700_000_000, txs, ..Default::default() };
    for chain in [one.chain(), other.chain()] {
        chain.commit(chain.execute_block(input.clone()).unwrap()).unwrap();
    }
    // One waits when the thread begins, as after a restart; the others come later.
    let first = pay(one.chain(), 1);
    let send = |raw: Bytes| one.chain().submit(vec![raw.into()]).remove(0).unwrap();
    let mut wanted = vec![send(first)];
    let (rpc, broadcast) = rpc();
    let spreader = Spreader::start(one.chain().clone(), rpc, one.spread().clone()).unwrap();
    wanted.push(send(pay(one.chain(), 2)));
    let evm = send(call(2).raw.0.clone());
    let is_there = || {
        wanted.iter().all(|id| other.chain().outputs_pool().get(id).is_some())
            && other.chain().pool().get(&evm).is_some()
    };
    let deadline = Instant::now() + PATIENCE;
    while !is_there() {
        let left = deadline.saturating_duration_since(Instant::now());
        let envelope = broadcast.recv_timeout(left).expect("it is handed over");
        // CometBFT asks its own application first: a transaction that already waits there must not be rejected.
        for app in [&*one, &other] {
            let check = app.check_tx(request::CheckTx { tx: envelope.clone(), r#type: 0 }).unwrap();
            assert_eq!(check.code, 0, "{}", check.log);
        }
    }
    // Transactions that came through CometBFT are not submitted to it again by the receiver.
    let (rpc, broadcast) = self::rpc();
    let others = Spreader::start(other.chain().clone(), rpc, other.spread().clone()).unwrap();
    // The node's own transaction comes after all that it could have submitted.
    let own = other.chain().submit(vec![call(3).raw.clone()]).remove(0).unwrap();
    let envelope = broadcast.recv_timeout(PATIENCE).expect("its own is handed over");
    drop((spreader, others));
    assert!(broadcast.try_recv().is_err(), "nothing else is");
    let check = one.check_tx(request::CheckTx { tx: envelope.clone(), r#type: 0 }).unwrap();
    assert_eq!((check.code, &check.data[..]), (0, own.as_slice()), "it holds that transaction alone");
    assert_eq!(one.chain().pool().get(&own).map(|tx| tx.hash), Some(own));
    let query = request::Query { path: "/outputs".into(), data: owner.0.to_vec().into(), ..Default::default() };
    let answer = one.query(query).unwrap();
    let answer: serde_json::Value = serde_json::from_slice(&answer.value).unwrap();
    assert_eq!(answer["native"]["units"], "10000000");
}
