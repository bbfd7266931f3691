//! The tile sign in a process of its own: what that process has given up, where the key is, and how both processes end.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use hearth_ledger::genesis::funded_account_key;
use hearth_wire::Pubkey;
use hearth_wire::base58::encode_32;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::client::{base64_of, fresh_address, transfer};
use super::keys::{has_signed, key_is_in_places};
use super::node::{Node, Process, Setup, wait_until};

/// A configuration with sign apart.
fn setup(test: &str) -> Setup {
    let mut setup = Setup::new(test);
    setup.with("security.isolation", "auto").with("consensus.vote", true);
    setup
}

/// Starts the node; returns the line that says how far sign is isolated, too.
fn start(setup: &Setup) -> (Node, String) {
    let process = Process::start(&mut setup.command("run"));
    let isolated = isolation_in(&process.wait_for_line("ready;"));
    (Node { process, ports: setup.ports }, isolated)
}

/// Among the lines of a node's start, the one that says how far sign is isolated.
pub fn isolation_in(lines: &[String]) -> String {
    lines.iter().find(|line| line.contains("isolated")).expect("it says so").clone()
}

/// The process that the line names.
pub fn pid_of(isolated: &str) -> u32 {
    let number = isolated.split_once("process of its own (").and_then(|(_, rest)| rest.split_once(')'));
    number.and_then(|(number, _)| number.parse().ok()).unwrap_or_else(|| panic!("no process in `{isolated}`"))
}

fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(pid as i32).expect("a process id");
    kill_process(pid, signal).expect("it is a process of this user");
}

fn is_gone(pid: u32) -> Result<(), String> {
    // A process that nobody has waited for is one no more: `Z`.
    let state = fs::read_to_string(format!("/proc/{pid}/stat")).ok();
    let state = state.and_then(|text| text.rsplit_once(") ")?.1.chars().next());
    match state {
        None | Some('Z') => Ok(()),
        Some(state) => Err(format!("process {pid} is in state {state}")),
    }
}

/// The lamports of an address in the newest confirmed block.
fn confirmed(node: &Node, address: &Pubkey) -> u64 {
    let params = json!([&*encode_32(address), { "commitment": "confirmed" }]);
    node.rpc().call("getBalance", params)["value"].as_u64().expect("lamports")
}

/// Sends a transfer, and waits until it is confirmed.
fn lands(node: &Node, number: usize) {
    let (rpc, to) = (node.rpc(), fresh_address(9, number));
    let bytes = transfer(&funded_account_key(1), &to, 1_000_000, &rpc.latest_blockhash());
    rpc.call("sendTransaction", json!([base64_of(&bytes), { "encoding": "base64" }]));
    wait_until("the transfer is confirmed", || match confirmed(node, &to) {
        0 => Err("nothing is there".into()),
        _ => Ok(()),
    });
}

#[test]
fn sign_has_the_key_and_nothing_else() {
    let setup = setup("apart");
    let (node, isolated) = start(&setup);
    let sign = pid_of(&isolated);
    lands(&node, 1);
    has_signed(&node, &["shred", "votes"]);
    let status = fs::read_to_string(format!("/proc/{sign}/status")).expect("the process runs");
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.unwrap_or_else(|| panic!("no {name} in {status}")).trim().to_owned()
    };
    for (name, value) in [("Threads", "1"), ("NoNewPrivs", "1"), ("Seccomp", "2")] {
        assert_eq!(field(name), value, "{name}");
    }
    for name in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert_eq!(u64::from_str_radix(&field(name), 16), Ok(0), "{name}");
    }
    key_is_in_places(node.process.id(), &setup.ledger(), 0);
    // Root alone can look into a process that is in no dump.
    match fs::File::open(format!("/proc/{sign}/mem")) {
        Ok(_) => {
            key_is_in_places(sign, &setup.ledger(), 1);
            maps_its_parts_alone(sign, &setup.workspace());
        }
        Err(why) => assert_eq!(why.kind(), ErrorKind::PermissionDenied, "{why}"),
    }
    node.stop();
    wait_until("sign's process to end", || is_gone(sign));
}

/// Asserts that the process has two mappings of the workspace: what it may read, and what it may write too.
fn maps_its_parts_alone(pid: u32, workspace: &Path) {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("its memory may be read");
    let lines = maps.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let of_workspace = lines.filter(|words| words.get(5).is_some_and(|name| Path::new(name) == workspace));
    let access: Vec<&str> = of_workspace.map(|words| words[1]).collect();
    assert_eq!(access, ["r--s", "rw-s"], "{maps}");
}

#[test]
fn end_of_signs_process_ends_the_node() {
    let setup = setup("apart-killed");
    let (node, isolated) = start(&setup);
    lands(&node, 1);
    signal(pid_of(&isolated), Signal::KILL);
    let (status, said) = node.process.wait_with_errors();
    assert_eq!(status.code(), Some(1), "{said}");
    let errors: Vec<&str> = said.lines().filter(|line| line.starts_with("error:")).collect();
    assert_eq!(errors, ["error: tile sign:0 died: its process was ended by signal 9"], "{said}");
    // What was confirmed is there.
    let (node, _) = start(&setup);
    assert_eq!(confirmed(&node, &fresh_address(9, 1)), 1_000_000);
    lands(&node, 2);
    node.stop();
}

#[test]
fn sign_ends_with_a_node_that_is_killed() {
    let setup = setup("apart-orphan");
    let (node, isolated) = start(&setup);
    node.kill();
    wait_until("sign's process to end", || is_gone(pid_of(&isolated)));
}

#[test]
fn a_terminals_signals_end_the_node_and_not_sign() {
    let setup = setup("apart-terminal");
    let (node, isolated) = start(&setup);
    let sign = pid_of(&isolated);
    for asked in [Signal::INT, Signal::TERM, Signal::HUP] {
        signal(sign, asked);
    }
    lands(&node, 1);
    assert!(is_gone(sign).is_err());
    node.stop();
    wait_until("sign's process to end", || is_gone(sign));
}

#[test]
fn a_sandbox_that_is_required_is_whole_or_an_error() {
    let setup = setup("apart-required");
    let (node, isolated) = start(&setup);
    node.stop();
    let mut process = Process::start(setup.command("run").arg("--require-isolation"));
    let is_ready = wait_until("a node or an error", || process.is_ready_or_ended("ready;"));
    assert_eq!(is_ready, isolated.contains("in a whole sandbox"), "{isolated}: {}", process.errors());
    if !is_ready {
        assert!(process.errors().contains("lacks steps of its sandbox"), "{}", process.errors());
    }
}
