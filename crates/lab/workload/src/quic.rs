//! quic: a client's datagrams in, their transactions out. The client's work is part of a round.

use std::hint::black_box;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use hearth_pipeline::drops::DropLog;
use hearth_pipeline::links::{Datagram, NET_QUIC, Outgoing, PortKind, QUIC_NET};
use hearth_pipeline::quic::{Config, Quic};
use hearth_quic::{Client, ClientConfig, ServerConfig};
use hearth_tile::rig::Rig;

use crate::Work;

/// Transactions per round: half the capacity of a rig's link.
const ROUND: usize = 128;
const TRANSACTION: [u8; 200] = [7; 200];
const VERIFY: [&str; 2] = ["quic_verify:0", "quic_verify:1"];

/// The measured receiver: takes datagrams and the time, counts the transactions in them, and returns its answers.
pub trait Receiver {
    /// Returns the receiver's current time.
    fn now(&self) -> Instant;
    /// Receives datagrams. Returns the number of transactions in them.
    fn receive(&mut self, from: SocketAddr, datagrams: &[Vec<u8>], answers: &mut Vec<Vec<u8>>) -> u64;
    /// Advances the receiver's time.
    fn pass_time(&mut self, by: Duration);
}

/// The quic tile as a receiver.
pub struct Tile(Rig<Quic>);

impl Tile {
    /// The tile as in a node on this machine, with links to two verify tiles.
    pub fn new() -> Self {
        let config = Config { server: ServerConfig::local(), drops: DropLog::default(), tap: None };
        Self(Rig::new(config, &[NET_QUIC], &[VERIFY[0], VERIFY[1], QUIC_NET]))
    }
}

impl Default for Tile {
    fn default() -> Self {
        Self::new()
    }
}

impl Receiver for Tile {
    fn now(&self) -> Instant {
        self.0.clock().instant(self.0.clock().now())
    }

    fn receive(&mut self, from: SocketAddr, datagrams: &[Vec<u8>], answers: &mut Vec<Vec<u8>>) -> u64 {
        let mut frag = [0; 2048];
        for data in datagrams {
            let frag = &mut frag[..Datagram::HEADER + data.len()];
            Datagram { from, port: PortKind::Quic, data }.write(frag);
            self.0.give(NET_QUIC, 0, frag);
        }
        self.0.run();
        let each = |_, payload: &[u8]| {
            black_box(payload);
        };
        let got: usize = VERIFY.iter().map(|link| self.0.drain(link, each)).sum();
        self.0.drain(QUIC_NET, |_, payload| answers.push(Outgoing::read(payload).data.to_vec()));
        got as u64
    }

    fn pass_time(&mut self, by: Duration) {
        self.0.advance(by);
    }
}

/// A client and its receiver.
pub struct Pair<R> {
    client: Client,
    receiver: R,
    datagrams: Vec<Vec<u8>>,
    answers: Vec<Vec<u8>>,
    buffer: Vec<u8>,
    /// The time spent in the receiver, and the transactions it returned meanwhile.
    own: (Duration, u64),
}

impl<R: Receiver> Pair<R> {
    /// Connects the client and opens its congestion window wide.
    pub fn new(receiver: R) -> Self {
        let mut client = Client::new(ClientConfig::local(), Some(&[3; 32]), &[4; 32]).expect("a client");
        client.connect(receiver.now(), "127.0.0.1:8009".parse().expect("an address"));
        let (datagrams, answers, buffer) = (vec![], vec![], vec![]);
        let mut pair = Self { client, receiver, datagrams, answers, buffer, own: (Duration::ZERO, 0) };
        while pair.client.counters().connected == 0 {
            pair.round();
        }
        // The congestion window grows until it no longer limits anything.
        while pair.round() < ROUND as u64 {}
        pair.own = (Duration::ZERO, 0);
        pair
    }

    /// Returns the receiver's own nanoseconds per transaction.
    pub fn own_nanos(&self) -> f64 {
        self.own.0.as_nanos() as f64 / self.own.1 as f64
    }
}

impl<R: Receiver> Work for Pair<R> {
    /// Sends a round of transactions from the client, and the answers back to it. Returns how many came out.
    fn round(&mut self) -> u64 {
        let (now, here) = (self.receiver.now(), SocketAddr::from(([127, 0, 0, 1], 9000)));
        for _ in 0..ROUND {
            if self.client.send_transaction(&TRANSACTION).is_err() {
                break;
            }
        }
        self.client.handle_timeout(now);
        self.datagrams.clear();
        while let Some(sent) = self.client.poll_transmit(now, &mut self.buffer) {
            self.datagrams.extend(self.buffer.chunks(sent.segment_size.unwrap_or(sent.len)).map(<[u8]>::to_vec));
        }
        let start = Instant::now();
        let got = self.receiver.receive(here, &self.datagrams, &mut self.answers);
        self.own = (self.own.0 + start.elapsed(), self.own.1 + got);
        for answer in self.answers.drain(..) {
            self.client.handle_datagram(now, "127.0.0.1:8009".parse().expect("an address"), None, &answer);
        }
        self.receiver.pass_time(Duration::from_micros(200));
        got
    }
}
