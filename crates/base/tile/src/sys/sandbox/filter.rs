//! filter: a program for the kernel that ends the process at every system call but those of a list.
//!
//! reads   a list of calls
//! writes  the filter of the calling thread
//! memory  two instructions for each call
//! source  seccomp(2), `linux/seccomp.h`: classic BPF over `struct seccomp_data`

use std::io;

/// A system call that may remain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// `read`, from descriptors that are open.
    Read,
    /// `pread64`, the same.
    ReadAt,
    /// `write`, to descriptors that are open.
    Write,
    /// `close`.
    Close,
    /// `ppoll`.
    Poll,
    /// `futex`.
    Futex,
    /// `clock_gettime`.
    Time,
    /// `clock_nanosleep` and `nanosleep`.
    Sleep,
    /// `sched_yield`.
    Yield,
    /// `getrusage`.
    Usage,
    /// `gettid`.
    ThreadId,
    /// `mmap` of new memory that is not executable: no file, no code.
    MapMemory,
    /// `munmap`.
    Unmap,
    /// `madvise`.
    Advise,
    /// `mlock`.
    Lock,
    /// `brk`.
    Break,
    /// `rt_sigreturn`, `restart_syscall`: what the kernel itself makes a process call.
    Resume,
    /// `exit` and `exit_group`.
    Exit,
}

impl Call {
    fn numbers(self) -> &'static [libc::c_long] {
        match self {
            Self::Read => &[libc::SYS_read],
            Self::ReadAt => &[libc::SYS_pread64],
            Self::Write => &[libc::SYS_write],
            Self::Close => &[libc::SYS_close],
            Self::Poll => &[libc::SYS_ppoll],
            Self::Futex => &[libc::SYS_futex],
            Self::Time => &[libc::SYS_clock_gettime],
            Self::Sleep => &[libc::SYS_clock_nanosleep, libc::SYS_nanosleep],
            Self::Yield => &[libc::SYS_sched_yield],
            Self::Usage => &[libc::SYS_getrusage],
            Self::ThreadId => &[libc::SYS_gettid],
            Self::MapMemory => &[libc::SYS_mmap],
            Self::Unmap => &[libc::SYS_munmap],
            Self::Advise => &[libc::SYS_madvise],
            Self::Lock => &[libc::SYS_mlock],
            Self::Break => &[libc::SYS_brk],
            Self::Resume => &[libc::SYS_rt_sigreturn, libc::SYS_restart_syscall],
            Self::Exit => &[libc::SYS_exit, libc::SYS_exit_group],
        }
    }
}

/// The number of this architecture, without which those of calls mean nothing; `None` where it is not known here.
const ARCHITECTURE: Option<u32> = if cfg!(target_arch = "x86_64") {
    Some(0xc000_003e)
} else if cfg!(target_arch = "aarch64") {
    Some(0xc000_00b7)
} else {
    None
};

/// Offsets in `struct seccomp_data`. Both architectures are little-endian: an argument's low word comes first.
const NUMBER: u32 = 0;
const ARCH: u32 = 4;
const PROTECTION: u32 = argument(2);
const FLAGS: u32 = argument(3);

const fn argument(index: u32) -> u32 {
    16 + 8 * index
}

fn load(offset: u32) -> libc::sock_filter {
    let code = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    libc::sock_filter { code, jt: 0, jf: 0, k: offset }
}

/// Compares the loaded word by `how`; skips `yes` or `no` instructions.
fn jump(how: u32, value: u32, yes: u8, no: u8) -> libc::sock_filter {
    libc::sock_filter { code: (libc::BPF_JMP | how | libc::BPF_K) as u16, jt: yes, jf: no, k: value }
}

fn answer(value: u32) -> libc::sock_filter {
    libc::sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: value }
}

fn program(architecture: u32, calls: &[Call]) -> Vec<libc::sock_filter> {
    let allow = || answer(libc::SECCOMP_RET_ALLOW);
    let kill = || answer(libc::SECCOMP_RET_KILL_PROCESS);
    let mut program = vec![load(ARCH), jump(libc::BPF_JEQ, architecture, 1, 0), kill(), load(NUMBER)];
    for call in calls {
        for number in call.numbers() {
            let number = *number as u32;
            match call {
                Call::MapMemory => program.extend([
                    jump(libc::BPF_JEQ, number, 0, 6),
                    load(PROTECTION),
                    jump(libc::BPF_JSET, libc::PROT_EXEC as u32, 2, 0),
                    load(FLAGS),
                    jump(libc::BPF_JSET, libc::MAP_ANONYMOUS as u32, 1, 0),
                    kill(),
                    allow(),
                ]),
                _ => program.extend([jump(libc::BPF_JEQ, number, 0, 1), allow()]),
            }
        }
    }
    program.push(kill());
    program
}

/// Installs the filter for the calling thread, for good.
pub fn install(calls: &[Call]) -> io::Result<()> {
    let architecture = ARCHITECTURE.ok_or(io::ErrorKind::Unsupported)?;
    let mut program = program(architecture, calls);
    let filter = libc::sock_fprog { len: program.len() as libc::c_ushort, filter: program.as_mut_ptr() };
    match set_filter(&filter) {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether the kernel knows filters: it then misses the one that this call should have named.
pub fn is_known() -> bool {
    ARCHITECTURE.is_some()
        && set_filter(std::ptr::null()) != 0
        && io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT)
}

fn set_filter(filter: *const libc::sock_fprog) -> libc::c_int {
    let mode = libc::SECCOMP_MODE_FILTER as libc::c_ulong;
    let nothing: libc::c_ulong = 0;
    // SAFETY: the kernel copies the filter, which lives through the call; it refuses a null one.
    unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, filter, nothing, nothing) }
}
