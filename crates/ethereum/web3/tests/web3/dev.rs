//! What developers do to their chain.

use alloy_primitives::{Address, hex};
use hearth_evm::chain::BlockTime;
use serde_json::json;

use crate::node::{LOGS, NUMBERS, Node, Plan, account, number, word};

#[test]
fn going_back_makes_undone() {
    let node = Node::new(BlockTime::Instant);
    assert_eq!(node.call("evm_revert", json!(["0x1"])), false, "nobody has taken one");
    let snapshot = node.call("evm_snapshot", json!([]));
    let first = node.run(&Plan::transfer(1, 0));
    assert_eq!(node.call("evm_revert", json!([snapshot])), true);
    assert_eq!(node.call("eth_blockNumber", json!([])), "0x0");
    assert!(node.call("eth_getTransactionReceipt", json!([first["transactionHash"]])).is_null());
    assert_eq!(node.call("eth_getTransactionCount", json!([account(1), "latest"])), "0x0");
    assert_eq!(node.call("evm_revert", json!([snapshot])), false);
    node.run(&Plan::transfer(1, 0));
    assert_eq!(node.call("hardhat_reset", json!([])), true);
    assert_eq!(node.call("eth_blockNumber", json!([])), "0x0");
    assert_eq!(node.call("anvil_reset", json!([])), json!(null));
    node.run(&Plan::transfer(1, 0));
    let nothing = json!([{ "forking": { "blockNumber": null } }]);
    assert_eq!(node.call("anvil_reset", nothing), json!(null), "viem without a fork");
    assert_eq!(node.call("eth_blockNumber", json!([])), "0x0");
    for fork in [json!({ "jsonRpcUrl": "http://127.0.0.1:1" }), json!({ "blockNumber": 5 }), json!("another")] {
        let (_, why) = node.fails("anvil_reset", json!([{ "forking": fork }]));
        assert!(why.contains("not a fork of another"), "{fork}: {why}");
    }
}

#[test]
fn unknown_names_come_before_their_parameters() {
    let node = Node::new(BlockTime::Manual);
    assert_eq!(node.fails("anvil_reorg", json!([1, []])).0, -32601);
    assert_eq!(node.fails("anvil_setCoinbase", json!([account(1), 2])).0, -32602);
}

#[test]
fn hardhat_says_whether_it_dropped() {
    let node = Node::new(BlockTime::Manual);
    let send = |from| node.call("eth_sendRawTransaction", json!([Plan::transfer(from, 0).raw()]));
    let dropped = send(1);
    assert_eq!(node.call("hardhat_dropTransaction", json!([dropped])), true);
    assert_eq!(node.call("hardhat_dropTransaction", json!([dropped])), false);
    assert_eq!(node.call("anvil_dropTransaction", json!([dropped])), json!(null));
    let mined = send(2);
    node.call("evm_mine", json!([]));
    assert!(node.fails("hardhat_dropTransaction", json!([mined])).1.ends_with("it's already mined"));
    assert_eq!(node.call("anvil_dropTransaction", json!([mined])), json!(null));
}

#[test]
fn accounts_become_what_is_asked_for() {
    let node = Node::new(BlockTime::Manual);
    let who = Address::repeat_byte(0x66);
    for (method, params) in [
        ("hardhat_setBalance", json!([who, "0x64"])),
        ("anvil_setNonce", json!([who, "0x5"])),
        ("hardhat_setCode", json!([who, "0x6001"])),
        ("hardhat_setStorageAt", json!([who, "0x2", word(3)])),
        ("anvil_addBalance", json!([who, "0x1"])),
    ] {
        node.call(method, params);
    }
    assert_eq!(node.call("eth_getBalance", json!([who, "latest"])), "0x65");
    assert_eq!(node.call("eth_getTransactionCount", json!([who, "latest"])), "0x5");
    assert_eq!(node.call("eth_getCode", json!([who, "latest"])), "0x6001");
    assert_eq!(node.call("eth_getStorageAt", json!([who, "0x2", "latest"])), word(3));
}

