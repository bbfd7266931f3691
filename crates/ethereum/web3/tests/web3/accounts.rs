//! What accounts hold, and the accounts that the node signs for.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use alloy_primitives::{Address, TxKind, hex, keccak256};
use hearth_crypto::secp256k1::{Arithmetic, HighS, RecoverItem, Recoverer, address};
use hearth_evm::chain::BlockTime;
use serde_json::{Value, json};

use crate::node::{KEEPS, Node, Plan, account, number, word};

#[test]
fn balance_nonce_code_and_storage_of_each_block() {
    let node = Node::new(BlockTime::Instant);
    let contract = node.deploy(1, 0, KEEPS);
    let before = node.call("eth_blockNumber", json!([]));
    let input = hex::decode(word(42)).unwrap().into();
    let to = TxKind::Call(contract.parse().unwrap());
    node.run(&Plan { seed: 1, nonce: 1, to, value: 5, gas: 100_000, input });
    for (block, value, nonce, balance) in [(json!("latest"), 42, 2, 5), (before.clone(), 0, 1, 0)] {
        assert_eq!(node.call("eth_getStorageAt", json!([contract, "0x0", block])), word(value));
        assert_eq!(number(&node.call("eth_getTransactionCount", json!([account(1), block]))), nonce);
        assert_eq!(number(&node.call("eth_getBalance", json!([contract, block]))), balance);
        assert_eq!(node.call("eth_getCode", json!([contract, block])), format!("0x{KEEPS}"));
    }
    assert_eq!(node.call("eth_getCode", json!([contract, "earliest"])), "0x");
    assert_eq!(node.call("eth_getCode", json!([Address::ZERO, "latest"])), "0x");
    assert_eq!(node.fails("eth_getBalance", json!([contract, "0x999"])), (-32000, "header not found".into()));
    let hash = node.call("eth_getBlockByNumber", json!([before, false]))["hash"].clone();
    let by_hash = json!([contract, "0x0", { "blockHash": hash, "requireCanonical": true }]);
    assert_eq!(node.call("eth_getStorageAt", by_hash), word(0));
}

#[test]
fn state_is_kept_for_a_window() {
    let node = Node::new(BlockTime::Manual);
    node.chain.mine_many(140, None).unwrap();
    node.call("eth_getBalance", json!([account(1), "latest"]));
    node.call("eth_getBalance", json!([account(1), "0x20"]));
    let (code, why) = node.fails("eth_getBalance", json!([account(1), "0x1"]));
    assert!(code == -32000 && why.starts_with("missing trie node") && why.contains("last 128"), "{why}");
}

#[test]
fn proofs_prove() {
    let node = Node::new(BlockTime::Instant);
    let contract = node.deploy(1, 0, KEEPS);
    let input = hex::decode(word(7)).unwrap().into();
    let to = TxKind::Call(contract.parse().unwrap());
    node.run(&Plan { seed: 1, nonce: 1, to, value: 0, gas: 100_000, input });
    let proof = node.call("eth_getProof", json!([contract, ["0x0", word(1)], "latest"]));
    let block = node.call("eth_getBlockByNumber", json!(["latest", false]));
    let hash_of = |node: &Value| keccak256(hex::decode(node.as_str().unwrap()).unwrap()).to_string();
    assert_eq!(hash_of(&proof["accountProof"][0]), block["stateRoot"].as_str().unwrap());
    let storage = &proof["storageProof"];
    assert_eq!((&storage[0]["key"], &storage[0]["value"]), (&json!("0x0"), &json!("0x7")));
    assert_eq!((&storage[1]["key"], &storage[1]["value"]), (&json!(word(1)), &json!("0x0")));
    assert_eq!(hash_of(&storage[0]["proof"][0]), proof["storageHash"].as_str().unwrap());
    assert_eq!(proof["codeHash"], keccak256(hex::decode(KEEPS).unwrap()).to_string());
}

#[test]
fn dev_accounts_sign_and_send() {
    let node = Node::new(BlockTime::Instant);
    let accounts = node.call("eth_accounts", json!([]));
    assert_eq!(accounts, json!([account(1), account(2), account(3)].map(|own| format!("{own:?}"))));
    let to = Address::repeat_byte(0x55);
    let hash = node.call("eth_sendTransaction", json!([{ "from": account(2), "to": to, "value": "0x64" }]));
    let receipt = node.receipt(&hash);
    assert_eq!((&receipt["status"], &receipt["type"]), (&json!("0x1"), &json!("0x2")));
    assert_eq!(number(&node.call("eth_getBalance", json!([to, "latest"]))), 100);
    let legacy = json!([{ "from": account(2), "to": to, "value": "0x1", "gasPrice": "0x12a05f2000" }]);
    assert_eq!(node.receipt(&node.call("eth_sendTransaction", legacy))["type"], "0x0");
    let unknown = node.fails("eth_sendTransaction", json!([{ "from": account(5), "to": to }]));
    assert_eq!(unknown, (-32000, "unknown account".into()));
    let signed = node.call("eth_signTransaction", json!([{ "from": account(1), "to": to, "value": "0x5" }]));
    node.receipt(&node.call("eth_sendRawTransaction", json!([signed["raw"]])));
    assert_eq!(number(&node.call("eth_getBalance", json!([to, "latest"]))), 106);
}

#[test]
fn signatures_recover() {
    let node = Node::new(BlockTime::Manual);
    let hash = keccak256(b"\x19Ethereum Signed Message:\n5hello").0;
    let by = |answer: Value| {
        let bytes = hex::decode(answer.as_str().unwrap()).unwrap();
        let (r, s) = (bytes[..32].try_into().unwrap(), bytes[32..64].try_into().unwrap());
        let item = RecoverItem { hash, r, s, odd: bytes[64] == 28 };
        Address::from(address(&Recoverer::new(Arithmetic::Detect).recover(&item, HighS::Refuse).unwrap()))
    };
    let message = hex::encode_prefixed(b"hello");
    assert_eq!(by(node.call("eth_sign", json!([account(1), message]))), account(1));
    assert_eq!(by(node.call("personal_sign", json!([message, account(3)]))), account(3));
}

#[test]
fn concurrent_sends_get_distinct_nonces() {
    let node = Node::new(BlockTime::Manual);
    let each = 25;
    let send_some = || {
        let client = node.another();
        for _ in 0..each {
            let call = json!({ "from": account(1), "to": account(2), "value": "0x1", "gas": "0x5208" });
            client.call("eth_sendTransaction", json!([call]));
        }
    };
    std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(send_some))));
    assert_eq!(node.call("txpool_status", json!([])), json!({ "pending": "0x64", "queued": "0x0" }));
}

#[test]
fn the_next_nonce_never_goes_back() {
    let node = Node::new(BlockTime::Instant);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let client = node.another();
                let mut last = 0;
                while !done.load(Relaxed) {
                    let next = number(&client.call("eth_getTransactionCount", json!([account(1), "pending"])));
                    assert!(next >= last, "{last}, then {next}");
                    last = next;
                }
            });
        }
        for nonce in 0..200 {
            node.run(&Plan::transfer(1, nonce));
        }
        done.store(true, Relaxed);
    });
}

#[test]
fn unknown_accounts_are_known_before_anything_is_read() {
    let node = Node::new(BlockTime::Manual);
    let why = node.fails("eth_signTypedData_v4", json!([account(9), "this is not typed data"]));
    assert_eq!(why, (-32000, "unknown account".into()));
    assert_eq!(node.fails("eth_signTypedData_v4", json!([account(1), "this is not typed data"])).0, -32602);
}
