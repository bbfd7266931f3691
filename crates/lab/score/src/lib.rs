//! score: what a machine can do. Some scores compare number for number with those of `polkadot benchmark machine`,
//! others matter to a node here.
//!
//! reads   `/proc`, for the activity of others
//! writes  a file in a given folder, removed after the score or on failure
//! memory  128 MiB for the copy, 96 MiB for the verifier
//! source  [`polkadot`]: frame-benchmarking-cli 64.0.0 and sc-sysinfo 51.0.0; [`crypto`]: the node's own code

pub mod cores;
pub mod crypto;
pub mod kind;
pub mod measure;
pub mod polkadot;
pub mod report;
pub mod requirements;
pub mod udp;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use hearth_stats::quiet::{DisturbanceLimits, KernelCounts, disturbed};
use serde::Serialize;

use cores::CoreMatrix;
use kind::Kind;
use measure::Measurement;

/// Why there is no score.
#[derive(Debug, thiserror::Error)]
pub enum ScoreError {
    /// The disk has too little room.
    #[error("{}: {free} bytes are free, and {needed} are needed; name another folder", path.display())]
    Full {
        /// Path of the folder.
        path: PathBuf,
        /// Bytes that a program may still write there.
        free: u64,
        /// Bytes that the score writes.
        needed: u64,
    },
    /// The disk cannot be written.
    #[error("{}: {source}", path.display())]
    Disk {
        /// Path of the folder or the file.
        path: PathBuf,
        /// Why the file could not be written, as the system says it.
        source: io::Error,
    },
    /// A result is wrong.
    #[error("{0}: this machine computes wrongly")]
    Wrong(&'static str),
    /// The system refuses the measured operation.
    #[error("{what}: {source}")]
    System {
        /// Name of the operation, as the error's text begins.
        what: &'static str,
        /// Why the operation failed, as the system says it.
        source: io::Error,
    },
    /// With one core there is no pair of cores to measure.
    #[error("this process may use one core only")]
    OneCore,
}

/// A measurement; none if stopped.
pub type ScoreResult = Result<Option<Measurement>, ScoreError>;

/// The clock of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// Wall time, as in `polkadot benchmark machine`.
    Wall,
    /// CPU time of the measuring thread, because others used the cores, too.
    Cpu,
}

/// Details that only some scores have.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Detail {
    /// Every other kind of score.
    #[default]
    None,
    /// Datagrams sent per second, in addition to those received.
    Sent(f64),
    /// The results of each pair of cores.
    Between(CoreMatrix),
}

/// The result of measuring one kind of score.
#[derive(Clone, Debug, PartialEq)]
pub struct Score {
    /// The kind of score.
    pub kind: Kind,
    /// The value that counts, in the kind's unit.
    pub value: f64,
    /// The clock of that value.
    pub clock: Clock,
    /// The value by wall time.
    pub wall: f64,
    /// The value by CPU time, if meaningful.
    pub cpu: Option<f64>,
    /// The 5th percentile, the median and the 95th percentile of half-second slices, by the clock that counts; for
    /// pairs of cores those of single calls.
    pub spread: [f64; 3],
    /// Number of measured calls.
    pub calls: u64,
    /// How others disturbed it, if they did.
    pub disturbed: Option<String>,
    /// Results besides the value, for the kinds that have some.
    pub detail: Detail,
}

/// The scores to measure, and how long each takes.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The kinds of scores, in order.
    pub kinds: Vec<Kind>,
    /// Duration of each score except those of the disk.
    pub duration: Duration,
    /// Duration of each score of the disk.
    pub disk_duration: Duration,
    /// The folder in which disk scores write.
    pub folder: PathBuf,
    /// Thresholds for a disturbed score.
    pub quiet: DisturbanceLimits,
}

