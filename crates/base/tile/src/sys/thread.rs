//! thread: where the calling thread may run, and what it has used.

use std::fs::File;
use std::io::{Error, Result};
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// Returns the cores on which this process may run, ascending.
pub fn allowed_cores() -> Result<Vec<usize>> {
    // SAFETY: an all-zero cpu_set_t is a valid empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is a cpu_set_t of the size given; pid 0 means the calling thread.
    let rc = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) };
    if rc != 0 {
        return Err(Error::last_os_error());
    }
    let max = libc::CPU_SETSIZE as usize;
    // SAFETY: every index is below CPU_SETSIZE.
    Ok((0..max).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect())
}

/// Pins the calling thread to `cores`.
pub fn pin_to(cores: &[usize]) -> Result<()> {
    // SAFETY: an all-zero cpu_set_t is a valid empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for &core in cores.iter().filter(|&&c| c < libc::CPU_SETSIZE as usize) {
        // SAFETY: `core` is below CPU_SETSIZE.
        unsafe { libc::CPU_SET(core, &mut set) };
    }
    // SAFETY: `set` is a cpu_set_t of the size given; pid 0 means the calling thread.
    let rc = unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) };
    if rc == 0 { Ok(()) } else { Err(Error::last_os_error()) }
}

/// Asks the kernel to run the calling thread for at most `slice` at a time, and to schedule it sooner in return when it
/// wakes: it then precedes threads on its core with longer slices. Has no effect on kernels before 6.12.
pub fn prefer_short_slices(slice: Duration) -> Result<()> {
    // SAFETY: an all-zero sched_attr is a valid value to be overwritten.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    let size = size_of::<libc::sched_attr>() as u32;
    // SAFETY: `attributes` is a writable sched_attr of the size given; pid 0 means the calling thread.
    let rc = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &mut attributes, size, 0) };
    if rc != 0 {
        return Err(Error::last_os_error());
    }
    attributes.size = size;
    attributes.sched_runtime = u64::try_from(slice.as_nanos()).unwrap_or(u64::MAX);
    // SAFETY: `attributes` is a sched_attr that tells its own size; pid 0 means the calling thread.
    let rc = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &attributes, 0) };
    if rc == 0 { Ok(()) } else { Err(Error::last_os_error()) }
}

/// The kernel's id of the calling thread.
pub fn id() -> u64 {
    // SAFETY: gettid has no arguments and cannot fail.
    (unsafe { libc::gettid() }) as u64
}

/// CPU time of the calling thread, in nanoseconds.
pub fn cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time of the whole process, in nanoseconds.
pub fn process_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID)
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a writable timespec.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Voluntary and involuntary context switches of the calling thread.
pub fn context_switches() -> (u64, u64) {
    // SAFETY: an all-zero rusage is a valid value to be overwritten.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is a writable rusage.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut usage) };
    (usage.ru_nvcsw as u64, usage.ru_nivcsw as u64)
}

/// The kernel's account of how long a thread was ready while its core ran something else.
#[derive(Debug)]
pub struct CoreWait(Option<File>);

impl CoreWait {
    /// Opens the account of the calling thread.
    pub fn of_this_thread() -> Self {
        Self(File::open("/proc/thread-self/schedstat").ok())
    }

    /// Nanoseconds so far; 0 if the kernel does not report it.
    pub fn ns(&self) -> u64 {
        let mut text = [0; 96];
        let read = self.0.as_ref().and_then(|file| file.read_at(&mut text, 0).ok()).unwrap_or(0);
        // The fields are: time running, time waiting, number of time slices.
        let waited = std::str::from_utf8(&text[..read]).ok().and_then(|text| text.split_whitespace().nth(1));
        waited.and_then(|waited| waited.parse().ok()).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_slices_are_asked_for_again_and_again() {
        for micros in [200, 1_000] {
            match prefer_short_slices(Duration::from_micros(micros)) {
                Ok(()) => {}
                // A kernel or container without this system call.
                Err(why) if matches!(why.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {}
                Err(why) => panic!("an ordinary thread may ask: {why}"),
            }
        }
    }

    #[test]
    fn core_wait_is_sampled_and_absent_without_a_source() {
        let wait = CoreWait::of_this_thread();
        let first = wait.ns();
        std::thread::yield_now();
        assert!(wait.ns() >= first);
        let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        assert_eq!(wait.0.is_some(), !stat.is_empty());
        assert_eq!(CoreWait(None).ns(), 0);
    }
}
