//! Hostile traffic is counted and dropped; the legitimate traffic beside it all lands.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

use hearth_ledger::genesis::funded_account_key;
use hearth_quic::ClientConfig;
use hearth_wire::Hash;
use serde_json::json;

use super::client::{Sender, fresh_address, transfer};
use super::node::{Node, Setup, same, wait_until};

/// Legitimate transfers, at least: they go on until every attack is over.
const TRANSFERS: usize = 500;
const GARBAGE_STREAMS: usize = 300;
const GARBAGE_DATAGRAMS: usize = 3000;
const HALF_OPEN: usize = 2000;
const OVERLONG_STREAMS: u64 = 10;
const UNFINISHED_STREAMS: usize = 20;
const WRONG_PROTOCOLS: usize = 5;

/// SplitMix64, so that each run throws the same.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}

/// A socket of an attacker: each has an address of its own.
fn socket(host: u8) -> UdpSocket {
    UdpSocket::bind((Ipv4Addr::new(127, 0, 0, host), 0)).expect("a socket")
}

/// A breath every few datagrams, so that the attack lasts and is not all lost in the kernel's buffers.
fn breathe(number: usize) {
    if number.is_multiple_of(50) {
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

/// Noise on the QUIC port: some of it plain, some that begins as a packet of QUIC version 1 or of another.
fn garbage_datagrams(node: SocketAddr) {
    let (socket, mut random) = (socket(11), Random(1));
    for number in 0..GARBAGE_DATAGRAMS {
        let len = random.next() as usize % 1473;
        let mut bytes = random.bytes(len);
        let head: &[u8] = match number % 4 {
            0 => &[0xc0, 0, 0, 0, 1, 8],
            1 => &[0xcf, 0, 0, 0, 1, 20],
            2 => &[0xc0, 0x1a, 0x2a, 0x3a, 0x4a, 8],
            _ => &[],
        };
        for (byte, begins) in bytes.iter_mut().zip(head) {
            *byte = *begins;
        }
        socket.send_to(&bytes, node).expect("sent");
        breathe(number);
    }
}

/// Noise on the plain UDP port; gives how many datagrams of a transaction's size there were, and how many not.
fn garbage_udp(node: SocketAddr) -> (u64, u64) {
    let (socket, mut random) = (socket(12), Random(2));
    let mut sent = (0, 0);
    for number in 0..GARBAGE_DATAGRAMS {
        let len = random.next() as usize % 1500;
        socket.send_to(&random.bytes(len), node).expect("sent");
        *if (1..=1232).contains(&len) { &mut sent.0 } else { &mut sent.1 } += 1;
        breathe(number);
    }
    sent
}

/// Whole streams whose bytes are no transaction.
fn garbage_streams(node: SocketAddr, blockhash: &Hash) {
    let mut sender = Sender::connect(node, 13);
    let mut random = Random(3);
    let whole = transfer(&funded_account_key(63), &fresh_address(2, 0), 1_000_000, blockhash);
    let streams: Vec<Vec<u8>> = (0..GARBAGE_STREAMS)
        .map(|number| match number % 3 {
            0 => random.bytes(1 + number * 4),
            1 => whole[..1 + number % (whole.len() - 1)].to_vec(),
            _ => [&whole[..], &random.bytes(1 + number)].concat(),
        })
        .collect();
    sender.send_all(&streams);
}

/// Streams longer than any transaction; gives how many connections they have cost their sender.
fn overlong_streams(node: SocketAddr) -> u64 {
    let mut sender = Sender::connect(node, 14);
    while sender.counters().disconnected < OVERLONG_STREAMS {
        // Refused while the client reconnects.
        sender.try_send(&[0xee; 1233]);
    }
    sender.counters().disconnected
}

/// Streams of which the first half comes, and then nothing more. The connections stay open, and silent.
fn unfinished_streams(node: SocketAddr) {
    let config = ClientConfig { send_window_bytes: 600, ..ClientConfig::local() };
    let mut sender = Sender::with_config(config, node, 20, UNFINISHED_STREAMS, hearth_quic::ALPN_TPU);
    sender.drive("the connections", |client| client.counters().connected == UNFINISHED_STREAMS as u64);
    for _ in 0..UNFINISHED_STREAMS {
        // The second half waits for acknowledgements that nobody reads.
        sender.send(&[0xdd; 1200]);
        sender.transmit();
    }
}

/// First packets of many connections, and not one answer to what comes back.
fn half_open(node: SocketAddr) {
    for part in 0..4 {
        let mut sender = Sender::new(node, 15 + part, HALF_OPEN / 4, hearth_quic::ALPN_TPU);
        sender.transmit();
        std::thread::park_timeout(Duration::from_millis(50));
    }
}

fn wrong_protocol(node: SocketAddr) {
    let mut sender = Sender::new(node, 19, WRONG_PROTOCOLS, b"h3");
    sender.drive("the refusals", |client| client.counters().disconnected >= WRONG_PROTOCOLS as u64);
    assert_eq!(sender.counters().connected, 0);
}

/// Sends transfers until all attacks are over, and some more; gives how many.
fn legitimate(node: &Node, attacks: &AtomicUsize, blockhash: &Hash) -> u64 {
    let mut sender = Sender::connect(node.quic(), 1);
    let mut number = 0;
    while number < TRANSFERS || attacks.load(Ordering::Acquire) > 0 {
        let bytes = transfer(&funded_account_key(number % 62), &fresh_address(1, number), 1_000_000, blockhash);
        while !sender.try_send(&bytes) {}
        number += 1;
    }
    sender.drive("the acknowledgements", |client| client.in_flight() == 0);
    assert_eq!(sender.counters().acknowledged, number as u64);
    assert_eq!(sender.counters().disconnected, 0, "the attacks have cost a legitimate connection");
    number as u64
}

/// Attacks that are under way, each on a thread of its own.
struct Attacks<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    under_way: &'env AtomicUsize,
}

impl<'scope, 'env> Attacks<'scope, 'env> {
    fn begin<T: Send + 'scope>(&self, attack: impl FnOnce() -> T + Send + 'scope) -> ScopedJoinHandle<'scope, T> {
        let under_way = self.under_way;
        under_way.fetch_add(1, Ordering::AcqRel);
        self.scope.spawn(move || {
            // Also when it panics, or nobody would ever wait for its thread.
            let _over = Over(under_way);
            attack()
        })
    }
}

