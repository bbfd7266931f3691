//! leader_control: whose turn it is, where leaders take turns: what replay tells poh, and what poh answers.
//!
//! reads   `replay_poh`: orders
//! writes  `poh_replay`: answers
//! memory  one order
//! drops   an order that another follows before a slot begins
//! source  `docs/cluster-protocol.md`, section 7
//!
//! Replay owns the ledger while no slot is being made: it executes, and goes from fork to fork. From
//! [`LeaderOrder::Make`] on the ledger is poh's, until the slot has [ended](LeaderAnswer::Ended) or was
//! [taken back](LeaderAnswer::Retracted), which it can be until poh has begun it.

use hearth_tile::{Frag, In, Out, Port};

use super::Poh;
use crate::links::codec::{Reader, writer};

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

/// What replay tells poh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaderOrder {
    /// Build on this block from now on.
    Reset(Parent),
    /// Make this slot on the block that was told last. Not before one was told.
    Make(u64),
    /// Take this slot back, unless it has begun.
    Retract(u64),
}

/// What poh answers. Nothing, where a slot that is to be taken back has begun: it will end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaderAnswer {
    /// The slot has not begun, and will not: the ledger is replay's again.
    Retracted(u64),
    /// The slot has ended: the ledger is replay's again.
    Ended(u64),
}

impl LeaderOrder {
    /// Bytes of an order, at most.
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

    /// Reads an order.
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

    /// Reads an answer.
    pub fn read(payload: &[u8]) -> Self {
        let mut r = Reader(payload);
        let (kind, slot) = (r.u8(), r.u64());
        if kind == 0 { Self::Retracted(slot) } else { Self::Ended(slot) }
    }
}

/// The turns of a node in a cluster.
pub(super) struct Turns {
    pub orders: In,
    answers: Port,
    parent: Option<Parent>,
    /// The slot to be made on it.
    wanted: Option<u64>,
    /// Whether something came that was not taken up.
    is_new: bool,
}

impl Turns {
    pub fn new(orders: In, answers: Port) -> Self {
        Self { orders, answers, parent: None, wanted: None, is_new: false }
    }

    /// Takes an order.
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

    /// The block to wait on, and the slot to make on it, where there is something new. While no slot may begin the
    /// order to make one stays, and may be taken back.
    pub fn take(&mut self, may_make: bool) -> Option<(Parent, Option<u64>)> {
        if !self.is_new {
            return None;
        }
        let parent = self.parent?;
        self.is_new = !may_make;
        Some((parent, if may_make { self.wanted.take() } else { None }))
    }

    /// The slot has ended.
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
