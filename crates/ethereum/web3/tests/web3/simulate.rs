//! `eth_simulateV1`: blocks of calls that nobody makes.

use alloy_primitives::{Address, TxKind, U256};
use hearth_evm::builders::rich;
use hearth_evm::chain::BlockTime;
use hearth_evm::exec::SpecId;
use hearth_evm::genesis::{Forks, Genesis};
use hearth_web3::Limits;
use serde_json::{Value, json};

use crate::node::{CHAIN_ID, KEEPS, LOGS, LOOPS, NUMBERS, Node, Plan, REVERTS, account, number, word};

/// BASEFEE PUSH0 MSTORE PUSH1 32 PUSH0 RETURN
const BASE_FEE: &str = "0x485f5260205ff3";
/// Slot 0: PUSH0 SLOAD PUSH0 MSTORE PUSH1 32 PUSH0 RETURN
const LOADS: &str = "0x5f545f5260205ff3";
/// The hash of the block before: PUSH1 1 NUMBER SUB BLOCKHASH PUSH0 MSTORE PUSH1 32 PUSH0 RETURN
const HASH_BEFORE: &str = "0x60014303405f5260205ff3";

fn at(byte: u8) -> String {
    format!("{:?}", Address::repeat_byte(byte))
}

fn blocks(blocks: Value) -> Value {
    json!([{ "blockStateCalls": blocks }, "latest"])
}

fn simulate(node: &Node, blocks: Value) -> Vec<Value> {
    node.call("eth_simulateV1", self::blocks(blocks)).as_array().unwrap().clone()
}

#[test]
fn blocks_build_on_each_other() {
    let node = Node::new(BlockTime::Manual);
    node.chain.mine_many(3, None).unwrap();
    let head = node.call("eth_getBlockByNumber", json!(["latest", false]));
    let code = json!({ at(0x44): { "code": format!("0x{KEEPS}") }, at(0x55): { "code": format!("0x{NUMBERS}") } });
    let simulated = simulate(
        &node,
        json!([
            { "stateOverrides": code, "calls": [{ "to": at(0x44), "input": word(9) }, { "to": at(0x55) }] },
            { "blockOverrides": { "number": "0x6" }, "calls": [{ "to": at(0x55) }] },
            { "stateOverrides": { at(0x44): { "code": LOADS } }, "calls": [{ "to": at(0x44) }] },
        ]),
    );
    // A gap is filled.
    let numbers: Vec<u128> = simulated.iter().map(|block| number(&block["number"])).collect();
    assert_eq!(numbers, [4, 5, 6, 7]);
    assert_eq!(simulated[0]["parentHash"], head["hash"]);
    for pair in simulated.windows(2) {
        assert_eq!(pair[1]["parentHash"], pair[0]["hash"]);
        assert_eq!(number(&pair[1]["timestamp"]), number(&pair[0]["timestamp"]) + 12);
    }
    assert_eq!(simulated[0]["calls"][0]["status"], "0x1");
    assert_eq!(simulated[0]["calls"][1]["returnData"], word(4));
    assert_eq!(simulated[2]["calls"][0]["returnData"], word(6));
    assert_eq!(simulated[3]["calls"][0]["returnData"], word(9), "what a block has kept the later ones see");
    let used: u128 = simulated[0]["calls"].as_array().unwrap().iter().map(|call| number(&call["gasUsed"])).sum();
    assert_eq!(number(&simulated[0]["gasUsed"]), used);
    assert_eq!(simulated[0]["transactions"].as_array().unwrap().len(), 2);
    // Nothing of it is kept.
    assert_eq!(node.call("eth_blockNumber", json!([])), "0x3");
    assert_eq!(node.call("eth_getCode", json!([at(0x44), "latest"])), "0x");
}

