//! process: another process of this program, for a tile that is apart.
//!
//! reads   standard streams and descriptors that it inherits
//! writes  a process of the same program
//!
//! The program is executed anew rather than forked: the new process has none of this one's memory and threads.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// Signals by which a terminal or a service manager asks all of its processes to end. The process of a tile is ended by
/// the one that started it, after all that need it.
const REQUESTS_TO_END: [libc::c_int; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// Starts this program with `arguments` and nothing of the environment. The process has pipes for its standard input
/// and output, inherits `descriptors` by their numbers, ignores requests to end, and is killed when the calling thread
/// ends.
///
/// # Errors
/// The system starts no process.
pub fn start_self(arguments: &[&str], descriptors: Vec<RawFd>) -> io::Result<Child> {
    // Where this process was started with the signal ignored, the system would forget how the other one ends.
    // SAFETY: it takes numbers alone, and no part of this program handles that signal.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    let mut command = Command::new("/proc/self/exe");
    command.arg0("hearth").args(arguments).env_clear().stdin(Stdio::piped()).stdout(Stdio::piped());
    let prepare = move || {
        for signal in REQUESTS_TO_END {
            // SAFETY: it takes numbers alone.
            unsafe { libc::signal(signal, libc::SIG_IGN) };
        }
        for descriptor in &descriptors {
            // SAFETY: it takes numbers alone; the flag that closes the descriptor goes.
            if unsafe { libc::fcntl(*descriptor, libc::F_SETFD, 0) } != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        super::sandbox::end_with_parent()
    };
    // SAFETY: between fork and exec it makes system calls alone, which take no lock and allocate nothing.
    unsafe { command.pre_exec(prepare) };
    command.spawn()
}

/// Takes a descriptor that this process has inherited. Fails if it is not open. Each may be taken once.
pub fn inherited(descriptor: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: it takes numbers alone.
    if unsafe { libc::fcntl(descriptor, libc::F_GETFD) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is open, and no other part of this process uses it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Lets calls return at once on an end of a pipe that this process has to itself: reads where nothing is in the pipe,
/// writes where it has no room. Every descriptor of that end changes.
pub fn never_wait_for(descriptor: RawFd) -> io::Result<()> {
    // SAFETY: it takes numbers alone.
    match unsafe { libc::fcntl(descriptor, libc::F_SETFL, libc::O_NONBLOCK) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Ends the process without running anything that was left for its end, which a filter of system calls may not allow.
pub fn end_now(code: i32) -> ! {
    // SAFETY: nothing of this process runs after it.
    unsafe { libc::_exit(code) }
}
