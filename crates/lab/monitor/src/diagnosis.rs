//! Diagnoses a node in a sentence: where the time goes, and what to change.
//!
//! reads   a [`Sample`]
//! writes  a [`Diagnosis`]
//!
//! The rules run in the order of how much each explains. A dead node or tile explains everything. Then come slots
//! delayed by hashing and blocks that are full before their slot ends; cores that other programs use; the tile at the
//! end of a chain of backpressure, for which the others wait; and finally a full core, overruns, and transactions that
//! wait for each other. The first rule that applies is reported. An EVM node has [rules of its own](evm).

mod block;
mod evm;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::sample::{CoreSample, Sample, TileSample, TileState};
use block::{block_full, slots_late};

/// A core or a tile busier than this has no capacity left.
const FULL: f64 = 0.9;
/// Moving tiles to a core busier than this gains nothing: it is full before the other has room.
const NEARLY_FULL: f64 = 0.7;
/// A share of time that is worth reporting.
const NOTABLE: f64 = 0.1;
/// If other programs use a core for this share of the time in which it is wanted, it is not this node's, however busy
/// it seems.
const MOSTLY: f64 = 0.5;
/// A running tile has a heartbeat at least every 225 ms: a floating one sleeps for 200, and writes its own within 25.
const STUCK_S: f64 = 2.0;
/// If more transactions than this are held back by others, this is a limit and not a momentary state.
const MANY_WAITING: u64 = 1_000;
/// Overruns per second that are worth reporting.
const OVERRUNS: f64 = 1.0;
/// The load's tile that sends to the node over the network.
const SENDER: &str = "benchs";
/// Transactions that an idle node executes: its votes.
const AT_REST_TXN_PER_S: f64 = 10.0;

/// The kind of finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// The node is gone.
    Gone,
    /// A tile panicked, so the node stops.
    TileDied,
    /// A tile's heartbeat stopped.
    TileStuck,
    /// Other programs use the cores.
    CoresTaken,
    /// All tiles of a kind, each on a core of its own, are busy.
    KindFull,
    /// A core that several tiles share is full.
    CoreFull,
    /// All cores are full.
    AllCoresFull,
    /// Tiles wait for one that is not busy itself.
    WaitsOutside,
    /// A consumer of a lossy link is too slow.
    Overrun,
    /// Transactions wait for accounts that others lock, or for missing nonces.
    Conflicts,
    /// An EVM node does not accept what is sent.
    Refused,
    /// A block reaches one of its limits before its slot ends; on an EVM node its gas limit.
    BlockFull,
    /// Poh cannot hash as fast as slots should come.
    SlotsLate,
    /// The node has capacity left.
    Room,
    /// The node is idle.
    Idle,
}

/// A recommended change of a configuration key, or of something else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Advice {
    /// The key of the configuration, if there is one.
    pub key: Option<String>,
    /// The value to set, as written in the file, if known.
    pub value: Option<String>,
    /// The advice in words.
    pub says: String,
}

/// The meaning of a sample.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// The kind of finding.
    pub finding: Finding,
    /// The kind of tile concerned.
    pub kind: Option<String>,
    /// The finding in a sentence.
    pub says: String,
    /// Change that would help; `None` if there is nothing to change.
    pub advice: Option<Advice>,
}

impl Diagnosis {
    fn new(finding: Finding, kind: Option<&str>, says: String) -> Self {
        Self { finding, kind: kind.map(Into::into), says, advice: None }
    }

    fn advise(mut self, key: Option<&str>, says: impl Into<String>) -> Self {
        self.advice = Some(Advice { key: key.map(Into::into), value: None, says: says.into() });
        self
    }

    /// Adds advice to set a key to a value.
    fn advise_value(mut self, key: &str, value: impl Into<String>, says: impl Into<String>) -> Self {
        self.advice = Some(Advice { key: Some(key.into()), value: Some(value.into()), says: says.into() });
        self
    }
}

