//! Profiles of a Go server, and the depth of CometBFT's pool, fetched during a load.

use std::io::Write;
use std::net::TcpListener;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use hearth_load::account::{address, generate};
use hearth_load::ethereum::node::connect;
use hearth_load::ethereum::run::drive;
use hearth_load::ethereum::workload::{Contracts, Kind};
use hearth_load::profile::{Plan, ProfileError, Span, take};
use hearth_load::series::Pool;
use hearth_testkit::http::{Reply, answered, serve, serve_on};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::stub::{Manners, Stub};
use crate::{TIMEOUT, asked};

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = vec![];
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

fn number(field: u64, value: u64) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

fn bytes(field: u64, value: &[u8]) -> Vec<u8> {
    [varint(field << 3 | 2), varint(value.len() as u64), value.to_vec()].concat()
}

/// A Go server's answer: `main.main` calls `core.Insert`, sampled seven times, and `runtime.gc`, sampled three times.
fn go_profile() -> Vec<u8> {
    let function = |id: u64| bytes(5, &[number(1, id), number(2, id)].concat());
    let location = |id: u64| bytes(4, &[number(1, id), bytes(4, &number(1, id))].concat());
    let sample = |stack: &[u8], count: u64| {
        // The innermost location first; then the number of samples, and their time in ns.
        let values = [varint(count), varint(count * 10_000_000)].concat();
        bytes(2, &[bytes(1, stack), bytes(2, &values)].concat())
    };
    let words = ["", "main.main", "github.com/x/y/core.Insert", "runtime.gc"].map(|word| bytes(6, word.as_bytes()));
    let tables = (1..=3).flat_map(|id| [location(id), function(id)].concat());
    let profile = [sample(&[2, 1], 7), sample(&[3], 3), tables.collect(), words.concat()].concat();
    let mut packed = GzEncoder::new(vec![], Compression::best());
    packed.write_all(&profile).unwrap();
    packed.finish().unwrap()
}

/// A pprof server, and the requests that it got.
fn pprof(answer: fn() -> Reply) -> (String, &'static Mutex<Vec<String>>) {
    let asked: &Mutex<Vec<String>> = Box::leak(Box::default());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = serve_on(listener, move |place, _| {
        asked.lock().push(place.to_owned());
        answer()
    });
    (url, asked)
}

fn plan(pprof: String, span: Span) -> Plan {
    Plan { node: "http://127.0.0.1:1".into(), token: None, pprof: Some(pprof), span }
}

#[test]
fn a_go_server_is_profiled_in_pieces() {
    let (url, asked) = pprof(|| Reply::Bytes(go_profile()));
    let begun = AtomicU64::new(0);
    let when_begun = || {
        begun.fetch_add(1, Ordering::Relaxed);
    };
    let taken = take(&plan(url.clone() + "/", Span::Time(Duration::from_secs(12))), &when_begun, &|| false).unwrap();
    let pieces = ["5", "5", "2"].map(|seconds| format!("/debug/pprof/profile?seconds={seconds}"));
    assert_eq!(*asked.lock(), pieces);
    // Three pieces of ten samples each.
    assert_eq!(taken.folded, "main.main;core.Insert 21\nruntime.gc 9\n");
    assert_eq!((taken.source.as_str(), taken.seconds, begun.into_inner()), ("by pprof", 12.0, 1));
    // After `stop` it requests no further piece, and keeps what it has.
    let stop = || asked.lock().len() > 3;
    let taken = take(&plan(url, Span::Time(Duration::from_secs(60))), &|| {}, &stop).unwrap();
    assert_eq!((taken.folded.as_str(), taken.seconds), ("main.main;core.Insert 7\nruntime.gc 3\n", 5.0));
}

#[test]
fn non_profile_answer_is_reported() {
    let second = Span::Time(Duration::from_secs(1));
    let ask = |answer: fn() -> Reply| take(&plan(pprof(answer).0, second), &|| {}, &|| false).unwrap_err();
    let why = ask(|| Reply::Status(404));
    assert!(why.to_string().contains("HTTP status 404"), "{why}");
    let why = ask(|| Reply::Bytes(go_profile()[..40].to_vec()));
    assert!(why.to_string().contains("answers with something else: it is not gzip data"), "{why}");
    let why = ask(|| Reply::Answer("not a profile".into()));
    assert!(matches!(why, ProfileError::NoProfile { .. }), "{why}");
    // A server that did nothing.
    let why = ask(|| Reply::Bytes(vec![]));
    assert!(matches!(why, ProfileError::Empty(1.0)), "{why}");
}

#[test]
fn a_load_has_the_profile_and_the_pools_depth_in_its_report() {
    let signers = generate(4).unwrap();
    let stub = Stub::start(Manners::default(), &signers.iter().map(address).collect::<Vec<_>>());
    let depth = AtomicU64::new(0);
    // CometBFT's answer has numbers as strings, next to a list of transactions.
    let comet = serve(move |body| {
        let question: Value = serde_json::from_slice(body).unwrap();
        let reply = answered(&question, |method, _| {
            assert_eq!(method, "num_unconfirmed_txs");
            let total = 7 * depth.fetch_add(1, Ordering::Relaxed);
            Ok(json!({ "n_txs": "0", "total": total.to_string(), "total_bytes": "9", "txs": null }))
        });
        Reply::Answer(reply.to_string())
    });
    let mut asked = asked(&stub.url, Kind::Transfer);
    asked.timing.beside.pool = Pool::of(&stub.url, Some(&comet)).unwrap();
    asked.timing.beside.profile = Some(plan(pprof(|| Reply::Bytes(go_profile())).0, Span::Time(TIMEOUT)));
    (asked.pace.rate, asked.timing.duration) = (Some(50.0), Duration::from_secs(4));
    let node = connect(&stub.url, TIMEOUT).unwrap();
    let report = drive(&asked, &node, Contracts::default(), &signers, &|| false, |_| {}).unwrap();
    assert_eq!(report.pool_source.as_deref(), Some("num_unconfirmed_txs of CometBFT"));
    let reply: Vec<_> = report.moments.iter().filter_map(|moment| moment.pool_pending).collect();
    // Two samples per second; one that came too late on a busy machine is left out.
    let rises = reply.windows(2).all(|pair| pair[0] < pair[1]);
    assert!(reply.len() >= 3 && rises && reply.iter().all(|pending| pending % 7 == 0), "{reply:?}");
    assert!(report.configuration.contains(&("CometBFT".into(), comet)), "{:?}", report.configuration);
    let profile = report.profile.expect("a profile");
    assert!(profile.folded.starts_with("main.main;core.Insert ") && report.no_profile.is_none());
}

#[test]
fn a_profiler_that_is_not_there_costs_the_load_nothing() {
    let signers = generate(2).unwrap();
    let stub = Stub::start(Manners::default(), &signers.iter().map(address).collect::<Vec<_>>());
    let mut asked = asked(&stub.url, Kind::Transfer);
    (asked.pace.rate, asked.timing.duration) = (Some(50.0), Duration::from_secs(1));
    asked.timing.warmup = Duration::from_millis(200);
    asked.timing.beside.profile = Some(plan("http://127.0.0.1:1".into(), Span::NextBlock));
    let node = connect(&stub.url, TIMEOUT).unwrap();
    let report = drive(&asked, &node, Contracts::default(), &signers, &|| false, |_| {}).unwrap();
    assert!(report.included == report.sent && report.sent > 20, "{}", report.text());
    assert!(report.no_profile.is_some_and(|why| why.contains("http://127.0.0.1:1")) && report.profile.is_none());
}
