//! A blob transaction over JSON-RPC: sent, found, its fees, its sidecar.

use alloy_primitives::{B256, hex};
use hearth_evm::blobs::{GAS_PER_BLOB, Sidecar};
use hearth_evm::builders::{sidecar_by_cell, signer, with_blobs};
use hearth_evm::chain::BlockTime;
use hearth_evm::tx::{Tx, TypedTransaction, join_network};
use hearth_rpc_client::http::{self, Patience};
use serde_json::{Value, json};

use crate::node::{CHAIN_ID, DEADLINE, Node};

#[test]
fn a_blob_transaction_is_found_with_its_sidecar() {
    let node = Node::with(BlockTime::Instant, |config| config.dev = true);
    let sidecar = sidecar_by_cell(2);
    let tx = Tx::signed(TypedTransaction::Eip4844(with_blobs(CHAIN_ID, 0, &sidecar)), &signer(1));
    let (code, why) = node.fails("eth_sendRawTransaction", json!([hex::encode_prefixed(&tx.raw)]));
    assert_eq!((code, why.as_str()), (-32000, "missing sidecar in blob transaction"));
    let raw = hex::encode_prefixed(join_network(&tx, &sidecar));
    let named: Vec<String> = sidecar.versioned_hashes().map(|hash| hash.to_string()).collect();
    let from = tx.sender.to_string();
    for fee in ["0x0", "0x3b9aca00"] {
        // PUSH1 1 BLOBHASH PUSH0 MSTORE PUSH1 32 PUSH0 RETURN
        let to = "0x00000000000000000000000000000000000000b1";
        let message = json!({ "from": from, "to": to, "blobVersionedHashes": named, "maxFeePerBlobGas": fee });
        let state = json!({ to: { "code": "0x6001495f5260205ff3" } });
        assert_eq!(node.call("eth_call", json!([message, "latest", state])), json!(named[1]));
        let plain = json!({ "from": from, "to": from, "blobVersionedHashes": named, "maxFeePerBlobGas": fee });
        assert_eq!(node.call("eth_estimateGas", json!([plain])), "0x5208");
    }
    let hash = node.call("eth_sendRawTransaction", json!([raw]));
    assert_eq!(hash, tx.hash.to_string());

    let receipt = node.receipt(&hash);
    let used = format!("{:#x}", 2 * GAS_PER_BLOB);
    assert_eq!((&receipt["type"], &receipt["status"]), (&json!("0x3"), &json!("0x1")));
    assert_eq!((&receipt["blobGasUsed"], &receipt["blobGasPrice"]), (&json!(used), &json!("0x1")));
    let found = node.call("eth_getTransactionByHash", json!([hash]));
    assert_eq!((&found["blobVersionedHashes"], &found["maxFeePerBlobGas"]), (&json!(named), &json!("0x3b9aca00")));
    let block = node.call("eth_getBlockByNumber", json!([receipt["blockNumber"], false]));
    assert_eq!((&block["blobGasUsed"], &block["excessBlobGas"]), (&json!(used), &json!("0x0")));
    let history = node.call("eth_feeHistory", json!(["0x1", "latest"]));
    assert_eq!(history["baseFeePerBlobGas"], json!(["0x1", "0x1"]));
    assert_eq!(history["blobGasUsedRatio"], json!([2.0 / 9.0]));

    let Sidecar::Eip7594(whole) = &sidecar else { panic!("it has proofs of cells") };
    let of_transaction = node.call("eth_getBlobSidecarByTxHash", json!([hash]));
    let returned = &of_transaction["blobSidecar"];
    assert_eq!(returned["blobs"][1], hex::encode_prefixed(whole.blobs[1].as_slice()));
    assert_eq!(returned["commitments"][0], hex::encode_prefixed(whole.commitments[0].as_slice()));
    assert_eq!(returned["proofs"].as_array().map(Vec::len), Some(256));
    assert_eq!((&of_transaction["txHash"], &of_transaction["blockHash"]), (&hash, &block["hash"]));
    let of_block = node.call("eth_getBlobSidecars", json!([receipt["blockNumber"], false]));
    assert_eq!(of_block.as_array().map(Vec::len), Some(1));
    assert_eq!(of_block[0]["blobSidecar"]["blobs"][1], hex::encode_prefixed(&whole.blobs[1][..32]));
    assert_eq!(node.call("anvil_getBlobByHash", json!([named[1]])), returned["blobs"][1]);
    assert_eq!(node.call("anvil_getBlobsByTransactionHash", json!([hash])), returned["blobs"]);

    builds_with_blobs(&node, &tx, &raw, &block["timestamp"], returned);
    serves_the_beacon(&node, &block["hash"], returned);
    let unknown = json!(["0x0101010101010101010101010101010101010101010101010101010101010101"]);
    for method in ["eth_getBlobSidecarByTxHash", "anvil_getBlobByHash", "anvil_getBlobsByTransactionHash"] {
        assert_eq!(node.call(method, unknown.clone()), Value::Null, "{method}");
    }
}

/// A block that is built of a blob transaction has its blobs beside it.
fn builds_with_blobs(node: &Node, tx: &Tx, raw: &str, timestamp: &Value, sidecar: &Value) {
    let zero = node.call("eth_getBlockByNumber", json!(["0x0", false]));
    let root = B256::ZERO;
    let (from, used) = (tx.sender.to_string(), format!("{:#x}", 2 * GAS_PER_BLOB));
    let attributes = json!({ "timestamp": timestamp, "prevRandao": root, "withdrawals": [],
        "suggestedFeeRecipient": from, "parentBeaconBlockRoot": root });
    let built = node.call("testing_buildBlockV1", json!([zero["hash"], attributes, [raw], "0x"]));
    let payload = &built["executionPayload"];
    assert_eq!((&payload["blobGasUsed"], &payload["excessBlobGas"]), (&json!(used), &json!("0x0")));
    assert_eq!(payload["transactions"], json!([hex::encode_prefixed(&tx.raw)]));
    for part in ["blobs", "commitments", "proofs"] {
        assert_eq!(built["blobsBundle"][part], sidecar[part], "{part}");
    }
}

/// The beacon endpoint has the blobs of a block, by its name, number or hash.
fn serves_the_beacon(node: &Node, hash: &Value, sidecar: &Value) {
    let agent = http::direct(Patience::Step(DEADLINE));
    let root = format!("http://{}/eth/v1/beacon/blobs/", node.server.address());
    let hash_of_block = hash.as_str().expect("a hash");
    for id in ["head", "1", hash_of_block] {
        let text = http::get(&agent, &format!("{root}{id}"), 1 << 20).unwrap();
        let answer: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(answer["data"], sidecar["blobs"], "{id}");
    }
    for id in ["7", "0x12", "nothing"] {
        assert!(http::get(&agent, &format!("{root}{id}"), 1 << 20).is_err(), "{id}");
    }
}
