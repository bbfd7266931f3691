//! Memory: how much, on which node, in which pages; where file systems are mounted.
//!
//! reads   `/proc/meminfo`, `/proc/mounts`, `/sys/devices/system/node`, `/sys/kernel/mm`
//! source  numaperf.rst, hugetlbpage.rst, transhuge.rst of the kernel's documentation

use std::path::Path;

use serde::Serialize;

use crate::Root;
use crate::root::field;

const NODES: &str = "/sys/devices/system/node";
const POOLS: &str = "/sys/kernel/mm/hugepages";

/// Memory and its pages.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Memory {
    /// Total memory in bytes.
    pub total_bytes: u64,
    /// Bytes that programs could have.
    pub available_bytes: u64,
    /// NUMA nodes; a single one if the kernel reports none.
    pub nodes: Vec<Node>,
    /// Pools of reserved huge pages.
    pub huge_pages: Vec<HugePages>,
    /// `always`, `madvise` or `never`: when the kernel uses huge pages on its own.
    pub transparent: Option<String>,
    /// The same for shared memory, `/dev/shm`.
    pub transparent_shared: Option<String>,
}

/// A NUMA node: cores and the memory near them.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Node {
    /// The kernel's number of the node.
    pub number: usize,
    /// Cores of the node.
    pub cores: Vec<usize>,
    /// Memory of the node, bytes.
    pub total_bytes: u64,
    /// Free memory of the node, bytes.
    pub free_bytes: u64,
    /// The kernel's distance to each node; 10 is near.
    pub distances: Vec<u32>,
}

/// A pool of reserved pages.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HugePages {
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Pages in the pool.
    pub total: u64,
    /// Free pages that are not reserved.
    pub free: u64,
    /// Pages that the kernel may still add on demand.
    pub overcommit: u64,
}

impl HugePages {
    /// The kernel's folder of the pool for pages of `page_bytes`.
    pub fn folder(page_bytes: u64) -> String {
        format!("{POOLS}/hugepages-{}kB", page_bytes / 1024)
    }

    /// Reads one pool; `None` if the kernel has none of that size.
    pub fn read(root: &Root, page_bytes: u64) -> Option<Self> {
        let count = |name: &str| root.value::<u64>(format!("{}/{name}", Self::folder(page_bytes)));
        Some(Self {
            page_bytes,
            total: count("nr_hugepages")?,
            free: count("free_hugepages")?.saturating_sub(count("resv_hugepages").unwrap_or(0)),
            overcommit: count("nr_overcommit_hugepages")
                .unwrap_or(0)
                .saturating_sub(count("surplus_hugepages").unwrap_or(0)),
        })
    }

    /// Pages that a program can still have.
    pub fn available(&self) -> u64 {
        self.free + self.overcommit
    }
}

impl Memory {
    /// Reads the memory from the kernel.
    pub fn read(root: &Root) -> Self {
        let text = root.text("/proc/meminfo").unwrap_or_default();
        let bytes = |name: &str| field(&text, name).unwrap_or(0) * 1024;
        let pool_names = root.names(POOLS);
        let size = |name: &String| name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse::<u64>().ok();
        let mut huge_pages: Vec<_> =
            pool_names.iter().filter_map(size).filter_map(|kib| HugePages::read(root, kib * 1024)).collect();
        huge_pages.sort_by_key(|pool| pool.page_bytes);
        let mode = |file: &str| chosen(&root.text(format!("/sys/kernel/mm/transparent_hugepage/{file}"))?);
        Self {
            total_bytes: bytes("MemTotal"),
            available_bytes: bytes("MemAvailable"),
            nodes: root.numbered(NODES, "node").into_iter().map(|number| node(root, number)).collect(),
            huge_pages,
            transparent: mode("enabled"),
            transparent_shared: mode("shmem_enabled"),
        }
    }
}

fn node(root: &Root, number: usize) -> Node {
    let folder = format!("{NODES}/node{number}");
    let text = root.text(format!("{folder}/meminfo")).unwrap_or_default();
    // `Node 0 MemTotal:  1 kB`
    let prefix = format!("Node {number} ");
    let text = text.replace(&prefix, "");
    let distances = root.text(format!("{folder}/distance")).unwrap_or_default();
    Node {
        number,
        cores: root.cores(format!("{folder}/cpulist")),
        total_bytes: field(&text, "MemTotal").unwrap_or(0) * 1024,
        free_bytes: field(&text, "MemFree").unwrap_or(0) * 1024,
        distances: distances.split_whitespace().filter_map(|d| d.parse().ok()).collect(),
    }
}

/// The choice in brackets of `always [madvise] never`.
pub(crate) fn chosen(text: &str) -> Option<String> {
    Some(text.split_once('[')?.1.split_once(']')?.0.to_owned())
}

/// The kind of the file system that a path is on, by the innermost mount above it.
pub fn file_system_of(root: &Root, path: &Path) -> Option<String> {
    let mounts = root.text("/proc/mounts").unwrap_or_default();
    let path = root.path(path).canonicalize().unwrap_or_else(|_| root.path(path));
    let mounted = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        // The kernel writes a space in a path as `\040`.
        let point = fields.next()?.replace("\\040", " ");
        Some((root.path(point), fields.next()?))
    });
    // Of two mounts on one place the later one is seen.
    let innermost =
        mounted.filter(|(point, _)| path.starts_with(point)).max_by_key(|(point, _)| point.components().count());
    innermost.map(|(_, kind)| kind.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{board, server, tree};

    #[test]
    fn nodes_and_pools() {
        let memory = Memory::read(&server().root);
        assert_eq!(memory.total_bytes, 64 << 30);
        assert_eq!(memory.nodes.len(), 2);
        assert_eq!((memory.nodes[1].total_bytes, &memory.nodes[1].distances[..]), (32 << 30, &[20, 10][..]));
        assert_eq!(memory.nodes[1].cores, [4, 5, 6, 7, 12, 13, 14, 15]);
        let pools: Vec<_> = memory.huge_pages.iter().map(|pool| (pool.page_bytes, pool.total, pool.free)).collect();
        assert_eq!(pools, [(2 << 20, 8, 5), (1 << 30, 0, 0)]);
        assert_eq!(memory.transparent.as_deref(), Some("madvise"));
    }

    #[test]
    fn a_board_has_memory_and_no_more() {
        let memory = Memory::read(&board().root);
        assert_eq!(memory.total_bytes, 4 << 30);
        assert!(memory.nodes.is_empty() && memory.huge_pages.is_empty() && memory.transparent.is_none());
    }

    #[test]
    fn the_innermost_mount_counts() {
        let mounts = "overlay / overlay rw 0 0\nnone /none/huge hugetlbfs rw,pagesize=2M 0 0\ntmpfs /none/huge/in tmpfs rw 0 0\nnone /a\\040b hugetlbfs rw 0 0\n";
        let made = tree(&[("proc/mounts", mounts)]);
        let kind = |path: &str| file_system_of(&made.root, Path::new(path));
        assert_eq!(kind("/none/huge").as_deref(), Some("hugetlbfs"));
        assert_eq!(kind("/none/huge/node").as_deref(), Some("hugetlbfs"));
        assert_eq!(kind("/none/huge/in").as_deref(), Some("tmpfs"));
        assert_eq!(kind("/none/huger").as_deref(), Some("overlay"));
        assert_eq!(kind("/a b").as_deref(), Some("hugetlbfs"));
        assert_eq!(file_system_of(&tree(&[]).root, Path::new("/none")), None);
    }
}
