//! block_versions: ensures that a node stores one block, never a mixture, for a slot whose leader made two.
//!
//! reads   the roots of sets, each with the root of the previous set; which blocks were dumped
//! writes  whether a set may start
//! memory  68 B per set of [`SLOTS_MAX`] slots, and 32 B for each of [`DUMPED_MAX`] sets of a slot's dumped blocks:
//!         [`memory`]
//! drops   sets of the dumped block and sets not chained to the accepted ones, reported to the caller; roots of dumped
//!         blocks that exceed the limit: [`Versions::forgotten`]
//! source  the requirements in `docs/cluster-protocol.md`, sections 2.7 and 6.7
//!
//! A set's leaves include the root of the previous set, so sets of two blocks are chained to each other only where the
//! blocks share a prefix. For an honest leader's slot it is enough to check that neighbours are chained. Once sets of
//! two blocks were found in a slot, or its block was dumped, the slot is rebuilt: from one set that is not of the
//! dumped block, downwards and upwards, each set chained to an accepted neighbour. If other nodes do not have the
//! accepted block, because they answer repair with another ([`Contests`](super::equivocation::Contests)) or not at all,
//! the slot is rebuilt from the first set that any of them answers with.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use hearth_mutation::{Mutation, active};
use hearth_wire::Hash;
use hearth_wire::shred::DATA_PER_SET;

/// Slots for which more is tracked than that neighbours are chained.
pub(super) const SLOTS_MAX: usize = 64;
/// Remembered roots of dumped blocks per slot: those of two blocks of the maximum size, 1,024 sets.
const DUMPED_MAX: usize = 2_048;
/// Distance between the indices of consecutive sets.
const STEP: u32 = DATA_PER_SET as u32;

/// The root of a set, and the root of the previous set.
pub(super) type Link = (Hash, Hash);

/// The block of a slot that is accepted, and those that were dumped.
#[derive(Clone, Debug)]
struct Version {
    taken: AcceptRule,
    /// Roots of dumped blocks, by block, the newest last. No block is rebuilt from any of these.
    dumped: VecDeque<BTreeSet<Hash>>,
}

impl Version {
    fn is_dumped(&self, root: &Hash) -> bool {
        self.dumped.iter().any(|block| block.contains(root))
    }

    fn dumped_roots(&self) -> usize {
        self.dumped.iter().map(BTreeSet::len).sum()
    }

    /// Remembers the roots of a dumped block, as far as there is room. Roots of older blocks are forgotten first: a
    /// block that returns is dumped again. Returns how many roots were forgotten.
    fn remember(&mut self, mut roots: BTreeSet<Hash>) -> u64 {
        roots.retain(|root| !self.is_dumped(root));
        if roots.is_empty() {
            return 0;
        }
        let known = self.dumped_roots() + roots.len();
        while roots.len() > DUMPED_MAX {
            roots.pop_last();
        }
        while self.dumped_roots() + roots.len() > DUMPED_MAX {
            self.dumped.pop_front();
        }
        self.dumped.push_back(roots);
        (known - self.dumped_roots()) as u64
    }
}

/// The sets of a slot that may start.
#[derive(Clone, Debug)]
enum AcceptRule {
    /// No set may start yet.
    Nothing,
    /// Nothing yet, and only repair responses from now on: what an equivocating leader sends may belong to any of its
    /// blocks.
    Answers,
    /// The block of these sets, which form a chain without gaps.
    Chain(BTreeMap<u32, Link>),
}

/// Why a set may not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SetRefusal {
    /// It does not belong to the accepted block, as far as is known.
    Other,
    /// It and a neighbour already here belong to two blocks: the slot must be rebuilt.
    Torn,
}

/// The block that is accepted for each tracked slot.
#[derive(Debug, Default)]
pub(super) struct Versions {
    by_slot: BTreeMap<u64, Version>,
    forgotten: u64,
}

