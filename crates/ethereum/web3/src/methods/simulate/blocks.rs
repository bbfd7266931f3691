//! The simulated blocks, executed one on the other.
//!
//! reads   the state after the base block, which stays while other blocks are made: nothing here waits for the writer,
//!         or makes it wait for longer than one node of a trie
//! writes  the JSON of each block
//! memory  what all blocks change, and the nodes of the tries above it; of the block that is executed its transactions,
//!         logs and outputs

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use alloy_consensus::Header;
use alloy_primitives::{Address, B256, Bytes, Log, U256};
use hearth_evm::block::{Block, Body, Roots, next_base_fee};
use hearth_evm::exec::{
    AccountOverride, BlockDb, BlockEnv, BlockExecution, BlockExecutor, BlockExtras, Checks, Outcome, Overlay,
    PrecompileOverrides, SimulateError, SimulationResult, SpecId, Verdict, credit, credit_wei, overridden, simulate,
};
use hearth_evm::genesis::FIRST_BASE_FEE;
use hearth_evm::import::rewards;
use hearth_evm::state::{Changes, HypotheticalState, StateError, StateView};
use hearth_evm::tx::{SharedTx, Tx, to_tx_env};
use revm::DatabaseRef;
use revm::context::TxEnv;
use revm::context::result::{ExecutionResult, InvalidTransaction};
use revm::state::{AccountInfo, Bytecode};

use super::{BlockRequest, Options};
use crate::call_pool::Deadline;
use crate::failure::{Failure, revert_message};
use crate::json;
use crate::methods::Api;
use crate::methods::call::{Message, invalid};
use crate::methods::overrides::BlockOverrides;
use crate::methods::typed::{Fees, FieldDefaults, narrow, typed, unsigned};
use crate::shapes::{self, Stage, TxPosition};
use crate::trace::{Budget, Transfers, Watcher, halt_words};

/// The error code of a call that fails other than by a revert.
const FAILED: i64 = -32_015;
/// The error code of a call that asks for more gas than its block has left.
const BLOCK_FULL: i64 = -38_015;

/// The state before a simulated block; `BLOCKHASH` knows the simulated blocks, too.
struct SimulatedParent<'a> {
    db: &'a BlockDb<'a, StateView>,
    hashes: &'a BTreeMap<u64, B256>,
}

impl DatabaseRef for SimulatedParent<'_> {
    type Error = StateError;

    fn basic_ref(&self, address: Address) -> Result<Option<AccountInfo>, StateError> {
        self.db.basic_ref(address)
    }

    fn code_by_hash_ref(&self, code_hash: B256) -> Result<Bytecode, StateError> {
        self.db.code_by_hash_ref(code_hash)
    }

    fn storage_ref(&self, address: Address, index: U256) -> Result<U256, StateError> {
        self.db.storage_ref(address, index)
    }

    fn block_hash_ref(&self, number: u64) -> Result<B256, StateError> {
        self.hashes.get(&number).map_or_else(|| self.db.block_hash_ref(number), |hash| Ok(*hash))
    }
}

/// The result of a call.
struct CallOutcome {
    output: Bytes,
    /// Each with its place in the block.
    logs: Vec<(Log, u64)>,
    gas_used: u64,
    /// The gas used before the refund.
    gas_most: u64,
    /// Code and message of the failure, if it failed.
    failure: Option<(i64, String)>,
}

/// A simulation under way.
struct Run<'a> {
    api: &'a Api,
    options: Options,
    deadline: Deadline,
    /// Gas left for the remaining calls.
    gas_left: u64,
    /// Bytes left for the remaining blocks.
    bytes_left: usize,
    parent: Arc<Block>,
    hashes: BTreeMap<u64, B256>,
    /// The state after the blocks so far, for their roots.
    after: HypotheticalState,
}

/// Executes the blocks on the state `view` after `base`, and returns their JSON.
pub(super) fn run(
    api: &Api,
    base: Arc<Block>,
    view: &StateView,
    planned: Vec<BlockRequest>,
    options: Options,
    deadline: Deadline,
) -> Result<String, Failure> {
    let limits = api.config.limits;
    let mut db = BlockDb::new(view, SpecId::MERGE);
    let mut run = Run {
        api,
        options,
        deadline,
        gas_left: limits.call_gas,
        bytes_left: limits.answer_bytes,
        parent: base,
        hashes: BTreeMap::new(),
        after: view.hypothetical().map_err(no_root)?,
    };
    let mut out = String::from("[");
    for asked in planned {
        deadline.check()?;
        if out.len() > 1 {
            out.push(',');
        }
        let text = run.block(&mut db, &asked)?;
        run.bytes_left = run.bytes_left.checked_sub(text.len()).ok_or_else(Failure::too_large)?;
        out.push_str(&text);
    }
    out.push(']');
    Ok(out)
}

