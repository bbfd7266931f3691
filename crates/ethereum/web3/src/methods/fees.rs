//! Suggested fees for transactions.
//!
//! reads   the fees and the use of the last blocks
//! writes  prices in wei per gas
//! memory  the tips of one block at a time; the answer of the last sample
//! drops   spans of more than a thousand blocks are cut, as geth does
//! source  `eth/gasprice` of go-ethereum 1.16; EIP-1559, 4844

use alloy_consensus::Transaction;
use alloy_primitives::U256;
use hearth_evm::blobs::BlobEnv;
use hearth_evm::block::{Block, next_base_fee};
use serde::Deserialize;

use super::{Api, Caller};
use crate::failure::Failure;
use crate::json;
use crate::params::{BlockId, Params};

/// Blocks whose tips are sampled.
const SAMPLE_BLOCKS: u64 = 20;
/// Lowest tips sampled of each block.
const SAMPLE_TIPS: usize = 3;
/// Percentile of the samples that is suggested.
const SAMPLE_PERCENTILE: usize = 60;
/// The suggested tip if no transaction has paid one.
const FIRST_TIP: u128 = 1_000_000_000;
/// Maximum blocks of one history.
const HISTORY_BLOCKS_MAX: u64 = 1_024;
/// Maximum percentiles of one history.
const PERCENTILES_MAX: usize = 100;

/// Returns the tips that a block's transactions paid, with the gas each used, lowest first.
fn tips(block: &Block) -> Vec<(u128, u64)> {
    let base_fee = block.base_fee();
    let mut tips: Vec<(u128, u64)> = block
        .txs
        .iter()
        .zip(&block.receipts)
        .map(|(tx, receipt)| (tx.envelope.effective_tip_per_gas(base_fee).unwrap_or_default(), receipt.gas_used))
        .collect();
    tips.sort_unstable();
    tips
}

impl Api {
    /// Suggests a tip that gets a transaction into the next blocks.
    pub fn suggested_tip(&self) -> u128 {
        let head = self.chain.head();
        let mut last = self.last_tip.lock();
        if last.0 == head.hash {
            return last.1;
        }
        let first = head.number().saturating_sub(SAMPLE_BLOCKS - 1);
        let mut sample: Vec<u128> = (first..=head.number())
            .filter_map(|number| self.chain.block(number))
            .flat_map(|block| tips(&block).into_iter().map(|(tip, _)| tip).take(SAMPLE_TIPS))
            .collect();
        sample.sort_unstable();
        let at = sample.len().saturating_sub(1) * SAMPLE_PERCENTILE / 100;
        let tip = sample.get(at).copied().unwrap_or(FIRST_TIP);
        *last = (head.hash, tip);
        tip
    }

    /// Returns the base fee of the block after this one.
    pub fn base_fee_after(&self, block: &Block) -> u64 {
        let head = self.chain.head();
        match block.number() < head.number() {
            true => self.chain.block(block.number() + 1).map_or(0, |next| next.base_fee()),
            false if block.header.base_fee_per_gas.is_none() => 0,
            false => next_base_fee(block.header.gas_used, block.header.gas_limit, block.base_fee()),
        }
    }

    /// Suggests a gas price for a legacy transaction.
    pub fn suggested_price(&self) -> u128 {
        let head = self.chain.head();
        self.suggested_tip() + u128::from(head.base_fee().max(self.base_fee_after(&head)))
    }
}

#[derive(Deserialize)]
struct Percentiles(Vec<f64>);

impl Caller<'_> {
    pub(super) async fn eth_fee_history(&self, params: Params<'_>) -> Result<String, Failure> {
        let params = params.at_most(3)?;
        let count: u64 = params.required(0)?;
        let newest: BlockId = params.required(1)?;
        let Percentiles(percentiles) = params.shape_or_none(2)?.unwrap_or(Percentiles(Vec::new()));
        if percentiles.len() > PERCENTILES_MAX {
            return Err(Failure::server(format!("too many percentiles: over the query limit {PERCENTILES_MAX}")));
        }
        let in_range = percentiles.iter().all(|percentile| (0.0..=100.0).contains(percentile));
        if !in_range || !percentiles.is_sorted_by(|a, b| a < b) {
            return Err(Failure::server("invalid reward percentile: each from 0 to 100, and above the one before"));
        }
        let api = std::sync::Arc::clone(self.api);
        self.api
            .heavy
            .run(move |deadline| {
                let newest = match newest {
                    BlockId::Number(number) if number > api.chain.head().number() => {
                        let head = api.chain.head().number();
                        return Err(Failure::server(format!(
                            "request beyond head block: requested {number}, head {head}"
                        )));
                    }
                    newest => api.block(newest)?.ok_or_else(|| Failure::server("header not found"))?,
                };
                let count = count.min(HISTORY_BLOCKS_MAX).min(newest.number() + 1);
                if count == 0 {
                    return Ok(r#"{"oldestBlock":"0x0","gasUsedRatio":null}"#.into());
                }
                let oldest = newest.number() + 1 - count;
                let mut history = History::default();
                for number in oldest..=newest.number() {
                    deadline.check()?;
                    let block = match number == newest.number() {
                        true => newest.clone(),
                        false => api.chain.block(number).ok_or_else(|| Failure::server("header not found"))?,
                    };
                    history.add(&block, api.chain.env_of(&block).blobs, &percentiles);
                }
                let has_blobs = newest.header.excess_blob_gas.is_some();
                history.blob_fees.push(if has_blobs { api.chain.blobs_after(&newest).price() } else { 0 });
                let next = api.base_fee_after(&newest);
                Ok(history.finish(oldest, next, !percentiles.is_empty()))
            })
            .await
    }
}

