//! Peers that lie, flood, stall or send garbage: each is counted, and none harms the honest ones.

use std::net::SocketAddr;
use std::time::Duration;

use hearth_quic::{Client, ClientConfig, ServerConfig, close_code};
use hearth_testkit::random::Random;
use proptest::prelude::*;
use quinn_proto::{Dir, VarInt};

use crate::common::{NetworkFaults, Node, RawConfig, World};

const SOON: Duration = Duration::from_secs(5);

/// A world with one honest client that is connected.
fn world(config: ServerConfig) -> (World, usize) {
    let mut world = World::new(config, NetworkFaults::FAIR, 1);
    let honest = world.add_client(ClientConfig::default());
    world.run_until(SOON, |w| w.client(honest).send_transaction(&[0; 64]).is_ok());
    world.run_until(SOON, |w| w.received.len() == 1);
    (world, honest)
}

/// The honest client's transactions still arrive, promptly.
fn still_serves(world: &mut World, honest: usize) {
    let before = honest_count(world, honest);
    for i in 0..20 {
        assert!(world.client(honest).send_transaction(&[i; 100]).is_ok());
    }
    world.run_until(Duration::from_millis(500), |w| honest_count(w, honest) == before + 20);
}

fn honest_count(world: &World, honest: usize) -> usize {
    world.received.iter().filter(|r| r.0.address == World::address(honest)).count()
}

fn add_connected(world: &mut World, config: RawConfig) -> usize {
    let n = world.add_raw(config);
    world.run_until(SOON, |w| w.raw(n).connected);
    world.run_for(Duration::from_millis(10));
    n
}

#[test]
fn another_protocol_is_refused() {
    let (mut world, honest) = world(ServerConfig::agave());
    for alpn in [vec![b"h3".to_vec()], vec![]] {
        let n = world.add_raw(RawConfig { alpn, ..RawConfig::solana(None) });
        world.run_until(SOON, |w| w.raw(n).lost.is_some());
        assert!(!world.raw(n).connected);
    }
    world.run_for(Duration::from_millis(10));
    assert_eq!(world.server.counters().handshakes_failed, 2);
    assert_eq!(world.server.connection_count(), 1);
    let mut other = Client::with_alpn(ClientConfig::default(), None, &[6; 32], b"solana-tpu-2").unwrap();
    let id = other.connect(world.now, world.server_address);
    world.nodes.push((World::address(50), Node::Tpu(Box::new(other))));
    let n = world.nodes.len() - 1;
    world.run_until(SOON, |w| w.client(n).counters().disconnected > 0);
    let error = world.client(n).last_error(id).unwrap().to_owned();
    assert!(error.contains("120"), "TLS alert 120 is no_application_protocol: {error}");
    still_serves(&mut world, honest);
}

#[test]
fn certificate_without_its_private_key_is_refused() {
    let (mut world, honest) = world(ServerConfig::agave());
    let identity = Some(([1; 32], [2; 32]));
    let n = world.add_raw(RawConfig { identity, ..RawConfig::solana(None) });
    world.run_until(SOON, |w| w.raw(n).lost.is_some());
    world.run_for(Duration::from_millis(10));
    assert_eq!(world.server.counters().handshakes_failed, 1);
    assert_eq!(world.server.connection_count(), 1);
    still_serves(&mut world, honest);
}

/// Transport parameters as RFC 9000 section 18.2 encodes them: id, length, value.
const BIDI_STREAMS: &[u8] = &[0x08, 1, 10];
const UNI_STREAMS: &[u8] = &[0x09, 2, 0x50, 0];

#[test]
fn bidirectional_stream_ends_the_connection() {
    let (mut world, honest) = world(ServerConfig::agave());
    let n = add_connected(&mut world, RawConfig { greed: BIDI_STREAMS, ..RawConfig::solana(None) });
    let id = world.raw(n).quic.streams().open(Dir::Bi).expect("it believes it may");
    world.raw(n).write(id, &[1; 100], true);
    world.run_until(SOON, |w| w.raw(n).lost.is_some());
    assert_eq!(world.server.counters().connections_violated, 1);
    world.run_until(SOON, |w| w.server.connection_count() == 1);
    still_serves(&mut world, honest);
}

