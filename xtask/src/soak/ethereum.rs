//! Transactions per second of the Ethereum side compared with anvil and `geth --dev`, under one load on the same cores.
//!
//! reads   the reports of `hearth load run`
//! writes  a line a run; the medians, and their ratios to the peers'
//! memory  a report a run
//!
//! Each round restarts every node, one after the other, in rotating order, so that machine noise affects all alike. A
//! short run first determines how many transactions to presign. It signs while it sends, so it also shows what a
//! transaction costs the load. A missing peer is skipped, and so is a peer's run without a report; both are printed. A
//! run of ours without a report is an error.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::Outcome;
use crate::node::{free_ports, wait_for};
use crate::rpc::Rpc;
use crate::run::{self, Args, TempFolder};

/// A node must answer within this.
const START_WITHIN: Duration = Duration::from_secs(60);

/// Seconds of the short run before, and of warm-up in either run.
const PROBE_S: u64 = 5;
const WARMUP_S: u64 = 3;
/// Accounts that the load uses.
const ACCOUNTS: u64 = 2000;
/// Transactions that may wait for a block at a time: with the default of 20,000 blocks of a second would hold no more.
const UNDER_WAY: u64 = 40_000;
/// Factor over the short run's rate that is presigned.
const AHEAD: f64 = 1.5;
/// Lines of a failed run's output that are shown.
const LINES_SHOWN: usize = 12;

/// Requirements, on two cores: transfers and tokens per second; CPU time of a transfer in µs, of the node and of the
/// load with its signature; the ratios to the peers.
const TRANSFERS_MIN: f64 = 30_000.0;
const TOKENS_MIN: f64 = 20_000.0;
const CPU_US_MAX: f64 = 18.0;
const LOAD_CPU_US_MAX: f64 = 31.0;
const OVER_ANVIL_MIN: f64 = 2.5;
const OVER_GETH_MIN: f64 = 5.0;

/// The gas limit of every node's blocks: room for 30,000 token transfers.
const GAS_LIMIT: &str = "1000000000";
/// The path at which the clients' tests have put anvil, below the repository.
const ANVIL: &str = "tests/clients/tools/node_modules/@foundry-rs/anvil-linux-amd64/bin/anvil";

/// The name of our own node.
const OURS: &str = "hearth";

/// A program that serves Ethereum's JSON-RPC.
struct Peer {
    name: &'static str,
    binary: PathBuf,
    arguments: fn(port: u16, folder: &Path) -> Vec<String>,
}

pub fn run(mut args: Args<'_>) -> Result<Outcome, String> {
    let rounds = args.number("--rounds", 3)?;
    let seconds = args.number("--seconds", 30)?;
    let (binary, anvil, geth) = (args.value("--binary")?, args.value("--anvil")?, args.value("--geth")?);
    let kinds = args.value("--kind")?.map_or(vec!["transfer", "erc20"], |kind| vec![kind]);
    let peers = peers(run::hearth(binary)?, anvil, geth);
    args.end()?;
    let mut found: Map<String, Value> = Map::new();
    let mut without = vec![];
    for kind in kinds {
        let mut reports: Vec<Vec<Value>> = peers.iter().map(|_| vec![]).collect();
        for round in 0..rounds as usize {
            for turn in 0..peers.len() {
                let which = (turn + round) % peers.len();
                match measure(&peers[0].binary, &peers[which], kind, seconds) {
                    Ok(report) => {
                        println!("{kind} {}: {}", peers[which].name, rate_report(&report));
                        reports[which].push(report);
                    }
                    Err(why) => {
                        println!("{kind} {}: no report: {why}", peers[which].name);
                        if which == 0 {
                            without.push(format!("{kind}: a run without a report"));
                        }
                    }
                }
            }
        }
        for (peer, reports) in peers.iter().zip(&reports).filter(|(_, reports)| !reports.is_empty()) {
            found.insert(format!("{kind} {}", peer.name), medians(reports));
        }
    }
    let mut outcome = judge(found);
    outcome.wrong.extend(without);
    Ok(outcome)
}

