//! What is there of other leaders' slots: sets that are begun, complete ones, and what is missing.
//!
//! reads   datagrams, each from Turbine or asked for by repair; who leads a slot; which slot is final; which blocks are
//!         to be dumped
//! writes  sets, once any 32 of their 64 shreds are there; what is missing of a slot; the two shreds by which a leader
//!         contradicts itself
//! memory  84 KiB a set that is begun, [`ReceiverConfig::sets_max`] of them, and [`RECENT_MAX`] that are complete; 88 B
//!         for each set of a slot that is begun, [`ReceiverConfig::slots_max`] slots, and of [`ENDED_SETS_MAX`] sets of
//!         slots that are whole; 8 B for each slot that is whole and not final; that of [`block_versions`]
//! drops   what a rule forbids, and what there is no room for: each a [`Refused`] of its own, for the caller to count;
//!         begun sets and slots that have to make room for others: [`Receiver::evicted`]
//! source  `solana-ledger` 4.2.2, `shred/filter.rs`, `blockstore.rs`; `solana-turbine` 4.2.2, `sigverify_shreds.rs`;
//!         `docs/cluster-protocol.md`, section 2
//!
//! A shred goes through [`parse`](super::parse) → [`check`](super::check) → [`resolve`](super::resolve), each of which
//! knows more of it; this is what they keep between shreds, and what others ask of that. Memory is taken for what a
//! leader has signed only. The lowest slots come first: when there is no room, what was begun of the highest goes. A
//! leader that withholds most of each set keeps nobody else out: eviction.rs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use hearth_crypto::ed25519::{Verifier, VerifierConfig};
use hearth_crypto::merkle::ShredProofs;
use hearth_crypto::reed_solomon::ReedSolomon;
use hearth_wire::shred::*;
use hearth_wire::{Hash, Pubkey};

use super::arrival::{Arrival, Refused, ShredSource};
use super::block_versions::{self, Link, Versions};
use super::equivocation::Contests;
use super::fec_resolver::Assembly;
use super::finding::Finding;
use super::parse::{Limits, parse};
use super::set::FecSet;

/// Bytes for the tables of leaders' keys.
const TABLE_BYTES: usize = 4 << 20;
/// Complete sets that are kept a moment longer: what comes late of them is known by its bytes.
pub(super) const RECENT_MAX: usize = 64;
/// Sets of slots that are whole whose roots are remembered: by these a leader's second block is noticed.
pub(super) const ENDED_SETS_MAX: usize = 65_536;
/// A slot of which nothing new has come for so long makes room for a later one, ns.
pub(super) const STANDS_NS: u64 = 2_000_000_000;
/// From a set's index to that of the next.
pub(super) const STEP: u32 = DATA_PER_SET as u32;

/// What a receiver is told.
#[derive(Clone, Debug)]
pub struct ReceiverConfig {
    /// The cluster's shred version.
    pub version: u16,
    /// This node's identity: what it made itself is not taken back.
    pub own: Pubkey,
    /// Data shreds that a slot may have.
    pub shreds_per_slot_max: u32,
    /// Slots of an epoch.
    pub slots_per_epoch: u64,
    /// Slots of which something is known and not all is there.
    pub slots_max: usize,
    /// Sets that are begun.
    pub sets_max: usize,
}

/// What had to make room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evicted {
    /// Sets that were begun.
    pub sets: u64,
    /// Slots of which something was known.
    pub slots: u64,
}

/// How far a shred brought its set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetProgress {
    /// The slot.
    pub slot: u64,
    /// Who leads it.
    pub leader: Pubkey,
    /// The set.
    pub set_index: u32,
    /// Whether its set is complete now.
    pub completes: bool,
    /// Whether all of its slot is here now.
    pub ends: bool,
}

/// What became of a shred that was kept.
pub struct Resolved<'a> {
    /// Of which set, and how far that is.
    pub progress: SetProgress,
    /// The root of the set.
    pub root: Hash,
    /// The set, if the shred completed it.
    pub completed: Option<CompletedSet<'a>>,
    /// What it shows beside that.
    pub findings: &'a [Finding],
}

/// A set that has become complete.
pub struct CompletedSet<'a> {
    /// All 64 shreds; of a set whose parity is none of its data only the data shreds are what was signed.
    pub set: &'a FecSet,
    /// The parent of its slot.
    pub parent_slot: u64,
    /// Bit i: shred i was recovered as it was signed, and did not come.
    pub recovered: u64,
}

