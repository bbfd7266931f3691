//! quic: transactions per second through the tile, including its links, compared with the bare server.
//!
//! reads   transactions of 200 bytes, one per stream, that a client has encrypted into datagrams
//! writes  one line per figure. The client's work is the same in all of them; below each pair is the time that the tile
//!         and the bare server themselves took
//! memory  a connection's windows
//!
//! cargo bench -p hearth-workload --bench quic

use std::hint::black_box;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use hearth_quic::{Server, ServerConfig};
use hearth_testkit::bench::{Bench, Unit};
use hearth_workload::Work;
use hearth_workload::quic::{Pair, Receiver, Tile};

struct Bare {
    server: Server,
    now: Instant,
    buffer: Vec<u8>,
}

impl Receiver for Bare {
    fn now(&self) -> Instant {
        self.now
    }

    fn receive(&mut self, from: SocketAddr, datagrams: &[Vec<u8>], answers: &mut Vec<Vec<u8>>) -> u64 {
        for data in datagrams {
            self.server.handle_datagram(self.now, from, None, data);
        }
        self.server.handle_timeout(self.now);
        let mut got = 0;
        while self.server.poll_transaction(self.now, |_, bytes| _ = black_box(bytes)).is_some() {
            got += 1;
        }
        while self.server.poll_transmit(self.now, &mut self.buffer).is_some() {
            answers.push(self.buffer.clone());
        }
        got
    }

    fn pass_time(&mut self, by: Duration) {
        self.now += by;
    }
}

fn main() {
    let bench = Bench::from_args();
    let (mut tile, now) = (Pair::new(Tile::new()), Instant::now());
    let server = Server::new(ServerConfig::local(), &[1; 32], &[2; 32], now).expect("a server");
    let mut bare = Pair::new(Bare { server, now, buffer: vec![] });
    let name = "client + quic tile, a stream per 200 B";
    if bench.paired(name, Unit::PerSecond, Some(0.8), || tile.round(), || bare.round()).is_some() {
        let (tile, bare) = (tile.own_nanos(), bare.own_nanos());
        println!("    the tile itself {tile:.0} ns a transaction, {:.2} M/s; the bare server {bare:.0} ns", 1e3 / tile);
    }
}
