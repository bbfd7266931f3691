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
        let mut take = |bytes: &[u8]| {
            frag[..bytes.len()].copy_from_slice(bytes);
            bytes.len()
        };
        while let Some(len) = self.server.poll_transaction(now, |_, bytes| take(bytes)) {
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
    let large = ClientConfig { udp_payload_initial: 8952, udp_payload_max: 8952, ..ClientConfig::local() };
    run(&bench, "one connection", ClientConfig::local(), 1);
    run(&bench, "16 connections", ClientConfig::local(), 16);
    run(&bench, "one connection, 8952 B datagrams", large, 1);
    run(&bench, "one connection, client for any path", ClientConfig::default(), 1);
    handshakes(&bench);
    flood(&bench);
}

/// Whole handshakes of client and server: two key exchanges, two signatures, four verifications.
fn handshakes(bench: &Bench) {
    measure(bench, "handshake, client + server", None, || {
        drop(Pair::new(ServerConfig::local(), ClientConfig::local(), 8));
        8
    });
}

/// First packets of connections that never come about, under load answered by Retry.
fn flood(bench: &Bench) {
    let now = Instant::now();
    let config = ServerConfig { half_open_retry: 0, initials_per_second: u32::MAX, ..ServerConfig::agave() };
    let mut server = Server::new(config, &[3; 32], &[4; 32], now).expect("server");
    let mut client = Client::new(ClientConfig::local(), None, &[2; 32]).expect("client");
    let mut buffer = Vec::new();
    let mut initials = Vec::new();
    for _ in 0..256 {
        client.connect(now, "127.0.0.1:8009".parse().expect("address"));
        while client.poll_transmit(now, &mut buffer).is_some() {
            initials.push(buffer.clone());
        }
    }
    measure(bench, "flood of first packets, answered by Retry", None, || {
        for (i, initial) in initials.iter().enumerate() {
            let from = SocketAddr::from(([10, 0, (i >> 8) as u8, i as u8], 9000));
            server.handle_datagram(now, from, None, initial);
        }
        while server.poll_transmit(now, &mut buffer).is_some() {}
        initials.len() as u64
    });
    assert_eq!(server.counters().handshakes_begun, 0);
}

fn run(bench: &Bench, name: &str, client: ClientConfig, connections: usize) {
    let server = ServerConfig { udp_payload_max: 8952, ..ServerConfig::local() };
    let mut pair = Pair::new(server, client, connections);
    let name = format!("client + server, {name}");
    if measure(bench, &name, Some(0.4e6), || pair.step()) {
        let (c, s) = (pair.client.counters(), pair.server.counters());
        println!(
            "    transactions per datagram {:.2}, acknowledgements per datagram {:.3}, lost {}",
            s.transactions as f64 / c.datagrams_out as f64,
            s.datagrams_out as f64 / c.datagrams_out as f64,
            c.lost,
        );
    }
}

/// Prints the rate by the wall clock, and by the CPU time of this thread; false if filtered out.
fn measure(bench: &Bench, name: &str, floor: Option<f64>, mut work: impl FnMut() -> u64) -> bool {
    let (mut items, start) = (0, cpu_ns());
    let counted = || {
        let n = work();
        items += n;
        n
    };
    let ran = bench.run(name, Unit::PerSecond, floor, counted).is_some();
    if ran {
        let rate = items as f64 * 1e6 / (cpu_ns() - start) as f64;
        println!("    {rate:.1} K per CPU-second");
    }
    ran
}

/// CPU time of this thread so far, in ns: on a busy machine, a steadier measure than the wall's.
fn cpu_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
}
