//! Simulates transactions on the bank in progress.
//!
//! reads   a transaction; the bank of the slot in progress
//! writes  the result in the cluster's shape
//! memory  the accounts of one transaction; an executor for each concurrent simulation
//! source  `simulateTransaction` of `solana-rpc` 4.2

use std::collections::HashMap;
use std::time::Duration;

use hearth_ledger::bank::{self, LoadedAddresses, Record};
use hearth_ledger::drop_log::DropReason;
use hearth_ledger::{Account, InstructionError, Outcome, TransactionError};
use hearth_wire::base58::encode_32;
use hearth_wire::consts::{COMPUTE_BUDGET_PROGRAM, SYSTEM_PROGRAM};
use hearth_wire::{Pubkey, Txn};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::{Api, LOOK_EVERY, with_context};
use crate::counters::count;
use crate::encoding::account::AccountFormat;
use crate::encoding::instructions::{addresses_json, inner_json, token_balances_json};
use crate::encoding::token::TokenView;
use crate::encoding::{self, base64_text};
use crate::jsonrpc::{Failure, kind};
use crate::params::{self, Options, Params};

/// How long a simulation waits for the fork of its blockhash. Executing another fork takes a few slots' time.
const FORK_WAIT: Duration = Duration::from_secs(8);

/// The result of a simulation.
#[derive(Default)]
pub struct Simulation {
    err: Option<TransactionError>,
    /// Whether this node cannot run it although others may.
    unsupported: bool,
    compute_units: u64,
    loaded_bytes: u32,
    fee: Option<u64>,
    record: Option<Box<Record>>,
    accounts: HashMap<Pubkey, Option<Account>>,
}

impl Simulation {
    fn of(txn: &Txn<'_>, simulation: bank::Simulation) -> Result<Self, Failure> {
        let refused = match simulation.outcome {
            Outcome::Committed(landed) => {
                return Ok(Self {
                    err: landed.err,
                    unsupported: false,
                    compute_units: landed.compute_units,
                    loaded_bytes: landed.loaded_bytes,
                    fee: Some(landed.fee),
                    record: simulation.record,
                    accounts: simulation.accounts.into_iter().collect(),
                });
            }
            Outcome::NotCommitted(err) => Self::refused(err),
            Outcome::Unsupported => {
                let err = TransactionError::InstructionError(foreign(txn), InstructionError::UnsupportedProgramId);
                Self { unsupported: true, ..Self::refused(err) }
            }
            Outcome::SlotEnded => return Err(Failure::unhealthy("the slot has just ended; try again", None)),
        };
        Ok(Self { record: simulation.record, ..refused })
    }

    /// The result of a transaction that did not run.
    pub fn refused(err: TransactionError) -> Self {
        Self { err: Some(err), ..Self::default() }
    }

    /// The result as JSON, without the keys that depend on the request's options.
    fn json(&self) -> Map<String, Value> {
        let record = self.record.as_deref();
        let return_data = record
            .and_then(|record| record.return_data.as_ref())
            .map(|(program, data)| json!({ "programId": &*encode_32(program), "data": [base64_text(data), "base64"] }));
        let value = json!({
            "err": self.err,
            "logs": record.map(|record| &record.logs[..]).unwrap_or_default(),
            "accounts": null,
            "unitsConsumed": self.compute_units,
            "loadedAccountsDataSize": self.loaded_bytes,
            "returnData": return_data,
            "innerInstructions": null,
            "replacementBlockhash": null,
            "fee": self.fee,
            "preBalances": null,
            "postBalances": null,
            "preTokenBalances": null,
            "postTokenBalances": null,
            "loadedAddresses": null,
        });
        match value {
            Value::Object(map) => map,
            _ => unreachable!("an object was made"),
        }
    }

    /// Adds the fields that `simulateTransaction` returns and a preflight does not.
    fn add_balances(&self, value: &mut Map<String, Value>, loaded: &LoadedAddresses) {
        let (writable, readonly) = (addresses_json(loaded.writable()), addresses_json(loaded.readonly()));
        value.insert("loadedAddresses".into(), json!({ "writable": writable, "readonly": readonly }));
        let Some(record) = self.record.as_deref() else { return };
        let (before, after): (Vec<u64>, Vec<u64>) = record.balances.iter().copied().unzip();
        value.insert("preBalances".into(), json!(before));
        value.insert("postBalances".into(), json!(after));
        value.insert("preTokenBalances".into(), token_balances_json(&record.tokens_before));
        value.insert("postTokenBalances".into(), token_balances_json(&record.tokens_after));
    }

