//! The engine's worker: runs a batch of transactions in order, on one thread.
//!
//! reads   the transactions, the accounts, the sysvars once per slot
//! writes  an outcome for each
//! memory  the current sysvars, about 40 KB; the accounts of one batch
//! source  `bank.rs`, `account_saver.rs` of `solana-runtime` 4.2: the calls to the engine, and which of the returned
//!         accounts are stored

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Acquire;
use std::sync::{Arc, PoisonError, RwLock};

use parking_lot::Mutex;
use solana_account::AccountSharedData;
use solana_fee_structure::FeeDetails;
use solana_message::inner_instruction::InnerInstruction;
use solana_precompile_error::PrecompileError;
use solana_program_runtime::execution_budget::SVMTransactionExecutionAndFeeBudgetLimits;
use solana_program_runtime::loaded_programs::ProgramCache;
use solana_program_runtime::program_cache_entry::ProgramCacheEntry;
use solana_pubkey::Pubkey;
use solana_svm::account_loader::{CheckedTransactionDetails, TransactionCheckResult};
use solana_svm::transaction_balances::SvmTokenInfo;
use solana_svm::transaction_execution_result::ExecutedTransaction;
use solana_svm::transaction_processing_result::{ProcessedTransaction, TransactionProcessingResult};
use solana_svm::transaction_processor::{
    ExecutionRecordingConfig, TransactionBatchProcessor, TransactionProcessingConfig, TransactionProcessingEnvironment,
};
use solana_svm_callback::{InvokeContextCallback, TransactionProcessingCallback};
use solana_svm_transaction::svm_message::SVMMessage;
use solana_transaction_error::TransactionError as EngineError;

use hearth_ledger::bank::{
    AccountReader, InnerCall, Record, RuntimeBatch, RuntimeOutcome, RuntimeTransaction, RuntimeWorker, TokenAmount,
};
use hearth_ledger::stakes::EpochStakes;
use hearth_ledger::{Account, ActiveFeatures, TransactionError};
use hearth_wire::consts::{BPF_LOADER_UPGRADEABLE, LOADER_V4};

use crate::convert::{error, from_engine, to_engine};
use crate::delayed::{CacheAt, DelayedPrograms};
use crate::environment::{Environment, Environments};
use crate::fork_graph::LinearForkGraph;
use crate::message::Message;
use crate::precompiles;

/// Shared by the workers of an engine.
pub(crate) struct Shared {
    pub(crate) environments: Environments,
    /// The compiled programs of all environments.
    pub(crate) cache: Arc<RwLock<ProgramCache<LinearForkGraph>>>,
    pub(crate) log_bytes: usize,
    /// The fork graph of the program cache, which holds only a weak reference to it.
    pub(crate) line: Arc<RwLock<LinearForkGraph>>,
    /// Programs whose header names a later slot.
    pub(crate) delayed: DelayedPrograms,
    /// Counts rewinds: afterwards a worker's cached slot state is that of another block.
    pub(crate) rewinds: AtomicU64,
    /// States of finished workers.
    pub(crate) idle: Mutex<Vec<State>>,
}

/// The state that a worker keeps between batches.
pub(crate) struct State {
    slot: u64,
    blockhash: hearth_wire::Hash,
    features: Arc<ActiveFeatures>,
    /// The environment that the features give to programs.
    rules: Arc<Environment>,
    processor: TransactionBatchProcessor<LinearForkGraph>,
    environment: TransactionProcessingEnvironment,
    /// Shared by accounts without data; one per thread, so that threads do not contend for its reference count.
    empty: Arc<Vec<u8>>,
    rewinds: u64,
    /// Programs whose header does not name a later slot.
    deployed: RefCell<HashSet<Pubkey>>,
}

thread_local! {
    static EXECUTING: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread is in the engine. A panic there leaves other threads waiting for the program that this
/// one was loading.
pub fn is_executing() -> bool {
    EXECUTING.get()
}

/// Runs batches on one thread.
pub(crate) struct Worker {
    shared: Arc<Shared>,
    state: Option<State>,
}

impl Worker {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let state = shared.idle.lock().pop();
        Self { shared, state }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some(state) = self.state.take() {
            self.shared.idle.lock().push(state);
        }
    }
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").field("slot", &self.state.as_ref().map(|state| state.slot)).finish()
    }
}

