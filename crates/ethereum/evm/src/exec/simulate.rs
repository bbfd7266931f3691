//! Messages that are executed and forgotten: calls, estimates of gas, traces.
//!
//! source  geth's `eth_call`: which checks it leaves out, and what an override may set

use std::collections::HashMap;

use alloy_primitives::map::AddressMap;
use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use revm::context::result::{EVMError, ExecutionResult, InvalidTransaction};
use revm::context::{Context, TxEnv};
use revm::context_interface::block::BlobExcessGasAndPrice;
use revm::database_interface::WrapDatabaseRef;
use revm::handler::MainnetContext;
use revm::primitives::hardfork::SpecId;
use revm::state::{AccountInfo, Bytecode, EvmState};
use revm::{DatabaseRef, InspectEvm, Inspector, MainBuilder, MainContext};

use super::BlockEnv;
use super::precompiles::{OverriddenPrecompiles, PrecompileOverrides};
use crate::state::bytecode;
use crate::tx::Tx;

/// What is asked of a message before it is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checks {
    /// As of a transaction in a block.
    All,
    /// The same, of an account that is impersonated: it may have code.
    Impersonated,
    /// As `eth_call` does: no nonce, no limit of gas, any sender, and no base fee for who offers no price.
    Call,
}

impl Checks {
    /// Those of a transaction that is in a block.
    pub fn of(tx: &Tx) -> Self {
        if tx.is_impersonated() { Self::Impersonated } else { Self::All }
    }
}

/// What a message did.
#[derive(Clone, Debug)]
pub struct Simulated {
    /// How it ended.
    pub result: ExecutionResult,
    /// What it would have changed.
    pub state: EvmState,
}

/// Why a message was not executed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SimulateError {
    /// It is no transaction for this block and state.
    #[error("{0}")]
    Invalid(InvalidTransaction),
    /// The state cannot be read.
    #[error("the state cannot be read: {0}")]
    State(String),
}

/// What a message's block has that no block of a chain can have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockExtras {
    /// What `BLOBBASEFEE` gives, in wei.
    pub blob_base_fee: Option<u128>,
    /// Precompiles that are replaced or moved.
    pub precompiles: PrecompileOverrides,
}

/// Executes one message on the state `db`, in the block `env` with its `extras`, and shows `inspector` each step.
pub fn simulate<'a, D, I>(
    db: &'a D,
    env: &BlockEnv,
    extras: &BlockExtras,
    tx: TxEnv,
    checks: Checks,
    inspector: I,
) -> Result<Simulated, SimulateError>
where
    D: DatabaseRef,
    I: Inspector<MainnetContext<WrapDatabaseRef<&'a D>>>,
{
    let (mut cfg, mut block) = (env.cfg(), env.block());
    cfg.disable_eip3607 = checks != Checks::All;
    if checks == Checks::Call {
        cfg.disable_nonce_check = true;
        cfg.tx_chain_id_check = false;
        cfg.disable_block_gas_limit = true;
        cfg.tx_gas_limit_cap = Some(u64::MAX);
        // Who offers a price offers enough or is refused, as in a block.
        if tx.gas_price == 0 {
            block.basefee = 0;
        }
    }
    if let Some(blob_gasprice) = extras.blob_base_fee.filter(|_| env.spec.is_enabled_in(SpecId::CANCUN)) {
        block.blob_excess_gas_and_price = Some(BlobExcessGasAndPrice { excess_blob_gas: 0, blob_gasprice });
    }
    let context = Context::mainnet().with_db(WrapDatabaseRef(db)).with_cfg(cfg).with_block(block);
    let precompiles = OverriddenPrecompiles::new(env.spec, &extras.precompiles);
    match context.build_mainnet_with_inspector(inspector).with_precompiles(precompiles).inspect_tx(tx) {
        Ok(done) => Ok(Simulated { result: done.result, state: done.state }),
        Err(EVMError::Transaction(invalid)) => Err(SimulateError::Invalid(invalid)),
        Err(error) => Err(SimulateError::State(error.to_string())),
    }
}

/// What a caller wants an account to be for one message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountOverride {
    /// Wei.
    pub balance: Option<U256>,
    /// Transactions sent.
    pub nonce: Option<u64>,
    /// The contract's code.
    pub code: Option<Bytes>,
    /// All of the storage: what is not named is 0.
    pub state: Option<HashMap<U256, U256>>,
    /// Slots that differ; heeded where `state` is not given.
    pub state_diff: HashMap<U256, U256>,
    /// Where the precompile at this address runs instead.
    pub move_precompile_to: Option<Address>,
}

/// A state some accounts of which are other than they are.
#[derive(Debug)]
pub struct Overlay<D> {
    base: D,
    accounts: AddressMap<AccountOverride>,
    codes: HashMap<B256, Bytecode>,
}

impl<D: DatabaseRef> Overlay<D> {
    /// `base` with these accounts changed.
    pub fn new(base: D, accounts: impl IntoIterator<Item = (Address, AccountOverride)>) -> Self {
        let accounts: AddressMap<AccountOverride> = accounts.into_iter().collect();
        let codes = accounts.values().filter_map(|account| account.code.as_ref());
        let codes = codes.map(|code| (keccak256(code), bytecode(code.clone()))).collect();
        Self { base, accounts, codes }
    }
}

impl<D: DatabaseRef> DatabaseRef for Overlay<D> {
    type Error = D::Error;

    fn basic_ref(&self, address: Address) -> Result<Option<AccountInfo>, D::Error> {
        let info = self.base.basic_ref(address)?;
        let Some(account) = self.accounts.get(&address) else { return Ok(info) };
        let mut info = info.unwrap_or_default();
        info.balance = account.balance.unwrap_or(info.balance);
        info.nonce = account.nonce.unwrap_or(info.nonce);
        if let Some(code) = &account.code {
            info.code_hash = keccak256(code);
            info.code = self.codes.get(&info.code_hash).cloned();
        }
        Ok(Some(info))
    }

    fn code_by_hash_ref(&self, code_hash: B256) -> Result<Bytecode, D::Error> {
        match self.codes.get(&code_hash) {
            Some(code) => Ok(code.clone()),
            None => self.base.code_by_hash_ref(code_hash),
        }
    }

    fn storage_ref(&self, address: Address, index: U256) -> Result<U256, D::Error> {
        match self.accounts.get(&address) {
            Some(AccountOverride { state: Some(state), .. }) => Ok(state.get(&index).copied().unwrap_or_default()),
            Some(account) if account.state_diff.contains_key(&index) => Ok(account.state_diff[&index]),
            _ => self.base.storage_ref(address, index),
        }
    }

    fn block_hash_ref(&self, number: u64) -> Result<B256, D::Error> {
        self.base.block_hash_ref(number)
    }
}
