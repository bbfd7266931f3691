//! The ledger of outputs over the RPC: there, about, and back.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use alloy_primitives::{Address, B256, U256, hex};
use hearth_crypto::ed25519::SigningKey;
use hearth_evm::builders::rich;
use hearth_evm::chain::BlockTime;
use hearth_evm::genesis::Genesis;
use hearth_utxo::tx::{Action, Builder};
use hearth_utxo::{AssetId, OutPoint, Output, OwnerKey, prism};
use serde_json::{Value, json};

use crate::node::{CHAIN_ID, Node, account, number, word};

fn key(seed: u8) -> SigningKey {
    SigningKey::from_seed(&[seed; 32])
}

fn owner(seed: u8) -> OwnerKey {
    OwnerKey(key(seed).public_key())
}

/// Returns the outputs that an owner may spend, as the node reports them.
fn available(node: &Node, seed: u8) -> Vec<(OutPoint, Output)> {
    let page = node.call("utxo_getOutputs", json!([owner(seed).to_string()]));
    assert!(page["next"].is_null());
    let read = |one: &Value| {
        let text = |name: &str| one[name].as_str().unwrap().to_owned();
        let amount = u64::try_from(number(&one["amount"])).unwrap();
        let owner = text("owner").parse().unwrap();
        let memo = hex::decode(text("memo")).unwrap().into();
        (text("outPoint").parse().unwrap(), Output { asset: text("asset").parse().unwrap(), amount, owner, memo })
    };
    page["outputs"].as_array().unwrap().iter().map(read).collect()
}

fn signed(node: &Node, seed: u8, outputs: Vec<Output>, action: Action) -> String {
    let (available, key) = (available(node, seed), key(seed));
    let builder = Builder { chain_id: CHAIN_ID, key: &key, available: &available, outputs, action };
    let issues = matches!(builder.action, Action::Issue { .. });
    hex::encode_prefixed(if issues { builder.issue(owner(seed)) } else { builder.build() }.unwrap())
}

/// Takes coins of account 1 to an owner; the node signs.
fn receive(node: &Node, seed: u8, units: u64) {
    let value = hearth_utxo::amount::to_wei(units.into());
    let data = hex::encode_prefixed(prism::call_data(&owner(seed)));
    let call = json!({ "from": account(1), "to": prism::ADDRESS, "value": value, "data": data });
    let hash = node.call("eth_sendTransaction", json!([call]));
    node.call("evm_mine", json!([]));
    assert_eq!(node.receipt(&hash)["status"], "0x1");
}

#[test]
fn coins_go_there_about_and_back() {
    let node = Node::new(BlockTime::Manual);
    receive(&node, 1, 5_000_000);
    let [(came, _)] = &available(&node, 1)[..] else { panic!("one") };
    let transaction = node.call("utxo_getTransaction", json!([came.transaction]));
    assert_eq!((&transaction["status"], &transaction["kind"]), (&json!("included"), &json!("received")));
    assert_eq!(transaction["sender"], format!("{:?}", account(1)));
    let memo = b"for the coffee".as_slice().into();
    let output = Output { asset: AssetId::NATIVE, amount: 2_500_000, owner: owner(2), memo };
    let raw = signed(&node, 1, vec![output], Action::Transfer);
    let id = node.call("utxo_sendRawTransaction", json!([raw]));
    assert_eq!(node.call("utxo_getTransaction", json!([id]))["status"], "pending");
    assert_eq!(node.call("hearth_transactionFate", json!([id]))["status"], "pending");
    assert_eq!(node.call("utxo_getOutput", json!([came.to_string()]))["spender"], id);
    // It goes by the way of Ethereum's transactions too, and is known there already.
    assert!(node.fails("eth_sendRawTransaction", json!([raw])).1.contains("already known"));
    node.call("evm_mine", json!([]));
    let landed = node.call("utxo_getTransaction", json!([id]));
    assert_eq!((&landed["status"], &landed["blockNumber"]), (&json!("included"), &json!("0x2")));
    let fate = node.call("hearth_transactionFate", json!([id]));
    assert_eq!(fate, json!({ "status": "included", "blockNumber": "0x2" }));
    assert_eq!(landed["outputs"][0]["memo"], hex::encode_prefixed("for the coffee"));
    assert!(node.call("utxo_getOutput", json!([came.to_string()])).is_null());
    let recipient = Address::repeat_byte(0x99);
    let raw = signed(&node, 2, vec![], Action::Prism { recipient, amount: 1_000_000 });
    node.call("eth_sendRawTransaction", json!([raw]));
    node.call("evm_mine", json!([]));
    assert_eq!(node.call("eth_getBalance", json!([recipient, "latest"])), "0xde0b6b3a7640000");
    let block = node.call("eth_getBlockByNumber", json!(["latest", false]));
    assert_eq!(block["withdrawals"][0]["amount"], "0x3b9aca00");
    let supply = node.call("utxo_getSupply", json!([]));
    assert_eq!(block["parentBeaconBlockRoot"], supply["commitment"]);
    let units = |name: &str| number(&supply[name]);
    assert_eq!(units("received"), units("supply") + units("withdrawn") + units("burnt"));
    assert_eq!(U256::from(units("locked")), hearth_utxo::amount::to_wei(5_000_000));
}

