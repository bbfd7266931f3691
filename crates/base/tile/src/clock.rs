//! The one source of time for tiles: nanoseconds, real or virtual.
//!
//! reads   the processor's time stamp counter (x86-64 with an invariant one), else the monotonic clock
//! source  in production calibrated against CLOCK_MONOTONIC; in tests it is set by hand
//!
//! Reading the counter costs a few nanoseconds, so the loop can account every frag it handles.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub use hearth_ring::unix_time;

use crate::sys;

/// A clock that can be cloned into every tile; all clones show the same time.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    Counter {
        start_ticks: u64,
        ns_per_tick: f64,
        origin: Origin,
    },
    Monotonic(Origin),
    /// Time, and how far the wall clock was set since.
    Virtual(Arc<AtomicU64>, Arc<AtomicI64>, Origin),
}

#[derive(Clone, Copy, Debug)]
struct Origin {
    instant: Instant,
    unix_ns: u64,
}

impl Origin {
    fn now() -> Self {
        Self { instant: Instant::now(), unix_ns: system_ns() }
    }
}

/// The system's time, nanoseconds since the Unix epoch.
fn system_ns() -> u64 {
    unix_time().as_nanos() as u64
}

/// Long enough that reading both clocks within a microsecond is exact to 20 parts in a million.
const CALIBRATION: Duration = Duration::from_millis(50);

/// The counter and the monotonic clock read together: of several tries the one that took least, so that a thread
/// that is preempted in between does not bend the clock.
fn tightest_pair() -> (u64, Instant) {
    let read = |_| {
        let before = sys::tsc::read();
        let instant = Instant::now();
        let after = sys::tsc::read();
        (after.saturating_sub(before), before + after.saturating_sub(before) / 2, instant)
    };
    let (_, ticks, instant) = (0..32).map(read).min_by_key(|(width, ..)| *width).expect("32 tries");
    (ticks, instant)
}

impl Clock {
    /// The machine's clock, zero at the time of the call. Takes about 50 ms to calibrate.
    pub fn real() -> Self {
        if sys::tsc::read_if_invariant().is_none() {
            return Self(Source::Monotonic(Origin::now()));
        }
        let (start_ticks, instant) = tightest_pair();
        while instant.elapsed() < CALIBRATION {
            std::hint::spin_loop();
        }
        let (end_ticks, end) = tightest_pair();
        let elapsed = end.duration_since(instant).as_nanos() as f64;
        let ns_per_tick = elapsed / end_ticks.saturating_sub(start_ticks).max(1) as f64;
        let unix = Origin::now();
        let origin = Origin { instant, unix_ns: unix.unix_ns - unix.instant.duration_since(instant).as_nanos() as u64 };
        Self(Source::Counter { start_ticks, ns_per_tick, origin })
    }

    /// A clock that stands still until [`Clock::advance`] moves it.
    pub fn manual() -> Self {
        Self(Source::Virtual(Arc::default(), Arc::default(), Origin::now()))
    }

    /// As [`Clock::manual`], with the Unix time at which it begins, nanoseconds: nothing of the machine's time shows.
    pub fn manual_from(unix_ns: u64) -> Self {
        Self(Source::Virtual(Arc::default(), Arc::default(), Origin { instant: Instant::now(), unix_ns }))
    }

    /// Nanoseconds since the clock was made.
    #[inline]
    pub fn now(&self) -> u64 {
        match &self.0 {
            Source::Counter { start_ticks, ns_per_tick, .. } => {
                (sys::tsc::read().saturating_sub(*start_ticks) as f64 * ns_per_tick) as u64
            }
            Source::Monotonic(origin) => origin.instant.elapsed().as_nanos() as u64,
            Source::Virtual(now, ..) => now.load(Ordering::Relaxed),
        }
    }

    /// Moves a virtual clock forward. Panics on a real one: time there is not ours to move.
    pub fn advance(&self, by: Duration) {
        match &self.0 {
            Source::Virtual(now, ..) => {
                now.fetch_add(by.as_nanos() as u64, Ordering::Relaxed);
            }
            _ => panic!("only a virtual clock can be advanced"),
        }
    }

