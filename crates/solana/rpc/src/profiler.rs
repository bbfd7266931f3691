//! The interface of the profiler that the caller provides for the node's owner.

use std::sync::Arc;

use serde_json::Value;

/// Samples the stacks of the node's process.
pub trait Profiler: Send + Sync {
    /// Starts a profile and returns its status, or the reason why it cannot start.
    fn start(&self, plan: ProfilePlan) -> Result<Value, String>;
    /// Returns the status of the last profile, or of profile `id`: an object with `state` (`none`, `running`, `done`,
    /// `failed` or `expired`) and, once it is `done`, the profile in the given format. Fails with a reason if that
    /// profile is no longer kept.
    fn fetch(&self, format: ProfileFormat, id: Option<u64>) -> Result<Value, String>;
    /// Ends the running profile, or profile `id`, early with the samples taken so far, and returns its status: it
    /// becomes `done` a moment later. A profile that has ended is left as it is.
    fn stop(&self, id: Option<u64>) -> Result<Value, String>;
}

/// The duration, the tiles and the rate of a profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfilePlan {
    /// Duration of the profile.
    pub span: ProfileSpan,
    /// Samples only tiles of this kind.
    pub tile: Option<String>,
    /// Samples per second of CPU time.
    pub hz: u32,
}

/// Duration of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProfileSpan {
    /// This many seconds of wall time.
    Seconds(u64),
    /// The next block, from its start to its end.
    Block,
}

/// Output format of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProfileFormat {
    /// Only the summary figures.
    Summary,
    /// A flame graph as SVG.
    Svg,
    /// Folded stacks, one line per stack.
    Folded,
}

/// Access of the node's owner.
pub struct Admin {
    /// The profiler to use.
    pub profiler: Arc<dyn Profiler>,
    /// Token that every request must carry. Without one, only programs on loopback are accepted.
    pub token: Option<String>,
}
