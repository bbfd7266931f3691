//! The bare engine: prepared transactions, a map of accounts, nothing else.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, RwLock};

use agave_feature_set::FeatureSet;
use solana_account::{AccountSharedData, ReadableAccount};
use solana_builtins::BUILTINS;
use solana_compute_budget::compute_budget::ComputeBudget;
use solana_fee_structure::FeeDetails;
use solana_message::compiled_instruction::CompiledInstruction;
use solana_message::{Message, SimpleAddressLoader, VersionedMessage};
use solana_program_runtime::execution_budget::SVMTransactionExecutionAndFeeBudgetLimits;
use solana_program_runtime::loaded_programs::{BlockRelation, ForkGraph, ProgramRuntimeEnvironments};
use solana_program_runtime::program_cache_entry::ProgramCacheEntry;
use solana_pubkey::Pubkey;
use solana_rent::Rent;
use solana_svm::account_loader::CheckedTransactionDetails;
use solana_svm::transaction_processing_result::ProcessedTransaction;
use solana_svm::transaction_processor::{
    TransactionBatchProcessor, TransactionProcessingConfig, TransactionProcessingEnvironment,
};
use solana_svm_callback::{InvokeContextCallback, TransactionProcessingCallback};
use solana_transaction::sanitized::SanitizedTransaction;
use solana_transaction::versioned::VersionedTransaction;
use solana_transaction::versioned::sanitized::SanitizedVersionedTransaction;

use hearth_wire::Txn;

use crate::load::{self, Kind, MICROBLOCK, PAIRS};

/// Two slots: the genesis, and the current one.
struct LinearForkGraph;

impl ForkGraph for LinearForkGraph {
    fn relationship(&self, a: u64, b: u64) -> BlockRelation {
        if a < b { BlockRelation::Ancestor } else { BlockRelation::Equal }
    }
}

#[derive(Default)]
struct Accounts(RefCell<HashMap<Pubkey, AccountSharedData>>);

impl TransactionProcessingCallback for Accounts {
    fn get_account_shared_data(&self, key: &Pubkey) -> Option<(AccountSharedData, u64)> {
        self.0.borrow().get(key).filter(|account| account.lamports() != 0).map(|account| (account.clone(), 0))
    }
}

impl InvokeContextCallback for Accounts {}

/// An engine in a slot, and the batches that it runs repeatedly.
pub struct Raw {
    processor: TransactionBatchProcessor<LinearForkGraph>,
    environment: TransactionProcessingEnvironment,
    limits: SVMTransactionExecutionAndFeeBudgetLimits,
    accounts: Accounts,
    batches: Vec<Vec<SanitizedTransaction>>,
    next: usize,
    _line: Arc<RwLock<LinearForkGraph>>,
}

fn shared(account: &hearth_ledger::Account) -> AccountSharedData {
    AccountSharedData::create_from_existing_shared_data(
        account.lamports,
        account.shared_data().cloned().unwrap_or_default(),
        Pubkey::new_from_array(account.owner),
        account.executable,
        account.rent_epoch,
    )
}

