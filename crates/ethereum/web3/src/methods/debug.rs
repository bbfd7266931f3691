//! Traces, and raw data as it is stored.
//!
//! reads   blocks, and the state before them
//! writes  traces; RLP
//! memory  a trace: at most [`Limits::answer_bytes`](crate::Limits)
//! drops   blocks whose parent's state is no longer kept: error -32000
//! source  the `debug` methods of go-ethereum 1.16

use std::sync::Arc;

use alloy_eips::eip2718::Encodable2718;
use alloy_primitives::{B256, Bytes};
use alloy_rlp::{BufMut, Encodable, Header};
use hearth_evm::block::Block;
use hearth_evm::exec::{BlockDb, BlockExecutor, BlockExtras, Checks};
use hearth_evm::state::StateView;
use hearth_evm::tx::to_tx_env;
use revm::state::EvmState;

use super::call::Message;
use super::overrides::{BlockOverrides, StateOverrides};
use super::{Api, Caller};
use crate::call_pool::Deadline;
use crate::failure::Failure;
use crate::json;
use crate::params::{BlockId, Params};
use crate::trace::{Budget, FramePosition, Options, Subject};

/// A transaction of a block, on the state after the transactions before it.
pub(super) type ReplayedTx<'a, 'b> = Subject<'a, BlockDb<'b, StateView>>;

impl Api {
    /// Executes a block's transactions again. Calls `look` for all, or for the one at `only`, and returns its results.
    /// `look` also returns the transaction's changes, for the later ones.
    pub(super) fn replay<T>(
        &self,
        block: &Block,
        only: Option<usize>,
        deadline: Deadline,
        mut look: impl FnMut(&ReplayedTx<'_, '_>) -> Result<(T, EvmState), Failure>,
    ) -> Result<Vec<T>, Failure> {
        let Some(parent) = block.number().checked_sub(1) else {
            return Err(Failure::server("genesis is not traceable"));
        };
        let parent = self.chain.block(parent).ok_or_else(|| Failure::server("parent block not found"))?;
        let view = self.view_after(&parent)?;
        let env = self.chain.env_of(block);
        let mut executor = BlockExecutor::new(&view, &env);
        executor.begin();
        let mut all = Vec::new();
        for (index, tx) in block.txs.iter().enumerate() {
            deadline.check()?;
            if only.is_some_and(|only| index < only) {
                executor.run(tx);
                continue;
            }
            let extras = &BlockExtras::default();
            let whereabouts =
                FramePosition { block_hash: block.hash, block_number: block.number(), tx_hash: tx.hash, index };
            let (checks, tx) = (Checks::of(tx), to_tx_env(tx));
            let subject =
                Subject { db: &*executor.database(), env: &env, extras, tx, checks, place: Some(whereabouts) };
            let (said, state) = look(&subject)?;
            all.push(said);
            if only.is_some() {
                break;
            }
            executor.database().absorb(state);
        }
        Ok(all)
    }

    /// Traces transactions of a block: all, or the one at `only`. Returns the JSON of each.
    fn traces(
        &self,
        block: &Block,
        only: Option<usize>,
        options: &Options,
        mut budget: Budget,
    ) -> Result<Vec<String>, Failure> {
        self.replay(block, only, budget.deadline, |subject| {
            let (trace, done) = options.trace(subject, budget)?;
            budget.bytes = budget.bytes.saturating_sub(trace.len());
            Ok((trace, done.state))
        })
    }
}

/// The options of `debug_traceCall` besides the tracer's.
#[derive(Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CallOptions<'a> {
    #[serde(borrow)]
    state_overrides: Option<&'a serde_json::value::RawValue>,
    block_overrides: Option<BlockOverrides>,
}

