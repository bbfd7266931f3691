//! An event count: threads sleep until a condition holds, and where none sleeps its change costs one fence.
//!
//! reads   the caller's condition
//! writes  a count of sleepers, and the number of the last notification
//! memory  a few words
//! source  the event count of D. Reed and R. Kanodia, "Synchronization with eventcounts and sequencers", CACM 1979;
//!         Dekker's handshake between the sleeper and its waker
//!
//! No wake-up is lost. A sleeper raises `sleepers`, reads `turn`, fences, and looks at its condition; a waker
//! publishes, fences, and looks at `sleepers`. Both fences are sequentially consistent, so one of them is first:
//!
//! - The waker's: then the sleeper's look comes after it and sees what was published.
//! - The sleeper's: then the waker sees the raised count, takes the lock and advances `turn`. Either the sleeper read
//!   `turn` before that, and sleeps only while `turn` is what it read; or it read `turn` after that, under the same
//!   lock, and what the waker had published before is visible to the look that follows.
//!
//! The condition is never looked at under the lock, so a caller may take locks of its own in it.

use crate::sync::{AtomicUsize, Condvar, Mutex, Ordering, fence, lock, sleep};

/// How often a waiting thread looks before it sleeps. Between two looks the processor pauses for about 20 ns (AMD Zen)
/// or 45 ns (Intel since Skylake), so that all take some 8 to 20 µs, about what a sleep and its wake-up cost. The
/// thread does not yield: beside other work the scheduler may hand the core from one waiting thread to the next, and
/// not to the thread that they wait for.
const LOOKS: u32 = if cfg!(loom) { 1 } else { 400 };

/// Where threads sleep until a condition holds that other threads make true.
///
/// ```
/// use hearth_ring::EventCount;
/// use std::sync::atomic::{AtomicBool, Ordering};
///
/// let (events, is_done) = (EventCount::new(), AtomicBool::new(false));
/// std::thread::scope(|scope| {
///     scope.spawn(|| {
///         is_done.store(true, Ordering::Release);
///         events.notify();
///     });
///     events.wait_until(|| is_done.load(Ordering::Acquire));
/// });
/// ```
#[derive(Debug)]
pub struct EventCount {
    /// Threads that sleep, or are about to.
    sleepers: AtomicUsize,
    /// How many notifications have found sleepers. Wraps.
    turn: Mutex<u64>,
    woken: Condvar,
}

impl EventCount {
    /// An event count with no sleepers.
    pub fn new() -> Self {
        Self { sleepers: AtomicUsize::new(0), turn: Mutex::new(0), woken: Condvar::new() }
    }

    /// Returns once `is_due` returns true: looks at it for some microseconds, then after each notification.
    ///
    /// Every thread that makes it true must call [`EventCount::notify`] afterwards.
    pub fn wait_until(&self, is_due: impl Fn() -> bool) {
        for _ in 0..LOOKS {
            if is_due() {
                return;
            }
            std::hint::spin_loop();
        }
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        loop {
            let turn = *lock(&self.turn);
            fence(Ordering::SeqCst);
            if is_due() {
                break;
            }
            let mut now = lock(&self.turn);
            while *now == turn {
                now = sleep(&self.woken, now);
            }
        }
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
    }

    /// Wakes the threads that sleep, so that they look at their conditions. Call after making one true.
    ///
    /// Costs a fence and a load where no thread sleeps.
    #[inline]
    pub fn notify(&self) {
        fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::Relaxed) != 0 {
            self.wake_all();
        }
    }

    #[cold]
    fn wake_all(&self) {
        {
            let mut turn = lock(&self.turn);
            *turn = turn.wrapping_add(1);
        }
        self.woken.notify_all();
    }
}

impl Default for EventCount {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::thread;

    /// Many more than a machine has cores, so that most of them sleep.
    const THREADS: u64 = 32;
    const ROUNDS: u64 = 40;

    /// A counter goes round all threads, each of which waits for its own numbers: one lost wake-up stops them all.
    #[test]
    #[cfg_attr(miri, ignore = "loom checks every interleaving; the queues of the locks are not this crate's")]
    fn a_counter_goes_round_many_threads() {
        let shared = Arc::new((EventCount::new(), crate::sync::AtomicU64::new(0)));
        let threads: Vec<_> = (0..THREADS)
            .map(|own| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    let (events, counter) = &*shared;
                    for number in (0..ROUNDS).map(|round| round * THREADS + own) {
                        events.wait_until(|| counter.load(Ordering::Acquire) == number);
                        counter.store(number + 1, Ordering::Release);
                        events.notify();
                    }
                })
            })
            .collect();
        hearth_testkit::wait_until("the counter to have gone round", || {
            threads.iter().all(thread::JoinHandle::is_finished)
        });
        for thread in threads {
            thread.join().expect("a thread of the test does not panic");
        }
        assert_eq!(shared.1.load(Ordering::Acquire), THREADS * ROUNDS);
    }
}
