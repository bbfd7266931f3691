//! Huge pages: whether the workspace can have those that the configuration asks for.
//!
//! reads   `/proc/mounts`, `/sys/kernel/mm/hugepages`
//! writes  nothing
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
    // What a node that died has left behind is taken over, pages and all.
    if workspace_path(config).exists() {
        return Ok(());
    }
    let needed = topology.workspace_plan(pages).size().div_ceil(pages.page_size());
    match Pool::read(&root, pages.page_size()).map(|pool| pool.available()) {
        Some(free) if free < needed => {
            Err(PagesError::TooFew { needed, free, size, pool: Pool::folder(pages.page_size()) })
        }
        // A kernel that does not say lets us try.
        _ => Ok(()),
    }
}
