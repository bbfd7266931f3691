//! Each attempt is made by a process of its own, in a sandbox of some steps. With all steps every one fails. To show
//! that each step is worth something, and that these tests can fail, an attempt is also made with one step alone, and
//! with none, where it succeeds.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use super::*;
use crate::sys::addr;

/// How the process of an attempt ends.
const REFUSED: i32 = 7;
const ALLOWED: i32 = 8;
const NO_SUCH_STEP: i32 = 9;

/// What code that has taken over a process might try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attempt {
    OpenFile,
    Connect,
    Execute,
    Fork,
    Signal,
    Trace,
    ReadMemory,
    MakeWritable,
    MapCode,
    Duplicate,
    BeDumped,
    GainPrivileges,
    UseCapabilities,
}

/// All attempts, each with the steps that stop it, each of them alone.
const ATTEMPTS: [(Attempt, &[Step]); 13] = [
    (Attempt::OpenFile, &[Step::Landlock, Step::SystemCalls]),
    (Attempt::Connect, &[Step::Namespaces, Step::SystemCalls]),
    (Attempt::Execute, &[Step::Landlock, Step::SystemCalls]),
    (Attempt::Fork, &[Step::SystemCalls]),
    (Attempt::Signal, &[Step::SystemCalls]),
    (Attempt::Trace, &[Step::SystemCalls]),
    (Attempt::ReadMemory, &[Step::SystemCalls]),
    (Attempt::MakeWritable, &[Step::SystemCalls]),
    (Attempt::MapCode, &[Step::SystemCalls]),
    (Attempt::Duplicate, &[Step::Limits, Step::SystemCalls]),
    (Attempt::BeDumped, &[Step::NoDumps]),
    (Attempt::GainPrivileges, &[Step::NoNewPrivileges]),
    (Attempt::UseCapabilities, &[Step::Capabilities]),
];

/// What an ordinary user's process may do anywhere: here the attempts without a sandbox must succeed.
const ALWAYS_ALLOWED: [Attempt; 9] = [
    Attempt::OpenFile,
    Attempt::Connect,
    Attempt::Execute,
    Attempt::Fork,
    Attempt::Signal,
    Attempt::MakeWritable,
    Attempt::MapCode,
    Attempt::Duplicate,
    Attempt::BeDumped,
];

/// Steps that a machine may lack.
const MAY_BE_MISSING: [Step; 2] = [Step::Namespaces, Step::Landlock];

/// The calls that remain for these tests' processes.
const CALLS: [Call; 4] = [Call::Exit, Call::Write, Call::MapMemory, Call::Unmap];

/// What another process reads of this one.
static SECRET: [u8; 16] = *b"of this process.";

/// What an attempt needs that is made before its process.
struct Target {
    listener: SocketAddr,
    _open: TcpListener,
    /// The process that makes the others.
    parent: libc::pid_t,
}

impl Target {
    fn new() -> Self {
        let open = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        // Where the module Yama restricts tracing to children, this process lets anyone trace it.
        const SET_PTRACER: libc::c_int = 0x5961_6d61;
        let _ = set(SET_PTRACER, libc::c_ulong::MAX);
        let parent = libc::pid_t::try_from(std::process::id()).unwrap();
        Self { listener: open.local_addr().unwrap(), _open: open, parent }
    }
}

