//! `hearth monitor`: where the time goes in a running node.
//!
//! reads   the workspace of another process, read-only
//! writes  a screen on a terminal; tables or JSON, one per second, when piped

use std::collections::VecDeque;
use std::fs::File;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use hearth_command::exit_code::ExitCode;
use hearth_command::output::{CommandOutput, WriteError, is_stdout, note};
use hearth_command::stop::StopSignal;
use hearth_monitor::{AttachError, Screen, ScreenError, Second, Seconds, Watch, snapshot};
use hearth_node::config::{ConfigFile, LocalNode};

use crate::local_nodes;

/// The options of `hearth monitor`.
#[derive(Args)]
pub struct Options {
    /// The configuration file, if one is given.
    #[command(flatten)]
    pub config: ConfigFile,
    /// Which node to watch, by the `name` of its configuration. Without this: the node of `--config` (`hearth` where
    /// there is none) if it runs, or else a running `hearth bench`, or else, without `--config`, any that runs. If
    /// other nodes run too, they are named.
    #[arg(long, value_name = "NODE")]
    pub name: Option<String>,
    /// Print this many snapshots, one a second, and end; 0: until Ctrl-C, full-screen on a terminal.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub count: u64,
    /// Write JSON, one object a second and line, to FILE, or to standard output without FILE.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub json: Option<PathBuf>,
}

