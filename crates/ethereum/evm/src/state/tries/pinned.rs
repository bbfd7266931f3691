//! The nodes of one version, read one at a time while it is pinned.
//!
//! reads   a node under the locks of its arena and of what is retired; they are released after each node, so that the
//!         writer waits for one node and not for all
//! memory  while a version is pinned, what later versions retire: at most [`PINNED_MAX`]

use alloy_primitives::{Address, B256};
use alloy_trie::EMPTY_ROOT_HASH;
use hearth_crypto::keccak::keccak256;

use super::{AccountLeaf, RETIRED_MAX, RetiredQueue, SlotLeaf, TrieTop, Tries, find_account, storage_top};
use crate::state::flat_state::Word;
use crate::trie::{Arena, Child, StoredNode, Undo, View};

/// Bytes that retired nodes may take while a version is pinned. Beyond that its nodes are freed nevertheless.
const PINNED_MAX: usize = 2 * RETIRED_MAX;

/// The child that a later version was the first to replace, by node and place.
type WasChild<'a, L> = dyn Fn(u32, u8) -> Option<Child<L>> + Sync + 'a;

/// The children that a version replaced in the tries of accounts and of storage.
type BothUndo = (Undo<AccountLeaf>, Undo<SlotLeaf>);

impl AccountLeaf {
    /// Returns the account's address.
    pub(crate) fn address(&self) -> &Address {
        &self.address
    }
}

impl SlotLeaf {
    /// Returns the slot, big-endian.
    pub(crate) fn slot(&self) -> &Word {
        &self.0
    }
}

impl TrieTop {
    /// Returns the topmost node of the accounts' trie.
    pub(crate) fn child(&self) -> Option<Child<AccountLeaf>> {
        self.child
    }
}

impl RetiredQueue {
    /// Whether the oldest retired nodes may be freed: no pinned version needs them, or they take too much memory.
    pub(super) fn may_free(&self) -> bool {
        let Some(oldest) = self.retired.front() else { return false };
        let pinned = self.pins.keys().next().copied();
        pinned.is_none_or(|pinned| pinned >= oldest.sequence) || self.size > PINNED_MAX
    }

    /// An arena's nodes as version `sequence` has them, if they are kept. `part` picks the arena's replaced children;
    /// `was` finds them where a longer history is kept.
    fn view<'a, L: Copy>(
        &'a self,
        arena: &'a Arena<L>,
        sequence: u64,
        part: fn(&BothUndo) -> &Undo<L>,
        was: &'a WasChild<'a, L>,
    ) -> Option<View<'a, L>> {
        if sequence < self.oldest {
            return None;
        }
        if self.replaced.is_some() {
            return Some(View::by_place(arena, was));
        }
        let from = self.retired.partition_point(|retired| retired.sequence <= sequence);
        Some(View::before(arena, self.retired.range(from..).map(move |retired| part(&retired.undo))))
    }
}

fn account_part(undo: &BothUndo) -> &Undo<AccountLeaf> {
    &undo.0
}

fn slot_part(undo: &BothUndo) -> &Undo<SlotLeaf> {
    &undo.1
}

impl Tries {
    /// Keeps the nodes of version `top` until [`Tries::unpin`]; whether they are still there. A longer history frees
    /// them with its oldest states anyway: what it keeps has its own bound.
    pub(crate) fn pin(&self, top: &TrieTop) -> bool {
        let mut kept = self.kept_to_change();
        let is_kept = top.sequence >= kept.oldest;
        if is_kept {
            *kept.pins.entry(top.sequence).or_default() += 1;
        }
        is_kept
    }

    /// Sorts what versions after `top` replaced, without a lock: the first to read a node would sort it under two, and
    /// the writer would wait.
    pub(crate) fn sort_later(&self, top: &TrieTop) {
        let later = {
            let kept = self.kept();
            // A longer history finds replaced children by their places, and sorts nothing.
            if kept.replaced.is_some() { None } else { kept.since(top.sequence) }
        };
        for undo in later.into_iter().flatten() {
            undo.0.order();
            undo.1.order();
        }
    }

    /// Takes back one [`Tries::pin`].
    pub(crate) fn unpin(&self, top: &TrieTop) {
        let mut kept = self.kept_to_change();
        let Some(count) = kept.pins.get_mut(&top.sequence) else { return };
        *count -= 1;
        if *count == 0 {
            kept.pins.remove(&top.sequence);
        }
    }

    /// A node of the accounts' trie as version `top` has it, if it is kept.
    pub(crate) fn account_node(&self, top: &TrieTop, id: u32) -> Option<StoredNode<AccountLeaf>> {
        let arena = self.accounts.read();
        let kept = self.kept();
        let kept = &*kept;
        let was = |id: u32, index: u8| kept.account_child(top.sequence, id, index);
        let view = kept.view(&arena, top.sequence, account_part, &was)?;
        Some(StoredNode::of(&view, id))
    }

    /// The same of a storage trie.
    pub(crate) fn slot_node(&self, top: &TrieTop, id: u32) -> Option<StoredNode<SlotLeaf>> {
        let arena = self.slots.read();
        let kept = self.kept();
        let kept = &*kept;
        let was = |id: u32, index: u8| kept.slot_child(top.sequence, id, index);
        let view = kept.view(&arena, top.sequence, slot_part, &was)?;
        Some(StoredNode::of(&view, id))
    }

    /// The root of the storage of an account of version `top`, if the version's nodes are kept.
    pub(crate) fn storage_root(&self, top: &TrieTop, leaf: &AccountLeaf) -> Option<B256> {
        let slots = self.slots.read();
        let is_kept = top.sequence >= self.kept().oldest;
        let root = || storage_top(&slots, leaf.storage).map_or(EMPTY_ROOT_HASH, |child| child.reference().root());
        is_kept.then(root)
    }

    /// The topmost node of an account's storage in version `top`, and nothing for an account without; an outer nothing
    /// if the version's nodes are not kept.
    pub(crate) fn storage_of(&self, top: &TrieTop, address: &Address) -> Option<Option<Child<SlotLeaf>>> {
        let arena = self.accounts.read();
        let slots = self.slots.read();
        let kept = self.kept();
        let kept = &*kept;
        let was = |id: u32, index: u8| kept.account_child(top.sequence, id, index);
        let view = kept.view(&arena, top.sequence, account_part, &was)?;
        let storage = find_account(&view, top.child.as_ref(), &keccak256(address.as_slice()), address);
        Some(storage_top(&slots, storage).copied())
    }
}
