//! The load of a demonstration: this program, as a process that drives the leader.
//!
//! writes  its configuration and its log, in the cluster's folder
//! memory  that of the load generator

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use hearth_ring::{WORKSPACE_FOLDER, workspace_path};

use crate::local::LocalError;
use crate::local::member::Cluster;

/// Number of accounts that send and receive.
const ACCOUNTS: usize = 256;
/// Seconds in excess of the measurement: the load is stopped explicitly.
const MORE: u64 = 600;

/// A running load; dropping it ends it.
pub struct Load {
    child: Child,
    name: String,
}

impl Load {
    /// Drives the leader with `rate` transactions per second, or as many as it accepts.
    pub fn start(cluster: &Cluster, rate: Option<f64>, seconds: u64) -> Result<Self, LocalError> {
        let name = format!("{}-load", cluster.name);
        let config = format!("name = \"{name}\"\n[development.genesis]\nfund_initial_accounts = {ACCOUNTS}\n");
        let (path, log) = (cluster.folder.join("load.toml"), cluster.folder.join("load.log"));
        fs::write(&path, config).map_err(|source| LocalError::Write { path: path.clone(), source })?;
        let start = || {
            let log = fs::File::create(&log)?;
            let mut command = Command::new(std::env::current_exe()?);
            command.arg("bench").arg("--config").arg(&path).args(["--url", &cluster.leader().rpc()]);
            command.args(["--probes", "0", "--warmup", "0", "--duration", &(seconds + MORE).to_string()]);
            command.args(["--parent", &std::process::id().to_string()]);
            if let Some(rate) = rate {
                command.args(["--rate", &format!("{rate:.0}")]);
            }
            command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()
        };
        let child = start().map_err(|source| LocalError::Start { node: "the load".into(), source })?;
        Ok(Self { child, name })
    }

    /// Whether the process that sends the load runs.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Ends the load at once, by dropping it.
    pub fn end(self) {}
}

impl Drop for Load {
    fn drop(&mut self) {
        // Killed at once: pending transactions still land, and the measurement is taken from the nodes.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_file(workspace_path(Path::new(WORKSPACE_FOLDER), &self.name));
    }
}
