//! Blocks, their transactions and receipts.
//!
//! reads   blocks; the pool for transactions that wait
//! writes  the shapes of [`super::shapes`]
//! memory  the text of one block
//! drops   nothing: what is not there is null
//! source  the execution API of ethereum.org

use std::sync::Arc;

use alloy_consensus::Transaction;
use alloy_eips::eip2718::Encodable2718;
use alloy_primitives::{B256, Bloom, U256};
use hearth_evm::block::Block;
use hearth_evm::exec::BlockEnv;
use hearth_evm::tx::SharedTx;

use super::shapes::{self, Place, Seat};
use super::{Api, Caller};
use crate::failure::Failure;
use crate::json;
use crate::params::{BlockId, Params};

const NULL: &str = "null";

impl Api {
    /// Where a transaction is.
    fn found(&self, hash: &B256) -> Option<(Arc<Block>, usize)> {
        self.chain.tx(hash)
    }

    /// The block to come, and what it would hold. None of that is executed.
    fn pending(&self) -> (BlockEnv, Vec<SharedTx>) {
        let env = self.chain.pending_env();
        let mut txs = self.chain.pool().best(env.base_fee, env.gas_limit);
        // What is in a block is in the pool for a moment more.
        let view = self.chain.view();
        txs.retain(|tx| view.account(&tx.sender).is_none_or(|account| account.nonce <= tx.envelope.nonce()));
        (env, txs)
    }

    /// The block to come, as far as it can be known: no transaction is executed for it.
    fn pending_block(&self, whole: bool) -> Result<String, Failure> {
        let ((env, txs), head) = (self.pending(), self.chain.head());
        let (mut transactions, bytes_max) = (String::from("["), self.config.limits.answer_bytes);
        for (index, tx) in txs.iter().enumerate() {
            if index > 0 {
                transactions.push(',');
            }
            match whole {
                true => shapes::push_seated(&mut transactions, tx, Some(Seat::to_come(&env, index))),
                false => json::push_data(&mut transactions, tx.hash.as_slice()),
            }
            if transactions.len() > bytes_max {
                return Err(Failure::too_large());
            }
        }
        transactions.push(']');
        // Roots of what is not executed are not known.
        let root = |empty: B256| txs.is_empty().then_some(empty);
        let transactions_root = root(alloy_consensus::constants::EMPTY_TRANSACTIONS);
        let receipts_root = root(alloy_consensus::constants::EMPTY_RECEIPTS);
        Ok(json::object(|object| {
            shapes::push_maker(object, None);
            object.data("parentHash", head.hash.as_slice());
            object.data("sha3Uncles", head.header.ommers_hash.as_slice());
            object.null("stateRoot");
            object.data_or_null("transactionsRoot", transactions_root.as_ref().map(|root| root.as_slice()));
            object.data_or_null("receiptsRoot", receipts_root.as_ref().map(|root| root.as_slice()));
            object.data("logsBloom", Bloom::ZERO.as_slice());
            object.quantity_256("difficulty", &U256::ZERO);
            object.quantity_256("totalDifficulty", &U256::ZERO);
            object.quantity("number", env.number);
            object.quantity("gasLimit", env.gas_limit);
            object.quantity("gasUsed", 0);
            object.quantity("timestamp", env.timestamp);
            object.data("extraData", &[]);
            object.data("mixHash", env.prevrandao.as_slice());
            if head.header.base_fee_per_gas.is_some() {
                object.quantity("baseFeePerGas", env.base_fee);
            }
            object.quantity("size", head.size());
            object.raw("uncles", "[]");
            if head.header.withdrawals_root.is_some() {
                object.raw("withdrawals", "[]");
            }
            object.raw("transactions", &transactions);
        }))
    }
}