impl std::fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.says)?;
        match &self.advice {
            None => Ok(()),
            Some(Advice { key: Some(key), value: Some(value), says }) => write!(f, "; {says} (`{key} = {value}`)"),
            Some(Advice { key: Some(key), value: None, says }) => write!(f, "; {says} (`{key}`)"),
            Some(Advice { key: None, says, .. }) => write!(f, "; {says}"),
        }
    }
}

/// Returns what limits the node, or that nothing does.
pub fn diagnose(sample: &Sample) -> Diagnosis {
    let of_slots = [dead, slots_late, block_full, taken_cores, chain, full_core, overrun, conflicts];
    let of_blocks = [dead, evm::making_blocks, evm::gas, evm::refused, evm::nonce_gaps, evm::room];
    let rules = if sample.evm.is_some() { &of_blocks[..] } else { &of_slots[..] };
    rules.iter().find_map(|rule| rule(sample)).unwrap_or_else(|| room(sample))
}

fn dead(sample: &Sample) -> Option<Diagnosis> {
    let died = sample.tiles.iter().find(|tile| tile.state == TileState::Died);
    if let Some(tile) = died {
        let gone = if sample.alive { "" } else { "; the node is gone" };
        let says = format!("{} died{gone}; its panic is on the node's standard error", tile.tile);
        return Some(Diagnosis::new(Finding::TileDied, Some(&tile.kind), says));
    }
    if !sample.alive {
        let says = format!("the node is gone (pid {}); this is what it did last", sample.pid);
        return Some(Diagnosis::new(Finding::Gone, None, says));
    }
    let stuck = |tile: &&TileSample| tile.state == TileState::Run && tile.stale_s.is_some_and(|stale| stale > STUCK_S);
    let tile = sample.tiles.iter().find(stuck)?;
    let waits = tile.waited_for_core.is_some_and(|share| share > 0.5);
    let why = if waits { "its thread waits for a core" } else { "its thread is stuck or stopped" };
    let stale = tile.stale_s.unwrap_or_default();
    let says = format!("{} has not been heard of for {stale:.0} s: {why}", tile.tile);
    Some(Diagnosis::new(Finding::TileStuck, Some(&tile.kind), says))
}

/// A tile's time continues while its thread waits for the core, so that the tile seems busy.
fn taken_cores(sample: &Sample) -> Option<Diagnosis> {
    let worst = sample.cores.iter().max_by(|a, b| a.taken.total_cmp(&b.taken))?;
    if worst.taken < NOTABLE || worst.busy < FULL && worst.taken < MOSTLY {
        return None;
    }
    let preempted = sample.tiles.iter().find(|tile| tile.core == Some(worst.core)).map_or(0.0, |t| t.preempted_per_s);
    let says = format!(
        "other programs have core {}: for {} of the time {} waited for it, preempted {preempted:.0} times a second",
        worst.core,
        percent(worst.taken),
        all(&worst.tiles),
    );
    let key = Some("layout.affinity");
    Some(Diagnosis::new(Finding::CoresTaken, None, says).advise(key, "end them or give the tiles other cores"))
}

/// Finds the end of the longest chain of backpressure.
fn chain(sample: &Sample) -> Option<Diagnosis> {
    let blocked: BTreeSet<&str> = sample
        .tiles
        .iter()
        .filter(|tile| tile.regimes.blocked() >= NOTABLE && tile.state == TileState::Run)
        .map(|tile| tile.tile.as_str())
        .collect();
    // For each blocked tile, the consumer that blocked it most often.
    let mut next: BTreeMap<&str, (&str, f64)> = BTreeMap::new();
    for link in sample.links.iter().filter(|link| link.slow_per_s > 0.0) {
        let Some(producer) = blocked.get(link.producer.as_str()) else { continue };
        let found = next.entry(producer).or_insert((&link.consumer, 0.0));
        if link.slow_per_s > found.1 {
            *found = (&link.consumer, link.slow_per_s);
        }
    }
    let mut waiters: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for tile in &blocked {
        let (mut end, mut passed) = (*tile, BTreeSet::from([*tile]));
        while let Some((consumer, _)) = next.get(end)
            && passed.insert(consumer)
        {
            end = consumer;
        }
        if end != *tile {
            waiters.entry(end).or_default().insert(tile);
        }
    }
    let (end, waiters) = waiters.into_iter().max_by_key(|(_, waiters)| waiters.len())?;
    let end = sample.tiles.iter().find(|tile| tile.tile == end)?;
    let waiters: BTreeSet<&str> = waiters.into_iter().map(kind_of).filter(|kind| *kind != end.kind).collect();
    let wait = match waiters.len() {
        0 => String::new(),
        1 => format!("; {} waits for it", all(&waiters)),
        _ => format!("; {} wait for it", all(&waiters)),
    };
    let and_says = |found: Diagnosis, more: &str| Diagnosis { says: format!("{}{more}", found.says), ..found };
    let own = full_core_of(sample, end).map(|found| and_says(found, &wait));
    // A tile that sends over QUIC is held back by the node without any link; the node's cores show by which tile.
    let node =
        || full_core(sample).filter(|_| end.kind == SENDER).map(|found| and_says(found, "; the load waits for it"));
    Some(own.or_else(node).unwrap_or_else(|| waits_outside(sample, end, &wait)))
}

