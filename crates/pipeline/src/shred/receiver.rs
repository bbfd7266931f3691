//! receiver: shreds of other leaders, checked, completed to sets, and known by what is missing.
//!
//! reads   datagrams, each from Turbine or asked for by repair; who leads a slot; which slot is final
//! writes  sets, once any 32 of their 64 shreds are there; what is missing of a slot; leaders that contradict
//!         themselves
//! memory  79 KiB a set that is begun, [`ReceiverConfig::sets_max`] of them; 72 B for each set of a slot that is
//!         complete; [`ReceiverConfig::slots_max`] slots; 8 B for each slot that is whole and not final
//! drops   what a rule forbids, and what there is no room for: each a [`Refused`] of its own, for the caller to count
//! source  `solana-ledger` 4.2.2, `shred/filter.rs`, `blockstore.rs`; `solana-turbine` 4.2.2, `sigverify_shreds.rs`;
//!         `docs/cluster-protocol.md`, section 2
//!
//! A leader's signature is checked once for each root that is claimed for a set; whatever hashes to a root that is
//! known to be signed is genuine. Memory is taken for what a leader has signed only.

use std::collections::{BTreeMap, BTreeSet};

use hearth_crypto::ed25519::{Verifier, VerifierConfig};
use hearth_crypto::reed_solomon::ReedSolomon;
use hearth_wire::shred::*;
use hearth_wire::{Hash, Pubkey};

use super::deshredder::{Assembly, merkle_root};
use super::set::FecSet;

/// Bytes for the tables of leaders' keys.
const TABLE_BYTES: usize = 4 << 20;
/// Slots beyond the final one from which shreds are taken, at least; half an epoch where that is more.
const SLOTS_AHEAD_MIN: u64 = 500;

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
    /// The set does not recover to what was signed, or is not chained to its neighbour.
    BrokenSet,
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
}

/// A set that has become complete.
pub struct Completed<'a> {
    /// All 64 shreds.
    pub set: &'a FecSet,
    /// The parent of its slot.
    pub parent_slot: u64,
    /// Bit i: shred i was recovered, and did not come.
    pub recovered: u64,
}

/// A slot of which not all is there.
#[derive(Clone, Debug)]
struct Incoming {
    leader: Pubkey,
    parent_slot: Option<u64>,
    /// When its newest set was first heard of.
    newest_ns: u64,
    /// The highest set that was heard of.
    highest: u32,
    /// The slot's last set, once it is known.
    last: Option<u32>,
    /// Roots of the sets that are complete, and what they are chained to.
    complete: BTreeMap<u32, (Hash, Hash)>,
    /// The leader has contradicted itself.
    equivocates: bool,
}

impl Incoming {
    fn is_whole(&self) -> bool {
        self.last.is_some_and(|last| self.complete.len() as u32 == last / DATA_PER_SET as u32 + 1)
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

/// Takes shreds.
pub struct Receiver {
    config: ReceiverConfig,
    code: ReedSolomon,
    verifier: Verifier,
    slots: BTreeMap<u64, Incoming>,
    /// Slots after the final one that have become whole here.
    whole: BTreeSet<u64>,
    sets: BTreeMap<(u64, u32), Assembly>,
    /// The set that was completed last, and what of it was recovered.
    done: Option<(Assembly, u64, u64)>,
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
            sets: BTreeMap::new(),
            done: None,
            root,
        }
    }

