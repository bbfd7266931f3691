//! What a block explorer's indexer asks as it follows a chain, in its batches, and the fields it cannot do without.
//!
//! source  the requests of Blockscout's indexer for a node of geth's kind

use alloy_primitives::{TxKind, hex};
use hearth_evm::chain::BlockTime;
use serde_json::{Value, json};

use crate::node::{KEEPS, LOGS, Node, Plan, REVERTS};

const BLOCK: &[&str] = &[
    "difficulty",
    "extraData",
    "gasLimit",
    "gasUsed",
    "hash",
    "logsBloom",
    "miner",
    "number",
    "parentHash",
    "receiptsRoot",
    "size",
    "stateRoot",
    "timestamp",
    "transactionsRoot",
    "baseFeePerGas",
    "transactions",
    "uncles",
];
const TRANSACTION: &[&str] = &[
    "blockHash",
    "blockNumber",
    "from",
    "gas",
    "gasPrice",
    "hash",
    "input",
    "nonce",
    "transactionIndex",
    "value",
    "type",
    "maxPriorityFeePerGas",
    "maxFeePerGas",
    "r",
    "s",
    "v",
];
const RECEIPT: &[&str] = &[
    "cumulativeGasUsed",
    "gasUsed",
    "contractAddress",
    "transactionHash",
    "transactionIndex",
    "effectiveGasPrice",
    "status",
    "logs",
];
const LOG: &[&str] = &["address", "blockNumber", "blockHash", "data", "logIndex", "topics", "transactionHash"];

#[track_caller]
fn has(value: &Value, fields: &[&str]) {
    for field in fields {
        assert!(value.get(field).is_some(), "no {field} in {value}");
    }
}

/// Asks in one batch; the results in the order of the requests.
#[track_caller]
fn batch(node: &Node, requests: &[(&str, Value)]) -> Vec<Value> {
    let numbered = requests.iter().enumerate();
    let asked: Vec<_> = numbered
        .map(|(id, (method, params))| json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
        .collect();
    let answers = node.ask_value(&json!(asked));
    let result = |id: usize| {
        let answer = answers.as_array().unwrap().iter().find(|answer| answer["id"] == id).unwrap();
        assert!(answer.get("error").is_none(), "{:?}: {answer}", requests[id]);
        answer["result"].clone()
    };
    (0..requests.len()).map(result).collect()
}

/// A chain with a contract made, a log written, a call reverted and a transfer: a block each.
fn chain() -> (Node, Vec<Value>) {
    let node = Node::new(BlockTime::Instant);
    let (logs, reverts) = (node.deploy(1, 0, LOGS), node.deploy(1, 1, REVERTS));
    node.deploy(1, 2, KEEPS);
    let call = |nonce, to: &str, input: &str| {
        let (to, input) = (TxKind::Call(to.parse().unwrap()), hex::decode(input).unwrap().into());
        node.run(&Plan { seed: 1, nonce, to, value: 0, gas: 100_000, input })
    };
    let logged = call(3, &logs, "0x0102");
    let reverted = call(4, &reverts, "0x11");
    let transfer = node.run(&Plan::transfer(1, 5));
    assert_eq!((&logged["status"], &reverted["status"]), (&json!("0x1"), &json!("0x0")));
    (node, vec![logged, reverted, transfer])
}

#[test]
fn blocks_receipts_and_logs_are_indexed() {
    let (node, receipts) = chain();
    let head = node.call("eth_blockNumber", json!([]));
    let number = u64::from_str_radix(&head.as_str().unwrap()[2..], 16).unwrap();
    let numbers: Vec<_> = (0..=number).map(|number| format!("0x{number:x}")).collect();
    let of = |method: &'static str, more: bool| -> Vec<_> {
        let params = |number: &String| if more { json!([number, true]) } else { json!([number]) };
        numbers.iter().map(|number| (method, params(number))).collect()
    };
    let blocks = batch(&node, &of("eth_getBlockByNumber", true));
    let by_block = batch(&node, &of("eth_getBlockReceipts", false));
    for (block, receipts) in blocks.iter().zip(&by_block) {
        has(block, BLOCK);
        let (txs, receipts) = (block["transactions"].as_array().unwrap(), receipts.as_array().unwrap());
        assert_eq!(txs.len(), receipts.len());
        for (tx, receipt) in txs.iter().zip(receipts) {
            has(tx, TRANSACTION);
            has(receipt, RECEIPT);
            assert_eq!(tx["hash"], receipt["transactionHash"]);
            receipt["logs"].as_array().unwrap().iter().for_each(|log| has(log, LOG));
        }
        assert_eq!(node.call("eth_getBlockByHash", json!([block["hash"], true])), *block);
    }
    let logs = node.call("eth_getLogs", json!([{ "fromBlock": "0x0", "toBlock": head }]));
    assert_eq!(logs, receipts[0]["logs"], "the one log of the chain");
    let one = batch(
        &node,
        &[
            ("eth_getTransactionReceipt", json!([receipts[0]["transactionHash"]])),
            ("eth_getTransactionByHash", json!([receipts[0]["transactionHash"]])),
            ("eth_getUncleByBlockHashAndIndex", json!([blocks[1]["hash"], "0x0"])),
            ("eth_getBlockTransactionCountByNumber", json!([head])),
        ],
    );
    assert_eq!((&one[0], &one[2], &one[3]), (&receipts[0], &Value::Null, &json!("0x1")));
    has(&one[1], TRANSACTION);
}

