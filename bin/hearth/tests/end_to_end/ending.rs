//! A process ends when its terminal closes, when it is asked to but is stuck, and when memory or threads are too few to
//! start.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::channel;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::Value;

use super::node::{DEADLINE, Process, Setup, hearth, wait_until};
use super::terminal::Terminal;

/// A child that is killed when it is dropped.
struct KillOnDrop(Child);

impl KillOnDrop {
    fn ended(&mut self, what: &str) -> ExitStatus {
        wait_until(what, || self.0.try_wait().expect("a child").ok_or_else(|| "it runs".into()))
    }
}

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a program on a terminal and closes the terminal when it has shown `text`.
fn closed_after(command: &mut Command, text: &'static str) -> KillOnDrop {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a pseudo-terminal");
    grantpt(&master).and_then(|()| unlockpt(&master)).expect("its other end");
    let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&master, size).expect("a terminal has a size");
    let name = ptsname(&master, Vec::new()).expect("its name").into_string().expect("text");
    let other = || File::options().read(true).write(true).open(&name).expect("its other end opens");
    let child = command.env("TERM", "xterm-256color").stdin(other()).stdout(other()).stderr(other()).spawn();
    let child = KillOnDrop(child.expect("the program starts"));
    let (seen, shown) = channel();
    let mut master = File::from(master);
    std::thread::spawn(move || {
        let (mut all, mut bytes) = (vec![], [0; 4096]);
        while !String::from_utf8_lossy(&all).contains(text) {
            match master.read(&mut bytes) {
                Ok(count @ 1..) => all.extend_from_slice(&bytes[..count]),
                _ => return drop(seen.send(Err(String::from_utf8_lossy(&all).into_owned()))),
            }
        }
        drop(master);
        let _ = seen.send(Ok(()));
    });
    shown.recv_timeout(DEADLINE).expect("it draws").unwrap_or_else(|all| panic!("ended without `{text}`: {all}"));
    child
}

/// The same program as the leader of the terminal's session: when that is closed it gets SIGHUP.
fn as_leader(command: &Command) -> Command {
    let mut leader = Command::new("setsid");
    leader.arg("--ctty").arg(command.get_program()).args(command.get_args());
    if let Some(folder) = command.get_current_dir() {
        leader.current_dir(folder);
    }
    leader
}

/// Returns whether this process, and thus its children, ignores SIGHUP.
fn ignores_hang_up() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").expect("there is /proc");
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).expect("it says what is ignored");
    u64::from_str_radix(mask.trim(), 16).expect("a mask") & 1 == 1
}

#[test]
fn a_monitor_ends_with_its_terminal() {
    let setup = Setup::new("closed");
    let node = setup.start();
    // The first gets no signal.
    closed_after(&mut setup.command("monitor"), "verify:0").ended("the monitor's end");
    closed_after(&mut as_leader(&setup.command("monitor")), "verify:0").ended("the monitor's end by SIGHUP");
    // A process that ignores SIGHUP, as anything under `nohup` does, does not end on it.
    let signals = [Signal::TERM, Signal::HUP].into_iter().filter(|signal| *signal != Signal::HUP || !ignores_hang_up());
    for signal in signals {
        let mut terminal = Terminal::start(&mut setup.command("monitor"), 80, 24);
        terminal.shows(&["verify:0"]);
        terminal.signal(signal);
        assert!(terminal.ended().success(), "{signal:?}");
        assert!(!terminal.is_taken_over(), "{signal:?}: the terminal is as before");
    }
    node.stop();
}

#[test]
fn a_bench_ends_with_its_terminal() {
    let setup = Setup::new("closed-bench");
    let options = ["--duration", "600", "--warmup", "600"];
    closed_after(setup.command("bench").args(options), "   1 s ").ended("the bench's end");
    let mut bench = setup.command("bench");
    closed_after(&mut as_leader(bench.args(options)), "   1 s ").ended("the bench's end by SIGHUP");
}

/// Starts a program whose standard output is blocked.
fn stuck(command: &mut Command) -> (KillOnDrop, std::io::PipeReader, File) {
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    // As much as the pipe holds, which is less where the user has many.
    let flags = rustix::fs::fcntl_getfl(&writer).expect("a pipe");
    rustix::fs::fcntl_setfl(&writer, flags | rustix::fs::OFlags::NONBLOCK).expect("a pipe");
    while writer.write(b"\n").is_ok() {}
    rustix::fs::fcntl_setfl(&writer, flags).expect("a pipe");
    let errors = tempfile::tempfile().expect("a temporary file");
    let child = command.stdout(writer).stderr(errors.try_clone().expect("a second handle")).spawn();
    (KillOnDrop(child.expect("the program starts")), reader, errors)
}

fn said(mut file: &File) -> String {
    use std::io::Seek;
    let mut text = String::new();
    file.rewind().and_then(|()| file.read_to_string(&mut text)).expect("it can be read");
    text
}

