//! Tile tests: transfers in, received by a QUIC server on loopback.

use std::net::{Ipv4Addr, UdpSocket as StdSocket};
use std::time::{Duration, Instant};

use hearth_quic::{Server, ServerConfig};
use hearth_testkit::wait_until;
use hearth_tile::rig::Rig;
use hearth_tile::sys::udp::readable;

use super::*;
use crate::links::BENCHG_BENCHS;

/// The tile, and a TPU server behind a loopback socket. Both live on the rig's virtual clock.
struct World {
    rig: Rig<Benchs>,
    server: Option<Server>,
    socket: StdSocket,
    /// Whether the server's transactions are read.
    reads: bool,
    got: Vec<u64>,
}

impl World {
    fn new(connections: usize) -> Self {
        let socket = StdSocket::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        let config =
            Config { target: socket.local_addr().unwrap(), connections, client: ClientConfig::local(), identity: None };
        let rig = Rig::<Benchs>::new(config, &[BENCHG_BENCHS], &[]);
        let mut world = Self { rig, server: None, socket, reads: true, got: vec![] };
        world.start_server();
        world
    }

    fn start_server(&mut self) {
        let now = self.rig.clock().instant(self.rig.clock().now());
        self.server = Some(Server::new(ServerConfig::local(), &[1; 32], &[2; 32], now).unwrap());
    }

    /// Gives everything one turn, then advances virtual time by `tick`.
    fn step(&mut self, tick: Duration) {
        self.rig.turn();
        let now = self.rig.clock().instant(self.rig.clock().now());
        let mut buffer = vec![0; 65_536];
        while let Ok((len, from)) = self.socket.recv_from(&mut buffer) {
            if let Some(server) = &mut self.server {
                server.handle_datagram(now, from, None, &buffer[..len]);
            }
        }
        let Some(server) = &mut self.server else { return self.rig.advance(tick) };
        server.handle_timeout(now);
        let number = |_: &hearth_quic::Peer, bytes: &[u8]| u64::from_le_bytes(bytes[..8].try_into().unwrap());
        while self.reads
            && let Some(number) = server.poll_transaction(now, number)
        {
            self.got.push(number);
        }
        while let Some(sent) = server.poll_transmit(now, &mut buffer) {
            self.socket.send_to(&buffer, sent.to).unwrap();
        }
        self.rig.advance(tick);
    }

    fn until(&mut self, what: &str, tick: Duration, mut done: impl FnMut(&Self) -> bool) {
        let deadline = Instant::now() + hearth_testkit::PATIENCE;
        while !done(self) {
            assert!(Instant::now() < deadline, "not in time: {what}; {:?}", self.rig.count());
            self.step(tick);
        }
    }

    /// Gives numbered transactions of 200 bytes, at most a link's depth at a time.
    fn give(&mut self, numbers: std::ops::Range<u64>) {
        for number in numbers {
            let mut bytes = [9; 200];
            bytes[..8].copy_from_slice(&number.to_le_bytes());
            self.rig.give(BENCHG_BENCHS, 0, &bytes);
        }
    }

    fn accounted(&self) -> bool {
        let c = self.rig.count();
        c.sent == c.acknowledged + c.stopped + c.lost + c.in_flight
    }
}

const TICK: Duration = Duration::from_micros(100);

#[test]
fn every_transaction_arrives_once_and_is_accounted_for() {
    let mut world = World::new(4);
    world.until("all are connected", TICK, |w| w.rig.count().connected == 4);
    for round in 0..10 {
        world.give(round * 200..(round + 1) * 200);
        world.until("a round arrives", TICK, |w| w.got.len() as u64 == (round + 1) * 200);
    }
    world.got.sort_unstable();
    assert!(world.got.iter().copied().eq(0..2000));
    world.until("all are acknowledged", TICK, |w| w.rig.count().acknowledged == 2000);
    assert!(world.accounted());
    let c = world.rig.count();
    assert_eq!((c.sent, c.stopped, c.lost, c.disconnected, c.send_errors), (2000, 0, 0, 0, 0));
    assert!(c.datagrams_in > 0 && c.datagrams_out > 2000 * 200 / 1472);
}

