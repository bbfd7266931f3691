//! The contents of the pool, and the fates of transactions.
//!
//! reads   the pool
//! writes  its transactions
//! memory  the text of one answer: at most [`Limits::answer_bytes`](crate::Limits)
//! drops   answers that would be longer: error -32003
//! source  the `txpool` methods of go-ethereum 1.16

use alloy_primitives::{Address, B256};
use hearth_evm::chain::Chain;
use hearth_evm::pool::{Content, Obstacle, inspect_line};
use hearth_evm::tx::SharedTx;
use hearth_evm_utxo::UtxoChain;

use super::Caller;
use crate::failure::Failure;
use crate::json::{self, Object};
use crate::params::Params;
use crate::shapes;

/// The formats of a transaction in the pool.
type Push = fn(&mut String, &SharedTx);

fn push_whole(out: &mut String, tx: &SharedTx) {
    shapes::push_transaction(out, tx, None);
}

fn push_line(out: &mut String, tx: &SharedTx) {
    json::push_text(out, &inspect_line(tx));
}

fn push_by_nonce(object: &mut Object<'_>, txs: &[SharedTx], push: Push) {
    for tx in txs {
        push(object.name(&alloy_consensus::Transaction::nonce(&tx.envelope).to_string()), tx);
    }
}

/// Formats the pool by account and nonce, in two parts.
fn content(all: &[Content], push: Push, bytes_max: usize) -> Result<String, Failure> {
    let mut is_full = false;
    let text = json::object(|object| {
        for (name, part) in [
            ("pending", (|content| &content.pending) as fn(&Content) -> &Vec<SharedTx>),
            ("queued", |content| &content.queued),
        ] {
            object.object(name, |object| {
                let mut bytes = 0;
                for content in all.iter().filter(|content| !part(content).is_empty()) {
                    if bytes > bytes_max {
                        is_full = true;
                        break;
                    }
                    let out = object.name(&content.sender.to_string());
                    json::push_object(out, |object| push_by_nonce(object, part(content), push));
                    bytes = out.len();
                }
            });
        }
    });
    if is_full { Err(Failure::too_large()) } else { Ok(text) }
}

impl Caller<'_> {
    pub(super) async fn txpool(&self, method: &str, params: Params<'_>) -> Result<String, Failure> {
        let api = std::sync::Arc::clone(self.api);
        let bytes_max = api.config.limits.answer_bytes;
        let params = params.at_most(usize::from(method == "txpool_contentFrom"))?;
        let all = |push: Push| {
            let api = std::sync::Arc::clone(&api);
            move |_| content(&api.chain.pool().content(), push, bytes_max)
        };
        match method {
            "txpool_status" => {
                let status = self.api.chain.pool().status();
                Ok(json::object(|object| {
                    object.quantity("pending", status.pending as u64);
                    object.quantity("queued", status.queued as u64);
                }))
            }
            "txpool_content" => self.api.heavy.run(all(push_whole)).await,
            "txpool_inspect" => self.api.heavy.run(all(push_line)).await,
            "txpool_contentFrom" => {
                let address: Address = params.required(0)?;
                let of_one = move |_| {
                    let content = api.chain.pool().content_from(&address);
                    let text = json::object(|object| {
                        let (pending, queued) = content.map_or_else(Default::default, |all| (all.pending, all.queued));
                        object.object("pending", |object| push_by_nonce(object, &pending, push_whole));
                        object.object("queued", |object| push_by_nonce(object, &queued, push_whole));
                    });
                    if text.len() > bytes_max { Err(Failure::too_large()) } else { Ok(text) }
                };
                self.api.heavy.run(of_one).await
            }
            unknown => Err(Failure::method_not_found(unknown)),
        }
    }

    /// The transactions of all senders that the next block may hold.
    pub(super) async fn pending_transactions(&self, params: Params<'_>) -> Result<String, Failure> {
        params.at_most(0)?;
        let api = std::sync::Arc::clone(self.api);
        let bytes_max = api.config.limits.answer_bytes;
        let tell = move |_| {
            let content = api.chain.pool().content();
            let pending = content.iter().flat_map(|content| &content.pending);
            let mut out = String::from("[");
            for (index, tx) in pending.enumerate() {
                if index > 0 {
                    out.push(',');
                }
                push_whole(&mut out, tx);
                if out.len() > bytes_max {
                    return Err(Failure::too_large());
                }
            }
            out.push(']');
            Ok(out)
        };
        self.api.heavy.run(tell).await
    }

    /// Returns the fate of an acknowledged transaction of either ledger: pending, in a block, or dropped, and why.
    pub(super) async fn transaction_fate(&self, params: Params<'_>) -> Result<String, Failure> {
        let hash: B256 = params.at_most(1)?.required(0)?;
        if self.api.chain.is_tx_at_hand(&hash) {
            return Ok(fate(&self.api.chain, &hash));
        }
        let chain = self.api.chain.clone();
        self.api.heavy.run(move |_| Ok(fate(&chain, &hash))).await
    }
}

fn fate(chain: &Chain, hash: &B256) -> String {
    // A chain that others began has no ledger of outputs.
    let outputs = chain.side().is_some().then(|| (chain.outputs(), chain.outputs_pool()));
    let is_waiting_output = outputs.is_some_and(|(_, pool)| pool.get(hash).is_some());
    let waits = chain.pool().get(hash).is_some() || is_waiting_output;
    let obstacle = chain.pool().obstacle(hash);
    let fate = chain.pool().fate(hash).map(|reason| reason.to_string());
    let fate = fate.or_else(|| outputs?.1.fate(hash).map(|refusal| refusal.to_string()));
    let place = chain.tx(hash).map(|(block, index)| (block.number(), Some(index)));
    // Which of a block's it is in the ledger of outputs, `utxo_getTransaction` says.
    let place = place.or_else(|| Some((outputs?.0.landed_in(hash)?, None)));
    json::object(|object| match (place, waits, fate) {
        (Some((block, index)), ..) => {
            object.text("status", "included");
            object.quantity("blockNumber", block);
            index.into_iter().for_each(|index| object.quantity("transactionIndex", index as u64));
        }
        (None, true, _) => {
            object.text("status", "pending");
            if let Some(obstacle) = obstacle {
                if let Obstacle::MissingNonce(nonce) = obstacle {
                    object.quantity("waitsForNonce", nonce);
                }
                object.text("reason", &obstacle.to_string());
            }
        }
        (None, false, Some(reason)) => {
            object.text("status", "dropped");
            object.text("reason", &reason);
        }
        (None, false, None) => object.text("status", "unknown"),
    })
}
