//! Computes what happened between two looks at a node.
//!
//! reads   two [`NodeCounters`]s
//! writes  [`Sample`]: rates, shares of time and levels, as the tables and the page show them

use std::collections::BTreeMap;

use hearth_ring::{ConsumerView, LinkView};
use hearth_tile::regime::{REGIMES, Regime};
use hearth_tile::topology::{TileSpec, Topology};
use serde::Serialize;

use crate::attach::Watch;
use crate::bandwidth::Bandwidth;
use crate::evm::{EXEC, EvmSample};
use crate::latency::Stage;
use crate::node_counters::{NodeCounters, TileLook};

/// A node in the time between two looks.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Sample {
    /// Name of the node.
    pub node: String,
    /// Process id of the node.
    pub pid: u32,
    /// Whether the node runs.
    pub alive: bool,
    /// Time of the later look, nanoseconds since 1970.
    pub unix_ns: u64,
    /// Seconds between the looks.
    pub seconds: f64,
    /// Cores that the node may run on; 0 if the kernel does not say.
    pub cores_allowed: usize,
    /// The current slot; on an EVM node the newest block.
    pub slot: u64,
    /// Executed transactions per second.
    pub txn_per_s: f64,
    /// Transactions per second that failed and paid.
    pub failed_per_s: f64,
    /// Dropped transactions per second, by tile and reason; only those that are not zero.
    pub dropped_per_s: BTreeMap<String, f64>,
    /// Transactions in pack's pool, or in that of an EVM node.
    pub pending: u64,
    /// Transactions in pack's pool that wait for accounts or limits.
    pub held_back: u64,
    /// Shares of the time in which transactions waited for the next block, by the limit that this block had reached;
    /// only those that are not zero.
    pub block_full: BTreeMap<String, f64>,
    /// How late the current slot began, plus how much the schedule was postponed per second because poh could not catch
    /// up, in seconds.
    pub slots_late_s: f64,
    /// Hashes of the chain per tick.
    pub hashes_per_tick: f64,
    /// Age of transactions at each stage.
    pub latency: Vec<Stage>,
    /// Traffic of the node's sockets, by peer.
    pub bandwidth: Bandwidth,
    /// The part that only an EVM node has; `None` for others.
    pub evm: Option<EvmSample>,
    /// The tiles, in the order of the data flow.
    pub tiles: Vec<TileSample>,
    /// Each consumer of each link.
    pub links: Vec<LinkSample>,
    /// The cores that tiles are pinned to.
    pub cores: Vec<CoreSample>,
}

/// The state that a tile's loop reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TileState {
    /// The loop has not started yet.
    #[default]
    Boot,
    /// The loop runs and handles frags.
    Run,
    /// It was asked to stop, and has.
    Stop,
    /// The thread panicked, which ends the node.
    Died,
}

impl TileState {
    fn of(word: u64) -> Self {
        match word {
            0 => Self::Boot,
            1 => Self::Run,
            2 => Self::Stop,
            _ => Self::Died,
        }
    }

    /// Returns a word for tables.
    pub fn word(self) -> &'static str {
        match self {
            Self::Boot => "boot",
            Self::Run => "run",
            Self::Stop => "stop",
            Self::Died => "died",
        }
    }
}

/// Shares of a tile's time by regime, which add up to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Regimes {
    /// Housekeeping of the loop: counters, heartbeat, timers.
    pub hkeep: f64,
    /// Blocked, because a reliable consumer has no room.
    pub backp: f64,
    /// Nothing to do, parked time included.
    pub wait: f64,
    /// Lapped by a producer while looking for the next frag.
    pub ovrnp: f64,
    /// Lapped by a producer while reading a frag.
    pub ovrnr: f64,
    /// Handling frags that were filtered by their metadata alone.
    pub filt1: f64,
    /// Handling frags that were dropped after a look at the payload.
    pub filt2: f64,
    /// Useful work of the tile itself.
    pub finish: f64,
    /// The core ran other tiles.
    pub elsewhere: f64,
}

impl Regimes {
    fn of(spent_ns: [u64; REGIMES]) -> Self {
        let total = spent_ns.iter().sum::<u64>().max(1) as f64;
        let [hkeep, backp, wait, ovrnp, ovrnr, filt1, filt2, finish, elsewhere] = spent_ns.map(|ns| ns as f64 / total);
        Self { hkeep, backp, wait, ovrnp, ovrnr, filt1, filt2, finish, elsewhere }
    }

