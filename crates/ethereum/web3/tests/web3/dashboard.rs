//! The dashboard at the address of Web3: its files, who may have them, and JSON-RPC beside it as it was.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use hearth_evm::chain::BlockTime;
use hearth_serve::dashboard::LookAt;

use crate::node::{Node, connect, read_answer, send};

const BROWSER: &str = "Accept: text/html,*/*;q=0.8\r\n";

fn look_at() -> LookAt {
    Box::new(|| Some(Box::new(|| Some("{\"n\":1}".into()))))
}

fn node() -> Node {
    Node::seen(BlockTime::Manual, |_| {}, Some(look_at()))
}

fn ask(node: &Node, path: &str, head: &str) -> TcpStream {
    let mut stream = connect(&node.server);
    stream.write_all(format!("GET {path} HTTP/1.1\r\n{head}\r\n").as_bytes()).unwrap();
    stream
}

fn get(node: &Node, path: &str, head: &str) -> (u16, String) {
    read_answer(&ask(node, path, head))
}

#[test]
fn a_browser_gets_the_page_of_this_ledger() {
    let node = node();
    let (status, page) = get(&node, "/", &format!("Host: localhost\r\n{BROWSER}"));
    assert!(status == 200 && page.starts_with("<!doctype html>"), "{status} {page}");
    assert_eq!(get(&node, "/dashboard", "Host: 127.0.0.1\r\n").1, page);
    let (status, ledger) = get(&node, "/dashboard/ledger/ledger.mjs", "Host: 127.0.0.1\r\n");
    assert!(status == 200 && ledger.contains("Ethereum"), "{status} {ledger}");
    let (status, why) = get(&node, "/dashboard?every=5", "Host: 127.0.0.1\r\n");
    assert!(status == 400 && why.contains("`every`"), "{status} {why}");
    // A probe that looks whether a server is there gets no page.
    assert_eq!(get(&node, "/", "Host: 127.0.0.1\r\n"), (200, String::new()));
    let body = br#"{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber"}"#;
    let head = format!("Host: localhost\r\n{BROWSER}Content-Type: application/json\r\n");
    let (_, answer) = send(&connect(&node.server), "POST", &head, body);
    assert!(answer.contains("\"0x0\""), "{answer}");
}

#[test]
fn events_stream_while_a_client_listens() {
    let node = node();
    let mut lines = BufReader::new(ask(&node, "/dashboard/live", "Host: localhost\r\n")).lines();
    let event = lines.find_map(|line| line.unwrap().strip_prefix("data: ").map(str::to_owned));
    assert_eq!(event.as_deref(), Some("{\"n\":1}"));
    node.server.stop();
    assert!(lines.all(|line| line.is_ok()), "the stream ends as it should");
}

#[test]
fn foreign_names_and_pages_have_nothing_of_it() {
    let node = node();
    for path in ["/", "/dashboard", "/dashboard/main.mjs", "/dashboard/live"] {
        assert_eq!(get(&node, path, &format!("Host: a.page:8545\r\n{BROWSER}")).0, 403, "{path}");
        let of_a_page = format!("Host: localhost\r\nOrigin: http://a.page\r\n{BROWSER}");
        assert_eq!(get(&node, path, &of_a_page).0, 403, "{path}");
    }
    // A page of loopback may use JSON-RPC, but is not let read the dashboard.
    let mut lines =
        BufReader::new(ask(&node, "/dashboard", "Host: localhost\r\nOrigin: http://localhost:3000\r\n")).lines();
    let head: Vec<String> = lines.by_ref().map(Result::unwrap).take_while(|line| !line.is_empty()).collect();
    let has = |name: &str| head.iter().any(|line| line.to_ascii_lowercase().starts_with(name));
    assert!(has("content-security-policy") && !has("access-control-allow-origin"), "{head:?}");
}

#[test]
fn a_node_without_a_dashboard_says_so() {
    let node = Node::new(BlockTime::Manual);
    for path in ["/dashboard", "/dashboard/main.mjs", "/dashboard/live"] {
        let (status, why) = get(&node, path, "Host: localhost\r\n");
        assert!(status == 404 && why.contains("--no-dashboard"), "{path}: {status} {why}");
    }
    assert_eq!(get(&node, "/", &format!("Host: localhost\r\n{BROWSER}")), (200, String::new()));
}
