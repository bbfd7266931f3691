//! Methods about the chain's rules, and methods that complete a transaction or a block without adding it.

use alloy_primitives::{Address, B256};
use hearth_evm::chain::BlockTime;
use hearth_evm::exec::SpecId;
use hearth_evm::genesis::Genesis;
use hearth_evm_utxo::genesis;
use serde_json::{Value, json};

use crate::node::{KEEPS, Node, Plan, account, word};

#[test]
fn config_and_capabilities_are_reported() {
    let node = Node::new(BlockTime::Manual);
    node.chain.mine().unwrap();
    let config = node.call("eth_config", json!([]));
    let current = &config["current"];
    assert_eq!((&current["activationTime"], &current["chainId"]), (&json!(0), &json!("0x7a69")));
    assert_eq!(current["forkId"].as_str().unwrap().len(), 10);
    assert_eq!(current["precompiles"]["P256VERIFY"], "0x0000000000000000000000000000000000000100");
    assert_eq!(current["precompiles"].as_object().unwrap().len(), 18);
    assert_eq!(current["systemContracts"]["HISTORY_STORAGE_ADDRESS"], "0x0000f90827f1c53a10cb7a02335b175320002935");
    assert_eq!(current["systemContracts"]["DEPOSIT_CONTRACT_ADDRESS"], "0x00000000219ab540356cbb839cbe05303d7705fa");
    assert_eq!((&config["next"], &config["last"]), (&json!(null), &json!(null)));
    let pending = node.call("eth_getBlockByNumber", json!(["pending", false]));
    assert_eq!(node.call("eth_baseFee", json!([])), pending["baseFeePerGas"]);
    let kept = node.call("eth_capabilities", json!([]));
    assert_eq!((&kept["head"]["number"], &kept["logs"]["oldestBlock"]), (&json!("0x1"), &json!("0x0")));
    assert_eq!(kept["state"]["deleteStrategy"], json!({ "type": "window", "retentionBlocks": "0x80" }));
}

#[test]
fn the_bounds_on_blobs_are_those_of_the_genesis() {
    let of_mainnet = json!({ "target": 6, "max": 9, "baseFeeUpdateFraction": 5_007_716 });
    let usual = Node::new(BlockTime::Manual).call("eth_config", json!([]));
    assert_eq!(usual["current"]["blobSchedule"], of_mainnet);
    let bounds = |max: u64| json!({ "target": 1, "max": max, "baseFeeUpdateFraction": 7_000_000 });
    let (osaka, later) = (bounds(2), bounds(3));
    let genesis = json!({
        "config": {
            "chainId": 7, "homesteadBlock": 0, "eip150Block": 0, "eip155Block": 0, "eip158Block": 0,
            "byzantiumBlock": 0, "constantinopleBlock": 0, "istanbulBlock": 0, "berlinBlock": 0, "londonBlock": 0,
            "terminalTotalDifficulty": 0, "shanghaiTime": 0, "cancunTime": 0, "pragueTime": 0, "osakaTime": 0,
            "bpo1Time": 4_000_000_000u64, "blobSchedule": { "osaka": osaka, "bpo1": later },
        },
        "alloc": {},
    });
    let read = Genesis::from_json(&genesis.to_string()).unwrap();
    let mut genesis = genesis::dev(7, &[], 500_000_000);
    genesis.forks = read.forks;
    genesis.blobs = read.blobs;
    let node = Node::of_genesis(genesis);
    let config = node.call("eth_config", json!([]));
    assert_eq!((&config["current"]["blobSchedule"], &config["next"]["blobSchedule"]), (&osaka, &later));
    assert_eq!((&config["next"]["activationTime"], &config["last"]), (&json!(4_000_000_000u64), &config["next"]));
    assert_ne!(config["current"]["forkId"], config["next"]["forkId"]);
    let without = genesis::dev(7, &[], 30_000_000).under(SpecId::SHANGHAI).unwrap();
    let config = Node::of_genesis(without).call("eth_config", json!([]));
    let none = json!({ "target": 0, "max": 0, "baseFeeUpdateFraction": 0 });
    assert_eq!(config["current"]["blobSchedule"], none, "the schema wants an object");
}

