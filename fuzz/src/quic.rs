//! The TPU's QUIC server: datagrams from honest, broken and hostile clients, on virtual time.
//!
//! reads   an input of [`pieces`]: a byte that chooses what happens, and a message
//! writes  nothing; panics if a property does not hold
//! memory  a server's and a client's connections
//!
//! Packets are encrypted, so a mutation of a recorded packet is dropped. Here a real client makes the packets, and the
//! input says which of them are lost, repeated, cut, changed or late, and which transactions the client sends.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use hearth_quic::{Client, ClientConfig, Peer, Server, ServerConfig, TRANSACTION_BYTES_MAX};

use crate::pieces::pieces;

/// Messages of an input that are looked at.
const STEPS_MAX: usize = 48;
/// Rounds of exchange at a step.
const ROUNDS: usize = 3;
/// The most connections of the server.
const CONNECTIONS_MAX: usize = 8;

struct Network {
    server: Server,
    client: Client,
    now: Instant,
    here: SocketAddr,
    there: SocketAddr,
    buffer: Vec<u8>,
    sent: BTreeSet<Vec<u8>>,
}

/// Steps of a server and a client.
pub fn quic_server(input: &[u8]) {
    let now = Instant::now();
    let [here, there]: [SocketAddr; 2] = [([10, 0, 0, 1], 9_000).into(), ([10, 0, 0, 2], 8_009).into()];
    let config = ServerConfig { connections_max: CONNECTIONS_MAX, half_open_max: 4, ..ServerConfig::local() };
    let mut network = Network {
        server: Server::new(config, &[1; 32], &[2; 32], now).expect("a valid configuration"),
        client: Client::new(ClientConfig::local(), Some(&[3; 32]), &[4; 32]).expect("a valid configuration"),
        now,
        here,
        there,
        buffer: Vec::new(),
        sent: BTreeSet::new(),
    };
    for piece in pieces(input).take(STEPS_MAX) {
        let Some((step, message)) = piece.split_first() else { continue };
        network.step(*step, message);
        network.check();
    }
}

impl Network {
    fn step(&mut self, step: u8, message: &[u8]) {
        match step % 8 {
            // A datagram of another host, as it is.
            0 | 1 => self.server.handle_datagram(self.now, ([10, 0, 1, step >> 3], 5).into(), None, message),
            2 => {
                self.client.connect(self.now, self.there);
                self.exchange(&[]);
            }
            3 | 4 => {
                let transaction = &message[..message.len().min(TRANSACTION_BYTES_MAX)];
                if !transaction.is_empty() && self.client.send_transaction(transaction).is_ok() {
                    self.sent.insert(transaction.to_vec());
                }
                self.exchange(&[]);
            }
            5 | 6 => self.exchange(message),
            _ => {
                self.now += Duration::from_millis(1 << (step >> 4));
                self.server.handle_timeout(self.now);
                self.client.handle_timeout(self.now);
                self.exchange(&[]);
            }
        }
    }

    /// Carries datagrams both ways. `faults` says what happens to the client's, two bytes for each in turn.
    fn exchange(&mut self, faults: &[u8]) {
        let mut faults = faults.chunks_exact(2);
        for _ in 0..ROUNDS {
            while let Some(transmit) = self.client.poll_transmit(self.now, &mut self.buffer) {
                let size = transmit.segment_size.unwrap_or(transmit.len).max(1);
                for datagram in self.buffer[..transmit.len].chunks(size) {
                    let fault = faults.next().map_or([0, 0], |fault| [fault[0], fault[1]]);
                    for datagram in damaged(datagram, fault) {
                        self.server.handle_datagram(self.now, self.here, transmit.ecn, &datagram);
                    }
                }
            }
            let (sent, mut count) = (&self.sent, 0);
            let take = |_: &Peer, bytes: &[u8]| assert!(sent.contains(bytes), "{bytes:?} was never sent");
            while count < 1_000 && self.server.poll_transaction(self.now, take).is_some() {
                count += 1;
            }
            while let Some(transmit) = self.server.poll_transmit(self.now, &mut self.buffer) {
                if transmit.to == self.here {
                    self.client.handle_datagram(self.now, self.there, transmit.ecn, &self.buffer);
                }
            }
        }
    }

    fn check(&self) {
        let server = &self.server;
        let most = server.config().slots_max();
        assert!(server.connection_count() <= most);
        assert!(server.half_open_count() <= server.connection_count());
        assert!(server.unread_bytes() <= most * server.config().unread_bytes_max());
    }
}

/// Returns the datagrams that arrive instead of one.
fn damaged(datagram: &[u8], [kind, number]: [u8; 2]) -> Vec<Vec<u8>> {
    let at = usize::from(number) * datagram.len() / 256;
    let mut changed = datagram.to_vec();
    match kind % 8 {
        1 => return vec![],
        2 => return vec![changed.clone(), changed],
        3 => changed.truncate(at),
        4 => changed[at] ^= kind | 1,
        5 => changed[0] = number,
        6 => changed.extend_from_slice(&datagram[at..]),
        _ => {}
    }
    vec![changed]
}
