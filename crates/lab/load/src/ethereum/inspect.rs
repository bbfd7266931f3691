//! Shows a node: itself, an account, blocks, a transaction.
//!
//! reads   the node's RPC
//! writes  text
//! memory  a block header per line; at most [`RANGE_MAX`](crate::inspect::RANGE_MAX) blocks
//! drops   nothing: fields that the node does not report are left out

use std::fmt::Write;

use alloy_primitives::utils::format_ether;
use alloy_primitives::{Address, B256, U256};
use hearth_command::time::utc;
use hearth_tile::clock::unix_time;
use serde_json::{Value, json};

use super::Node;
use crate::inspect::{Lines, if_supported};
use crate::rpc::{Rpc, RpcError, to_quantity};

const TOGETHER: usize = 50;

fn gwei(wei: U256) -> String {
    let text = alloy_primitives::utils::format_units(wei, "gwei").expect("a known unit");
    format!("{} gwei", text.trim_end_matches('0').trim_end_matches('.'))
}

/// Reads a field of an object as a quantity.
fn field(value: &Value, name: &str) -> Option<U256> {
    value.get(name).and_then(to_quantity)
}

/// Describes the node: its client, newest block, gas price and pool.
pub fn node(node: &Node) -> Result<String, RpcError> {
    let (rpc, mut lines) = (&node.rpc, Lines::default());
    lines.add("node", &node.client);
    lines.add("chain", node.terms.chain_id);
    let newest = rpc.call("eth_getBlockByNumber", &json!(["latest", false]))?;
    lines.add_if("newest block", field(&newest, "number"));
    lines.add_if("its time", field(&newest, "timestamp").map(|seconds| utc(seconds.try_into().unwrap_or(i64::MAX))));
    lines.add_if("gas limit", field(&newest, "gasLimit"));
    lines.add_if("base fee", field(&newest, "baseFeePerGas").map(gwei));
    lines.add("the load pays", format!("{} at most", gwei(U256::from(node.terms.max_fee))));
    let syncing = if_supported(rpc.call("eth_syncing", &json!([])))?;
    lines.add_if("syncing", syncing.map(|syncing| if syncing == json!(false) { "no" } else { "yes" }));
    lines.add_if("peers", if_supported(rpc.call("net_peerCount", &json!([])))?.as_ref().and_then(to_quantity));
    if let Some(pool) = if_supported(rpc.call("txpool_status", &json!([])))? {
        lines.add_if("pool, ready", field(&pool, "pending"));
        lines.add_if("pool, waiting", field(&pool, "queued"));
    }
    Ok(lines.into_text())
}

/// Describes an account in lines: its balance, nonces and code.
pub fn account(rpc: &Rpc, account: Address) -> Result<String, RpcError> {
    let mut lines = Lines::default();
    lines.add("account", account);
    lines.add("has", format!("{} ether", format_ether(rpc.balances(&[account])?[0])));
    let (mined, pending) = (rpc.mined_nonces(&[account])?[0], rpc.nonces(&[account])?[0]);
    lines.add("sent, in blocks", mined);
    lines.add("and in the pool", pending.saturating_sub(mined));
    let code = if_supported(rpc.call("eth_getCode", &json!([account, "latest"])))?;
    let bytes = code.as_ref().and_then(Value::as_str).map(|code| code.len().saturating_sub(2) / 2);
    lines.add_if("code", bytes.filter(|bytes| *bytes > 0).map(|bytes| format!("{bytes} bytes")));
    Ok(lines.into_text())
}

/// One block of the listing.
struct BlockLine {
    number: u64,
    time: u64,
    transactions: usize,
    gas_used: u64,
    gas_limit: u64,
}

/// Lists the blocks `from` to `to`, up to the newest, one per line, with their joint rate.
pub fn blocks(rpc: &Rpc, from: u64, to: u64) -> Result<String, RpcError> {
    let mut lines: Vec<BlockLine> = vec![];
    let numbers: Vec<Value> = (from..=to).map(|number| json!([format!("{number:#x}"), false])).collect();
    for numbers in numbers.chunks(TOGETHER) {
        for block in rpc.batch::<Value>("eth_getBlockByNumber", numbers)? {
            let Ok(block) = block else { continue };
            let small = |name| field(&block, name).and_then(|value| u64::try_from(value).ok()).unwrap_or_default();
            let Some(transactions) = block["transactions"].as_array() else { continue };
            lines.push(BlockLine {
                number: small("number"),
                time: small("timestamp"),
                transactions: transactions.len(),
                gas_used: small("gasUsed"),
                gas_limit: small("gasLimit"),
            });
        }
    }
    let mut text = format!("{:>10} {:>12} {:>8} {:>14} {:>6}\n", "block", "time, s", "txns", "gas", "full");
    for BlockLine { number, time, transactions, gas_used, gas_limit } in &lines {
        let full = 100.0 * *gas_used as f64 / (*gas_limit).max(1) as f64;
        writeln!(text, "{number:>10} {time:>12} {transactions:>8} {gas_used:>14} {full:>5.1}%").expect("a string");
    }
    text.push_str(&together(&lines, unix_time().as_secs()));
    Ok(text)
}

