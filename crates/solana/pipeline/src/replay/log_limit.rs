//! log_limit: how many lines the tile may log.
//!
//! reads   the time
//! writes  whether a line may be logged, and what its end says
//! memory  a few words
//! drops   lines of one kind beyond [`LINES_MAX`] in [`PERIOD_NS`]: the counter that the last one names has all
//!
//! A leader that makes two blocks of each slot, or wrong ones, costs a line a block. Standard error may be a slow pipe,
//! and writing to it holds the tile up.

/// Lines of one kind in a period at most.
pub const LINES_MAX: u32 = 8;
/// A period, nanoseconds.
pub const PERIOD_NS: u64 = 60_000_000_000;

/// Counts the lines of one kind in a period.
#[derive(Clone, Copy, Debug)]
pub struct LogLimit {
    /// The metric that counts what the lines are about.
    counter: &'static str,
    since_ns: u64,
    lines: u32,
}

impl LogLimit {
    /// A limit of lines about what `counter` counts.
    pub fn new(counter: &'static str) -> Self {
        Self { counter, since_ns: 0, lines: 0 }
    }

    /// Takes note of a line, if there may be one. Returns what to put at its end: the last of a period says that more
    /// are left out.
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
