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

/// Fields of `/proc/PID/stat`, counted from the one after the process's name.
const STATE: usize = 0;
const THREADS: usize = 17;
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
        let found = Stat::of(pid).map(|stat| Self { pid, started_ticks: stat.started_ticks });
        found.ok_or_else(|| io::Error::other("the process that was started is not in /proc"))
    }

    /// Whether it runs: this one, and none that has its number after it.
    pub fn is_alive(&self) -> bool {
        Stat::of(self.pid).is_some_and(|stat| stat.started_ticks == self.started_ticks && !stat.has_ended())
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
        // The name before may have spaces and brackets.
        let fields: Vec<&str> = text.get(text.rfind(')')? + 1..)?.split_whitespace().collect();
        let number = |field: usize| fields.get(field)?.parse::<u64>().ok();
        let state = fields.get(STATE)?.chars().next()?;
        Some(Self { state, threads: number(THREADS)?, started_ticks: number(STARTED)? })
    }

    /// Of a process that was killed, the first thread may be gone while others are still writing to a disk: until they
    /// are done, it has its files and its sockets.
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
