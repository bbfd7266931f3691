//! What is asked of blocks older than the last 128.

use alloy_primitives::{TxKind, hex, keccak256};
use serde_json::{Value, json};

use crate::node::{Node, Plan, account, creates, number, word};

/// Keeps the first word of its input in slot 0; without input returns it.
const KEEPS_AND_TELLS: &str = "3615600a575f355f55005b5f545f5260205ff3";
/// Blocks after the one that deploys the contract.
const BLOCKS: u64 = 300;

/// A chain of which block 1 deploys the contract, and each later block pays it 1 wei and keeps the block's number
/// there; the contract, and the hashes of these transactions.
fn chain(states: u64) -> (Node, String, Vec<Value>) {
    let node = Node::remembering(states);
    let send = |nonce: u64, to: TxKind, value: u128, input: Vec<u8>| {
        let plan = Plan { seed: 1, nonce, to, value, gas: 200_000, input: input.into() };
        let hash = node.call("eth_sendRawTransaction", json!([plan.raw()]));
        node.chain.mine().unwrap();
        hash
    };
    let deployed = send(0, TxKind::Create, 0, hex::decode(creates(KEEPS_AND_TELLS)).unwrap());
    let receipt = node.call("eth_getTransactionReceipt", json!([deployed]));
    assert_eq!(receipt["status"], "0x1");
    let contract = receipt["contractAddress"].as_str().unwrap().to_owned();
    let to = TxKind::Call(contract.parse().unwrap());
    let hashes = (1..=BLOCKS).map(|nonce| send(nonce, to, 1, hex::decode(word(nonce + 1)).unwrap())).collect();
    (node, contract, hashes)
}

fn tag(block: u64) -> String {
    format!("{block:#x}")
}

#[test]
fn an_archive_answers_at_every_block() {
    let (node, contract, hashes) = chain(u64::MAX);
    for block in (2..=BLOCKS + 1).step_by(7) {
        let at = tag(block);
        assert_eq!(node.call("eth_getStorageAt", json!([contract, "0x0", at])), word(block));
        assert_eq!(number(&node.call("eth_getBalance", json!([contract, at]))), u128::from(block - 1));
        assert_eq!(number(&node.call("eth_getTransactionCount", json!([account(1), at]))), u128::from(block));
        assert_eq!(node.call("eth_call", json!([{ "to": contract }, at])), word(block));
        let proof = node.call("eth_getProof", json!([contract, ["0x0"], at]));
        let header = node.call("eth_getBlockByNumber", json!([at, false]));
        let first = hex::decode(proof["accountProof"][0].as_str().unwrap()).unwrap();
        assert_eq!(keccak256(first).to_string(), header["stateRoot"].as_str().unwrap());
        assert_eq!(proof["storageProof"][0]["value"], tag(block));
        let tracer = json!({ "tracer": "prestateTracer" });
        let before = node.call("debug_traceTransaction", json!([hashes[block as usize - 2], tracer]));
        let stored = if block == 2 { 0 } else { block - 1 };
        assert_eq!(before[&contract]["storage"], json!({ word(0): word(stored) }), "block {block}");
        assert_eq!(before[&format!("{:?}", account(1))]["nonce"], block - 1);
    }
    assert_eq!(node.call("eth_getCode", json!([contract, "0x0"])), "0x");
    let kept = node.call("eth_capabilities", json!([]));
    assert_eq!((&kept["state"]["oldestBlock"], &kept["stateproofs"]["oldestBlock"]), (&json!("0x0"), &json!("0x0")));
    assert!(kept["state"]["deleteStrategy"].is_null());
}

#[test]
fn a_history_ends_where_it_says() {
    let (node, contract, hashes) = chain(150);
    // The newest is block 301: blocks 152 to 301 are kept.
    let kept = node.call("eth_capabilities", json!([]));
    assert_eq!(kept["state"]["oldestBlock"], tag(152));
    assert_eq!(kept["state"]["deleteStrategy"], json!({ "type": "window", "retentionBlocks": "0x96" }));
    assert_eq!(node.call("eth_getStorageAt", json!([contract, "0x0", tag(152)])), word(152));
    let (code, why) = node.fails("eth_getStorageAt", json!([contract, "0x0", tag(151)]));
    assert!(code == -32000 && why.starts_with("missing trie node") && why.contains("last 150"), "{why}");
    // What block 153 did begins from block 152.
    node.call("debug_traceTransaction", json!([hashes[151]]));
    let (_, why) = node.fails("debug_traceTransaction", json!([hashes[150]]));
    assert!(why.contains("block 151"), "{why}");
    assert_eq!(node.chain.metrics().states.blocks, 150);
}
