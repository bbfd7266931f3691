use std::time::{Duration, Instant};

use hearth_quic::{Server, ServerConfig};
use hearth_tile::rig::Rig;

use super::*;

/// A server on a socket of its own, at the far end of the tile's socket.
struct FarEnd {
    server: Server,
    socket: UdpSocket,
    batch: RecvBatch,
}

impl FarEnd {
    fn new(now: Instant) -> Self {
        let options = Options { reuse_port: false, buffer_bytes: 1 << 20 };
        let socket = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), options).unwrap();
        let server = Server::new(ServerConfig::local(), &[3; 32], &[4; 32], now).unwrap();
        Self { server, socket, batch: RecvBatch::new(8) }
    }

    /// Takes in and answers what is there; returns the transactions.
    fn turn(&mut self, now: Instant) -> Vec<Vec<u8>> {
        self.socket.receive(&mut self.batch).unwrap();
        for (from, data) in self.batch.datagrams() {
            self.server.handle_datagram(now, from, None, data);
        }
        self.server.handle_timeout(now);
        let (mut got, mut buffer) = (vec![], vec![]);
        while let Some(bytes) = self.server.poll_transaction(now, |_, bytes| bytes.to_vec()) {
            got.push(bytes);
        }
        while let Some(transmit) = self.server.poll_transmit(now, &mut buffer) {
            let message = Message { to: transmit.to, data: &buffer, segment: None };
            self.socket.send(&[message]).unwrap();
        }
        got
    }
}

#[test]
fn sends_each_transaction_once_and_counts_it_to_the_end() {
    // The tile's clock is virtual and begins about now; the far end follows it.
    let start = Instant::now();
    let mut far = FarEnd::new(start);
    let config = Config { target: far.socket.local_addr(), connections: 2, client: ClientConfig::local() };
    let mut rig = Rig::<Benchs>::new(&config, &["benchg_benchs:0"], &[]);
    let (mut given, mut got) = (0u32, vec![]);
    let deadline = Instant::now() + Duration::from_secs(20);
    while got.len() < 500 || rig.count().acknowledged < 500 {
        for _ in 0..(500 - given).min(8) {
            rig.give("benchg_benchs:0", 0, &[&given.to_le_bytes()[..], &[9; 200]].concat());
            given += 1;
        }
        for _ in 0..4 {
            rig.turn();
        }
        let clock = rig.clock();
        got.extend(far.turn(clock.instant(clock.now())));
        rig.advance(Duration::from_micros(500));
        assert!(Instant::now() < deadline, "{} arrived, {:?}", got.len(), rig.count());
    }
    got.sort();
    got.dedup();
    let count = rig.count();
    assert_eq!((got.len(), count.sent, count.acknowledged), (500, 500, 500));
    assert_eq!((count.lost, count.stopped, count.in_flight, count.connected), (0, 0, 0, 2));
}
