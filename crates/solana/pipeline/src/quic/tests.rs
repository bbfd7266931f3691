//! Tile tests: a client's datagrams in, transactions and responses out.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use hearth_quic::{Client, ClientConfig};
use hearth_tile::regime::Regime;
use hearth_tile::rig::{DEPTH, Rig};

use super::*;

const VERIFY: [&str; 2] = ["quic_verify:0", "quic_verify:1"];

/// The tile, and a client that reaches it only over its links, on one virtual clock.
struct World {
    rig: Rig<Quic>,
    client: Client,
    here: SocketAddr,
}

impl World {
    fn new() -> Self {
        let outputs = [VERIFY[0], VERIFY[1], QUIC_NET];
        let rig = Rig::<Quic>::new(
            Config { server: ServerConfig::local(), drops: DropLog::default(), tap: None },
            &[NET_QUIC],
            &outputs,
        );
        let mut client = Client::new(ClientConfig::local(), Some(&[3; 32]), &[4; 32]).unwrap();
        client.connect(rig.clock().instant(0), "127.0.0.1:8009".parse().unwrap());
        Self { rig, client, here: "127.0.0.1:9000".parse().unwrap() }
    }

    fn give(&mut self, port: PortKind, data: &[u8]) {
        let mut frag = vec![0; Datagram::HEADER + data.len()];
        Datagram { from: self.here, port, data }.write(&mut frag);
        self.rig.give(NET_QUIC, 0, &frag);
    }

    /// Transports the datagrams of both sides, and lets 200 µs pass.
    fn step(&mut self) {
        let now = self.rig.clock().instant(self.rig.clock().now());
        self.client.handle_timeout(now);
        let mut buffer = vec![];
        // At most half of the link: the tile reads all of it before more is given.
        for _ in 0..4 {
            let Some(sent) = self.client.poll_transmit(now, &mut buffer) else { break };
            for datagram in buffer.chunks(sent.segment_size.unwrap_or(sent.len)) {
                self.give(PortKind::Quic, datagram);
            }
            self.rig.run();
        }
        self.rig.run();
        for (_, payload) in self.rig.take(QUIC_NET) {
            let Outgoing { to, segment, data, .. } = Outgoing::read(&payload);
            assert_eq!((to, segment), (self.here, 0));
            self.client.handle_datagram(now, "127.0.0.1:8009".parse().unwrap(), None, data);
        }
        self.rig.advance(Duration::from_micros(200));
    }

    /// Sends numbered transactions, calling `each` after every step, until the client has accepted all of them and
    /// `each` returns true.
    fn send(&mut self, numbers: std::ops::Range<u64>, mut each: impl FnMut(&mut Self) -> bool) {
        let mut numbers = numbers.peekable();
        for _ in 0..20_000 {
            while let Some(number) = numbers.peek()
                && self.client.send_transaction(&transaction(*number)).is_ok()
            {
                numbers.next();
            }
            self.step();
            if each(self) && numbers.peek().is_none() {
                return;
            }
        }
        panic!("not within 4 s of virtual time: {:?} {:?}", self.rig.count(), self.client.counters());
    }

    fn take(&mut self, verify: usize) -> Vec<u64> {
        let number = |(_, bytes): (u64, Vec<u8>)| {
            let number = u64::from_le_bytes(bytes[..8].try_into().unwrap());
            assert_eq!(bytes, transaction(number), "whole and unchanged");
            number
        };
        self.rig.take(VERIFY[verify]).into_iter().map(number).collect()
    }
}

/// Makes a transaction of unique length, 8 to 1,232 bytes, that contains its number. Nothing parses it here.
fn transaction(number: u64) -> Vec<u8> {
    let mut bytes = vec![number as u8; 8 + (number as usize * 37) % (TXN_MTU - 7)];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes
}

#[test]
fn a_thousand_transactions_arrive_once_each_over_both_links() {
    let (mut world, mut got) = (World::new(), [vec![], vec![]]);
    world.send(0..1000, |world| {
        (0..2).for_each(|v| got[v].extend(world.take(v)));
        got[0].len() + got[1].len() == 1000
    });
    let all: BTreeSet<u64> = got.iter().flatten().copied().collect();
    assert!(all.into_iter().eq(0..1000));
    assert!(got.iter().all(|g| g.len() > 300), "{} and {}", got[0].len(), got[1].len());
    world.send(0..0, |world| world.client.in_flight() == 0);
    let c = *world.client.counters();
    assert_eq!((c.sent, c.acknowledged, c.stopped, c.lost), (1000, 1000, 0, 0));
    world.rig.advance(Duration::from_millis(2));
    world.rig.run();
    let count = world.rig.count();
    assert_eq!((count.forwarded, count.transactions, count.connections, count.half_open), (1000, 1000, 1, 0));
    assert_eq!((count.handshakes_begun, count.connections_opened, count.handshakes_failed), (1, 1, 0));
}

