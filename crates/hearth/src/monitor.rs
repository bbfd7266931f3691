//! `hearth monitor`: where the time goes in a running node.
//!
//! reads   the workspace of another process, read-only
//! writes  a screen on a terminal; tables, or JSON, a second at a time where it is piped

use std::collections::VecDeque;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use hearth_monitor::{AttachError, Screen, ScreenError, Second, Seconds, Watch, snapshot};

use crate::boot::workspace_path;
use crate::cli;
use crate::config::Config;
use crate::say::{Say, note};
use crate::stop::StopSignal;

/// Why nothing can be watched.
#[derive(Debug, thiserror::Error)]
pub enum MonitorError {
    /// No node.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// No screen.
    #[error(transparent)]
    Screen(#[from] ScreenError),
    /// The node went away.
    #[error("the node is gone (pid {0})")]
    Gone(u32),
}

/// Rates kept for the sparkline: four minutes, and the width of a large terminal.
const RATES: usize = 240;
/// A pipe has no width; this holds every column.
const PIPED_WIDTH: usize = 200;

/// Shows a second at a time until Ctrl-C, until nobody reads, or `options.count` seconds.
pub fn run(config: &Config, options: &cli::Monitor, stop: &StopSignal, say: &Say) -> Result<(), MonitorError> {
    let watch = Watch::attach(&workspaces(config, options.name.as_deref()))?;
    if !watch.is_alive() {
        note(format_args!("notice: that node is gone (pid {}); this is its last state", watch.pid()));
    }
    let on_screen = !options.json
        && options.count == 0
        && [std::io::stdin().is_terminal(), std::io::stdout().is_terminal()] == [true; 2];
    let mut rated = Rated { seconds: Seconds::of(watch), rates: VecDeque::with_capacity(RATES) };
    if on_screen { screen(&mut rated, stop) } else { lines(&mut rated, options, stop, say) }
}

/// The node named; without a name that of the configuration, or else a bench.
fn workspaces(config: &Config, name: Option<&str>) -> Vec<PathBuf> {
    let named = |name: &str| workspace_path(&Config { name: name.into(), ..config.clone() });
    match name {
        Some(name) => vec![named(name)],
        None => vec![workspace_path(config), named(crate::bench::NAME)],
    }
}

/// A node, and the rates of its last seconds.
struct Rated {
    seconds: Seconds,
    rates: VecDeque<f64>,
}

impl Rated {
    fn next(&mut self) -> Second {
        let second = self.seconds.next_second();
        if self.rates.len() == RATES {
            self.rates.pop_front();
        }
        self.rates.push_back(second.sample.txn_per_s);
        second
    }

    fn gone(&self) -> Result<(), MonitorError> {
        let watch = self.seconds.watch();
        if watch.is_alive() { Ok(()) } else { Err(MonitorError::Gone(watch.pid())) }
    }
}

fn screen(rated: &mut Rated, stop: &StopSignal) -> Result<(), MonitorError> {
    let mut screen = Screen::open()?;
    while !stop.is_set() {
        if screen.follow_keys(rated.seconds.due())? {
            break;
        }
        let Second { sample, diagnosis } = rated.next();
        screen.show(sample, diagnosis, rated.rates.make_contiguous())?;
    }
    drop(screen);
    rated.gone()
}

fn lines(rated: &mut Rated, options: &cli::Monitor, stop: &StopSignal, say: &Say) -> Result<(), MonitorError> {
    let mut printed = 0;
    while !stop.is_set() && !say.is_closed() && (options.count == 0 || printed < options.count) {
        while Instant::now() < rated.seconds.due() && !stop.is_set() {
            std::thread::sleep(Duration::from_millis(20));
        }
        let second = rated.next();
        if options.json {
            say.line(second.json());
        } else {
            say.line(snapshot(&second.sample, &second.diagnosis, rated.rates.make_contiguous(), PIPED_WIDTH));
        }
        printed += 1;
        rated.gone()?;
    }
    Ok(())
}