/// A slot of which not all is there.
#[derive(Clone, Debug)]
pub(super) struct Incoming {
    pub leader: Pubkey,
    pub parent_slot: Option<u64>,
    /// When its newest set was first heard of.
    pub(super) newest_ns: u64,
    /// The highest set that was heard of.
    pub highest: u32,
    /// The slot's last set, once it is known.
    pub last: Option<u32>,
    /// Roots of the sets that are complete, and what they are chained to.
    pub complete: BTreeMap<u32, Link>,
    /// When each set was first heard of.
    pub(super) heard: BTreeMap<u32, u64>,
    /// Sets of it that are begun.
    pub(super) begun: usize,
    /// When a shred of it was kept last.
    pub(super) kept_ns: u64,
    /// The leader has contradicted itself.
    pub(super) equivocates: bool,
}

impl ReceiverConfig {
    /// Bytes that a receiver takes at most.
    pub(super) const fn memory(&self) -> u64 {
        // Two entries' worth for each: a tree's nodes are half full at worst.
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

    /// How many of the slot's first sets are overdue: a set that is overdue makes all sets before it so.
    fn overdue(&self, now_ns: u64, patience_ns: u64) -> u32 {
        let mut heard = self.heard.iter().rev();
        let last = heard.find(|(_, at)| now_ns.saturating_sub(**at) >= patience_ns);
        last.map_or(0, |(set, _)| set / STEP + 1)
    }
}

/// What is missing of a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Data shreds that have not come, of sets that were heard of.
    pub shreds: Vec<u32>,
    /// The last set is not known: ask for the highest shred from this one on.
    pub highest_from: Option<u32>,
}

/// What was recovered of the set that was completed last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    pub key: (u64, u32),
    pub recovered: u64,
    pub parent_slot: u64,
}

/// Takes shreds.
pub struct Receiver {
    pub(super) config: ReceiverConfig,
    pub(super) code: ReedSolomon,
    pub(super) verifier: Verifier,
    pub(super) slots: BTreeMap<u64, Incoming>,
    /// Slots after the final one that have become whole here.
    pub(super) whole: BTreeSet<u64>,
    /// What their sets hash to.
    pub(super) ended: BTreeMap<u64, Incoming>,
    pub(super) ended_sets: usize,
    pub(super) sets: BTreeMap<(u64, u32), Assembly>,
    pub(super) recent: BTreeMap<(u64, u32), Assembly>,
    pub(super) recent_order: VecDeque<(u64, u32)>,
    /// Memory for sets.
    pub(super) free: Vec<FecSet>,
    pub(super) done: Option<Done>,
    pub(super) versions: Versions,
    pub(super) contests: Contests,
    /// Slots whose leaders have contradicted themselves, and how many proofs of that were found.
    pub(super) proofs: BTreeMap<u64, u8>,
    /// What the last shred showed beside itself.
    pub(super) findings: Vec<Finding>,
    /// Slots that this node has made since it started.
    pub(super) own: BTreeSet<u64>,
    pub(super) evicted: Evicted,
    root: u64,
}

