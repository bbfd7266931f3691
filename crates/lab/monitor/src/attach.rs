//! Finding a node's workspace and what is in it.
//!
//! reads   a workspace file, and the topology that it carries
//! writes  [`Watch`]

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use hearth_ring::{Observer, WorkspaceError};
use hearth_tile::topology::Topology;

use crate::look::Look;
use crate::threads;

/// Why nothing can be watched.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// No workspace, or none that can be read.
    #[error("{}{}", nobody(tried), lines(tried))]
    NoNode {
        /// What each attempt said.
        tried: Vec<WorkspaceError>,
    },
    /// A workspace of another build.
    #[error("the node's workspace is of another build of hearth, and cannot be read: {0}")]
    Topology(#[from] serde_json::Error),
}

impl AttachError {
    /// Whether there is no node at all.
    pub fn is_nobody(&self) -> bool {
        matches!(self, Self::NoNode { tried } if tried.iter().all(|why| kind(why) == Some(ErrorKind::NotFound)))
    }
}

/// Whether there was nothing, or something that cannot be watched.
fn nobody(tried: &[WorkspaceError]) -> &'static str {
    if tried.iter().all(|why| kind(why) == Some(ErrorKind::NotFound)) {
        "no running node to watch; start one with `hearth run`, `hearth evm run` or `hearth bench`"
    } else {
        "nothing here can be watched"
    }
}

fn lines(tried: &[WorkspaceError]) -> String {
    let hint = |why| match kind(why) {
        Some(ErrorKind::PermissionDenied) => "; watch as the user that runs the node",
        _ => "",
    };
    tried.iter().map(|why| format!("\n  {why}{}", hint(why))).collect()
}

fn kind(why: &WorkspaceError) -> Option<ErrorKind> {
    match why {
        WorkspaceError::Io { source, .. } => Some(source.kind()),
        _ => None,
    }
}

/// A node that is watched.
#[derive(Debug)]
pub struct Watch {
    path: PathBuf,
    observer: Observer,
    topology: Topology,
    cores_allowed: usize,
}

impl Watch {
    /// Attaches to the first node that runs among these workspaces; else to one that died, whose last state can still
    /// be read.
    pub fn attach(paths: &[PathBuf]) -> Result<Self, AttachError> {
        let (mut dead, mut tried) = (None, vec![]);
        for path in paths {
            match Observer::attach(path) {
                Ok(observer) if observer.is_alive() => return Self::of(path, observer),
                Ok(observer) => dead = dead.or(Some((path, observer))),
                Err(why) => tried.push(why),
            }
        }
        dead.map_or(Err(AttachError::NoNode { tried }), |(path, observer)| Self::of(path, observer))
    }

    fn of(path: &Path, observer: Observer) -> Result<Self, AttachError> {
        let topology = Topology::from_workspace(observer.topology())?;
        let cores_allowed = threads::cores_allowed(observer.pid()).unwrap_or(0);
        Ok(Self { path: path.to_owned(), observer, topology, cores_allowed })
    }

    /// The node that runs now where this one's workspace was; `None` while there is none. Fails where it is one of
    /// another build.
    pub fn successor(&self) -> Result<Option<Self>, AttachError> {
        match Observer::attach(&self.path) {
            Ok(observer) if observer.is_alive() => Self::of(&self.path, observer).map(Some),
            Err(why @ WorkspaceError::Version { .. }) => Err(AttachError::NoNode { tried: vec![why] }),
            // Not there, still this one's, or not whole yet.
            _ => Ok(None),
        }
    }

    /// What the node says it is made of.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The node's process.
    pub fn pid(&self) -> u32 {
        self.observer.pid()
    }

    /// When it began, nanoseconds since 1970.
    pub fn started_unix_ns(&self) -> u64 {
        self.observer.started_unix_ns()
    }

    /// Whether it still runs.
    pub fn is_alive(&self) -> bool {
        self.observer.is_alive()
    }

    /// Cores that the node may run on; 0 where the kernel does not tell.
    pub fn cores_allowed(&self) -> usize {
        self.cores_allowed
    }

    /// All that can be seen now.
    pub fn look(&self) -> Look {
        Look::take(&self.topology, &self.observer)
    }
}
