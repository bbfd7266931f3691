//! Puts many changes into tries at once: the shape of the result, before anything is hashed.
//!
//! reads   only the arena's nodes on the way to each change
//! memory  an entry for each node that is new or changed; values of new leaves

use super::{Arena, Change, Child, Key, Leaf, Source, UNCHANGED, common, nibble, nibbles};

/// No entry at this nibble.
pub(super) const EMPTY: u32 = u32::MAX;
/// The old node's child at this nibble, unchanged.
pub(super) const OLD: u32 = u32::MAX - 1;
/// There is no old node.
pub(super) const NONE: u32 = u32::MAX;

/// A node that will be new, or other than it was.
pub(super) enum Entry<L> {
    /// A leaf, with where its value is.
    Leaf { key: Key, leaf: L, value: std::ops::Range<usize> },
    /// A branch after a prefix: at each nibble nothing, the child that the old node has there, or an entry. One that
    /// `stays` is the old node with other children at the same nibbles.
    Branch { prefix: Vec<u8>, old: u32, old_mask: u16, stays: bool, slots: [u32; 16] },
}

/// The contents of a place in a trie.
#[derive(Clone, Copy)]
pub(crate) enum PlaceContents<L> {
    /// The place is empty.
    Empty,
    /// A node of the arena.
    Old(Child<L>),
    /// The number of a new entry.
    New(u32),
}

impl<L> From<Option<Child<L>>> for PlaceContents<L> {
    fn from(child: Option<Child<L>>) -> Self {
        child.map_or(Self::Empty, Self::Old)
    }
}

pub(super) struct Batch<'a, L> {
    pub(super) arena: &'a Arena<L>,
    pub(super) entries: Vec<Entry<L>>,
    pub(super) values: Vec<u8>,
    /// Numbers of nodes that are not part of the result.
    pub(super) retired: Vec<u32>,
    /// The keys of the leaves that changes meet.
    pub(super) met: OldLeaves<L>,
}

/// Old leaves with their keys.
pub(super) type OldLeaves<L> = Vec<(L, Key)>;

impl<'a, L: Leaf> Batch<'a, L> {
    pub(super) fn new(arena: &'a Arena<L>) -> Self {
        Self { arena, entries: Vec::new(), values: Vec::new(), retired: Vec::new(), met: Vec::new() }
    }

    /// Makes room for so many changes: about half as many branches change with their leaves, and an account's value has
    /// some 80 bytes.
    pub(super) fn reserve(&mut self, changes: usize) {
        self.entries.reserve(changes + changes / 2);
        self.values.reserve(80 * changes);
    }

    /// Puts `changes`, sorted by key and of one key each, below the place `at`, which is `depth` nibbles deep.
    pub(super) fn apply<S: Source<L>>(
        &mut self,
        at: PlaceContents<L>,
        depth: usize,
        changes: &[Change<L>],
        source: &S,
    ) -> PlaceContents<L> {
        if changes.is_empty() {
            return at;
        }
        match at {
            PlaceContents::Old(Child::Node { mask, id, .. }) => {
                let prefix = self.arena.get(id).prefix;
                match self.open(prefix, (id, mask), depth, changes, source, false) {
                    Some(at) => at,
                    None => at,
                }
            }
            PlaceContents::Old(Child::Leaf(_, old)) => self.beside_leaf(at, old, depth, changes, source),
            PlaceContents::Empty => {
                if let [Change { key, leaf, live: true, at }] = changes {
                    return self.leaf(*key, leaf.replacing(None), *at, source);
                }
                let live = changes
                    .iter()
                    .filter(|change| change.live)
                    .map(|change| Change { leaf: change.leaf.replacing(None), ..*change });
                self.build(depth, &live.collect::<Vec<_>>(), source)
            }
            PlaceContents::New(_) => unreachable!("a place is changed once"),
        }
    }

