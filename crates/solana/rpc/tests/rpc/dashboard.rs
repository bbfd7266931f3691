//! The dashboard: its files and headers, and its event stream with too many or too slow clients.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use hearth_serve::dashboard::LookAt;
use hearth_testkit::wait_until;
use serde_json::json;

use crate::common::*;

/// Counts the views that were opened, and the series that started and ended.
#[derive(Clone, Default)]
struct ViewCounts {
    begun: Arc<AtomicU64>,
    taken: Arc<AtomicU64>,
    ended: Arc<AtomicU64>,
}

/// A series of events; dropping it ends it.
struct Series(ViewCounts);

impl Series {
    fn next(&self, bytes: usize) -> String {
        let n = self.0.taken.fetch_add(1, Relaxed) + 1;
        format!("{{\"n\":{n},\"pad\":\"{}\"}}", "x".repeat(bytes))
    }
}

impl Drop for Series {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Relaxed);
    }
}

impl ViewCounts {
    /// Yields `{"n":1}`, `{"n":2}` and so on, padded to `bytes`.
    fn look_at(&self, bytes: usize) -> LookAt {
        let looks = self.clone();
        Box::new(move || {
            looks.begun.fetch_add(1, Relaxed);
            let series = Series(looks.clone());
            Some(Box::new(move || Some(series.next(bytes))))
        })
    }
}

fn get(address: SocketAddr, path: &str, headers: &str) -> Answer {
    request(address, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}Connection: close\r\n\r\n"))
}

