//! Traces of transactions and calls.

use alloy_primitives::{TxKind, hex};
use hearth_evm::chain::BlockTime;
use serde_json::{Value, json};

use crate::node::{KEEPS, LOGS, LOOPS, Node, Plan, REVERTS, account, word};

fn run(node: &Node, contract: &str, nonce: u64, input: &str) -> Value {
    let to = TxKind::Call(contract.parse().unwrap());
    node.run(&Plan { seed: 1, nonce, to, value: 0, gas: 100_000, input: hex::decode(input).unwrap().into() })
}

#[test]
fn steps_are_reported_as_they_were() {
    let node = Node::new(BlockTime::Instant);
    let contract = node.deploy(1, 0, KEEPS);
    let receipt = run(&node, &contract, 1, &word(9));
    let trace = node.call("debug_traceTransaction", json!([receipt["transactionHash"]]));
    let gas_used = crate::node::number(&receipt["gasUsed"]);
    assert_eq!((&trace["failed"], &trace["gas"]), (&json!(false), &json!(gas_used as u64)));
    let steps = trace["structLogs"].as_array().unwrap();
    let names: Vec<&str> = steps.iter().map(|step| step["op"].as_str().unwrap()).collect();
    assert_eq!(names, ["PUSH0", "CALLDATALOAD", "PUSH0", "SSTORE", "STOP"]);
    assert_eq!((&steps[3]["pc"], &steps[3]["depth"]), (&json!(3), &json!(1)));
    assert_eq!(steps[3]["stack"], json!(["0x9", "0x0"]));
    assert_eq!(steps[3]["storage"], json!({ word(0): word(9) }));
    assert_eq!(
        steps[3]["gas"].as_u64().unwrap() - steps[4]["gas"].as_u64().unwrap(),
        steps[3]["gasCost"].as_u64().unwrap()
    );
    let short = json!([receipt["transactionHash"], { "limit": 2, "disableStack": true, "enableMemory": true }]);
    let short = node.call("debug_traceTransaction", short);
    assert_eq!(short["structLogs"].as_array().unwrap().len(), 2);
    assert!(short["structLogs"][0].get("stack").is_none());
    assert!(short["structLogs"][0].get("memory").is_none(), "there is none yet");
    let logs = node.deploy(1, 2, LOGS);
    let receipt = run(&node, &logs, 3, &word(9));
    let traced = node.call("debug_traceTransaction", json!([receipt["transactionHash"], { "enableMemory": true }]));
    let last = traced["structLogs"].as_array().unwrap().last().unwrap();
    assert_eq!(last["memory"], json!([word(9)]));
}

#[test]
fn gas_is_reported_by_instruction() {
    let node = Node::new(BlockTime::Instant);
    let contract = node.deploy(1, 0, KEEPS);
    let receipt = run(&node, &contract, 1, &word(9));
    let traced = node.call("trace_transactionOpcodeGas", json!([receipt["transactionHash"]]));
    assert_eq!(traced["transactionHash"], receipt["transactionHash"]);
    let first = &traced["opcodeGas"][0];
    assert_eq!((&first["opcode"], &first["count"]), (&json!("SSTORE"), &json!(1)));
    let of = |name: &str| {
        let all = traced["opcodeGas"].as_array().unwrap();
        all.iter().find(|one| one["opcode"] == name).map(|one| (one["count"].clone(), one["gasUsed"].clone()))
    };
    assert_eq!(of("PUSH0"), Some((json!(2), json!(4))));
    assert_eq!(of("CALLDATALOAD"), Some((json!(1), json!(3))));
    let block = node.call("trace_blockOpcodeGas", json!([receipt["blockNumber"]]));
    assert_eq!((&block["blockHash"], &block["transactions"]), (&receipt["blockHash"], &json!([traced])));
    assert!(node.call("trace_transactionOpcodeGas", json!([word(1)])).is_null());
    assert_eq!(node.call("trace_blockOpcodeGas", json!(["0x0"]))["transactions"], json!([]));
}

