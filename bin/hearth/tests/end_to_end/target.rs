//! `hearth bench --url`: a node that runs already, driven and watched through its RPC.

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use hearth_testkit::pause;
use rustix::process::Signal;
use serde_json::Value;

use super::node::{Node, Process, Setup, hearth, output};

/// How long a node stands still: longer than an answer of any node takes that merely is far away.
const STANDSTILL: Duration = Duration::from_secs(2);

/// A bench that drives `node` with these arguments and leaves `result.json`.
fn bench(node: &Node, folder: &Path, arguments: &[&str]) -> Command {
    let config = folder.join("bench.toml");
    let name = format!("name = \"bench-{}\"\n", node.ports.rpc);
    std::fs::write(&config, name + "[development.genesis]\nfund_initial_accounts = 64\n").expect("a file");
    let mut bench = hearth();
    bench.current_dir(folder).arg("bench").arg("--config").arg(config).args(["--json", "result.json"]);
    bench.args(["--url", &format!("http://127.0.0.1:{}", node.ports.rpc)]).args(arguments);
    bench
}

/// Reads the result of a bench; `Null` if it failed.
fn result(folder: &Path) -> Value {
    let result = std::fs::read_to_string(folder.join("result.json"));
    result.map(|text| serde_json::from_str(&text).expect("JSON")).unwrap_or_default()
}

/// Drives `node` with these arguments; returns the output and the result.
fn drive(node: &Node, folder: &Path, arguments: &[&str]) -> (Output, Value) {
    let output = output(&mut bench(node, folder, arguments));
    (output, result(folder))
}

#[test]
fn all_that_a_target_landed_is_counted() {
    let setup = Setup::new("target");
    let node = setup.start();
    let pid = node.process.id().to_string();
    let arguments = ["--duration", "2", "--warmup", "1", "--presign", "--rate", "2000", "--questions", "20"];
    let (said, result) = drive(&node, setup.folder.path(), &[&arguments[..], &["--pid", &pid]].concat());
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.status.success(), "{text}\n{}", String::from_utf8_lossy(&said.stderr));
    let count =
        |path: &str| result.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("{path}: {result:#}"));
    assert!(count("/sent") > 1000.0 && count("/sent") == count("/landed"), "{result:#}");
    assert_eq!((count("/unresolved"), count("/target/landed_share")), (0.0, 1.0));
    assert!(count("/txn_per_s/mean") > 100.0 && count("/cpu_us_per_txn/node") > 0.0, "{result:#}");
    // The node's count includes the senders' transactions, the probes and the funding.
    let all = node.rpc().transaction_count() as f64;
    assert!(all > count("/landed") + count("/target/latency/confirmed_ms/count"), "{all}: {result:#}");
    for waits in ["submitted_ms", "processed_ms", "confirmed_ms", "answers_ms"] {
        let at = |name: &str| count(&format!("/target/latency/{waits}/{name}"));
        assert!(at("count") > 0.0 && 0.0 < at("p50") && at("p50") <= at("p99") && at("p99") <= at("max"), "{result:#}");
    }
    assert_eq!((count("/target/latency/probes_lost"), count("/target/latency/questions_failed")), (0.0, 0.0));
    assert!(text.contains("by the fees that were charged") && text.contains("confirmed  p50"), "{text}");
    assert!(text.contains("off        not known") && !text.contains("nothing is switched off"), "{text}");
    assert!(count("/target/cores_used") > 0.0 && count("/target/rss_bytes_max") > 1e7, "{result:#}");
    assert_eq!(result["target"]["waited"], "all_landed");
    node.stop();
}

/// With a full pool no new transaction can request a slot, so the waiting ones must.
#[test]
fn a_chain_on_demand_lands_all_that_it_takes() {
    let mut setup = Setup::new("target-on-demand");
    setup.with("tiles.pack.max_pending_transactions", 1024);
    let node = setup.start_with(&["--slots-on-demand"]);
    let (said, result) = drive(&node, setup.folder.path(), &["--duration", "2", "--warmup", "1", "--presign"]);
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    assert!(result["landed"].as_u64() > Some(10_000), "{result:#}");
    // On a busy machine slots are short, and 150 of them pass before all presigned transfers are sent. The node refuses
    // transfers with an expired blockhash; none waits.
    let metrics = node.metrics();
    let too_old = metrics.total("pack_dropped_expired") + metrics.total("bank_dropped_blockhash_not_found");
    assert!(result["unresolved"].as_u64().is_some_and(|count| count <= too_old), "{too_old} too old: {result:#}");
    assert_eq!(metrics.gauge("pack_pending"), 0, "{result:#}");
    node.stop();
}