#[test]
fn a_simulated_block_is_the_one_that_is_made() {
    let node = Node::new(BlockTime::Manual);
    let transfer = Plan::transfer(1, 0);
    let TxKind::Call(to) = transfer.to else { unreachable!("it is a call") };
    node.call("eth_sendRawTransaction", json!([transfer.raw()]));
    let made = node.chain.mine().unwrap();
    node.chain.mine().unwrap();
    let header = &made.header;
    let call = json!({ "from": account(1), "to": to, "value": "0x1", "gas": "0x5208", "nonce": "0x0",
        "maxFeePerGas": format!("{:#x}", 100 * crate::node::GWEI),
        "maxPriorityFeePerGas": format!("{:#x}", crate::node::GWEI) });
    let overrides = json!({ "time": format!("{:#x}", header.timestamp), "prevRandao": header.mix_hash,
        "feeRecipient": header.beneficiary, "beaconRoot": header.parent_beacon_block_root });
    let request = json!({ "blockStateCalls": [{ "blockOverrides": overrides, "calls": [call] }], "validation": true });
    // On the block before it, which is not the newest: state and receipts have the same roots.
    let simulated = node.call("eth_simulateV1", json!([request, "0x0"]));
    for (name, expected) in
        [("stateRoot", header.state_root), ("receiptsRoot", header.receipts_root), ("parentHash", header.parent_hash)]
    {
        assert_eq!(simulated[0][name], expected.to_string(), "{name}");
    }
    assert_eq!(simulated[0]["baseFeePerGas"], format!("{:#x}", made.base_fee()));
}

#[test]
fn transfers_and_logs_are_reported() {
    let node = Node::new(BlockTime::Instant);
    let logs = node.deploy(1, 0, LOGS);
    let calls = json!([
        { "from": account(2), "to": at(0x77), "value": "0x3e8" },
        { "from": account(2), "to": logs, "value": "0x1", "input": "0x0102" },
    ]);
    let request = |transfers: bool| {
        json!([{ "blockStateCalls": [{ "calls": calls }], "traceTransfers": transfers,
            "returnFullTransactions": true }])
    };
    let simulated = node.call("eth_simulateV1", request(true));
    let log = &simulated[0]["calls"][0]["logs"][0];
    assert_eq!(log["address"], at(0xee));
    assert_eq!(log["topics"][0], "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef");
    assert_eq!(log["data"], word(1_000));
    assert_eq!((&log["blockHash"], &log["logIndex"]), (&simulated[0]["hash"], &json!("0x0")));
    let second = simulated[0]["calls"][1]["logs"].as_array().unwrap();
    assert_eq!((second[0]["address"].clone(), &second[1]["address"]), (json!(at(0xee)), &json!(logs)));
    assert_eq!(second[1]["logIndex"], "0x2");
    let tx = &simulated[0]["transactions"][1];
    assert_eq!(
        (&tx["from"], &tx["nonce"], &tx["r"]),
        (&json!(format!("{:?}", account(2))), &json!("0x1"), &json!("0x0"))
    );
    assert_eq!(tx["hash"], second[1]["transactionHash"]);
    let simulated = node.call("eth_simulateV1", request(false));
    assert_eq!(simulated[0]["calls"][0]["logs"], json!([]));
    assert_eq!(simulated[0]["calls"][1]["logs"].as_array().unwrap().len(), 1);
}

