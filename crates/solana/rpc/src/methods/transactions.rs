//! Sends transactions into the pipeline, and reports their status.
//!
//! reads   the ledger's statuses, fees
//! writes  wire bytes into the pipeline
//! memory  one transaction of 1,232 bytes per request
//! drops   transactions for which the pipeline has no room within [`Limits::inlet_wait`](crate::Limits): error -32005,
//!         counted
//! source  `rpc.rs` of `solana-rpc` 4.2 for the shapes and the order of the checks

use hearth_ledger::bank::advances_nonce;
use hearth_ledger::drop_log::DropReason;
use hearth_ledger::{Budget, Fee, SignatureStatus, StateView, TransactionError};
use hearth_tile::clock::unix_time;
use hearth_wire::base58::encode_64;
use hearth_wire::{Signature, Txn};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::simulation::Simulation;
use super::{Api, LOOK_EVERY, with_context};
use crate::config::Busy;
use crate::counters::count;
use crate::encoding;
use crate::jsonrpc::Failure;
use crate::params::Params;

/// Maximum signatures of `getSignatureStatuses`.
const STATUSES_MAX: usize = 256;

impl Api {
    pub async fn send_transaction(&self, params: Params<'_>) -> Result<Value, Failure> {
        let text = params.at_most(2)?.text(0, "transaction")?;
        let options = params.options(1)?;
        let skip_preflight = options.flag("skipPreflight")?;
        options.commitment_of("preflightCommitment")?;
        let retries = options.number("maxRetries")?;
        let bytes = encoding::transaction_bytes(text, options)?;
        let txn = encoding::transaction(&bytes)?;
        self.newest_slot(options)?;
        if !skip_preflight {
            self.on_its_fork(&txn).await;
        }
        self.loaded_addresses(&txn).inspect_err(|_| {
            count(self.counters.preflight_refused());
            self.is_not_sent(&txn, DropReason::RpcLookups, None);
        })?;
        if !skip_preflight {
            if !(self.verify)(&txn) {
                self.is_not_sent(&txn, DropReason::RpcSignature, None);
                return Err(self.refused(Simulation::refused(TransactionError::SignatureFailure)));
            }
            let simulated = async {
                self.health()?;
                self.preflight(&txn).await
            };
            simulated.await.inspect_err(|failure| {
                if failure.is_unhealthy() {
                    self.is_not_sent(&txn, DropReason::RpcUnhealthy, None);
                }
            })?;
        }
        self.submit(&bytes).await.inspect_err(|_| self.is_not_sent(&txn, DropReason::RpcBusy, None))?;
        self.resend_until_landed(&txn, retries);
        Ok(json!(&*encode_64(txn.first_signature())))
    }

    /// Records why a transaction was not sent, for later queries.
    pub fn is_not_sent(&self, txn: &Txn<'_>, reason: DropReason, error: Option<TransactionError>) {
        let now = unix_time().as_secs();
        self.fates.note(self.fates.tag(txn.first_signature()), reason, error, now as u32);
    }

    /// Hands a transaction to the pipeline if it has room.
    pub fn hand_over(&self, wire: &[u8], again: bool) -> Result<(), Busy> {
        self.inlet.lock().send(wire, again)
    }

    /// Hands a transaction to the pipeline, waiting a moment for room.
    pub async fn submit(&self, wire: &[u8]) -> Result<(), Failure> {
        let deadline = Instant::now() + self.limits.inlet_wait;
        loop {
            match self.hand_over(wire, false) {
                Ok(()) => {
                    count(self.counters.transactions_in());
                    return Ok(());
                }
                Err(busy) if Instant::now() > deadline => {
                    count(self.counters.refused_busy());
                    return Err(Failure::unhealthy(format!("{busy}; try again"), None));
                }
                Err(_) => tokio::time::sleep(LOOK_EVERY).await,
            }
        }
    }

    /// Statuses of the last 300 blocks, and of the whole history if `searchTransactionHistory` is set.
    pub fn get_signature_statuses(&self, params: Params<'_>) -> Result<Value, Failure> {
        let signatures = params.at_most(2)?.signatures(0, "signatures", STATUSES_MAX)?;
        let options = params.options(1)?;
        let search = options.flag("searchTransactionHistory")?;
        if !self.transaction_history {
            return Err(Failure::no_history());
        }
        let slot = self.newest_slot(options)?;
        let status = |signature: &Signature| match self.ledger.signature_status(signature) {
            Some(status) => Ok(status_json(&status)),
            None if search && self.history.is_some() => Ok(self.older_status(signature)?.unwrap_or(Value::Null)),
            None => Ok(Value::Null),
        };
        let statuses: Result<Vec<Value>, Failure> = signatures.iter().map(status).collect();
        Ok(with_context(slot, Value::Array(statuses?)))
    }

    pub fn get_fee_for_message(&self, params: Params<'_>) -> Result<Value, Failure> {
        let what = "parameter 1 (message)";
        let message = encoding::base64_bytes(params.at_most(2)?.text(0, "message")?, what)?;
        let options = params.options(1)?;
        let (commitment, state) = (options.commitment()?, self.state(options)?);
        let not_a_message =
            |why: &dyn std::fmt::Display| Failure::invalid_params(format!("{what}: not a message: {why}"));
        let bytes = unsigned(&message).ok_or_else(|| not_a_message(&"it has no header"))?;
        let txn = Txn::parse(&bytes).map_err(|error| not_a_message(&error))?;
        let budget = Budget::of(&txn).map_err(|error| Failure::invalid_params(format!("{what}: {error}")))?;
        let fee = Fee::of(&txn, &budget).total();
        self.loaded_addresses(&txn)?;
        let known = self.ledger.is_blockhash_valid_at(txn.recent_blockhash(), commitment) || names_nonce(&state, &txn);
        Ok(with_context(state.slot, json!(known.then_some(fee))))
    }
}

/// Offset of the hash in an initialized nonce account; the authority is before it.
const NONCE_HASH: std::ops::Range<usize> = 40..72;
const NONCE_IN_USE: [u8; 8] = [1, 0, 0, 0, 1, 0, 0, 0];

/// Whether a transaction advances a nonce whose value is the transaction's blockhash.
fn names_nonce(state: &StateView<'_>, txn: &Txn<'_>) -> bool {
    let first = txn.instructions().next().filter(|_| advances_nonce(txn));
    let key = first.and_then(|first| txn.account_keys().get(usize::from(*first.accounts.first()?)));
    let account = key.and_then(|key| state.account(key));
    account.is_some_and(|account| {
        account.is_system_owned()
            && account.data().starts_with(&NONCE_IN_USE)
            && account.data().get(NONCE_HASH) == Some(&txn.recent_blockhash()[..])
    })
}

/// Wraps a message in a transaction with zero signatures; `None` for a message without a header.
fn unsigned(message: &[u8]) -> Option<Vec<u8>> {
    let header = if message.first()? & 0x80 == 0 { message } else { &message[1..] };
    let signers = *header.first()?;
    let mut bytes = vec![signers];
    bytes.resize(1 + 64 * usize::from(signers), 0);
    bytes.extend_from_slice(message);
    Some(bytes)
}

fn status_json(status: &SignatureStatus) -> Value {
    let result = match status.result {
        Ok(()) => json!({ "Ok": null }),
        Err(error) => json!({ "Err": error }),
    };
    json!({
        "slot": status.slot,
        "confirmations": status.confirmations,
        "err": status.result.err(),
        "status": result,
        "confirmationStatus": status.commitment,
    })
}
