//! One thread's EVM: executes a transaction against the multi-version memory, and records its reads and writes.
//!
//! reads   the memory, at the transaction's place
//! writes  an [`Execution`]; the caller publishes it to the memory
//! memory  one EVM and its buffers, kept for the whole block

use super::memory::{Memory, MemoryAccount, ReadRecord, Write, WriterIndex};
use super::plain_transfer::{PlainTransfer, transferred};
use crate::exec::{NoOutput, Outcome, SystemOutput};
use crate::tx::{Tx, to_tx_env};
use alloy_primitives::map::B256Map;
use alloy_primitives::{Address, B256, Bytes, U256};
use revm::context::result::{EVMError, HaltReason, InvalidTransaction};
use revm::context::{BlockEnv, CfgEnv, Context, ContextTr, TxEnv};
use revm::context_interface::{Block, JournalTr, Transaction};
use revm::database_interface::DBErrorMarker;
use revm::handler::{
    EvmTr, FrameResult, Handler, MainnetContext, MainnetEvm, SYSTEM_ADDRESS, SystemCallTx, post_execution,
};
use revm::primitives::hardfork::SpecId;
use revm::state::{Account, AccountInfo, Bytecode};
use revm::{Database, DatabaseRef, MainBuilder};
use std::cell::Cell;
use std::marker::PhantomData;

/// Why a transaction's execution stopped.
#[derive(Debug, thiserror::Error)]
pub(super) enum ViewError<E> {
    /// It read the beneficiary's account, whose fees are known only once all before it are settled.
    #[error("waits for the fees of the transactions before it")]
    Beneficiary,
    #[error("{0}")]
    State(E),
}

impl<E: DBErrorMarker> DBErrorMarker for ViewError<E> {}

/// The result of one execution. Its writes are in [`Worker::writes`] until they are taken.
#[derive(Debug)]
pub(super) struct Execution {
    /// Included, or refused by the rules.
    pub ending: Result<Outcome, InvalidTransaction>,
    /// The beneficiary's share, not among the writes.
    pub fee: U256,
}

/// The state as one transaction sees it.
pub(super) struct View<'a, D> {
    memory: &'a Memory<'a, D>,
    place: WriterIndex,
    beneficiary: Address,
    /// If all before this transaction are settled: the fees that they left to the beneficiary besides its account.
    fees: Option<U256>,
    reads: Vec<ReadRecord>,
    /// Codes run before, this thread's own copies: a counted reference that threads share costs them a cache line's
    /// way at each use.
    codes: B256Map<Bytecode>,
}

impl<D: DatabaseRef> View<'_, D> {
    fn account(&mut self, address: &Address) -> Result<Option<MemoryAccount>, ViewError<D::Error>> {
        let is_beneficiary = *address == self.beneficiary;
        if is_beneficiary && self.fees.is_none() {
            return Err(ViewError::Beneficiary);
        }
        let (held, read) = self.memory.account(address, self.place).map_err(ViewError::State)?;
        match self.fees {
            None => self.reads.push(read),
            Some(fees) if is_beneficiary && !fees.is_zero() => return Ok(Some(with_fees(held, fees))),
            Some(_) => {}
        }
        Ok(held)
    }
}

/// The beneficiary's account with the fees that came to it.
pub(super) fn with_fees(held: Option<MemoryAccount>, fees: U256) -> MemoryAccount {
    let mut held = held.unwrap_or_else(|| MemoryAccount::of_balance(U256::ZERO));
    held.balance = held.balance.saturating_add(fees);
    held
}

impl<D: DatabaseRef> Database for View<'_, D> {
    type Error = ViewError<D::Error>;

    fn basic(&mut self, address: Address) -> Result<Option<AccountInfo>, Self::Error> {
        Ok(self.account(&address)?.map(|held| held.with_code(None)))
    }

    fn code_by_hash(&mut self, code_hash: B256) -> Result<Bytecode, Self::Error> {
        if let Some(code) = self.codes.get(&code_hash) {
            return Ok(code.clone());
        }
        let mut code = self.memory.code(code_hash).map_err(ViewError::State)?;
        if self.memory.is_shared {
            let copy = Bytes::copy_from_slice(code.original_byte_slice());
            code = Bytecode::new_raw_checked(copy).unwrap_or(code);
        }
        self.codes.insert(code_hash, code.clone());
        Ok(code)
    }

    fn storage(&mut self, address: Address, slot: U256) -> Result<U256, Self::Error> {
        let (value, read) = self.memory.slot(&address, &slot, self.place).map_err(ViewError::State)?;
        if self.fees.is_none() {
            self.reads.push(read);
        }
        Ok(value)
    }

    fn block_hash(&mut self, number: u64) -> Result<B256, Self::Error> {
        self.memory.db.block_hash_ref(number).map_err(ViewError::State)
    }
}

