//! receiver: the state of other leaders' slots: started sets, complete sets, and what is missing.
//!
//! reads   datagrams from Turbine or repair; the leader schedule; which slot is final; which blocks to dump
//! writes  sets, once any 32 of their 64 shreds are here; what is missing of a slot; the two shreds by which a leader
//!         contradicts itself
//! memory  84 KiB per started set, for [`ReceiverConfig::sets_max`] started and [`RECENT_MAX`] complete ones; 88 B for
//!         each set of [`ReceiverConfig::slots_max`] started slots, and of [`ENDED_SETS_MAX`] sets of whole slots; 8 B
//!         per slot that is whole and not final; that of [`block_versions`]
//! drops   shreds that a rule forbids or that find no room, each with its own [`ShredRefusal`] for the caller to count;
//!         started sets and slots evicted for others: [`Receiver::evicted`]
//! source  `solana-ledger` 4.2.2, `shred/filter.rs`, `blockstore.rs`; `solana-turbine` 4.2.2, `sigverify_shreds.rs`;
//!         `docs/cluster-protocol.md`, section 2
//!
//! A shred passes [`parse`](super::parse) → [`check`](super::check) → [`resolve`](super::resolve); this module holds
//! what those stages keep between shreds, and answers questions about it. Memory is used only for what a leader has
//! signed. The lowest slots come first: when there is no room, the highest started sets are evicted. A leader that
//! withholds most of each set cannot starve other slots: eviction.rs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use hearth_crypto::ed25519::{Verifier, VerifierConfig};
use hearth_crypto::merkle::ShredProofs;
use hearth_crypto::reed_solomon::ReedSolomon;
use hearth_wire::shred::*;
use hearth_wire::{Hash, Pubkey};

use super::arrival::{Arrival, ShredRefusal, ShredSource};
use super::block_versions::{self, Link, Versions};
use super::equivocation::Contests;
use super::fec_resolver::Assembly;
use super::finding::Finding;
use super::parse::{Limits, parse};
use super::set::FecSet;

/// Bytes for the precomputed tables of leaders' keys.
const TABLE_BYTES: usize = 4 << 20;
/// Complete sets kept a moment longer, so that late shreds are recognized by their bytes.
pub(super) const RECENT_MAX: usize = 64;
/// Sets of whole slots whose roots are remembered, to notice a leader's second block.
pub(super) const ENDED_SETS_MAX: usize = 65_536;
/// A slot without new shreds for this long may be evicted for a later one, in nanoseconds.
pub(super) const STANDS_NS: u64 = 2_000_000_000;
/// Distance between the indices of consecutive sets.
pub(super) const STEP: u32 = DATA_PER_SET as u32;

/// Configuration of a receiver.
#[derive(Clone, Debug)]
pub struct ReceiverConfig {
    /// The cluster's shred version.
    pub version: u16,
    /// This node's identity: its own shreds are not accepted back.
    pub own: Pubkey,
    /// Maximum data shreds per slot.
    pub shreds_per_slot_max: u32,
    /// Slots per epoch, which bound how far ahead a shred's slot may be.
    pub slots_per_epoch: u64,
    /// Maximum slots of which some shreds are here, but not all.
    pub slots_max: usize,
    /// Maximum FEC sets that are started and not complete.
    pub sets_max: usize,
}

/// Totals of what was evicted to make room, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EvictionTotals {
    /// Started sets that were evicted, those of evicted slots included.
    pub sets: u64,
    /// Partial slots that were evicted.
    pub slots: u64,
}

/// The state of a set after a shred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetProgress {
    /// The slot of the set.
    pub slot: u64,
    /// The leader of the slot, who signed the set's root.
    pub leader: Pubkey,
    /// Index of the set.
    pub set_index: u32,
    /// Whether its set is complete now.
    pub completes: bool,
    /// Whether its whole slot is here now.
    pub ends: bool,
}

/// The outcome of a shred that was kept.
pub struct ResolvedShred<'a> {
    /// The shred's set and that set's state.
    pub progress: SetProgress,
    /// The root of the set.
    pub root: Hash,
    /// The set, if the shred completed it.
    pub completed: Option<CompletedSet<'a>>,
    /// Other facts that the shred revealed, such as an equivocation.
    pub findings: &'a [Finding],
}

