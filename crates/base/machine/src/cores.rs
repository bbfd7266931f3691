//! Cores: which there are, which this process may use, which share a physical core, which are kept for it.
//!
//! reads   `/sys/devices/system/cpu`, `/proc/self/status`, `/proc/self/cgroup`, `/sys/fs/cgroup`
//! source  cputopology.rst and kernel-parameters.txt (`isolcpus`, `nohz_full`) of the kernel's documentation

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::{Root, core_list, quota};

const FOLDER: &str = "/sys/devices/system/cpu";

/// The machine's cores. A core is a CPU in the kernel's terms: one hyperthread where there are several.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Cores {
    /// Cores that are online.
    pub online: Vec<usize>,
    /// Cores that could be switched on.
    pub offline: Vec<usize>,
    /// Cores that this process may run on, by its affinity and its cpuset.
    pub allowed: Vec<usize>,
    /// CPU quota of its control groups, in cores.
    pub quota: Option<f64>,
    /// Cores by socket number; empty if the kernel does not report them.
    pub packages: BTreeMap<usize, Vec<usize>>,
    /// The hyperthreads of each physical core.
    pub siblings: Vec<Vec<usize>>,
    /// Kept free of other programs by `isolcpus`.
    pub isolated: Vec<usize>,
    /// Without a timer while one thread runs, by `nohz_full`.
    pub tickless: Vec<usize>,
}

impl Cores {
    /// Reads the cores from the kernel.
    pub fn read(root: &Root) -> Self {
        let online = match root.cores(format!("{FOLDER}/online")) {
            list if !list.is_empty() => list,
            _ => root.numbered(FOLDER, "cpu"),
        };
        let allowed = allowed(root).unwrap_or_else(|| online.clone());
        let topology = |core: usize, file: &str| format!("{FOLDER}/cpu{core}/topology/{file}");
        let (mut siblings, mut packages) = (BTreeSet::new(), BTreeMap::<usize, Vec<usize>>::new());
        for &core in &online {
            let mut group = root.cores(topology(core, "thread_siblings_list"));
            group.retain(|sibling| online.contains(sibling));
            siblings.insert(if group.is_empty() { vec![core] } else { group });
            // An ARM kernel reports -1 for unknown.
            if let Some(package) = root.value(topology(core, "physical_package_id")) {
                packages.entry(package).or_default().push(core);
            }
        }
        Self {
            offline: root.cores(format!("{FOLDER}/offline")),
            allowed,
            quota: quota::of(root),
            packages,
            siblings: siblings.into_iter().collect(),
            isolated: root.cores(format!("{FOLDER}/isolated")),
            tickless: root.cores(format!("{FOLDER}/nohz_full")),
            online,
        }
    }

    /// Other hyperthreads of a core's physical core.
    pub fn siblings_of(&self, core: usize) -> Vec<usize> {
        let group = self.siblings.iter().find(|group| group.contains(&core));
        group.into_iter().flatten().copied().filter(|sibling| *sibling != core).collect()
    }

    /// Number of cores that this process can use: those allowed, or fewer by its quota.
    pub fn usable(&self) -> f64 {
        let allowed = self.allowed.len() as f64;
        self.quota.map_or(allowed, |quota| quota.min(allowed))
    }
}

fn allowed(root: &Root) -> Option<Vec<usize>> {
    let status = root.text("/proc/self/status")?;
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    Some(core_list::parse(list))
}

/// Number of cores that this process can use; an error if the kernel does not report it.
pub fn usable(root: &Root) -> std::io::Result<f64> {
    let allowed = allowed(root).filter(|cores| !cores.is_empty());
    let allowed = allowed.ok_or_else(|| std::io::Error::other("/proc/self/status has no Cpus_allowed_list"))?;
    Ok(Cores { allowed, quota: quota::of(root), ..Cores::default() }.usable())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{board, container, guest, server};

    #[test]
    fn a_server_of_two_sockets_with_hyperthreads() {
        let cores = Cores::read(&server().root);
        assert_eq!(cores.online, (0..16).collect::<Vec<_>>());
        assert_eq!(cores.packages.len(), 2);
        assert_eq!(cores.packages[&1], [4, 5, 6, 7, 12, 13, 14, 15]);
        assert_eq!(cores.siblings.len(), 8);
        assert_eq!(cores.siblings_of(3), [11]);
        assert_eq!((&cores.isolated[..], &cores.tickless[..]), (&[6, 7][..], &[6, 7][..]));
        assert_eq!(cores.allowed.len(), 14, "what is isolated is nobody's by itself");
        assert_eq!(cores.usable(), 14.0);
    }

    #[test]
    fn a_guest_of_two_cores() {
        let cores = Cores::read(&guest().root);
        assert_eq!(cores.siblings, [[0], [1]]);
        assert!(cores.siblings_of(0).is_empty() && cores.isolated.is_empty() && cores.tickless.is_empty());
        assert_eq!(cores.usable(), 2.0);
    }

    #[test]
    fn a_container_has_less_than_its_machine() {
        let made = container();
        let cores = Cores::read(&made.root);
        assert_eq!((cores.online.len(), &cores.allowed[..]), (8, &[2, 3, 4, 5][..]));
        assert_eq!((cores.quota, cores.usable()), (Some(2.5), 2.5));
        assert_eq!(usable(&made.root).unwrap(), 2.5);
    }

    #[test]
    fn a_board_that_tells_little() {
        let made = board();
        let cores = Cores::read(&made.root);
        assert_eq!(cores.online, [0, 1, 2, 3], "from the folders' names");
        assert_eq!(cores.allowed, cores.online);
        assert!(cores.packages.is_empty(), "-1 is no socket");
        assert_eq!(cores.siblings.len(), 4);
        assert!(usable(&made.root).is_err());
    }

    #[test]
    fn this_machine() {
        let cores = Cores::read(&Root::default());
        assert!(!cores.allowed.is_empty() && cores.usable() > 0.0);
        assert_eq!(usable(&Root::default()).unwrap(), cores.usable());
    }
}
