//! The parts of tries: references, children; new nodes before they are in an arena, and patches that replace single
//! children of existing nodes.
//!
//! memory  60 B a child; 68 B a replaced child, while a version with it is kept

use std::sync::OnceLock;

use alloy_primitives::B256;
use hearth_crypto::keccak::keccak256;

const EMPTY_STRING: u8 = 0x80;
const HASH: u8 = EMPTY_STRING + 32;
const LIST: u8 = 0xc0;
/// Position of the bits in a node's number that say how many children there are, less one.
pub(super) const COUNT_SHIFT: u32 = 28;

/// A parent's reference to a node, as encoded within the parent: the node's own encoding if that is shorter than 32
/// bytes, else its hash with a prefix byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ref([u8; 33]);

impl Ref {
    /// A reference to no node.
    pub(crate) const EMPTY: Self = {
        let mut bytes = [0; 33];
        bytes[0] = EMPTY_STRING;
        Self(bytes)
    };

    /// The reference to the node with this hash.
    pub(crate) fn hash(hash: [u8; 32]) -> Self {
        let mut bytes = [HASH; 33];
        bytes[1..].copy_from_slice(&hash);
        Self(bytes)
    }

    /// The reference to a node that is encoded in fewer than 32 bytes: a list.
    pub(crate) fn short(rlp: &[u8]) -> Self {
        let mut bytes = [0; 33];
        bytes[..rlp.len()].copy_from_slice(rlp);
        Self(bytes)
    }

    /// The reference to the node encoded so.
    pub(crate) fn of(rlp: &[u8]) -> Self {
        if rlp.len() < 32 { Self::short(rlp) } else { Self::hash(keccak256(rlp)) }
    }

    /// Returns its encoding within the parent.
    pub(crate) fn encoded(&self) -> &[u8] {
        match self.0[0] {
            HASH => &self.0,
            EMPTY_STRING => &self.0[..1],
            list => &self.0[..=usize::from(list - LIST)],
        }
    }

    /// Returns the root of the trie with this as the topmost node: a hash even for a short node.
    pub(crate) fn root(&self) -> B256 {
        match &self.0 {
            [HASH, hash @ ..] => hash.into(),
            _ => keccak256(self.encoded()).into(),
        }
    }
}

/// A node as its parent has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Child<L> {
    /// A leaf: the parent's reference to it, and its identity.
    Leaf(Ref, L),
    /// A branch, after an extension where the node has a prefix: the reference is the extension's then.
    Node {
        /// How the parent refers to it.
        reference: Ref,
        /// A bit for each of the 16 children that exists.
        mask: u16,
        /// Its number in the arena.
        id: u32,
    },
}

const _: () = assert!(size_of::<Child<(alloy_primitives::Address, u32)>>() == 60);

impl<L> Child<L> {
    /// How the parent refers to it.
    pub(crate) fn reference(&self) -> &Ref {
        match self {
            Self::Leaf(reference, _) | Self::Node { reference, .. } => reference,
        }
    }
}

/// How many children the node of this number has.
pub(super) fn count(id: u32) -> usize {
    (id >> COUNT_SHIFT) as usize + 1
}

/// New nodes with their numbers.
pub(crate) struct Nodes<L> {
    ids: Vec<u32>,
    /// Each node's, as many as its number says.
    children: Vec<Child<L>>,
    /// The prefixes of the nodes that have one, with their numbers.
    pub(super) prefixes: Vec<(u32, Box<[u8]>)>,
}

impl<L> Default for Nodes<L> {
    fn default() -> Self {
        Self { ids: Vec::new(), children: Vec::new(), prefixes: Vec::new() }
    }
}

impl<L: Copy> Nodes<L> {
    /// Adds a node; its number must have been taken for as many children, and for a prefix if it has one.
    pub(crate) fn push(&mut self, id: u32, children: &[Child<L>], prefix: &[u8]) {
        debug_assert_eq!(count(id), children.len());
        self.ids.push(id);
        self.children.extend_from_slice(children);
        if !prefix.is_empty() {
            self.prefixes.push((id, prefix.into()));
        }
    }

    /// Returns the numbers of the nodes.
    pub(crate) fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// The numbers, each with its node's children.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &[Child<L>])> {
        let mut rest = self.children.as_slice();
        self.ids.iter().map(move |id| {
            let (children, after) = rest.split_at(count(*id));
            rest = after;
            (*id, children)
        })
    }
}

/// A child in the place of another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patch<L> {
    /// The number of the node that has the child.
    pub(super) id: u32,
    /// The index of the child.
    pub(super) index: u8,
    /// The child to put there; after the swap, the one that was there.
    pub(super) child: Child<L>,
}

/// The children that patches replaced, for reading older versions.
pub(crate) struct Undo<L> {
    patches: Vec<Patch<L>>,
    /// Places in the list by node; computed on first use.
    order: OnceLock<Vec<(u32, u32)>>,
}

impl<L: Copy> Undo<L> {
    /// Creates it from what was in the places of patches.
    pub(crate) fn new(patches: Vec<Patch<L>>) -> Self {
        Self { patches, order: OnceLock::new() }
    }

    /// Returns its size in bytes.
    pub(crate) fn size(&self) -> usize {
        self.patches.len() * (size_of::<Patch<L>>() + size_of::<(u32, u32)>())
    }

    /// Returns the order by node, and computes it on first use.
    pub(crate) fn order(&self) -> &[(u32, u32)] {
        self.order.get_or_init(|| {
            let mut order: Vec<(u32, u32)> = self.patches.iter().map(|patch| patch.id).zip(0..).collect();
            order.sort_unstable();
            order
        })
    }

    /// The children that were replaced: each one's node, and its place there.
    pub(crate) fn places(&self) -> impl Iterator<Item = (u32, u8)> {
        self.patches.iter().map(|patch| (patch.id, patch.index))
    }

    /// The child that was replaced there.
    pub(crate) fn child(&self, id: u32, index: u8) -> Option<Child<L>> {
        self.of(id).find(|patch| patch.index == index).map(|patch| patch.child)
    }

    /// Returns the replaced children of a node.
    pub(super) fn of(&self, id: u32) -> impl Iterator<Item = &Patch<L>> {
        let from = self.order().partition_point(|(other, _)| *other < id);
        let same = self.order()[from..].iter().take_while(move |(other, _)| *other == id);
        same.map(|(_, at)| &self.patches[*at as usize])
    }
}
