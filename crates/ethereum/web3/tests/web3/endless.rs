//! Executions that never end, and simulations beside blocks: each ends in time and in geth's words, and the chain
//! continues.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use alloy_primitives::Address;
use hearth_evm::builders::{sidecar, signer, with_blobs};
use hearth_evm::chain::BlockTime;
use hearth_evm::tx::{Tx, TypedTransaction, join_network};
use hearth_web3::Limits;
use serde_json::{Value, json};

use crate::node::{CHAIN_ID, LOOPS, Node, Plan, account, number};

/// PUSH0 SLOAD PUSH1 1 ADD DUP1 PUSH0 SSTORE NUMBER SSTORE: counts in slot 0, and keeps the count under the block's
/// number.
const COUNTS: &str = "0x5f54600101805f554355";

/// A node on which a call has more gas than it can use in its time, and a contract that loops.
fn looping() -> (Node, String) {
    let limits = Limits { call_gas: 1 << 40, heavy_time: Duration::from_millis(100), ..Default::default() };
    let node = Node::limited(limits);
    let contract = node.deploy(1, 0, LOOPS);
    (node, contract)
}

#[test]
fn tracers_that_loop_end_in_geths_words() {
    let (node, contract) = looping();
    let mut tracers: Vec<Value> = ["callTracer", "flatCallTracer", "prestateTracer", "4byteTracer", "noopTracer"]
        .map(|tracer| json!({ "tracer": tracer }))
        .into();
    tracers.push(json!({ "tracer": "prestateTracer", "tracerConfig": { "diffMode": true } }));
    tracers.push(json!({ "tracer": "muxTracer", "tracerConfig": { "callTracer": {}, "noopTracer": {} } }));
    // A struct log of a few steps runs on to the end, too.
    tracers.push(json!({ "limit": 3 }));
    for tracer in tracers {
        let why = node.fails("debug_traceCall", json!([{ "to": contract }, "latest", tracer]));
        assert_eq!(why, (-32000, "execution timeout".into()), "{tracer}");
    }
    for kind in ["trace", "stateDiff"] {
        let why = node.fails("trace_call", json!([{ "to": contract }, [kind]]));
        assert_eq!(why, (-32000, "execution aborted (timeout = 0.1s)".into()), "{kind}");
    }
    assert_eq!(node.run(&Plan::transfer(1, 1))["status"], "0x1", "blocks are made");
}

#[test]
fn simulations_that_loop_end_in_geths_words() {
    let (node, contract) = looping();
    let block = json!({ "blockOverrides": { "gasLimit": "0xffffffffff" }, "calls": [{ "to": contract }] });
    // However many blocks and calls there are, they have the time of one call together.
    for blocks in [json!([block.clone()]), json!(vec![block; 256])] {
        let why = node.fails("eth_simulateV1", json!([{ "blockStateCalls": blocks }]));
        assert_eq!(why, (-32000, "execution aborted (timeout = 0.1s)".into()));
    }
    assert_eq!(node.run(&Plan::transfer(1, 1))["status"], "0x1", "blocks are made");
}

#[test]
fn blocks_are_made_while_others_are_simulated() {
    let node = Node::new(BlockTime::Manual);
    let counter = format!("{:?}", Address::repeat_byte(0x44));
    let overrides = json!({ counter.as_str(): { "code": COUNTS } });
    let mut blocks = vec![json!({ "calls": [{ "to": counter }] }); 40];
    blocks[0]["stateOverrides"] = overrides;
    let params = json!([{ "blockStateCalls": blocks }, "0x1"]);
    node.chain.mine().unwrap();
    let expected = node.call("eth_simulateV1", params.clone());
    assert!(expected.as_array().unwrap().iter().all(|block| block["calls"][0]["status"] == "0x1"), "{expected}");
    let is_over = AtomicBool::new(false);
    let simulated = std::thread::scope(|scope| {
        let simulating = scope.spawn(|| {
            let client = node.another();
            let mut rounds = 0;
            while !is_over.load(Relaxed) || rounds == 0 {
                // The same, however many blocks have been made on the one that they build on.
                assert_eq!(client.call("eth_simulateV1", params.clone()), expected);
                rounds += 1;
            }
            rounds
        });
        for nonce in 0..100 {
            node.call("eth_sendRawTransaction", json!([Plan::transfer(1, nonce).raw()]));
            assert_eq!(node.chain.mine().unwrap().txs.len(), 1);
        }
        is_over.store(true, Relaxed);
        simulating.join().unwrap()
    });
    assert!(simulated > 0);
    assert_eq!(number(&node.call("eth_blockNumber", json!([]))), 101, "no block is lost, and none of theirs is kept");
}

#[test]
fn blobs_with_a_wrong_proof_are_refused_and_leave_nothing() {
    let node = Node::new(BlockTime::Manual);
    let mut wrong = sidecar(1).into_eip4844().expect("it has a proof a blob");
    wrong.proofs[0] = wrong.commitments[0];
    let wrong = hearth_evm::blobs::Sidecar::Eip4844(wrong);
    let tx = Tx::signed(TypedTransaction::Eip4844(with_blobs(CHAIN_ID, 0, &wrong)), &signer(1));
    let raw = alloy_primitives::hex::encode_prefixed(join_network(&tx, &wrong));
    let (code, why) = node.fails("eth_sendRawTransaction", json!([raw]));
    assert!(code == -32000 && why.starts_with("KZG verification error: "), "{code} {why}");
    assert_eq!(node.call("eth_getTransactionByHash", json!([tx.hash])), Value::Null);
    assert_eq!(node.call("txpool_status", json!([])), json!({ "pending": "0x0", "queued": "0x0" }));
    // The same account's nonce is free.
    node.call("eth_sendRawTransaction", json!([Plan::transfer(1, 0).raw()]));
    assert_eq!(node.chain.mine().unwrap().txs.len(), 1);
    assert_eq!(node.call("eth_getTransactionCount", json!([account(1), "latest"])), "0x1");
}
