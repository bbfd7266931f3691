//! The environment of programs, by the chain's active features: limits, prices, system calls, builtin programs.
//!
//! reads   the active features
//! writes  the same for every slot and thread with these features
//! memory  a few KB for each of at most four sets
//! source  `bank.rs` of `solana-runtime` 4.2.2, `apply_activated_features`
//!
//! All environments share one program cache. An entry is valid only in the environment in which it was verified; in
//! another the engine verifies the program again. Sets that differ only in features without effect on the virtual
//! machine share the part that the cache compares.

use std::sync::{Arc, PoisonError, RwLock};

use agave_feature_set::FeatureSet;
use parking_lot::Mutex;
use solana_builtins::BUILTINS;
use solana_compute_budget::compute_budget::ComputeBudget;
use solana_program_runtime::execution_budget::SVMTransactionExecutionBudget;
use solana_program_runtime::loaded_programs::{ProgramCache, ProgramRuntimeEnvironment, ProgramRuntimeEnvironments};
use solana_pubkey::Pubkey;
use solana_rent::Rent;
use solana_svm::transaction_processor::{TransactionBatchProcessor, TransactionProcessingEnvironment};
use solana_svm_feature_set::SVMFeatureSet;
use solana_syscalls::create_program_runtime_environment;

use hearth_ledger::ActiveFeatures;
use hearth_ledger::budget::Budget;

use crate::fork_graph::LinearForkGraph;

/// Feature sets whose environments are kept. Forks around an epoch boundary need two.
const ENVIRONMENTS_KEPT: usize = 4;

/// Identifies a release by the features that it knows: the first bytes of the hash of all their names, as the cluster's
/// nodes report it.
pub fn feature_set_id() -> u32 {
    let hash = agave_feature_set::ID.to_bytes();
    u32::from_le_bytes([hash[0], hash[1], hash[2], hash[3]])
}

/// The active features in the engine's form.
fn feature_set(active: &ActiveFeatures) -> FeatureSet {
    let mut features = FeatureSet::default();
    active.iter().for_each(|(id, slot)| features.activate(&Pubkey::new_from_array(*id), slot));
    features
}

fn costs(features: &FeatureSet) -> ComputeBudget {
    ComputeBudget::new_with_defaults(features.snapshot().raise_cpi_nesting_limit_to_8)
}

fn programs(features: &FeatureSet) -> ProgramRuntimeEnvironment {
    create_program_runtime_environment(&features.runtime_features(), &costs(features).to_budget(), false, false)
        .expect("the engine knows its own system calls")
}

/// The virtual machine of a chain with these features.
pub(crate) fn virtual_machine(active: &ActiveFeatures) -> ProgramRuntimeEnvironment {
    programs(&feature_set(active))
}

/// The environments of the feature sets that were used last.
#[derive(Default)]
pub(crate) struct Environments(Mutex<Vec<Arc<Environment>>>);

impl Environments {
    /// The environment of a chain with these features. Its processor uses `cache`.
    pub(crate) fn of(
        &self,
        active: &Arc<ActiveFeatures>,
        cache: &Arc<RwLock<ProgramCache<LinearForkGraph>>>,
    ) -> Arc<Environment> {
        let mut kept = self.0.lock();
        let is_same =
            |known: &Arc<Environment>| Arc::ptr_eq(&known.active, active) || known.active.as_ref() == active.as_ref();
        let found = match kept.iter().position(is_same) {
            Some(index) => kept.remove(index),
            None => Arc::new(Environment::new(active, cache, &kept)),
        };
        kept.insert(0, Arc::clone(&found));
        kept.truncate(ENVIRONMENTS_KEPT);
        found
    }
}

/// The environment that all programs share.
pub(crate) struct Environment {
    active: Arc<ActiveFeatures>,
    /// The template from which the processor of each slot is made.
    pub(crate) root: TransactionBatchProcessor<LinearForkGraph>,
    pub(crate) programs: ProgramRuntimeEnvironment,
    runtime_features: SVMFeatureSet,
    budget: SVMTransactionExecutionBudget,
}

impl Environment {
    fn new(
        active: &Arc<ActiveFeatures>,
        cache: &Arc<RwLock<ProgramCache<LinearForkGraph>>>,
        others: &[Arc<Self>],
    ) -> Self {
        let features = feature_set(active);
        let costs = costs(&features);
        let new = programs(&features);
        // The cache compares environments by address.
        let known = others.iter().map(|other| &other.programs).find(|known| ***known == *new);
        let programs = known.cloned().unwrap_or(new);
        let mut root = TransactionBatchProcessor::new_uninitialized(0, 0);
        root.global_program_cache = Arc::clone(cache);
        root.program_runtime_environment = programs.clone();
        root.set_execution_cost(costs.to_cost());
        let is_active = |feature: Option<Pubkey>| feature.is_none_or(|feature| features.is_active(&feature));
        let builtins = BUILTINS.iter().filter(|builtin| is_active(builtin.enable_feature_id));
        let mut ids = root.builtin_program_ids.write().unwrap_or_else(PoisonError::into_inner);
        ids.extend(builtins.map(|builtin| builtin.program_id));
        drop(ids);
        let (runtime_features, budget) = (features.runtime_features(), costs.to_budget());
        Self { active: Arc::clone(active), root, programs, runtime_features, budget }
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
            rent: Rent { lamports_per_byte: self.active.lamports_per_byte(), ..Rent::default() },
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

    fn without(id: &Pubkey) -> Arc<ActiveFeatures> {
        let all = ActiveFeatures::supported();
        Arc::new(ActiveFeatures::new(
            all.iter().filter(|(key, _)| *key != id.as_array()).map(|(key, slot)| (*key, slot)),
        ))
    }

    #[test]
    fn the_engine_has_the_chain_s_features() {
        let features =
            feature_set(&ActiveFeatures::new([(agave_feature_set::enable_sha512_syscall::ID.to_bytes(), 7)]));
        assert_eq!(features.activated_slot(&agave_feature_set::enable_sha512_syscall::ID), Some(7));
        assert_eq!(features.active().len(), 1);
        assert!(features.runtime_features().enable_sha512_syscall);
    }

    #[test]
    fn environments_are_shared_where_they_are_equal() {
        let cache = Arc::new(RwLock::new(ProgramCache::new(0)));
        let (environments, all) = (Environments::default(), Arc::new(ActiveFeatures::supported()));
        let first = environments.of(&all, &cache);
        assert!(Arc::ptr_eq(&first, &environments.of(&Arc::new(ActiveFeatures::supported()), &cache)));
        let no_call = environments.of(&without(&agave_feature_set::enable_sha512_syscall::ID), &cache);
        assert!(first.programs != no_call.programs, "a system call less is another virtual machine");
        let alike = environments.of(&without(&agave_feature_set::deprecate_legacy_vote_ixs::ID), &cache);
        assert!(!Arc::ptr_eq(&first, &alike) && first.programs == alike.programs);
    }
}
