//! The environment of programs: active features, limits, prices.
//!
//! writes  the same for every slot and thread
//! memory  a few KB
//! source  `solana-test-validator` 4.2: every feature but Alpenglow's is active from the start

use agave_feature_set::{FeatureSet, alpenglow};
use solana_compute_budget::compute_budget::ComputeBudget;
use solana_program_runtime::execution_budget::SVMTransactionExecutionBudget;
use solana_program_runtime::loaded_programs::{ProgramRuntimeEnvironment, ProgramRuntimeEnvironments};
use solana_rent::Rent;
use solana_svm::transaction_processor::TransactionProcessingEnvironment;
use solana_svm_feature_set::SVMFeatureSet;
use solana_syscalls::create_program_runtime_environment;

use hearth_ledger::budget::Budget;

/// Identifies a release by the features that it knows: the first bytes of the hash of all their names, as the cluster's
/// nodes report it.
pub fn feature_set_id() -> u32 {
    let hash = agave_feature_set::ID.to_bytes();
    u32::from_le_bytes([hash[0], hash[1], hash[2], hash[3]])
}

/// The features that are active.
pub fn active_features() -> FeatureSet {
    let mut features = FeatureSet::all_enabled();
    features.deactivate(&alpenglow::id());
    features
}

/// The environment that all programs share.
pub(crate) struct Environment {
    pub(crate) features: FeatureSet,
    pub(crate) costs: ComputeBudget,
    pub(crate) programs: ProgramRuntimeEnvironment,
    runtime_features: SVMFeatureSet,
    budget: SVMTransactionExecutionBudget,
}

impl Environment {
    pub(crate) fn new() -> Self {
        let features = active_features();
        let runtime_features = features.runtime_features();
        let costs = ComputeBudget::new_with_defaults(features.snapshot().raise_cpi_nesting_limit_to_8);
        let budget = costs.to_budget();
        let programs = create_program_runtime_environment(&runtime_features, &budget, false, false)
            .expect("the engine knows its own system calls");
        Self { features, costs, programs, runtime_features, budget }
    }

    /// The execution limits of a transaction.
    pub(crate) fn budget(&self, asked: &Budget) -> SVMTransactionExecutionBudget {
        SVMTransactionExecutionBudget {
            compute_unit_limit: asked.compute_unit_limit.into(),
            heap_size: asked.heap_bytes,
            ..self.budget
        }
    }

    /// The environment of a slot's transactions: its newest blockhash, and the price of that.
    pub(crate) fn of_slot(&self, blockhash: &hearth_wire::Hash, price: u64) -> TransactionProcessingEnvironment {
        TransactionProcessingEnvironment {
            blockhash: (*blockhash).into(),
            blockhash_lamports_per_signature: price,
            alpenglow_migration_succeeded: false,
            epoch_total_stake: 0,
            feature_set: self.runtime_features,
            program_runtime_environments: ProgramRuntimeEnvironments::new(self.programs.clone(), self.programs.clone()),
            rent: Rent::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_ledger::rent::minimum_balance;

    #[test]
    fn rent_is_the_ledgers() {
        for bytes in [0, 1, 80, 165, 10 << 20] {
            assert_eq!(Rent::default().minimum_balance(bytes), minimum_balance(bytes), "{bytes}");
        }
    }

    #[test]
    fn all_is_active_but_alpenglow() {
        let features = active_features();
        assert_eq!(features.inactive().len(), 1);
        assert!(!features.is_active(&alpenglow::id()));
    }
}
