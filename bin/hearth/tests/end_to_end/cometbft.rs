//! `hearth load etl` on the logs of a real CometBFT network under load: the logs must agree with the nodes.
//!
//! `HEARTH_COMETBFT` names the program. Without it these tests are skipped with a message; `cargo xtask test` installs
//! it first.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hearth_testkit::ports;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Deadline of every wait, generous for a busy machine.
const WITHIN: Duration = Duration::from_secs(120);

fn hearth() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hearth"));
    command.stdin(Stdio::null()).env_remove("RUST_LOG").env_remove("HEARTH_REDIS");
    command
}

/// A network of one validator with logging enabled. Dropping it sends Ctrl-C.
struct Network(Child);

impl Network {
    fn start(cometbft: &str, folder: &Path, base_port: u16, format: &str) -> Self {
        let mut command = hearth();
        command.args(["evm", "testnet", "--validators", "1", "--base-port", &base_port.to_string()]);
        command.args(["--cometbft", cometbft, "--folder"]).arg(folder.join("net"));
        command.env("RUST_LOG", "info").env("CMT_LOG_LEVEL", "info").env("CMT_LOG_FORMAT", format);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("hearth");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut lines = lines.map(|line| line.expect("text"));
        assert!(lines.any(|line| line.contains("started; Ctrl-C")), "the network did not start");
        Self(child)
    }

    fn stop(mut self) {
        kill_process(Pid::from_child(&self.0), Signal::INT).expect("it runs");
        assert!(self.0.wait().expect("its end").success());
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // The command stops its nodes when it is interrupted.
        if matches!(self.0.try_wait(), Ok(None)) {
            let _ = kill_process(Pid::from_child(&self.0), Signal::INT);
            let _ = self.0.wait();
        }
    }
}

/// Three ports in a row that are free.
fn base_port() -> u16 {
    ports::reserve(|first| (first..first + 3).all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok()))
}

/// Runs it; the JSON that it prints.
fn etl(folder: &Path, arguments: &[&str]) -> Value {
    let mut command = hearth();
    command.args(["load", "etl", "--db"]).arg(folder.join("load.db")).args(["--json", "-"]).args(arguments);
    let output = command.output().expect("hearth");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    eprintln!("{said}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn the_logs_of_a_run_say_what_its_nodes_say() {
    let Ok(cometbft) = std::env::var("HEARTH_COMETBFT") else {
        eprintln!("SKIPPED: no CometBFT; `cargo xtask test --only cometbft` installs it");
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let (folder, port) = (folder.path(), base_port());
    let (comet, web3) = (format!("http://127.0.0.1:{}", port + 1), format!("http://127.0.0.1:{}", port + 2));
    let network = Network::start(&cometbft, folder, port, "plain");
    let report = folder.join("report.json");
    let mut load = hearth();
    load.args(["load", "run", "--url", &web3, "--accounts", "20", "--rate", "100", "--warmup", "0"]);
    load.args(["--duration", "4", "--comet-rpc", &comet, "--json"]).arg(&report);
    assert!(load.stdout(Stdio::null()).status().expect("hearth").success());
    let report: Value = serde_json::from_slice(&std::fs::read(&report).expect("a report")).expect("JSON");
    // The number of waiting transactions comes from CometBFT; on a busy machine some samples may get no answer.
    assert_eq!(report["pool_source"], "num_unconfirmed_txs of CometBFT", "{report}");
    let moments = report["moments"].as_array().expect("moments");
    assert!(moments.iter().any(|moment| moment["pool_pending"].is_u64()), "{report}");
    assert!(report["included"].as_u64() > Some(0) && report["included"] == report["sent"], "{report}");
    let node = folder.join("net/node0");
    let [log, ours] = ["cometbft.log", "hearth.log"].map(|name| node.join(name).display().to_string());

    let logs = etl(folder, &["--log", &log, &ours]);
    let (read, blocks) = (&logs["read"], &logs["blocks"]);
    let zero = |all: &Value, names: &[&str]| names.iter().for_each(|name| assert_eq!(all[*name], 0, "{name}: {all}"));
    zero(read, &["contradictions", "repeated", "asked"]);
    zero(&read["logs"], &["damaged", "begun_anew"]);
    zero(blocks, &["missing", "backwards"]);
    assert!(blocks["transactions"].as_u64() >= report["included"].as_u64(), "{blocks} {report}");
    let heights = blocks["heights"].as_u64().expect("a number");
    assert!(heights >= 15 && blocks["block_ms"]["p50"].as_f64() < Some(5_000.0), "{blocks}");
    assert!(blocks["tps"].as_f64() > Some(20.0) && blocks["stages"].as_array().is_some_and(|it| it.len() == 6));
    // Both nodes agree on every height: nothing contradicts the logs, and validity is now known.
    let nodes = etl(folder, &["--url", &web3, "--comet-rpc", &comet, "--metrics", &format!("{web3}/metrics")]);
    zero(&nodes["read"], &["contradictions", "without_results"]);
    assert!(nodes["read"]["asked"].as_u64() >= Some(2 * heights), "{nodes}");
    assert!(nodes["read"]["more"].as_u64() >= Some(heights), "{nodes}");
    assert!(nodes["blocks"]["invalid"] == 0 && nodes["blocks"]["valid"].as_u64() > Some(0), "{nodes}");
    assert_eq!(nodes["blocks"]["samples"], 1);
    network.stop();

    // The same logs continue in the other format, and reading resumes where it ended.
    let network = Network::start(&cometbft, folder, port, "json");
    let deadline = Instant::now() + WITHIN;
    let before = nodes["blocks"]["heights"].as_u64();
    loop {
        let more = etl(folder, &["--log", &log, &ours]);
        zero(&more["read"], &["contradictions"]);
        zero(&more["read"]["logs"], &["damaged", "begun_anew"]);
        if more["blocks"]["heights"].as_u64() > before.map(|before| before + 5) {
            break;
        }
        assert!(Instant::now() < deadline, "{more}");
    }
    network.stop();
    etl(folder, &["--log", &log, &ours]);
    let again = etl(folder, &["--log", &log, &ours]);
    zero(&again["read"], &["new", "more"]);
    zero(&again["read"]["logs"], &["lines", "bytes"]);
    assert_eq!(again["blocks"]["missing"], 0);
}