#[test]
fn the_newest_blocks_are_taken_back() {
    let node = Node::new(BlockTime::Instant);
    let early = node.call("evm_snapshot", json!([]));
    node.run(&Plan::transfer(1, 0));
    let late = node.call("evm_snapshot", json!([]));
    for nonce in 1..4 {
        node.run(&Plan::transfer(1, nonce));
    }
    assert_eq!(node.call("anvil_rollback", json!([])), json!(null));
    assert_eq!(node.call("eth_blockNumber", json!([])), "0x3");
    assert_eq!(node.call("anvil_rollback", json!([3])), json!(null));
    assert_eq!(node.call("eth_blockNumber", json!([])), "0x0");
    assert_eq!(node.call("eth_getTransactionCount", json!([account(1), "latest"])), "0x0");
    let (code, why) = node.fails("anvil_rollback", json!([1]));
    assert!(code == -32602 && why.contains("current height 0, depth 1"), "{why}");
    assert_eq!(node.call("evm_revert", json!([late])), false, "it was of a block that is no more");
    node.run(&Plan::transfer(1, 0));
    assert_eq!(node.call("evm_revert", json!([early])), true);
}

#[test]
fn tokens_are_dealt_where_their_contract_keeps_them() {
    let node = Node::new(BlockTime::Instant);
    // Returns the slot with that number of the account in the first argument.
    let token = node.deploy(1, 0, "600435545f5260205ff3");
    let [owner, spender] = [0x66, 0x77].map(Address::repeat_byte);
    let of_owner = |selector: &str| {
        let data = format!("{selector}{}", hex::encode(owner.into_word()));
        number(&node.call("eth_call", json!([{ "to": token, "input": data }, "latest"])))
    };
    assert_eq!(node.call("anvil_dealERC20", json!([owner, token, "0x64"])), json!(null));
    assert_eq!(of_owner("0x70a08231"), 0x64);
    assert_eq!(node.call("hardhat_dealERC20", json!([owner, token, "0x65"])), true);
    assert_eq!(of_owner("0x70a08231"), 0x65);
    assert_eq!(node.call("anvil_setERC20Allowance", json!([owner, spender, token, "0x7"])), json!(null));
    assert_eq!(of_owner("0xdd62ed3e"), 7);
    let none = node.deploy(1, 1, NUMBERS);
    assert!(node.fails("anvil_setERC20Balance", json!([owner, none, "0x1"])).1.starts_with("no slot of 0x"));
}

#[test]
fn more_of_anvils_names_are_known() {
    let node = Node::new(BlockTime::Manual);
    assert_eq!(node.call("eth_networkId", json!([])), node.call("net_version", json!([])));
    assert_eq!(node.call("eth_requestAccounts", json!([])), node.call("eth_accounts", json!([])));
    let hash = node.call("eth_sendRawTransaction", json!([Plan::transfer(1, 0).raw()]));
    assert_eq!(node.call("eth_pendingTransactions", json!([]))[0]["hash"], hash);
    let sent = || node.call("eth_getTransactionBySenderAndNonce", json!([account(1), "0x0"]));
    assert!(sent()["hash"] == hash && sent()["blockNumber"].is_null());
    node.call("evm_mine", json!([]));
    assert!(sent()["hash"] == hash && sent()["blockNumber"] == "0x1");
    assert_eq!(node.call("debug_getRawTransactions", json!(["0x1"])), json!([Plan::transfer(1, 0).raw()]));
    node.call("eth_sendRawTransaction", json!([Plan::transfer(1, 1).raw()]));
    assert_eq!(node.call("debug_clearTxpool", json!([])), json!(null));
    assert_eq!(node.call("eth_pendingTransactions", json!([])), json!([]));
    node.call("tenderly_setBalance", json!([account(9), "0x5"]));
    node.call("tenderly_addBalance", json!([account(9), "0x5"]));
    assert_eq!(node.call("eth_getBalance", json!([account(9), "latest"])), "0xa");
    node.call("anvil_setNextBlockPrevRandao", json!([word(7)]));
    node.call("evm_mine", json!([]));
    assert_eq!(node.call("eth_getBlockByNumber", json!(["latest", false]))["mixHash"], word(7));
    assert_eq!(node.call("eth_submitHashrate", json!(["0x1", word(1)])), false);
    assert_eq!(node.call("debug_freeOSMemory", json!([])), json!(null));
    assert_eq!(node.call("anvil_setRpcUrl", json!(["http://127.0.0.1:1"])), json!(null));
    let why = "anvil_setMinGasPrice is not supported when EIP-1559 is active".to_owned();
    assert_eq!(node.fails("anvil_setMinGasPrice", json!(["0x1"])), (-32602, why));
}

