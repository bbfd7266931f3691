//! Traces in the shapes of OpenEthereum, and what Otterscan asks.

use alloy_primitives::{Address, TxKind, hex};
use hearth_evm::chain::BlockTime;
use serde_json::{Value, json};

use crate::node::{KEEPS, LOOPS, NUMBERS, Node, Plan, REVERTS, account, number, word};

/// Calls the account whose address is the first word of the input, with all that it was sent, and returns nothing.
const FORWARDS: &str = "5f5f5f5f345f355af100";

fn own(seed: u8) -> String {
    format!("{:?}", account(seed))
}

fn run(node: &Node, contract: &str, nonce: u64, value: u128, input: &str) -> Value {
    let to = TxKind::Call(contract.parse().unwrap());
    node.run(&Plan { seed: 1, nonce, to, value, gas: 200_000, input: hex::decode(input).unwrap().into() })
}

fn padded(address: &str) -> String {
    format!("0x{:0>64}", &address[2..])
}

#[test]
fn a_transaction_is_reported_frame_by_frame() {
    let node = Node::new(BlockTime::Instant);
    let forwards = node.deploy(1, 0, FORWARDS);
    let to = format!("{:?}", Address::repeat_byte(0x77));
    let receipt = run(&node, &forwards, 1, 5, &padded(&to));
    let hash = &receipt["transactionHash"];
    let traces = node.call("trace_transaction", json!([hash]));
    assert_eq!(traces.as_array().unwrap().len(), 2);
    let (outer, inner) = (&traces[0], &traces[1]);
    assert_eq!((&outer["action"]["from"], &outer["action"]["to"]), (&json!(own(1)), &json!(forwards)));
    assert_eq!((&outer["subtraces"], &outer["traceAddress"]), (&json!(1), &json!([])));
    assert_eq!((&inner["action"]["from"], &inner["action"]["to"]), (&json!(forwards), &json!(to)));
    assert_eq!((&inner["action"]["value"], &inner["traceAddress"]), (&json!("0x5"), &json!([0])));
    assert_eq!((&inner["type"], &inner["result"]["output"]), (&json!("call"), &json!("0x")));
    assert_eq!((&inner["blockHash"], &inner["transactionHash"]), (&receipt["blockHash"], hash));
    assert_eq!(inner["transactionPosition"], 0);
    assert_eq!(node.call("trace_get", json!([hash, ["0x1"]])), *inner);
    assert!(node.call("trace_get", json!([hash, ["0x2"]])).is_null());
    assert!(node.call("trace_transaction", json!([word(0)])).is_null());
    let block = receipt["blockNumber"].clone();
    assert_eq!(node.call("trace_block", json!([block])), traces);
    let created = node.call("trace_block", json!(["0x1"]));
    assert_eq!((&created[0]["type"], &created[0]["result"]["address"]), (&json!("create"), &json!(forwards)));
    assert_eq!(created[0]["result"]["code"], format!("0x{FORWARDS}"));
    let filter = |more: Value| {
        let mut filter = json!({ "fromBlock": "0x0", "toBlock": "latest" });
        filter.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        node.call("trace_filter", json!([filter])).as_array().unwrap().clone()
    };
    assert_eq!(filter(json!({})).len(), 3);
    assert_eq!(filter(json!({ "toAddress": [to] })), [inner.clone()]);
    assert_eq!(filter(json!({ "fromAddress": [own(1)], "toAddress": [to] })).len(), 3);
    assert_eq!(filter(json!({ "fromAddress": [own(1)], "toAddress": [to], "mode": "intersection" })).len(), 0);
    assert_eq!(filter(json!({ "after": 1, "count": 1 })), [outer.clone()]);
    node.call("hardhat_mine", json!(["0x80"]));
    let wide = node.fails("trace_filter", json!([{ "fromBlock": "0x1", "toBlock": "latest" }]));
    assert_eq!(wide, (-32602, "Block range too large; currently limited to 100 blocks".into()));
    let back = node.fails("trace_filter", json!([{ "fromBlock": "latest", "toBlock": "0x1" }]));
    assert!(back.1.contains("fromBlock cannot be greater"), "{back:?}");
}

