//! Where blocks are made as transactions come: what is answered when, and what contracts print.

use alloy_primitives::{Address, TxKind, U256, address, hex, keccak256};
use hearth_evm::chain::BlockTime;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::node::{DEADLINE, KEEPS, LOOPS, Node, Plan, REVERTS, account, creates, word};

/// Stores 1 in slot 0, whatever comes.
const STORES: &str = "60015f5500";
/// Calls Hardhat's console with its input.
const SPEAKS: &str = "365f5f375f5f365f73000000000000000000636f6e736f6c652e6c6f675afa00";
const DEPLOYER: Address = address!("4e59b44847b379578588920ca78fbf26c0b4956c");

fn request(id: usize, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

/// A node whose answers wait for blocks for as long as a busy machine may need.
fn patient() -> Node {
    Node::with(BlockTime::Instant, |config| config.limits.until_mined = DEADLINE)
}

#[test]
fn reads_after_a_send_see_it() {
    let node = patient();
    for nonce in 0..100 {
        let hash = node.call("eth_sendRawTransaction", json!([Plan::transfer(1, nonce).raw()]));
        assert_eq!(node.call("eth_getTransactionReceipt", json!([hash]))["status"], "0x1", "{nonce}");
        let counted = node.call("eth_getTransactionCount", json!([account(1), "latest"]));
        assert_eq!(counted, format!("{:#x}", nonce + 1));
    }
    // By an account of the node, and in one batch.
    for sent in 0..50 {
        let message = json!([{ "from": account(2), "to": account(3), "value": "0x1" }]);
        let hash = node.call("eth_sendTransaction", message);
        assert_eq!(node.call("eth_getTransactionReceipt", json!([hash]))["status"], "0x1", "{sent}");
        let raw = Plan::transfer(4, sent).raw();
        let nonce = json!([account(4), "latest"]);
        let batch =
            json!([request(1, "eth_sendRawTransaction", json!([raw])), request(2, "eth_getTransactionCount", nonce),]);
        assert_eq!(node.ask_value(&batch)[1]["result"], format!("{:#x}", sent + 1));
    }
}

/// With others under way a send is answered before its block, and what is asked after it waits.
#[test]
fn reads_see_sends_of_many_connections() {
    let node = patient();
    let load = |seed: u8| {
        let client = node.another();
        for round in 0..25 {
            let raw = |nonce| json!([Plan::transfer(seed, nonce).raw()]);
            let sends: Vec<Value> = (8 * round..8 * round + 8).map(raw).collect();
            let answers = client.batch("eth_sendRawTransaction", &sends);
            assert!(answers.iter().all(Value::is_string), "{answers:?}");
            let counted = client.call("eth_getTransactionCount", json!([account(seed), "latest"]));
            assert_eq!(counted, format!("{:#x}", 8 * round + 8));
        }
    };
    // What was just received can be spent, though its block may be under way.
    let spend = || {
        let client = node.another();
        for seed in 20..60 {
            let to = TxKind::Call(account(seed));
            let (nonce, value, input) = (u64::from(seed) - 20, 10u128.pow(18), Default::default());
            let funds = Plan { seed: 5, nonce, to, value, gas: 21_000, input };
            for raw in [funds.raw(), Plan::transfer(seed, 0).raw()] {
                let hash = client.call("eth_sendRawTransaction", json!([raw]));
                assert!(hash.is_string(), "{hash}");
            }
        }
    };
    std::thread::scope(|scope| {
        for seed in 1..=4 {
            let load = &load;
            scope.spawn(move || load(seed));
        }
        scope.spawn(spend);
    });
}

#[test]
fn sends_of_a_batch_share_a_block() {
    let node = Node::new(BlockTime::Instant);
    let batch: Vec<Value> = (0..50)
        .map(|nonce| request(nonce, "eth_sendRawTransaction", json!([Plan::transfer(1, nonce as u64).raw()])))
        .collect();
    let answers = node.ask_value(&json!(batch));
    assert!(answers.as_array().unwrap().iter().all(|answer| answer["result"].is_string()), "{answers}");
    assert_eq!(node.call("eth_getTransactionCount", json!([account(1), "latest"])), "0x32");
    assert_eq!(node.call("eth_blockNumber", json!([])), "0x1");
}

#[test]
fn a_send_that_has_to_wait_is_answered_at_once() {
    let node = Node::new(BlockTime::Instant);
    // Behind a gap; and below the base fee, which an account of the node may offer.
    let gapped = node.call("eth_sendRawTransaction", json!([Plan::transfer(1, 1).raw()]));
    let cheap = json!([{ "from": account(2), "to": account(3), "gas": "0x5208", "gasPrice": "0x1" }]);
    let cheap = node.call("eth_sendTransaction", cheap);
    for hash in [&gapped, &cheap] {
        assert!(node.call("eth_getTransactionReceipt", json!([hash])).is_null());
        assert_eq!(node.call("hearth_transactionFate", json!([hash]))["status"], "pending");
    }
    // The one that was missing brings the other along.
    node.call("eth_sendRawTransaction", json!([Plan::transfer(1, 0).raw()]));
    assert_eq!(node.receipt(&gapped)["status"], "0x1");
}

#[test]
fn waiting_transactions_enter_the_next_blocks() {
    let node = Node::new(BlockTime::Manual);
    let hash = node.call("eth_sendRawTransaction", json!([Plan::transfer(1, 0).raw()]));
    assert!(node.call("eth_getTransactionReceipt", json!([hash])).is_null());
    node.call("evm_setAutomine", json!([true]));
    assert_eq!(node.call("eth_getTransactionReceipt", json!([hash]))["status"], "0x1");
}

#[test]
fn impersonated_contract_sends() {
    let node = Node::new(BlockTime::Instant);
    let contract = Address::repeat_byte(0x43);
    for (method, params) in [
        ("hardhat_setBalance", json!([contract, "0x8ac7230489e80000"])),
        ("hardhat_setCode", json!([contract, format!("0x{STORES}")])),
        ("hardhat_impersonateAccount", json!([contract])),
    ] {
        node.call(method, params);
    }
    let hash = node.call("eth_sendTransaction", json!([{ "from": contract, "to": account(1), "value": "0x1" }]));
    assert_eq!(node.call("eth_getTransactionReceipt", json!([hash]))["status"], "0x1");
    assert_eq!(node.call("debug_traceTransaction", json!([hash]))["failed"], false);
    // An account of the node that was given code sends as before; what its key has signed is refused.
    node.call("hardhat_setCode", json!([account(1), format!("0x{STORES}")]));
    let hash = node.call("eth_sendTransaction", json!([{ "from": account(1), "to": account(2), "value": "0x1" }]));
    assert_eq!(node.call("eth_getTransactionReceipt", json!([hash]))["status"], "0x1");
    let refused = node.fails("eth_sendRawTransaction", json!([Plan::transfer(1, 1).raw()]));
    assert!(refused.1.starts_with("sender not an eoa"), "{refused:?}");
}

#[test]
fn create2_deployer_deploys() {
    let node = Node::new(BlockTime::Instant);
    let code = hex::decode(creates(STORES)).unwrap();
    let salt = keccak256("salt");
    let input = [&salt[..], &code].concat().into();
    let plan = Plan { seed: 1, nonce: 0, to: TxKind::Call(DEPLOYER), value: 0, gas: 200_000, input };
    assert_eq!(node.run(&plan)["status"], "0x1");
    let made = DEPLOYER.create2(salt, keccak256(&code));
    assert_eq!(node.call("eth_getCode", json!([made, "latest"])), format!("0x{STORES}"));
}

#[test]
fn intervals_are_in_the_units_of_whom_the_node_says_it_is() {
    let interval = |node: &Node| match node.chain.block_time() {
        BlockTime::Every(every) => every.as_millis(),
        other => panic!("{other:?}"),
    };
    let anvil = Node::with(BlockTime::Instant, |config| config.client_version = "anvil/hearth".into());
    let hardhat = Node::with(BlockTime::Instant, |config| config.client_version = "HardhatNetwork/hearth".into());
    for (method, of_anvil, of_hardhat) in [
        ("anvil_setIntervalMining", 3_600_000, 3_600_000),
        ("evm_setIntervalMining", 3_600_000, 3_600),
        ("hardhat_setIntervalMining", 3_600_000, 3_600),
    ] {
        for (node, ms) in [(&anvil, of_anvil), (&hardhat, of_hardhat)] {
            node.call(method, json!([3_600]));
            assert_eq!(interval(node), ms, "{method}");
            let read = method.replace("set", "get");
            assert_eq!(node.call(&read, json!([])), 3_600, "{read}");
        }
    }
}

#[test]
fn failures_are_errors_where_the_node_says_it_is_hardhats() {
    let node = Node::with(BlockTime::Instant, |config| config.client_version = "HardhatNetwork/hearth".into());
    let (reverts, loops) = (node.deploy(1, 0, REVERTS), node.deploy(1, 1, LOOPS));
    let mut reason = hex!("08c379a0").to_vec();
    reason.extend(U256::from(32).to_be_bytes::<32>());
    reason.extend(U256::from(6).to_be_bytes::<32>());
    reason.extend(b"no way");
    reason.resize(4 + 96, 0);
    let data = hex::encode_prefixed(&reason);
    let message = json!([{ "from": account(2), "to": reverts, "data": data, "gas": "0x20000" }]);
    let error = node.ask("eth_sendTransaction", message)["error"].clone();
    let words = "Error: VM Exception while processing transaction: reverted with reason string 'no way'";
    assert_eq!((&error["code"], &error["message"]), (&json!(-32603), &json!(words)));
    assert_eq!((&error["data"]["message"], &error["data"]["data"]), (&json!(words), &json!(data)));
    // It is in a block anyway.
    let receipt = node.call("eth_getTransactionReceipt", json!([error["data"]["txHash"]]));
    assert_eq!(receipt["status"], "0x0");
    let raw = |nonce, to: &str, input: &[u8]| {
        let to = TxKind::Call(to.parse().unwrap());
        Plan { seed: 1, nonce, to, value: 0, gas: 100_000, input: input.to_vec().into() }.raw()
    };
    let failed = node.fails("eth_sendRawTransaction", json!([raw(2, &reverts, &[])]));
    assert_eq!(failed, (-32603, "Error: Transaction reverted without a reason string".into()));
    let failed = node.fails("eth_sendRawTransaction", json!([raw(3, &loops, &[])]));
    assert_eq!(failed, (-32000, "Transaction ran out of gas".into()));
    node.run(&Plan::transfer(1, 4));
    // Others say so in the receipt alone.
    let node = Node::new(BlockTime::Instant);
    let reverts = node.deploy(1, 0, REVERTS);
    let hash = node.call("eth_sendRawTransaction", json!([raw(1, &reverts, &[])]));
    assert_eq!(node.call("eth_getTransactionReceipt", json!([hash]))["status"], "0x0");
}

#[test]
fn the_node_says_which_chain_it_is() {
    let node = Node::new(BlockTime::Instant);
    let metadata = node.call("hardhat_metadata", json!([]));
    let instance = metadata["instanceId"].as_str().unwrap().to_owned();
    assert_eq!(instance.len(), 2 + 64);
    assert_eq!((&metadata["chainId"], &metadata["latestBlockNumber"]), (&json!(31337), &json!(0)));
    assert!(metadata.get("forkedNetwork").is_none(), "Hardhat has none where it forks nothing");
    let snapshot = node.call("evm_snapshot", json!([]));
    let head = node.call("eth_getBlockByNumber", json!(["latest", false]))["hash"].clone();
    let metadata = node.call("anvil_metadata", json!([]));
    assert_eq!(metadata["instanceId"], instance.as_str());
    assert_eq!(metadata["forkedNetwork"], Value::Null);
    assert_eq!(metadata["snapshots"], json!({ snapshot.as_str().unwrap(): [0, head] }));
    node.call("hardhat_reset", json!([]));
    assert_ne!(node.call("hardhat_metadata", json!([]))["instanceId"], instance.as_str());
    let info = node.call("anvil_nodeInfo", json!([]));
    assert_eq!((&info["hardFork"], &info["currentBlockNumber"]), (&json!("Osaka"), &json!("0x0")));
    assert_eq!(info["currentBlockTimestamp"], 0, "a number, as anvil has it");
    let fork = json!({ "forkUrl": null, "forkBlockNumber": null, "forkRetryBackoff": null });
    assert_eq!(info["forkConfig"], fork);
}

static PRINTED: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn print(text: &str) {
    PRINTED.lock().push(text.to_owned());
}

/// Waits for the next text.
fn printed() -> String {
    hearth_testkit::wait_for("a printed text", || {
        let mut texts = PRINTED.lock();
        if texts.is_empty() { Err("nothing is printed".into()) } else { Ok(texts.remove(0)) }
    })
}

#[test]
fn console_logs_are_printed() {
    let node = Node::with(BlockTime::Instant, |config| config.console = Some(print));
    let (speaks, keeps) = (node.deploy(1, 0, SPEAKS), node.deploy(1, 1, KEEPS));
    let input = format!("0x{}{}", hex::encode(&keccak256("log(uint256)")[..4]), &word(42)[2..]);
    let message = json!({ "from": account(2), "to": speaks, "data": input });
    node.call("eth_call", json!([message, "latest"]));
    assert_eq!(printed(), "console.log of eth_call:\n    42");
    // An estimate that succeeds prints nothing, its transaction once.
    let hash = node.call("eth_sendTransaction", json!([message]));
    assert_eq!(printed(), format!("console.log of transaction {}:\n    42", hash.as_str().unwrap()));
    // Others print nothing.
    node.call("eth_sendTransaction", json!([{ "from": account(2), "to": keeps, "data": word(1) }]));
    let hash = node.call("eth_sendTransaction", json!([message]));
    assert_eq!(printed(), format!("console.log of transaction {}:\n    42", hash.as_str().unwrap()));
    assert!(PRINTED.lock().is_empty());
}
