//! Every RPC method reports past transactions, also after a kill.

use hearth_ledger::genesis::funded_account_key;
use hearth_wire::base58::{encode_32, encode_64};
use hearth_wire::program::{memo, system};
use serde_json::{Value, json};

use super::client::{Sender, fresh_address, signature_of, transaction};
use super::node::{Rpc, Setup, same, wait_until};

const TRANSFERS: usize = 40;

fn text(address: &[u8; 32]) -> String {
    encode_32(address).to_string()
}

/// Everything that RPC reports about the transfers, oldest first: their signatures, then `getTransaction` of each.
fn history_of(rpc: Rpc, payer: &[u8; 32], signatures: &[String]) -> Vec<Value> {
    let options = json!({ "commitment": "confirmed", "maxSupportedTransactionVersion": 0 });
    let transactions = signatures.iter().map(|signature| rpc.call("getTransaction", json!([signature, options])));
    let transactions: Vec<Value> = transactions.collect();
    let listed = rpc.call("getSignaturesForAddress", json!([text(payer), { "commitment": "confirmed" }]));
    for entry in listed.as_array().unwrap() {
        let at = signatures.iter().position(|signature| entry["signature"] == **signature).unwrap();
        let found = &transactions[at];
        assert_eq!((&entry["slot"], &entry["blockTime"]), (&found["slot"], &found["blockTime"]));
        assert_eq!(entry["transactionIndex"], found["transactionIndex"]);
        assert_eq!(entry["memo"], format!("[{}] transfer {at}", format!("transfer {at}").len()));
    }
    assert_eq!(listed.as_array().unwrap().len(), signatures.len());
    transactions
}

fn check_block(rpc: Rpc, found: &Value, signature: &str) {
    let slot = &found["slot"];
    let block = |options: Value| rpc.call("getBlock", json!([slot, options]));
    let full = block(json!({ "commitment": "confirmed", "maxSupportedTransactionVersion": 0 }));
    let index = found["transactionIndex"].as_u64().unwrap() as usize;
    let there = &full["transactions"][index];
    assert_eq!((&there["transaction"], &there["meta"]), (&found["transaction"], &found["meta"]));
    assert_eq!(full["blockTime"], found["blockTime"]);
    let fees = full["rewards"].as_array().unwrap().iter().find(|reward| reward["rewardType"] == "Fee").unwrap();
    assert!(fees["lamports"].as_u64().unwrap() > 0 && fees["postBalance"].as_u64() >= fees["lamports"].as_u64());
    let signatures = block(json!({ "commitment": "confirmed", "transactionDetails": "signatures", "rewards": false }));
    assert_eq!(signatures["signatures"][index], signature);
    assert!(signatures.get("rewards").is_none() && signatures.get("transactions").is_none());
    let parsed =
        block(json!({ "commitment": "confirmed", "encoding": "jsonParsed", "maxSupportedTransactionVersion": 0 }));
    let instruction = &parsed["transactions"][index]["transaction"]["message"]["instructions"][0];
    assert_eq!((&instruction["program"], &instruction["parsed"]["type"]), (&json!("system"), &json!("transfer")));
    assert_eq!(rpc.call("getBlockTime", json!([slot])), found["blockTime"]);
    let listed = rpc.call("getBlocks", json!([slot, slot, { "commitment": "confirmed" }]));
    assert_eq!(listed, json!([slot]));
    let limited = rpc.call("getBlocksWithLimit", json!([slot, 1, { "commitment": "confirmed" }]));
    assert_eq!(limited, json!([slot]));
}

#[test]
fn every_method_finds_landed_transactions_after_a_kill() {
    let setup = Setup::new("history");
    let node = setup.start();
    let rpc = node.rpc();
    let payer = funded_account_key(3);
    let from = payer.public_key();
    let mut sender = Sender::connect(node.quic(), 1);
    let blockhash = rpc.latest_blockhash();
    let transfers: Vec<Vec<u8>> = (0..TRANSFERS)
        .map(|number| {
            let lamports = 2_000_000 + number as u64;
            let pay = system::transfer(&from, &fresh_address(9, number), lamports);
            transaction(&payer, &[pay, memo::memo(&format!("transfer {number}"), &[])], &blockhash)
        })
        .collect();
    sender.send_all(&transfers);
    let signatures: Vec<_> = transfers.iter().map(|bytes| signature_of(bytes)).collect();
    wait_until("the transfers to be confirmed", || {
        let confirmed = rpc
            .statuses(&signatures)
            .iter()
            .filter(|s| s["confirmationStatus"] != "processed" && s.is_object())
            .count();
        same(confirmed, TRANSFERS)
    });
    let texts: Vec<String> = signatures.iter().map(|signature| encode_64(signature).to_string()).collect();
    let before = history_of(rpc, &from, &texts);
    for (number, found) in before.iter().enumerate() {
        let meta = &found["meta"];
        assert_eq!((&meta["err"], &meta["fee"]), (&Value::Null, &json!(5_000)), "{found}");
        let change =
            |index: usize| meta["postBalances"][index].as_i64().unwrap() - meta["preBalances"][index].as_i64().unwrap();
        let lamports = 2_000_000 + number as i64;
        assert_eq!((change(0), change(1)), (-lamports - 5_000, lamports));
        assert!(meta["computeUnitsConsumed"].as_u64().unwrap() > 0 && meta["costUnits"].as_u64().unwrap() > 0);
        assert!(!meta["logMessages"].as_array().unwrap().is_empty());
    }
    check_block(rpc, &before[7], &texts[7]);
    let bounded = json!([text(&from), { "commitment": "confirmed", "limit": 5, "before": texts[20] }]);
    assert!(rpc.call("getSignaturesForAddress", bounded).as_array().unwrap().len() <= 5);
    assert!(rpc.try_call("getTransaction", json!([texts[0], { "commitment": "processed" }])).is_err());
    assert!(rpc.try_call("getBlock", json!([u64::MAX])).is_err());
    node.kill();
    let node = setup.start();
    assert_eq!(history_of(node.rpc(), &from, &texts), before, "as before the kill");
    check_block(node.rpc(), &before[TRANSFERS - 1], &texts[TRANSFERS - 1]);
    let history = json!([[texts[0]], { "searchTransactionHistory": true }]);
    assert!(node.rpc().call("getSignatureStatuses", history)["value"][0].is_object());
    node.stop();
}
