//! Gossip of a node that joins, before it has tiles: one socket, one thread, and the key at hand.
//!
//! reads   datagrams at the node's gossip port
//! writes  datagrams; what it knows, on a [`Board`]
//! memory  gossip's table; a batch of datagrams, 512 KiB
//! drops   what the state machine refuses; nobody asks for its counters before the node is up

use std::io;
use std::net::SocketAddrV4;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hearth_gossip::board::Board;
use hearth_gossip::{Gossip, Outbox};
use hearth_keys::Identity;
use hearth_machine::port::HeldTcp;
use hearth_tile::sys::udp::{RecvBatch, UdpSocket};
use hearth_wire::gossip::ContactInfo;

use crate::peers::ip_echo::EchoServer;
use crate::peers::socket::{PeerLinks, PeerSocket};
use crate::peers::{gossip, now_ms};

/// Datagrams, or runs of them, that are taken at once.
const BATCH: usize = 8;
/// The longest wait for a datagram: what else is due waits no longer.
const WAIT_MAX_MS: u64 = 20;
/// How often what is known is posted.
const POST_EVERY: Duration = Duration::from_millis(100);

/// Where gossip is, bound.
#[derive(Debug)]
pub struct GossipSockets {
    /// Gossip itself.
    pub udp: UdpSocket,
    /// The IP echo server.
    pub echo: HeldTcp,
}

/// What a scout is made of.
pub struct Start {
    /// Where to listen.
    pub sockets: GossipSockets,
    /// Whom to begin with.
    pub entrypoints: Vec<SocketAddrV4>,
    /// The node.
    pub identity: Arc<Identity>,
    /// What the node says of itself.
    pub own: ContactInfo,
    /// What is between it and others, where that is emulated.
    pub links: PeerLinks,
}

/// A node that looks around; dropping it ends that.
pub struct Scout {
    /// What it knows.
    pub board: Arc<Board>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    _echo: EchoServer,
}

impl Scout {
    /// Listens.
    ///
    /// # Errors
    /// A socket or a thread cannot be had.
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
                // Nothing that happens now concerns a node that does not run yet.
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
