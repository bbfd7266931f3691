//! The socket of a joining node, before it has tiles: plain UDP, optionally behind an emulated network.
//!
//! reads   datagrams; the file of emulated links, if there is one
//! writes  datagrams, each when it is due
//! memory  datagrams in flight on emulated links
//! drops   what emulated links lose, and what the kernel drops. Both are sent again; nobody reads counters before the
//!         node runs
//! source  `docs/cluster.md`

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use hearth_command::output::note;
use hearth_netem::{Datagrams, Emulator};
use hearth_pipeline::net::links::{LOOK_NS, LinksConfig, LinksWatch};
use hearth_tile::sys::event::{EventFd, wait_readable};
use hearth_tile::sys::udp::{Message, RecvBatch, UdpSocket};

use crate::config::Config;

/// Emulated links of a node, if configured.
#[derive(Clone, Default)]
pub struct PeerLinks {
    config: Option<LinksConfig>,
}

impl PeerLinks {
    /// The emulated links of a configuration.
    pub fn of(config: &Config) -> Self {
        Self { config: links_config(config) }
    }
}

/// The links file of a configuration, and its reader.
pub fn links_config(config: &Config) -> Option<LinksConfig> {
    let file = config.expand(&config.development.links.file);
    let own = config.gossip.bind_address;
    (config.gossip.enabled && !file.as_os_str().is_empty()).then_some(LinksConfig { file, own })
}

/// A UDP socket with emulated links.
pub struct PeerSocket {
    socket: UdpSocket,
    /// A wait target besides datagrams, which is never signalled.
    event: EventFd,
    links: Option<Box<EmulatedSocket>>,
}

struct EmulatedSocket {
    emulator: Emulator<()>,
    watch: LinksWatch,
    begun: Instant,
    look_at_ns: u64,
}

impl PeerSocket {
    /// Wraps a bound socket.
    pub fn over(socket: UdpSocket, links: &PeerLinks) -> io::Result<Self> {
        let open = |config: &LinksConfig| {
            let (watch, rules) = LinksWatch::open(config).map_err(io::Error::other)?;
            let mut seed = [0; 8];
            hearth_tile::sys::random::fill(&mut seed);
            let emulator = Emulator::new(rules, u64::from_ne_bytes(seed));
            Ok::<_, io::Error>(Box::new(EmulatedSocket { emulator, watch, begun: Instant::now(), look_at_ns: 0 }))
        };
        Ok(Self { socket, event: EventFd::new()?, links: links.config.as_ref().map(open).transpose()? })
    }

    /// Sends a datagram, now or when it is due. A failed send counts as loss: gossip sends its messages again.
    pub fn send(&mut self, bytes: &[u8], to: SocketAddr) {
        let Some(links) = &mut self.links else {
            self.send_now(bytes, to);
            return;
        };
        let datagram = Datagrams { to, data: bytes.to_vec(), segment: 0, tag: () };
        if let Some(now) = links.emulator.offer(links.now_ns(), datagram) {
            send_now(&self.socket, &now.data, now.to);
        }
    }

    /// Sends what is due, and receives available datagrams. If there are none it waits, at most for `wait` and until
    /// the next send is due. Returns whether the batch has any.
    pub fn receive(&mut self, batch: &mut RecvBatch, wait: Duration) -> bool {
        let wait = self.turn().map_or(wait, |due| wait.min(due));
        if self.take(batch) {
            return true;
        }
        if wait.is_zero() {
            return false;
        }
        wait_readable(&self.event, &[self.socket.raw_fd()], wait.as_nanos() as u64);
        self.take(batch)
    }

    /// An error belongs to an earlier send: that datagram is lost.
    fn take(&self, batch: &mut RecvBatch) -> bool {
        self.socket.receive(batch).is_ok_and(|count| count > 0)
    }

    /// Sends what is due; returns the time to the next send, if anything is in flight.
    pub fn turn(&mut self) -> Option<Duration> {
        let links = self.links.as_mut()?;
        let now = links.now_ns();
        while let Some(due) = links.emulator.due(now) {
            send_now(&self.socket, &due.data, due.to);
        }
        links.housekeep(now);
        links.emulator.next_ns().map(|next| Duration::from_nanos(next.saturating_sub(now)))
    }