impl Run<'_> {
    fn block(&mut self, db: &mut BlockDb<'_, StateView>, asked: &BlockRequest) -> Result<String, Failure> {
        let env = self.env(&asked.overrides);
        let accounts = &asked.state.0;
        let precompiles = PrecompileOverrides::new(env.spec, accounts).map_err(Failure::server)?;
        let extras = BlockExtras { blob_base_fee: asked.overrides.blob_base_fee()?, precompiles };
        let changes = overridden(&*db, accounts).map_err(Failure::state)?;
        self.append(db, changes)?;
        let hashes = std::mem::take(&mut self.hashes);
        let before = SimulatedParent { db: &*db, hashes: &hashes };
        let mut executor = BlockExecutor::new(&before, &env);
        executor.begin();
        let mut calls = Vec::with_capacity(asked.calls.len());
        let mut txs = Vec::with_capacity(asked.calls.len());
        let mut verdicts = Vec::with_capacity(asked.calls.len());
        let mut position = Position::default();
        for message in &asked.calls {
            self.deadline.check()?;
            let sender_nonce = nonce_of(&*executor.database(), message)?;
            let tx = self.tx(message, &env, sender_nonce, position.gas_used)?;
            let (called, result, state) = self.call(&*executor.database(), &env, &extras, &tx, &mut position)?;
            executor.database().absorb(state);
            calls.push(called);
            verdicts.push(Verdict::Included(Outcome::new(result)));
            txs.push(tx);
        }
        let BlockExecution { verdicts, mut changes, requests, .. } = executor.finish(verdicts);
        let withdrawals = asked.overrides.withdrawals.clone().unwrap_or_default();
        credit(&before, &mut changes, &withdrawals).map_err(Failure::state)?;
        credit_wei(&before, &mut changes, self.rewards(&env)).map_err(Failure::state)?;
        self.hashes = hashes;
        self.append(db, changes)?;
        let state_root = self.after.root();
        let body = Body { withdrawals, ..Body::new(&txs, verdicts, env.base_fee) };
        let roots = Roots::of(&body);
        let block = Block::seal(&env, body, roots, requests, state_root, Bytes::new());
        self.hashes.insert(env.number, block.hash);
        let text = encode_block(&block, &calls, self.options.whole);
        self.parent = block;
        Ok(text)
    }

    /// Adds changes to the state that the next block sees.
    fn append(&mut self, db: &mut BlockDb<'_, StateView>, changes: Changes) -> Result<(), Failure> {
        self.deadline.check()?;
        self.after.apply(&changes).map_err(no_root)?;
        db.append(changes);
        Ok(())
    }

    /// The block reward, before the merge.
    fn rewards(&self, env: &BlockEnv) -> Vec<(Address, U256)> {
        let &BlockEnv { number, timestamp, beneficiary, .. } = env;
        if env.spec.is_enabled_in(SpecId::MERGE) {
            return Vec::new();
        }
        rewards(&Header { number, timestamp, beneficiary, ..Default::default() }, &[], self.api.chain.genesis())
    }

    /// Returns a block's environment: fields without an override are as in the block before it.
    fn env(&self, overrides: &BlockOverrides) -> BlockEnv {
        let parent = &self.parent.header;
        let genesis = self.api.chain.genesis();
        let number = overrides.number.map_or(parent.number + 1, |field| field.0);
        let timestamp = overrides.time.map_or(parent.timestamp + 1, |field| field.0);
        let spec = genesis.spec(number, timestamp);
        // A block after a post-merge one is post-merge.
        let spec = if parent.difficulty.is_zero() { spec.max(SpecId::MERGE) } else { spec };
        // Before the merge, the difficulty of the block before.
        let drawn = if spec.is_enabled_in(SpecId::MERGE) { B256::ZERO } else { parent.difficulty.into() };
        let base_fee = match overrides.base_fee_per_gas {
            Some(field) => field.0,
            None if self.options.validation && spec.is_enabled_in(SpecId::LONDON) => match parent.base_fee_per_gas {
                Some(base_fee) => next_base_fee(parent.gas_used, parent.gas_limit, base_fee),
                None => FIRST_BASE_FEE,
            },
            None => 0,
        };
        let beacon_root = overrides.beacon_root.map_or(B256::ZERO, |field| field.0);
        BlockEnv {
            number,
            timestamp,
            beneficiary: overrides.fee_recipient.map_or(parent.beneficiary, |field| field.0),
            gas_limit: overrides.gas_limit.map_or(parent.gas_limit, |field| field.0),
            base_fee,
            prevrandao: overrides.prev_randao.map_or(drawn, |field| field.0),
            parent_hash: Some(self.parent.hash),
            parent_beacon_block_root: spec.is_enabled_in(SpecId::CANCUN).then_some(beacon_root),
            blobs: self.parent.blobs_after(genesis.blob_params(number, timestamp)),
            chain_id: self.api.chain_id(),
            spec,
            limits: genesis.limits,
            deposit_contract: genesis.deposit_contract,
        }
    }

    /// Converts a call to a transaction, without a signature.
    fn tx(&self, message: &Message, env: &BlockEnv, sender_nonce: u64, gas_used: u64) -> Result<SharedTx, Failure> {
        message.check(env.chain_id)?;
        let rest = env.gas_limit.saturating_sub(gas_used);
        let gas = message.gas.map_or(rest, |gas| gas.0);
        if gas > rest {
            let why = format!("block gas limit reached: {gas_used} >= {}", env.gas_limit);
            return Err(Failure::simulation(BLOCK_FULL, why));
        }
        let fees = match message.gas_price {
            Some(price) => Fees::Price(narrow(price.0)?),
            // As in geth, whatever fees of later rules it offers.
            None if !env.spec.is_enabled_in(SpecId::LONDON) => Fees::Price(0),
            None => {
                let fee = |field: Option<crate::params::Field<U256>>| field.map_or(Ok(0), |field| narrow(field.0));
                Fees::Dynamic { tip: fee(message.max_priority_fee_per_gas)?, cap: fee(message.max_fee_per_gas)? }
            }
        };
        let nonce = message.nonce.map_or(sender_nonce, |nonce| nonce.0);
        let chosen = FieldDefaults { nonce, gas_limit: gas.min(self.gas_left), fees };
        let sender = message.from.map(|from| from.0).unwrap_or_default();
        Ok(Arc::new(unsigned(typed(message, env.chain_id, chosen)?, sender)))
    }

    fn call<D: DatabaseRef>(
        &mut self,
        db: &D,
        env: &BlockEnv,
        extras: &BlockExtras,
        tx: &Tx,
        position: &mut Position,
    ) -> Result<(CallOutcome, ExecutionResult, revm::state::EvmState), Failure> {
        let checks = if self.options.validation { Checks::Validated } else { Checks::Unvalidated };
        let bytes = self.bytes_left.checked_sub(position.bytes).ok_or_else(Failure::too_large)?;
        let budget = Budget { bytes, deadline: self.deadline };
        let mut transfers = Transfers::new(self.options.trace_transfers, position.logs, budget);
        let tx = to_tx_env(tx);
        if self.options.validation {
            check_nonce(db, &tx, env)?;
        }
        let done = execute(db, env, extras, &tx, checks, &mut transfers).map_err(|why| match why {
            SimulateError::Invalid(why) => refused(&why, &tx, env),
            SimulateError::State(why) => Failure::state(why),
        })?;
        position.logs = transfers.count();
        let logs = transfers.finish()?;
        let result = done.result;
        let output = result.output().cloned().unwrap_or_default();
        position.bytes += 2 * output.len() + logs.iter().map(|(log, _)| 900 + 2 * log.data.data.len()).sum::<usize>();
        let gas = result.gas();
        let gas_used = result.tx_gas_used();
        position.gas_used += gas_used;
        self.gas_left = self.gas_left.saturating_sub(gas_used);
        let failure = match &result {
            ExecutionResult::Success { .. } => None,
            ExecutionResult::Revert { output, .. } => Some((3, revert_message(output))),
            ExecutionResult::Halt { reason, .. } => Some((FAILED, halt_words(reason))),
        };
        let gas_most = gas.total_gas_spent().max(gas.floor_gas());
        Ok((CallOutcome { output, logs, gas_used, gas_most, failure }, result, done.state))
    }
}