/// A set that has become complete.
pub struct CompletedSet<'a> {
    /// All 64 shreds; if the parity does not match the data, only the data shreds are what was signed.
    pub set: &'a FecSet,
    /// The parent of its slot.
    pub parent_slot: u64,
    /// Bit i: shred i was recovered as signed, rather than received.
    pub recovered: u64,
}

/// A slot of which some shreds are here, but not all.
#[derive(Clone, Debug)]
pub(super) struct Incoming {
    pub leader: Pubkey,
    pub parent_slot: Option<u64>,
    /// When its newest set was first heard of.
    pub(super) newest_ns: u64,
    /// The highest set heard of.
    pub highest: u32,
    /// The slot's last set, once known.
    pub last: Option<u32>,
    /// Roots of the complete sets, and the roots they are chained to.
    pub complete: BTreeMap<u32, Link>,
    /// When each set was first heard of.
    pub(super) heard: BTreeMap<u32, u64>,
    /// How many of its sets are started.
    pub(super) begun: usize,
    /// When a shred of it was last kept.
    pub(super) kept_ns: u64,
    /// Whether the leader has contradicted itself.
    pub(super) equivocates: bool,
}

impl ReceiverConfig {
    /// Maximum bytes of a receiver.
    pub(super) const fn memory(&self) -> u64 {
        // Two entries each: tree nodes are half full at worst.
        let set = FecSet::MEMORY + size_of::<Assembly>() + size_of::<ShredProofs>() + 32 * SHREDS_PER_SET;
        let sets_per_slot = self.shreds_per_slot_max as usize / DATA_PER_SET;
        let of_slot = 2 * sets_per_slot * size_of::<(u32, Link, u32, u64)>();
        let versions = block_versions::memory(sets_per_slot);
        let sets = (self.sets_max + 2 * RECENT_MAX) * set;
        let ended = 2 * ENDED_SETS_MAX * size_of::<(u32, Link)>();
        (sets + self.slots_max * of_slot + versions + ended + TABLE_BYTES) as u64
    }
}

impl Incoming {
    pub(super) fn is_whole(&self) -> bool {
        self.last.is_some_and(|last| self.complete.len() as u32 == last / STEP + 1)
    }

    /// How many of the slot's first sets are overdue: an overdue set makes all sets before it overdue.
    fn overdue(&self, now_ns: u64, patience_ns: u64) -> u32 {
        let mut heard = self.heard.iter().rev();
        let last = heard.find(|(_, at)| now_ns.saturating_sub(**at) >= patience_ns);
        last.map_or(0, |(set, _)| set / STEP + 1)
    }
}

/// The missing shreds of a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingShreds {
    /// Missing data shreds of known sets.
    pub shreds: Vec<u32>,
    /// Set if the last set is unknown: request the highest shred from this index on.
    pub highest_from: Option<u32>,
}

/// The shreds that were recovered of the most recently completed set.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecoveredSet {
    pub key: (u64, u32),
    pub recovered: u64,
    pub parent_slot: u64,
}

/// Collects shreds of other leaders' slots.
pub struct Receiver {
    pub(super) config: ReceiverConfig,
    pub(super) code: ReedSolomon,
    pub(super) verifier: Verifier,
    pub(super) slots: BTreeMap<u64, Incoming>,
    /// Slots after the final one that became whole here.
    pub(super) whole: BTreeSet<u64>,
    /// The roots of their sets.
    pub(super) ended: BTreeMap<u64, Incoming>,
    pub(super) ended_sets: usize,
    pub(super) sets: BTreeMap<(u64, u32), Assembly>,
    pub(super) recent: BTreeMap<(u64, u32), Assembly>,
    pub(super) recent_order: VecDeque<(u64, u32)>,
    /// Free memory for sets.
    pub(super) free: Vec<FecSet>,
    pub(super) done: Option<RecoveredSet>,
    pub(super) versions: Versions,
    pub(super) contests: Contests,
    /// Slots whose leaders have contradicted themselves, and how many proofs were noted.
    pub(super) proofs: BTreeMap<u64, u8>,
    /// The findings of the last shred.
    pub(super) findings: Vec<Finding>,
    /// Slots that this node has produced since it started.
    pub(super) own: BTreeSet<u64>,
    pub(super) evicted: EvictionTotals,
    root: u64,
}