/// Returns the programs to compare, ours first.
fn peers(hearth: PathBuf, anvil: Option<&str>, geth: Option<&str>) -> Vec<Peer> {
    let ours = |port: u16, folder: &Path| {
        let (port, folder) = (port.to_string(), folder.join("hearth").display().to_string());
        let chain = ["evm", "run", "--block-time", "1", "--gas-limit", GAS_LIMIT];
        chain.into_iter().chain(["--rpc-port", &port, "--data-dir", &folder]).map(str::to_owned).collect::<Vec<_>>()
    };
    let anvil_arguments = |port: u16, _: &Path| {
        let port = port.to_string();
        let options = ["--port", &port, "--block-time", "1", "--gas-limit", GAS_LIMIT, "--accounts", "10", "--silent"];
        options.map(str::to_owned).to_vec()
    };
    let geth_arguments = |port: u16, folder: &Path| {
        let (port, folder) = (port.to_string(), folder.join("geth").display().to_string());
        let options = [
            "--dev",
            "--dev.period",
            "1",
            "--dev.gaslimit",
            GAS_LIMIT,
            "--datadir",
            &folder,
            "--http",
            "--http.port",
            &port,
            "--http.api",
            "eth,net,web3,txpool,debug",
            "--txpool.globalslots",
            "100000",
            "--txpool.globalqueue",
            "100000",
            "--txpool.accountslots",
            "1000",
            "--txpool.accountqueue",
            "1000",
            "--port",
            "0",
            "--nodiscover",
            "--ipcdisable",
            "--rpc.batch-request-limit",
            "10000",
            "--rpc.batch-response-max-size",
            "250000000",
            "--verbosity",
            "1",
        ];
        options.map(str::to_owned).to_vec()
    };
    let mut peers = vec![Peer { name: OURS, binary: hearth, arguments: ours }];
    for (name, given, arguments) in
        [("anvil", anvil, anvil_arguments as fn(u16, &Path) -> Vec<String>), ("geth", geth, geth_arguments)]
    {
        match given.map(PathBuf::from).or_else(|| on_path(name)).or_else(|| installed(name)) {
            Some(binary) => peers.push(Peer { name, binary, arguments }),
            None => println!("{name} is left out: not on PATH, and not given with --{name}"),
        }
    }
    peers
}

