//! Profiles where a live process spends its CPU time: samples of its threads' stacks, as folded lines and as a flame
//! graph.
//!
//! reads   this process's own threads, interrupted by SIGPROF a number of times per second of CPU time
//! writes  [`Profile`]
//! memory  none before the first; from then on the sampler's table, 260 MB; a profile is a line per stack
//! drops   a sample that came while the previous one was still being recorded: [`Profile::lost`]
//! source  `pprof` takes the samples, `inferno` draws the graph
//!
//! A tile's turn on a shared core looks like any other call on that core's thread. So that the graph shows which tile
//! used the time, each stack consists of the thread, the tile and then the tile's calls ([`stack`]).

pub mod control;
mod sampling;
mod stack;

use std::collections::BTreeMap;

use inferno::flamegraph::color::BackgroundColor;

pub use sampling::{HZ_MAX, Samples, Sampling, SamplingError};
pub use stack::Stack;

/// Makes the search visible. In dark mode the graph's background is dark, and text outside bars is light.
const LOOKS: &str = "#search { opacity: 0.6 }
@media (prefers-color-scheme: dark) { svg > rect { fill: #1d2026 } svg > text { fill: #e8e6e3 } }
";

/// The width that the graph's script sets. In a page without layout, as in a background tab, it is negative, and the
/// browser reports an error.
const BARE_WIDTH: &str = "svg.width.baseVal.value - xpad * 2";

/// A profile: the samples and their cost.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// Number of samples of each stack.
    pub stacks: BTreeMap<Stack, u64>,
    /// Samples per second of CPU time.
    pub hz: u32,
    /// Wall time in which samples were taken, in seconds.
    pub seconds: f64,
    /// CPU time that the process used meanwhile, in seconds.
    pub cpu_seconds: f64,
    /// Samples taken of the whole process.
    pub taken: u64,
    /// CPU time of one sample in nanoseconds, as measured at the end.
    pub sample_ns: f64,
    /// CPU time that symbolizing took afterwards, in seconds.
    pub naming_seconds: f64,
}

impl Profile {
    /// Returns the number of samples due by the CPU time used.
    pub fn due(&self) -> u64 {
        (self.cpu_seconds * f64::from(self.hz)) as u64
    }

    /// Returns how many of these are missing. The kernel checks only at its ticks (250 per second on many machines)
    /// whether one is due, and merges several into one: threads that run for less than a tick at a time are often
    /// missed, and no thread is sampled more often than it ticks. A sample is also lost while the previous one is being
    /// recorded.
    pub fn lost(&self) -> u64 {
        self.due().saturating_sub(self.taken)
    }

    /// Returns the share of the process's CPU time spent on taking samples, 0 to 1.
    pub fn share_of_sampler(&self) -> f64 {
        if self.cpu_seconds > 0.0 { self.taken as f64 * self.sample_ns / 1e9 / self.cpu_seconds } else { 0.0 }
    }

    /// Returns the total number of samples.
    pub fn samples(&self) -> u64 {
        self.stacks.values().sum()
    }

    /// Returns the number of samples of each kind of tile.
    pub fn tiles(&self) -> BTreeMap<&str, u64> {
        let mut tiles = BTreeMap::new();
        for (stack, samples) in &self.stacks {
            if let Some(tile) = &stack.tile {
                *tiles.entry(tile.as_str()).or_default() += samples;
            }
        }
        tiles
    }

    /// Returns the samples of one kind of tile alone.
    pub fn of_tile(&self, kind: &str) -> Self {
        let own = self.stacks.iter().filter(|(stack, _)| stack.tile.as_deref() == Some(kind));
        Self { stacks: own.map(|(stack, samples)| (stack.clone(), *samples)).collect(), ..*self }
    }

    /// Formats one line per stack, as `inferno` and other tools read them: `thread;tile;caller;callee 17`.
    pub fn folded(&self) -> String {
        let mut text = String::new();
        for (stack, samples) in &self.stacks {
            text.push_str(&format!("{stack} {samples}\n"));
        }
        text
    }

    /// Draws a flame graph for a browser: click to zoom, Ctrl-F to search.
    pub fn svg(&self, title: &str) -> Result<String, SamplingError> {
        if self.stacks.is_empty() {
            return Err(SamplingError::Idle { seconds: self.seconds });
        }
        let samples = self.samples();
        self.drawn(title, &format!("{samples} samples in {:.1} s, {} a second of CPU time", self.seconds, self.hz))
    }

    /// Draws stacks from another sampler, with a subtitle of their own.
    pub fn drawn(&self, title: &str, subtitle: &str) -> Result<String, SamplingError> {
        let mut options = inferno::flamegraph::Options::default();
        options.title = title.into();
        options.count_name = "samples".into();
        // A function has the same colour wherever it appears, in every graph.
        options.hash = true;
        options.bgcolors = Some(BackgroundColor::Flat((255, 255, 255).into()));
        options.subtitle = Some(subtitle.into());
        let folded = self.folded();
        let mut svg = Vec::new();
        let drawn = inferno::flamegraph::from_lines(&mut options, folded.lines(), &mut svg);
        drawn.map_err(|why| SamplingError::Draw(why.to_string()))?;
        let svg = String::from_utf8(svg).map_err(|why| SamplingError::Draw(why.to_string()))?;
        let svg = svg.replacen("</style>", &format!("{LOOKS}</style>"), 1);
        Ok(svg.replacen(BARE_WIDTH, &format!("Math.max(0, {BARE_WIDTH})"), 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(thread: &str, tile: Option<&str>, calls: &[&str]) -> Stack {
        let calls = calls.iter().map(|call| (*call).to_owned()).collect();
        Stack { thread: thread.into(), tile: tile.map(Into::into), calls }
    }

    fn profile() -> Profile {
        let stacks = [
            (stack("core 0", Some("verify"), &["on_frag", "verify_burst"]), 30),
            (stack("core 0", Some("bank"), &["on_frag"]), 12),
            (stack("rpc", None, &["poll"]), 3),
        ];
        Profile { stacks: stacks.into(), hz: 99, seconds: 1.5, cpu_seconds: 0.5, taken: 45, ..Profile::default() }
    }

    #[test]
    fn folded_lines_name_thread_tile_and_calls() {
        let profile = profile();
        let folded = profile.folded();
        assert!(folded.contains("core 0;verify;on_frag;verify_burst 30\n"), "{folded}");
        assert!(folded.contains("rpc;poll 3\n"), "{folded}");
        assert_eq!((profile.samples(), profile.due(), profile.lost()), (45, 49, 4));
        assert_eq!(Profile { sample_ns: 1e6, ..profile.clone() }.share_of_sampler(), 0.09);
        assert_eq!(profile.tiles(), [("bank", 12), ("verify", 30)].into());
        let verify = profile.of_tile("verify");
        assert_eq!((verify.samples(), verify.hz, verify.stacks.len()), (30, 99, 1));
    }

    #[test]
    fn the_graph_is_an_image_that_holds_its_names() {
        let svg = profile().svg("a node").unwrap();
        assert!(svg.contains("<svg") && svg.contains("verify_burst") && svg.contains("45 samples in 1.5 s"));
        assert!(svg.contains(LOOKS), "no colours for the dark");
        let set = "frames.attributes.width.value = ";
        assert!(svg.contains(&format!("{set}Math.max(0, {BARE_WIDTH});")), "its script is another one");
        let idle = Profile { seconds: 2.0, ..Profile::default() };
        assert!(idle.svg("x").unwrap_err().to_string().contains("in 2.0 s"));
    }
}
