//! Sending, simulating, airdrops, and the statuses of transactions.

use hearth_rpc::Limits;
use hearth_testkit::wait_until;
use hearth_wire::consts::VOTE_PROGRAM;
use hearth_wire::message::{Instruction, Message};
use hearth_wire::program::compute_budget::ComputeBudgetInstruction::{SetComputeUnitLimit, SetComputeUnitPrice};
use hearth_wire::program::system;
use hearth_wire::{Hash, Txn};
use serde_json::{Value, json};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::common::*;

fn in_base64(bytes: &[u8], options: Value) -> Value {
    let mut options = options;
    options["encoding"] = "base64".into();
    json!([base64(bytes), options])
}

fn status(chain: &Chain, signature: &str) -> Value {
    chain.call("getSignatureStatuses", json!([[signature]]))["value"][0].clone()
}

fn balance(chain: &Chain, of: usize, commitment: &str) -> u64 {
    let answer = chain.call("getBalance", json!([text(&address(of)), { "commitment": commitment }]));
    answer["value"].as_u64().unwrap()
}

#[test]
fn a_transfer_lands_and_its_status_grows_surer() {
    let chain = Chain::new();
    let bytes = chain.transfer(0, &address(20), 1_000_000);
    let signature = signature_of(&bytes);
    assert_eq!(status(&chain, &signature), Value::Null);
    // Base58 is the default encoding.
    let sent = chain.call("sendTransaction", json!([bs58::encode(&bytes).into_string()]));
    assert_eq!(sent, signature);
    assert_eq!(balance(&chain, 20, "processed"), 1_000_000);
    assert_eq!(balance(&chain, 0, "processed"), RICH - 1_000_000 - 5_000);
    assert_eq!([balance(&chain, 20, "confirmed"), balance(&chain, 20, "finalized")], [0, 0]);
    let processed = json!({
        "slot": 1, "confirmations": 0, "err": null, "status": { "Ok": null }, "confirmationStatus": "processed",
    });
    assert_eq!(status(&chain, &signature), processed);
    chain.durable_slots(1);
    let confirmed = status(&chain, &signature);
    assert_eq!((&confirmed["confirmationStatus"], &confirmed["confirmations"]), (&json!("confirmed"), &json!(1)));
    assert_eq!([balance(&chain, 20, "confirmed"), balance(&chain, 20, "finalized")], [1_000_000, 0]);
    chain.durable_slots(32);
    let finalized = status(&chain, &signature);
    assert_eq!((&finalized["confirmationStatus"], &finalized["confirmations"]), (&json!("finalized"), &Value::Null));
    assert_eq!(balance(&chain, 20, "finalized"), 1_000_000);
    // A duplicate is recognized.
    let (code, message, data) = chain.error("sendTransaction", in_base64(&bytes, json!({})));
    assert!(code == -32002 && message.contains("already been processed"), "{message}");
    assert_eq!(data["err"], "AlreadyProcessed");
    assert_eq!((chain.counted(|c| c.transactions_in()), chain.counted(|c| c.preflight_refused())), (1, 1));
    assert_eq!(chain.taken.lock().concat(), bytes);
}

#[test]
fn an_overdrawn_transfer_is_refused_with_what_became_of_it() {
    let chain = Chain::new();
    let bytes = chain.transfer(0, &address(20), RICH);
    let (code, message, data) = chain.error("sendTransaction", in_base64(&bytes, json!({})));
    let expected = "Transaction simulation failed: Error processing Instruction 0: custom program error: 0x1";
    assert_eq!((code, &message[..]), (-32002, expected));
    assert_eq!(data["err"], json!({ "InstructionError": [0, { "Custom": 1 }] }));
    // The engine that runs programs would fill these; here there is none.
    assert!(data["logs"].is_array());
    assert_eq!((&data["unitsConsumed"], &data["accounts"]), (&json!(150), &Value::Null));
    assert!(chain.taken.lock().is_empty());
    // Without a preflight it lands and fails.
    let signature = chain.call("sendTransaction", in_base64(&bytes, json!({ "skipPreflight": true })));
    let landed = status(&chain, signature.as_str().unwrap());
    assert_eq!(landed["err"], json!({ "InstructionError": [0, { "Custom": 1 }] }));
    assert_eq!(landed["status"], json!({ "Err": { "InstructionError": [0, { "Custom": 1 }] } }));
    assert_eq!(balance(&chain, 0, "processed"), RICH - 5_000);
}

