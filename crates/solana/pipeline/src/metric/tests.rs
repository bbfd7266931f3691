//! Tile tests: HTTP requests in, the Prometheus text out.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use hearth_ring::{HugePages, Workspace};
use hearth_tile::counters::LoopCounters;
use hearth_tile::latency::Histogram;
use hearth_tile::rig::Rig;
use hearth_tile::topology::{CounterSpec, ServiceSpec, TileSpec};
use hearth_tile::{CounterKind, CounterSet};

use super::*;
use crate::{bank, sign};

use hearth_testkit::PATIENCE;

fn workspace(path: &Path) -> Workspace {
    let tiles = vec![TileSpec::new::<sign::Counters>("sign", 0)];
    let counters = [("requests", CounterKind::Counter), ("connections_open", CounterKind::Gauge)];
    let spec = |(name, kind): (&str, CounterKind)| CounterSpec { name: name.into(), kind, help: "Some.".into() };
    let services = vec![ServiceSpec { name: "rpc".into(), counters: counters.map(spec).into() }];
    let topology = Topology { name: "metric".into(), tiles, links: vec![], services };
    Workspace::create(path, &topology.workspace_plan(HugePages::None)).unwrap()
}

fn ask(rig: &mut Rig<Metric>, request: &[u8]) -> String {
    let addr = rig.tile().listener.local_addr().unwrap();
    let mut client = TcpStream::connect(addr).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.write_all(request).unwrap();
    let before = *rig.count();
    let answered = |c: &Counters| c.scrapes + c.bad_requests + c.dropped_connections;
    let deadline = std::time::Instant::now() + PATIENCE;
    while answered(rig.count()) == answered(&before) {
        rig.advance(Duration::from_micros(100));
        rig.turn();
        assert!(std::time::Instant::now() < deadline, "metric did not answer");
    }
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn serves_what_tiles_count() {
    let path = std::env::temp_dir().join(format!("hearth-metric-{}", std::process::id()));
    let workspace = workspace(&path);
    let counters = workspace.counters("sign:0").unwrap();
    let words = counters.words();
    sign::Counters { signed_shred: 12, ..Default::default() }.flush(&words[LoopCounters::DECLS.len()..]);
    LoopCounters { regime_finish_ns: 1_500_000_000, ..Default::default() }.flush(words);
    workspace.counters("rpc").unwrap().words()[0].store(5, Relaxed);

    let config = Config {
        listen: "127.0.0.1:0".parse().unwrap(),
        bound: None,
        workspace: path.clone(),
        ledger: std::env::temp_dir(),
    };
    let mut rig = Rig::<Metric>::new(config, &[], &[]);
    let answer = ask(&mut rig, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    for line in [
        "# TYPE hearth_sign_signed_shred_total counter",
        "hearth_sign_signed_shred_total{tile=\"sign:0\"} 12",
        "hearth_rpc_requests_total{service=\"rpc\"} 5",
        "hearth_rpc_connections_open{service=\"rpc\"} 0",
        "hearth_tile_regime_seconds_total{tile=\"sign:0\",kind=\"sign\",regime=\"finish\"} 1.5",
    ] {
        assert!(answer.lines().any(|l| l == line), "{line} is missing in\n{answer}");
    }
    assert!(ask(&mut rig, b"GET /other HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
    assert!(ask(&mut rig, b"POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
    assert!(ask(&mut rig, b"\x16\x03\x01\r\n\r\n").starts_with("HTTP/1.1 400"));
    assert!(ask(&mut rig, &[b'x'; 5000]).starts_with("HTTP/1.1 400"));
    assert_eq!((rig.count().scrapes, rig.count().bad_requests), (1, 4));
    std::fs::remove_file(path).unwrap();
}

/// Prometheus computes quantiles from these: cumulative buckets, their count and their sum.
#[test]
fn serves_latencies_as_histograms() {
    let path = std::env::temp_dir().join(format!("hearth-metric-latency-{}", std::process::id()));
    let spec = TileSpec::of::<bank::Bank>(0);
    let executed = spec.latency_at(1);
    let topology = Topology { name: "metric".into(), tiles: vec![spec], links: vec![], services: vec![] };
    let workspace = Workspace::create(&path, &topology.workspace_plan(HugePages::None)).unwrap();
    let mut histogram = Histogram::default();
    [100, 1_000, 1_500, 40_000_000].into_iter().for_each(|us| histogram.record(us));
    histogram.flush(&workspace.counters("bank:0").unwrap().words()[executed..]);
    let config = Config {
        listen: "127.0.0.1:0".parse().unwrap(),
        bound: None,
        workspace: path.clone(),
        ledger: std::env::temp_dir(),
    };
    let mut rig = Rig::<Metric>::new(config, &[], &[]);
    let answer = ask(&mut rig, b"GET /metrics HTTP/1.1\r\n\r\n");
    let name = "hearth_bank_received_to_executed_seconds";
    let of = |le: &str, count: u64| format!("{name}_bucket{{tile=\"bank:0\",le=\"{le}\"}} {count}");
    for line in [
        format!("# TYPE {name} histogram"),
        of("0.000032", 0),
        of("0.000128", 1),
        of("0.001024", 2),
        of("0.002048", 3),
        of("16.777216", 3),
        of("+Inf", 4),
        format!("{name}_sum{{tile=\"bank:0\"}} 40.0026"),
        format!("{name}_count{{tile=\"bank:0\"}} 4"),
        "hearth_bank_received_to_taken_seconds_count{tile=\"bank:0\"} 0".into(),
    ] {
        assert!(answer.lines().any(|l| l == line), "{line} is missing in\n{answer}");
    }
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_silent_client_is_dropped() {
    let path = std::env::temp_dir().join(format!("hearth-metric-silent-{}", std::process::id()));
    let _workspace = workspace(&path);
    let config = Config {
        listen: "127.0.0.1:0".parse().unwrap(),
        bound: None,
        workspace: path.clone(),
        ledger: std::env::temp_dir(),
    };
    let mut rig = Rig::<Metric>::new(config, &[], &[]);
    let _client = TcpStream::connect(rig.tile().listener.local_addr().unwrap()).unwrap();
    while rig.tile().connections.is_empty() {
        rig.advance(Duration::from_micros(100));
        rig.turn();
    }
    rig.advance(Duration::from_secs(6));
    rig.run();
    assert_eq!(rig.count().dropped_connections, 1);
    std::fs::remove_file(path).unwrap();
}

/// Silent clients hold no place: a client with a request is served, and the longest silent ones are closed.
#[test]
fn idle_connections_give_way() {
    let path = std::env::temp_dir().join(format!("hearth-metric-many-{}", std::process::id()));
    let _workspace = workspace(&path);
    let config = Config {
        listen: "127.0.0.1:0".parse().unwrap(),
        bound: None,
        workspace: path.clone(),
        ledger: std::env::temp_dir(),
    };
    let mut rig = Rig::<Metric>::new(config, &[], &[]);
    let addr = rig.tile().listener.local_addr().unwrap();
    let mut clients: Vec<TcpStream> = (0..40).map(|_| TcpStream::connect(addr).unwrap()).collect();
    let deadline = std::time::Instant::now() + PATIENCE;
    while rig.count().idle_connections_closed < 24 {
        rig.advance(Duration::from_micros(100));
        rig.turn();
        assert!(std::time::Instant::now() < deadline, "{:?}", rig.count());
    }
    assert_eq!(rig.tile().connections.len(), MAX_CONNECTIONS);
    assert!(ask(&mut rig, b"GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200"));
    assert_eq!((rig.count().refused_connections, rig.count().dropped_connections), (0, 0));
    clients.iter().for_each(|client| client.set_nonblocking(true).unwrap());
    let closed = |clients: &mut [TcpStream]| {
        clients.iter_mut().filter_map(|client| client.read(&mut [0]).ok()).filter(|bytes| *bytes == 0).count()
    };
    // One more gave way to the client with a request.
    while closed(&mut clients) < 25 {
        assert!(std::time::Instant::now() < deadline, "{} are closed", closed(&mut clients));
    }
    assert_eq!(rig.count().idle_connections_closed, 25);
    std::fs::remove_file(path).unwrap();
}

/// A connection with a request, read or not, keeps its place.
#[test]
fn requests_keep_their_places() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let pair = |now| {
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let ours = listener.accept().unwrap().0;
        ours.set_nonblocking(true).unwrap();
        (client, Connection::new(ours, now))
    };
    let ((mut asks, first), (_silent, second), (_later, third)) = (pair(1), pair(2), pair(3));
    asks.write_all(b"GET").unwrap();
    hearth_testkit::wait_until("the request", || !first.is_idle());
    let mut connections = vec![first, third, second];
    assert!(make_room(&mut connections));
    let left = |connections: &[Connection]| {
        let mut left: Vec<u64> = connections.iter().map(|connection| connection.deadline() % 1_000).collect();
        left.sort_unstable();
        left
    };
    assert_eq!(left(&connections), [1, 3]);
    assert!(make_room(&mut connections));
    assert_eq!(left(&connections), [1]);
    assert!(!make_room(&mut connections));
    let mut refused = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let ours = listener.accept().unwrap().0;
    ours.set_nonblocking(true).unwrap();
    refuse_at_once(ours);
    let mut answer = String::new();
    refused.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("\r\nRetry-After: 1\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\n16 scrapes are under way: try again\n"), "{answer}");
}

/// Serves a request in single bytes, and a client that reads its response late.
#[test]
fn slow_clients_are_served() {
    let path = std::env::temp_dir().join(format!("hearth-metric-slow-{}", std::process::id()));
    let _workspace = workspace(&path);
    let config = Config {
        listen: "127.0.0.1:0".parse().unwrap(),
        bound: None,
        workspace: path.clone(),
        ledger: std::env::temp_dir(),
    };
    let mut rig = Rig::<Metric>::new(config, &[], &[]);
    let mut client = TcpStream::connect(rig.tile().listener.local_addr().unwrap()).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    for byte in b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" {
        assert_eq!(rig.count().scrapes, 0);
        client.write_all(&[*byte]).unwrap();
        rig.advance(Duration::from_micros(100));
        rig.turn();
    }
    let deadline = std::time::Instant::now() + PATIENCE;
    while rig.count().scrapes == 0 {
        rig.advance(Duration::from_micros(100));
        rig.turn();
        assert!(std::time::Instant::now() < deadline, "{:?}", rig.count());
    }
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
    std::fs::remove_file(path).unwrap();
}

/// The text of a large node: each turn adds a bounded piece, and the pieces cover every counter.
#[test]
fn a_large_text_is_written_in_pieces() {
    let path = std::env::temp_dir().join(format!("hearth-metric-large-{}", std::process::id()));
    let tiles: Vec<_> = (0..100).map(|index| TileSpec::new::<sign::Counters>("sign", index)).collect();
    let topology = Topology { name: "metric".into(), tiles, links: vec![], services: vec![] };
    let _workspace = Workspace::create(&path, &topology.workspace_plan(HugePages::None)).unwrap();
    let config = Config {
        listen: "127.0.0.1:0".parse().unwrap(),
        bound: None,
        workspace: path.clone(),
        ledger: std::env::temp_dir(),
    };
    let mut rig = Rig::<Metric>::new(config, &[], &[]);
    let (observer, mut page) = (Observer::attach(&path).unwrap(), text::Page::default());
    let (mut pieces, mut before) = (1, 0);
    while !rig.tile().template.write(&observer, &mut page) {
        assert!(page.text.len() - before < 32 << 10, "{} bytes at once", page.text.len() - before);
        before = page.text.len();
        pieces += 1;
    }
    let of_tiles = 100 * (LoopCounters::DECLS.len() + sign::Counters::DECLS.len());
    let counters = of_tiles + families::of_the_process().len();
    assert_eq!(page.text.lines().filter(|line| !line.starts_with('#')).count(), counters);
    assert!(pieces > 10, "{pieces}");
    // The same over the network, from two clients at once.
    let addr = rig.tile().listener.local_addr().unwrap();
    let connect = || {
        let mut client = TcpStream::connect(addr).unwrap();
        client.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        std::thread::spawn(move || {
            let mut answer = String::new();
            client.read_to_string(&mut answer).map(|_| answer)
        })
    };
    let readers = [connect(), connect()];
    let deadline = std::time::Instant::now() + PATIENCE;
    let mut turns = 0;
    while rig.count().scrapes < 2 {
        turns += usize::from(rig.turn() == hearth_tile::runner::Activity::Worked);
        assert!(std::time::Instant::now() < deadline, "{:?}", rig.count());
    }
    assert!(turns >= 2 * pieces, "{turns} turns for two texts of {pieces} pieces");
    for reader in readers {
        let answer = reader.join().unwrap().unwrap();
        assert_eq!(answer.split_once("\r\n\r\n").unwrap().1.lines().count(), page.text.lines().count());
    }
    std::fs::remove_file(path).unwrap();
}

/// While the core sleeps often, only a sleep that found a connection leads to a call of `accept`.
#[test]
fn connections_that_a_sleep_found_are_accepted_at_once() {
    let path = std::env::temp_dir().join(format!("hearth-metric-slept-{}", std::process::id()));
    let _workspace = workspace(&path);
    let config = Config {
        listen: "127.0.0.1:0".parse().unwrap(),
        bound: None,
        workspace: path.clone(),
        ledger: std::env::temp_dir(),
    };
    let mut rig = Rig::<Metric>::new(config, &[], &[]);
    rig.turn();
    let _client = TcpStream::connect(rig.tile().listener.local_addr().unwrap()).unwrap();
    for _ in 0..3 {
        rig.advance(Duration::from_nanos(ACCEPT_EVERY_NS));
        rig.tile().slept(0);
        rig.turn();
        assert!(rig.tile().connections.is_empty(), "the sleep found none");
    }
    hearth_testkit::wait_until("it is accepted", || {
        rig.tile().slept(1);
        rig.turn();
        !rig.tile().connections.is_empty()
    });
    std::fs::remove_file(path).unwrap();
}