impl RuntimeWorker for Worker {
    fn execute(&mut self, batch: &RuntimeBatch<'_>, outcomes: &mut Vec<RuntimeOutcome>) {
        let rewinds = self.shared.rewinds.load(Acquire);
        let stale = |state: &State| {
            state.slot != batch.slot
                || state.blockhash != *batch.blockhash
                || state.rewinds != rewinds
                || !Arc::ptr_eq(&state.features, batch.features)
        };
        if batch.ahead || self.state.as_ref().is_none_or(stale) {
            self.state = Some(State::enter(&self.shared, batch));
        }
        let state = self.state.as_ref().expect("a slot has been entered");
        EXECUTING.set(true);
        state.execute(&self.shared, batch, outcomes);
        EXECUTING.set(false);
        if batch.ahead {
            // The slot will have the same number and blockhash, but other sysvars.
            self.state = None;
        }
    }
}

impl State {
    fn enter(shared: &Shared, batch: &RuntimeBatch<'_>) -> Self {
        let rules = shared.environments.of(batch.features, &shared.cache);
        let state = Self {
            slot: batch.slot,
            blockhash: *batch.blockhash,
            features: Arc::clone(batch.features),
            processor: rules.root.new_from(batch.slot, 0),
            environment: rules.of_slot(batch.blockhash, batch.price),
            rules,
            empty: Arc::default(),
            rewinds: shared.rewinds.load(Acquire),
            deployed: RefCell::default(),
        };
        let callbacks = state.callbacks(shared, batch);
        state.processor.fill_missing_sysvar_cache_entries(&callbacks);
        state
    }

    fn callbacks<'a>(&'a self, shared: &'a Shared, batch: &RuntimeBatch<'a>) -> Callbacks<'a> {
        Callbacks { state: self, shared, accounts: batch.accounts, stakes: batch.stakes }
    }

    /// Prepares the program cache for an account that a transaction names, if it is a program.
    fn prepare(&self, shared: &Shared, key: &Pubkey, account: &Account, accounts: &dyn AccountReader) {
        if !is_upgradeable(account) || self.deployed.borrow().contains(key) {
            return;
        }
        let at = CacheAt {
            cache: &self.processor.global_program_cache,
            environment: &self.rules.programs,
            graph: &shared.line,
            slot: self.slot,
        };
        if shared.delayed.prepare(&at, key, account, accounts) {
            self.deployed.borrow_mut().insert(*key);
        }
    }

    fn execute(&self, shared: &Shared, batch: &RuntimeBatch<'_>, outcomes: &mut Vec<RuntimeOutcome>) {
        let messages: Vec<_> = batch.txns.iter().map(Message::new).collect();
        let checks = batch.txns.iter().zip(&messages).map(|(txn, message)| check(&self.rules, txn, message)).collect();
        let config = TransactionProcessingConfig {
            log_messages_bytes_limit: Some(shared.log_bytes),
            recording_config: ExecutionRecordingConfig::new_single_setting(batch.recording),
            ..TransactionProcessingConfig::default()
        };
        let output = self.processor.load_and_execute_sanitized_transactions(
            &self.callbacks(shared, batch),
            &messages,
            checks,
            &self.environment,
            &config,
        );
        if !batch.trial {
            self.remember_programs(shared, &output.processing_results);
        }
        let balances = output.balance_collector.map(|collector| collector.into_vecs()).map(
            |(before, after, tokens_before, tokens_after)| Balances {
                lamports: before.into_iter().zip(after),
                tokens: tokens_before.into_iter().zip(tokens_after),
            },
        );
        let mut balances = balances;
        for ((result, message), txn) in output.processing_results.into_iter().zip(&messages).zip(batch.txns) {
            let record = balances.as_mut().and_then(|balances| balances.next(txn));
            outcomes.push(match outcome(result, message, record) {
                RuntimeOutcome::Refused(TransactionError::AccountNotFound) if lacks_nonce(batch, txn, message) => {
                    RuntimeOutcome::Refused(TransactionError::BlockhashNotFound)
                }
                outcome => outcome,
            });
        }
    }

    /// Updates the program cache with the transactions' deployments and upgrades, from the next slot on.
    fn remember_programs(&self, shared: &Shared, results: &[TransactionProcessingResult]) {
        for result in results {
            if let Ok(ProcessedTransaction::Executed(executed)) = result
                && executed.was_successful()
                && !executed.programs_modified_by_tx.is_empty()
            {
                self.merge(shared, &executed.programs_modified_by_tx);
            }
        }
    }

    fn merge(&self, shared: &Shared, programs: &HashMap<Pubkey, Arc<ProgramCacheEntry>>) {
        let mut cache = self.processor.global_program_cache.write().unwrap_or_else(PoisonError::into_inner);
        // Earlier versions of a program are no longer needed: no slot before this one runs.
        let root = shared.delayed.root(self.slot);
        if root > cache.latest_root_slot {
            let line = shared.line.read().unwrap_or_else(PoisonError::into_inner);
            cache.prune(root, None, &line);
        }
        cache.merge(&self.rules.programs, self.slot, programs);
    }
}

