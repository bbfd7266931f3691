//! The dashboard's figures are those of `hearth monitor --json`; a key of the configuration switches it off.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use serde_json::Value;

use super::monitor::is_idle;
use super::node::{DEADLINE, Setup};

/// Sends a request and reads lines of the answer until one begins so; that line, without it.
pub fn line_after(port: u16, path: &str, beginning: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    let line = lines.find(|line| line.starts_with(beginning)).unwrap_or_else(|| panic!("no {beginning:?}"));
    line[beginning.len()..].to_owned()
}

#[test]
fn the_dashboard_has_the_figures_of_the_monitor() {
    let setup = Setup::new("dashboard");
    let node = setup.start();
    assert_eq!(line_after(setup.ports.rpc, "/dashboard", "HTTP/1.1 "), "200 OK");
    let keys = |object: &Value| object.as_object().unwrap().keys().cloned().collect::<BTreeSet<String>>();
    let shown: Value = serde_json::from_str(&line_after(setup.ports.rpc, "/dashboard/live", "data: ")).unwrap();
    let output = setup.output("monitor", &["--count", "1", "--json"]);
    let monitor: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(keys(&shown), keys(&monitor));
    assert_eq!((&shown["pid"], &shown["alive"]), (&node.process.id().into(), &true.into()));
    assert!(is_idle(&shown), "{shown:#}");
    for (tile, other) in shown["tiles"].as_array().unwrap().iter().zip(monitor["tiles"].as_array().unwrap()) {
        assert_eq!((&tile["tile"], keys(tile)), (&other["tile"], keys(other)));
    }
    // The stream has been left; a node that stops waits for nobody.
    node.stop();
}

#[test]
fn the_dashboard_can_be_switched_off() {
    let mut setup = Setup::new("no-dashboard");
    setup.with("rpc.dashboard", false);
    let node = setup.start();
    assert!(line_after(setup.ports.rpc, "/dashboard", "HTTP/1.1 ").starts_with("404"));
    assert!(line_after(setup.ports.rpc, "/dashboard/live", "HTTP/1.1 ").starts_with("404"));
    node.stop();
}
