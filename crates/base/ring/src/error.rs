//! What can go wrong with a workspace: what failed, where, and what to try.

use std::io;
use std::path::{Path, PathBuf};

/// Why a workspace could not be made, attached to or taken from.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkspaceError {
    /// The plan cannot be laid out.
    #[error("the workspace cannot be laid out: {reason}")]
    Plan {
        /// The part and what is wrong with it.
        reason: String,
    },
    /// A running node holds the workspace.
    #[error("{} belongs to a running node{}; stop it, or give this node another name", path.display(), of_pid(*pid))]
    InUse {
        /// The workspace file.
        path: PathBuf,
        /// The running node's process, 0 when it has not said so yet.
        pid: u32,
    },
    /// The file system cannot hold the workspace.
    #[error(
        "{} needs {needed} bytes and its file system has {available} left; \
         make room, choose smaller links, or put the workspace elsewhere (in a container: a larger --shm-size)",
        path.display()
    )]
    NoRoom {
        /// The workspace file.
        path: PathBuf,
        /// Bytes that the plan needs.
        needed: u64,
        /// Bytes that the file system has left for it.
        available: u64,
    },
    /// The path is not on a mounted hugetlbfs of the page size that was asked for.
    #[error("{} is not on a hugetlbfs with pages of {wanted} bytes (found pages of {found} bytes); mount one there or set huge pages to none", path.display())]
    HugePages {
        /// The workspace file.
        path: PathBuf,
        /// Bytes in a page as planned.
        wanted: u64,
        /// Bytes in a page of the file system that is there.
        found: u64,
    },
    /// The file is something else than a workspace.
    #[error("{} is not a Hearth workspace; it is left as it is", path.display())]
    NotWorkspace {
        /// The file.
        path: PathBuf,
    },
    /// The workspace was made by a program with another layout.
    #[error("{} has workspace layout {found}, this program reads layout {expected}; use the program that made it", path.display())]
    Version {
        /// The workspace file.
        path: PathBuf,
        /// The layout in the file.
        found: u32,
        /// The layout that this program knows.
        expected: u32,
    },
    /// The file claims to be a workspace and contradicts itself.
    #[error("{} is damaged: {what}", path.display())]
    Torn {
        /// The workspace file.
        path: PathBuf,
        /// The first contradiction.
        what: &'static str,
    },
    /// No link, consumer or counters region of this name is in the plan.
    #[error("the workspace has no {what}")]
    Unknown {
        /// What was asked for.
        what: String,
    },
    /// A producer or consumer can be taken once.
    #[error("{what} was already taken")]
    Taken {
        /// What was asked for.
        what: String,
    },
    /// The operating system refused.
    #[error("{}: cannot {doing}: {source}", path.display())]
    Io {
        /// The workspace file.
        path: PathBuf,
        /// The step that failed.
        doing: &'static str,
        /// The operating system's reason.
        source: io::Error,
    },
}

impl WorkspaceError {
    pub(crate) fn io(path: &Path, doing: &'static str, source: io::Error) -> Self {
        Self::Io { path: path.to_owned(), doing, source }
    }
}

fn of_pid(pid: u32) -> String {
    if pid == 0 { String::new() } else { format!(" (process {pid})") }
}
