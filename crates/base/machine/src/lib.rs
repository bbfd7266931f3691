//! Describes this machine, finds settings that are not ideal for a node, and corrects them.
//!
//! reads   `/proc`, `/sys`, below a [`Root`], so that tests can use fake machines
//! writes  nothing; [`configure::init`] and [`configure::fini`] write settings of the machine
//! memory  the description
//! source  proc(5), sysfs(5), cgroups(7) and the kernel's documentation named in each module
//!
//! Anything that a kernel, a guest or a container does not report is absent here: never an error, and never invented.

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

/// The description of a machine that `read` collects; its JSON has the same fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Machine {
    /// The processor's model and features.
    pub processor: processor::Processor,
    /// Its cores, and which may be used.
    pub cores: cores::Cores,
    /// One entry per level, kind and size of cache, nearest first.
    pub caches: Vec<caches::Cache>,
    /// Memory and its pages.
    pub memory: memory::Memory,
    /// All interfaces that the kernel lists, virtual ones included.
    pub network: Vec<network::Interface>,
    /// The kernel and its settings.
    pub settings: settings::Settings,
    /// Competition for the cores, if it was sampled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub neighbours: Option<neighbours::Neighbours>,
}

impl Machine {
    /// Reads everything that takes no time; neighbours are sampled by [`neighbours::CpuSample`].
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

    /// Formats the description as a table, followed by remarks for measurements on this machine.
    pub fn table(&self) -> String {
        table::of(self)
    }
}
