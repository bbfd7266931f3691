//! Runs an attack at a stated rate on the calling thread, within half a core.
//!
//! The cap is on the CPU time of that thread: what the attack costs the node is the node's own time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hearth_testkit::pause;
use hearth_tile::sys::thread;

/// The attacker may use one part in this many of a core.
const CORE_PARTS: u32 = 2;
/// The most of an attack between two looks at the clock.
const BURST_MAX: u64 = 64;
/// A rest while nothing is due, or the share of a core is used up.
const REST: Duration = Duration::from_millis(1);

/// An action that a hostile client repeats.
pub trait Attack {
    /// Makes up to `count` attempts, at least one if possible. Returns how many were made.
    fn burst(&mut self, count: u64) -> u64;
}

/// How far an attack has come.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reached {
    /// Attempts that were made.
    pub count: u64,
    /// Seconds that it took.
    pub seconds: f64,
    /// CPU time of the attacker's thread, in cores.
    pub cores: f64,
}

impl Reached {
    /// Attempts per second, on average.
    pub fn rate(&self) -> f64 {
        self.count as f64 / self.seconds.max(f64::MIN_POSITIVE)
    }
}

/// What others see of a running attack, and how they end it.
#[derive(Debug, Default)]
pub struct Progress {
    /// Set to end the attack.
    pub done: AtomicBool,
    /// Attempts that were made so far.
    pub made: AtomicU64,
}

/// Attacks `rate` times per second until `progress.done`.
pub fn run(attack: &mut dyn Attack, rate: u64, progress: &Progress) -> Reached {
    let begun = Instant::now();
    let cpu_begun = thread::cpu_ns();
    let cpu = || Duration::from_nanos(thread::cpu_ns() - cpu_begun);
    let mut count = 0;
    while !progress.done.load(Ordering::Acquire) {
        let elapsed = begun.elapsed();
        let due = due(elapsed, rate, count);
        let made = match due {
            0 => 0,
            _ if cpu() * CORE_PARTS > elapsed => 0,
            due => attack.burst(due.min(BURST_MAX)),
        };
        count += made;
        progress.made.store(count, Ordering::Release);
        if made == 0 {
            pause(REST);
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    Reached { count, seconds, cores: cpu().as_secs_f64() / seconds.max(f64::MIN_POSITIVE) }
}

/// Attempts that are due after this time, beyond those made.
fn due(elapsed: Duration, rate: u64, made: u64) -> u64 {
    ((elapsed.as_secs_f64() * rate as f64) as u64).saturating_sub(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes `millis` of CPU time for each attempt, and ends the attack after so many.
    struct Busy<'a> {
        millis: u64,
        left: u64,
        done: &'a AtomicBool,
    }

    impl Attack for Busy<'_> {
        fn burst(&mut self, count: u64) -> u64 {
            let count = count.min(self.left);
            let until = thread::cpu_ns() + 1_000_000 * self.millis * count;
            while thread::cpu_ns() < until {
                std::hint::spin_loop();
            }
            self.left -= count;
            self.done.store(self.left == 0, Ordering::Release);
            count
        }
    }

    #[test]
    fn rate_is_kept_from_the_start() {
        assert_eq!(due(Duration::from_millis(1_500), 1_000, 1_200), 300);
        assert_eq!(due(Duration::from_millis(1_500), 1_000, 1_600), 0);
        assert_eq!(due(Duration::ZERO, 1_000, 0), 0);
    }

    #[test]
    fn attacker_takes_half_a_core_at_most() {
        let progress = Progress::default();
        let mut attack = Busy { millis: 2, left: 150, done: &progress.done };
        let reached = run(&mut attack, 1_000_000, &progress);
        assert_eq!((reached.count, progress.made.into_inner()), (150, 150));
        // The last burst may be one of 64 attempts, 128 ms; before it the attacker is within its share.
        let seconds_min = 2.0 * (0.300 - 0.128);
        assert!(reached.seconds >= seconds_min, "{reached:?}");
        assert!(reached.rate() <= 150.0 / seconds_min, "{reached:?}");
    }
}
