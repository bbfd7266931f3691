//! Processes of nodes, which go on when whoever started them has ended.
//!
//! reads   `/proc`
//! writes  signals
//! memory  none
//! source  proc(5)

use std::fs::{File, OpenOptions, read_to_string};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

/// The field of `/proc/PID/stat` that says when the process began, counted from the one after its name.
const STARTED: usize = 19;

/// A process, known by more than a number that another may have after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// When it began, in the kernel's ticks since the machine did.
    pub started_ticks: u64,
}

impl Process {
    /// Starts `hearth run` with a configuration, in a group of its own; what it says goes to `log`. One that is not to
    /// stay ends when this process does, however that ends.
    pub fn start(config: &Path, log: &Path, stays: bool) -> io::Result<Self> {
        let log: File = OpenOptions::new().create(true).write(true).truncate(true).open(log)?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("run").arg("--config").arg(config);
        if !stays {
            command.args(["--parent", &std::process::id().to_string()]);
        }
        let child = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).process_group(0).spawn()?;
        let pid = child.id();
        let found = stat(pid).map(|(started_ticks, _)| Self { pid, started_ticks });
        found.ok_or_else(|| io::Error::other("the process that was started is not in /proc"))
    }

    /// Whether it runs: this one, and none that has its number after it.
    pub fn is_alive(&self) -> bool {
        stat(self.pid).is_some_and(|(started, state)| started == self.started_ticks && !matches!(state, 'Z' | 'X'))
    }

    /// Sends a signal, if it runs.
    pub fn signal(&self, signal: Signal) {
        if let Some(pid) = Pid::from_raw(self.pid as i32).filter(|_| self.is_alive()) {
            // Between the look and this it may have ended by itself.
            let _ = kill_process(pid, signal);
        }
    }

    /// Resident memory, bytes.
    pub fn resident_bytes(&self) -> Option<u64> {
        self.is_alive().then(|| hearth_machine::process::resident_bytes(&self.pid.to_string()))?.map(|(now, _)| now)
    }
}

/// When a process began, and its state.
fn stat(pid: u32) -> Option<(u64, char)> {
    let text = read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before may have spaces and brackets.
    let mut fields = text.get(text.rfind(')')? + 1..)?.split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((fields.nth(STARTED - 1)?.parse().ok()?, state))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_not_another_of_its_number() {
        let (started_ticks, _) = stat(std::process::id()).unwrap();
        let own = Process { pid: std::process::id(), started_ticks };
        assert!(own.is_alive() && own.resident_bytes() > Some(0));
        let other = Process { started_ticks: started_ticks + 1, ..own };
        assert!(!other.is_alive() && other.resident_bytes().is_none());
        other.signal(Signal::KILL);
        assert!(!Process { pid: u32::MAX >> 1, started_ticks }.is_alive());
    }
}
