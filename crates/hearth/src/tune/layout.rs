//! `hearth tune layout`: looks for tile counts and cores that are better than the default's.
//!
//! reads   a configuration; the folder of a search that was begun; what a bench tells of each layout
//! writes  that folder; the layout to take, as a configuration; the path, as text and JSON
//! memory  see `hearth_lab::tune::layout`
//!
//! Each trial is a `hearth bench` of its own, started with a configuration that was made for it. It ends when this
//! program does, whatever ends that.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use clap::Args;
use hearth_lab::tune::build::process::{self, Bounds, Ended};
use hearth_lab::tune::build::quiet::{Quiet, counted, disturbed};
use hearth_lab::tune::build::source::digest;
use hearth_lab::tune::layout::journal::{Journal, JournalError};
use hearth_lab::tune::layout::search::{SearchError, TRIALS_MOST};
use hearth_lab::tune::layout::{
    Budget, Evaluate, Found, Kind, Layout, Measured, Outcome, Space, Trial, Use, report, search,
};
use hearth_pipeline::topology::seat;
use hearth_tile::affinity::{Cores, written};
use hearth_tile::topology::Topology;
use serde::Deserialize;
use serde_json::{Value, json};

use super::TuneError;
use crate::boot::{self, BootError};
use crate::cli::ConfigFile;
use crate::config::{self, Config, ConfigError};
use crate::out::{Unwritable, can_be_written};
use crate::say::{Say, note};
use crate::stop::StopSignal;

/// What the nodes of the trials are called.
const NAME: &str = "hearth-tune-layout";
/// A bench that takes so much longer than it should hangs.
const LIMIT: Duration = Duration::from_secs(90);
/// Kinds of which there may be several.
const SEVERAL: [&str; 7] = ["benchg", "benchs", "net", "quic", "verify", "bank", "shred"];
/// Kinds whose tiles take work as they have time for it: of the others each has its share of the connections.
const ELASTIC: [&str; 3] = ["benchg", "verify", "bank"];
/// Characters of a line of the evidence in the configuration.
const WIDTH: usize = 110;

/// `hearth tune layout`
#[derive(Args)]
pub struct Options {
    /// The file whose layout is to be bettered; the rest of it holds for all trials.
    #[command(flatten)]
    pub config: ConfigFile,
    /// How long the trials may take, in all.
    #[arg(long, value_name = "MINUTES", default_value_t = 10.0)]
    pub minutes: f64,
    /// How many trials there may be, repeated ones included.
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..=TRIALS_MOST as i64))]
    pub runs: u32,
    /// Seconds that a trial measures.
    #[arg(long, value_name = "SECONDS", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub duration: u64,
    /// Seconds before it does.
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(0..=3600))]
    pub warmup: u64,
    /// Where randomness begins.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// A trial is disturbed when the hypervisor gave so much of the time to others; 1 switches it off, here and below.
    #[arg(long, value_name = "SHARE", default_value_t = Quiet::default().steal)]
    pub steal: f64,
    /// Or when other programs used so much of all cores.
    #[arg(long, value_name = "SHARE", default_value_t = Quiet::default().foreign)]
    pub foreign: f64,
    /// Or when somebody waited for a core so much of the time, though the trial left one free.
    #[arg(long, value_name = "SHARE", default_value_t = Quiet::default().pressure)]
    pub pressure: f64,
    /// So often a disturbed trial is done again.
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub retries: u32,
    /// The search's folder.
    #[arg(long, value_name = "DIR", default_value = "layout.study")]
    pub out: PathBuf,
    /// Where to write the configuration with the layout to take [default: `layout.toml` in that folder].
    #[arg(long, value_name = "FILE")]
    pub toml: Option<PathBuf>,
    /// Write the path and the answer there as JSON, too.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Why there is no layout to take.
#[derive(Debug, thiserror::Error)]
pub enum LayoutError {
    /// What was asked cannot be done.
    #[error("{0}")]
    Asked(String),
    /// The configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Its layout.
    #[error(transparent)]
    Boot(#[from] BootError),
    /// A file.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another is at it.
    #[error("another `hearth tune layout` is at work in {}", .0.display())]
    Locked(PathBuf),
    /// The folder holds another search.
    #[error(
        "{} holds a search with another {what}: its trials do not belong here. Give this one another folder with --out, \
         or remove that one", folder.display()
    )]
    Other {
        /// The folder.
        folder: PathBuf,
        /// What differs.
        what: String,
    },
    /// The file of trials.
    #[error(transparent)]
    Journal(Box<JournalError<Stopped>>),
    /// It was asked to stop.
    #[error("stopped: what was tried is kept in {}, and the same command goes on there", .0.display())]
    Stopped(PathBuf),
    /// There is nothing to compare with.
    #[error("the layout to begin with cannot be measured: {0}")]
    Default(String),
}