    /// `now` of this clock as an [`Instant`], for libraries that want one.
    pub fn instant(&self, now: u64) -> Instant {
        self.origin().instant + Duration::from_nanos(now)
    }

    /// An [`Instant`] as this clock's nanoseconds; zero for one before the clock was made.
    pub fn at(&self, instant: Instant) -> u64 {
        instant.saturating_duration_since(self.origin().instant).as_nanos() as u64
    }

    /// `now` of this clock as nanoseconds since the Unix epoch.
    pub fn unix_ns(&self, now: u64) -> u64 {
        self.origin().unix_ns + now
    }

    /// The time on the wall, nanoseconds since the Unix epoch: for what other machines hold against their own clocks.
    /// Unlike [`Clock::unix_ns`] it follows the system's clock when that is corrected, so that it may go back.
    pub fn wall_ns(&self) -> u64 {
        match &self.0 {
            Source::Counter { .. } | Source::Monotonic(_) => system_ns(),
            Source::Virtual(now, set, origin) => {
                (origin.unix_ns + now.load(Ordering::Relaxed)).saturating_add_signed(set.load(Ordering::Relaxed))
            }
        }
    }

    /// Sets the wall clock of a virtual clock by so many nanoseconds. Panics on a real one.
    pub fn set_wall(&self, by_ns: i64) {
        match &self.0 {
            Source::Virtual(_, set, _) => {
                set.fetch_add(by_ns, Ordering::Relaxed);
            }
            _ => panic!("only the wall clock of a virtual clock can be set"),
        }
    }

    fn origin(&self) -> &Origin {
        match &self.0 {
            Source::Counter { origin, .. } | Source::Monotonic(origin) | Source::Virtual(.., origin) => origin,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A clock's time between two of the monotonic clock. A thread that loses its core in between only widens them.
    fn bracket(clock: &Clock) -> (Instant, u64, Instant) {
        let before = Instant::now();
        let now = clock.now();
        (before, now, Instant::now())
    }

    #[test]
    fn keeps_pace_with_the_monotonic_clock() {
        let clock = Clock::real();
        let (before_first, first, after_first) = bracket(&clock);
        hearth_testkit::wait_until("50 ms pass", || after_first.elapsed() >= Duration::from_millis(50));
        let (before_last, last, after_last) = bracket(&clock);
        let passed = (last - first) as f64;
        let least = before_last.duration_since(after_first).as_nanos() as f64;
        let most = after_last.duration_since(before_first).as_nanos() as f64;
        assert!(passed > 0.95 * least, "{passed} ns passed, on the monotonic clock at least {least}");
        assert!(passed < 1.05 * most, "{passed} ns passed, on the monotonic clock at most {most}");
    }

    #[test]
    fn a_virtual_clock_moves_only_by_hand() {
        let clock = Clock::manual();
        let other = clock.clone();
        assert_eq!(clock.now(), 0);
        clock.advance(Duration::from_micros(3));
        assert_eq!(other.now(), 3000);
        assert_eq!(clock.at(clock.instant(3000)), 3000);
    }

    #[test]
    fn a_virtual_clock_may_begin_at_any_time() {
        let clock = Clock::manual_from(7_000);
        clock.advance(Duration::from_nanos(30));
        assert_eq!((clock.now(), clock.wall_ns(), clock.unix_ns(clock.now())), (30, 7_030, 7_030));
    }

    #[test]
    fn the_wall_clock_may_be_set_back() {
        let clock = Clock::manual();
        let before = clock.wall_ns();
        assert_eq!(before, clock.unix_ns(0));
        clock.advance(Duration::from_nanos(500));
        clock.clone().set_wall(-200);
        assert_eq!((clock.wall_ns(), clock.now()), (before + 300, 500));
        assert!(Clock::real().wall_ns().abs_diff(system_ns()) < 60_000_000_000);
    }
}
