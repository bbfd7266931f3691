//! Executes a block, one transaction after the other.
//!
//! reads   the state after the parent block, through revm's `DatabaseRef`
//! writes  [`BlockExecution`]: a verdict for each transaction and the block's changes, each key once
//! memory  the block's changes, and the code it runs
//! drops   nothing: a transaction that the block cannot hold gets a [`Refusal`]
//! source  Ethereum's state transition by revm; EIP-4788, 2935, 7002 and 7251 for the calls around the
//!         transactions, EIP-6110 for deposits, EIP-4844 and 7691 for what blobs cost
//!
//! Execution checks what makes a transaction invalid at its place in the block, but no rules of the pool. If the view
//! fails to answer, the store is broken, and execution stops the program rather than continue with a guess.

mod console;
mod database;
mod overrides;
mod precompiles;
mod refusal;
mod requests;
mod simulate;
pub(crate) mod system;
mod withdrawals;

use alloy_primitives::{Address, B256, Bytes, Log, U256};
use revm::context::result::{EVMError, ExecutionResult, InvalidTransaction};
use revm::context::{BlockEnv as RevmBlock, CfgEnv, Context, TxEnv};
use revm::context_interface::block::BlobExcessGasAndPrice;
use revm::handler::{MainnetContext, MainnetEvm};
use revm::state::EvmState;
use revm::{DatabaseRef, ExecuteEvm, InspectEvm, Inspector, MainBuilder, MainContext};

pub use console::CONSOLE;
pub(crate) use console::ConsoleProbe;
pub use database::BlockDb;
pub use overrides::{AccountOverride, Overlay, overridden};
pub use precompiles::{PrecompileError, PrecompileOverrides};
pub use refusal::{Refusal, RefusalKind};
pub use requests::BlockFault;
pub(crate) use requests::{NoOutput, RequestsMade, SystemOutput};
pub use revm::primitives::hardfork::SpecId;
pub use simulate::{BlockExtras, Checks, MessageContext, SimulateError, SimulationResult, simulate};
pub use withdrawals::{credit, credit_wei};

use crate::blobs::{self, BlobEnv};
use crate::limits::TxLimits;
use crate::state::Changes;
use crate::tx::{SharedTx, Tx, to_tx_env};

/// The environment of a block's transactions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockEnv {
    /// Height; that of the genesis is 0.
    pub number: u64,
    /// Unix time of the block, in seconds.
    pub timestamp: u64,
    /// The account that receives the tips, and the value of `COINBASE`.
    pub beneficiary: Address,
    /// The gas limit of the block, for all transactions together.
    pub gas_limit: u64,
    /// Wei per unit of gas, burnt.
    pub base_fee: u64,
    /// The value of `PREVRANDAO`; before the merge the same instruction returns it as the difficulty.
    pub prevrandao: B256,
    /// Hash of the block before. Where it is not known yet, the block is executed without the system call that stores
    /// it; the state answers as if the call had been made, and the caller adds the hash to the changes later.
    pub parent_hash: Option<B256>,
    /// The beacon block's root, from Cancun on.
    pub parent_beacon_block_root: Option<B256>,
    /// The blob gas from which `BLOBBASEFEE` follows, and the bounds on blobs; from Cancun on.
    pub blobs: BlobEnv,
    /// The value of `CHAINID`.
    pub chain_id: u64,
    /// The fork whose rules execute the block.
    pub spec: SpecId,
    /// The chain's configured limits of code and gas, besides the fork's.
    pub limits: TxLimits,
    /// The contract whose logs are deposits from Prague on (EIP-6110).
    pub deposit_contract: Address,
}

impl BlockEnv {
    /// The rules and checks of a transaction in a block.
    pub fn cfg(&self) -> CfgEnv {
        let mut cfg = CfgEnv::new_with_spec(self.spec).with_chain_id(self.chain_id);
        cfg.limit_contract_code_size = self.limits.code_size;
        cfg.tx_gas_limit_cap = Some(self.limits.tx_gas(self.spec));
        cfg.max_blobs_per_tx = Some(self.blobs.params.max_blobs_per_tx);
        cfg
    }

