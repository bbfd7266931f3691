//! A trial: runs `hearth bench` with the layout, and repeats it if others disturbed it.
//!
//! reads   the bench's rates, tiles and limit; the kernel's counts of other programs
//! writes  `trial.toml`, with which the bench is started, and the bench's output

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use hearth_command::output::note;
use hearth_command::stop::StopSignal;
use hearth_node::config::Config;
use hearth_node::start_checks;
use hearth_stats::pace::Watch;
use hearth_stats::quiet::{DisturbanceLimits, RunConditions, counted, spoilt};
use serde::Deserialize;

use super::Options;
use super::config::{differing, with_layout};
use crate::layout::{Evaluate, Layout, LayoutMeasurement, Outcome, Space, Trial, Use};
use crate::run::identity::digest_of;
use crate::run::process::{self, Bounds, ProcessEnd};

/// While it is unknown how long a bench takes here, one that overruns its measured time by this much is hung;
const LIMIT: Duration = Duration::from_secs(90);
/// afterwards one that overruns by this many times the slowest so far, but at least by the least limit.
const LIMIT_TIMES: u32 = 10;
const LIMIT_LEAST: Duration = Duration::from_secs(20);
/// About the time that a bench takes besides measuring: a node is started and stopped.
pub const AROUND: Duration = Duration::from_secs(3);
/// Characters of a folder's digest that distinguish its nodes from those of other searches.
const MARK: usize = 8;

/// Returns the name of the nodes of the search in this folder.
pub fn name(folder: &Path) -> String {
    format!("hearth-tune-layout-{}", &digest_of(&[&folder.to_string_lossy()])[..MARK])
}

/// Why no further layout is tried.
#[derive(Debug, thiserror::Error)]
pub enum StopReason {
    /// The user stopped the search.
    #[error("stopped")]
    Asked,
    /// Another node has the name.
    #[error("{0}")]
    Taken(String),
    /// A file cannot be written, or the program cannot be started.
    #[error("{}: {source}", path.display())]
    Io {
        /// Path of the file or program.
        path: PathBuf,
        /// Why it could not be written or started, as the system says it.
        source: io::Error,
    },
}

/// Tries layouts by running benches.
pub struct Bench<'a> {
    pub options: &'a Options,
    pub quiet: DisturbanceLimits,
    pub base: &'a Config,
    pub space: &'a Space,
    pub default: &'a Layout,
    pub folder: &'a Path,
    /// Name of its nodes, whatever the configuration says.
    pub name: String,
    pub stop: &'a StopSignal,
    /// The best time of a piece of work with each layout. A layout that keeps both threads of a core busy slows it down
    /// itself, so layouts are not compared with each other.
    pub best_ns: BTreeMap<Layout, f64>,
    /// The longest overrun beyond the measured time of any completed bench.
    pub longest: Option<Duration>,
}

/// How much longer than its measured time a bench may take, given the longest overrun so far.
fn limit_beyond(longest: Option<Duration>) -> Duration {
    longest.map_or(LIMIT, |longest| (longest * LIMIT_TIMES).clamp(LIMIT_LEAST, LIMIT))
}

/// The bench's JSON report, limited to the fields that are needed here.
#[derive(Deserialize)]
struct BenchResult {
    measured: bool,
    txn_per_s: Option<Rate>,
    bottleneck: Option<Bottleneck>,
    tiles: Vec<Tile>,
}

#[derive(Deserialize)]
struct Rate {
    mean: f64,
}

#[derive(Deserialize)]
struct Bottleneck {
    tile: String,
    why: String,
}

#[derive(Deserialize)]
struct Tile {
    tile: String,
    busy: f64,
    backpressure: f64,
    wait: f64,
}

