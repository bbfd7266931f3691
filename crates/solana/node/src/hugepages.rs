//! Checks that the huge pages required by the configuration are available for the workspace.
//!
//! reads   `/proc/mounts`, `/sys/kernel/mm/hugepages`
//! source  hugetlbpage.rst of the kernel's documentation

use std::path::PathBuf;

use hearth_machine::Root;
use hearth_machine::memory::{HugePages as Pool, file_system_of};
use hearth_ring::HugePages;
use hearth_tile::topology::Topology;

use crate::config::{Config, huge_pages, workspace_path};

/// Why the workspace cannot have its pages.
#[derive(Debug, thiserror::Error)]
pub enum PagesError {
    /// No hugetlbfs is mounted.
    #[error(
        "hugetlbfs.max_page_size: no hugetlbfs is mounted at {}; mount one (`mount -t hugetlbfs -o pagesize={size} none {}`), \
         name another folder (hugetlbfs.mount_path), or set it to `normal`", path.display(), path.display()
    )]
    NotMounted {
        /// The required mount point.
        path: PathBuf,
        /// The page size in the notation of `mount`.
        size: &'static str,
    },
    /// Too few are reserved.
    #[error(
        "hugetlbfs.max_page_size: the workspace takes {needed} pages of {size} and {free} are free; reserve them \
         (`echo {needed} > {pool}/nr_hugepages`), or set it to `normal`"
    )]
    TooFew {
        /// Number of pages of the workspace.
        needed: u64,
        /// Number of free pages.
        free: u64,
        /// The page size in the notation of `mount`.
        size: &'static str,
        /// The kernel's folder for this page size.
        pool: String,
    },
}

/// Checks that enough pages are available.
pub fn check(config: &Config, topology: &Topology) -> Result<(), PagesError> {
    let (root, pages) = (Root::default(), huge_pages(&config.hugetlbfs));
    let size = match pages {
        HugePages::None => return Ok(()),
        HugePages::TwoMiB => "2M",
        HugePages::OneGiB => "1G",
    };
    let path = &config.hugetlbfs.mount_path;
    if file_system_of(&root, path).as_deref() != Some("hugetlbfs") {
        return Err(PagesError::NotMounted { path: path.clone(), size });
    }
    // The workspace of a dead node is reused with its pages.
    if workspace_path(config).exists() {
        return Ok(());
    }
    let needed = topology.workspace_plan(pages).size().div_ceil(pages.page_size());
    match Pool::read(&root, pages.page_size()).map(|pool| pool.available()) {
        Some(free) if free < needed => {
            Err(PagesError::TooFew { needed, free, size, pool: Pool::folder(pages.page_size()) })
        }
        // If the kernel does not tell, just try.
        _ => Ok(()),
    }
}