type Evm<'a, D> = MainnetEvm<MainnetContext<View<'a, D>>>;

/// The mainnet's rules, but that the beneficiary's fee is put aside and not written into its account: else every
/// transaction would depend on the one before it.
struct FeeAside<'a, D> {
    fee: Cell<U256>,
    of: PhantomData<fn(&'a D)>,
}

impl<'a, D: DatabaseRef> Handler for FeeAside<'a, D> {
    type Evm = Evm<'a, D>;
    type Error = EVMError<ViewError<D::Error>, InvalidTransaction>;
    type HaltReason = HaltReason;

    fn reward_beneficiary(&self, evm: &mut Self::Evm, result: &mut FrameResult) -> Result<(), Self::Error> {
        if evm.ctx.journaled_state.inner.state.contains_key(&evm.ctx.block.beneficiary) {
            // A transaction reads that account only in its turn, and then all fees are in it. What is paid into it now
            // may still be destroyed with it.
            self.fee.set(U256::ZERO);
            return post_execution::reward_beneficiary(&mut evm.ctx, result.gas()).map_err(Into::into);
        }
        let context = evm.ctx_ref();
        let base_fee = u128::from(context.block().basefee());
        let price = context.tx().effective_gas_price(base_fee);
        let tip =
            if context.cfg().spec().is_enabled_in(SpecId::LONDON) { price.saturating_sub(base_fee) } else { price };
        let gas = result.gas();
        let used = gas.used().saturating_sub(gas.reservoir());
        self.fee.set(U256::from(tip * u128::from(used)));
        Ok(())
    }
}

/// One thread's EVM over the block's memory.
pub(super) struct Worker<'a, D: DatabaseRef> {
    evm: Evm<'a, D>,
    handler: FeeAside<'a, D>,
    spec: SpecId,
    /// The changes of the last execution.
    pub writes: Vec<Write>,
}

impl<'a, D: DatabaseRef> Worker<'a, D> {
    pub fn new(memory: &'a Memory<'a, D>, block: &BlockEnv, cfg: &CfgEnv) -> Self {
        let view = View {
            memory,
            place: 0,
            beneficiary: block.beneficiary,
            fees: None,
            reads: Vec::new(),
            codes: B256Map::default(),
        };
        let mut context: MainnetContext<View<'a, D>> = Context::new(view, cfg.spec);
        context.cfg = cfg.clone();
        context.block = block.clone();
        let handler = FeeAside { fee: Cell::new(U256::ZERO), of: PhantomData };
        Self { evm: context.build_mainnet(), handler, spec: cfg.spec, writes: Vec::new() }
    }

    /// Executes a transaction at `place`. With `fees`, all before it are settled and have left that sum to the
    /// beneficiary; otherwise reads are recorded for [`Worker::reads`].
    pub fn execute(
        &mut self,
        place: WriterIndex,
        fees: Option<U256>,
        plain: Option<&PlainTransfer>,
        tx: &Tx,
    ) -> Result<Execution, ViewError<D::Error>> {
        let view = &mut self.evm.ctx.journaled_state.database;
        (view.place, view.fees) = (place, fees);
        view.reads.clear();
        self.writes.clear();
        if let Some(plain) = plain
            && let Some(fee) = transfer(view, plain, &mut self.writes)?
        {
            return Ok(Execution { ending: Ok(transferred()), fee });
        }
        view.reads.clear();
        self.evm.ctx.tx = to_tx_env(tx);
        self.evm.ctx.cfg.disable_eip3607 = tx.is_impersonated();
        let run = self.handler.run(&mut self.evm);
        let ending = match run {
            Ok(result) => Ok(Outcome::new(result)),
            Err(EVMError::Transaction(refusal)) => Err(refusal),
            Err(EVMError::Database(error)) => {
                self.evm.ctx.journaled_state.inner.state.clear();
                return Err(error);
            }
            Err(error) => Err(InvalidTransaction::Str(error.to_string().into())),
        };
        let fee = if ending.is_ok() { self.handler.fee.get() } else { U256::ZERO };
        self.take_state(ending.is_ok());
        Ok(Execution { ending, fee })
    }

