//! Runs a program with limits, and leaves no process behind.
//!
//! reads   a command; whether to stop
//! writes  its standard output and error to files; signals to its processes
//! memory  none that grows
//!
//! The program gets a process group and a mark in its environment. When it ends, the group is killed, and so is
//! every other process with the mark, including those with a session of their own. This process reaps the program's
//! orphans, so that their CPU time counts as the run's and not as other programs'.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process, kill_process_group, set_child_subreaper, waitpgid, waitpid,
};

/// Environment variable of the mark.
const MARK: &str = "HEARTH_TUNE_STUDY";
/// How often to check whether the program must end. If it ends by itself, that is noticed at once.
const LOOK: Duration = Duration::from_millis(50);
/// Time between SIGTERM and SIGKILL, in which the program may clean up.
const GRACE: Duration = Duration::from_secs(3);
/// Maximum output in bytes; a program that prints more is out of control.
const PRINTED_MAX: u64 = 64 << 20;

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessEnd {
    /// The process exited by itself, or a signal of others ended it.
    With(ExitStatus),
    /// The process ran longer than [`Bounds::limit`].
    TooLong,
    /// The process printed more than 64 MiB.
    TooMuch,
    /// The caller asked to stop it: see [`Bounds::stop`].
    Stopped,
}

/// The result of a run.
#[derive(Clone, Copy, Debug)]
pub struct ProcessResult {
    /// How the process ended, or why it was killed.
    pub ended: ProcessEnd,
    /// Wall time from start to end.
    pub wall: Duration,
}

impl ProcessResult {
    /// Returns why the run failed; none if it succeeded.
    pub fn fault(&self, limit: Duration) -> Option<String> {
        match self.ended {
            ProcessEnd::With(status) if status.success() => None,
            ProcessEnd::With(status) => Some(match status.code() {
                Some(code) => format!("it ended with exit code {code}"),
                None => format!("it was ended by a signal ({status})"),
            }),
            ProcessEnd::TooLong => Some(format!("it was not done after {} s, and was ended", limit.as_secs())),
            ProcessEnd::TooMuch => Some(format!("it printed more than {} MiB, and was ended", PRINTED_MAX >> 20)),
            ProcessEnd::Stopped => Some("it was stopped".into()),
        }
    }
}

/// The output files and limits of a run.
pub struct Bounds<'a> {
    /// The mark, by which [`end_marked`] finds remaining processes.
    pub mark: &'a str,
    /// How long it may take.
    pub limit: Duration,
    /// Path for standard output.
    pub out: &'a Path,
    /// Path for standard error.
    pub err: &'a Path,
    /// Returns whether to stop.
    pub stop: &'a dyn Fn() -> bool,
}

/// Runs a command until it ends or exceeds one of its limits.
pub fn run(command: &mut Command, bounds: &Bounds<'_>) -> io::Result<ProcessResult> {
    command.env(MARK, bounds.mark).process_group(0).stdin(Stdio::null());
    command.stdout(File::create(bounds.out)?).stderr(File::create(bounds.err)?);
    // On kernels without subreapers, init reaps them.
    let _ = set_child_subreaper(Some(getpid()));
    let begin = Instant::now();
    let child = command.spawn()?;
    let group = Pid::from_child(&child);
    let done = wait(child, begin)?;
    let printed = || [bounds.out, bounds.err].iter().filter_map(|path| fs::metadata(path).ok()).map(|m| m.len()).sum();
    let ended = loop {
        match done.recv_timeout(LOOK) {
            Ok(status) => break Ok(status),
            Err(RecvTimeoutError::Disconnected) => break Err(ProcessEnd::TooLong),
            Err(RecvTimeoutError::Timeout) if (bounds.stop)() => break Err(ProcessEnd::Stopped),
            Err(RecvTimeoutError::Timeout) if begin.elapsed() > bounds.limit => break Err(ProcessEnd::TooLong),
            Err(RecvTimeoutError::Timeout) => {
                let printed: u64 = printed();
                if printed > PRINTED_MAX {
                    break Err(ProcessEnd::TooMuch);
                }
            }
        }
    };
    let ran = match ended {
        Ok((status, wall)) => ProcessResult { ended: ProcessEnd::With(status?), wall },
        Err(ended) => {
            let _ = kill_process_group(group, Signal::TERM);
            let tidied = done.recv_timeout(GRACE);
            let _ = kill_process_group(group, Signal::KILL);
            if tidied.is_err() {
                // The program is killed; wait until the kernel has ended it.
                let _ = done.recv_timeout(GRACE);
            }
            ProcessResult { ended, wall: begin.elapsed() }
        }
    };
    // Processes that the program left behind.
    let _ = kill_process_group(group, Signal::KILL);
    wait_for_all(|| waitpgid(group, WaitOptions::NOHANG));
    end_marked(bounds.mark);
    Ok(ran)
}

