//! Machine settings that are not ideal for a node: what they cost, and how to correct them.
//!
//! reads   the machine, the configuration's requirements ([`MachineRequirements`])
//! writes  nothing; [`init`] and [`fini`] write settings of the machine, and a record of them
//! source  Firedancer's `configure`, whose modes and stages these are
//!
//! A stage examines the machine and reports faults. A fault in a file's value, or one that a command corrects, is
//! handled by [`init`]; one that takes a reboot, a login or a decision is only reported, for the user to handle.

mod change;
mod ethtool;
mod governor;
mod hugepages;
mod hyperthreads;
mod irq;
mod isolation;
mod limits;
mod sysctl;
mod text;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{Machine, Root};

pub use change::{ConfigureError, Outcome, Step, fini, init};
pub use text::reports;

/// A part of the set-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Huge pages: reserved and mounted where the configuration asks for them, given by the kernel elsewhere.
    Hugetlbfs,
    /// Settings of the kernel.
    Sysctl,
    /// Network cards: rings, channels, offloads.
    Ethtool,
    /// Which cores the interrupts of network cards go to.
    Irq,
    /// Cores kept for tiles alone.
    CpuIsolation,
    /// Tiles that share a physical core.
    Hyperthreads,
    /// The frequency governor of each core.
    Governor,
    /// Limits of the process.
    Limits,
}

impl Stage {
    /// All, in the order in which they are done.
    pub const ALL: [Self; 8] = [
        Self::Hugetlbfs,
        Self::Sysctl,
        Self::Ethtool,
        Self::Irq,
        Self::CpuIsolation,
        Self::Hyperthreads,
        Self::Governor,
        Self::Limits,
    ];

    /// The stage of a name.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stage| stage.name() == name)
    }

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hugetlbfs => "hugetlbfs",
            Self::Sysctl => "sysctl",
            Self::Ethtool => "ethtool",
            Self::Irq => "irq",
            Self::CpuIsolation => "cpu-isolation",
            Self::Hyperthreads => "hyperthreads",
            Self::Governor => "governor",
            Self::Limits => "limits",
        }
    }
}

/// The configuration's requirements of the machine.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineRequirements {
    /// Reserved pages for the workspace; `None` for normal ones.
    pub pages: Option<Pages>,
    /// Where the node's sockets listen.
    pub listens: IpAddr,
    /// Number of receiving tiles.
    pub net_tiles: usize,
    /// Requested kernel buffer per socket and direction, bytes.
    pub socket_buffer_bytes: u64,
    /// Files and sockets that may be open at the same time.
    pub open_files: u64,
    /// The tiles and their cores.
    pub tiles: Vec<Seat>,
}

/// The huge pages that a workspace needs, and where it finds them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pages {
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Pages that the workspace takes.
    pub count: u64,
    /// Where they are mounted.
    pub mount: PathBuf,
    /// Whether a workspace has them already.
    pub held: bool,
}

/// A tile and its core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seat {
    /// Full name, such as `verify:1`.
    pub name: String,
    /// Core that the tile is pinned to; `None` floats.
    pub core: Option<usize>,
    /// Whether its physical core should be its own.
    pub quiet: bool,
}

impl MachineRequirements {
    /// Tiles by the core that they are on.
    fn by_core(&self) -> BTreeMap<usize, Vec<&Seat>> {
        let mut cores = BTreeMap::<usize, Vec<&Seat>>::new();
        for seat in &self.tiles {
            if let Some(core) = seat.core {
                cores.entry(core).or_default().push(seat);
            }
        }
        cores
    }

    /// Returns the cores used by exactly one tile, if the machine has another core for everything else.
    fn own_cores(&self, machine: &Machine) -> Vec<usize> {
        let cores = self.by_core();
        if self.free_cores(machine).is_empty() {
            return vec![];
        }
        cores.iter().filter(|(_, seats)| seats.len() == 1).map(|(core, _)| *core).collect()
    }

    /// Returns the cores without tiles.
    fn free_cores(&self, machine: &Machine) -> Vec<usize> {
        let cores = self.by_core();
        machine.cores.online.iter().copied().filter(|core| !cores.contains_key(core)).collect()
    }
}

/// The findings of a stage.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The stage that reports.
    pub stage: Stage,
    /// Why all is well, where nothing was found.
    pub note: String,
    /// Settings that are not ideal.
    pub faults: Vec<Fault>,
}

/// Something that is not ideal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// The current value, and the reason for another.
    pub what: String,
    /// The cost of leaving it.
    pub costs: String,
    /// How to correct it.
    pub remedy: Remedy,
}

/// How a fault is corrected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Remedy {
    /// Files get a value.
    Write {
        /// Files of the kernel.
        paths: Vec<String>,
        /// The value that the files should hold.
        value: String,
    },
    /// A command is run.
    Run {
        /// The program, followed by its arguments.
        command: Vec<String>,
        /// The command that reverts it.
        undo: Vec<String>,
        /// A folder that must be there before.
        folder: Option<PathBuf>,
    },
    /// The user has to do it; holds a command, or a file and its value.
    ByHand(String),
}

impl Remedy {
    /// The command that does it.
    pub fn command(&self) -> String {
        match self {
            Self::Write { paths, value } => match paths[..] {
                [ref path] if path.starts_with("/proc/sys/") => {
                    let name = path["/proc/sys/".len()..].replace('/', ".");
                    format!("sudo sysctl -w {name}={value}")
                }
                _ => format!("echo {value} | sudo tee {}", paths.join(" ")),
            },
            Self::Run { command, folder, .. } => {
                let words: Vec<String> = command.iter().map(|word| quoted(word)).collect();
                let folder =
                    folder.as_ref().map(|path| format!("sudo mkdir -p {} && ", quoted(&path.to_string_lossy())));
                format!("{}sudo {}", folder.unwrap_or_default(), words.join(" "))
            }
            Self::ByHand(command) => command.clone(),
        }
    }
}

/// A word as the shell takes it: quoted where it would part it or read more into it.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// Looks at each stage. Changes nothing.
pub fn check(root: &Root, machine: &Machine, wants: &MachineRequirements, stages: &[Stage]) -> Vec<Report> {
    let report = |&stage: &Stage| {
        let found = match stage {
            Stage::Hugetlbfs => hugepages::look(root, machine, wants),
            Stage::Sysctl => sysctl::look(root, machine, wants),
            Stage::Ethtool => ethtool::look(root, machine, wants),
            Stage::Irq => irq::look(root, machine, wants),
            Stage::CpuIsolation => isolation::look(machine, wants),
            Stage::Hyperthreads => hyperthreads::look(machine, wants),
            Stage::Governor => governor::look(root, machine, wants),
            Stage::Limits => limits::look(machine, wants),
        };
        match found {
            StageVerdict::Well(note) => Report { stage, note, faults: vec![] },
            StageVerdict::Faults(faults) => Report { stage, note: String::new(), faults },
        }
    };
    stages.iter().map(report).collect()
}

/// The verdict of a stage.
enum StageVerdict {
    /// Nothing to correct, and why.
    Well(String),
    /// At least one setting to correct.
    Faults(Vec<Fault>),
}

impl StageVerdict {
    /// Returns the faults if there are any, or else the note.
    fn of(faults: Vec<Fault>, note: impl Into<String>) -> Self {
        if faults.is_empty() { Self::Well(note.into()) } else { Self::Faults(faults) }
    }
}

#[cfg(test)]
mod tests;
