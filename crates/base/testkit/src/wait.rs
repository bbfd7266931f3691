//! Waiting in tests: for a condition, never for time, and without occupying the core that the condition needs.
//!
//! A spinning thread takes the core from the work it waits for, and so does one that yields if the scheduler runs it
//! again next. This code sleeps between two checks: for microseconds at first, so that a short wait costs nothing, and
//! for milliseconds in a long one, so that an expensive check costs little.
//!
//! reads   the clock

use std::thread;
use std::time::{Duration, Instant};

/// How long a test waits for a condition. Only a defect comes near it, however busy the machine is.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// The shortest rest between two looks.
const REST_MIN: Duration = Duration::from_micros(20);
const REST_MAX: Duration = Duration::from_millis(10);
/// A sleep is this fraction of the elapsed time: a wait takes hardly longer than the condition.
const REST_PART: u32 = 32;

/// Waits until a condition holds.
///
/// # Panics
/// If it does not hold within [`PATIENCE`]; the message names `what` the test waited for.
#[track_caller]
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    wait_within(PATIENCE, what, || if holds() { Ok(()) } else { Err(String::new()) });
}

/// Waits until a look finds something, and returns it.
///
/// # Panics
/// If nothing is found within [`PATIENCE`]; the message names `what` the test waited for, and the last look's reason.
#[track_caller]
pub fn wait_for<T>(what: &str, look: impl FnMut() -> Result<T, String>) -> T {
    wait_within(PATIENCE, what, look)
}

/// Looks at least once, and once more after the deadline: a process that was stopped meanwhile has not waited.
#[track_caller]
fn wait_within<T>(patience: Duration, what: &str, mut look: impl FnMut() -> Result<T, String>) -> T {
    let start = Instant::now();
    loop {
        let passed = start.elapsed();
        let is_last = passed >= patience;
        match look() {
            Ok(found) => return found,
            Err(why) => assert!(!is_last, "waited {patience:?} for: {what} {why}"),
        }
        thread::sleep((passed / REST_PART).clamp(REST_MIN, REST_MAX));
    }
}

/// Rests for a time from which a test concludes nothing: how slow a fake server is, at which moment a process is
/// killed. A test that needs something to have happened waits for that by [`wait_until`].
pub fn pause(time: Duration) {
    thread::sleep(time);
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn wait_ends_once_the_condition_holds() {
        let count = AtomicU64::new(0);
        thread::scope(|scope| {
            scope.spawn(|| (0..100).for_each(|_| _ = count.fetch_add(1, Ordering::Relaxed)));
            wait_until("all are counted", || count.load(Ordering::Relaxed) == 100);
        });
        let found = wait_for("the second look", || match count.fetch_add(1, Ordering::Relaxed) {
            101 => Ok("found"),
            other => Err(format!("it is {other}")),
        });
        assert_eq!(found, "found");
    }

    #[test]
    #[should_panic(expected = "waited 0ns for: the sun it is night")]
    fn panic_names_what_was_waited_for_and_why() {
        wait_within(Duration::ZERO, "the sun", || Err::<(), _>("it is night".into()));
    }

    #[test]
    fn look_after_the_deadline_counts() {
        assert_eq!(wait_within(Duration::ZERO, "nothing", || Ok(7)), 7);
    }
}