    /// Whether the blobs of `tx` fit into the block after `used` blob gas of the transactions before it.
    pub(crate) fn has_room_for_blobs(&self, tx: &Tx, used: u64) -> bool {
        let room = self.blobs.params.max_blob_gas_per_block().saturating_sub(used);
        blobs::gas_of(&tx.envelope) <= room
    }

    /// The rules and checks of `tx`: an impersonated account may have code (EIP-3607 is about keys).
    fn cfg_of(&self, tx: &Tx) -> CfgEnv {
        let mut cfg = self.cfg();
        cfg.disable_eip3607 = tx.is_impersonated();
        cfg
    }

    /// The block as revm has it.
    pub fn block(&self) -> RevmBlock {
        let BlobEnv { excess_gas: excess_blob_gas, .. } = self.blobs;
        let blobs = || BlobExcessGasAndPrice { excess_blob_gas, blob_gasprice: self.blobs.price() };
        let is_worked = !self.spec.is_enabled_in(SpecId::MERGE);
        RevmBlock {
            number: U256::from(self.number),
            beneficiary: self.beneficiary,
            timestamp: U256::from(self.timestamp),
            gas_limit: self.gas_limit,
            basefee: self.base_fee,
            difficulty: if is_worked { self.prevrandao.into() } else { U256::ZERO },
            prevrandao: self.spec.is_enabled_in(SpecId::MERGE).then_some(self.prevrandao),
            blob_excess_gas_and_price: self.spec.is_enabled_in(SpecId::CANCUN).then(blobs),
            slot_num: 0,
        }
    }
}

/// The fate of one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is in the block.
    Included(Outcome),
    /// It cannot be in the block.
    Refused(Refusal),
}

/// The effects of an included transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Whether it took effect; else it only paid.
    pub status: bool,
    /// Gas that the sender pays for, after the refund.
    pub gas_used: u64,
    /// The logs, in order; none if the transaction failed.
    pub logs: Vec<Log>,
}

impl Outcome {
    /// Creates the outcome from revm's result of the transaction.
    pub fn new(result: ExecutionResult) -> Self {
        Self {
            status: result.is_success(),
            gas_used: result.tx_gas_used(),
            logs: if result.is_success() { result.into_logs() } else { Vec::new() },
        }
    }
}

/// The result of executing a block's transactions.
#[derive(Clone, Debug, Default)]
pub struct BlockExecution {
    /// One for each transaction, in order.
    pub verdicts: Vec<Verdict>,
    /// The block's changes, including system calls.
    pub changes: Changes,
    /// Gas used by all included transactions.
    pub gas_used: u64,
    /// Requests to the consensus layer, each with its type before it (EIP-7685); empty before Prague.
    pub requests: Vec<Bytes>,
    /// Why there can be no block of this, where that is so.
    pub fault: Option<BlockFault>,
    /// Whether contracts called the [`CONSOLE`], where that is looked for.
    pub console: bool,
}

/// Executes a block on the state of its parent: the system calls before, the transactions in order, the calls after.
pub fn execute<D: DatabaseRef>(view: &D, env: &BlockEnv, txs: &[SharedTx]) -> BlockExecution {
    let mut block = BlockExecutor::new(view, env);
    block.begin();
    let verdicts = txs.iter().map(|tx| block.run(tx)).collect();
    block.finish(verdicts)
}

/// A block in the making.
pub struct BlockExecutor<'a, D: DatabaseRef> {
    env: BlockEnv,
    evm: MainnetEvm<MainnetContext<BlockDb<'a, D>>>,
    gas_used: u64,
    blob_gas_used: u64,
}

impl<'a, D: DatabaseRef> BlockExecutor<'a, D> {
    /// A block on the state `view` that its parent left.
    pub fn new(view: &'a D, env: &BlockEnv) -> Self {
        let context =
            Context::mainnet().with_db(BlockDb::new(view, env.spec)).with_cfg(env.cfg()).with_block(env.block());
        Self { env: env.clone(), evm: context.build_mainnet(), gas_used: 0, blob_gas_used: 0 }
    }

    /// The calls before the first transaction.
    pub fn begin(&mut self) {
        for call in system::before(&self.env) {
            // If there is no such contract, or it fails, the block continues without.
            let _ = self.system_call(call.contract, call.data);
        }
    }

