//! Checks that run before a chain is created, opened or replayed, so that a node that cannot start fails at once.
//!
//! reads   the workspace of a node with the same name, the file of emulated links, the huge pages

use hearth_pipeline::net::links::LinksWatch;
use hearth_ring::{Observer, WorkspaceError};
use hearth_tile::topology::Topology;

use crate::config::{Config, workspace_path};
use crate::hugepages::{self, PagesError};
use crate::peers::socket::links_config;

/// Why a node cannot start.
#[derive(Debug, thiserror::Error)]
pub enum PreflightError {
    /// A node with this name is running.
    #[error("{0} ({1})")]
    Running(WorkspaceError, &'static str),
    /// The workspace path holds a file that is not a workspace.
    #[error(transparent)]
    Foreign(WorkspaceError),
    /// The file of the emulated network is invalid.
    #[error("development.links.file: {0}")]
    Links(String),
    /// The huge pages are not available.
    #[error(transparent)]
    Pages(#[from] PagesError),
}

/// How to name a node of `hearth run`.
pub const NAME_OF_RUN: &str = "`--name` gives this one another, or `name` in the configuration";
/// How to name the node of a bench.
pub const NAME_OF_BENCH: &str = "`name = \"…\"` in a file that --config names; or wait until that one has ended";

/// Runs all checks; `how` explains how to set a name.
pub fn check(config: &Config, topology: &Topology, how: &'static str) -> Result<(), PreflightError> {
    nobody_has_the_name(config, how)?;
    if let Some(links) = links_config(config) {
        LinksWatch::open(&links).map_err(PreflightError::Links)?;
    }
    Ok(hugepages::check(config, topology)?)
}

/// Refuses the name of a running node before its ports are checked, and a file that is not a workspace before a chain
/// is created.
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
        // Any other problem is reported when the node creates its workspace.
        _ => Ok(()),
    }
}
