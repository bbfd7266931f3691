//! Who looks on while a bench of its own node runs.
//!
//! reads   nothing
//! writes  nothing: it is told when what begins

use std::path::Path;

/// Told of a bench's course, on the thread that drives it.
pub trait Witness {
    /// Node and load have booted, with this workspace.
    fn booted(&mut self, workspace: &Path);
    /// The measured seconds begin.
    fn begin(&mut self);
    /// A second is over, with so many transactions a second; in the warm-up or measured.
    fn second(&mut self, txn_per_s: f64, measured: bool);
    /// The measured seconds are over.
    fn end(&mut self);
}

/// Nobody.
pub struct Nobody;

impl Witness for Nobody {
    fn booted(&mut self, _: &Path) {}
    fn begin(&mut self) {}
    fn second(&mut self, _: f64, _: bool) {}
    fn end(&mut self) {}
}
