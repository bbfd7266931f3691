//! Results of the read methods and their shapes.

use std::time::Duration;

use hearth_ledger::Account;
use hearth_rpc::Limits;
use serde_json::{Value, json};

use crate::common::*;

fn commitment(commitment: &str) -> Value {
    json!([{ "commitment": commitment }])
}

#[test]
fn the_node_introduces_itself() {
    let chain = Chain::new();
    let identity = text(&address(500));
    assert_eq!(chain.call("getIdentity", json!([])), json!({ "identity": identity }));
    let version = chain.call("getVersion", json!([]));
    assert_eq!((&version["solana-core"], &version["feature-set"]), (&json!("4.2.2"), &json!(7)));
    assert_eq!(chain.call("getGenesisHash", json!([])), text(chain.ledger.genesis_hash()));
    let nodes = chain.call("getClusterNodes", json!([]));
    let node = &nodes[0];
    assert_eq!((nodes.as_array().unwrap().len(), &node["pubkey"]), (1, &json!(identity)));
    assert_eq!((&node["tpu"], &node["tpuQuic"]), (&json!("127.0.0.1:9001"), &json!("127.0.0.1:9007")));
    // A node outside a cluster still reports a host, and receives votes on its TPU port.
    assert_eq!((&node["gossip"], &node["tpuVote"]), (&json!("127.0.0.1:8001"), &json!("127.0.0.1:9001")));
    assert_eq!((&node["rpc"], &node["shredVersion"]), (&json!(chain.http()), &json!(77)));
    assert_eq!(node["pubsub"], json!(chain.server.websocket_addr()));
    assert_eq!(chain.call("getSlotLeader", json!([])), identity);
    assert_eq!(chain.call("getSlotLeaders", json!([7, 3])), json!([identity, identity, identity]));
    assert_eq!(chain.call("getSlotLeaders", json!([7, 0])), json!([]));
}

#[test]
fn slots_and_heights_are_those_of_the_commitment() {
    let chain = Chain::new();
    chain.durable_slots(40);
    chain.next_slot();
    for (name, slot) in [("processed", 42), ("confirmed", 40), ("finalized", 8)] {
        assert_eq!(chain.call("getSlot", commitment(name)), slot, "{name}");
        assert_eq!(chain.call("getBlockHeight", commitment(name)), slot, "{name}");
        let epoch = chain.call("getEpochInfo", commitment(name));
        assert_eq!((&epoch["absoluteSlot"], &epoch["blockHeight"]), (&json!(slot), &json!(slot)));
        assert_eq!((&epoch["epoch"], &epoch["slotIndex"]), (&json!(0), &json!(slot)));
        assert_eq!(epoch["slotsInEpoch"], 432_000);
    }
    assert_eq!(chain.call("getSlot", json!([])), 8);
    let (code, _, data) = chain.error("getSlot", json!([{ "minContextSlot": 9 }]));
    assert_eq!((code, data), (-32016, json!({ "contextSlot": 8 })));
    assert_eq!(chain.call("getSlot", json!([{ "minContextSlot": 9, "commitment": "confirmed" }])), 40);
    let schedule = chain.call("getEpochSchedule", json!([]));
    assert_eq!((&schedule["slotsPerEpoch"], &schedule["warmup"]), (&json!(432_000), &json!(false)));
}

#[test]
fn changes_of_a_block_are_listed_by_page() {
    let chain = Chain::new();
    let transfer = chain.transfer(0, &address(20), 1_000_000);
    chain.call("sendTransaction", json!([base64(&transfer), { "encoding": "base64" }]));
    chain.next_slot();
    chain.ledger.hash_all();
    let whole = chain.call("getSlotChanges", json!([1]));
    assert_eq!((&whole["slot"], &whole["parentSlot"], &whole["more"]), (&json!(1), &json!(0), &json!(false)));
    assert_eq!(whole["bankHash"], text(&chain.ledger.bank_hash(1).unwrap()));
    let accounts = whole["accounts"].as_array().unwrap();
    let paid = accounts.iter().find(|account| account["pubkey"] == text(&address(20))).unwrap();
    let hash = hearth_ledger::lattice::account_hash(&address(20), &Account::wallet(1_000_000));
    let expected = json!({
        "pubkey": text(&address(20)),
        "lamports": 1_000_000,
        "owner": text(&[0; 32]),
        "executable": false,
        "space": 0,
        "hash": text(&hash),
    });
    assert_eq!(*paid, expected);
    assert!(accounts.iter().any(|account| account["pubkey"] == text(&address(0))));
    // One account per page, until there are no more.
    let (mut after, mut pages) = (Value::Null, vec![]);
    loop {
        let page = chain.call("getSlotChanges", json!([1, { "limit": 1, "after": after }]));
        let listed = page["accounts"].as_array().unwrap();
        pages.extend(listed.iter().cloned());
        after = listed[0]["pubkey"].clone();
        if page["more"] == false {
            break;
        }
    }
    assert_eq!(pages, *accounts);
    let (code, message, _) = chain.error("getSlotChanges", json!([7]));
    assert_eq!((code, message.as_str()), (-32004, "Block not available for slot 7"));
}

