//! Deliberate bugs in the node, each of which proves that a test of whole nodes can fail.
//!
//! A simulator that finds nothing shows either that the node is right or that the simulator is blind. Each [`Mutation`]
//! is one bug on the line that matters, such as `if active(Mutation::EarlyVote) { … }`, and names the invariant that
//! it breaks. A simulator is good once it reports every one of them, and nothing without one.
//!
//! The bugs exist only in a build with this crate's feature `mutations`. Without it [`active`] is a constant `false`,
//! inlined everywhere, and the compiler removes the branches. Features of one build are united, so no manifest of the
//! workspace asks for it; the command line does:
//!
//! ```text
//! cargo test -p CRATE --features hearth-mutation/mutations
//! ```
//!
//! The active mutation belongs to a thread, so that seeds may run in parallel, each with another one. A thread that a
//! node starts by itself has none: every point is therefore in code that runs where tiles are stepped or stores are
//! opened. A bug of execution is missing where a pool of threads executes stored blocks at a start, which is one more
//! way to notice it.
//!
//! ```
//! use hearth_mutation::{Mutation, active, set_active};
//!
//! assert_eq!(Mutation::parse("early-vote"), Some(Mutation::EarlyVote));
//! set_active(None);
//! assert!(!active(Mutation::EarlyVote));
//! ```

mod catalogue;

pub use catalogue::Mutation;

/// Whether this build has the bugs.
pub const IS_COMPILED: bool = cfg!(feature = "mutations");

// That this is evaluated at compile time is what removes the branches from a node.
#[cfg(not(feature = "mutations"))]
const _: () = assert!(!active(Mutation::EarlyVote));

#[cfg(feature = "mutations")]
thread_local! {
    static ACTIVE: std::cell::Cell<Option<Mutation>> = const { std::cell::Cell::new(None) };
}

/// Returns whether this thread has this bug now. Without the feature `mutations` it is the constant `false`.
#[cfg(not(feature = "mutations"))]
#[inline(always)]
pub const fn active(_mutation: Mutation) -> bool {
    false
}

/// Returns whether this thread has this bug now. Without the feature `mutations` it is the constant `false`.
#[cfg(feature = "mutations")]
#[inline]
pub fn active(mutation: Mutation) -> bool {
    ACTIVE.get() == Some(mutation)
}

/// Turns one bug on for this thread, in place of the one before, or turns it off.
///
/// # Panics
/// A bug is turned on in a build without the feature `mutations`: the test would prove nothing.
pub fn set_active(mutation: Option<Mutation>) {
    #[cfg(feature = "mutations")]
    ACTIVE.set(mutation);
    #[cfg(not(feature = "mutations"))]
    if let Some(mutation) = mutation {
        panic!("`{}` needs a build with --features hearth-mutation/mutations", mutation.name());
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_parse_back() {
        let names: BTreeSet<&str> = Mutation::ALL.iter().map(|mutation| mutation.name()).collect();
        assert_eq!(names.len(), Mutation::ALL.len());
        for mutation in Mutation::ALL {
            assert_eq!(Mutation::parse(mutation.name()), Some(*mutation));
            assert_eq!(mutation.to_string(), mutation.name());
        }
        assert_eq!(Mutation::parse("no-such-bug"), None);
        assert_eq!(Mutation::parse(""), None);
    }

    #[test]
    fn nothing_is_active_by_default() {
        set_active(None);
        assert!(!Mutation::ALL.iter().any(|mutation| active(*mutation)));
    }

    #[cfg(not(feature = "mutations"))]
    #[test]
    #[should_panic(expected = "`early-vote` needs a build with")]
    fn a_plain_build_refuses_bugs() {
        set_active(Some(Mutation::EarlyVote));
    }

    #[cfg(feature = "mutations")]
    #[test]
    fn one_bug_of_one_thread_is_active() {
        for mutation in Mutation::ALL {
            set_active(Some(*mutation));
            let are_active: Vec<Mutation> = Mutation::ALL.iter().copied().filter(|other| active(*other)).collect();
            assert_eq!(are_active, [*mutation]);
            let elsewhere = std::thread::spawn(|| Mutation::ALL.iter().any(|mutation| active(*mutation)));
            assert!(!elsewhere.join().unwrap(), "another thread has {mutation}");
        }
        set_active(None);
        assert!(!Mutation::ALL.iter().any(|mutation| active(*mutation)));
    }
}
