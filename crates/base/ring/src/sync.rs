//! The atomics and locks of the lock-free core: those of std and parking_lot, or loom's when the core is model-checked.

#[cfg(not(loom))]
pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
#[cfg(loom)]
pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};

#[cfg(not(loom))]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

/// Takes loom's lock. A panic while the lock is held ends the model.
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

/// The same with loom, which reports a deadlock if no thread notifies.
#[cfg(loom)]
pub(crate) fn sleep<'a, T>(woken: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    woken.wait(guard).expect("a panic ends the model")
}