struct Over<'a>(&'a AtomicUsize);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[test]
fn hostile_traffic_does_not_stop_legitimate_traffic() {
    let setup = Setup::new("hostile");
    let mut node = setup.start();
    let (quic, udp, rpc) = (node.quic(), node.udp(), node.rpc());
    let blockhash = rpc.latest_blockhash();
    let attacks = AtomicUsize::new(0);
    let (sent, sized, overlong) = std::thread::scope(|scope| {
        let attack = Attacks { scope, under_way: &attacks };
        attack.begin(|| garbage_datagrams(quic));
        attack.begin(|| garbage_streams(quic, &blockhash));
        attack.begin(|| unfinished_streams(quic));
        attack.begin(|| half_open(quic));
        attack.begin(|| wrong_protocol(quic));
        let overlong = attack.begin(|| overlong_streams(quic));
        let sized = attack.begin(|| garbage_udp(udp));
        let sent = legitimate(&node, &attacks, &blockhash);
        (sent, sized.join().expect("it only sends"), overlong.join().expect("it only sends"))
    });

    wait_until("every legitimate transfer", || same(node.metrics().total("bank_landed"), sent));
    // Whoever comes after the attacks is served as ever.
    let late = transfer(&funded_account_key(62), &fresh_address(3, 0), 1_000_000, &blockhash);
    Sender::connect(quic, 2).send_all(&[late]);
    wait_until("a new client's transfer", || same(node.metrics().total("bank_landed"), sent + 1));
    assert!(node.process.is_alive());
    assert_eq!(rpc.call("getHealth", json!([])), "ok");
    assert_eq!(rpc.transaction_count(), sent + 1);
    assert_eq!(node.metrics().total("bank_failed"), 0);
    is_counted(&node, sent + 1, sized, overlong);
    node.stop();
}

/// Each attack is found again in the counters.
fn is_counted(node: &Node, landed: u64, (sized, missized): (u64, u64), overlong: u64) {
    wait_until("half-open connections and unfinished streams given up", || {
        let metrics = node.metrics();
        same(metrics.total("quic_streams_timed_out"), UNFINISHED_STREAMS as u64)?;
        same(metrics.total("quic_handshakes_timed_out") > 0, true)
    });
    let metrics = node.metrics();
    let total = |name: &str| metrics.total(name);
    assert_eq!(total("quic_transactions"), landed + GARBAGE_STREAMS as u64);
    // The kernel drops what its buffer does not hold, from either port.
    let udp = total("quic_udp_received");
    let kernel = total("net_dropped_by_kernel");
    assert!(udp <= sized + missized && udp + kernel >= sized + missized, "{udp} + {kernel} of {sized} + {missized}");
    let forwarded = udp - total("quic_udp_dropped_size") - total("quic_udp_dropped_full");
    assert!(total("quic_udp_dropped_size") > 0 && total("quic_udp_dropped_size") <= missized);
    assert_eq!(total("verify_dropped_malformed"), GARBAGE_STREAMS as u64 + forwarded);
    assert_eq!(total("quic_streams_oversize"), overlong);
    assert!(total("quic_handshakes_failed") >= WRONG_PROTOCOLS as u64);
    let noise = total("quic_datagrams_ignored") + total("quic_refused_malformed") + total("quic_responses_dropped");
    assert!(noise > 0, "noise is counted");
    let refused = ["retries_sent", "refused_half_open", "refused_connections_max", "refused_ip_count", "refused_rate"];
    let refused: u64 = refused.iter().map(|name| total(&format!("quic_{name}"))).sum();
    assert!(refused + total("quic_handshakes_begun") >= HALF_OPEN as u64 / 2, "first packets are counted");
}