#[test]
fn unlandable_transaction_is_refused_with_the_reason() {
    let chain = Chain::new();
    let old = signed(0, &[system::transfer(&address(0), &address(1), 1)], &[9; 32]);
    let poor = chain.transfer(99, &address(1), 1);
    let dust = chain.transfer(0, &address(99), 1);
    let call = |program_id| {
        let instructions = [
            system::transfer(&address(0), &address(1), 1),
            Instruction { program_id, accounts: vec![], data: vec![1] },
        ];
        signed(0, &instructions, &chain.blockhash())
    };
    let cases = [
        (old, "Blockhash not found", json!("BlockhashNotFound")),
        (poor, "no record of a prior credit", json!("AccountNotFound")),
        (dust, "insufficient funds for rent", json!({ "InsufficientFundsForRent": { "account_index": 1 } })),
        (call(VOTE_PROGRAM), "does not run that program", json!({ "InstructionError": [1, "UnsupportedProgramId"] })),
    ];
    for (bytes, what, err) in cases {
        let (code, message, data) = chain.error("sendTransaction", in_base64(&bytes, json!({})));
        assert!(code == -32002 && message.contains(what), "{message}");
        assert_eq!(data["err"], err, "{message}");
    }
    assert!(chain.taken.lock().is_empty());
}

#[test]
fn a_wrong_signature_is_refused() {
    let chain = Chain::new();
    let mut bytes = chain.transfer(0, &address(1), 1);
    bytes[5] ^= 1;
    let (code, message, data) = chain.error("sendTransaction", in_base64(&bytes, json!({})));
    let expected = "Transaction simulation failed: Transaction did not pass signature verification";
    assert_eq!((code, &message[..], &data["err"]), (-32002, expected, &json!("SignatureFailure")));
    let simulate = |options| in_base64(&bytes, options);
    let verified = chain.call("simulateTransaction", simulate(json!({ "sigVerify": true })));
    assert_eq!(verified["value"]["err"], "SignatureFailure");
    assert_eq!(chain.call("simulateTransaction", simulate(json!({})))["value"]["err"], Value::Null);
}

#[test]
fn malformed_transaction_gets_the_reason() {
    let chain = Chain::new();
    let cases = [
        (json!(["0"]), "not base58"),
        (json!(["!", { "encoding": "base64" }]), "not base64"),
        (json!(["", { "encoding": "base64" }]), "not a transaction"),
        (json!([base64(&[1; 200]), { "encoding": "base64" }]), "not a transaction"),
        (json!(["1".repeat(1_684)]), "1684 characters"),
        (json!(["A".repeat(1_648), { "encoding": "base64" }]), "1648 characters"),
        (json!(["1", { "encoding": "hex" }]), "\"hex\" is none of"),
        (json!(["1", { "skipPreflight": 1 }]), "skipPreflight: expected true or false, found 1"),
        (json!(["1", { "maxRetries": "many" }]), "maxRetries"),
        (json!(["1", { "preflightCommitment": "recent" }]), "preflightCommitment"),
    ];
    for (params, what) in cases {
        let (code, message, _) = chain.error("sendTransaction", params);
        assert!(code == -32602 && message.contains(what), "{message}");
    }
}

#[test]
fn a_full_pipeline_is_reported_and_counted() {
    let chain = Chain::new();
    chain.full.store(true, std::sync::atomic::Ordering::Relaxed);
    let bytes = chain.transfer(0, &address(1), 1);
    let (code, message, data) = chain.error("sendTransaction", in_base64(&bytes, json!({})));
    assert_eq!((code, message.as_str()), (-32005, "Node is unhealthy"));
    assert!(data["reason"].as_str().is_some_and(|reason| reason.contains("try again")), "{data}");
    assert_eq!((chain.counted(|c| c.refused_busy()), chain.counted(|c| c.transactions_in())), (1, 0));
    chain.full.store(false, std::sync::atomic::Ordering::Relaxed);
    chain.call("sendTransaction", in_base64(&bytes, json!({ "maxRetries": 3, "minContextSlot": 1 })));
    assert_eq!(chain.counted(|c| c.transactions_in()), 1);
}

