//! Epochs, leaders, inflation, the first and the last block.

use hearth_ledger::Account;
use hearth_ledger::stakes::validator_accounts;
use hearth_wire::base58::decode_32;
use serde_json::{Value, json};

use crate::common::*;

#[test]
fn schedules_are_known_up_to_the_next_epoch() {
    let chain = Chain::new();
    let leader = text(&address(500));
    let schedule = chain.call("getLeaderSchedule", json!([]));
    let slots = schedule[&leader].as_array().unwrap();
    assert_eq!((slots.len(), &slots[0], &slots[431_999]), (432_000, &json!(0), &json!(431_999)));
    assert_eq!(schedule.as_object().unwrap().len(), 1);
    for params in [json!([{ "identity": text(&[1; 32]) }]), json!([5, { "identity": text(&[1; 32]) }])] {
        assert_eq!(chain.call("getLeaderSchedule", params), json!({}));
    }
    let own = json!([null, { "identity": leader, "commitment": "processed" }]);
    assert_eq!(chain.call("getLeaderSchedule", own)[&leader].as_array().unwrap().len(), 432_000);
    assert!(chain.call("getLeaderSchedule", json!([863_999]))[&leader].is_array());
    assert_eq!(chain.call("getLeaderSchedule", json!([864_000])), Value::Null);
    assert_eq!(chain.call("getLeaderSchedule", json!([u64::MAX])), Value::Null);
}

#[test]
fn leaders_are_listed_as_far_as_schedules_go() {
    let chain = Chain::new();
    let leader = text(&address(500));
    assert_eq!(chain.call("getSlotLeaders", json!([863_998, 2])), json!([leader, leader]));
    assert_eq!(chain.call("getSlotLeaders", json!([0, 0])), json!([]));
    for params in [json!([863_999, 2]), json!([u64::MAX, 1]), json!([u64::MAX, 5_000])] {
        let (code, message, _) = chain.error("getSlotLeaders", params);
        assert!(code == -32602 && message.contains("Invalid slot range: leader schedule for epoch"), "{message}");
    }
}

#[test]
fn block_production_follows_the_slot_history() {
    let chain = Chain::new();
    (0..5).for_each(|_| chain.next_slot());
    // Slots 0, 1, 2 and 4 have blocks; the next is 5.
    let mut history = vec![0; 131_097];
    (history[0], history[9], history[131_089]) = (1, 0b10111, 5);
    let key = decode_32("SysvarS1otHistory11111111111111111111111111").unwrap();
    let owner = decode_32("Sysvar1111111111111111111111111111111111111").unwrap();
    chain.ledger.accounts().store(&key, Account::wallet(0));
    assert_eq!(chain.error("getBlockProduction", json!([])).0, -32021);
    chain.ledger.accounts().store(&key, Account::with_data(1, owner, &history));
    let leader = text(&address(500));
    let of = |options: Value| chain.call("getBlockProduction", json!([options]))["value"].clone();
    let all = of(json!({ "commitment": "processed" }));
    let expected = json!({ "byIdentity": { &leader: [5, 4] }, "range": { "firstSlot": 0, "lastSlot": 4 } });
    assert_eq!(all, expected);
    let some = of(json!({ "range": { "firstSlot": 3, "lastSlot": 4 }, "identity": leader }));
    assert_eq!(some["byIdentity"][&leader], json!([2, 1]));
    let others = of(json!({ "range": { "firstSlot": 3, "lastSlot": 4 }, "identity": text(&[1; 32]) }));
    assert_eq!(others["byIdentity"], json!({}));
    let wrong = [
        (json!({ "range": { "firstSlot": 3, "lastSlot": 2 } }), "lastSlot, 2, cannot be less than firstSlot, 3"),
        (json!({ "range": { "firstSlot": 3, "lastSlot": 5 } }), "lastSlot, 5, is too large; max 4"),
        (json!({ "range": { "firstSlot": 0, "lastSlot": u64::MAX } }), "too large; max 4"),
        (json!({ "range": { "lastSlot": 5 } }), "needs a firstSlot"),
        (json!({ "range": [] }), "range: expected an object"),
        (json!({ "identity": "abc" }), "identity"),
    ];
    for (options, what) in wrong {
        let (code, message, _) = chain.error("getBlockProduction", json!([options]));
        assert!(code == -32602 && message.contains(what), "{code} {message}");
    }
}

