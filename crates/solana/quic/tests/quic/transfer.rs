//! Transactions arrive whole, exactly once, whatever the network does, and every one is accounted
//! for on both sides.

use std::collections::HashMap;
use std::time::Duration;

use hearth_quic::{ClientConfig, ConnectionState, ServerConfig, TRANSACTION_BYTES_MAX, tls};
use hearth_testkit::random::Random;
use quinn_proto::{Dir, VarInt};

use crate::common::{NetworkFaults, RawConfig, World};

/// Transaction number `n`: its length (8 to 1232 B) and bytes follow from it.
fn transaction(n: u64) -> Vec<u8> {
    let mut rng = Random(n);
    let len = 8 + rng.below(TRANSACTION_BYTES_MAX as u64 - 7) as usize;
    let mut bytes = rng.bytes(len);
    bytes[..8].copy_from_slice(&n.to_le_bytes());
    bytes
}

/// Sends `count` transactions over the world's clients; checks that each arrived exactly once.
fn transfer(world: &mut World, count: u64) {
    let clients = world.nodes.len();
    let mut next = 0;
    world.run_until(Duration::from_secs(600), |w| {
        for n in 0..clients {
            while next < count && w.client(n).send_transaction(&transaction(next)).is_ok() {
                next += 1;
            }
        }
        next == count && (0..clients).all(|n| w.client(n).in_flight() == 0)
    });
    world.run_until(Duration::from_secs(60), |w| w.received.len() as u64 >= count);
    world.run_for(Duration::from_secs(5));
    let mut seen = HashMap::new();
    for (peer, bytes) in &world.received {
        let n = u64::from_le_bytes(bytes[..8].try_into().unwrap());
        assert_eq!(bytes, &transaction(n), "transaction {n} is whole");
        assert_eq!(seen.insert(n, *peer), None, "transaction {n} came once");
    }
    assert_eq!(seen.len() as u64, count);
    let server = *world.server.counters();
    assert_eq!(server.transactions, count);
    assert_eq!(server.streams_accepted, count);
    let (mut sent, mut acknowledged) = (0, 0);
    for n in 0..clients {
        sent += world.client(n).counters().sent;
        acknowledged += world.client(n).counters().acknowledged;
    }
    assert_eq!((sent, acknowledged), (count, count));
}

#[test]
fn ten_thousand_arrive_exactly_once_in_foul_weather() {
    for seed in [1, 2] {
        let mut world = World::new(ServerConfig::local(), NetworkFaults::FOUL, seed);
        for _ in 0..3 {
            world.add_client(ClientConfig::default());
        }
        transfer(&mut world, 10_000);
        assert!(world.server.counters().transactions_reassembled > 0, "seed {seed}");
    }
}

#[test]
fn ten_thousand_arrive_in_fair_weather_with_local_tuning() {
    let mut world = World::new(ServerConfig::local(), NetworkFaults::FAIR, 3);
    world.add_client(ClientConfig::local());
    transfer(&mut world, 10_000);
}

#[test]
fn peers_are_known_by_key_and_address() {
    let mut world = World::new(ServerConfig::local(), NetworkFaults::FAIR, 4);
    let with = world.add_client(ClientConfig::default());
    let without = world.add_client_at(ClientConfig::default(), World::address(77), None);
    for n in [with, without] {
        world.run_until(Duration::from_secs(5), |w| w.client(n).send_transaction(&[n as u8; 100]).is_ok());
    }
    world.run_until(Duration::from_secs(5), |w| w.received.len() == 2);
    let find = |n: usize| world.received.iter().find(|r| r.1[0] == n as u8).unwrap().0;
    assert_eq!(find(with).key, Some(tls::public_key(&[with as u8 + 1; 32])));
    assert_eq!(find(with).address, World::address(with));
    assert_eq!(find(without).key, None);
    assert_ne!(find(with).connection, find(without).connection);
    assert_eq!(world.server.counters().connections_without_key, 1);
}

/// A caller without room reads nothing, so the peer must stop; with room again, all arrives.
#[test]
fn without_room_the_sender_waits_and_nothing_is_lost() {
    let config = ServerConfig { streams_concurrent: 64, ..ServerConfig::local() };
    let mut world = World::new(config, NetworkFaults::FAIR, 5);
    let n = world.add_client(ClientConfig::default());
    world.room = false;
    let mut sent = 0u64;
    world.run_until(Duration::from_secs(5), |w| {
        while w.client(n).send_transaction(&transaction(sent)).is_ok() {
            sent += 1;
        }
        sent == 64
    });
    // Longer than any stream or idle time-out.
    world.run_for(Duration::from_secs(90));
    assert!(world.client(n).send_transaction(&transaction(64)).is_err());
    assert_eq!(world.received.len(), 0);
    world.room = true;
    world.run_until(Duration::from_secs(5), |w| w.received.len() == 64);
    assert_eq!(world.server.counters().streams_timed_out, 0);
    let numbers = world.received.iter().map(|r| u64::from_le_bytes(r.1[..8].try_into().unwrap()));
    assert_eq!(numbers.collect::<Vec<_>>(), (0..64).collect::<Vec<_>>());
}

