//! error: what can go wrong with a workspace: what failed, where, and what to try.

use std::io;
use std::path::{Path, PathBuf};

/// Why a workspace could not be created, attached to or taken from.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkspaceError {
    /// The plan cannot be laid out.
    #[error("the workspace cannot be laid out: {reason}")]
    Plan {
        /// The part and its problem.
        reason: String,
    },
    /// A running node uses the workspace.
    #[error("{} belongs to a running node{}; stop it, or give this node another name", path.display(), of_pid(*pid))]
    InUse {
        /// Path of the workspace file, which is left as it is.
        path: PathBuf,
        /// The running node's process id; 0 if it is not written yet.
        pid: u32,
    },
    /// The file system is too small for the workspace.
    #[error(
        "{} needs {needed} bytes and its file system has {available} left; \
         make room, choose smaller links, or put the workspace elsewhere (in a container: a larger --shm-size)",
        path.display()
    )]
    NoRoom {
        /// Path of the workspace file that was to be created.
        path: PathBuf,
        /// Bytes that the plan requires.
        needed: u64,
        /// Bytes available on the file system.
        available: u64,
    },
    /// The path is not on a mounted hugetlbfs of the requested page size.
    #[error("{} is not on a hugetlbfs with pages of {wanted} bytes (found pages of {found} bytes); mount one there or set huge pages to none", path.display())]
    HugePages {
        /// Path at which the workspace was to be created.
        path: PathBuf,
        /// The planned page size in bytes.
        wanted: u64,
        /// The file system's page size in bytes.
        found: u64,
    },
    /// The file is not a workspace.
    #[error("{} is not a Hearth workspace; it is left as it is", path.display())]
    NotWorkspace {
        /// Path of the file.
        path: PathBuf,
    },
    /// The workspace was created by a program with another layout version.
    #[error("{} has workspace layout {found}, this program reads layout {expected}; use the program that made it", path.display())]
    Version {
        /// Path of the workspace file, made by another program.
        path: PathBuf,
        /// The layout version in the file.
        found: u32,
        /// The layout version of this program.
        expected: u32,
    },
    /// The file claims to be a workspace but contradicts itself.
    #[error("{} is damaged: {what}", path.display())]
    Torn {
        /// Path of the file that is damaged.
        path: PathBuf,
        /// The first contradiction that was found, in words.
        what: &'static str,
    },
    /// The plan has no link, consumer or counters region with this name.
    #[error("the workspace has no {what}")]
    Unknown {
        /// The name in the request.
        what: String,
    },
    /// The producer or consumer was already taken.
    #[error("{what} was already taken")]
    Taken {
        /// The name in the request.
        what: String,
    },
    /// The operating system refused.
    #[error("{}: cannot {doing}: {source}", path.display())]
    Io {
        /// Path of the workspace file.
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
