//! `utxo_…`: the UTXO ledger beside the EVM's.
//!
//! reads   that ledger and its pool
//! writes  results; transactions
//! memory  the text of one answer: [`PAGE`] outputs at most
//! drops   nothing: what is not there is null
//!
//! While a block is being stored, this ledger is a block ahead of the chain's head. An answer of that moment waits
//! until the block is shown, or read again if it was taken back: block, number and outputs agree in every answer.
//!
//! Numbers are quantities and bytes are data, as in all of Ethereum's JSON-RPC. Owners are addresses in bech32m,
//! outputs `0x…:index`, assets `native` or their id.

use std::str::FromStr;
use std::time::Duration;

use alloy_primitives::{B256, Bytes, U256};
use hearth_evm::chain::Chain;
use hearth_evm_utxo::UtxoChain;
use hearth_utxo::amount::NATIVE_DECIMALS;
use hearth_utxo::ledger::{IncludedTx, LedgerError, TxOrCall};
use hearth_utxo::tx::Action;
use hearth_utxo::{AssetId, OutPoint, Output, OwnerKey, Tx, prism};
use serde::Deserialize;

use super::Caller;
use crate::call_pool::Deadline;
use crate::failure::Failure;
use crate::json::{self, Object};
use crate::params::{Field, Param, Params};

/// Maximum, and default, outputs of one answer.
const PAGE: usize = 1_000;
const NULL: &str = "null";
/// How often an answer checks whether its block is shown.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// The text of an id of that ledger.
#[derive(Clone, Copy, Debug)]
struct IdText<T>(T);

impl<T: FromStr<Err: std::fmt::Display>> Param for IdText<T> {
    fn read(json: &str) -> Result<Self, String> {
        let text: String = serde_json::from_str(json).map_err(|_| "expected a string".to_owned())?;
        text.parse().map(Self).map_err(|error: T::Err| error.to_string())
    }
}

/// Selects some of an owner's outputs.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct OutputSelection {
    after: Option<Field<IdText<OutPoint>>>,
    limit: Option<Field<u64>>,
}

impl Caller<'_> {
    /// Answers a method of `utxo`, which a chain without that ledger does not have.
    pub(super) async fn utxo(&self, method: &str, params: Params<'_>) -> Result<String, Failure> {
        if self.api.chain.side().is_none() {
            return Err(Failure::method_not_found(method));
        }
        match method {
            "utxo_sendRawTransaction" => {
                let raw: Bytes = params.at_most(1)?.required(0)?;
                let chain = &self.api.chain;
                // This verifies a signature and writes to disk meanwhile.
                let sent = tokio::task::block_in_place(|| chain.submit_side(&[&raw]).remove(0));
                let id = sent.map_err(Failure::submit)?;
                self.api.mined(id).await;
                Ok(json::data(id.as_slice()))
            }
            "utxo_getOutputs" => {
                let params = params.at_most(2)?;
                let IdText(owner) = params.required::<IdText<OwnerKey>>(0)?;
                let which: OutputSelection = params.shape_or_none(1)?.unwrap_or_default();
                self.shown(Weight::Heavy, move |chain| Ok(outputs(chain, &owner, &which))).await
            }
            "utxo_getOutput" => {
                let IdText(at) = params.at_most(1)?.required::<IdText<OutPoint>>(0)?;
                self.shown(Weight::Light, move |chain| {
                    let found = chain.outputs().output(&at);
                    let text = |found| json::object(|object| push_unspent(object, chain, &at, &found));
                    Ok(found.map_or(NULL.into(), text))
                })
                .await
            }
            "utxo_getBalances" => {
                let IdText(owner) = params.at_most(1)?.required::<IdText<OwnerKey>>(0)?;
                self.shown(Weight::Heavy, move |chain| Ok(balances(chain, &owner))).await
            }
            "utxo_getAsset" => {
                let IdText(id) = params.at_most(1)?.required::<IdText<AssetId>>(0)?;
                self.shown(Weight::Light, move |chain| Ok(asset(chain, &id))).await
            }
            "utxo_getSupply" => match params.at_most(1)?.optional::<IdText<AssetId>>(0)? {
                Some(IdText(id)) if !id.is_native() => {
                    self.shown(Weight::Light, move |chain| Ok(asset(chain, &id))).await
                }
                _ => self.shown(Weight::Light, |chain| Ok(supply(chain))).await,
            },
            "utxo_getTransaction" => {
                let id: B256 = params.at_most(1)?.required(0)?;
                // Transactions of blocks are read from disk.
                let weight =
                    if self.api.chain.outputs().landed_in(&id).is_some() { Weight::Heavy } else { Weight::Light };
                self.shown(weight, move |chain| transaction(chain, &id)).await
            }
            "utxo_getBlock" => {
                let number: u64 = params.at_most(1)?.required(0)?;
                self.shown(Weight::Heavy, move |chain| block(chain, number)).await
            }
            unknown => Err(Failure::method_not_found(unknown)),
        }
    }

    /// Returns the result of `read` from a moment at which all that it may have read is shown.
    async fn shown<F>(&self, weight: Weight, read: F) -> Result<String, Failure>
    where
        F: Fn(&Chain) -> Result<String, Failure> + Send + 'static,
    {
        if weight == Weight::Light
            && let Some(answer) = if_shown(&self.api.chain, &read)
        {
            return answer;
        }
        let chain = self.api.chain.clone();
        let wait = move |deadline: Deadline| {
            let events = chain.subscribe();
            loop {
                if let Some(answer) = if_shown(&chain, &read) {
                    return answer;
                }
                deadline.check()?;
                events.next_within(LOOK_AGAIN);
            }
        };
        self.api.heavy.run(wait).await
    }
}

