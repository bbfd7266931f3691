//! The dashboard's figures are those of `hearth monitor --json`; a key of the configuration switches it off.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};

use hearth_rpc_client::http::{Patience, direct};
use serde_json::Value;

use super::monitor::is_idle;
use super::node::{DEADLINE, Setup};

/// Returns the status of an HTTP path and its body, which may be an endless stream.
fn answer(of: SocketAddr, path: &str) -> (u16, impl BufRead + use<>) {
    let answer = direct(Patience::Step(DEADLINE)).get(&format!("http://{of}{path}")).call().expect("it answers");
    (answer.status().as_u16(), BufReader::new(answer.into_body().into_reader()))
}

/// The status of a page of this machine's.
pub fn status(port: u16, path: &str) -> u16 {
    answer((Ipv4Addr::LOCALHOST, port).into(), path).0
}

/// Streams the JSON events that the dashboard receives.
pub fn live(of: SocketAddr) -> impl Iterator<Item = Value> + use<> {
    let lines = answer(of, "/dashboard/live").1.lines().map(|line| line.expect("a stream that goes on"));
    lines.filter_map(|line| Some(serde_json::from_str(line.strip_prefix("data: ")?).expect("JSON")))
}

/// The first that it is sent by this machine's.
pub fn shown(port: u16) -> Value {
    live((Ipv4Addr::LOCALHOST, port).into()).next().expect("figures")
}

#[test]
fn the_dashboard_has_the_figures_of_the_monitor() {
    let setup = Setup::new("dashboard");
    let node = setup.start();
    assert_eq!(status(setup.ports.rpc, "/dashboard"), 200);
    let keys = |object: &Value| object.as_object().unwrap().keys().cloned().collect::<BTreeSet<String>>();
    let shown = shown(setup.ports.rpc);
    let output = setup.output("monitor", &["--count", "1", "--json"]);
    let monitor: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(keys(&shown), keys(&monitor));
    assert_eq!((&shown["pid"], &shown["alive"]), (&node.process.id().into(), &true.into()));
    assert!(is_idle(&shown), "{shown:#}");
    for (tile, other) in shown["tiles"].as_array().unwrap().iter().zip(monitor["tiles"].as_array().unwrap()) {
        assert_eq!((&tile["tile"], keys(tile)), (&other["tile"], keys(other)));
    }
    // The stream's client has left; a stopping node must not wait for it.
    node.stop();
}

#[test]
fn the_dashboard_can_be_switched_off() {
    let mut setup = Setup::new("no-dashboard");
    setup.with("rpc.dashboard", false);
    let node = setup.start();
    assert_eq!(status(setup.ports.rpc, "/dashboard"), 404);
    assert_eq!(status(setup.ports.rpc, "/dashboard/live"), 404);
    node.stop();
}
