//! Blocks, read from the node while the load runs.
//!
//! reads   `eth_blockNumber`, `eth_getBlockByNumber`; after the run `eth_getBlockReceipts` or
//!         `eth_getTransactionReceipt`
//! writes  a [`Block`] each; ends of transactions
//! memory  100 B a block
//! drops   nothing: a block that cannot be read is asked for again; what was read before the node died stays

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use alloy_primitives::{Address, B256};
use serde::Deserialize;
use serde_json::{Value, json};

use super::outcome::Outcomes;
use super::rpc::{Refusal, Rpc, RpcError, to_quantity};

/// How often the node is asked for its newest block.
const POLL: Duration = Duration::from_millis(20);
/// So many times between the newest blocks tell how often the chain makes one; more than this is not believed.
const BLOCKS_TIMED: u64 = 3;
const BLOCK_TIME_MAX: Duration = Duration::from_secs(60);
const METHOD: &str = "eth_getBlockByNumber";
/// Blocks asked for at once when there are several.
const BLOCKS_TOGETHER: u64 = 20;
/// Receipts asked for at once where those of a whole block are too many for the node.
const RECEIPTS_TOGETHER: usize = 100;

/// A block as read.
#[derive(Clone, Debug)]
pub struct Block {
    /// Its number.
    pub number: u64,
    /// When it could be read.
    pub seen: Instant,
    /// Its own time, in seconds since 1970.
    pub timestamp: u64,
    /// Transactions in it.
    pub transactions: u64,
    /// Of these, the load's.
    pub ours: u64,
    /// Gas they used.
    pub gas_used: u64,
    /// Gas there was.
    pub gas_limit: u64,
    /// What a unit of gas cost at least, in wei; 0 where the chain has no such thing.
    pub base_fee: u128,
    /// The load's transactions that had been taken and were not in a block yet, after this one.
    pub under_way: usize,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Header {
    hash: B256,
    parent_hash: B256,
    timestamp: String,
    gas_used: String,
    gas_limit: String,
    base_fee_per_gas: Option<String>,
    transactions: Vec<B256>,
}

/// What reading the chain gave.
#[derive(Default)]
pub struct Chain {
    /// In order.
    pub blocks: Vec<Block>,
    /// How often the node named a block number whose block it could not give.
    pub number_ahead: u64,
    /// How often a block's parent was not the block before.
    pub reorganised: u64,
    /// Questions without an answer.
    pub errors: u64,
    /// Why it ends before it was to.
    pub lost: Option<RpcError>,
}

/// Reads blocks from number `next` on until `stop`; then once more. A node that gives nothing but errors for
/// `patience`, or at the end, ends it with what there is.
pub fn follow(rpc: &Rpc, next: u64, outcomes: &Outcomes, stop: &AtomicBool, patience: Duration) -> Chain {
    let mut chain = Chain::default();
    let (mut next, mut tip) = (next, None);
    let mut answered = Instant::now();
    loop {
        // Looked at before the node is asked: what came before the stop is read after it.
        let last = stop.load(Ordering::Acquire);
        let before = next;
        match step(rpc, &mut next, &mut tip, outcomes, &mut chain) {
            Ok(()) => answered = Instant::now(),
            Err(why) => {
                chain.errors += 1;
                if next > before {
                    answered = Instant::now();
                }
                if last || answered.elapsed() > patience {
                    chain.lost = Some(why);
                    return chain;
                }
            }
        }
        if last {
            return chain;
        }
        std::thread::sleep(POLL);
    }
}

fn step(
    rpc: &Rpc,
    next: &mut u64,
    tip: &mut Option<B256>,
    outcomes: &Outcomes,
    chain: &mut Chain,
) -> Result<(), RpcError> {
    let newest = rpc.number("eth_blockNumber", &json!([]))?;
    while *next <= newest {
        let last = newest.min(*next + BLOCKS_TOGETHER - 1);
        for value in blocks(rpc, *next, last)? {
            let value = value?;
            if value.is_null() {
                chain.number_ahead += 1;
                return Ok(());
            }
            add(rpc, value, next, tip, outcomes, chain)?;
        }
    }
    Ok(())
}

/// Blocks as the node tells them: a chain may make more in a second than it can be asked for one by one.
fn blocks(rpc: &Rpc, first: u64, last: u64) -> Result<Vec<Result<Value, RpcError>>, RpcError> {
    let params: Vec<Value> = (first..=last).map(|number| json!([format!("{number:#x}"), false])).collect();
    if let [only] = &params[..] {
        return Ok(vec![rpc.call(METHOD, only)]);
    }
    let refused = |Refusal { code, message }| RpcError::Refused { method: METHOD.into(), code, message };
    match rpc.batch::<Value>(METHOD, &params) {
        Ok(answers) => Ok(answers.into_iter().map(|answer| answer.map_err(refused)).collect()),
        // A node may serve no batches, or find the answer too long.
        Err(RpcError::Refused { .. } | RpcError::Status { .. }) => Ok(vec![rpc.call(METHOD, &params[0])]),
        Err(why) => Err(why),
    }
}

/// Adds a block that was read just now.
fn add(
    rpc: &Rpc,
    value: Value,
    next: &mut u64,
    tip: &mut Option<B256>,
    outcomes: &Outcomes,
    chain: &mut Chain,
) -> Result<(), RpcError> {
    let seen = Instant::now();
    let garbled = |why: String| RpcError::Garbled { url: rpc.url().into(), method: METHOD.into(), why };
    let header: Header = serde_json::from_value(value).map_err(|why| garbled(why.to_string()))?;
    let number = |text: &str| {
        let value = to_quantity(&json!(text)).and_then(|value| value.try_into().ok());
        value.ok_or_else(|| garbled(format!("{text} is no quantity")))
    };
    let base_fee = header.base_fee_per_gas.as_deref().map(|text| to_quantity(&json!(text)).unwrap_or_default());
    let (gas_used, gas_limit) = (number(&header.gas_used)?, number(&header.gas_limit)?);
    let timestamp = number(&header.timestamp)?;
    chain.reorganised += u64::from(tip.is_some_and(|tip| tip != header.parent_hash));
    *tip = Some(header.hash);
    let ours = outcomes.included(&header.transactions, seen);
    chain.blocks.push(Block {
        number: *next,
        seen,
        timestamp,
        transactions: header.transactions.len() as u64,
        ours,
        gas_used,
        gas_limit,
        base_fee: base_fee.unwrap_or_default().try_into().unwrap_or(u128::MAX),
        under_way: outcomes.under_way(),
    });
    *next += 1;
    Ok(())
}

/// How often the chain makes a block, by the times of its newest ones up to `newest`: the least of the times between
/// two, as a chain that makes blocks on demand may have stood. Zero where that cannot be told.
pub fn block_time(rpc: &Rpc, newest: u64) -> Duration {
    // The first block's time is no time at which it was made.
    let numbers: Vec<_> = (newest.saturating_sub(BLOCKS_TIMED).max(1)..=newest).collect();
    let params: Vec<_> = numbers.iter().map(|number| json!([format!("{number:#x}"), false])).collect();
    let blocks = rpc.batch::<Value>(METHOD, &params).unwrap_or_default();
    let time = |block: Result<Value, _>| to_quantity(block.ok()?.get("timestamp")?)?.try_into().ok();
    let times: Option<Vec<u64>> = blocks.into_iter().map(time).collect();
    let times = times.unwrap_or_default();
    let least = times.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).min().unwrap_or_default();
    Duration::from_secs(least).min(BLOCK_TIME_MAX)
}