/// Converts the error of a state root.
fn no_root(why: StateError) -> Failure {
    Failure::chain(why.into())
}

/// The progress of a block.
#[derive(Default)]
struct Position {
    gas_used: u64,
    /// Logs so far, including reverted ones.
    logs: u64,
    /// The estimated length of the calls in the answer, in bytes.
    bytes: usize,
}

fn nonce_of<D: DatabaseRef>(db: &D, message: &Message) -> Result<u64, Failure> {
    let sender = message.from.map(|from| from.0).unwrap_or_default();
    Ok(db.basic_ref(sender).map_err(Failure::state)?.map_or(0, |info| info.nonce))
}

/// Executes a call. Without validation the maximum nonce wraps around, as in geth.
fn execute<D: DatabaseRef>(
    db: &D,
    env: &BlockEnv,
    extras: &BlockExtras,
    tx: &TxEnv,
    checks: Checks,
    transfers: &mut Watcher<'_>,
) -> Result<SimulationResult, SimulateError> {
    let sender = db.basic_ref(tx.caller).map_err(|why| SimulateError::State(why.to_string()))?;
    let is_last = sender.is_some_and(|info| info.nonce == u64::MAX);
    if checks != Checks::Unvalidated || !is_last || tx.kind.is_create() {
        return simulate(db, env, extras, tx.clone(), checks, transfers);
    }
    let first = AccountOverride { nonce: Some(0), ..Default::default() };
    let before = Overlay::new(db, [(tx.caller, first)]);
    let mut done = simulate(&before, env, extras, TxEnv { nonce: 0, ..tx.clone() }, checks, transfers)?;
    if let Some(sender) = done.state.get_mut(&tx.caller) {
        sender.info.nonce = 0;
    }
    Ok(done)
}

