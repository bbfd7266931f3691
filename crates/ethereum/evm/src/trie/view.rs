//! The nodes of tries as an older version has them.
//!
//! memory  a reference for each later version, or none where children are found by their places

use std::borrow::Cow;

use super::arena::Arena;
use super::nodes::{Child, Undo};

/// Returns the child that was first replaced after a version, by node and index; `None` if none was.
pub(crate) type ReplacedChild<'a, L> = dyn Fn(u32, u8) -> Option<Child<L>> + Sync + 'a;

/// The nodes as a version has them.
pub(crate) struct View<'a, L> {
    arena: &'a Arena<L>,
    /// The children that versions after it have replaced, the next one's first.
    later: Vec<&'a Undo<L>>,
    /// The same, found by place.
    was: Option<&'a ReplacedChild<'a, L>>,
}

impl<'a, L: Copy> View<'a, L> {
    /// As the newest version has them.
    pub(crate) fn newest(arena: &'a Arena<L>) -> Self {
        Self { arena, later: Vec::new(), was: None }
    }

    /// As the version has them after which others have replaced `later`, the next one's first.
    pub(crate) fn before(arena: &'a Arena<L>, later: impl Iterator<Item = &'a Undo<L>>) -> Self {
        Self { arena, later: later.collect(), was: None }
    }

    /// Creates a view of the version for which `was` knows what was replaced later.
    pub(crate) fn by_place(arena: &'a Arena<L>, was: &'a ReplacedChild<'a, L>) -> Self {
        Self { arena, later: Vec::new(), was: Some(was) }
    }

    /// Returns a node's children.
    pub(super) fn children(&self, id: u32) -> Cow<'a, [Child<L>]> {
        let mut children = Cow::Borrowed(self.arena.get(id).children);
        // The first replacement has the oldest value, so it is applied last.
        for patch in self.later.iter().rev().flat_map(|undo| undo.of(id)) {
            children.to_mut()[usize::from(patch.index)] = patch.child;
        }
        if let Some(was) = self.was {
            // There are 16 at most.
            for (index, place) in (0..children.len()).zip(0u8..) {
                if let Some(child) = was(id, place) {
                    children.to_mut()[index] = child;
                }
            }
        }
        children
    }

    /// Nibbles between where the node begins and its branch.
    pub(super) fn prefix(&self, id: u32) -> &'a [u8] {
        self.arena.get(id).prefix
    }
}