/// A tile for which others wait although its core has time to spare.
fn waits_outside(sample: &Sample, tile: &TileSample, wait: &str) -> Diagnosis {
    let busy = percent(tile.regimes.busy());
    let found = |says| Diagnosis::new(Finding::WaitsOutside, Some(&tile.kind), says);
    match tile.kind.as_str() {
        "store" => found(format!("{} waits for the disk ({busy} busy){wait}", tile.tile))
            .advise(Some("ledger.path"), "put the ledger on a faster disk"),
        SENDER => found(format!(
            "the load waits for the node: the QUIC connections of {} hold as much as the node lets them, and no core \
             is full",
            tile.tile
        ))
        .advise(
            Some("development.bench.connections"),
            "more connections raise the rate if theirs is the limit; if not, `hearth monitor` shows which tile waits",
        ),
        "pack" if 2 * sample.held_back > sample.pending => {
            found(format!("pack's pool is full: {}{wait}", held_back(sample)))
        }
        "pack" => found(format!("pack's pool is full: {} transactions wait in it{wait}", sample.pending)),
        _ => found(format!("{} is {busy} busy and takes work in bursts{wait}", tile.tile)),
    }
}

fn full_core(sample: &Sample) -> Option<Diagnosis> {
    let core = sample.cores.iter().max_by(|a, b| a.busy.total_cmp(&b.busy)).filter(|core| core.busy >= FULL)?;
    full_core_of(sample, busiest(sample, core)?)
}

fn busiest<'a>(sample: &'a Sample, core: &CoreSample) -> Option<&'a TileSample> {
    let on_core = sample.tiles.iter().filter(|tile| tile.core == Some(core.core));
    on_core.max_by(|a, b| a.regimes.busy().total_cmp(&b.regimes.busy()))
}

/// The tile's core, if it is full.
fn full_core_of(sample: &Sample, tile: &TileSample) -> Option<Diagnosis> {
    let core = sample.cores.iter().find(|core| Some(core.core) == tile.core && core.busy >= FULL)?;
    Some(match core.tiles.len() {
        1 => kind_full(sample, tile),
        _ if sample.cores.iter().all(|core| core.busy >= FULL) => all_cores_full(sample),
        _ => shared_core_full(sample, core),
    })
}

fn kind_full(sample: &Sample, tile: &TileSample) -> Diagnosis {
    let of_kind: Vec<&TileSample> = sample.tiles.iter().filter(|other| other.kind == tile.kind).collect();
    let full = of_kind.iter().filter(|tile| tile.regimes.busy() >= FULL).count();
    let busy = of_kind.iter().map(|tile| tile.regimes.busy()).fold(0.0, f64::max);
    let overruns = overruns_of(sample, &tile.kind);
    let overrun = if overruns >= OVERRUNS { format!(" and overrun {overruns:.0}/s") } else { String::new() };
    let says = match of_kind.len() {
        1 => format!("{} is the limit: it is {} busy{overrun}", tile.kind, percent(busy)),
        count => {
            format!("{} is the limit: {full} of {count} tiles are {} busy{overrun}", tile.kind, percent(busy))
        }
    };
    advise_more(sample, tile, Diagnosis::new(Finding::KindFull, Some(&tile.kind), says))
}

