//! A node under a service manager: it reports when it serves, that it works, and that it stops.

use std::os::unix::net::UnixDatagram;
use std::process::Command;

use hearth_testkit::wait_for;
use rustix::process::Signal;

use super::node::{Process, Setup, hearth};

/// Starts the node with a socket of a manager that watches it, and ends it; the reports come in order.
fn reports_in_order(mut command: Command) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket.set_nonblocking(true).expect("a socket");
    let next = || -> Result<String, String> {
        let mut bytes = [0; 64];
        let length = socket.recv(&mut bytes).map_err(|error| error.to_string())?;
        Ok(String::from_utf8_lossy(&bytes[..length]).into_owned())
    };
    let node = Process::start(command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "1000000"));
    assert_eq!(wait_for("the report that it serves", next), "READY=1");
    for _ in 0..2 {
        assert_eq!(wait_for("a report that it works", next), "WATCHDOG=1");
    }
    node.signal(Signal::TERM);
    let last = wait_for("the report that it stops", || match next()?.as_str() {
        "WATCHDOG=1" => Err("it works".to_owned()),
        other => Ok(other.to_owned()),
    });
    assert_eq!(last, "STOPPING=1");
    let (status, _) = node.wait();
    assert!(status.success(), "{status}");
}

#[test]
fn solana_node_reports_to_its_manager() {
    let setup = Setup::new("service");
    reports_in_order(setup.command("run"));
}

#[test]
fn evm_node_reports_to_its_manager() {
    let mut command = hearth();
    command.args(["evm", "run", "--rpc-port", "0", "--no-dashboard"]);
    reports_in_order(command);
}
