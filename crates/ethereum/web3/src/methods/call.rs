//! Execution of messages without a transaction: `eth_call`, `eth_estimateGas`, `eth_createAccessList`.
//!
//! reads   the state after a block
//! writes  the message's output
//! memory  what the message touches, and its overrides
//! drops   messages that revert: error 3 with the revert's data; that fail otherwise: error -32000
//! source  `internal/ethapi` of go-ethereum 1.16

use std::collections::{BTreeMap, BTreeSet};

use alloy_eips::eip2930::{AccessList, AccessListItem};
use alloy_eips::eip7702::SignedAuthorization;
use alloy_primitives::{Address, B256, Bytes, TxKind, U256};
use hearth_evm::chain::StateAt;
use hearth_evm::exec::{BlockEnv, BlockExtras, CONSOLE, Checks, Overlay, SimulateError, SimulationResult, simulate};
use revm::DatabaseRef;
use revm::context::TxEnv;
use revm::context::result::{ExecutionResult, InvalidTransaction};
use revm::context_interface::either::Either;
use serde::Deserialize;

use super::overrides::{BlockOverrides, StateOverrides};
use super::{Api, Caller};
use crate::call_pool::Deadline;
use crate::console::{Listener, text};
use crate::failure::Failure;
use crate::json;
use crate::params::{BlockId, Field, Params};
use crate::trace::{Budget, DeadlineInspector, Watcher, halt_words, is_precompile};

/// Gas of a transfer without data.
const TRANSFER_GAS: u64 = 21_000;
/// Additional gas for the callee of a call with value.
const STIPEND: u64 = 2_300;
/// Precision of an estimate in thousandths, as in geth.
const ESTIMATE_PRECISION: u64 = 15;
/// Maximum rounds of computing an access list, each with the list of the round before.
const ACCESS_LIST_ROUNDS: usize = 16;

/// A message, as in the JSON of clients.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Message {
    /// The sender; without one, the zero address.
    pub from: Option<Field<Address>>,
    /// The recipient; without one, the message creates a contract.
    pub to: Option<Field<Address>>,
    /// The gas limit; without one, the method chooses.
    pub gas: Option<Field<u64>>,
    /// The price, wei per unit of gas.
    pub gas_price: Option<Field<U256>>,
    /// The maximum fee, wei per unit of gas.
    pub max_fee_per_gas: Option<Field<U256>>,
    /// Wei per unit of gas to the block's fee recipient.
    pub max_priority_fee_per_gas: Option<Field<U256>>,
    /// The transferred value, in wei.
    pub value: Option<Field<U256>>,
    /// The sender's nonce; without one, the method chooses.
    pub nonce: Option<Field<u64>>,
    data: Option<Field<Bytes>>,
    input: Option<Field<Bytes>>,
    /// The access list (EIP-2930).
    pub access_list: Option<AccessList>,
    /// The authorizations to set code (EIP-7702).
    pub authorization_list: Option<Vec<SignedAuthorization>>,
    /// The chain id, which must be this chain's.
    pub chain_id: Option<Field<U256>>,
    /// The maximum fee in wei per unit of blob gas (EIP-4844).
    pub max_fee_per_blob_gas: Option<Field<U256>>,
    /// The hashes of its blobs (EIP-4844).
    pub blob_versioned_hashes: Option<Vec<Field<B256>>>,
    /// The blobs themselves; a call needs only their hashes.
    blobs: Option<Vec<Field<Bytes>>>,
}

impl Message {
    /// Returns the data, which clients name `data` or `input`.
    pub fn input(&self) -> Result<Bytes, Failure> {
        match (&self.input, &self.data) {
            (Some(input), Some(data)) if input != data => Err(Failure::server(
                "both \"data\" and \"input\" are set and not equal. Please use \"input\" to pass transaction call data",
            )),
            (Some(input), _) => Ok(input.0.clone()),
            (None, Some(data)) => Ok(data.0.clone()),
            (None, None) => Ok(Bytes::new()),
        }
    }

    /// Returns the same message from another sender.
    pub fn sent_by(&self, from: Address) -> Self {
        Self { from: Some(Field(from)), ..self.clone() }
    }

