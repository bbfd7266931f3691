//! The nodes of tries, by number.
//!
//! memory  24 B a number, and a box of children for each that is used; numbers are used again, and so are boxes: of
//!         those that are free [`SPARE_MAX`] bytes at most are kept
//! source  an allocator finds room for a box by walking lists through memory that nobody has touched for long: among
//!         ten million accounts that took a quarter of the CPU time of blocks, a sixth since boxes are kept

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use alloy_primitives::B256;
use hearth_crypto::keccak::keccak256;

const CHUNK_BITS: u32 = 14;
const CHUNK: usize = 1 << CHUNK_BITS;
/// What boxes may take that no node uses, bytes.
const SPARE_MAX: usize = 64 << 20;
/// Boxes of one size that change hands together.
const HANDFUL: usize = 64;

/// How a parent refers to a node: its encoding where that is shorter than 32 bytes, else the encoding's hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ref {
    len: u8,
    bytes: [u8; 32],
}

impl Ref {
    /// The reference to the node with this hash.
    pub(crate) fn hash(bytes: [u8; 32]) -> Self {
        Self { len: 32, bytes }
    }

    /// The reference to a node that is encoded in fewer than 32 bytes.
    pub(crate) fn short(rlp: &[u8]) -> Self {
        let mut bytes = [0; 32];
        bytes[..rlp.len()].copy_from_slice(rlp);
        Self { len: rlp.len() as u8, bytes }
    }

    /// The reference to the node encoded so.
    pub(crate) fn of(rlp: &[u8]) -> Self {
        if rlp.len() < 32 { Self::short(rlp) } else { Self::hash(keccak256(rlp)) }
    }

    /// Whether the node is within its parent.
    pub(crate) fn is_short(&self) -> bool {
        self.len < 32
    }

    /// The hash, or the encoding itself.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// The root of the trie of which this is the topmost node: a hash even where the node is short.
    pub(crate) fn root(&self) -> B256 {
        if self.is_short() { keccak256(self.bytes()).into() } else { self.bytes.into() }
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

/// A branch's children in order of their nibbles, and the nibbles of the extension before it.
#[derive(Debug)]
pub(crate) struct Node<L> {
    /// Only those that are there.
    pub(crate) children: Box<[Child<L>]>,
    prefix: Option<Box<Box<[u8]>>>,
}

impl<L> Default for Node<L> {
    fn default() -> Self {
        Self { children: Box::default(), prefix: None }
    }
}

impl<L> Node<L> {
    pub(crate) fn new(children: Box<[Child<L>]>, prefix: &[u8]) -> Self {
        Self { children, prefix: (!prefix.is_empty()).then(|| Box::new(prefix.into())) }
    }

    /// Nibbles between where the node begins and its branch.
    pub(crate) fn prefix(&self) -> &[u8] {
        self.prefix.as_ref().map_or(&[], |prefix| prefix)
    }

    /// The child at `nibble`, where `mask` says which are there.
    pub(crate) fn child(&self, mask: u16, nibble: u8) -> Option<&Child<L>> {
        let before = mask & ((1 << nibble) - 1);
        (mask & (1 << nibble) != 0).then(|| &self.children[before.count_ones() as usize])
    }

    /// Bytes that it takes.
    pub(crate) fn size(&self) -> usize {
        // The arena's entry, what the allocator adds, the children, and what a prefix takes.
        size_of::<Self>() + 16 + size_of_val(&*self.children) + self.prefix.as_ref().map_or(0, |p| 48 + p.len())
    }
}

#[derive(Default)]
struct Numbers {
    free: Vec<u32>,
    next: u32,
}

/// Boxes for children that no node uses, by how many they hold.
pub(super) struct Spare<L>([Vec<Box<[Child<L>]>>; 17]);

impl<L> Default for Spare<L> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Vec::new()))
    }
}