#[test]
fn blockhashes_come_with_their_end() {
    let chain = Chain::new();
    chain.durable_slots(3);
    let latest = chain.call("getLatestBlockhash", commitment("processed"));
    assert_eq!(latest["value"], json!({ "blockhash": text(&chain.blockhash()), "lastValidBlockHeight": 4 + 150 }));
    for level in ["processed", "confirmed", "finalized"] {
        let height = chain.call("getBlockHeight", commitment(level)).as_u64().unwrap();
        let latest = chain.call("getLatestBlockhash", commitment(level));
        assert_eq!(latest["value"]["lastValidBlockHeight"], height + 150, "{level}");
    }
    assert_eq!(latest["context"], json!({ "apiVersion": "4.2.2", "slot": 4 }));
    let genesis = text(chain.ledger.genesis_hash());
    assert_eq!(chain.call("getLatestBlockhash", json!([]))["value"]["blockhash"], genesis);
    assert_eq!(chain.call("isBlockhashValid", json!([genesis]))["value"], true);
    assert_eq!(chain.call("isBlockhashValid", json!([text(&[9; 32])]))["value"], false);
    // Block 153 has ended; the hash of 121, the newest final block, is still recent.
    chain.durable_slots(150);
    let valid =
        |level: &str| chain.call("isBlockhashValid", json!([genesis, { "commitment": level }]))["value"].clone();
    assert_eq!(["processed", "confirmed", "finalized"].map(valid), [json!(false), json!(false), json!(true)]);
    chain.durable_slots(30);
    assert_eq!(valid("finalized"), false);
}

#[test]
fn transactions_are_counted_by_commitment() {
    let chain = Chain::new();
    let transfer = chain.transfer(0, &address(1), 1);
    chain.call("sendTransaction", json!([base64(&transfer), { "encoding": "base64" }]));
    let count = |name| chain.call("getTransactionCount", commitment(name));
    assert_eq!([count("processed"), count("confirmed"), count("finalized")], [1, 0, 0]);
    chain.durable_slots(1);
    assert_eq!([count("processed"), count("confirmed"), count("finalized")], [1, 1, 0]);
}

#[test]
fn accounts_are_written_as_asked() {
    let chain = Chain::new();
    let data: Vec<u8> = (0..200).collect();
    let (owner, key) = ([7; 32], [8; 32]);
    let little = [9; 32];
    chain.ledger.accounts().store(&key, Account::with_data(5_000_000, owner, &data));
    chain.ledger.accounts().store(&little, Account::with_data(5_000_000, owner, &[1; 128]));
    chain.settle();
    let get = |options: Value| chain.call("getAccountInfo", json!([text(&key), options]))["value"].clone();
    let whole = json!({
        "data": [base64(&data), "base64"],
        "executable": false,
        "lamports": 5_000_000,
        "owner": text(&owner),
        "rentEpoch": u64::MAX,
        "space": 200,
    });
    assert_eq!(get(json!({ "encoding": "base64" })), whole);
    // Data without a parser is returned as it is.
    assert_eq!(get(json!({ "encoding": "jsonParsed" })), whole);
    let slice =
        |offset: u64, length: u64| json!({ "encoding": "base58", "dataSlice": { "offset": offset, "length": length } });
    assert_eq!(get(slice(2, 3))["data"], json!([bs58::encode([2, 3, 4]).into_string(), "base58"]));
    assert_eq!(get(slice(2, 3))["space"], 200);
    assert_eq!(get(slice(199, 9))["data"], json!([bs58::encode([199]).into_string(), "base58"]));
    for (offset, length) in [(200, 1), (u64::MAX, 1), (u64::MAX, u64::MAX), (3, 0)] {
        assert_eq!(get(slice(offset, length))["data"], json!(["", "base58"]));
    }
    // The default is base58 as a bare string, for short data only.
    let answer = chain.call("getAccountInfo", json!([text(&little)]));
    assert_eq!(answer["value"]["data"], bs58::encode([1; 128]).into_string());
    let (code, message, _) = chain.error("getAccountInfo", json!([text(&key)]));
    assert!(code == -32600 && message.contains("Base64"), "{message}");
    assert_eq!(chain.call("getAccountInfo", json!([text(&[1; 32])]))["value"], Value::Null);
}