impl Receiver {
    /// Creates an empty receiver; slots up to `root` are refused.
    pub fn new(config: ReceiverConfig, root: u64) -> Self {
        Self {
            config,
            code: ReedSolomon::new(DATA_PER_SET, CODE_PER_SET).expect("32 + 32 is a code"),
            verifier: Verifier::new(VerifierConfig { cache_bytes: TABLE_BYTES, ..VerifierConfig::default() }),
            slots: BTreeMap::new(),
            whole: BTreeSet::new(),
            ended: BTreeMap::new(),
            ended_sets: 0,
            sets: BTreeMap::new(),
            recent: BTreeMap::new(),
            recent_order: VecDeque::new(),
            free: vec![],
            done: None,
            versions: Versions::default(),
            contests: Contests::default(),
            proofs: BTreeMap::new(),
            findings: vec![],
            own: BTreeSet::new(),
            evicted: EvictionTotals::default(),
            root,
        }
    }

    /// Forgets slots up to and including `root`.
    pub fn set_root(&mut self, root: u64) {
        if root > self.root {
            self.root = root;
            self.slots = self.slots.split_off(&(root + 1));
            self.whole = self.whole.split_off(&(root + 1));
            self.ended = self.ended.split_off(&(root + 1));
            self.ended_sets = self.ended.values().map(|slot| slot.complete.len()).sum();
            self.proofs = self.proofs.split_off(&(root + 1));
            self.own = self.own.split_off(&(root + 1));
            self.versions.set_root(root);
            self.contests.set_root(root);
            let kept = self.sets.split_off(&(root + 1, 0));
            std::mem::replace(&mut self.sets, kept).into_values().for_each(|set| self.free(set));
        }
    }

    /// The node has another identity.
    pub fn set_own(&mut self, own: Pubkey) {
        self.config.own = own;
    }

    /// Slots up to this one are refused.
    pub fn root(&self) -> u64 {
        self.root
    }

    /// Limits on a shred's header.
    pub(super) fn limits(&self) -> Limits {
        let ReceiverConfig { version, shreds_per_slot_max, slots_per_epoch, .. } = self.config;
        Limits { version, shreds_per_slot_max, slots_per_epoch, root: self.root }
    }