#[test]
fn an_accounts_message_is_answered_with_its_receipt() {
    let node = Node::new(BlockTime::Instant);
    node.call("hardhat_impersonateAccount", json!([account(7)]));
    let receipt =
        node.call("eth_sendTransactionSync", json!([{ "from": account(7), "to": account(1), "value": "0x1" }]));
    assert_eq!((&receipt["status"], &receipt["blockNumber"]), (&json!("0x1"), &json!("0x1")));
}

#[test]
fn time_is_what_is_asked_for() {
    let node = Node::new(BlockTime::Manual);
    let latest = || number(&node.call("eth_getBlockByNumber", json!(["latest", false]))["timestamp"]) as u64;
    node.call("evm_mine", json!([]));
    let first = latest();
    node.call("evm_increaseTime", json!([3_600]));
    node.call("evm_mine", json!([]));
    assert!(latest() >= first + 3_600);
    let then = latest() + 1_000;
    node.call("evm_setNextBlockTimestamp", json!([then]));
    node.call("hardhat_mine", json!([]));
    assert_eq!(latest(), then);
    node.call("hardhat_mine", json!(["0x3", "0x3c"]));
    assert!(latest() >= then + 120);
    assert_eq!(node.call("eth_blockNumber", json!([])), "0x6");
    assert!(node.fails("evm_setNextBlockTimestamp", json!([1])).1.contains("lower than or equal"));
    node.call("evm_mine", json!([{ "blocks": 4 }]));
    assert_eq!(node.call("eth_blockNumber", json!([])), "0xa");
    assert!(node.fails("anvil_mine", json!(["0xffffffffffff"])).1.contains("at most"));
}

#[test]
fn blocks_come_when_it_is_asked_for() {
    let node = Node::new(BlockTime::Instant);
    assert_eq!(node.call("anvil_getAutomine", json!([])), true);
    node.call("evm_setAutomine", json!([false]));
    let hash = node.call("eth_sendRawTransaction", json!([Plan::transfer(1, 0).raw()]));
    assert_eq!(node.call("eth_blockNumber", json!([])), "0x0");
    node.call("evm_setIntervalMining", json!([20]));
    node.receipt(&hash);
    // In seconds it is rounded up: 0 says that there is none.
    assert_eq!(node.call("hardhat_getIntervalMining", json!([])), 20);
    assert_eq!(node.call("anvil_getIntervalMining", json!([])), 1);
    node.call("evm_setIntervalMining", json!([0]));
    assert_eq!(node.call("anvil_getAutomine", json!([])), false);
    assert_eq!(node.call("anvil_getIntervalMining", json!([])), json!(null));
    node.call("hardhat_setNextBlockBaseFeePerGas", json!(["0x77359400"]));
    node.call("evm_mine", json!([]));
    assert_eq!(node.call("eth_getBlockByNumber", json!(["latest", false]))["baseFeePerGas"], "0x77359400");
}

#[test]
fn invalid_number_names_the_expected_form() {
    let node = Node::new(BlockTime::Instant);
    for (method, params, said) in [
        ("evm_setIntervalMining", json!([-1]), "it must be a whole number, 0 or more, not -1"),
        ("evm_setIntervalMining", json!([0.5]), "it must be a whole number, 0 or more, not 0.5"),
        ("anvil_setIntervalMining", json!(["abc"]), "it must be a whole number, 0 or more, not \"abc\""),
        ("evm_setIntervalMining", json!([[200, 300]]), "a random one, given as [min, max], is not supported"),
        ("evm_increaseTime", json!([-5]), "it must be a whole number, 0 or more, not -5"),
        ("evm_increaseTime", json!([[5]]), "it must be one whole number, not a list"),
        ("anvil_mine", json!([{}]), "it must be a whole number, not an object"),
        ("evm_increaseTime", json!([true]), "it must be a whole number, 0 or more, not true"),
    ] {
        let (code, words) = node.fails(method, params.clone());
        assert!(code == -32602 && words.ends_with(said), "{method} {params}: {words}");
    }
}