#[test]
fn many_accounts_have_bounds() {
    let chain = Chain::with(Limits { answer_bytes: 10_000, ..Limits::default() }, true);
    let (rich, poor) = (text(&address(0)), text(&address(99)));
    let both = chain.call("getMultipleAccounts", json!([[rich, poor], { "commitment": "processed" }]));
    assert_eq!((&both["value"][0]["lamports"], &both["value"][1]), (&json!(RICH), &Value::Null));
    assert_eq!(both["value"][0]["data"], json!(["", "base64"]));
    assert_eq!(both["context"]["slot"], 1);
    assert_eq!(chain.call("getMultipleAccounts", json!([[]]))["value"], json!([]));
    let (code, message, _) = chain.error("getMultipleAccounts", json!([vec![&rich; 101]]));
    assert_eq!((code, message.as_str()), (-32602, "Too many inputs provided; max 100"));
    chain.ledger.accounts().store(&[8; 32], Account::with_data(5_000_000, [7; 32], &[1; 6_000]));
    chain.settle();
    let big = text(&[8; 32]);
    let (code, message, _) = chain.error("getMultipleAccounts", json!([[big, big]]));
    assert!(code == -32602 && message.contains("dataSlice"), "{message}");
    let sliced = json!([[big, big], { "dataSlice": { "offset": 0, "length": 1 } }]);
    assert_eq!(chain.call("getMultipleAccounts", sliced)["value"][1]["data"], json!(["AQ==", "base64"]));
}

#[test]
fn balances_and_rent() {
    let chain = Chain::new();
    assert_eq!(chain.call("getBalance", json!([text(&address(3))]))["value"], RICH);
    assert_eq!(chain.call("getBalance", json!([text(&[3; 32])]))["value"], 0);
    let (code, _, data) = chain.error("getBalance", json!([text(&[3; 32]), { "minContextSlot": 2 }]));
    assert_eq!((code, data), (-32016, json!({ "contextSlot": 0 })));
    assert_eq!(chain.call("getMinimumBalanceForRentExemption", json!([0])), 890_880);
    assert_eq!(chain.call("getMinimumBalanceForRentExemption", json!([165, { "commitment": "confirmed" }])), 2_039_280);
    for bytes in [10 * 1024 * 1024 + 1, u64::MAX] {
        assert_eq!(chain.error("getMinimumBalanceForRentExemption", json!([bytes])).0, -32600);
    }
}

