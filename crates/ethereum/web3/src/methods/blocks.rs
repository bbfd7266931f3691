//! Blocks, their transactions and receipts.
//!
//! reads   blocks; the pool for transactions that wait
//! writes  the shapes of [`crate::shapes`]
//! memory  the text of one block
//! drops   nothing: what is not there is null
//! source  the execution API of ethereum.org
//!
//! Blocks that must be read from disk, blocks of many transactions, and the pending block, which must be executed
//! first, are handled on the call pool's threads, so that they do not delay other clients.

use std::sync::Arc;

use alloy_eips::eip2718::Encodable2718;
use alloy_primitives::B256;
use hearth_evm::block::Block;

use super::{Api, Caller, pending_failure};
use crate::failure::Failure;
use crate::json;
use crate::params::{BlockId, Params};
use crate::shapes::{self, Stage, TxPosition};

const NULL: &str = "null";
/// Maximum transactions of a block that a connection's thread answers itself; and maximum where only hashes are needed.
const FEW_TRANSACTIONS: usize = 200;
const FEW_HASHES: usize = 2_000;

/// A query about a block, or about a transaction in one.
#[derive(Clone, Copy, Debug)]
enum BlockQuery {
    Block(BlockId, FullTxs),
    Header(BlockId),
    Receipts(BlockId),
    TransactionCount(BlockId),
    UncleCount(BlockId),
    Uncle(BlockId, u64),
    TransactionAt(BlockId, u64),
    RawTransactionAt(BlockId, u64),
    Transaction(B256),
    RawTransaction(B256),
    Receipt(B256),
}

/// Whether a block lists whole transactions, or their hashes.
type FullTxs = bool;

impl BlockQuery {
    /// Parses a method's query.
    fn read(method: &str, params: Params<'_>) -> Result<Self, Failure> {
        let by_hash = method.contains("ByHash") || method.contains("ByBlockHash");
        let block = |params: &Params<'_>| match by_hash {
            true => params.required(0).map(BlockId::Hash),
            false => params.required(0),
        };
        Ok(match method {
            "eth_getBlockByNumber" | "eth_getBlockByHash" => {
                let params = params.at_most(2)?;
                Self::Block(block(&params)?, params.optional(1)?.unwrap_or(false))
            }
            "eth_getHeaderByNumber" | "eth_getHeaderByHash" => Self::Header(block(&params.at_most(1)?)?),
            "eth_getBlockReceipts" => Self::Receipts(params.at_most(1)?.required(0)?),
            "eth_getBlockTransactionCountByNumber" | "eth_getBlockTransactionCountByHash" => {
                Self::TransactionCount(block(&params.at_most(1)?)?)
            }
            "eth_getUncleCountByBlockNumber" | "eth_getUncleCountByBlockHash" => {
                Self::UncleCount(block(&params.at_most(1)?)?)
            }
            "eth_getUncleByBlockNumberAndIndex" | "eth_getUncleByBlockHashAndIndex" => {
                let params = params.at_most(2)?;
                Self::Uncle(block(&params)?, params.required(1)?)
            }
            "eth_getTransactionByHash" => Self::Transaction(params.at_most(1)?.required(0)?),
            "eth_getRawTransactionByHash" => Self::RawTransaction(params.at_most(1)?.required(0)?),
            "eth_getTransactionReceipt" => Self::Receipt(params.at_most(1)?.required(0)?),
            "eth_getTransactionByBlockNumberAndIndex" | "eth_getTransactionByBlockHashAndIndex" => {
                let params = params.at_most(2)?;
                Self::TransactionAt(block(&params)?, params.required(1)?)
            }
            "eth_getRawTransactionByBlockNumberAndIndex" | "eth_getRawTransactionByBlockHashAndIndex" => {
                let params = params.at_most(2)?;
                Self::RawTransactionAt(block(&params)?, params.required(1)?)
            }
            unknown => return Err(Failure::method_not_found(unknown)),
        })
    }
}

impl Api {
    /// Returns whether a block is available without reading from disk or executing.
    pub(super) fn is_at_hand(&self, id: BlockId) -> bool {
        match id {
            BlockId::Pending => false,
            BlockId::Number(number) => self.chain.is_at_hand(number),
            BlockId::Hash(hash) => self.chain.is_hash_at_hand(&hash),
            BlockId::Safe | BlockId::Finalized => self.chain.is_at_hand(self.chain.synced()),
            _ => true,
        }
    }

    /// Returns whether the query is answered on the connection's thread.
    fn is_light(&self, asked: &BlockQuery) -> bool {
        let has_few = |id: BlockId, most: usize| {
            self.is_at_hand(id) && self.block(id).is_ok_and(|block| block.is_none_or(|block| block.txs.len() <= most))
        };
        match *asked {
            BlockQuery::Block(id, false) => has_few(id, FEW_HASHES),
            BlockQuery::Block(id, true) | BlockQuery::Receipts(id) => has_few(id, FEW_TRANSACTIONS),
            BlockQuery::Header(id)
            | BlockQuery::TransactionCount(id)
            | BlockQuery::UncleCount(id)
            | BlockQuery::Uncle(id, _)
            | BlockQuery::TransactionAt(id, _)
            | BlockQuery::RawTransactionAt(id, _) => self.is_at_hand(id),
            BlockQuery::Transaction(hash) | BlockQuery::RawTransaction(hash) | BlockQuery::Receipt(hash) => {
                self.chain.is_tx_at_hand(&hash)
            }
        }
    }