#[test]
fn impersonated_accounts_need_no_key() {
    let node = Node::new(BlockTime::Instant);
    let transfer = json!([{ "from": account(7), "to": account(1), "value": "0x1" }]);
    assert_eq!(node.fails("eth_sendTransaction", transfer.clone()).1, "unknown account");
    node.call("hardhat_impersonateAccount", json!([account(7)]));
    let hash = node.call("eth_sendTransaction", transfer.clone());
    assert_eq!(node.receipt(&hash)["from"], format!("{:?}", account(7)));
    node.call("hardhat_stopImpersonatingAccount", json!([account(7)]));
    node.fails("eth_sendTransaction", transfer);
}

#[test]
fn they_are_not_served_where_the_chain_is_no_developers() {
    let node = Node::with(BlockTime::Instant, |config| config.dev = false);
    for method in [
        "evm_mine",
        "anvil_setBalance",
        "hardhat_reset",
        "tenderly_setBalance",
        "debug_clearTxpool",
        "testing_buildBlockV1",
        "eth_sendUnsignedTransaction",
    ] {
        assert_eq!(node.fails(method, json!([])).0, -32601, "{method}");
    }
    assert!(node.call("rpc_modules", json!([])).get("evm").is_none());
}

#[test]
fn pruned_blocks_are_reported_as_such() {
    let node = Node::forgetful(3);
    let hash = node.call("eth_sendRawTransaction", json!([Plan::transfer(1, 0).raw()]));
    node.call("hardhat_mine", json!(["0x9"]));
    let pruned = (4444, "pruned history unavailable".to_owned());
    assert_eq!(node.fails("eth_getBlockByNumber", json!(["0x1", false])), pruned);
    assert_eq!(node.fails("eth_getLogs", json!([{ "fromBlock": "0x1", "toBlock": "0x8" }])), pruned);
    assert_eq!(node.call("eth_getBlockByNumber", json!(["earliest", false]))["number"], "0x7");
    assert_eq!(node.call("eth_getLogs", json!([{ "fromBlock": "earliest" }])), json!([]));
    assert_eq!(node.call("eth_getBlockByNumber", json!(["0x0", false]))["number"], "0x0");
    assert!(node.call("eth_getTransactionReceipt", json!([hash])).is_null());
    assert_eq!(node.call("eth_getBlockByNumber", json!(["0x9", false]))["number"], "0x9");
    assert!(node.call("eth_getBlockByNumber", json!(["0xa", false])).is_null());
}

#[test]
fn a_state_is_carried_to_another_chain() {
    let (one, other) = (Node::new(BlockTime::Instant), Node::new(BlockTime::Manual));
    let contract = one.deploy(1, 0, LOGS);
    let who = Address::repeat_byte(0x66);
    one.call("anvil_setBalance", json!([who, "0x64"]));
    one.call("anvil_setStorageAt", json!([contract, "0x2", word(3)]));
    let state = one.call("anvil_dumpState", json!([]));
    assert_eq!(other.call("anvil_loadState", json!([state])), true);
    for (method, params) in [
        ("eth_getBalance", json!([who, "latest"])),
        ("eth_getBalance", json!([account(1), "latest"])),
        ("eth_getTransactionCount", json!([account(1), "latest"])),
        ("eth_getCode", json!([contract, "latest"])),
        ("eth_getStorageAt", json!([contract, "0x2", "latest"])),
    ] {
        assert_eq!(one.call(method, params.clone()), other.call(method, params.clone()), "{method} {params}");
    }
    assert_eq!(other.call("eth_blockNumber", json!([])), "0x1");
    let receipt = other.call("eth_sendRawTransaction", json!([Plan::transfer(1, 1).raw()]));
    other.call("evm_mine", json!([]));
    assert_eq!(other.receipt(&receipt)["status"], "0x1");
    for wrong in ["0x", "0xff"] {
        assert_eq!(other.fails("anvil_loadState", json!([wrong])).0, -32602, "{wrong}");
    }
}
