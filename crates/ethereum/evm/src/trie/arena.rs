//! The nodes of tries, by number: one list for each number of children, so that nodes are not boxed one by one.
//!
//! memory  a node's children and nothing besides; the few prefixes in a map; numbers are reused. From 1,024 nodes of a
//!         size on in huge pages: each step down a trie touches another page
//! source  one box per node cost a quarter of the CPU time of blocks among ten million accounts: an allocator walks
//!         free lists through cold memory, and each step to the children first loaded an entry that was as cold as they
//!         were

use alloy_primitives::map::HashMap;
use hearth_crypto::prefetch::prefetch;
use hearth_ring::prefer_large_pages;
use parking_lot::Mutex;

use super::nodes::{COUNT_SHIFT, Nodes, Patch, count};
use super::{Child, Ref};

/// Set where a prefix comes before the branch.
const PREFIXED: u32 = 1 << 27;
const PLACES: u32 = PREFIXED;
/// Nodes of one size in the first chunk, in pages of the usual size, so that a small state stays small.
const FIRST: usize = 1 << 10;
/// Nodes in each later chunk, in huge pages.
const CHUNK: usize = 1 << 16;
/// Places of one size that change hands together.
const HANDFUL: usize = 64;
/// How many patches before its turn the place of a patch is loaded.
const PATCHES_AHEAD: usize = 16;
/// How many children there can be, and none.
const COUNTS: usize = 17;
/// Approximate bytes of a prefix besides its nibbles: its entry in the map, and the allocator's.
const PREFIX_COST: usize = 48;

/// A branch in the arena.
#[derive(Clone, Copy)]
pub(crate) struct Node<'a, L> {
    /// The children that exist, in order of their nibbles.
    pub(crate) children: &'a [Child<L>],
    /// Nibbles between where the node begins and its branch.
    pub(crate) prefix: &'a [u8],
}

impl<'a, L> Node<'a, L> {
    /// The child at `nibble`, where `mask` says which are there.
    pub(crate) fn child(&self, mask: u16, nibble: u8) -> Option<&'a Child<L>> {
        (mask & (1 << nibble) != 0).then(|| &self.children[before(mask, nibble)])
    }
}

/// How many children are before the one at `nibble`.
pub(crate) fn before(mask: u16, nibble: u8) -> usize {
    (mask & ((1 << nibble) - 1)).count_ones() as usize
}

/// Returns the chunk that holds a number's node, and where the node's children begin there.
fn place(id: u32) -> (usize, usize) {
    let place = (id & (PLACES - 1)) as usize;
    match place.checked_sub(FIRST) {
        None => (0, place * count(id)),
        Some(after) => (1 + after / CHUNK, after % CHUNK * count(id)),
    }
}

/// Places that no node has: by how many children.
#[derive(Default)]
struct Numbers {
    free: [Vec<u32>; COUNTS],
    next: [u32; COUNTS],
}

/// Places taken and not used yet.
#[derive(Default)]
pub(crate) struct ReservedNodes([Vec<u32>; COUNTS]);

/// Nodes by number. A number is taken before its node is put there.
pub(crate) struct Arena<L> {
    sizes: [Vec<Vec<Child<L>>>; COUNTS],
    prefixes: HashMap<u32, Box<[u8]>>,
    numbers: Mutex<Numbers>,
    size: usize,
}

impl<L: Copy> Arena<L> {
    pub(crate) fn new() -> Self {
        let sizes = std::array::from_fn(|_| Vec::new());
        Self { sizes, prefixes: HashMap::default(), numbers: Mutex::default(), size: 0 }
    }