/// Maximum bytes of the versions if a block has `sets` sets. Each is counted as two entries, because tree nodes are
/// half full at worst.
pub(super) const fn memory(sets: usize) -> usize {
    SLOTS_MAX * 2 * (sets * size_of::<(u32, Link)>() + DUMPED_MAX * size_of::<Hash>())
}

/// Whether a set is chained to its neighbours.
fn fits(known: &impl Fn(u32) -> Option<Link>, set: u32, (root, chained): Link) -> bool {
    if active(Mutation::UnchainedSet) {
        return true;
    }
    let below = set.checked_sub(STEP).and_then(known);
    below.is_none_or(|(root, _)| root == chained) && known(set + STEP).is_none_or(|(_, of)| of == root)
}

impl Versions {
    /// Decides whether a set that the leader has signed may start. `is_answer` says whether the shred came by repair,
    /// and `known` returns the sets of the slot that are here.
    pub fn admit(
        &mut self,
        (slot, set): (u64, u32),
        link: Link,
        is_answer: bool,
        known: impl Fn(u32) -> Option<Link>,
    ) -> Result<(), SetRefusal> {
        let Some(version) = self.by_slot.get_mut(&slot) else {
            return fits(&known, set, link).then_some(()).ok_or(SetRefusal::Torn);
        };
        let is_dumped = version.is_dumped(&link.0) && !active(Mutation::DumpedAgain);
        let taken = &mut version.taken;
        match taken {
            AcceptRule::Nothing | AcceptRule::Answers if is_dumped => Err(SetRefusal::Other),
            AcceptRule::Answers if !is_answer => Err(SetRefusal::Other),
            AcceptRule::Nothing | AcceptRule::Answers => {
                *taken = AcceptRule::Chain([(set, link)].into());
                Ok(())
            }
            AcceptRule::Chain(chain) => {
                if let Some(known) = chain.get(&set) {
                    return if *known == link { Ok(()) } else { Err(SetRefusal::Other) };
                }
                let of_chain = |set: u32| chain.get(&set).copied();
                let touches = set.checked_sub(STEP).and_then(of_chain).or(of_chain(set + STEP)).is_some();
                if !touches || !fits(&of_chain, set, link) {
                    return Err(SetRefusal::Other);
                }
                chain.insert(set, link);
                Ok(())
            }
        }
    }

    /// Records that the block with these roots was dumped.
    pub fn dump(&mut self, slot: u64, dumped: BTreeSet<Hash>) {
        self.set(slot, AcceptRule::Nothing, dumped);
    }

    /// Makes the slot accept the block that other nodes have.
    pub fn seek(&mut self, slot: u64) {
        self.set(slot, AcceptRule::Answers, BTreeSet::new());
    }

    /// Whether repair responses can contest the accepted block: it has started, or the slot is not tracked.
    pub fn is_open(&self, slot: u64) -> bool {
        self.by_slot.get(&slot).is_none_or(|version| matches!(version.taken, AcceptRule::Chain(_)))
    }

    /// The slots whose rebuild has started.
    pub fn rebuilt(&self) -> impl Iterator<Item = u64> {
        let is_begun = |version: &Version| matches!(version.taken, AcceptRule::Chain(_));
        self.by_slot.iter().filter(move |(_, version)| is_begun(version)).map(|(slot, _)| *slot)
    }

    /// Handles sets of two blocks: keeps the block of the highest set, down to where its chain ends.
    pub fn tear(&mut self, slot: u64, known: &BTreeMap<u32, Link>) {
        let mut chain: BTreeMap<u32, Link> = BTreeMap::new();
        for (set, link) in known.iter().rev() {
            let is_chained = chain.first_key_value().is_none_or(|(next, (_, of))| *next == set + STEP && *of == link.0);
            if !is_chained {
                break;
            }
            chain.insert(*set, *link);
        }
        self.set(slot, AcceptRule::Chain(chain), BTreeSet::new());
    }

