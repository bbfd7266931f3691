//! The quota of CPU time that control groups give a process.
//!
//! reads   `/proc/self/cgroup`, `/sys/fs/cgroup`
//! source  cgroups(7); cgroup-v2.rst, sched-bwc.rst of the kernel's documentation

use std::fs::read_to_string;
use std::path::Path;

use crate::Root;

/// Returns the smallest quota of this process's control groups, in cores; `None` if none has one.
pub fn of(root: &Root) -> Option<f64> {
    let own = root.text("/proc/self/cgroup").unwrap_or_default();
    smallest(&root.path("/sys/fs/cgroup"), &own)
}

/// Returns the smallest quota of a process's control groups, given its `/proc/self/cgroup`, in cores. `mounted` is
/// where the groups' file systems are. In a container a path may be relative to the host and thus not exist here; its
/// prefix, the root, does.
fn smallest(mounted: &Path, own: &str) -> Option<f64> {
    let mut smallest: Option<f64> = None;
    for line in own.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(id), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else { continue };
        // Version 2 has one tree; next to version 1 it is in a folder of its own.
        let trees = match (id, controllers) {
            ("0", "") => ["".into(), "unified".into()],
            _ if controllers.split(',').any(|controller| controller == "cpu") => [controllers.to_owned(), "cpu".into()],
            _ => continue,
        };
        for tree in trees {
            let (tree, path) = (mounted.join(tree), Path::new(path.trim_start_matches('/')));
            let quotas = path.ancestors().filter_map(|group| quota_of(&tree.join(group)));
            smallest = quotas.chain(smallest).min_by(f64::total_cmp);
        }
    }
    smallest
}

/// Returns the quota of one control group, of either version.
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
        let of = |own: &str| smallest(root.path(), own);
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
}