/// The threads for a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weight {
    /// The threads that serve connections.
    Light,
    /// The threads of the call pool.
    Heavy,
}

/// Returns the result of `read`, unless it may be of a block that is not shown.
fn if_shown<T>(chain: &Chain, read: impl Fn(&Chain) -> T) -> Option<T> {
    let before = chain.outputs().newest();
    let answer = read(chain);
    let after = chain.outputs().newest();
    // Both must be shown: a block may have been taken back in between.
    (before.max(after) <= chain.head().number()).then_some(answer)
}

fn outputs(chain: &Chain, owner: &OwnerKey, which: &OutputSelection) -> String {
    let limit = which.limit.map_or(PAGE, |limit| usize::try_from(limit.0).unwrap_or(PAGE).clamp(1, PAGE));
    let found = chain.outputs().outputs_of(owner, which.after.map(|after| after.0.0), limit);
    let next = found.last().filter(|_| found.len() == limit).map(|(at, _)| at.to_string());
    json::object(|object| {
        object.array("outputs", &found, |out, (at, output)| {
            json::push_object(out, |object| push_unspent(object, chain, at, output));
        });
        match next {
            Some(next) => object.text("next", &next),
            None => object.null("next"),
        }
    })
}

/// Appends an output that no block has spent, and the pending transaction that spends it.
fn push_unspent(object: &mut Object<'_>, chain: &Chain, at: &OutPoint, output: &Output) {
    push_output(object, at, output);
    object.data_or_null("spender", chain.outputs_pool().spender(at).as_ref().map(|id| id.as_slice()));
}

fn push_output(object: &mut Object<'_>, at: &OutPoint, output: &Output) {
    object.text("outPoint", &at.to_string());
    object.text("asset", &output.asset.to_string());
    object.quantity("amount", output.amount);
    object.text("owner", &output.owner.to_string());
    object.data("memo", &output.memo);
}

fn balances(chain: &Chain, owner: &OwnerKey) -> String {
    let ledger = chain.outputs();
    json::array(ledger.balances(owner), |out, (id, (amount, count))| {
        json::push_object(out, |object| {
            object.text("asset", &id.to_string());
            object.quantity_256("amount", &U256::from(amount));
            object.quantity("outputs", count as u64);
            match ledger.asset(&id) {
                Some(asset) => {
                    object.text("code", &asset.code);
                    object.quantity("decimals", asset.decimals.into());
                }
                None => {
                    object.text("code", "native");
                    object.quantity("decimals", NATIVE_DECIMALS.into());
                }
            }
        });
    })
}

fn asset(chain: &Chain, id: &AssetId) -> String {
    let Some(asset) = chain.outputs().asset(id) else { return NULL.into() };
    json::object(|object| {
        object.text("asset", &id.to_string());
        object.text("code", &asset.code);
        object.quantity("decimals", asset.decimals.into());
        object.flag("open", asset.open);
        object.text("issuer", &asset.issuer.to_string());
        object.quantity("supply", asset.supply);
    })
}

/// The native asset's balance sheet: `received` = `supply` + `withdrawn` + `burnt`, and `locked` ≥ `received` in wei.
fn supply(chain: &Chain) -> String {
    let totals = chain.outputs().totals();
    let locked = chain.view().account(&prism::ADDRESS).map_or(U256::ZERO, |account| account.balance);
    json::object(|object| {
        object.text("asset", "native");
        object.text("code", "native");
        object.quantity("decimals", NATIVE_DECIMALS.into());
        object.quantity_256("supply", &U256::from(totals.native));
        object.quantity_256("received", &U256::from(totals.received));
        object.quantity_256("withdrawn", &U256::from(totals.withdrawn));
        object.quantity_256("burnt", &U256::from(totals.burnt));
        object.quantity("outputs", totals.outputs);
        object.quantity_256("locked", &locked);
        object.data("commitment", chain.outputs().commitment().as_slice());
    })
}