/// Whether the calling process could do it. A filter may end the process instead.
fn succeeds(attempt: Attempt, target: &Target) -> bool {
    let parent = target.parent;
    match attempt {
        // SAFETY: the path ends with a zero byte.
        Attempt::OpenFile => unsafe { libc::open(c"/".as_ptr(), libc::O_RDONLY | libc::O_DIRECTORY) >= 0 },
        Attempt::Connect => connects(target.listener),
        Attempt::Execute => {
            let arguments = [c"hearth".as_ptr(), c"--list".as_ptr(), std::ptr::null()];
            // SAFETY: it takes a number alone. What the other program says is not for the test's output.
            unsafe { libc::close(1) };
            // SAFETY: path and arguments end with a zero byte, and the list of them with a null pointer.
            unsafe { libc::execv(c"/proc/self/exe".as_ptr(), arguments.as_ptr()) };
            // It returns only if it fails.
            false
        }
        // SAFETY: the child ends at once.
        Attempt::Fork => match unsafe { libc::fork() } {
            // SAFETY: nothing of the parent's is run.
            0 => unsafe { libc::_exit(0) },
            child => child > 0,
        },
        // SAFETY: signal 0 is none; the kernel only says whether another could be sent.
        Attempt::Signal => unsafe { libc::kill(parent, 0) == 0 },
        Attempt::Trace => {
            const SEIZE: libc::c_uint = 0x4206;
            // SAFETY: it lets this process trace the other, which continues.
            unsafe { libc::ptrace(SEIZE, parent, 0usize, 0usize) == 0 }
        }
        Attempt::ReadMemory => reads_memory(parent),
        Attempt::MakeWritable => maps(libc::PROT_READ, |at, size| {
            // SAFETY: the page is this process's own, and nothing uses it.
            unsafe { libc::mprotect(at, size, libc::PROT_READ | libc::PROT_WRITE) == 0 }
        }),
        Attempt::MapCode => maps(libc::PROT_READ | libc::PROT_EXEC, |_, _| true),
        // SAFETY: it takes numbers alone.
        Attempt::Duplicate => unsafe { libc::fcntl(2, libc::F_DUPFD, 3) >= 0 },
        // SAFETY: it takes numbers alone.
        Attempt::BeDumped => unsafe { libc::prctl(libc::PR_GET_DUMPABLE) != 0 },
        // SAFETY: it takes numbers alone.
        Attempt::GainPrivileges => unsafe { libc::prctl(libc::PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1 },
        Attempt::UseCapabilities => has_capabilities(),
    }
}

fn connects(to: SocketAddr) -> bool {
    let (address, size) = addr::to_raw(to);
    // SAFETY: it takes numbers alone.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0) };
    // SAFETY: the address is readable for its size.
    socket >= 0 && unsafe { libc::connect(socket, (&raw const address).cast(), size) == 0 }
}

fn reads_memory(parent: libc::pid_t) -> bool {
    let mut copy = [0u8; 16];
    let to = libc::iovec { iov_base: copy.as_mut_ptr().cast(), iov_len: copy.len() };
    // The parent has it at the same address.
    let from = libc::iovec { iov_base: SECRET.as_ptr().cast_mut().cast(), iov_len: SECRET.len() };
    // SAFETY: `copy` is writable for its length; the kernel checks the other process's addresses.
    let read = unsafe { libc::process_vm_readv(parent, &to, 1, &from, 1, 0) };
    read == 16 && copy == SECRET
}

fn maps(protection: libc::c_int, then: impl FnOnce(*mut libc::c_void, usize) -> bool) -> bool {
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: it maps new memory, at a place that the kernel chooses.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), 4_096, protection, kind, -1, 0) };
    at != libc::MAP_FAILED && then(at, 4_096)
}

fn has_capabilities() -> bool {
    let header = CapabilityHeader { version: CAPABILITY_VERSION_3, pid: 0 };
    let mut sets = [CapabilitySets::default(); 2];
    // SAFETY: both structures have the form of this version; the second is written.
    let answer = unsafe { libc::syscall(libc::SYS_capget, &raw const header, sets.as_mut_ptr()) };
    answer == 0 && sets.iter().any(|set| set.effective != 0 || set.permitted != 0)
}

/// How an attempt ends in a process with these steps; `None` where the machine lacks one of them.
fn is_refused(attempt: impl Fn() -> bool, steps: &[Step]) -> Option<bool> {
    // SAFETY: the child makes system calls; what it allocates is the C library's, which may fork beside other threads.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "{}", io::Error::last_os_error());
    if child == 0 {
        let code = match steps.iter().try_for_each(|step| step.take(&CALLS)) {
            Ok(()) if attempt() => ALLOWED,
            Ok(()) => REFUSED,
            Err(_) => NO_SUCH_STEP,
        };
        // SAFETY: nothing of the parent's is run.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: `status` is writable, and the child is ours.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    if libc::WIFSIGNALED(status) {
        assert_eq!(libc::WTERMSIG(status), libc::SIGSYS, "the filter ended it");
        return Some(true);
    }
    match libc::WEXITSTATUS(status) {
        REFUSED => Some(true),
        NO_SUCH_STEP => None,
        // Another program's code, where this one was left for it.
        _ => Some(false),
    }
}

