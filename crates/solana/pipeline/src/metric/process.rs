//! process: values of the process and its disk: memory, CPU time, age, version, free space.
//!
//! reads   `/proc/self/status` and the process's clock at each scrape; the ledger's file system every [`LOOK_EVERY`]
//! writes  single values
//! memory  a page of text, briefly
//! source  the names that Prometheus' own clients use (`process_…`)
//!
//! A thread queries the file system because it may block: if the file system hangs, as a network's may, no tile does.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use hearth_tile::sys::{disk, thread};

use super::served::{Metric, Type};

/// How often to query the file system.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// The file system has not reported a value.
const UNTOLD: u64 = u64::MAX;

/// The last known state of the ledger's file system.
pub(super) struct Disk(Arc<DiskSpace>);

struct DiskSpace {
    size_bytes: AtomicU64,
    free_bytes: AtomicU64,
}

impl Disk {
    /// Starts to query this folder's file system, repeatedly for as long as this value lives.
    pub fn new(ledger: PathBuf) -> std::io::Result<Self> {
        let found = Arc::new(DiskSpace { size_bytes: AtomicU64::new(UNTOLD), free_bytes: AtomicU64::new(UNTOLD) });
        found.look(&ledger);
        let theirs = Arc::downgrade(&found);
        std::thread::Builder::new().name("disk".into()).spawn(move || watch(&theirs, &ledger))?;
        Ok(Self(found))
    }
}

/// Body of the thread. Nothing joins it, because it may hang with the file system.
fn watch(found: &Weak<DiskSpace>, ledger: &Path) {
    loop {
        std::thread::sleep(LOOK_EVERY);
        let Some(found) = found.upgrade() else { return };
        found.look(ledger);
    }
}

impl DiskSpace {
    fn look(&self, ledger: &Path) {
        let (size, free) = disk::space(ledger).map_or((UNTOLD, UNTOLD), |space| (space.size_bytes, space.free_bytes));
        self.size_bytes.store(size, Ordering::Relaxed);
        self.free_bytes.store(free, Ordering::Relaxed);
    }
}

fn known(bytes: &AtomicU64) -> Option<f64> {
    Some(bytes.load(Ordering::Relaxed)).filter(|bytes| *bytes != UNTOLD).map(|bytes| bytes as f64)
}

/// One value of the process or its disk.
#[derive(Clone, Copy)]
pub(super) enum Process {
    /// CPU time of all threads.
    Cpu,
    /// Resident memory of the process.
    Resident,
    /// When the node started.
    Start,
    /// The node's version, as a label on the value 1.
    Version,
    /// Free bytes on the ledger's file system.
    DiskFree,
    /// Bytes of the ledger's file system.
    DiskSize,
}

impl Process {
    /// All values, in the order in which they are served.
    pub const ALL: [Process; 6] =
        [Process::Cpu, Process::Resident, Process::Start, Process::Version, Process::DiskFree, Process::DiskSize];

    /// Returns how it is served.
    pub fn metric(self) -> Metric {
        let (name, kind, help) = match self {
            Process::Cpu => ("process_cpu_seconds_total", Type::Counter, "CPU time of all threads of the process."),
            Process::Resident => (
                "process_resident_memory_bytes",
                Type::Gauge,
                "Resident memory of the process, the workspace's links included.",
            ),
            Process::Start => ("process_start_time_seconds", Type::Gauge, "When the node began, Unix time."),
            Process::Version => ("hearth_build_info", Type::Gauge, "Always 1; its label has the version of the node."),
            Process::DiskFree => ("hearth_disk_free_bytes", Type::Gauge, "Free space of the ledger's file system."),
            Process::DiskSize => ("hearth_disk_size_bytes", Type::Gauge, "Size of the ledger's file system."),
        };
        let labels = self.label_values().into_iter().map(|(label, _)| label).collect();
        Metric { name: name.into(), kind, help: help.into(), labels }
    }

    /// The labels and their values.
    pub fn label_values(self) -> Vec<(&'static str, String)> {
        match self {
            Process::Version => vec![("version", env!("CARGO_PKG_VERSION").into())],
            _ => vec![],
        }
    }

    /// Reads the current value; `None` if the system does not report it.
    pub fn read(self, started_unix_ns: u64, disk: &Disk) -> Option<f64> {
        Some(match self {
            Process::Cpu => thread::process_cpu_ns() as f64 / 1e9,
            Process::Resident => resident_bytes(&std::fs::read_to_string("/proc/self/status").ok()?)? as f64,
            Process::Start => started_unix_ns as f64 / 1e9,
            Process::Version => 1.0,
            Process::DiskFree => known(&disk.0.free_bytes)?,
            Process::DiskSize => known(&disk.0.size_bytes)?,
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
        let (disk, absent) = (Disk::new(std::env::temp_dir()).unwrap(), Disk::new("/no/such/folder".into()).unwrap());
        for process in Process::ALL {
            let value = process.read(1, &disk);
            assert!(value.is_some_and(|value| value > 0.0), "{}: {value:?}", process.metric().name);
        }
        assert_eq!(Process::DiskFree.read(1, &absent), None);
        assert_eq!(resident_bytes("VmHWM:\t 9 kB\nVmRSS:\t  2048 kB\n"), Some(2 << 20));
        assert_eq!(resident_bytes("VmRSS: much"), None);
    }
}
