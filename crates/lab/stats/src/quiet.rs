//! Detects whether others used the machine while something was measured.
//!
//! reads   `/proc/stat`, `/proc/pressure/cpu`, `/proc/self/stat`
//! writes  a sentence if a run was disturbed
//! source  proc(5); the kernel's documentation of pressure stall information

use std::fs;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::pace::{PaceResult, slower};

/// The kernel counts hundredths of a second on every architecture Linux has had for twenty years.
const PER_SECOND: f64 = 100.0;
/// This few ticks may be an error of the counting.
const TICKS_IGNORED: u64 = 5;

/// Thresholds for a disturbed run: shares of the time of all cores; for pressure, of the time; for pace, of the best
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DisturbanceLimits {
    /// Time that the hypervisor gave to others.
    pub steal: f64,
    /// Time that other programs used.
    pub foreign: f64,
    /// Time in which a thread waited for a core, although the run left one free.
    pub pressure: f64,
    /// How much slower the cores were than at their best.
    pub pace: f64,
}

impl Default for DisturbanceLimits {
    fn default() -> Self {
        Self { steal: 0.02, foreign: 0.05, pressure: 0.1, pace: 0.04 }
    }
}

impl DisturbanceLimits {
    /// Verifies that the thresholds are fractions.
    pub fn check(&self) -> Result<(), String> {
        for (key, value) in
            [("steal", self.steal), ("foreign", self.foreign), ("pressure", self.pressure), ("pace", self.pace)]
        {
            if !(0.0..=1.0).contains(&value) {
                return Err(format!("`{key}`: {value} is not from 0 to 1; 1 switches it off"));
            }
        }
        Ok(())
    }
}

/// The kernel's counts so far.
#[derive(Clone, Copy, Debug)]
pub struct KernelCounts {
    at: Instant,
    /// Ticks in which a core ran any program.
    busy: u64,
    /// Ticks that the hypervisor gave to others.
    stolen: u64,
    /// All ticks of all cores.
    all: u64,
    /// Ticks of this process and of its reaped children.
    ours: u64,
    /// Microseconds in which some thread waited for a core.
    waited_us: Option<u64>,
}

impl KernelCounts {
    /// Returns whether the kernel counts at all: a sandbox's may provide the file with only zeros in it.
    pub fn counts(&self) -> bool {
        self.all > 0
    }

    /// Returns the shares of the cores' time since `before` in which a program ran, and that the hypervisor gave to
    /// others; none if the kernel counted nothing meanwhile.
    pub fn parts_since(&self, before: &Self) -> Option<(f64, f64)> {
        let all = self.all.saturating_sub(before.all) as f64;
        let part = |now: u64, then: u64| now.saturating_sub(then) as f64 / all;
        (all > 0.0).then(|| (part(self.busy, before.busy), part(self.stolen, before.stolen)))
    }
}

/// Reads the counts; none if the kernel does not provide them.
pub fn counted() -> Option<KernelCounts> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let ticks: Vec<u64> = stat.lines().next()?.split_whitespace().skip(1).map_while(|one| one.parse().ok()).collect();
    let at = |place: usize| ticks.get(place).copied().unwrap_or_default();
    // Interrupt time is attributed to no program: it is often spent for the run.
    let (busy, stolen) = (at(0) + at(1) + at(2), at(7));
    let all = ticks.iter().take(8).sum();
    let pressure = fs::read_to_string("/proc/pressure/cpu").ok();
    let waited_us = pressure.and_then(|text| text.lines().next()?.rsplit_once("total=")?.1.trim().parse().ok());
    Some(KernelCounts { at: Instant::now(), busy, stolen, all, ours: ours()?, waited_us })
}

/// Says in one line that disturbance cannot be detected here, if the kernel counts nothing.
pub fn blind() -> Option<String> {
    blind_by(counted().as_ref())
}

fn blind_by(counted: Option<&KernelCounts>) -> Option<String> {
    let is_counted = counted.is_some_and(KernelCounts::counts);
    let why = "whether others disturb a run cannot be seen here: /proc/stat or /proc/self/stat counts nothing";
    (!is_counted).then(|| why.into())
}

/// CPU time of this process and of its reaped children, in ticks.
fn ours() -> Option<u64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    (11..15).map(|at| fields.get(at)?.parse::<u64>().ok()).sum()
}

/// Observations of a run.
#[derive(Clone, Copy, Debug)]
pub struct RunConditions {
    /// Counts before the run.
    pub before: KernelCounts,
    /// Counts after the run.
    pub after: KernelCounts,
    /// Pace of the cores during the run.
    pub pace: PaceResult,
    /// The best [`PaceResult::piece_ns`] in runs of the same kind; none for the first.
    pub best_ns: Option<f64>,
    /// Whether it ran elsewhere, as in a container.
    pub is_elsewhere: bool,
}

impl RunConditions {
    /// Returns the CPU time of the run in seconds, without that of watching.
    pub fn cpu_seconds(&self) -> f64 {
        let all = self.after.ours.saturating_sub(self.before.ours) as f64 / PER_SECOND;
        (all - self.pace.cpu_s).max(0.0)
    }
}