fn on_path(name: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// Returns the program of a peer that the clients' tests have installed.
fn installed(name: &str) -> Option<PathBuf> {
    (name == "anvil").then(|| run::root().join(ANVIL)).filter(|file| file.is_file())
}

/// A node as a child, ended when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One run on a new chain.
fn measure(hearth: &Path, peer: &Peer, kind: &str, seconds: u64) -> Result<Value, String> {
    let folder = TempFolder::new("soak-ethereum")?;
    let port = free_ports()?;
    let log = std::fs::File::create(folder.path().join("log")).map_err(|why| why.to_string())?;
    let child = Command::new(&peer.binary)
        .args((peer.arguments)(port, folder.path()))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .map_err(|why| format!("{}: {why}", peer.binary.display()))?;
    let running = Running(child);
    let rpc = Rpc::local(port);
    wait_for(peer.name, START_WITHIN, || rpc.call("eth_chainId", json!([])).ok())?;
    let drive = |seconds: u64, presign: u64| {
        let (pid, presign, seconds) = (running.0.id().to_string(), presign.to_string(), seconds.to_string());
        let options = ["--kind", kind, "--pid", &pid, "--presign", &presign, "--duration", &seconds];
        load(hearth, folder.path(), &format!("http://127.0.0.1:{port}"), &options)
    };
    let probe = drive(PROBE_S, 0)?;
    let usable = figure(&probe, "tps") * AHEAD * (seconds + WARMUP_S) as f64 / ACCOUNTS as f64;
    // Signing beyond that costs only the load's own time: do not sign what will not be sent.
    let mut report = drive(seconds, usable.ceil() as u64)?;
    report["load_cpu_us"] = probe["client_cpu_us"].clone();
    if peer.name == OURS {
        report["recovery_share"] = recovery_share(hearth, folder.path(), &running, port, kind)?.into();
    }
    Ok(report)
}

/// Returns the share of the node's CPU time spent on recovering senders' keys, from its own profile of another short
/// run.
fn recovery_share(hearth: &Path, folder: &Path, node: &Running, port: u16, kind: &str) -> Result<f64, String> {
    let (pid, flame, seconds) = (node.0.id().to_string(), folder.join("flame.svg"), PROBE_S.to_string());
    let (url, flame_text) = (format!("http://127.0.0.1:{port}"), flame.display().to_string());
    let options = ["--kind", kind, "--pid", &pid, "--duration", &seconds, "--profile", "--flame", &flame_text];
    load(hearth, folder, &url, &options)?;
    let stacks = std::fs::read_to_string(flame.with_extension("folded")).map_err(|why| why.to_string())?;
    share_of(&stacks, "secp256k1").ok_or_else(|| "the profile has no samples".into())
}

/// Returns the share of the samples with a frame of this name. A line is `frame;frame;… SAMPLES`.
fn share_of(stacks: &str, name: &str) -> Option<f64> {
    let samples = |line: &str| line.rsplit_once(' ').and_then(|(_, samples)| samples.parse::<u64>().ok()).unwrap_or(0);
    let all: u64 = stacks.lines().map(samples).sum();
    let some: u64 = stacks.lines().filter(|line| line.contains(name)).map(samples).sum();
    (all > 0).then(|| some as f64 / all as f64)
}

/// Runs `hearth load run`; returns its report, or its last output as the error.
fn load(hearth: &Path, folder: &Path, url: &str, options: &[&str]) -> Result<Value, String> {
    let (report, log) = (folder.join("report.json"), folder.join("load.log"));
    let stderr = std::fs::File::create(&log).map_err(|why| why.to_string())?;
    let (accounts, warmup, under_way) = (ACCOUNTS.to_string(), WARMUP_S.to_string(), UNDER_WAY.to_string());
    let status = Command::new(hearth)
        .args(["load", "run", "--url", url, "--accounts", &accounts, "--warmup", &warmup])
        .args(["--under-way", &under_way])
        .args(options)
        .arg("--json")
        .arg(&report)
        .stdout(Stdio::null())
        .stderr(stderr)
        .status()
        .map_err(|why| why.to_string())?;
    if !status.success() {
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        return Err(format!("`hearth load run` ends with {status}; it said\n{}", last_lines(&said)));
    }
    let text = std::fs::read_to_string(&report).map_err(|why| why.to_string())?;
    serde_json::from_str(&text).map_err(|why| why.to_string())
}

fn last_lines(text: &str) -> String {
    let lines: Vec<_> = text.lines().collect();
    let shown = &lines[lines.len().saturating_sub(LINES_SHOWN)..];
    shown.iter().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

fn figure(report: &Value, name: &str) -> f64 {
    report[name].as_f64().unwrap_or(f64::NAN)
}

fn rate_report(report: &Value) -> String {
    let (tps, cpu, load) = (figure(report, "tps"), figure(report, "server_cpu_us"), figure(report, "load_cpu_us"));
    let ends = ["sent", "included", "rejected", "dropped", "unknown", "failed"];
    let ends: Vec<_> = ends.iter().map(|end| format!("{end} {}", report[*end])).collect();
    let limit = report["limit"].as_str().unwrap_or("unknown");
    let share = report["recovery_share"].as_f64();
    let recovery = share.map_or_else(String::new, |share| format!(" ({:.0} % of it for senders' keys)", 100.0 * share));
    format!(
        "{tps:.0} txn/s, {cpu:.1} µs of the node's CPU each{recovery}, {load:.1} of the load's, limit: {limit}; {}",
        ends.join(", ")
    )
}

fn medians(reports: &[Value]) -> Value {
    let median = |name: &str| {
        let mut values: Vec<_> = reports.iter().map(|report| figure(report, name)).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let share = reports.iter().any(|report| report["recovery_share"].is_number()).then(|| median("recovery_share"));
    let sum = |name: &str| reports.iter().filter_map(|report| report[name].as_u64()).sum::<u64>();
    json!({
        "tps": median("tps"),
        "server_cpu_us": median("server_cpu_us"),
        "load_cpu_us": median("load_cpu_us"),
        "recovery_share": share,
        "sent": sum("sent"),
        "included": sum("included"),
        "dropped": sum("dropped"),
        "unknown": sum("unknown"),
        "failed": sum("failed"),
    })
}

/// Adds the ratios and judges the figures. A missing figure becomes NaN and fails its bound.
fn judge(mut found: Map<String, Value>) -> Outcome {
    let tps = |found: &Map<String, Value>, key: &str| found.get(key).map(|medians| figure(medians, "tps"));
    let mut wrong = vec![];
    for (kind, least) in [("transfer", TRANSFERS_MIN), ("erc20", TOKENS_MIN)] {
        let Some(ours) = tps(&found, &format!("{kind} hearth")) else { continue };
        let enough = ours >= least;
        if !enough {
            wrong.push(format!("{kind}: {ours:.0} txn/s, {least} asked"));
        }
        let medians = &found[&format!("{kind} hearth")];
        if medians["dropped"].as_u64() != Some(0) {
            wrong.push(format!("{kind}: {} acknowledged and lost", medians["dropped"]));
        }
        for (whose, name, most) in [("node", "server_cpu_us", CPU_US_MAX), ("load", "load_cpu_us", LOAD_CPU_US_MAX)] {
            let cpu = figure(medians, name);
            let cheap = cpu <= most;
            if kind == "transfer" && !cheap {
                wrong.push(format!("{kind}: {cpu:.1} µs of the {whose}'s CPU each, {most} asked"));
            }
        }
        for (peer, least) in [("anvil", OVER_ANVIL_MIN), ("geth", OVER_GETH_MIN)] {
            let Some(theirs) = tps(&found, &format!("{kind} {peer}")) else { continue };
            let ratio = ours / theirs;
            found.insert(format!("{kind} over {peer}"), json!(ratio));
            let enough = ratio >= least;
            if kind == "transfer" && !enough {
                wrong.push(format!("{kind}: {ratio:.2} times {peer}, {least} asked"));
            }
        }
    }
    Outcome { figures: Value::Object(found), wrong }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_a_function_is_that_of_the_stacks_it_is_in() {
        let stacks =
            "run;recover;hearth_crypto::secp256k1::field 30\nrun;execute 60\nrun;hearth_crypto::secp256k1 10\n";
        assert_eq!(share_of(stacks, "secp256k1"), Some(0.4));
        assert_eq!(share_of("", "secp256k1"), None);
    }

    #[test]
    fn failed_run_shows_its_last_output() {
        let (folder, url) = (TempFolder::new("soak-ethereum-test").unwrap(), "http://127.0.0.1:1");
        let why = load(Path::new("/bin/ls"), folder.path(), url, &["--no-such-option"]).unwrap_err();
        assert!(why.contains("ends with exit status: 2") && why.contains("/bin/ls"), "{why}");
        let many: Vec<_> = (0..40).map(|line| line.to_string()).collect();
        assert!(last_lines(&many.join("\n")).starts_with("    28\n"));
    }

    fn of(tps: f64, dropped: u64) -> Value {
        let report = json!({ "tps": tps, "server_cpu_us": 15.0, "load_cpu_us": 25.0, "dropped": dropped });
        medians(&[report])
    }

    #[test]
    fn shortfall_is_reported() {
        let found = |ours: Value, anvil: f64| {
            let pairs = [("transfer hearth".to_owned(), ours), ("transfer anvil".to_owned(), of(anvil, 0))];
            judge(pairs.into_iter().collect())
        };
        assert_eq!(found(of(36_000.0, 0), 12_000.0).wrong, Vec::<String>::new());
        assert_eq!(found(of(36_000.0, 0), 12_000.0).figures["transfer over anvil"], 3.0);
        assert_eq!(found(of(29_000.0, 2), 12_000.0).wrong.len(), 3);
        let dear = medians(&[json!({ "tps": 36_000.0, "server_cpu_us": 19.0, "load_cpu_us": 62.0, "dropped": 0 })]);
        assert_eq!(found(dear, 12_000.0).wrong.len(), 2);
        // Without figures nothing is well: rate, ratio, and CPU time of node and load.
        let without = medians(&[json!({ "sent": 10, "included": 10, "dropped": 0 })]);
        assert_eq!(found(without, 12_000.0).wrong.len(), 4);
    }
}
