//! Ports for the processes that a test starts: chosen by the test, bound by the process.
//!
//! Between the two nothing else would keep another test from choosing the same port. So a range is locked, by a file,
//! while the process that chose it lives. All ports are below the system's ephemeral range.
//!
//! reads   which ranges other processes have locked
//! writes  an empty file for each range, in the folder for temporary files
//! memory  a descriptor for each chosen range

use std::fs::File;
use std::ops::Range;

use parking_lot::Mutex;

/// Ports in a range.
pub const COUNT: u16 = 10;
const PORTS: Range<u16> = 10_000..32_000;

/// The locks on the ranges of this process.
static RESERVED: Mutex<Vec<File>> = Mutex::new(Vec::new());

/// Returns the first of [`COUNT`] ports that no other test chooses while this process lives. Given the first port of a
/// range, `is_free` returns whether the ports that the caller uses are free.
///
/// # Panics
/// If no range is left.
pub fn reserve(is_free: impl Fn(u16) -> bool) -> u16 {
    let ranges = PORTS.len() / usize::from(COUNT);
    // Processes begin at different places, so that they seldom meet.
    let start = std::process::id() as usize * 37;
    let first = |number: usize| PORTS.start + ((start + number) % ranges) as u16 * COUNT;
    let chosen = (0..ranges).map(first).find(|first| lock(*first) && is_free(*first));
    chosen.expect("a range of ports that nobody has")
}

/// Locks a range; returns false if another test has it, in this process or in another.
fn lock(first: u16) -> bool {
    let path = std::env::temp_dir().join(format!("hearth-test-ports-{first}"));
    let locked = File::create(path).ok().filter(|file| file.try_lock().is_ok());
    let is_locked = locked.is_some();
    RESERVED.lock().extend(locked);
    is_locked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_range_is_given_twice() {
        let mut given: Vec<u16> = (0..20).map(|_| reserve(|_| true)).collect();
        given.sort_unstable();
        given.dedup();
        assert_eq!(given.len(), 20);
        assert!(given.iter().all(|first| PORTS.contains(first) && PORTS.contains(&(first + COUNT - 1))));
    }

    #[test]
    fn ports_in_use_are_passed_over() {
        let first = reserve(|first| first % 20 == 0);
        assert_eq!(first % 20, 0);
        assert!(!lock(first), "it is locked while this process lives");
    }
}
