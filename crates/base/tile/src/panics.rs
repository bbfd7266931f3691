//! panics: catches panics, and lets a panic hook recognize caught ones.
//!
//! writes  whether the calling thread runs under a catch
//! memory  one word per thread
//!
//! A tile's panic ends its node in an orderly way, and the error names the tile. An uncaught panic leaves a process
//! without one of its threads. The hook, which runs before either, asks here which of the two it is.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static CAUGHT: Cell<usize> = const { Cell::new(0) };
}

/// Runs `work`; a panic in it becomes an error. The caller must judge what the panic left half done.
pub fn catch<T>(work: impl FnOnce() -> T) -> std::thread::Result<T> {
    CAUGHT.set(CAUGHT.get() + 1);
    let done = catch_unwind(AssertUnwindSafe(work));
    CAUGHT.set(CAUGHT.get() - 1);
    done
}

/// Whether [`catch`] would catch a panic of the calling thread.
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