/// Streams before admission and beyond the grant are a violation, and cost no memory.
#[test]
fn more_streams_than_granted_end_the_connection() {
    let (mut world, honest) = world(ServerConfig::agave());
    let greedy = RawConfig { greed: UNI_STREAMS, ..RawConfig::solana(None) };
    let n = add_connected(&mut world, greedy);
    for _ in 0..400 {
        world.raw(n).send(&[1; 10], false);
    }
    world.run_until(SOON, |w| w.raw(n).lost.is_some());
    assert_eq!(world.server.counters().connections_violated, 1);
    world.run_until(SOON, |w| w.server.connection_count() == 1);
    still_serves(&mut world, honest);
}

#[test]
fn unfinished_streams_are_stopped_and_counted() {
    let (mut world, honest) = world(ServerConfig::agave());
    let n = add_connected(&mut world, RawConfig::solana(None));
    for i in 0..100 {
        world.raw(n).send(&vec![1; 1 + i], false);
    }
    world.run_for(Duration::from_millis(1500));
    assert_eq!(world.server.counters().streams_timed_out, 0);
    still_serves(&mut world, honest);
    world.run_until(Duration::from_secs(4), |w| w.raw(n).stopped == 100);
    assert_eq!(world.server.counters().streams_timed_out, 100);
    still_serves(&mut world, honest);
    // The peer may continue with streams that it finishes.
    world.raw(n).send(&[9; 77], true);
    world.run_until(SOON, |w| w.received.last().unwrap().1 == [9; 77]);
}

#[test]
fn slow_but_steady_stream_is_gathered() {
    let (mut world, _) = world(ServerConfig::agave());
    let n = add_connected(&mut world, RawConfig::solana(None));
    let id = world.raw(n).open();
    for i in 0..10 {
        world.raw(n).write(id, &[i; 50], i == 9);
        world.run_for(Duration::from_millis(1200));
    }
    let want: Vec<u8> = (0..10).flat_map(|i| [i; 50]).collect();
    assert_eq!(world.received.last().unwrap().1, want);
    assert_eq!(world.server.counters().transactions_reassembled, 1);
    assert_eq!(world.server.counters().streams_timed_out, 0);
}

#[test]
fn reset_and_empty_streams_are_counted() {
    let (mut world, honest) = world(ServerConfig::agave());
    let n = add_connected(&mut world, RawConfig::solana(None));
    for i in 0..6 {
        let id = world.raw(n).send(&[1; 40], false);
        if i % 2 == 0 {
            world.run_for(Duration::from_millis(10));
        }
        world.raw(n).quic.send_stream(id).reset(VarInt::from_u32(7)).unwrap();
        world.raw(n).send(&[], true);
    }
    world.run_until(SOON, |w| w.server.counters().streams_empty == 6);
    world.run_for(Duration::from_millis(100));
    let count = *world.server.counters();
    assert_eq!((count.streams_reset, count.streams_timed_out), (6, 0));
    still_serves(&mut world, honest);
}

#[test]
fn reassembly_memory_is_bounded() {
    let config = ServerConfig { reassembly_bytes_max: 10_000, ..ServerConfig::agave() };
    let (mut world, honest) = world(config);
    let n = add_connected(&mut world, RawConfig::solana(None));
    for _ in 0..20 {
        world.raw(n).send(&[1; 1000], false);
    }
    world.run_for(Duration::from_secs(1));
    assert_eq!(world.server.counters().streams_over_memory, 10);
    still_serves(&mut world, honest);
    world.run_for(Duration::from_secs(4));
    assert_eq!(world.server.counters().streams_timed_out, 10);
}

/// Thousands of first packets, from as many addresses, whose senders never answer.
#[test]
fn half_open_flood_is_bounded_and_costs_none() {
    let config = ServerConfig { half_open_retry: 64, ..ServerConfig::agave() };
    let (mut world, honest) = world(config);
    for round in 0..10 {
        for _ in 0..300 {
            world.add_raw(RawConfig { half_open: true, ..RawConfig::solana(None) });
        }
        world.run_for(Duration::from_millis(20));
        assert!(world.server.half_open_count() <= 64, "{}", world.server.half_open_count());
        assert!(world.server.connection_count() <= 66);
        // Only the honest client's node is served; the others are silent.
        still_serves(&mut world, honest);
        if round == 5 {
            // A newcomer gets in meanwhile: it can answer a Retry.
            let n = add_connected(&mut world, RawConfig::solana(Some([7; 32])));
            world.raw(n).send(&[5; 55], true);
            world.run_until(SOON, |w| w.received.last().unwrap().1 == [5; 55]);
            world.nodes.truncate(1);
        } else {
            world.nodes.truncate(1);
        }
    }
    let count = *world.server.counters();
    assert!(count.retries_sent >= 2000, "{count:#?}");
    world.run_for(Duration::from_secs(40));
    assert_eq!(world.server.half_open_count(), 0);
    assert!(world.server.counters().handshakes_timed_out >= 64);
    assert_eq!(world.server.connection_count(), 1, "the newcomer has timed out");
}