#[test]
fn state_diff_and_vm_trace_of_a_transaction() {
    let node = Node::new(BlockTime::Instant);
    let contract = node.deploy(1, 0, KEEPS);
    let receipt = run(&node, &contract, 1, 0, &word(9));
    let parts = json!(["trace", "stateDiff", "vmTrace"]);
    let replay = node.call("trace_replayTransaction", json!([receipt["transactionHash"], parts]));
    assert_eq!((&replay["output"], &replay["transactionHash"]), (&json!("0x"), &receipt["transactionHash"]));
    let slot = &replay["stateDiff"][&contract]["storage"][word(0)];
    assert_eq!(*slot, json!({ "*": { "from": word(0), "to": word(9) } }));
    assert_eq!(replay["stateDiff"][&contract]["balance"], "=");
    assert_eq!(replay["stateDiff"][own(1)]["nonce"], json!({ "*": { "from": "0x1", "to": "0x2" } }));
    let ops = replay["vmTrace"]["ops"].as_array().unwrap();
    let names: Vec<&str> = ops.iter().map(|op| op["op"].as_str().unwrap()).collect();
    assert_eq!(names, ["PUSH0", "CALLDATALOAD", "PUSH0", "SSTORE", "STOP"]);
    assert_eq!(
        (&ops[1]["ex"]["push"], &ops[3]["ex"]["store"]),
        (&json!(["0x9"]), &json!({ "key": "0x0", "val": "0x9" }))
    );
    assert_eq!(replay["vmTrace"]["code"], format!("0x{KEEPS}"));
    let block = node.call("trace_replayBlockTransactions", json!(["latest", ["trace"]]));
    assert_eq!(block.as_array().unwrap().len(), 1);
    assert!(block[0]["stateDiff"].is_null() && block[0]["vmTrace"].is_null());
    assert_eq!(block[0]["trace"].as_array().unwrap().len(), 1);
    assert_eq!(node.fails("trace_replayTransaction", json!([word(0), []])).1, "transaction not found");
    assert_eq!(node.fails("trace_replayTransaction", json!([word(0), ["other"]])).0, -32602);
}

#[test]
fn messages_build_on_each_other() {
    let node = Node::new(BlockTime::Instant);
    let contract = node.deploy(1, 0, KEEPS);
    let numbers = node.deploy(1, 1, NUMBERS);
    let reverts = node.deploy(1, 2, REVERTS);
    let loops = node.deploy(1, 3, LOOPS);
    let replay = node.call("trace_call", json!([{ "to": numbers }, ["trace"], "latest"]));
    assert_eq!((&replay["output"], &replay["trace"][0]["result"]["output"]), (&json!(word(4)), &json!(word(4))));
    let failed = node.call("trace_call", json!([{ "to": reverts, "data": "0x11" }, ["trace"]]));
    assert_eq!((&failed["output"], &failed["trace"][0]["error"]), (&json!("0x11"), &json!("Reverted")));
    let overrides = json!({ numbers.as_str(): { "code": "0x602a5f5260205ff3" } });
    let replay = node.call("trace_call", json!([{ "to": numbers }, ["trace"], "latest", overrides]));
    assert_eq!(replay["output"], word(42));
    let keep = |value: u64| json!([{ "to": contract, "data": word(value) }, ["stateDiff"]]);
    let many = node.call("trace_callMany", json!([[keep(5), keep(6)], "latest"]));
    let slot = |index: usize| many[index]["stateDiff"][&contract]["storage"][word(0)].clone();
    assert_eq!(slot(0)["*"], json!({ "from": word(0), "to": word(5) }));
    assert_eq!(slot(1)["*"], json!({ "from": word(5), "to": word(6) }));
    let raw = Plan::transfer(2, 0).raw();
    let replay = node.call("trace_rawTransaction", json!([raw, ["trace"]]));
    assert_eq!(replay["trace"][0]["action"]["value"], "0x1");
    assert_eq!(node.call("eth_getTransactionCount", json!([account(2), "latest"])), "0x0");
    let ended = node.call("trace_call", json!([{ "to": loops, "gas": "0x30d40" }, ["trace"]]));
    assert_eq!((&ended["trace"][0]["error"], &ended["trace"][0]["result"]), (&json!("Out of gas"), &json!(null)));
    let calls = vec![keep(1); 2_000];
    assert_eq!(node.fails("trace_callMany", json!([calls])), (-32602, "too many calls: 2000 > 1024".into()));
}