#[test]
fn balances_codes_and_calls_are_asked_at_their_blocks() {
    let (node, receipts) = chain();
    let (sender, contract) = (&receipts[2]["from"], &receipts[0]["to"]);
    let at = |receipt: &Value| receipt["blockNumber"].clone();
    let found = batch(
        &node,
        &[
            ("eth_getBalance", json!([sender, at(&receipts[1])])),
            ("eth_getBalance", json!([sender, at(&receipts[2])])),
            ("eth_getTransactionCount", json!([sender, at(&receipts[1])])),
            ("eth_getCode", json!([contract, at(&receipts[0])])),
            ("eth_getStorageAt", json!([contract, "0x0", "latest"])),
            ("eth_call", json!([{ "to": contract, "data": "0x01" }, at(&receipts[2])])),
            ("eth_gasPrice", json!([])),
            ("eth_maxPriorityFeePerGas", json!([])),
            ("eth_chainId", json!([])),
        ],
    );
    let [before, after] = [&found[0], &found[1]].map(crate::node::number);
    assert!(after < before, "it paid in between");
    assert_eq!((&found[2], &found[3]), (&json!("0x5"), &json!(format!("0x{LOGS}"))));
}

#[test]
fn inner_calls_come_from_the_tracer() {
    let (node, receipts) = chain();
    let options = json!({ "timeout": "5s", "tracer": "callTracer" });
    let requests: Vec<_> =
        receipts.iter().map(|receipt| ("debug_traceBlockByNumber", json!([receipt["blockNumber"], options]))).collect();
    for (traces, receipt) in batch(&node, &requests).iter().zip(&receipts) {
        let trace = &traces[0]["result"];
        assert_eq!(traces[0]["txHash"], receipt["transactionHash"]);
        has(trace, &["type", "from", "to", "gas", "gasUsed", "input", "value"]);
        assert_eq!(trace.get("error").is_some(), receipt["status"] == "0x0");
        assert_eq!(trace["gasUsed"], receipt["gasUsed"]);
    }
    let top = json!({ "timeout": "5s", "tracer": "callTracer", "tracerConfig": { "onlyTopCall": true } });
    let first = node.call("debug_traceTransaction", json!([receipts[1]["transactionHash"], top]));
    assert_eq!((&first["error"], &first["output"]), (&json!("execution reverted"), &json!("0x11")));
    let steps =
        json!({ "enableMemory": true, "disableStack": false, "disableStorage": true, "enableReturnData": false });
    let stepped = node.call("debug_traceTransaction", json!([receipts[0]["transactionHash"], steps]));
    assert!(!stepped["structLogs"].as_array().unwrap().is_empty());
}

#[test]
fn pending_transactions_are_listed_by_sender_and_nonce() {
    let node = Node::new(BlockTime::Manual);
    let hash = node.call("eth_sendRawTransaction", json!([Plan::transfer(1, 0).raw()]));
    let content = node.call("txpool_content", json!([]));
    let waiting = &content["pending"].as_object().unwrap().values().next().unwrap()["0"];
    assert_eq!((&waiting["hash"], &waiting["blockHash"]), (&hash, &Value::Null));
    assert!(content["queued"].as_object().unwrap().is_empty());
}
