//! Gossip of a joining node, before it has tiles: one socket, one thread, and direct access to the key.
//!
//! reads   datagrams at the node's gossip port
//! writes  datagrams; the known nodes, on a [`Board`]
//! memory  gossip's table; a batch of datagrams, 512 KiB
//! drops   what the state machine refuses; nobody reads its counters before the node runs

use std::io;
use std::net::SocketAddrV4;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hearth_gossip::board::Board;
use hearth_gossip::{Gossip, Outbox};
use hearth_keys::Identity;
use hearth_machine::port::ReservedTcp;
use hearth_tile::sys::udp::{RecvBatch, UdpSocket};
use hearth_wire::gossip::ContactInfo;

use crate::peers::ip_echo::EchoServer;
use crate::peers::socket::{PeerLinks, PeerSocket};
use crate::peers::{gossip, now_ms};

/// Datagrams, or coalesced runs of them, received at once.
const BATCH: usize = 8;
/// Maximum wait for a datagram, which bounds the delay of other work.
const WAIT_MAX_MS: u64 = 20;
/// Interval at which the board is updated.
const POST_EVERY: Duration = Duration::from_millis(100);

/// The bound sockets of gossip and of the IP echo server.
#[derive(Debug)]
pub struct GossipSockets {
    /// Sends and receives gossip messages.
    pub udp: UdpSocket,
    /// The IP echo server's listener.
    pub echo: ReservedTcp,
}

/// The configuration of a scout.
pub struct Start {
    /// The sockets to use.
    pub sockets: GossipSockets,
    /// The addresses of the nodes that gossip contacts first.
    pub entrypoints: Vec<SocketAddrV4>,
    /// The key that signs gossip's messages.
    pub identity: Arc<Identity>,
    /// The node's own contact info.
    pub own: ContactInfo,
    /// The emulated links, if any.
    pub links: PeerLinks,
}

/// A running scout; dropping it stops it.
pub struct Scout {
    /// The nodes and the snapshots of which gossip has learned so far.
    pub board: Arc<Board>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    _echo: EchoServer,
}

impl Scout {
    /// Starts gossiping.
    ///
    /// # Errors
    ///
    /// A socket or a thread cannot be created.
    pub fn start(start: Start) -> io::Result<Self> {
        let Start { sockets, entrypoints, identity, own, links } = start;
        let echo = EchoServer::start(sockets.echo.share()?.listen()?, own.shred_version)?;
        let config = gossip::config(sockets.udp.local_addr().ip(), entrypoints);
        let mut socket = PeerSocket::over(sockets.udp, &links)?;
        let mut seed = [0; 32];
        hearth_tile::sys::random::fill(&mut seed);
        let mut gossip = Gossip::new(config, own, seed, now_ms());
        let (board, stop) = (Arc::new(Board::default()), Arc::new(AtomicBool::new(false)));
        let (posted, stopped) = (Arc::clone(&board), Arc::clone(&stop));
        let run = move || {
            let (mut out, mut batch, mut post_at) = (Outbox::default(), RecvBatch::new(BATCH), Instant::now());
            while !stopped.load(SeqCst) {
                let now = now_ms();
                gossip.tick(now, &mut out);
                gossip.sign_with(now, identity.keypair.key(), &mut out);
                send(&mut socket, &mut out);
                let wait = gossip.next_tick().saturating_sub(now).clamp(1, WAIT_MAX_MS);
                if socket.receive(&mut batch, Duration::from_millis(wait)) {
                    let now = now_ms();
                    batch.datagrams().for_each(|(from, bytes)| gossip.receive(now, from, bytes, &mut out));
                    gossip.sign_with(now, identity.keypair.key(), &mut out);
                    send(&mut socket, &mut out);
                }
                // Events do not concern a node that does not run yet.
                while gossip.next_event().is_some() {}
                if Instant::now() >= post_at {
                    post_at = Instant::now() + POST_EVERY;
                    posted.post(&gossip);
                }
            }
        };
        let thread = std::thread::Builder::new().name("gossip".into()).spawn(run)?;
        Ok(Self { board, stop, thread: Some(thread), _echo: echo })
    }
}

fn send(socket: &mut PeerSocket, out: &mut Outbox) {
    out.iter().for_each(|(to, bytes)| socket.send(bytes, to.into()));
    out.clear();
}

impl Drop for Scout {
    fn drop(&mut self) {
        self.stop.store(true, SeqCst);
        self.thread.take().map(JoinHandle::join);
    }
}
