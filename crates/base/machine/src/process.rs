//! A process's use of the machine: memory, CPU time, and time spent waiting for cores.
//!
//! reads   `/proc/self`, `/proc/<pid>`
//! source  proc(5), sched-stats.rst of the kernel's documentation

use std::collections::BTreeMap;
use std::fs::{DirEntry, read_dir, read_to_string};
use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};

use crate::root::field;

/// Resident memory of a process (`self` or its number), bytes: now, and the highest so far.
pub fn resident_bytes(process: &str) -> Option<(u64, u64)> {
    let status = read_to_string(format!("/proc/{process}/status")).ok()?;
    let bytes = |name: &str| field(&status, name).unwrap_or(0) * 1024;
    Some((bytes("VmRSS"), bytes("VmHWM")))
}

/// CPU time of this process's threads at one moment.
#[derive(Clone, Debug)]
pub struct CpuTime {
    at: Instant,
    used_ns: u64,
    waited_ns: BTreeMap<u32, u64>,
}

/// Cores that this process had, and cores that its threads waited for, on average.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CoresHad {
    /// CPU time ÷ time.
    pub had: f64,
    /// Time in which a runnable thread had no core ÷ elapsed time; 0 if the kernel does not report it.
    pub waited_for: f64,
}

impl CpuTime {
    /// Reads the current CPU times.
    pub fn take() -> Self {
        let threads = read_dir("/proc/self/task").into_iter().flatten().flatten();
        let waited_ns = threads.filter_map(|thread| {
            let text = read_to_string(thread.path().join("schedstat")).ok()?;
            Some((thread.file_name().to_str()?.parse().ok()?, parse_waited(&text)?))
        });
        let (waited_ns, used) = (waited_ns.collect(), clock_gettime(ClockId::ProcessCPUTime));
        Self { at: Instant::now(), used_ns: used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64, waited_ns }
    }

    /// Returns the usage since `before`.
    pub fn since(&self, before: &Self) -> CoresHad {
        let elapsed = (self.at - before.at).as_nanos().max(1) as f64;
        let waited: u64 = self
            .waited_ns
            .iter()
            .map(|(thread, ns)| ns.saturating_sub(before.waited_ns.get(thread).copied().unwrap_or(0)))
            .sum();
        CoresHad { had: (self.used_ns - before.used_ns) as f64 / elapsed, waited_for: waited as f64 / elapsed }
    }
}

/// CPU time that the living threads of a process have used, nanoseconds.
pub fn cpu_ns_of(pid: u32) -> Option<u64> {
    let threads = read_dir(format!("/proc/{pid}/task")).ok()?;
    let used = |thread: DirEntry| -> Option<u64> {
        let text = read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse().ok()
    };
    Some(threads.filter_map(|thread| used(thread.ok()?)).sum())
}

/// `run wait slices`, the first two in nanoseconds.
fn parse_waited(text: &str) -> Option<u64> {
    text.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_computes_has_a_core_or_waits_for_one() {
        assert_eq!(parse_waited("10 3789134 1\n"), Some(3_789_134));
        let before = CpuTime::take();
        while before.at.elapsed().as_millis() < 50 {
            std::hint::black_box([0u8; 4096].iter().sum::<u8>());
        }
        let cores = CpuTime::take().since(&before);
        assert!(cores.had + cores.waited_for > 0.5, "{cores:?}");
    }

    #[test]
    fn this_process_uses_memory_and_time() {
        let (now, highest) = resident_bytes("self").unwrap();
        assert!(now > 100_000 && highest >= now);
        assert!(cpu_ns_of(std::process::id()).is_some());
        assert_eq!(cpu_ns_of(u32::MAX), None);
    }
}
