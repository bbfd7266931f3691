//! Subscriptions to landed transactions: logs, program accounts, votes, and the stages of a slot.

use hearth_wire::Pubkey;
use hearth_wire::base58::decode_32;
use hearth_wire::message::Instruction;
use hearth_wire::program::system;
use serde_json::{Value, json};

use crate::common::client::Client;
use crate::common::*;

const SYSTEM: &str = "11111111111111111111111111111111";

fn send(chain: &Chain, bytes: &[u8]) -> String {
    let params = json!([base64(bytes), { "encoding": "base64", "skipPreflight": true }]);
    chain.call("sendTransaction", params).as_str().unwrap().to_owned()
}

#[test]
fn logs_reach_their_subscribers() {
    let chain = Chain::new();
    let mut client = Client::new(&chain);
    let processed = json!({ "commitment": "processed" });
    let all = client.call("logsSubscribe", json!(["all", processed]));
    let mut other = Client::new(&chain);
    let named = other.call("logsSubscribe", json!([{ "mentions": [text(&address(21))] }, processed]));
    let signature = send(&chain, &chain.transfer(0, &address(20), 1_000_000));
    let notification = client.notified("logsNotification", &all);
    let logs = json!([format!("Program {SYSTEM} invoke [1]"), format!("Program {SYSTEM} success")]);
    let value = json!({ "signature": signature, "err": null, "logs": logs });
    assert_eq!(notification, json!({ "context": { "slot": 1 }, "value": value }));
    let failed = send(&chain, &chain.transfer(1, &address(21), RICH));
    for (client, id) in [(&mut client, &all), (&mut other, &named)] {
        let notification = client.notified("logsNotification", id);
        assert_eq!(notification["value"]["signature"], failed);
        assert_eq!(notification["value"]["err"], json!({ "InstructionError": [0, { "Custom": 1 }] }));
    }
    assert!(other.hears_nothing());
    // Nobody subscribes any more, so the banks publish nothing.
    assert_eq!(client.call("logsUnsubscribe", json!([all])), true);
    assert!(chain.ledger.tap().wanted().logs);
    assert_eq!(other.call("logsUnsubscribe", json!([named])), true);
    assert!(!chain.ledger.tap().wanted().any());
}

#[test]
fn logs_are_held_back_until_they_are_sure() {
    let chain = Chain::new();
    let mut client = Client::new(&chain);
    let confirmed = client.call("logsSubscribe", json!(["all", { "commitment": "confirmed" }]));
    let mut late = Client::new(&chain);
    let finalized = late.call("logsSubscribe", json!(["allWithVotes"]));
    let signature = send(&chain, &chain.transfer(0, &address(20), 1_000_000));
    chain.next_slot();
    assert!(client.hears_nothing());
    chain.ledger.mark_stored(1);
    let notification = client.notified("logsNotification", &confirmed);
    assert_eq!((&notification["context"]["slot"], &notification["value"]["signature"]), (&json!(1), &json!(signature)));
    chain.durable_slots(31);
    assert!(late.hears_nothing());
    chain.durable_slots(1);
    assert_eq!(late.notified("logsNotification", &finalized)["value"]["signature"], signature);
}

#[test]
fn accounts_of_a_program_are_reported_at_their_commitment() {
    let chain = Chain::new();
    let mut client = Client::new(&chain);
    let system = json!(SYSTEM);
    let options = json!({ "commitment": "processed", "encoding": "base64", "filters": [{ "dataSize": 0 }] });
    let id = client.call("programSubscribe", json!([system, options]));
    let mut late = Client::new(&chain);
    let sure = late.call("programSubscribe", json!([system, { "commitment": "confirmed", "encoding": "base64" }]));
    let mut none = Client::new(&chain);
    none.call("programSubscribe", json!([system, { "commitment": "processed", "filters": [{ "dataSize": 1 }] }]));
    send(&chain, &chain.transfer(0, &address(20), 1_000_000));
    let mut notification: Vec<(Value, Value)> = (0..2)
        .map(|_| {
            let notification = client.notified("programNotification", &id);
            assert_eq!(notification["context"]["slot"], 1);
            (notification["value"]["pubkey"].clone(), notification["value"]["account"]["lamports"].clone())
        })
        .collect();
    let mut expected =
        vec![(json!(text(&address(0))), json!(RICH - 1_005_000)), (json!(text(&address(20))), json!(1_000_000))];
    notification.sort_by_key(|(key, _)| key.to_string());
    expected.sort_by_key(|(key, _)| key.to_string());
    assert_eq!(notification, expected);
    // For each slot, only the state at its end.
    send(&chain, &chain.transfer(0, &address(20), 2_000_000));
    assert!(late.hears_nothing() && none.hears_nothing());
    chain.next_slot();
    chain.ledger.mark_stored(1);
    let held: Vec<Value> =
        (0..2).map(|_| late.notified("programNotification", &sure)["value"]["account"]["lamports"].clone()).collect();
    assert!(held.contains(&json!(3_000_000)) && held.contains(&json!(RICH - 3_010_000)), "{held:?}");
    assert!(late.hears_nothing());
    assert_eq!(late.call("programUnsubscribe", json!([sure])), true);
}

