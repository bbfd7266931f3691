//! What looks at the node from within its process: the program gives it, since it belongs to the lab.
//!
//! memory  a few words

use std::sync::Arc;

use hearth_serve::dashboard::View;
use serde_json::Value;

/// The longest profile, seconds.
pub const PROFILE_SECONDS_MAX: u64 = 600;

/// The instruments of one node.
pub struct Instruments {
    /// What the dashboard shows, or why there is none.
    pub look_at: View,
    /// Takes the profiles that the node's owner asks for; without one their methods do not exist.
    pub profiler: Option<Arc<dyn Profiler>>,
}

impl Default for Instruments {
    /// None at all.
    fn default() -> Self {
        Self { look_at: Err("nothing looks at this node"), profiler: None }
    }
}

/// Samples the node's process.
pub trait Profiler: Send + Sync {
    /// Begins with `hz` samples a second of CPU time, and returns where that stands; the reason in words where it
    /// cannot begin.
    fn start(&self, span: ProfileSpan, hz: u32) -> Result<Value, String>;
    /// Returns where the last profile stands, or the one of this `id`, and the profile itself once it is done, as the
    /// format says; the reason in words where that profile is gone.
    fn fetch(&self, format: ProfileFormat, id: Option<u64>) -> Result<Value, String>;
    /// Ends the profile under way, or the one of this `id`, with the samples that there are.
    fn stop(&self, id: Option<u64>) -> Result<Value, String>;
}

/// How long to sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProfileSpan {
    /// From now on, so many seconds.
    Seconds(u64),
    /// From now until the next block is there.
    Block,
    /// From when the next block is there on, so many seconds.
    FromBlock(u64),
}

/// The form of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProfileFormat {
    /// Its figures alone.
    Summary,
    /// A flame graph.
    Svg,
    /// A line a stack.
    Folded,
}

impl ProfileFormat {
    /// Reads the name that a request gives it; without one it is the summary.
    pub(crate) fn of(name: Option<&str>) -> Result<Self, String> {
        match name {
            None | Some("summary") => Ok(Self::Summary),
            Some("svg") => Ok(Self::Svg),
            Some("folded") => Ok(Self::Folded),
            Some(other) => Err(format!("`format` is `{other}`: `summary`, `svg` or `folded`")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_format_is_named() {
        assert_eq!(ProfileFormat::of(None), Ok(ProfileFormat::Summary));
        assert_eq!(ProfileFormat::of(Some("svg")), Ok(ProfileFormat::Svg));
        assert!(ProfileFormat::of(Some("png")).unwrap_err().contains("`png`"));
    }
}