/// Returns why a run was disturbed: by the counts, or else by slow cores.
pub fn spoilt(limits: &DisturbanceLimits, seen: &RunConditions) -> Option<String> {
    let counted = disturbed(limits, &seen.before, &seen.after, seen.is_elsewhere);
    counted.or_else(|| slower(limits.pace, seen.pace.piece_ns, seen.best_ns))
}

/// Returns why what ran between two looks was disturbed. If it ran elsewhere, as in a container, its own work cannot be
/// separated from that of others, and only stolen time counts.
pub fn disturbed(
    limits: &DisturbanceLimits,
    before: &KernelCounts,
    after: &KernelCounts,
    is_elsewhere: bool,
) -> Option<String> {
    let wall = (after.at - before.at).as_secs_f64();
    let all = after.all.saturating_sub(before.all) as f64;
    if all <= 0.0 {
        return None;
    }
    let part = |ticks: u64| ticks.saturating_sub(TICKS_IGNORED) as f64 / all;
    let ours = after.ours.saturating_sub(before.ours);
    let stolen = part(after.stolen.saturating_sub(before.stolen));
    let foreign = part(after.busy.saturating_sub(before.busy).saturating_sub(ours));
    let mut why = Vec::new();
    if stolen > limits.steal {
        why.push(format!("the hypervisor gave {:.0} % of the time to others", stolen * 100.0));
    }
    if !is_elsewhere && foreign > limits.foreign {
        why.push(format!("other programs used {:.0} % of the machine", foreign * 100.0));
    }
    let cores = (all / PER_SECOND / wall).round();
    let left_one_free = ours as f64 / PER_SECOND <= (cores - 1.0) * wall;
    let waited = before.waited_us.zip(after.waited_us);
    let pressure = waited.map_or(0.0, |(before, after)| after.saturating_sub(before) as f64 / 1e6 / wall);
    if why.is_empty() && !is_elsewhere && left_one_free && pressure > limits.pressure && limits.pressure < 1.0 {
        why.push(format!("a thread waited for a core {:.0} % of the time, though one was left free", pressure * 100.0));
    }
    (!why.is_empty()).then(|| why.join("; "))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Ten seconds on two cores.
    fn looked(busy: u64, stolen: u64, ours: u64, waited_us: u64, is_elsewhere: bool) -> Option<String> {
        let before = KernelCounts { at: Instant::now(), busy: 70, stolen: 0, all: 900, ours: 10, waited_us: Some(5) };
        let after = KernelCounts {
            at: before.at + Duration::from_secs(10),
            busy: 70 + busy,
            stolen,
            all: 2_900,
            ours: 10 + ours,
            waited_us: Some(5 + waited_us),
        };
        disturbed(&DisturbanceLimits::default(), &before, &after, is_elsewhere)
    }

    #[test]
    fn load_of_others_is_separated_from_the_runs() {
        assert_eq!(looked(1_990, 4, 1_990, 9_000_000, false), None, "it uses both cores and waits for itself");
        assert_eq!(looked(1_090, 0, 990, 0, false), None, "others had less than a twentieth");
        assert!(looked(1_300, 0, 990, 0, false).expect("busy").contains("other programs used 15 %"));
        assert_eq!(looked(1_300, 0, 990, 0, true), None, "that may be the container");
        assert!(looked(990, 205, 990, 0, true).expect("stolen").contains("10 % of the time"));
        assert!(looked(990, 0, 990, 2_000_000, false).expect("pressure").contains("20 % of the time"));
    }

    #[test]
    fn a_kernel_that_counts_nothing_is_reported() {
        let none = KernelCounts { at: Instant::now(), busy: 0, stolen: 0, all: 0, ours: 0, waited_us: None };
        for (counted, is_blind) in [(None, true), (Some(none), true), (Some(KernelCounts { all: 7, ..none }), false)] {
            assert_eq!(blind_by(counted.as_ref()).is_some(), is_blind, "{counted:?}");
        }
    }

    #[test]
    fn this_machine_counts() {
        let (before, begin) = (counted().expect("Linux"), Instant::now());
        let mut x = 1u64;
        while counted().expect("Linux").ours < before.ours + 3 {
            assert!(begin.elapsed() < Duration::from_secs(60), "no tick is counted");
            (0..100_000).for_each(|_| x = std::hint::black_box(x.wrapping_mul(3)));
        }
        let after = counted().expect("Linux");
        let mut seen =
            RunConditions { before, after, pace: PaceResult::default(), best_ns: Some(20.0), is_elsewhere: false };
        assert!(seen.cpu_seconds() >= 0.03);
        seen.pace = PaceResult { piece_ns: Some(30.0), cpu_s: 1e9 };
        assert_eq!(seen.cpu_seconds(), 0.0, "what watched is none of it");
        let limits = DisturbanceLimits { steal: 1.0, foreign: 1.0, pressure: 1.0, ..DisturbanceLimits::default() };
        assert!(spoilt(&limits, &seen).expect("slow").contains("50 % slower"));
    }
}