    /// The requested accounts in their state after the simulation.
    fn accounts_json(&self, api: &Api, txn: &Txn<'_>, wanted: Options<'_>) -> Result<Value, Failure> {
        let format = AccountFormat::of(wanted, "base64")?;
        if format.is_base58() {
            return Err(Failure::refused_params("base58 encoding not supported"));
        }
        let texts = wanted.list("addresses")?.ok_or_else(|| Failure::invalid_params("accounts: needs addresses"))?;
        let most = txn.account_count();
        if texts.len() > most {
            return Err(Failure::refused_params(format!("Too many accounts provided; max {most}")));
        }
        let mut shown = Vec::with_capacity(texts.len());
        let look = |key: &Pubkey| match self.accounts.get(key) {
            Some(account) => account.clone(),
            None => api.ledger.account(key),
        };
        let mut tokens = TokenView::new(&look);
        for (index, text) in texts.iter().enumerate() {
            let place = || format!("accounts: addresses, element {index}");
            let text = text.as_str().ok_or_else(|| {
                Failure::invalid_params(format!("{}: expected a string, found {}", place(), kind(text)))
            })?;
            let key = params::pubkey(text, place)?;
            // A failed transaction changes no accounts.
            let account = if self.err.is_none() { look(&key) } else { None };
            shown.push(account.map_or(Ok(Value::Null), |account| format.json(&key, &account, &mut tokens))?);
        }
        Ok(Value::Array(shown))
    }
}

/// The index of the first instruction that calls a program other than system and compute budget; 0 if there is none.
fn foreign(txn: &Txn<'_>) -> u8 {
    let known = [SYSTEM_PROGRAM, COMPUTE_BUDGET_PROGRAM];
    let program = |index: u8| txn.account_keys()[usize::from(index)];
    let first = txn.instructions().position(|instruction| !known.contains(&program(instruction.program_id_index)));
    first.unwrap_or(0) as u8
}

impl Api {
    /// The addresses that a transaction loads; fails if its lookup tables do not contain them.
    pub fn loaded_addresses(&self, txn: &Txn<'_>) -> Result<LoadedAddresses, Failure> {
        let loaded = LoadedAddresses::resolve(txn, self.ledger.accounts(), self.ledger.open_slot());
        loaded.map_err(|error| Failure::invalid_params(format!("invalid transaction: {error}")))
    }

    /// Waits while the node executes another fork than the one on which a transaction's blockhash is: there every
    /// simulation would fail.
    pub async fn on_its_fork(&self, txn: &Txn<'_>) {
        let deadline = Instant::now() + FORK_WAIT;
        while self.ledger.may_return(txn.recent_blockhash()) && Instant::now() < deadline {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    async fn simulate(&self, txn: &Txn<'_>) -> Result<Simulation, Failure> {
        let bank = self.working_bank().await?;
        let idle = || self.executors.lock();
        let mut executor = idle().pop().unwrap_or_default();
        // A program may run for milliseconds.
        let simulation = tokio::task::block_in_place(|| bank.simulate(&mut executor, txn));
        idle().push(executor);
        Simulation::of(txn, simulation)
    }

    /// Fails if the transaction would fail.
    pub async fn preflight(&self, txn: &Txn<'_>) -> Result<(), Failure> {
        let simulation = self.simulate(txn).await?;
        if simulation.err.is_none() {
            return Ok(());
        }
        self.is_not_sent(txn, DropReason::RpcSimulation, simulation.err);
        Err(self.refused(simulation))
    }

    /// Counts a failed preflight and returns its error.
    pub fn refused(&self, simulation: Simulation) -> Failure {
        count(self.counters.preflight_refused());
        let err = simulation.err.map_or(String::new(), |err| err.to_string());
        let why = if simulation.unsupported { " (this node does not run that program)" } else { "" };
        Failure::preflight(format!("{err}{why}"), Value::Object(simulation.json()))
    }

    pub async fn simulate_transaction(&self, params: Params<'_>) -> Result<Value, Failure> {
        let text = params.at_most(2)?.text(0, "transaction")?;
        let options = params.options(1)?;
        let (sig_verify, replace) = (options.flag("sigVerify")?, options.flag("replaceRecentBlockhash")?);
        if sig_verify && replace {
            return Err(Failure::refused_params("sigVerify may not be used with replaceRecentBlockhash"));
        }
        let (inner, wanted) = (options.flag("innerInstructions")?, options.options("accounts")?);
        let commitment = options.commitment()?;
        let slot = self.newest_slot(options)?;
        let mut bytes = encoding::transaction_bytes(text, options)?;
        let mut replacement = Value::Null;
        if replace {
            let txn = encoding::transaction(&bytes)?;
            let at = txn.recent_blockhash().as_ptr().addr() - bytes.as_ptr().addr();
            let latest = self.ledger.latest_blockhash(commitment);
            bytes[at..at + 32].copy_from_slice(&latest.blockhash);
            replacement = json!({
                "blockhash": &*encode_32(&latest.blockhash),
                "lastValidBlockHeight": latest.last_valid_block_height,
            });
        }
        let txn = encoding::transaction(&bytes)?;
        self.on_its_fork(&txn).await;
        let loaded = self.loaded_addresses(&txn)?;
        let simulation = match sig_verify && !(self.verify)(&txn) {
            true => Simulation::refused(TransactionError::SignatureFailure),
            false => self.simulate(&txn).await?,
        };
        let mut value = simulation.json();
        simulation.add_balances(&mut value, &loaded);
        value.insert("replacementBlockhash".into(), replacement);
        if let Some(wanted) = wanted {
            value.insert("accounts".into(), simulation.accounts_json(self, &txn, wanted)?);
        }
        if let Some(record) = simulation.record.as_deref().filter(|_| inner) {
            let keys = [txn.account_keys(), loaded.all()].concat();
            value.insert("innerInstructions".into(), inner_json(record, &keys));
        }
        Ok(with_context(slot, Value::Object(value)))
    }
}
