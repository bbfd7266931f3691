//! Tile tests, in which the test plays net, sign and the store.

use std::net::SocketAddr;

use hearth_crypto::ed25519::SigningKey;
use hearth_tile::rig::Rig;
use hearth_wire::gossip::Pong;
use hearth_wire::repair::{self, Answer, Request, RequestContent};

use super::server::tests::{VERSION, store};
use super::*;
use crate::links::ping_token;

const INPUTS: [&str; 4] = ["net_rserve:0", "net_rserve:1", "sign_rserve", TOWER_RSERVE];
const OUTPUTS: [&str; 2] = ["rserve_net", "rserve_sign"];

fn key(seed: u8) -> SigningKey {
    SigningKey::from_seed(&[seed; 32])
}

fn address(port: u16) -> SocketAddr {
    ([127, 0, 0, 1], port).into()
}

struct Bench {
    rig: Rig<Rserve>,
    shreds: Vec<Vec<u8>>,
    _folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (store, shreds) = store(folder.path());
        let config = Config { own: key(1).public_key().into(), shred_version: VERSION, blocks: store.reader() };
        Self { rig: Rig::new(config, &INPUTS, &OUTPUTS), shreds, _folder: folder }
    }

    fn request(&self, asker: u8, wanted: RequestContent) -> Vec<u8> {
        let clock = self.rig.clock();
        let time_ms = clock.wall_ns() / 1_000_000;
        let (sender, recipient) = (key(asker).public_key(), key(1).public_key());
        let mut bytes = Request { sender, recipient, time_ms, nonce: 77, wanted }.write();
        let signature = key(asker).sign(&repair::signed_bytes(&bytes));
        repair::set_signature(&mut bytes, &signature);
        bytes
    }

    fn give(&mut self, link: &str, from: SocketAddr, data: &[u8]) {
        let mut buffer = [0; 512];
        let size = Datagram { from, port: PortKind::ServeRepair, data }.write(&mut buffer);
        self.rig.give(link, 0, &buffer[..size]);
    }

    /// Takes what the tile sent, each datagram from the port of the request.
    fn sent(&mut self) -> Vec<(SocketAddr, Vec<u8>)> {
        self.rig.run();
        let frags = self.rig.take("rserve_net");
        let read = |(_, frag): &(u64, Vec<u8>)| {
            let Outgoing { to, port, segment, data } = Outgoing::read(frag);
            assert_eq!((port, segment), (PortKind::ServeRepair, 0));
            (to, data.to_vec())
        };
        frags.iter().map(read).collect()
    }

    /// Signs the tile's requests as sign does.
    fn sign(&mut self) -> usize {
        self.rig.run();
        let asked = self.rig.take("rserve_sign");
        for (tag, nonce) in &asked {
            let token = ping_token(nonce.as_slice().try_into().unwrap());
            self.rig.give("sign_rserve", *tag, &key(1).sign(&token));
        }
        asked.len()
    }
}

#[test]
fn a_node_that_answers_the_ping_is_served() {
    let mut bench = Bench::new();
    let wanted = RequestContent::Shred { slot: 1, index: 3 };
    let request = bench.request(2, wanted);
    bench.give("net_rserve:0", address(9), &request);
    assert_eq!(bench.sent(), [], "nothing before the ping is signed");
    assert_eq!(bench.sign(), 1);
    let sent = bench.sent();
    let [(to, ping)] = &sent[..] else { panic!("{sent:?}") };
    assert_eq!(*to, address(9));
    let Some(Answer::Ping(ping)) = Answer::parse(ping) else { panic!("{ping:?}") };
    assert_eq!(ping.from, key(1).public_key());
    let hash = hearth_gossip::pong_hash(&ping.token);
    let pong = Pong { from: key(2).public_key(), hash, signature: key(2).sign(&hash) };
    bench.give("net_rserve:1", address(9), &repair::write_pong(&pong));
    bench.give("net_rserve:1", address(9), &request);
    let sent = bench.sent();
    let [(to, answer)] = &sent[..] else { panic!("{sent:?}") };
    assert_eq!(*to, address(9));
    assert_eq!(Answer::parse(answer), Some(Answer::Shred(&bench.shreds[3], 77)));
    let count = bench.rig.count();
    assert_eq!(count.served, 1);
    assert_eq!(count.pings, 1);
    assert_eq!(count.dropped_unproved, 1);
}