#[test]
fn calls_state_and_selectors_of_a_transaction() {
    let node = Node::new(BlockTime::Instant);
    let contract = node.deploy(1, 0, KEEPS);
    let receipt = run(&node, &contract, 1, &word(9));
    let trace = |tracer: Value| node.call("debug_traceTransaction", json!([receipt["transactionHash"], tracer]));
    let call = trace(json!({ "tracer": "callTracer" }));
    assert_eq!((&call["type"], &call["to"], &call["gasUsed"]), (&json!("CALL"), &json!(contract), &receipt["gasUsed"]));
    assert_eq!((&call["input"], &call["gas"]), (&json!(word(9)), &json!("0x186a0")));
    let state = trace(json!({ "tracer": "prestateTracer" }));
    let own = format!("{:?}", account(1));
    assert_eq!(state[&own]["nonce"], 1);
    assert_eq!(state[&contract]["storage"], json!({ word(0): word(0) }));
    assert_eq!(state[&contract]["code"], format!("0x{KEEPS}"));
    let difference = trace(json!({ "tracer": "prestateTracer", "tracerConfig": { "diffMode": true } }));
    assert_eq!(difference["post"][&contract], json!({ "storage": { word(0): word(9) } }));
    assert_eq!((&difference["pre"][&own]["nonce"], &difference["post"][&own]["nonce"]), (&json!(1), &json!(2)));
    assert_eq!(trace(json!({ "tracer": "4byteTracer" })), json!({ "0x00000000-28": 1 }));
    assert_eq!(trace(json!({ "tracer": "noopTracer" })), json!({}));
    let script = json!([receipt["transactionHash"], { "tracer": "{ step: function() {} }" }]);
    assert!(node.fails("debug_traceTransaction", script).1.contains("is not served"));
}

#[test]
fn a_create_a_log_and_a_revert() {
    let node = Node::new(BlockTime::Instant);
    let contract = node.deploy(1, 0, LOGS);
    let block = node.call("debug_traceBlockByNumber", json!(["latest", { "tracer": "callTracer" }]));
    assert_eq!((&block[0]["result"]["type"], &block[0]["result"]["to"]), (&json!("CREATE"), &json!(contract)));
    let receipt = run(&node, &contract, 1, "0x0102");
    let with_log = json!({ "tracer": "callTracer", "tracerConfig": { "withLog": true } });
    let call = node.call("debug_traceTransaction", json!([receipt["transactionHash"], with_log]));
    assert_eq!(
        call["logs"][0],
        json!({ "address": contract, "topics": [word(1)], "data": "0x0102", "position": "0x0" })
    );
    let reverts = node.deploy(1, 2, REVERTS);
    let failed =
        node.call("debug_traceCall", json!([{ "to": reverts, "data": "0x11" }, "latest", { "tracer": "callTracer" }]));
    assert_eq!((&failed["error"], &failed["output"]), (&json!("execution reverted"), &json!("0x11")));
    let hash = node.call("eth_getBlockByNumber", json!(["latest", false]))["hash"].clone();
    assert_eq!(node.call("debug_traceBlockByHash", json!([hash])).as_array().unwrap().len(), 1);
    assert_eq!(node.fails("debug_traceBlockByNumber", json!(["0x0"])).1, "genesis is not traceable");
    assert_eq!(node.fails("debug_traceTransaction", json!([word(0)])).1, "transaction not found");
}

#[test]
fn transactions_of_a_block_build_on_each_other() {
    let node = Node::new(BlockTime::Manual);
    for nonce in 0..3 {
        node.call("eth_sendRawTransaction", json!([Plan::transfer(1, nonce).raw()]));
    }
    let block = node.chain.mine().unwrap();
    let options = json!({ "tracer": "prestateTracer" });
    let traces = node.call("debug_traceBlockByNumber", json!(["latest", options]));
    let own = format!("{:?}", account(1));
    for (index, tx) in block.txs.iter().enumerate() {
        assert_eq!(traces[index]["txHash"], tx.hash.to_string());
        assert_eq!(traces[index]["result"][&own]["nonce"].as_u64().unwrap_or_default(), index as u64);
        let alone = node.call("debug_traceTransaction", json!([tx.hash, options]));
        assert_eq!(alone, traces[index]["result"]);
    }
}

#[test]
fn a_trace_that_is_too_long_is_refused() {
    let node = Node::limited(hearth_web3::Limits { answer_bytes: 200_000, ..Default::default() });
    let contract = node.deploy(1, 0, LOOPS);
    assert_eq!(
        node.fails("debug_traceCall", json!([{ "to": contract }, "latest"])),
        (-32003, "response too large".into())
    );
}

