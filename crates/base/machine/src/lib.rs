//! What this machine is, what is not ideal in it for a node, and how to mend it.
//!
//! reads   `/proc`, `/sys`, below a [`Root`], so that tests read made-up machines
//! writes  nothing; [`configure::init`] and [`configure::fini`] settings of the machine
//! memory  the description
//! source  proc(5), sysfs(5), cgroups(7) and the kernel's documentation named in each module
//!
//! Whatever a kernel, a guest or a container does not tell is absent here, never an error and never made up.

pub mod caches;
pub mod configure;
pub mod core_list;
pub mod cores;
pub mod memory;
pub mod neighbours;
pub mod network;
pub mod port;
pub mod process;
pub mod processor;
pub mod quota;
mod root;
pub mod settings;
pub mod sockets;
mod table;
#[cfg(test)]
mod testing;

use serde::Serialize;

pub use root::Root;

/// All that was found.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Machine {
    /// The processor.
    pub processor: processor::Processor,
    /// Its cores, and which may be used.
    pub cores: cores::Cores,
    /// Caches, nearest first.
    pub caches: Vec<caches::Cache>,
    /// Memory and its pages.
    pub memory: memory::Memory,
    /// Network interfaces.
    pub network: Vec<network::Interface>,
    /// The kernel and its settings.
    pub settings: settings::Settings,
    /// Who else wants the cores, where that was sampled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub neighbours: Option<neighbours::Neighbours>,
}

impl Machine {
    /// Reads everything that takes no time; neighbours are sampled by [`neighbours::Moment`].
    pub fn read(root: &Root) -> Self {
        Self {
            processor: processor::Processor::read(root),
            cores: cores::Cores::read(root),
            caches: caches::read(root),
            memory: memory::Memory::read(root),
            network: network::read(root),
            settings: settings::Settings::read(root),
            neighbours: None,
        }
    }

    /// The description as a table, and below it what a measurement on this machine should know.
    pub fn table(&self) -> String {
        table::of(self)
    }
}
