//! Bad input to every method: wrong types, huge numbers, too many and too few parameters, unknown accounts. The error
//! codes must be those of `solana-rpc` 4.2.
//!
//! The bad parameters of a method are derived from its row below; a dispatched method without a row fails the test.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::common::client::Client;
use crate::common::*;

const KEY: &str = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA";
const WRONG: i64 = -32602;

/// The parameters of a method.
struct Row {
    method: &'static str,
    /// Valid parameters, without the options.
    good: Value,
    /// How many of them are required.
    required: usize,
    /// Keys of the options object, which is the last parameter; empty if the method takes none.
    options: &'static [&'static str],
}

fn row(method: &'static str, good: Value, required: usize, options: &'static [&'static str]) -> Row {
    Row { method, good, required, options }
}

const NONE: &[&str] = &[];
const SURE: &[&str] = &["commitment"];
const AT: &[&str] = &["commitment", "minContextSlot"];
const ACCOUNT: &[&str] = &["commitment", "minContextSlot", "encoding", "dataSlice"];
const PROGRAM: &[&str] =
    &["commitment", "minContextSlot", "encoding", "dataSlice", "filters", "withContext", "sortResults"];
const SEND: &[&str] = &["encoding", "skipPreflight", "preflightCommitment", "maxRetries", "minContextSlot"];
const SIMULATE: &[&str] = &[
    "encoding",
    "sigVerify",
    "replaceRecentBlockhash",
    "commitment",
    "accounts",
    "minContextSlot",
    "innerInstructions",
];
const BLOCK: &[&str] = &["commitment", "encoding", "transactionDetails", "rewards", "maxSupportedTransactionVersion"];
const VOTES: &[&str] = &["commitment", "votePubkey", "keepUnstakedDelinquents", "delinquentSlotDistance"];
const LISTED: &[&str] = &["commitment", "minContextSlot", "limit", "before", "until"];

fn rows(transaction: &str, message: &str, signature: &str) -> Vec<Row> {
    let nothing = || json!([]);
    vec![
        row("getHealth", nothing(), 0, NONE),
        row("getVersion", nothing(), 0, NONE),
        row("getIdentity", nothing(), 0, NONE),
        row("getClusterNodes", nothing(), 0, NONE),
        row("getSlotLeader", nothing(), 0, AT),
        row("getSlotLeaders", json!([0, 1]), 2, NONE),
        row("getLeaderSchedule", json!([0]), 0, &["commitment", "identity"]),
        row("getBlockProduction", nothing(), 0, &["commitment", "identity", "range"]),
        row("getVoteAccounts", nothing(), 0, VOTES),
        row("getBlockCommitment", json!([0]), 1, NONE),
        row("getRecentPerformanceSamples", json!([1]), 0, NONE),
        row("getRecentPrioritizationFees", json!([[KEY]]), 0, NONE),
        row("getSlot", nothing(), 0, AT),
        row("getBlockHeight", nothing(), 0, AT),
        row("getEpochInfo", nothing(), 0, AT),
        row("getEpochSchedule", nothing(), 0, NONE),
        row("getGenesisHash", nothing(), 0, NONE),
        row("getLatestBlockhash", nothing(), 0, AT),
        row("isBlockhashValid", json!([KEY]), 1, AT),
        row("getTransactionCount", nothing(), 0, AT),
        row("getStakeMinimumDelegation", nothing(), 0, AT),
        row("getInflationGovernor", nothing(), 0, SURE),
        row("getInflationRate", nothing(), 0, NONE),
        row("getInflationReward", json!([[KEY]]), 1, &["commitment", "minContextSlot", "epoch"]),
        row("getFirstAvailableBlock", nothing(), 0, NONE),
        row("minimumLedgerSlot", nothing(), 0, NONE),
        row("getBlock", json!([0]), 1, BLOCK),
        row("getBlocks", json!([0, 1]), 1, AT),
        row("getBlocksWithLimit", json!([0, 1]), 2, AT),
        row("getBlockTime", json!([0]), 1, NONE),
        row("getTransaction", json!([signature]), 1, &["commitment", "encoding", "maxSupportedTransactionVersion"]),
        row("getSignaturesForAddress", json!([KEY]), 1, LISTED),
        row("getHighestSnapshotSlot", nothing(), 0, NONE),
        row("getMaxRetransmitSlot", nothing(), 0, NONE),
        row("getMaxShredInsertSlot", nothing(), 0, NONE),
        row("getBalance", json!([KEY]), 1, AT),
        row("getAccountInfo", json!([KEY]), 1, ACCOUNT),
        row("getMultipleAccounts", json!([[KEY]]), 1, ACCOUNT),
        row("getMinimumBalanceForRentExemption", json!([0]), 1, SURE),
        row("getProgramAccounts", json!([KEY]), 1, PROGRAM),
        row("getLargestAccounts", nothing(), 0, &["commitment", "filter", "sortResults"]),
        row("getSupply", nothing(), 0, &["commitment", "excludeNonCirculatingAccountsList"]),
        row("getTokenAccountBalance", json!([KEY]), 1, SURE),
        row("getTokenSupply", json!([KEY]), 1, SURE),
        row("getTokenLargestAccounts", json!([KEY]), 1, SURE),
        row("getTokenAccountsByOwner", json!([KEY, { "programId": KEY }]), 2, ACCOUNT),
        row("getTokenAccountsByDelegate", json!([KEY, { "programId": KEY }]), 2, ACCOUNT),
        row("sendTransaction", json!([transaction]), 1, SEND),
        row("simulateTransaction", json!([transaction]), 1, SIMULATE),
        row("getSignatureStatuses", json!([[signature]]), 1, &["searchTransactionHistory"]),
        row("getFeeForMessage", json!([message]), 1, AT),
        row("getTransactionFate", json!([signature]), 1, NONE),
        row("getSlotChanges", json!([1]), 1, &["after", "limit"]),
        row("requestAirdrop", json!([KEY, 1_000_000]), 2, &["commitment", "recentBlockhash"]),
    ]
}

fn subscriptions(signature: &str) -> Vec<Row> {
    let account = &["commitment", "encoding", "dataSlice"];
    vec![
        row("signatureSubscribe", json!([signature]), 1, &["commitment", "enableReceivedNotification"]),
        row("accountSubscribe", json!([KEY]), 1, account),
        row("programSubscribe", json!([KEY]), 1, &["commitment", "encoding", "dataSlice", "filters"]),
        row("logsSubscribe", json!(["all"]), 1, SURE),
        row("slotSubscribe", json!([]), 0, NONE),
        row("slotsUpdatesSubscribe", json!([]), 0, NONE),
        row("rootSubscribe", json!([]), 0, NONE),
        row("voteSubscribe", json!([]), 0, NONE),
    ]
}

/// Invalid values of an option.
fn wrong_options(key: &str) -> Vec<Value> {
    let long = "1".repeat(10_000);
    match key {
        "commitment" | "preflightCommitment" => vec![json!(5), json!("sure"), json!({})],
        "encoding" => vec![json!(5), json!("hex"), json!([])],
        "dataSlice" => vec![json!(5), json!({ "offset": 1 }), json!({ "offset": -1, "length": 1 })],
        "filters" => vec![json!({}), json!([5]), json!(["nonsense"]), json!(vec![json!({ "dataSize": 1 }); 5])],
        "range" => vec![json!(5), json!({}), json!({ "firstSlot": -1 }), json!({ "firstSlot": u64::MAX })],
        "transactionDetails" | "filter" => vec![json!(5), json!("some")],
        "accounts" => vec![json!(5), json!({}), json!({ "addresses": [5] }), json!({ "addresses": ["abc"] })],
        "identity" | "votePubkey" | "recentBlockhash" | "before" | "until" | "after" => {
            vec![json!(5), json!("abc"), json!("0OIl"), json!(long)]
        }
        "limit" => vec![json!(-1), json!("1"), json!(1e300), json!(0), json!(1_001), json!(u64::MAX)],
        "minContextSlot" | "epoch" | "maxRetries" | "delinquentSlotDistance" => {
            vec![json!(-1), json!("1"), json!(1.5), json!(1e300)]
        }
        "maxSupportedTransactionVersion" => vec![json!(-1), json!("0"), json!(256), json!(u64::MAX)],
        _ => vec![json!("yes"), json!(1), json!([])],
    }
}

/// Invalid values in place of a valid one.
fn wrong_values(good: &Value) -> Vec<Value> {
    let mut wrong = vec![json!(true)];
    match good {
        Value::Number(_) => wrong.extend([json!(-1), json!(1.5), json!(1e300), json!("5"), json!([5])]),
        Value::String(_) => wrong.extend([json!(5), json!(""), json!("0OIl"), json!("1".repeat(10_000)), json!([])]),
        Value::Array(_) => wrong.extend([json!(KEY), json!([true]), json!(["abc"]), json!([[KEY]])]),
        _ => wrong.extend([json!(5), json!("x"), json!({}), json!({ "programId": 5 }), json!({ "mint": "abc" })]),
    }
    wrong
}

/// Parameters that this method refuses, all with the same code.
fn wrong_params(row: &Row) -> Vec<Value> {
    let good = row.good.as_array().unwrap();
    let mut wrong = vec![json!({ "a": 1 })];
    let most = good.len() + usize::from(!row.options.is_empty());
    let mut too_many = good.clone();
    too_many.resize(most, Value::Null);
    too_many.push(json!(1));
    wrong.push(json!(too_many));
    wrong.extend((0..row.required).map(|count| json!(good[..count])));
    let with = |at: usize, value: Value| {
        let mut params = good.clone();
        params.resize(params.len().max(at + 1), Value::Null);
        params[at] = value;
        json!(params)
    };
    for (at, value) in good.iter().enumerate() {
        wrong.extend(wrong_values(value).into_iter().map(|value| with(at, value)));
    }
    if !row.options.is_empty() {
        wrong.push(with(good.len(), json!(true)));
    }
    for key in row.options {
        wrong.extend(wrong_options(key).into_iter().map(|value| with(good.len(), json!({ *key: value }))));
    }
    wrong
}

/// The method names before `=>` in a source text.
fn dispatched<'a>(source: &'a str, is_one: impl Fn(&str, &str) -> bool) -> BTreeSet<&'a str> {
    let arms = source.lines().filter_map(|line| line.trim().strip_prefix('"')?.split_once("\" => "));
    arms.filter(|(name, does)| is_one(name, does)).map(|(name, _)| name).collect()
}