    /// Sends a datagram at once; returns whether the system accepted it.
    pub fn send_now(&self, bytes: &[u8], to: SocketAddr) -> bool {
        send_now(&self.socket, bytes, to)
    }
}

fn send_now(socket: &UdpSocket, bytes: &[u8], to: SocketAddr) -> bool {
    socket.send(&[Message { to, data: bytes, segment: None }]).is_ok_and(|sent| sent == 1)
}

impl EmulatedSocket {
    fn now_ns(&self) -> u64 {
        self.begun.elapsed().as_nanos() as u64
    }

    fn housekeep(&mut self, now_ns: u64) {
        if now_ns < self.look_at_ns {
            return;
        }
        self.look_at_ns = now_ns + LOOK_NS;
        match self.watch.look() {
            None => {}
            Some(Ok(rules)) => self.emulator.set_rules(rules),
            Some(Err(why)) => note(format_args!("notice: the links stay as they were: {why}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use hearth_tile::sys::udp::{Options, PortSharing};

    use super::*;

    fn bound(links: &PeerLinks) -> PeerSocket {
        let options = Options { sharing: PortSharing::None, buffer_bytes: 1 << 20 };
        PeerSocket::over(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0).into(), options).unwrap(), links).unwrap()
    }

    /// A socket on 127.0.0.1 whose links to itself have this delay.
    fn socket(folder: &std::path::Path, rtt_ms: f64) -> PeerSocket {
        let map = format!(
            "region = [{{ name = \"A\", weight = 1, rate_gbps = 1 }}, {{ name = \"B\", weight = 1, rate_gbps = 1 }}]\n\
             within = {{ rtt_ms = 0, jitter_ms = 0, loss = 0 }}\n\
             link = [{{ between = [\"A\", \"B\"], rtt_ms = {rtt_ms}, jitter_ms = 0, loss = 0 }}]\n"
        );
        std::fs::write(folder.join("map.toml"), map).unwrap();
        let nodes = "map = \"map.toml\"\nnode = [{ address = \"127.0.0.2\", region = \"A\" }, \
                     { address = \"127.0.0.1\", region = \"B\" }]\n";
        std::fs::write(folder.join("links.toml"), nodes).unwrap();
        let config = LinksConfig { file: folder.join("links.toml"), own: Ipv4Addr::new(127, 0, 0, 2) };
        bound(&PeerLinks { config: Some(config) })
    }

    #[test]
    fn a_datagram_comes_no_earlier_than_its_link_lets_it() {
        let folder = tempfile::tempdir().unwrap();
        let mut socket = socket(folder.path(), 60.0);
        let mut batch = RecvBatch::new(1);
        let receiver = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        receiver.set_nonblocking(true).unwrap();
        let (begun, mut buffer) = (Instant::now(), [0; 16]);
        socket.send(b"later", receiver.local_addr().unwrap());
        while receiver.recv(&mut buffer).is_err() {
            assert!(begun.elapsed() < hearth_testkit::PATIENCE, "it never comes");
            // Nobody sends anything here: it waits, and returns when something is due.
            assert!(!socket.receive(&mut batch, Duration::from_millis(200)));
        }
        assert!(begun.elapsed() >= Duration::from_millis(30), "{:?}", begun.elapsed());
        assert_eq!(&buffer[..5], b"later");
    }

    #[test]
    fn excess_datagrams_are_lost_and_others_batched() {
        let mut socket = bound(&PeerLinks::default());
        let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let (to, mut sent) = (socket.socket.local_addr(), 0u64);
        while socket.socket.kernel_drops() == 0 {
            (0..100).for_each(|_| assert_eq!(sender.send_to(&[7; 1_200], to).unwrap(), 1_200));
            sent += 100;
            assert!(sent < 1_000_000, "a buffer without end");
        }
        let (mut batch, mut came, mut turns) = (RecvBatch::new(8), 0, 0);
        while socket.receive(&mut batch, Duration::ZERO) {
            came += batch
                .datagrams()
                .filter(|(from, bytes)| Ok(*from) == sender.local_addr().map_err(drop) && bytes.len() == 1_200)
                .count() as u64;
            turns += 1;
        }
        assert_eq!(came + socket.socket.kernel_drops(), sent);
        assert!(turns <= came.div_ceil(8) + 1, "{came} datagrams in {turns} turns");
    }
}