#[test]
fn failed_calls_are_reported_and_invalid_ones_refuse_all() {
    let node = Node::new(BlockTime::Instant);
    let reverts = node.deploy(1, 0, REVERTS);
    let loops = node.deploy(1, 1, LOOPS);
    let simulated =
        simulate(&node, json!([{ "calls": [{ "to": reverts, "input": "0x11" }, { "to": loops, "gas": "0x186a0" }] }]));
    let call = |index: usize| &simulated[0]["calls"][index];
    assert_eq!(call(0)["error"], json!({ "message": "execution reverted", "code": 3, "data": "0x11" }));
    assert_eq!((&call(0)["status"], &call(0)["returnData"]), (&json!("0x0"), &json!("0x")));
    assert_eq!(call(1)["error"], json!({ "message": "out of gas", "code": -32015 }));
    let one = |call: Value, validation: bool| {
        let request = json!({ "blockStateCalls": [{ "calls": [call] }], "validation": validation });
        node.fails("eth_simulateV1", json!([request]))
    };
    let poor = json!({ "from": at(0x33), "to": at(0x44), "value": "0x1" });
    let why = one(poor, false);
    assert!(why.0 == -38_014 && why.1.starts_with("err: insufficient funds for gas * price + value"), "{why:?}");
    let fee = json!({ "from": account(3), "to": at(0x44), "maxFeePerGas": "0x174876e800" });
    for (nonce, code) in [("0x9", -38_011), ("0x0", -38_010)] {
        let mut call = fee.clone();
        call["from"] = json!(account(1));
        call["nonce"] = json!(nonce);
        assert_eq!(one(call, true).0, code, "{nonce}");
    }
    let unpriced = one(json!({ "from": account(3), "to": at(0x44) }), true);
    assert!(unpriced.0 == -38_012 && unpriced.1.contains("max fee per gas less than block base fee"), "{unpriced:?}");
    let overrides = json!({ account(3).to_string(): { "nonce": "0xffffffffffffffff" } });
    let calls = json!([{ "from": account(3), "to": at(0x44) }]);
    let simulated = simulate(&node, json!([{ "stateOverrides": overrides.clone(), "calls": [calls[0], calls[0]] }]));
    assert_eq!(
        (&simulated[0]["calls"][0]["status"], &simulated[0]["calls"][1]["status"]),
        (&json!("0x1"), &json!("0x1"))
    );
    let last = json!({ "blockStateCalls": [{ "stateOverrides": overrides, "calls": calls }], "validation": true });
    let why = node.fails("eth_simulateV1", json!([last]));
    assert!(why.0 == -32_603 && why.1.starts_with("err: nonce has max value"), "{why:?}");
    let gas = one(json!({ "from": account(3), "to": at(0x44), "gas": "0x1" }), false);
    assert_eq!(gas, (-38_013, "err: intrinsic gas too low: have 1, want 21000 (supplied gas 1)".into()));
    let full = one(json!({ "to": at(0x44), "gas": "0xffffffffff" }), false);
    assert!(full.0 == -38_015 && full.1.starts_with("block gas limit reached: 0 >= "), "{full:?}");
}

#[test]
fn contracts_see_what_is_overridden() {
    let node = Node::new(BlockTime::Manual);
    node.chain.mine().unwrap();
    let sha256 = "0x0000000000000000000000000000000000000002";
    let code = json!({ at(0x44): { "code": BASE_FEE }, at(0x55): { "code": HASH_BEFORE },
        sha256: { "movePrecompileToAddress": at(0x66) } });
    let hash = node.call("eth_call", json!([{ "to": sha256, "data": "0x1234" }]));
    let simulated = simulate(
        &node,
        json!([
            { "blockOverrides": { "baseFeePerGas": "0x2a" }, "stateOverrides": code,
              "calls": [{ "to": at(0x44) }, { "to": at(0x66), "input": "0x1234" }, { "to": sha256, "input": "0x12" }] },
            { "calls": [{ "to": at(0x55) }, { "to": sha256, "input": "0x1234" }] },
        ]),
    );
    assert_eq!(simulated[0]["baseFeePerGas"], "0x2a");
    let returned = |block: usize, call: usize| &simulated[block]["calls"][call]["returnData"];
    assert_eq!((returned(0, 0), returned(0, 1), returned(0, 2)), (&json!(word(42)), &hash, &json!("0x")));
    assert_eq!(returned(1, 0), &simulated[0]["hash"]);
    assert_eq!(returned(1, 1), &hash, "a precompile is moved for one block");
    let why = node.fails(
        "eth_simulateV1",
        blocks(json!([{ "stateOverrides": { at(0x44): { "movePrecompileToAddress": at(0x66) } } }])),
    );
    assert!(why.0 == -32_000 && why.1.ends_with("is not a precompile"), "{why:?}");
    let credited = json!([{ "blockOverrides": { "withdrawals": [
        { "index": "0x0", "validatorIndex": "0x0", "address": at(0x99), "amount": "0x1" }] } },
        { "calls": [{ "from": at(0x99), "to": at(0x98), "value": "0x3b9aca00" }] }]);
    assert_eq!(simulate(&node, credited)[1]["calls"][0]["status"], "0x1");
}

