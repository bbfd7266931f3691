//! What machine this is, and what the process uses of it.
//!
//! reads   `/proc`, `/sys/fs/cgroup`
//! writes  nothing
//! source  proc(5), cgroups(7), sched-stats.rst of the kernel's documentation

use std::collections::BTreeMap;
use std::fs::{read_dir, read_to_string};
use std::time::Instant;

use super::report::Machine;

/// Cores the process may use: its affinity, or less if its control group has a smaller quota.
pub fn cores() -> std::io::Result<f64> {
    let affinity = hearth_tile::sys::thread::allowed_cores()?.len() as f64;
    let quota = read_to_string("/sys/fs/cgroup/cpu.max").ok().and_then(|text| parse_quota(&text));
    Ok(quota.map_or(affinity, |q| q.min(affinity)))
}

/// `max 100000` or `150000 100000`.
fn parse_quota(text: &str) -> Option<f64> {
    let (quota, period) = text.trim().split_once(' ')?;
    Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?)
}

/// Resident memory of this process, bytes: now, and the highest so far.
pub fn resident_bytes() -> (u64, u64) {
    let status = read_to_string("/proc/self/status").unwrap_or_default();
    (kib_field(&status, "VmRSS:") * 1024, kib_field(&status, "VmHWM:") * 1024)
}

fn kib_field(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|l| l.strip_prefix(name)).unwrap_or_default();
    line.split_whitespace().next().and_then(|v| v.parse().ok()).unwrap_or(0)
}

/// What the threads of this process have had of the cores, at a moment.
#[derive(Clone, Debug)]
pub struct CpuTime {
    at: Instant,
    used_ns: u64,
    waited_ns: BTreeMap<u32, u64>,
}

/// Cores that this process had, and cores that its threads waited for, on average.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cores {
    /// CPU time ÷ time.
    pub had: f64,
    /// Time in which a thread could have run and another's ran ÷ time; 0 where the kernel does not say.
    pub waited_for: f64,
}

impl CpuTime {
    /// Reads the clocks.
    pub fn take() -> Self {
        let threads = read_dir("/proc/self/task").into_iter().flatten().flatten();
        let waited_ns = threads.filter_map(|thread| {
            let text = read_to_string(thread.path().join("schedstat")).ok()?;
            Some((thread.file_name().to_str()?.parse().ok()?, parse_waited(&text)?))
        });
        let waited_ns = waited_ns.collect();
        Self { at: Instant::now(), used_ns: hearth_tile::sys::thread::process_cpu_ns(), waited_ns }
    }

    /// What was had since `before`.
    pub fn since(&self, before: &Self) -> Cores {
        let elapsed = (self.at - before.at).as_nanos().max(1) as f64;
        let waited: u64 = self
            .waited_ns
            .iter()
            .map(|(thread, ns)| ns.saturating_sub(before.waited_ns.get(thread).copied().unwrap_or(0)))
            .sum();
        Cores { had: (self.used_ns - before.used_ns) as f64 / elapsed, waited_for: waited as f64 / elapsed }
    }
}

/// CPU time that the living threads of a process have used, nanoseconds.
pub fn cpu_ns_of(pid: u32) -> Option<u64> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let used = |thread: std::fs::DirEntry| -> Option<u64> {
        let text = read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse().ok()
    };
    Some(threads.filter_map(|thread| used(thread.ok()?)).sum())
}

/// `run wait slices`, the first two in nanoseconds.
fn parse_waited(text: &str) -> Option<u64> {
    text.split_whitespace().nth(1)?.parse().ok()
}

/// Jiffies of all cores: (stolen by the hypervisor, total).
pub fn jiffies() -> (u64, u64) {
    let stat = read_to_string("/proc/stat").unwrap_or_default();
    let fields: Vec<u64> = stat
        .lines()
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .skip(1)
        .take(8)
        .filter_map(|v| v.parse().ok())
        .collect();
    (fields.get(7).copied().unwrap_or(0), fields.iter().sum())
}

/// The machine's description; the stolen share since `before`.
pub fn describe(before: (u64, u64)) -> Machine {
    let cpuinfo = read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find(|l| l.starts_with("model name")).and_then(|l| l.split_once(':'));
    let memory = kib_field(&read_to_string("/proc/meminfo").unwrap_or_default(), "MemTotal:") * 1024;
    let (stolen, total) = jiffies();
    let (stolen, total) = (stolen.saturating_sub(before.0), total.saturating_sub(before.1));
    Machine {
        cpu: model.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, name)| name.trim().to_owned()),
        kernel: read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
        memory_bytes: memory,
        steal: if total == 0 { 0.0 } else { stolen as f64 / total as f64 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas() {
        assert_eq!(parse_quota("150000 100000\n"), Some(1.5));
        assert_eq!(parse_quota("max 100000\n"), None);
    }

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
    fn this_process_uses_memory() {
        let (now, highest) = resident_bytes();
        assert!(now > 100_000 && highest >= now);
    }
}
