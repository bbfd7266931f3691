//! Messages that are executed and forgotten.

use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::time::Duration;

use alloy_primitives::{Address, hex};
use hearth_evm::chain::BlockTime;
use hearth_testkit::wait_until;
use hearth_web3::Limits;
use serde_json::{Value, json};

use crate::node::{DEADLINE, KEEPS, LOOPS, NUMBERS, Node, Plan, REVERTS, account, connect, creates, number, word};

/// The data of an `Error(string)`.
fn error_data(reason: &str) -> String {
    let text = hex::encode(reason);
    let padded = format!("{text:0<64}");
    format!("0x08c379a0{:064x}{:064x}{padded}", 32, reason.len())
}

#[test]
fn a_revert_carries_reason_and_data() {
    let node = Node::new(BlockTime::Instant);
    let contract = node.deploy(1, 0, REVERTS);
    let data = error_data("too little");
    for method in ["eth_call", "eth_estimateGas"] {
        let answer = node.ask(method, json!([{ "to": contract, "data": data }]));
        let expected = json!({ "code": 3, "message": "execution reverted: too little", "data": data });
        assert_eq!(answer["error"], expected, "{method}");
    }
    let plain = node.ask("eth_call", json!([{ "to": contract, "input": "0x" }, "latest"]));
    assert_eq!(plain["error"], json!({ "code": 3, "message": "execution reverted", "data": "0x" }));
}

#[test]
fn calls_see_overrides_of_state_and_block() {
    let node = Node::new(BlockTime::Manual);
    node.chain.mine_many(3, None).unwrap();
    let to = Address::repeat_byte(0x44);
    let numbers = json!({ to.to_string(): { "code": format!("0x{NUMBERS}") } });
    let call = |block: &str, more: Value| node.call("eth_call", json!([{ "to": to }, block, numbers, more]));
    assert_eq!(call("latest", json!(null)), word(3));
    assert_eq!(call("pending", json!(null)), word(4));
    assert_eq!(call("0x1", json!({})), word(1));
    assert_eq!(call("latest", json!({ "number": "0x64" })), word(100));
    // PUSH0 SLOAD PUSH0 MSTORE PUSH1 32 PUSH0 RETURN
    let code = "0x5f545f5260205ff3";
    for (account, expected) in [
        (json!({ "code": code, "state": { word(0): word(5) } }), 5),
        (json!({ "code": code, "stateDiff": { "0x0": word(6) } }), 6),
        (json!({ "code": code, "stateDiff": { word(1): word(6) } }), 0),
    ] {
        assert_eq!(node.call("eth_call", json!([{ "to": to }, "latest", { to.to_string(): account }])), word(expected));
    }
    let both = json!({ to.to_string(): { "state": {}, "stateDiff": {} } });
    assert!(
        node.fails("eth_call", json!([{ "to": to }, "latest", both])).1.contains("has both 'state' and 'stateDiff'")
    );
    // Nobody has that much, until the override says so.
    let rich = json!([{ "from": account(9), "to": to, "value": "0x64" }, "latest"]);
    assert!(node.fails("eth_call", rich.clone()).1.contains("insufficient funds"));
    let balance = json!({ account(9).to_string(): { "balance": "0x64" } });
    assert_eq!(node.call("eth_call", json!([rich[0], "latest", balance])), "0x");
}

/// PUSH1 42 PUSH0 MSTORE PUSH1 32 PUSH0 RETURN
const RETURNS_42: &str = "0x602a5f5260205ff3";
/// BLOBBASEFEE PUSH0 MSTORE PUSH1 32 PUSH0 RETURN
const BLOB_BASE_FEE: &str = "0x4a5f5260205ff3";

fn precompile(number: u64) -> String {
    Address::from_word(alloy_primitives::U256::from(number).into()).to_string()
}