#[test]
fn excess_is_refused() {
    let node = Node::limited(Limits { answer_bytes: 300_000, ..Default::default() });
    let fails = |params: Value| node.fails("eth_simulateV1", params);
    assert_eq!(fails(json!([{}])), (-32_602, "empty input".into()));
    assert_eq!(fails(json!([])), (-32_602, "missing value for required argument 0".into()));
    let too_many = (-38_026, "too many blocks".to_owned());
    assert_eq!(fails(blocks(json!(vec![json!({}); 10_000]))), too_many);
    assert_eq!(fails(blocks(json!([{ "blockOverrides": { "number": "0xffffffffffffffff" } }]))), too_many);
    let calls = fails(blocks(json!([{ "calls": vec![json!({}); 6_000] }])));
    assert_eq!(calls, (-38_026, "too many calls: 6000 > 5000".into()));
    assert_eq!(fails(blocks(json!([{ "blockOverrides": { "nmber": "0x1" } }]))).0, -32_602);
    for wrong in [json!([{ "blockStateCalls": 5 }]), json!([[[[]]]]), json!([{ "blockStateCalls": [[]] }]), json!([1])]
    {
        assert_eq!(fails(wrong.clone()).0, -32_602, "{wrong}");
    }
    assert_eq!(fails(json!([{ "blockStateCalls": [{}] }, "0x63"])), (-32_000, "header not found".into()));
    assert!(fails(json!([{ "blockStateCalls": [{}] }, "pending"])).1.contains("pending"));
    // 200 empty blocks are longer than an answer may be here.
    assert_eq!(fails(blocks(json!(vec![json!({}); 200]))), (-32_003, "response too large".into()));
    // All that a call may use goes to the first that loops: for the second there is none.
    let loops = json!({ at(0x44): { "code": format!("0x{LOOPS}") } });
    let calls = json!([{ "stateOverrides": loops, "calls": [{ "to": at(0x44) }, { "to": at(0x44) }] }]);
    let why = fails(blocks(calls));
    assert_eq!(why, (-38_013, "err: intrinsic gas too low: have 0, want 21000 (supplied gas 0)".into()));
}

#[test]
fn calls_have_blobs() {
    let node = Node::new(BlockTime::Manual);
    let hash = |digits: &str| format!("0x01{}", digits.repeat(31));
    // PUSH1 1 BLOBHASH PUSH0 MSTORE PUSH1 32 PUSH0 RETURN
    let code = json!({ at(0x44): { "code": "0x6001495f5260205ff3" } });
    let hashes: Vec<String> = ["aa", "bb", "cc", "dd", "ee", "ff"].map(hash).into();
    // Nobody pays for gas or blobs, but who offers something can pay for it.
    let free = json!({ "to": at(0x44), "blobVersionedHashes": hashes });
    let paid = json!({ "from": account(1), "to": at(0x44), "blobVersionedHashes": hashes, "maxFeePerBlobGas": "0x1" });
    let simulated = simulate(&node, json!([{ "stateOverrides": code, "calls": [free, paid] }, {}]));
    for call in simulated[0]["calls"].as_array().unwrap() {
        assert_eq!((&call["status"], &call["returnData"]), (&json!("0x1"), &json!(hashes[1])), "{call}");
    }
    assert_eq!((&simulated[0]["blobGasUsed"], &simulated[0]["excessBlobGas"]), (&json!("0x180000"), &json!("0x0")));
    assert_eq!(simulated[1]["excessBlobGas"], "0xc0000", "12 blobs, and the target is 6");
    let poor = json!({ "from": at(0x99), "to": at(0x44), "blobVersionedHashes": hashes, "maxFeePerBlobGas": "0x1" });
    let why = node.fails("eth_simulateV1", blocks(json!([{ "calls": [poor] }])));
    assert_eq!(why.0, -38_014, "{why:?}");
}

#[test]
fn before_london_calls_are_of_type_0() {
    let (forks, difficulty) = (Forks::all_until(SpecId::BERLIN), U256::from(1 << 20));
    let node = Node::of_genesis(Genesis { forks, difficulty, ..Genesis::dev(CHAIN_ID, &rich(1..=1), 30_000_000) });
    let calls = json!([{ "from": account(1), "to": at(0x44), "value": "0x1" }]);
    let request = json!([{ "blockStateCalls": [{ "calls": calls }], "returnFullTransactions": true }, "latest"]);
    let simulated = node.call("eth_simulateV1", request);
    assert_eq!(simulated[0]["calls"][0]["status"], "0x1", "{simulated}");
    assert_eq!(simulated[0]["transactions"][0]["type"], "0x0");
    assert_eq!(simulated[0]["transactions"][0]["gasPrice"], "0x0");
}