impl LayoutError {
    /// Whether the command line or the configuration is at fault.
    pub fn is_wrong_use(&self) -> bool {
        matches!(self, Self::Asked(_) | Self::Config(_)) || matches!(self, Self::Boot(why) if why.is_wrong_use())
    }
}

/// Nothing is tried any more.
#[derive(Debug, thiserror::Error)]
pub enum Stopped {
    /// It was asked to stop.
    #[error("stopped")]
    Asked,
    /// A file, or the program.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Runs the command.
pub fn run(options: &Options, stop: &StopSignal, say: &Say) -> Result<(), TuneError> {
    let quiet = Quiet { steal: options.steal, foreign: options.foreign, pressure: options.pressure };
    quiet.check().map_err(|why| LayoutError::Asked(why.replace('`', "--").replacen("--:", ":", 1)))?;
    if !(options.minutes > 0.0 && options.minutes.is_finite()) {
        return Err(LayoutError::Asked("--minutes must be greater than 0".into()).into());
    }
    let base = base(&options.config)?;
    let cores = boot::cores(&base).map_err(LayoutError::from)?;
    let topology = boot::topology(&base, &cores, true).map_err(|why| LayoutError::from(BootError::from(why)))?;
    let (space, default) = space(&base, &topology, cores);
    let folder = Folder::take(&options.out)?;
    let toml = options.toml.clone().unwrap_or_else(|| folder.path.join("layout.toml"));
    for path in options.json.iter().chain([&toml]) {
        can_be_written(path)?;
    }
    folder.is_same_search(options, &base, &space)?;
    let bench = Bench { options, quiet, base: &base, space: &space, default: &default, folder: &folder.path, stop };
    let path = folder.path.join("trials");
    let mut journal = Journal::open(&path, bench).map_err(|source| LayoutError::Io { path: path.clone(), source })?;
    if journal.kept() > 0 {
        note(format_args!("  … {} trials are kept from before", journal.kept()));
    }
    let budget = Budget { trials: options.runs as usize, seconds: 60.0 * options.minutes, seed: options.seed };
    let tell = |line: &str| note(format_args!("  … {line}"));
    let found = search(&space, &default, budget, &mut journal, &tell).map_err(|why| failed(why, &folder.path))?;
    let text = configuration(&base, &space, &found, options);
    write(&toml, &text)?;
    say.text(report::text(&space, &found));
    say.line(format_args!("the configuration: {}", toml.display()));
    if let Some(path) = &options.json {
        let mut all = report::json(&space, &found);
        all["toml"] = json!(text);
        write(path, &format!("{all:#}\n"))?;
    }
    Ok(())
}

fn failed(why: SearchError<JournalError<Stopped>>, folder: &Path) -> LayoutError {
    match why {
        SearchError::Default(why) => LayoutError::Default(why),
        SearchError::Evaluate(JournalError::Evaluate(Stopped::Asked)) => LayoutError::Stopped(folder.into()),
        SearchError::Evaluate(JournalError::Evaluate(Stopped::Io { path, source })) => LayoutError::Io { path, source },
        SearchError::Evaluate(other) => LayoutError::Journal(Box::new(other)),
    }
}

fn write(path: &Path, text: &str) -> Result<(), Unwritable> {
    fs::write(path, text).map_err(|source| Unwritable { path: path.into(), source })
}

fn base(file: &ConfigFile) -> Result<Config, LayoutError> {
    let Some(path) = &file.config else { return Ok(Config::default()) };
    let loaded = config::load(path)?;
    loaded.notices.iter().for_each(|notice| note(format_args!("notice: {notice}")));
    Ok(loaded.config)
}

/// What can be chosen, and what the configuration chooses.
fn space(base: &Config, topology: &Topology, cores: Cores) -> (Space, Layout) {
    let hashing = base.development.genesis.hashes_per_tick > 0;
    let mut kinds: Vec<Kind> = Vec::new();
    let mut tiles: Vec<Vec<Option<usize>>> = Vec::new();
    for tile in &topology.tiles {
        let seat = seat(tile, hashing);
        if kinds.last().is_none_or(|kind| kind.name != tile.kind) {
            kinds.push(Kind {
                name: tile.kind.clone(),
                most: if SEVERAL.contains(&&*tile.kind) { cores.allowed.len() } else { 1 },
                floats: seat.floats,
                is_elastic: ELASTIC.contains(&&*tile.kind),
                spread: seat.spread,
                quiet: seat.quiet,
            });
            tiles.push(Vec::new());
        }
        if let (Some(kind), Some(places)) = (kinds.last_mut(), tiles.last_mut()) {
            places.push(tile.core);
            kind.floats |= tile.core.is_none();
            kind.most = kind.most.max(places.len());
        }
    }
    (Space { kinds, cores }, Layout::new(tiles))
}

/// The configuration with a layout in it, by the keys that anybody would set.
fn with_layout(base: &Config, space: &Space, layout: &Layout) -> Config {
    let mut config = base.clone();
    let (mut load, mut node) = (Vec::new(), Vec::new());
    for (kind, places) in space.kinds.iter().zip(&layout.tiles) {
        let is_load = matches!(&*kind.name, "bencho" | "benchg" | "benchs");
        if is_load { &mut load } else { &mut node }.extend(places);
        let (layout, bench) = (&mut config.layout, &mut config.development.bench);
        let count = match &*kind.name {
            "benchg" => &mut bench.benchg_tile_count,
            "benchs" => &mut bench.benchs_tile_count,
            "net" => &mut layout.net_tile_count,
            "quic" => &mut layout.quic_tile_count,
            "verify" => &mut layout.verify_tile_count,
            "bank" => &mut layout.bank_tile_count,
            "shred" => &mut layout.shred_tile_count,
            _ => continue,
        };
        *count = places.len();
    }
    config.layout.affinity = written(&node);
    config.development.bench.affinity = written(&load);
    config
}

/// The keys of a configuration that differ from the default's, as a file has them.
fn differing(config: &Config) -> String {
    fn less(mine: toml::Table, other: &toml::Table) -> toml::Table {
        let keep = |(key, value): (String, toml::Value)| match (value, other.get(&key)) {
            (toml::Value::Table(inner), Some(toml::Value::Table(other))) => {
                let inner = less(inner, other);
                (!inner.is_empty()).then_some((key, toml::Value::Table(inner)))
            }
            (value, Some(other)) if value == *other => None,
            (value, _) => Some((key, value)),
        };
        mine.into_iter().filter_map(keep).collect()
    }
    let table = |config: &Config| toml::Table::try_from(config).expect("plain data");
    toml::to_string(&less(table(config), &table(&Config::default()))).expect("plain data")
}

/// The configuration to take, with the evidence.
fn configuration(base: &Config, space: &Space, found: &Found, options: &Options) -> String {
    let config = if found.is_better() { with_layout(base, space, &found.layout) } else { base.clone() };
    let mut lines = vec![format!(
        "Written by `hearth tune layout` on {} cores: benches of {} s after {} s, seed {}.",
        space.cores.allowed.len(),
        options.duration,
        options.warmup,
        options.seed
    )];
    lines.extend(report::evidence(space, found));
    lines.extend(report::path(space, found));
    let comment: String = lines.iter().flat_map(|line| wrapped(line)).map(|line| format!("# {line}\n")).collect();
    let keys = differing(&config);
    if keys.is_empty() { comment } else { format!("{comment}\n{keys}") }
}

/// A line, cut at spaces; what goes on is set in.
fn wrapped(line: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    for word in line.split_whitespace() {
        let last = all.last_mut().expect("there is one");
        if !last.trim().is_empty() && last.chars().count() + 1 + word.chars().count() > WIDTH {
            all.push(format!("  {word}"));
        } else if last.is_empty() {
            last.push_str(word);
        } else {
            last.push(' ');
            last.push_str(word);
        }
    }
    all
}

/// The search's folder, taken.
struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    fn take(path: &Path) -> Result<Self, LayoutError> {
        let failed = |source| LayoutError::Io { path: path.into(), source };
        fs::create_dir_all(path).map_err(failed)?;
        let path = path.canonicalize().map_err(failed)?;
        if !path.join("lock").exists() && fs::read_dir(&path).map_err(failed)?.next().is_some() {
            let what = format!("--out: {} has other files in it; name another", path.display());
            return Err(LayoutError::Asked(what));
        }
        let lock = File::create(path.join("lock")).map_err(failed)?;
        match lock.try_lock() {
            Err(TryLockError::WouldBlock) => return Err(LayoutError::Locked(path)),
            Err(TryLockError::Error(source)) => return Err(failed(source)),
            Ok(()) => {}
        }
        let left = process::end_marked(&path.to_string_lossy());
        if left > 0 {
            note(format_args!("  … {left} processes of this search were still there, and are ended"));
        }
        Ok(Self { path, _lock: lock })
    }

