//! Huge pages: whether the workspace can have those that the configuration asks for.
//!
//! reads   `/proc/mounts`, `/sys/kernel/mm/hugepages`
//! writes  nothing
//! source  hugetlbpage.rst of the kernel's documentation

use std::fs::read_to_string;
use std::path::{Path, PathBuf};

use hearth_ring::HugePages;
use hearth_tile::topology::Topology;

use crate::boot::{huge_pages, workspace_path};
use crate::config::Config;

/// Why the workspace cannot have its pages.
#[derive(Debug, thiserror::Error)]
pub enum PagesError {
    /// Nothing is mounted.
    #[error(
        "hugetlbfs.max_page_size: no hugetlbfs is mounted at {}; mount one (`mount -t hugetlbfs -o pagesize={size} none {}`), \
         name another folder (hugetlbfs.mount_path), or set it to `normal`", path.display(), path.display()
    )]
    NotMounted {
        /// Where.
        path: PathBuf,
        /// A page, as `mount` has it.
        size: &'static str,
    },
    /// Too few are reserved.
    #[error(
        "hugetlbfs.max_page_size: the workspace takes {needed} pages of {size} and {free} are free; reserve them \
         (`echo {needed} > {pool}/nr_hugepages`), or set it to `normal`"
    )]
    TooFew {
        /// Pages of the workspace.
        needed: u64,
        /// Pages nobody has.
        free: u64,
        /// A page, as `mount` has it.
        size: &'static str,
        /// The kernel's folder.
        pool: String,
    },
}

/// Looks whether the pages are there.
pub fn check(config: &Config, topology: &Topology) -> Result<(), PagesError> {
    let pages = huge_pages(config);
    let size = match pages {
        HugePages::None => return Ok(()),
        HugePages::TwoMiB => "2M",
        HugePages::OneGiB => "1G",
    };
    let path = &config.hugetlbfs.mount_path;
    if !is_on_hugetlbfs(&read_to_string("/proc/mounts").unwrap_or_default(), path) {
        return Err(PagesError::NotMounted { path: path.clone(), size });
    }
    // What a node that died has left behind is taken over, pages and all.
    if workspace_path(config).exists() {
        return Ok(());
    }
    let needed = topology.workspace_plan(pages).size().div_ceil(pages.page_size());
    let pool = format!("/sys/kernel/mm/hugepages/hugepages-{}kB", pages.page_size() / 1024);
    let count = |name: &str| read_to_string(format!("{pool}/{name}")).ok()?.trim().parse::<u64>().ok();
    match (count("free_hugepages"), count("nr_overcommit_hugepages")) {
        (Some(free), overcommit) if free + overcommit.unwrap_or(0) < needed => {
            Err(PagesError::TooFew { needed, free, size, pool })
        }
        // A kernel that does not say lets us try.
        _ => Ok(()),
    }
}

/// Whether the innermost mount above `path` is a hugetlbfs.
fn is_on_hugetlbfs(mounts: &str, path: &Path) -> bool {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mounted = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        Some((Path::new(fields.next()?), fields.next()?))
    });
    // Of two mounts on one place the later one is seen.
    let innermost =
        mounted.filter(|(point, _)| path.starts_with(point)).max_by_key(|(point, _)| point.components().count());
    innermost.is_some_and(|(_, kind)| kind == "hugetlbfs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_mount_counts() {
        let mounts = "overlay / overlay rw 0 0\nnone /none/huge hugetlbfs rw,pagesize=2M 0 0\ntmpfs /none/huge/in tmpfs rw 0 0\n";
        assert!(is_on_hugetlbfs(mounts, Path::new("/none/huge")));
        assert!(is_on_hugetlbfs(mounts, Path::new("/none/huge/node")));
        assert!(!is_on_hugetlbfs(mounts, Path::new("/none/huge/in")));
        assert!(!is_on_hugetlbfs(mounts, Path::new("/none/huger")));
        assert!(!is_on_hugetlbfs("", Path::new("/none/huge")));
    }
}
