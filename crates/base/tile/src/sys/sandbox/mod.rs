//! sandbox: what a process gives up for good before it handles bytes of others.
//!
//! reads   what the kernel can do
//! writes  the calling thread's rights: a process takes these steps while it has one thread
//! memory  a few hundred bytes for the filter of system calls
//! source  Firedancer's `fd_sandbox`; namespaces(7), landlock(7), seccomp(2), capabilities(7)
//!
//! No step needs root. A kernel or a container may refuse a step, and the caller then says so or ends; the others hold
//! without it.

mod filter;

use std::io;
use std::os::fd::RawFd;

pub use filter::Call;

/// One step, in the order in which they are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// No program that it runs gets more rights, by set-user-ID or by capabilities of its file.
    NoNewPrivileges,
    /// It is in no core dump, and other processes of its user cannot read its memory or trace it.
    NoDumps,
    /// Users, mounts, network, IPC and host name of its own: the network has no interface that is up.
    Namespaces,
    /// No path, no TCP port, and where the kernel knows these, no abstract Unix socket and no signal outside.
    Landlock,
    /// No capabilities.
    Capabilities,
    /// No core file, no new descriptor, no new process.
    Limits,
    /// The kernel ends the process at a system call that is not on its list.
    SystemCalls,
}

/// The version of capset's structures.
const CAPABILITY_VERSION_3: u32 = 0x2008_0522;
/// The greatest number that a capability may get: the kernel has 64 bits for them.
const CAPABILITIES_MAX: libc::c_ulong = 64;
/// Descriptors that the process may wait for at once, which is the limit on `poll`: its core's event. It may open none,
/// since the numbers below are taken.
const DESCRIPTORS_MAX: libc::rlim_t = 1;

impl Step {
    /// All steps.
    pub const ALL: [Self; 7] = [
        Self::NoNewPrivileges,
        Self::NoDumps,
        Self::Namespaces,
        Self::Landlock,
        Self::Capabilities,
        Self::Limits,
        Self::SystemCalls,
    ];

    /// What it is called where it is missing.
    pub fn name(self) -> &'static str {
        match self {
            Self::NoNewPrivileges => "no new privileges",
            Self::NoDumps => "no dumps",
            Self::Namespaces => "namespaces",
            Self::Landlock => "Landlock",
            Self::Capabilities => "no capabilities",
            Self::Limits => "resource limits",
            Self::SystemCalls => "system-call filter",
        }
    }

    /// Takes the step, for good. `calls` are the system calls that remain after the last one.
    ///
    /// # Errors
    /// The machine refuses it: nothing has changed.
    pub fn take(self, calls: &[Call]) -> io::Result<()> {
        match self {
            Self::NoNewPrivileges => set(libc::PR_SET_NO_NEW_PRIVS, 1),
            Self::NoDumps => set(libc::PR_SET_DUMPABLE, 0),
            Self::Namespaces => leave_namespaces(),
            Self::Landlock => restrict_paths(),
            Self::Capabilities => drop_capabilities(),
            Self::Limits => lower_limits(),
            Self::SystemCalls => filter::install(calls),
        }
    }
}

/// Asks the kernel to kill this process when the thread that started it ends.
pub fn end_with_parent() -> io::Result<()> {
    set(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong)
}

/// Closes every descriptor from 3 on that is not among `kept`.
///
/// # Errors
/// The kernel is older than 5.9.
pub fn close_others(kept: &[RawFd]) -> io::Result<()> {
    let mut kept: Vec<u32> = kept.iter().filter_map(|fd| u32::try_from(*fd).ok()).filter(|fd| *fd > 2).collect();
    kept.sort_unstable();
    let mut first = 3;
    for fd in kept {
        close_range(first, fd.checked_sub(1))?;
        first = first.max(fd + 1);
    }
    close_range(first, Some(u32::MAX))
}

fn close_range(first: u32, last: Option<u32>) -> io::Result<()> {
    let Some(last) = last.filter(|last| *last >= first) else { return Ok(()) };
    // SAFETY: the caller keeps every descriptor that this process still uses.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) })
}

/// Whether the kernel lets a process of this user have namespaces of its own: tried by one that ends at once.
pub fn has_namespaces() -> bool {
    // SAFETY: the child makes two system calls, which need no lock or memory of the other threads.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let code = i32::from(leave_namespaces().is_err());
        // SAFETY: it ends the child, and runs nothing of the parent's.
        unsafe { libc::_exit(code) };
    }
    let mut status = -1;
    // SAFETY: `status` is writable, and the child is ours.
    child > 0 && unsafe { libc::waitpid(child, &mut status, 0) } == child && status == 0
}

