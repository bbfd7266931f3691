//! The legitimate traffic: `hearth load run` at a rate, what became of it, and what the node holds meanwhile.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hearth_testkit::pause;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::super::node::{Process, hearth};

/// Number of accounts that send.
const ACCOUNTS: &str = "100";
/// Between two looks at the node's memory.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The result of the traffic of some seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Window {
    /// Transactions that the load sent.
    pub sent: u64,
    /// Transactions that are in a block.
    pub included: u64,
    /// Transactions that were due, and that the load could not send.
    pub unsent: u64,
    /// Time from when a transaction was due until its block could be read, in milliseconds.
    pub p50_ms: f64,
    /// The same of the slowest hundredth.
    pub p99_ms: f64,
    /// The most memory of a node, in bytes, as [`held_bytes`] has it.
    pub held_bytes: u64,
}

impl Window {
    fn of(report: &Value, held_bytes: u64) -> Self {
        let number = |name: &str| report[name].as_u64().unwrap_or_else(|| panic!("no {name} in {report:#}"));
        let ms = |name: &str| report["latency"][name].as_f64().unwrap_or_else(|| panic!("no {name} in {report:#}"));
        Self {
            sent: number("sent"),
            included: number("included"),
            unsent: number("unsent"),
            p50_ms: ms("p50_ms"),
            p99_ms: ms("p99_ms"),
            held_bytes,
        }
    }

    /// The latencies, as a row of the results has them.
    pub fn latency(&self) -> Value {
        json!({ "p50_ms": self.p50_ms, "p99_ms": self.p99_ms })
    }
}

/// A load that runs.
pub struct Load {
    process: Process,
    report: PathBuf,
}

impl Load {
    /// Starts a load of `rate` transactions per second on the node at `url`, measured for `seconds` after `warmup`
    /// seconds.
    pub fn start(url: &str, folder: &Path, rate: u64, warmup: u64, seconds: u64) -> Self {
        let report = folder.join("load.json");
        let mut command = hearth();
        command.args(["load", "run", "--url", url, "--accounts", ACCOUNTS, "--json"]).arg(&report);
        for (option, value) in [("--rate", rate), ("--warmup", warmup), ("--duration", seconds)] {
            command.arg(option).arg(value.to_string());
        }
        Self { process: Process::start(command.current_dir(folder)), report }
    }

    /// Waits until it has ended by itself; `pids` are the nodes whose memory is looked at meanwhile.
    pub fn watch(mut self, pids: &[u32]) -> Window {
        let mut most = 0;
        while self.process.is_alive() {
            most = pids.iter().map(|pid| held_bytes(*pid)).fold(most, u64::max);
            pause(LOOK_EVERY);
        }
        Window::of(&self.end(), most)
    }

    /// Waits until its accounts are funded, and it has sent for a second.
    pub fn has_begun(&self) {
        self.process.wait_for_line(" included ");
    }

    /// Ends it now, and returns its report, which may have no latency yet.
    pub fn stop(self) -> Value {
        self.process.signal(Signal::INT);
        self.end()
    }

    fn end(self) -> Value {
        let (status, text) = self.process.wait_with_errors();
        assert!(status.success(), "{status}: {text}");
        let report = std::fs::read_to_string(&self.report).expect("a report");
        serde_json::from_str(&report).expect("JSON")
    }
}

/// Memory that only a process's end gives back, in bytes: its own pages, and those of its shared memory. Files that it
/// has mapped, such as the program, are not in it.
pub fn held_bytes(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the node runs");
    held_by(&status).unwrap_or_else(|| panic!("no memory in:\n{status}"))
}

fn held_by(status: &str) -> Option<u64> {
    let kib = |name: &str| -> Option<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix("kB")?.trim().parse().ok()
    };
    Some((kib("RssAnon:")? + kib("RssShmem:")?) << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn held_memory_is_without_files() {
        let status = "VmRSS:\t  900 kB\nRssAnon:\t  500 kB\nRssFile:\t  300 kB\nRssShmem:\t  100 kB\n";
        assert_eq!(held_by(status), Some(600 << 10));
        assert_eq!(held_by("RssAnon:\t  500 kB\n"), None);
        assert!(held_bytes(std::process::id()) > 0);
    }

    #[test]
    fn window_is_read_from_a_report() {
        let report = json!({
            "sent": 10, "included": 9, "unsent": 1, "latency": { "p50_ms": 1.5, "p99_ms": 20.0 },
        });
        let window = Window::of(&report, 5);
        let expected = Window { sent: 10, included: 9, unsent: 1, p50_ms: 1.5, p99_ms: 20.0, held_bytes: 5 };
        assert_eq!(window, expected);
        assert_eq!(window.latency(), json!({ "p50_ms": 1.5, "p99_ms": 20.0 }));
    }
}