#[test]
fn data_before_the_peers_close_is_read() {
    let mut world = World::new(ServerConfig::local(), NetworkFaults::FAIR, 6);
    let n = world.add_raw(RawConfig::solana(Some([8; 32])));
    world.room = false;
    world.run_until(Duration::from_secs(5), |w| w.raw(n).quic.streams().open(Dir::Uni).is_some());
    // The stream opened by the check stays empty; the others are whole.
    for i in 0..50u8 {
        world.raw(n).send(&[i; 150], true);
    }
    world.run_for(Duration::from_millis(50));
    let now = world.now;
    world.raw(n).close(now);
    world.run_for(Duration::from_secs(1));
    world.room = true;
    world.settle();
    assert_eq!(world.received.len(), 50);
    let count = world.server.counters();
    assert_eq!((count.connections_closed_by_peer, count.streams_abandoned), (1, 1));
    assert_eq!(world.server.connection_count(), 0, "and then it is forgotten");
}

/// Quinn set up as Solana's own TPU client does, at its defaults otherwise.
#[test]
fn solana_client_settings_interoperate() {
    let mut world = World::new(ServerConfig::agave(), NetworkFaults::FAIR, 7);
    let n = world.add_raw(RawConfig::solana(Some([8; 32])));
    world.run_until(Duration::from_secs(5), |w| w.raw(n).connected);
    world.run_for(Duration::from_millis(10));
    // What the server granted: 128 streams, each of one transaction.
    let mut streams = Vec::new();
    while let Some(id) = world.raw(n).quic.streams().open(Dir::Uni) {
        streams.push(id);
    }
    assert_eq!(streams.len(), 128);
    assert_eq!(world.raw(n).quic.streams().open(Dir::Bi), None);
    assert_eq!(world.raw(n).quic.datagrams().max_size(), None);
    for (i, id) in streams.into_iter().enumerate() {
        world.raw(n).write(id, &transaction(i as u64), true);
    }
    world.run_until(Duration::from_secs(5), |w| w.raw(n).finished == 128);
    world.run_until(Duration::from_secs(5), |w| w.received.len() == 128);
    assert_eq!(world.received[0].0.key, Some(tls::public_key(&[8; 32])));
    // Silence is bridged by the client's keep-alive.
    world.run_for(Duration::from_secs(120));
    assert!(world.raw(n).lost.is_none());
}

#[test]
fn longest_transaction_passes_and_no_longer_one() {
    let mut world = World::new(ServerConfig::local(), NetworkFaults::FAIR, 8);
    let n = world.add_raw(RawConfig::solana(None));
    world.run_until(Duration::from_secs(5), |w| w.raw(n).connected);
    world.run_for(Duration::from_millis(10));
    world.raw(n).send(&[1; TRANSACTION_BYTES_MAX], true);
    world.raw(n).send(&[2; 1], true);
    world.run_until(Duration::from_secs(5), |w| w.received.len() == 2);
    assert!(world.raw(n).lost.is_none());
    // The window holds the 1233rd byte back until the first 1232 are read.
    let id = world.raw(n).open();
    let wrote = world.raw(n).quic.send_stream(id).write(&[3; TRANSACTION_BYTES_MAX + 1]);
    assert_eq!(wrote, Ok(TRANSACTION_BYTES_MAX));
    world.run_for(Duration::from_millis(100));
    world.raw(n).write(id, &[3], true);
    world.run_until(Duration::from_secs(5), |w| w.raw(n).lost.is_some());
    let Some(quinn_proto::ConnectionError::ApplicationClosed(close)) = world.raw(n).lost.clone() else {
        panic!("closed otherwise: {:?}", world.raw(n).lost);
    };
    assert_eq!(close.error_code, VarInt::from_u32(hearth_quic::close_code::INVALID_STREAM));
    assert_eq!(&close.reason[..], b"invalid_stream");
    assert_eq!(world.received.len(), 2);
    assert_eq!(world.server.counters().streams_oversize, 1);
    assert_eq!(world.server.connection_count(), 0);
}