/// The checks that the engine may assume to have passed.
fn check(rules: &Environment, txn: &RuntimeTransaction<'_>, message: &Message<'_>) -> TransactionCheckResult {
    let nonce = match txn.needs_nonce {
        true => Some(*message.get_durable_nonce().ok_or(EngineError::BlockhashNotFound)?),
        false => None,
    };
    let limits = SVMTransactionExecutionAndFeeBudgetLimits {
        budget: rules.budget(&txn.budget),
        loaded_accounts_data_size_limit: txn.budget.loaded_accounts_bytes,
        fee_details: FeeDetails::new(txn.fee.signatures, txn.fee.priority),
    };
    Ok(CheckedTransactionDetails::new(nonce, limits))
}

/// Whether the nonce account that a transaction relies on does not exist. The cluster's bank notices that before its
/// engine does, and calls it an unknown blockhash.
fn lacks_nonce(batch: &RuntimeBatch<'_>, txn: &RuntimeTransaction<'_>, message: &Message<'_>) -> bool {
    let is_missing = |nonce: &Pubkey| batch.accounts.load(bytemuck::cast_ref(nonce)).is_none();
    txn.needs_nonce && message.get_durable_nonce().is_some_and(is_missing)
}

/// Balances before and after, transaction by transaction.
struct Balances<L, T> {
    lamports: L,
    tokens: T,
}

impl<L, T> Balances<L, T>
where
    L: Iterator<Item = (Vec<u64>, Vec<u64>)>,
    T: Iterator<Item = (Vec<SvmTokenInfo>, Vec<SvmTokenInfo>)>,
{
    fn next(&mut self, txn: &RuntimeTransaction<'_>) -> Option<Record> {
        let ((before, after), (tokens_before, tokens_after)) = self.lamports.next().zip(self.tokens.next())?;
        Some(Record {
            balances: before.into_iter().zip(after).collect(),
            tokens_before: tokens_before.into_iter().map(token_amount).collect(),
            tokens_after: tokens_after.into_iter().map(token_amount).collect(),
            loaded_writable: txn.loaded.writable().to_vec(),
            loaded_readonly: txn.loaded.readonly().to_vec(),
            ..Record::default()
        })
    }
}

fn token_amount(token: SvmTokenInfo) -> TokenAmount {
    TokenAmount {
        account_index: token.account_index,
        mint: token.mint.to_bytes(),
        owner: token.owner.to_bytes(),
        program_id: token.program_id.to_bytes(),
        amount: token.amount,
        decimals: token.decimals,
    }
}

