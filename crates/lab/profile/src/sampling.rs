//! Samples this process.
//!
//! reads   the threads' stacks, in a signal handler
//! writes  a [`Profile`] at the end
//!
//! The kernel sends SIGPROF to a running thread at a rate of the process's CPU time: idle threads cost nothing and are
//! not seen. There is one sampler at a time, because the timer belongs to the process. Before the first there is
//! neither timer nor handler; after the last the timer is off and the signal ignored.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use hearth_tile::sys::thread::{cpu_ns, process_cpu_ns};
use nix::sys::signal::{Signal, raise};
use pprof::{Frames, ProfilerGuard, ProfilerGuardBuilder, UnresolvedReport};

use crate::Profile;
use crate::stack::{Call, Stack};

/// Above this many samples per second of CPU time the cost exceeds the benefit.
pub const HZ_MAX: u32 = 1000;
/// If this many samples are due and none was taken, this is no chance, even for threads that seldom run at kernel
/// ticks.
const SURELY_DUE: u64 = 200;
/// Samples taken to measure the cost of one, and the pause between them in which other work uses the caches.
const TRIALS: u64 = 32;
const BETWEEN_TRIALS: Duration = Duration::from_millis(1);

/// Why there is no profile.
#[derive(Debug, thiserror::Error)]
pub enum SamplingError {
    /// Another profiler is running.
    #[error("the process is sampled already, by this or another profiler")]
    Busy,
    /// The sampling rate is out of range.
    #[error("{0} samples a second: 1 to {HZ_MAX} can be taken")]
    Hz(u32),
    /// The system does not let the process sample itself.
    #[error("this system lets the process take no samples: {0}")]
    Refused(String),
    /// The timer's signals do not arrive.
    #[error(
        "this system sends no SIGPROF: {due} samples were due by the CPU time used and none came; is `setitimer` or the \
         signal forbidden, by seccomp for one?"
    )]
    Silent {
        /// Samples due by the CPU time used.
        due: u64,
    },
    /// There is nothing to draw: samples are rare, and a thread that runs for less than a kernel tick may get none.
    #[error("no sample in {seconds:.1} s fell into what was asked for: it used little CPU time, or none")]
    Idle {
        /// Wall time in which samples were taken, in seconds.
        seconds: f64,
    },
    /// The graph cannot be drawn.
    #[error("the graph cannot be drawn: {0}")]
    Draw(String),
}

/// Sampling in progress. Dropping it ends the sampling.
pub struct Sampling {
    guard: ProfilerGuard<'static>,
    begun: Instant,
    cpu_ns_begun: u64,
    hz: u32,
}

/// Samples whose functions are not symbolized yet.
pub struct Samples {
    report: UnresolvedReport,
    profile: Profile,
}

impl Sampling {
    /// Starts sampling this process.
    pub fn start(hz: u32) -> Result<Self, SamplingError> {
        if !(1..=HZ_MAX).contains(&hz) {
            return Err(SamplingError::Hz(hz));
        }
        // Stacks are not unwound through these: they may hold the very lock that unwinding takes.
        let builder = ProfilerGuardBuilder::default().frequency(hz as i32).blocklist(&["libgcc", "ld-linux", "vdso"]);
        let guard = builder.build().map_err(|why| match why {
            pprof::Error::Running => SamplingError::Busy,
            why => SamplingError::Refused(why.to_string()),
        })?;
        Ok(Self { guard, begun: Instant::now(), cpu_ns_begun: process_cpu_ns(), hz })
    }

    /// Ends the sampling. [`Samples::name`] symbolizes the functions, which takes time.
    pub fn end(self) -> Result<Samples, SamplingError> {
        let seconds = self.begun.elapsed().as_secs_f64();
        let cpu_seconds = process_cpu_ns().saturating_sub(self.cpu_ns_begun) as f64 / 1e9;
        let report = self.guard.report().build_unresolved();
        let report = report.map_err(|why| SamplingError::Refused(why.to_string()))?;
        let of = |depth: fn(usize) -> u64| report.data.iter().map(move |(at, n)| *n as u64 * depth(at.frames.len()));
        let taken: u64 = of(|_| 1).sum();
        let due = (cpu_seconds * f64::from(self.hz)) as u64;
        is_heard(taken, due)?;
        let depth = of(|depth| depth as u64).sum::<u64>() / taken.max(1);
        let sample_ns = if taken > 0 { one_costs_ns(depth as usize) } else { 0.0 };
        let profile = Profile { hz: self.hz, seconds, cpu_seconds, taken, sample_ns, ..Profile::default() };
        Ok(Samples { report, profile })
    }
}

impl Samples {
    /// Symbolizes the functions of the heaviest `stacks_max` stacks.
    pub fn name(self, stacks_max: usize) -> Profile {
        let Self { report, mut profile } = self;
        let begun = cpu_ns();
        let mut stacks: BTreeMap<Stack, u64> = BTreeMap::new();
        for (frames, samples) in report.data {
            let frames = Frames::from(frames);
            let calls = frames.frames.iter().flatten();
            let calls = calls.map(|symbol| Call { name: symbol.name(), file: symbol.filename().into_owned() });
            *stacks.entry(Stack::of(&frames.thread_name, calls)).or_default() += samples as u64;
        }
        profile.naming_seconds = cpu_ns().saturating_sub(begun) as f64 / 1e9;
        profile.stacks = bounded(stacks, stacks_max);
        profile
    }
}

