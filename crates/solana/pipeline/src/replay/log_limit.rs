//! log_limit: limits how many lines of one kind the tile logs.
//!
//! reads   the time
//! writes  whether a line may be logged, and a suffix for it
//! memory  a few words
//! drops   lines of one kind beyond [`LINES_MAX`] in [`PERIOD_NS`]: the last line names the counter that has all of
//!         them
//!
//! A leader that makes two blocks for each slot, or invalid ones, costs a line per block. Standard error may be a slow
//! pipe, and writing to it blocks the tile.

/// Maximum lines of one kind per period.
pub const LINES_MAX: u32 = 8;
/// Length of a period, in nanoseconds.
pub const PERIOD_NS: u64 = 60_000_000_000;

/// Counts the lines of one kind in a period.
#[derive(Clone, Copy, Debug)]
pub struct LogLimit {
    /// The metric that counts the same events.
    counter: &'static str,
    since_ns: u64,
    lines: u32,
}

impl LogLimit {
    /// Creates a limit for lines about the events that `counter` counts.
    pub fn new(counter: &'static str) -> Self {
        Self { counter, since_ns: 0, lines: 0 }
    }

    /// Counts a line, if one is allowed. Returns its suffix: the last line of a period says that more are suppressed.
    pub fn admit(&mut self, now_ns: u64) -> Option<String> {
        if now_ns.saturating_sub(self.since_ns) >= PERIOD_NS {
            *self = Self { since_ns: now_ns, ..Self::new(self.counter) };
        }
        if self.lines >= LINES_MAX {
            return None;
        }
        self.lines += 1;
        if self.lines < LINES_MAX {
            return Some(String::new());
        }
        Some(format!("; further lines of this kind are left out for up to a minute: {} counts all", self.counter))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_period_are_bounded() {
        let mut limit = LogLimit::new("a_counter");
        let admitted = |limit: &mut LogLimit, now_ns| (0..100).filter_map(|_| limit.admit(now_ns)).count() as u32;
        assert_eq!(admitted(&mut limit, 5), LINES_MAX);
        assert_eq!(admitted(&mut limit, PERIOD_NS - 1), 0);
        assert_eq!(admitted(&mut limit, PERIOD_NS), LINES_MAX);
        assert_eq!(admitted(&mut limit, 2 * PERIOD_NS - 1), 0);
    }

    #[test]
    fn last_line_names_the_counter() {
        let mut limit = LogLimit::new("a_counter");
        let ends: Vec<String> = (0..100).filter_map(|_| limit.admit(0)).collect();
        let (last, others) = ends.split_last().unwrap();
        assert!(last.contains("a_counter"), "{last}");
        assert!(others.iter().all(String::is_empty), "{others:?}");
    }
}