    /// Returns an error for fields that contradict each other, or name another chain.
    pub fn check(&self, chain_id: u64) -> Result<(), Failure> {
        match (&self.blob_versioned_hashes, self.to) {
            (Some(hashes), _) if hashes.is_empty() => {
                return Err(Failure::server("need at least 1 blob for a blob transaction"));
            }
            (Some(_), None) => return Err(Failure::server("missing \"to\" in blob transaction")),
            (None, _) if self.blobs.is_some() => {
                return Err(Failure::server("blobs need their blobVersionedHashes beside them"));
            }
            _ => {}
        }
        if self.gas_price.is_some() && (self.max_fee_per_gas.is_some() || self.max_priority_fee_per_gas.is_some()) {
            return Err(Failure::server("both gasPrice and (maxFeePerGas or maxPriorityFeePerGas) specified"));
        }
        if let (Some(Field(cap)), Some(Field(tip))) = (self.max_fee_per_gas, self.max_priority_fee_per_gas)
            && cap < tip
        {
            return Err(Failure::server(format!("maxFeePerGas ({cap}) < maxPriorityFeePerGas ({tip})")));
        }
        match self.chain_id {
            Some(Field(have)) if have != U256::from(chain_id) => {
                Err(Failure::server(format!("chainId does not match node's (have={have}, want={chain_id})")))
            }
            _ => Ok(()),
        }
    }

    /// Refuses a message with blobs: this node makes no proofs for transactions that it signs.
    pub fn refuse_blobs(&self) -> Result<(), Failure> {
        match self.blob_versioned_hashes.is_some() || self.blobs.is_some() {
            true => Err(Failure::server("blob transactions (type 3, EIP-4844) are not signed here: send them signed")),
            false => Ok(()),
        }
    }

    /// Converts the message for revm.
    pub fn to_env(&self, chain_id: u64, gas_limit: u64) -> Result<TxEnv, Failure> {
        self.check(chain_id)?;
        let price = |field: Option<Field<U256>>| {
            let number = field.map_or(U256::ZERO, |field| field.0);
            u128::try_from(number)
                .map_err(|_| Failure::server(format!("max fee per gas higher than 2^128-1: {number}")))
        };
        let is_dynamic = self.max_fee_per_gas.is_some() || self.max_priority_fee_per_gas.is_some();
        let authorizations = self.authorization_list.clone().unwrap_or_default();
        let hashes = self.blob_versioned_hashes.as_deref().unwrap_or_default();
        let tx_type = match (authorizations.is_empty(), is_dynamic, self.access_list.is_some()) {
            (false, ..) => 4,
            _ if !hashes.is_empty() => 3,
            (true, true, _) => 2,
            (true, false, true) => 1,
            (true, false, false) => 0,
        };
        let cap = if self.gas_price.is_some() { self.gas_price } else { self.max_fee_per_gas };
        Ok(TxEnv {
            tx_type,
            caller: self.from.map_or(Address::ZERO, |from| from.0),
            gas_limit: self.gas.map_or(gas_limit, |gas| gas.0.min(gas_limit)),
            gas_price: price(cap)?,
            kind: self.to.map_or(TxKind::Create, |to| TxKind::Call(to.0)),
            value: self.value.map_or(U256::ZERO, |value| value.0),
            data: self.input()?,
            nonce: self.nonce.map_or(0, |nonce| nonce.0),
            chain_id: Some(chain_id),
            access_list: self.access_list.clone().unwrap_or_default(),
            gas_priority_fee: if tx_type >= 2 { Some(price(self.max_priority_fee_per_gas)?) } else { None },
            blob_hashes: hashes.iter().map(|hash| hash.0).collect(),
            max_fee_per_blob_gas: price(self.max_fee_per_blob_gas)?,
            authorization_list: authorizations.into_iter().map(Either::Left).collect(),
        })
    }
}

/// A message, with the block and the state to execute it on.
struct CallContext<D> {
    env: BlockEnv,
    extras: BlockExtras,
    db: D,
    deadline: Deadline,
}