/// Why nothing can be watched.
#[derive(Debug, thiserror::Error)]
pub enum MonitorError {
    /// No running node was found.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// No node of that name runs.
    #[error("{}", local_nodes::no_node_text(.0, .1))]
    Unknown(String, Vec<String>),
    /// The terminal screen could not be set up.
    #[error(transparent)]
    Screen(#[from] ScreenError),
    /// The file of `--json` cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The node has ended.
    #[error("the node is gone (pid {0})")]
    Gone(u32),
}

impl ExitCode for MonitorError {}

/// Rates kept for the sparkline: four minutes, and the width of a large terminal.
const RATES: usize = 240;
/// A pipe has no width; this holds every column.
const PIPED_WIDTH: usize = 200;

/// Shows one second at a time until Ctrl-C, until the output closes, or for `options.count` seconds. If the node goes
/// away, waits for it, unless a count was given.
pub fn run(node: &LocalNode, options: &Options, stop: &StopSignal, say: &CommandOutput) -> Result<(), MonitorError> {
    let is_chosen = options.name.is_some() || options.config.config.is_some();
    let running = if is_chosen { vec![] } else { local_nodes::running(node) };
    let unknown = |name: &String| MonitorError::Unknown(name.clone(), local_nodes::running(node));
    let watch =
        Watch::attach(&workspaces(node, options.name.as_deref(), &running)).map_err(|why| match &options.name {
            Some(name) if why.is_nobody() => unknown(name),
            None if is_chosen && why.is_nobody() => unknown(&node.name),
            _ => why.into(),
        })?;
    let others = others(&running, &watch.topology().name);
    let on_screen = options.json.is_none()
        && options.count == 0
        && [std::io::stdin().is_terminal(), std::io::stdout().is_terminal()] == [true; 2];
    let mut rated = NodeRates { seconds: Seconds::of(watch), rates: VecDeque::with_capacity(RATES) };
    if on_screen {
        return screen(&mut rated, others, stop);
    }
    others.iter().for_each(|others| note(format_args!("notice: {others}")));
    lines(&mut rated, options, stop, say)
}

/// Workspaces to try, in order: the named node's; without a name the configuration's, then a bench's, then any running
/// node's.
fn workspaces(node: &LocalNode, name: Option<&str>, running: &[String]) -> Vec<PathBuf> {
    let named = |name: &str| node.named(name).workspace();
    match name {
        Some(name) => vec![named(name)],
        None => {
            let others = running.iter().filter(|name| ![&node.name[..], hearth_bench::NAME].contains(&&name[..]));
            [&node.name, hearth_bench::NAME].into_iter().map(named).chain(others.map(|name| named(name))).collect()
        }
    }
}

/// Names the other nodes that run besides the one shown, and how to see them.
fn others(running: &[String], shown: &str) -> Option<String> {
    let others: Vec<&str> = running.iter().map(String::as_str).filter(|name| *name != shown).collect();
    let run = if others.len() == 1 { "runs" } else { "run" };
    let names = others.join(", ");
    (!others.is_empty()).then(|| format!("this is `{shown}`; {names} {run} here, too: --name shows another"))
}

/// A node, and the rates of its last seconds.
struct NodeRates {
    seconds: Seconds,
    rates: VecDeque<f64>,
}

impl NodeRates {
    /// Returns the activity since the last look. If the node is gone and another of its name runs, switches to that
    /// one; returns `None` if the node had been dead all along.
    fn next(&mut self) -> Result<Option<Second>, MonitorError> {
        let second = self.seconds.follow()?;
        if let Some(Second { sample, .. }) = second.as_ref().filter(|second| second.sample.alive) {
            if self.rates.len() == RATES {
                self.rates.pop_front();
            }
            self.rates.push_back(sample.txn_per_s);
        }
        Ok(second)
    }
}

fn screen(rated: &mut NodeRates, note: Option<String>, stop: &StopSignal) -> Result<(), MonitorError> {
    let mut screen = Screen::open(note)?;
    while !stop.is_set() {
        if screen.follow_keys(rated.seconds.due(), &|| stop.is_set())? {
            break;
        }
        let Some(Second { sample, diagnosis }) = rated.next()? else { continue };
        screen.show(sample, diagnosis, rated.rates.make_contiguous())?;
    }
    drop(screen);
    let watch = rated.seconds.watch();
    if !watch.is_alive() {
        // The alternate screen takes its last message with it, so print it again.
        hearth_command::output::note(format_args!("the node is gone (pid {})", watch.pid()));
    }
    Ok(())
}

/// The destination of the JSON lines.
enum JsonLines<'a> {
    Lines(&'a CommandOutput),
    File(&'a Path, File),
}

impl<'a> JsonLines<'a> {
    /// Creates the file; `-` stands for the command's own lines.
    fn open(path: &'a Path, say: &'a CommandOutput) -> Result<Self, WriteError> {
        if is_stdout(Some(path)) {
            return Ok(Self::Lines(say));
        }
        let file = File::create(path).map_err(|source| WriteError { path: path.into(), source })?;
        Ok(Self::File(path, file))
    }

    fn write(&mut self, line: &str) -> Result<(), WriteError> {
        match self {
            Self::Lines(say) => say.line(line),
            Self::File(path, file) => {
                let path = path.to_path_buf();
                file.write_all(format!("{line}\n").as_bytes()).map_err(|source| WriteError { path, source })?;
            }
        }
        Ok(())
    }
}

fn lines(rated: &mut NodeRates, options: &Options, stop: &StopSignal, say: &CommandOutput) -> Result<(), MonitorError> {
    let mut json = options.json.as_deref().map(|path| JsonLines::open(path, say)).transpose()?;
    let (mut printed, mut waits) = (0, false);
    while !stop.is_set() && !say.is_closed() && (options.count == 0 || printed < options.count) {
        while Instant::now() < rated.seconds.due() && !stop.is_set() {
            std::thread::sleep(Duration::from_millis(20));
        }
        let Some(Second { sample, diagnosis }) = rated.next()? else { continue };
        let (is_gone, pid) = (!sample.alive, sample.pid);
        // Print the notice once while waiting for the node.
        if is_gone && waits {
            continue;
        }
        match &mut json {
            Some(json) => json.write(&Second { sample, diagnosis }.json())?,
            None => say.line(snapshot(&sample, &diagnosis, rated.rates.make_contiguous(), PIPED_WIDTH)),
        }
        printed += 1;
        if is_gone && options.count > 0 {
            return Err(MonitorError::Gone(pid));
        }
        if is_gone {
            let name = &rated.seconds.watch().topology().name;
            note(format_args!(
                "notice: the node is gone (pid {pid}); waiting for `{name}` to start again, Ctrl-C ends"
            ));
        }
        waits = is_gone;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use hearth_node::config::Config;

    use super::*;

    #[test]
    fn other_running_nodes_are_named() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<String>>();
        assert_eq!(others(&names(&["hearth"]), "hearth"), None);
        let notice = others(&names(&["bench", "hearth"]), "hearth").unwrap();
        assert_eq!(notice, "this is `hearth`; bench runs here, too: --name shows another");
        assert!(others(&names(&["a", "b", "c"]), "c").unwrap().contains("a, b run here"));
        // Prefer the configuration's node, then a bench, then any node that runs.
        let of =
            |name: Option<&str>| workspaces(&LocalNode::of(&Config::default()), name, &names(&["hearth", "other"]));
        let ends = |path: &PathBuf, name: &str| path.ends_with(format!("hearth-{name}"));
        let all = of(None);
        assert!(ends(&all[0], "hearth") && ends(&all[1], hearth_bench::NAME) && ends(&all[2], "other"), "{all:?}");
        assert_eq!((all.len(), of(Some("x")).len()), (3, 1));
    }
}