    fn answer(&self, asked: &BlockQuery) -> Result<String, Failure> {
        let or_null = |answer: Option<String>| answer.unwrap_or_else(|| NULL.into());
        let stage = |id| if id == BlockId::Pending { Stage::Pending } else { Stage::Made };
        Ok(match *asked {
            BlockQuery::Block(id, whole) => {
                or_null(self.block(id)?.map(|block| shapes::block(&block, stage(id), whole)))
            }
            BlockQuery::Header(id) => or_null(self.block(id)?.map(|block| shapes::head(&block, stage(id)))),
            BlockQuery::Receipts(id) => {
                // A receipt of the pending block does not promise anything.
                let block = self.block(id)?;
                let block = block.filter(|block| id == BlockId::Pending || self.is_acknowledged(block.number()));
                or_null(block.map(|block| shapes::receipts(&block, self.chain.env_of(&block).blobs.price())))
            }
            BlockQuery::TransactionCount(BlockId::Pending) => {
                let pending = self.chain.pending().map_err(pending_failure)?;
                json::quantity(pending.txs().len() as u64)
            }
            BlockQuery::TransactionCount(id) => {
                or_null(self.block(id)?.map(|block| json::quantity(block.txs.len() as u64)))
            }
            BlockQuery::UncleCount(id) => {
                or_null(self.block(id)?.map(|block| json::quantity(block.ommers.len() as u64)))
            }
            BlockQuery::Uncle(id, index) => or_null(self.block(id)?.and_then(|block| {
                let index = usize::try_from(index).ok()?;
                block.ommers.get(index).map(shapes::uncle)
            })),
            BlockQuery::TransactionAt(id, index) => or_null(self.transaction_at(id, index)?.map(|(block, index)| {
                let mut out = String::new();
                shapes::push_transaction(&mut out, &block.txs[index], Some(TxPosition { block: &block, index }));
                out
            })),
            BlockQuery::RawTransactionAt(id, index) => {
                let place = self.transaction_at(id, index)?;
                let raw = place.map(|(block, index)| block.txs[index].envelope.encoded_2718());
                raw.map_or("\"0x\"".into(), |raw| json::data(&raw))
            }
            BlockQuery::Transaction(hash) => self.transaction(&hash),
            BlockQuery::RawTransaction(hash) => {
                let waiting = || self.chain.pool().get(&hash).map(|tx| tx.raw.clone());
                let raw = self.chain.tx(&hash).map(|(block, index)| block.txs[index].raw.clone()).or_else(waiting);
                raw.map_or("\"0x\"".into(), |raw| json::data(&raw))
            }
            BlockQuery::Receipt(hash) => {
                // It may have come into a block since the first lookup.
                let found = self.chain.tx(&hash).filter(|(block, _)| self.is_acknowledged(block.number()));
                or_null(found.map(|(block, index)| {
                    let mut out = String::new();
                    let blob_price = self.chain.env_of(&block).blobs.price();
                    shapes::push_receipt(&mut out, TxPosition { block: &block, index }, blob_price);
                    out
                }))
            }
        })
    }

    /// Returns the block and the transaction at this index in it.
    fn transaction_at(&self, id: BlockId, index: u64) -> Result<Option<(Arc<Block>, usize)>, Failure> {
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        Ok(self.block(id)?.filter(|block| index < block.txs.len()).map(|block| (block, index)))
    }

    /// Returns a transaction of a block or of the pool; null if there is none.
    pub(super) fn transaction(&self, hash: &B256) -> String {
        // The pool first: the transaction may move into a block between the two lookups.
        let waiting = self.chain.pool().get(hash);
        let mut out = String::new();
        match (self.chain.tx(hash), waiting) {
            (Some((block, index)), _) => {
                shapes::push_transaction(&mut out, &block.txs[index], Some(TxPosition { block: &block, index }));
            }
            (None, Some(tx)) => shapes::push_transaction(&mut out, &tx, None),
            (None, None) => return NULL.into(),
        }
        out
    }
}

impl Caller<'_> {
    pub(super) async fn block_method(&self, method: &str, params: Params<'_>) -> Result<String, Failure> {
        let asked = match BlockQuery::read(method, params)? {
            BlockQuery::Receipts(id) => self.api.block_on_disk(id).await.map(BlockQuery::Receipts),
            asked @ BlockQuery::Receipt(hash) => self.api.tx_on_disk(&hash).await.then_some(asked),
            asked => Some(asked),
        };
        let Some(asked) = asked else { return Ok(NULL.into()) };
        if self.api.is_light(&asked) {
            return self.api.answer(&asked);
        }
        let api = Arc::clone(self.api);
        self.api.heavy.run(move |_| api.answer(&asked)).await
    }
}
