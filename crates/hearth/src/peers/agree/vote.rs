//! vote: the node's votes on their way to the leaders.
//!
//! reads   messages to be signed; transactions
//! writes  signatures; `tower_txsend`: signed votes
//! memory  the newest vote, until the link has room for it
//! drops   a vote that waits for room when a newer one comes, which says all that it said; the caller counts it
//! source  `voting_service.rs` of `solana-core` 4.2

use hearth_crypto::ed25519::SigningKey;
use hearth_pipeline::node::{Busy, Inlet};
use hearth_wire::message::Message;
use hearth_wire::{Pubkey, Signature};

/// Votes for the node.
pub struct Voter {
    key: SigningKey,
    /// The account that it votes with.
    pub account: Pubkey,
    inlet: Inlet,
    unsent: Unsent,
}

/// The newest vote, until it is handed over.
#[derive(Default)]
struct Unsent(Option<Vec<u8>>);

impl Unsent {
    /// Replaces the vote that waits, if one does, which it returns.
    fn set(&mut self, transaction: Vec<u8>) -> Option<Vec<u8>> {
        self.0.replace(transaction)
    }

    /// Hands the vote over; it stays while there is no room. Returns whether one was handed over.
    fn flush(&mut self, send: impl FnOnce(&[u8]) -> Result<(), Busy>) -> bool {
        let is_sent = self.0.as_ref().is_some_and(|transaction| send(transaction).is_ok());
        if is_sent {
            self.0 = None;
        }
        is_sent
    }
}

impl Voter {
    /// A voter that hands its votes in by `inlet`, to be sent to the leaders.
    pub fn new(key: SigningKey, account: Pubkey, inlet: Inlet) -> Self {
        Self { key, account, inlet, unsent: Unsent::default() }
    }

    /// The signatures of a vote's message.
    pub fn sign(&self, message: &Message) -> Vec<Signature> {
        message.signers().iter().map(|_| self.key.sign(message.bytes())).collect()
    }

    /// Takes a vote that [`Self::flush`] is to send to the leaders. Returns whether it replaces one that was not sent.
    pub fn send(&mut self, transaction: Vec<u8>) -> bool {
        self.unsent.set(transaction).is_some()
    }

    /// Hands the vote that waits over to txsend, if there is room. Returns whether one was handed over.
    pub fn flush(&mut self) -> bool {
        self.unsent.flush(|transaction| self.inlet.send(transaction))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vote_without_room_is_sent_later() {
        let mut unsent = Unsent::default();
        assert!(!unsent.flush(|_| unreachable!("there is no vote")));
        assert_eq!(unsent.set(vec![1]), None);
        assert!(!unsent.flush(|_| Err(Busy)));
        assert_eq!(unsent.set(vec![2]), Some(vec![1]), "the newer one says all that the older one did");
        let mut sent = vec![];
        assert!(unsent.flush(|vote| {
            sent.push(vote.to_vec());
            Ok(())
        }));
        assert_eq!(sent, [[2]]);
        assert!(!unsent.flush(|_| unreachable!("it was sent")));
    }
}
