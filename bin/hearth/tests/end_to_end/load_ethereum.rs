//! `hearth load` from a user's view, on `hearth evm run`: funding accounts, runs with their keys, a comparison, and the
//! error when no node answers.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Output;
use std::time::Duration;

use hearth_testkit::pause;
use rustix::process::Signal;
use serde_json::Value;

use super::node::{Process, hearth, output, wait_until};
use super::terminal::Terminal;

/// `hearth load`, on the node at this address.
fn load(command: &str, url: &str, arguments: &[&str]) -> Output {
    output(hearth().args(["load", command, "--url", url]).args(arguments))
}

/// Like the above, but it must succeed; returns its output.
#[track_caller]
fn said(command: &str, url: &str, arguments: &[&str]) -> String {
    let output = load(command, url, arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The same, which must end with this code: the error.
#[track_caller]
fn error(code: i32, command: &str, url: &str, arguments: &[&str]) -> String {
    let output = load(command, url, arguments);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{text}");
    text
}

fn report(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn accounts_are_funded_send_and_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (_node, url) = chain("0.1");
    let keys = path("keys.json").display().to_string();
    let text = said("fund", &url, &["--count", "30", "--keys", &keys]);
    assert!(text.contains("or more, 30 of them were short"), "{text}");
    let text = said("fund", &url, &["--load", "--keys", &keys]);
    assert!(text.contains("or more, 0 of them were short"), "{text}");
    let why = error(2, "fund", &url, &["--count", "30", "--keys", &keys]);
    assert!(why.contains("is there already: use it with --load"), "{why}");
    let reports = ["before.json", "after.json"].map(path);
    for file in &reports {
        let file = file.display().to_string();
        let text = said("run", &url, &["--keys", &keys, "--count", "5", "--kind", "erc20", "--json", &file]);
        assert!(text.contains("150"), "{text}");
    }
    for report in reports.iter().map(|file| report(file)) {
        let ends = ["sent", "included", "rejected", "dropped", "unknown", "failed"].map(|end| report[end].as_u64());
        assert_eq!(ends, [150, 150, 0, 0, 0, 0].map(Some), "{report}");
    }
    let compared = output(hearth().args(["load", "compare"]).args(&reports));
    let text = String::from_utf8_lossy(&compared.stdout);
    assert!(compared.status.success() && text.contains("txn/s"), "{text}");
    let text = said("block", &url, &["--last", "5"]);
    assert!(text.contains("5 blocks"), "{text}");
}

/// Starts a chain with a block every `seconds`; returns its RPC URL too.
fn chain(seconds: &str) -> (Process, String) {
    let node =
        Process::start(hearth().args(["evm", "run", "--rpc-port", "0", "--block-time", seconds, "--no-dashboard"]));
    let lines = node.wait_for_line("ready;");
    let url = lines.iter().find_map(|line| line.trim().strip_prefix("rpc")).expect("it says where").trim().to_owned();
    (node, url)
}

#[test]
fn funding_is_one_line_on_a_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let (_node, url) = chain("0.1");
    let arguments = ["load", "fund", "--count", "40", "--url", &url];
    let mut fund = Terminal::start(hearth().args(arguments).current_dir(folder.path()), 120, 20);
    let screen = fund.shows(&["40 accounts have 1 ether or more"]);
    assert!(fund.ended().success());
    // The bar fills its row with spaces, so the next text starts a new row, which the screen joins to it.
    assert_eq!(screen.matches(" accounts funded").count(), 1, "{screen}");
    assert!(screen.contains(&format!("{} 40 of 40 accounts funded", "█".repeat(30))), "{screen}");
}

#[test]
fn a_second_interrupt_waits_for_nothing_more() {
    let (node, url) = chain("0.1");
    let load = ["load", "run", "--url", &url, "--timeout", "2", "--accounts", "10", "--rate", "50"];
    let load = Process::start(hearth().args(load).args(["--warmup", "0", "--duration", "600"]));
    load.wait_for_line(" included ");
    node.signal(Signal::STOP);
    // Transactions in flight stay so: the node no longer answers.
    wait_for_standstill(&load);
    load.signal(Signal::INT);
    load.wait_for_any("waiting for what is under way");
    load.signal(Signal::INT);
    let (status, text) = load.wait_with_errors();
    assert!(status.success() && text.contains("nothing more is waited for"), "{status}: {text}");
    let sent = text.lines().find(|line| line.starts_with("sent ")).unwrap_or_else(|| panic!("a report: {text}"));
    assert!(!sent.ends_with("unknown 0"), "{sent}");
}

/// Waits until nothing is included any more and some transactions wait for an answer.
fn wait_for_standstill(load: &Process) {
    wait_until("nothing is included, and some wait", || {
        let line = load.wait_for_line(" included ").pop().expect("the line");
        let count = |word: &str| line.split_once(word).and_then(|(front, _)| front.split_whitespace().last());
        let waits = count(" included") == Some("0") && count(" under way") != Some("0");
        waits.then_some(()).ok_or(line.clone())
    });
}

/// Requests to a node that stands still take longer than a process may take to end.
#[test]
fn a_stopped_load_writes_its_report_whatever_the_node_does() {
    let folder = tempfile::tempdir().unwrap();
    let (node, url) = chain("0.1");
    let load = ["load", "run", "--url", &url, "--timeout", "15", "--accounts", "10", "--rate", "50"];
    let options = ["--warmup", "0", "--duration", "600", "--json", "report.json"];
    let load = Process::start(hearth().current_dir(folder.path()).args(load).args(options));
    load.wait_for_line(" included ");
    node.signal(Signal::STOP);
    wait_for_standstill(&load);
    load.signal(Signal::INT);
    let (status, text) = load.wait_with_errors();
    assert!(status.success() && text.contains("the report is not written yet"), "{status}: {text}");
    let report = report(&folder.path().join("report.json"));
    assert!(report["sent"].as_u64() > Some(0) && report["unknown"].as_u64() > Some(0), "{report:#}");
}

#[test]
fn a_node_that_stood_still_for_a_while_leaves_a_limit() {
    let folder = tempfile::tempdir().unwrap();
    let (node, url) = chain("0.1");
    let load = ["load", "run", "--url", &url, "--accounts", "10", "--rate", "200", "--json", "report.json"];
    let options = ["--warmup", "0", "--duration", "8"];
    let load = Process::start(hearth().current_dir(folder.path()).args(load).args(options));
    load.wait_for_line(" included ");
    node.signal(Signal::STOP);
    wait_for_standstill(&load);
    node.signal(Signal::CONT);
    let (status, text) = load.wait_with_errors();
    assert!(status.success(), "{status}: {text}");
    let report = report(&folder.path().join("report.json"));
    assert_ne!(report["limit"], "unknown", "{report:#}");
    let limit = text.lines().find(|line| line.starts_with("limit ")).unwrap_or_else(|| panic!("a limit: {text}"));
    assert!(!limit.contains("not known"), "{limit}");
}

/// No rate limit, and blocks made as transactions arrive: not all threads may block on answers.
#[test]
fn a_node_that_stood_still_is_the_limit_of_a_load_without_a_rate() {
    let folder = tempfile::tempdir().unwrap();
    let (node, url) = chain("instant");
    let load = ["load", "run", "--url", &url, "--accounts", "50", "--json", "report.json"];
    let options = ["--warmup", "0", "--duration", "8", "--presign", "0"];
    let load = Process::start(hearth().current_dir(folder.path()).args(load).args(options));
    load.wait_for_line(" included ");
    node.signal(Signal::STOP);
    pause(Duration::from_secs(3));
    node.signal(Signal::CONT);
    let (status, text) = load.wait_with_errors();
    assert!(status.success(), "{status}: {text}");
    let report = report(&folder.path().join("report.json"));
    assert_eq!(report["limit"], "node", "{text}");
    let line =
        |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}: {text}"));
    assert!(line("limit ").contains("the node; it stood still for "), "{text}");
    assert!(line("chain's clock").contains(" s ahead of this machine's at the last block"), "{text}");
    // Blocks that are made faster than one a second have later times than the clock.
    let text = said("block", &url, &["--last", "20"]);
    assert!(text.contains(" txn/s or more") && text.contains("ahead of this machine's clock"), "{text}");
}

