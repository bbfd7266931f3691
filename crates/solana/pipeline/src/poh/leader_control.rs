//! leader_control: the messages by which replay assigns leader slots to poh, when leaders take turns.
//!
//! reads   `replay_poh`: orders
//! writes  `poh_replay`: answers
//! memory  one order
//! drops   an order that is superseded before its slot starts
//! source  `docs/cluster-protocol.md`, section 7
//!
//! Replay owns the ledger between this node's slots: it executes blocks and switches forks. [`LeaderOrder::Make`] hands
//! the ledger to poh until the slot has [ended](LeaderAnswer::Ended) or the order was
//! [retracted](LeaderAnswer::Retracted), which is possible until poh has started the slot.

use hearth_tile::{Frag, In, Out, Port};

use super::Poh;
use crate::links::codec::{Reader, writer};

/// The parent of the next block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parent {
    /// The parent's slot, perhaps several before the next block's.
    pub slot: u64,
    /// The hash of its last entry.
    pub blockhash: [u8; 32],
    /// The Merkle root of its last FEC set, to which the next block's first set is chained.
    pub block_id: [u8; 32],
}

/// Replay's orders to poh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaderOrder {
    /// Build on this block from now on.
    Reset(Parent),
    /// Produce this slot on the block of the last `Reset`, which must come first.
    Make(u64),
    /// Cancel this slot unless it has started.
    Retract(u64),
}

/// Poh's answers. There is none to a retraction that comes after the slot has started: that slot will end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaderAnswer {
    /// The slot was cancelled before its start: replay owns the ledger again.
    Retracted(u64),
    /// The slot has ended: replay owns the ledger again.
    Ended(u64),
}

impl LeaderOrder {
    /// Maximum bytes of an order.
    pub const SIZE: usize = 1 + 8 + 2 * 32;

    /// Writes an order; returns its size.
    pub fn write(&self, buffer: &mut [u8]) -> usize {
        let mut w = writer(buffer);
        match self {
            Self::Reset(Parent { slot, blockhash, block_id }) => {
                w.u8(0).u64(*slot).put(blockhash).put(block_id);
            }
            Self::Make(slot) => {
                w.u8(1).u64(*slot);
            }
            Self::Retract(slot) => {
                w.u8(2).u64(*slot);
            }
        }
        w.at
    }

    /// Reads an order that [`LeaderOrder::write`] wrote.
    pub fn read(payload: &[u8]) -> Self {
        let mut r = Reader(payload);
        let (kind, slot) = (r.u8(), r.u64());
        match kind {
            0 => Self::Reset(Parent { slot, blockhash: *r.bytes(), block_id: *r.bytes() }),
            1 => Self::Make(slot),
            _ => Self::Retract(slot),
        }
    }
}

impl LeaderAnswer {
    /// Bytes of an answer.
    pub const SIZE: usize = 1 + 8;

    /// Writes an answer; returns its size.
    pub fn write(&self, buffer: &mut [u8]) -> usize {
        let (kind, slot) = match self {
            Self::Retracted(slot) => (0, slot),
            Self::Ended(slot) => (1, slot),
        };
        writer(buffer).u8(kind).u64(*slot).at
    }

    /// Reads an answer that [`LeaderAnswer::write`] wrote.
    pub fn read(payload: &[u8]) -> Self {
        let mut r = Reader(payload);
        let (kind, slot) = (r.u8(), r.u64());
        if kind == 0 { Self::Retracted(slot) } else { Self::Ended(slot) }
    }
}

/// The leader turns of a node in a cluster.
pub(super) struct Turns {
    pub orders: In,
    answers: Port,
    parent: Option<Parent>,
    /// The slot to produce on it.
    wanted: Option<u64>,
    /// Whether an order arrived that poh has not taken yet.
    is_new: bool,
}

impl Turns {
    pub fn new(orders: In, answers: Port) -> Self {
        Self { orders, answers, parent: None, wanted: None, is_new: false }
    }

    /// Takes an order of replay; a slot that has not started is retracted at once.
    pub fn hear(&mut self, frag: &Frag<'_>, out: &mut Out<'_, Poh>) {
        match LeaderOrder::read(frag.payload()) {
            LeaderOrder::Reset(parent) => {
                self.parent = Some(parent);
                self.wanted = None;
            }
            LeaderOrder::Make(slot) => {
                debug_assert!(self.parent.is_some_and(|parent| parent.slot < slot), "a slot follows on its parent");
                self.wanted = Some(slot);
            }
            LeaderOrder::Retract(slot) if self.wanted == Some(slot) => {
                self.wanted = None;
                self.answer(LeaderAnswer::Retracted(slot), out);
            }
            LeaderOrder::Retract(_) => {}
        }
        self.is_new = true;
    }

    /// Returns the parent to wait on and the slot to produce on it, if there is a new order. While no slot may start,
    /// an order to produce one stays here and can still be retracted.
    pub fn take(&mut self, may_make: bool) -> Option<(Parent, Option<u64>)> {
        if !self.is_new {
            return None;
        }
        let parent = self.parent?;
        self.is_new = !may_make;
        Some((parent, if may_make { self.wanted.take() } else { None }))
    }

    /// Reports that the slot has ended.
    pub fn ended(&self, slot: u64, out: &mut Out<'_, Poh>) {
        self.answer(LeaderAnswer::Ended(slot), out);
    }

    fn answer(&self, answer: LeaderAnswer, out: &mut Out<'_, Poh>) {
        out.publish_with(self.answers, 0, |buffer| answer.write(buffer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_keep_what_they_say() {
        let parent = Parent { slot: 3, blockhash: [1; 32], block_id: [2; 32] };
        for order in [LeaderOrder::Reset(parent), LeaderOrder::Make(u64::MAX), LeaderOrder::Retract(7)] {
            let mut buffer = [0; LeaderOrder::SIZE];
            let size = order.write(&mut buffer);
            assert_eq!(LeaderOrder::read(&buffer[..size]), order);
        }
        for answer in [LeaderAnswer::Retracted(5), LeaderAnswer::Ended(6)] {
            let mut buffer = [0; LeaderAnswer::SIZE];
            assert_eq!(answer.write(&mut buffer), LeaderAnswer::SIZE);
            assert_eq!(LeaderAnswer::read(&buffer), answer);
        }
    }
}
