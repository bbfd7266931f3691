//! vote: the node's votes on their way to the leaders.
//!
//! reads   messages to be signed; transactions, and the leaders that they are for
//! writes  signatures; datagrams
//! memory  none
//! drops   datagrams that the system does not take: a vote is sent again when it does not land
//! source  `voting_service.rs` of `solana-core` 4.2

use std::io;
use std::net::SocketAddrV4;
use std::sync::Arc;

use hearth_cluster::view::Views;
use hearth_crypto::ed25519::SigningKey;
use hearth_wire::message::Message;
use hearth_wire::{Pubkey, Signature};

use crate::peers::forward::Way;
use crate::peers::socket::PeerLinks;

/// Votes for the node.
pub struct Voter {
    node: Pubkey,
    key: SigningKey,
    /// The account that it votes with.
    pub account: Pubkey,
    way: Way,
    views: Arc<Views>,
    /// Where the node itself takes transactions.
    own: SocketAddrV4,
}

impl Voter {
    /// A voter that sends from the address at which the node itself takes transactions, `own`.
    pub fn new(
        key: SigningKey,
        account: Pubkey,
        views: Arc<Views>,
        links: &PeerLinks,
        own: SocketAddrV4,
    ) -> io::Result<Self> {
        let way = Way::open(own, links)?;
        Ok(Self { node: key.public_key(), key, account, way, views, own })
    }

    /// The signatures of a vote's message.
    pub fn sign(&self, message: &Message) -> Vec<Signature> {
        message.signers().iter().map(|_| self.key.sign(message.bytes())).collect()
    }

    /// Sends a transaction to these leaders.
    pub fn send(&self, transaction: &[u8], leaders: &[Pubkey]) {
        let view = self.views.newest();
        for leader in leaders {
            let others = view.tpu.iter().find(|(node, ..)| node == leader);
            let to =
                if *leader == self.node { Some(self.own) } else { others.and_then(|(_, tpu, vote)| vote.or(*tpu)) };
            if let Some(to) = to {
                // One that is lost is sent again, by consensus, when it does not land.
                let _ = self.way.send(transaction, to);
            }
        }
    }
}