#[test]
fn money_of_the_utxo_ledger_crosses_before_it_is_shared_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (_node, url) = chain("0.1");
    let wallet = |arguments: &[&str]| {
        let done = output(hearth().args(["wallet"]).args(arguments).env("HEARTH_RPC", &url));
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    };
    let (rich, poor, keys) = (path("rich.json"), path("poor.json"), path("keys.json"));
    for key in [&rich, &poor] {
        wallet(&["new", key]);
    }
    let left = || -> f64 {
        let text = wallet(&["balance", "--key", &rich]);
        text.split_whitespace().next().and_then(|amount| amount.parse().ok()).expect("an amount")
    };
    const FIRST: &str = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
    wallet(&["prism", "100", "--from", FIRST, "--key", &rich]);
    let first = || {
        let text = said("info", &url, &[FIRST]);
        text.lines().find(|line| line.trim_start().starts_with("has")).expect("what it has").to_owned()
    };
    let before = first();
    let fund = ["--count", "40", "--amount", "2", "--keys", &keys, "--utxo-key"];
    let why = error(1, "fund", &url, &[&fund[..], &[&poor]].concat());
    assert!(why.contains("--utxo-key: 80.") && why.contains("are needed, the fee included, and there are 0"), "{why}");
    // Without money there are no keys, and the corrected command is taken.
    assert!(!Path::new(&keys).exists());
    let text = said("fund", &url, &[&fund[..], &[&rich]].concat());
    let again = ["--redeposit", "--load", "--count", "40", "--amount", "2", "--keys", &keys, "--utxo-key", &rich];
    assert!(text.contains("cross by Prism") && text.contains("or more, 40 of them were short"), "{text}");
    let (after, crossed) = (left(), 100.0 - left());
    assert!((80.0..80.2).contains(&crossed), "{crossed}");
    let text = said("fund", &url, &again);
    assert!(!text.contains("cross by Prism") && text.contains("or more, 0 of them were short"), "{text}");
    assert_eq!((left(), first()), (after, before), "nothing crosses twice, and nobody else has paid");
    let text = said("run", &url, &["--keys", &keys, "--count", "3"]);
    assert!(text.contains("120"), "{text}");
}

#[test]
fn without_a_node_there_are_no_keys_that_stand_in_the_way() {
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys.json");
    // A port that is no longer in use.
    let taken = std::net::TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let url = format!("http://{}", taken.local_addr().unwrap());
    drop(taken);
    for _ in 0..2 {
        let why = error(1, "fund", &url, &["--count", "3", "--keys", &keys.display().to_string()]);
        assert!(why.contains("a node must be listening there: `hearth evm run` or `hearth run` starts one"), "{why}");
        assert!(!keys.exists());
    }
    let why = error(2, "fund", "127.0.0.1:8545", &["--keys", &keys.display().to_string()]);
    assert!(why.contains("is not the URL of a node's RPC") && !why.contains("listening"), "{why}");
    let why = error(2, "fund", &url, &["--funder", "x", "--keys", &keys.display().to_string()]);
    assert!(why.contains("--funder") && !keys.exists(), "{why}");
    let why = error(2, "run", &url, &["--duration", "9223372036854775808"]);
    assert!(why.contains("--duration: 1 to "), "{why}");
}