impl Raw {
    pub fn new(kind: Kind) -> Self {
        let features = FeatureSet::all_enabled();
        let costs = ComputeBudget::new_with_defaults(true);
        let programs = solana_syscalls::create_program_runtime_environment(
            &features.runtime_features(),
            &costs.to_budget(),
            false,
            false,
        )
        .expect("the engine's own calls");
        let line = Arc::new(RwLock::new(LinearForkGraph));
        let mut root = TransactionBatchProcessor::new_uninitialized(0, 0);
        root.program_runtime_environment = programs.clone();
        root.set_execution_cost(costs.to_cost());
        root.global_program_cache.write().expect("unpoisoned").set_fork_graph(Arc::downgrade(&line));
        for builtin in BUILTINS {
            let entry = ProgramCacheEntry::new_builtin(0, builtin.name.len(), builtin.register_fn);
            root.add_builtin(builtin.program_id, entry);
        }
        let accounts = Accounts::default();
        let all = load::accounts(kind, 0)
            .into_iter()
            .chain(hearth_svm::programs::genesis_accounts())
            .chain(hearth_ledger::programs::builtin_accounts());
        accounts.0.borrow_mut().extend(all.map(|(key, account)| (Pubkey::new_from_array(key), shared(&account))));
        let processor = root.new_from(1, 0);
        processor.fill_missing_sysvar_cache_entries(&accounts);
        let limits = SVMTransactionExecutionAndFeeBudgetLimits {
            budget: costs.to_budget(),
            loaded_accounts_data_size_limit: 64 << 20,
            fee_details: FeeDetails::new(5_000, 0),
        };
        let environment = TransactionProcessingEnvironment {
            blockhash: Default::default(),
            blockhash_lamports_per_signature: 5_000,
            alpenglow_migration_succeeded: false,
            epoch_total_stake: 0,
            feature_set: features.runtime_features(),
            program_runtime_environments: ProgramRuntimeEnvironments::new(programs.clone(), programs),
            rent: Rent::default(),
        };
        let batches = batches(kind);
        Self { processor, environment, limits, accounts, batches, next: 0, _line: line }
    }

    /// Runs one batch and stores what it changed.
    pub fn batch(&mut self) -> u64 {
        let txns = &self.batches[self.next];
        self.next = (self.next + 1) % self.batches.len();
        let checks = txns.iter().map(|_| Ok(CheckedTransactionDetails::new(None, self.limits))).collect();
        let output = self.processor.load_and_execute_sanitized_transactions(
            &self.accounts,
            txns,
            checks,
            &self.environment,
            &TransactionProcessingConfig::default(),
        );
        let mut accounts = self.accounts.0.borrow_mut();
        for result in output.processing_results {
            let Ok(ProcessedTransaction::Executed(executed)) = result else { panic!("{result:?}") };
            assert!(executed.was_successful(), "{:?}", executed.execution_details);
            let loaded = executed.loaded_transaction;
            let touched = loaded.accounts.into_iter().zip(&loaded.touched_flags).filter(|(_, touched)| **touched);
            accounts.extend(touched.map(|(account, _)| account));
        }
        txns.len() as u64
    }
}

/// Two rounds over every pair.
fn batches(kind: Kind) -> Vec<Vec<SanitizedTransaction>> {
    let txn = |n, turn| sanitized(&load::bytes(kind, n, turn, &[7; 32]));
    let mut batches = vec![];
    for turn in 0..2 {
        for first in (0..PAIRS as u64).step_by(MICROBLOCK) {
            batches.push((first..first + MICROBLOCK as u64).map(|n| txn(n, turn)).collect());
        }
    }
    batches
}

/// A transaction in the engine's own types.
fn sanitized(bytes: &[u8]) -> SanitizedTransaction {
    let txn = Txn::parse(bytes).expect("a transaction");
    let keys: Vec<_> = txn.account_keys().iter().map(|key| Pubkey::new_from_array(*key)).collect();
    let instructions = txn.instructions().map(|instruction| CompiledInstruction {
        program_id_index: instruction.program_id_index,
        accounts: instruction.accounts.to_vec(),
        data: instruction.data.to_vec(),
    });
    let [signers, readonly_signed, readonly_unsigned] = *txn.message().first_chunk().expect("a header");
    let message = Message::new_with_compiled_instructions(
        signers,
        readonly_signed,
        readonly_unsigned,
        keys,
        (*txn.recent_blockhash()).into(),
        instructions.collect(),
    );
    let signatures = txn.signatures().iter().map(|signature| (*signature).into()).collect();
    let txn = VersionedTransaction { signatures, message: VersionedMessage::Legacy(message) };
    let sane = SanitizedVersionedTransaction::try_from(txn).expect("a sane one");
    let (hash, none) = (Default::default(), SimpleAddressLoader::Disabled);
    SanitizedTransaction::try_new(sane, hash, false, none, &HashSet::new()).expect("a sane one")
}
