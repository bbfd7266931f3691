//! The kernel: release, settings that matter to us, limits of this process.
//!
//! reads   `/proc/sys`, `/proc/self/limits`, `/proc/cmdline`
//! source  proc(5), sysctl of the kernel's documentation

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use crate::Root;

/// Settings that are shown, by their names for `sysctl`.
pub const SHOWN: [&str; 8] = [
    "net.core.rmem_max",
    "net.core.wmem_max",
    "net.core.netdev_max_backlog",
    "vm.max_map_count",
    "vm.nr_hugepages",
    "kernel.perf_event_paranoid",
    "kernel.numa_balancing",
    "kernel.sched_autogroup_enabled",
];

/// The kernel and its limits for this process.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Settings {
    /// The kernel's release, as `uname -r` prints it; empty if it cannot be read.
    pub kernel: String,
    /// The settings of [`SHOWN`] that this kernel has.
    pub sysctls: BTreeMap<String, String>,
    /// Limit of open files.
    pub open_files: Option<Limit>,
    /// Limit of locked memory, bytes.
    pub locked_memory: Option<Limit>,
}

/// A resource limit; `u64::MAX` is unlimited, written as null.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Limit {
    /// The soft limit, which applies.
    #[serde(serialize_with = "null_for_none")]
    pub soft: u64,
    /// The hard limit, to which it may be raised without privileges.
    #[serde(serialize_with = "null_for_none")]
    pub hard: u64,
}

fn null_for_none<S: Serializer>(limit: &u64, to: S) -> Result<S::Ok, S::Error> {
    Some(*limit).filter(|limit| *limit < u64::MAX).serialize(to)
}

impl Settings {
    /// Reads the kernel's settings and limits.
    pub fn read(root: &Root) -> Self {
        let sysctl = |name: &&str| Some(((*name).to_owned(), root.text(file(name))?));
        let limits = root.text("/proc/self/limits").unwrap_or_default();
        Self {
            kernel: root.text("/proc/sys/kernel/osrelease").unwrap_or_default(),
            sysctls: SHOWN.iter().filter_map(sysctl).collect(),
            open_files: limit(&limits, "Max open files"),
            locked_memory: limit(&limits, "Max locked memory"),
        }
    }
}

/// The file of a setting.
pub fn file(sysctl: &str) -> String {
    format!("/proc/sys/{}", sysctl.replace('.', "/"))
}

fn limit(text: &str, name: &str) -> Option<Limit> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let mut values =
        line.split_whitespace().map(|word| if word == "unlimited" { Some(u64::MAX) } else { word.parse().ok() });
    Some(Limit { soft: values.next()??, hard: values.next()?? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{board, server};

    #[test]
    fn settings_and_limits() {
        let settings = Settings::read(&server().root);
        assert_eq!(settings.kernel, "6.8.0-45-generic");
        assert_eq!(settings.sysctls["net.core.rmem_max"], "212992");
        assert_eq!(settings.sysctls["kernel.numa_balancing"], "1");
        assert_eq!(settings.open_files, Some(Limit { soft: 1024, hard: 1_048_576 }));
        assert_eq!(settings.locked_memory, Some(Limit { soft: 8_388_608, hard: u64::MAX }));
        let json = serde_json::to_string(&settings.locked_memory).unwrap();
        assert_eq!(json, r#"{"soft":8388608,"hard":null}"#);
    }

    #[test]
    fn missing_settings_are_absent() {
        let settings = Settings::read(&board().root);
        assert!(settings.sysctls.is_empty() && settings.open_files.is_none());
    }
}