#[test]
fn steps_without_end_are_too_many() {
    let node = Node::limited(hearth_web3::Limits { answer_bytes: 200_000, ..Default::default() });
    let loops = node.deploy(1, 0, LOOPS);
    let why = node.fails("trace_call", json!([{ "to": loops }, ["vmTrace"]]));
    assert_eq!(why, (-32003, "response too large".into()));
}

#[test]
fn otterscan_finds_what_it_asks_for() {
    let node = Node::new(BlockTime::Instant);
    let forwards = node.deploy(1, 0, FORWARDS);
    let to = format!("{:?}", Address::repeat_byte(0x77));
    let receipt = run(&node, &forwards, 1, 5, &padded(&to));
    let hash = receipt["transactionHash"].clone();
    assert_eq!(node.call("ots_getApiLevel", json!([])), 8);
    assert_eq!(node.call("ots_hasCode", json!([forwards, "latest"])), true);
    assert_eq!(node.call("ots_hasCode", json!([to, "latest"])), false);
    let operations = node.call("ots_getInternalOperations", json!([hash]));
    assert_eq!(operations, json!([{ "type": 0, "from": forwards, "to": to, "value": "0x5" }]));
    let calls = node.call("ots_traceTransaction", json!([hash]));
    assert_eq!((&calls[1]["type"], &calls[1]["depth"], &calls[1]["to"]), (&json!("CALL"), &json!(1), &json!(to)));
    assert_eq!(node.call("ots_getTransactionError", json!([hash])), "0x");
    let details = node.call("ots_getBlockDetails", json!([receipt["blockNumber"]]));
    assert_eq!((&details["block"]["hash"], &details["block"]["transactionCount"]), (&receipt["blockHash"], &json!(1)));
    let paid = number(&receipt["gasUsed"]) * number(&receipt["effectiveGasPrice"]);
    assert_eq!(number(&details["totalFees"]), paid);
    assert_eq!(node.call("ots_getBlockDetailsByHash", json!([receipt["blockHash"]])), details);
    let page = node.call("ots_getBlockTransactions", json!([receipt["blockNumber"], 0, 5]));
    assert_eq!(page["fullblock"]["transactions"][0]["hash"], hash);
    assert_eq!(page["receipts"][0]["timestamp"], details["block"]["timestamp"]);
    let nobody = node.call("ots_getBlockTransactions", json!([receipt["blockNumber"], 1, 5]));
    assert_eq!(nobody["receipts"], json!([]));
    let creator = node.call("ots_getContractCreator", json!([forwards]));
    assert_eq!(creator["creator"], own(1));
    assert!(node.call("ots_getContractCreator", json!([to])).is_null());
    assert_eq!(node.call("ots_getTransactionBySenderAndNonce", json!([account(1), 1])), hash);
    assert!(node.call("ots_getTransactionBySenderAndNonce", json!([account(1), 9])).is_null());
    let before = node.call("ots_searchTransactionsBefore", json!([account(1), 0, 1]));
    assert_eq!((&before["txs"][0]["hash"], &before["firstPage"]), (&hash, &json!(true)));
    assert_eq!((before["txs"].as_array().unwrap().len(), &before["lastPage"]), (1, &json!(false)));
    let older = node.call("ots_searchTransactionsBefore", json!([account(1), 2, 5]));
    assert_eq!((&older["txs"][0]["hash"], &older["lastPage"]), (&creator["hash"], &json!(true)));
    let after = node.call("ots_searchTransactionsAfter", json!([account(1), 0, 5]));
    assert_eq!((&after["txs"][0]["hash"], &after["txs"][1]["hash"]), (&hash, &creator["hash"]));
    assert_eq!(after["receipts"].as_array().unwrap().len(), 2);
    let reverts = node.deploy(1, 2, REVERTS);
    let failed = run(&node, &reverts, 3, 0, "0x11");
    assert_eq!(node.call("ots_getTransactionError", json!([failed["transactionHash"]])), "0x11");
}