/// Advises more tiles of the kind, if it may have several and there are cores for them.
fn advise_more(sample: &Sample, tile: &TileSample, found: Diagnosis) -> Diagnosis {
    let free = sample.cores_allowed.saturating_sub(sample.cores.len());
    let kind = tile.kind.as_str();
    let Some(key) = &tile.count_key else {
        return found.advise(None, "there is one of it: a faster core raises the rate, more cores do not");
    };
    if free == 0 {
        return found.advise(Some(key), format!("more {kind} tiles need cores, and none is free"));
    }
    let more = sample.tiles.iter().filter(|other| other.kind == tile.kind).count() + 1;
    found.advise_value(key, more.to_string(), format!("add a {kind} tile, {}", cores_are_free(free)))
}

fn cores_are_free(free: usize) -> String {
    if free == 1 { "1 core is free".into() } else { format!("{free} cores are free") }
}

fn shared_core_full(sample: &Sample, core: &CoreSample) -> Diagnosis {
    let mut shares: Vec<(&str, f64)> = sample
        .tiles
        .iter()
        .filter(|tile| tile.core == Some(core.core))
        .map(|tile| (tile.tile.as_str(), tile.regimes.busy()))
        .collect();
    shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    let (first, busy) = shares[0];
    let share = busy / shares.iter().map(|(_, busy)| busy).sum::<f64>();
    let says = format!(
        "core {} is the limit: it is {} busy, {} of it with {first}, which shares it with {}",
        core.core,
        percent(core.busy),
        percent(share),
        all(&shares[1..].iter().map(|(tile, _)| *tile).collect::<Vec<_>>()),
    );
    let found = Diagnosis::new(Finding::CoreFull, Some(kind_of(first)), says);
    let free = sample.cores_allowed.saturating_sub(sample.cores.len());
    let idlest = sample.cores.iter().min_by(|a, b| a.busy.total_cmp(&b.busy));
    let key = Some("layout.affinity");
    match idlest {
        _ if free > 0 => spread(sample, found, free),
        Some(idlest) if idlest.busy >= NEARLY_FULL && kind_of(first) == "poh" => advise_timed_ticks(found),
        Some(idlest) if idlest.busy >= NEARLY_FULL => {
            let says = format!(
                "no other core has room (the idlest, {}, is {} busy): only more or faster cores raise the rate",
                idlest.core,
                percent(idlest.busy)
            );
            found.advise(None, says)
        }
        Some(idlest) => {
            found.advise(key, format!("move tiles to core {}, which is {} busy", idlest.core, percent(idlest.busy)))
        }
        None => found,
    }
}

/// For a node where moving tiles gains little and poh hashes most of the time: with timed ticks it hashes only what is
/// mixed in.
fn advise_timed_ticks(found: Diagnosis) -> Diagnosis {
    found.advise_value("development.genesis.hashes_per_tick", "0", "have ticks timed instead of hashed")
}

fn all_cores_full(sample: &Sample) -> Diagnosis {
    let mut kinds: BTreeMap<&str, (f64, usize)> = BTreeMap::new();
    for tile in sample.tiles.iter().filter(|tile| tile.core.is_some()) {
        let kind = kinds.entry(tile.kind.as_str()).or_default();
        *kind = (kind.0 + tile.regimes.busy(), kind.1 + 1);
    }
    let total: f64 = kinds.values().map(|(busy, _)| busy).sum();
    let (kind, (busy, count)) = kinds.into_iter().max_by(|a, b| a.1.0.total_cmp(&b.1.0)).unwrap_or_default();
    let cores = sample.cores.len();
    let who = if count == 1 { format!("{kind} takes") } else { format!("{count} {kind} tiles take") };
    let busy_cores = percent(sample.cores.iter().map(|core| core.busy).sum::<f64>() / cores as f64);
    let says = match sample.cores.as_slice() {
        [core] => format!(
            "core {} is the limit: all tiles share it, it is {busy_cores} busy, and {who} {} of that",
            core.core,
            percent(busy / total)
        ),
        _ => format!(
            "the cores are the limit: all {cores} are {busy_cores} busy, and {who} {} of that",
            percent(busy / total)
        ),
    };
    let free = sample.cores_allowed.saturating_sub(cores);
    let found = Diagnosis::new(Finding::AllCoresFull, Some(kind), says);
    match free {
        0 if kind == "poh" => advise_timed_ticks(found),
        0 => found.advise(None, "only more or faster cores raise the rate"),
        _ => spread(sample, found, free),
    }
}

