//! `testing_buildBlockV1`: builds a block of chosen transactions, returns it and forgets it.
//!
//! reads   a block and the state after it; the pool, where no transactions are named
//! writes  an execution payload
//! memory  the block, what it changes and the sidecars of its blobs
//! drops   a named transaction that the block cannot hold: error -32000, and no block
//! source  the execution API of ethereum.org

use std::sync::Arc;

use alloy_consensus::Transaction;
use alloy_eips::eip4895::Withdrawal;
use alloy_primitives::{Address, B256, Bytes, U256};
use hearth_evm::blobs::SharedSidecar;
use hearth_evm::block::{Block, Body, Roots, next_base_fee};
use hearth_evm::exec::{BlockEnv, BlockExecution, BlockExecutor, SpecId, Verdict, credit};
use hearth_evm::tx::{SharedTx, decode_one_as_sent};
use serde::Deserialize;

use super::blobs::push_parts;
use super::{Api, Caller};
use crate::call_pool::Deadline;
use crate::failure::Failure;
use crate::json;
use crate::params::{Field, Params};

/// The payload attributes of a consensus layer.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Attributes {
    timestamp: Field<u64>,
    prev_randao: Field<B256>,
    suggested_fee_recipient: Field<Address>,
    #[serde(default)]
    withdrawals: Option<Vec<Withdrawal>>,
    #[serde(default)]
    parent_beacon_block_root: Option<Field<B256>>,
}

/// A request for a block.
struct BuildRequest {
    parent: B256,
    attributes: Attributes,
    /// The pool's transactions if it is missing.
    txs: Option<Vec<Field<Bytes>>>,
    extra_data: Bytes,
}

impl Caller<'_> {
    pub(super) async fn testing(&self, method: &str, params: Params<'_>) -> Result<String, Failure> {
        if method != "testing_buildBlockV1" {
            return Err(Failure::method_not_found(method));
        }
        let params = params.at_most(4)?;
        let order = BuildRequest {
            parent: params.required(0)?,
            attributes: params.shape(1)?,
            txs: params.shape_or_none(2)?,
            extra_data: params.optional(3)?.unwrap_or_default(),
        };
        let api = Arc::clone(self.api);
        self.api.heavy.run(move |deadline| api.build(order, deadline)).await
    }
}

impl Api {
    fn build(&self, order: BuildRequest, deadline: Deadline) -> Result<String, Failure> {
        let parent = self.chain.block_by_hash(&order.parent);
        let parent = parent.ok_or_else(|| Failure::server(format!("unknown parent block {}", order.parent)))?;
        if order.extra_data.len() > 32 {
            return Err(Failure::server(format!("extra-data too long: {} > 32", order.extra_data.len())));
        }
        let view = self.view_after(&parent)?;
        let env = self.env_after(&parent, &order.attributes)?;
        let named = order.txs.is_some();
        let txs = match order.txs {
            None => self.chain.pool().best(env.base_fee, env.gas_limit),
            Some(raw) => {
                let decode = |raw: Field<Bytes>| decode_one_as_sent(&raw.0, env.chain_id).map_err(Failure::server);
                raw.into_iter().map(decode).collect::<Result<Vec<_>, _>>()?
            }
        };
        let mut executor = BlockExecutor::new(&view, &env);
        executor.begin();
        let mut verdicts = Vec::with_capacity(txs.len());
        for tx in &txs {
            deadline.check()?;
            match executor.run(tx) {
                Verdict::Refused(refusal) if named => return Err(Failure::server(refusal)),
                verdict => verdicts.push(verdict),
            }
        }
        let BlockExecution { verdicts, mut changes, requests, fault, .. } = executor.finish(verdicts);
        if let Some(fault) = fault {
            return Err(Failure::server(fault));
        }
        let withdrawals = order.attributes.withdrawals.unwrap_or_default();
        credit(&view, &mut changes, &withdrawals).map_err(Failure::state)?;
        let state_root = view.root_with(&changes).map_err(|why| Failure::chain(why.into()))?;
        let body = Body { withdrawals, ..Body::new(&txs, verdicts, env.base_fee) };
        let roots = Roots::of(&body);
        let block = Block::seal(&env, body, roots, requests.clone(), state_root, order.extra_data);
        let with_blobs = block.txs.iter().filter(|tx| tx.envelope.is_eip4844());
        let kept = self.chain.pool().sidecars();
        let sidecars: Vec<SharedSidecar> = with_blobs.filter_map(|tx| kept.get(&tx.hash)).collect();
        Ok(envelope(&block, &sidecars, &requests))
    }