#[test]
fn every_method_refuses_what_is_wrong_with_solanas_code() {
    let chain = Chain::with_history();
    chain.durable_slots(2);
    let bytes = chain.transfer(0, &address(1), 1_000_000);
    let (transaction, signature) = (bs58::encode(&bytes).into_string(), signature_of(&bytes));
    let rows = rows(&transaction, &base64(&bytes[65..]), &signature);
    let known = dispatched(include_str!("../../src/methods/mod.rs"), |_, does| does.starts_with("self.get_"));
    let other = dispatched(include_str!("../../src/methods/mod.rs"), |_, does| does.starts_with("self."));
    assert!(known.len() > 40 && known.is_subset(&other));
    let covered: BTreeSet<&str> = rows.iter().map(|row| row.method).collect();
    assert_eq!(covered, other, "each method of the dispatch has a row");
    for row in &rows {
        for params in wrong_params(row) {
            let shown: String = params.to_string().chars().take(200).collect();
            let answer = chain.ask(row.method, params);
            assert_eq!(answer["error"]["code"], WRONG, "{} {shown}: {answer}", row.method);
        }
        if row.options.contains(&"minContextSlot") {
            let mut params = row.good.as_array().unwrap().clone();
            params.push(json!({ "minContextSlot": u64::MAX }));
            let (code, _, data) = chain.error(row.method, json!(params));
            assert!(code == -32016 && data["contextSlot"].is_u64(), "{}: {code} {data}", row.method);
        }
    }
    // None of this has reached the pipeline, and the node is healthy.
    assert!(chain.taken.lock().is_empty());
    assert_eq!(chain.call("getHealth", json!([])), "ok");
}

