//! `hearth monitor`: tiles and links of a running node, as text, once a second.
//!
//! reads   the workspace of another process, read-only
//! writes  tables

use std::fmt::Write;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hearth_ring::{Observer, WorkspaceError};
use hearth_tile::counters::{CounterSet, FIRST_REGIME, LoopCounters};
use hearth_tile::regime::{REGIMES, Regime};
use hearth_tile::topology::Topology;

use crate::boot::workspace_path;
use crate::config::Config;
use crate::say::{Say, note};
use crate::stop::StopSignal;

/// Why nothing can be watched.
#[derive(Debug, thiserror::Error)]
pub enum MonitorError {
    /// No workspace.
    #[error("no running node to watch; start one with `hearth run` or `hearth bench`{}", lines(tried))]
    NoNode {
        /// What each attempt said.
        tried: Vec<WorkspaceError>,
    },
    /// A workspace of another build.
    #[error("the node's workspace cannot be read: {0}")]
    Topology(#[from] serde_json::Error),
    /// The node went away.
    #[error("the node is gone (pid {0})")]
    Gone(u32),
}

fn lines(tried: &[WorkspaceError]) -> String {
    tried.iter().map(|why| format!("\n  {why}")).collect()
}

const EVERY: Duration = Duration::from_secs(1);

/// Prints `count` snapshots (0: until Ctrl-C, or until nobody reads them).
pub fn run(config: &Config, name: Option<&str>, count: u64, stop: &StopSignal, say: &Say) -> Result<(), MonitorError> {
    let observer = attach(config, name)?;
    let topology = Topology::from_workspace(observer.topology())?;
    let mut before = Snapshot::take(&topology, &observer);
    let mut printed = 0;
    while !stop.is_set() && !say.is_closed() && (count == 0 || printed < count) {
        while before.at.elapsed() < EVERY && !stop.is_set() {
            std::thread::sleep(Duration::from_millis(20));
        }
        let now = Snapshot::take(&topology, &observer);
        say.line(now.table(&before, &topology));
        before = now;
        printed += 1;
        if !observer.is_alive() {
            return Err(MonitorError::Gone(observer.pid()));
        }
    }
    Ok(())
}

fn attach(config: &Config, name: Option<&str>) -> Result<Observer, MonitorError> {
    let named = |name: &str| workspace_path(&Config { name: name.into(), ..config.clone() });
    let tried = match name {
        Some(name) => vec![named(name)],
        None => vec![workspace_path(config), named("hearth-bench")],
    };
    // A running node first; else one that died, whose last state can still be read.
    let (mut dead, mut failed) = (None, vec![]);
    for path in &tried {
        match Observer::attach(path) {
            Ok(observer) if observer.is_alive() => return Ok(observer),
            Ok(observer) => dead = dead.or(Some(observer)),
            Err(why) => failed.push(why),
        }
    }
    match dead {
        Some(observer) => {
            note(format_args!("notice: that node is gone (pid {}); this is its last state", observer.pid()));
            Ok(observer)
        }
        None => Err(MonitorError::NoNode { tried: failed }),
    }
}

/// What the loop says of itself, in a word.
fn state_name(state: u64) -> &'static str {
    match state {
        0 => "boot",
        1 => "run",
        2 => "stop",
        _ => "died",
    }
}

/// How long ago the last heartbeat was, milliseconds: a running tile's comes once a millisecond, a sleeping one's about
/// every 50. Before the first there is none.
fn age_ms(beat_unix_ns: u64, now_unix_ns: u64) -> String {
    match beat_unix_ns {
        0 => "-".into(),
        beat => (now_unix_ns.saturating_sub(beat) / 1_000_000).min(9_999_999).to_string(),
    }
}

struct Snapshot {
    at: Instant,
    unix_ns: u64,
    tiles: Vec<Vec<u64>>,
    links: Vec<hearth_ring::LinkView>,
}

