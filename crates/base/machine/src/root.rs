//! Where `/proc` and `/sys` are: at `/`, or in a folder with a made-up machine.
//!
//! reads   files below the folder

use std::fs::{read_dir, read_to_string};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::core_list;

/// Folders in which programs of the system are.
const PROGRAMS: [&str; 6] = ["usr/sbin", "usr/bin", "sbin", "bin", "usr/local/sbin", "usr/local/bin"];

/// The folder that everything is read below.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root(PathBuf);

impl Default for Root {
    fn default() -> Self {
        Self("/".into())
    }
}

impl Root {
    /// Another folder than `/`.
    pub fn new(folder: &Path) -> Self {
        Self(folder.to_owned())
    }

    /// Returns the place of a path of the machine, which may begin with `/`.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.0.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Returns a file's trimmed text; `None` if it does not exist or cannot be read.
    pub fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        Some(read_to_string(self.path(path)).ok()?.trim().to_owned())
    }

    /// A file's only value.
    pub fn value<T: FromStr>(&self, path: impl AsRef<Path>) -> Option<T> {
        self.text(path)?.parse().ok()
    }

    /// Returns a file's list of cores; empty if there is none.
    pub fn cores(&self, path: impl AsRef<Path>) -> Vec<usize> {
        self.text(path).map(|text| core_list::parse(&text)).unwrap_or_default()
    }

    /// Names in a folder, sorted.
    pub fn names(&self, folder: impl AsRef<Path>) -> Vec<String> {
        let entries = read_dir(self.path(folder)).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort_unstable();
        names
    }

    /// Numbers that follow `prefix` in the names of a folder, ascending: 0 and 1 of `cpu0`, `cpu1`, `cpufreq`.
    pub fn numbered(&self, folder: impl AsRef<Path>, prefix: &str) -> Vec<usize> {
        let names = self.names(folder);
        let mut numbers: Vec<usize> = names.iter().filter_map(|name| name.strip_prefix(prefix)?.parse().ok()).collect();
        numbers.sort_unstable();
        numbers
    }

    /// Finds a program of the system; `None` if no usual folder has it.
    pub fn program(&self, name: &str) -> Option<PathBuf> {
        PROGRAMS.iter().map(|folder| self.path(folder).join(name)).find(|path| path.is_file())
    }
}

/// The number after a name, of a text such as `/proc/meminfo` with its one field a line.
pub(crate) fn field(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.trim_start_matches(':').split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tree;

    #[test]
    fn files_are_found_below_the_folder() {
        let made = tree(&[("proc/one", " 7\n"), ("proc/list", "0-2,8\n"), ("sys/cpu10/x", ""), ("sys/cpu2/x", "")]);
        let root = &made.root;
        assert_eq!(root.value::<u64>("/proc/one"), Some(7));
        assert_eq!(root.value::<u64>("proc/one"), Some(7));
        assert_eq!(root.value::<u64>("/proc/two"), None);
        assert_eq!(root.cores("/proc/list"), [0, 1, 2, 8]);
        assert_eq!(root.numbered("/sys", "cpu"), [2, 10]);
        assert_eq!(root.program("ethtool"), None);
        made.write("usr/sbin/ethtool", "");
        assert_eq!(root.program("ethtool"), Some(root.path("/usr/sbin/ethtool")));
    }

    #[test]
    fn fields() {
        let text = "MemTotal:       24684092 kB\nMemFree: x\n";
        assert_eq!(field(text, "MemTotal"), Some(24_684_092));
        assert_eq!(field(text, "MemFree"), None);
        assert_eq!(field(text, "Swap"), None);
    }
}
