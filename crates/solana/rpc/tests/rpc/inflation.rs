//! Inflation as clients see it: rates, rewards by block and by address, the supply.

use hearth_ledger::Account;
use hearth_ledger::stakes::{new_stake_account, validator_accounts};
use hearth_wire::Pubkey;
use serde_json::{Value, json};

use crate::common::*;

const VOTE: Pubkey = [8; 32];
const STAKE: Pubkey = [9; 32];
const LAMPORTS: u64 = 1_000_000_000_000_000;

fn change(account: &mut Account, at: usize, bytes: &[u8]) {
    let mut data = account.data().to_vec();
    data[at..at + bytes.len()].copy_from_slice(bytes);
    account.set_data(&data);
}

/// A chain whose only vote account takes 7.5 % and has earned 100 credits in epoch 0.
fn chain() -> Chain {
    let mut accounts = validator_accounts(&VOTE, &STAKE, &address(500), LAMPORTS);
    let vote = &mut accounts[0].1;
    change(vote, 4 + 128, &750u16.to_le_bytes());
    // One epoch's credits, after no votes, no root and one voter: the epoch, the credits at its end and at its start.
    let words: Vec<u8> = [1, 0, 100, 0u64].iter().flat_map(|word| word.to_le_bytes()).collect();
    change(vote, 4 + 128 + 12 + 49 + 8 + 1 + 8 + 40, &words);
    Chain::inflating(accounts.to_vec())
}

#[test]
fn rates_are_those_of_the_genesis() {
    let chain = chain();
    let governor =
        json!({ "initial": 0.08, "terminal": 0.015, "taper": 0.15, "foundation": 0.05, "foundationTerm": 7.0 });
    assert_eq!(chain.call("getInflationGovernor", json!([])), governor);
    let rate = chain.call("getInflationRate", json!([]));
    let of_foundation = 0.08 * 0.05;
    let expected = json!({ "total": 0.08, "validator": 0.08 - of_foundation, "foundation": of_foundation, "epoch": 0 });
    assert_eq!(rate, expected);
}

#[test]
fn rewards_are_reported_by_block_and_by_address() {
    let mut chain = chain();
    for _ in 1..32 {
        chain.recorded_slot();
    }
    let of = |chain: &Chain, keys: &[Pubkey]| {
        let keys: Vec<String> = keys.iter().map(text).collect();
        chain.ask("getInflationReward", json!([keys, { "commitment": "confirmed", "epoch": 0 }]))
    };
    let error = |answer: Value| (answer["error"]["code"].clone(), answer["error"]["data"].clone());
    assert_eq!(error(of(&chain, &[VOTE])).0, -32004);

    assert_eq!(chain.recorded_slot().slot, 32);
    let commission = chain.ledger.balance(&VOTE) - LAMPORTS;
    assert!(commission > 0);
    let of_vote = json!({
        "epoch": 0,
        "effectiveSlot": 32,
        "amount": commission,
        "postBalance": LAMPORTS + commission,
        "commission": null,
    });
    assert_eq!(of(&chain, &[VOTE])["result"], json!([of_vote]));
    let data = json!({ "slot": 32, "currentBlockHeight": 32, "rewardsCompleteBlockHeight": 34 });
    assert_eq!(error(of(&chain, &[VOTE, STAKE])), (json!(-32017), data));

    assert_eq!(chain.recorded_slot().slot, 33);
    let reward = chain.ledger.balance(&STAKE) - LAMPORTS;
    assert!(reward.abs_diff(commission * 925 / 75) < 50, "{reward} {commission}");
    let of_stake = json!({
        "epoch": 0,
        "effectiveSlot": 33,
        "amount": reward,
        "postBalance": LAMPORTS + reward,
        "commission": null,
    });
    assert_eq!(of(&chain, &[STAKE, [7; 32], VOTE])["result"], json!([of_stake, null, of_vote]));
    let processed = json!([[text(&VOTE)], { "commitment": "processed", "epoch": 0 }]);
    assert_eq!(chain.error("getInflationReward", processed).0, -32602);

    let block =
        |slot: u64| chain.call("getBlock", json!([slot, { "commitment": "confirmed", "transactionDetails": "none" }]));
    let paid = |key: &Pubkey, lamports: u64, kind: &str| {
        let (pubkey, post_balance) = (text(key), LAMPORTS + lamports);
        json!([{
            "pubkey": pubkey,
            "lamports": lamports,
            "postBalance": post_balance,
            "rewardType": kind,
            "commission": null,
        }])
    };
    let (first, second) = (block(32), block(33));
    assert_eq!(first["rewards"], paid(&VOTE, commission, "Voting"));
    assert_eq!((&first["numRewardPartitions"], &second["numRewardPartitions"]), (&json!(1), &Value::Null));
    assert_eq!(second["rewards"], paid(&STAKE, reward, "Staking"));
    assert_eq!(block(31)["rewards"], json!([]));
}

#[test]
fn locked_up_stake_does_not_circulate() {
    let (locked, free) = ([11; 32], [12; 32]);
    let mut account = new_stake_account(LAMPORTS, &VOTE, &[7; 32]);
    let other = account.clone();
    // The epoch up to which it is locked, after the tag, the reserve, two authorities and a time.
    change(&mut account, 4 + 8 + 64 + 8, &9u64.to_le_bytes());
    let chain = Chain::inflating(vec![(locked, account), (free, other)]);
    let supply = chain.call("getSupply", json!([{ "commitment": "processed" }]))["value"].clone();
    let total = chain.ledger.accounts().total_lamports() as u64;
    assert_eq!((&supply["total"], &supply["nonCirculating"]), (&json!(total), &json!(LAMPORTS)));
    assert_eq!(supply["circulating"], json!(total - LAMPORTS));
    let listed = supply["nonCirculatingAccounts"].as_array().unwrap();
    // The accounts of mainnet are always listed.
    assert!(listed.len() == 215 && listed.contains(&json!(text(&locked))) && !listed.contains(&json!(text(&free))));
    let largest = |filter: &str| {
        let found = chain.call("getLargestAccounts", json!([{ "filter": filter, "commitment": "processed" }]));
        let found = found["value"].as_array().unwrap().clone();
        found.iter().map(|one| one["address"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(largest("nonCirculating"), [text(&locked)]);
    let circulating = largest("circulating");
    assert!(circulating.contains(&text(&free)) && !circulating.contains(&text(&locked)));
}
