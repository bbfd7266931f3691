//! Peers with stake: more streams, connections and speed than those without, and evicted last.

use std::net::SocketAddr;
use std::time::Duration;

use hearth_quic::{ClientConfig, ServerConfig, Stakes, tls};
use quinn_proto::Dir;

use crate::common::{NetworkFaults, RawConfig, World};

const SOON: Duration = Duration::from_secs(5);

/// The cluster's limits, in which `[1; 32]` has a thousandth of the stake and `[2; 32]` the rest.
fn config() -> ServerConfig {
    let key = |seed| tls::public_key(&[seed; 32]);
    ServerConfig { stakes: Stakes::new([(key(1), 10), (key(2), 9990)]), ..ServerConfig::agave() }
}

fn connect(world: &mut World, seed: u8) -> usize {
    let n = world.add_raw(RawConfig::solana(Some([seed; 32])));
    world.run_until(SOON, |w| w.raw(n).connected || w.raw(n).lost.is_some());
    world.run_for(Duration::from_millis(10));
    n
}

#[test]
fn streams_at_once_go_by_stake() {
    let mut world = World::new(config(), NetworkFaults::FAIR, 1);
    for (seed, streams) in [(1, 227), (2, 512), (3, 128)] {
        let n = connect(&mut world, seed);
        let open = std::iter::from_fn(|| world.raw(n).quic.streams().open(Dir::Uni)).count();
        assert_eq!(open, streams, "seed {seed}");
    }
    assert_eq!(world.server.counters().connections_with_stake, 2);
}

#[test]
fn connections_of_a_key_go_by_stake() {
    // Without stake the addresses count, and these are all different.
    for (seed, connections) in [(1, 16), (3, 17)] {
        let mut world = World::new(config(), NetworkFaults::FAIR, 1);
        (0..17).for_each(|_| _ = connect(&mut world, seed));
        assert_eq!(world.server.connection_count(), connections);
        assert_eq!(world.server.counters().refused_key_count, 17 - connections as u64);
    }
}

#[test]
fn stakes_of_a_new_epoch_hold_for_open_connections_too() {
    let key = |seed| tls::public_key(&[seed; 32]);
    let mut world = World::new(config(), NetworkFaults::FAIR, 1);
    let (loser, winner) = (connect(&mut world, 1), connect(&mut world, 3));
    let open = |world: &mut World, n: usize| std::iter::from_fn(|| world.raw(n).quic.streams().open(Dir::Uni)).count();
    assert_eq!(open(&mut world, winner), 128);
    world.server.set_stakes(Stakes::new([(key(2), 9_000), (key(3), 1_000)]));
    world.run_for(Duration::from_millis(50));
    assert_eq!(open(&mut world, winner), 512 - 128, "a tenth of the stake");
    assert_eq!(open(&mut world, loser), 227, "what was granted stays");
    let before = world.server.counters().connections_with_stake;
    connect(&mut world, 1);
    assert_eq!(world.server.counters().connections_with_stake, before);
    connect(&mut world, 3);
    assert_eq!(world.server.counters().connections_with_stake, before + 1);
}

/// The time for a thousand transactions of a peer.
fn thousand(world: &mut World, seed: u8) -> Duration {
    let n = world.nodes.len();
    world.add_client_at(ClientConfig::default(), World::address(n), Some([seed; 32]));
    let (mut sent, start, before) = (0u32, world.now, world.received.len());
    world.run_until(Duration::from_secs(20), |w| {
        while sent < 1000 && w.client(n).send_transaction(&sent.to_le_bytes()).is_ok() {
            sent += 1;
        }
        w.received.len() == before + 1000
    });
    world.now - start
}

#[test]
fn the_staked_are_not_throttled_as_others_are() {
    let mut world = World::new(config(), NetworkFaults::FAIR, 1);
    assert!(thousand(&mut world, 1) < Duration::from_millis(200));
    assert_eq!(world.server.counters().throttled, 0);
    assert!(thousand(&mut world, 3) > Duration::from_millis(4800));
}

