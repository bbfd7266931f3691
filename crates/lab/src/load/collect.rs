//! Blocks, read from the node while the load runs.
//!
//! reads   `eth_blockNumber`, `eth_getBlockByNumber`; after the run `eth_getBlockReceipts`
//! writes  a [`Block`] each; ends of transactions
//! memory  100 B a block
//! drops   nothing: a block that cannot be read is asked for again

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use alloy_primitives::B256;
use serde::Deserialize;
use serde_json::json;

use super::outcome::Outcomes;
use super::rpc::{Rpc, RpcError, to_quantity};

/// How often the node is asked for its newest block.
const POLL: Duration = Duration::from_millis(20);
/// How long nothing but errors may come.
const PATIENCE: Duration = Duration::from_secs(30);

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
}

/// Reads blocks from number `next` on until `stop`; then once more.
pub fn follow(rpc: &Rpc, next: u64, outcomes: &Outcomes, stop: &AtomicBool) -> Result<Chain, RpcError> {
    let mut chain = Chain::default();
    let (mut next, mut tip) = (next, None);
    let mut answered = Instant::now();
    loop {
        // Looked at before the node is asked: what came before the stop is read after it.
        let last = stop.load(Ordering::Acquire);
        match step(rpc, &mut next, &mut tip, outcomes, &mut chain) {
            Ok(()) => answered = Instant::now(),
            Err(why) => {
                chain.errors += 1;
                if last || answered.elapsed() > PATIENCE {
                    return Err(why);
                }
            }
        }
        if last {
            return Ok(chain);
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
        const METHOD: &str = "eth_getBlockByNumber";
        let value = rpc.call(METHOD, &json!([format!("{next:#x}"), false]))?;
        let seen = Instant::now();
        if value.is_null() {
            chain.number_ahead += 1;
            return Ok(());
        }
        let garbled = |why: String| RpcError::Garbled { url: rpc.url().into(), method: METHOD.into(), why };
        let header: Header = serde_json::from_value(value).map_err(|why| garbled(why.to_string()))?;
        let number = |text: &str| {
            let value = to_quantity(&json!(text)).and_then(|value| value.try_into().ok());
            value.ok_or_else(|| garbled(format!("{text} is no quantity")))
        };
        chain.reorganised += u64::from(tip.is_some_and(|tip| tip != header.parent_hash));
        *tip = Some(header.hash);
        let ours = outcomes.included(&header.transactions, seen);
        chain.blocks.push(Block {
            number: *next,
            seen,
            timestamp: number(&header.timestamp)?,
            transactions: header.transactions.len() as u64,
            ours,
            gas_used: number(&header.gas_used)?,
            gas_limit: number(&header.gas_limit)?,
            under_way: outcomes.under_way(),
        });
        *next += 1;
    }
    Ok(())
}

/// How many transactions of these blocks failed in them; none where the node does not tell.
pub fn failed(rpc: &Rpc, blocks: &[Block]) -> Result<Option<u64>, RpcError> {
    #[derive(Deserialize)]
    struct Receipt {
        status: Option<String>,
    }
    let mut failed = 0;
    for block in blocks.iter().filter(|block| block.ours > 0) {
        const METHOD: &str = "eth_getBlockReceipts";
        let receipts = match rpc.call(METHOD, &json!([format!("{:#x}", block.number)])) {
            Ok(receipts) => receipts,
            Err(RpcError::Refused { code: -32601, .. }) => return Ok(None),
            Err(why) => return Err(why),
        };
        let receipts: Vec<Receipt> = serde_json::from_value(receipts).map_err(|why| RpcError::Garbled {
            url: rpc.url().into(),
            method: METHOD.into(),
            why: why.to_string(),
        })?;
        failed += receipts.iter().filter(|receipt| receipt.status.as_deref() == Some("0x0")).count() as u64;
    }
    Ok(Some(failed))
}
