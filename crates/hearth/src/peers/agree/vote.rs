//! vote: the node's votes on their way to the leaders.
//!
//! reads   messages to be signed; transactions
//! writes  signatures; `tower_txsend`: signed votes
//! memory  none
//! drops   votes for which the link has no room: a vote is sent again when it does not land
//! source  `voting_service.rs` of `solana-core` 4.2

use hearth_crypto::ed25519::SigningKey;
use hearth_pipeline::node::Inlet;
use hearth_wire::message::Message;
use hearth_wire::{Pubkey, Signature};

/// Votes for the node.
pub struct Voter {
    key: SigningKey,
    /// The account that it votes with.
    pub account: Pubkey,
    inlet: Inlet,
}

impl Voter {
    /// A voter that hands its votes in by `inlet`, to be sent to the leaders.
    pub fn new(key: SigningKey, account: Pubkey, inlet: Inlet) -> Self {
        Self { key, account, inlet }
    }

    /// The signatures of a vote's message.
    pub fn sign(&self, message: &Message) -> Vec<Signature> {
        message.signers().iter().map(|_| self.key.sign(message.bytes())).collect()
    }

    /// Sends a transaction to the leaders.
    pub fn send(&mut self, transaction: &[u8]) {
        // One that is lost is sent again, by consensus, when it does not land.
        let _ = self.inlet.send(transaction);
    }
}