#[test]
fn overridden_code_runs_in_place_of_a_precompile() {
    let node = Node::new(BlockTime::Manual);
    let (sha256, identity, elsewhere) = (precompile(2), precompile(4), Address::repeat_byte(0x66).to_string());
    let call = |to: &str, overrides: Value| {
        node.call("eth_call", json!([{ "to": to, "data": "0x1234" }, "latest", overrides]))
    };
    let hash = call(&sha256, json!(null));
    assert_eq!(call(&sha256, json!({ &sha256: { "code": RETURNS_42 } })), word(42));
    assert_eq!(call(&identity, json!({ &sha256: { "code": RETURNS_42 } })), "0x1234");
    let moved = json!({ &sha256: { "code": RETURNS_42, "movePrecompileToAddress": elsewhere } });
    assert_eq!(call(&sha256, moved.clone()), word(42));
    assert_eq!(call(&elsewhere, moved.clone()), hash);
    assert_eq!(call(&elsewhere, json!(null)), "0x");
    // The estimate and the tracer see the same.
    let message = json!({ "to": sha256, "data": "0x1234" });
    let config = json!({ "tracer": "callTracer", "stateOverrides": moved });
    assert_eq!(node.call("debug_traceCall", json!([message, "latest", config]))["output"], word(42));
    let reverts = json!({ &sha256: { "code": "0x5f5ffd" } });
    assert_eq!(node.fails("eth_estimateGas", json!([message, "latest", reverts])).1, "execution reverted");
    let list = node.call("eth_createAccessList", json!([message, "latest", reverts]));
    assert_eq!(list["error"], "execution reverted");
}

#[test]
fn precompiles_move_by_geths_rules() {
    let node = Node::new(BlockTime::Manual);
    let (sha256, identity, other) = (precompile(2), precompile(4), Address::repeat_byte(0x66).to_string());
    let to = |to: &str| json!({ "movePrecompileToAddress": to });
    let why = |overrides: Value| node.fails("eth_call", json!([{ "to": other }, "latest", overrides]));
    let why_not = |account: &str, why: &str| (-32000, format!("account {account} {why}"));
    assert_eq!(why(json!({ &other: to(&sha256) })), why_not(&other, "is not a precompile"));
    assert_eq!(why(json!({ &sha256: to(&sha256) })), why_not(&sha256, "is already overridden"));
    let twice = json!({ &sha256: to(&other), &identity: to(&other) });
    // Geth takes either; here it is that of the greater address.
    assert_eq!(node.call("eth_call", json!([{ "to": other, "input": "0x11" }, "latest", twice])), "0x11");
}

#[test]
fn block_overrides_work_or_are_refused_by_name() {
    let node = Node::new(BlockTime::Manual);
    let to = Address::repeat_byte(0x44);
    let state = json!({ to.to_string(): { "code": BLOB_BASE_FEE } });
    let params = |block: Value| json!([{ "to": to }, "latest", state, block]);
    assert_eq!(node.call("eth_call", params(json!(null))), word(1));
    assert_eq!(node.call("eth_call", params(json!({ "blobBaseFee": "0x2a" }))), word(42));
    let config = |block: Value| json!([{ "to": to }, "latest", { "stateOverrides": state, "blockOverrides": block }]);
    let trace = node.call("debug_traceCall", config(json!({ "blobBaseFee": "0x2a" })));
    assert_eq!(trace["returnValue"], word(42));
    for method in ["eth_call", "eth_estimateGas"] {
        let (code, why) = node.fails(method, params(json!({ "blobBasefee": "0x2a" })));
        assert_eq!(code, -32602, "{method}");
        assert!(why.contains("unknown field `blobBasefee`"), "{method}: {why}");
        let beacon_root = node.fails(method, params(json!({ "beaconRoot": word(1) })));
        let expected = "block override \"beaconRoot\" is not supported for this RPC method";
        assert_eq!(beacon_root, (-32000, expected.into()), "{method}");
    }
    let (code, why) = node.fails("debug_traceCall", config(json!({ "blobBasefee": "0x2a" })));
    assert_eq!(code, -32602);
    assert!(why.contains("unknown field `blobBasefee`"), "{why}");
}

