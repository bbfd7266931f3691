//! What tries are made of: references, children; new nodes before they are in an arena, and what takes the place of
//! single children of nodes that are there.
//!
//! memory  60 B a child; a child replaced 68 B, as long as a version is kept that has it

use std::sync::OnceLock;

use alloy_primitives::B256;
use hearth_crypto::keccak::keccak256;

const EMPTY_STRING: u8 = 0x80;
const HASH: u8 = EMPTY_STRING + 32;
const LIST: u8 = 0xc0;
/// Where a number says how many children there are, less one.
pub(super) const COUNT_SHIFT: u32 = 28;

/// How a parent refers to a node, as it is within the parent's encoding: the node's own encoding where that is shorter
/// than 32 bytes, else its hash with the byte that says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ref([u8; 33]);

impl Ref {
    /// To no node.
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

    /// As it is within the parent.
    pub(crate) fn encoded(&self) -> &[u8] {
        match self.0[0] {
            HASH => &self.0,
            EMPTY_STRING => &self.0[..1],
            list => &self.0[..=usize::from(list - LIST)],
        }
    }

    /// The root of the trie of which this is the topmost node: a hash even where the node is short.
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
    /// A leaf, whole.
    Leaf(Ref, L),
    /// A branch, after an extension where the node has a prefix: the reference is the extension's then.
    Node {
        /// How the parent refers to it.
        reference: Ref,
        /// Which of the 16 children are there.
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
    /// Of those nodes that have one.
    pub(super) prefixes: Vec<(u32, Box<[u8]>)>,
}

impl<L> Default for Nodes<L> {
    fn default() -> Self {
        Self { ids: Vec::new(), children: Vec::new(), prefixes: Vec::new() }
    }
}

impl<L: Copy> Nodes<L> {
    /// Adds a node; its number must have been taken for as many children, and for a prefix where there is one.
    pub(crate) fn push(&mut self, id: u32, children: &[Child<L>], prefix: &[u8]) {
        debug_assert_eq!(count(id), children.len());
        self.ids.push(id);
        self.children.extend_from_slice(children);
        if !prefix.is_empty() {
            self.prefixes.push((id, prefix.into()));
        }
    }

    /// Their numbers.
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
    /// The node's number.
    pub(super) id: u32,
    /// Which of its children.
    pub(super) index: u8,
    /// The child.
    pub(super) child: Child<L>,
}

/// What patches have replaced, to look at older versions.
pub(crate) struct Undo<L> {
    patches: Vec<Patch<L>>,
    /// By node, each with its place above; made when somebody asks.
    order: OnceLock<Vec<(u32, u32)>>,
}

impl<L: Copy> Undo<L> {
    /// What was in the places of patches.
    pub(crate) fn new(patches: Vec<Patch<L>>) -> Self {
        Self { patches, order: OnceLock::new() }
    }

    /// Bytes that it takes.
    pub(crate) fn size(&self) -> usize {
        self.patches.len() * (size_of::<Patch<L>>() + size_of::<(u32, u32)>())
    }

    /// Finds out what was where, if nobody has before.
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

    /// What was replaced of a node.
    pub(super) fn of(&self, id: u32) -> impl Iterator<Item = &Patch<L>> {
        let from = self.order().partition_point(|(other, _)| *other < id);
        let same = self.order()[from..].iter().take_while(move |(other, _)| *other == id);
        same.map(|(_, at)| &self.patches[*at as usize])
    }
}