#[test]
fn stakes_of_the_epoch_come_in_pieces() {
    let inputs = [NET_QUIC, TXSEND_QUIC];
    let config = Config { server: ServerConfig::agave(), drops: DropLog::default(), tap: None };
    let rig = Rig::<Quic>::new(config, &inputs, &[VERIFY[0], VERIFY[1], QUIC_NET]);
    let own = hearth_quic::tls::public_key(&[3; 32]);
    let mut client = Client::new(ClientConfig::local(), Some(&[3; 32]), &[4; 32]).unwrap();
    client.connect(rig.clock().instant(0), "127.0.0.1:8009".parse().unwrap());
    let mut world = World { rig, client, here: "127.0.0.1:9000".parse().unwrap() };
    // The client is in the last of three chunks.
    let others = (0..2 * StakesPiece::LEN_MAX).map(|n| ([n as u8; 32], 1));
    let table: Vec<_> = others.chain([(own, 7)]).collect();
    for first in (0..table.len()).step_by(StakesPiece::LEN_MAX) {
        assert_eq!(world.rig.count().staked_identities, 0, "the table is not whole");
        let mut piece = [0; StakesPiece::MTU];
        let length = StakesPiece::write(&mut piece, &table, first);
        world.rig.give(TXSEND_QUIC, 0, &piece[..length]);
        world.rig.run();
    }
    assert_eq!(world.rig.count().staked_identities, table.len() as u64);
    world.send(0..1, |world| world.rig.count().connections_opened == 1);
    assert_eq!(world.rig.count().connections_with_stake, 1);
}

#[test]
fn stalled_verify_tile_delays_no_other() {
    let (mut world, mut got) = (World::new(), vec![]);
    world.send(0..1000, |world| {
        got.extend(world.take(0));
        world.rig.count().forwarded == 1000
    });
    got.extend(world.take(0));
    let left = world.take(1);
    assert!(left.len() <= DEPTH as usize && got.len() + left.len() == 1000);
    assert!(got.into_iter().chain(left).collect::<BTreeSet<u64>>().into_iter().eq(0..1000));
}

/// Sends one at a time, each after the previous one has arrived, as under a load far below saturation.
fn one_by_one(world: &mut World, numbers: std::ops::Range<u64>, mut take: impl FnMut(&mut World)) {
    for number in numbers {
        let before = world.rig.count().forwarded;
        world.send(number..number + 1, |world| {
            take(world);
            world.rig.count().forwarded > before
        });
    }
    take(world);
}

#[test]
fn below_saturation_each_verify_tile_gets_its_share_and_a_slow_one_less() {
    let (mut world, mut got) = (World::new(), [0; 2]);
    one_by_one(&mut world, 0..100, |world| (0..2).for_each(|v| got[v] += world.take(v).len()));
    assert!(got.iter().all(|got| (45..=55).contains(got)), "{got:?}");
    // A tile that is busy with other work gets more only while its queue is no longer than the other's.
    let mut quick = 0;
    one_by_one(&mut world, 100..200, |world| quick += world.take(0).len());
    assert!(quick >= 95, "{quick}");
    assert_eq!(quick + world.take(1).len(), 100);
}

#[test]
fn with_no_room_downstream_nothing_is_lost() {
    let (mut world, mut got) = (World::new(), vec![]);
    // More than both links hold: the client cannot send it all, since nothing is read.
    let full = 2 * u64::from(DEPTH);
    let mut quiet = 0;
    world.send(0..0, |world| world.client.counters().connected == 1);
    let mut numbers = 0u64;
    while quiet < 2000 {
        while numbers < 20_000 && world.client.send_transaction(&transaction(numbers)).is_ok() {
            numbers += 1;
        }
        let before = world.rig.count().forwarded;
        world.step();
        quiet = if world.rig.count().forwarded == before { quiet + 1 } else { 0 };
    }
    assert_eq!(world.rig.count().forwarded, full);
    let (held_up, times) = world.rig.backpressure();
    assert!(held_up, "transactions wait, and both links are full");
    assert!(times < 1000, "a stall counts once: {times}");
    let spent = world.rig.regimes()[Regime::Backpressure as usize];
    world.rig.turn_after(Duration::from_millis(3));
    assert!(world.rig.regimes()[Regime::Backpressure as usize] >= spent + 3_000_000);
    assert!(
        (full + 1..20_000).contains(&numbers),
        "the connection holds some more, then flow control holds the client back"
    );
    world.send(numbers..numbers + 100, |world| {
        (0..2).for_each(|v| got.extend(world.take(v)));
        got.len() as u64 == numbers + 100
    });
    got.sort_unstable();
    assert!(got.into_iter().eq(0..numbers + 100), "each once");
    world.send(0..0, |world| world.client.in_flight() == 0);
    assert_eq!((world.client.counters().stopped, world.client.counters().lost), (0, 0));
}