impl Evaluate for Bench<'_> {
    type Error = StopReason;

    fn evaluate(&mut self, layout: &Layout, left: f64) -> Result<Trial, StopReason> {
        let (begin, retries) = (Instant::now(), self.options.retries);
        let mut best_ns = self.best_ns.get(layout).copied();
        let look = || {
            let (before, watch) = (counted(), Watch::begin());
            let outcome = self.once(layout)?;
            let pace = watch.end();
            let looks = before.zip(counted());
            let seen = looks.map(|(before, after)| RunConditions { before, after, pace, best_ns, is_elsewhere: false });
            best_ns = best_ns.into_iter().chain(pace.piece_ns).min_by(f64::total_cmp);
            Ok((outcome, seen.and_then(|seen| spoilt(&self.quiet, &seen))))
        };
        let outcome = tried(retries, look, || begin.elapsed().as_secs_f64() < left)?;
        self.best_ns.extend(best_ns.map(|ns| (layout.clone(), ns)));
        if let Outcome::Measured(measured) = &outcome {
            note(format_args!("  … {:.0} a second", measured.rate));
        }
        Ok(Trial { outcome, seconds: begin.elapsed().as_secs_f64() })
    }
}

/// Repeats a trial while others disturb it. A layout that fails each of several times does not work, however busy the
/// machine is; without a second try its failure proves nothing.
fn tried<E>(
    retries: u32,
    mut once: impl FnMut() -> Result<(Outcome, Option<String>), E>,
    has_time: impl Fn() -> bool,
) -> Result<Outcome, E> {
    let mut again = 0;
    let mut has_run = false;
    loop {
        let (outcome, disturbed) = once()?;
        let Some(why) = disturbed else { return Ok(outcome) };
        has_run |= matches!(outcome, Outcome::Measured(_));
        let is_again = again < retries && has_time();
        let what = if is_again { "it is done again" } else { "it is given up" };
        note(format_args!("  … a run was disturbed ({why}): {what}"));
        if !is_again {
            return Ok(if has_run || again == 0 { Outcome::Disturbed(why) } else { outcome });
        }
        again += 1;
    }
}

