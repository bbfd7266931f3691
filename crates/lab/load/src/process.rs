//! CPU time and memory of processes on this machine.
//!
//! reads   `/proc/PID/stat`, `/proc/PID/status`, `/proc/thread-self/schedstat`
//! source  proc(5)

use std::fs;
use std::time::Duration;

/// Returns the CPU time of a process so far, user and kernel time of all threads; none if there is no such process.
pub fn cpu_time(pid: u32) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may contain spaces and parentheses.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: u64 = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    // USER_HZ has been 100 on every Linux architecture for twenty years.
    Some(Duration::from_millis(ticks * 10))
}

/// Returns the resident memory of a process, in bytes.
pub fn resident(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// Returns the CPU time of several processes together.
pub fn cpu_time_of_all(pids: &[u32]) -> Option<Duration> {
    pids.iter().map(|&pid| cpu_time(pid)).sum()
}

/// CPU time of a thread, and the time it waited for a core.
#[derive(Clone, Copy, Debug)]
pub struct ThreadTime {
    /// Time in which it ran.
    pub ran: Duration,
    /// Time in which it was runnable while another thread had the core.
    pub waited: Duration,
}

impl ThreadTime {
    /// Returns the difference to an earlier reading.
    pub fn since(&self, before: &Self) -> Self {
        Self { ran: self.ran.saturating_sub(before.ran), waited: self.waited.saturating_sub(before.waited) }
    }
}

/// Returns the times of the calling thread; none if the kernel does not count them.
pub fn thread_time() -> Option<ThreadTime> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let mut fields = text.split_whitespace().map(|field| field.parse().ok().map(Duration::from_nanos));
    Some(ThreadTime { ran: fields.next()??, waited: fields.next()?? })
}

/// Returns a CPU time as a number of cores used during `time`.
pub fn cores(cpu: Duration, time: Duration) -> f64 {
    cpu.as_secs_f64() / time.as_secs_f64().max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_works_is_busy() {
        let (before, begin) = (thread_time().unwrap(), std::time::Instant::now());
        let mut x = 1u64;
        while begin.elapsed() < Duration::from_millis(50) {
            x = std::hint::black_box(x.wrapping_mul(3));
        }
        // The kernel's count of a running thread may be a tick late.
        let had = thread_time().unwrap().since(&before);
        assert!(had.ran + had.waited > Duration::from_millis(25), "{had:?}");
    }

    #[test]
    fn this_process_has_used_some() {
        let before = cpu_time(std::process::id()).unwrap();
        let begin = std::time::Instant::now();
        let mut x = 1u64;
        // On a busy machine the next tick of this process may take long.
        while cpu_time(std::process::id()).unwrap() == before {
            assert!(begin.elapsed() < Duration::from_secs(30), "no tick is counted");
            (0..10_000).for_each(|_| x = std::hint::black_box(x.wrapping_mul(3)));
        }
        assert!(resident(std::process::id()).unwrap() > 100_000);
        assert_eq!(cpu_time_of_all(&[u32::MAX]), None);
    }
}