    fn beside_leaf<S: Source<L>>(
        &mut self,
        at: PlaceContents<L>,
        old: L,
        depth: usize,
        changes: &[Change<L>],
        source: &S,
    ) -> PlaceContents<L> {
        if let [only] = changes
            && only.live
        {
            if only.leaf.same(&old) {
                return self.leaf(only.key, only.leaf.replacing(Some(&old)), only.at, source);
            }
            let one = Change { leaf: only.leaf.replacing(None), ..*only };
            let other = Change { key: self.key_of(&old, source), leaf: old, live: true, at: UNCHANGED };
            let pair = if one.key < other.key { [one, other] } else { [other, one] };
            return self.build(depth, &pair, source);
        }
        let replaced = changes.iter().any(|change| change.leaf.same(&old));
        if !replaced && changes.iter().all(|change| !change.live) {
            return at;
        }
        let mut after: Vec<Change<L>> = Vec::with_capacity(changes.len() + 1);
        after.extend(changes.iter().filter(|change| change.live).map(|change| {
            let before = change.leaf.same(&old).then_some(&old);
            Change { leaf: change.leaf.replacing(before), ..*change }
        }));
        if !replaced {
            let key = self.key_of(&old, source);
            let place = after.partition_point(|change| change.key < key);
            after.insert(place, Change { key, leaf: old, live: true, at: UNCHANGED });
        }
        self.build(depth, &after, source)
    }

    /// A place with nothing but `leaves`.
    fn build<S: Source<L>>(&mut self, depth: usize, leaves: &[Change<L>], source: &S) -> PlaceContents<L> {
        let (first, last) = match leaves {
            [] => return PlaceContents::Empty,
            [only] => return self.leaf(only.key, only.leaf, only.at, source),
            [first, .., last] => (first, last),
        };
        let branch = (depth..64).find(|at| nibble(&first.key, *at) != nibble(&last.key, *at));
        let branch = branch.expect("keys are different");
        let mut slots = [EMPTY; 16];
        for group in leaves.chunk_by(|a, b| nibble(&a.key, branch) == nibble(&b.key, branch)) {
            let at = self.build(branch + 1, group, source);
            slots[usize::from(nibble(&group[0].key, branch))] = code(&at);
        }
        let prefix = nibbles(&first.key, depth, branch);
        self.push(Entry::Branch { prefix, old: NONE, old_mask: 0, stays: false, slots })
    }

    /// Applies changes below the branch `old`, whose path still has the nibbles `prefix`. Returns `None` if nothing
    /// changes; a `moved` node changes in any case.
    fn open<S: Source<L>>(
        &mut self,
        prefix: &[u8],
        old: (u32, u16),
        depth: usize,
        changes: &[Change<L>],
        source: &S,
        moved: bool,
    ) -> Option<PlaceContents<L>> {
        let live = changes.iter().filter(|change| change.live && !prefix.is_empty());
        let shared = live.map(|change| common(&change.key, depth, prefix)).min().unwrap_or(prefix.len());
        let within = |change: &Change<L>| common(&change.key, depth, &prefix[..shared]) == shared;
        let from = changes.iter().position(within).unwrap_or(changes.len());
        let to = changes.iter().rposition(within).map_or(from, |last| last + 1);
        let branch = depth + shared;
        let groups = changes[from..to].chunk_by(|a, b| nibble(&a.key, branch) == nibble(&b.key, branch));
        let digit = |group: &[Change<L>]| nibble(&group[0].key, branch);
        if shared < prefix.len() {
            // The extension is split: what was below it hangs at one nibble of a new branch.
            let mut slots = [EMPTY; 16];
            let (kept, mut below) = (prefix[shared], None);
            for group in groups {
                let at = if digit(group) == kept {
                    below = self.open(&prefix[shared + 1..], old, branch + 1, group, source, true);
                    continue;
                } else {
                    self.apply(PlaceContents::Empty, branch + 1, group, source)
                };
                slots[usize::from(digit(group))] = code(&at);
            }
            if below.is_none() {
                below = self.open(&prefix[shared + 1..], old, branch + 1, &[], source, true);
            }
            slots[usize::from(kept)] = below.as_ref().map_or(EMPTY, code);
            return Some(self.close(prefix[..shared].to_vec(), (NONE, 0), false, slots, source));
        }
        let (id, mask) = old;
        let node = self.arena.get(id);
        let mut slots = [EMPTY; 16];
        for (at, slot) in slots.iter_mut().enumerate() {
            *slot = if mask & (1 << at) != 0 { OLD } else { EMPTY };
        }
        let mut changed = moved;
        for group in groups {
            let digit = digit(group);
            let before = PlaceContents::from(node.child(mask, digit).copied());
            let after = self.apply(before, branch + 1, group, source);
            changed |= code(&after) != slots[usize::from(digit)];
            slots[usize::from(digit)] = code(&after);
        }
        if !changed {
            return None;
        }
        let stays = !moved && slots.iter().zip(0..).all(|(slot, at)| (*slot != EMPTY) == (mask & (1 << at) != 0));
        if !stays {
            self.retired.push(id);
        }
        Some(self.close(prefix.to_vec(), old, stays, slots, source))
    }