impl Bench<'_> {
    fn once(&mut self, layout: &Layout) -> Result<Outcome, StopReason> {
        if self.stop.is_set() {
            return Err(StopReason::Asked);
        }
        let at = |name: &str| self.folder.join(name);
        let (toml, result, out, err) = (at("trial.toml"), at("trial.json"), at("trial.out"), at("trial.err"));
        let mut config = match layout == self.default {
            true => self.base.clone(),
            false => with_layout(self.base, self.space, layout),
        };
        let default = Config::default();
        config.name = self.name.clone();
        if config.ledger.path == default.ledger.path {
            config.ledger.path = at("ledger");
        }
        // If another node has the name, no layout can be tried.
        start_checks::nobody_has_the_name(&config, start_checks::NAME_OF_BENCH)
            .map_err(|why| StopReason::Taken(why.to_string()))?;
        let _ = fs::remove_file(&result);
        fs::write(&toml, differing(&config)).map_err(|source| StopReason::Io { path: toml.clone(), source })?;
        let program = std::env::current_exe().map_err(|source| StopReason::Io { path: "hearth".into(), source })?;
        let mut command = Command::new(&program);
        command.arg("bench").arg("--config").arg(&toml).arg("--json").arg(&result);
        command.args(["--warmup", &self.options.warmup.to_string()]);
        command.args(["--duration", &self.options.duration.to_string()]);
        command.args(["--parent", &std::process::id().to_string()]);
        let measures = Duration::from_secs(self.options.warmup + self.options.duration);
        let limit = measures + limit_beyond(self.longest);
        let mark = self.folder.to_string_lossy();
        let bounds = Bounds { mark: &mark, limit, out: &out, err: &err, stop: &|| self.stop.is_set() };
        let ran = process::run(&mut command, &bounds).map_err(|source| StopReason::Io { path: program, source })?;
        if ran.ended == ProcessEnd::Stopped {
            return Err(StopReason::Asked);
        }
        if let Some(fault) = ran.fault(limit) {
            let said = fs::read_to_string(&err).unwrap_or_default();
            let said = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default().to_owned();
            return Ok(Outcome::Failed(format!("{fault}: {said}")));
        }
        self.longest = self.longest.max(Some(ran.wall.saturating_sub(measures)));
        let report = fs::read(&result).map_err(|why| why.to_string());
        let report =
            report.and_then(|text| serde_json::from_slice::<BenchResult>(&text).map_err(|why| why.to_string()));
        Ok(report.and_then(|report| self.measured(layout, report)).map_or_else(Outcome::Failed, Outcome::Measured))
    }

    /// Converts a bench's report to the order of the space.
    fn measured(&self, layout: &Layout, report: BenchResult) -> Result<LayoutMeasurement, String> {
        let rate = report.txn_per_s.filter(|_| report.measured).ok_or("nothing was measured")?.mean;
        let bottleneck = report.bottleneck.ok_or("it did not tell the limit")?;
        let of = |kind: usize| {
            let name = &self.space.kinds[kind].name;
            let tiles = report.tiles.iter().filter(|tile| tile.tile.split(':').next() == Some(name));
            tiles.map(|tile| Use { busy: tile.busy, backpressure: tile.backpressure, wait: tile.wait }).collect()
        };
        let tiles: Vec<Vec<Use>> = (0..self.space.kinds.len()).map(of).collect();
        let counts = |all: &[Vec<Use>]| all.iter().map(Vec::len).collect::<Vec<_>>();
        let wanted: Vec<usize> = layout.tiles.iter().map(Vec::len).collect();
        if counts(&tiles) != wanted {
            return Err("its tiles are others than were asked for".into());
        }
        Ok(LayoutMeasurement { rate, tiles, limit: self.space.kind(&bottleneck.tile), says: bottleneck.why })
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::convert::Infallible;

    use super::*;

    fn outcome(runs: &[(bool, bool)], retries: u32, tries_most: usize) -> (Outcome, usize) {
        let done = Cell::new(0);
        let once = || {
            let (runs, disturbed) = runs[done.get()];
            done.set(done.get() + 1);
            let outcome =
                if runs { Outcome::Measured(LayoutMeasurement::default()) } else { Outcome::Failed("no".into()) };
            Ok::<_, Infallible>((outcome, disturbed.then(|| "others".to_owned())))
        };
        let Ok(outcome) = tried(retries, once, || done.get() < tries_most);
        (outcome, done.get())
    }

    #[test]
    fn a_failure_counts_only_where_it_is_the_layouts_own() {
        let measured = || Outcome::Measured(LayoutMeasurement::default());
        let failed = || Outcome::Failed("no".into());
        let disturbed = || Outcome::Disturbed("others".into());
        assert_eq!(outcome(&[(true, false)], 3, 9), (measured(), 1));
        assert_eq!(outcome(&[(false, false)], 3, 9), (failed(), 1), "in peace, once is enough");
        assert_eq!(outcome(&[(false, true), (true, false)], 3, 9), (measured(), 2), "it starved");
        assert_eq!(outcome(&[(false, true), (true, true)], 1, 9), (disturbed(), 2));
        assert_eq!(outcome(&[(false, true); 3], 2, 9), (failed(), 3), "it never works");
        assert_eq!(outcome(&[(false, true)], 0, 9), (disturbed(), 1), "once, and disturbed, says nothing");
        assert_eq!(outcome(&[(false, true)], 3, 1), (disturbed(), 1), "nor where the time is up");
        assert_eq!(outcome(&[(true, true); 3], 2, 9), (disturbed(), 3));
        assert_eq!(outcome(&[(true, true); 9], 8, 2), (disturbed(), 2), "the time is up");
    }

    #[test]
    fn a_bench_that_hangs_is_ended_by_what_others_took() {
        let seconds = Duration::from_secs;
        assert_eq!(limit_beyond(None), seconds(90));
        assert_eq!(limit_beyond(Some(seconds(1))), seconds(20));
        assert_eq!(limit_beyond(Some(seconds(3))), seconds(30));
        assert_eq!(limit_beyond(Some(seconds(60))), seconds(90), "never later than before one was known");
    }

    #[test]
    fn each_folder_has_a_name_of_its_own() {
        assert_eq!(name(Path::new("/a")), name(Path::new("/a")));
        assert_ne!(name(Path::new("/a")), name(Path::new("/b")));
    }
}