    /// Executes one transaction, if it can be in the block.
    pub fn run(&mut self, tx: &Tx) -> Verdict {
        self.run_observed(tx, |_| ())
    }

    /// As [`BlockExecutor::run`]; `observe` sees the accounts that the transaction touched, before the block's changes
    /// have them.
    pub fn run_observed(&mut self, tx: &Tx, observe: impl FnOnce(&EvmState)) -> Verdict {
        // In place of revm's own check, which knows nothing of the transactions before.
        let room = self.env.gas_limit - self.gas_used;
        if alloy_consensus::Transaction::gas_limit(&tx.envelope) > room {
            return Verdict::Refused(Refusal::block_gas());
        }
        if !self.env.has_room_for_blobs(tx, self.blob_gas_used) {
            return Verdict::Refused(Refusal::blob_gas());
        }
        self.evm.ctx.cfg.disable_eip3607 = tx.is_impersonated();
        match self.transact(to_tx_env(tx)) {
            Ok((result, state)) => {
                observe(&state);
                self.database().absorb(state);
                let outcome = Outcome::new(result);
                self.gas_used += outcome.gas_used;
                self.blob_gas_used += blobs::gas_of(&tx.envelope);
                Verdict::Included(outcome)
            }
            Err(error) => Verdict::Refused(Refusal::new(&error, tx, self.env.base_fee)),
        }
    }

    /// Executes one transaction, if it can be in the block, and shows `inspector` each step.
    pub fn inspect<I>(&mut self, tx: &Tx, inspector: I) -> Verdict
    where
        I: for<'b> Inspector<MainnetContext<&'b mut BlockDb<'a, D>>>,
    {
        let env = self.env.clone();
        let context = Context::mainnet().with_db(self.database()).with_cfg(env.cfg_of(tx)).with_block(env.block());
        let inspected = context.build_mainnet_with_inspector(inspector).inspect_tx(to_tx_env(tx));
        match inspected {
            Ok(done) => {
                self.database().absorb(done.state);
                let outcome = Outcome::new(done.result);
                self.gas_used += outcome.gas_used;
                Verdict::Included(outcome)
            }
            Err(EVMError::Transaction(invalid)) => Verdict::Refused(Refusal::new(&invalid, tx, env.base_fee)),
            Err(error) => panic!("the state before block {} cannot be read: {error}", env.number),
        }
    }

    /// The calls after the last transaction, and the end.
    pub fn finish(mut self, verdicts: Vec<Verdict>) -> BlockExecution {
        let mut made = RequestsMade::by_logs(&self.env, &verdicts);
        for call in system::after(&self.env) {
            let output = self.system_call(call.contract, call.data);
            made.by_call(call.request_type, call.contract, output);
        }
        let RequestsMade { requests, fault } = made;
        let changes = std::mem::take(&mut self.database().changes);
        BlockExecution { verdicts, changes, gas_used: self.gas_used, requests, fault, console: false }
    }

    /// Returns the state at this point.
    pub fn database(&mut self) -> &mut BlockDb<'a, D> {
        &mut self.evm.ctx.journaled_state.database
    }

    /// Returns the block's environment.
    pub fn env(&self) -> &BlockEnv {
        &self.env
    }

    fn transact(&mut self, tx: TxEnv) -> Result<(ExecutionResult, EvmState), InvalidTransaction> {
        match self.evm.transact(tx) {
            Ok(done) => Ok((done.result, done.state)),
            Err(EVMError::Transaction(invalid)) => Err(invalid),
            Err(error) => panic!("the state before block {} cannot be read: {error}", self.env.number),
        }
    }

    /// Returns the contract's output, or why there is none.
    fn system_call(&mut self, contract: Address, data: Bytes) -> SystemOutput {
        if !self.database().has_code(contract) {
            return Err(NoOutput::NoCode);
        }
        let done = match revm::SystemCallEvm::system_call(&mut self.evm, contract, data) {
            Ok(done) => done,
            Err(error) => panic!("the system call to {contract} in block {} fails: {error}", self.env.number),
        };
        if !done.result.is_success() {
            return Err(NoOutput::Failed);
        }
        self.database().absorb(done.state);
        Ok(done.result.into_output().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests;
