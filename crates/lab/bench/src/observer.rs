//! Observes the progress of a bench of its own node.

use std::path::Path;

/// Callbacks for the progress of a bench, on the thread that drives it.
pub trait Witness {
    /// Called when node and load have booted, with their workspace.
    fn booted(&mut self, workspace: &Path);
    /// Called when the measured seconds begin.
    fn begin(&mut self);
    /// Called after each second, in the warm-up or measured, with its rate.
    fn second(&mut self, txn_per_s: f64, measured: bool);
    /// Called when the measured seconds are over.
    fn end(&mut self);
}

/// An observer that ignores all callbacks.
pub struct NullObserver;

impl Witness for NullObserver {
    fn booted(&mut self, _: &Path) {}
    fn begin(&mut self) {}
    fn second(&mut self, _: f64, _: bool) {}
    fn end(&mut self) {}
}