#[test]
fn an_estimate_is_enough_and_little_more() {
    let node = Node::new(BlockTime::Instant);
    let transfer = json!([{ "from": account(1), "to": account(2), "value": "0x1" }]);
    assert_eq!(node.call("eth_estimateGas", transfer), "0x5208");
    let contract = node.deploy(1, 0, KEEPS);
    let set = |value: u64| json!([{ "from": account(1), "to": contract, "data": word(value) }]);
    let gas = number(&node.call("eth_estimateGas", set(9))) as u64;
    let run = |nonce, value, gas| {
        let input = hex::decode(word(value)).unwrap().into();
        let to = alloy_primitives::TxKind::Call(contract.parse().unwrap());
        node.run(&Plan { seed: 1, nonce, to, value: 0, gas, input })
    };
    let receipt = run(1, 9, gas);
    assert_eq!(receipt["status"], "0x1");
    assert!(u128::from(gas) <= number(&receipt["gasUsed"]) * 105 / 100, "{gas} {receipt}");
    // What clears a slot gets a refund at the end, and needs the gas before.
    let gas = number(&node.call("eth_estimateGas", set(0))) as u64;
    let receipt = run(2, 0, gas);
    assert_eq!(receipt["status"], "0x1");
    assert!(u128::from(gas) > number(&receipt["gasUsed"]), "{gas} {receipt}");
    let short = json!([{ "from": account(1), "to": contract, "data": word(9), "gas": "0x5300" }]);
    assert_eq!(node.fails("eth_estimateGas", short), (-32000, "gas required exceeds allowance (21248)".into()));
    let poor = json!([{ "from": account(9), "to": contract, "value": "0x1", "gasPrice": "0x1" }]);
    assert_eq!(node.fails("eth_estimateGas", poor).1, "insufficient funds for transfer");
}

#[test]
fn access_lists_name_what_is_touched() {
    let node = Node::new(BlockTime::Instant);
    let contract = node.deploy(1, 0, KEEPS);
    let list = node.call("eth_createAccessList", json!([{ "from": account(1), "to": contract, "data": word(9) }]));
    assert_eq!(list["accessList"], json!([{ "address": contract, "storageKeys": [word(0)] }]));
    assert!(number(&list["gasUsed"]) > 21_000);
    assert!(list.get("error").is_none());
}

#[test]
fn call_bombs_end() {
    let limits = Limits { call_gas: 1_000_000, heavy_time: DEADLINE, ..Default::default() };
    let node = Node::limited(limits);
    let contract = node.deploy(1, 0, LOOPS);
    let bomb = json!([{ "to": contract, "gas": "0xffffffffffffffff" }]);
    assert_eq!(node.fails("eth_call", bomb), (-32000, "out of gas".into()));
    assert!(node.fails("eth_estimateGas", json!([{ "to": contract }])).1.starts_with("gas required exceeds allowance"));
}

#[test]
fn a_call_that_takes_too_long_ends() {
    let limits = Limits { call_gas: 1 << 40, heavy_time: Duration::from_millis(100), ..Default::default() };
    let node = Node::limited(limits);
    let contract = node.deploy(1, 0, LOOPS);
    let why = node.fails("eth_call", json!([{ "to": contract }]));
    assert_eq!(why, (-32000, "execution aborted (timeout = 0.1s)".into()));
    // It has made room.
    assert_eq!(node.call("eth_chainId", json!([])), "0x7a69");
}