    /// Makes a system call, after all earlier transactions are settled; returns its output, or why there is none.
    pub fn system_call(
        &mut self,
        place: WriterIndex,
        contract: Address,
        data: Bytes,
    ) -> Result<SystemOutput, ViewError<D::Error>> {
        let view = &mut self.evm.ctx.journaled_state.database;
        (view.place, view.fees) = (place, Some(U256::ZERO));
        self.writes.clear();
        if view.account(&contract)?.is_none_or(|held| held.is_bare()) {
            return Ok(Err(NoOutput::NoCode));
        }
        self.evm.ctx.tx = TxEnv::new_system_tx_with_caller(SYSTEM_ADDRESS, contract, data);
        let result = match self.handler.run_system_call(&mut self.evm) {
            Ok(result) => result,
            Err(EVMError::Database(error)) => return Err(error),
            Err(error) => panic!("the system call to {contract} fails: {error}"),
        };
        self.take_state(result.is_success());
        let is_success = result.is_success();
        Ok(if is_success { Ok(result.into_output().unwrap_or_default()) } else { Err(NoOutput::Failed) })
    }

    /// Returns the reads of the last execution, to be swapped for an unused list.
    pub fn reads(&mut self) -> &mut Vec<ReadRecord> {
        &mut self.evm.ctx.journaled_state.database.reads
    }

    /// Turns the journal's state into writes, and leaves the journal empty with its memory kept.
    fn take_state(&mut self, included: bool) {
        if !self.spec.is_enabled_in(SpecId::SPURIOUS_DRAGON) && included {
            // The journal there marks which empty accounts to keep.
            self.evm.ctx.journaled_state.inner.state = self.evm.ctx.journaled_state.finalize();
        }
        let memory = self.evm.ctx.journaled_state.database.memory;
        let state = &mut self.evm.ctx.journaled_state.inner.state;
        if !included {
            return state.clear();
        }
        for (address, account) in state.drain() {
            if account.is_touched() {
                take_account(memory, address, account, &mut self.writes);
            }
        }
    }
}

fn take_account<D: DatabaseRef>(memory: &Memory<'_, D>, address: Address, account: Account, writes: &mut Vec<Write>) {
    if account.is_selfdestructed() {
        writes.extend([Write::Wipe(address), Write::Account(address, None)]);
        return;
    }
    let created = account.is_created();
    if created {
        writes.push(Write::Wipe(address));
    }
    for (slot, value) in &account.storage {
        if value.is_changed() {
            writes.push(Write::Slot(address, *slot, value.present_value()));
        }
    }
    let changed = created || account.is_changed();
    if account.is_empty() && !created {
        // EIP-161: touched and empty is gone; an account that did not exist needs no change.
        if changed || !account.is_loaded_as_not_existing() {
            writes.extend([Write::Wipe(address), Write::Account(address, None)]);
        }
    } else if changed {
        let held = MemoryAccount::from(&account.info);
        if let Some(code) = account.info.code.filter(|code| !held.is_bare() && (created || code.is_eip7702())) {
            memory.add_code(held.code_hash, code);
        }
        writes.push(Write::Account(address, Some(held)));
    }
}

/// Executes a plain transfer by its rule, without an EVM. Returns `None` if the rule does not apply to the accounts, or
/// the transaction must be refused: the EVM reports why.
fn transfer<D: DatabaseRef>(
    view: &mut View<'_, D>,
    plain: &PlainTransfer,
    writes: &mut Vec<Write>,
) -> Result<Option<U256>, ViewError<D::Error>> {
    let Some(mut sender) = view.account(&plain.sender)? else { return Ok(None) };
    if !plain.pay(&mut sender) {
        return Ok(None);
    }
    if plain.sender == plain.to {
        sender.balance += plain.value;
        writes.push(Write::Account(plain.sender, Some(sender)));
        return Ok(Some(plain.fee));
    }
    let mut recipient = view.account(&plain.to)?;
    if !plain.receive(&mut recipient) {
        return Ok(None);
    }
    writes.extend([Write::Account(plain.sender, Some(sender)), Write::Account(plain.to, recipient)]);
    Ok(Some(plain.fee))
}
