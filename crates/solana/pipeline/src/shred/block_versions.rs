//! block_versions: of a slot whose leader made two blocks one is taken, and no mixture.
//!
//! reads   the roots of sets, each with the root of the set before; what was dumped
//! writes  whether a set may begin
//! memory  68 B a set of [`SLOTS_MAX`] slots, and 32 B for each of [`DUMPED_MAX`] sets of a slot's dumped blocks:
//!         [`memory`]
//! drops   sets of the block that was dumped, and those that are not chained to what is taken: told to the caller;
//!         roots of dumped blocks that there is no room for: [`Versions::forgotten`]
//! source  our own; `docs/cluster-protocol.md`, sections 2.7 and 6.7, for what a node must be able to do
//!
//! A set's leaves name the root of the set before, so sets of two blocks are chained to each other only where the
//! blocks begin alike. Of a slot whose leader was honest nothing is asked but that neighbours are chained. Once sets of
//! two blocks were found in a slot, or its block was dumped, it is built anew: from one set that is not of the block
//! dumped, downwards and upwards, each set chained to the one that is there.
//! One that others do not have, since they answer with another ([`Contests`](super::equivocation::Contests)) or not at
//! all, is built anew from the first set that any of them answers with.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use hearth_mutation::{Mutation, active};
use hearth_wire::Hash;
use hearth_wire::shred::DATA_PER_SET;

/// Slots of which more is known than that neighbours are chained.
pub(super) const SLOTS_MAX: usize = 64;
/// Roots of dumped blocks that are remembered of one slot: of two blocks of the largest size, which have 1,024 sets.
const DUMPED_MAX: usize = 2_048;
/// From a set's index to that of the next.
const STEP: u32 = DATA_PER_SET as u32;

/// The root of a set, and that of the set before it.
pub(super) type Link = (Hash, Hash);

/// Which block of a slot is taken.
#[derive(Clone, Debug)]
struct Version {
    taken: Taken,
    /// Roots of blocks that were dumped, by block, the newest last: none of these is what a block is built from.
    dumped: VecDeque<BTreeSet<Hash>>,
}

impl Version {
    fn is_dumped(&self, root: &Hash) -> bool {
        self.dumped.iter().any(|block| block.contains(root))
    }

    fn dumped_roots(&self) -> usize {
        self.dumped.iter().map(BTreeSet::len).sum()
    }

    /// Remembers the roots of a dumped block, as far as there is room. Those of older blocks give way: a block that
    /// comes back is dumped again. Returns how many roots are forgotten.
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

/// What is taken.
#[derive(Clone, Debug)]
enum Taken {
    /// Nothing yet.
    Nothing,
    /// Nothing yet; then what comes by repair. What a leader sends on its own may be of any of its blocks.
    Answers,
    /// The block that these sets are of: a chain without gaps.
    Chain(BTreeMap<u32, Link>),
}

/// A set may not begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Barred {
    /// It is not of the block that is taken, as far as is known.
    Other,
    /// It and a neighbour that is there are of two blocks: the slot has to be built anew.
    Torn,
}

/// Which blocks are taken.
#[derive(Debug, Default)]
pub(super) struct Versions {
    by_slot: BTreeMap<u64, Version>,
    forgotten: u64,
}

/// Bytes that the versions take at most where a block has `sets` sets. Two entries' worth for each: a tree's nodes are
/// half full at worst.
pub(super) const fn memory(sets: usize) -> usize {
    SLOTS_MAX * 2 * (sets * size_of::<(u32, Link)>() + DUMPED_MAX * size_of::<Hash>())
}

/// Whether a set fits between its neighbours.
fn fits(known: &impl Fn(u32) -> Option<Link>, set: u32, (root, chained): Link) -> bool {
    if active(Mutation::UnchainedSet) {
        return true;
    }
    let below = set.checked_sub(STEP).and_then(known);
    below.is_none_or(|(root, _)| root == chained) && known(set + STEP).is_none_or(|(_, of)| of == root)
}