    /// Nothing of slots up to this one is wanted any more.
    pub fn set_root(&mut self, root: u64) {
        if root > self.root {
            self.root = root;
            self.slots = self.slots.split_off(&(root + 1));
            self.whole = self.whole.split_off(&(root + 1));
            self.sets = self.sets.split_off(&(root + 1, 0));
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
        let shred = self.filter(datagram, way)?;
        let (slot, set_index) = (shred.slot(), shred.set_index());
        let known = self.slots.get(&slot);
        if known.is_none() && (self.whole.contains(&slot) || is_whole(slot)) {
            return Err(Refused::Duplicate);
        }
        let leader = known.map(|known| known.leader).or_else(|| leader(slot)).ok_or(Refused::NoLeader)?;
        if leader == self.config.own {
            return Err(Refused::Own);
        }
        if self.sets.get(&(slot, set_index)).is_some_and(|set| set.has(&shred)) {
            return Err(Refused::Duplicate);
        }
        let root = merkle_root(&shred).ok_or(Refused::Proof)?;
        self.check_root(&shred, &root, &leader)?;
        self.note_slot(&shred, leader, now_ns)?;
        if known_root(&self.slots, slot, set_index).is_some() {
            return Err(Refused::Duplicate);
        }
        if !self.sets.contains_key(&(slot, set_index)) && self.sets.len() >= self.config.sets_max {
            return Err(Refused::NoRoom);
        }
        let set = self.sets.entry((slot, set_index)).or_insert_with(|| Assembly::begin(&shred, root));
        if set.present() >> shred.shard_index() & 1 == 1 {
            return Err(Refused::Duplicate);
        }
        if !set.agrees(&shred, &root) {
            // One root and two chained roots or variants: they are under the root, so a proof would not have led to it.
            return Err(Refused::Rules);
        }
        set.keep(&shred);
        let completes = set.is_enough();
        if completes {
            self.complete(slot, set_index)?;
        }
        Ok(Taken { slot, leader, set_index, completes })
    }

    /// The set that the last shred completed.
    pub fn completed(&self) -> Option<Completed<'_>> {
        let (assembly, recovered, parent_slot) = self.done.as_ref()?;
        Some(Completed { set: assembly.set(), parent_slot: *parent_slot, recovered: *recovered })
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

    /// Whether the leader has signed this root for this set, and no other.
    fn check_root(&mut self, shred: &Shred<'_>, root: &Hash, leader: &Pubkey) -> Result<(), Refused> {
        let (slot, set_index) = (shred.slot(), shred.set_index());
        let begun = self.sets.get(&(slot, set_index)).map(|set| (*set.root(), set.signature()));
        if let Some((known, signature)) = &begun
            && known == root
        {
            return if *signature == shred.signature() { Ok(()) } else { Err(Refused::Signature) };
        }
        let known = begun.map(|(root, _)| root).or_else(|| known_root(&self.slots, slot, set_index));
        if known == Some(*root) {
            return Err(Refused::Duplicate);
        }
        self.verifier.verify(leader, &shred.signature(), root).map_err(|_| Refused::Signature)?;
        if known.is_none() {
            return Ok(());
        }
        if let Some(incoming) = self.slots.get_mut(&slot) {
            incoming.equivocates = true;
        }
        Err(Refused::Equivocation)
    }

    /// What a genuine shred says of its slot.
    fn note_slot(&mut self, shred: &Shred<'_>, leader: Pubkey, now_ns: u64) -> Result<(), Refused> {
        if !self.slots.contains_key(&shred.slot()) && self.slots.len() >= self.config.slots_max {
            // The newest can wait: all before it is needed first.
            let newest = *self.slots.keys().next_back().expect("there is no room beside at least one");
            if newest <= shred.slot() {
                return Err(Refused::NoRoom);
            }
            self.forget(newest);
        }
        let set_index = shred.set_index();
        let incoming = self.slots.entry(shred.slot()).or_insert_with(|| Incoming {
            leader,
            parent_slot: None,
            newest_ns: now_ns,
            highest: set_index,
            last: None,
            complete: BTreeMap::new(),
            equivocates: false,
        });
        let contradicts = |incoming: &mut Incoming| {
            incoming.equivocates = true;
            Err(Refused::Equivocation)
        };
        // What contradicts says nothing of the block that is taken.
        if incoming.last.is_some_and(|last| set_index > last) {
            return contradicts(incoming);
        }
        if let Some(parent) = shred.parent_slot() {
            if incoming.parent_slot.is_some_and(|known| known != parent) {
                return contradicts(incoming);
            }
            incoming.parent_slot = Some(parent);
        }
        if shred.ends_slot() {
            if incoming.last.is_some_and(|last| last != set_index) || incoming.highest > set_index {
                return contradicts(incoming);
            }
            incoming.last = Some(set_index);
        }
        if set_index > incoming.highest {
            (incoming.highest, incoming.newest_ns) = (set_index, now_ns);
        }
        Ok(())
    }

    fn forget(&mut self, slot: u64) {
        self.slots.remove(&slot);
        let later = self.sets.split_off(&(slot + 1, 0));
        self.sets.split_off(&(slot, 0));
        self.sets.extend(later);
    }

    /// Recovers what did not come, and keeps the set to be handed out.
    fn complete(&mut self, slot: u64, set_index: u32) -> Result<(), Refused> {
        let mut assembly = self.sets.remove(&(slot, set_index)).expect("a shred of it was just kept");
        let recovered = !assembly.present();
        assembly.recover(&self.code).map_err(|_| Refused::BrokenSet)?;
        let incoming = self.slots.get_mut(&slot).expect("its slot was just noted");
        let header = assembly.set().header();
        let parent_slot = slot - u64::from(header.parent_offset);
        let contradicts = incoming.parent_slot.is_some_and(|parent| parent != parent_slot)
            || incoming.last.is_some_and(|last| header.ends_slot != (last == set_index))
            || (header.ends_slot && incoming.highest > set_index);
        let (root, chained) = (*assembly.set().root(), *assembly.set().chained_root());
        let step = DATA_PER_SET as u32;
        let before = set_index.checked_sub(step).and_then(|index| incoming.complete.get(&index));
        let after = incoming.complete.get(&(set_index + step));
        let unchained =
            before.is_some_and(|(before, _)| *before != chained) || after.is_some_and(|(_, of)| *of != root);
        if contradicts || unchained {
            incoming.equivocates |= contradicts;
            return Err(if contradicts { Refused::Equivocation } else { Refused::BrokenSet });
        }
        incoming.parent_slot = Some(parent_slot);
        if header.ends_slot {
            incoming.last = Some(set_index);
        }
        incoming.complete.insert(set_index, (root, chained));
        if incoming.is_whole() {
            self.forget(slot);
            self.whole.insert(slot);
        }
        self.done = Some((assembly, recovered, parent_slot));
        Ok(())
    }

    /// Slots of which something is known and not all is there, ascending.
    pub fn slots(&self) -> impl Iterator<Item = u64> {
        self.slots.keys().copied()
    }

    /// The parent of such a slot, once it is known.
    pub fn parent(&self, slot: u64) -> Option<u64> {
        self.slots.get(&slot)?.parent_slot
    }

    /// Whether a slot's leader has contradicted itself.
    pub fn equivocates(&self, slot: u64) -> bool {
        self.slots.get(&slot).is_some_and(|incoming| incoming.equivocates)
    }

    /// What is missing of a slot, at most `count` shreds of it. Nothing is said to be missing of a slot of which
    /// something new was
    /// heard less than `patience_ns` ago: it is on its way.
    pub fn missing(&self, slot: u64, now_ns: u64, patience_ns: u64, count: usize) -> Missing {
        let Some(incoming) = self.slots.get(&slot) else {
            return Missing { shreds: vec![], highest_from: Some(0) };
        };
        if now_ns.saturating_sub(incoming.newest_ns) < patience_ns {
            return Missing { shreds: vec![], highest_from: None };
        }
        let step = DATA_PER_SET as u32;
        let incomplete = (0..=incoming.highest / step).map(|number| number * step);
        let incomplete = incomplete.filter(|set| !incoming.complete.contains_key(set));
        let of_set = |set: u32| {
            let present = self.sets.get(&(slot, set)).map_or(0, Assembly::present);
            // With 32 of any the rest is recovered: no more than these are asked for.
            let lacks = DATA_PER_SET.saturating_sub(present.count_ones() as usize);
            (0..step).filter(move |place| present >> place & 1 == 0).map(move |place| set + place).take(lacks)
        };
        let shreds: Vec<u32> = incomplete.flat_map(of_set).take(count).collect();
        let highest_from = incoming.last.is_none().then_some(incoming.highest + step);
        Missing { shreds, highest_from }
    }
}

impl Refused {
    /// How many reasons there are.
    pub const COUNT: usize = Self::BrokenSet as usize + 1;
}

/// The root of a set that is complete.
fn known_root(slots: &BTreeMap<u64, Incoming>, slot: u64, set_index: u32) -> Option<Hash> {
    slots.get(&slot)?.complete.get(&set_index).map(|(root, _)| *root)
}

#[cfg(test)]
#[path = "receiver_tests.rs"]
mod tests;