impl Snapshot {
    fn take(topology: &Topology, observer: &Observer) -> Self {
        let words = |name: String| {
            let words = observer.counters(&name).unwrap_or_default();
            words.iter().map(|w| w.load(Ordering::Relaxed)).collect()
        };
        let tiles = topology.tiles.iter().map(|t| words(t.name())).collect();
        let unix_ns = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
        Self { at: Instant::now(), unix_ns, tiles, links: observer.links() }
    }

    fn table(&self, before: &Snapshot, topology: &Topology) -> String {
        let mut s = String::new();
        let seconds = (self.at - before.at).as_secs_f64();
        // Writing to a String cannot fail.
        let _ = self.tiles_table(before, topology, &mut s);
        let _ = self.links_table(before, seconds, &mut s);
        s
    }

    fn tiles_table(&self, before: &Snapshot, topology: &Topology, s: &mut String) -> std::fmt::Result {
        let at = |name: &str| LoopCounters::DECLS.iter().position(|d| d.name == name).expect("a loop counter");
        let (in_backp, backp_count) = (at("in_backpressure"), at("backpressure_count"));
        let (state, beat) = (at("state"), at("heartbeat_unix_ns"));
        let switches = [at("context_switches_voluntary"), at("context_switches_involuntary")];
        let seconds = (self.at - before.at).as_secs_f64();
        write!(
            s,
            "{:<10} {:>4} {:>5} {:>7} {:>7} {:>7} {:>5} {:>7}",
            "tile", "core", "state", "beat ms", "vcsw/s", "ivcsw/s", "backp", "backp#"
        )?;
        for regime in Regime::ALL {
            write!(s, " {:>9}", format!("% {}", regime.column()))?;
        }
        writeln!(s)?;
        for ((spec, now), before) in topology.tiles.iter().zip(&self.tiles).zip(&before.tiles) {
            if now.len() < FIRST_REGIME + REGIMES || before.len() != now.len() {
                continue;
            }
            let core = spec.core.map_or("f".into(), |c| c.to_string());
            let [voluntary, involuntary] =
                switches.map(|at| now[at].saturating_sub(before[at]) as f64 / seconds.max(1e-9));
            write!(
                s,
                "{:<10} {core:>4} {:>5} {:>7} {voluntary:>7.0} {involuntary:>7.0} {:>5} {:>7}",
                spec.name(),
                state_name(now[state]),
                age_ms(now[beat], self.unix_ns),
                if now[in_backp] > 0 { "yes" } else { "-" },
                now[backp_count]
            )?;
            let spent: Vec<u64> =
                (FIRST_REGIME..FIRST_REGIME + REGIMES).map(|i| now[i].saturating_sub(before[i])).collect();
            let total = spent.iter().sum::<u64>().max(1) as f64;
            for ns in spent {
                write!(s, " {:>9.3}", 100.0 * ns as f64 / total)?;
            }
            writeln!(s)?;
        }
        Ok(())
    }

    fn links_table(&self, before: &Snapshot, seconds: f64, s: &mut String) -> std::fmt::Result {
        writeln!(
            s,
            "{:<18} {:<10} {:>10} {:>10} {:>9} {:>9} {:>9} {:>14}",
            "link", "consumer", "frags/s", "MB/s", "ovrnp", "ovrnr", "slow", "seq"
        )?;
        for (now, before) in self.links.iter().zip(&before.links) {
            let frags = now.producer_seq.saturating_sub(before.producer_seq) as f64 / seconds;
            for (c, b) in now.consumers.iter().zip(&before.consumers) {
                let bytes = c.bytes.saturating_sub(b.bytes) as f64 / seconds / 1e6;
                writeln!(
                    s,
                    "{:<18} {:<10} {frags:>10.0} {bytes:>10.2} {:>9} {:>9} {:>9} {:>14}",
                    now.name, c.name, c.overrun_poll, c.overrun_read, c.slow, now.producer_seq
                )?;
            }
        }
        Ok(())
    }
}