#[test]
fn flat_calls_and_several_tracers() {
    let node = Node::new(BlockTime::Instant);
    let contract = node.deploy(1, 0, KEEPS);
    let receipt = run(&node, &contract, 1, &word(9));
    let hash = &receipt["transactionHash"];
    let trace = |tracer: Value| node.call("debug_traceTransaction", json!([hash, tracer]));
    let flat = trace(json!({ "tracer": "flatCallTracer" }));
    assert_eq!(flat.as_array().unwrap().len(), 1);
    assert_eq!((&flat[0]["type"], &flat[0]["action"]["callType"]), (&json!("call"), &json!("call")));
    assert_eq!((&flat[0]["action"]["to"], &flat[0]["action"]["gas"]), (&json!(contract), &json!("0x186a0")));
    assert_eq!((&flat[0]["result"]["gasUsed"], &flat[0]["transactionHash"]), (&receipt["gasUsed"], hash));
    assert_eq!((&flat[0]["subtraces"], &flat[0]["traceAddress"]), (&json!(0), &json!([])));
    let reverts = node.deploy(1, 2, REVERTS);
    let message = json!({ "to": reverts, "data": "0x11" });
    for (config, words) in [(json!({}), "execution reverted"), (json!({ "convertParityErrors": true }), "Reverted")] {
        let options = json!({ "tracer": "flatCallTracer", "tracerConfig": config });
        let flat = node.call("debug_traceCall", json!([message, "latest", options]));
        assert_eq!(flat[0]["error"], words);
    }
    let several = json!({ "4byteTracer": null, "callTracer": { "onlyTopCall": true }, "noopTracer": {} });
    let mux = trace(json!({ "tracer": "muxTracer", "tracerConfig": several }));
    assert_eq!(mux["callTracer"], trace(json!({ "tracer": "callTracer" })));
    assert_eq!((&mux["4byteTracer"], &mux["noopTracer"]), (&json!({ "0x00000000-28": 1 }), &json!({})));
    let fails = |config: Value| {
        let options = json!({ "tracer": "muxTracer", "tracerConfig": config });
        node.fails("debug_traceTransaction", json!([hash, options])).1
    };
    assert!(fails(json!({})).contains("needs the names"));
    assert!(fails(json!({ "muxTracer": { "muxTracer": {} } })).contains("cannot be nested"));
    assert!(fails(json!({ "otherTracer": {} })).contains("is not served"));
    let many: Value =
        (0..50).map(|number| (format!("{number}Tracer"), json!({}))).collect::<serde_json::Map<_, _>>().into();
    assert!(fails(many).contains("at most 8"));
}

#[test]
fn blocks_are_traced_by_their_bytes() {
    let node = Node::new(BlockTime::Instant);
    let contract = node.deploy(1, 0, KEEPS);
    run(&node, &contract, 1, &word(9));
    let raw = node.call("debug_getRawBlock", json!(["latest"]));
    let options = json!({ "tracer": "callTracer" });
    let by_number = node.call("debug_traceBlockByNumber", json!(["latest", options]));
    assert_eq!(node.call("debug_traceBlock", json!([raw, options])), by_number);
    assert!(node.fails("debug_traceBlock", json!(["0x05"])).1.starts_with("could not decode block"));
}

#[test]
fn pages_of_storage_and_accounts() {
    let node = Node::new(BlockTime::Manual);
    let contract = "0x4444444444444444444444444444444444444444";
    node.call("anvil_setCode", json!([contract, format!("0x{KEEPS}")]));
    for slot in 1..=4 {
        node.call("anvil_setStorageAt", json!([contract, word(slot), word(10 * slot)]));
    }
    let to = TxKind::Call(contract.parse().unwrap());
    for (nonce, value) in [(0, 7), (1, 0)] {
        let input = hex::decode(word(value)).unwrap().into();
        node.call("eth_sendRawTransaction", json!([Plan { seed: 1, nonce, to, value: 0, gas: 100_000, input }.raw()]));
    }
    node.chain.mine().unwrap();
    let page = |index: u64, start: &str, length: u64| {
        node.call("debug_storageRangeAt", json!(["latest", index, contract, start, length]))
    };
    // Before the first transaction slot 0 is empty, before the second it is not.
    assert_eq!(page(0, "0x", 100)["storage"].as_object().unwrap().len(), 4);
    let all = page(1, "0x", 100);
    assert_eq!((all["storage"].as_object().unwrap().len(), &all["nextKey"]), (5, &json!(null)));
    assert!(
        all["storage"].as_object().unwrap().values().any(|slot| slot["key"] == word(0) && slot["value"] == word(7))
    );
    let first = page(1, "0x", 2);
    let rest = page(1, first["nextKey"].as_str().unwrap(), 100);
    assert_eq!(first["storage"].as_object().unwrap().len(), 2);
    assert_eq!(rest["storage"].as_object().unwrap().len(), 3);
    let range = |no_code: bool, no_storage: bool| {
        node.call("debug_accountRange", json!(["latest", "0x", 256, no_code, no_storage, false]))
    };
    let accounts = range(false, false);
    let own = accounts["accounts"].as_object().unwrap().iter().find(|(_, account)| account["address"] == contract);
    let own = own.unwrap().1;
    assert_eq!((&own["code"], own["storage"].as_object().unwrap().len()), (&json!(format!("0x{KEEPS}")), 4));
    assert_eq!(own["storage"][word(2)], "14");
    let bare = range(true, true);
    assert!(bare["accounts"].as_object().unwrap().values().all(|account| account.get("storage").is_none()));
    let one = node.call("debug_accountRange", json!(["latest", "0x", 1]));
    assert_eq!((one["accounts"].as_object().unwrap().len(), one["next"].as_str().unwrap().len()), (1, 44));
    let why = node.fails("debug_storageRangeAt", json!(["latest", 9, contract, "0x", 1])).1;
    assert!(why.contains("transaction index 9 out of range"), "{why}");
}
