//! Query: the part of the ledger that clients of CometBFT's RPC can query (`abci_query`). Our own RPC offers much more.
//!
//! Paths: `/account` (data: an address, 20 bytes), `/storage` (an address and a slot, 52 bytes), `/tx` (a hash, 32
//! bytes), `/block` (no data: the block at the given height), `/outputs` (an owner's key, 32 bytes), `/snapshots` (no
//! data: the heights of this node's snapshots, answered by the application). Answers are JSON. A height of 0 is the
//! newest; accounts are known at heights whose state is kept, outputs at the newest only.
//!
//! reads   the state after a block; blocks
//! drops   nothing: a query without an answer gets a code

use alloy_consensus::Transaction;
use alloy_primitives::{Address, B256, U256};
use hearth_abci::{request, response};
use hearth_evm::chain::Chain;
use hearth_evm_utxo::UtxoChain;
use serde_json::{Value, json};

/// A path that does not exist, or data that do not fit it.
pub const CODE_QUESTION: u32 = 1;
/// A height that is not here, or not any more.
pub const CODE_HEIGHT: u32 = 2;
/// Nothing of that name.
pub const CODE_UNKNOWN: u32 = 3;

/// Answers an `abci_query` from the chain's state at the height that it names.
pub fn answer(chain: &Chain, query: &request::Query) -> response::Query {
    let head = chain.head().number();
    let height = match u64::try_from(query.height) {
        Ok(0) => head,
        Ok(height) if height <= head => height,
        _ => return response::Query::refused(CODE_HEIGHT, format!("the newest block is {head}"), head as i64),
    };
    let refused = |code, why: &str| response::Query::refused(code, why, height as i64);
    let found = match query.path.as_str() {
        "/account" | "/storage" => {
            let Some(view) = chain.view_at(height) else {
                return refused(CODE_HEIGHT, "that state is not kept any more");
            };
            match (query.path.as_str(), query.data.len()) {
                ("/account", 20) => {
                    let account = view.account(&Address::from_slice(&query.data)).unwrap_or_default();
                    let (nonce, balance) = (account.nonce, account.balance.to_string());
                    Some(json!({ "nonce": nonce, "balance": balance, "codeHash": account.code_hash }))
                }
                ("/storage", 52) => {
                    let slot = U256::from_be_slice(&query.data[20..]);
                    let value = view.storage(&Address::from_slice(&query.data[..20]), &slot);
                    Some(json!({ "value": B256::from(value) }))
                }
                _ => {
                    return refused(
                        CODE_QUESTION,
                        "expected an address of 20 bytes, for /storage a slot of 32 after it",
                    );
                }
            }
        }
        "/tx" if query.data.len() == 32 => tx(chain, &B256::from_slice(&query.data)),
        "/tx" => return refused(CODE_QUESTION, "expected a hash of 32 bytes"),
        "/outputs" if height != head => return refused(CODE_HEIGHT, "of outputs the newest block's are known"),
        "/outputs" if query.data.len() == 32 => outputs(chain, B256::from_slice(&query.data)),
        "/outputs" => return refused(CODE_QUESTION, "expected an owner's key of 32 bytes"),
        "/block" => chain.block(height).map(|block| {
            let hashes: Vec<B256> = block.txs.iter().map(|tx| tx.hash).collect();
            let header = &block.header;
            json!({
                "number": block.number(), "hash": block.hash, "parentHash": header.parent_hash,
                "stateRoot": header.state_root, "timestamp": header.timestamp, "gasUsed": header.gas_used,
                "transactions": hashes,
            })
        }),
        _ => return refused(CODE_QUESTION, "paths: /account, /storage, /tx, /block, /outputs, /snapshots"),
    };
    match found {
        Some(value) => response::Query::found(query.data.clone(), value.to_string(), height as i64),
        None => refused(CODE_UNKNOWN, "nothing of that name"),
    }
}

/// An owner's balances on the UTXO ledger, by asset.
fn outputs(chain: &Chain, owner: B256) -> Option<Value> {
    let balances = chain.outputs().balances(&hearth_utxo::OwnerKey(owner.0));
    let of = |(units, outputs): (u128, usize)| json!({ "units": units.to_string(), "outputs": outputs });
    Some(balances.into_iter().map(|(asset, balance)| (asset.to_string(), of(balance))).collect())
}

fn tx(chain: &Chain, hash: &B256) -> Option<Value> {
    let Some((block, index)) = chain.tx(hash) else {
        return chain.outputs().landed_in(hash).map(|number| json!({ "block": number }));
    };
    let (tx, receipt) = (block.txs.get(index)?, block.receipts.get(index)?);
    Some(json!({
        "block": block.number(), "index": index, "from": tx.sender, "to": tx.envelope.to(),
        "nonce": tx.envelope.nonce(), "status": receipt.status, "gasUsed": receipt.gas_used,
    }))
}
