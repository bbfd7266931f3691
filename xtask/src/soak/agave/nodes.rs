//! Addresses of the nodes, and their processes.
//!
//! reads   logs, RPC, `/proc/PID/stat`
//! writes  a log for each node, into the scenario's folder
//! memory  a log, while it is searched

use std::fs::File;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use super::Lab;
use crate::node::wait_for;
use crate::rpc::Rpc;
use crate::run;

pub const RPC_PORT: u16 = 8899;
/// Our nodes' metrics: the default.
pub const METRICS_PORT: u16 = 7999;
const GOSSIP_PORT: u16 = 8001;
/// Agave's nodes have odd addresses and Hearth's even ones: the emulated partition goes by that.
pub const AGAVE: Remote = Remote(Ipv4Addr::new(127, 0, 0, 1));
pub const OURS: Remote = Remote(Ipv4Addr::new(127, 0, 0, 2));
/// The second node of each kind.
pub const AGAVE_2: Remote = Remote(Ipv4Addr::new(127, 0, 0, 3));
pub const OURS_2: Remote = Remote(Ipv4Addr::new(127, 0, 0, 4));

/// A node must answer within this: on two cores agave-validator takes half a minute.
const STARTS_WITHIN: Duration = Duration::from_secs(180);
const STOPS_WITHIN: Duration = Duration::from_secs(60);
/// The kernel's unit of CPU time in `/proc`, the same on all machines.
const TICKS_PER_S: f64 = 100.0;

/// A node by its address.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Remote(pub Ipv4Addr);

impl Remote {
    /// Calls a method of its RPC.
    pub fn call(&self, method: &str, params: Value) -> Result<Value, String> {
        Rpc { host: self.0, port: RPC_PORT }.call(method, params)
    }

    /// Its newest slot at a commitment.
    pub fn slot(&self, commitment: &str) -> Option<u64> {
        self.call("getSlot", json!([{ "commitment": commitment }])).ok()?.as_u64()
    }

    pub fn url(&self) -> String {
        format!("http://{}:{RPC_PORT}", self.0)
    }

    /// The address of its gossip port.
    pub fn gossip(&self) -> String {
        format!("{}:{GOSSIP_PORT}", self.0)
    }
}

/// A node that runs; killed when dropped.
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
    remote: Remote,
}

impl Process {
    /// Starts a node, and waits until its RPC answers.
    pub fn start(lab: &Lab, name: &str, remote: Remote, command: &mut Command) -> Result<Self, String> {
        println!("start {name}: {}", run::shown(command));
        let log = lab.folder.join(format!("{name}.log"));
        let cannot = |error: std::io::Error| format!("cannot start {name}: {error}");
        let out = File::options().create(true).append(true).open(&log).map_err(cannot)?;
        let command = command.current_dir(&lab.folder).stdin(Stdio::null());
        let child = command.stdout(out.try_clone().map_err(cannot)?).stderr(out).spawn().map_err(cannot)?;
        let mut process = Self { name: name.into(), child, log, remote };
        process.wait("an RPC that answers", STARTS_WITHIN, |process| process.remote.slot("processed"))?;
        Ok(process)
    }

    pub const fn remote(&self) -> Remote {
        self.remote
    }

    /// Waits until `look` has something; `Err` when `within` has gone by or the process has ended.
    pub fn wait<T>(
        &mut self,
        what: &str,
        within: Duration,
        mut look: impl FnMut(&Self) -> Option<T>,
    ) -> Result<T, String> {
        let name = self.name.clone();
        let found = wait_for(&format!("{name}: {what}"), within, || match self.child.try_wait() {
            Ok(None) => look(self).map(Ok),
            Ok(Some(status)) => Some(Err(format!("{name} ended: {status}"))),
            Err(error) => Some(Err(format!("{name}: {error}"))),
        });
        found.flatten().map_err(|why| format!("{why}\n--- the end of its log\n{}", self.end_of_log()))
    }

    fn end_of_log(&self) -> String {
        let log = std::fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&log[log.len().saturating_sub(3_000)..]).into_owned()
    }

    /// The bytes of its log so far.
    pub fn log_bytes(&self) -> usize {
        std::fs::metadata(&self.log).map_or(0, |log| log.len() as usize)
    }

    /// The log without its first `bytes`.
    pub fn log_since(&self, bytes: usize) -> String {
        let log = std::fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&log[bytes.min(log.len())..]).into_owned()
    }

    /// The first line of the log that has all of these words.
    pub fn logged(&self, words: &[&str]) -> Option<String> {
        let log = std::fs::read(&self.log).ok()?;
        let log = String::from_utf8_lossy(&log);
        log.lines().find(|line| words.iter().all(|word| line.contains(word))).map(str::to_owned)
    }

    /// Waits until a slot is reached at commitment `confirmed`.
    pub fn reaches(&mut self, slot: u64, within: Duration) -> Result<(), String> {
        let what = format!("slot {slot} confirmed");
        self.wait(&what, within, |process| process.remote.slot("confirmed").filter(|reached| *reached >= slot))?;
        Ok(())
    }

    /// CPU time of the process so far, seconds; `None` once it has ended.
    pub fn cpu_s(&self) -> Option<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).ok()?;
        cpu_ticks(&stat).map(|ticks| ticks as f64 / TICKS_PER_S)
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    /// Ends it without warning.
    pub fn kill(&mut self) -> Result<(), String> {
        println!("kill -9 {}", self.name);
        self.child.kill().and_then(|()| self.child.wait()).map_err(|error| format!("{}: {error}", self.name))?;
        Ok(())
    }

    /// Stops it as Ctrl-C does.
    pub fn stop(&mut self) -> Result<(), String> {
        run::run(Command::new("kill").args(["-INT", &self.child.id().to_string()]))?;
        let end = || self.child.try_wait().ok().flatten();
        wait_for(&format!("the end of {}", self.name), STOPS_WITHIN, end)?;
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // An error means that it has exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// User and system time in a line of `/proc/PID/stat`: the 14th and the 15th field. The second field, the program's
/// name in parentheses, may hold spaces.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut times = rest.split_whitespace().skip(11).map(str::parse::<u64>);
    let user = times.next()?.ok()?;
    Some(user + times.next()?.ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_read_behind_the_name() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 1 0 0 0 250 30 0 0 20 0 9 0 100 1 2\n";
        assert_eq!(cpu_ticks(stat), Some(280));
        assert_eq!(cpu_ticks("7 (a) S 1"), None);
    }
}