    /// Processes the shred in a datagram, from any sender: parse, check, resolve. `leader` returns the leader of a
    /// slot; `is_whole` whether a slot is already complete in the store.
    ///
    /// # Errors
    /// Why the shred was refused; [`Receiver::findings`] has its findings anyway.
    pub fn take(
        &mut self,
        datagram: &[u8],
        source: ShredSource,
        now_ns: u64,
        leader: impl Fn(u64) -> Option<Pubkey>,
        is_whole: impl Fn(u64) -> bool,
    ) -> Result<ResolvedShred<'_>, ShredRefusal> {
        let arrival = Arrival { source, now_ns };
        let shred = parse(datagram, source, &self.limits())?;
        let genuine = self.check(&shred, arrival, leader, is_whole)?;
        self.resolve(&shred, genuine, arrival)
    }

    /// The findings of the last checked shred.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    pub(super) fn free(&mut self, set: Assembly) {
        if self.free.len() < RECENT_MAX {
            self.free.push(set.into_memory());
        }
    }

    /// Returns a slot for which other nodes have another block than the accepted one: void what was kept of it. The
    /// receiver now accepts the block that they have.
    pub fn take_lost(&mut self, now_ns: u64) -> Option<u64> {
        let lost = self.contests.take_lost(now_ns).or_else(|| self.unanswered(now_ns))?;
        self.versions.seek(lost);
        self.forget(lost);
        self.forget_recent(lost);
        Some(lost)
    }

    /// Returns a rebuilt slot that has stalled. Repair requests only sets adjacent to the accepted ones; if no peer has
    /// these, no response can reveal another block.
    fn unanswered(&self, now_ns: u64) -> Option<u64> {
        let stands = |slot: &u64| {
            self.slots.get(slot).is_some_and(|incoming| now_ns.saturating_sub(incoming.kept_ns) >= STANDS_NS)
        };
        self.versions.rebuilt().find(stands)
    }

    /// Forgets the slot's block, which is not the cluster's, and accepts another one. `roots` are those of the kept
    /// sets.
    pub fn dump(&mut self, slot: u64, roots: impl IntoIterator<Item = Hash>) {
        if slot <= self.root {
            return;
        }
        let known = self.slots.get(&slot).or_else(|| self.ended.get(&slot));
        let known = known.into_iter().flat_map(|incoming| incoming.complete.values().map(|(root, _)| *root));
        let begun = self.sets.range((slot, 0)..=(slot, u32::MAX)).map(|(_, set)| *set.root());
        let dumped = known.chain(begun).chain(roots).collect();
        self.versions.dump(slot, dumped);
        self.contests.remove(slot);
        self.forget(slot);
        self.forget_recent(slot);
        self.whole.remove(&slot);
        // Where another process has this node's key, the cluster may have chosen the other block: repair may bring it.
        self.own.remove(&slot);
        if let Some(ended) = self.ended.remove(&slot) {
            self.ended_sets -= ended.complete.len();
        }
    }

    pub(super) fn forget_recent(&mut self, slot: u64) {
        self.recent_order.retain(|(other, _)| *other != slot);
        self.recent.retain(|(other, _), _| *other != slot);
    }

    /// Records that this node produces a slot: other nodes' shreds of it are refused.
    pub fn makes(&mut self, slot: u64) {
        self.own.insert(slot);
    }

    /// The numbers of all slots that are tracked and not whole, in no order.
    pub fn slots(&self) -> impl Iterator<Item = u64> {
        // A slot whose block was given up may have no sets here.
        let unstarted =
            self.versions.slots().filter(|slot| !self.whole.contains(slot) && !self.slots.contains_key(slot));
        self.slots.keys().copied().chain(unstarted)
    }

    /// The parent of a partial slot, once known.
    pub fn parent(&self, slot: u64) -> Option<u64> {
        self.slots.get(&slot)?.parent_slot
    }

    /// The parent of a whole slot.
    pub fn whole_parent(&self, slot: u64) -> Option<u64> {
        self.ended.get(&slot)?.parent_slot
    }

    /// Whether a slot's leader has contradicted itself.
    pub fn equivocates(&self, slot: u64) -> bool {
        self.is_proved(slot) || self.slots.get(&slot).is_some_and(|incoming| incoming.equivocates)
    }

    /// Totals of evictions so far.
    pub fn evicted(&self) -> EvictionTotals {
        self.evicted
    }

    /// Roots of dumped blocks forgotten so far for lack of room.
    pub fn forgotten_roots(&self) -> u64 {
        self.versions.forgotten()
    }

    /// The latest time, after `now_ns`, at which [`Receiver::missing`] reports more of a slot without any arrival.
    pub fn due_after(&self, slot: u64, now_ns: u64, patience_ns: u64) -> Option<u64> {
        let incoming = self.slots.get(&slot)?;
        // Overdue sets are reported already. A later set makes those before it overdue even if it is complete.
        let mut waited_for = (incoming.overdue(now_ns, patience_ns)..).map(|number| number * STEP);
        let first_open = waited_for.find(|set| !incoming.complete.contains_key(set));
        let heard = first_open.into_iter().flat_map(|set| incoming.heard.range(set..)).map(|(_, at)| *at);
        let end = incoming.last.is_none().then_some(incoming.newest_ns);
        let dues = heard.chain(end).map(|at| at.saturating_add(patience_ns));
        dues.filter(|due| *due > now_ns).min()
    }

    /// Returns what is missing of a slot, at most `count` shreds. A set is reported once it or a later set of its slot
    /// was first heard of `patience_ns` ago, or by repair; until then its shreds are still on their way. The slot's end
    /// has the same patience.
    pub fn missing(&self, slot: u64, now_ns: u64, patience_ns: u64, count: usize) -> MissingShreds {
        let Some(incoming) = self.slots.get(&slot) else {
            return MissingShreds { shreds: vec![], highest_from: Some(0) };
        };
        let incomplete = (0..incoming.overdue(now_ns, patience_ns)).map(|number| number * STEP);
        let incomplete = incomplete.filter(|set| !incoming.complete.contains_key(set));
        let incomplete = incomplete.filter(|set| self.versions.is_next(slot, *set));
        let of_set = |set: u32| {
            let present = self.sets.get(&(slot, set)).map_or(0, Assembly::present);
            // Any 32 shreds recover the rest: request no more than these.
            let lacks = DATA_PER_SET.saturating_sub(present.count_ones() as usize);
            (0..STEP).filter(move |place| present >> place & 1 == 0).map(move |place| set + place).take(lacks)
        };
        let shreds: Vec<u32> = incomplete.flat_map(of_set).take(count).collect();
        let is_open = incoming.last.is_none() && now_ns.saturating_sub(incoming.newest_ns) >= patience_ns;
        MissingShreds { shreds, highest_from: is_open.then_some(incoming.highest + STEP) }
    }
}

#[cfg(test)]
#[path = "receiver_tests.rs"]
mod tests;