impl Caller<'_> {
    pub(super) async fn debug(&self, method: &str, params: Params<'_>) -> Result<String, Failure> {
        match method {
            "debug_traceTransaction" => {
                let params = params.at_most(2)?;
                let hash: B256 = params.required(0)?;
                let options: Options = params.shape_or_none(1)?.unwrap_or_default();
                let find = move |api: &Api| {
                    let (block, index) = api.chain.tx(&hash).ok_or_else(|| Failure::server("transaction not found"))?;
                    Ok((block, Some(index)))
                };
                self.trace(find, options, |mut traces, _| traces.pop().unwrap_or_default()).await
            }
            "debug_traceBlockByNumber" | "debug_traceBlockByHash" | "debug_traceBlock" => {
                let params = params.at_most(2)?;
                let id = match method {
                    "debug_traceBlockByHash" => BlockId::Hash(params.required(0)?),
                    "debug_traceBlock" => BlockId::Hash(block_hash(&params.required::<Bytes>(0)?)?),
                    _ => params.required(0)?,
                };
                let options: Options = params.shape_or_none(1)?.unwrap_or_default();
                let find = move |api: &Api| {
                    let block = api.block(id)?.ok_or_else(|| not_found(id))?;
                    Ok((block, None))
                };
                self.trace(find, options, |traces, block| {
                    json::array(traces.iter().zip(&block.txs), |out, (trace, tx)| {
                        json::push_object(out, |object| {
                            object.data("txHash", tx.hash.as_slice());
                            object.raw("result", trace);
                        });
                    })
                })
                .await
            }
            "debug_codeByHash" => self.debug_code_by_hash(params),
            "debug_storageRangeAt" => self.debug_storage_range(params).await,
            "debug_accountRange" => self.debug_account_range(params).await,
            "debug_traceCall" => self.debug_trace_call(params).await,
            "debug_getRawTransaction" => self.block_method("eth_getRawTransactionByHash", params).await,
            "debug_getRawHeader" | "debug_getRawBlock" | "debug_getRawReceipts" | "debug_getRawTransactions" => {
                let id: BlockId = params.at_most(1)?.required(0)?;
                let (api, method) = (Arc::clone(self.api), method.to_owned());
                let read = move |_| {
                    let block = api.block(id)?.ok_or_else(|| not_found(id))?;
                    Ok(raw(&method, &block))
                };
                self.api.heavy.run(read).await
            }
            "debug_clearTxpool" if self.api.config.dev => self.drop_waiting("dropAllTransactions", params.at_most(0)?),
            // Free memory is returned to the system anyway.
            "debug_freeOSMemory" => params.at_most(0).map(|_| "null".into()),
            // This node keeps no bad blocks.
            "debug_getBadBlocks" => params.at_most(0).map(|_| "[]".into()),
            unknown => Err(Failure::method_not_found(unknown)),
        }
    }

    async fn trace(
        &self,
        // Reads from disk, if the block is not in memory.
        find: impl FnOnce(&Api) -> Result<(Arc<Block>, Option<usize>), Failure> + Send + 'static,
        options: Options,
        finish: impl FnOnce(Vec<String>, &Block) -> String + Send + 'static,
    ) -> Result<String, Failure> {
        let api = Arc::clone(self.api);
        let bytes = api.config.limits.answer_bytes;
        let work = move |deadline: Deadline| {
            let (block, only) = find(&api)?;
            let budget = Budget { bytes, deadline: deadline.of_trace() };
            let traces = api.traces(&block, only, &options, budget)?;
            Ok(finish(traces, &block))
        };
        self.api.heavy.run(work).await
    }

    async fn debug_trace_call(&self, params: Params<'_>) -> Result<String, Failure> {
        let params = params.at_most(3)?;
        let message: Message = params.shape(0)?;
        let id = params.optional(1)?.unwrap_or(BlockId::Latest);
        let options: Options = params.shape_or_none(2)?.unwrap_or_default();
        let more: CallOptions<'_> = params.shape_or_none(2)?.unwrap_or_default();
        let overrides = StateOverrides::read(more.state_overrides.map(|json| json.get()), 2)?;
        let block_overrides = more.block_overrides.unwrap_or_default();
        let api = Arc::clone(self.api);
        let work = move |deadline: Deadline| {
            let (mut env, view) = api.scene(id)?;
            let (db, extras) = overrides.apply(view, &block_overrides, &mut env, api.chain.genesis())?;
            let limits = api.config.limits;
            let tx = message.to_env(api.chain_id(), limits.call_gas)?;
            let subject = Subject { db: &db, env: &env, extras: &extras, tx, checks: Checks::Call, place: None };
            let budget = Budget { bytes: limits.answer_bytes, deadline: deadline.of_trace() };
            options.trace(&subject, budget).map(|(trace, _)| trace)
        };
        self.api.heavy.run(work).await
    }
}

/// Returns the hash of the header in a block's RLP: only blocks of the chain can be traced.
fn block_hash(mut rlp: &[u8]) -> Result<B256, Failure> {
    let wrong = |why: alloy_rlp::Error| Failure::server(format!("could not decode block: {why}"));
    let within = Header::decode_bytes(&mut rlp, true).map_err(wrong)?;
    let mut rest = within;
    Header::decode_bytes(&mut rest, true).map_err(wrong)?;
    Ok(B256::from(hearth_crypto::keccak::keccak256(&within[..within.len() - rest.len()])))
}

/// The error for an unknown block, in the words of the execution API's tests.
pub(super) fn not_found(id: BlockId) -> Failure {
    match id {
        BlockId::Hash(hash) => Failure::server(format!("block {hash} not found")),
        BlockId::Number(number) => Failure::server(format!("block #{number} not found")),
        _ => Failure::server("block not found"),
    }
}

fn raw(method: &str, block: &Block) -> String {
    match method {
        "debug_getRawHeader" => json::data(&alloy_rlp::encode(&block.header)),
        "debug_getRawReceipts" => json::array(&block.receipts, |out, receipt| {
            let mut bytes = Vec::new();
            receipt.encode_2718(&mut bytes);
            json::push_data(out, &bytes);
        }),
        "debug_getRawTransactions" => {
            json::array(&block.txs, |out, tx| json::push_data(out, &tx.envelope.encoded_2718()))
        }
        _ => json::data(&block_rlp(block)),
    }
}

/// Encodes a block as the network protocol does: header, transactions, uncles, withdrawals.
fn block_rlp(block: &Block) -> Vec<u8> {
    let mut txs = Vec::new();
    for tx in &block.txs {
        match tx.envelope.is_legacy() {
            true => txs.put_slice(&tx.envelope.encoded_2718()),
            false => Bytes::from(tx.envelope.encoded_2718()).encode(&mut txs),
        }
    }
    let mut body = alloy_rlp::encode(&block.header);
    Header { list: true, payload_length: txs.len() }.encode(&mut body);
    body.extend(txs);
    block.ommers.encode(&mut body);
    if block.header.withdrawals_root.is_some() {
        block.withdrawals.encode(&mut body);
    }
    let mut out = Vec::with_capacity(body.len() + 8);
    Header { list: true, payload_length: body.len() }.encode(&mut out);
    out.extend(body);
    out
}
