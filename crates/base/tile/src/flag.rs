//! flag: a flag of a core, in memory of this process or in a word that several processes map.
//!
//! reads   the flag
//! writes  the flag
//! memory  one word

#[cfg(not(loom))]
use hearth_ring::Counters;

use crate::sync::{AtomicBool, Ordering};

/// A flag that threads, and where it is shared other processes, set and read.
#[derive(Debug)]
pub(crate) enum Flag {
    /// In memory of this process.
    Own(AtomicBool),
    /// The word with this index of a region of the workspace: 0 is false.
    #[cfg(not(loom))]
    Shared(Counters, usize),
}

impl Flag {
    /// A flag of this process, not set.
    pub fn own() -> Self {
        Self::Own(AtomicBool::new(false))
    }

    #[inline]
    pub fn load(&self, order: Ordering) -> bool {
        match self {
            Self::Own(flag) => flag.load(order),
            #[cfg(not(loom))]
            Self::Shared(words, at) => words.words()[*at].load(order) != 0,
        }
    }

    #[inline]
    pub fn store(&self, value: bool, order: Ordering) {
        match self {
            Self::Own(flag) => flag.store(value, order),
            #[cfg(not(loom))]
            Self::Shared(words, at) => words.words()[*at].store(u64::from(value), order),
        }
    }

    #[inline]
    pub fn swap(&self, value: bool, order: Ordering) -> bool {
        match self {
            Self::Own(flag) => flag.swap(value, order),
            #[cfg(not(loom))]
            Self::Shared(words, at) => words.words()[*at].swap(u64::from(value), order) != 0,
        }
    }
}
