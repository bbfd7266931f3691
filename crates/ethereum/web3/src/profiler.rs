//! Interfaces of the dashboard's data and the profiler; the program provides both, since they belong to the lab.
//!
//! memory  a few words

use std::sync::Arc;

use hearth_serve::dashboard::View;
use serde_json::Value;

/// Maximum length of a profile, in seconds.
pub const PROFILE_SECONDS_MAX: u64 = 600;

/// The instruments of one node.
pub struct Instruments {
    /// The dashboard's data, or why there is none.
    pub look_at: View,
    /// Takes profiles for the node's owner; without one their methods do not exist.
    pub profiler: Option<Arc<dyn Profiler>>,
}

impl Default for Instruments {
    /// Neither a view for the dashboard nor a profiler.
    fn default() -> Self {
        Self { look_at: Err("nothing looks at this node"), profiler: None }
    }
}

/// Samples the node's process.
pub trait Profiler: Send + Sync {
    /// Starts sampling with `hz` samples a second of CPU time, and returns the status; the error is the reason in
    /// words.
    fn start(&self, span: ProfileSpan, hz: u32) -> Result<Value, String>;
    /// Returns the status of the last profile, or of the one of this `id`, and the finished profile itself in the given
    /// format; the error says why that profile is gone.
    fn fetch(&self, format: ProfileFormat, id: Option<u64>) -> Result<Value, String>;
    /// Ends the current profile, or the one of this `id`, with the samples so far.
    fn stop(&self, id: Option<u64>) -> Result<Value, String>;
}

/// The span to sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProfileSpan {
    /// This many seconds from now on.
    Seconds(u64),
    /// Until the next block is made.
    Block,
    /// This many seconds, from the next block on.
    FromBlock(u64),
}

/// The format of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProfileFormat {
    /// Only the figures: no stacks and no graph.
    Summary,
    /// A flame graph as an SVG picture.
    Svg,
    /// One line per stack.
    Folded,
}

impl ProfileFormat {
    /// Parses the format of a request; the default is the summary.
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
