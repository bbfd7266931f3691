//! The outcome of transactions, by our own method.

use hearth_ledger::TransactionError;
use hearth_ledger::drop_log::{DropReason, DropTable};
use hearth_rpc::Limits;
use serde_json::{Value, json};

use crate::common::*;

fn fate(chain: &Chain, signature: &str) -> Value {
    chain.call("getTransactionFate", json!([signature]))["value"].clone()
}

fn note(chain: &Chain, signature: &str, reason: DropReason, error: Option<TransactionError>) {
    let bytes: [u8; 64] = bs58::decode(signature).into_vec().unwrap().try_into().unwrap();
    let fates: &DropTable = &chain.fates;
    fates.note(fates.tag(&bytes), reason, error, 2_000);
}

#[test]
fn landed_transaction_is_found_despite_dropped_copies() {
    let chain = Chain::new();
    let bytes = chain.transfer(0, &address(20), 1_000_000);
    let signature = signature_of(&bytes);
    let unknown = fate(&chain, &signature);
    assert_eq!((&unknown["fate"], &unknown["drop"]), (&json!("unknown"), &Value::Null));
    assert_eq!(unknown["window"], json!({ "capacity": 512, "kept": 0, "from": 1_000 }));
    assert!(unknown["explanation"].as_str().unwrap().contains("since the node began"), "{unknown}");
    chain.call("sendTransaction", json!([bs58::encode(&bytes).into_string()]));
    note(&chain, &signature, DropReason::PackExpired, None);
    note(&chain, &signature, DropReason::DedupDuplicate, None);
    let landed = fate(&chain, &signature);
    let of_it = ["fate", "slot", "err", "confirmationStatus", "hint"].map(|key| landed[key].clone());
    assert_eq!(of_it, [json!("landed"), json!(1), Value::Null, json!("processed"), Value::Null]);
    assert_eq!(landed["explanation"], "It landed in slot 1 (processed).");
    assert_eq!(landed["duplicates"], json!({ "count": 1, "lastCounter": "dedup_dropped_duplicate" }));
    let failing = chain.transfer(1, &address(20), RICH);
    let options = json!({ "encoding": "base64", "skipPreflight": true });
    chain.call("sendTransaction", json!([base64(&failing), options]));
    let failed = fate(&chain, &signature_of(&failing));
    assert_eq!(
        (&failed["fate"], &failed["err"]),
        (&json!("landed"), &json!({ "InstructionError": [0, { "Custom": 1 }] }))
    );
    assert!(failed["explanation"].as_str().unwrap().contains("failed; the fee was paid"), "{failed}");
}

#[test]
fn a_drop_is_reported_with_its_counter_reason_and_hint() {
    let chain = Chain::new();
    let signature = signature_of(&chain.transfer(0, &address(20), 7));
    note(&chain, &signature, DropReason::BankOther, Some(TransactionError::InvalidAccountForFee));
    note(&chain, &signature, DropReason::VerifyDuplicate, None);
    let answer = fate(&chain, &signature);
    assert_eq!(answer["fate"], "dropped");
    let drop = json!({
        "tile": "bank",
        "counter": "bank_dropped_other",
        "reason": DropReason::BankOther.text(),
        "err": "InvalidAccountForFee",
        "unixTimestamp": 2_000,
    });
    assert_eq!((&answer["drop"], &answer["hint"]), (&drop, &json!(DropReason::BankOther.hint())));
    assert_eq!(answer["duplicates"]["count"], 1);
}

/// Refusals by the RPC are reported like drops by a tile, and a transaction sent in vain is not resent.
#[test]
fn refusals_of_the_rpc_are_reported() {
    let chain = Chain::new();
    let send = |bytes: &[u8], skip: bool| {
        chain.ask("sendTransaction", json!([base64(bytes), { "encoding": "base64", "skipPreflight": skip }]))
    };
    let of = |bytes: &[u8]| {
        let answer = fate(&chain, &signature_of(bytes));
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (text(&answer["fate"]), text(&answer["drop"]["counter"]), text(&answer["explanation"]))
    };
    let failing = chain.transfer(1, &address(20), RICH);
    assert!(send(&failing, false)["error"].is_object());
    let (name, counter, said) = of(&failing);
    assert_eq!((&*name, &*counter), ("dropped", "rpc_preflight_refused"));
    assert!(said.contains("the RPC refused it (preflight_refused)") && said.contains("Instruction 0: "), "{said}");
    assert!(said.ends_with('.'), "{said}");
    let mut forged = chain.transfer(1, &address(20), 5);
    forged[9] ^= 1;
    assert!(send(&forged, false)["error"].is_object());
    assert!(of(&forged).2.contains("A signature is not that of its signer"));
    chain.full.store(true, std::sync::atomic::Ordering::Relaxed);
    let late = chain.transfer(1, &address(20), 1_000_000);
    assert!(send(&late, false)["error"].is_object());
    assert_eq!(of(&late).1, "rpc_refused_busy");
    chain.full.store(false, std::sync::atomic::Ordering::Relaxed);

    // Between two blocks nothing can be simulated.
    let early = chain.transfer(2, &address(20), 1_000_000);
    chain.ledger.end_slot(1, [1; 32]).unwrap();
    assert!(send(&early, false)["error"].is_object());
    let (name, _, said) = of(&early);
    assert!(name == "dropped" && said.contains("The node was not well"), "{said}");
    chain.ledger.begin_slot(2, 1).unwrap();

    // A dropped transaction is pending while it is resent, and dropped afterwards.
    let waiting = chain.transfer(31, &address(20), 1_000_000);
    send(&waiting, true);
    note(&chain, &signature_of(&waiting), DropReason::PackPoolFull, None);
    let (name, counter, said) = of(&waiting);
    assert_eq!((&*name, &*counter), ("pending", "pack_dropped_pool_full"));
    assert!(said.starts_with("pack dropped it") && said.contains("is resent"), "{said}");

    // Without a preflight it is sent on.
    send(&forged, true);
    assert_eq!(of(&forged).0, "pending");
    let signature = signature_of(&forged);
    note(&chain, &signature, DropReason::VerifySignature, None);
    assert!(!of(&forged).2.contains("is resent"), "{:?}", of(&forged));
    send(&failing, true);
    assert_eq!(of(&failing).0, "landed");
}

#[test]
fn forgotten_drops_are_reported_as_forgotten() {
    let chain = Chain::new();
    for n in 0..2_000u32 {
        let signature: Vec<u8> = (0..16).flat_map(|_| n.to_le_bytes()).collect();
        note(&chain, &bs58::encode(signature).into_string(), DropReason::PackEvicted, None);
    }
    let unknown = fate(&chain, &signature_of(&chain.transfer(0, &address(20), 7)));
    assert_eq!(unknown["window"]["from"], 2_001);
    assert!(unknown["explanation"].as_str().unwrap().contains("only the last 512 are kept"), "{unknown}");
    assert!(chain.error("getTransactionFate", json!(["abc"])).0 == -32602);
    assert!(chain.error("getTransactionFate", json!([])).0 == -32602);
    let without = Chain::with(Limits::default(), false);
    let answer = fate(&without, &signature_of(&without.transfer(0, &address(20), 7)));
    assert!(answer["explanation"].as_str().unwrap().contains("rpc.transaction_history"), "{answer}");
}
