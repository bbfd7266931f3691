//! A trie that is changed key by key in memory of its own, over the nodes of one version: it yields the roots of states
//! that are never committed.
//!
//! reads   the version's nodes on the way to each changed key, each once
//! memory  1.1 KB a node that it has read or added; 100 B and the value a changed leaf
//! source  the yellow paper, appendix D
//!
//! [`mod@super::update`] puts many changes into the newest version at once. Here one change costs its own path,
//! whatever was changed before it, and no node of the arena is touched.

use alloy_primitives::B256;
use alloy_trie::EMPTY_ROOT_HASH;

use super::{Child, Key, Ref, View, common, nibble, nibbles, rlp};

/// A node as a version has it.
pub(crate) struct StoredNode<L> {
    /// Nibbles between where the node begins and its branch.
    prefix: Vec<u8>,
    /// The children that exist, in order of their nibbles.
    children: Vec<Child<L>>,
}

impl<L: Copy> StoredNode<L> {
    /// Copies the node of this number.
    pub(crate) fn of(view: &View<'_, L>, id: u32) -> Self {
        Self { prefix: view.prefix(id).to_vec(), children: view.children(id).into_owned() }
    }
}

/// Reads nodes and leaves of one version.
pub(crate) trait Base<L> {
    /// Why something cannot be read.
    type Error;
    /// The node of this number.
    fn node(&self, id: u32) -> Result<StoredNode<L>, Self::Error>;
    /// The hashed key of a leaf, and its encoded value.
    fn leaf(&self, leaf: &L) -> Result<(Key, Vec<u8>), Self::Error>;
}

/// A trie over a version's.
pub(crate) struct SparseTrie<L> {
    root: Option<Node<L>>,
}

enum Node<L> {
    /// As the version has it, with everything below.
    Stored(Child<L>),
    Leaf(Box<LeafNode>),
    Branch(Box<BranchNode<L>>),
}

struct LeafNode {
    key: Key,
    value: Vec<u8>,
    /// Once it is known for the leaf's depth.
    reference: Option<Ref>,
}

/// A branch after a prefix.
struct BranchNode<L> {
    prefix: Vec<u8>,
    children: [Option<Node<L>>; 16],
    /// The extension's, if the branch has a prefix; once it is known.
    reference: Option<Ref>,
}

/// A node that can be changed.
enum OpenNode<L> {
    Leaf(Box<LeafNode>),
    Branch(Box<BranchNode<L>>),
}

impl<L: Copy> SparseTrie<L> {
    /// The trie below `root`, unchanged.
    pub(crate) fn new(root: Option<Child<L>>) -> Self {
        Self { root: root.map(Node::Stored) }
    }

    /// Sets or removes the value of a key. After an error the trie is incomplete, and of no more use.
    pub(crate) fn set<B: Base<L>>(&mut self, key: Key, value: Option<Vec<u8>>, base: &B) -> Result<(), B::Error> {
        let root = self.root.take();
        self.root = match value {
            Some(value) => Some(insert(root, 0, Box::new(LeafNode { key, value, reference: None }), base)?),
            None => remove(root, 0, &key, base)?,
        };
        Ok(())
    }

    /// Returns the root; what has not changed since the last time is not hashed again.
    pub(crate) fn root(&mut self) -> B256 {
        self.root.as_mut().map_or(EMPTY_ROOT_HASH, |root| refer(root, 0).root())
    }
}

fn no_children<L>() -> [Option<Node<L>>; 16] {
    std::array::from_fn(|_| None)
}

/// Copies a node out of the version, if it is still there.
fn open<L: Copy, B: Base<L>>(node: Node<L>, base: &B) -> Result<OpenNode<L>, B::Error> {
    Ok(match node {
        Node::Leaf(leaf) => OpenNode::Leaf(leaf),
        Node::Branch(branch) => OpenNode::Branch(branch),
        Node::Stored(Child::Leaf(reference, leaf)) => {
            let (key, value) = base.leaf(&leaf)?;
            OpenNode::Leaf(Box::new(LeafNode { key, value, reference: Some(reference) }))
        }
        Node::Stored(Child::Node { reference, mask, id }) => {
            let StoredNode { prefix, children: stored } = base.node(id)?;
            let mut stored = stored.into_iter().map(Node::Stored);
            let children = std::array::from_fn(|at| if mask & (1 << at) == 0 { None } else { stored.next() });
            OpenNode::Branch(Box::new(BranchNode { prefix, children, reference: Some(reference) }))
        }
    })
}

fn insert<L: Copy, B: Base<L>>(
    node: Option<Node<L>>,
    depth: usize,
    new: Box<LeafNode>,
    base: &B,
) -> Result<Node<L>, B::Error> {
    let Some(node) = node else { return Ok(Node::Leaf(new)) };
    let mut branch = match open(node, base)? {
        OpenNode::Leaf(old) if old.key == new.key => return Ok(Node::Leaf(new)),
        OpenNode::Leaf(old) => return Ok(fork(depth, old, new)),
        OpenNode::Branch(branch) => branch,
    };
    let shared = common(&new.key, depth, &branch.prefix);
    if shared < branch.prefix.len() {
        return Ok(split(branch, depth, shared, new));
    }
    branch.reference = None;
    let at = depth + shared;
    let digit = usize::from(nibble(&new.key, at));
    let child = branch.children[digit].take();
    branch.children[digit] = Some(insert(child, at + 1, new, base)?);
    Ok(Node::Branch(branch))
}