/// Verifies that the timer's signals arrive at all.
fn is_heard(taken: u64, due: u64) -> Result<(), SamplingError> {
    if taken == 0 && due >= SURELY_DUE { Err(SamplingError::Silent { due }) } else { Ok(()) }
}

/// Keeps the heaviest stacks; of the others only the thread and the tile.
fn bounded(stacks: BTreeMap<Stack, u64>, most: usize) -> BTreeMap<Stack, u64> {
    if stacks.len() <= most {
        return stacks;
    }
    let mut by_weight: Vec<(Stack, u64)> = stacks.into_iter().collect();
    by_weight.sort_by_key(|(_, samples)| std::cmp::Reverse(*samples));
    let light = by_weight.split_off(most);
    let mut kept: BTreeMap<Stack, u64> = by_weight.into_iter().collect();
    for (stack, samples) in light {
        *kept.entry(Stack { calls: vec!["(seldom)".into()], ..stack }).or_default() += samples;
    }
    kept
}

/// Measures the CPU time of one sample of a stack this deep, while the handler is installed; the report is already
/// made.
fn one_costs_ns(depth: usize) -> f64 {
    let mut spent = 0;
    for _ in 0..TRIALS {
        std::thread::sleep(BETWEEN_TRIALS);
        spent += at_depth(depth);
    }
    spent as f64 / TRIALS as f64
}

#[inline(never)]
fn at_depth(depth: usize) -> u64 {
    if depth > 0 {
        // Work after the call keeps the frame on the stack.
        return black_box(at_depth(black_box(depth - 1)));
    }
    let begun = cpu_ns();
    // It cannot fail: the signal exists.
    let _ = raise(Signal::SIGPROF);
    cpu_ns().saturating_sub(begun)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn a_busy_function(rounds: u64) -> u64 {
        (0..rounds * 1000).fold(0u64, |sum, i| black_box(sum.wrapping_mul(31).wrapping_add(i)))
    }

    /// A single test, because the process has one timer.
    #[test]
    fn a_busy_thread_is_seen_by_name_and_only_one_samples_at_a_time() {
        assert!(matches!(Sampling::start(0), Err(SamplingError::Hz(0))));
        assert!(matches!(Sampling::start(HZ_MAX + 1), Err(SamplingError::Hz(_))));
        let sampling = Sampling::start(99).unwrap();
        assert!(matches!(Sampling::start(99), Err(SamplingError::Busy)));
        // Measured in CPU time, so that a busy machine makes no difference.
        let busy = std::thread::Builder::new().name("busy".into()).spawn(|| a_busy_function(500_000)).unwrap();
        busy.join().unwrap();
        let profile = sampling.end().unwrap().name(usize::MAX);
        assert!(profile.seconds > 0.0 && profile.hz == 99 && profile.cpu_seconds > 0.1, "{profile:?}");
        assert_eq!(profile.samples(), profile.taken);
        assert!(profile.taken <= profile.due() + 2 && profile.lost() < profile.due() / 2, "{profile:?}");
        assert!((100.0..1e6).contains(&profile.sample_ns) && profile.share_of_sampler() < 0.05, "{profile:?}");
        let own = |stack: &Stack| stack.thread == "busy" && stack.to_string().contains("sampling::a_busy_function");
        let of_busy: u64 = profile.stacks.iter().filter(|(stack, _)| own(stack)).map(|(_, samples)| samples).sum();
        assert!(of_busy > 10, "{}", profile.folded());
        assert!(profile.svg("test").unwrap().contains("a_busy_function"));
        drop(Sampling::start(99).expect("free again"));
    }

    #[test]
    fn unheard_timer_differs_from_an_idle_process() {
        assert!(is_heard(0, SURELY_DUE - 1).is_ok() && is_heard(1, 1000).is_ok());
        let silent = is_heard(0, 400).unwrap_err().to_string();
        assert!(silent.contains("400 samples were due") && silent.contains("seccomp"), "{silent}");
    }

    #[test]
    fn rare_stacks_are_summed_by_thread_and_tile() {
        let stack = |tile: &str, call: &str| Stack {
            thread: "core 0".into(),
            tile: Some(tile.into()),
            calls: vec![call.into()],
        };
        let stacks: BTreeMap<Stack, u64> =
            [(stack("bank", "a"), 9), (stack("bank", "b"), 2), (stack("bank", "c"), 1), (stack("poh", "d"), 7)].into();
        assert_eq!(bounded(stacks.clone(), 4), stacks);
        let kept = bounded(stacks, 2);
        let lines: Vec<String> = kept.iter().map(|(stack, n)| format!("{stack} {n}")).collect();
        assert_eq!(lines, ["core 0;bank;(seldom) 3", "core 0;bank;a 9", "core 0;poh;d 7"]);
    }
}
