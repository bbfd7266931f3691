//! loom_event: an event descriptor for loom's models: a flag with an endless wait, so that a lost wake-up is a
//! deadlock, which loom reports.

use std::fmt;
use std::os::fd::RawFd;

use loom::sync::{Condvar, Mutex};

/// An event that any thread signals and one thread waits for.
pub struct EventFd {
    is_readable: Mutex<bool>,
    changed: Condvar,
}

impl fmt::Debug for EventFd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventFd").finish_non_exhaustive()
    }
}

impl EventFd {
    /// Creates an event that is not signalled.
    pub fn new() -> std::io::Result<Self> {
        Ok(Self { is_readable: Mutex::new(false), changed: Condvar::new() })
    }

    /// Makes the descriptor readable.
    pub fn signal(&self) {
        *self.is_readable.lock().unwrap() = true;
        self.changed.notify_one();
    }

    /// Makes the descriptor unreadable again.
    pub fn drain(&self) {
        *self.is_readable.lock().unwrap() = false;
    }
}

/// Sleeps until `event` is readable, and drains it. Returns its bit.
pub fn wait_readable(event: &EventFd, _others: &[RawFd], _timeout_ns: u64) -> u32 {
    let mut is_readable = event.is_readable.lock().unwrap();
    while !*is_readable {
        is_readable = event.changed.wait(is_readable).unwrap();
    }
    *is_readable = false;
    1
}
