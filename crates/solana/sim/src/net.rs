//! net: the tile in the place of the sockets. What it sends goes to the simulated network, and comes from there.
//!
//! reads   `quic_net` ×Q, `shred_net` ×S, `repair_net`, `gossip_net`, `rserve_net`, `txsend_net`, reliable: datagrams
//!         to send; its [`Wire`]
//! writes  the links that the tile with the sockets writes, by the same routes; its [`Wire`]
//! memory  what waits on the wire
//! drops   what [`Routes`] drops: counted

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use hearth_pipeline::capture::Tap;
use hearth_pipeline::links::{Datagram, Outgoing, PortKind};
use hearth_pipeline::net::{Counters, Net, Routes};
use hearth_tile::{Frag, Host, InitError, Out, Poll, Tile};
use parking_lot::Mutex;

/// Datagrams that are given to tiles in one turn, at most.
const PER_TURN: usize = 16;

/// A datagram that a node sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentDatagram {
    /// The port that it comes from.
    pub from: PortKind,
    /// Address of the receiver, by which the network finds the node.
    pub to: SocketAddr,
    /// The UDP payload of the datagram.
    pub data: Vec<u8>,
}

/// A datagram that has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrivedDatagram {
    /// Address of the sender, to which an answer goes.
    pub from: SocketAddr,
    /// The port that it came to.
    pub port: PortKind,
    /// The UDP payload of the datagram.
    pub data: Vec<u8>,
}

/// The datagrams between a node and the network.
#[derive(Debug, Default)]
pub struct Wire {
    /// Sent, and not taken by the network yet.
    pub sent: Vec<SentDatagram>,
    /// Arrived, and not taken by the node yet.
    pub arrived: VecDeque<ArrivedDatagram>,
    /// Copies what the node takes, if its session is recorded.
    pub tap: Option<Tap>,
}

/// A net tile without sockets: it moves datagrams between the node's links and its [`Wire`].
pub struct SimNet {
    wire: Arc<Mutex<Wire>>,
    routes: Routes,
}

impl Tile for SimNet {
    const NAME: &'static str = Net::NAME;
    const BURST: usize = 0;
    const PEERS: usize = Net::PEERS;
    type Config = Arc<Mutex<Wire>>;
    type Counters = Counters;

    fn new(wire: Arc<Mutex<Wire>>, host: &mut Host<'_>) -> Result<Self, InitError> {
        Ok(Self { wire, routes: Routes::new(host) })
    }

    fn on_frag(&mut self, frag: Frag<'_>, out: &mut Out<'_, Self>) {
        let Outgoing { to, port, segment, data } = Outgoing::read(frag.payload());
        let size = if segment == 0 { data.len().max(1) } else { usize::from(segment) };
        let mut wire = self.wire.lock();
        for datagram in data.chunks(size) {
            wire.sent.push(SentDatagram { from: port, to, data: datagram.to_vec() });
            out.count.sent += 1;
            out.count.sent_bytes += datagram.len() as u64;
            out.sent_to(to, datagram.len());
        }
    }

    fn poll(&mut self, out: &mut Out<'_, Self>) -> Poll {
        let mut wire = self.wire.lock();
        for given in 0..PER_TURN {
            let Some(ArrivedDatagram { from, port, data }) = wire.arrived.front() else {
                return if given > 0 { Poll::Busy } else { Poll::Idle };
            };
            let datagram = Datagram { from: *from, port: *port, data };
            out.set_received();
            if !self.routes.deliver(datagram, out) {
                out.held_up();
                return if given > 0 { Poll::Busy } else { Poll::Idle };
            }
            wire.tap.iter().for_each(|tap| tap.received(out.now(), &datagram));
            wire.arrived.pop_front();
        }
        Poll::Busy
    }
}