/// When staked peers reach their common limit, each gets its stake's share of it, but more than one without stake.
#[test]
fn when_the_staked_fill_the_server_each_has_its_share() {
    let key = |seed| tls::public_key(&[seed; 32]);
    // Eight large ones and a small one.
    let stakes = Stakes::new((1..=9).map(|seed| (key(seed), if seed < 9 { 1000 } else { 8 })));
    let config = ServerConfig { stakes, staked_streams_per_second: Some(2000), ..ServerConfig::agave() };
    let mut world = World::new(config, NetworkFaults::FAIR, 1);
    let press = |world: &mut World, span| {
        let until = world.now + span;
        while world.now < until {
            for n in 0..world.nodes.len() {
                while world.client(n).send_transaction(&[n as u8; 100]).is_ok() {}
            }
            world.run_for(Duration::from_millis(1));
        }
    };
    for seed in 1..=9 {
        let n = world.nodes.len();
        world.add_client_at(ClientConfig::default(), World::address(n), Some([seed; 32]));
        // Their windows do not begin together.
        press(&mut world, Duration::from_micros(11_111));
    }
    press(&mut world, Duration::from_secs(1));
    world.received.clear();
    press(&mut world, Duration::from_secs(10));
    for n in 0..9 {
        let count = world.received.iter().filter(|r| r.0.address == World::address(n)).count();
        // 24 or 25 of 200 in a window of 100 ms; 21, one more than without stake.
        let expected = if n < 8 { 2400..=2600 } else { 2050..=2150 };
        assert!(expected.contains(&count), "peer {n} had {count}");
    }
}

#[test]
fn an_address_does_not_limit_the_staked() {
    let config = ServerConfig { connects_per_ip_per_minute: 100, ..config() };
    let mut world = World::new(config, NetworkFaults::FAIR, 1);
    for port in 0..20 {
        let address = Some(SocketAddr::from(([10, 9, 9, 9], 1000 + port)));
        let seed = if port < 10 { 1 } else { 3 };
        world.add_raw(RawConfig { address, ..RawConfig::solana(Some([seed; 32])) });
    }
    world.run_for(Duration::from_secs(1));
    let count = world.server.counters();
    assert_eq!((count.refused_key_count, count.refused_ip_count), (0, 2), "eight of ten without stake");
    assert_eq!(world.server.connection_count(), 10 + 8);
}

#[test]
fn tiny_stake_counts_as_none() {
    let key = |seed| tls::public_key(&[seed; 32]);
    let stakes = Stakes::new([(key(1), 1), (key(2), 49_999), (key(3), 1_000_000)]);
    let mut world = World::new(ServerConfig { stakes, ..config() }, NetworkFaults::FAIR, 1);
    connect(&mut world, 1);
    assert_eq!(world.server.counters().connections_with_stake, 0, "its share is less than a stream in a window");
    connect(&mut world, 2);
    assert_eq!(world.server.counters().connections_with_stake, 1);
    (0..9).for_each(|_| _ = connect(&mut world, 1));
    assert_eq!(world.server.counters().refused_key_count, 2, "its key is counted, as of one without stake");
}

#[test]
fn connections_of_an_address_share_its_rate() {
    let config = ServerConfig { connects_per_ip_per_minute: 100, ..config() };
    let mut world = World::new(config, NetworkFaults::FAIR, 1);
    for port in [1000, 2000] {
        let address = SocketAddr::from(([10, 9, 9, 9], port));
        world.add_client_at(ClientConfig::default(), address, Some([port as u8; 32]));
    }
    let until = world.now + Duration::from_secs(5);
    while world.now < until {
        for n in 0..2 {
            while world.client(n).send_transaction(&[n as u8; 100]).is_ok() {}
        }
        world.run_for(Duration::from_millis(1));
    }
    // 20 in a window of 100 ms, of which there are 50.
    let count = world.received.len();
    assert!((900..=1020).contains(&count), "{count} transactions in five seconds");
}

#[test]
fn the_staked_have_room_of_their_own() {
    let config = ServerConfig { connections_max: 1, staked_connections_max: 1, ..config() };
    let mut world = World::new(config, NetworkFaults::FAIR, 1);
    let (staked, other) = (connect(&mut world, 1), connect(&mut world, 3));
    assert!(world.raw(staked).lost.is_none() && world.raw(other).lost.is_none());
    let newcomer = connect(&mut world, 4);
    world.run_for(Duration::from_millis(100));
    assert!(world.raw(newcomer).lost.is_some(), "the others are in use");
    world.run_for(Duration::from_secs(3));
    // Beyond its share, one with stake takes the place of one without.
    let second = connect(&mut world, 2);
    assert!(world.raw(staked).lost.is_none() && world.raw(second).lost.is_none());
    assert!(world.raw(other).lost.is_some(), "though the staked one was idle for longer");
}
