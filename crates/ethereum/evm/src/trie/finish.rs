//! Turns the shape of the result into nodes and patches: encoded and hashed from the deepest level up, the nodes of a
//! level together.

use hearth_crypto::keccak::keccak256_burst;

use super::arena::{ReservedNodes, before};
use super::batch::{Batch, EMPTY, Entry, OLD, PlaceContents};
use super::{Child, Leaf, Nodes, Patch, Ref, rlp};

/// Nodes encoded before they are hashed together: these stay in the nearest caches.
const TOGETHER: usize = 64;

/// The result of a batch.
pub(super) struct FinishedBatch<L> {
    /// The places' nodes, in the order of the places.
    pub(super) roots: Vec<Option<Child<L>>>,
    /// New nodes with their numbers.
    pub(super) nodes: Nodes<L>,
    /// Children in the places of others.
    pub(super) patches: Vec<Patch<L>>,
    /// Numbers of nodes that none of the roots leads to any more.
    pub(super) retired: Vec<u32>,
}

impl<L: Leaf> Batch<'_, L> {
    /// Hashes the new nodes below `places`, all of which are `depth` nibbles deep.
    pub(super) fn finish(self, places: &[PlaceContents<L>], depth: usize) -> FinishedBatch<L> {
        let mut levels: Vec<Vec<u32>> = Vec::new();
        for place in places {
            if let PlaceContents::New(entry) = place {
                self.visit(*entry, depth, &mut levels);
            }
        }
        let mut done: Vec<Option<Child<L>>> = vec![None; self.entries.len()];
        let mut level = Level::default();
        for (at, entries) in levels.iter().enumerate().rev() {
            for some in entries.chunks(TOGETHER) {
                level.encode(&self, some, at, &done);
                for (entry, child) in some.iter().zip(level.children.drain(..)) {
                    done[*entry as usize] = Some(child);
                }
            }
        }
        self.arena.give_back(level.taken);
        let roots = places.iter().map(|place| match place {
            PlaceContents::Empty => None,
            PlaceContents::Old(child) => Some(*child),
            PlaceContents::New(entry) => done[*entry as usize],
        });
        FinishedBatch { roots: roots.collect(), nodes: level.nodes, patches: level.patches, retired: self.retired }
    }

    /// Lists reachable entries by depth.
    fn visit(&self, entry: u32, depth: usize, levels: &mut Vec<Vec<u32>>) {
        if levels.len() <= depth {
            levels.resize_with(depth + 1, Vec::new);
        }
        levels[depth].push(entry);
        if let Entry::Branch { prefix, slots, .. } = &self.entries[entry as usize] {
            for slot in slots.iter().filter(|slot| **slot < OLD) {
                self.visit(*slot, depth + prefix.len() + 1, levels);
            }
        }
    }
}

/// Nodes on their way through the hash.
struct Level<L> {
    encoded: Vec<u8>,
    ends: Vec<usize>,
    /// Each node as its parent will have it; the reference is filled in last.
    children: Vec<Child<L>>,
    hashes: Vec<[u8; 32]>,
    /// The children of one new branch.
    gathered: Vec<Child<L>>,
    /// The new nodes so far.
    nodes: Nodes<L>,
    patches: Vec<Patch<L>>,
    taken: ReservedNodes,
}

impl<L> Default for Level<L> {
    fn default() -> Self {
        Self {
            encoded: Vec::new(),
            ends: Vec::new(),
            children: Vec::new(),
            hashes: Vec::new(),
            gathered: Vec::new(),
            nodes: Nodes::default(),
            patches: Vec::new(),
            taken: ReservedNodes::default(),
        }
    }
}