/// Refuses a nonce other than the sender's before any other check, as geth does.
fn check_nonce<D: DatabaseRef>(db: &D, tx: &TxEnv, env: &BlockEnv) -> Result<(), Failure> {
    use InvalidTransaction as Error;
    let state = db.basic_ref(tx.caller).map_err(Failure::state)?.map_or(0, |info| info.nonce);
    let why = match tx.nonce.cmp(&state) {
        Ordering::Less => Error::NonceTooLow { tx: tx.nonce, state },
        Ordering::Greater => Error::NonceTooHigh { tx: tx.nonce, state },
        Ordering::Equal if state == u64::MAX => Error::NonceOverflowInTransaction,
        Ordering::Equal => return Ok(()),
    };
    Err(refused(&why, tx, env))
}

/// Returns why a call cannot be in its block.
fn refused(why: &InvalidTransaction, tx: &TxEnv, env: &BlockEnv) -> Failure {
    use InvalidTransaction as Error;
    let code = match why {
        Error::NonceTooLow { .. } => -38_010,
        Error::NonceTooHigh { .. } => -38_011,
        Error::GasPriceLessThanBasefee => -38_012,
        Error::CallGasCostMoreThanGasLimit { .. } | Error::GasFloorMoreThanGasLimit { .. } => -38_013,
        Error::LackOfFundForMaxFee { .. } | Error::OverflowPaymentInTransaction => -38_014,
        Error::RejectCallerWithCode => -38_024,
        Error::CreateInitCodeSizeLimit => -38_025,
        Error::PriorityFeeGreaterThanMaxFee => -32_602,
        _ => -32_603,
    };
    Failure::simulation(code, format!("err: {} (supplied gas {})", invalid(why, tx, env), tx.gas_limit))
}

fn encode_block(block: &Block, calls: &[CallOutcome], whole: bool) -> String {
    let mut out = shapes::block(block, Stage::Made, whole);
    // Inserted before the end of the object.
    out.pop();
    out.push_str(",\"calls\":");
    json::push_array(&mut out, calls.iter().enumerate(), |out, (index, call)| {
        json::push_object(out, |object| {
            // If the call failed, the output is in the error.
            let returned: &[u8] = if call.failure.is_none() { &call.output } else { &[] };
            object.data("returnData", returned);
            object.array("logs", &call.logs, |out, (log, position)| {
                shapes::push_log(out, log, &TxPosition { block, index }, *position, false);
            });
            object.quantity("gasUsed", call.gas_used);
            object.quantity("maxUsedGas", call.gas_most);
            object.quantity("status", u64::from(call.failure.is_none()));
            if let Some((code, message)) = &call.failure {
                object.object("error", |object| {
                    object.text("message", message);
                    object.raw("code", &code.to_string());
                    if *code == 3 {
                        object.data("data", &call.output);
                    }
                });
            }
        });
    });
    out.push('}');
    out
}
