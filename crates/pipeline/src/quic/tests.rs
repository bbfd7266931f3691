use std::net::SocketAddr;
use std::time::Duration;

use hearth_quic::{Client, ClientConfig};
use hearth_tile::rig::Rig;

use super::*;

const CLIENT: &str = "127.0.0.1:5555";
const SERVER: &str = "127.0.0.1:9007";
const VERIFY: [&str; 2] = ["quic_verify:0", "quic_verify:1"];

/// The tile on a rig, and a client whose datagrams travel as frags.
struct Pair {
    rig: Rig<Quic>,
    client: Client,
}

impl Pair {
    fn new() -> Self {
        let config = Config { server: ServerConfig::local() };
        let rig = Rig::<Quic>::new(&config, &["net_quic:0"], &["quic_verify:0", "quic_verify:1", "quic_net:0"]);
        let mut client = Client::new(ClientConfig::local(), Some(&[1; 32]), &[2; 32]).unwrap();
        let clock = rig.clock();
        client.connect(clock.instant(clock.now()), SERVER.parse().unwrap());
        Self { rig, client }
    }

    /// Client to tile and back once, then a millisecond passes.
    fn exchange(&mut self) {
        let clock = self.rig.clock().clone();
        let now = clock.instant(clock.now());
        self.client.handle_timeout(now);
        let mut buffer = vec![];
        for _ in 0..4 {
            let Some(transmit) = self.client.poll_transmit(now, &mut buffer) else { break };
            for datagram in buffer.chunks(transmit.segment_size.unwrap_or(buffer.len())) {
                give(&mut self.rig, CLIENT, PortKind::Quic, datagram);
            }
        }
        for _ in 0..8 {
            self.rig.turn();
        }
        for (_, message) in self.rig.take("quic_net:0") {
            let outgoing = Outgoing::read(&message);
            assert_eq!(outgoing.to.to_string(), CLIENT);
            self.client.handle_datagram(now, SERVER.parse().unwrap(), None, outgoing.data);
        }
        self.rig.advance(Duration::from_millis(1));
    }

    fn take(&mut self) -> [Vec<Vec<u8>>; 2] {
        VERIFY.map(|link| self.rig.take(link).into_iter().map(|(_, bytes)| bytes).collect())
    }
}

fn give(rig: &mut Rig<Quic>, from: &str, port: PortKind, data: &[u8]) {
    let from: SocketAddr = from.parse().unwrap();
    let mut buffer = vec![0; data.len() + Datagram::HEADER];
    let size = Datagram { from, port, data }.write(&mut buffer);
    rig.give("net_quic:0", 0, &buffer[..size]);
}

fn transaction(i: u32) -> Vec<u8> {
    [&i.to_le_bytes()[..], &[7; 196]].concat()
}

#[test]
fn each_transaction_arrives_once_and_the_verify_tiles_share_them() {
    let mut pair = Pair::new();
    let (mut sent, mut got) = (0, [vec![], vec![]]);
    for _ in 0..2_000 {
        while sent < 1_000 && pair.client.send_transaction(&transaction(sent)).is_ok() {
            sent += 1;
        }
        pair.exchange();
        let taken = pair.take();
        got.iter_mut().zip(taken).for_each(|(all, new)| all.extend(new));
        if got.iter().map(Vec::len).sum::<usize>() == 1_000 {
            break;
        }
    }
    assert!(got.iter().all(|g| g.len() > 300), "{} and {}", got[0].len(), got[1].len());
    let mut all = got.concat();
    all.sort();
    let mut expected: Vec<_> = (0..1_000).map(transaction).collect();
    expected.sort();
    assert_eq!(all, expected);
    assert_eq!(pair.rig.count().forwarded, 1_000);
}

#[test]
fn with_no_room_downstream_nothing_is_lost() {
    let mut pair = Pair::new();
    let mut sent = 0;
    // Nobody takes from the verify links: they fill, and flow control stops the client.
    for _ in 0..500 {
        while pair.client.send_transaction(&transaction(sent)).is_ok() {
            sent += 1;
        }
        pair.exchange();
    }
    let held = 2 * hearth_tile::rig::DEPTH;
    assert!(sent > held, "the client got {sent} under way");
    let mut got = 0;
    for _ in 0..2_000 {
        pair.exchange();
        got += pair.take().iter().map(Vec::len).sum::<usize>();
        if got == sent as usize {
            break;
        }
    }
    assert_eq!(got, sent as usize);
}

#[test]
fn udp_transactions_pass_or_are_counted() {
    let mut pair = Pair::new();
    give(&mut pair.rig, CLIENT, PortKind::Udp, &transaction(1));
    give(&mut pair.rig, CLIENT, PortKind::Udp, &[]);
    give(&mut pair.rig, CLIENT, PortKind::Udp, &[1; 1233]);
    pair.rig.run();
    assert_eq!(pair.take().concat(), [transaction(1)]);
    let count = pair.rig.count();
    assert_eq!((count.udp_received, count.forwarded, count.udp_dropped_size), (3, 1, 2));
    for i in 0..2 * hearth_tile::rig::DEPTH + 10 {
        give(&mut pair.rig, CLIENT, PortKind::Udp, &transaction(i));
        pair.rig.run();
    }
    assert_eq!(pair.rig.count().udp_dropped_full, 10);
}

#[test]
fn garbage_is_counted() {
    let mut pair = Pair::new();
    for size in [1, 20, 100, 1200] {
        give(&mut pair.rig, "127.0.0.9:1", PortKind::Quic, &vec![0x5a; size]);
    }
    pair.rig.run();
    pair.rig.advance(Duration::from_millis(2));
    pair.rig.run();
    assert_eq!(pair.rig.count().datagrams_in, 4);
    assert_eq!(pair.rig.count().datagrams_ignored, 4);
}
