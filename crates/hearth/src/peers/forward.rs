//! Transactions that clients hand to a node whose turn it is not: sent on to who leads now and who leads next.
//!
//! reads   the leaders of the coming slots; where they take transactions
//! writes  one datagram to each leader; what is for the node itself, to its tiles
//! memory  none; where links are emulated, what is under way on them
//! drops   nothing that it does not tell: without a leader that is known the RPC says that the node is busy
//! source  `solana-send-transaction-service` 4.2.2

use std::net::SocketAddrV4;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use hearth_cluster::view::Views;
use hearth_ledger::{Commitment, Ledger};
use hearth_rpc::{Busy, TransactionInlet};
use hearth_wire::Pubkey;

use super::socket::{PeerLinks, PeerSocket};

/// Slots of a leader in a row.
const TURN: u64 = 4;
/// How long whoever sends over emulated links waits when nothing is under way.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How datagrams go out.
pub enum Way {
    /// At once.
    Socket(PeerSocket),
    /// By a thread that waits until each is due; it ends when this is dropped.
    Thread(Sender<(Vec<u8>, SocketAddrV4)>),
}

/// Sends transactions on.
pub struct Forwarder {
    way: Way,
    ledger: Arc<Ledger>,
    views: Arc<Views>,
    /// The way to the node's own tiles, and its name among leaders.
    own: Option<(Box<dyn TransactionInlet>, Pubkey)>,
}

impl Forwarder {
    /// From any port of `ip`'s.
    pub fn new(
        address: SocketAddrV4,
        links: &PeerLinks,
        ledger: Arc<Ledger>,
        views: Arc<Views>,
    ) -> std::io::Result<Self> {
        Ok(Self { way: Way::open(address, links)?, ledger, views, own: None })
    }

    /// Of a node that leads at times.
    pub fn with_own(self, inlet: Box<dyn TransactionInlet>, identity: Pubkey) -> Self {
        Self { own: Some((inlet, identity)), ..self }
    }
}

/// Sends over emulated links.
fn thread(mut socket: PeerSocket) -> std::io::Result<Way> {
    let (sender, taken) = channel::<(Vec<u8>, SocketAddrV4)>();
    std::thread::Builder::new().name("forward".into()).spawn(move || {
        loop {
            let wait = socket.turn().unwrap_or(LOOK_EVERY);
            match taken.recv_timeout(wait) {
                Ok((wire, to)) => socket.send(&wire, to.into()),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    })?;
    Ok(Way::Thread(sender))
}

impl Way {
    /// From any port of `address`.
    pub fn open(address: SocketAddrV4, links: &PeerLinks) -> std::io::Result<Self> {
        let socket = PeerSocket::bind(SocketAddrV4::new(*address.ip(), 0), links)?;
        if socket.is_emulated() { thread(socket) } else { Ok(Self::Socket(socket)) }
    }

    /// Whether it was sent, or will be.
    pub fn send(&self, wire: &[u8], to: SocketAddrV4) -> bool {
        match self {
            Self::Socket(socket) => socket.send_now(wire, to.into()),
            Self::Thread(thread) => thread.send((wire.to_vec(), to)).is_ok(),
        }
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
                && self.way.send(wire, to)
            {
                sent = Some(to);
            }
        }
        if taken || sent.is_some() { Ok(()) } else { Err(Busy) }
    }
}
