//! `ots_`: the methods of the block explorer Otterscan.
//!
//! reads   blocks, and the states before them
//! writes  blocks without what the explorer does not show, transactions of an account, calls of a transaction
//! memory  a page of transactions; the text of an answer: at most [`Limits::answer_bytes`](crate::Limits)
//! drops   a search that takes longer than a call may: error -32000; pages of more than 100 transactions are cut
//! source  the `ots` namespace of Erigon, level 8
//!
//! An account's transactions are those that it sent, that were sent to it, that created it or whose logs are its own:
//! there is no index of inner calls.

use std::sync::Arc;

use alloy_consensus::Transaction;
use alloy_primitives::{Address, B256, U256};
use hearth_evm::block::Block;

use super::{Api, Caller};
use crate::call_pool::Deadline;
use crate::failure::Failure;
use crate::json::{self, Object};
use crate::params::{BlockId, Params};
use crate::shapes::{self, TxPosition};
use crate::trace::{Budget, Frame, Frames, Kind, call_type};

/// The API level that the explorer asks for.
const LEVEL: &str = "8";
/// Maximum transactions of one page.
const PAGE_MAX: usize = 100;
const NULL: &str = "null";

/// The direction of a search.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    /// From a block to older ones; from the newest where the block is 0.
    Before,
    /// From a block to newer ones.
    After,
}

impl Caller<'_> {
    pub(super) async fn otterscan(&self, method: &str, params: Params<'_>) -> Result<String, Failure> {
        match method {
            "ots_getApiLevel" => params.at_most(0).map(|_| LEVEL.into()),
            "ots_hasCode" => {
                let params = params.at_most(2)?;
                let address: Address = params.required(0)?;
                let id = params.optional(1)?.unwrap_or(BlockId::Latest);
                self.looked_up(move |api, _| {
                    let account = api.view(id)?.account(&address);
                    let has = account.is_some_and(|account| account.code_hash != alloy_primitives::KECCAK256_EMPTY);
                    Ok(has.to_string())
                })
                .await
            }
            "ots_getInternalOperations" | "ots_traceTransaction" | "ots_getTransactionError" => {
                let hash: B256 = params.at_most(1)?.required(0)?;
                let tell = match method {
                    "ots_getInternalOperations" => operations,
                    "ots_traceTransaction" => calls,
                    _ => error,
                };
                self.looked_up(move |api, deadline| match api.chain.tx(&hash) {
                    None => Ok(NULL.into()),
                    Some((block, index)) => api.frames_of(&block, index, deadline).map(|frames| tell(&frames)),
                })
                .await
            }
            "ots_getBlockDetails" | "ots_getBlockDetailsByHash" => {
                let params = params.at_most(1)?;
                let id = match method {
                    "ots_getBlockDetails" => params.required(0)?,
                    _ => BlockId::Hash(params.required(0)?),
                };
                self.looked_up(move |api, _| Ok(api.block(id)?.map_or_else(|| NULL.into(), |block| details(&block))))
                    .await
            }
            "ots_getBlockTransactions" => {
                let params = params.at_most(3)?;
                let id: BlockId = params.required(0)?;
                let page: u64 = params.required(1)?;
                let length: u64 = params.required(2)?;
                let length = usize::try_from(length).unwrap_or(PAGE_MAX).min(PAGE_MAX);
                let page = usize::try_from(page).unwrap_or(usize::MAX);
                self.looked_up(move |api, _| {
                    let Some(block) = api.block(id)? else { return Ok(NULL.into()) };
                    let blob_price = api.chain.env_of(&block).blobs.price();
                    Ok(transactions(&block, blob_price, page, length))
                })
                .await
            }
            _ => self.searched(method, params).await,
        }
    }

    /// Answers the methods that search blocks.
    async fn searched(&self, method: &str, params: Params<'_>) -> Result<String, Failure> {
        match method {
            "ots_searchTransactionsBefore" | "ots_searchTransactionsAfter" => {
                let way = if method.ends_with("Before") { Direction::Before } else { Direction::After };
                let params = params.at_most(3)?;
                let (address, block): (Address, u64) = (params.required(0)?, params.required(1)?);
                let length: u64 = params.required(2)?;
                let length = usize::try_from(length).unwrap_or(PAGE_MAX).clamp(1, PAGE_MAX);
                self.looked_up(move |api, deadline| api.search(&address, block, way, length, deadline)).await
            }
            "ots_getTransactionBySenderAndNonce" => {
                let params = params.at_most(2)?;
                let (sender, nonce): (Address, u64) = (params.required(0)?, params.required(1)?);
                self.looked_up(move |api, deadline| {
                    let found = api.find_sent(&sender, nonce, deadline)?;
                    Ok(found.map_or_else(|| NULL.into(), |hash| json::data(hash.as_slice())))
                })
                .await
            }
            "ots_getContractCreator" => {
                let contract: Address = params.at_most(1)?.required(0)?;
                self.looked_up(move |api, deadline| {
                    let found = api.find(deadline, |block, index| {
                        let receipt = &block.receipts[index];
                        receipt.status && receipt.contract_address == Some(contract)
                    })?;
                    Ok(found.map_or_else(
                        || NULL.into(),
                        |(block, index)| {
                            json::object(|object| {
                                object.data("hash", block.txs[index].hash.as_slice());
                                object.data("creator", block.txs[index].sender.as_slice());
                            })
                        },
                    ))
                })
                .await
            }
            unknown => Err(Failure::method_not_found(unknown)),
        }
    }

    /// Returns the transaction of an account with a nonce, of the pool or of a block.
    pub(super) async fn transaction_by_nonce(&self, params: Params<'_>) -> Result<String, Failure> {
        let params = params.at_most(2)?;
        let (sender, nonce): (Address, u64) = (params.required(0)?, params.required(1)?);
        self.looked_up(move |api, deadline| {
            let waiting = api.chain.pool().content_from(&sender);
            let mut waiting = waiting.iter().flat_map(|content| content.pending.iter().chain(&content.queued));
            let found = match waiting.find(|tx| tx.envelope.nonce() == nonce) {
                Some(tx) => Some(tx.hash),
                None => api.find_sent(&sender, nonce, deadline)?,
            };
            Ok(found.map_or_else(|| NULL.into(), |hash| api.transaction(&hash)))
        })
        .await
    }

    async fn looked_up(
        &self,
        work: impl FnOnce(&Api, Deadline) -> Result<String, Failure> + Send + 'static,
    ) -> Result<String, Failure> {
        let api = Arc::clone(self.api);
        self.api.heavy.run(move |deadline: Deadline| work(&api, deadline)).await
    }
}