#[test]
fn each_step_of_a_slot_is_reported() {
    let chain = Chain::new();
    let mut client = Client::new(&chain);
    let id = client.call("slotsUpdatesSubscribe", json!([]));
    send(&chain, &chain.transfer(0, &address(20), 1_000_000));
    chain.durable_slots(1);
    let mut notification = vec![];
    while notification.len() < 5 {
        let update = client.notified("slotsUpdatesNotification", &id);
        assert!(update["timestamp"].as_u64().unwrap() > 1_600_000_000_000);
        if update["type"] == "frozen" {
            assert_eq!(update["stats"]["numSuccessfulTransactions"], 1);
        }
        if update["type"] == "createdBank" {
            assert_eq!((&update["slot"], &update["parent"]), (&json!(2), &json!(1)));
        }
        notification.push((update["type"].as_str().unwrap().to_owned(), update["slot"].as_u64().unwrap()));
    }
    notification.sort();
    let expected =
        [("completed", 1), ("createdBank", 2), ("firstShredReceived", 2), ("frozen", 1), ("optimisticConfirmation", 1)];
    assert_eq!(notification, expected.map(|(kind, slot)| (kind.to_owned(), slot)));
    chain.durable_slots(32);
    let roots = || client.notified("slotsUpdatesNotification", &id);
    assert!(std::iter::repeat_with(roots).take(200).any(|update| update["type"] == "root" && update["slot"] == 1));
    assert_eq!(client.call("slotsUpdatesUnsubscribe", json!([id])), true);
}

#[test]
fn wrong_filters_are_refused_and_unsubscribing_is_by_kind() {
    let chain = Chain::new();
    let mut client = Client::new(&chain);
    let key = text(&address(0));
    let cases = [
        ("logsSubscribe", json!([])),
        ("logsSubscribe", json!(["none"])),
        ("logsSubscribe", json!([7])),
        ("logsSubscribe", json!([{ "mentions": [] }])),
        ("logsSubscribe", json!([{ "mentions": [key, key] }])),
        ("logsSubscribe", json!([{ "mentions": ["abc"] }])),
        ("logsSubscribe", json!([{ "mentions": key }])),
        ("logsSubscribe", json!(["all", { "commitment": "recent" }])),
        ("programSubscribe", json!([])),
        ("programSubscribe", json!(["abc"])),
        ("programSubscribe", json!([key, { "filters": [1] }])),
        ("programSubscribe", json!([key, { "encoding": "hex" }])),
        ("voteSubscribe", json!([1])),
        ("slotsUpdatesSubscribe", json!(["all"])),
        ("logsUnsubscribe", json!([99_999])),
        ("programUnsubscribe", json!(["x"])),
        ("voteUnsubscribe", json!([])),
    ];
    for (method, params) in cases {
        assert_eq!(client.ask(method, params.clone())["error"]["code"], -32602, "{method} {params}");
    }
    let vote = client.call("voteSubscribe", json!([]));
    assert!(chain.ledger.tap().wanted().votes);
    assert_eq!(client.ask("logsUnsubscribe", json!([vote]))["error"]["code"], -32602);
    assert_eq!(client.call("voteUnsubscribe", json!([vote])), true);
    assert_eq!(client.call("getVersion", json!([]))["solana-core"], "4.2.2");
    for method in ["blockUnsubscribe", "unicornSubscribe", "Unsubscribe"] {
        assert_eq!(client.ask(method, json!([1]))["error"]["code"], -32601, "{method}");
    }
}

/// A tower sync of one slot, as the vote program reads it.
fn vote(account: Pubkey) -> Instruction {
    use solana_vote_interface::instruction::VoteInstruction;
    use solana_vote_interface::state::{Lockout, TowerSync};
    let sync = TowerSync {
        lockouts: [Lockout::new_with_confirmation_count(7, 1)].into(),
        root: None,
        hash: [8; 32].into(),
        timestamp: Some(1_700_000_000),
        block_id: [9; 32].into(),
    };
    let data = bincode::serialize(&VoteInstruction::TowerSync(sync)).unwrap();
    let program_id = decode_32("Vote111111111111111111111111111111111111111").unwrap();
    let accounts = vec![hearth_wire::message::AccountMeta { pubkey: account, is_signer: false, is_writable: true }];
    Instruction { program_id, accounts, data }
}

#[test]
fn votes_are_reported_as_they_land() {
    let chain = Chain::new();
    let mut client = Client::new(&chain);
    let id = client.call("voteSubscribe", json!([]));
    let bytes = signed(0, &[vote([0x77; 32])], &chain.blockhash());
    let landed = |wire: &[u8], is_vote| hearth_ledger::notifier::LandedTransaction {
        slot: 1,
        wire: wire.into(),
        loaded: vec![],
        err: None,
        logs: vec![],
        is_vote,
    };
    let transfer = chain.transfer(0, &address(20), 1_000_000);
    let notification = [landed(&transfer, false), landed(&bytes, true)];
    // As a bank that runs the vote program would.
    chain.ledger.tap().add(notification.into_iter(), std::iter::empty());
    let expected = json!({
        "votePubkey": text(&[0x77; 32]),
        "slots": [7],
        "hash": text(&[8; 32]),
        "timestamp": 1_700_000_000,
        "signature": signature_of(&bytes),
    });
    assert_eq!(client.notified("voteNotification", &id), expected);
    assert!(hearth_ledger::notifier::is_vote(&hearth_wire::Txn::parse(&bytes).unwrap()));
    assert!(!hearth_ledger::notifier::is_vote(&hearth_wire::Txn::parse(&transfer).unwrap()));
    let two = [vote([0x77; 32]), system::transfer(&address(0), &address(1), 1)];
    let two = signed(0, &two, &chain.blockhash());
    assert!(!hearth_ledger::notifier::is_vote(&hearth_wire::Txn::parse(&two).unwrap()));
}