#[test]
fn a_block_lists_what_it_did_with_outputs() {
    let node = Node::new(BlockTime::Manual);
    receive(&node, 1, 5_000_000);
    let head = |node: &Node| number(&node.call("eth_blockNumber", json!([])));
    let received_in = head(&node);
    let outputs = vec![Output { asset: AssetId::NATIVE, amount: 1_000_000, owner: owner(2), memo: Default::default() }];
    let id = node.call("utxo_sendRawTransaction", json!([signed(&node, 1, outputs, Action::Transfer)]));
    node.call("evm_mine", json!([]));
    let sent_in = head(&node);
    let block = |number: u128| node.call("utxo_getBlock", json!([format!("{number:#x}")]));
    let listed = [block(sent_in), block(received_in)];
    let [sent] = &listed[0].as_array().unwrap()[..] else { panic!("one") };
    assert_eq!((&sent["id"], &sent["kind"], &sent["status"]), (&id, &json!("transfer"), &json!("included")));
    assert_eq!((&sent["inputs"], &sent["outputs"], &sent["index"]), (&json!("0x1"), &json!("0x2"), &json!("0x0")));
    assert_eq!(number(&sent["blockNumber"]), sent_in);
    let [came] = &listed[1].as_array().unwrap()[..] else { panic!("one") };
    assert_eq!((&came["kind"], &came["outputs"]), (&json!("received"), &json!("0x1")));
    assert!(node.call("eth_getTransactionByHash", json!([came["transaction"]]))["hash"] == came["transaction"]);
    // The chain's own JSON-RPC counts none of them in the block, and has it anyway.
    let shown = node.call("eth_getBlockByNumber", json!([format!("{sent_in:#x}"), false]));
    assert_eq!(shown["transactions"], json!([]));
    assert_eq!([block(0), block(sent_in + 9)], [json!([]), json!([])]);
}

#[test]
fn issued_asset_is_reported() {
    let node = Node::new(BlockTime::Manual);
    receive(&node, 1, 5_000_000);
    let issue = Action::Issue { code: "BEANS".into(), decimals: 2, open: true, issuer: owner(1), amount: 100_000 };
    let id = node.call("utxo_sendRawTransaction", json!([signed(&node, 1, vec![], issue)]));
    node.call("evm_mine", json!([]));
    let asset = node.call("utxo_getTransaction", json!([id]))["asset"].clone();
    let known = node.call("utxo_getAsset", json!([asset]));
    assert_eq!((&known["code"], &known["supply"], &known["open"]), (&json!("BEANS"), &json!("0x186a0"), &json!(true)));
    assert_eq!(node.call("utxo_getSupply", json!([asset])), known);
    let balances = node.call("utxo_getBalances", json!([owner(1).to_string()]));
    assert_eq!((&balances[0]["code"], &balances[1]["code"]), (&json!("native"), &json!("BEANS")));
    assert_eq!((&balances[1]["amount"], &balances[1]["decimals"]), (&json!("0x186a0"), &json!("0x2")));
    assert!(node.call("utxo_getAsset", json!([B256::repeat_byte(1)])).is_null());
}

