//! Hostile traffic is counted and dropped; concurrent legitimate traffic keeps its rate, and all of it lands.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use hearth_ledger::genesis::funded_account_key;
use hearth_quic::ClientConfig;
use hearth_testkit::random::Random;
use hearth_wire::Hash;
use parking_lot::{Condvar, Mutex};
use serde_json::json;

use super::client::{Sender, fresh_address, transfer};
use super::hostile_soak::packets::garbage;
use super::node::{DEADLINE, Metrics, Node, Setup, same, wait_until};

/// The legitimate client's rate is measured over windows of this length: this many before the attacks, and at least
/// this many during them.
const WINDOW: Duration = Duration::from_millis(100);
const BEFORE: usize = 10;
const DURING: usize = 20;
/// The attacks take CPU time on the same machine, yet the median window keeps this share of its rate.
const KEPT: f64 = 0.1;
/// Transfers that the legitimate client offers between two polls of its socket.
const AT_ONCE: usize = 16;
const GARBAGE_STREAMS: usize = 300;
const GARBAGE_DATAGRAMS: usize = 3000;
/// First packets of connections that go no further, in one wave; there are waves until the windows are full.
const WAVE: usize = 500;
const OVERLONG_STREAMS: u64 = 10;
const UNFINISHED_STREAMS: usize = 20;
const WRONG_PROTOCOLS: usize = 5;

/// Returns an attacker's socket, with an address of its own.
fn socket(host: u8) -> UdpSocket {
    UdpSocket::bind((Ipv4Addr::new(127, 0, 0, host), 0)).expect("a socket")
}

/// The legitimate traffic, as the attackers see it.
#[derive(Default)]
struct Traffic {
    acknowledged: Mutex<u64>,
    more: Condvar,
    /// The windows are full.
    measured: AtomicBool,
}

impl Traffic {
    fn set(&self, acknowledged: u64) {
        let mut count = self.acknowledged.lock();
        if std::mem::replace(&mut *count, acknowledged) != acknowledged {
            self.more.notify_all();
        }
    }

    /// Every few datagrams an attacker waits for legitimate ones, so that the attack lasts and is not all lost in the
    /// kernel's buffers.
    fn breathe(&self, number: usize) {
        if !number.is_multiple_of(50) {
            return;
        }
        let mut count = self.acknowledged.lock();
        let until = *count + 100;
        self.more.wait_while_for(&mut count, |count| *count < until, DEADLINE);
        assert!(*count >= until, "the attack has stopped the legitimate traffic");
    }
}

/// Noise on the QUIC port: random bytes, and datagrams that begin like a packet of QUIC version 1 or of another.
fn garbage_datagrams(node: SocketAddr, traffic: &Traffic) {
    let (socket, mut random) = (socket(11), Random(1));
    for number in 0..GARBAGE_DATAGRAMS {
        let bytes = garbage(&mut random, number);
        socket.send_to(&bytes, node).expect("sent");
        traffic.breathe(number);
    }
}

/// Noise on the plain UDP port; gives how many datagrams of a transaction's size there were, and how many not.
fn garbage_udp(node: SocketAddr, traffic: &Traffic) -> (u64, u64) {
    let (socket, mut random) = (socket(12), Random(2));
    let mut sent = (0, 0);
    for number in 0..GARBAGE_DATAGRAMS {
        let len = random.index(1500);
        socket.send_to(&random.bytes(len), node).expect("sent");
        *if (1..=1232).contains(&len) { &mut sent.0 } else { &mut sent.1 } += 1;
        traffic.breathe(number);
    }
    sent
}

/// Whole streams whose bytes are not a transaction.
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

/// Opens streams, sends only the first half of each, and keeps the connections open and silent: the streams time out
/// while the attacks last.
///
/// `accepted` returns the number of streams the node has accepted. Until it is positive, the clients resend what the
/// kernel may have dropped; the caller must not open other streams until then.
fn unfinished_streams(node: SocketAddr, accepted: impl Fn() -> u64) {
    let config = ClientConfig { send_window_bytes: 600, ..ClientConfig::local() };
    let begin = |_| {
        let mut sender = Sender::with_config(config.clone(), node, 20, 1, hearth_quic::ALPN_TPU);
        // From here on the second half waits for acknowledgements, which are never read.
        sender.send(&[0xdd; 1200]);
        sender.transmit();
        sender
    };
    let mut senders: Vec<Sender> = (0..UNFINISHED_STREAMS).map(begin).collect();
    wait_until("a first half is there", || {
        senders.iter_mut().for_each(Sender::transmit_again);
        same(accepted() > 0, true)
    });
}

