//! Transactions that clients hand to a node whose turn it is not: sent on to who leads now and who leads next.
//!
//! reads   the leaders of the coming slots; where they take transactions
//! writes  one datagram to each leader; what is for the node itself, to its tiles
//! memory  none
//! drops   nothing that it does not tell: without a leader that is known the RPC says that the node is busy
//! source  `solana-send-transaction-service` 4.2.2

use std::net::{SocketAddrV4, UdpSocket};
use std::sync::Arc;

use hearth_cluster::view::Views;
use hearth_ledger::{Commitment, Ledger};
use hearth_rpc::{Busy, TransactionInlet};
use hearth_wire::Pubkey;

/// Slots of a leader in a row.
const TURN: u64 = 4;

/// Sends transactions on.
pub struct Forwarder {
    socket: UdpSocket,
    ledger: Arc<Ledger>,
    views: Arc<Views>,
    /// The way to the node's own tiles, and its name among leaders.
    own: Option<(Box<dyn TransactionInlet>, Pubkey)>,
}

impl Forwarder {
    /// From any port of `ip`'s.
    pub fn new(address: SocketAddrV4, ledger: Arc<Ledger>, views: Arc<Views>) -> std::io::Result<Self> {
        Ok(Self { socket: UdpSocket::bind((*address.ip(), 0))?, ledger, views, own: None })
    }

    /// Of a node that leads at times.
    pub fn with_own(self, inlet: Box<dyn TransactionInlet>, identity: Pubkey) -> Self {
        Self { own: Some((inlet, identity)), ..self }
    }
}

impl TransactionInlet for Forwarder {
    fn send(&mut self, wire: &[u8], again: bool) -> Result<(), Busy> {
        let mut taken = false;
        let (slot, view) = (self.ledger.slot(Commitment::Processed), self.views.newest());
        let mut sent: Option<SocketAddrV4> = None;
        for slot in [slot + 1, slot + 1 + TURN] {
            let leader = self.ledger.leader_at(slot).map(|leader| leader.node);
            if let Some((inlet, identity)) = &mut self.own
                && leader == Some(*identity)
            {
                if !taken {
                    inlet.send(wire, again)?;
                    taken = true;
                }
                continue;
            }
            let found = view.tpu.iter().find(|(node, ..)| Some(*node) == leader).and_then(|(_, tpu, _)| *tpu);
            if let Some(to) = found.filter(|to| sent != Some(*to))
                && self.socket.send_to(wire, to).is_ok()
            {
                sent = Some(to);
            }
        }
        if taken || sent.is_some() { Ok(()) } else { Err(Busy) }
    }
}