impl Versions {
    /// Whether a set may begin that the leader has signed; `is_answer` says whether the shred came by repair, `known`
    /// what is there of the slot.
    pub fn admit(
        &mut self,
        (slot, set): (u64, u32),
        link: Link,
        is_answer: bool,
        known: impl Fn(u32) -> Option<Link>,
    ) -> Result<(), Barred> {
        let Some(version) = self.by_slot.get_mut(&slot) else {
            return fits(&known, set, link).then_some(()).ok_or(Barred::Torn);
        };
        let is_dumped = version.is_dumped(&link.0) && !active(Mutation::DumpedAgain);
        let taken = &mut version.taken;
        match taken {
            Taken::Nothing | Taken::Answers if is_dumped => Err(Barred::Other),
            Taken::Answers if !is_answer => Err(Barred::Other),
            Taken::Nothing | Taken::Answers => {
                *taken = Taken::Chain([(set, link)].into());
                Ok(())
            }
            Taken::Chain(chain) => {
                if let Some(known) = chain.get(&set) {
                    return if *known == link { Ok(()) } else { Err(Barred::Other) };
                }
                let of_chain = |set: u32| chain.get(&set).copied();
                let touches = set.checked_sub(STEP).and_then(of_chain).or(of_chain(set + STEP)).is_some();
                if !touches || !fits(&of_chain, set, link) {
                    return Err(Barred::Other);
                }
                chain.insert(set, link);
                Ok(())
            }
        }
    }

    /// The block with these roots was dumped.
    pub fn dump(&mut self, slot: u64, dumped: BTreeSet<Hash>) {
        self.set(slot, Taken::Nothing, dumped);
    }

    /// Of the slot the block that others have is to be taken.
    pub fn seek(&mut self, slot: u64) {
        self.set(slot, Taken::Answers, BTreeSet::new());
    }

    /// Whether it may be another block that is to be taken: one is begun.
    pub fn is_open(&self, slot: u64) -> bool {
        self.by_slot.get(&slot).is_none_or(|version| matches!(version.taken, Taken::Chain(_)))
    }

    /// The slots that are built anew, and begun.
    pub fn rebuilt(&self) -> impl Iterator<Item = u64> {
        let is_begun = |version: &Version| matches!(version.taken, Taken::Chain(_));
        self.by_slot.iter().filter(move |(_, version)| is_begun(version)).map(|(slot, _)| *slot)
    }

    /// Sets of two blocks are there: the one stays of which the highest set is, down to where its chain ends.
    pub fn tear(&mut self, slot: u64, known: &BTreeMap<u32, Link>) {
        let mut chain: BTreeMap<u32, Link> = BTreeMap::new();
        for (set, link) in known.iter().rev() {
            let is_chained = chain.first_key_value().is_none_or(|(next, (_, of))| *next == set + STEP && *of == link.0);
            if !is_chained {
                break;
            }
            chain.insert(*set, *link);
        }
        self.set(slot, Taken::Chain(chain), BTreeSet::new());
    }

    /// What was dumped before stays so.
    fn set(&mut self, slot: u64, taken: Taken, dumped: BTreeSet<Hash>) {
        let version = self.by_slot.entry(slot).or_insert(Version { taken: Taken::Nothing, dumped: VecDeque::new() });
        version.taken = taken;
        self.forgotten += version.remember(dumped);
        while self.by_slot.len() > SLOTS_MAX
            && let Some((_, newest)) = self.by_slot.pop_last()
        {
            // The newest can wait: it is dumped again where need be.
            self.forgotten += newest.dumped_roots() as u64;
        }
    }

    /// Roots of dumped blocks that were forgotten for want of room so far.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Whether a set may be asked for: of a slot that is built anew those beside what is there.
    pub fn is_next(&self, slot: u64, set: u32) -> bool {
        match self.by_slot.get(&slot).map(|version| &version.taken) {
            None | Some(Taken::Nothing | Taken::Answers) => true,
            Some(Taken::Chain(chain)) => {
                let is_there = |set: u32| chain.contains_key(&set);
                is_there(set) || is_there(set + STEP) || set.checked_sub(STEP).is_some_and(is_there)
            }
        }
    }

    /// The slots that are or were built anew.
    pub fn slots(&self) -> impl Iterator<Item = u64> {
        self.by_slot.keys().copied()
    }

