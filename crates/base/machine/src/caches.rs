//! Caches, and which cores share them.
//!
//! reads   `/sys/devices/system/cpu/cpu*/cache`
//! source  cacheinfo of the kernel's `sysfs-devices-system-cpu`

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::Root;

const FOLDER: &str = "/sys/devices/system/cpu";

/// All caches of one level, kind and size.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Cache {
    /// 1 is the nearest.
    pub level: u32,
    /// `Data`, `Instruction` or `Unified`.
    pub kind: String,
    /// Size of one cache in bytes.
    pub bytes: u64,
    /// The cores that share each.
    pub shared_by: Vec<Vec<usize>>,
}

/// Reads the caches; empty if the kernel does not report them.
pub fn read(root: &Root) -> Vec<Cache> {
    let mut found = BTreeMap::<(u32, String, u64), BTreeSet<Vec<usize>>>::new();
    for core in root.numbered(FOLDER, "cpu") {
        for index in root.numbered(format!("{FOLDER}/cpu{core}/cache"), "index") {
            let folder = format!("{FOLDER}/cpu{core}/cache/index{index}");
            let (level, kind) = (root.value(format!("{folder}/level")), root.text(format!("{folder}/type")));
            let bytes = root.text(format!("{folder}/size")).and_then(|text| size(&text));
            if let (Some(level), Some(kind), Some(bytes)) = (level, kind, bytes) {
                let shared = root.cores(format!("{folder}/shared_cpu_list"));
                found.entry((level, kind, bytes)).or_default().insert(shared);
            }
        }
    }
    let cache = |((level, kind, bytes), groups): ((u32, String, u64), BTreeSet<Vec<usize>>)| Cache {
        level,
        kind,
        bytes,
        shared_by: groups.into_iter().collect(),
    };
    found.into_iter().map(cache).collect()
}

/// Parses a size such as `32K` or `1M`.
fn size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    Some(digits.parse::<u64>().ok()? * unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{board, server};

    #[test]
    fn sizes() {
        assert_eq!(size("48K"), Some(48 << 10));
        assert_eq!(size("64"), Some(64));
        assert_eq!(size("1M"), Some(1 << 20));
        assert_eq!(size("x"), None);
    }

    #[test]
    fn cores_are_grouped_by_shared_cache() {
        let caches = read(&server().root);
        let levels: Vec<_> = caches.iter().map(|c| (c.level, c.kind.as_str(), c.bytes, c.shared_by.len())).collect();
        assert_eq!(levels, [(1, "Data", 49_152, 8), (2, "Unified", 1_310_720, 8), (3, "Unified", 50_331_648, 2)]);
        assert_eq!(caches[0].shared_by[3], [3, 11]);
        assert!(read(&board().root).is_empty());
    }
}