    /// Returns the shares in the order of the regimes.
    pub fn shares(&self) -> [f64; REGIMES] {
        let Self { hkeep, backp, wait, ovrnp, ovrnr, filt1, filt2, finish, elsewhere } = *self;
        [hkeep, backp, wait, ovrnp, ovrnr, filt1, filt2, finish, elsewhere]
    }

    /// Returns the share in which the tile itself used its core.
    pub fn busy(&self) -> f64 {
        self.hkeep + self.ovrnp + self.ovrnr + self.filt1 + self.filt2 + self.finish
    }

    /// Returns backpressure's share of the time in which the core did not run other tiles.
    pub fn blocked(&self) -> f64 {
        let own = 1.0 - self.elsewhere;
        if own > 0.0 { self.backp / own } else { 0.0 }
    }

    /// Returns the regimes' headings in the tables.
    pub fn columns() -> [&'static str; REGIMES] {
        Regime::ALL.map(Regime::column)
    }
}

/// State and rates of one tile.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TileSample {
    /// Kind and number of the tile, as `verify:1`.
    pub tile: String,
    /// Kind of the tile, `verify`.
    pub kind: String,
    /// The core it is pinned to.
    pub core: Option<usize>,
    /// Whether it belongs to the load generator.
    pub load: bool,
    /// The configuration's key for the number of tiles of this kind, if there may be several.
    #[serde(skip)]
    pub count_key: Option<String>,
    /// Thread id of the core's thread, as the kernel numbers it.
    pub tid: u64,
    /// The state that its loop reports.
    pub state: TileState,
    /// Seconds since its last heartbeat; none before the first.
    pub stale_s: Option<f64>,
    /// Whether there was a heartbeat since the earlier look.
    pub heart: bool,
    /// Whether it is in backpressure now.
    pub in_backpressure: bool,
    /// How often it entered backpressure, in total.
    pub backpressure_count: u64,
    /// How often it entered backpressure since the earlier look.
    pub backpressure_delta: u64,
    /// How often per second its thread was preempted.
    pub preempted_per_s: f64,
    /// Share of the time in which its thread was ready while its core ran something else. `None` if the kernel does not
    /// say.
    pub waited_for_core: Option<f64>,
    /// CPU time attributed to it, in cores.
    pub cpu: f64,
    /// Shares of its time by regime.
    pub regimes: Regimes,
}

/// One consumer of one link.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LinkSample {
    /// Name of the link.
    pub link: String,
    /// Full name of the producing tile.
    pub producer: String,
    /// Full name of the consuming tile.
    pub consumer: String,
    /// Whether the producer waits for this consumer.
    pub reliable: bool,
    /// Capacity of the link in frags.
    pub depth: u32,
    /// Frags per second that the consumer received.
    pub total_per_s: f64,
    /// Payload bits per second that it read.
    pub bits_per_s: f64,
    /// Frags per second that it received and did not filter.
    pub unique_per_s: f64,
    /// Frags per second that it skipped unread.
    pub filtered_per_s: f64,
    /// Frags overrun before their metadata was read, in total.
    pub overrun_poll: u64,
    /// Frags overrun while their payload was read, in total.
    pub overrun_read: u64,
    /// Frags overrun before their metadata was read, since the earlier look.
    pub overrun_poll_delta: u64,
    /// Frags overrun while their payload was read, since the earlier look.
    pub overrun_read_delta: u64,
    /// Frags lost either way, per second.
    pub overrun_per_s: f64,
    /// How often this consumer blocked the producer, in total.
    pub slow: u64,
    /// How often it blocked the producer since the earlier look.
    pub slow_delta: u64,
    /// How often it blocked the producer, per second.
    pub slow_per_s: f64,
    /// Frags published, in total.
    pub sequence: u64,
    /// Frags published since the earlier look.
    pub sequence_delta: u64,
    /// Frags that wait for this consumer.
    pub waiting: u64,
}

/// A core, and what its tiles used of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CoreSample {
    /// Number of the core.
    pub core: usize,
    /// Names of the tiles on it.
    pub tiles: Vec<String>,
    /// Share of its time that they used.
    pub busy: f64,
    /// Share of the time in which their thread was ready while the core ran another program.
    pub taken: f64,
}