#[derive(Default)]
struct History {
    base_fees: Vec<u64>,
    ratios: Vec<f64>,
    /// One more than there are blocks: the last is the next block's.
    blob_fees: Vec<u128>,
    blob_ratios: Vec<f64>,
    rewards: Vec<Vec<u128>>,
}

impl History {
    fn add(&mut self, block: &Block, blobs: BlobEnv, percentiles: &[f64]) {
        self.base_fees.push(block.base_fee());
        let has_blobs = block.header.excess_blob_gas.is_some();
        self.blob_fees.push(if has_blobs { blobs.price() } else { 0 });
        let used = block.header.blob_gas_used.unwrap_or_default();
        self.blob_ratios.push(used as f64 / blobs.params.max_blob_gas_per_block() as f64);
        self.ratios.push(block.header.gas_used as f64 / block.header.gas_limit.max(1) as f64);
        if !percentiles.is_empty() {
            self.rewards.push(rewards(&tips(block), block.header.gas_used, percentiles));
        }
    }

    fn finish(self, oldest: u64, next_base_fee: u64, with_rewards: bool) -> String {
        use std::fmt::Write;
        let ratio = |out: &mut String, ratio: &f64| write!(out, "{ratio}").expect("a string takes all");
        json::object(|object| {
            object.quantity("oldestBlock", oldest);
            if with_rewards {
                object.array("reward", &self.rewards, |out, rewards| {
                    json::push_array(out, rewards, |out, tip| json::push_quantity_256(out, &U256::from(*tip)));
                });
            }
            let fees = self.base_fees.iter().copied().chain([next_base_fee]);
            object.array("baseFeePerGas", fees, json::push_quantity);
            object.array("gasUsedRatio", &self.ratios, ratio);
            object.array("baseFeePerBlobGas", &self.blob_fees, |out, fee| {
                json::push_quantity_256(out, &U256::from(*fee));
            });
            object.array("blobGasUsedRatio", &self.blob_ratios, ratio);
        })
    }
}

/// Returns the tips at these percentiles of the block's gas; 0 without transactions.
fn rewards(tips: &[(u128, u64)], gas_used: u64, percentiles: &[f64]) -> Vec<u128> {
    let mut rest = tips.iter();
    let mut at = rest.next();
    let mut seen = at.map_or(0, |(_, gas)| *gas);
    let reward = |percentile: &f64| {
        let wanted = (gas_used as f64 * percentile / 100.0) as u64;
        while seen < wanted
            && let Some(next) = rest.next()
        {
            seen += next.1;
            at = Some(next);
        }
        at.map_or(0, |(tip, _)| *tip)
    };
    percentiles.iter().map(reward).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rewards_are_weighed_by_gas() {
        let tips = [(1, 10), (2, 70), (3, 20)];
        assert_eq!(rewards(&tips, 100, &[0.0, 10.0, 11.0, 80.0, 81.0, 100.0]), [1, 1, 2, 2, 3, 3]);
        assert_eq!(rewards(&[], 0, &[0.0, 50.0]), [0, 0]);
    }

    #[test]
    fn a_history_is_written_as_geth_does() {
        let (blob_fees, blob_ratios) = (vec![1, 9], vec![0.25]);
        let rewards = vec![vec![1, 2]];
        let history = History { base_fees: vec![7], ratios: vec![0.5], blob_fees, blob_ratios, rewards };
        let value: serde_json::Value = serde_json::from_str(&history.finish(3, 8, true)).unwrap();
        assert_eq!(value["baseFeePerGas"], serde_json::json!(["0x7", "0x8"]));
        assert_eq!(value["gasUsedRatio"], serde_json::json!([0.5]));
        assert_eq!((&value["oldestBlock"], &value["reward"][0][1]), (&"0x3".into(), &"0x2".into()));
        assert_eq!(value["baseFeePerBlobGas"], serde_json::json!(["0x1", "0x9"]));
        assert_eq!(value["blobGasUsedRatio"], serde_json::json!([0.25]));
    }
}
