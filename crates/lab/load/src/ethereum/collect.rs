//! Reads blocks from the node while the load runs.
//!
//! reads   `eth_blockNumber`, `eth_getBlockByNumber`; after the run `eth_getBlockReceipts` or
//!         `eth_getTransactionReceipt`
//! writes  a [`Block`] for each; outcomes of transactions
//! memory  see [`crate::blocks`]
//! drops   nothing: a block that cannot be read is requested again; blocks read before the node died stay

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use alloy_primitives::{Address, B256, U256};
use serde::Deserialize;
use serde_json::{Value, json};

use super::node::Node;
use crate::blocks::Block;
use crate::heights::{Heights, POLL};
use crate::liveness::Persistence;
use crate::reading::Chain;
use crate::receipts::Receipts;
use crate::rpc::{Rpc, RpcError, to_quantity};
use crate::run_clock::RunState;

/// The block time is estimated from this many intervals between the newest blocks, and capped.
const BLOCKS_TIMED: u64 = 3;
const BLOCK_TIME_MAX: Duration = Duration::from_secs(60);
const METHOD: &str = "eth_getBlockByNumber";
/// Blocks per request if the reader is behind; more if they hold few transactions each.
const BLOCKS_TOGETHER: u64 = 20;
const SMALL_TOGETHER: u64 = 100;
const SMALL: u64 = 100;
/// Receipts per request if those of a whole block are too many for the node.
const RECEIPTS_TOGETHER: usize = 100;

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

/// Reads blocks from number `next` until `stop`, then once more. Ends early with what was read if the node returns only
/// errors for `patience`, or for a while at the end.
pub fn follow(node: &Node, next: u64, course: &RunState, stop: &AtomicBool, patience: Duration) -> Chain {
    let (heights, is_over) = (Heights::default(), AtomicBool::new(false));
    course.silence.begin(node.rpc.url(), patience, Instant::now());
    let heard = || course.silence.heard(Instant::now());
    let newest = || node.rpc.number("eth_blockNumber", &json!([])).inspect(|_| heard());
    std::thread::scope(|scope| {
        scope.spawn(|| heights.watch(newest, &is_over));
        let reader =
            Reader { node, course, heights: &heights, next, is_small: false, tip: None, chain: Chain::default() };
        let chain = read(reader, stop, patience);
        is_over.store(true, Ordering::Release);
        chain
    })
}

/// The loop of [`follow`], with a reader.
fn read(mut reader: Reader<'_>, stop: &AtomicBool, patience: Duration) -> Chain {
    let silence = &reader.course.silence;
    let mut persistence = Persistence::new(patience, Instant::now());
    loop {
        // Read `stop` before asking the node, so that blocks made before the stop are still read.
        let last = stop.load(Ordering::Acquire);
        persistence.begin(last, Instant::now());
        let before = reader.next;
        let step = reader.step();
        let now = Instant::now();
        if step.is_ok() || reader.next > before {
            persistence.answered(now);
            silence.read(now);
        }
        match step {
            Ok(()) if last => return reader.chain,
            Ok(()) => {}
            Err(why) => {
                reader.chain.errors += 1;
                silence.failed(&why);
                if persistence.is_over(now) {
                    reader.chain.lost = Some(why);
                    reader.chain.lost_from = silence.last_answer();
                    return reader.chain;
                }
            }
        }
        std::thread::sleep(POLL);
    }
}

/// State of the thread that reads blocks.
struct Reader<'a> {
    node: &'a Node,
    course: &'a RunState,
    heights: &'a Heights,
    /// Number of the first unread block.
    next: u64,
    /// Whether the last blocks held few transactions each.
    is_small: bool,
    tip: Option<B256>,
    chain: Chain,
}

impl Reader<'_> {
    fn step(&mut self) -> Result<(), RpcError> {
        let newest = self.node.rpc.number("eth_blockNumber", &json!([]))?;
        self.heights.note(newest, Instant::now());
        while self.next <= newest {
            let together = if self.is_small { SMALL_TOGETHER } else { BLOCKS_TOGETHER };
            let last = newest.min(self.next + together - 1);
            for value in blocks(&self.node.rpc, self.next, last)? {
                let value = value?;
                if value.is_null() {
                    self.chain.number_ahead += 1;
                    self.heights.cannot_give(self.next);
                    return Ok(());
                }
                self.add(value)?;
            }
        }
        Ok(())
    }

    /// Adds a block that was just read.
    fn add(&mut self, value: Value) -> Result<(), RpcError> {
        let read = Instant::now();
        self.course.silence.heard(read);
        let garbled = |why: String| self.node.rpc.garbled(METHOD, &why);
        let header: Header = serde_json::from_value(value).map_err(|why| garbled(why.to_string()))?;
        let number = |text: &str| {
            let value = to_quantity(&json!(text)).and_then(|value| value.try_into().ok());
            value.ok_or_else(|| garbled(format!("{text} is not a quantity")))
        };
        let base_fee = header.base_fee_per_gas.as_deref().map(|text| to_quantity(&json!(text)).unwrap_or_default());
        let is_too_dear = base_fee.is_some_and(|fee| fee > U256::from(self.node.terms.max_fee));
        let (gas_used, gas_limit) = (number(&header.gas_used)?, number(&header.gas_limit)?);
        let timestamp = number(&header.timestamp)?;
        self.chain.reorganised += u64::from(self.tip.is_some_and(|tip| tip != header.parent_hash));
        self.tip = Some(header.hash);
        self.is_small = header.transactions.len() as u64 <= SMALL;
        let seen = self.heights.readable(self.next, read);
        let ours = self.course.outcomes.included(&header.transactions, seen);
        let block = Block {
            timestamp,
            transactions: header.transactions.len() as u64,
            ours,
            gas_used,
            gas_limit,
            too_dear: u64::from(is_too_dear),
            under_way: self.course.outcomes.under_way(),
            ..Block::one(self.next, seen)
        };
        let edges = self.course.edges();
        self.chain.reading_lag_us.record(&block, read, &edges);
        self.chain.blocks.push(block, &edges);
        self.next += 1;
        Ok(())
    }
}

