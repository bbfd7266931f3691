//! The atomics and locks of the lock-free core: the machine's own, or loom's when the core is model-checked.

#[cfg(not(loom))]
pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
#[cfg(loom)]
pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};

/// Takes the lock.
#[cfg(not(loom))]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

/// As the machine's lock: a panic while it is held ends the model.
#[cfg(loom)]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("a panic ends the model")
}

/// Releases the lock, sleeps until notified, and takes the lock again. May return without a notification.
#[cfg(not(loom))]
pub(crate) fn sleep<'a, T>(woken: &Condvar, mut guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    woken.wait(&mut guard);
    guard
}

/// As the machine's: loom reports a deadlock where nobody notifies.
#[cfg(loom)]
pub(crate) fn sleep<'a, T>(woken: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    woken.wait(guard).expect("a panic ends the model")
}