impl Sample {
    /// Returns whether it is an EVM node, which has blocks instead of slots.
    pub fn is_evm(&self) -> bool {
        self.tiles.iter().any(|tile| tile.kind == EXEC)
    }

    /// Computes what happened between two looks at the same node.
    pub fn between(watch: &Watch, before: &NodeCounters, after: &NodeCounters) -> Self {
        let topology = watch.topology();
        let seconds = (after.at - before.at).as_secs_f64().max(1e-9);
        let pairs = before.tiles.iter().zip(&after.tiles);
        let tiles: Vec<TileSample> = topology
            .tiles
            .iter()
            .zip(pairs)
            .map(|(spec, (before, then))| tile(spec, before, then, seconds, after.unix_ns))
            .collect();
        let rate = |kind: &str, counter: &str| {
            let [then, now] = [before, after].map(|look| look.total(topology, kind, counter));
            now.saturating_sub(then) as f64 / seconds
        };
        // A node has only one of the two kinds of pool and of chain.
        let of_pools = |counter: &str| after.total(topology, "pack", counter) + after.total(topology, "pool", counter);
        let pending = of_pools("pending");
        let failed_per_s = rate("bank", "failed") + rate(EXEC, "failed");
        Self {
            node: topology.name.clone(),
            pid: after.pid,
            alive: after.alive,
            unix_ns: after.unix_ns,
            seconds,
            cores_allowed: watch.cores_allowed(),
            slot: after.total(topology, "poh", "slot") + after.total(topology, "commit", "block"),
            txn_per_s: rate("bank", "landed") + rate(EXEC, "landed") + failed_per_s,
            failed_per_s,
            dropped_per_s: dropped(topology, &rate),
            pending,
            held_back: pending.saturating_sub(of_pools("ready")),
            block_full: block_full(&rate),
            slots_late_s: (after.total(topology, "poh", "late_ns") as f64 + rate("poh", "forgiven_ns")) / 1e9,
            hashes_per_tick: rate("poh", "hashes") / rate("poh", "ticks").max(1.0),
            latency: after.stages(topology).since(&before.stages(topology)),
            evm: EvmSample::between(topology, before, after, seconds),
            bandwidth: Bandwidth::of(&after.bandwidth.since(&before.bandwidth), seconds),
            cores: cores(&tiles),
            tiles,
            links: links(topology, &before.links, &after.links, seconds),
        }
    }

    /// This sample as the last one of a node that is gone; `now` has the final states of its tiles.
    pub(crate) fn left_as(&self, now: &Self) -> Self {
        let mut left = Self { alive: false, unix_ns: now.unix_ns, ..self.clone() };
        for (tile, now) in left.tiles.iter_mut().zip(&now.tiles) {
            (tile.state, tile.stale_s, tile.heart) = (now.state, now.stale_s, false);
        }
        left
    }
}

/// Nanoseconds per second are billionths of the time. A delayed counter update may cover more time than has passed.
fn block_full(rate: &impl Fn(&str, &str) -> f64) -> BTreeMap<String, f64> {
    let share = |limit: &str| (limit.to_owned(), (rate("pack", &format!("full_{limit}_ns")) / 1e9).min(1.0));
    ["compute", "bytes", "growth", "microblocks", "account"]
        .map(share)
        .into_iter()
        .filter(|(_, share)| *share > 0.0)
        .collect()
}

fn dropped(topology: &Topology, rate: &impl Fn(&str, &str) -> f64) -> BTreeMap<String, f64> {
    let mut dropped = BTreeMap::new();
    for spec in &topology.tiles {
        for counter in &spec.counters {
            if let Some(reason) = counter.name.strip_prefix("dropped_") {
                dropped.insert(format!("{}_{reason}", spec.kind), rate(&spec.kind, &counter.name));
            }
        }
    }
    dropped.retain(|_, rate| *rate > 0.0);
    dropped
}

