//! A client whose handshakes are signed elsewhere: at once, late, wrongly, or never.

use std::time::{Duration, Instant};

use hearth_quic::deferred::is_client_handshake;
use hearth_quic::{Client, ClientConfig, ConnectionState, Handshake, ServerConfig, tls};
use ring::signature::Ed25519KeyPair;

use crate::common::{NetworkFaults, Node, World};

const SEED: [u8; 32] = [7; 32];

/// Signs a client's handshakes, each after a delay.
struct Signer {
    seed: [u8; 32],
    after: Duration,
    waiting: Vec<(Instant, Handshake, [u8; 64])>,
}

impl Signer {
    fn new(seed: [u8; 32], after: Duration) -> Self {
        Self { seed, after, waiting: vec![] }
    }

    fn work(&mut self, now: Instant, client: &mut Client) {
        let key = Ed25519KeyPair::from_seed_unchecked(&self.seed).unwrap();
        while let Some((handshake, message)) = client.next_to_sign() {
            assert!(is_client_handshake(&message));
            let signature = key.sign(&message).as_ref().try_into().unwrap();
            self.waiting.push((now + self.after, handshake, signature));
        }
        self.waiting.retain(|(at, handshake, signature)| {
            let is_due = *at <= now;
            if is_due {
                client.signed(Handshake::from_bits(handshake.to_bits()), *signature);
            }
            !is_due
        });
    }
}

fn world(weather: NetworkFaults, seed: u64) -> (World, usize) {
    let mut world = World::new(ServerConfig::agave(), weather, seed);
    let mut client = Client::with_signer(ClientConfig::default(), tls::public_key(&SEED), &[5; 32]).unwrap();
    client.connect(world.now, world.server_address);
    world.nodes.push((World::address(0), Node::Tpu(Box::new(client))));
    (world, 0)
}

/// Sends one transaction; returns the sender's key as the server sees it.
fn sends(world: &mut World, signer: &mut Signer) -> Option<[u8; 32]> {
    let mut is_sent = false;
    world.run_until(Duration::from_secs(20), |world| {
        let now = world.now;
        let client = world.client(0);
        signer.work(now, client);
        is_sent = is_sent || client.send_transaction(b"a transaction").is_ok();
        !world.received.is_empty()
    });
    assert_eq!(world.received[0].1, b"a transaction");
    world.received[0].0.key
}

#[test]
fn a_signature_may_come_at_once_or_late() {
    for (weather, seeds) in [(NetworkFaults::FAIR, 0..2), (NetworkFaults::FOUL, 0..30)] {
        for seed in seeds {
            for after_ms in [0, 1, 70, 900] {
                let (mut world, _) = world(weather, seed);
                let mut signer = Signer::new(SEED, Duration::from_millis(after_ms));
                let key = sends(&mut world, &mut signer);
                assert_eq!(key, Some(tls::public_key(&SEED)), "seed {seed}, {after_ms} ms");
            }
        }
    }
}

#[test]
fn without_delay_a_handshake_takes_one_more_round_trip() {
    let (mut deferred, _) = world(NetworkFaults::FAIR, 1);
    let mut own = World::new(ServerConfig::agave(), NetworkFaults::FAIR, 1);
    own.add_client(ClientConfig::default());
    let mut signer = Signer::new(SEED, Duration::ZERO);
    let mut connected = |world: &mut World| {
        let start = world.now;
        world.run_until(Duration::from_secs(5), |world| {
            let now = world.now;
            signer.work(now, world.client(0));
            world.client(0).counters().connected == 1
        });
        world.now - start
    };
    let [own, deferred] = [connected(&mut own), connected(&mut deferred)];
    assert_eq!(deferred - own, 2 * NetworkFaults::FAIR.latency, "{own:?}, {deferred:?}");
}

#[test]
fn a_wrong_signature_and_none_end_the_handshake() {
    let stranger = Signer::new([8; 32], Duration::ZERO);
    let nobody = Signer::new(SEED, Duration::from_secs(3_600));
    for mut signer in [stranger, nobody] {
        let (mut world, _) = world(NetworkFaults::FAIR, 3);
        world.run_until(Duration::from_secs(120), |world| {
            let now = world.now;
            let client = world.client(0);
            signer.work(now, client);
            client.counters().disconnected > 0
        });
        assert_eq!(world.server.connection_count(), 0);
        assert!(world.client(0).send_transaction(b"a transaction").is_err());
        // It retries, and succeeds once it gets a signature.
        signer = Signer::new(SEED, Duration::ZERO);
        assert_eq!(sends(&mut world, &mut signer), Some(tls::public_key(&SEED)));
    }
}

#[test]
fn ids_of_closed_connections_stay_closed() {
    let (mut world, _) = world(NetworkFaults::FAIR, 4);
    let mut signer = Signer::new(SEED, Duration::ZERO);
    let (server, mut ids) = (world.server_address, vec![]);
    for _ in 0..5 {
        let now = world.now;
        let id = world.client(0).connect(now, server);
        assert!(ids.iter().all(|old| world.client(0).state(*old) == ConnectionState::Closed));
        ids.push(id);
        world.run_until(Duration::from_secs(20), |world| {
            let now = world.now;
            signer.work(now, world.client(0));
            world.client(0).state(id) == ConnectionState::Connected
        });
        world.client_close(0, id);
        world.run_for(Duration::from_millis(10));
    }
    ids.dedup();
    assert_eq!(ids.len(), 5, "each connection has an id of its own: {ids:?}");
}
