//! The workspace of a configuration: its file, and the pages that it is made of.

use std::path::PathBuf;

use hearth_ring::HugePages;

use super::{Config, HugeTlbFs, PageSize};

/// The workspace file of a configuration.
pub fn workspace_path(config: &Config) -> PathBuf {
    let folder = match huge_pages(&config.hugetlbfs) {
        HugePages::None => &config.hugetlbfs.workspace_path,
        _ => &config.hugetlbfs.mount_path,
    };
    hearth_ring::workspace_path(folder, &config.name)
}

/// The pages of the workspace.
pub fn huge_pages(pages: &HugeTlbFs) -> HugePages {
    match pages.max_page_size {
        PageSize::Normal => HugePages::None,
        PageSize::Huge => HugePages::TwoMiB,
        PageSize::Gigantic => HugePages::OneGiB,
    }
}