/// Puts two leaves of different keys below a new branch.
fn fork<L>(depth: usize, mut old: Box<LeafNode>, new: Box<LeafNode>) -> Node<L> {
    let differs = |at: &usize| nibble(&old.key, *at) != nibble(&new.key, *at);
    let at = (depth..64).find(differs).expect("the keys are different");
    let prefix = nibbles(&new.key, depth, at);
    let (old_digit, new_digit) = (usize::from(nibble(&old.key, at)), usize::from(nibble(&new.key, at)));
    old.reference = None;
    let mut children = no_children();
    children[old_digit] = Some(Node::Leaf(old));
    children[new_digit] = Some(Node::Leaf(new));
    Node::Branch(Box::new(BranchNode { prefix, children, reference: None }))
}

/// Splits a branch's prefix where `new` leaves it, after `shared` nibbles.
fn split<L>(mut branch: Box<BranchNode<L>>, depth: usize, shared: usize, new: Box<LeafNode>) -> Node<L> {
    let below = branch.prefix.split_off(shared + 1);
    let mut prefix = std::mem::replace(&mut branch.prefix, below);
    let old_digit = usize::from(prefix.pop().expect("the prefix is longer than what both share"));
    let new_digit = usize::from(nibble(&new.key, depth + shared));
    branch.reference = None;
    let mut children = no_children();
    children[old_digit] = Some(Node::Branch(branch));
    children[new_digit] = Some(Node::Leaf(new));
    Node::Branch(Box::new(BranchNode { prefix, children, reference: None }))
}

fn remove<L: Copy, B: Base<L>>(
    node: Option<Node<L>>,
    depth: usize,
    key: &Key,
    base: &B,
) -> Result<Option<Node<L>>, B::Error> {
    let Some(node) = node else { return Ok(None) };
    let mut branch = match open(node, base)? {
        OpenNode::Leaf(leaf) => return Ok((leaf.key != *key).then_some(Node::Leaf(leaf))),
        OpenNode::Branch(branch) => branch,
    };
    let at = depth + branch.prefix.len();
    if common(key, depth, &branch.prefix) < branch.prefix.len() {
        return Ok(Some(Node::Branch(branch)));
    }
    let digit = usize::from(nibble(key, at));
    let child = branch.children[digit].take();
    branch.reference = None;
    branch.children[digit] = remove(child, at + 1, key, base)?;
    close(branch, base)
}

/// A branch that may have lost a child: with one child left it is that child, further up.
fn close<L: Copy, B: Base<L>>(mut branch: Box<BranchNode<L>>, base: &B) -> Result<Option<Node<L>>, B::Error> {
    let mut there = (0..16usize).filter(|at| branch.children[*at].is_some());
    let (first, second) = (there.next(), there.next());
    let digit = match (first, second) {
        (None, _) => return Ok(None),
        (Some(_), Some(_)) => return Ok(Some(Node::Branch(branch))),
        (Some(digit), None) => digit,
    };
    let only = branch.children[digit].take().expect("it is there");
    Ok(Some(match open(only, base)? {
        OpenNode::Leaf(mut leaf) => {
            leaf.reference = None;
            Node::Leaf(leaf)
        }
        OpenNode::Branch(mut below) => {
            let mut prefix = std::mem::take(&mut branch.prefix);
            prefix.push(digit as u8);
            prefix.append(&mut below.prefix);
            below.prefix = prefix;
            below.reference = None;
            Node::Branch(below)
        }
    }))
}

/// How the parent refers to a node that is `depth` nibbles deep.
fn refer<L>(node: &mut Node<L>, depth: usize) -> Ref {
    match node {
        Node::Stored(child) => *child.reference(),
        Node::Leaf(leaf) => {
            let LeafNode { key, value, reference } = &mut **leaf;
            *reference.get_or_insert_with(|| {
                let mut encoded = Vec::with_capacity(40 + value.len());
                rlp::leaf(key, depth, value, &mut encoded);
                Ref::of(&encoded)
            })
        }
        Node::Branch(branch) => {
            if let Some(known) = branch.reference {
                return known;
            }
            let below = depth + branch.prefix.len() + 1;
            let BranchNode { prefix, children, reference } = &mut **branch;
            let references: [Option<Ref>; 16] =
                std::array::from_fn(|at| children[at].as_mut().map(|child| refer(child, below)));
            let mut encoded = Vec::with_capacity(16 * 33 + 4);
            rlp::branch(&references.each_ref().map(Option::as_ref), &mut encoded);
            let mut found = Ref::of(&encoded);
            if !prefix.is_empty() {
                encoded.clear();
                rlp::extension(prefix, &found, &mut encoded);
                found = Ref::of(&encoded);
            }
            *reference.insert(found)
        }
    }
}