/// Callbacks during the measurement.
pub struct Control<'a> {
    /// Returns whether to stop.
    pub stop: &'a (dyn Fn() -> bool + Sync),
    /// Receives a line at the start of each score.
    pub tell: &'a dyn Fn(String),
    /// Reads the kernel's counts; none if it does not provide them.
    pub look: &'a dyn Fn() -> Option<KernelCounts>,
}

/// The result of all scores.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// The scores that were measured, in the plan's order.
    pub scores: Vec<Score>,
    /// Scores that could not be measured, and why.
    pub failed: Vec<(Kind, String)>,
    /// Whether it was stopped before the last one.
    pub is_stopped: bool,
    /// Whether disturbances could have been detected.
    pub is_watched: bool,
}

/// Measures the scores one after the other. A failed score does not affect the others.
pub fn run(plan: &Plan, control: &Control<'_>) -> Outcome {
    let mut outcome = Outcome { is_watched: true, ..Outcome::default() };
    for &kind in &plan.kinds {
        if (control.stop)() {
            outcome.is_stopped = true;
            break;
        }
        (control.tell)(kind.name().into());
        let before = (control.look)();
        let scored = score(kind, plan, control.stop);
        let looked = before.zip((control.look)());
        // A sandbox's kernel may provide the counts with only zeros in them.
        outcome.is_watched &= looked.as_ref().is_some_and(|(_, after)| after.counts());
        let why = looked.and_then(|(before, after)| disturbed(&plan.quiet, &before, &after, false));
        match scored {
            Ok(Some((measured, detail))) => outcome.scores.push(settled(kind, measured, detail, why)),
            Ok(None) => outcome.is_stopped = true,
            Err(why) => outcome.failed.push((kind, why.to_string())),
        }
    }
    outcome
}