    /// Makes a branch of the remaining slots: with one child it is not a branch.
    fn close<S: Source<L>>(
        &mut self,
        prefix: Vec<u8>,
        old: (u32, u16),
        stays: bool,
        slots: [u32; 16],
        source: &S,
    ) -> PlaceContents<L> {
        let mut there = slots.iter().enumerate().filter(|(_, slot)| **slot != EMPTY);
        let only = match (there.next(), there.next()) {
            (None, _) => return PlaceContents::Empty,
            (Some((digit, slot)), None) => (digit as u8, *slot),
            _ => return self.push(Entry::Branch { prefix, old: old.0, old_mask: old.1, stays, slots }),
        };
        let (digit, slot) = only;
        let mut path = prefix;
        path.push(digit);
        if slot != OLD {
            if let Entry::Branch { prefix, old, stays, .. } = &mut self.entries[slot as usize] {
                prefix.splice(0..0, path);
                if std::mem::take(stays) {
                    self.retired.push(*old);
                }
            }
            return PlaceContents::New(slot);
        }
        let child = *self.arena.get(old.0).child(old.1, digit).expect("the slot says that it is there");
        match child {
            Child::Leaf(_, leaf) => self.leaf(self.key_of(&leaf, source), leaf, UNCHANGED, source),
            Child::Node { id, mask, .. } => {
                path.extend_from_slice(self.arena.get(id).prefix);
                self.retired.push(id);
                let slots = std::array::from_fn(|at| if mask & (1 << at) != 0 { OLD } else { EMPTY });
                self.push(Entry::Branch { prefix: path, old: id, old_mask: mask, stays: false, slots })
            }
        }
    }

    /// Returns the key of an old leaf: most were found, and hashed together, before.
    fn key_of<S: Source<L>>(&self, leaf: &L, source: &S) -> Key {
        let met = self.met.binary_search_by(|(other, _)| other.order(leaf));
        met.map_or_else(|_| source.key(leaf), |at| self.met[at].1)
    }

    fn leaf<S: Source<L>>(&mut self, key: Key, leaf: L, at: u32, source: &S) -> PlaceContents<L> {
        let from = self.values.len();
        source.value(&leaf, at, &mut self.values);
        self.push(Entry::Leaf { key, leaf, value: from..self.values.len() })
    }

    fn push(&mut self, entry: Entry<L>) -> PlaceContents<L> {
        self.entries.push(entry);
        PlaceContents::New(u32::try_from(self.entries.len() - 1).expect("fewer entries than 2^32"))
    }
}

fn code<L>(at: &PlaceContents<L>) -> u32 {
    match at {
        PlaceContents::Empty => EMPTY,
        PlaceContents::Old(_) => OLD,
        PlaceContents::New(entry) => *entry,
    }
}
