//! log_limit: how many lines the tile may log.
//!
//! reads   the time
//! writes  yes or no
//! memory  two words
//! drops   lines beyond [`LINES_MAX`] in [`PERIOD_NS`]: the counters of the tile have all
//!
//! A leader that makes two blocks of each slot, or wrong ones, costs a line a block. Standard error may be a slow pipe,
//! and writing to it holds the tile up.

/// Lines in a period at most.
pub const LINES_MAX: u32 = 8;
/// A period, nanoseconds.
pub const PERIOD_NS: u64 = 60_000_000_000;

/// Counts the lines of a period.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogLimit {
    since_ns: u64,
    lines: u32,
}

impl LogLimit {
    /// Takes note of a line, if there may be one.
    pub fn admit(&mut self, now_ns: u64) -> bool {
        if now_ns.saturating_sub(self.since_ns) >= PERIOD_NS {
            *self = Self { since_ns: now_ns, lines: 0 };
        }
        let is_admitted = self.lines < LINES_MAX;
        self.lines += u32::from(is_admitted);
        is_admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_period_are_bounded() {
        let mut limit = LogLimit::default();
        let admitted = |limit: &mut LogLimit, now_ns| (0..100).filter(|_| limit.admit(now_ns)).count() as u32;
        assert_eq!(admitted(&mut limit, 5), LINES_MAX);
        assert_eq!(admitted(&mut limit, PERIOD_NS - 1), 0);
        assert_eq!(admitted(&mut limit, PERIOD_NS), LINES_MAX);
        assert_eq!(admitted(&mut limit, 2 * PERIOD_NS - 1), 0);
    }
}