impl Api {
    fn frames_of(&self, block: &Block, index: usize, deadline: Deadline) -> Result<Vec<Frame>, Failure> {
        let budget = Budget { bytes: self.config.limits.answer_bytes, deadline };
        let all = self.replay(block, Some(index), deadline, |subject| {
            let mut frames = Frames::new(false, budget);
            let done = subject.run(&mut frames)?;
            Ok((frames.finish()?, done.state))
        })?;
        Ok(all.into_iter().next().unwrap_or_default())
    }

    /// Returns the transaction of a block that this account sent with this nonce.
    fn find_sent(&self, sender: &Address, nonce: u64, deadline: Deadline) -> Result<Option<B256>, Failure> {
        let found = self.find(deadline, |block, index| {
            let tx = &block.txs[index];
            tx.sender == *sender && tx.envelope.nonce() == nonce
        })?;
        Ok(found.map(|(block, index)| block.txs[index].hash))
    }

    /// Returns the newest matching transaction, with its place.
    fn find(
        &self,
        deadline: Deadline,
        is_meant: impl Fn(&Block, usize) -> bool,
    ) -> Result<Option<(Arc<Block>, usize)>, Failure> {
        let mut number = Some(self.chain.head().number());
        while let Some(block) = number.and_then(|number| self.chain.block(number)) {
            deadline.check()?;
            if let Some(index) = (0..block.txs.len()).rev().find(|index| is_meant(&block, *index)) {
                return Ok(Some((block, index)));
            }
            number = block.number().checked_sub(1);
        }
        Ok(None)
    }

    /// Returns a page of an account's transactions, the newest first; a block's are all in it or none.
    fn search(
        &self,
        address: &Address,
        from: u64,
        way: Direction,
        length: usize,
        deadline: Deadline,
    ) -> Result<String, Failure> {
        let head = self.chain.head().number();
        let oldest = self.earliest();
        let mut number = match way {
            Direction::Before if from == 0 => Some(head),
            Direction::Before => Some(from - 1).filter(|number| *number >= oldest).map(|number| number.min(head)),
            Direction::After => Some(from.saturating_add(1).max(oldest)).filter(|number| *number <= head),
        };
        let is_whole = from == 0;
        let mut found: Vec<(Arc<Block>, usize)> = Vec::new();
        while let Some(at) = number.filter(|_| found.len() < length) {
            deadline.check()?;
            number = match way {
                Direction::Before => at.checked_sub(1).filter(|next| *next >= oldest),
                Direction::After => Some(at + 1).filter(|next| *next <= head),
            };
            let Some(block) = self.chain.block(at) else { continue };
            let indexes: Vec<usize> = (0..block.txs.len()).filter(|index| is_of(&block, *index, address)).collect();
            match way {
                Direction::Before => found.extend(indexes.into_iter().rev().map(|index| (Arc::clone(&block), index))),
                Direction::After => found.extend(indexes.into_iter().map(|index| (Arc::clone(&block), index))),
            }
        }
        if way == Direction::After {
            found.reverse();
        }
        let is_end = number.is_none();
        let (first, last) = match way {
            Direction::Before => (is_whole, is_end),
            Direction::After => (is_end, is_whole),
        };
        Ok(json::object(|object| {
            object.array("txs", &found, |out, (block, index)| {
                shapes::push_transaction(out, &block.txs[*index], Some(TxPosition { block, index: *index }));
            });
            object.array("receipts", &found, |out, (block, index)| {
                push_receipt(out, block, *index, self.chain.env_of(block).blobs.price());
            });
            object.flag("firstPage", first);
            object.flag("lastPage", last);
        }))
    }
}