#[test]
fn hostile_datagrams_are_counted() {
    let mut bench = Bench::new();
    let good = bench.request(2, RequestContent::Orphan { slot: 1 });
    let mut forged = good.clone();
    forged[20] ^= 1;
    let own = bench.request(1, RequestContent::Orphan { slot: 1 });
    for hostile in [&[][..], &good[1..], &[0xff; 160], &forged, &own] {
        bench.give("net_rserve:0", address(9), hostile);
    }
    assert_eq!(bench.sent(), []);
    bench.rig.advance(std::time::Duration::from_secs(601));
    bench.give("net_rserve:0", address(9), &good);
    assert_eq!(bench.sent(), []);
    assert_eq!(bench.sign(), 0);
    let count = bench.rig.count();
    assert_eq!(count.dropped_malformed, 3);
    assert_eq!(count.dropped_signature, 1);
    assert_eq!(count.dropped_misdirected, 1);
    assert_eq!(count.dropped_out_of_time, 1);
}

#[test]
fn pings_that_wait_for_sign_are_bounded() {
    let mut bench = Bench::new();
    let request = bench.request(2, RequestContent::Orphan { slot: 1 });
    for port in 0..UNSIGNED_MAX as u16 + 20 {
        bench.give("net_rserve:0", address(1_000 + port), &request);
    }
    assert_eq!(bench.sent(), []);
    assert_eq!(bench.rig.count().dropped_pings, 20);
    assert_eq!(bench.sign(), UNSIGNED_MAX);
    let ports: Vec<u16> = bench.sent().iter().map(|(to, _)| to.port()).collect();
    assert!(ports.into_iter().eq(1_000..1_000 + UNSIGNED_MAX as u16));
}

#[test]
fn refused_ping_is_not_sent_and_frees_its_place() {
    let mut bench = Bench::new();
    let request = bench.request(2, RequestContent::Orphan { slot: 1 });
    [1_000, 1_001].into_iter().for_each(|port| bench.give("net_rserve:0", address(port), &request));
    bench.rig.run();
    let asked = bench.rig.take("rserve_sign");
    let [(refused, _), (other, nonce)] = &asked[..] else { panic!("{asked:?}") };
    let token = ping_token(nonce.as_slice().try_into().unwrap());
    bench.rig.give("sign_rserve", *refused, &[]);
    bench.rig.give("sign_rserve", *other, &key(1).sign(&token));
    let sent = bench.sent();
    let [(to, _)] = &sent[..] else { panic!("{sent:?}") };
    assert_eq!(*to, address(1_001));
    assert_eq!(bench.rig.count().pings, 1);
    assert!(bench.rig.tile().unsigned.is_empty());
}

#[test]
fn full_net_link_holds_requests() {
    let mut bench = Bench::new();
    let (own, asker) = (key(1).public_key(), key(2).public_key());
    let wanted = RequestContent::Orphan { slot: 2 };
    let request = bench.request(2, wanted);
    bench.give("net_rserve:0", address(9), &request);
    bench.sign();
    let sent = bench.sent();
    let Some(Answer::Ping(ping)) = Answer::parse(&sent[0].1) else { panic!("{sent:?}") };
    assert_eq!(ping.from, own);
    let hash = hearth_gossip::pong_hash(&ping.token);
    let pong = Pong { from: asker, hash, signature: key(2).sign(&hash) };
    bench.give("net_rserve:0", address(9), &repair::write_pong(&pong));
    bench.rig.run();
    // Two shreds each: more than the link to net holds.
    let count = 200;
    for _ in 0..count {
        bench.give("net_rserve:0", address(9), &request);
    }
    bench.rig.run();
    assert!(bench.rig.backpressure().0);
    let mut sent = 0;
    for _ in 0..3 {
        sent += bench.sent().len();
    }
    assert_eq!(sent, 2 * count);
    assert_eq!(bench.rig.count().served, 2 * count as u64);
}