/// Requests a stream without reading its response.
fn ask(address: SocketAddr) -> TcpStream {
    let mut stream = connect(address);
    stream.write_all(b"GET /dashboard/live HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    stream
}

/// Reads a stream until a line contains `what`.
fn read_until(reader: &mut BufReader<TcpStream>, what: &str) {
    let mut line = String::new();
    while !line.contains(what) {
        line.clear();
        assert_ne!(reader.read_line(&mut line).unwrap(), 0, "the stream ended before {what:?}");
    }
}

#[test]
fn a_browser_gets_the_page_and_every_file_with_strict_headers() {
    let chain = Chain::with_dashboard(ViewCounts::default().look_at(0));
    let page = get(chain.http(), "/", "Accept: text/html,application/xhtml+xml;q=0.9\r\n");
    assert_eq!(page.status, 200);
    assert_eq!(get(chain.http(), "/dashboard", "").body, page.body);
    assert!(page.body.starts_with("<!doctype html>"), "{page:?}");
    let named = page.body.split('"').filter(|text| text.starts_with("/dashboard/"));
    let files: Vec<(&str, &str)> = named.map(|path| (path, path.rsplit_once('.').unwrap().1)).collect();
    assert!(files.len() >= 3, "{files:?}");
    for (path, ending) in [&[("/dashboard", "html")], &files[..]].concat() {
        let file = get(chain.http(), path, "");
        let kind = match ending {
            "html" => "text/html; charset=utf-8",
            "css" => "text/css; charset=utf-8",
            "mjs" => "text/javascript; charset=utf-8",
            "svg" => "image/svg+xml",
            other => panic!("{path}: {other}"),
        };
        assert_eq!(file.status, 200, "{path}");
        for part in [
            &format!("content-type: {kind}")[..],
            "default-src 'none'",
            "script-src 'self'",
            "nosniff",
            "cache-control: no-cache",
        ] {
            assert!(file.head.contains(part), "{path}: {part}: {}", file.head);
        }
        // Other sites may not read it.
        assert!(!file.head.contains("access-control-allow-origin"), "{}", file.head);
        let tag = file.head.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap();
        let known = get(chain.http(), path, &format!("If-None-Match: W/\"other\", {tag}\r\n"));
        assert_eq!((known.status, &known.body[..]), (304, ""), "{path}");
        let changed = get(chain.http(), path, "If-None-Match: \"0\"\r\n");
        assert_eq!((changed.status, changed.body == file.body), (200, true), "{path}");
    }
    let head = request(chain.http(), "HEAD /dashboard HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    assert_eq!((head.status, &head.body[..]), (200, ""));
    assert_eq!(get(chain.http(), "/dashboard/unicorn.mjs", "").status, 404);
    assert_eq!(get(chain.http(), "/dashboard/../etc/passwd", "").status, 404);
}

/// DNS rebinding: a page whose host name points to this node may not read its data.
#[test]
fn a_foreign_name_and_a_parameter_are_refused() {
    let chain = Chain::with_dashboard(ViewCounts::default().look_at(0));
    let asked = |path: &str, host: &str| {
        let head = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nAccept: text/html\r\nConnection: close\r\n\r\n");
        request(chain.http(), &head)
    };
    for path in ["/", "/dashboard", "/dashboard/main.mjs", "/dashboard/live"] {
        let refused = asked(path, "a.page:8899");
        assert!(refused.status == 403 && refused.body.contains("localhost"), "{path}: {refused:?}");
    }
    assert_eq!(chain.counted(|c| c.dashboards_refused()), 4);
    assert_eq!(asked("/dashboard", "127.0.0.1:1").status, 200);
    for path in ["/?every=5", "/dashboard?every=5&x", "/dashboard/live?every=5"] {
        let refused = asked(path, "localhost");
        assert!(refused.status == 400 && refused.body.contains("`every` is not a parameter"), "{path}: {refused:?}");
    }
    // A question mark alone has no parameters.
    assert_eq!(asked("/dashboard?", "localhost").status, 200);
}

#[test]
fn json_rpc_shares_the_dashboards_address() {
    let chain = Chain::with_dashboard(ViewCounts::default().look_at(0));
    assert_eq!(chain.call("getHealth", json!([])), "ok");
    // At the address of JSON-RPC only clients that accept HTML get the page.
    assert_eq!(get(chain.http(), "/", "Accept: */*\r\n").status, 405);
    assert_eq!(get(chain.http(), "/health", "Accept: text/html\r\n").body, "ok");
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"getHealth"}"#;
    let head = format!("Content-Type: application/json\r\nAccept: text/html\r\nContent-Length: {}\r\n", body.len());
    for path in ["/", "/dashboard"] {
        let answer = request(
            chain.http(),
            &format!("POST {path} HTTP/1.1\r\nHost: localhost\r\n{head}Connection: close\r\n\r\n{body}"),
        );
        assert!(answer.status == 200 && answer.body.contains(r#""result":"ok""#), "{answer:?}");
    }
}

#[test]
fn a_node_without_a_dashboard_says_so() {
    let chain = Chain::new();
    for path in ["/dashboard", "/dashboard/main.mjs", "/dashboard/live"] {
        let answer = get(chain.http(), path, "Accept: text/html\r\n");
        assert!(answer.status == 404 && answer.body.contains("[rpc] dashboard"), "{path}: {answer:?}");
    }
    assert_eq!(get(chain.http(), "/", "Accept: text/html\r\n").status, 405);
    assert_eq!(get(chain.http(), "/dashboards", "").status, 405);
}

#[test]
fn views_are_sampled_once_for_all_listeners() {
    let looks = ViewCounts::default();
    let chain = Chain::with_dashboard(looks.look_at(0));
    chain.call("getHealth", json!([]));
    get(chain.http(), "/dashboard", "");
    assert_eq!(looks.begun.load(Relaxed), 0);
    let mut readers = [0; 3].map(|_| BufReader::new(ask(chain.http())));
    for reader in &mut readers {
        read_until(reader, "content-type: text/event-stream");
        read_until(reader, "retry: 1000");
        read_until(reader, "data: {\"n\":");
    }
    chain.wait_counted(|c| c.dashboards_open(), 3);
    assert_eq!((looks.begun.load(Relaxed), chain.counted(|c| c.dashboards())), (1, 3));
    drop(readers);
    chain.wait_counted(|c| c.dashboards_open(), 0);
    // The client is gone; the server notices on its next event and drops the series.
    wait_until("the views end", || looks.ended.load(Relaxed) == 1);
    let taken = looks.taken.load(Relaxed);
    read_until(&mut BufReader::new(ask(chain.http())), &format!("data: {{\"n\":{}", taken + 1));
    assert_eq!(looks.begun.load(Relaxed), 2);
}

#[test]
fn streams_over_the_limit_are_refused_and_places_are_given_back() {
    let chain = Chain::with_dashboard(ViewCounts::default().look_at(0));
    let mut readers: Vec<BufReader<TcpStream>> = (0..16).map(|_| BufReader::new(ask(chain.http()))).collect();
    readers.iter_mut().for_each(|reader| read_until(reader, "retry: 1000"));
    let refused = get(chain.http(), "/dashboard/live", "");
    assert!(refused.status == 503 && refused.head.contains("retry-after: 5"), "{refused:?}");
    assert!(refused.body.contains("too many"), "{refused:?}");
    assert_eq!((chain.counted(|c| c.dashboards_refused()), chain.counted(|c| c.dashboards_open())), (1, 16));
    assert_eq!(chain.call("getHealth", json!([])), "ok");
    readers.pop();
    chain.wait_counted(|c| c.dashboards_open(), 15);
    read_until(&mut BufReader::new(ask(chain.http())), "data: ");
}

#[test]
fn client_that_does_not_read_is_dropped() {
    // Eight events plus the buffers of the kernel and hyper are less than a dozen of these.
    let chain = Chain::with_dashboard(ViewCounts::default().look_at(4 << 20));
    let slow = ask(chain.http());
    chain.wait_counted(|c| c.dashboards_open(), 1);
    let mut reader = BufReader::new(ask(chain.http()));
    // A dozen seconds on a fast machine.
    let deadline = Instant::now() + 5 * DEADLINE;
    while chain.counted(|c| c.dashboards_dropped()) == 0 {
        assert!(Instant::now() < deadline, "the client is not dropped");
        read_until(&mut reader, "data: ");
    }
    assert_eq!(chain.counted(|c| c.dashboards_dropped()), 1);
    read_until(&mut reader, "data: ");
    drop(slow);
    chain.wait_counted(|c| c.dashboards_open(), 1);
}

#[test]
fn streams_end_without_a_view_of_the_node() {
    let chain = Chain::with_dashboard(Box::new(|| None));
    // The head, the first event, and the end.
    let answer = get(chain.http(), "/dashboard/live", "");
    assert!(answer.status == 200 && !answer.body.contains("data: "), "{answer:?}");
    chain.wait_counted(|c| c.dashboards_open(), 0);
}

#[test]
fn stopping_ends_the_streams() {
    let chain = Chain::with_dashboard(ViewCounts::default().look_at(0));
    let mut reader = BufReader::new(ask(chain.http()));
    read_until(&mut reader, "data: ");
    let started = Instant::now();
    chain.server.stop();
    assert!(started.elapsed() < DEADLINE, "{:?}", started.elapsed());
    let mut line = String::new();
    while reader.read_line(&mut line).unwrap() > 0 {}
}