/// What the receipts say of the load's transactions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Receipts {
    /// How many were looked at.
    pub seen: u64,
    /// Of these, how many failed.
    pub failed: u64,
    /// The same of each block that was looked at.
    pub failed_in: BTreeMap<u64, u64>,
}

#[derive(Deserialize)]
struct Receipt {
    from: Address,
    status: Option<String>,
}

/// How many transactions of `senders` failed in these blocks, as far as the node tells within `patience`. Blocks are
/// looked at in a scattered order: what was seen when the time is up is a fair sample.
pub fn failed(rpc: &Rpc, blocks: &[Block], senders: &HashSet<Address>, patience: Duration) -> Receipts {
    let deadline = Instant::now() + patience;
    let mut blocks: Vec<_> = blocks.iter().filter(|block| block.ours > 0).collect();
    blocks.sort_by_key(|block| block.number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut sum = Receipts::default();
    let mut whole_blocks = true;
    for block in blocks {
        if Instant::now() > deadline {
            break;
        }
        let number = format!("{:#x}", block.number);
        // The receipts of a whole block may be more than a server gives in one answer.
        let mut receipts = whole_blocks.then(|| receipts_of_block(rpc, &number)).flatten();
        if receipts.is_none() {
            whole_blocks = false;
            receipts = receipts_one_by_one(rpc, &number, deadline);
        }
        let Some(receipts) = receipts else { continue };
        let mut failed = 0;
        for receipt in receipts.iter().filter(|receipt| senders.contains(&receipt.from)) {
            sum.seen += 1;
            failed += u64::from(receipt.status.as_deref() == Some("0x0"));
        }
        sum.failed += failed;
        sum.failed_in.insert(block.number, failed);
    }
    sum
}

fn receipts_of_block(rpc: &Rpc, number: &str) -> Option<Vec<Receipt>> {
    serde_json::from_value(rpc.call("eth_getBlockReceipts", &json!([number])).ok()?).ok()
}

/// Whole or not at all: half a block's would not be a fair sample.
fn receipts_one_by_one(rpc: &Rpc, number: &str, deadline: Instant) -> Option<Vec<Receipt>> {
    let block = rpc.call("eth_getBlockByNumber", &json!([number, false])).ok()?;
    let hashes: Vec<Value> = block["transactions"].as_array()?.iter().map(|hash| json!([hash])).collect();
    let mut receipts = vec![];
    for hashes in hashes.chunks(RECEIPTS_TOGETHER) {
        if Instant::now() > deadline {
            return None;
        }
        for receipt in rpc.batch::<Value>("eth_getTransactionReceipt", hashes).ok()? {
            receipts.push(serde_json::from_value(receipt.ok()?).ok()?);
        }
    }
    Some(receipts)
}