    /// Refuses to go on with trials of another program, configuration or machine.
    fn is_same_search(&self, options: &Options, base: &Config, space: &Space) -> Result<(), LayoutError> {
        let program = program()?;
        let digest = digest(&program).map_err(|source| LayoutError::Io { path: program, source })?;
        let now = json!({
            "program": digest,
            "configuration": differing(base),
            "cores": space.cores.allowed,
            "duration": [options.warmup, options.duration],
            "budget": [options.minutes, f64::from(options.runs)],
            "seed": options.seed,
        });
        let path = self.path.join("search.json");
        let before: Option<Value> = fs::read_to_string(&path).ok().and_then(|text| serde_json::from_str(&text).ok());
        let has_trials = fs::metadata(self.path.join("trials")).is_ok_and(|trials| trials.len() > 0);
        let keys = now.as_object().into_iter().flatten().map(|(key, _)| key.clone());
        let differs = before.and_then(|before| keys.into_iter().find(|key| before[key] != now[key]));
        match differs {
            Some(what) if has_trials => Err(LayoutError::Other { folder: self.path.clone(), what }),
            _ => fs::write(&path, format!("{now:#}\n")).map_err(|source| LayoutError::Io { path, source }),
        }
    }
}

fn program() -> Result<PathBuf, LayoutError> {
    std::env::current_exe().map_err(|source| LayoutError::Io { path: "hearth".into(), source })
}

