//! ancestors: messages between tower and repair about the ancestors of a block that was not executed here.
//!
//! reads   messages
//! writes  messages
//! memory  the link's

use hearth_wire::repair::ANCESTORS_MAX;
use hearth_wire::{Hash, Pubkey};

use super::codec::{Reader, writer};

/// Tower's question: which blocks does a node have at a slot and below?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AncestorQuestion {
    /// The slot to ask about.
    pub slot: u64,
    /// The node to ask.
    pub node: Pubkey,
}

/// A node's answer: the ancestors of the block in question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AncestorAnswer {
    /// The node that answers.
    pub node: Pubkey,
    /// The requested slot and those below it, the newest first, with their bank hashes: at least one, at most
    /// [`ANCESTORS_MAX`].
    pub hashes: Vec<(u64, Hash)>,
}

impl AncestorQuestion {
    /// Bytes of a message.
    pub const SIZE: usize = 8 + 32;

    /// Encodes the slot and the node.
    pub fn encode(&self) -> [u8; Self::SIZE] {
        let mut buffer = [0; Self::SIZE];
        writer(&mut buffer).u64(self.slot).put(&self.node);
        buffer
    }

    /// Reads a message that [`Self::encode`] made.
    pub fn read(payload: &[u8]) -> Self {
        let mut r = Reader(payload);
        Self { slot: r.u64(), node: *r.bytes() }
    }
}

impl AncestorAnswer {
    /// Bytes of the largest message.
    pub const MTU: usize = 32 + ANCESTORS_MAX * (8 + 32);

    /// Encodes the message.
    ///
    /// # Panics
    /// If there are more than [`ANCESTORS_MAX`] hashes.
    pub fn encode(&self) -> Vec<u8> {
        assert!(self.hashes.len() <= ANCESTORS_MAX, "{} hashes", self.hashes.len());
        let mut buffer = vec![0; 32 + self.hashes.len() * (8 + 32)];
        let mut w = writer(&mut buffer);
        w.put(&self.node);
        for (slot, hash) in &self.hashes {
            w.u64(*slot).put(hash);
        }
        buffer
    }

    /// Reads a message that [`Self::encode`] made.
    pub fn read(payload: &[u8]) -> Self {
        let mut r = Reader(payload);
        let (node, mut hashes) = (*r.bytes(), Vec::with_capacity(ANCESTORS_MAX));
        while !r.0.is_empty() {
            let slot = r.u64();
            hashes.push((slot, *r.bytes()));
        }
        Self { node, hashes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_and_answers_round_trip() {
        let question = AncestorQuestion { slot: 1 << 40, node: [7; 32] };
        assert_eq!(AncestorQuestion::read(&question.encode()), question);
        for count in [1, ANCESTORS_MAX as u64] {
            let hashes = (0..count).map(|n| (1_000 - n, [n as u8; 32])).collect();
            let answer = AncestorAnswer { node: [3; 32], hashes };
            let message = answer.encode();
            assert!(message.len() <= AncestorAnswer::MTU);
            assert_eq!(AncestorAnswer::read(&message), answer);
        }
    }
}
