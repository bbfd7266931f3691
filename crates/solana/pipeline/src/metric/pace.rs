//! pace: limits how much of a core serving metrics may use, whatever the request rate.
//!
//! reads   the start and end times of work
//! writes  whether work is allowed
//! memory  two words
//! source  the generic cell rate algorithm: a debt paid off by waiting, with credit for a burst

/// Work may use one part in this many of a core's time.
const PARTS: u64 = 16;
/// Burst credit in nanoseconds, beyond which the limit holds: two scrapes of a large node.
const BURST_NS: u64 = 2_000_000;
/// Maximum work counted per turn: after a longer absence, such as a paused machine, the time was not all work.
const TURN_NS: u64 = 1_000_000;

/// The debt from past work.
#[derive(Clone, Copy, Debug, Default)]
pub struct WorkDebt {
    paid_off: u64,
    rests_until: Option<u64>,
}

impl WorkDebt {
    /// Whether work is allowed now.
    pub fn may_work(&mut self, now: u64) -> bool {
        let until = self.paid_off.saturating_sub(PARTS * BURST_NS);
        self.rests_until = (until > now).then_some(until);
        self.rests_until.is_none()
    }

    /// Records work from `from` until `until`.
    pub fn worked(&mut self, from: u64, until: u64) {
        self.paid_off = self.paid_off.max(from) + PARTS * until.saturating_sub(from).min(TURN_NS);
    }

    /// When work is allowed again, if the last call of `may_work` refused it.
    pub fn rests_until(&self) -> Option<u64> {
        self.rests_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIECE_NS: u64 = 20_000;

    #[test]
    fn a_storm_has_its_share_and_a_scrape_is_not_held_up() {
        let (mut pace, mut now, mut worked) = (WorkDebt::default(), 7_000_000_000, 0);
        let start = now;
        while now < start + 10_000_000_000 {
            if pace.may_work(now) {
                assert_eq!(pace.rests_until(), None);
                pace.worked(now, now + PIECE_NS);
                (now, worked) = (now + PIECE_NS, worked + PIECE_NS);
            } else {
                now = pace.rests_until().expect("it rests until then");
            }
        }
        let share = (now - start) / PARTS + BURST_NS;
        assert!(worked <= share + PIECE_NS && worked > share - share / 100, "{worked} of {share}");
        // A second later a whole scrape runs in one go.
        now += 1_000_000_000;
        for _ in 0..BURST_NS / PIECE_NS {
            assert!(pace.may_work(now));
            pace.worked(now, now + PIECE_NS);
            now += PIECE_NS;
        }
    }
    #[test]
    fn preempted_turn_costs_nothing() {
        let (mut pace, mut now) = (WorkDebt::default(), 7_000_000_000);
        for _ in 0..3 {
            assert!(pace.may_work(now));
            pace.worked(now, now + 60_000_000_000);
            now += 60_000_000_000;
        }
        assert!(pace.may_work(now));
        // The same in a storm, which has used up its credit.
        while pace.may_work(now) {
            pace.worked(now, now + PIECE_NS);
            now += PIECE_NS;
        }
        now = pace.rests_until().expect("it rests until then");
        assert!(pace.may_work(now));
        pace.worked(now, now + 60_000_000_000);
        assert!(!pace.may_work(now) && pace.rests_until().is_some_and(|until| until <= now + PARTS * TURN_NS));
    }
}