/// Peers that prove their address but never finish the handshake.
#[test]
fn proven_half_open_connections_are_bounded_too() {
    let config = ServerConfig { half_open_retry: 0, half_open_max: 0, ..ServerConfig::agave() };
    let mut world = World::new(config, NetworkFaults::FAIR, 2);
    world.add_raw(RawConfig::solana(None));
    world.run_for(Duration::from_secs(1));
    let count = world.server.counters();
    assert!(count.retries_sent > 0 && count.refused_half_open > 0, "{count:#?}");
    assert_eq!(world.server.connection_count(), 0);
}

#[test]
fn token_of_another_address_is_refused() {
    let config = ServerConfig { half_open_retry: 0, ..ServerConfig::agave() };
    let mut world = World::new(config, NetworkFaults::FAIR, 3);
    let n = world.add_raw(RawConfig::solana(None));
    // The Retry arrives; then the client's datagrams come from elsewhere.
    world.run_until(SOON, |w| w.server.counters().retries_sent == 1);
    world.run_until(SOON, |w| {
        w.settle();
        w.step();
        w.nodes[n].0 = World::address(1000);
        w.server.counters().datagrams_in >= 2
    });
    world.run_for(Duration::from_secs(1));
    assert_eq!(world.server.counters().handshakes_begun, 0);
}

/// More first packets than the budget: existing connections continue, and a newcomer that retries gets in.
#[test]
fn first_packets_beyond_the_budget_are_dropped_unread() {
    let config = ServerConfig { initials_per_second: 100, half_open_retry: 4, ..ServerConfig::agave() };
    let (mut world, honest) = world(config);
    for _ in 0..500 {
        world.add_raw(RawConfig { half_open: true, ..RawConfig::solana(None) });
    }
    world.run_for(Duration::from_millis(1));
    let count = *world.server.counters();
    // A tenth of a second's worth at once, less the honest client's two or three.
    assert!((7..=10).contains(&count.connects), "{count:#?}");
    assert_eq!(count.initials_dropped, 501 - count.connects);
    still_serves(&mut world, honest);
    world.nodes.truncate(1);
    let n = add_connected(&mut world, RawConfig::solana(None));
    assert!(world.raw(n).connected);
}

/// First packets of `count` clients that are on no network.
fn initials(world: &World, count: usize) -> Vec<Vec<u8>> {
    let mut client = Client::new(ClientConfig::default(), None, &[8; 32]).unwrap();
    let (mut all, mut buffer) = (Vec::new(), Vec::new());
    for _ in 0..count {
        client.connect(world.now, world.server_address);
        client.poll_transmit(world.now, &mut buffer).expect("an Initial");
        all.push(buffer.clone());
    }
    all
}

#[test]
fn first_packet_that_does_not_decrypt_is_counted() {
    let (mut world, honest) = world(ServerConfig::agave());
    let mut initial = initials(&world, 1).remove(0);
    *initial.last_mut().unwrap() ^= 1;
    let from = World::address(99);
    world.server.handle_datagram(world.now, from, None, &initial);
    assert_eq!(world.server.counters().refused_malformed, 1);
    // Too short for a first packet, and of no connection.
    world.server.handle_datagram(world.now, from, None, &initial[..1199]);
    assert_eq!(world.server.counters().datagrams_ignored, 1);
    assert_eq!(world.server.connection_count(), 1);
    still_serves(&mut world, honest);
}

#[test]
fn unfetched_answers_are_bounded() {
    let config = ServerConfig { half_open_retry: 0, responses_max: 10, ..ServerConfig::agave() };
    let mut world = World::new(config, NetworkFaults::FAIR, 4);
    for initial in initials(&world, 25) {
        world.server.handle_datagram(world.now, World::address(99), None, &initial);
    }
    let count = world.server.counters();
    assert_eq!((count.retries_sent, count.responses_dropped), (25, 15));
}