    /// Blocks dumped before stay dumped.
    fn set(&mut self, slot: u64, taken: AcceptRule, dumped: BTreeSet<Hash>) {
        let version =
            self.by_slot.entry(slot).or_insert(Version { taken: AcceptRule::Nothing, dumped: VecDeque::new() });
        version.taken = taken;
        self.forgotten += version.remember(dumped);
        while self.by_slot.len() > SLOTS_MAX
            && let Some((_, newest)) = self.by_slot.pop_last()
        {
            // The newest can wait: its block is dumped again if need be.
            self.forgotten += newest.dumped_roots() as u64;
        }
    }

    /// Roots of dumped blocks forgotten so far for lack of room.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Whether repair may ask for a set: in a rebuilt slot only for sets next to accepted ones.
    pub fn is_next(&self, slot: u64, set: u32) -> bool {
        match self.by_slot.get(&slot).map(|version| &version.taken) {
            None | Some(AcceptRule::Nothing | AcceptRule::Answers) => true,
            Some(AcceptRule::Chain(chain)) => {
                let is_there = |set: u32| chain.contains_key(&set);
                is_there(set) || is_there(set + STEP) || set.checked_sub(STEP).is_some_and(is_there)
            }
        }
    }

    /// The slots that were rebuilt or are being rebuilt.
    pub fn slots(&self) -> impl Iterator<Item = u64> {
        self.by_slot.keys().copied()
    }