/// Returns what a block did in this ledger, a line each; `utxo_getTransaction` has the details.
fn block(chain: &Chain, number: u64) -> Result<String, Failure> {
    let landed = chain.outputs().transactions_in(number).map_err(unreadable)?;
    Ok(json::array(landed, |out, landed| {
        json::push_object(out, |object| match &landed.what {
            TxOrCall::Transaction(tx) => {
                push_place(object, &tx.id, "included", Some(&landed));
                object.text("kind", kind(&tx.payload.action));
                object.quantity("inputs", tx.payload.inputs.len() as u64);
                object.quantity("outputs", tx.payload.outputs.len() as u64);
                object.quantity("fee", tx.payload.fee);
            }
            TxOrCall::Incoming(one, at) => {
                push_place(object, &at.transaction, "included", Some(&landed));
                object.text("kind", RECEIVED);
                object.quantity("inputs", 0);
                object.quantity("outputs", 1);
                object.quantity("fee", 0);
                object.data("transaction", one.transaction.as_slice());
            }
        });
    }))
}

fn unreadable(error: LedgerError) -> Failure {
    Failure::stored("the ledger of outputs cannot be read", error)
}

/// The kind of a deposit from the EVM.
const RECEIVED: &str = "received";

fn kind(action: &Action) -> &'static str {
    match action {
        Action::Transfer => "transfer",
        Action::Issue { .. } | Action::IssueMore { .. } => "issue",
        Action::Prism { .. } => "prism",
    }
}

fn transaction(chain: &Chain, id: &B256) -> Result<String, Failure> {
    let landed = chain.outputs().transaction(id).map_err(unreadable)?;
    if let Some(landed) = landed {
        return Ok(json::object(|object| push_landed(object, id, &landed)));
    }
    if let Some(tx) = chain.outputs_pool().get(id) {
        return Ok(json::object(|object| {
            push_place(object, id, "pending", None);
            push_transaction(object, &tx);
        }));
    }
    let Some(refusal) = chain.outputs_pool().fate(id) else { return Ok(NULL.into()) };
    Ok(json::object(|object| {
        push_place(object, id, "dropped", None);
        object.text("reason", &refusal.to_string());
    }))
}

fn push_place(object: &mut Object<'_>, id: &B256, status: &str, landed: Option<&IncludedTx>) {
    object.data("id", id.as_slice());
    object.text("status", status);
    match landed {
        Some(landed) => {
            object.quantity("blockNumber", landed.number);
            object.data("blockHash", landed.hash.as_slice());
            object.quantity("index", landed.index.into());
        }
        None => ["blockNumber", "blockHash", "index"].into_iter().for_each(|name| object.null(name)),
    }
}

fn push_landed(object: &mut Object<'_>, id: &B256, landed: &IncludedTx) {
    push_place(object, id, "included", Some(landed));
    match &landed.what {
        TxOrCall::Transaction(tx) => push_transaction(object, tx),
        TxOrCall::Incoming(one, at) => {
            object.text("kind", RECEIVED);
            object.data("transaction", one.transaction.as_slice());
            object.data("sender", one.sender.as_slice());
            let memo = Bytes::new();
            let output = Output { asset: AssetId::NATIVE, amount: one.amount, owner: one.owner, memo };
            object.array("outputs", [(at, output)], |out, (at, output)| {
                json::push_object(out, |object| push_output(object, at, &output));
            });
        }
    }
}

fn push_transaction(object: &mut Object<'_>, tx: &Tx) {
    object.array("inputs", &tx.payload.inputs, |out, at| json::push_text(out, &at.to_string()));
    object.array("outputs", tx.payload.outputs.iter().enumerate(), |out, (index, output)| {
        json::push_object(out, |object| push_output(object, &tx.out_point(index), output));
    });
    object.quantity("fee", tx.payload.fee);
    object.array("signers", &tx.owners, |out, owner| json::push_text(out, &owner.to_string()));
    object.data("raw", &tx.raw);
    object.text("kind", kind(&tx.payload.action));
    match &tx.payload.action {
        Action::Transfer => {}
        Action::Issue { code, decimals, open, issuer, amount } => {
            object.text("asset", &tx.new_asset().unwrap_or_default().to_string());
            object.text("code", code);
            object.quantity("decimals", (*decimals).into());
            object.flag("open", *open);
            object.text("issuer", &issuer.to_string());
            object.quantity("amount", *amount);
        }
        Action::IssueMore { asset, amount } => {
            object.text("asset", &asset.to_string());
            object.quantity("amount", *amount);
        }
        Action::Prism { recipient, amount } => {
            object.data("recipient", recipient.as_slice());
            object.quantity("amount", *amount);
        }
    }
}