#[test]
fn every_subscription_refuses_what_is_wrong() {
    let chain = Chain::new();
    let mut client = Client::new(&chain);
    let signature = signature_of(&chain.transfer(0, &address(1), 1_000_000));
    let rows = subscriptions(&signature);
    let known = dispatched(include_str!("../../src/subscriptions/watch.rs"), |name, _| name.ends_with("Subscribe"));
    let covered: BTreeSet<&str> = rows.iter().map(|row| row.method).collect();
    assert_eq!(covered, known, "each subscription has a row");
    for row in &rows {
        let unsubscribe = row.method.replace("Subscribe", "Unsubscribe");
        let wrong = wrong_params(row).into_iter().map(|params| (row.method, params));
        let ids = [json!([]), json!(["x"]), json!([-1]), json!([u64::MAX]), json!([1, 2])];
        for (method, params) in wrong.chain(ids.map(|params| (&unsubscribe[..], params))) {
            let shown: String = params.to_string().chars().take(200).collect();
            let answer = client.ask(method, params);
            assert_eq!(answer["error"]["code"], WRONG, "{method} {shown}: {answer}");
        }
    }
    assert_eq!(client.ask("unicornSubscribe", json!([]))["error"]["code"], -32601);
    assert_eq!(chain.counted(|c| c.subscriptions_open()), 0);
}