#[test]
fn storage_of_several_accounts_is_read_together() {
    let node = Node::new(BlockTime::Manual);
    let (one, two) = ("0x1111111111111111111111111111111111111111", "0x2222222222222222222222222222222222222222");
    node.call("anvil_setCode", json!([one, format!("0x{KEEPS}")]));
    node.call("anvil_setStorageAt", json!([one, word(3), word(4)]));
    let ask = |wanted: Value| node.ask("eth_getStorageValues", json!([wanted, "latest"]));
    let answer = ask(json!({ one: [word(3), word(5)], two: [word(3)] }));
    assert_eq!(answer["result"], json!({ one: [word(4), word(0)], two: [word(0)] }));
    let why = |wanted: Value| node.fails("eth_getStorageValues", json!([wanted]));
    assert_eq!(why(json!({})), (-32602, "empty request".into()));
    assert_eq!(why(json!({ one: [] })), (-32602, "empty request".into()));
    assert_eq!(why(json!({ one: vec![word(1); 1_025] })), (-32602, "too many slots (max 1024)".into()));
    assert_eq!(why(json!({ "0x12": [word(1)] })).0, -32602);
    let account = node.call("eth_getAccount", json!([one, "latest"]));
    let proof = node.call("eth_getProof", json!([one, [], "latest"]));
    assert_eq!((&account["storageRoot"], &account["codeHash"]), (&proof["storageHash"], &proof["codeHash"]));
    let info = node.call("eth_getAccountInfo", json!([one, "latest"]));
    assert_eq!(info["code"], format!("0x{KEEPS}"));
    assert_eq!(node.call("debug_codeByHash", json!([account["codeHash"]])), info["code"]);
    assert!(node.call("debug_codeByHash", json!([word(1)])).is_null());
}

#[test]
fn a_transaction_is_filled_and_not_sent() {
    let node = Node::new(BlockTime::Instant);
    let to = Address::repeat_byte(0x77);
    let filled = node.call("eth_fillTransaction", json!([{ "from": account(1), "to": to, "value": "0x1" }]));
    let tx = &filled["tx"];
    assert_eq!((&tx["gas"], &tx["nonce"], &tx["type"]), (&json!("0x5208"), &json!("0x0"), &json!("0x2")));
    assert_eq!((&tx["r"], &tx["s"], &tx["value"]), (&json!("0x0"), &json!("0x0"), &json!("0x1")));
    assert!(filled["raw"].as_str().unwrap().starts_with("0x02"));
    assert_eq!(node.call("txpool_status", json!([]))["pending"], "0x0");
    // A development chain accepts it even from an account without a key.
    let unsigned = json!([{ "from": account(7), "to": to, "value": "0x1" }]);
    assert_eq!(node.fails("eth_sendTransaction", unsigned.clone()).1, "unknown account");
    let hash = node.call("eth_sendUnsignedTransaction", unsigned);
    assert_eq!(node.receipt(&hash)["from"], format!("{:?}", account(7)));
    node.call("evm_setAccountNonce", json!([to, "0x5"]));
    assert_eq!(node.call("eth_getTransactionCount", json!([to, "latest"])), "0x5");
    let blocks = node.call("evm_mine_detailed", json!([{ "blocks": 2 }]));
    let head = node.call("eth_getBlockByNumber", json!(["latest", true]));
    assert_eq!((blocks.as_array().unwrap().len(), &blocks[1]), (2, &head));
    let header = node.call("erigon_getHeaderByNumber", json!(["latest"]));
    assert_eq!(header["hash"], head["hash"]);
}

#[test]
fn built_block_is_not_added() {
    let node = Node::new(BlockTime::Manual);
    let parent = node.chain.mine().unwrap();
    let time = parent.header.timestamp + 5;
    let attributes = |time: u64| {
        json!({ "timestamp": format!("{time:#x}"), "prevRandao": B256::ZERO, "withdrawals": [],
            "suggestedFeeRecipient": Address::repeat_byte(9), "parentBeaconBlockRoot": B256::ZERO })
    };
    let build = |txs: Value| json!([parent.hash, attributes(time), txs, "0x6869"]);
    let empty = node.call("testing_buildBlockV1", build(json!([])));
    let payload = &empty["executionPayload"];
    assert_eq!((&payload["blockNumber"], &payload["extraData"]), (&json!("0x2"), &json!("0x6869")));
    assert_eq!((&payload["parentHash"], &empty["blockValue"]), (&json!(parent.hash), &json!("0x0")));
    let raw = Plan::transfer(1, 0).raw();
    let built = node.call("testing_buildBlockV1", build(json!([raw])));
    assert_eq!(built["executionPayload"]["transactions"], json!([raw]));
    assert_eq!(built["executionPayload"]["gasUsed"], "0x5208");
    let tip = 21_000 * crate::node::GWEI;
    assert_eq!(built["blockValue"], format!("{tip:#x}"));
    let gapped = node.fails("testing_buildBlockV1", build(json!([Plan::transfer(1, 9).raw()])));
    assert!(gapped.0 == -32000 && gapped.1.starts_with("nonce too high: address"), "{gapped:?}");
    node.call("eth_sendRawTransaction", json!([raw]));
    assert_eq!(node.call("testing_buildBlockV1", build(json!(null))), built);
    let early = node.fails("testing_buildBlockV1", json!([parent.hash, attributes(1), [], "0x"]));
    assert!(early.1.starts_with("invalid timestamp"), "{early:?}");
    let unknown = node.fails("testing_buildBlockV1", json!([B256::ZERO, attributes(time), []]));
    assert!(unknown.1.starts_with("unknown parent block"), "{unknown:?}");
    assert_eq!(node.call("eth_blockNumber", json!([])), "0x1");
}