fn outcome(result: TransactionProcessingResult, message: &Message<'_>, record: Option<Record>) -> RuntimeOutcome {
    match result {
        Err(refused) => RuntimeOutcome::Refused(error(&refused)),
        Ok(ProcessedTransaction::FeesOnly(failed)) => RuntimeOutcome::Committed {
            result: Err(error(&failed.load_error)),
            compute_units: 0,
            loaded_bytes: failed.loaded_accounts_data_size,
            writes: failed.rollback_accounts.iter().map(write).collect(),
            record: record.map(Box::new),
        },
        Ok(ProcessedTransaction::Executed(executed)) => executed_outcome(*executed, message, record),
    }
}

fn executed_outcome(executed: ExecutedTransaction, message: &Message<'_>, record: Option<Record>) -> RuntimeOutcome {
    let ExecutedTransaction { loaded_transaction: loaded, execution_details: details, .. } = executed;
    let writes = match details.status {
        Err(_) => loaded.rollback_accounts.iter().map(write).collect(),
        Ok(()) => {
            let stored = |index: usize| {
                message.is_writable(index)
                    && loaded.touched_flags[index]
                    && (!message.is_invoked(index) || message.is_instruction_account(index))
            };
            let accounts = loaded.accounts.iter().enumerate();
            accounts.filter(|(index, _)| stored(*index)).map(|(_, account)| write(account)).collect()
        }
    };
    let record = record.map(|record| {
        let inner = details.inner_instructions.unwrap_or_default().into_iter().enumerate();
        Box::new(Record {
            logs: details.log_messages.unwrap_or_default(),
            inner: inner
                .filter(|(_, calls)| !calls.is_empty())
                .map(|(index, calls)| (index as u8, calls.into_iter().map(inner_call).collect()))
                .collect(),
            return_data: details.return_data.map(|returned| (returned.program_id.to_bytes(), returned.data)),
            ..record
        })
    });
    RuntimeOutcome::Committed {
        result: details.status.map_err(|failed| error(&failed)),
        compute_units: details.executed_units,
        loaded_bytes: loaded.loaded_accounts_data_size,
        writes,
        record,
    }
}

/// Whether the account is of a loader that writes the slot of deployment.
fn is_upgradeable(account: &Account) -> bool {
    [BPF_LOADER_UPGRADEABLE, LOADER_V4].contains(&account.owner)
}

fn write((key, account): &(Pubkey, AccountSharedData)) -> (hearth_wire::Pubkey, Account) {
    (key.to_bytes(), from_engine(account))
}

fn inner_call(call: InnerInstruction) -> InnerCall {
    let InnerInstruction { instruction, stack_height } = call;
    InnerCall {
        program_id_index: instruction.program_id_index,
        accounts: instruction.accounts,
        data: instruction.data,
        stack_height,
    }
}

/// The engine's callbacks during execution.
struct Callbacks<'a> {
    state: &'a State,
    shared: &'a Shared,
    accounts: &'a dyn AccountReader,
    stakes: Option<&'a EpochStakes>,
}

impl TransactionProcessingCallback for Callbacks<'_> {
    fn get_account_shared_data(&self, key: &Pubkey) -> Option<(AccountSharedData, u64)> {
        let account = self.accounts.load(bytemuck::cast_ref(key))?;
        // Before the engine searches its program cache, which is not locked here.
        self.state.prepare(self.shared, key, &account, self.accounts);
        Some((to_engine(account, &self.state.empty), 0))
    }
}

impl InvokeContextCallback for Callbacks<'_> {
    fn get_epoch_stake(&self) -> u64 {
        self.stakes.map_or(0, EpochStakes::total)
    }

    fn get_epoch_stake_for_vote_account(&self, vote_address: &Pubkey) -> u64 {
        let vote = self.stakes.and_then(|stakes| stakes.vote(vote_address.as_array()));
        vote.map_or(0, |vote| vote.stake)
    }

    fn is_precompile(&self, program_id: &Pubkey) -> bool {
        precompiles::check(program_id.as_array()).is_some()
    }

    fn process_precompile(
        &self,
        program_id: &Pubkey,
        data: &[u8],
        instruction_datas: Vec<&[u8]>,
    ) -> Result<(), PrecompileError> {
        let check = precompiles::check(program_id.as_array()).ok_or(PrecompileError::InvalidPublicKey)?;
        check(data, &instruction_datas)
    }
}