#[test]
fn huge_and_unknown_input_gets_solanas_answer() {
    let chain = Chain::with_history();
    chain.durable_slots(3);
    let unknown = text(&[77; 32]);
    let signature = bs58::encode([77; 64]).into_string();
    let final_and_v0 = json!({ "commitment": "confirmed", "maxSupportedTransactionVersion": 0 });
    let errors = [
        ("getUnicorns", json!([]), -32601),
        ("getMultipleAccounts", json!([vec![&unknown; 101]]), WRONG),
        ("getSignatureStatuses", json!([vec![&signature; 257]]), WRONG),
        ("getRecentPrioritizationFees", json!([vec![&unknown; 129]]), WRONG),
        ("getRecentPerformanceSamples", json!([721]), WRONG),
        ("getSlotLeaders", json!([0, 5_001]), WRONG),
        ("getSlotLeaders", json!([u64::MAX, 1]), WRONG),
        ("getSlotLeaders", json!([0, u64::MAX]), WRONG),
        ("getBlocksWithLimit", json!([0, 500_001]), WRONG),
        ("getBlockProduction", json!([{ "range": { "firstSlot": 0, "lastSlot": u64::MAX } }]), WRONG),
        ("getMinimumBalanceForRentExemption", json!([u64::MAX]), -32600),
        ("getTokenAccountBalance", json!([unknown]), WRONG),
        ("getTokenSupply", json!([unknown]), WRONG),
        ("getTokenLargestAccounts", json!([unknown]), WRONG),
        ("getTokenAccountsByOwner", json!([unknown, { "mint": unknown }]), WRONG),
        ("getTokenAccountsByOwner", json!([unknown, { "programId": unknown }]), WRONG),
        ("getBlock", json!([u64::MAX, final_and_v0]), -32004),
        ("getBlock", json!([2, final_and_v0]), -32007),
        ("getBlock", json!([2, { "commitment": "processed" }]), WRONG),
        ("getTransaction", json!([signature, { "commitment": "processed" }]), WRONG),
        ("getBlocks", json!([0, 1, { "commitment": "processed" }]), WRONG),
        ("getBlockTime", json!([u64::MAX]), -32004),
        ("getBlockTime", json!([2]), -32007),
        ("getInflationReward", json!([[unknown], { "epoch": u64::MAX }]), -32004),
        ("getSignaturesForAddress", json!([unknown, { "before": signature }]), -32020),
        ("getSignaturesForAddress", json!([unknown, { "until": signature }]), -32020),
        ("getHighestSnapshotSlot", json!([]), -32008),
        ("sendTransaction", json!([base64(&[1; 1_233]), { "encoding": "base64" }]), WRONG),
        ("simulateTransaction", json!([base64(&[0; 100]), { "encoding": "base64" }]), WRONG),
        ("requestAirdrop", json!([unknown, u64::MAX]), -32603),
    ];
    for (method, params, code) in errors {
        let shown: String = params.to_string().chars().take(100).collect();
        let answer = chain.ask(method, params);
        assert_eq!(answer["error"]["code"], code, "{method} {shown}: {answer}");
    }
    let answers = [
        ("getAccountInfo", json!([unknown]), json!(null)),
        ("getBalance", json!([unknown]), json!(0)),
        ("getMultipleAccounts", json!([[unknown]]), json!([null])),
        ("isBlockhashValid", json!([unknown]), json!(false)),
        ("getSignatureStatuses", json!([[signature], { "searchTransactionHistory": true }]), json!([null])),
    ];
    for (method, params, value) in answers {
        assert_eq!(chain.call(method, params)["value"], value, "{method}");
    }
    assert_eq!(chain.call("getTransaction", json!([signature])), json!(null));
    assert_eq!(chain.call("getProgramAccounts", json!([unknown])), json!([]));
    assert_eq!(chain.call("getSignaturesForAddress", json!([unknown])), json!([]));
    assert_eq!(chain.call("getBlocks", json!([u64::MAX])), json!([]));
    assert_eq!(chain.call("getBlocks", json!([0, u64::MAX, { "commitment": "confirmed" }])), json!([0]));
    assert_eq!(chain.call("getLeaderSchedule", json!([u64::MAX])), json!(null));
    assert_eq!(chain.call("getBlockCommitment", json!([u64::MAX]))["commitment"], json!(null));
}
