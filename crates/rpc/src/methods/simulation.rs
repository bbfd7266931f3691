//! Simulation: what would become of a transaction now.
//!
//! reads   a transaction; the bank of the slot in the making
//! writes  the result as the cluster shapes it
//! memory  the accounts of one transaction
//! source  `simulateTransaction` of `solana-rpc` 4.2; the lines of logs as `stable_log.rs` of
//!         `solana-program-runtime` words them

use hearth_ledger::{Executor, InstructionError, Outcome, TransactionError};
use hearth_wire::Txn;
use hearth_wire::base58::encode_32;
use hearth_wire::consts::{COMPUTE_BUDGET_PROGRAM, SYSTEM_PROGRAM};
use serde_json::{Map, Value, json};

use super::{Api, with_context};
use crate::counters::count;
use crate::encoding;
use crate::jsonrpc::Failure;
use crate::params::Params;

/// What became of a transaction in a simulation.
pub struct Simulation {
    err: Option<TransactionError>,
    /// Whether this node cannot run it, though others may.
    unsupported: bool,
    logs: Vec<String>,
    compute_units: u64,
    loaded_bytes: u32,
    fee: Option<u64>,
}

impl Simulation {
    fn of(txn: &Txn<'_>, outcome: Outcome) -> Result<Self, Failure> {
        match outcome {
            Outcome::Committed(landed) => Ok(Self {
                err: landed.err,
                unsupported: false,
                logs: logs(txn, landed.err),
                compute_units: landed.compute_units,
                loaded_bytes: landed.loaded_bytes,
                fee: Some(landed.fee),
            }),
            Outcome::NotCommitted(err) => Ok(Self::refused(err)),
            Outcome::Unsupported => {
                let err = TransactionError::InstructionError(foreign(txn), InstructionError::UnsupportedProgramId);
                Ok(Self { unsupported: true, ..Self::refused(err) })
            }
            Outcome::SlotEnded => Err(Failure::unhealthy("the slot has just ended; try again", None)),
        }
    }

    /// A transaction that did not run.
    pub fn refused(err: TransactionError) -> Self {
        Self { err: Some(err), unsupported: false, logs: Vec::new(), compute_units: 0, loaded_bytes: 0, fee: None }
    }

    /// The value that clients get, but for the keys that depend on what they asked.
    fn json(&self) -> Map<String, Value> {
        let value = json!({
            "err": self.err,
            "logs": self.logs,
            "accounts": null,
            "unitsConsumed": self.compute_units,
            "loadedAccountsDataSize": self.loaded_bytes,
            "returnData": null,
            "innerInstructions": null,
            "replacementBlockhash": null,
            "fee": self.fee,
        });
        match value {
            Value::Object(map) => map,
            _ => unreachable!("an object was made"),
        }
    }
}

/// The first instruction that is of no program this node runs; the first of all when each is.
fn foreign(txn: &Txn<'_>) -> u8 {
    let known = [SYSTEM_PROGRAM, COMPUTE_BUDGET_PROGRAM];
    let program = |index: u8| txn.account_keys()[usize::from(index)];
    let first = txn.instructions().position(|instruction| !known.contains(&program(instruction.program_id_index)));
    first.unwrap_or(0) as u8
}

/// What the programs of the node log, which write nothing of their own: that they were called, and how it went.
fn logs(txn: &Txn<'_>, err: Option<TransactionError>) -> Vec<String> {
    let failed = match err {
        Some(TransactionError::InstructionError(index, error)) => Some((usize::from(index), error)),
        _ => None,
    };
    let mut logs = Vec::with_capacity(2 * txn.instruction_count());
    for (index, instruction) in txn.instructions().enumerate() {
        let program = encode_32(&txn.account_keys()[usize::from(instruction.program_id_index)]);
        logs.push(format!("Program {program} invoke [1]"));
        match failed {
            Some((at, error)) if at == index => {
                logs.push(format!("Program {program} failed: {error}"));
                break;
            }
            _ => logs.push(format!("Program {program} success")),
        }
    }
    logs
}

impl Api {
    async fn simulate(&self, txn: &Txn<'_>) -> Result<Simulation, Failure> {
        let bank = self.working_bank().await?;
        Simulation::of(txn, bank.simulate(&mut Executor::new(), txn).outcome)
    }

    /// Refuses a transaction that would not succeed.
    pub async fn preflight(&self, txn: &Txn<'_>) -> Result<(), Failure> {
        let simulation = self.simulate(txn).await?;
        if simulation.err.is_none() { Ok(()) } else { Err(self.refused(simulation)) }
    }

    /// The error of a transaction that a simulation refused; counts it.
    pub fn refused(&self, simulation: Simulation) -> Failure {
        count(&self.counters.preflight_refused);
        let err = simulation.err.map_or(String::new(), |err| err.to_string());
        let why = if simulation.unsupported { " (this node runs transfers of the system program only)" } else { "" };
        Failure::preflight(format!("{err}{why}"), Value::Object(simulation.json()))
    }

    pub async fn simulate_transaction(&self, params: Params<'_>) -> Result<Value, Failure> {
        let text = params.at_most(2)?.text(0, "transaction")?;
        let options = params.options(1)?;
        let (sig_verify, replace) = (options.flag("sigVerify")?, options.flag("replaceRecentBlockhash")?);
        if sig_verify && replace {
            return Err(Failure::invalid_params("sigVerify may not be used with replaceRecentBlockhash"));
        }
        if options.get("accounts").is_some() {
            return Err(Failure::invalid_params("accounts: this node gives no accounts after a simulation"));
        }
        let inner = options.flag("innerInstructions")?;
        let commitment = options.commitment()?;
        let slot = self.state_slot(options)?;
        let mut bytes = encoding::transaction_bytes(text, options)?;
        let mut replacement = None;
        if replace {
            let txn = encoding::transaction(&bytes)?;
            let at = txn.recent_blockhash().as_ptr().addr() - bytes.as_ptr().addr();
            let latest = self.ledger.latest_blockhash(commitment);
            bytes[at..at + 32].copy_from_slice(&latest.blockhash);
            replacement = Some(latest);
        }
        let txn = encoding::transaction(&bytes)?;
        let mut value = match sig_verify && !(self.verify)(&txn) {
            true => Simulation::refused(TransactionError::SignatureFailure),
            false => self.simulate(&txn).await?,
        }
        .json();
        if inner {
            // No program that this node runs calls another.
            value.insert("innerInstructions".into(), json!([]));
        }
        if let Some(latest) = replacement {
            let blockhash = json!({
                "blockhash": &*encode_32(&latest.blockhash),
                "lastValidBlockHeight": latest.last_valid_block_height,
            });
            value.insert("replacementBlockhash".into(), blockhash);
        }
        Ok(with_context(slot, Value::Object(value)))
    }
}
