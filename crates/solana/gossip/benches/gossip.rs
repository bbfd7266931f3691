//! gossip: benchmarks the cost of gossip in a cluster of thousands of nodes.
//!
//! reads   synthetic nodes, all of them known
//! writes  one line per figure
//! memory  see the crate
//!
//! cargo bench -p hearth-gossip --bench gossip

use std::collections::HashMap;
use std::net::SocketAddrV4;
use std::time::Duration;

use hearth_crypto::ed25519::SigningKey;
use hearth_gossip::{Config, Gossip, Outbox, pong_hash};
use hearth_testkit::bench::{Bench, Unit};
use hearth_wire::gossip::{
    BloomFilter, Carrier, ContactInfo, CrdsData, Pong, Protocol, SocketKind, Version, write_pong, write_pull_request,
    write_values_header,
};

/// Number of other nodes.
const NODES: usize = 4_000;
/// Start time in Unix milliseconds.
const START: u64 = 1_700_000_000_000;

fn key(node: usize) -> SigningKey {
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&(node as u64).to_le_bytes());
    SigningKey::from_seed(&seed)
}

fn address(node: usize) -> SocketAddrV4 {
    SocketAddrV4::new([8, 8, (node >> 8) as u8, node as u8].into(), 8_000)
}

/// A signed contact info.
fn contact(node: usize, wallclock: u64) -> Vec<u8> {
    let (key, version) = (key(node), Version { major: 4, minor: 2, patch: 2, ..Version::default() });
    let contact = ContactInfo::new(key.public_key(), START, 7, version).with(SocketKind::Gossip, address(node));
    let mut data = Vec::new();
    CrdsData::ContactInfo(ContactInfo { wallclock, ..contact }).write(&mut data);
    [&key.sign(&data)[..], &data].concat()
}

fn push(node: usize, wallclock: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_values_header(Carrier::Push, &key(node).public_key(), 1, &mut bytes);
    bytes.extend(contact(node, wallclock));
    bytes
}

/// A node that knows all others: each has sent its contact info and answered the ping.
fn acquainted() -> Gossip {
    let own = ContactInfo::new(key(0).public_key(), START, 7, Version::default());
    let own = own.with(SocketKind::Gossip, address(0));
    let mut gossip = Gossip::new(Config::default(), own, [7; 32], START);
    let mut out = Outbox::default();
    for node in 1..=NODES {
        out.clear();
        gossip.receive(START, address(node).into(), &push(node, START), &mut out);
        gossip.sign_with(START, &key(0), &mut out);
        let (_, bytes) = out.iter().next().expect("a ping");
        let Ok(Protocol::Ping(ping)) = Protocol::parse(bytes) else { panic!("another message") };
        let hash = pong_hash(&ping.token);
        let (key, mut bytes) = (key(node), Vec::new());
        write_pong(&Pong { from: key.public_key(), hash, signature: key.sign(&hash) }, &mut bytes);
        gossip.receive(START, address(node).into(), &bytes, &mut out);
    }
    assert_eq!(gossip.sizes().nodes, NODES);
    gossip.set_stakes(HashMap::new(), 1 << 40);
    gossip
}

fn main() {
    let (bench, own) = (Bench::from_args(), key(0));
    let (mut gossip, mut out, mut now) = (acquainted(), Outbox::default(), START);
    let known: Vec<Vec<u8>> = (1..=256).map(|node| push(node, START)).collect();
    bench.run("receive a push that is known", Unit::PerSecond, None, || {
        for (node, bytes) in (1..).zip(&known) {
            out.clear();
            gossip.receive(now, address(node).into(), bytes, &mut out);
        }
        known.len() as u64
    });
    // Few rounds: a node that is not heard of for a minute is no longer asked, and costs nothing.
    let few = Bench::from_args().with_rounds(15, Duration::ZERO);
    few.run("a second of ticks each 10 ms", Unit::NanosPerItem, None, || {
        for _ in 0..100 {
            now += 10;
            out.clear();
            gossip.tick(now, &mut out);
            gossip.sign_with(now, &own, &mut out);
        }
        1
    });
    let bloom = BloomFilter::new(6_000, vec![1, 2, 3]);
    bench.run("answer a pull request", Unit::PerSecond, None, || {
        let caller = contact(1, now);
        for part in 0..64 {
            // Spaced so that the scan budget is never used up.
            now += 3;
            let mut bytes = Vec::new();
            write_pull_request(&bloom, part, 6, &caller, &mut bytes);
            out.clear();
            gossip.receive(now, address(1).into(), &bytes, &mut out);
        }
        64
    });
    assert_eq!(gossip.counters().pull_scan_budget, 0);
    // Each with its own time, so that it is always new; signing it is part of the figure.
    let mut wallclock = now;
    bench.run("sign a contact info, and receive it", Unit::PerSecond, None, || {
        wallclock += 1;
        for node in 1..=64 {
            out.clear();
            gossip.receive(wallclock, address(node).into(), &push(node, wallclock), &mut out);
        }
        64
    });
}
