//! QUIC throughput: client and server in one thread, in memory, encrypted, a stream per
//! transaction of 200 B. `cargo bench -p hearth-quic`; floor 0.4 M/s, goal 1 M/s.
//!
//! Time is the real clock, so keep-alives, pacing and loss timers cost what they cost in service.

use std::net::SocketAddr;
use std::time::Instant;

use hearth_quic::{Client, ClientConfig, Server, ServerConfig};
use hearth_testkit::bench::{Bench, Unit};

const TRANSACTION_BYTES: usize = 200;
/// Transactions written and datagrams moved before the other side runs, as a tile's burst.
const BURST: usize = 256;

struct Pair {
    client: Client,
    server: Server,
    buffer: Vec<u8>,
    client_address: SocketAddr,
    server_address: SocketAddr,
    payload: [u8; TRANSACTION_BYTES],
}

impl Pair {
    fn new(server: ServerConfig, client: ClientConfig, connections: usize) -> Self {
        let now = Instant::now();
        let mut pair = Self {
            client: Client::new(client, Some(&[1; 32]), &[2; 32]).expect("client"),
            server: Server::new(server, &[3; 32], &[4; 32], now).expect("server"),
            buffer: Vec::new(),
            client_address: "127.0.0.1:9000".parse().expect("address"),
            server_address: "127.0.0.1:8009".parse().expect("address"),
            payload: [7; TRANSACTION_BYTES],
        };
        for _ in 0..connections {
            pair.client.connect(now, pair.server_address);
        }
        while pair.server.counters().connections_opened < connections as u64 {
            pair.step();
        }
        pair
    }

    /// One turn of both sides; how many transactions came out.
    fn step(&mut self) -> u64 {
        let now = Instant::now();
        for _ in 0..BURST {
            let n = (self.client.counters().sent as u32).to_le_bytes();
            self.payload[..4].copy_from_slice(&n);
            if self.client.send_transaction(&self.payload).is_err() {
                break;
            }
        }
        self.client.handle_timeout(now);
        while let Some(t) = self.client.poll_transmit(now, &mut self.buffer) {
            for datagram in self.buffer.chunks(t.segment_size.unwrap_or(t.len)) {
                self.server.handle_datagram(now, self.client_address, t.ecn, datagram);
            }
        }
        self.server.handle_timeout(now);
        let mut out = 0;
        let mut frag = [0; hearth_quic::TRANSACTION_BYTES_MAX];
        while let Some((_, len)) = self.server.next_transaction(now, &mut frag) {
            assert_eq!(len, TRANSACTION_BYTES);
            out += 1;
        }
        while let Some(t) = self.server.poll_transmit(now, &mut self.buffer) {
            self.client.handle_datagram(now, self.server_address, t.ecn, &self.buffer);
        }
        out
    }
}

fn main() {
    let bench = Bench::from_args();
    let large = ClientConfig {
        udp_payload_initial: 8952,
        udp_payload_max: 8952,
        ..ClientConfig::local()
    };
    run(&bench, "one connection", ClientConfig::local(), 1);
    run(&bench, "16 connections", ClientConfig::local(), 16);
    run(&bench, "one connection, 8952 B datagrams", large, 1);
    run(&bench, "one connection, client for any path", ClientConfig::default(), 1);
}

fn run(bench: &Bench, name: &str, client: ClientConfig, connections: usize) {
    let server = ServerConfig { udp_payload_max: 8952, ..ServerConfig::local() };
    let mut pair = Pair::new(server, client, connections);
    let start = cpu_ns();
    let name = format!("client + server, {name}");
    if bench.run(&name, Unit::PerSecond, Some(0.4e6), || pair.step()).is_some() {
        print_ratios(&pair, cpu_ns() - start);
    }
}

/// CPU time of this thread so far, in ns: on a busy machine, a steadier measure than the wall's.
fn cpu_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

/// The rate by CPU time, and how well streams are packed and acknowledgements batched.
fn print_ratios(pair: &Pair, cpu_ns: u64) {
    let (c, s) = (pair.client.counters(), pair.server.counters());
    println!(
        "    {:.2} M per CPU-second; transactions per datagram {:.2}, acknowledgements {:.3}, lost {}",
        s.transactions as f64 * 1e3 / cpu_ns as f64,
        s.transactions as f64 / c.datagrams_out as f64,
        s.datagrams_out as f64 / c.datagrams_out as f64,
        c.lost,
    );
}
