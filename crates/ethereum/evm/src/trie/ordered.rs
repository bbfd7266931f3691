//! The root of a list's trie, in which each item's key is the RLP of its index: transactions, receipts.
//!
//! reads   the items, each encoded once
//! memory  48 B an item, and the branches' shape
//! source  the yellow paper, 4.4.2; a level's nodes are hashed side by side, the deepest level first

use alloy_primitives::B256;
use alloy_trie::EMPTY_ROOT_HASH;
use hearth_crypto::keccak::keccak256_burst;

use super::{Key, Ref, nibble, nibbles, rlp};

/// Nodes encoded before they are hashed together.
const TOGETHER: usize = 64;
/// No node at this nibble.
const NONE: u32 = u32::MAX;

/// The root of the trie of `items`; `encode` appends what an item is.
pub(crate) fn ordered_root<T>(items: &[T], encode: impl Fn(&T, &mut Vec<u8>)) -> B256 {
    if items.is_empty() {
        return EMPTY_ROOT_HASH;
    }
    let keys = sorted_keys(items.len());
    let mut shape = Shape { keys: &keys, nodes: Vec::new(), levels: Vec::new() };
    let top = shape.build(0, keys.len(), 0);
    let Shape { nodes, levels, .. } = shape;
    let mut done: Vec<Ref> = vec![Ref::EMPTY; nodes.len()];
    let (mut encoded, mut value) = (Vec::new(), Vec::new());
    for (depth, level) in levels.iter().enumerate().rev() {
        for some in level.chunks(TOGETHER) {
            encoded.clear();
            let mut ends = Vec::with_capacity(some.len());
            for at in some {
                match &nodes[*at as usize] {
                    Node::Leaf(place) => {
                        let PaddedKey { item, key, len } = &keys[*place as usize];
                        value.clear();
                        encode(&items[*item as usize], &mut value);
                        rlp::short_leaf(&nibbles(key, depth, usize::from(*len)), &value, &mut encoded);
                    }
                    Node::Branch { prefix, children } => branch(prefix, children, &done, &mut encoded),
                }
                ends.push(encoded.len());
            }
            refer(&encoded, &ends, some, &mut done);
        }
    }
    done[top as usize].root()
}

/// An item's key, padded, with its length in nibbles.
struct PaddedKey {
    item: u32,
    key: Key,
    len: u8,
}

/// The keys in their order: no key begins with another, so that padding changes nothing.
fn sorted_keys(count: usize) -> Vec<PaddedKey> {
    // One byte below 128; zero is the empty string, 0x80; more are a string with its length before it.
    let one = 1..count.min(128);
    one.chain([0]).chain(128..count).map(PaddedKey::new).collect()
}

impl PaddedKey {
    fn new(item: usize) -> Self {
        let (mut key, bytes) = ([0; 32], item.to_be_bytes());
        let digits = &bytes[item.leading_zeros() as usize / 8..];
        let len = match digits {
            [] => {
                key[0] = 0x80;
                1
            }
            [only] if *only < 0x80 => {
                key[0] = *only;
                1
            }
            digits => {
                key[0] = 0x80 + digits.len() as u8;
                key[1..=digits.len()].copy_from_slice(digits);
                1 + digits.len()
            }
        };
        Self { item: item as u32, key, len: 2 * len as u8 }
    }
}

enum Node {
    /// The place of a key.
    Leaf(u32),
    Branch {
        prefix: Vec<u8>,
        children: [u32; 16],
    },
}

/// The nodes that there will be, and the depth at which each begins.
struct Shape<'a> {
    keys: &'a [PaddedKey],
    nodes: Vec<Node>,
    levels: Vec<Vec<u32>>,
}

impl Shape<'_> {
    /// The node over the keys `from..to`, which share their first `depth` nibbles.
    fn build(&mut self, from: usize, to: usize, depth: usize) -> u32 {
        let keys = self.keys;
        let node = if to - from == 1 {
            Node::Leaf(from as u32)
        } else {
            let (first, last) = (&keys[from].key, &keys[to - 1].key);
            let branch = (depth..64).find(|at| nibble(first, *at) != nibble(last, *at)).expect("keys are different");
            let (mut children, mut begin) = ([NONE; 16], from);
            for group in keys[from..to].chunk_by(|a, b| nibble(&a.key, branch) == nibble(&b.key, branch)) {
                children[usize::from(nibble(&group[0].key, branch))] =
                    self.build(begin, begin + group.len(), branch + 1);
                begin += group.len();
            }
            Node::Branch { prefix: nibbles(first, depth, branch), children }
        };
        let at = self.nodes.len() as u32;
        self.nodes.push(node);
        if self.levels.len() <= depth {
            self.levels.resize_with(depth + 1, Vec::new);
        }
        self.levels[depth].push(at);
        at
    }
}

/// Appends a branch, after its extension if it has one.
fn branch(prefix: &[u8], children: &[u32; 16], done: &[Ref], out: &mut Vec<u8>) {
    let from = out.len();
    rlp::branch(&children.map(|child| (child != NONE).then(|| &done[child as usize])), out);
    if !prefix.is_empty() {
        let below = Ref::of(&out[from..]);
        out.truncate(from);
        rlp::extension(prefix, &below, out);
    }
}

/// How parents refer to the nodes encoded one after the other.
fn refer(encoded: &[u8], ends: &[usize], nodes: &[u32], done: &mut [Ref]) {
    let starts = std::iter::once(0).chain(ends.iter().copied());
    let spans = starts.zip(ends).map(|(from, to)| &encoded[from..*to]).zip(nodes);
    let (mut long, mut whose) = (Vec::with_capacity(nodes.len()), Vec::with_capacity(nodes.len()));
    for (span, node) in spans {
        if span.len() < 32 {
            done[*node as usize] = Ref::short(span);
        } else {
            long.push(span);
            whose.push(*node);
        }
    }
    let mut hashes = vec![[0; 32]; long.len()];
    keccak256_burst(&long, &mut hashes);
    for (node, hash) in whose.into_iter().zip(hashes) {
        done[node as usize] = Ref::hash(hash);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_consensus::proofs::ordered_trie_root_with_encoder;
    use alloy_rlp::BufMut;

    #[test]
    fn roots_are_those_of_the_hash_builder() {
        let counts = (0..20).chain(124..132).chain(253..260).chain([4_097, 65_537]);
        for count in counts {
            for sizes in [1, 40, 700] {
                if count > 5_000 && sizes > 40 {
                    continue;
                }
                let item = |number: usize| vec![number as u8 | 1; 1 + number * 31 % sizes];
                let items: Vec<Vec<u8>> = (0..count).map(item).collect();
                let want = ordered_trie_root_with_encoder(&items, |item, out| out.put_slice(item));
                let have = ordered_root(&items, |item, out| out.extend_from_slice(item));
                assert_eq!(have, want, "{count} items of {sizes} bytes at most");
            }
        }
    }
}
