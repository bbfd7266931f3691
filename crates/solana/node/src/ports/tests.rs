//! Ports: who gets them, which move, and the messages.

use std::net::{TcpListener, TcpStream, UdpSocket};

use super::*;
use crate::config::ports::{RPC, movable};

/// A configuration whose ports are any free ones.
fn any() -> Config {
    let mut config = Config::default();
    movable(&mut config).into_iter().for_each(|(_, port)| *port = 0);
    config
}

fn take(config: &mut Config) -> Result<BoundPorts, PortError> {
    BoundPorts::take(config, 1, &|_| false)
}

#[test]
fn only_ports_with_defaults_move() {
    let mut config = Config::default();
    config.rpc.port = 12_345;
    let ports = Ports::of(&moved_up(&config, 300, &|_| false));
    let numbers = [ports.rpc, ports.metrics, ports.udp, ports.quic].map(|address| address.port());
    assert_eq!(numbers, [12_345, 8_299, 9_301, 9_307]);
    let asked = moved_up(&Config::default(), 300, &|key| key == RPC);
    assert_eq!((asked.rpc.port, asked.tiles.quic.quic_transaction_listen_port), (8_899, 9_307));
}

#[test]
fn nodes_that_start_together_get_ports_of_their_own() {
    let start = || {
        std::thread::spawn(|| {
            let mut config = Config::default();
            let bound = take(&mut config).expect("there are free ports");
            assert_eq!(bound.ports, Ports::of(&config));
            bound
        })
    };
    let started = [(); 6].map(|()| start()).map(|thread| thread.join().expect("it has ports"));
    let mut ports: Vec<u16> = started.iter().map(|bound| bound.ports.rpc.port()).collect();
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), 6);
    for bound in &started {
        let by = bound.ports.rpc.port() - Config::default().rpc.port;
        assert_eq!(!bound.moved.is_empty(), by > 0);
        assert!(by.is_multiple_of(100) && bound.ports.quic.port() == 9_007 + by, "{:?}", bound.ports);
        assert!(TcpListener::bind(bound.ports.websocket).is_err());
        assert!(UdpSocket::bind(bound.ports.quic).is_err());
    }
}

#[test]
fn only_ports_that_moved_are_reported() {
    // The metrics' default port is in use, here or by another process.
    let _taken = TcpListener::bind(Ports::of(&Config::default()).metrics);
    let mut config = any();
    config.tiles.metric.prometheus_listen_port = Config::default().tiles.metric.prometheus_listen_port;
    let bound = take(&mut config).expect("there are free ports");
    assert_eq!(bound.moved, ["metrics"]);
    let port = bound.ports.metrics.port();
    assert_eq!(bound.ports.numbers(&bound.moved), format!("metrics {port}"));
}

#[test]
fn a_port_that_is_asked_for_does_not_move() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut config = any();
    config.tiles.metric.prometheus_listen_port = taken.local_addr().unwrap().port();
    let before = config.clone();
    let said = take(&mut config).expect_err("it is taken").to_string();
    assert_eq!(config, before);
    assert!(said.contains("(tiles.metric.prometheus_listen_port)"), "{said}");
    let own = format!("(process {})", std::process::id());
    assert!(said.contains("in use by `") && said.contains(&own), "{said}");
}

#[test]
fn port_0_is_filled_in() {
    let mut config = any();
    let bound = take(&mut config).unwrap();
    let Ports { quic, udp, rpc, websocket, metrics, .. } = bound.ports;
    assert!([quic, udp, rpc, websocket, metrics].iter().all(|address| address.port() != 0), "{:?}", bound.ports);
}

#[test]
fn an_outgoing_connection_that_has_the_port_is_named() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let there = server.local_addr().unwrap();
    let connection = TcpStream::connect(there).unwrap();
    let mut config = any();
    config.rpc.port = connection.local_addr().unwrap().port();
    let said = take(&mut config).expect_err("it is taken").to_string();
    let tool = format!("`ss -tanp 'sport = :{}'`", config.rpc.port);
    let by = format!("the port is in use by a connection of `{}", comm());
    let parts = ["HTTP (JSON-RPC)", &by, &format!(" to {there}"), &tool, "(rpc.port)"];
    assert!(parts.iter().all(|part| said.contains(part)), "{said}");
}

/// The name of this process.
fn comm() -> String {
    std::fs::read_to_string("/proc/self/comm").unwrap().trim_end().into()
}

#[test]
fn two_keys_for_one_port_clash() {
    let mut config = Config::default();
    assert_eq!(Ports::of(&config).clash(), None);
    config.tiles.metric.prometheus_listen_port = config.rpc.port + 1;
    let expected = Some(("rpc.port", "tiles.metric.prometheus_listen_port", 8900));
    assert_eq!(Ports::of(&config).clash(), expected);
    // Another address of this machine has separate ports; all addresses include each.
    config.rpc.bind_address = "127.0.0.2".parse().unwrap();
    assert_eq!(Ports::of(&config).clash(), None);
    config.rpc.bind_address = "0.0.0.0".parse().unwrap();
    assert_eq!(Ports::of(&config).clash(), expected);
    // TCP and UDP ports do not conflict.
    let mut config = Config::default();
    config.tiles.quic.quic_transaction_listen_port = config.rpc.port;
    assert_eq!(Ports::of(&config).clash(), None);
}

#[test]
fn a_udp_port_in_use_names_its_key_and_who_to_ask() {
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut config = any();
    let port = taken.local_addr().unwrap().port();
    config.tiles.quic.quic_transaction_listen_port = port;
    let said = take(&mut config).expect_err("it is taken").to_string();
    let tool = format!("`ss -uanp 'sport = :{port}'`");
    let parts = ["the QUIC TPU port", "in use by `", &tool, "(tiles.quic.quic_transaction_listen_port)"];
    assert!(parts.iter().all(|part| said.contains(part)), "{said}");
}