    fn env_after(&self, parent: &Block, attributes: &Attributes) -> Result<BlockEnv, Failure> {
        let (number, timestamp) = (parent.number() + 1, attributes.timestamp.0);
        let before = parent.header.timestamp;
        if timestamp <= before {
            return Err(Failure::server(format!("invalid timestamp, parent {before} given {timestamp}")));
        }
        let genesis = self.chain.genesis();
        let spec = genesis.spec(number, timestamp);
        let root = attributes.parent_beacon_block_root.map_or(B256::ZERO, |field| field.0);
        Ok(BlockEnv {
            number,
            timestamp,
            beneficiary: attributes.suggested_fee_recipient.0,
            gas_limit: parent.header.gas_limit,
            base_fee: next_base_fee(parent.header.gas_used, parent.header.gas_limit, parent.base_fee()),
            prevrandao: attributes.prev_randao.0,
            parent_hash: Some(parent.hash),
            parent_beacon_block_root: spec.is_enabled_in(SpecId::CANCUN).then_some(root),
            blobs: parent.blobs_after(genesis.blob_params(number, timestamp)),
            chain_id: self.chain_id(),
            spec,
            limits: genesis.limits,
            deposit_contract: genesis.deposit_contract,
        })
    }
}

/// Returns the sum that the transactions of a block pay to its fee recipient, in wei.
fn value(block: &Block) -> U256 {
    let tip = |tx: &SharedTx| tx.envelope.effective_tip_per_gas(block.base_fee()).unwrap_or_default();
    let paid = block.txs.iter().zip(&block.receipts);
    paid.fold(U256::ZERO, |sum, (tx, receipt)| sum + U256::from(tip(tx)) * U256::from(receipt.gas_used))
}

/// Builds the execution payload; `sidecars` are those of the block's transactions that the node has.
fn envelope(block: &Block, sidecars: &[SharedSidecar], requests: &[Bytes]) -> String {
    let header = &block.header;
    json::object(|object| {
        object.object("executionPayload", |object| {
            object.data("parentHash", header.parent_hash.as_slice());
            object.data("feeRecipient", header.beneficiary.as_slice());
            object.data("stateRoot", header.state_root.as_slice());
            object.data("receiptsRoot", header.receipts_root.as_slice());
            object.data("logsBloom", header.logs_bloom.as_slice());
            object.data("prevRandao", header.mix_hash.as_slice());
            object.quantity("blockNumber", header.number);
            object.quantity("gasLimit", header.gas_limit);
            object.quantity("gasUsed", header.gas_used);
            object.quantity("timestamp", header.timestamp);
            object.data("extraData", &header.extra_data);
            object.quantity("baseFeePerGas", block.base_fee());
            object.data("blockHash", block.hash.as_slice());
            object.array("transactions", &block.txs, |out, tx| json::push_data(out, &tx.raw));
            if header.withdrawals_root.is_some() {
                crate::shapes::push_withdrawals(object, &block.withdrawals);
            }
            if let (Some(used), Some(excess)) = (header.blob_gas_used, header.excess_blob_gas) {
                object.quantity("blobGasUsed", used);
                object.quantity("excessBlobGas", excess);
            }
        });
        object.quantity_256("blockValue", &value(block));
        object.object("blobsBundle", |object| push_parts(object, sidecars, true));
        object.array("executionRequests", requests, |out, request| json::push_data(out, request));
        object.flag("shouldOverrideBuilder", false);
    })
}
