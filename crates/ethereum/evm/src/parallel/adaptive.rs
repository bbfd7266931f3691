//! Decides whether to execute ahead on all threads or in order on one: by the clock, stretch by stretch.
//!
//! reads   the monotonic clock, once a stretch
//! writes  the [`Mode`] of the next transactions
//! memory  a few words
//!
//! The decision never changes a result: both modes settle every transaction on final values.

use std::time::Instant;

/// Transactions between two decisions.
const STRETCH: u32 = 64;
/// Transactions after which a stretch is broken off where nearly all had to be executed again.
const HOPELESS_AFTER: u32 = 16;
/// Fixed cost of a transaction in addition to its gas, in gas.
const WEIGHT: u64 = 2_000;
/// Transactions executed in order before ahead is tried again: at first, and at most.
const BACK_OFF: u32 = 256;
const BACK_OFF_MAX: u32 = 1 << 16;
/// A share of work done twice above which the other way is measured.
const DOUBTFUL: f64 = 0.15;
/// A share of work done twice above which ahead cannot pay on two threads.
const HOPELESS: f64 = 0.75;

/// How the transactions to come are executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Ahead,
    InOrder,
}

/// The clock and what it has measured so far.
#[derive(Debug)]
pub(super) struct AdaptiveClock {
    mode: Mode,
    began: Instant,
    /// Transactions of this stretch.
    count: u32,
    work: u64,
    work_again: u64,
    /// Whether executions of the stretch before lie in this one, so that its time says nothing.
    mixed: bool,
    /// Nanoseconds per unit of work in order, as last measured.
    in_order: Option<f64>,
    /// Transactions still to be executed in order.
    left: u32,
    back_off: u32,
}

impl AdaptiveClock {
    pub fn new() -> Self {
        Self {
            mode: Mode::Ahead,
            began: Instant::now(),
            count: 0,
            work: 0,
            work_again: 0,
            mixed: false,
            in_order: None,
            left: 0,
            back_off: BACK_OFF,
        }
    }

    /// A run begins: the time before it is not its.
    pub fn begin(&mut self) {
        self.turn(self.mode);
    }

    /// A transaction is settled: its gas, whether it was executed in its turn, whether it was executed ahead.
    pub fn settled(&mut self, gas: u64, here: bool, was_ahead: bool) -> Mode {
        self.count += 1;
        self.work += gas + WEIGHT;
        if here {
            self.work_again += gas + WEIGHT;
        }
        match self.mode {
            Mode::Ahead => {
                if self.count >= STRETCH || (self.count == HOPELESS_AFTER && self.again() > HOPELESS) {
                    self.judge();
                }
            }
            Mode::InOrder => {
                self.mixed |= was_ahead;
                self.left = self.left.saturating_sub(1);
                if self.left == 0 || self.count >= STRETCH {
                    if !self.mixed {
                        self.in_order = Some(self.rate());
                    }
                    self.turn(if self.left == 0 { Mode::Ahead } else { Mode::InOrder });
                }
            }
        }
        self.mode
    }

    fn again(&self) -> f64 {
        self.work_again as f64 / self.work as f64
    }

    fn rate(&self) -> f64 {
        self.began.elapsed().as_nanos() as f64 / self.work as f64
    }

    /// At the end of a stretch ahead.
    fn judge(&mut self) {
        let slower = self.in_order.is_some_and(|in_order| self.rate() > in_order);
        if self.again() > HOPELESS || slower {
            self.left = self.back_off;
            self.back_off = (self.back_off * 4).min(BACK_OFF_MAX);
            self.turn(Mode::InOrder);
        } else if self.again() > DOUBTFUL && self.in_order.is_none() {
            // Two stretches: the first still has transactions executed ahead.
            self.left = 2 * STRETCH;
            self.turn(Mode::InOrder);
        } else {
            self.back_off = BACK_OFF;
            self.turn(Mode::Ahead);
        }
    }

    fn turn(&mut self, mode: Mode) {
        (self.mode, self.count, self.work, self.work_again, self.mixed) = (mode, 0, 0, 0, false);
        self.began = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constant_conflicts_switch_to_one_thread() {
        let mut pace = AdaptiveClock::new();
        let modes: Vec<_> = (0..10_000).map(|_| pace.settled(30_000, true, true)).collect();
        let ahead = modes.iter().filter(|mode| **mode == Mode::Ahead).count();
        assert!(ahead < 100, "{ahead} of 10000 were executed ahead in vain");
        assert_eq!(modes[HOPELESS_AFTER as usize], Mode::InOrder);
    }

    #[test]
    fn conflict_free_load_stays_speculative() {
        let mut pace = AdaptiveClock::new();
        assert!((0..10_000).all(|_| pace.settled(30_000, false, true) == Mode::Ahead));
    }
}
