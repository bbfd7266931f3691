//! The threads of one block: they go through the same stages and meet between them.
//!
//! memory  a few words
//! source  a barrier that turns by generations
//!
//! The threads live only as long as the block: their work is borrowed from the caller, which safe code allows only in a
//! scope. Starting one takes some ten microseconds; a block too small for that is executed alone.
//!
//! A waiting thread spins for some microseconds and then sleeps ([`EventCount`], which says why no wake-up is lost), so
//! that the cores go to threads with work. Whatever ends a wait is stored before [`Barrier::wake`] is called: a new
//! generation, a panic, and what a run of transactions makes due.

use hearth_ring::EventCount;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A place where threads meet, and wait for each other.
pub(super) struct Barrier {
    threads: usize,
    arrived: AtomicUsize,
    generation: AtomicUsize,
    broken: AtomicBool,
    events: EventCount,
}

impl Barrier {
    pub fn new(threads: usize) -> Self {
        Self {
            threads,
            arrived: AtomicUsize::new(0),
            generation: AtomicUsize::new(0),
            broken: AtomicBool::new(false),
            events: EventCount::new(),
        }
    }

    /// Waits until all threads are here. Panics if one of them has panicked.
    pub fn wait(&self) {
        let generation = self.generation.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.threads {
            self.arrived.store(0, Ordering::Release);
            self.generation.fetch_add(1, Ordering::AcqRel);
            self.wake();
            return;
        }
        self.wait_until(|| self.generation.load(Ordering::Acquire) != generation);
    }

    /// Waits until `is_due` returns true. Panics if another thread has. A thread that makes it true wakes the others.
    pub fn wait_until(&self, is_due: impl Fn() -> bool) {
        self.events.wait_until(|| self.broken.load(Ordering::Relaxed) || is_due());
        self.check();
    }

    /// Wakes the threads that sleep, so that they check whether something is due. Costs a fence if none sleeps.
    pub fn wake(&self) {
        self.events.notify();
    }

    /// Panics if another thread has.
    pub fn check(&self) {
        assert!(!self.broken.load(Ordering::Relaxed), "another thread of the block panicked");
    }

    /// A guard that lets the others know if this thread panics.
    pub fn guard(&self) -> impl Drop + '_ {
        BreakOnPanic(self)
    }
}

struct BreakOnPanic<'a>(&'a Barrier);

impl Drop for BreakOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.broken.store(true, Ordering::Relaxed);
            self.0.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn barrier_holds_until_all_arrive() {
        let (barrier, count) = (Barrier::new(4), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for turn in 1..=100 {
                        count.fetch_add(1, Ordering::Relaxed);
                        barrier.wait();
                        assert_eq!(count.load(Ordering::Relaxed), turn * 4);
                        barrier.wait();
                    }
                });
            }
        });
    }

    /// The main thread sleeps, or is about to, whichever comes first: the panic must end its wait in both cases.
    #[test]
    #[should_panic(expected = "another thread of the block panicked")]
    fn a_panic_wakes_a_sleeping_thread() {
        let (barrier, is_waiting) = (Barrier::new(2), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _guard = barrier.guard();
                hearth_testkit::wait_until("the other thread to wait", || is_waiting.load(Ordering::Acquire));
                panic!("on purpose");
            });
            barrier.wait_until(|| {
                is_waiting.store(true, Ordering::Release);
                false
            });
        });
    }

    #[test]
    #[should_panic(expected = "another thread of the block panicked")]
    fn panic_wakes_all_waiting_threads() {
        let barrier = Barrier::new(2);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                let _guard = barrier.guard();
                panic!("on purpose");
            });
            let _ = other.join();
            barrier.wait();
        });
    }
}