/// Reaps ended processes until none is left.
fn wait_for_all<T>(next: impl Fn() -> rustix::io::Result<Option<T>>) {
    let deadline = Instant::now() + GRACE;
    loop {
        match next() {
            Ok(Some(_)) => {}
            Ok(None) if Instant::now() < deadline => thread::sleep(Duration::from_millis(1)),
            _ => return,
        }
    }
}

/// Waits on a thread, so that the end is noticed at once.
fn wait(mut child: Child, begin: Instant) -> io::Result<Receiver<(io::Result<ExitStatus>, Duration)>> {
    let (send, receive) = channel();
    thread::Builder::new().name("wait".into()).spawn(move || {
        let status = child.wait();
        let _ = send.send((status, begin.elapsed()));
    })?;
    Ok(receive)
}

/// Kills every process with this mark, or with one that begins with it and a `/`. Returns how many there were.
pub fn end_marked(mark: &str) -> usize {
    let mut ended = std::collections::BTreeSet::new();
    let deadline = Instant::now() + GRACE;
    // A process that forks during a scan may be missed, so only two empty scans in a row are conclusive.
    let mut empty = 0;
    while empty < 2 && Instant::now() < deadline {
        let alive = marked(mark);
        empty = if alive.is_empty() { empty + 1 } else { 0 };
        for pid in alive {
            let _ = Pid::from_raw(pid).map(|one| kill_process(one, Signal::KILL));
            ended.insert(pid);
        }
        if empty == 0 {
            thread::sleep(Duration::from_millis(5));
        }
    }
    for pid in ended.iter().filter_map(|pid| Pid::from_raw(*pid)) {
        // It is our child only if its parent ended before it.
        wait_for_all(|| waitpid(Some(pid), WaitOptions::NOHANG));
    }
    ended.len()
}

fn marked(mark: &str) -> Vec<i32> {
    let Ok(all) = fs::read_dir("/proc") else { return Vec::new() };
    let own = std::process::id() as i32;
    let pids = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let has = |pid: &i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|one| {
            let value = one.strip_prefix(MARK.as_bytes()).and_then(|rest| rest.strip_prefix(b"="));
            let rest = value.and_then(|value| value.strip_prefix(mark.as_bytes()));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
        })
    };
    pids.filter(|pid| *pid != own).filter(has).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, mark: &str, limit_s: f64, stop: &dyn Fn() -> bool) -> (ProcessResult, String) {
        let folder = tempfile::tempdir().expect("a folder");
        let (out, err) = (folder.path().join("out"), folder.path().join("err"));
        let bounds = Bounds { mark, limit: Duration::from_secs_f64(limit_s), out: &out, err: &err, stop };
        let ran = run(Command::new("sh").args(["-c", script]), &bounds).expect("runs");
        (ran, fs::read_to_string(out).expect("printed"))
    }

    fn mark(name: &str) -> String {
        format!("{name}-{}", std::process::id())
    }

    #[test]
    fn output_and_exit_code_are_returned() {
        let (ran, out) = shell("echo tps 7; exit 3", &mark("ends"), 30.0, &|| false);
        assert_eq!(out, "tps 7\n");
        assert_eq!(ran.fault(Duration::from_secs(30)).as_deref(), Some("it ended with exit code 3"));
    }

    #[test]
    fn hanging_and_detached_processes_are_killed() {
        let name = mark("hangs");
        let (ran, _) = shell("trap '' TERM; setsid sleep 1000 & sleep 1000", &name, 0.3, &|| false);
        assert_eq!(ran.ended, ProcessEnd::TooLong);
        assert!(marked(&name).is_empty());
        let name = mark("hides");
        let (ran, _) = shell("setsid sleep 1000 & echo done", &name, 30.0, &|| false);
        assert!(ran.fault(Duration::from_secs(30)).is_none() && marked(&name).is_empty());
    }

    #[test]
    fn cpu_time_of_orphans_counts_as_ours() {
        // Hundredths of a second of reaped children only: other tests run in this process.
        let children = || -> u64 {
            let stat = fs::read_to_string("/proc/self/stat").expect("Linux");
            let fields: Vec<&str> = stat.rsplit_once(')').expect("a name").1.split_whitespace().collect();
            fields[13..15].iter().map(|field| field.parse::<u64>().expect("a number")).sum()
        };
        let before = children();
        // Runs until the child has used 0.4 s of a core, however busy the machine is.
        let line = "while :; do :; done & p=$!; ticks() { set -- $(cat /proc/$p/stat); echo ${14}; }; \
                    until [ \"$(ticks)\" -ge 40 ]; do sleep 0.05; done; kill $p";
        let (ran, _) = shell(line, &mark("unwaited"), 100.0, &|| false);
        assert!(ran.fault(Duration::from_secs(100)).is_none(), "{ran:?}");
        let counted = children() - before;
        assert!(counted >= 40, "{counted} of 40 at least");
    }

    #[test]
    fn stop_ends_the_program_at_once() {
        let begin = Instant::now();
        let (ran, _) = shell("sleep 1000", &mark("stops"), 500.0, &|| true);
        assert_eq!(ran.ended, ProcessEnd::Stopped);
        assert!(begin.elapsed() < Duration::from_secs(100));
    }
}