/// Takes all places by calls that do not end before `long` is over. Returns whether sends are answered before that.
fn sends_are_answered_while_calls_run(long: Duration) -> bool {
    let limits = Limits { call_gas: 1 << 50, heavy_time: long, heavy_at_once: 2, ..Default::default() };
    let node = Node::limited(limits);
    let contract = node.deploy(1, 0, LOOPS);
    let request =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_call", "params": [{ "to": contract }] }).to_string();
    let streams: Vec<_> = (0..4).map(|_| connect(&node.server)).collect();
    let read = || node.server.counters().all().into_iter().find(|(name, ..)| *name == "requests").unwrap().2;
    let before = read();
    for mut stream in &streams {
        let head = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
        write!(stream, "{head}Content-Length: {}\r\n\r\n{request}", request.len()).unwrap();
    }
    wait_until("the calls are read", || read() >= before + streams.len() as u64);
    for nonce in 1..=5 {
        assert_eq!(node.run(&Plan::transfer(1, nonce))["status"], "0x1");
    }
    let is_unanswered = |stream: &TcpStream| {
        stream.set_nonblocking(true).unwrap();
        stream.peek(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    };
    streams.iter().all(is_unanswered)
}

#[test]
fn sends_do_not_wait_for_calls() {
    // Longer calls, where other programs have the cores. A send that waits for a call is behind one of any length.
    let is_so = |seconds: &u64| sends_are_answered_while_calls_run(Duration::from_secs(*seconds));
    assert!([3, 12, 48].iter().any(is_so), "no send is answered before the calls are");
}

#[test]
fn messages_that_contradict_themselves_are_refused() {
    let node = Node::new(BlockTime::Manual);
    let to = Address::ZERO;
    for (message, expected) in [
        (json!({ "to": to, "data": "0x01", "input": "0x02" }), "both \"data\" and \"input\" are set and not equal"),
        (json!({ "to": to, "gasPrice": "0x1", "maxFeePerGas": "0x1" }), "both gasPrice and (maxFeePerGas"),
        (
            json!({ "to": to, "maxFeePerGas": "0x1", "maxPriorityFeePerGas": "0x2" }),
            "maxFeePerGas (1) < maxPriorityFee",
        ),
        (json!({ "to": to, "chainId": "0x1" }), "chainId does not match node's (have=1, want=31337)"),
        (json!({ "to": to, "blobVersionedHashes": [] }), "need at least 1 blob for a blob transaction"),
        (json!({ "blobVersionedHashes": [word(1)] }), "missing \"to\" in blob transaction"),
        (json!({ "to": to, "blobs": ["0x00"] }), "blobs need their blobVersionedHashes"),
        (json!({ "to": to, "blobVersionedHashes": [word(1)] }), "blob version not supported"),
        (json!({ "to": "0x12" }), "hex string has length 2, want 40 for common.Address"),
        (json!({ "to": to, "value": "1" }), "hex string without 0x prefix"),
        (json!({ "to": to, "data": "0x123" }), "hex string of odd length"),
    ] {
        let why = node.fails("eth_call", json!([message])).1;
        assert!(why.contains(expected), "{message}: {why}");
    }
}

#[test]
fn call_with_a_price_must_cover_the_base_fee() {
    let node = Node::new(BlockTime::Manual);
    for method in ["eth_call", "eth_estimateGas", "eth_createAccessList"] {
        let ask = |price: &str, wei: &str| json!([{ "from": account(1), "to": account(2), price: wei }]);
        for price in ["gasPrice", "maxFeePerGas"] {
            let (code, why) = node.fails(method, ask(price, "0x1"));
            let expected = "max fee per gas less than block base fee: address 0x";
            assert!(code == -32000 && why.contains(expected) && why.contains("maxFeePerGas: 1, baseFee: "), "{why}");
            node.call(method, ask(price, "0x174876e800"));
            // No price is none that is too low.
            node.call(method, ask(price, "0x0"));
        }
    }
}

#[test]
fn a_contract_that_is_being_created_is_no_part_of_the_list() {
    let node = Node::new(BlockTime::Instant);
    node.deploy(1, 0, KEEPS);
    let create = json!({ "from": account(1), "data": format!("0x{}", creates(KEEPS)) });
    assert_eq!(node.call("eth_createAccessList", json!([create]))["accessList"], json!([]));
}