/// Returns whether a transaction concerns an account.
fn is_of(block: &Block, index: usize, address: &Address) -> bool {
    let (tx, receipt) = (&block.txs[index], &block.receipts[index]);
    tx.sender == *address
        || tx.envelope.to() == Some(*address)
        || receipt.contract_address == Some(*address)
        || receipt.logs.iter().any(|log| log.address == *address)
}

/// Appends a receipt with the time of its block.
fn push_receipt(out: &mut String, block: &Block, index: usize, blob_price: u128) {
    let begin = out.len();
    shapes::push_receipt(out, TxPosition { block, index }, blob_price);
    // Inserted before the end of the object.
    if out.len() > begin {
        out.pop();
        out.push_str(&format!(",\"timestamp\":\"{:#x}\"}}", block.header.timestamp));
    }
}

/// Returns transfers, creations and self-destructs within a transaction.
fn operations(frames: &[Frame]) -> String {
    let shown = frames.iter().skip(1).filter(|frame| frame.result.is_ok()).filter_map(|frame| {
        let number = match frame.kind {
            Kind::Call(scheme) if scheme.is_call() && !frame.value.is_zero() => 0,
            Kind::Call(_) => return None,
            Kind::Destruct => 1,
            Kind::Create(false) => 2,
            Kind::Create(true) => 3,
        };
        Some((number, frame))
    });
    json::array(shown, |out, (number, frame)| {
        json::push_object(out, |object| {
            object.decimal("type", number);
            object.data("from", frame.from.as_slice());
            object.data("to", frame.to.as_slice());
            object.quantity_256("value", &frame.value);
        });
    })
}

/// Returns every call of a transaction with its depth.
fn calls(frames: &[Frame]) -> String {
    json::array(frames, |out, frame| {
        let (name, value) = match frame.kind {
            Kind::Call(scheme) if scheme.is_static_call() || scheme.is_delegate_call() => (call_type(scheme), None),
            Kind::Call(scheme) => (call_type(scheme), Some(&frame.value)),
            Kind::Create(false) => ("create", Some(&frame.value)),
            Kind::Create(true) => ("create2", Some(&frame.value)),
            Kind::Destruct => ("selfdestruct", Some(&frame.value)),
        };
        json::push_object(out, |object| {
            object.text("type", &name.to_uppercase());
            object.decimal("depth", frame.depth as u64);
            object.data("from", frame.from.as_slice());
            object.data("to", frame.to.as_slice());
            match value {
                Some(value) => object.quantity_256("value", value),
                None => object.null("value"),
            }
            object.data("input", &frame.input);
            object.data("output", &frame.output);
        });
    })
}

/// Returns the output of a failed transaction.
fn error(frames: &[Frame]) -> String {
    let failed = frames.first().filter(|frame| !frame.result.is_ok());
    json::data(failed.map_or(&[][..], |frame| &frame.output[..]))
}

/// Appends a block without transactions and blooms, and its number of transactions.
fn push_block(object: &mut Object<'_>, block: &Block) {
    object.data("hash", block.hash.as_slice());
    object.data("nonce", block.header.nonce.as_slice());
    object.data("miner", block.header.beneficiary.as_slice());
    shapes::push_header(object, &block.header);
    object.quantity("size", block.size());
    shapes::push_uncles(object, block);
    object.decimal("transactionCount", block.txs.len() as u64);
}

fn details(block: &Block) -> String {
    let paid = block
        .receipts
        .iter()
        .fold(U256::ZERO, |sum, receipt| sum + U256::from(receipt.effective_gas_price) * U256::from(receipt.gas_used));
    json::object(|object| {
        object.object("block", |object| push_block(object, block));
        object.raw("issuance", r#"{"blockReward":"0x0","uncleReward":"0x0","issuance":"0x0"}"#);
        object.quantity_256("totalFees", &paid);
    })
}

/// Returns a page of a block's transactions, where a unit of blob gas costs `blob_price` wei: page 0 has the last ones.
fn transactions(block: &Block, blob_price: u128, page: usize, length: usize) -> String {
    let end = block.txs.len().saturating_sub(page.saturating_mul(length));
    let range = end.saturating_sub(length)..end;
    json::object(|object| {
        object.object("fullblock", |object| {
            push_block(object, block);
            object.array("transactions", range.clone(), |out, index| {
                shapes::push_transaction(out, &block.txs[index], Some(TxPosition { block, index }));
            });
        });
        object.array("receipts", range, |out, index| push_receipt(out, block, index, blob_price));
    })
}
