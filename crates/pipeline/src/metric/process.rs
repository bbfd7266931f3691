//! What the process and its disk tell of themselves: memory, CPU time, age, version, room.
//!
//! reads   `/proc/self/status`, the process's clock, the file system of the ledger; at each scrape
//! writes  single values
//! memory  a page of text, for a moment
//! drops   –
//! source  the names that Prometheus' own clients have (`process_…`)
//!
//! The file system is asked by statvfs: where it hangs, as a network's may, the scrape does, and no other tile on a
//! core of its own.

use std::path::Path;

use hearth_tile::sys::{disk, thread};

use super::families::{Metric, Type};

/// One value.
#[derive(Clone, Copy)]
pub(super) enum Process {
    /// CPU time of all threads.
    Cpu,
    /// Resident memory.
    Resident,
    /// When the node began.
    Start,
    /// Which version it is.
    Version,
    /// Room that the ledger's file system has left.
    DiskFree,
    /// Its size.
    DiskSize,
}

impl Process {
    /// All of them.
    pub const ALL: [Process; 6] =
        [Process::Cpu, Process::Resident, Process::Start, Process::Version, Process::DiskFree, Process::DiskSize];

    /// How it is served.
    pub fn metric(self) -> Metric {
        let (name, kind, help) = match self {
            Process::Cpu => ("process_cpu_seconds_total", Type::Counter, "CPU time of all threads."),
            Process::Resident => {
                ("process_resident_memory_bytes", Type::Gauge, "Resident memory, the workspace's links included.")
            }
            Process::Start => ("process_start_time_seconds", Type::Gauge, "When the node began, Unix time."),
            Process::Version => ("hearth_build_info", Type::Gauge, "1; the label tells the version."),
            Process::DiskFree => {
                ("hearth_disk_free_bytes", Type::Gauge, "Room left on the file system that the ledger lies on.")
            }
            Process::DiskSize => {
                ("hearth_disk_size_bytes", Type::Gauge, "Size of the file system that the ledger lies on.")
            }
        };
        let labels = self.label_values().into_iter().map(|(label, _)| label).collect();
        Metric { name: name.into(), kind, help: help.into(), labels }
    }

    /// Its labels.
    pub fn label_values(self) -> Vec<(&'static str, String)> {
        match self {
            Process::Version => vec![("version", env!("CARGO_PKG_VERSION").into())],
            _ => vec![],
        }
    }

    /// The value now; `None` where the system does not tell.
    pub fn read(self, started_unix_ns: u64, ledger: &Path) -> Option<f64> {
        let space = || disk::space(ledger).ok();
        Some(match self {
            Process::Cpu => thread::process_cpu_ns() as f64 / 1e9,
            Process::Resident => resident_bytes(&std::fs::read_to_string("/proc/self/status").ok()?)? as f64,
            Process::Start => started_unix_ns as f64 / 1e9,
            Process::Version => 1.0,
            Process::DiskFree => space()?.free_bytes as f64,
            Process::DiskSize => space()?.size_bytes as f64,
        })
    }
}

fn resident_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_can_be_read_here() {
        for process in Process::ALL {
            let value = process.read(1, &std::env::temp_dir());
            assert!(value.is_some_and(|value| value > 0.0), "{}: {value:?}", process.metric().name);
        }
        assert_eq!(Process::DiskFree.read(1, Path::new("/no/such/folder")), None);
        assert_eq!(resident_bytes("VmHWM:\t 9 kB\nVmRSS:\t  2048 kB\n"), Some(2 << 20));
        assert_eq!(resident_bytes("VmRSS: much"), None);
    }
}
