//! Finds a node's workspace and its contents.
//!
//! reads   a workspace file with its topology
//! writes  [`Watch`]

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use hearth_ring::{Observer, WorkspaceError};
use hearth_tile::topology::Topology;

use crate::node_counters::NodeCounters;
use crate::threads;

/// Why no node can be watched.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// There is no workspace, or none that can be read.
    #[error("{}{}", no_node_text(tried), lines(tried))]
    NoNode {
        /// The error of each attempt.
        tried: Vec<WorkspaceError>,
    },
    /// The workspace belongs to another build.
    #[error("the node's workspace is of another build of hearth, and cannot be read: {0}")]
    Topology(#[from] serde_json::Error),
}

impl AttachError {
    /// Returns whether there is no node at all.
    pub fn is_nobody(&self) -> bool {
        matches!(self, Self::NoNode { tried } if tried.iter().all(|why| kind(why) == Some(ErrorKind::NotFound)))
    }
}

/// Says whether there was no node, or one that cannot be watched.
fn no_node_text(tried: &[WorkspaceError]) -> &'static str {
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

/// A node that is observed through its workspace, alive or dead.
#[derive(Debug)]
pub struct Watch {
    path: PathBuf,
    observer: Observer,
    topology: Topology,
    cores_allowed: usize,
}

impl Watch {
    /// Attaches to the first running node among these workspaces, or else to a dead one, whose last state can still be
    /// read.
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

    /// Returns the node that now runs in place of this one; `None` while there is none. Fails if it is of another
    /// build.
    pub fn successor(&self) -> Result<Option<Self>, AttachError> {
        match Observer::attach(&self.path) {
            Ok(observer) if observer.is_alive() => Self::of(&self.path, observer).map(Some),
            Err(why @ WorkspaceError::Version { .. }) => Err(AttachError::NoNode { tried: vec![why] }),
            // Missing, still this one's, or not complete yet.
            _ => Ok(None),
        }
    }

    /// Returns the node's topology.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Returns the node's process id.
    pub fn pid(&self) -> u32 {
        self.observer.pid()
    }

    /// Returns when the node started, in nanoseconds since 1970.
    pub fn started_unix_ns(&self) -> u64 {
        self.observer.started_unix_ns()
    }

    /// Returns whether the node still runs.
    pub fn is_alive(&self) -> bool {
        self.observer.is_alive()
    }

    /// Returns the number of cores that the node may run on; 0 if the kernel does not say.
    pub fn cores_allowed(&self) -> usize {
        self.cores_allowed
    }

    /// Takes a look at all counters.
    pub fn look(&self) -> NodeCounters {
        NodeCounters::take(&self.topology, &self.observer)
    }
}