/// Requests several blocks: a chain may make more in a second than can be requested one by one.
fn blocks(rpc: &Rpc, first: u64, last: u64) -> Result<Vec<Result<Value, RpcError>>, RpcError> {
    let params: Vec<Value> = (first..=last).map(|number| json!([format!("{number:#x}"), false])).collect();
    if let [only] = &params[..] {
        return Ok(vec![rpc.call(METHOD, only)]);
    }
    match rpc.batch::<Value>(METHOD, &params) {
        Ok(answers) => {
            Ok(answers.into_iter().map(|answer| answer.map_err(|refusal| refusal.into_error(METHOD))).collect())
        }
        // The node may not support batches, or may find the answer too long.
        Err(RpcError::Refused { .. } | RpcError::Status { .. }) => Ok(vec![rpc.call(METHOD, &params[0])]),
        Err(why) => Err(why),
    }
}

/// Estimates the block time from the timestamps of the blocks up to `newest`: the least interval, as a chain that makes
/// blocks on demand may have paused. Zero if unknown.
pub fn block_time(rpc: &Rpc, newest: u64) -> Duration {
    // The genesis timestamp does not say when that block was made.
    let numbers: Vec<_> = (newest.saturating_sub(BLOCKS_TIMED).max(1)..=newest).collect();
    let params: Vec<_> = numbers.iter().map(|number| json!([format!("{number:#x}"), false])).collect();
    let blocks = rpc.batch::<Value>(METHOD, &params).unwrap_or_default();
    let time = |block: Result<Value, _>| to_quantity(block.ok()?.get("timestamp")?)?.try_into().ok();
    let times: Option<Vec<u64>> = blocks.into_iter().map(time).collect();
    let times = times.unwrap_or_default();
    let least = times.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).min().unwrap_or_default();
    Duration::from_secs(least).min(BLOCK_TIME_MAX)
}

#[derive(Deserialize)]
struct Receipt {
    from: Address,
    status: Option<String>,
}

/// Counts transactions of `senders` that failed in these blocks, as far as the node answers before `is_over`.
pub fn failed(rpc: &Rpc, blocks: &[Block], senders: &HashSet<Address>, is_over: &dyn Fn() -> bool) -> Receipts {
    let mut whole_blocks = true;
    Receipts::gather(blocks, is_over, |number| {
        let number = format!("{number:#x}");
        // A server may not return all receipts of a block in one answer.
        let mut receipts = whole_blocks.then(|| receipts_of_block(rpc, &number)).flatten();
        if receipts.is_none() {
            whole_blocks = false;
            receipts = receipts_one_by_one(rpc, &number, is_over);
        }
        let receipts = receipts?;
        let ours: Vec<_> = receipts.iter().filter(|receipt| senders.contains(&receipt.from)).collect();
        let failed = ours.iter().filter(|receipt| receipt.status.as_deref() == Some("0x0")).count();
        Some((ours.len() as u64, failed as u64))
    })
}

fn receipts_of_block(rpc: &Rpc, number: &str) -> Option<Vec<Receipt>> {
    serde_json::from_value(rpc.call("eth_getBlockReceipts", &json!([number])).ok()?).ok()
}

/// All receipts or none: half of a block's would not be a fair sample.
fn receipts_one_by_one(rpc: &Rpc, number: &str, is_over: &dyn Fn() -> bool) -> Option<Vec<Receipt>> {
    let block = rpc.call("eth_getBlockByNumber", &json!([number, false])).ok()?;
    let hashes: Vec<Value> = block["transactions"].as_array()?.iter().map(|hash| json!([hash])).collect();
    let mut receipts = vec![];
    for hashes in hashes.chunks(RECEIPTS_TOGETHER) {
        if is_over() {
            return None;
        }
        for receipt in rpc.batch::<Value>("eth_getTransactionReceipt", hashes).ok()? {
            receipts.push(serde_json::from_value(receipt.ok()?).ok()?);
        }
    }
    Some(receipts)
}
