//! Reads the kernel's information about a process's threads.
//!
//! reads   `/proc/PID/status`, `/proc/PID/task/TID/schedstat`
//! source  proc(5)

use std::fs::read_to_string;

/// Returns how long a thread was ready while its core ran something else, in nanoseconds; `None` if the kernel does not
/// say, or the thread has ended.
pub fn waited_for_core_ns(pid: u32, tid: u64) -> Option<u64> {
    let text = read_to_string(format!("/proc/{pid}/task/{tid}/schedstat")).ok()?;
    text.split_whitespace().nth(1)?.parse().ok()
}

/// Returns how many cores the process may run on.
pub fn cores_allowed(pid: u32) -> Option<usize> {
    let text = read_to_string(format!("/proc/{pid}/status")).ok()?;
    let list = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    count_of_list(list.trim())
}

/// Counts a list of cores: `0-3,8` is five.
fn count_of_list(list: &str) -> Option<usize> {
    list.split(',')
        .map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
            (last + 1).checked_sub(first)
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_counted() {
        assert_eq!(count_of_list("0-3,8"), Some(5));
        assert_eq!(count_of_list("7"), Some(1));
        assert_eq!(count_of_list("3-1"), None);
        assert_eq!(count_of_list(""), None);
    }

    #[test]
    fn this_process_has_cores_and_waits_for_them() {
        assert!(cores_allowed(std::process::id()).unwrap() >= 1);
        let own = std::fs::read_link("/proc/thread-self").unwrap();
        let tid = own.file_name().unwrap().to_str().unwrap().parse().unwrap();
        assert!(waited_for_core_ns(std::process::id(), tid).is_some());
        assert_eq!(waited_for_core_ns(std::process::id(), u64::MAX), None);
    }
}
