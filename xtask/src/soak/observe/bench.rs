//! A bench that runs long enough to be watched and left alone by turns.
//!
//! reads   its metrics, and `/proc` of its threads
//! writes  its configuration into a folder
//! memory  a page of metrics at a time

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::node::wait_for;
use crate::{rpc, run};

/// Names of the threads that serve observers.
const SERVING: [&str; 2] = ["rpc", "metric:0"];
/// Tiles of the load.
const LOAD: [&str; 3] = ["bencho", "benchg", "benchs"];

/// Seconds of load before the first window.
const WARM_S: u64 = 5;

/// The bench. Killed when dropped.
pub struct Bench {
    child: Child,
    /// Path of the configuration file.
    pub config: PathBuf,
    /// The first of its ports: RPC; metrics is two higher.
    pub port: u16,
}

impl Bench {
    /// Starts it and waits until its load runs.
    pub fn start(
        binary: &Path,
        folder: &Path,
        port: u16,
        longest: Duration,
        rate: Option<&str>,
    ) -> Result<Self, String> {
        let config = folder.join("bench.toml");
        let (metrics, udp, quic) = (port + 2, port + 3, port + 4);
        let ledger = serde_json::Value::from(folder.join("ledger").to_string_lossy());
        let text = format!(
            "name = \"observe-{port}\"\nledger.path = {ledger}\nrpc.port = {port}\n\
             tiles.metric.prometheus_listen_port = {metrics}\n\
             tiles.quic.regular_transaction_listen_port = {udp}\n\
             tiles.quic.quic_transaction_listen_port = {quic}\n"
        );
        fs::write(&config, text).map_err(|error| format!("cannot write {}: {error}", config.display()))?;
        let mut command = Command::new(binary);
        command.args(["bench", "--warmup", &WARM_S.to_string(), "--duration", &longest.as_secs().to_string()]);
        command.arg("--config").arg(&config).current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null());
        command.args(rate.iter().flat_map(|rate| ["--rate", rate]));
        println!("$ {}", run::shown(&command));
        let child = command.spawn().map_err(|error| format!("cannot start the bench: {error}"))?;
        let bench = Self { child, config, port };
        let warm = || Reading::take(&bench).ok().filter(|reading| reading.transactions > 0);
        wait_for("the bench's load", Duration::from_secs(60), warm)?;
        std::thread::sleep(Duration::from_secs(WARM_S));
        Ok(bench)
    }

    /// Its page of metrics.
    pub fn metrics(&self) -> Result<String, String> {
        rpc::get(Ipv4Addr::LOCALHOST, self.port + 2, "/metrics").map_err(|error| format!("no metrics: {error}"))
    }

    /// Ends it as Ctrl-C does.
    pub fn stop(mut self) -> Result<(), String> {
        run::run(Command::new("sh").args(["-c", &format!("kill -INT {}", self.child.id())]))?;
        let ended = || self.child.try_wait().ok().flatten();
        let status = wait_for("the bench's end", Duration::from_secs(60), ended)?;
        if status.success() { Ok(()) } else { Err(format!("the bench ended with {status}")) }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // An error means that it has exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A snapshot of a bench's progress.
pub struct Reading {
    /// When the snapshot was taken.
    pub at: Instant,
    /// Transactions executed, landed and failed.
    pub transactions: u64,
    /// CPU time of the process without the load, nanoseconds.
    pub node_ns: u64,
    /// CPU time of the threads that serve.
    pub serving_ns: u64,
}

impl Reading {
    /// Reads the bench's metrics, and the CPU times of its threads.
    pub fn take(bench: &Bench) -> Result<Self, String> {
        let metrics = bench.metrics()?;
        let at = Instant::now();
        let transactions =
            sum(&metrics, "hearth_bank_landed_total", |_| true) + sum(&metrics, "hearth_bank_failed_total", |_| true);
        let of_load = |labels: &str| LOAD.iter().any(|kind| labels.contains(&format!("kind=\"{kind}\"")));
        let load_ns = (1e9 * sum(&metrics, "hearth_tile_cpu_seconds_total", of_load)) as u64;
        let threads = threads(bench.child.id());
        let all: u64 = threads.iter().map(|(_, ns)| ns).sum();
        let serving = threads.iter().filter(|(name, _)| SERVING.contains(&name.as_str())).map(|(_, ns)| ns).sum();
        Ok(Self { at, transactions: transactions as u64, node_ns: all.saturating_sub(load_ns), serving_ns: serving })
    }
}

/// Sums a metric over the lines whose labels satisfy `fits`.
fn sum(metrics: &str, name: &str, fits: impl Fn(&str) -> bool) -> f64 {
    let lines = metrics.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('{')?.split_once("} "));
    lines.filter(|(labels, _)| fits(labels)).filter_map(|(_, value)| value.parse::<f64>().ok()).sum()
}

/// The threads of a process: their names, and the CPU time that each has had, nanoseconds.
pub fn threads(pid: u32) -> Vec<(String, u64)> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let of = |task: PathBuf| {
        let name = fs::read_to_string(task.join("comm")).ok()?;
        let ns = fs::read_to_string(task.join("schedstat")).ok()?;
        Some((name.trim_end().to_owned(), ns.split_whitespace().next()?.parse().ok()?))
    };
    tasks.flatten().filter_map(|task| of(task.path())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_summed_by_name_and_label() {
        let page = "# TYPE a_total counter\na_total{tile=\"x:0\",kind=\"x\"} 2\na_total{tile=\"y:0\",kind=\"y\"} 3.5\n\
                    a_total_more{tile=\"x:0\"} 50\n";
        assert_eq!(sum(page, "a_total", |_| true), 5.5);
        assert_eq!(sum(page, "a_total", |labels| labels.contains("kind=\"x\"")), 2.0);
    }

    #[test]
    fn this_process_has_threads_and_they_have_had_time() {
        assert!(threads(std::process::id()).iter().any(|(_, ns)| *ns > 0));
        assert!(threads(u32::MAX).is_empty());
    }
}