/// Sends the first packets of many connections and answers no reply. Returns the number of waves; each wave follows
/// once the node has received half of the previous one.
fn half_open(node: SocketAddr, metrics: u16, traffic: &Traffic) -> u64 {
    let met = || {
        let metrics = Metrics::read(metrics).expect("the node serves metrics");
        let counters = ["quic_connects", "quic_initials_dropped", "net_dropped_by_kernel"];
        counters.iter().map(|name| metrics.total(name)).sum::<u64>()
    };
    let mut waves = 0;
    while waves < 4 || !traffic.measured.load(Ordering::Acquire) {
        let before = met();
        let mut sender = Sender::new(node, 15 + (waves % 4) as u8, WAVE, hearth_quic::ALPN_TPU);
        sender.transmit();
        wait_until("the first packets are met", || match met() - before {
            met if met >= WAVE as u64 / 2 => Ok(()),
            met => Err(format!("{met} of {WAVE}")),
        });
        waves += 1;
    }
    waves
}

fn wrong_protocol(node: SocketAddr) {
    let mut sender = Sender::new(node, 19, WRONG_PROTOCOLS, b"h3");
    sender.drive("the refusals", |client| client.counters().disconnected >= WRONG_PROTOCOLS as u64);
    assert_eq!(sender.counters().connected, 0);
}

/// A client that never stops sending transfers.
struct HonestClient<'a> {
    sender: Sender,
    blockhash: Hash,
    sent: usize,
    traffic: &'a Traffic,
}

impl HonestClient<'_> {
    /// Sends until `done` returns true for the number of windows; returns the median of their rates, per second.
    fn send(&mut self, done: impl Fn(usize) -> bool) -> f64 {
        let mut rates = vec![];
        let (mut begun, mut acknowledged) = (Instant::now(), self.sender.counters().acknowledged);
        while !done(rates.len()) {
            let from = funded_account_key(self.sent % 62);
            let bytes = transfer(&from, &fresh_address(1, self.sent), 1_000_000, &self.blockhash);
            while !self.sender.offer(&bytes) {
                self.sender.step(Duration::from_millis(1));
            }
            self.sent += 1;
            if !self.sent.is_multiple_of(AT_ONCE) {
                continue;
            }
            self.sender.step(Duration::from_millis(1));
            let now = self.sender.counters().acknowledged;
            self.traffic.set(now);
            if begun.elapsed() >= WINDOW {
                rates.push((now - acknowledged) as f64 / begun.elapsed().as_secs_f64());
                (begun, acknowledged) = (Instant::now(), now);
            }
        }
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    }

    /// Waits for the last; gives how many there were.
    fn finish(mut self) -> u64 {
        self.sender.drive("the acknowledgements", |client| client.in_flight() == 0);
        assert_eq!(self.sender.counters().acknowledged, self.sent as u64);
        assert_eq!(self.sender.counters().disconnected, 0, "the attacks have cost a legitimate connection");
        self.sent as u64
    }
}

/// Running attacks, one thread each.
struct Attacks<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    under_way: &'env AtomicUsize,
}

impl<'scope, 'env> Attacks<'scope, 'env> {
    fn begin<T: Send + 'scope>(&self, attack: impl FnOnce() -> T + Send + 'scope) -> ScopedJoinHandle<'scope, T> {
        let under_way = self.under_way;
        under_way.fetch_add(1, Ordering::AcqRel);
        self.scope.spawn(move || {
            // Also on a panic; otherwise the scope would wait for the thread forever.
            let _over = OverGuard(under_way);
            attack()
        })
    }
}

struct OverGuard<'a>(&'a AtomicUsize);