/// Landlock's version in this kernel. Fails where it has none, or has it switched off.
pub fn landlock_version() -> io::Result<u32> {
    const CREATE_RULESET_VERSION: libc::c_uint = 1;
    let nothing = std::ptr::null::<RulesetAttributes>();
    // SAFETY: with this flag the call takes no structure, and returns a number.
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, nothing, 0usize, CREATE_RULESET_VERSION) };
    u32::try_from(version).map_err(|_| io::Error::last_os_error())
}

/// Whether the kernel filters system calls by programs.
pub fn has_system_call_filters() -> bool {
    filter::is_known()
}

fn check(answer: libc::c_long) -> io::Result<()> {
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn set(option: libc::c_int, value: libc::c_ulong) -> io::Result<()> {
    let nothing: libc::c_ulong = 0;
    // SAFETY: these options take numbers alone.
    check(unsafe { libc::prctl(option, value, nothing, nothing, nothing) }.into())
}

fn lower_limits() -> io::Result<()> {
    let limits = [(libc::RLIMIT_CORE, 0), (libc::RLIMIT_NPROC, 0), (libc::RLIMIT_NOFILE, DESCRIPTORS_MAX)];
    limits.into_iter().try_for_each(|(resource, most)| {
        let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
        // SAFETY: `limit` lives through the call, which reads it.
        check(unsafe { libc::setrlimit(resource, &limit) }.into())
    })
}

fn leave_namespaces() -> io::Result<()> {
    const OWN: libc::c_int = libc::CLONE_NEWNS | libc::CLONE_NEWNET | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS;
    // SAFETY: the process has one thread, and needs no file or socket by name any more.
    let unshare = |flags| check(unsafe { libc::unshare(flags) }.into());
    // Root may do without users of its own, which some machines forbid.
    unshare(OWN | libc::CLONE_NEWUSER).or_else(|why| unshare(OWN).map_err(|_| why))
}

/// `struct landlock_ruleset_attr`: what is forbidden where no rule allows it.
#[repr(C)]
struct RulesetAttributes {
    files: u64,
    network: u64,
    scopes: u64,
}

fn restrict_paths() -> io::Result<()> {
    let version = landlock_version()?;
    let bits = |count: u32| (1u64 << count) - 1;
    let attributes = RulesetAttributes {
        files: match version {
            1 => bits(13),
            2 => bits(14),
            3 | 4 => bits(15),
            _ => bits(16),
        },
        network: if version >= 4 { bits(2) } else { 0 },
        scopes: if version >= 6 { bits(2) } else { 0 },
    };
    // Older kernels know a shorter structure.
    let size = match version {
        0..=3 => 8usize,
        4 | 5 => 16,
        _ => size_of::<RulesetAttributes>(),
    };
    // SAFETY: `attributes` is readable for `size` bytes, and lives through the call.
    let rules = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, &raw const attributes, size, 0) };
    let rules = libc::c_int::try_from(rules).ok().filter(|fd| *fd >= 0).ok_or_else(io::Error::last_os_error)?;
    // SAFETY: the descriptor was just opened; the call takes numbers alone.
    let restricted = check(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, rules, 0) });
    // SAFETY: the descriptor is this function's own.
    unsafe { libc::close(rules) };
    restricted
}

/// `struct __user_cap_header_struct`.
#[repr(C)]
struct CapabilityHeader {
    version: u32,
    pid: i32,
}

/// `struct __user_cap_data_struct`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct CapabilitySets {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

fn drop_capabilities() -> io::Result<()> {
    for capability in 0..CAPABILITIES_MAX {
        // Without privileges this fails, and there is nothing that the set would bound.
        if set(libc::PR_CAPBSET_DROP, capability).is_err() {
            break;
        }
    }
    // Fails before Linux 4.3, which has no such set.
    let _ = set(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL as libc::c_ulong);
    let header = CapabilityHeader { version: CAPABILITY_VERSION_3, pid: 0 };
    let none = [CapabilitySets::default(); 2];
    // SAFETY: both structures have the form of this version, and live through the call, which reads them.
    check(unsafe { libc::syscall(libc::SYS_capset, &raw const header, none.as_ptr()) })
}

#[cfg(test)]
mod tests;