/// Tries layouts by benches.
struct Bench<'a> {
    options: &'a Options,
    quiet: Quiet,
    base: &'a Config,
    space: &'a Space,
    default: &'a Layout,
    folder: &'a Path,
    stop: &'a StopSignal,
}

/// What a bench tells; the rest of it is not needed here.
#[derive(Deserialize)]
struct Told {
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
    type Error = Stopped;

    fn evaluate(&mut self, layout: &Layout) -> Result<Trial, Stopped> {
        let begin = Instant::now();
        let mut outcome = Outcome::Failed(String::new());
        for again in 0..=self.options.retries {
            let before = counted();
            outcome = self.once(layout)?;
            let looks = before.zip(counted());
            let why = looks.and_then(|(before, after)| disturbed(&self.quiet, &before, &after, false));
            let (Outcome::Measured(_), Some(why)) = (&outcome, why) else { break };
            let what = if again < self.options.retries { "it is done again" } else { "it is given up" };
            note(format_args!("  … a run was disturbed ({why}): {what}"));
            outcome = Outcome::Failed(format!("others disturbed each of {} runs, the last since {why}", again + 1));
        }
        if let Outcome::Measured(measured) = &outcome {
            note(format_args!("  … {:.0} a second", measured.rate));
        }
        Ok(Trial { outcome, seconds: begin.elapsed().as_secs_f64() })
    }
}

