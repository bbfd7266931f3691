//! Fuzz targets: every parser of bytes that come from outside, and the state machines behind the parsers.
//!
//! reads   `fuzz/corpus/TARGET/NAME`; `HEARTH_FUZZ_TARGET`
//! writes  an input that breaks a property, into `fuzz/artifacts/TARGET`
//! memory  what the targets keep: a store, two chains and their servers
//!
//! A [`Target`] is one function of bytes that panics if a property does not hold. Two engines call it: cargo-fuzz on a
//! nightly compiler, with coverage ([`selected`]), and [`runner`] on the stable one, which replays the corpus and tries
//! seeded mutations of it ([`mutate`]). `docs/fuzzing.md` says how to use both.

pub mod accounts;
pub mod archive;
pub mod ethereum;
pub mod files;
pub mod genesis;
pub mod gossip_node;
pub mod loopback;
pub mod messages;
pub mod mutate;
pub mod pieces;
pub mod quic;
pub mod repair_server;
pub mod runner;
pub mod scratch;
pub mod servers;
pub mod shreds;
mod table;
pub mod wire;

use std::sync::OnceLock;

pub use table::TARGETS;

/// A fuzz target: a function of the node, and the properties that it has on any input.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Name of the target, and of the folder of its corpus.
    pub name: &'static str,
    /// The function that it drives.
    pub drives: &'static str,
    /// Checks the target's properties on an input.
    ///
    /// # Panics
    /// A property does not hold.
    pub run: fn(&[u8]),
    /// Pieces of valid inputs, which a mutation inserts.
    pub tokens: &'static [&'static str],
}

/// The target of a name.
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// The target that `HEARTH_FUZZ_TARGET` names.
///
/// # Panics
/// It names none.
pub fn selected() -> &'static Target {
    static SELECTED: OnceLock<&'static Target> = OnceLock::new();
    SELECTED.get_or_init(|| {
        let name = std::env::var("HEARTH_FUZZ_TARGET").unwrap_or_default();
        find(&name).unwrap_or_else(|| {
            let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
            panic!("HEARTH_FUZZ_TARGET={name}: expected one of {}", names.join(", "))
        })
    })
}
