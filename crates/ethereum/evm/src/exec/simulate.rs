//! Messages that are executed and forgotten: calls, estimates of gas, traces.
//!
//! source  geth's `eth_call`: which checks it leaves out

use alloy_primitives::{Address, B256, U256};
use revm::bytecode::Bytecode;
use revm::context::result::{EVMError, ExecutionResult, InvalidTransaction};
use revm::context::{Context, TxEnv};
use revm::context_interface::block::BlobExcessGasAndPrice;
use revm::database_interface::WrapDatabaseRef;
use revm::database_interface::erased_error::ErasedError;
use revm::handler::MainnetContext;
use revm::primitives::hardfork::SpecId;
use revm::state::{AccountInfo, EvmState};
use revm::{DatabaseRef, InspectEvm, Inspector, MainBuilder, MainContext};

use super::BlockEnv;
use super::precompiles::{OverriddenPrecompiles, PrecompileOverrides};
use crate::tx::Tx;

/// The validation of a message before its execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checks {
    /// As of a transaction in a block.
    All,
    /// The same, of an account that is impersonated: it may have code.
    Impersonated,
    /// As `eth_call`: any nonce, gas limit and sender, and no base fee for a message without a price.
    Call,
    /// As `eth_simulateV1` with validation: as in a block, but from any sender, and with any gas limit.
    Validated,
    /// As `eth_simulateV1` without validation: in addition any nonce, and no base fee for a message without a price.
    /// Contracts see the block's base fee nevertheless.
    Unvalidated,
}

impl Checks {
    /// Returns the checks of a transaction that is in a block.
    pub fn of(tx: &Tx) -> Self {
        if tx.is_impersonated() { Self::Impersonated } else { Self::All }
    }
}

/// The result of a message.
#[derive(Clone, Debug)]
pub struct SimulationResult {
    /// The result of the execution.
    pub result: ExecutionResult,
    /// The changes that it would have made.
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

/// Properties of a message's block that no block of a chain can have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockExtras {
    /// The value of `BLOBBASEFEE`, in wei.
    pub blob_base_fee: Option<u128>,
    /// Precompiles that are replaced or moved.
    pub precompiles: PrecompileOverrides,
}

/// The context in which a message is executed. It knows no type of state, so revm's interpreter is compiled once for
/// each inspector and not for each state, too.
pub type MessageContext<'a> = MainnetContext<WrapDatabaseRef<&'a dyn DatabaseRef<Error = ErasedError>>>;

/// A state with its error type erased.
struct ErasedDatabase<'a, D>(&'a D);

impl<D: DatabaseRef> DatabaseRef for ErasedDatabase<'_, D> {
    type Error = ErasedError;

    fn basic_ref(&self, address: Address) -> Result<Option<AccountInfo>, ErasedError> {
        self.0.basic_ref(address).map_err(ErasedError::new)
    }

    fn code_by_hash_ref(&self, code_hash: B256) -> Result<Bytecode, ErasedError> {
        self.0.code_by_hash_ref(code_hash).map_err(ErasedError::new)
    }

    fn storage_ref(&self, address: Address, index: U256) -> Result<U256, ErasedError> {
        self.0.storage_ref(address, index).map_err(ErasedError::new)
    }

    fn block_hash_ref(&self, number: u64) -> Result<B256, ErasedError> {
        self.0.block_hash_ref(number).map_err(ErasedError::new)
    }
}

/// Executes one message on the state `db`, in the block `env` with its `extras`, and shows `inspector` each step.
pub fn simulate<D, I>(
    db: &D,
    env: &BlockEnv,
    extras: &BlockExtras,
    tx: TxEnv,
    checks: Checks,
    inspector: I,
) -> Result<SimulationResult, SimulateError>
where
    D: DatabaseRef,
    I: for<'a> Inspector<MessageContext<'a>>,
{
    run(&ErasedDatabase(db), env, extras, tx, checks, inspector)
}

fn run<'a, I: Inspector<MessageContext<'a>>>(
    db: &'a dyn DatabaseRef<Error = ErasedError>,
    env: &BlockEnv,
    extras: &BlockExtras,
    tx: TxEnv,
    checks: Checks,
    inspector: I,
) -> Result<SimulationResult, SimulateError> {
    let (mut cfg, mut block) = (env.cfg(), env.block());
    cfg.disable_eip3607 = checks != Checks::All;
    if checks == Checks::Call {
        cfg.disable_nonce_check = true;
        cfg.tx_chain_id_check = false;
        cfg.disable_block_gas_limit = true;
        cfg.tx_gas_limit_cap = Some(u64::MAX);
        // A message with a price must offer enough, as in a block.
        if tx.gas_price == 0 {
            block.basefee = 0;
        }
    }
    if matches!(checks, Checks::Validated | Checks::Unvalidated) {
        cfg.disable_block_gas_limit = true;
        cfg.tx_gas_limit_cap = Some(u64::MAX);
        cfg.disable_nonce_check = checks == Checks::Unvalidated;
        cfg.disable_base_fee = checks == Checks::Unvalidated && tx.gas_price == 0;
    }
    if let Some(blob_gasprice) = extras.blob_base_fee.filter(|_| env.spec.is_enabled_in(SpecId::CANCUN)) {
        block.blob_excess_gas_and_price = Some(BlobExcessGasAndPrice { excess_blob_gas: 0, blob_gasprice });
    }
    if let Some(blobs) = &mut block.blob_excess_gas_and_price
        && matches!(checks, Checks::Call | Checks::Unvalidated)
        && tx.max_fee_per_blob_gas == 0
        && !tx.blob_hashes.is_empty()
    {
        // As with the price of gas.
        blobs.blob_gasprice = 0;
    }
    let context = Context::mainnet().with_db(WrapDatabaseRef(db)).with_cfg(cfg).with_block(block);
    let precompiles = OverriddenPrecompiles::new(env.spec, &extras.precompiles);
    match context.build_mainnet_with_inspector(inspector).with_precompiles(precompiles).inspect_tx(tx) {
        Ok(done) => Ok(SimulationResult { result: done.result, state: done.state }),
        Err(EVMError::Transaction(invalid)) => Err(SimulateError::Invalid(invalid)),
        Err(error) => Err(SimulateError::State(error.to_string())),
    }
}