impl Bench<'_> {
    fn once(&self, layout: &Layout) -> Result<Outcome, Stopped> {
        if self.stop.is_set() {
            return Err(Stopped::Asked);
        }
        let at = |name: &str| self.folder.join(name);
        let (toml, result, out, err) = (at("trial.toml"), at("trial.json"), at("trial.out"), at("trial.err"));
        let mut config = match layout == self.default {
            true => self.base.clone(),
            false => with_layout(self.base, self.space, layout),
        };
        let default = Config::default();
        if config.name == default.name {
            config.name = NAME.into();
        }
        if config.ledger.path == default.ledger.path {
            config.ledger.path = at("ledger");
        }
        let _ = fs::remove_file(&result);
        fs::write(&toml, differing(&config)).map_err(|source| Stopped::Io { path: toml.clone(), source })?;
        let program = std::env::current_exe().map_err(|source| Stopped::Io { path: "hearth".into(), source })?;
        let mut command = Command::new(&program);
        command.arg("bench").arg("--config").arg(&toml).arg("--json").arg(&result);
        command.args(["--warmup", &self.options.warmup.to_string()]);
        command.args(["--duration", &self.options.duration.to_string()]);
        command.args(["--parent", &std::process::id().to_string()]);
        let limit = Duration::from_secs(self.options.warmup + self.options.duration) + LIMIT;
        let mark = self.folder.to_string_lossy();
        let bounds = Bounds { mark: &mark, limit, out: &out, err: &err, stop: &|| self.stop.is_set() };
        let ran = process::run(&mut command, &bounds).map_err(|source| Stopped::Io { path: program, source })?;
        if ran.ended == Ended::Stopped {
            return Err(Stopped::Asked);
        }
        if let Some(fault) = ran.fault(limit) {
            let said = fs::read_to_string(&err).unwrap_or_default();
            let said = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default().to_owned();
            return Ok(Outcome::Failed(format!("{fault}: {said}")));
        }
        let told = fs::read(&result).map_err(|why| why.to_string());
        let told = told.and_then(|text| serde_json::from_slice::<Told>(&text).map_err(|why| why.to_string()));
        Ok(told.and_then(|told| self.measured(layout, told)).map_or_else(Outcome::Failed, Outcome::Measured))
    }

    /// What a bench told, in the order of the space.
    fn measured(&self, layout: &Layout, told: Told) -> Result<Measured, String> {
        let rate = told.txn_per_s.filter(|_| told.measured).ok_or("nothing was measured")?.mean;
        let bottleneck = told.bottleneck.ok_or("it did not tell the limit")?;
        let of = |kind: usize| {
            let name = &self.space.kinds[kind].name;
            let tiles = told.tiles.iter().filter(|tile| tile.tile.split(':').next() == Some(name));
            tiles.map(|tile| Use { busy: tile.busy, backpressure: tile.backpressure, wait: tile.wait }).collect()
        };
        let tiles: Vec<Vec<Use>> = (0..self.space.kinds.len()).map(of).collect();
        let counts = |all: &[Vec<Use>]| all.iter().map(Vec::len).collect::<Vec<_>>();
        let wanted: Vec<usize> = layout.tiles.iter().map(Vec::len).collect();
        if counts(&tiles) != wanted {
            return Err("its tiles are others than were asked for".into());
        }
        Ok(Measured { rate, tiles, limit: self.space.kind(&bottleneck.tile), says: bottleneck.why })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(count: usize) -> (Space, Layout) {
        let siblings = (0..count).map(|core| (core, vec![])).collect();
        let cores = Cores { allowed: (0..count).collect(), siblings };
        let base = Config::default();
        let topology = boot::topology(&base, &cores, true).expect("it fits");
        space(&base, &topology, cores)
    }

    #[test]
    fn a_layout_is_the_same_when_it_is_read_again() {
        for count in [1, 2, 4, 16, 80] {
            let (space, default) = of(count);
            let mut layouts = vec![default.clone()];
            let verify = space.kind("verify").expect("there is one");
            layouts.push(Layout::new(
                default
                    .tiles
                    .iter()
                    .enumerate()
                    .map(|(kind, places)| if kind == verify { vec![Some(0)] } else { places.clone() })
                    .collect(),
            ));
            for layout in layouts {
                assert!(space.has(&layout), "{count}: {}", space.text(&layout));
                let text = differing(&with_layout(&Config::default(), &space, &layout));
                let config: Config = toml::from_str(&text).expect("a configuration");
                let topology = boot::topology(&config, &space.cores, true).expect("it fits");
                let (_, read) = super::space(&config, &topology, space.cores.clone());
                assert_eq!(read, layout, "{count}: {text}");
                assert!(boot::topology(&config, &space.cores, false).is_ok(), "it is good for `hearth run`");
            }
        }
    }

    #[test]
    fn only_what_differs_is_written() {
        assert_eq!(differing(&Config::default()), "");
        let mut config = Config::default();
        config.layout.verify_tile_count = 3;
        config.development.genesis.hashes_per_tick = 7;
        assert_eq!(
            differing(&config),
            "[development.genesis]\nhashes_per_tick = 7\n\n[layout]\nverify_tile_count = 3\n"
        );
    }

    #[test]
    fn evidence_is_cut_at_spaces() {
        let line = "word ".repeat(60);
        let lines = wrapped(&line);
        assert!(lines.len() > 2 && lines.iter().all(|line| line.chars().count() <= WIDTH + 2), "{lines:?}");
        assert_eq!(lines.join(" ").split_whitespace().count(), 60);
        assert_eq!(wrapped("a  b"), ["a b"]);
    }
}