/// Whether the process handles SIGTERM: until then it would end of itself.
fn takes_signals(pid: u32) -> Result<(), String> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).map_err(|error| error.to_string())?;
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or_default().trim().to_owned();
    let caught = u64::from_str_radix(&mask, 16).unwrap_or(0) >> (Signal::TERM.as_raw() - 1) & 1 == 1;
    caught.then_some(()).ok_or(mask)
}

#[test]
fn unstoppable_part_is_named_and_ended() {
    let setup = Setup::new("stuck");
    let mut evm = hearth();
    evm.args(["evm", "run", "--rpc-port", "0"]);
    let started = [stuck(&mut setup.command("run")), stuck(&mut evm)];
    for (child, ..) in &started {
        wait_until("its handlers", || takes_signals(child.0.id()));
        kill_process(Pid::from_raw(child.0.id() as i32).expect("a process id"), Signal::TERM).expect("it runs");
    }
    for (mut child, _reader, errors) in started {
        let status = child.ended("the end of what cannot stop");
        let said = said(&errors);
        assert_eq!(status.code(), Some(1), "{said}");
        assert!(said.contains("error: not stopped within 10 s") && said.contains("threads the main thread"), "{said}");
    }
}

/// The file is a pipe here, which blocks until it is read.
#[test]
fn a_state_that_is_written_slowly_is_not_lost() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let pipe = folder.path().join("state.next");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
    let arguments = ["evm", "run", "--rpc-port", "0", "--no-dashboard", "--state", "state.json"];
    let node = Process::start(hearth().current_dir(folder.path()).args(arguments));
    node.wait_for_line("ready;");
    node.signal(Signal::TERM);
    node.wait_for_any("the file of --state is not written yet");
    let written = std::fs::read_to_string(&pipe).expect("the state");
    assert!(serde_json::from_str::<Value>(&written).is_ok_and(|state| state["alloc"].is_object()), "{written}");
    // A pipe cannot be synced, so the file that it stands for would not be replaced.
    let (status, said) = node.wait_with_errors();
    assert!(status.code() == Some(1) && said.contains("--state") && said.contains("cannot write it"), "{said}");
}

/// Returns `hearth` with these arguments under a limit of `count` processes and threads. Root has no such limit, so the
/// command switches to a user that runs nothing else but can still reach the test's files.
fn with_threads(count: u32, arguments: &[&str]) -> Command {
    let limit = format!("--nproc={count}");
    let user = 60_000 + std::process::id() % 5_000;
    let mut command = if rustix::process::geteuid().is_root() {
        let mut command = Command::new("setpriv");
        command.arg(format!("--reuid={user}")).arg("--clear-groups");
        command.args(["--inh-caps=+dac_override", "--ambient-caps=+dac_override", "prlimit", &limit]);
        command
    } else {
        let mut command = Command::new("prlimit");
        command.arg(&limit);
        command
    };
    command.arg(hearth().get_program()).args(arguments).stdin(Stdio::null()).env_remove("RUST_BACKTRACE");
    command
}

#[test]
fn without_threads_no_process_stays() {
    let setup = Setup::new("few-threads");
    let config = setup.config().display().to_string();
    let run = ["run", "--config", &config];
    let evm = ["evm", "run", "--rpc-port", "0"];
    let mut refused = 0;
    for count in [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 1_000] {
        for arguments in [&run[..], &evm] {
            let mut process = Process::start(with_threads(count, arguments).current_dir(setup.folder.path()));
            let is_up = wait_until("it to be ready or to end", || process.is_ready_or_ended("ready;"));
            if is_up {
                process.signal(Signal::TERM);
            }
            let (status, said) = process.wait_with_errors();
            let errors = said.lines().filter(|line| line.starts_with("error")).count();
            if !is_up {
                refused += 1;
                assert!(
                    status.code().is_some_and(|code| code != 0),
                    "{count} threads, {arguments:?}: {status}: {said}"
                );
                assert_eq!(errors, 1, "{count} threads, {arguments:?}: {status}: {said}");
            }
        }
    }
    assert!(refused > 4, "the limit counts: {refused}");
}

#[test]
fn without_memory_no_process_stays() {
    let setup = Setup::new("scarce");
    let config = setup.config().display().to_string();
    let run = ["run", "--config", &config];
    let evm = ["evm", "run", "--rpc-port", "0"];
    for kib in [100_000, 250_000, 400_000, 800_000, 1_600_000] {
        for arguments in [&run[..], &evm] {
            let mut command = Command::new("sh");
            let limited = format!("ulimit -v {kib}; exec \"$0\" \"$@\"");
            command.args(["-c", &limited]).arg(hearth().get_program()).args(arguments).stdin(Stdio::null());
            let mut process = Process::start(command.current_dir(setup.folder.path()));
            // Either it starts, or it prints the reason and exits.
            let is_up = wait_until("it to be ready or to end", || process.is_ready_or_ended("ready;"));
            if is_up {
                process.signal(Signal::TERM);
            }
            let (status, errors) = process.wait_with_errors();
            if !is_up {
                assert!(!status.success() && !errors.trim().is_empty(), "{kib} KiB, {arguments:?}: {status}: {errors}");
            }
        }
    }
}
