//! What profiles the node for its owner: the caller gives it.
//!
//! memory  a few words

use std::sync::Arc;

use serde_json::Value;

/// Samples the node's process.
pub trait Profiler: Send + Sync {
    /// Begins to sample, and gives where that stands; the reason in words where it cannot.
    fn start(&self, plan: ProfilePlan) -> Result<Value, String>;
    /// Where the last one stands, or the one of this `id`: an object with `state` (`none`, `running`, `done`,
    /// `failed` or `expired`), and with the profile itself once that is `done`, as the format says. The reason in
    /// words where that one is no longer kept.
    fn fetch(&self, format: ProfileFormat, id: Option<u64>) -> Result<Value, String>;
    /// Ends the one under way, or the one of this `id`, with the samples that there are, and gives where it stands: it
    /// is `done` a moment later. One that has ended is left as it is.
    fn stop(&self, id: Option<u64>) -> Result<Value, String>;
}

/// What to sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfilePlan {
    /// For how long.
    pub span: ProfileSpan,
    /// One kind of tile alone.
    pub tile: Option<String>,
    /// Samples a second of CPU time.
    pub hz: u32,
}

/// How long to sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProfileSpan {
    /// So many seconds.
    Seconds(u64),
    /// The next block, from its begin to its end.
    Block,
}

/// How to tell a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProfileFormat {
    /// Its figures alone.
    Summary,
    /// A flame graph.
    Svg,
    /// A line a stack.
    Folded,
}

/// Who may ask, and what.
pub struct Admin {
    /// The profiler.
    pub profiler: Arc<dyn Profiler>,
    /// What requests must carry, wherever they come from; without one those of programs on loopback are heard.
    pub token: Option<String>,
}