#[test]
fn transactions_wait_for_a_connection() {
    let mut world = World::new(1);
    world.server = None;
    world.give(0..50);
    (0..100).for_each(|_| world.step(TICK));
    assert_eq!((world.rig.count().sent, world.rig.count().connected), (0, 0));
    world.start_server();
    world.until("all arrive", Duration::from_millis(1), |w| w.got.len() == 50);
    assert!(world.got.iter().copied().eq(0..50), "one connection keeps the order");
}

#[test]
fn a_server_that_does_not_read_stops_the_tile_and_nothing_is_lost() {
    let mut world = World::new(1);
    world.reads = false;
    world.until("it is connected", TICK, |w| w.rig.count().connected == 1);
    // At most 512 streams are open at once; with two more links' worth, the link fills up and stays full.
    let mut given = 0;
    while given < 512 + 100 {
        world.give(given..given + 100);
        given += 100;
        (0..50).for_each(|_| world.step(TICK));
    }
    let sent = world.rig.count().sent;
    assert!(sent < given, "{sent} of {given}");
    (0..200).for_each(|_| world.step(TICK));
    assert_eq!(world.rig.count().sent, sent, "it takes no more than the transport does");
    world.reads = true;
    world.until("all arrive", TICK, |w| w.got.len() as u64 == given);
    assert!(world.got.iter().copied().eq(0..given), "each once and in order");
    assert_eq!((world.rig.count().stopped, world.rig.count().lost), (0, 0));
}

#[test]
fn a_server_that_dies_and_comes_back_is_met_again() {
    let mut world = World::new(1);
    world.until("it is connected", TICK, |w| w.rig.count().connected == 1);
    world.give(0..10);
    world.until("ten arrive", TICK, |w| w.rig.count().acknowledged == 10);
    world.server = None;
    world.give(10..20);
    world.until("the connection is given up", Duration::from_millis(50), |w| w.rig.count().disconnected >= 1);
    assert_eq!((world.rig.count().lost, world.rig.count().in_flight), (10, 0), "sent, and never answered");
    assert!(world.accounted());
    world.start_server();
    world.give(20..30);
    world.until("the rest arrives", Duration::from_millis(1), |w| w.got.len() == 20);
    assert!(world.got.iter().copied().eq((0..10).chain(20..30)));
    world.until("all is acknowledged", Duration::from_millis(1), |w| w.rig.count().in_flight == 0);
    assert!(world.accounted() && world.rig.count().connected == 2);
}

#[test]
fn garbage_from_the_network_is_survived() {
    let mut world = World::new(1);
    let port = world.rig.tile().socket.local_addr().port();
    world.until("it is connected", TICK, |w| w.rig.count().connected == 1);
    for len in 0..300usize {
        let data: Vec<u8> = (0..len * 4).map(|i| (i * len) as u8).collect();
        world.socket.send_to(&data, ("127.0.0.1", port)).unwrap();
        world.step(TICK);
    }
    world.give(0..100);
    world.until("all arrive", TICK, |w| w.got.len() == 100);
    assert_eq!(world.rig.count().disconnected, 0);
    assert!(world.rig.count().datagrams_in >= 300);
}

/// The kernel is asked once: by the sleep before or after a turn, or by the tile.
#[test]
fn sleeps_look_for_datagrams_too() {
    let mut world = World::new(1);
    let to = (Ipv4Addr::LOCALHOST, world.rig.tile().socket.local_addr().port());
    world.socket.send_to(b"noise", to).unwrap();
    let is_waiting = |world: &mut World| readable([&world.rig.tile().socket]) != 0;
    wait_until("the datagram", || is_waiting(&mut world));
    world.rig.turn_before_sleep();
    assert!(is_waiting(&mut world), "the sleep will find it");
    world.rig.tile().slept(0);
    world.rig.turn();
    assert!(is_waiting(&mut world), "the sleep found none");
    world.rig.turn();
    assert!(!is_waiting(&mut world));
}