#[test]
fn simulation_changes_nothing() {
    let chain = Chain::new();
    chain.durable_slots(2);
    let bytes = chain.transfer(0, &address(20), 1_000_000);
    let simulate =
        |bytes: &[u8], options| chain.call("simulateTransaction", in_base64(bytes, options))["value"].clone();
    let value = simulate(&bytes, json!({ "sigVerify": true, "innerInstructions": true }));
    assert_eq!((&value["err"], &value["unitsConsumed"], &value["fee"]), (&Value::Null, &json!(150), &json!(5_000)));
    assert_eq!((&value["innerInstructions"], &value["accounts"]), (&json!([]), &Value::Null));
    assert_eq!(value["logs"][1], "Program 11111111111111111111111111111111 success");
    assert_eq!(value["loadedAddresses"], json!({ "writable": [], "readonly": [] }));
    assert_eq!(value["preBalances"], json!([RICH, 0, 1]));
    assert_eq!(value["postBalances"], json!([RICH - 1_005_000, 1_000_000, 1]));
    assert_eq!((&value["preTokenBalances"], &value["returnData"]), (&json!([]), &Value::Null));
    assert_eq!(chain.ledger.balance(&address(20)), 0);
    // Accounts in their state after the simulation, and unrelated ones unchanged.
    let wanted = [0, 20, 3].map(|n| text(&address(n)));
    let accounts = simulate(&bytes, json!({ "accounts": { "addresses": wanted } }))["accounts"].clone();
    let lamports: Vec<&Value> = accounts.as_array().unwrap().iter().map(|account| &account["lamports"]).collect();
    assert_eq!(lamports, [&json!(RICH - 1_005_000), &json!(1_000_000), &json!(RICH)]);
    let failing = chain.transfer(0, &address(20), RICH);
    let accounts = simulate(&failing, json!({ "accounts": { "addresses": wanted } }))["accounts"].clone();
    assert_eq!(accounts, json!([null, null, null]));
    // An expired blockhash is replaced.
    let old = signed(0, &[system::transfer(&address(0), &address(1), 1)], &[9; 32]);
    assert_eq!(simulate(&old, json!({}))["err"], "BlockhashNotFound");
    let replaced = simulate(&old, json!({ "replaceRecentBlockhash": true, "commitment": "processed" }));
    assert_eq!(replaced["err"], Value::Null);
    let replacement = json!({ "blockhash": text(&chain.blockhash()), "lastValidBlockHeight": 3 + 150 });
    assert_eq!(replaced["replacementBlockhash"], replacement);
    for (options, what) in [
        (json!({ "replaceRecentBlockhash": true, "sigVerify": true }), "sigVerify may not be used"),
        (json!({ "accounts": {} }), "accounts: needs addresses"),
        (json!({ "accounts": { "addresses": [], "encoding": "base58" } }), "base58 encoding not supported"),
        (json!({ "accounts": { "addresses": vec![text(&address(0)); 4] } }), "Too many accounts provided; max 3"),
        (json!({ "accounts": { "addresses": ["abc"] } }), "accounts: addresses, element 0"),
    ] {
        let (code, message, _) = chain.error("simulateTransaction", in_base64(&bytes, options));
        assert!(code == -32602 && message.contains(what), "{message}");
    }
}