/// The joint rate of the blocks, `now` in seconds since 1970. Timestamps have whole seconds, and the first block's
/// transactions came before the counted time. Timestamps never repeat, so a chain with faster blocks runs ahead of the
/// clock.
fn together(lines: &[BlockLine], now: u64) -> String {
    let (Some(first), Some(last)) = (lines.first(), lines.last()) else { return "no such block\n".into() };
    let transactions: usize = lines.iter().map(|line| line.transactions).sum();
    let (seconds, gaps) = (last.time.saturating_sub(first.time), lines.len() as u64 - 1);
    let mut text = format!("{} blocks, {transactions} transactions\n", lines.len());
    if seconds == 0 {
        return text;
    }
    let (later, gas) =
        lines[1..].iter().fold((0, 0), |(count, gas), line| (count + line.transactions, gas + line.gas_used));
    let (tps, mgas) = (later as f64 / seconds as f64, gas as f64 / 1e6 / seconds as f64);
    let every = seconds as f64 / gaps as f64;
    let is_least = seconds == gaps;
    let (more, less) = if is_least { (" or more", " or less") } else { ("", "") };
    writeln!(text, "after the first: {tps:.1} txn/s{more}, {mgas:.1} Mgas/s{more}, a block every {every:.2} s{less}")
        .expect("a string");
    if is_least {
        let ahead = match last.time.saturating_sub(now) {
            0..=CLOCK_APART => String::new(),
            ahead => format!(", and the last one's is {ahead} s ahead of this machine's clock"),
        };
        let why = "each block's time is the least it may be, one second after the one before";
        writeln!(text, "{why}{ahead}: `hearth load run` measures the rate by its own clock").expect("a string");
    }
    text
}

/// Tolerated clock difference between two machines, in seconds.
const CLOCK_APART: u64 = 5;

/// Describes a transaction and its outcome.
pub fn transaction(rpc: &Rpc, hash: B256) -> Result<String, RpcError> {
    let mut lines = Lines::default();
    lines.add("transaction", hash);
    let transaction = rpc.call("eth_getTransactionByHash", &json!([hash]))?;
    if transaction.is_null() {
        lines.add("state", "the node does not know it");
        return Ok(lines.into_text());
    }
    for (name, key) in [("from", "from"), ("to", "to")] {
        lines.add_if(name, transaction[key].as_str());
    }
    lines.add_if("nonce", field(&transaction, "nonce"));
    lines.add_if("value", field(&transaction, "value").map(|value| format!("{} ether", format_ether(value))));
    let receipt = if_supported(rpc.call("eth_getTransactionReceipt", &json!([hash])))?;
    let Some(receipt) = receipt.filter(|_| !transaction["blockNumber"].is_null()) else {
        lines.add("state", "it waits in the pool");
        return Ok(lines.into_text());
    };
    lines.add_if("block", field(&transaction, "blockNumber"));
    let state = if receipt["status"].as_str() == Some("0x0") { "it failed" } else { "it succeeded" };
    lines.add("state", state);
    lines.add_if("created", receipt["contractAddress"].as_str());
    lines.add_if("gas used", field(&receipt, "gasUsed"));
    if let (Some(gas), Some(price)) = (field(&receipt, "gasUsed"), field(&receipt, "effectiveGasPrice")) {
        lines.add("fee", format!("{} ether at {}", format_ether(gas * price), gwei(price)));
    }
    lines.add_if("logs", receipt["logs"].as_array().map(Vec::len));
    Ok(lines.into_text())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_summed_after_the_first() {
        let line = |number: u64, transactions| BlockLine {
            number,
            time: 100 + 2 * number,
            transactions,
            gas_used: 21_000 * transactions as u64,
            gas_limit: 1_000_000,
        };
        let text = together(&[line(1, 50), line(2, 10), line(3, 30)], 0);
        assert!(text.contains("3 blocks, 90 transactions") && text.contains("10.0 txn/s"), "{text}");
        assert!(text.contains("a block every 2.00 s"), "{text}");
        assert_eq!(together(&[], 0), "no such block\n");
        assert!(!text.contains("or more"), "{text}");
        // Blocks that are faster than the chain's clock.
        let fast = [1, 2, 3].map(|number| BlockLine { time: 1000 + number, ..line(number, 10) });
        let text = together(&fast, 900);
        assert!(text.contains("10.0 txn/s or more") && text.contains("a block every 1.00 s or less"), "{text}");
        assert!(text.contains("the last one's is 103 s ahead of this machine's clock"), "{text}");
        assert!(!together(&fast, 1003).contains("ahead"));
        assert_eq!(gwei(U256::from(1_500_000_000u64)), "1.5 gwei");
        assert_eq!(gwei(U256::from(20_000_000_000u64)), "20 gwei");
    }
}
