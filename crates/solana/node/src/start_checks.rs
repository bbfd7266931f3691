//! What is looked at before a chain is made, opened or replayed, so that a node that cannot start says so at once.
//!
//! reads   the workspace of a node of the same name, the file of emulated links, the huge pages
//! writes  nothing

use hearth_pipeline::net::links::LinksWatch;
use hearth_ring::{Observer, WorkspaceError};
use hearth_tile::topology::Topology;

use crate::config::{Config, workspace_path};
use crate::hugepages::{self, PagesError};
use crate::peers::socket::links_config;

/// Why a node would not start.
#[derive(Debug, thiserror::Error)]
pub enum PreflightError {
    /// A node of this name runs.
    #[error("{0} ({1})")]
    Running(WorkspaceError, &'static str),
    /// The path of the workspace holds a file that is no workspace.
    #[error(transparent)]
    Foreign(WorkspaceError),
    /// The emulated network.
    #[error("development.links.file: {0}")]
    Links(String),
    /// Pages.
    #[error(transparent)]
    Pages(#[from] PagesError),
}

/// How `hearth run` gives a node a name.
pub const NAME_OF_RUN: &str = "`hearth run --name`, or `name` in the configuration";
/// How a bench gives its node a name.
pub const NAME_OF_BENCH: &str = "`name = \"…\"` in a file that --config names; or wait until that one has ended";

/// Looks at all of it; `how` says how a name is given.
pub fn check(config: &Config, topology: &Topology, how: &'static str) -> Result<(), PreflightError> {
    nobody_has_the_name(config, how)?;
    if let Some(links) = links_config(config) {
        LinksWatch::open(&links).map_err(PreflightError::Links)?;
    }
    Ok(hugepages::check(config, topology)?)
}

/// Refuses the name of a running node before its ports are looked at, and a file that is no workspace before a chain is
/// made.
pub fn nobody_has_the_name(config: &Config, how: &'static str) -> Result<(), PreflightError> {
    let path = workspace_path(config);
    match Observer::attach(&path) {
        Ok(observer) if observer.is_alive() => {
            Err(PreflightError::Running(WorkspaceError::InUse { path, pid: observer.pid() }, how))
        }
        // An empty file becomes the workspace.
        Err(why @ WorkspaceError::NotWorkspace { .. })
            if path.metadata().is_ok_and(|found| !found.is_file() || found.len() > 0) =>
        {
            Err(PreflightError::Foreign(why))
        }
        // Whatever else lies there, the node says when it makes its workspace.
        _ => Ok(()),
    }
}
