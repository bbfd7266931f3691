//! receiver: shreds of other leaders, checked, completed to sets, and known by what is missing.
//!
//! reads   datagrams, each from Turbine or asked for by repair; who leads a slot; which slot is final; which blocks are
//!         to be dumped
//! writes  sets, once any 32 of their 64 shreds are there; what is missing of a slot; the two shreds by which a leader
//!         contradicts itself
//! memory  84 KiB a set that is begun, [`ReceiverConfig::sets_max`] of them, and [`RECENT_MAX`] that are complete; 88 B
//!         for each set of a slot that is begun, [`ReceiverConfig::slots_max`] slots, and of [`ENDED_SETS_MAX`] sets of
//!         slots that are whole; 8 B for each slot that is whole and not final
//! drops   what a rule forbids, and what there is no room for: each a [`Refused`] of its own, for the caller to count;
//!         begun sets and slots that have to make room for others: [`Receiver::evicted`]
//! source  `solana-ledger` 4.2.2, `shred/filter.rs`, `blockstore.rs`; `solana-turbine` 4.2.2, `sigverify_shreds.rs`;
//!         `docs/cluster-protocol.md`, section 2
//!
//! A leader's signature is checked once for each root that is claimed for a set; whatever hashes to a root that is
//! known to be signed is genuine. Memory is taken for what a leader has signed only. The lowest slots come first: when
//! there is no room, what was begun of the highest goes. Who leads a slot and holds back most of each set keeps nobody
//! else out: room.rs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use hearth_crypto::ed25519::{Verifier, VerifierConfig};
use hearth_crypto::merkle::ShredProofs;
use hearth_crypto::reed_solomon::ReedSolomon;
use hearth_wire::shred::*;
use hearth_wire::{Hash, Pubkey};

use super::assembly::{Assembly, Made, claim};
use super::conflict::Conflict;
use super::contest::Contests;
use super::room::Evicted;
use super::set::FecSet;
use super::versions::{Barred, Link, Versions};

/// Bytes for the tables of leaders' keys.
const TABLE_BYTES: usize = 4 << 20;
/// Slots beyond the final one from which shreds are taken, at least; half an epoch where that is more.
const SLOTS_AHEAD_MIN: u64 = 500;
/// Complete sets that are kept a moment longer: what comes late of them is known by its bytes.
const RECENT_MAX: usize = 64;
/// Sets of slots that are whole whose roots are remembered: by these a leader's second block is noticed.
const ENDED_SETS_MAX: usize = 65_536;
/// From a set's index to that of the next.
const STEP: u32 = DATA_PER_SET as u32;

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

/// How a shred came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Down the tree.
    Turbine,
    /// It was asked for.
    Repair,
}

/// Of a slot nothing is known here of what may be stored of it: it is to be void, or a leader that made two blocks
/// could have sets of both stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// The slot has begun: whatever is stored of it came before a start.
    Begun(u64),
    /// The slot had to make room, and sets of it were handed out.
    Evicted(u64),
}

/// How and when a shred came.
#[derive(Clone, Copy, Debug)]
struct Came {
    way: Way,
    now_ns: u64,
}

/// Why a shred was not taken. The number is its place in [`Refused::COUNT`] counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// No shred.
    Malformed,
    /// Of another chain.
    Version,
    /// Too far ahead.
    Ahead,
    /// Final already, or of a parent that cannot be.
    Old,
    /// It breaks the rules of sets.
    Rules,
    /// Its slot's leader is not known.
    NoLeader,
    /// This node leads its slot.
    Own,
    /// There already.
    Duplicate,
    /// The proof leads to no root.
    Proof,
    /// The leader did not sign the root.
    Signature,
    /// The leader signed this and something else: two blocks for a slot.
    Equivocation,
    /// There is no room for another set or slot.
    NoRoom,
    /// The set's parity is none of its data, so that only its data shreds are taken; or the set is not chained to its
    /// neighbour.
    BrokenSet,
    /// Of a block that was dumped, or not beside what is there of the one that is taken instead.
    Dumped,
    /// Who sent it on has not signed for it.
    Sender,
}