#[test]
fn equal_airdrops_are_distinct() {
    let chain = Chain::new();
    let ask = || chain.call("requestAirdrop", json!([text(&address(30)), 2_000_000]));
    let signatures = [ask(), ask(), ask()];
    assert!(signatures[0] != signatures[1] && signatures[1] != signatures[2] && signatures[0] != signatures[2]);
    assert_eq!(chain.ledger.balance(&address(30)), 6_000_000);
    for signature in &signatures {
        assert_eq!(status(&chain, signature.as_str().unwrap())["err"], Value::Null);
    }
    let faucet_had = 500_000_000 * 1_000_000_000;
    assert_eq!(chain.ledger.balance(&address(1_000)), faucet_had - 6_000_000 - 3 * 5_000);
    assert_eq!((chain.counted(|c| c.airdrops()), chain.counted(|c| c.transactions_in())), (3, 3));
    // It refuses an amount that it does not have.
    let (code, message, _) = chain.error("requestAirdrop", json!([text(&address(31)), 1]));
    assert!(code == -32603 && message.contains("rent"), "{message}");
    assert_eq!(chain.error("requestAirdrop", json!([text(&address(31)), u64::MAX])).0, -32603);
    assert_eq!(chain.error("requestAirdrop", json!([text(&address(1_000)), 5])).0, -32603);
    assert_eq!(chain.error("requestAirdrop", json!([text(&address(31)), -1])).0, -32602);
    let named = json!([text(&address(31)), 2_000_000, { "recentBlockhash": text(&[5; 32]) }]);
    assert!(chain.error("requestAirdrop", named).1.contains("Blockhash not found"));
    assert_eq!(chain.counted(|c| c.airdrops()), 3);
}

