//! The nodes of tries as an older version has them.
//!
//! memory  a reference for each later version

use std::borrow::Cow;

use super::arena::Arena;
use super::nodes::{Child, Undo};

/// The nodes as a version has them.
pub(crate) struct View<'a, L> {
    arena: &'a Arena<L>,
    /// What versions after it have replaced, the next one's first.
    later: Vec<&'a Undo<L>>,
}

impl<'a, L: Copy> View<'a, L> {
    /// As the newest version has them.
    pub(crate) fn newest(arena: &'a Arena<L>) -> Self {
        Self { arena, later: Vec::new() }
    }

    /// As the version has them after which others have replaced `later`, the next one's first.
    pub(crate) fn before(arena: &'a Arena<L>, later: impl Iterator<Item = &'a Undo<L>>) -> Self {
        Self { arena, later: later.collect() }
    }

    /// A node's children.
    pub(super) fn children(&self, id: u32) -> Cow<'a, [Child<L>]> {
        let mut children = Cow::Borrowed(self.arena.get(id).children);
        // What was replaced first was there before what was replaced later.
        for patch in self.later.iter().rev().flat_map(|undo| undo.of(id)) {
            children.to_mut()[usize::from(patch.index)] = patch.child;
        }
        children
    }

    /// Nibbles between where the node begins and its branch.
    pub(super) fn prefix(&self, id: u32) -> &'a [u8] {
        self.arena.get(id).prefix
    }
}
