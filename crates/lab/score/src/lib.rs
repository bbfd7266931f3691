//! score: what a machine can do. Scores that compare number for number with those of `polkadot benchmark machine`, and
//! what matters to a node here.
//!
//! reads   `/proc`, for what others do meanwhile
//! writes  a file in a folder that is named, removed when the score is there or is given up
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

use hearth_stats::quiet::{Counted, Quiet, disturbed};
use serde::Serialize;

use cores::Between;
use kind::Kind;
use measure::Measured;

/// Why there is no score.
#[derive(Debug, thiserror::Error)]
pub enum ScoreError {
    /// The disk has too little room.
    #[error("{}: {free} bytes are free, and {needed} are needed; name another folder", path.display())]
    Full {
        /// The folder.
        path: PathBuf,
        /// What a program may still write there.
        free: u64,
        /// What it writes.
        needed: u64,
    },
    /// The disk cannot be written.
    #[error("{}: {source}", path.display())]
    Disk {
        /// The folder or the file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A result is not what it must be.
    #[error("{0}: this machine computes wrongly")]
    Wrong(&'static str),
    /// The system refuses what is measured.
    #[error("{what}: {source}")]
    System {
        /// What.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// There is nothing between one core.
    #[error("this process may use one core only")]
    OneCore,
}

/// What was measured; nothing where it was stopped.
pub type Scored = Result<Option<Measured>, ScoreError>;

/// Of which time a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// Wall time, as `polkadot benchmark machine` has it.
    Wall,
    /// CPU time of the measuring thread, since others had the cores, too.
    Cpu,
}

/// What only some scores have.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Detail {
    /// Nothing.
    #[default]
    None,
    /// Datagrams sent a second, beside those received.
    Sent(f64),
    /// Each pair of cores.
    Between(Between),
}

/// A score.
#[derive(Clone, Debug, PartialEq)]
pub struct Score {
    /// Which.
    pub kind: Kind,
    /// What counts, in the kind's unit.
    pub value: f64,
    /// Of which time that is.
    pub clock: Clock,
    /// By wall time.
    pub wall: f64,
    /// By CPU time, where that means anything.
    pub cpu: Option<f64>,
    /// The 5th percentile, the median and the 95th percentile of half-second slices, by the time that counts; of pairs
    /// of cores those of single calls.
    pub spread: [f64; 3],
    /// Calls that were measured.
    pub calls: u64,
    /// What others did meanwhile.
    pub disturbed: Option<String>,
    /// What else there is to say.
    pub detail: Detail,
}

/// What to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Which scores, in this order.
    pub kinds: Vec<Kind>,
    /// How long each is measured that is not of the disk.
    pub duration: Duration,
    /// How long each score of the disk.
    pub disk_duration: Duration,
    /// Where these write.
    pub folder: PathBuf,
    /// What disturbs a score.
    pub quiet: Quiet,
}

/// What the measuring is told, and what it tells, while it goes on.
pub struct Control<'a> {
    /// Whether to stop.
    pub stop: &'a (dyn Fn() -> bool + Sync),
    /// Takes a line on what begins.
    pub tell: &'a dyn Fn(String),
    /// What the kernel has counted; nothing where it does not tell.
    pub look: &'a dyn Fn() -> Option<Counted>,
}

/// What all came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// The scores.
    pub scores: Vec<Score>,
    /// Scores that could not be had, and why.
    pub failed: Vec<(Kind, String)>,
    /// Whether it was stopped before the last one.
    pub is_stopped: bool,
    /// Whether others could have been seen.
    pub is_watched: bool,
}

/// Measures one after the other. What cannot be measured keeps nothing else from it.
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
        // A sandbox's kernel may tell, and only noughts.
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

fn score(kind: Kind, plan: &Plan, stop: &(dyn Fn() -> bool + Sync)) -> Result<Option<(Measured, Detail)>, ScoreError> {
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
                let measured = Measured { wall: median, cpu: None, slices: Vec::new(), calls: found.calls };
                (measured, Detail::Between(found))
            }));
        }
    };
    Ok(measured?.map(|measured| (measured, Detail::None)))
}

/// Chooses the time that counts.
fn settled(kind: Kind, measured: Measured, detail: Detail, disturbed: Option<String>) -> Score {
    let cpu = measured.cpu.filter(|_| kind.has_cpu_time());
    let (value, clock) = match (&disturbed, cpu) {
        (Some(_), Some(cpu)) => (cpu, Clock::Cpu),
        _ => (measured.wall, Clock::Wall),
    };
    let spread = match &detail {
        Detail::Between(between) => between.spread,
        _ => measured.spread(clock == Clock::Cpu),
    };
    let Measured { wall, calls, .. } = measured;
    Score { kind, value, clock, wall, cpu, spread, calls, disturbed, detail }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::measure::Slice;
    use super::*;

    fn plan(kinds: &[Kind], folder: PathBuf) -> Plan {
        let short = Duration::from_millis(5);
        Plan { kinds: kinds.to_vec(), duration: short, disk_duration: short, folder, quiet: Quiet::default() }
    }

    #[test]
    fn what_fails_keeps_nothing_else_from_being_measured() {
        let folder = tempfile::tempdir().expect("a folder");
        let kinds = [Kind::DiskSequential, Kind::Sha256Chain];
        let told = Cell::new(0);
        let control = Control { stop: &|| false, tell: &|_| told.set(told.get() + 1), look: &|| None::<Counted> };
        let found = run(&plan(&kinds, folder.path().join("none")), &control);
        assert_eq!((found.scores.len(), found.failed.len(), told.get()), (1, 1, 2));
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
        let measured = Measured { wall: 50.0, cpu: Some(100.0), slices, calls: 3 };
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
            settled(Kind::Copy, Measured { cpu: None, ..measured.clone() }, Detail::None, Some("others".into()));
        assert_eq!((unknown.value, unknown.clock), (50.0, Clock::Wall));
    }
}
