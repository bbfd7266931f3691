//! failure: why a tile has stopped working, for the operator of the node.
//!
//! memory  one reason
//!
//! A tile that panics is a bug in the program. A tile that finds that the node can no longer follow its cluster reports
//! the reason here and stays idle; code outside the pipeline reads it and ends the node.

use std::sync::Arc;

use parking_lot::Mutex;

/// A slot for the reason; clones share it.
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
    /// Takes the reason, if there is one.
    pub fn take(&self) -> Option<E> {
        self.0.lock().take()
    }

    /// Records the reason, in place of an earlier one that was not taken.
    pub(crate) fn set(&self, why: E) {
        *self.0.lock() = Some(why);
    }
}