fn tile(spec: &TileSpec, before: &TileLook, after: &TileLook, seconds: f64, unix_ns: u64) -> TileSample {
    let since = |name: &str| after.loop_counter(name).saturating_sub(before.loop_counter(name));
    let (then, now) = (before.regimes(), after.regimes());
    let beat = after.loop_counter("heartbeat_unix_ns");
    // A tile that was lent to another core, or returned, has another thread: its times cannot be compared.
    let is_same_thread = before.loop_counter("tid") == after.loop_counter("tid");
    let waited = before.waited_for_core_ns.zip(after.waited_for_core_ns).filter(|_| is_same_thread);
    TileSample {
        tile: spec.name(),
        kind: spec.kind.clone(),
        core: spec.core,
        load: spec.load,
        count_key: spec.count_key.clone(),
        tid: after.loop_counter("tid"),
        state: TileState::of(after.loop_counter("state")),
        stale_s: (beat > 0).then(|| unix_ns.saturating_sub(beat) as f64 / 1e9),
        heart: beat > before.loop_counter("heartbeat_unix_ns"),
        in_backpressure: after.loop_counter("in_backpressure") > 0,
        backpressure_count: after.loop_counter("backpressures"),
        backpressure_delta: since("backpressures"),
        preempted_per_s: since("context_switches_involuntary") as f64 / seconds,
        waited_for_core: waited.map(|(then, now)| (now.saturating_sub(then) as f64 / 1e9 / seconds).min(1.0)),
        cpu: since("cpu_ns") as f64 / 1e9 / seconds,
        regimes: Regimes::of(std::array::from_fn(|i| now[i].saturating_sub(then[i]))),
    }
}

fn links(topology: &Topology, before: &[LinkView], after: &[LinkView], seconds: f64) -> Vec<LinkSample> {
    let mut samples = vec![];
    for (then, now) in before.iter().zip(after) {
        let spec = topology.links.iter().find(|spec| spec.name == now.name);
        let producer = spec.map_or(String::new(), |spec| spec.producer.clone());
        for (c0, c1) in then.consumers.iter().zip(&now.consumers) {
            samples.push(link((then, c0), (now, c1), &producer, seconds));
        }
    }
    samples
}

fn link(
    (then, c0): (&LinkView, &ConsumerView),
    (now, c1): (&LinkView, &ConsumerView),
    producer: &str,
    seconds: f64,
) -> LinkSample {
    let rate = |now: u64, then: u64| now.saturating_sub(then) as f64 / seconds;
    let (total, filtered) = (rate(c1.seq, c0.seq), rate(c1.filtered, c0.filtered));
    LinkSample {
        link: now.name.clone(),
        producer: producer.into(),
        consumer: c1.name.clone(),
        reliable: c1.reliable,
        depth: now.depth,
        total_per_s: total,
        bits_per_s: 8.0 * rate(c1.bytes, c0.bytes),
        unique_per_s: (total - filtered).max(0.0),
        filtered_per_s: filtered,
        overrun_poll: c1.overrun_poll,
        overrun_read: c1.overrun_read,
        overrun_poll_delta: c1.overrun_poll.saturating_sub(c0.overrun_poll),
        overrun_read_delta: c1.overrun_read.saturating_sub(c0.overrun_read),
        overrun_per_s: rate(c1.overrun_poll + c1.overrun_read, c0.overrun_poll + c0.overrun_read),
        slow: c1.slow,
        slow_delta: c1.slow.saturating_sub(c0.slow),
        slow_per_s: rate(c1.slow, c0.slow),
        sequence: now.producer_seq,
        sequence_delta: now.producer_seq.saturating_sub(then.producer_seq),
        waiting: now.producer_seq.saturating_sub(c1.seq).min(u64::from(now.depth)),
    }
}

/// The tiles of a core share its thread, so any of them tells how long it waited.
fn cores(tiles: &[TileSample]) -> Vec<CoreSample> {
    let mut cores: BTreeMap<usize, CoreSample> = BTreeMap::new();
    for tile in tiles {
        let Some(core) = tile.core else { continue };
        let sample = cores.entry(core).or_insert_with(|| CoreSample { core, ..CoreSample::default() });
        sample.tiles.push(tile.tile.clone());
        sample.busy += tile.regimes.busy();
        sample.taken = sample.taken.max(tile.waited_for_core.unwrap_or(0.0));
    }
    // Each tile publishes its shares for a slightly different period.
    cores.values_mut().for_each(|core| core.busy = core.busy.min(1.0));
    cores.into_values().collect()
}

#[cfg(test)]
mod tests;
