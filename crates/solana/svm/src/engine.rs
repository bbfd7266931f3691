//! The state shared by all executing threads: the environments, the builtin programs, the compiled programs.
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

use hearth_ledger::bank::{ProgramRuntime, RuntimeWorker};

use crate::delayed::DelayedPrograms;
use crate::environment::Environments;
use crate::fork_graph::LinearForkGraph;
use crate::worker::{Shared, Worker};

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
        let first = TransactionBatchProcessor::new_uninitialized(0, 0);
        let line = Arc::new(RwLock::new(LinearForkGraph));
        let cache = Arc::clone(&first.global_program_cache);
        cache.write().unwrap_or_else(PoisonError::into_inner).set_fork_graph(Arc::downgrade(&line));
        // The environment of a slot says which of them it has.
        for builtin in BUILTINS {
            let entry = ProgramCacheEntry::new_builtin(0, builtin.name.len(), builtin.register_fn);
            first.add_builtin(builtin.program_id, entry);
        }
        let environments = Environments::default();
        let (delayed, idle) = (DelayedPrograms::new(), Mutex::default());
        let rewinds = AtomicU64::new(0);
        Self { shared: Arc::new(Shared { environments, cache, log_bytes, line, delayed, rewinds, idle }) }
    }
}

impl ProgramRuntime for Svm {
    fn worker(&self) -> Box<dyn RuntimeWorker> {
        Box::new(Worker::new(self.shared.clone()))
    }

    fn undone(&self, slots: RangeInclusive<u64>) {
        self.shared.rewinds.fetch_add(1, AcqRel);
        // Deployments, upgrades and closes in these slots are void. The earlier versions of the programs are reloaded
        // from their accounts.
        let mut cache = self.shared.cache.write().unwrap_or_else(PoisonError::into_inner);
        slots.for_each(|slot| cache.prune_by_deployment_slot(slot));
    }
}
