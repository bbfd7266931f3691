//! The memory that a peer can make the server hold is bounded, and an honest peer never reaches the bound.

use std::time::Duration;

use hearth_quic::{ClientConfig, ServerConfig, close_code};
use proptest::prelude::*;
use quinn_proto::{StreamId, congestion};

use crate::common::{NetworkFaults, RawConfig, World};

const SOON: Duration = Duration::from_secs(5);

/// A peer that never considers a packet lost, and sends as much as the streams allow.
fn stubborn() -> RawConfig {
    let mut config = RawConfig::solana(Some([42; 32]));
    let mut congestion = congestion::CubicConfig::default();
    congestion.initial_window(1 << 40);
    config
        .transport
        .packet_threshold(u32::MAX)
        .time_threshold(1e9)
        .initial_mtu(1452)
        .mtu_discovery_config(None)
        .congestion_controller_factory(std::sync::Arc::new(congestion));
    config
}

/// A world with an honest client (node 0), a hostile peer (node 1), and streams that the peer has open.
fn world(config: ServerConfig, streams: usize) -> (World, Vec<StreamId>) {
    let mut world = World::new(config, NetworkFaults::FAIR, 1);
    world.add_client(ClientConfig::default());
    world.add_raw(stubborn());
    world.run_until(SOON, |w| w.raw(1).connected);
    world.run_for(Duration::from_millis(10));
    let ids = (0..streams).map(|_| world.raw(1).open()).collect();
    (world, ids)
}

/// Exchanges datagrams between the server and the peer, those of the peer only if `arrive` is set, and reads if there
/// is room; no timer runs. True while the server keeps the connection.
fn exchange(world: &mut World, arrive: bool) -> bool {
    let (from, mut now, mut buffer) = (world.nodes[1].0, world.now, vec![]);
    while let Some(sent) = world.raw(1).transmit(now, &mut buffer) {
        assert_eq!(sent.segment_size, None);
        if arrive {
            world.server.handle_datagram(now, from, None, &buffer);
        }
        assert!(world.server.unread_bytes() <= world.server.config().unread_bytes_max());
    }
    now += Duration::from_micros(50);
    world.now = now;
    while world.room && world.server.poll_transaction(now, |_, _| ()).is_some() {}
    while world.server.poll_transmit(now, &mut buffer).is_some() {
        let to = world.server_address;
        world.raw(1).handle(now, to, &buffer);
    }
    world.raw(1).close_code().is_none()
}

/// The hostile peer is gone with everything held for it, and the honest one is served.
fn all_is_well(world: &mut World) {
    assert_eq!(world.raw(1).close_code(), Some(u64::from(close_code::INVALID_STREAM)));
    assert_eq!((world.server.connection_count(), world.server.unread_bytes()), (1, 0));
    world.room = true;
    for i in 0..20 {
        assert!(world.client(0).send_transaction(&[i; 100]).is_ok());
    }
    world.run_until(Duration::from_millis(500), |w| w.received.len() == 20);
}

/// The costliest dribble: each datagram is full of a transaction that is read at once, but for one byte that waits
/// forever for the byte before it.
#[test]
fn bytes_behind_a_gap_hold_no_more_than_the_bound() {
    let config = ServerConfig { streams_per_second: None, ..ServerConfig::agave() };
    let (mut world, streams) = world(config, 100);
    for id in &streams {
        world.raw(1).write(*id, &[1], false);
    }
    exchange(&mut world, false);
    let (mut rounds, mut most) = (0, 0);
    for id in streams.iter().cycle() {
        world.raw(1).write(*id, &[2], false);
        world.raw(1).send(&[3; 1232], true);
        if !exchange(&mut world, true) {
            break;
        }
        rounds += 1;
        most = most.max(world.server.unread_bytes());
    }
    // 128 streams × 4 KiB, at about 1,440 B a datagram.
    assert!((350..380).contains(&rounds), "{rounds}");
    assert!((500_000..=524_288).contains(&most), "{most}");
    assert_eq!(world.server.counters().connections_over_memory, 1);
    assert_eq!(world.server.counters().connections_fragmented, 0);
    all_is_well(&mut world);
}

/// Streams that nobody reads, a byte at a time, each in a datagram of its own.
#[test]
fn unread_bytes_stay_within_the_bound() {
    let (mut world, streams) = world(ServerConfig::agave(), 128);
    world.room = false;
    for id in streams.iter().cycle() {
        world.raw(1).write(*id, &[1], false);
        if !exchange(&mut world, true) {
            break;
        }
    }
    assert_eq!(world.server.counters().connections_over_memory, 1);
    all_is_well(&mut world);
}

/// The same, many to a datagram: what costs then is not the datagrams but the pieces.
#[test]
fn streams_in_too_many_pieces_end_the_connection() {
    for room in [false, true] {
        let (mut world, streams) = world(ServerConfig::agave(), 128);
        world.room = room;
        let mut pieces = 0;
        loop {
            for id in &streams {
                world.raw(1).write(*id, &[1], false);
            }
            if !exchange(&mut world, true) {
                break;
            }
            pieces += 1;
        }
        assert_eq!(pieces, 32);
        assert_eq!(world.server.counters().connections_fragmented, 1);
        assert_eq!(world.server.counters().connections_over_memory, 0);
        all_is_well(&mut world);
    }
}

/// The most unread data of an honest peer: every stream full, in datagrams with one transaction each.
#[test]
fn honest_peers_may_fill_their_windows() {
    for (config, length) in [(ServerConfig::agave(), 1232), (ServerConfig::local(), 1232), (ServerConfig::local(), 200)]
    {
        let streams = config.streams_concurrent as usize;
        let config = ServerConfig { streams_per_second: None, ..config };
        let mut world = World::new(config, NetworkFaults::FAIR, 1);
        let n = world.add_raw(stubborn());
        world.run_until(SOON, |w| w.raw(n).connected);
        world.run_for(Duration::from_millis(10));
        world.room = false;
        for _ in 0..streams {
            world.raw(n).send(&vec![1; length], true);
            world.settle();
        }
        world.run_for(Duration::from_millis(500));
        assert!(world.server.unread_bytes() >= streams * length);
        world.room = true;
        world.run_until(SOON, |w| w.received.len() == streams);
        assert_eq!(world.server.unread_bytes(), 0, "what was read is let go");
        assert_eq!(world.server.counters().connections_over_memory, 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    /// A caller that reads intermittently, over a bad network: no honest peer is ever treated as hostile.
    #[test]
    fn honest_peers_in_foul_weather_are_kept(seed: u64, length in 8usize..=1232) {
        let mut world = World::new(ServerConfig::local(), NetworkFaults::FOUL, seed);
        world.add_client(ClientConfig::default());
        // In such weather a handshake alone may take seconds.
        world.run_until(Duration::from_secs(60), |w| w.client(0).send_transaction(&vec![1; length]).is_ok());
        let mut sent = 1;
        for _ in 0..10 {
            world.room = !world.room;
            let until = world.now + Duration::from_millis(200);
            while world.now < until {
                while sent < 4000 && world.client(0).send_transaction(&vec![1; length]).is_ok() {
                    sent += 1;
                }
                world.run_for(Duration::from_millis(5));
            }
        }
        world.room = true;
        world.run_until(Duration::from_secs(60), |w| w.received.len() == sent);
        prop_assert_eq!(world.server.counters().connections_over_memory, 0);
        prop_assert_eq!(world.server.counters().connections_fragmented, 0);
    }
}