#[test]
fn inflation_is_reported_and_pays_none() {
    let chain = Chain::new();
    let governor = json!({ "initial": 0.0, "terminal": 0.0, "taper": 0.0, "foundation": 0.0, "foundationTerm": 0.0 });
    assert_eq!(chain.call("getInflationGovernor", json!([{ "commitment": "confirmed" }])), governor);
    let rate = json!({ "total": 0.0, "validator": 0.0, "foundation": 0.0, "epoch": 0 });
    assert_eq!(chain.call("getInflationRate", json!([])), rate);
    // The first epoch has not ended.
    let (code, message, _) = chain.error("getInflationReward", json!([[text(&address(0))]]));
    assert_eq!((code, &message[..]), (-32004, "Block not available for slot 432000"));
    assert_eq!(chain.error("getInflationReward", json!([[], { "epoch": u64::MAX }])).0, -32004);
    assert_eq!(chain.error("getInflationReward", json!([["abc"]])).0, -32602);
    assert_eq!(chain.error("getInflationReward", json!([[], { "minContextSlot": 7 }])).0, -32016);
}

#[test]
fn the_first_and_the_last_block() {
    let chain = Chain::new();
    chain.durable_slots(3);
    assert_eq!(chain.call("getFirstAvailableBlock", json!([])), 0);
    assert_eq!(chain.call("minimumLedgerSlot", json!([])), 0);
    assert_eq!(chain.call("getMaxShredInsertSlot", json!([])), 3);
    assert_eq!(chain.call("getMaxRetransmitSlot", json!([])), 4);
    let (code, message, _) = chain.error("getHighestSnapshotSlot", json!([]));
    assert_eq!((code, &message[..]), (-32008, "No snapshot"));
    let least = chain.call("getStakeMinimumDelegation", json!([{ "commitment": "processed" }]));
    assert_eq!((&least["value"], &least["context"]["slot"]), (&json!(1_000_000_000), &json!(4)));
}

#[test]
fn voters_are_current_or_delinquent() {
    let chain = Chain::new();
    let accounts = chain.call("getVoteAccounts", json!([{ "keepUnstakedDelinquents": true }]));
    let known = chain.ledger.vote_accounts();
    let count = |kind: &str| accounts[kind].as_array().unwrap().len();
    assert_eq!(count("current") + count("delinquent"), known.len());
    for account in &known {
        let one = json!([{ "votePubkey": text(&account.key), "keepUnstakedDelinquents": true }]);
        let found = chain.call("getVoteAccounts", one);
        let all =
            [found["current"].as_array().unwrap().clone(), found["delinquent"].as_array().unwrap().clone()].concat();
        assert_eq!((all.len(), &all[0]["votePubkey"]), (1, &json!(text(&account.key))));
        assert_eq!((&all[0]["activatedStake"], &all[0]["lastVote"]), (&json!(account.activated_stake), &json!(0)));
    }
    let nobody = chain.call("getVoteAccounts", json!([{ "votePubkey": text(&[1; 32]) }]));
    assert_eq!(nobody, json!({ "current": [], "delinquent": [] }));
    let total: u64 = known.iter().map(|account| account.stake).sum();
    let commitment = chain.call("getBlockCommitment", json!([u64::MAX]));
    assert_eq!(commitment, json!({ "commitment": null, "totalStake": total }));
}

#[test]
fn voters_are_those_of_the_commitment() {
    let chain = Chain::inflating(validator_accounts(&[1; 32], &[2; 32], &[3; 32], 1 << 50).to_vec());
    (0..3).for_each(|_| chain.next_slot());
    let account = chain.ledger.vote_accounts().into_iter().next().expect("the genesis has one");
    let nodes = |commitment: &str| {
        let options = json!({ "commitment": commitment, "keepUnstakedDelinquents": true });
        let found = chain.call("getVoteAccounts", json!([options]));
        let all = ["current", "delinquent"].map(|kind| found[kind].as_array().unwrap().clone()).concat();
        all.iter().map(|voter| voter["nodePubkey"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let before = text(&account.state.node);
    assert!(nodes("processed").contains(&before) && nodes("finalized").contains(&before));
    // Another node in the slot in progress: its address comes after the version of the state.
    chain.ledger.accounts().update(&account.key, |changed| {
        let mut data = changed.data().to_vec();
        data[4..36].copy_from_slice(&[7; 32]);
        changed.set_data(&data);
    });
    assert!(nodes("processed").contains(&text(&[7; 32])));
    for commitment in ["confirmed", "finalized"] {
        let found = nodes(commitment);
        assert!(found.contains(&before) && !found.contains(&text(&[7; 32])), "{commitment}: {found:?}");
    }
}

#[test]
fn samples_and_prices() {
    let chain = Chain::new();
    chain.durable_slots(3);
    assert!(chain.call("getRecentPerformanceSamples", json!([720])).is_array());
    assert_eq!(chain.error("getRecentPerformanceSamples", json!([721])).0, -32602);
    let fees = chain.call("getRecentPrioritizationFees", json!([[text(&address(0))]]));
    assert_eq!(fees, json!([]), "no block has a transaction");
    assert_eq!(chain.error("getRecentPrioritizationFees", json!([vec![text(&address(0)); 129]])).0, -32602);
}