    /// Forgets slots up to and including `root`.
    pub fn set_root(&mut self, root: u64) {
        self.by_slot = self.by_slot.split_off(&(root + 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(block: u8, number: u8) -> Link {
        let root = |number: u8| [if number < 3 { 0 } else { block }, number].repeat(16).try_into().unwrap();
        (root(number + 1), root(number))
    }

    const NOTHING: fn(u32) -> Option<Link> = |_| None;

    #[test]
    fn neighbours_must_be_chained() {
        let mut versions = Versions::default();
        let known = |set: u32| (set == 4 * STEP).then(|| link(1, 4));
        assert_eq!(versions.admit((9, 3 * STEP), link(1, 3), true, known), Ok(()));
        assert_eq!(versions.admit((9, 3 * STEP), link(2, 3), true, known), Err(SetRefusal::Torn));
        assert_eq!(versions.admit((9, 5 * STEP), link(2, 5), true, known), Err(SetRefusal::Torn));
        assert_eq!(versions.admit((9, 6 * STEP), link(2, 6), true, known), Ok(()), "no neighbour");
    }

    #[test]
    fn after_a_dump_the_other_block_comes_whole() {
        // Both blocks share sets 0 and 1; the last set is number 5.
        let mut versions = Versions::default();
        versions.dump(9, (0..6).map(|number| link(1, number).0).collect());
        for number in 0..6 {
            let set = u32::from(number) * STEP;
            assert!(versions.is_next(9, set));
            assert_eq!(versions.admit((9, set), link(1, number), true, NOTHING), Err(SetRefusal::Other));
        }
        assert_eq!(versions.admit((9, 3 * STEP), link(2, 3), true, NOTHING), Ok(()));
        assert!(!versions.is_next(9, 5 * STEP) && versions.is_next(9, 4 * STEP) && versions.is_next(9, 2 * STEP));
        assert_eq!(
            versions.admit((9, 5 * STEP), link(2, 5), true, NOTHING),
            Err(SetRefusal::Other),
            "not beside what is there"
        );
        assert_eq!(versions.admit((9, 4 * STEP), link(1, 4), true, NOTHING), Err(SetRefusal::Other));
        for number in [4, 5, 2, 1, 0] {
            assert_eq!(
                versions.admit((9, u32::from(number) * STEP), link(2, number), true, NOTHING),
                Ok(()),
                "{number}"
            );
        }
        assert_eq!(versions.admit((9, STEP), link(2, 1), true, NOTHING), Ok(()), "known");
        versions.set_root(9);
        assert_eq!(versions.admit((9, STEP), link(1, 1), true, NOTHING), Ok(()));
    }

    #[test]
    fn the_block_that_others_have_is_built_from_what_they_answer() {
        let mut versions = Versions::default();
        assert!(versions.is_open(9));
        versions.seek(9);
        assert!(versions.is_next(9, 0) && !versions.is_open(9));
        assert_eq!(versions.admit((9, 0), link(1, 0), false, NOTHING), Err(SetRefusal::Other));
        assert_eq!(versions.admit((9, 5 * STEP), link(2, 5), true, NOTHING), Ok(()));
        assert_eq!(versions.admit((9, 4 * STEP), link(1, 4), true, NOTHING), Err(SetRefusal::Other));
        assert_eq!(versions.admit((9, 4 * STEP), link(2, 4), false, NOTHING), Ok(()));
        assert!(versions.is_open(9));
    }

    #[test]
    fn a_block_that_was_dumped_does_not_come_back_by_an_answer() {
        let mut versions = Versions::default();
        versions.dump(9, (3..6).map(|number| link(1, number).0).collect());
        assert_eq!(versions.admit((9, 5 * STEP), link(2, 5), true, NOTHING), Ok(()));
        assert_eq!(versions.rebuilt().collect::<Vec<_>>(), [9]);
        // No peer answers with more of it.
        versions.seek(9);
        assert_eq!(versions.admit((9, 5 * STEP), link(1, 5), true, NOTHING), Err(SetRefusal::Other));
        assert_eq!(versions.admit((9, 5 * STEP), link(3, 5), true, NOTHING), Ok(()));
    }

    /// Makes the roots of a block with `count` sets.
    fn roots(block: u8, count: usize) -> BTreeSet<Hash> {
        let root = |number: usize| {
            let mut root = [block; 32];
            root[..8].copy_from_slice(&(number as u64).to_le_bytes());
            root
        };
        (0..count).map(root).collect()
    }

    #[test]
    fn dumped_roots_of_a_slot_are_bounded() {
        let mut versions = Versions::default();
        let blocks = [1, 2, 3].map(|block| roots(block, DUMPED_MAX / 2));
        for block in &blocks {
            versions.dump(9, block.clone());
        }
        assert_eq!(versions.by_slot[&9].dumped_roots(), DUMPED_MAX);
        assert_eq!(versions.forgotten(), DUMPED_MAX as u64 / 2, "those of the oldest");
        let is_dumped = |number: usize| blocks[number].iter().all(|root| versions.by_slot[&9].is_dumped(root));
        assert_eq!([0, 1, 2].map(is_dumped), [false, true, true]);
        // More than any block has: the other blocks' roots are forgotten, and as many of these are kept as fit.
        versions.dump(9, roots(4, DUMPED_MAX + 5));
        assert_eq!(versions.by_slot[&9].dumped_roots(), DUMPED_MAX);
        assert_eq!(versions.forgotten(), (DUMPED_MAX / 2 + DUMPED_MAX + 5) as u64);
        // Dumps of a block without any known roots.
        (0..10).for_each(|_| versions.dump(9, BTreeSet::new()));
        assert_eq!(versions.by_slot[&9].dumped.len(), 1);
    }

    #[test]
    fn of_a_mixture_the_end_stays() {
        let mut versions = Versions::default();
        let known = [(0, link(1, 0)), (4 * STEP, link(1, 4)), (6 * STEP, link(2, 6)), (7 * STEP, link(2, 7))];
        versions.tear(9, &known.into());
        assert_eq!(versions.admit((9, 5 * STEP), link(1, 5), true, NOTHING), Err(SetRefusal::Other));
        assert_eq!(versions.admit((9, 5 * STEP), link(2, 5), true, NOTHING), Ok(()));
        assert_eq!(versions.admit((9, 4 * STEP), link(1, 4), true, NOTHING), Err(SetRefusal::Other));
        for slot in 100..200 {
            versions.dump(slot, BTreeSet::new());
        }
        assert_eq!(versions.by_slot.len(), SLOTS_MAX);
        assert!(versions.by_slot.contains_key(&9), "the lowest stay");
    }
}