    /// Nothing of slots up to this one is wanted any more.
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
        assert_eq!(versions.admit((9, 3 * STEP), link(2, 3), true, known), Err(Barred::Torn));
        assert_eq!(versions.admit((9, 5 * STEP), link(2, 5), true, known), Err(Barred::Torn));
        assert_eq!(versions.admit((9, 6 * STEP), link(2, 6), true, known), Ok(()), "no neighbour");
    }

    #[test]
    fn after_a_dump_the_other_block_comes_whole() {
        // Both blocks have sets 0 and 1 in common; the last set is number 5.
        let mut versions = Versions::default();
        versions.dump(9, (0..6).map(|number| link(1, number).0).collect());
        for number in 0..6 {
            let set = u32::from(number) * STEP;
            assert!(versions.is_next(9, set));
            assert_eq!(versions.admit((9, set), link(1, number), true, NOTHING), Err(Barred::Other));
        }
        assert_eq!(versions.admit((9, 3 * STEP), link(2, 3), true, NOTHING), Ok(()));
        assert!(!versions.is_next(9, 5 * STEP) && versions.is_next(9, 4 * STEP) && versions.is_next(9, 2 * STEP));
        assert_eq!(
            versions.admit((9, 5 * STEP), link(2, 5), true, NOTHING),
            Err(Barred::Other),
            "not beside what is there"
        );
        assert_eq!(versions.admit((9, 4 * STEP), link(1, 4), true, NOTHING), Err(Barred::Other));
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
        assert_eq!(versions.admit((9, 0), link(1, 0), false, NOTHING), Err(Barred::Other));
        assert_eq!(versions.admit((9, 5 * STEP), link(2, 5), true, NOTHING), Ok(()));
        assert_eq!(versions.admit((9, 4 * STEP), link(1, 4), true, NOTHING), Err(Barred::Other));
        assert_eq!(versions.admit((9, 4 * STEP), link(2, 4), false, NOTHING), Ok(()));
        assert!(versions.is_open(9));
    }

    #[test]
    fn a_block_that_was_dumped_does_not_come_back_by_an_answer() {
        let mut versions = Versions::default();
        versions.dump(9, (3..6).map(|number| link(1, number).0).collect());
        assert_eq!(versions.admit((9, 5 * STEP), link(2, 5), true, NOTHING), Ok(()));
        assert_eq!(versions.rebuilt().collect::<Vec<_>>(), [9]);
        // Nobody answers with more of it.
        versions.seek(9);
        assert_eq!(versions.admit((9, 5 * STEP), link(1, 5), true, NOTHING), Err(Barred::Other));
        assert_eq!(versions.admit((9, 5 * STEP), link(3, 5), true, NOTHING), Ok(()));
    }

    /// The roots of a block with `count` sets.
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
        // More than any block has: the others give way, and of it as much is remembered as there is room for.
        versions.dump(9, roots(4, DUMPED_MAX + 5));
        assert_eq!(versions.by_slot[&9].dumped_roots(), DUMPED_MAX);
        assert_eq!(versions.forgotten(), (DUMPED_MAX / 2 + DUMPED_MAX + 5) as u64);
        // A dump of a block of which nothing is known.
        (0..10).for_each(|_| versions.dump(9, BTreeSet::new()));
        assert_eq!(versions.by_slot[&9].dumped.len(), 1);
    }

    #[test]
    fn of_a_mixture_the_end_stays() {
        let mut versions = Versions::default();
        let known = [(0, link(1, 0)), (4 * STEP, link(1, 4)), (6 * STEP, link(2, 6)), (7 * STEP, link(2, 7))];
        versions.tear(9, &known.into());
        assert_eq!(versions.admit((9, 5 * STEP), link(1, 5), true, NOTHING), Err(Barred::Other));
        assert_eq!(versions.admit((9, 5 * STEP), link(2, 5), true, NOTHING), Ok(()));
        assert_eq!(versions.admit((9, 4 * STEP), link(1, 4), true, NOTHING), Err(Barred::Other));
        for slot in 100..200 {
            versions.dump(slot, BTreeSet::new());
        }
        assert_eq!(versions.by_slot.len(), SLOTS_MAX);
        assert!(versions.by_slot.contains_key(&9), "the lowest stay");
    }
}