/// From a stream, and from a UDP datagram; the server's own datagrams have no origin.
#[test]
fn a_transaction_was_received_with_its_datagram() {
    let mut world = World::new();
    world.send(0..1, |world| world.take(0).len() + world.take(1).len() == 1);
    world.rig.take(QUIC_NET);
    let now = world.rig.clock().now();
    let mut buffer = vec![];
    world.client.send_transaction(&transaction(1)).unwrap();
    world.client.poll_transmit(world.rig.clock().instant(now), &mut buffer).unwrap();
    world.give(PortKind::Quic, &buffer);
    world.give(PortKind::Udp, &transaction(2));
    world.rig.advance(Duration::from_micros(700));
    world.rig.run();
    let origins: Vec<u32> = VERIFY.iter().flat_map(|v| world.rig.take_origins(v)).collect();
    assert_eq!(origins, [(now / 1_000) as u32; 2]);
    world.rig.advance(Duration::from_millis(50));
    world.rig.run();
    let said = world.rig.take_origins(QUIC_NET);
    assert!(!said.is_empty() && said.iter().all(|origin_us| *origin_us == 0), "{said:?}");
}

#[test]
fn plain_udp_passes_and_its_drops_are_counted() {
    let mut world = World::new();
    for number in [1, 2] {
        world.give(PortKind::Udp, &transaction(number));
    }
    world.give(PortKind::Udp, &[5; TXN_MTU]);
    world.give(PortKind::Udp, &[5; TXN_MTU + 1]);
    world.give(PortKind::Udp, b"");
    world.rig.run();
    let mut got: Vec<Vec<u8>> = VERIFY.iter().flat_map(|v| world.rig.take(v)).map(|(_, bytes)| bytes).collect();
    got.sort();
    let mut expected = vec![transaction(1), transaction(2), vec![5; TXN_MTU]];
    expected.sort();
    assert_eq!(got, expected);
    let count = world.rig.count();
    assert_eq!((count.udp_received, count.udp_dropped_size, count.forwarded), (5, 2, 3));
    // Nothing is read: a transaction without room is dropped, since UDP cannot tell the sender.
    for number in 0..2 * u64::from(DEPTH) + 7 {
        world.give(PortKind::Udp, &transaction(number));
        world.rig.run();
    }
    assert_eq!(world.rig.count().udp_dropped_full, 7);
    assert_eq!(world.take(0).len() + world.take(1).len(), 2 * DEPTH as usize);
}

/// Random bytes, truncated and corrupted handshakes: all are counted, none is an error, and an honest client still gets
/// through.
#[test]
fn garbage_is_counted_and_disturbs_none() {
    let mut world = World::new();
    let (mut random, mut buffer) = (fastrand::Rng::with_seed(7), vec![]);
    let mut stranger = Client::new(ClientConfig::local(), None, &[5; 32]).unwrap();
    stranger.connect(world.rig.clock().instant(0), "127.0.0.1:8009".parse().unwrap());
    stranger.poll_transmit(world.rig.clock().instant(0), &mut buffer).expect("a first datagram");
    world.here = "127.0.0.1:9001".parse().unwrap();
    for round in 0..600 {
        let mut data: Vec<u8> = match round % 3 {
            0 => (0..random.usize(..1500)).map(|_| random.u8(..)).collect(),
            1 => buffer[..random.usize(..buffer.len())].to_vec(),
            _ => buffer.clone(),
        };
        if round % 3 == 2 {
            let at = random.usize(..data.len());
            data[at] ^= 1 << random.usize(..8);
        }
        world.give(PortKind::Quic, &data);
        world.rig.run();
        world.rig.take(QUIC_NET);
    }
    world.rig.advance(Duration::from_millis(2));
    world.rig.run();
    let count = *world.rig.count();
    assert_eq!(count.datagrams_in, 600);
    assert!(count.datagrams_ignored > 200 && count.refused_malformed > 0, "{count:?}");
    assert_eq!((count.transactions, count.forwarded, count.connections_opened), (0, 0, 0));
    world.here = "127.0.0.1:9000".parse().unwrap();
    let mut got = vec![];
    world.send(0..10, |world| {
        (0..2).for_each(|v| got.extend(world.take(v)));
        got.len() == 10
    });
    // The strangers' handshakes time out.
    for _ in 0..50 {
        world.rig.advance(Duration::from_millis(100));
        world.step();
    }
    assert_eq!((world.rig.count().half_open, world.rig.count().connections), (0, 1));
}