fn raw_at(ip: [u8; 4], port: u16, seed: Option<[u8; 32]>) -> RawConfig {
    RawConfig { address: Some(SocketAddr::from((ip, port))), ..RawConfig::solana(seed) }
}

#[test]
fn connections_per_address_are_limited() {
    let config = ServerConfig { connects_per_ip_per_minute: 100, ..ServerConfig::agave() };
    let (mut world, honest) = world(config);
    for i in 0..12 {
        world.add_raw(raw_at([10, 9, 9, 9], 1000 + i, None));
    }
    world.run_for(Duration::from_secs(1));
    let count = *world.server.counters();
    assert_eq!((count.connections_opened, count.refused_ip_count), (1 + 12, 4));
    let closed = (1..13).filter(|&n| world.raw(n).close_code() == Some(u64::from(close_code::TOO_MANY))).count();
    assert_eq!((closed, world.server.connection_count()), (4, 1 + 8));
    still_serves(&mut world, honest);
    let now = world.now;
    let open = (1..13).find(|&n| world.raw(n).lost.is_none()).expect("eight are open");
    world.raw(open).close(now);
    world.run_for(Duration::from_millis(100));
    add_connected(&mut world, raw_at([10, 9, 9, 9], 2000, None));
}

#[test]
fn new_connections_per_address_and_minute_are_limited() {
    let config = ServerConfig { connections_per_ip: 100, ..ServerConfig::agave() };
    let (mut world, honest) = world(config);
    for i in 0..12 {
        world.add_raw(raw_at([10, 9, 9, 9], 1000 + i, None));
    }
    world.run_for(Duration::from_millis(200));
    let count = *world.server.counters();
    assert_eq!((count.connections_opened, count.refused_ip_rate), (1 + 8, 4));
    still_serves(&mut world, honest);
}

#[test]
fn new_connections_in_all_are_limited() {
    let config = ServerConfig { connects_per_second: 5, connects_burst: 10, ..ServerConfig::agave() };
    let (mut world, honest) = world(config);
    for _ in 0..15 {
        world.add_raw(RawConfig { half_open: true, ..RawConfig::solana(None) });
    }
    world.run_for(Duration::from_millis(10));
    let count = *world.server.counters();
    assert_eq!((count.handshakes_begun, count.refused_rate), (10, 6));
    still_serves(&mut world, honest);
}

/// Anybody can make keys, so only the address counts.
#[test]
fn a_key_without_stake_has_no_limit() {
    let (mut world, honest) = world(ServerConfig::agave());
    for _ in 0..9 {
        world.add_raw(RawConfig::solana(Some([42; 32])));
    }
    world.run_for(Duration::from_secs(1));
    assert_eq!(world.server.counters().refused_key_count, 0);
    assert_eq!(world.server.connection_count(), 1 + 9);
    still_serves(&mut world, honest);
}

#[test]
fn at_the_limit_the_longest_unused_connection_gives_way() {
    let config = ServerConfig { connections_max: 4, ..ServerConfig::agave() };
    let (mut world, honest) = world(config);
    let old = add_connected(&mut world, RawConfig::solana(None));
    world.run_for(Duration::from_millis(900));
    for _ in 0..2 {
        add_connected(&mut world, RawConfig::solana(None));
    }
    // All four are in use or new: a newcomer is refused.
    let refused = world.add_raw(RawConfig::solana(None));
    world.run_for(Duration::from_millis(500));
    assert!(world.raw(refused).lost.is_some());
    assert_eq!(world.server.counters().refused_connections_max, 1);
    // Now `old` has been unused for two seconds, though it kept itself alive.
    world.run_for(Duration::from_millis(700));
    still_serves(&mut world, honest);
    let new = add_connected(&mut world, RawConfig::solana(None));
    assert_eq!(world.raw(old).close_code(), Some(u64::from(close_code::DROPPED)));
    assert!(world.raw(new).lost.is_none());
    assert_eq!(world.server.counters().connections_evicted, 1);
    assert_eq!(world.server.connection_count(), 4);
    still_serves(&mut world, honest);
}