/// A layout that leaves cores empty was not made by `auto`.
fn spread(sample: &Sample, found: Diagnosis, free: usize) -> Diagnosis {
    let is_load_placed = sample.tiles.iter().any(|tile| tile.load && tile.core.is_some());
    let load = if is_load_placed { ", the load's too by `development.bench.affinity`" } else { "" };
    let says = format!("let the tiles spread over the cores{load}, {}", cores_are_free(free));
    found.advise_value("layout.affinity", "\"auto\"", says)
}

fn overruns_of(sample: &Sample, kind: &str) -> f64 {
    let of_kind = sample.links.iter().filter(|link| kind_of(&link.consumer) == kind);
    of_kind.map(|link| link.overrun_per_s).sum()
}

fn overrun(sample: &Sample) -> Option<Diagnosis> {
    let link = sample.links.iter().max_by(|a, b| a.overrun_per_s.total_cmp(&b.overrun_per_s))?;
    if link.overrun_per_s < OVERRUNS {
        return None;
    }
    let says = format!(
        "{} loses {:.0} frags/s of {}: it reads them later than the {} that the link holds",
        link.consumer, link.overrun_per_s, link.link, link.depth
    );
    let tile = sample.tiles.iter().find(|tile| tile.tile == link.consumer)?;
    Some(advise_more(sample, tile, Diagnosis::new(Finding::Overrun, Some(&tile.kind), says)))
}

fn conflicts(sample: &Sample) -> Option<Diagnosis> {
    let says = held_back(sample);
    (sample.held_back > MANY_WAITING).then(|| Diagnosis::new(Finding::Conflicts, Some("pack"), says))
}

/// Says what keeps the transactions in the pool from running.
fn held_back(sample: &Sample) -> String {
    let count = sample.held_back;
    match sample.block_full.get("account") {
        Some(share) if *share >= NOTABLE => format!(
            "{count} transactions wait in pack's pool: for {} of the time an account that they write has had all the \
             compute units that one may have of a block",
            percent(*share)
        ),
        _ => format!(
            "{count} transactions wait in pack's pool for accounts that others hold: they run one after the other"
        ),
    }
}

fn room(sample: &Sample) -> Diagnosis {
    let busiest = sample.cores.iter().max_by(|a, b| a.busy.total_cmp(&b.busy));
    let busiest = busiest
        .map_or(String::new(), |core| format!("; the busiest core, {}, is {} busy", core.core, percent(core.busy)));
    match sample.txn_per_s {
        rate if rate < AT_REST_TXN_PER_S => {
            Diagnosis::new(Finding::Idle, None, format!("nothing is sent to the node{busiest}"))
        }
        _ => Diagnosis::new(Finding::Room, None, format!("nothing limits the node: it does all that is sent{busiest}")),
    }
}

fn kind_of(tile: &str) -> &str {
    tile.split(':').next().unwrap_or(tile)
}

fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share.min(1.0))
}

/// Joins names as `a, b and c`.
fn all<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> String {
    let names: Vec<S> = names.into_iter().collect();
    let mut text = String::new();
    for (i, name) in names.iter().enumerate() {
        let before = match i {
            0 => "",
            _ if i + 1 == names.len() => " and ",
            _ => ", ",
        };
        text.push_str(before);
        text.push_str(name.as_ref());
    }
    text
}

#[cfg(test)]
mod tests;