/// Nodes by number. A number is taken before its node is put there.
pub(crate) struct Arena<L> {
    chunks: Vec<Box<[Node<L>]>>,
    numbers: Mutex<Numbers>,
    spare: Mutex<Spare<L>>,
    /// Bytes of the boxes in `spare`, and of those that a batch has not given back.
    spare_size: AtomicUsize,
    size: usize,
}

impl<L> Arena<L> {
    pub(crate) fn new() -> Self {
        Self {
            chunks: Vec::new(),
            numbers: Mutex::default(),
            spare: Mutex::default(),
            spare_size: AtomicUsize::new(0),
            size: 0,
        }
    }

    /// The node of this number, which must have been put there.
    pub(crate) fn get(&self, id: u32) -> &Node<L> {
        &self.chunks[(id >> CHUNK_BITS) as usize][id as usize & (CHUNK - 1)]
    }

    /// Takes so many numbers. Panics beyond 2^32 − 2 nodes.
    pub(crate) fn take_ids(&self, count: usize) -> Vec<u32> {
        let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = numbers.free.len().saturating_sub(count);
        let mut ids = numbers.free.split_off(kept);
        while ids.len() < count {
            assert!(numbers.next < u32::MAX - 2, "fewer nodes than 2^32");
            ids.push(numbers.next);
            numbers.next += 1;
        }
        ids
    }

    /// Gives numbers back at which there is no node.
    pub(crate) fn give_back(&self, ids: impl IntoIterator<Item = u32>) {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner).free.extend(ids);
    }

    /// Puts nodes at numbers taken before.
    pub(crate) fn put(&mut self, nodes: Vec<(u32, Node<L>)>) {
        for (id, node) in nodes {
            let chunk = (id >> CHUNK_BITS) as usize;
            while self.chunks.len() <= chunk {
                self.chunks.push((0..CHUNK).map(|_| Node::default()).collect());
            }
            self.size += node.size();
            self.chunks[chunk][id as usize & (CHUNK - 1)] = node;
        }
    }

    /// A box with these children: one of `own`, of the arena's, or new.
    pub(super) fn boxed(&self, own: &mut Spare<L>, children: &[Child<L>]) -> Box<[Child<L>]>
    where
        L: Copy,
    {
        let own = &mut own.0[children.len()];
        if own.is_empty() {
            let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
            let all = &mut spare.0[children.len()];
            own.extend(all.drain(all.len().saturating_sub(HANDFUL)..));
        }
        match own.pop() {
            Some(mut used) => {
                used.copy_from_slice(children);
                self.spare_size.fetch_sub(size_of_val(&*used), Ordering::Relaxed);
                used
            }
            None => children.into(),
        }
    }

    /// Takes back what a batch did not use.
    pub(super) fn keep(&self, own: Spare<L>) {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        for (all, own) in spare.0.iter_mut().zip(own.0) {
            all.extend(own);
        }
    }

    /// Takes nodes away, but for their boxes as far as those are kept; they are given so that they can be dropped
    /// elsewhere.
    pub(crate) fn free(&mut self, ids: &[u32]) -> Vec<Node<L>> {
        let mut freed = Vec::new();
        let spare = self.spare.get_mut().unwrap_or_else(PoisonError::into_inner);
        let spare_size = self.spare_size.get_mut();
        for id in ids {
            let mut node = std::mem::take(&mut self.chunks[(id >> CHUNK_BITS) as usize][*id as usize & (CHUNK - 1)]);
            self.size -= node.size();
            let children = std::mem::take(&mut node.children);
            if *spare_size + size_of_val(&*children) <= SPARE_MAX && children.len() > 1 {
                *spare_size += size_of_val(&*children);
                spare.0[children.len()].push(children);
            } else {
                node.children = children;
            }
            if node.prefix.is_some() || !node.children.is_empty() {
                freed.push(node);
            }
        }
        self.give_back(ids.iter().copied());
        freed
    }

    /// Bytes that all nodes take.
    pub(crate) fn size(&self) -> usize {
        self.size
    }
}
