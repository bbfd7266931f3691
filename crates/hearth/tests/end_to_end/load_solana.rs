//! `hearth load` on our own node by Solana's protocols: money, transfers, tokens, by QUIC and over RPC.

use std::path::Path;
use std::process::Output;

use serde_json::Value;

use super::node::{Node, Setup, hearth, output};

/// `hearth load …` against this node, in this folder.
fn load(node: &Node, folder: &Path, arguments: &[&str]) -> Output {
    let url = format!("http://127.0.0.1:{}", node.ports.rpc);
    output(hearth().current_dir(folder).arg("load").args(arguments).args(["--network", &url]))
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

/// Runs a load to its end; gives its report.
fn run(node: &Node, folder: &Path, arguments: &[&str]) -> Value {
    let output = load(node, folder, &[&["run", "--json", "report.json"][..], arguments].concat());
    assert!(output.status.success(), "{}", said(&output));
    let report = std::fs::read_to_string(folder.join("report.json")).expect("a report");
    serde_json::from_str(&report).expect("JSON")
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
    let arguments = ["--accounts", "10", "--rate", "200", "--duration", "2", "--warmup", "1", "--presign", "50"];
    let beside = ["--pid", &pid, "--html", "page.html", "--profile", "--flame", "flame.svg"];
    let report = run(&node, folder, &[&arguments[..], &beside].concat());
    assert_eq!(report["included"], report["sent"], "{report:#}");
    assert!(report["sent"].as_u64() > Some(300) && report["server_cpu_us"].as_f64() > Some(0.0), "{report:#}");
    let page = std::fs::read_to_string(folder.join("page.html")).expect("a page");
    assert!(page.contains("QUIC to the leaders"), "what was asked for is on the page");
    let flame = std::fs::read_to_string(folder.join("flame.svg")).expect("a flame graph");
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
    let again = fund(&["--redeposit", "--amount", "0.1", "--funder", &faucet]);
    assert!(said(&again).contains("30 accounts have 0.1 SOL or more, 0 of them were short"), "{}", said(&again));
    let there = fund(&["--count", "3"]);
    assert!(said(&there).contains("is there already") && there.status.code() == Some(2), "{}", said(&there));
    let report = run(&node, folder, &["--keys", "load-keys.json", "--count", "5"]);
    assert_eq!((&report["sent"], &report["included"]), (&150.into(), &150.into()), "{report:#}");
    std::fs::write(folder.join("other.json"), r#"{"accounts": []}"#).expect("a file");
    for (arguments, words) in [
        (&["run", "--keys", "other.json"][..], "has keys of Ethereum, and the node speaks Solana"),
        (&["run", "--kind", "erc20"], "expected transfer or token"),
        (&["run", "--comet", "http://127.0.0.1:1"], "--comet: the node speaks Solana's JSON-RPC"),
        (&["info", "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"], "is no address of Solana's"),
    ] {
        let refused = load(&node, folder, arguments);
        assert!(!refused.status.success() && said(&refused).contains(words), "{}", said(&refused));
    }
    let info = load(&node, folder, &["info"]);
    assert!(said(&info).contains("solana-core") && said(&info).contains("health"), "{}", said(&info));
    node.stop();
}
