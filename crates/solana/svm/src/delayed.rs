//! Programs whose header names a later slot than the one in progress.
//!
//! reads   headers of programs, as the engine loads the accounts of a transaction
//! writes  a program-cache entry for each such program and slot that marks it as not yet visible
//! memory  per such program an entry of 150 B for each of some hundred slots in which it was named
//! source  `program_loader.rs` of `solana-svm`, `loaded_programs.rs` of `solana-program-runtime` 4.2
//!
//! A loader writes the deployment slot into a program's header. The engine reloads a program until its cache has an
//! entry that is visible in the current slot, and a header from the future never yields one: the engine would loop
//! forever. On a cluster no header is from the future. A chain that starts with another chain's accounts may have one,
//! so the cache gets an entry before the engine asks: the program counts as deployed in this slot, and becomes visible
//! in the slot after the one in its header.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{PoisonError, RwLock};

use solana_program_runtime::loaded_programs::{ForkGraph, ProgramCache, ProgramRuntimeEnvironment};
use solana_program_runtime::program_cache_entry::{
    DELAY_VISIBILITY_SLOT_OFFSET, ProgramCacheEntry, ProgramCacheEntryOwner, ProgramCacheEntryType,
};
use solana_program_runtime::solana_sbpf::program::BuiltinProgram;
use solana_pubkey::Pubkey;

use hearth_ledger::Account;
use hearth_ledger::bank::AccountReader;
use hearth_ledger::program_header::{code_address, deployment_slot};
use hearth_wire::consts::{BPF_LOADER_UPGRADEABLE, LOADER_V4};

/// Entries of earlier slots are kept this long, for simulations that started in them.
const KEPT_SLOTS: u64 = 512;

/// Offset of a loader-v4 program's status: 0 retracted, 1 deployed, 2 finalized.
const LOADER_V4_STATUS: usize = 40;
const LOADER_V4_STATUS_MAX: u64 = 2;

/// Keeps the engine from waiting for a program that is not visible in its slot.
pub(crate) struct DelayedPrograms {
    /// An environment in which no program runs. An entry with it applies only in its own slot, where the program is not
    /// visible yet; in later slots the cache ignores it.
    nowhere: ProgramRuntimeEnvironment,
    /// Whether such a program has been seen.
    is_any: AtomicBool,
}

/// The program cache, the slot in progress, and the loader context for that slot.
pub(crate) struct CacheAt<'a, F: ForkGraph> {
    pub(crate) cache: &'a RwLock<ProgramCache<F>>,
    pub(crate) environment: &'a ProgramRuntimeEnvironment,
    pub(crate) graph: &'a RwLock<F>,
    pub(crate) slot: u64,
}

impl DelayedPrograms {
    pub(crate) fn new() -> Self {
        Self { nowhere: ProgramRuntimeEnvironment::from(BuiltinProgram::new_mock()), is_any: AtomicBool::new(false) }
    }

    /// Prepares the cache for a program that a transaction names. Returns whether the program is visible now or in the
    /// next slot, so that this slot need not check its header again.
    pub(crate) fn prepare<F: ForkGraph>(
        &self,
        at: &CacheAt<'_, F>,
        key: &Pubkey,
        program: &Account,
        accounts: &dyn AccountReader,
    ) -> bool {
        let Some((owner, deployed)) = header(program, accounts) else { return false };
        if deployed > at.slot {
            self.delay(at, key, owner);
            return false;
        }
        if self.is_any.load(Relaxed) {
            self.forget(at, key, deployed);
        }
        true
    }

    /// The slot before which the cache need not know earlier versions of programs.
    pub(crate) fn root(&self, slot: u64) -> u64 {
        slot.saturating_sub(if self.is_any.load(Relaxed) { KEPT_SLOTS } else { 1 })
    }

    fn delay<F: ForkGraph>(&self, at: &CacheAt<'_, F>, key: &Pubkey, owner: ProgramCacheEntryOwner) {
        self.is_any.store(true, Relaxed);
        let mut cache = at.cache.write().unwrap_or_else(PoisonError::into_inner);
        let is_there = |entry: &ProgramCacheEntry| entry.deployment_slot == at.slot && entry.account_owner == owner;
        if cache.get_slot_versions_for_tests(key).iter().any(|entry| is_there(entry)) {
            return;
        }
        let reason = ProgramCacheEntryType::FailedVerification(self.nowhere.clone());
        let entry = ProgramCacheEntry {
            effective_slot: at.slot.saturating_add(DELAY_VISIBILITY_SLOT_OFFSET),
            ..ProgramCacheEntry::new_tombstone(at.slot, owner, reason)
        };
        cache.assign_program(at.environment, *key, at.slot, entry.into());
        if at.slot > cache.latest_root_slot + 2 * KEPT_SLOTS {
            let graph = at.graph.read().unwrap_or_else(PoisonError::into_inner);
            cache.prune(at.slot - KEPT_SLOTS, None, &graph);
        }
    }

    /// Removes entries of slots after the one that the header names now, because the program has changed.
    fn forget<F: ForkGraph>(&self, at: &CacheAt<'_, F>, key: &Pubkey, deployed: u64) {
        let is_outdated = |entry: &ProgramCacheEntry| {
            let is_delay =
                matches!(&entry.program, ProgramCacheEntryType::FailedVerification(of) if *of == self.nowhere);
            is_delay && entry.deployment_slot > deployed
        };
        let cache = at.cache.read().unwrap_or_else(PoisonError::into_inner);
        let is_any = cache.get_slot_versions_for_tests(key).iter().any(|entry| is_outdated(entry));
        drop(cache);
        if is_any {
            let mut cache = at.cache.write().unwrap_or_else(PoisonError::into_inner);
            cache.remove_programs(std::iter::once(*key));
        }
    }
}

/// The loader of a program, and the slot in its header.
fn header(program: &Account, accounts: &dyn AccountReader) -> Option<(ProgramCacheEntryOwner, u64)> {
    match program.owner {
        BPF_LOADER_UPGRADEABLE => {
            let code = accounts.load(&code_address(program)?)?;
            deployment_slot(&code).map(|slot| (ProgramCacheEntryOwner::LoaderV3, slot))
        }
        LOADER_V4 => {
            let slot = deployment_slot(program)?;
            let status = program.data()[LOADER_V4_STATUS..].first_chunk().map(|bytes| u64::from_le_bytes(*bytes))?;
            // The engine interprets the status as one of the valid ones.
            let slot = if status > LOADER_V4_STATUS_MAX { u64::MAX } else { slot };
            Some((ProgramCacheEntryOwner::LoaderV4, slot))
        }
        _ => None,
    }
}
