//! Transactions that clients hand to a node which makes no blocks: sent on to who leads now and who leads next.
//!
//! reads   the leaders of the coming slots; where they take transactions
//! writes  one datagram to each leader
//! memory  none
//! drops   nothing that it does not tell: without a leader that is known the RPC says that the node is busy
//! source  `solana-send-transaction-service` 4.2.2

use std::net::{SocketAddrV4, UdpSocket};
use std::sync::Arc;

use hearth_cluster::view::Views;
use hearth_ledger::{Commitment, Ledger};
use hearth_rpc::{Busy, TransactionInlet};

/// Slots of a leader in a row.
const TURN: u64 = 4;

/// Sends transactions on.
pub struct Forwarder {
    socket: UdpSocket,
    ledger: Arc<Ledger>,
    views: Arc<Views>,
}

impl Forwarder {
    /// From any port of `ip`'s.
    pub fn new(address: SocketAddrV4, ledger: Arc<Ledger>, views: Arc<Views>) -> std::io::Result<Self> {
        Ok(Self { socket: UdpSocket::bind((*address.ip(), 0))?, ledger, views })
    }
}

impl TransactionInlet for Forwarder {
    fn send(&mut self, wire: &[u8], _again: bool) -> Result<(), Busy> {
        let (slot, view) = (self.ledger.slot(Commitment::Processed), self.views.newest());
        let mut sent: Option<SocketAddrV4> = None;
        for slot in [slot + 1, slot + 1 + TURN] {
            let leader = self.ledger.leader_at(slot).map(|leader| leader.node);
            let found = view.tpu.iter().find(|(node, ..)| Some(*node) == leader).and_then(|(_, tpu, _)| *tpu);
            if let Some(to) = found.filter(|to| sent != Some(*to))
                && self.socket.send_to(wire, to).is_ok()
            {
                sent = Some(to);
            }
        }
        sent.map(|_| ()).ok_or(Busy)
    }
}
