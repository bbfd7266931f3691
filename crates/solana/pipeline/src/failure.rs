//! failure: why a tile does nothing more, for whoever runs the node.
//!
//! memory  one reason
//!
//! A tile that panics is a defect of the program. One that finds that the node can no longer be in its cluster says why
//! here and stays idle: whoever runs the node looks into that, and ends it.

use std::sync::Arc;

use parking_lot::Mutex;

/// A place for a reason; copies share it.
pub struct Failure<E>(Arc<Mutex<Option<E>>>);

impl<E> Clone for Failure<E> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<E> Default for Failure<E> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(None)))
    }
}

impl<E> Failure<E> {
    /// Takes the reason, once there is one.
    pub fn take(&self) -> Option<E> {
        self.0.lock().take()
    }

    /// Says why.
    pub(crate) fn set(&self, why: E) {
        *self.0.lock() = Some(why);
    }
}