/// What became of a shred that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The slot.
    pub slot: u64,
    /// Who leads it.
    pub leader: Pubkey,
    /// The set.
    pub set_index: u32,
    /// Whether its set is complete now: [`Receiver::completed`] has it.
    pub completes: bool,
    /// Whether all of its slot is here now.
    pub ends: bool,
}

/// A set that has become complete.
pub struct Completed<'a> {
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
    newest_ns: u64,
    /// The highest set that was heard of.
    pub highest: u32,
    /// The slot's last set, once it is known.
    pub last: Option<u32>,
    /// Roots of the sets that are complete, and what they are chained to.
    pub complete: BTreeMap<u32, Link>,
    /// When each set was first heard of.
    heard: BTreeMap<u32, u64>,
    /// Sets of it that are begun.
    pub(super) begun: usize,
    /// When a shred of it was kept last.
    pub(super) kept_ns: u64,
    /// The leader has contradicted itself.
    equivocates: bool,
}

impl Incoming {
    fn is_whole(&self) -> bool {
        self.last.is_some_and(|last| self.complete.len() as u32 == last / STEP + 1)
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
struct Done {
    key: (u64, u32),
    recovered: u64,
    parent_slot: u64,
}

/// Takes shreds.
pub struct Receiver {
    pub(super) config: ReceiverConfig,
    code: ReedSolomon,
    verifier: Verifier,
    pub(super) slots: BTreeMap<u64, Incoming>,
    /// Slots after the final one that have become whole here.
    whole: BTreeSet<u64>,
    /// What their sets hash to.
    pub(super) ended: BTreeMap<u64, Incoming>,
    ended_sets: usize,
    pub(super) sets: BTreeMap<(u64, u32), Assembly>,
    pub(super) recent: BTreeMap<(u64, u32), Assembly>,
    recent_order: VecDeque<(u64, u32)>,
    /// Memory for sets.
    free: Vec<FecSet>,
    done: Option<Done>,
    versions: Versions,
    contests: Contests,
    /// Slots of which it was told that their leaders have contradicted themselves.
    pub(super) told: BTreeSet<u64>,
    pub(super) conflict: Option<Conflict>,
    torn: Option<u64>,
    /// What may be stored of these slots is not known here.
    pub(super) unknown: Vec<Unknown>,
    /// Slots that this node has made since it started.
    own: BTreeSet<u64>,
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
            told: BTreeSet::new(),
            conflict: None,
            torn: None,
            unknown: vec![],
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
            self.told = self.told.split_off(&(root + 1));
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

    pub(super) fn free(&mut self, set: Assembly) {
        if self.free.len() < RECENT_MAX {
            self.free.push(set.into_memory());
        }
    }

    /// Takes the shred in a datagram. `leader` says who leads a slot; `is_whole` whether all of a slot is kept already.
    ///
    /// # Errors
    /// Why it was not taken.
    pub fn take(
        &mut self,
        datagram: &[u8],
        way: Way,
        now_ns: u64,
        leader: impl Fn(u64) -> Option<Pubkey>,
        is_whole: impl Fn(u64) -> bool,
    ) -> Result<Taken, Refused> {
        self.take_if(datagram, way, now_ns, leader, is_whole, |_, _, _| true)
    }

    /// As [`Self::take`], of a shred only that `sender` allows: it is told the shred, its slot's leader, and the Merkle
    /// root, which the leader has signed.
    ///
    /// # Errors
    /// Why it was not taken.
    pub fn take_if(
        &mut self,
        datagram: &[u8],
        way: Way,
        now_ns: u64,
        leader: impl Fn(u64) -> Option<Pubkey>,
        is_whole: impl Fn(u64) -> bool,
        sender: impl FnOnce(&Shred<'_>, &Pubkey, &Hash) -> bool,
    ) -> Result<Taken, Refused> {
        let shred = self.filter(datagram, way)?;
        let taken = self.take_shred(&shred, Came { way, now_ns }, leader, is_whole, sender);
        if way == Way::Repair {
            self.count_answer(shred.slot(), taken, now_ns);
        }
        taken
    }

    /// Consensus decides between blocks that are whole; of others it is counted what the answers are of.
    fn count_answer(&mut self, slot: u64, taken: Result<Taken, Refused>, now_ns: u64) {
        let is_open = !self.whole.contains(&slot) && self.versions.is_open(slot);
        match taken {
            Ok(_) => self.contests.kept(slot),
            Err(Refused::Equivocation | Refused::Dumped) if is_open => self.contests.other(slot, now_ns),
            Err(_) => {}
        }
    }

    fn take_shred(
        &mut self,
        shred: &Shred<'_>,
        at: Came,
        leader: impl Fn(u64) -> Option<Pubkey>,
        is_whole: impl Fn(u64) -> bool,
        sender: impl FnOnce(&Shred<'_>, &Pubkey, &Hash) -> bool,
    ) -> Result<Taken, Refused> {
        let key @ (slot, _) = (shred.slot(), shred.set_index());
        if self.recent.get(&key).is_some_and(|set| set.has(shred)) {
            return Err(Refused::Duplicate);
        }
        if self.ended.contains_key(&slot) {
            return Err(self.after_the_end(shred));
        }
        let known = self.slots.get(&slot);
        if known.is_none() && (self.whole.contains(&slot) || is_whole(slot)) {
            return Err(Refused::Duplicate);
        }
        let leader = known.map(|known| known.leader).or_else(|| leader(slot)).ok_or(Refused::NoLeader)?;
        // One that a start has forgotten others may give back.
        if leader == self.config.own && (at.way == Way::Turbine || self.own.contains(&slot)) {
            return Err(Refused::Own);
        }
        if let Some(set) = self.sets.get_mut(&key) {
            if set.has(shred) {
                return Err(Refused::Duplicate);
            }
            if let Some(leaf) = set.proves(shred) {
                if !set.agrees(shred) {
                    return Err(Refused::Signature);
                }
                if set.is_in_vain(shred) {
                    return Err(Refused::BrokenSet);
                }
                if set.shred(shred.shard_index()).is_some() {
                    // The same but for the signature of who sent it.
                    return Err(Refused::Duplicate);
                }
                if !sender(shred, &leader, set.root()) {
                    return Err(Refused::Sender);
                }
                self.check_slot(shred)?;
                self.note_slot(shred, leader, at)?;
                self.sets.get_mut(&key).expect("its slot was noted before").keep(shred, &leaf);
                return self.taken(key, leader);
            }
        }
        self.begin(shred, leader, at, sender)?;
        self.taken(key, leader)
    }

    fn taken(&mut self, key: (u64, u32), leader: Pubkey) -> Result<Taken, Refused> {
        let completes = self.sets[&key].is_enough();
        if completes {
            self.complete(key)?;
        }
        let (slot, set_index) = key;
        let ends = completes && self.whole.contains(&slot);
        Ok(Taken { slot, leader, set_index, completes, ends })
    }

    /// The set that the last shred completed.
    pub fn completed(&self) -> Option<Completed<'_>> {
        let Done { key, recovered, parent_slot } = self.done?;
        Some(Completed { set: self.recent.get(&key)?.set(), parent_slot, recovered })
    }

    /// The cluster's rules in its order, as far as one shred can break them.
    fn filter<'a>(&self, datagram: &'a [u8], way: Way) -> Result<Shred<'a>, Refused> {
        let variant = datagram.get(VARIANT).and_then(|byte| Variant::from_byte(*byte)).ok_or(Refused::Malformed)?;
        // What is behind a shred that came by Turbine is nobody's business.
        let bytes = datagram.get(..variant.kind.size()).ok_or(Refused::Malformed)?;
        if way == Way::Repair && variant.kind == ShredKind::Code {
            return Err(Refused::Malformed);
        }
        let shred = Shred::parse(bytes).map_err(|_| Refused::Malformed)?;
        if shred.version() != self.config.version {
            return Err(Refused::Version);
        }
        let ahead = SLOTS_AHEAD_MIN.max(self.config.slots_per_epoch / 2);
        if shred.slot() > self.root.saturating_add(ahead) {
            return Err(Refused::Ahead);
        }
        if shred.slot() <= self.root {
            return Err(Refused::Old);
        }
        if let Some(parent) = shred.parent_slot()
            && !(self.root <= parent && parent < shred.slot())
        {
            return Err(Refused::Old);
        }
        shred.check_set(self.config.shreds_per_slot_max).map_err(|_| Refused::Rules)?;
        Ok(shred)
    }

    /// Begins a set with a shred, if the leader has signed what it hashes to, and no other root for that set.
    fn begin(
        &mut self,
        shred: &Shred<'_>,
        leader: Pubkey,
        at: Came,
        sender: impl FnOnce(&Shred<'_>, &Pubkey, &Hash) -> bool,
    ) -> Result<(), Refused> {
        let key @ (slot, set_index) = (shred.slot(), shred.set_index());
        let known = self.link(slot, set_index);
        // What there will be no room for is not worth its checks.
        if known.is_none() && !self.has_room(key, at.now_ns) {
            return Err(Refused::NoRoom);
        }
        let (leaf, proofs) = claim(shred).ok_or(Refused::Proof)?;
        match known {
            Some((root, _)) if root == *proofs.root() => return Err(Refused::Duplicate),
            Some(_) => return Err(self.contradicted(shred, &proofs, &leader, at.way)),
            None => {}
        }
        self.verifier.verify(&leader, &shred.signature(), proofs.root()).map_err(|_| Refused::Signature)?;
        if !sender(shred, &leader, proofs.root()) {
            return Err(Refused::Sender);
        }
        self.check_slot(shred)?;
        let link = (*proofs.root(), shred.chained_root());
        self.admit(key, link, at.way)?;
        self.note_slot(shred, leader, at)?;
        self.make_room(key, at.now_ns)?;
        let memory = self.free.pop().unwrap_or_default();
        self.sets.insert(key, Assembly::begin(shred, (leaf, proofs), memory));
        self.slots.get_mut(&slot).expect("it was just noted").begun += 1;
        Ok(())
    }

    /// Root of a set that is begun or complete, and what it is chained to.
    fn link(&self, slot: u64, set_index: u32) -> Option<Link> {
        let begun = self.sets.get(&(slot, set_index)).map(|set| (*set.root(), *set.chained_root()));
        begun.or_else(|| self.slots.get(&slot)?.complete.get(&set_index).copied())
    }

    /// Another root than the one known is claimed for a set.
    fn contradicted(&mut self, shred: &Shred<'_>, proofs: &ShredProofs, leader: &Pubkey, way: Way) -> Refused {
        // Once that is known of a leader it is not checked for each shred; but answers are counted.
        if way == Way::Repair || !self.told.contains(&shred.slot()) {
            if self.verifier.verify(leader, &shred.signature(), proofs.root()).is_err() {
                return Refused::Signature;
            }
            self.note_conflict(shred, shred.set_index(), None);
        }
        if let Some(incoming) = self.slots.get_mut(&shred.slot()) {
            incoming.equivocates = true;
        }
        Refused::Equivocation
    }

    /// A shred of a slot that is whole: only whether it is of the same block is of interest.
    fn after_the_end(&mut self, shred: &Shred<'_>) -> Refused {
        let (slot, set_index) = (shred.slot(), shred.set_index());
        let Some((leader, known, last)) = self.ended.get(&slot).map(|ended| {
            let known = ended.complete.get(&set_index).map(|(root, _)| *root);
            (ended.leader, known, ended.last.unwrap_or(u32::MAX))
        }) else {
            return Refused::Duplicate;
        };
        if self.told.contains(&slot) {
            return Refused::Duplicate;
        }
        let Some((_, proofs)) = claim(shred) else { return Refused::Proof };
        match known {
            Some(root) if root == *proofs.root() => Refused::Duplicate,
            Some(_) => self.contradicted(shred, &proofs, &leader, Way::Turbine),
            None if self.verifier.verify(&leader, &shred.signature(), proofs.root()).is_err() => Refused::Signature,
            None => {
                if set_index > last {
                    self.note_conflict(shred, last, Some(DATA_PER_SET - 1));
                }
                Refused::Equivocation
            }
        }
    }

    /// Whether a set may begin beside what is there of its slot.
    fn admit(&mut self, key @ (slot, _): (u64, u32), link: Link, way: Way) -> Result<(), Refused> {
        let mut versions = std::mem::take(&mut self.versions);
        let verdict = versions.admit(key, link, way == Way::Repair, |set| self.link(slot, set));
        if verdict == Err(Barred::Torn) {
            let begun = self.sets.range((slot, 0)..=(slot, u32::MAX));
            let begun = begun.map(|((_, set), assembly)| (*set, (*assembly.root(), *assembly.chained_root())));
            let complete = self.slots.get(&slot).map(|incoming| incoming.complete.clone()).unwrap_or_default();
            versions.tear(slot, &complete.into_iter().chain(begun).collect());
            self.forget(slot);
            self.forget_recent(slot);
            self.torn = Some(slot);
        }
        self.versions = versions;
        verdict.map_err(|barred| match barred {
            Barred::Other => Refused::Dumped,
            Barred::Torn => Refused::BrokenSet,
        })
    }

    /// The slots of which nothing is known here any more of what may be stored, since the last call; in their order
    /// with the sets that were completed.
    pub fn take_unknown(&mut self) -> impl Iterator<Item = Unknown> {
        self.unknown.drain(..)
    }

    /// A slot of which others have another block than the one that is taken here: what was kept of it is void, and the
    /// one is taken that others have.
    pub fn take_lost(&mut self, now_ns: u64) -> Option<u64> {
        let lost = self.contests.take_lost(now_ns)?;
        self.versions.seek(lost);
        self.forget(lost);
        self.forget_recent(lost);
        Some(lost)
    }

    /// A slot whose sets so far were found to be of two blocks, since the last call: what was kept of it is void.
    pub fn take_torn(&mut self) -> Option<u64> {
        self.torn.take()
    }

    /// The slot's block is not the cluster's: it is forgotten, and another one is taken; the one whose last root is
    /// `wanted` where that is known. `roots` are those of the sets that were kept.
    pub fn dump(&mut self, slot: u64, roots: impl IntoIterator<Item = Hash>, wanted: Option<Hash>) {
        if slot <= self.root {
            return;
        }
        let known = self.slots.get(&slot).or_else(|| self.ended.get(&slot));
        let known = known.into_iter().flat_map(|incoming| incoming.complete.values().map(|(root, _)| *root));
        let begun = self.sets.range((slot, 0)..=(slot, u32::MAX)).map(|(_, set)| *set.root());
        let dumped = known.chain(begun).chain(roots).collect();
        self.versions.dump(slot, dumped, wanted);
        self.contests.remove(slot);
        self.forget(slot);
        self.forget_recent(slot);
        self.whole.remove(&slot);
        if let Some(ended) = self.ended.remove(&slot) {
            self.ended_sets -= ended.complete.len();
        }
    }

    /// Whether what a genuine shred says of its slot can be.
    fn check_slot(&mut self, shred: &Shred<'_>) -> Result<(), Refused> {
        let set_index = shred.set_index();
        let Some(incoming) = self.slots.get_mut(&shred.slot()) else { return Ok(()) };
        // What contradicts says nothing of the block that is taken.
        let is_beyond = incoming.last.is_some_and(|last| set_index > last);
        let is_another_parent =
            shred.parent_slot().is_some_and(|parent| incoming.parent_slot.is_some_and(|known| known != parent));
        let ends_before =
            shred.ends_slot() && (incoming.last.is_some_and(|last| last != set_index) || incoming.highest > set_index);
        if !is_beyond && !is_another_parent && !ends_before {
            return Ok(());
        }
        incoming.equivocates = true;
        let (highest, last) = (incoming.highest, incoming.last.unwrap_or_default());
        if is_beyond {
            self.note_conflict(shred, last, Some(DATA_PER_SET - 1));
        } else if ends_before {
            self.note_conflict(shred, highest, None);
        }
        Err(Refused::Equivocation)
    }

    /// What a genuine shred says of its slot.
    fn note_slot(&mut self, shred: &Shred<'_>, leader: Pubkey, at: Came) -> Result<(), Refused> {
        let (slot, set_index) = (shred.slot(), shred.set_index());
        if !self.slots.contains_key(&slot) && self.slots.len() >= self.config.slots_max {
            // The newest can wait: all before it is needed first. What stands is held back, or nobody has it.
            let newest = self.slots.keys().next_back().copied().filter(|newest| *newest > slot);
            let goes = newest.or_else(|| self.stands(slot, at.now_ns, |_| true)).ok_or(Refused::NoRoom)?;
            self.evict(goes);
        }
        // Of what had to be asked for nothing more is on its way.
        let now_ns = if at.way == Way::Repair { 0 } else { at.now_ns };
        if !self.slots.contains_key(&slot) {
            self.unknown.push(Unknown::Begun(slot));
        }
        let incoming = self.slots.entry(slot).or_insert_with(|| Incoming {
            leader,
            parent_slot: None,
            newest_ns: now_ns,
            highest: set_index,
            last: None,
            complete: BTreeMap::new(),
            heard: BTreeMap::new(),
            begun: 0,
            kept_ns: at.now_ns,
            equivocates: false,
        });
        incoming.kept_ns = at.now_ns;
        incoming.heard.entry(set_index).or_insert(now_ns);
        incoming.parent_slot = shred.parent_slot().or(incoming.parent_slot);
        if shred.ends_slot() {
            incoming.last = Some(set_index);
        }
        if set_index > incoming.highest {
            (incoming.highest, incoming.newest_ns) = (set_index, now_ns);
        }
        Ok(())
    }

    /// Recovers what did not come, and keeps the set to be handed out.
    fn complete(&mut self, key: (u64, u32)) -> Result<(), Refused> {
        let (slot, set_index) = key;
        let mut assembly = self.sets.remove(&key).expect("a shred of it was just kept");
        let came = assembly.present();
        let made = assembly.make(&self.code);
        if made == Made::Lacks {
            self.sets.insert(key, assembly);
            return Err(Refused::BrokenSet);
        }
        // What was made and is not what was signed is nobody's.
        let recovered = if made == Made::All { !came } else { 0 };
        let incoming = self.slots.get_mut(&slot).expect("its slot was just noted");
        incoming.begun -= 1;
        let header = assembly.set().header();
        let parent_slot = slot - u64::from(header.parent_offset);
        let contradicts = incoming.parent_slot.is_some_and(|parent| parent != parent_slot)
            || incoming.last.is_some_and(|last| header.ends_slot != (last == set_index))
            || (header.ends_slot && incoming.highest > set_index);
        if contradicts {
            incoming.equivocates = true;
            return Err(Refused::Equivocation);
        }
        incoming.parent_slot = Some(parent_slot);
        if header.ends_slot {
            incoming.last = Some(set_index);
        }
        incoming.complete.insert(set_index, (*assembly.root(), *assembly.chained_root()));
        if incoming.is_whole() {
            self.end(slot);
        }
        self.keep_recent(key, assembly);
        self.done = Some(Done { key, recovered, parent_slot });
        Ok(())
    }

    fn end(&mut self, slot: u64) {
        self.whole.insert(slot);
        self.contests.remove(slot);
        if let Some(mut ended) = self.slots.remove(&slot) {
            ended.heard.clear();
            self.ended_sets += ended.complete.len();
            self.ended.insert(slot, ended);
        }
        self.forget(slot);
        while self.ended_sets > ENDED_SETS_MAX
            && let Some((_, oldest)) = self.ended.pop_first()
        {
            self.ended_sets -= oldest.complete.len();
        }
    }

    fn keep_recent(&mut self, key: (u64, u32), assembly: Assembly) {
        self.recent_order.push_back(key);
        if let Some(before) = self.recent.insert(key, assembly) {
            self.recent_order.retain(|other| *other != key);
            self.recent_order.push_back(key);
            self.free(before);
        }
        if self.recent.len() > RECENT_MAX
            && let Some(oldest) = self.recent_order.pop_front().and_then(|oldest| self.recent.remove(&oldest))
        {
            self.free(oldest);
        }
    }

    fn forget_recent(&mut self, slot: u64) {
        self.recent_order.retain(|(other, _)| *other != slot);
        self.recent.retain(|(other, _), _| *other != slot);
    }

    /// The root of a set that is begun, or was completed a moment ago.
    pub fn set_root_of(&self, slot: u64, set_index: u32) -> Option<Hash> {
        let key = (slot, set_index);
        self.sets.get(&key).or_else(|| self.recent.get(&key)).map(|set| *set.root())
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

    /// Whether a slot's leader has contradicted itself.
    pub fn equivocates(&self, slot: u64) -> bool {
        self.told.contains(&slot) || self.slots.get(&slot).is_some_and(|incoming| incoming.equivocates)
    }

    /// What had to make room so far.
    pub fn evicted(&self) -> Evicted {
        self.evicted
    }

    /// What is missing of a slot, at most `count` shreds of it. Nothing is said to be missing of a set that was first
    /// heard of, or a later one of its slot, less than `patience_ns` ago, unless by repair: it is on its way. As long
    /// as that counts for the end of a slot.
    pub fn missing(&self, slot: u64, now_ns: u64, patience_ns: u64, count: usize) -> Missing {
        let Some(incoming) = self.slots.get(&slot) else {
            return Missing { shreds: vec![], highest_from: Some(0) };
        };
        let is_due = |at: u64| now_ns.saturating_sub(at) >= patience_ns;
        // With one that is due all before it are.
        let due = incoming.heard.iter().rev().find(|(_, at)| is_due(**at)).map_or(0, |(set, _)| set / STEP + 1);
        let incomplete = (0..due).map(|number| number * STEP);
        let incomplete = incomplete.filter(|set| !incoming.complete.contains_key(set));
        let incomplete = incomplete.filter(|set| self.versions.is_next(slot, *set));
        let of_set = |set: u32| {
            let present = self.sets.get(&(slot, set)).map_or(0, Assembly::present);
            // With 32 of any the rest is recovered: no more than these are asked for.
            let lacks = DATA_PER_SET.saturating_sub(present.count_ones() as usize);
            (0..STEP).filter(move |place| present >> place & 1 == 0).map(move |place| set + place).take(lacks)
        };
        let shreds: Vec<u32> = incomplete.flat_map(of_set).take(count).collect();
        let is_open = incoming.last.is_none() && is_due(incoming.newest_ns);
        Missing { shreds, highest_from: is_open.then_some(incoming.highest + STEP) }
    }
}

impl Refused {
    /// How many reasons there are.
    pub const COUNT: usize = Self::Sender as usize + 1;
}

#[cfg(test)]
#[path = "receiver_tests.rs"]
mod tests;
