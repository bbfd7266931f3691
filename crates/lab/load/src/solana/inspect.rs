//! Shows a node: itself, an account, blocks, a transaction.
//!
//! reads   the node's RPC
//! writes  text
//! memory  a line per block; at most [`RANGE_MAX`](crate::inspect::RANGE_MAX) blocks
//! drops   nothing: fields that the node does not report are left out

use std::fmt::Write;

use hearth_command::time::utc;
use hearth_wire::base58::{encode_32, encode_64};
use hearth_wire::{Pubkey, Signature};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::node::{Node, confirmed};
use crate::inspect::{Lines, if_supported};
use crate::rpc::RpcError;

/// Formats an amount in SOL.
pub fn sol(lamports: u64) -> String {
    let text = format!("{}.{:09}", lamports / 1_000_000_000, lamports % 1_000_000_000);
    format!("{} SOL", text.trim_end_matches('0').trim_end_matches('.'))
}

/// Describes the node: its version, identity and health, how far its chain is, where transactions are sent.
pub fn node(node: &Node) -> Result<String, RpcError> {
    let mut lines = Lines::default();
    let ask = |method: &str| if_supported(node.rpc.call(method, &json!([confirmed()])));
    lines.add("node", &node.client);
    lines.add("identity", &node.identity);
    let health = node.rpc.call("getHealth", &json!([]));
    match health {
        Ok(health) => lines.add("health", health.as_str().unwrap_or("unknown")),
        Err(RpcError::Refused { message, .. }) => lines.add("health", message),
        Err(why) => return Err(why),
    }
    lines
        .add_if("genesis", if_supported(node.rpc.call("getGenesisHash", &json!([])))?.as_ref().and_then(Value::as_str));
    lines.add("confirmed slot", node.slot()?);
    lines.add("block height", node.block_height()?);
    if let Some(epoch) = ask("getEpochInfo")? {
        lines.add_if("epoch", epoch["epoch"].as_u64());
    }
    lines.add_if("transactions", ask("getTransactionCount")?.as_ref().and_then(Value::as_u64));
    lines.add("fee, a signature", format!("{} lamports", node.fee()?));
    let tpus: Vec<String> = node.tpus()?.iter().map(ToString::to_string).collect();
    lines.add("sent to", if tpus.is_empty() { "unknown".into() } else { tpus.join(", then ") });
    Ok(lines.into_text())
}

/// Describes an account in lines: its balance, owner and size.
pub fn account(node: &Node, address: &Pubkey) -> Result<String, RpcError> {
    let mut lines = Lines::default();
    lines.add("account", &*encode_32(address));
    let options = json!({ "commitment": "confirmed", "encoding": "base64", "dataSlice": { "offset": 0, "length": 0 } });
    let answer = node.rpc.call("getAccountInfo", &json!([&*encode_32(address), options]))?;
    let found = &answer["value"];
    if found.is_null() {
        lines.add("state", "there is none");
        return Ok(lines.into_text());
    }
    lines.add_if("has", found["lamports"].as_u64().map(sol));
    lines.add_if("owner", found["owner"].as_str());
    lines.add_if("data", found["space"].as_u64().map(|bytes| format!("{bytes} bytes")));
    if found["executable"] == json!(true) {
        lines.add("executable", "yes");
    }
    Ok(lines.into_text())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BlockCounts {
    block_time: Option<i64>,
    signatures: Vec<IgnoredAny>,
}

/// Lists the blocks of the slots `from` to `to`, one per line, with their joint rate.
pub fn blocks(node: &Node, from: u64, to: u64) -> Result<String, RpcError> {
    let options = json!({
        "commitment": "confirmed",
        "transactionDetails": "signatures",
        "rewards": false,
        "maxSupportedTransactionVersion": 0,
    });
    let range = json!([from, to, { "commitment": "confirmed" }]);
    let slots: Vec<u64> = node.rpc.call_as("getBlocks", &range)?;
    let mut text = format!("{:>10} {:>12} {:>8}\n", "slot", "time, s", "txns");
    let mut lines: Vec<(i64, usize)> = vec![];
    for slot in slots.iter().filter(|slot| (from..=to).contains(*slot)) {
        let block = match node.rpc.call_as::<BlockCounts>("getBlock", &json!([slot, options])) {
            Ok(block) => block,
            Err(RpcError::Refused { .. }) => continue,
            Err(why) => return Err(why),
        };
        let time = block.block_time.unwrap_or_default();
        writeln!(text, "{slot:>10} {time:>12} {:>8}", block.signatures.len()).expect("a string takes all");
        lines.push((time, block.signatures.len()));
    }
    text.push_str(&together(&lines, to - from + 1));
    Ok(text)
}

/// The joint rate of the blocks. Timestamps have whole seconds, and the first block's transactions came before the
/// counted time.
fn together(lines: &[(i64, usize)], slots: u64) -> String {
    let (Some(first), Some(last)) = (lines.first(), lines.last()) else { return "no such block\n".into() };
    let transactions: usize = lines.iter().map(|line| line.1).sum();
    let seconds = last.0.saturating_sub(first.0);
    let mut text = format!("{} blocks of {slots} slots, {transactions} transactions\n", lines.len());
    if seconds > 0 {
        let later = transactions - first.1;
        let (tps, every) = (later as f64 / seconds as f64, seconds as f64 / (lines.len() - 1) as f64);
        writeln!(text, "after the first: {tps:.1} txn/s, votes among them, a block every {every:.2} s")
            .expect("a string takes all");
    }
    text
}

/// Describes a transaction and its outcome.
pub fn transaction(node: &Node, signature: &Signature) -> Result<String, RpcError> {
    let mut lines = Lines::default();
    let text = encode_64(signature).to_string();
    lines.add("transaction", &text);
    let options = json!({ "commitment": "confirmed", "encoding": "json", "maxSupportedTransactionVersion": 0 });
    let found = node.rpc.call("getTransaction", &json!([text, options]))?;
    if found.is_null() {
        lines.add("state", "it is in no confirmed block that the node knows");
        return Ok(lines.into_text());
    }
    lines.add_if("slot", found["slot"].as_u64());
    lines.add_if("time", found["blockTime"].as_i64().map(utc));
    let error = &found["meta"]["err"];
    lines.add("state", if error.is_null() { "it succeeded".into() } else { format!("it failed: {error}") });
    lines.add_if("from", found.pointer("/transaction/message/accountKeys/0").and_then(Value::as_str));
    lines.add_if("fee", found["meta"]["fee"].as_u64().map(sol));
    lines.add_if("compute units", found["meta"]["computeUnitsConsumed"].as_u64());
    for log in found["meta"]["logMessages"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        lines.add("log", log);
    }
    Ok(lines.into_text())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_summed_after_the_first() {
        let text = together(&[(100, 50), (101, 10), (104, 30)], 5);
        assert!(text.contains("3 blocks of 5 slots, 90 transactions") && text.contains("10.0 txn/s"), "{text}");
        assert!(text.contains("a block every 2.00 s"), "{text}");
        assert_eq!(together(&[], 3), "no such block\n");
        assert_eq!((sol(1_500_000_000), sol(0), sol(5_000)), ("1.5 SOL".into(), "0 SOL".into(), "0.000005 SOL".into()));
    }
}
