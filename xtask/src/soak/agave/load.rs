//! Loads on the nodes: `hearth load`, through `sendTransaction` or by QUIC to the leaders' TPUs.
//!
//! reads   the loads' reports
//! writes  reports and logs into the scenario's folder

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use super::Lab;
use super::nodes::{AGAVE, OURS, Remote};
use crate::node::wait_for;

/// A load may take so long after its sending for the last blocks and its report.
const ENDS_WITHIN: Duration = Duration::from_secs(180);
/// Senders of a load: few, so that funding them takes no time of the part.
const ACCOUNTS: &str = "50";

/// How a load hands its transactions in.
pub struct Way {
    name: &'static str,
    /// The node that it asks and reads blocks from.
    node: Remote,
    /// Through the node's `sendTransaction`, which forwards; else by QUIC to the TPUs of the leaders.
    is_rpc: bool,
}

/// Through each node's `sendTransaction`.
pub const BY_RPC: [Way; 2] =
    [Way { name: "rpc-ours", node: OURS, is_rpc: true }, Way { name: "rpc-agave", node: AGAVE, is_rpc: true }];
/// The same, and by QUIC to the TPUs of the leaders, which each node's RPC names.
pub const BY_ALL: [Way; 4] = [
    Way { name: "rpc-ours", node: OURS, is_rpc: true },
    Way { name: "rpc-agave", node: AGAVE, is_rpc: true },
    Way { name: "quic-ours", node: OURS, is_rpc: false },
    Way { name: "quic-agave", node: AGAVE, is_rpc: false },
];
/// Through our node alone.
pub const BY_OURS: [Way; 1] = [Way { name: "rpc-ours", node: OURS, is_rpc: true }];

/// A load on one node that runs for a given time.
pub struct Load {
    name: &'static str,
    child: Child,
    report: PathBuf,
}

impl Load {
    /// Starts one load for each way, for `seconds`.
    pub fn start_all(lab: &Lab, ways: &[Way], seconds: u64) -> Result<Vec<Self>, String> {
        ways.iter().map(|way| Self::start(lab, way, seconds)).collect()
    }

    fn start(lab: &Lab, way: &Way, seconds: u64) -> Result<Self, String> {
        let report = lab.folder.join(format!("load-{}.json", way.name));
        // An error means that there is no report of an earlier load.
        let _ = std::fs::remove_file(&report);
        let log = File::create(lab.folder.join(format!("load-{}.log", way.name))).map_err(|error| error.to_string())?;
        let errors = log.try_clone().map_err(|error| error.to_string())?;
        let mut command = Command::new(&lab.hearth);
        command.args(["load", "run", "--accounts", ACCOUNTS, "--url", &way.node.url(), "--funder"]);
        command.arg(lab.key("faucet")).args(["--rate", &lab.rate.to_string(), "--duration", &seconds.to_string()]);
        if way.is_rpc {
            command.arg("--rpc-send");
        }
        command.arg("--json").arg(&report).stdin(Stdio::null()).stdout(log).stderr(errors);
        let child = command.spawn().map_err(|error| format!("cannot start the load {}: {error}", way.name))?;
        Ok(Self { name: way.name, child, report })
    }

    /// Waits for its end; the numbers sent, included, rejected, dropped and unknown.
    fn end(mut self) -> Result<Value, String> {
        let what = format!("the report of the load {}", self.name);
        wait_for(&what, ENDS_WITHIN, || self.child.try_wait().ok().flatten())?;
        let text = std::fs::read_to_string(&self.report).map_err(|error| format!("{what}: {error}"))?;
        let report: Value = serde_json::from_str(&text).map_err(|error| format!("{what}: {error}"))?;
        let number = |name: &str| (name.to_owned(), report[name].clone());
        Ok(Value::Object(
            ["sent", "included", "rejected", "dropped", "unknown", "tps"].map(number).into_iter().collect(),
        ))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // An error means that it has exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The sum of all loads of a part.
#[derive(Default)]
pub struct Sent {
    pub sent: u64,
    pub landed: u64,
    /// The faults: a load that sent nothing, or of which not all landed.
    pub wrong: Vec<String>,
}

impl Sent {
    /// Waits for the end of the loads.
    pub fn ended(loads: Vec<Load>) -> Self {
        let mut all = Self::default();
        for load in loads {
            let name = load.name;
            match load.end() {
                Ok(report) => all.add(name, &report),
                Err(why) => all.wrong.push(why),
            }
        }
        all
    }

    fn add(&mut self, name: &str, report: &Value) {
        let number = |name: &str| report[name].as_u64().unwrap_or(0);
        self.sent += number("sent");
        self.landed += number("included");
        println!("load {name}: {report}");
        if report["included"] != report["sent"] || number("sent") == 0 {
            self.wrong.push(format!("the load {name}: {report}"));
        }
    }

    /// The numbers for a row.
    pub fn figures(&self) -> Value {
        json!({ "sent": self.sent, "landed": self.landed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_that_lost_one_is_wrong() {
        let mut sent = Sent::default();
        sent.add("a", &json!({ "sent": 4, "included": 4 }));
        assert_eq!(sent.wrong.len(), 0);
        sent.add("b", &json!({ "sent": 4, "included": 3 }));
        sent.add("c", &json!({ "sent": 0, "included": 0 }));
        assert_eq!(sent.wrong.len(), 2);
        assert_eq!((sent.sent, sent.landed), (8, 7));
    }
}