impl Receiver {
    /// Nothing has come yet; slots up to `root` are not wanted.
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
            evicted: Evicted::default(),
            root,
        }
    }

    /// Nothing of slots up to this one is wanted any more.
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

    /// Slots up to this one are not wanted.
    pub fn root(&self) -> u64 {
        self.root
    }

    /// What a shred may say of itself.
    pub(super) fn limits(&self) -> Limits {
        let ReceiverConfig { version, shreds_per_slot_max, slots_per_epoch, .. } = self.config;
        Limits { version, shreds_per_slot_max, slots_per_epoch, root: self.root }
    }

    /// Takes the shred in a datagram, whoever sent it on: parse, check, resolve. `leader` says who leads a slot;
    /// `is_whole` whether all of a slot is kept already.
    ///
    /// # Errors
    /// Why it was not taken; [`Receiver::findings`] has what it shows nonetheless.
    pub fn take(
        &mut self,
        datagram: &[u8],
        source: ShredSource,
        now_ns: u64,
        leader: impl Fn(u64) -> Option<Pubkey>,
        is_whole: impl Fn(u64) -> bool,
    ) -> Result<Resolved<'_>, Refused> {
        let arrival = Arrival { source, now_ns };
        let shred = parse(datagram, source, &self.limits())?;
        let genuine = self.check(&shred, arrival, leader, is_whole)?;
        self.resolve(&shred, genuine, arrival)
    }

    /// What the last shred that was checked has shown beside itself.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    pub(super) fn free(&mut self, set: Assembly) {
        if self.free.len() < RECENT_MAX {
            self.free.push(set.into_memory());
        }
    }

    /// A slot of which others have another block than the one that is taken here: what was kept of it is void, and the
    /// one is taken that others have.
    pub fn take_lost(&mut self, now_ns: u64) -> Option<u64> {
        let lost = self.contests.take_lost(now_ns).or_else(|| self.unanswered(now_ns))?;
        self.versions.seek(lost);
        self.forget(lost);
        self.forget_recent(lost);
        Some(lost)
    }

    /// A slot that is built anew and stands. The sets asked for are those beside the ones that are there; where nobody
    /// has these, no answer comes that could show another block.
    fn unanswered(&self, now_ns: u64) -> Option<u64> {
        let stands = |slot: &u64| {
            self.slots.get(slot).is_some_and(|incoming| now_ns.saturating_sub(incoming.kept_ns) >= STANDS_NS)
        };
        self.versions.rebuilt().find(stands)
    }

    /// The slot's block is not the cluster's: it is forgotten, and another one is taken. `roots` are those of the sets
    /// that were kept.
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
        if let Some(ended) = self.ended.remove(&slot) {
            self.ended_sets -= ended.complete.len();
        }
    }

    pub(super) fn forget_recent(&mut self, slot: u64) {
        self.recent_order.retain(|(other, _)| *other != slot);
        self.recent.retain(|(other, _), _| *other != slot);
    }

    /// This node makes a slot: nobody else's shreds of it are taken.
    pub fn makes(&mut self, slot: u64) {
        self.own.insert(slot);
    }

    /// Slots of which something is known and not all is there.
    pub fn slots(&self) -> impl Iterator<Item = u64> {
        // Of one whose block was given up nothing may be here.
        let anew = self.versions.slots().filter(|slot| !self.whole.contains(slot) && !self.slots.contains_key(slot));
        self.slots.keys().copied().chain(anew)
    }

    /// The parent of such a slot, once it is known.
    pub fn parent(&self, slot: u64) -> Option<u64> {
        self.slots.get(&slot)?.parent_slot
    }

    /// The parent of a slot of which all is here.
    pub fn whole_parent(&self, slot: u64) -> Option<u64> {
        self.ended.get(&slot)?.parent_slot
    }

    /// Whether a slot's leader has contradicted itself.
    pub fn equivocates(&self, slot: u64) -> bool {
        self.is_proved(slot) || self.slots.get(&slot).is_some_and(|incoming| incoming.equivocates)
    }

    /// What had to make room so far.
    pub fn evicted(&self) -> Evicted {
        self.evicted
    }

    /// Roots of dumped blocks that were forgotten for want of room so far.
    pub fn forgotten_roots(&self) -> u64 {
        self.versions.forgotten()
    }

    /// When [`Receiver::missing`] next says more of a slot although nothing comes, at the latest; after `now_ns`.
    pub fn due_after(&self, slot: u64, now_ns: u64, patience_ns: u64) -> Option<u64> {
        let incoming = self.slots.get(&slot)?;
        // What is overdue is reported already. A later set makes those before it overdue even where it is complete.
        let mut waited_for = (incoming.overdue(now_ns, patience_ns)..).map(|number| number * STEP);
        let first_open = waited_for.find(|set| !incoming.complete.contains_key(set));
        let heard = first_open.into_iter().flat_map(|set| incoming.heard.range(set..)).map(|(_, at)| *at);
        let end = incoming.last.is_none().then_some(incoming.newest_ns);
        let dues = heard.chain(end).map(|at| at.saturating_add(patience_ns));
        dues.filter(|due| *due > now_ns).min()
    }

    /// What is missing of a slot, at most `count` shreds of it. Nothing is said to be missing of a set that was first
    /// heard of, or a later one of its slot, less than `patience_ns` ago, unless by repair: it is on its way. As long
    /// as that counts for the end of a slot.
    pub fn missing(&self, slot: u64, now_ns: u64, patience_ns: u64, count: usize) -> Missing {
        let Some(incoming) = self.slots.get(&slot) else {
            return Missing { shreds: vec![], highest_from: Some(0) };
        };
        let incomplete = (0..incoming.overdue(now_ns, patience_ns)).map(|number| number * STEP);
        let incomplete = incomplete.filter(|set| !incoming.complete.contains_key(set));
        let incomplete = incomplete.filter(|set| self.versions.is_next(slot, *set));
        let of_set = |set: u32| {
            let present = self.sets.get(&(slot, set)).map_or(0, Assembly::present);
            // With 32 of any the rest is recovered: no more than these are asked for.
            let lacks = DATA_PER_SET.saturating_sub(present.count_ones() as usize);
            (0..STEP).filter(move |place| present >> place & 1 == 0).map(move |place| set + place).take(lacks)
        };
        let shreds: Vec<u32> = incomplete.flat_map(of_set).take(count).collect();
        let is_open = incoming.last.is_none() && now_ns.saturating_sub(incoming.newest_ns) >= patience_ns;
        Missing { shreds, highest_from: is_open.then_some(incoming.highest + STEP) }
    }
}

#[cfg(test)]
#[path = "receiver_tests.rs"]
mod tests;