#[test]
fn a_node_without_the_chains_faucet_says_who_has_it() {
    let chain = Chain::of_another_faucet(address(700));
    // Its own faucet has received lamports, and gives that much.
    chain.call("requestAirdrop", json!([text(&address(30)), 2_000_000]));
    let (code, message, _) = chain.error("requestAirdrop", json!([text(&address(30)), u64::MAX]));
    assert_eq!(code, -32603);
    for part in [
        "does not hold the key of the chain's faucet",
        &text(&address(700)),
        "another node began the chain",
        &text(&address(FAUCET)),
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert!(!message.contains("--faucet-sol"), "{message}");
    let begun_here = Chain::new().error("requestAirdrop", json!([text(&address(30)), u64::MAX])).1;
    assert!(begun_here.contains("--faucet-sol"), "{begun_here}");
}

#[test]
fn fees_are_known_before_signing() {
    let chain = Chain::new();
    let fee = |instructions: &[Instruction], blockhash: &Hash| {
        let message = Message::compile(&address(0), instructions, blockhash).unwrap();
        chain.call("getFeeForMessage", json!([base64(message.bytes())]))["value"].clone()
    };
    let transfer = system::transfer(&address(0), &address(1), 1);
    assert_eq!(fee(std::slice::from_ref(&transfer), &chain.blockhash()), 5_000);
    let priority = [SetComputeUnitLimit(1_000).instruction(), SetComputeUnitPrice(1_000_000).instruction()];
    assert_eq!(fee(&[priority[0].clone(), priority[1].clone(), transfer.clone()], &chain.blockhash()), 6_000);
    let two = system::transfer(&address(5), &address(1), 1);
    assert_eq!(fee(&[transfer.clone(), two], &chain.blockhash()), 10_000);
    assert_eq!(fee(std::slice::from_ref(&transfer), &[9; 32]), Value::Null);
    // The blockhash of a block below the commitment is unknown.
    chain.durable_slots(1);
    let message = Message::compile(&address(0), &[transfer], &chain.blockhash()).unwrap();
    let at = |level: &str| chain.call("getFeeForMessage", json!([base64(message.bytes()), { "commitment": level }]));
    assert_eq!(
        ["processed", "confirmed", "finalized"].map(|level| at(level)["value"].clone()),
        [json!(5_000), json!(5_000), Value::Null]
    );
    assert_eq!((&at("processed")["context"]["slot"], &at("finalized")["context"]["slot"]), (&json!(2), &json!(0)));
    for message in [&[][..], &[0x80], &[1, 0, 0], &[0xff; 40], &[0x7f; 1_300]] {
        let (code, text, _) = chain.error("getFeeForMessage", json!([base64(message)]));
        assert!(code == -32602 && text.contains("not a message"), "{message:?}: {text}");
    }
}

#[test]
fn statuses_have_bounds_and_may_be_off() {
    let chain = Chain::new();
    let one = "1".repeat(64);
    let found = chain.call("getSignatureStatuses", json!([[one, one], { "searchTransactionHistory": true }]));
    assert_eq!(found["value"], json!([null, null]));
    let (code, message, _) = chain.error("getSignatureStatuses", json!([vec![&one; 257]]));
    assert_eq!((code, message.as_str()), (-32602, "Too many inputs provided; max 256"));
    let (code, message, _) = chain.error("getSignatureStatuses", json!([[one, "abc"]]));
    assert!(code == -32602 && message.contains("element 1"), "{message}");
    let off = Chain::with(Limits::default(), false);
    let (code, message, _) = off.error("getSignatureStatuses", json!([[one]]));
    assert!(code == -32011 && message.contains("transaction_history"), "{message}");
}

#[test]
fn without_a_slot_in_the_making_the_node_is_unhealthy() {
    let chain = Chain::new();
    let bytes = chain.transfer(0, &address(1), 1);
    assert_eq!(Txn::parse(&bytes).unwrap().recent_blockhash(), chain.ledger.genesis_hash());
    chain.ledger.end_slot(1, [1; 32]).unwrap();
    let (code, message, data) = chain.error("sendTransaction", in_base64(&bytes, json!({})));
    assert_eq!((code, &message[..]), (-32005, "Node is unhealthy"));
    assert!(data["reason"].as_str().is_some_and(|reason| reason.contains("no block")), "{data}");
    assert_eq!(
        chain.call("getBalance", json!([text(&address(1)), { "commitment": "processed" }]))["context"]["slot"],
        1
    );
    chain.ledger.begin_slot(2, 1).unwrap();
    chain.call("sendTransaction", in_base64(&bytes, json!({})));
}

#[test]
fn transaction_is_resent_until_its_block_is_confirmed() {
    let limits = Limits { resend_every: Duration::from_millis(40), resend_queue: 2, ..Limits::default() };
    let chain = Chain::with(limits, true);
    let unsure = json!({ "skipPreflight": true });
    // The payer has no lamports yet.
    let bytes = chain.transfer(30, &address(31), 1_000_000);
    let signature = chain.call("sendTransaction", in_base64(&bytes, unsure.clone()));
    assert_eq!(status(&chain, signature.as_str().unwrap()), Value::Null);
    wait_until("two are sent again", || chain.counted(|c| c.resent()) >= 2);
    chain.call("sendTransaction", in_base64(&chain.transfer(0, &address(30), 100_000_000), json!({})));
    wait_until("it lands", || status(&chain, signature.as_str().unwrap()).is_object());
    assert!(status(&chain, signature.as_str().unwrap())["err"].is_null());
    // Both are kept while their block may be abandoned for another.
    assert_eq!(chain.counted(|c| c.resend_waiting()), 2);
    chain.durable_slots(2);
    wait_until("none waits", || chain.counted(|c| c.resend_waiting()) == 0);
    assert_eq!(chain.again.load(Relaxed), chain.counted(|c| c.resent()));
    assert_eq!(chain.counted(|c| c.resend_given_up()), 0);
    // As often as the client says, or never.
    for retries in [0, 3] {
        let before = chain.counted(|c| c.resent());
        let bytes = chain.transfer(32, &address(31), 1_000_000 + retries);
        let options = json!({ "skipPreflight": true, "maxRetries": retries });
        chain.call("sendTransaction", in_base64(&bytes, options));
        wait_until("none waits", || chain.counted(|c| c.resend_waiting()) == 0);
        assert_eq!(chain.counted(|c| c.resent()) - before, retries);
    }
    assert_eq!(chain.counted(|c| c.resend_given_up()), 1);
    // Transactions beyond the queue's capacity are sent once; an expired blockhash ends the resends.
    let given_up = chain.counted(|c| c.resend_given_up());
    for lamports in 0..3 {
        let bytes = chain.transfer(32, &address(31), 2_000_000 + lamports);
        chain.call("sendTransaction", in_base64(&bytes, unsure.clone()));
    }
    assert_eq!(chain.counted(|c| c.resend_refused()), 1);
    chain.durable_slots(152);
    // Each expiry is counted at once, the waiting ones once a pass.
    wait_until("none waits", || chain.counted(|c| c.resend_waiting()) == 0);
    assert_eq!(chain.counted(|c| c.resend_given_up()), given_up + 2);
}
