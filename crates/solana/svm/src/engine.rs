//! The state shared by all executing threads: the rules, the builtin programs, the compiled programs.
//!
//! writes  workers
//! memory  at most 512 compiled programs, shared by the workers; an idle worker is kept for reuse
//! source  `solana-runtime` 4.2, `bank.rs`: what a bank sets up before it executes
//!
//! A program that is deployed, upgraded or closed changes state in the next slot; the program cache implements that
//! rule. The chain is linear, so of two slots the lower is the other's ancestor; undone slots are removed from the
//! cache.

use std::ops::RangeInclusive;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::AcqRel;
use std::sync::{Arc, PoisonError, RwLock};

use parking_lot::Mutex;
use solana_builtins::BUILTINS;
use solana_program_runtime::program_cache_entry::ProgramCacheEntry;
use solana_svm::transaction_processor::TransactionBatchProcessor;

use hearth_ledger::bank::{GeneralPath, GeneralWorker};

use crate::delayed::Delayed;
use crate::environment::Environment;
use crate::worker::{Line, Shared, Worker};

/// Default log limit per transaction in bytes; the rest is cut.
pub const LOG_BYTES: usize = 10_000;

/// The engine; clones share one state.
#[derive(Clone)]
pub struct Svm {
    shared: Arc<Shared>,
}

impl Default for Svm {
    fn default() -> Self {
        Self::new()
    }
}

impl Svm {
    /// An engine without compiled programs.
    pub fn new() -> Self {
        Self::with_log_bytes(LOG_BYTES)
    }

    /// The same with another log limit per transaction.
    pub fn with_log_bytes(log_bytes: usize) -> Self {
        let environment = Environment::new();
        let mut root = TransactionBatchProcessor::new_uninitialized(0, 0);
        root.program_runtime_environment = environment.programs.clone();
        root.set_execution_cost(environment.costs.to_cost());
        let line = Arc::new(RwLock::new(Line));
        let cache = root.global_program_cache.clone();
        cache.write().unwrap_or_else(PoisonError::into_inner).set_fork_graph(Arc::downgrade(&line));
        for builtin in BUILTINS {
            if builtin.enable_feature_id.is_none_or(|feature| environment.features.is_active(&feature)) {
                let entry = ProgramCacheEntry::new_builtin(0, builtin.name.len(), builtin.register_fn);
                root.add_builtin(builtin.program_id, entry);
            }
        }
        let (delayed, idle) = (Delayed::new(), Mutex::default());
        Self {
            shared: Arc::new(Shared { environment, log_bytes, root, line, delayed, rewinds: AtomicU64::new(0), idle }),
        }
    }
}

impl GeneralPath for Svm {
    fn worker(&self) -> Box<dyn GeneralWorker> {
        Box::new(Worker::new(self.shared.clone()))
    }

    fn undone(&self, slots: RangeInclusive<u64>) {
        self.shared.rewinds.fetch_add(1, AcqRel);
        // Deployments, upgrades and closes in these slots are void. The earlier versions of the programs are reloaded
        // from their accounts.
        let mut cache = self.shared.root.global_program_cache.write().unwrap_or_else(PoisonError::into_inner);
        slots.for_each(|slot| cache.prune_by_deployment_slot(slot));
    }
}