#[test]
fn streams_per_second_are_limited_by_not_reading() {
    let config = ServerConfig { streams_per_second: Some(200), ..ServerConfig::agave() };
    let mut world = World::new(config, NetworkFaults::FAIR, 1);
    let n = world.add_client(ClientConfig::default());
    let mut sent = 0u32;
    let mut last = (0, Duration::ZERO);
    world.run_until(Duration::from_secs(12), |w| {
        while sent < 1000 && w.client(n).send_transaction(&sent.to_le_bytes()).is_ok() {
            sent += 1;
        }
        let (at, count) = (w.now - w.start, w.received.len());
        // At most 20 come in one window of 100 ms, so never 41 within 100 ms.
        if at - last.1 >= Duration::from_millis(100) {
            assert!(count - last.0 <= 40, "{} in {:?}", count - last.0, at - last.1);
            last = (count, at);
        }
        count == 1000
    });
    let span = world.now - world.start;
    assert!(span >= Duration::from_millis(4800), "1000 at 200 a second took {span:?}");
    assert!(span <= Duration::from_millis(5600), "1000 at 200 a second took {span:?}");
    let count = world.server.counters();
    assert!((49..=50).contains(&count.throttled), "{}", count.throttled);
    assert_eq!(count.transactions, 1000);
    assert_eq!(world.client(n).counters().stopped, 0);
}

/// A dishonest peer with streams to read must not hold up the others.
#[test]
fn connections_are_read_in_turn() {
    let (mut world, honest) = world(ServerConfig::local());
    let n = add_connected(&mut world, RawConfig::solana(None));
    world.room = false;
    for _ in 0..500 {
        world.raw(n).send(&[1; 100], true);
    }
    world.run_for(Duration::from_millis(500));
    world.client(honest).send_transaction(&[2; 100]).unwrap();
    world.run_for(Duration::from_millis(10));
    let mut reads = 0;
    loop {
        let read = world.server.poll_transaction(world.now, |peer, _| peer.address).unwrap();
        reads += 1;
        if read == World::address(honest) {
            break;
        }
    }
    assert!(reads <= 65, "after {reads} reads");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever bytes arrive, from any address, the server and an honest connection continue to work.
    #[test]
    fn garbage_never_hurts(seed: u64, count in 1usize..200) {
        let (mut world, honest) = world(ServerConfig::agave());
        let mut rng = Random(seed);
        for _ in 0..count {
            let len = rng.below(1500) as usize;
            let mut payload = rng.bytes(len);
            // Half of them look like QUIC version 1 at first sight.
            if len > 6 && rng.chance(500) {
                payload[0] |= 0xc0;
                payload[1..5].copy_from_slice(&[0, 0, 0, 1]);
            }
            let from = match rng.below(3) {
                0 => World::address(honest),
                n => World::address(100 + n as usize),
            };
            world.server.handle_datagram(world.now, from, None, &payload);
            let to = world.server_address;
            let now = world.now;
            world.client(honest).handle_datagram(now, to, None, &payload);
        }
        still_serves(&mut world, honest);
    }

    /// Genuine datagrams, cut or changed at random, in every phase of a connection.
    #[test]
    fn mangled_datagrams_never_hurt(seed: u64) {
        let mut world = World::new(ServerConfig::agave(), NetworkFaults::FOUL, seed);
        let n = world.add_client(ClientConfig::default());
        let mut rng = Random(seed);
        let mut buffer = Vec::new();
        let mut sent = 0;
        for _ in 0..300 {
            if world.client(n).send_transaction(&[1; 300]).is_ok() {
                sent += 1;
            }
            let now = world.now;
            while let Some(t) = world.client(n).poll_transmit(now, &mut buffer) {
                for datagram in buffer.chunks(t.segment_size.unwrap_or(t.len)) {
                    world.send(World::address(n), t.to, datagram);
                    let mut bad = datagram.to_vec();
                    for _ in 0..=rng.below(3) {
                        let at = rng.below(bad.len() as u64) as usize;
                        bad[at] ^= 1 << rng.below(8);
                    }
                    bad.truncate(1 + rng.below(bad.len() as u64) as usize);
                    world.send(World::address(n), t.to, &bad);
                }
            }
            world.step();
        }
        world.weather = NetworkFaults::FAIR;
        world.run_until(Duration::from_secs(60), |w| w.client(n).in_flight() == 0);
        world.run_for(Duration::from_secs(1));
        let c = *world.client(n).counters();
        prop_assert_eq!(c.acknowledged + c.lost + c.stopped, sent);
        prop_assert!(world.received.len() as u64 >= c.acknowledged);
    }
}