/// The node stands still for a fifth of the measured time: the limit reports it, and every second counts once and
/// correctly.
#[test]
fn a_target_that_stood_still_is_the_limit() {
    let setup = Setup::new("target-still");
    let node = setup.start();
    let arguments = ["--duration", "10", "--warmup", "1", "--rate", "1000"];
    let bench = Process::start(&mut bench(&node, setup.folder.path(), &arguments));
    bench.wait_for_line("   2 s ");
    node.process.signal(Signal::STOP);
    // The bench is silent meanwhile: it polls the node's counters.
    pause(STANDSTILL);
    node.process.signal(Signal::CONT);
    let (status, text) = bench.wait_with_errors();
    assert!(status.success(), "{status}: {text}");
    let limit = text.lines().find(|line| line.starts_with("  limit ")).unwrap_or_else(|| panic!("a limit: {text}"));
    assert!(limit.contains("the node stood still: it took no transaction for "), "{limit}");
    let result = result(setup.folder.path());
    assert_eq!(result["bottleneck"]["tile"], "target");
    let stall = result["longest_stall_s"].as_f64();
    assert!(stall > Some(0.8 * STANDSTILL.as_secs_f64()) && text.contains("; longest stall "), "{result:#}");
    // Every second once, whatever the node answered late.
    assert_eq!(result["seconds"].as_array().map(Vec::len), Some(10), "{result:#}");
    assert!(result["duration_s"].as_f64().is_some_and(|s| (9.0..11.0).contains(&s)), "{result:#}");
    assert!(text.contains("s: the node did not answer)") && text.contains("\n    11 s "), "{text}");
    node.stop();
}

#[test]
fn a_funder_pays_and_a_poor_one_is_refused() {
    let setup = Setup::new("funder");
    let node = setup.start();
    let faucet = setup.ledger().join("faucet.json").display().to_string();
    let poor = setup.folder.path().join("poor.json").display().to_string();
    assert!(output(hearth().args(["keys", "new", &poor])).status.success());
    let arguments = ["--duration", "1", "--warmup", "0", "--rate", "0", "--probes", "20"];
    let funded = [&arguments[..], &["--funder", &faucet]].concat();
    let (said, result) = drive(&node, setup.folder.path(), &funded);
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    assert_eq!(result["sent"], 0);
    // Without load there are no rates, and the probes' results are reported.
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(!text.contains("txn/s") && text.contains(" confirmed p50 ") && text.contains("no load was sent"), "{text}");
    assert!(text.contains("node       CPU time and memory are not known"), "{text}");
    assert!(result["target"]["latency"]["confirmed_ms"]["count"].as_u64() > Some(5), "{result:#}");
    let (said, _) = drive(&node, setup.folder.path(), &["--funder", &poor]);
    let errors = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.code() == Some(1) && errors.contains("the funder has less than"), "{errors}");
    node.stop();
}

#[test]
fn node_of_the_other_chain_names_its_tool() {
    let chain = Process::start(hearth().args(["evm", "run", "--rpc-port", "0", "--no-dashboard"]));
    let lines = chain.wait_for_line("ready;");
    let url = lines.iter().find_map(|line| line.trim().strip_prefix("rpc")).expect("it says where").trim().to_owned();
    let said = output(hearth().args(["bench", "--url", &url]));
    let errors = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.code() == Some(1) && errors.contains(&format!("`hearth load run --url {url}`")), "{errors}");
    chain.signal(Signal::INT);
}

#[test]
fn address_without_a_node_is_reported() {
    for (url, code) in [("https://127.0.0.1:1", 2), ("http://127.0.0.1:1", 1)] {
        let said = output(hearth().args(["bench", "--url", url]));
        let errors = String::from_utf8_lossy(&said.stderr);
        assert_eq!(said.status.code(), Some(code), "{errors}");
        assert!(errors.contains(if code == 2 { "http://HOST:PORT" } else { url }), "{errors}");
    }
}
