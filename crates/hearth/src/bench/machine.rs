//! What machine this is, and what the process uses of it.
//!
//! reads   `/proc`, `/sys/fs/cgroup`
//! writes  nothing
//! source  proc(5), cgroups(7), sched-stats.rst of the kernel's documentation

use std::collections::BTreeMap;
use std::fs::{read_dir, read_to_string};
use std::path::Path;
use std::time::Instant;

use super::report::Machine;

/// Cores the process may use: its affinity, or less if its control group, or one around that, has a smaller quota.
pub fn cores() -> std::io::Result<f64> {
    let affinity = hearth_tile::sys::thread::allowed_cores()?.len() as f64;
    let own = read_to_string("/proc/self/cgroup").unwrap_or_default();
    Ok(quota(Path::new("/sys/fs/cgroup"), &own).map_or(affinity, |q| q.min(affinity)))
}

/// The smallest quota of the control groups that a process is in, by what its `/proc/self/cgroup` says, in cores.
/// `root` is where the groups' file systems are mounted. In a container a path may be the one outside, which is not
/// found here; its beginning, the root, is.
fn quota(root: &Path, own: &str) -> Option<f64> {
    let mut smallest: Option<f64> = None;
    for line in own.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(id), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else { continue };
        // Version 2 has one tree, beside those of version 1 in a folder of its own.
        let trees = match (id, controllers) {
            ("0", "") => ["".into(), "unified".into()],
            _ if controllers.split(',').any(|controller| controller == "cpu") => [controllers.to_owned(), "cpu".into()],
            _ => continue,
        };
        for tree in trees {
            let (tree, path) = (root.join(tree), Path::new(path.trim_start_matches('/')));
            let quotas = path.ancestors().filter_map(|group| quota_of(&tree.join(group)));
            smallest = quotas.chain(smallest).min_by(f64::total_cmp);
        }
    }
    smallest
}

/// The quota of one control group, of either version.
fn quota_of(group: &Path) -> Option<f64> {
    let read = |file: &str| read_to_string(group.join(file)).ok();
    let (micros, period) = (read("cpu.cfs_quota_us"), read("cpu.cfs_period_us"));
    let first = || Some(format!("{} {}", micros?.trim(), period?.trim()));
    parse_quota(&read("cpu.max").or_else(first)?)
}

/// `max 100000`, in version 1 `-1 100000`, or `150000 100000`.
fn parse_quota(text: &str) -> Option<f64> {
    let (quota, period) = text.trim().split_once(' ')?;
    let cores = quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?;
    (cores > 0.0 && cores.is_finite()).then_some(cores)
}

/// Resident memory of a process, bytes: now, and the highest so far.
pub fn resident_bytes(process: &str) -> Option<(u64, u64)> {
    let status = read_to_string(format!("/proc/{process}/status")).ok()?;
    Some((kib_field(&status, "VmRSS:") * 1024, kib_field(&status, "VmHWM:") * 1024))
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

/// The share of the cores' time that the hypervisor gave to others from one moment to another.
pub fn steal(before: (u64, u64), now: (u64, u64)) -> f64 {
    let (stolen, total) = (now.0.saturating_sub(before.0), now.1.saturating_sub(before.1));
    if total == 0 { 0.0 } else { stolen as f64 / total as f64 }
}

/// The machine's description; the stolen share since `before`.
pub fn describe(before: (u64, u64)) -> Machine {
    let cpuinfo = read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find(|l| l.starts_with("model name")).and_then(|l| l.split_once(':'));
    let memory = kib_field(&read_to_string("/proc/meminfo").unwrap_or_default(), "MemTotal:") * 1024;
    Machine {
        cpu: model.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, name)| name.trim().to_owned()),
        kernel: read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
        memory_bytes: memory,
        steal: steal(before, jiffies()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas() {
        assert_eq!(parse_quota("150000 100000\n"), Some(1.5));
        assert_eq!(parse_quota("max 100000\n"), None);
        assert_eq!(parse_quota("-1 100000"), None);
        assert_eq!(parse_quota("100000 0"), None);
    }

    #[test]
    fn the_smallest_quota_around_a_process_counts() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let of = |own: &str| quota(root.path(), own);
        assert_eq!(of("0::/user.slice/session\n"), None, "no group has one");
        // Version 2: its own is larger than its parent's; that of a sibling is not its business.
        write("user.slice/session/cpu.max", "400000 100000\n");
        write("user.slice/cpu.max", "250000 100000\n");
        write("system.slice/cpu.max", "50000 100000\n");
        assert_eq!(of("0::/user.slice/session\n"), Some(2.5));
        assert_eq!(of("0::/user.slice\n"), Some(2.5));
        assert_eq!(of("0::/\n"), None);
        write("user.slice/cpu.max", "max 100000\n");
        assert_eq!(of("0::/user.slice/session\n"), Some(4.0));
        // In a container, with the path outside: the mounted root has the quota.
        write("cpu.max", "150000 100000\n");
        assert_eq!(of("0::/docker/0123\n"), Some(1.5));
        // Version 1, mounted under the names of its controllers; other controllers' paths do not matter.
        write("cpu,cpuacct/pods/one/cpu.cfs_quota_us", "-1\n");
        write("cpu,cpuacct/pods/one/cpu.cfs_period_us", "100000\n");
        write("cpu,cpuacct/pods/cpu.cfs_quota_us", "75000\n");
        write("cpu,cpuacct/pods/cpu.cfs_period_us", "50000\n");
        std::fs::remove_file(root.path().join("cpu.max")).unwrap();
        assert_eq!(of("5:memory:/x\n4:cpu,cpuacct:/pods/one\n1:name=systemd:/a:b\n"), Some(1.5));
        assert_eq!(of("4:cpu,cpuacct:/pods/one\n0::/user.slice/session\n"), Some(1.5), "both, in a mixed system");
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
        let (now, highest) = resident_bytes("self").unwrap();
        assert!(now > 100_000 && highest >= now);
    }
}
