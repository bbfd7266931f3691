//! Several nodes on one machine: each takes free ports, has its own name and chain, and can be queried by name.

use std::net::TcpListener;
use std::path::Path;
use std::process::Output;

use super::node::{Process, hearth, output};

/// A valid signature that belongs to no transaction.
const NOBODYS: &str = "5VERv8NMvzbJMEkV8xnrLkEaWRtSz9CosKDYjCJjBRnbJLgp8uirBgmQpjKhoR4tjF3ZpRzrFmBV6UjKdiSZkQUW";

/// Runs a command in a folder; returns its exit code and output.
fn says(folder: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let Output { status, stdout, stderr } = output(hearth().args(arguments).current_dir(folder));
    (status.code(), [stdout, stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat())
}

#[test]
fn nodes_that_start_together_all_come_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path();
    let name = |number: usize| format!("together-{number}-{}", std::process::id());
    let start = |number| Process::start(hearth().args(["run", "--name", &name(number)]).current_dir(place));
    let nodes = [1, 2, 3, 4, 5, 6].map(start);
    let rpc = |node: &Process| {
        let lines = node.wait_for_line("ready;");
        lines.iter().find_map(|line| Some(line.trim().strip_prefix("rpc")?.trim().to_owned())).expect("where it is")
    };
    let mut found = nodes.each_ref().map(rpc);
    found.sort();
    assert!(found.windows(2).all(|pair| pair[0] != pair[1]), "{found:?}");
    for node in nodes {
        node.signal(rustix::process::Signal::INT);
        assert!(node.wait().0.success());
    }
}

#[test]
fn a_second_node_has_ports_and_a_chain_of_its_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path();
    let name = format!("beside-{}", std::process::id());
    // The port is taken either way: by this test or by another process.
    let _taken = TcpListener::bind("127.0.0.1:8899");
    let node = Process::start(hearth().args(["run", "--name", &name]).current_dir(place));
    let lines = node.wait_for_line("ready;").join("\n");
    let rpc = lines.lines().find_map(|line| line.trim().strip_prefix("rpc")).expect("where it is").trim().to_owned();
    let port: u16 = rpc.rsplit(':').next().unwrap().parse().expect("a port");
    assert!(port > 8_899 && (port - 8_899).is_multiple_of(100), "{rpc}");
    let (websocket, quic, metrics) = (port + 1, port - 8_899 + 9_007, port - 8_899 + 7_999);
    let ledger = format!("{}/.hearth/{name}/ledger (a new chain)", place.canonicalize().unwrap().display());
    for part in [
        &format!("node `{name}`"),
        &ledger,
        &format!("ws://127.0.0.1:{websocket}"),
        &format!("127.0.0.1:{quic} (QUIC)"),
        &format!("http://127.0.0.1:{metrics}/metrics"),
        "genesis ",
        "identity ",
    ] {
        assert!(lines.contains(part), "`{part}` is not in {lines}");
    }
    let said = node.errors();
    let others =
        format!("this node has others: RPC {port}, QUIC {quic}, UDP {}, metrics {metrics}", port - 8_899 + 9_001);
    assert!(said.contains("notice: other programs use the usual ports") && said.contains(&others), "{said}");

    // By its name alone.
    let (code, said) = says(place, &["why", "--name", &name, NOBODYS]);
    assert!(code == Some(5) && said.starts_with("unknown: "), "{said}");
    let (code, said) = says(place, &["monitor", "--name", &name, "--count", "1"]);
    assert!(code == Some(0) && said.contains("bank:0"), "{said}");
    let (code, said) = says(place, &["why", "--name", "nobody-of-this-name", NOBODYS]);
    assert!(code == Some(1) && said.contains("no node `nobody-of-this-name` runs"), "{said}");
    let of_chain = ["ledger", "blocks", "--name", &name];
    let (code, said) = says(place, &of_chain);
    assert!(code == Some(1) && said.contains("in use by process"), "{said}");

    // Explicit requests that collide are errors: the same name, the same chain, the same port.
    let chain = format!(".hearth/{name}/ledger");
    for (arguments, part) in [
        (&["run", "--name", &name][..], "--name"),
        (&["run", "--name", "beside-other", "--ledger", &chain], "in use by process"),
        (&["run", "--name", "beside-other", "--rpc-port", "8899"], "cannot listen on 127.0.0.1:8899"),
    ] {
        let (code, said) = says(place, arguments);
        assert!(code == Some(1) && said.contains(part), "{arguments:?}: {said}");
    }
    node.signal(rustix::process::Signal::INT);
    assert!(node.wait().0.success());
    for arguments in [&of_chain[..], &["ledger", "blocks", "--ledger", &chain]] {
        let (code, said) = says(place, arguments);
        assert!(code == Some(0), "{said}");
    }
}
