//! Messages that are executed and forgotten: calls, estimates of gas, traces.
//!
//! source  geth's `eth_call`: which checks it leaves out

use revm::context::result::{EVMError, ExecutionResult, InvalidTransaction};
use revm::context::{Context, TxEnv};
use revm::context_interface::block::BlobExcessGasAndPrice;
use revm::database_interface::WrapDatabaseRef;
use revm::handler::MainnetContext;
use revm::primitives::hardfork::SpecId;
use revm::state::EvmState;
use revm::{DatabaseRef, InspectEvm, Inspector, MainBuilder, MainContext};

use super::BlockEnv;
use super::precompiles::{OverriddenPrecompiles, PrecompileOverrides};
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
    /// As `eth_simulateV1` does where it validates: as in a block, but of any sender, and of any amount of gas.
    Validated,
    /// As it does where it does not: besides, no nonce, and no base fee for who offers no price. Contracts see the
    /// block's base fee all the same.
    Unvalidated,
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
        Ok(done) => Ok(Simulated { result: done.result, state: done.state }),
        Err(EVMError::Transaction(invalid)) => Err(SimulateError::Invalid(invalid)),
        Err(error) => Err(SimulateError::State(error.to_string())),
    }
}
