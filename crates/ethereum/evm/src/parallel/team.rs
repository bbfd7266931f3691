//! The threads of one block: they go through the same stages and meet between them.
//!
//! memory  a few words
//! source  a barrier that turns by generations
//!
//! The threads live as long as the block: what they work on is borrowed from the caller, which only a scope allows
//! without unsafe code. Starting one takes some ten microseconds; a block too small for that is executed alone.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Turns for which a waiting thread keeps its core before it offers it to others.
const SPINS: u32 = 200;

/// Where threads meet.
pub(super) struct Barrier {
    threads: usize,
    arrived: AtomicUsize,
    generation: AtomicUsize,
    broken: AtomicBool,
}

impl Barrier {
    pub fn new(threads: usize) -> Self {
        Self { threads, arrived: AtomicUsize::new(0), generation: AtomicUsize::new(0), broken: AtomicBool::new(false) }
    }

    /// Waits until all threads are here. Panics if one of them has panicked.
    pub fn wait(&self) {
        let generation = self.generation.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.threads {
            self.arrived.store(0, Ordering::Release);
            self.generation.fetch_add(1, Ordering::AcqRel);
            return;
        }
        let mut pause = Pause::default();
        while self.generation.load(Ordering::Acquire) == generation {
            self.check();
            pause.wait();
        }
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
        }
    }
}

/// Waiting for another thread that is at work.
#[derive(Default)]
pub(super) struct Pause(u32);

impl Pause {
    pub fn wait(&mut self) {
        self.0 += 1;
        if self.0 < SPINS {
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_passes_before_all_are_there() {
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

    #[test]
    #[should_panic(expected = "another thread of the block panicked")]
    fn a_panic_frees_those_who_wait() {
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
