//! Panics that are caught, and how a panic hook knows them.
//!
//! writes  whether the calling thread is at work under a catch
//! memory  a word a thread
//!
//! A tile's panic ends its node in order, and the error names the tile. A panic that is not caught leaves a process
//! without one of its threads. The hook, which runs before either, asks here which of the two it is.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static CAUGHT: Cell<usize> = const { Cell::new(0) };
}

/// Does the work; a panic in it is an error. What the work leaves half done is for the caller to judge.
pub fn catch<T>(work: impl FnOnce() -> T) -> std::thread::Result<T> {
    CAUGHT.set(CAUGHT.get() + 1);
    let done = catch_unwind(AssertUnwindSafe(work));
    CAUGHT.set(CAUGHT.get() - 1);
    done
}

/// Whether a panic of the calling thread would be caught by [`catch`].
pub fn is_caught() -> bool {
    CAUGHT.get() > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_known_to_be_under_a_catch() {
        assert!(!is_caught());
        assert!(catch(is_caught).unwrap());
        assert!(catch(|| catch(|| panic!("on purpose")).is_err() && is_caught()).unwrap());
        assert!(!is_caught());
    }
}
