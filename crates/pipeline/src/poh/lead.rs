//! lead: whose turn it is, where leaders take turns: what consensus tells poh, and what poh tells back.
//!
//! reads   the block that is to be built on, the slot that is to be made
//! writes  whether that was taken up, and which slot has ended
//! memory  one order
//! drops   an order that another follows before poh looks
//! source  `docs/cluster-protocol.md`, section 7
//!
//! Consensus owns the ledger as long as no slot is being made: it executes, and goes from fork to fork. From
//! [`Lead::make`] on the ledger is poh's, until the slot has [ended](Lead::making) or consensus has
//! [taken it back](Lead::retract), which it can until poh has begun.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A block that is built on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parent {
    /// Its slot.
    pub slot: u64,
    /// Its last entry's hash.
    pub blockhash: [u8; 32],
    /// The Merkle root of its last FEC set, to which the next block's first one is chained.
    pub block_id: [u8; 32],
}

#[derive(Debug, Default)]
struct State {
    parent: Option<Parent>,
    /// The slot to be made on it.
    wanted: Option<u64>,
    making: Option<u64>,
}

/// The order book between consensus and poh.
#[derive(Debug, Default)]
pub struct Lead {
    state: Mutex<State>,
    number: AtomicU64,
}

/// What poh is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order {
    /// The block to wait on.
    pub parent: Parent,
    /// The slot to make on it.
    pub make: Option<u64>,
}

impl Lead {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Build on this block from now on; a slot that is being made is made to its end first.
    pub fn reset(&self, parent: Parent) {
        let mut state = self.state();
        (state.parent, state.wanted) = (Some(parent), None);
        self.number.fetch_add(1, SeqCst);
    }

    /// Make `slot` on the block that was told last. Not before one was told.
    pub fn make(&self, slot: u64) {
        let mut state = self.state();
        debug_assert!(state.parent.is_some_and(|parent| parent.slot < slot), "a slot follows on its parent");
        state.wanted = Some(slot);
        self.number.fetch_add(1, SeqCst);
    }

    /// Takes a slot back that poh has not begun; false if it has, or if there is none.
    pub fn retract(&self) -> bool {
        self.state().wanted.take().is_some()
    }

    /// The slot that is to be made or under way.
    pub fn making(&self) -> Option<u64> {
        let state = self.state();
        state.making.or(state.wanted)
    }

    /// Counts orders.
    pub(super) fn number(&self) -> u64 {
        self.number.load(SeqCst)
    }

    /// The newest order; one to make a slot is taken up with it, if `may_make`.
    pub(super) fn take(&self, may_make: bool) -> Option<Order> {
        let mut state = self.state();
        let parent = state.parent?;
        let make = if may_make { state.wanted.take() } else { None };
        state.making = make;
        Some(Order { parent, make })
    }

    /// The slot has ended: the ledger is consensus' again.
    pub(super) fn ended(&self) {
        self.state().making = None;
    }
}