impl Caller<'_> {
    pub(super) fn eth_block_number(&self) -> Result<String, Failure> {
        Ok(json::quantity(self.api.chain.head().number()))
    }

    pub(super) fn block_method(&self, method: &str, params: Params<'_>) -> Result<String, Failure> {
        let api = self.api;
        match method {
            "eth_getBlockByNumber" | "eth_getBlockByHash" => {
                let params = params.at_most(2)?;
                let id = self.block_id(method, &params)?;
                let whole = params.optional(1)?.unwrap_or(false);
                if id == BlockId::Pending {
                    return api.pending_block(whole);
                }
                Ok(api.block(id)?.map_or(NULL.into(), |block| shapes::block(&block, whole)))
            }
            "eth_getHeaderByNumber" | "eth_getHeaderByHash" => {
                let id = self.block_id(method, &params.at_most(1)?)?;
                Ok(api.block(id)?.map_or(NULL.into(), |block| shapes::head(&block)))
            }
            "eth_getBlockReceipts" => {
                let block = api.block(params.at_most(1)?.required(0)?)?;
                Ok(block.map_or(NULL.into(), |block| shapes::receipts(&block)))
            }
            "eth_getBlockTransactionCountByNumber" | "eth_getBlockTransactionCountByHash" => {
                let id = self.block_id(method, &params.at_most(1)?)?;
                if id == BlockId::Pending {
                    return Ok(json::quantity(api.pending().1.len() as u64));
                }
                Ok(api.block(id)?.map_or(NULL.into(), |block| json::quantity(block.txs.len() as u64)))
            }
            "eth_getUncleCountByBlockNumber" | "eth_getUncleCountByBlockHash" => {
                let id = self.block_id(method, &params.at_most(1)?)?;
                Ok(api.block(id)?.map_or(NULL.into(), |_| json::quantity(0)))
            }
            // No block has an uncle.
            "eth_getUncleByBlockNumberAndIndex" | "eth_getUncleByBlockHashAndIndex" => {
                let params = params.at_most(2)?;
                self.block_id(method, &params)?;
                params.required::<u64>(1)?;
                Ok(NULL.into())
            }
            "eth_getTransactionByHash" => {
                let hash: B256 = params.at_most(1)?.required(0)?;
                Ok(self.transaction(&hash))
            }
            "eth_getRawTransactionByHash" => {
                let hash: B256 = params.at_most(1)?.required(0)?;
                let waiting = || api.chain.pool().get(&hash).map(|tx| tx.raw.clone());
                let raw = api.found(&hash).map(|(block, index)| block.txs[index].raw.clone()).or_else(waiting);
                Ok(raw.map_or("\"0x\"".into(), |raw| json::data(&raw)))
            }
            "eth_getTransactionByBlockNumberAndIndex" | "eth_getTransactionByBlockHashAndIndex" => {
                let Some((tx, seat)) = self.seat(method, params)? else { return Ok(NULL.into()) };
                let mut out = String::new();
                shapes::push_seated(&mut out, &tx, Some(seat));
                Ok(out)
            }
            "eth_getRawTransactionByBlockNumberAndIndex" | "eth_getRawTransactionByBlockHashAndIndex" => {
                let seat = self.seat(method, params)?;
                Ok(seat.map_or("\"0x\"".into(), |(tx, _)| json::data(&tx.envelope.encoded_2718())))
            }
            unknown => Err(Failure::method_not_found(unknown)),
        }
    }

    /// The block that the first parameter names: by its hash where the method says so.
    fn block_id(&self, method: &str, params: &Params<'_>) -> Result<BlockId, Failure> {
        match method.contains("Hash") {
            true => params.required(0).map(BlockId::Hash),
            false => params.required(0),
        }
    }

    fn seat(&self, method: &str, params: Params<'_>) -> Result<Option<(SharedTx, Seat)>, Failure> {
        let params = params.at_most(2)?;
        let id = self.block_id(method, &params)?;
        let index = usize::try_from(params.required::<u64>(1)?).unwrap_or(usize::MAX);
        if id == BlockId::Pending {
            let (env, txs) = self.api.pending();
            return Ok(txs.get(index).map(|tx| (tx.clone(), Seat::to_come(&env, index))));
        }
        let Some(block) = self.api.block(id)? else { return Ok(None) };
        Ok(block.txs.get(index).map(|tx| (tx.clone(), Seat::from(Place { block: &block, index }))))
    }

    fn transaction(&self, hash: &B256) -> String {
        // First where it waits: between the two looks it may have come into a block.
        let waiting = self.api.chain.pool().get(hash);
        let mut out = String::new();
        match (self.api.found(hash), waiting) {
            (Some((block, index)), _) => {
                shapes::push_transaction(&mut out, &block.txs[index], Some(Place { block: &block, index }));
            }
            (None, Some(tx)) => shapes::push_transaction(&mut out, &tx, None),
            (None, None) => return NULL.into(),
        }
        out
    }

    pub(super) fn eth_get_transaction_receipt(&self, params: Params<'_>) -> Result<String, Failure> {
        let hash: B256 = params.at_most(1)?.required(0)?;
        let Some((block, index)) = self.api.found(&hash) else { return Ok(NULL.into()) };
        let mut out = String::new();
        shapes::push_receipt(&mut out, Place { block: &block, index });
        Ok(out)
    }
}
