//! Processes of nodes, which outlive the command that started them.
//!
//! reads   `/proc`
//! writes  signals
//! source  proc(5)

use std::fs::{File, OpenOptions, read_to_string};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

/// Fields of `/proc/PID/stat`, counted from the one after the process's name.
const STATE: usize = 0;
const THREADS: usize = 17;
const STARTED: usize = 19;

/// A process, identified by more than its pid, which may be reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// The process's id in this PID namespace.
    pub pid: u32,
    /// Its start time, in kernel ticks since boot.
    pub started_ticks: u64,
}

impl Process {
    /// Starts `hearth run` with a configuration in its own process group; its output goes to `log`. Unless `stays` is
    /// set, it ends when this process does, however that ends.
    pub fn start(config: &Path, log: &Path, stays: bool) -> io::Result<Self> {
        let log: File = OpenOptions::new().create(true).write(true).truncate(true).open(log)?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("run").arg("--config").arg(config);
        if !stays {
            command.args(["--parent", &std::process::id().to_string()]);
        }
        let child = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).process_group(0).spawn()?;
        let pid = child.id();
        let found = Stat::of(pid).map(|stat| Self { pid, started_ticks: stat.started_ticks });
        found.ok_or_else(|| io::Error::other("the process that was started is not in /proc"))
    }

    /// Whether this very process runs, and not a later one with its pid.
    pub fn is_alive(&self) -> bool {
        Stat::of(self.pid).is_some_and(|stat| stat.started_ticks == self.started_ticks && !stat.has_ended())
    }

    /// Sends a signal if it runs.
    pub fn signal(&self, signal: Signal) {
        if let Some(pid) = Pid::from_raw(self.pid as i32).filter(|_| self.is_alive()) {
            // It may have ended since the check.
            let _ = kill_process(pid, signal);
        }
    }

    /// Its resident memory in bytes; `None` if it does not run.
    pub fn resident_bytes(&self) -> Option<u64> {
        self.is_alive().then(|| hearth_machine::process::resident_bytes(&self.pid.to_string()))?.map(|(now, _)| now)
    }
}

struct Stat {
    state: char,
    threads: u64,
    started_ticks: u64,
}

impl Stat {
    fn of(pid: u32) -> Option<Self> {
        Self::parse(&read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        // The name before may contain spaces and brackets.
        let fields: Vec<&str> = text.get(text.rfind(')')? + 1..)?.split_whitespace().collect();
        let number = |field: usize| fields.get(field)?.parse::<u64>().ok();
        let state = fields.get(STATE)?.chars().next()?;
        Some(Self { state, threads: number(THREADS)?, started_ticks: number(STARTED)? })
    }

    /// In a killed process the first thread may be gone while others still write to a disk: until they are done, the
    /// process has its files and sockets.
    fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X') && self.threads <= 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_not_another_of_its_number() {
        let started_ticks = Stat::of(std::process::id()).unwrap().started_ticks;
        let own = Process { pid: std::process::id(), started_ticks };
        assert!(own.is_alive() && own.resident_bytes() > Some(0));
        let other = Process { started_ticks: started_ticks + 1, ..own };
        assert!(!other.is_alive() && other.resident_bytes().is_none());
        other.signal(Signal::KILL);
        assert!(!Process { pid: u32::MAX >> 1, started_ticks }.is_alive());
    }

    #[test]
    fn a_process_ends_with_its_last_thread() {
        let line = |state: char, threads: u64| {
            format!("7 (a (b) c) {state} 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 {threads} 0 4321 0 0")
        };
        let ended = |state, threads| Stat::parse(&line(state, threads)).unwrap().has_ended();
        assert_eq!(Stat::parse(&line('S', 1)).unwrap().started_ticks, 4321);
        assert!(ended('Z', 1) && ended('X', 0));
        assert!(!ended('Z', 2) && !ended('S', 1) && !ended('D', 9));
        assert!(Stat::parse("7 (x) S 1").is_none());
    }
}
