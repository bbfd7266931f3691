//! The workspace of a configuration: its file, and its pages.

use std::net::SocketAddr;
use std::path::PathBuf;

use hearth_ring::{HugePages, Observer};

use super::{Config, HugeTlbFs, PageSize, Ports};

/// A node on this machine, as needed by commands that watch or query it.
#[derive(Clone, Debug)]
pub struct LocalNode {
    /// The node's name, which its workspace file has too.
    pub name: String,
    /// The RPC's address, unless the port has moved.
    pub rpc: SocketAddr,
    /// The folder of its workspace file.
    folder: PathBuf,
}

impl LocalNode {
    /// The node of a configuration.
    pub fn of(config: &Config) -> Self {
        let folder = match huge_pages(&config.hugetlbfs) {
            HugePages::None => &config.hugetlbfs.workspace_path,
            _ => &config.hugetlbfs.mount_path,
        };
        Self { name: config.name.clone(), rpc: Ports::of(config).rpc, folder: folder.clone() }
    }

    /// A node of another name with the same configuration.
    pub fn named(&self, name: &str) -> Self {
        Self { name: name.into(), ..self.clone() }
    }

    /// The names of the nodes that run on this machine with the same configuration, and whose workspace is readable.
    pub fn running(&self) -> Vec<String> {
        let at = self.named("").workspace();
        let (Some(folder), Some(prefix)) = (at.parent(), at.file_name().and_then(|name| name.to_str())) else {
            return vec![];
        };
        let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let names = files.filter_map(|file| Some(file.file_name().to_str()?.strip_prefix(prefix)?.to_owned()));
        let is_alive =
            |name: &String| Observer::attach(&self.named(name).workspace()).is_ok_and(|node| node.is_alive());
        let mut names: Vec<String> = names.filter(is_alive).collect();
        names.sort();
        names
    }

    /// The path of its workspace file, whether or not it runs.
    pub fn workspace(&self) -> PathBuf {
        hearth_ring::workspace_path(&self.folder, &self.name)
    }
}

/// The workspace file of a configuration.
pub fn workspace_path(config: &Config) -> PathBuf {
    LocalNode::of(config).workspace()
}

/// The pages of the workspace.
pub fn huge_pages(pages: &HugeTlbFs) -> HugePages {
    match pages.max_page_size {
        PageSize::Normal => HugePages::None,
        PageSize::Huge => HugePages::TwoMiB,
        PageSize::Gigantic => HugePages::OneGiB,
    }
}
