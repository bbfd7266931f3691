//! `hearth load` on our own node by Solana's protocols: money, transfers, tokens, by QUIC and over RPC.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hearth_rpc_client::http::{Patience, direct};
use hearth_testkit::http::{Refusal, Reply, serve, serve_calls};
use hearth_wire::base58::encode_32;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::node::{DEADLINE, Node, Process, Setup, hearth, output, wait_until};

fn url(node: &Node) -> String {
    format!("http://127.0.0.1:{}", node.ports.rpc)
}

/// `hearth load …` against this node, in this folder.
fn command(node: &Node, folder: &Path, arguments: &[&str]) -> Command {
    let mut command = hearth();
    command.current_dir(folder).arg("load").args(arguments).args(["--url", &url(node)]);
    command
}

fn load(node: &Node, folder: &Path, arguments: &[&str]) -> Output {
    output(&mut command(node, folder, arguments))
}

/// The report that a load has left.
fn report(folder: &Path) -> Value {
    let report = std::fs::read_to_string(folder.join("report.json")).expect("a report");
    serde_json::from_str(&report).expect("JSON")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

/// Runs a load to its end; gives its report.
fn run(node: &Node, folder: &Path, arguments: &[&str]) -> Value {
    let output = load(node, folder, &[&["run", "--json", "report.json"][..], arguments].concat());
    assert!(output.status.success(), "{}", said(&output));
    report(folder)
}

#[test]
fn transfers_and_tokens_end_in_blocks_by_either_way() {
    let setup = Setup::new("load-solana");
    let (node, folder) = (setup.start(), setup.folder.path());
    for way in [&[][..], &["--rpc-send"]] {
        let arguments = ["--accounts", "20", "--count", "10", "--kind", "transfer=1,token=1"];
        let report = run(&node, folder, &[&arguments[..], way].concat());
        assert_eq!((&report["sent"], &report["included"]), (&200.into(), &200.into()), "{report:#}");
        assert_eq!((&report["failed"], &report["receipts_seen"]), (&0.into(), &200.into()), "{report:#}");
        assert!(report["client"].as_str().is_some_and(|client| client.starts_with("solana-core")), "{report:#}");
        assert!(report["latency"]["p99_ms"].as_f64() > Some(0.0), "{report:#}");
    }
    let pid = node.process.id().to_string();
    let arguments = ["--accounts", "10", "--rate", "200", "--duration", "4", "--warmup", "1", "--presign", "50"];
    let beside = ["--pid", &pid, "--html", "page.html", "--profile", "--flame", "flame.svg"];
    let report = run(&node, folder, &[&arguments[..], &beside].concat());
    assert_eq!(report["included"], report["sent"], "{report:#}");
    assert!(report["sent"].as_u64() > Some(300) && report["server_cpu_us"].as_f64() > Some(0.0), "{report:#}");
    let page = std::fs::read_to_string(folder.join("page.html")).expect("a page");
    assert!(page.contains("QUIC to the leaders"), "what was asked for is on the page");
    assert_eq!(report["no_profile"], Value::Null);
    let flame = std::fs::read_to_string(folder.join("flame.svg"));
    let flame = flame.unwrap_or_else(|why| panic!("no flame graph, {why}, of {:#}", report["profile"]));
    assert!(flame.contains("<svg"), "{flame}");
    node.stop();
}

#[test]
fn accounts_are_funded_kept_and_used_again() {
    let setup = Setup::new("load-solana-keys");
    let (node, folder) = (setup.start(), setup.folder.path());
    let faucet = setup.ledger().join("faucet.json").display().to_string();
    let fund = |arguments: &[&str]| load(&node, folder, &[&["fund"][..], arguments].concat());
    let made = fund(&["--count", "30", "--amount", "0.1", "--funder", &faucet]);
    assert!(said(&made).contains("30 accounts have 0.1 SOL or more, 30 of them were short"), "{}", said(&made));
    let again = fund(&["--redeposit", "--load", "--count", "30", "--amount", "0.1", "--funder", &faucet]);
    assert!(said(&again).contains("30 accounts have 0.1 SOL or more, 0 of them were short"), "{}", said(&again));
    let there = fund(&["--count", "3"]);
    assert!(said(&there).contains("is there already") && there.status.code() == Some(2), "{}", said(&there));
    let report = run(&node, folder, &["--keys", "load-keys.json", "--count", "5"]);
    assert_eq!((&report["sent"], &report["included"]), (&150.into(), &150.into()), "{report:#}");
    std::fs::write(folder.join("other.json"), r#"{"accounts": []}"#).expect("a file");
    for (arguments, words) in [
        (&["run", "--keys", "other.json"][..], "has keys of Ethereum, and the node speaks Solana"),
        (&["run", "--kind", "erc20"], "expected transfer or token"),
        (&["run", "--comet-rpc", "http://127.0.0.1:1"], "--comet-rpc: the node speaks Solana's JSON-RPC"),
        (&["info", "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"], "is not an address of Solana's"),
    ] {
        let refused = load(&node, folder, arguments);
        assert!(!refused.status.success() && said(&refused).contains(words), "{}", said(&refused));
    }
    let info = load(&node, folder, &["info"]);
    assert!(said(&info).contains("solana-core") && said(&info).contains("health"), "{}", said(&info));
    assert!(said(&info).contains("epoch") && said(&info).contains("genesis"), "{}", said(&info));
    node.stop();
}

/// One transaction in a request, one request at a time: a rate that any machine fails to keep is not far.
#[test]
fn the_highest_rate_in_time_is_found() {
    let setup = Setup::new("load-solana-ramp");
    let (node, folder) = (setup.start(), setup.folder.path());
    let slow = ["--rpc-send", "--threads", "1", "--batch", "1", "--accounts", "20"];
    let steps = ["--ramp", "5000", "--rate", "400", "--duration", "1", "--warmup", "0"];
    let found = run(&node, folder, &[&slow[..], &steps].concat());
    let steps = found["steps"].as_array().expect("steps");
    let (good, bad): (Vec<_>, Vec<_>) = steps.iter().partition(|step| step["wrong"].is_null());
    let rates = |steps: &[&Value]| steps.iter().map(|step| step["rate"].as_f64().expect("a rate")).collect::<Vec<_>>();
    let highest = rates(&good).into_iter().fold(0.0, f64::max);
    assert_eq!(found["highest"].as_f64(), Some(highest), "{found:#}");
    let above = rates(&bad).into_iter().filter(|rate| *rate > highest).fold(f64::MAX, f64::min);
    assert!(above <= highest * 1.1, "the search ends a tenth below what is too much: {found:#}");
    let best = &found["report"];
    assert_eq!((best["rate"].as_f64(), &best["included"]), (Some(highest), &best["sent"]), "{found:#}");
    node.stop();
}

#[test]
fn a_load_that_is_stopped_leaves_its_report() {
    let setup = Setup::new("load-solana-stop");
    let (node, folder) = (setup.start(), setup.folder.path());
    for stopped in [&["--duration", "600"][..], &["--duration", "600", "--ramp", "5000", "--rate", "50"]] {
        let arguments = ["run", "--json", "report.json", "--accounts", "10", "--warmup", "0"];
        let load = Process::start(&mut command(&node, folder, &[&arguments[..], stopped].concat()));
        load.wait_for_line(" included ");
        load.signal(Signal::INT);
        let (status, text) = load.wait_with_errors();
        assert!(status.success(), "{text}");
        let report = report(folder);
        if stopped.contains(&"--ramp") {
            assert!(text.contains("no rate that was tried has its p99"), "the only step was cut short: {text}");
            assert_eq!((report["steps"].as_array().map(Vec::len), &report["highest"]), (Some(0), &Value::Null));
        } else {
            assert_eq!(report["included"], report["sent"], "{report:#}");
            assert!(report["sent"].as_u64() > Some(0) && report["seconds"].as_f64() < Some(60.0), "{report:#}");
        }
    }
    node.stop();
}

#[test]
fn interrupted_funding_continues() {
    let setup = Setup::new("load-solana-money");
    let (node, folder) = (setup.start(), setup.folder.path());
    let faucet = setup.ledger().join("faucet.json").display().to_string();
    // A proxy in between passes the first level's transfers and rejects all others: however slow this machine is, work
    // is left when the load is stopped.
    let (port, sends, refused) = (node.ports.rpc, AtomicU64::new(0), Arc::new(AtomicU64::new(0)));
    let counted = refused.clone();
    let between = serve(move |body| {
        let is_send = body.windows(17).any(|window| window == b"\"sendTransaction\"");
        if is_send && sends.fetch_add(1, Ordering::Relaxed) > 0 {
            counted.fetch_add(1, Ordering::Relaxed);
            return Reply::Status(503);
        }
        Reply::Answer(forwarded(port, body))
    });
    let arguments = ["load", "fund", "--count", "2000", "--amount", "0.01", "--funder", &faucet, "--url", &between];
    let fund = Process::start(hearth().current_dir(folder).args(arguments));
    let has_begun = || (refused.load(Ordering::Relaxed) > 0).then_some(()).ok_or_else(|| fund.errors());
    wait_until("transfers of the second level", has_begun);
    fund.signal(Signal::INT);
    let (status, text) = fund.wait_with_errors();
    assert!(status.success(), "{text}");
    let done: usize = text
        .lines()
        .find_map(|line| line.strip_prefix("stopped: ")?.split(' ').next()?.parse().ok())
        .unwrap_or_else(|| panic!("it says how far it came: {text}"));
    assert!(done < 2000 && text.contains("`--load --keys load-keys.json` goes on from there"), "{text}");
    let again = load(&node, folder, &["fund", "--load", "--amount", "0.01", "--funder", &faucet]);
    let rest = format!("2000 accounts have 0.01 SOL or more, {} of them were short", 2000 - done);
    assert!(said(&again).contains(&rest), "{rest}: {}", said(&again));
    node.stop();
}

#[test]
fn several_nodes_are_of_one_chain() {
    let setups = ["load-solana-first", "load-solana-other"].map(Setup::new);
    let nodes = setups.each_ref().map(Setup::start);
    let folder = setups[0].folder.path();
    let arguments = ["run", "--rpc-send", "--accounts", "4", "--count", "5", "--json", "report.json", "--url"];
    let network = |second: &str| format!("{},{second}", url(&nodes[0]));
    let two = output(hearth().current_dir(folder).arg("load").args(arguments).arg(network(&url(&nodes[0]))));
    assert!(two.status.success(), "{}", said(&two));
    assert_eq!(report(folder)["included"], 20);
    let refused = output(hearth().current_dir(folder).arg("load").args(arguments).arg(network(&url(&nodes[1]))));
    let words = said(&refused);
    assert!(!refused.status.success() && words.contains("is of another chain than"), "{words}");
    assert!(words.contains("its genesis is") && words.contains(&url(&nodes[1])), "{words}");
    nodes.into_iter().for_each(Node::stop);
}

#[test]
fn more_accounts_than_one_request_asks_for_are_funded_and_send() {
    let setup = Setup::new("load-solana-many");
    let (node, folder) = (setup.start(), setup.folder.path());
    // A hundred of these in a request would be more bytes than the node takes.
    let report = run(&node, folder, &["--accounts", "1200", "--count", "3", "--kind", "token", "--rpc-send"]);
    assert_eq!((&report["sent"], &report["included"]), (&3600.into(), &3600.into()), "{report:#}");
    assert_eq!((&report["failed"], &report["unanswered"]), (&0.into(), &0.into()), "{report:#}");
    let faucet = setup.ledger().join("faucet.json").display().to_string();
    let made = load(&node, folder, &["fund", "--count", "2500", "--amount", "0.01", "--funder", &faucet]);
    assert!(said(&made).contains("2500 accounts have 0.01 SOL or more, 2500 of them were short"), "{}", said(&made));
    node.stop();
}

/// Answers like a node whose chain stands still: no account ever gets funds.
fn of_a_chain_that_stands_still(method: &str, params: &Value) -> Result<Value, Refusal> {
    let hash = encode_32(&[7; 32]).to_string();
    Ok(match method {
        "getVersion" => json!({ "solana-core": "0.0.1" }),
        "getIdentity" => json!({ "identity": hash }),
        "getFeeForMessage" => json!({ "value": 5_000 }),
        "getLatestBlockhash" => json!({ "value": { "blockhash": hash, "lastValidBlockHeight": 150 } }),
        "getBlockHeight" => json!(1),
        "requestAirdrop" => json!(hash),
        "getMultipleAccounts" => {
            let count = params[0].as_array().map_or(0, Vec::len);
            json!({ "value": vec![Value::Null; count] })
        }
        _ => return Err((-32601, "Method not found".into())),
    })
}

/// Forwards a request to the node at this port; returns its answer.
fn forwarded(port: u16, body: &[u8]) -> String {
    let agent = direct(Patience::Step(DEADLINE));
    let request = agent.post(&format!("http://127.0.0.1:{port}")).header("Content-Type", "application/json");
    let mut answer = request.send(body).expect("the node answers");
    answer.body_mut().read_to_string().expect("a body")
}

#[test]
fn stopped_funding_reports_lost_keys() {
    let url = serve_calls(of_a_chain_that_stands_still);
    let process = Process::start(hearth().args(["load", "run", "--accounts", "5", "--url", &url]));
    process.wait_for_any("0 of 5 accounts funded");
    process.signal(Signal::INT);
    let (status, text) = process.wait_with_errors();
    assert!(status.code() == Some(1) && text.contains("0 of 5 new accounts were funded"), "{status}: {text}");
    assert!(text.contains("their keys are lost") && !text.contains("goes on from there"), "{text}");
}