#[test]
fn client_reconnects_and_counts_what_was_lost() {
    let mut world = World::new(ServerConfig::local(), NetworkFaults::FAIR, 9);
    let n = world.add_client(ClientConfig::default());
    world.run_until(Duration::from_secs(5), |w| w.client(n).send_transaction(&[1; 99]).is_ok());
    world.run_until(Duration::from_secs(5), |w| w.client(n).counters().acknowledged == 1);
    // The network goes away with 10 transactions on it, until the connection has timed out.
    world.weather.loss_per_mille = 1000;
    for _ in 0..10 {
        world.client(n).send_transaction(&[2; 99]).expect("room");
    }
    world.run_until(Duration::from_secs(60), |w| w.client(n).counters().disconnected > 0);
    assert_eq!(world.client(n).counters().lost, 10);
    assert_eq!(world.client(n).in_flight(), 0);
    assert!(world.client(n).send_transaction(&[3; 99]).is_err());
    world.weather.loss_per_mille = 0;
    world.run_until(Duration::from_secs(60), |w| w.client(n).send_transaction(&[4; 99]).is_ok());
    world.run_until(Duration::from_secs(5), |w| w.received.len() == 2);
    assert_eq!(world.received[1].1, [4; 99]);
    let c = *world.client(n).counters();
    assert_eq!(c.sent, c.acknowledged + c.stopped + c.lost + world.client(n).in_flight());
    assert_eq!(c.connected, 2);
    assert_eq!(world.server.counters().connections_timed_out, 1);
}

#[test]
fn client_dials_until_a_server_is_there_and_stays_closed_when_closed() {
    let mut world = World::new(ServerConfig::local(), NetworkFaults::FAIR, 10);
    let n = world.add_client(ClientConfig::default());
    world.weather.loss_per_mille = 1000;
    world.run_for(Duration::from_secs(120));
    assert!(world.client(n).counters().connects >= 3);
    world.weather.loss_per_mille = 0;
    world.run_until(Duration::from_secs(60), |w| w.client(n).counters().connected == 1);
    let mut sent = None;
    world.run_until(Duration::from_secs(5), |w| {
        sent = w.client(n).send_transaction(&[1; 99]).ok();
        // Closed in the same breath, so no acknowledgement can have come.
        sent.inspect(|s| w.client_close(n, s.connection)).is_some()
    });
    let sent = sent.expect("run_until waits for it");
    assert_eq!(world.client(n).counters().lost, 1);
    world.run_until(Duration::from_secs(5), |w| w.server.connection_count() == 0);
    world.run_for(Duration::from_secs(60));
    assert_eq!(world.client(n).state(sent.connection), ConnectionState::Closed);
    assert_eq!(world.client(n).counters().connected, 1);
}

/// The same seed gives the same run, datagram for datagram.
#[test]
fn runs_repeat_with_the_seed() {
    let run = || {
        let mut world = World::new(ServerConfig::local(), NetworkFaults::FOUL, 11);
        world.add_client(ClientConfig::default());
        transfer(&mut world, 1_000);
        let order: Vec<u64> = world.received.iter().map(|r| u64::from_le_bytes(r.1[..8].try_into().unwrap())).collect();
        (order, *world.server.counters(), world.now - world.start)
    };
    assert_eq!(run(), run());
}

/// Sends `count` transactions, one a millisecond, over a path with a round trip of 176 ms and 5 % loss. Returns how
/// many have arrived when the last is sent.
fn arrived_from_afar(config: ClientConfig, count: u32) -> usize {
    let latency = Duration::from_millis(88);
    let weather = NetworkFaults { latency, jitter: Duration::ZERO, double_per_mille: 0, ..NetworkFaults::FOUL };
    let mut world = World::new(ServerConfig::local(), weather, 12);
    let n = world.add_client(config);
    world.run_until(Duration::from_secs(60), |w| w.client(n).counters().connected > 0);
    let mut bytes = [7; 215];
    for number in 0..count {
        bytes[..4].copy_from_slice(&number.to_le_bytes());
        // A transaction that finds no room is dropped.
        let _ = world.client(n).send_transaction(&bytes);
        world.run_for(Duration::from_millis(1));
    }
    world.received.len()
}

/// A thousand transactions a second need a window of 45 KB here; CUBIC's stays at a sixth of that.
#[test]
fn losses_do_not_close_the_window() {
    let config = ClientConfig { send_window_bytes: 256 << 10, ..ClientConfig::default() };
    assert!(arrived_from_afar(config.clone(), 5_000) < 2_500);
    let arrived = arrived_from_afar(ClientConfig { tolerates_loss: true, ..config }, 5_000);
    assert!(arrived > 4_500, "{arrived} of 5000 arrived");
}

#[test]
fn silence_ends_a_connection_after_its_timeout() {
    let mut world = World::new(ServerConfig::local(), NetworkFaults::FAIR, 13);
    let n = world.add_client(ClientConfig { idle_timeout: Duration::from_secs(10), ..ClientConfig::default() });
    world.run_until(Duration::from_secs(5), |w| w.client(n).send_transaction(&[1; 99]).is_ok());
    world.run_until(Duration::from_secs(5), |w| w.client(n).counters().acknowledged == 1);
    // A keep-alive is answered.
    world.run_for(Duration::from_secs(60));
    assert_eq!(world.client(n).counters().disconnected, 0);
    world.weather.loss_per_mille = 1000;
    world.run_for(Duration::from_secs(8));
    assert_eq!(world.client(n).counters().disconnected, 0);
    world.run_until(Duration::from_secs(6), |w| w.client(n).counters().disconnected == 1);
}