#[test]
fn a_disk_that_falls_behind_is_unhealthy() {
    let chain = Chain::new();
    chain.durable_slots(1);
    (0..127).for_each(|_| chain.next_slot());
    assert_eq!(chain.call("getHealth", json!([])), "ok");
    chain.next_slot();
    let (code, message, data) = chain.error("getHealth", json!([]));
    assert_eq!((code, &message[..]), (-32005, "Node is behind by 129 slots"));
    assert_eq!(data, json!({ "numSlotsBehind": 129, "reason": "the disk is 129 slots behind" }));
    let health = request(chain.http(), "GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert_eq!((health.status, &health.body[..]), (200, "behind"));
    // No transaction is accepted that may not become durable.
    let transfer = json!([base64(&chain.transfer(0, &address(1), 1)), { "encoding": "base64" }]);
    assert_eq!(chain.error("sendTransaction", transfer).0, -32005);
}

#[test]
fn a_tile_that_stands_still_is_unhealthy() {
    let chain = Chain::new();
    assert_eq!(chain.call("getHealth", json!([])), "ok");
    chain.liveness.lock().silent = Some(("tile bank:0".into(), Duration::from_secs(12)));
    let (code, message, data) = chain.error("getHealth", json!([]));
    assert_eq!((code, &message[..]), (-32005, "Node is unhealthy"));
    assert_eq!(data["reason"], "tile bank:0 stood still for 12 s");
    let health = request(chain.http(), "GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert_eq!((health.status, &health.body[..]), (200, "behind"));
    chain.liveness.lock().silent = None;
    assert_eq!(chain.call("getHealth", json!([])), "ok");
}

#[test]
fn odd_parameters_are_refused_by_every_method() {
    let chain = Chain::new();
    let methods = [
        "getHealth",
        "getVersion",
        "getIdentity",
        "getClusterNodes",
        "getSlotLeader",
        "getSlotLeaders",
        "getSlot",
        "getBlockHeight",
        "getEpochInfo",
        "getEpochSchedule",
        "getGenesisHash",
        "getLatestBlockhash",
        "isBlockhashValid",
        "getTransactionCount",
        "getVoteAccounts",
        "getBlockCommitment",
        "getRecentPerformanceSamples",
        "getRecentPrioritizationFees",
        "getLeaderSchedule",
        "getBlockProduction",
        "getStakeMinimumDelegation",
        "getInflationGovernor",
        "getInflationRate",
        "getInflationReward",
        "getFirstAvailableBlock",
        "minimumLedgerSlot",
        "getHighestSnapshotSlot",
        "getMaxRetransmitSlot",
        "getMaxShredInsertSlot",
        "getProgramAccounts",
        "getLargestAccounts",
        "getSupply",
        "getTokenAccountBalance",
        "getTokenSupply",
        "getTokenLargestAccounts",
        "getTokenAccountsByOwner",
        "getTokenAccountsByDelegate",
        "getBalance",
        "getAccountInfo",
        "getMultipleAccounts",
        "getMinimumBalanceForRentExemption",
        "sendTransaction",
        "simulateTransaction",
        "getSignatureStatuses",
        "getFeeForMessage",
        "getTransactionFate",
        "getSlotChanges",
        "requestAirdrop",
    ];
    let odd = [json!(true), json!(-1), json!(1e300), json!("\u{0}é"), json!([[]]), json!({ "commitment": [] })];
    for method in methods {
        for params in [json!("x"), json!(7), json!({ "a": 1 }), json!([1, 2, 3, 4])] {
            assert_eq!(chain.error(method, params.clone()).0, -32602, "{method} {params}");
        }
        for first in &odd {
            assert_eq!(chain.error(method, json!([first])).0, -32602, "{method} {first}");
            for second in &odd {
                assert_eq!(chain.error(method, json!([first, second])).0, -32602, "{method} {first} {second}");
            }
        }
    }
    assert_eq!(chain.call("getHealth", json!([])), "ok");
    assert!(chain.taken.lock().is_empty());
}

#[test]
fn the_genesis_is_block_0() {
    let chain = Chain::with_history();
    chain.durable_slots(3);
    let genesis = text(chain.ledger.genesis_hash());
    let block = |options: Value| chain.call("getBlock", json!([0, options]));
    let header = |parent: u64| {
        json!({
            "blockHeight": 0,
            "blockTime": GENESIS_TIME,
            "blockhash": genesis,
            "parentSlot": parent,
            "previousBlockhash": genesis,
        })
    };
    let with = |more: Value| {
        let mut wanted = header(0);
        wanted.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        wanted
    };
    assert_eq!(block(json!({})), with(json!({ "transactions": [], "rewards": [] })));
    let signatures = json!({ "transactionDetails": "signatures", "rewards": false, "commitment": "confirmed" });
    assert_eq!(block(signatures), with(json!({ "signatures": [] })));
    assert_eq!(block(json!({ "transactionDetails": "none" })), with(json!({ "rewards": [] })));
    assert_eq!(chain.call("getBlock", json!([0])), block(json!({ "encoding": "jsonParsed" })));
    assert_eq!(chain.call("getBlockTime", json!([0])), GENESIS_TIME);
    assert_eq!(chain.call("getFirstAvailableBlock", json!([])), 0);
    assert_eq!(chain.call("getBlocks", json!([0])), json!([0]));
    assert_eq!(chain.call("getBlocks", json!([0, 0])), json!([0]));
    assert_eq!(chain.call("getBlocksWithLimit", json!([0, 5])), json!([0]));
    assert_eq!(chain.call("getBlocksWithLimit", json!([0, 0])), json!([]));
    assert_eq!(chain.call("getBlocks", json!([1])), json!([]));
}

#[test]
fn a_warped_chain_has_its_genesis_where_it_begins() {
    let chain = Chain::warped(1_000);
    chain.durable_slots(1);
    let block = chain.call("getBlock", json!([1_000]));
    assert_eq!((&block["blockHeight"], &block["parentSlot"]), (&json!(0), &json!(1_000)));
    assert_eq!(block["blockhash"], text(chain.ledger.genesis_hash()));
    assert_eq!(chain.call("getFirstAvailableBlock", json!([])), 1_000);
    assert_eq!(chain.call("getBlocks", json!([0, 1_001])), json!([1_000]));
    assert_eq!(chain.call("getBlockTime", json!([1_000])), GENESIS_TIME);
    assert_eq!(chain.error("getBlock", json!([0])).0, -32001, "left out");
    assert_eq!(chain.error("getBlock", json!([999])).0, -32001);
    assert_eq!(chain.call("getBlockTime", json!([0])), GENESIS_TIME, "as on the cluster");
}