fn try_with(attempt: Attempt, target: &Target, steps: &[Step]) -> Option<bool> {
    is_refused(|| succeeds(attempt, target), steps)
}

/// The steps that this machine has.
fn available() -> Vec<Step> {
    let has = |step: &Step| {
        let steps = [Step::NoNewPrivileges, *step];
        let is_there = is_refused(|| false, &steps).is_some();
        assert!(is_there || MAY_BE_MISSING.contains(step), "the kernel refuses {}", step.name());
        is_there
    };
    Step::ALL.into_iter().filter(has).collect()
}

#[test]
fn every_attempt_fails_in_the_whole_sandbox() {
    let (target, steps) = (Target::new(), available());
    for (attempt, _) in ATTEMPTS {
        assert_eq!(try_with(attempt, &target, &steps), Some(true), "{attempt:?} in {steps:?}");
    }
}

#[test]
fn attempts_succeed_without_a_sandbox() {
    let target = Target::new();
    for attempt in ALWAYS_ALLOWED {
        assert_eq!(try_with(attempt, &target, &[]), Some(false), "{attempt:?}");
    }
}

#[test]
fn each_step_stops_what_it_is_for() {
    let (target, available) = (Target::new(), available());
    for (attempt, steps) in ATTEMPTS {
        for step in steps.iter().filter(|step| available.contains(step)) {
            // Without root a filter needs this one before it.
            let alone = [Step::NoNewPrivileges, *step];
            assert_eq!(try_with(attempt, &target, &alone), Some(true), "{attempt:?} with {step:?} alone");
        }
    }
    for step in Step::ALL {
        assert!(ATTEMPTS.iter().any(|(_, steps)| steps.contains(&step)), "no attempt shows {step:?}");
    }
}

#[test]
fn attempts_succeed_with_their_steps_left_out() {
    let (target, available) = (Target::new(), available());
    for (attempt, stopped_by) in ATTEMPTS.into_iter().filter(|(attempt, _)| ALWAYS_ALLOWED.contains(attempt)) {
        // Namespaces and Landlock stop more than one attempt each, in ways that differ with the kernel.
        let stops = |step: &Step| stopped_by.contains(step) || MAY_BE_MISSING.contains(step);
        // A new descriptor and a new process count against the limits.
        let is_limited = matches!(attempt, Attempt::OpenFile | Attempt::Connect | Attempt::Fork);
        let is_general = |step: &Step| *step == Step::SystemCalls || (*step == Step::Limits && is_limited);
        let rest: Vec<Step> = available.iter().copied().filter(|step| !stops(step) && !is_general(step)).collect();
        assert_eq!(try_with(attempt, &target, &rest), Some(false), "{attempt:?} with {rest:?}");
    }
}

#[test]
fn new_memory_stays_allowed() {
    let map = || maps(libc::PROT_READ | libc::PROT_WRITE, |_, _| true);
    assert_eq!(is_refused(map, &[Step::NoNewPrivileges, Step::SystemCalls]), Some(false));
}

#[test]
fn descriptors_are_closed_but_for_those_that_are_kept() {
    let kept = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let other = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let numbers = [&kept, &other].map(std::os::fd::AsRawFd::as_raw_fd);
    let is_closed_rightly = move || {
        let closed = close_others(&[numbers[0]]).is_ok();
        // SAFETY: it takes numbers alone.
        let [is_kept, is_other] = numbers.map(|number| unsafe { libc::fcntl(number, libc::F_GETFD) >= 0 });
        closed && is_kept && !is_other
    };
    assert_eq!(is_refused(is_closed_rightly, &[]), Some(false));
}