impl<D: DatabaseRef> CallContext<D> {
    /// Prints what a message sends to the console.
    fn print(&self, what: &str, tx: &TxEnv, api: &Api) {
        let Some(print) = api.config.console else { return };
        let mut listener =
            (DeadlineInspector::new(Budget { bytes: usize::MAX, deadline: self.deadline }), Listener::default());
        let _ =
            simulate(&self.db, &self.env, &self.extras, tx.clone(), Checks::Call, &mut listener as &mut Watcher<'_>);
        if !listener.1.lines.is_empty() {
            print(&text(what, &listener.1.lines));
        }
    }

    fn run(&self, tx: TxEnv) -> Result<Result<SimulationResult, InvalidTransaction>, Failure> {
        let mut watch = DeadlineInspector::new(Budget { bytes: usize::MAX, deadline: self.deadline });
        let done = simulate(&self.db, &self.env, &self.extras, tx, Checks::Call, &mut watch);
        watch.check()?;
        match done {
            Ok(done) => Ok(Ok(done)),
            Err(SimulateError::Invalid(why)) => Ok(Err(why)),
            Err(SimulateError::State(why)) => Err(Failure::state(why)),
        }
    }
}

/// Returns why a message is invalid on this state, in geth's words.
pub(super) fn invalid(why: &InvalidTransaction, tx: &TxEnv, env: &BlockEnv) -> String {
    let sender = tx.caller;
    match why {
        InvalidTransaction::LackOfFundForMaxFee { fee, balance } => {
            format!("insufficient funds for gas * price + value: address {sender} have {balance} want {fee}")
        }
        InvalidTransaction::NonceTooLow { tx, state } => {
            format!("nonce too low: address {sender}, tx: {tx} state: {state}")
        }
        InvalidTransaction::NonceTooHigh { tx, state } => {
            format!("nonce too high: address {sender}, tx: {tx} state: {state}")
        }
        InvalidTransaction::NonceOverflowInTransaction => {
            format!("nonce has max value: address {sender}, nonce: {}", tx.nonce)
        }
        InvalidTransaction::GasPriceLessThanBasefee => {
            format!(
                "max fee per gas less than block base fee: address {sender}, maxFeePerGas: {}, baseFee: {}",
                tx.gas_price, env.base_fee
            )
        }
        InvalidTransaction::CallGasCostMoreThanGasLimit { initial_gas, gas_limit } => {
            format!("intrinsic gas too low: have {gas_limit}, want {initial_gas}")
        }
        InvalidTransaction::GasFloorMoreThanGasLimit { gas_floor, gas_limit } => {
            format!("insufficient gas for floor data gas cost: have {gas_limit}, want {gas_floor}")
        }
        InvalidTransaction::CreateInitCodeSizeLimit => {
            format!("max initcode size exceeded: code size {}", tx.data.len())
        }
        other => other.to_string(),
    }
}

fn refused(why: &InvalidTransaction, tx: &TxEnv, env: &BlockEnv) -> Failure {
    Failure::server(format!("err: {} (supplied gas {})", invalid(why, tx, env), tx.gas_limit))
}

/// Returns a message's output, or why it failed.
fn output(result: &ExecutionResult) -> Result<Bytes, Failure> {
    match result {
        ExecutionResult::Success { output, .. } => Ok(output.data().clone()),
        ExecutionResult::Revert { output, .. } => Err(Failure::reverted(output)),
        ExecutionResult::Halt { reason, .. } => Err(Failure::server(halt_words(reason))),
    }
}

impl Caller<'_> {
    /// Runs `work` with the message, state and block that the parameters name: message, block, state overrides, block
    /// overrides.
    async fn with_scene<T, F>(&self, params: &Params<'_>, default: BlockId, work: F) -> Result<T, Failure>
    where
        T: Send + 'static,
        F: FnOnce(&CallContext<Overlay<StateAt>>, Message, &Api) -> Result<T, Failure> + Send + 'static,
    {
        let message: Message = params.shape(0)?;
        let block = params.optional(1)?.unwrap_or(default);
        let overrides = StateOverrides::read(params.json(2), 2)?;
        let block_overrides: BlockOverrides = params.shape_or_none(3)?.unwrap_or_default();
        let api = std::sync::Arc::clone(self.api);
        self.api
            .heavy
            .run(move |deadline| {
                let (mut env, view) = api.scene(block)?;
                let (db, extras) = overrides.apply(view, &block_overrides, &mut env, api.chain.genesis())?;
                let scene = CallContext { env, extras, db, deadline };
                work(&scene, message, &api)
            })
            .await
    }

    pub(super) async fn eth_call(&self, params: Params<'_>) -> Result<String, Failure> {
        let params = params.at_most(4)?;
        let done = self.with_scene(&params, BlockId::Latest, |scene, message, api| {
            let tx = message.to_env(api.chain_id(), api.config.limits.call_gas)?;
            let done = scene.run(tx.clone())?.map_err(|why| refused(&why, &tx, &scene.env))?;
            if done.state.contains_key(&CONSOLE) {
                scene.print("eth_call", &tx, api);
            }
            output(&done.result).map(|output| json::data(&output))
        });
        done.await
    }

    pub(super) async fn eth_estimate_gas(&self, params: Params<'_>) -> Result<String, Failure> {
        let params = params.at_most(4)?;
        let done = self.with_scene(&params, self.api.next_block(), |scene, message, api| {
            let call_gas = api.config.limits.call_gas;
            let tx = message.to_env(api.chain_id(), u64::MAX)?;
            let estimated = estimate(scene, tx.clone(), message.gas.map(|gas| gas.0), call_gas);
            if estimated.is_err() {
                // As in Hardhat: if the estimate succeeds, the transaction prints.
                scene.print("eth_estimateGas", &TxEnv { gas_limit: call_gas, ..tx }, api);
            }
            estimated.map(json::quantity)
        });
        done.await
    }

    /// Returns the gas that a message needs in the next block.
    pub(super) async fn estimated(&self, message: Message) -> Result<u64, Failure> {
        let api = std::sync::Arc::clone(self.api);
        let work = move |deadline| {
            let (env, db) = api.scene(api.next_block())?;
            let tx = message.to_env(api.chain_id(), u64::MAX)?;
            let call_gas = api.config.limits.call_gas;
            let scene = CallContext { env, extras: BlockExtras::default(), db, deadline };
            let estimated = estimate(&scene, tx.clone(), None, call_gas);
            if estimated.is_err() {
                scene.print("eth_sendTransaction", &TxEnv { gas_limit: call_gas, ..tx }, &api);
            }
            estimated
        };
        self.api.heavy.run(work).await
    }

    pub(super) async fn eth_create_access_list(&self, params: Params<'_>) -> Result<String, Failure> {
        let params = params.at_most(3)?;
        let done = self.with_scene(&params, self.api.next_block(), |scene, message, api| {
            let mut tx = message.to_env(api.chain_id(), api.config.limits.call_gas)?;
            if message.nonce.is_none() {
                // The address of a contract that it creates depends on the nonce.
                let info = scene.db.basic_ref(tx.caller).map_err(Failure::state)?;
                tx.nonce = info.map_or(0, |info| info.nonce);
            }
            access_list(scene, tx)
        });
        done.await
    }
}

/// Returns the least gas with which a message succeeds, to a few thousandths.
fn estimate<D: DatabaseRef>(
    scene: &CallContext<D>,
    mut tx: TxEnv,
    asked: Option<u64>,
    call_gas: u64,
) -> Result<u64, Failure> {
    let mut high = asked.filter(|gas| *gas >= TRANSFER_GAS).unwrap_or(scene.env.gas_limit);
    high = high.min(scene.env.limits.tx_gas(scene.env.spec)).min(call_gas);
    if tx.gas_price > 0 {
        let balance = scene.db.basic_ref(tx.caller).map_err(Failure::state)?.unwrap_or_default().balance;
        let Some(rest) = balance.checked_sub(tx.value) else {
            return Err(Failure::server("insufficient funds for transfer"));
        };
        let allowance = rest / U256::from(tx.gas_price);
        high = high.min(u64::try_from(allowance).unwrap_or(u64::MAX));
    }
    let is_plain = |kind: &TxKind| match kind {
        TxKind::Call(to) => scene.db.basic_ref(*to).map(|info| info.is_none_or(|info| info.is_empty_code_hash())),
        TxKind::Create => Ok(false),
    };
    if tx.data.is_empty() && tx.authorization_list.is_empty() && is_plain(&tx.kind).map_err(Failure::state)? {
        tx.gas_limit = TRANSFER_GAS.min(high);
        if scene.run(tx.clone())?.is_ok_and(|done| done.result.is_success()) {
            return Ok(tx.gas_limit);
        }
    }
    tx.gas_limit = high;
    let (mut low, tried) = match scene.run(tx.clone())? {
        Ok(SimulationResult { result: ExecutionResult::Success { gas, .. }, .. }) => {
            // All gas before the refund, and the 64th that every call keeps back.
            let most = gas.total_gas_spent().max(gas.floor_gas());
            (gas.tx_gas_used() - 1, ((most + STIPEND) / 63).saturating_mul(64))
        }
        Ok(SimulationResult { result: ExecutionResult::Halt { reason, .. }, .. })
            if halt_words(&reason) == "out of gas" =>
        {
            return Err(Failure::server(format!("gas required exceeds allowance ({high})")));
        }
        Ok(done) => return Err(output(&done.result).err().unwrap_or_else(|| Failure::internal("no result"))),
        Err(InvalidTransaction::CallGasCostMoreThanGasLimit { .. })
        | Err(InvalidTransaction::GasFloorMoreThanGasLimit { .. }) => {
            return Err(Failure::server(format!("gas required exceeds allowance ({high})")));
        }
        Err(why) => return Err(refused(&why, &tx, &scene.env)),
    };
    let succeeds = |gas_limit: u64| -> Result<bool, Failure> {
        scene.deadline.check()?;
        let tx = TxEnv { gas_limit, ..tx.clone() };
        Ok(scene.run(tx)?.is_ok_and(|done| done.result.is_success()))
    };
    if tried < high {
        if succeeds(tried)? {
            high = tried;
        } else {
            low = tried;
        }
    }
    while low + 1 < high && (high - low).saturating_mul(1_000) > high.saturating_mul(ESTIMATE_PRECISION) {
        // The limit is most often near the gas used.
        let middle = (low + (high - low) / 2).min(low.saturating_mul(2));
        if succeeds(middle)? {
            high = middle;
        } else {
            low = middle;
        }
    }
    Ok(high)
}

/// Returns the accounts and slots that a message touches, and the gas it uses with them in the access list.
fn access_list<D: DatabaseRef>(scene: &CallContext<D>, mut tx: TxEnv) -> Result<String, Failure> {
    if tx.tx_type == 0 {
        tx.tx_type = 1;
    }
    let mut list = AccessList::default();
    let mut last = None;
    for _ in 0..ACCESS_LIST_ROUNDS {
        scene.deadline.check()?;
        tx.access_list = list.clone();
        let done = scene.run(tx.clone())?.map_err(|why| {
            Failure::server(format!(
                "failed to apply transaction: {} err: {}",
                B256::ZERO,
                invalid(&why, &tx, &scene.env)
            ))
        })?;
        let touched = touched(&done, &tx, &scene.env);
        last = Some(done.result);
        if touched == list {
            break;
        }
        list = touched;
    }
    let result = last.ok_or_else(|| Failure::internal("nothing was executed"))?;
    Ok(json::object(|object| {
        object.array("accessList", &list.0, |out, item| {
            json::push_object(out, |object| {
                object.data("address", item.address.as_slice());
                object.array("storageKeys", &item.storage_keys, |out, key| json::push_data(out, key.as_slice()));
            });
        });
        match &result {
            ExecutionResult::Success { .. } => {}
            ExecutionResult::Revert { .. } => object.text("error", "execution reverted"),
            ExecutionResult::Halt { reason, .. } => object.text("error", &halt_words(reason)),
        }
        object.quantity("gasUsed", result.tx_gas_used());
    }))
}

/// Leaves out accounts that are warm in any case: precompiles, and sender, receiver and beneficiary if none of their
/// storage is touched.
fn touched(done: &SimulationResult, tx: &TxEnv, env: &BlockEnv) -> AccessList {
    let to = match tx.kind {
        TxKind::Call(to) => to,
        TxKind::Create => tx.caller.create(tx.nonce),
    };
    let mut accounts: BTreeMap<Address, BTreeSet<B256>> = BTreeMap::new();
    for (address, account) in &done.state {
        let is_warm = [tx.caller, to, env.beneficiary].contains(address) || is_precompile(address);
        if !is_warm || !account.storage.is_empty() {
            accounts.entry(*address).or_default().extend(account.storage.keys().map(|key| B256::from(*key)));
        }
    }
    let item = |(address, keys): (_, BTreeSet<_>)| AccessListItem { address, storage_keys: keys.into_iter().collect() };
    AccessList(accounts.into_iter().map(item).collect())
}