impl<L: Leaf> Level<L> {
    fn encode(&mut self, batch: &Batch<'_, L>, entries: &[u32], depth: usize, done: &[Option<Child<L>>]) {
        self.encoded.clear();
        self.ends.clear();
        for entry in entries {
            let child = match &batch.entries[*entry as usize] {
                Entry::Leaf { key, leaf, value } => {
                    rlp::leaf(key, depth, &batch.values[value.clone()], &mut self.encoded);
                    Child::Leaf(Ref::EMPTY, *leaf)
                }
                Entry::Branch { prefix, old, old_mask, stays, slots } => {
                    let from = self.encoded.len();
                    let (mask, id) = if *stays {
                        self.replace(batch, (*old, *old_mask), slots, done);
                        (*old_mask, *old)
                    } else {
                        self.create(batch, (*old, *old_mask), slots, done, prefix)
                    };
                    if !prefix.is_empty() {
                        let branch = Ref::of(&self.encoded[from..]);
                        self.encoded.truncate(from);
                        rlp::extension(prefix, &branch, &mut self.encoded);
                    }
                    Child::Node { reference: Ref::EMPTY, mask, id }
                }
            };
            self.children.push(child);
            self.ends.push(self.encoded.len());
        }
        self.hash();
    }

    /// Encodes a branch that has other children at the same nibbles.
    fn replace(&mut self, batch: &Batch<'_, L>, (id, mask): (u32, u16), slots: &[u32; 16], done: &[Option<Child<L>>]) {
        let mut references = rlp::spread(mask, batch.arena.get(id).children);
        for (at, slot) in slots.iter().enumerate().filter(|(_, slot)| **slot < OLD) {
            let child = done[*slot as usize].as_ref().expect("deeper levels are done");
            references[at] = Some(child.reference());
            self.patches.push(Patch { id, index: before(mask, at as u8) as u8, child: *child });
        }
        rlp::branch(&references, &mut self.encoded);
    }

    /// Encodes a new branch; returns which children it has, and its number.
    fn create(
        &mut self,
        batch: &Batch<'_, L>,
        old: (u32, u16),
        slots: &[u32; 16],
        done: &[Option<Child<L>>],
        prefix: &[u8],
    ) -> (u16, u32) {
        let mask = gather(batch, old, slots, done, &mut self.gathered);
        rlp::branch(&rlp::spread(mask, &self.gathered), &mut self.encoded);
        let id = batch.arena.take(&mut self.taken, self.gathered.len(), !prefix.is_empty());
        self.nodes.push(id, &self.gathered, prefix);
        (mask, id)
    }

    fn hash(&mut self) {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let spans: Vec<&[u8]> = starts.zip(&self.ends).map(|(from, to)| &self.encoded[from..*to]).collect();
        let long: Vec<&[u8]> = spans.iter().copied().filter(|span| span.len() >= 32).collect();
        self.hashes.resize(long.len(), [0; 32]);
        keccak256_burst(&long, &mut self.hashes);
        let mut hashes = self.hashes.iter();
        for (span, child) in spans.iter().zip(&mut self.children) {
            let found = match span.len() {
                0..32 => Ref::short(span),
                _ => Ref::hash(*hashes.next().expect("a hash for each long node")),
            };
            match child {
                Child::Leaf(reference, _) | Child::Node { reference, .. } => *reference = found,
            }
        }
    }
}

/// Collects a branch's children, from the old node and the new entries; returns which it has.
fn gather<L: Leaf>(
    batch: &Batch<'_, L>,
    (old, old_mask): (u32, u16),
    slots: &[u32; 16],
    done: &[Option<Child<L>>],
    children: &mut Vec<Child<L>>,
) -> u16 {
    let mut mask = 0;
    children.clear();
    let node = slots.contains(&OLD).then(|| batch.arena.get(old));
    for (at, slot) in slots.iter().enumerate() {
        let child = match *slot {
            EMPTY => continue,
            OLD => *node.and_then(|node| node.child(old_mask, at as u8)).expect("the slot says that it is there"),
            entry => done[entry as usize].expect("deeper levels are done"),
        };
        mask |= 1 << at;
        children.push(child);
    }
    mask
}