fn score(
    kind: Kind,
    plan: &Plan,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Option<(Measurement, Detail)>, ScoreError> {
    let (limit, disk_limit) = (plan.duration, plan.disk_duration);
    let measured = match kind {
        Kind::Blake2 => polkadot::blake2_256(limit, stop),
        Kind::Blake2Parallel => polkadot::blake2_256_parallel(limit, stop),
        Kind::Sr25519Verify => polkadot::sr25519_verify(limit, stop),
        Kind::Copy => polkadot::copy(limit, stop),
        Kind::DiskSequential => polkadot::disk_sequential(&plan.folder, disk_limit, stop),
        Kind::DiskRandom => polkadot::disk_random(&plan.folder, disk_limit, stop),
        Kind::Ed25519Sign => crypto::ed25519_sign(limit, stop),
        Kind::Ed25519Verify => crypto::ed25519_verify(limit, stop),
        Kind::Sha256Chain => crypto::sha256(limit, stop),
        Kind::ReedSolomon => crypto::reed_solomon(limit, stop),
        Kind::Secp256k1Recover => crypto::secp256k1_recover(limit, stop),
        Kind::UdpLoopback => {
            let found = udp::loopback(limit, stop)?;
            return Ok(found.map(|found| (found.received, Detail::Sent(found.sent))));
        }
        Kind::CoreToCore => {
            let found = cores::core_to_core(limit, stop)?;
            return Ok(found.map(|found| {
                let [_, median, _] = found.range();
                let measured = Measurement { wall: median, cpu: None, slices: Vec::new(), calls: found.calls };
                (measured, Detail::Between(found))
            }));
        }
    };
    Ok(measured?.map(|measured| (measured, Detail::None)))
}

/// Chooses the clock that counts.
fn settled(kind: Kind, measured: Measurement, detail: Detail, disturbed: Option<String>) -> Score {
    let cpu = measured.cpu.filter(|_| kind.has_cpu_time());
    let (value, clock) = match (&disturbed, cpu) {
        (Some(_), Some(cpu)) => (cpu, Clock::Cpu),
        _ => (measured.wall, Clock::Wall),
    };
    let spread = match &detail {
        Detail::Between(between) => between.spread,
        _ => measured.spread(clock == Clock::Cpu),
    };
    let Measurement { wall, calls, .. } = measured;
    Score { kind, value, clock, wall, cpu, spread, calls, disturbed, detail }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::measure::Slice;
    use super::*;

    fn plan(kinds: &[Kind], folder: PathBuf) -> Plan {
        let short = Duration::from_millis(5);
        Plan {
            kinds: kinds.to_vec(),
            duration: short,
            disk_duration: short,
            folder,
            quiet: DisturbanceLimits::default(),
        }
    }

    #[test]
    fn failure_prevents_no_other_measurement() {
        let folder = tempfile::tempdir().expect("a folder");
        let kinds = [Kind::DiskSequential, Kind::Sha256Chain];
        let reports = Cell::new(0);
        let control =
            Control { stop: &|| false, tell: &|_| reports.set(reports.get() + 1), look: &|| None::<KernelCounts> };
        let found = run(&plan(&kinds, folder.path().join("none")), &control);
        assert_eq!((found.scores.len(), found.failed.len(), reports.get()), (1, 1, 2));
        assert_eq!(found.failed[0].0, Kind::DiskSequential);
        assert!(found.failed[0].1.contains("none: "), "{found:?}");
        assert!(!found.is_watched && !found.is_stopped);
        assert_eq!((found.scores[0].clock, &found.scores[0].disturbed), (Clock::Wall, &None));
    }

    #[test]
    fn a_stop_keeps_what_there_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let begun = Cell::new(0);
        let is_stopped = std::sync::atomic::AtomicBool::new(false);
        let tell = |_| {
            begun.set(begun.get() + 1);
            is_stopped.store(begun.get() == 2, std::sync::atomic::Ordering::Release);
        };
        let stop = || is_stopped.load(std::sync::atomic::Ordering::Acquire);
        let control = Control { stop: &stop, tell: &tell, look: &hearth_stats::quiet::counted };
        let kinds = [Kind::Sha256Chain, Kind::DiskSequential, Kind::Copy];
        let found = run(&plan(&kinds, folder.path().into()), &control);
        assert_eq!((found.scores.len(), begun.get()), (1, 2));
        assert!(found.is_stopped && found.failed.is_empty() && found.is_watched, "{found:?}");
        assert_eq!(std::fs::read_dir(folder.path()).expect("readable").count(), 0);
    }

    #[test]
    fn on_a_busy_machine_cpu_time_counts_where_it_means_anything() {
        let slice = |wall: f64| Slice { wall, cpu: Some(2.0 * wall) };
        let slices = [40.0, 50.0, 60.0].map(slice).to_vec();
        let measured = Measurement { wall: 50.0, cpu: Some(100.0), slices, calls: 3 };
        let score = |kind, why: Option<&str>| settled(kind, measured.clone(), Detail::None, why.map(Into::into));
        let quiet = score(Kind::Blake2, None);
        assert_eq!((quiet.value, quiet.clock, quiet.cpu), (50.0, Clock::Wall, Some(100.0)));
        let busy = score(Kind::Blake2, Some("others"));
        assert_eq!((busy.value, busy.clock, busy.wall), (100.0, Clock::Cpu, 50.0));
        assert_eq!((quiet.spread, busy.spread), ([40.0, 50.0, 60.0], [80.0, 100.0, 120.0]), "of the time that counts");
        for kind in [Kind::DiskRandom, Kind::UdpLoopback, Kind::CoreToCore] {
            let busy = score(kind, Some("others"));
            assert_eq!((busy.value, busy.clock, busy.cpu), (50.0, Clock::Wall, None));
            assert!(busy.disturbed.is_some());
        }
        let unknown =
            settled(Kind::Copy, Measurement { cpu: None, ..measured.clone() }, Detail::None, Some("others".into()));
        assert_eq!((unknown.value, unknown.clock), (50.0, Clock::Wall));
    }
}