#[test]
fn pages_follow_each_other() {
    let node = Node::new(BlockTime::Manual);
    (0..5).for_each(|_| receive(&node, 1, 1_000_000));
    let (mut found, mut after) = (Vec::new(), Value::Null);
    loop {
        let page = node.call("utxo_getOutputs", json!([owner(1).to_string(), { "after": after, "limit": "0x2" }]));
        found
            .extend(page["outputs"].as_array().unwrap().iter().map(|one| one["outPoint"].as_str().unwrap().to_owned()));
        after = page["next"].clone();
        if after.is_null() {
            break;
        }
    }
    found.sort();
    found.dedup();
    assert_eq!(found.len(), 5);
}

#[test]
fn errors_are_named() {
    let node = Node::new(BlockTime::Manual);
    let said = |method: &str, params: Value| node.fails(method, params).1;
    assert!(said("utxo_getOutputs", json!(["0x1234"])).contains("not an address"));
    assert!(said("utxo_getOutput", json!(["0x1234"])).contains("is not an output"));
    assert!(said("utxo_sendRawTransaction", json!(["0x68c0"])).contains("rlp"));
    assert!(said("eth_sendRawTransaction", json!(["0x68c0"])).contains("rlp"));
    assert!(said("utxo_getOutputs", json!([owner(1).to_string(), { "limits": 1 }])).contains("unknown field"));
    assert!(node.call("utxo_getTransaction", json!([B256::ZERO])).is_null());
    assert_eq!(node.fails("utxo_nothing", json!([])).0, -32601);
    receive(&node, 1, 1_000_000);
    let (available, key) = (available(&node, 1), key(1));
    let action = Action::Prism { recipient: Address::ZERO, amount: 1 };
    let other = Builder { chain_id: CHAIN_ID + 1, key: &key, available: &available, outputs: vec![], action };
    let raw = hex::encode_prefixed(other.build().unwrap());
    assert!(
        said("utxo_sendRawTransaction", json!([raw])).contains("invalid chain id for signer: have 31338 want 31337")
    );
}

#[test]
fn outputs_are_reported_with_their_block() {
    let node = Node::new(BlockTime::Manual);
    let done = AtomicBool::new(false);
    let owner = owner(1).to_string();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let client = node.another();
            while !done.load(Relaxed) {
                // One output a block.
                let before = number(&client.call("eth_blockNumber", json!([])));
                let count = client.call("utxo_getBalances", json!([owner]))[0]["outputs"].clone();
                let count = if count.is_null() { 0 } else { number(&count) };
                let after = number(&client.call("eth_blockNumber", json!([])));
                assert!((before..=after).contains(&count), "{before} {count} {after}");
            }
        });
        (0..60).for_each(|_| receive(&node, 1, 1_000));
        done.store(true, Relaxed);
    });
}

#[test]
fn outputs_are_carried_to_another_chain_and_spent_there() {
    let (one, other) = (Node::new(BlockTime::Manual), Node::new(BlockTime::Manual));
    receive(&one, 1, 5_000_000);
    let state = one.call("anvil_dumpState", json!([]));
    assert_eq!(other.call("anvil_loadState", json!([state])), true);
    assert_eq!(available(&one, 1), available(&other, 1));
    let output = Output { asset: AssetId::NATIVE, amount: 2_500_000, owner: owner(2), memo: Default::default() };
    let id = other.call("utxo_sendRawTransaction", json!([signed(&other, 1, vec![output], Action::Transfer)]));
    other.call("evm_mine", json!([]));
    assert_eq!(other.call("utxo_getTransaction", json!([id]))["status"], "included");
    assert_eq!(available(&other, 2)[0].1.amount, 2_500_000);
    let refused = other.fails("anvil_loadState", json!([state]));
    assert!(refused.0 == -32000 && refused.1.contains("a history of its own"), "{refused:?}");
}

#[test]
fn a_chain_without_the_ledger_answers_without_it() {
    let node = Node::of_genesis(Genesis::dev(CHAIN_ID, &rich(1..=1), 30_000_000));
    assert_eq!(node.fails("utxo_getSupply", json!([])).0, -32601);
    assert_eq!(node.call("hearth_transactionFate", json!([word(5)]))["status"], "unknown");
    let state = node.call("anvil_dumpState", json!([]));
    assert_eq!(node.call("anvil_loadState", json!([state])), true);
    assert_eq!(node.call("eth_blockNumber", json!([])), "0x1");
}
