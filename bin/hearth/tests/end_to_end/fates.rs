//! No transaction vanishes: RPC and the command line report the fate of every transaction sent.

use bs58::encode;
use serde_json::{Value, json};

use super::client::signature_of;
use super::node::{Rpc, Setup};

const BLOCKHASH: [&str; 2] = ["pack_dropped_expired", "bank_dropped_blockhash_not_found"];

fn fate(rpc: &Rpc, signature: &[u8]) -> Value {
    rpc.call("getTransactionFate", json!([encode(signature).into_string()]))["value"].clone()
}

/// Runs `hearth why`; returns its exit code and output.
fn why(setup: &Setup, signature: &[u8]) -> (Option<i32>, String) {
    let output = setup.output("why", &[&encode(signature).into_string()]);
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The signature in bytes that may be no transaction.
fn signature_in(bytes: &[u8]) -> Option<&[u8]> {
    if bytes.first() == Some(&1) { bytes.get(1..65) } else { None }
}

/// Checks the reported fates: dropped and counted; landed, with the number of dropped duplicates; landed and failed.
pub fn are_told(
    setup: &Setup,
    rpc: &Rpc,
    dropped: &[(&str, Vec<Vec<u8>>)],
    (landed, copies): (&[u8], u64),
    failed: &[u8],
) {
    drops_are_reported(setup, rpc, dropped);
    landed_in_spite_of_copies(setup, rpc, landed, copies);
    landed_with_an_error(rpc, failed);
    let (code, said) = why(setup, &signature_of(failed));
    assert!(code == Some(3) && said.trim_end().ends_with('.'), "{said}");
}

fn drops_are_reported(setup: &Setup, rpc: &Rpc, ends: &[(&str, Vec<Vec<u8>>)]) {
    for (counter, transactions) in ends {
        let signatures: Vec<&[u8]> = transactions.iter().filter_map(|bytes| signature_in(bytes)).collect();
        assert!(signatures.len() >= transactions.len() / 2, "{counter}");
        for signature in &signatures {
            let fate = fate(rpc, signature);
            let named = fate["drop"]["counter"].as_str().unwrap_or_default();
            let same = named == *counter || [named, counter].iter().all(|counter| BLOCKHASH.contains(counter));
            assert!(fate["fate"] == "dropped" && same, "{counter}: {fate}");
            assert!(fate["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{fate}");
        }
        let (code, said) = why(setup, signatures[0]);
        let named = fate(rpc, signatures[0])["drop"]["counter"].as_str().unwrap_or_default().to_owned();
        assert!(code == Some(4) && said.starts_with("dropped: ") && said.contains(&named), "{counter}: {said}");
    }
    let (code, said) = why(setup, &[1; 64]);
    assert!(code == Some(5) && said.starts_with("unknown: "), "{said}");
    let address = setup.output("why", &["11111111111111111111111111111111"]);
    let said = String::from_utf8_lossy(&address.stderr).into_owned();
    assert!(address.status.code() == Some(2) && said.contains("is an address (32 bytes)"), "{said}");
}

/// It landed once, and `copies` of it were dropped.
fn landed_in_spite_of_copies(setup: &Setup, rpc: &Rpc, transaction: &[u8], copies: u64) {
    let signature = signature_of(transaction);
    let fate = fate(rpc, &signature);
    assert_eq!((&fate["fate"], &fate["err"], &fate["drop"]), (&json!("landed"), &Value::Null, &Value::Null), "{fate}");
    assert_eq!(fate["duplicates"]["count"], copies, "{fate}");
    let (code, said) = why(setup, &signature);
    assert!(code == Some(0) && said.starts_with("landed: It landed in slot "), "{said}");
}

/// It is in a block, and failed.
fn landed_with_an_error(rpc: &Rpc, transaction: &[u8]) {
    let fate = fate(rpc, &signature_of(transaction));
    assert_eq!((&fate["fate"], &fate["err"]), (&json!("landed"), &json!({ "InstructionError": [0, { "Custom": 1 }] })));
}