impl Drop for OverGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[test]
fn hostile_traffic_does_not_stop_legitimate_traffic() {
    let mut setup = Setup::new("hostile");
    // Every transaction sent must land, and its signature must stay known.
    setup.with("tiles.pack.hold_when_full", true).with("rpc.status_capacity", 1 << 20);
    let mut node = setup.start();
    let (quic, udp, rpc, metrics) = (node.quic(), node.udp(), node.rpc(), node.ports.metrics);
    let blockhash = rpc.latest_blockhash();
    let (attacks, traffic) = (AtomicUsize::new(0), Traffic::default());
    unfinished_streams(quic, || node.metrics().total("quic_streams_accepted"));
    let mut legitimate = HonestClient { sender: Sender::connect(quic, 1), blockhash, sent: 0, traffic: &traffic };
    let before = legitimate.send(|windows| windows == BEFORE);
    let (during, thrown) = std::thread::scope(|scope| {
        let attack = Attacks { scope, under_way: &attacks };
        attack.begin(|| garbage_datagrams(quic, &traffic));
        attack.begin(|| garbage_streams(quic, &blockhash));
        attack.begin(|| wrong_protocol(quic));
        let waves = attack.begin(|| half_open(quic, metrics, &traffic));
        let overlong = attack.begin(|| overlong_streams(quic));
        let udp = attack.begin(|| garbage_udp(udp, &traffic));
        let during = legitimate.send(|windows| {
            traffic.measured.store(windows >= DURING, Ordering::Release);
            windows >= DURING && attacks.load(Ordering::Acquire) == 0
        });
        let thrown = AttackCounts {
            udp: udp.join().expect("it only sends"),
            overlong: overlong.join().expect("it only sends"),
            waves: waves.join().expect("its waves are met"),
        };
        (during, thrown)
    });
    println!("{before:.0} transfers a second before, {during:.0} during the attacks, of {} waves", thrown.waves);
    assert!(
        during > KEPT * before,
        "the attacks have slowed legitimate traffic from {before:.0} to {during:.0} a second"
    );
    let sent = legitimate.finish();

    wait_until("every legitimate transfer", || same(node.metrics().total("bank_landed"), sent));
    // A client that connects after the attacks is served normally.
    let late = transfer(&funded_account_key(62), &fresh_address(3, 0), 1_000_000, &blockhash);
    Sender::connect(quic, 2).send_all(&[late]);
    wait_until("a new client's transfer", || same(node.metrics().total("bank_landed"), sent + 1));
    assert!(node.process.is_alive());
    assert_eq!(rpc.call("getHealth", json!([])), "ok");
    assert_eq!(rpc.transaction_count(), sent + 1);
    assert_eq!(node.metrics().total("bank_failed"), 0);
    is_counted(&node, sent + 1, &thrown);
    node.stop();
}

/// The amounts that the attackers have sent.
struct AttackCounts {
    /// Datagrams to the plain UDP port: of transaction size, and of other sizes.
    udp: (u64, u64),
    /// Streams longer than a transaction.
    overlong: u64,
    /// Waves of first packets.
    waves: u64,
}

/// Each attack is found again in the counters.
fn is_counted(node: &Node, landed: u64, thrown: &AttackCounts) {
    let (sized, missized) = thrown.udp;
    wait_until("half-open connections and unfinished streams given up", || {
        let metrics = node.metrics();
        // First halves that the kernel dropped were never accepted.
        let ends = ["transactions", "streams_empty", "streams_reset", "streams_timed_out", "streams_over_memory"];
        let ends = ends.iter().chain(&["streams_oversize", "streams_abandoned"]);
        let ended = ends.map(|name| metrics.total(&format!("quic_{name}"))).sum::<u64>();
        same(ended, metrics.total("quic_streams_accepted"))?;
        same(metrics.total("quic_handshakes_timed_out") > 0, true)
    });
    let metrics = node.metrics();
    let total = |name: &str| metrics.total(name);
    // A stream of garbage may be of two datagrams. Where an attacker gets no core between them, it is given up.
    let garbage = total("quic_transactions") - landed;
    let given_up = (GARBAGE_STREAMS as u64).checked_sub(garbage).expect("no transactions but these");
    // The kernel drops datagrams beyond its buffer, on either port.
    let udp = total("quic_udp_received");
    let kernel = total("net_dropped_by_kernel");
    assert!(udp <= sized + missized && udp + kernel >= sized + missized, "{udp} + {kernel} of {sized} + {missized}");
    let forwarded = udp - total("quic_udp_dropped_size") - total("quic_udp_dropped_full");
    assert!(total("quic_udp_dropped_size") > 0 && total("quic_udp_dropped_size") <= missized);
    assert_eq!(total("verify_dropped_malformed"), garbage + forwarded);
    assert_eq!(total("quic_streams_oversize"), thrown.overlong);
    let unfinished = total("quic_streams_timed_out").checked_sub(given_up).expect("they are timed out");
    assert!((1..=UNFINISHED_STREAMS as u64).contains(&unfinished), "{unfinished}, {given_up} of garbage");
    assert!(total("quic_handshakes_failed") >= WRONG_PROTOCOLS as u64);
    let noise = total("quic_datagrams_ignored") + total("quic_refused_malformed") + total("quic_responses_dropped");
    assert!(noise > 0, "noise is counted");
    let refused = ["retries_sent", "refused_half_open", "refused_connections_max", "refused_ip_count", "refused_rate"];
    let refused: u64 = refused.iter().map(|name| total(&format!("quic_{name}"))).sum();
    assert!(refused + total("quic_handshakes_begun") >= thrown.waves * WAVE as u64 / 2, "first packets are counted");
}