    /// The node of this number, which must have been put there.
    pub(crate) fn get(&self, id: u32) -> Node<'_, L> {
        let (count, (chunk, from)) = (count(id), place(id));
        let children = &self.sizes[count][chunk][from..from + count];
        Node { children, prefix: self.prefix(id) }
    }

    /// Nibbles between where the node begins and its branch.
    fn prefix(&self, id: u32) -> &[u8] {
        if id & PREFIXED == 0 {
            return &[];
        }
        self.prefixes.get(&id).expect("its number says that it has one")
    }

    /// Takes a number for a node with this many children. Panics beyond 2^27 − 2 nodes of one size.
    pub(crate) fn take(&self, own: &mut ReservedNodes, count: usize, prefixed: bool) -> u32 {
        let own = &mut own.0[count];
        if own.is_empty() {
            let mut numbers = self.numbers.lock();
            let Numbers { free, next } = &mut *numbers;
            let (free, next) = (&mut free[count], &mut next[count]);
            own.extend(free.drain(free.len().saturating_sub(HANDFUL)..));
            if own.is_empty() {
                assert!(*next < PLACES - 2 - HANDFUL as u32, "fewer nodes of a size than 2^27");
                // The last one is used first, so neighbours are used in their order.
                own.extend((*next..*next + HANDFUL as u32).rev());
                *next += HANDFUL as u32;
            }
        }
        let place = own.pop().expect("a handful was taken");
        (count as u32 - 1) << COUNT_SHIFT | if prefixed { PREFIXED } else { 0 } | place
    }

    /// Frees reserved numbers that no node got.
    pub(crate) fn give_back(&self, own: ReservedNodes) {
        let mut numbers = self.numbers.lock();
        for (free, own) in numbers.free.iter_mut().zip(own.0) {
            free.extend(own);
        }
    }

    /// Frees numbers that have no node.
    pub(crate) fn give_back_ids(&self, ids: &[u32]) {
        let mut numbers = self.numbers.lock();
        for id in ids {
            numbers.free[count(*id)].push(id & (PLACES - 1));
        }
    }

    /// Puts nodes at numbers taken before.
    pub(crate) fn put(&mut self, nodes: Nodes<L>) {
        for (id, children) in nodes.iter() {
            let (count, (chunk, from)) = (count(id), place(id));
            let chunks = &mut self.sizes[count];
            while chunks.len() <= chunk {
                let first = chunks.is_empty();
                let new = Vec::with_capacity(count * if first { FIRST } else { CHUNK });
                if !first {
                    prefer_large_pages(&new);
                }
                chunks.push(new);
            }
            let chunk = &mut chunks[chunk];
            if chunk.len() < from + count {
                // No more than the room that it has from the beginning.
                chunk.resize(from + count, Child::Node { reference: Ref::EMPTY, mask: 0, id: 0 });
            }
            chunk[from..from + count].copy_from_slice(children);
            self.size += size_of_val(children);
        }
        for (id, prefix) in nodes.prefixes {
            self.size += PREFIX_COST + prefix.len();
            self.prefixes.insert(id, prefix);
        }
    }

    /// Puts children into the places of others; those are in `patches` afterwards.
    pub(crate) fn patch(&mut self, patches: &mut [Patch<L>]) {
        for at in 0..patches.len() {
            // In a large state each place is cold, and nothing here waits for the one before.
            if let Some(Patch { id, index, .. }) = patches.get(at + PATCHES_AHEAD) {
                let (chunk, from) = place(*id);
                prefetch(&self.sizes[count(*id)][chunk][from + usize::from(*index)]);
            }
            let Patch { id, index, child } = &mut patches[at];
            let (chunk, from) = place(*id);
            std::mem::swap(child, &mut self.sizes[count(*id)][chunk][from + usize::from(*index)]);
        }
    }

    /// Removes the nodes of these numbers, and frees the numbers.
    pub(crate) fn free(&mut self, ids: &[u32]) {
        for id in ids {
            self.size -= self.size_of(*id);
            if id & PREFIXED != 0 {
                self.prefixes.remove(id);
            }
        }
        self.give_back_ids(ids);
    }

    /// Bytes that a node takes.
    pub(crate) fn size_of(&self, id: u32) -> usize {
        let prefix = if id & PREFIXED == 0 { 0 } else { PREFIX_COST + self.prefix(id).len() };
        count(id) * size_of::<Child<L>>() + prefix
    }

    /// Bytes that all nodes take.
    pub(crate) fn size(&self) -> usize {
        self.size
    }
}
