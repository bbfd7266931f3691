//! Observes the node during a bench: samples the counters of all tiles.
//!
//! reads   the workspace
//! writes  [`BenchObservations`], from which the report is made
//! memory  a snapshot of all counters; a number per second

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hearth_machine::neighbours::Jiffies;
use hearth_machine::process::{CoresHad, CpuTime, cpu_ns_of, resident_bytes};
use hearth_monitor::{Diagnosis, Stage, Stages};
use hearth_pipeline::bencho::Sample;
use hearth_pipeline::kinds::{Kind, TileNeed};
use hearth_pipeline::node::Node;
use hearth_pipeline::{bank, benchg, benchs};
use hearth_tile::counters::{CounterSet, FIRST_REGIME, LoopCounters};
use hearth_tile::latency::Histogram;
use hearth_tile::regime::{REGIMES, Regime};

use super::bottleneck::WatchedNode;
use super::disturbance::{CpuAllowance, noise};
use super::machine::jiffies;
use super::report::{Bottleneck, CpuPerTxn, TileUse};

/// Counters of streams that end at the server without a transaction.
const STREAM_ENDS: [&str; 7] = [
    "streams_empty",
    "streams_reset",
    "streams_timed_out",
    "streams_over_memory",
    "streams_oversize",
    "streams_abandoned",
    "streams_unread",
];

/// One tile's counters at a moment.
#[derive(Clone, Debug, Default)]
struct TileCounts {
    kind: String,
    name: String,
    core: Option<usize>,
    load: bool,
    cpu_ns: u64,
    regimes: [u64; REGIMES],
    own: BTreeMap<String, u64>,
    latencies: Vec<(String, Histogram)>,
}

/// All tiles' counters at a moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    tiles: Vec<TileCounts>,
    process_cpu_ns: u64,
}

impl Snapshot {
    /// Reads the counters of all tiles, and the process's CPU time.
    pub fn take(node: &Node) -> Self {
        let cpu_at = LoopCounters::DECLS.iter().position(|d| d.name == "cpu_ns").expect("a loop counter");
        let tiles = node.topology.tiles.iter().map(|spec| {
            let counters = node.workspace().counters(&spec.name()).expect("every tile has counters");
            let words: Vec<u64> = counters.words().iter().map(|w| w.load(Ordering::Relaxed)).collect();
            let latencies = spec.latencies.iter().enumerate();
            let latencies = latencies.map(|(number, latency)| {
                (latency.name.clone(), Histogram::read(&counters.words()[spec.latency_at(number)..]))
            });
            let own = spec.counters.iter().zip(&words[LoopCounters::DECLS.len()..]);
            TileCounts {
                kind: spec.kind.clone(),
                name: spec.name(),
                core: spec.core,
                load: spec.load,
                cpu_ns: words[cpu_at],
                regimes: words[FIRST_REGIME..FIRST_REGIME + REGIMES].try_into().expect("nine regimes"),
                own: own.map(|(decl, value)| (decl.name.clone(), *value)).collect(),
                latencies: latencies.collect(),
            }
        });
        Self { tiles: tiles.collect(), process_cpu_ns: hearth_tile::sys::thread::process_cpu_ns() }
    }

    /// Sums a counter over the tiles of a kind.
    pub fn total(&self, kind: &str, counter: &str) -> u64 {
        let values = self.tiles.iter().filter(|t| t.kind == kind).filter_map(|t| t.own.get(counter));
        values.sum()
    }

    /// Returns the transactions that the load's transport accepted.
    pub fn sent(&self) -> u64 {
        self.total("benchs", "sent")
    }

    /// Returns whether every benchs has a connection.
    pub fn connected(&self) -> bool {
        self.tiles.iter().filter(|t| t.kind == "benchs").all(|t| t.own.get("connected").is_some_and(|c| *c > 0))
    }

    /// Returns the dropped transactions, by place and kind.
    pub fn dropped(&self) -> BTreeMap<String, u64> {
        let mut dropped: BTreeMap<String, u64> = BTreeMap::new();
        for tile in self.tiles.iter().filter(|tile| drops_transactions(&tile.kind)) {
            for (counter, count) in &tile.own {
                if let Some(kind) = counter.strip_prefix("dropped_") {
                    *dropped.entry(format!("{}_{kind}", tile.kind)).or_default() += count;
                }
            }
        }
        let mut seen = self.total("quic", "transactions");
        for end in STREAM_ENDS {
            let count = self.total("quic", end);
            dropped.insert(format!("quic_{end}"), count);
            seen += count;
        }
        // Some transactions that the client's transport counts as lost with a connection did arrive: the server knows.
        // Only the others are explained by lost connections; anything else that the server has not seen stays
        // unresolved.
        let unseen = self.sent().saturating_sub(seen);
        dropped.insert("benchs_lost".into(), unseen.min(self.total("benchs", "lost")));
        dropped
    }

    /// Returns whether everything that was generated was sent and acknowledged.
    pub fn is_sent(&self) -> bool {
        self.total("benchg", "generated") == self.sent() && self.total("benchs", "in_flight") == 0
    }

    /// Returns whether everything that was generated was sent, and everything sent has an outcome.
    pub fn is_settled(&self) -> bool {
        let ended = self.total("bank", "landed") + self.total("bank", "failed") + self.dropped().values().sum::<u64>();
        self.is_sent() && self.sent() == ended
    }

    /// Latencies of all tiles by stage.
    fn stages(&self) -> Stages {
        let mut stages = Stages::default();
        for tile in &self.tiles {
            tile.latencies.iter().for_each(|(name, histogram)| stages.add(&tile.kind, name, histogram));
        }
        stages
    }

    /// Returns the transactions that were executed and committed.
    pub fn ended(&self) -> u64 {
        self.total("bank", "landed") + self.total("bank", "failed")
    }
}

/// If two looks, which come many times a second, are this far apart, this process itself did not run.
const HALT_MIN: Duration = Duration::from_millis(500);

/// All observations of a bench.
#[derive(Debug, Default)]
pub struct BenchObservations {
    /// Rate of each measured second; a mean for seconds in which the node did not answer.
    pub seconds: Vec<f64>,
    /// Counters at the very end.
    pub last: Snapshot,
    /// Whether Ctrl-C ended it early.
    pub interrupted: bool,
    /// Whether Ctrl-C ended the wait for transactions in flight.
    pub drain_interrupted: bool,
    /// Whether all transfers signed in advance were sent before the time was up.
    pub presigned_ran_dry: bool,
    /// Highest resident memory in bytes.
    pub rss_max: u64,
    first_sample: Option<Sample>,
    last_sample: Option<Sample>,
    at_begin: Snapshot,
    at_end: Snapshot,
    watched: Option<WatchedNode>,
    begun: Option<Instant>,
    /// Set while seconds are measured, for concurrent measurements.
    pub measuring: Arc<AtomicBool>,
    /// Whether the node is another process, so that its use of the cores is no noise.
    pub is_outside: bool,
    /// Whether the load makes the count of a remote node grow every second.
    pub expects_growth: bool,
    /// The process of a node outside this one, whose CPU time is the node's.
    pub pid: Option<u32>,
    node_cpu_ns: (Option<u64>, Option<u64>),
    cpu_at_begin: Option<CpuTime>,
    cpu_at_end: Option<CpuTime>,
    rss_at_10_s: Option<u64>,
    rss_last: u64,
    progress: Option<(u64, Instant)>,
    /// When progress was last checked.
    looked: Option<Instant>,
    longest_stall: Duration,
    /// Time of the sample since which the RPC's count has not grown.
    still_since_ns: Option<u64>,
    lag_ns_max: u64,
    /// CPU time of the process and the machine's jiffies at the end of the last second.
    second_ended: Option<(CpuTime, Jiffies)>,
    /// Whether a disturbance was already reported.
    noise_said: bool,
    node_rss_max: Option<u64>,
}

impl BenchObservations {
    /// Takes a snapshot when the load starts.
    pub fn start(&mut self, node: &Node) {
        self.at_begin = Snapshot::take(node);
        self.second_ended = Some((CpuTime::take(), jiffies()));
    }

    /// Called many times a second: records memory and stalls.
    pub fn look(&mut self, node: &Node) {
        let (now, highest) = resident_bytes("self").unwrap_or_default();
        (self.rss_last, self.rss_max) = (now, self.rss_max.max(highest));
        if self.begun.is_some_and(|begun| begun.elapsed() >= Duration::from_secs(10)) {
            self.rss_at_10_s.get_or_insert(now);
        }
        if !self.measuring.load(Ordering::Relaxed) {
            return;
        }
        let of = |kind: &'static str| node.topology.tiles.iter().filter(move |t| t.kind == kind).map(|t| t.name());
        let lag = of("benchg").map(|benchg| own::<benchg::Counters>(node, &benchg, &["lag_ns"])).max();
        self.lag_ns_max = self.lag_ns_max.max(lag.unwrap_or(0));
        // A remote node's bank cannot be observed: its acknowledgements show that it is alive.
        let of_load =
            |counter| of("benchs").map(|benchs| own::<benchs::Counters>(node, &benchs, &[counter])).sum::<u64>();
        let (done, waits): (u64, bool) = if self.is_outside {
            (of_load("acknowledged"), of_load("in_flight") > 0)
        } else {
            (of("bank").map(|bank| own::<bank::Counters>(node, &bank, &["landed", "failed"])).sum(), true)
        };
        self.note_progress(done, waits, Instant::now());
    }

    /// Records how long a count has not grown while something `waits`. If this process itself did not run, as after
    /// SIGSTOP, the time starts again, because nothing observed the node meanwhile.
    fn note_progress(&mut self, done: u64, waits: bool, now: Instant) {
        let ran = self.looked.replace(now).is_none_or(|before| now.saturating_duration_since(before) < HALT_MIN);
        match self.progress {
            Some((count, since)) if count == done && waits && ran => {
                self.longest_stall = self.longest_stall.max(now.saturating_duration_since(since));
            }
            _ => self.progress = Some((done, now)),
        }
    }

    /// Records that some seconds have passed; returns their rate, the same for each.
    pub fn seconds(&mut self, before: &Sample, after: &Sample, seconds: u64, node: &Node) -> f64 {
        let count = after.transaction_count.saturating_sub(before.transaction_count);
        let rate = count as f64 / ((after.at_ns - before.at_ns).max(1) as f64 / 1e9);
        if self.is_measuring() {
            self.seconds.extend(std::iter::repeat_n(rate, seconds as usize));
            self.note_growth(before, after, count);
            self.last_sample = Some(*after);
            self.at_end = Snapshot::take(node);
            self.watched.iter_mut().for_each(WatchedNode::second);
            self.cpu_at_end = Some(CpuTime::take());
            self.node_cpu_ns.1 = self.pid.and_then(cpu_ns_of);
            let resident = self.pid.and_then(|pid| resident_bytes(&pid.to_string()));
            self.node_rss_max = resident.map(|(_, highest)| highest).max(self.node_rss_max);
        }
        rate
    }

    /// Returns whether the warm-up is over.
    pub fn is_measuring(&self) -> bool {
        self.begun.is_some()
    }

    /// A count that does not grow from one sample to the next is also a stall: a node may acknowledge transactions
    /// without executing them. For a remote node only the samples show this.
    fn note_growth(&mut self, before: &Sample, after: &Sample, count: u64) {
        let since = self.still_since_ns.unwrap_or(before.at_ns);
        self.still_since_ns = (count == 0).then_some(since);
        if count == 0 && self.is_outside && self.expects_growth {
            self.longest_stall = self.longest_stall.max(Duration::from_nanos(after.at_ns.saturating_sub(since)));
        }
    }

    /// Records the end of the warm-up. Returns whether it had not ended before.
    pub fn begin_measuring(&mut self, sample: Sample, node: &Node) -> bool {
        let begins = self.begun.is_none();
        if begins {
            self.begun = Some(Instant::now());
            self.cpu_at_begin = Some(CpuTime::take());
            self.first_sample = Some(sample);
            self.at_begin = Snapshot::take(node);
            self.watched = WatchedNode::begin(node);
            self.node_cpu_ns.0 = self.pid.and_then(cpu_ns_of);
            self.measuring.store(true, Ordering::Relaxed);
        }
        begins
    }

    /// Records the end of the last second.
    pub fn end_measuring(&mut self, node: &Node) {
        self.measuring.store(false, Ordering::Relaxed);
        if self.at_end.tiles.is_empty() {
            self.at_end = Snapshot::take(node);
        }
    }

    /// Returns whether there is anything to report: not if Ctrl-C came before the end of the first measured second.
    pub fn is_measured(&self) -> bool {
        !self.interrupted || !self.seconds.is_empty()
    }

    /// Returns the measured seconds.
    pub fn measured_s(&self) -> f64 {
        match (self.first_sample, self.last_sample) {
            (Some(first), Some(last)) => (last.at_ns - first.at_ns) as f64 / 1e9,
            _ => 0.0,
        }
    }

    /// Returns the transactions executed in the measured seconds, by the RPC's count.
    pub fn measured_transactions(&self) -> u64 {
        match (self.first_sample, self.last_sample) {
            (Some(first), Some(last)) => last.transaction_count - first.transaction_count,
            _ => 0,
        }
    }

    /// Returns the growth of memory after the first ten measured seconds, if there were more.
    pub fn rss_growth(&self) -> Option<i64> {
        self.rss_at_10_s.map(|then| self.rss_last as i64 - then as i64)
    }

    /// Records the end of a second. Returns what others took of it, if it is much and was not reported before.
    pub fn new_noise(&mut self, cores: f64) -> Option<String> {
        let now = (CpuTime::take(), jiffies());
        let (cpu, before) = self.second_ended.replace(now.clone())?;
        let stolen = now.1.steal_since(&before);
        let noise = noise(&CpuAllowance { cores, had: now.0.since(&cpu) }, stolen, self.is_outside);
        noise.filter(|_| !std::mem::replace(&mut self.noise_said, true))
    }

    /// Returns the cores that the node's process used while measuring and its highest memory, if it is a separate,
    /// named process.
    pub fn node_use(&self) -> (Option<f64>, Option<u64>) {
        let cores = match self.node_cpu_ns {
            (Some(begin), Some(end)) if self.measured_s() > 0.0 => {
                Some(end.saturating_sub(begin) as f64 / 1e9 / self.measured_s())
            }
            _ => None,
        };
        (cores, self.node_rss_max)
    }

    /// Returns the CPU time of the process during the measurement.
    pub fn cores(&self) -> CoresHad {
        match (&self.cpu_at_begin, &self.cpu_at_end) {
            (Some(begin), Some(end)) => end.since(begin),
            _ => CoresHad::default(),
        }
    }

    /// Returns the transactions that the load's transport accepted per measured second.
    pub fn sent_per_s(&self) -> f64 {
        let seconds = self.measured_s();
        let sent = self.at_end.sent().saturating_sub(self.at_begin.sent()) as f64;
        if seconds > 0.0 { sent / seconds } else { 0.0 }
    }

    /// Returns the worst lag of the load behind its schedule, in seconds.
    pub fn lag_s_max(&self) -> f64 {
        self.lag_ns_max as f64 / 1e9
    }

    /// Returns the longest time in which no transaction was executed; for a remote node, in which it acknowledged none,
    /// or its count did not grow.
    pub fn longest_stall_s(&self) -> f64 {
        self.longest_stall.as_secs_f64()
    }

    /// Returns the age of transactions at each stage in the measured seconds.
    pub fn latency(&self) -> Vec<Stage> {
        self.at_end.stages().since(&self.at_begin.stages())
    }

    /// Returns the CPU time per executed transaction. CPU time outside tiles (RPC, disk sync) is the node's. What the
    /// tiles' threads used beyond their tiles' busy time is polling.
    pub fn cpu_us_per_txn(&self) -> CpuPerTxn {
        let txns = self.at_end.ended().saturating_sub(self.at_begin.ended()) as f64;
        if txns == 0.0 {
            return CpuPerTxn::default();
        }
        let of = |s: &Snapshot, load: bool| s.tiles.iter().filter(|t| t.load == load).map(|t| t.cpu_ns).sum::<u64>();
        let load = of(&self.at_end, true).saturating_sub(of(&self.at_begin, true));
        let all = self.at_end.process_cpu_ns.saturating_sub(self.at_begin.process_cpu_ns);
        let per_txn = |ns: u64| ns as f64 / 1e3 / txns;
        let tiles = load + of(&self.at_end, false).saturating_sub(of(&self.at_begin, false));
        let spent = self.at_end.tiles.iter().zip(&self.at_begin.tiles);
        let busy: u64 = spent.map(|(end, begin)| busy_ns(end, begin)).sum();
        CpuPerTxn {
            node: Some(per_txn(all.saturating_sub(load))),
            signatures: Some(self.signatures_cpu_ns() / 1e3 / txns),
            load: per_txn(load),
            polling: per_txn(tiles.saturating_sub(busy)),
        }
    }

    /// CPU time of checking signatures: verify's CPU time multiplied by the checks' share of its busy time.
    fn signatures_cpu_ns(&self) -> f64 {
        let verify = self.at_end.tiles.iter().zip(&self.at_begin.tiles).filter(|(tile, _)| tile.kind == "verify");
        let of = |(end, begin): (&TileCounts, &TileCounts)| {
            let own = |counts: &TileCounts| counts.own.get("signatures_ns").copied().unwrap_or(0);
            let share = own(end).saturating_sub(own(begin)) as f64 / busy_ns(end, begin).max(1) as f64;
            end.cpu_ns.saturating_sub(begin.cpu_ns) as f64 * share.min(1.0)
        };
        verify.map(of).sum()
    }

    /// Returns the CPU time per landed transaction if the node is another process: all of this one is the load's.
    pub fn cpu_us_per_landed(&self, landed: u64) -> CpuPerTxn {
        if landed == 0 {
            return CpuPerTxn::default();
        }
        let per_txn = |ns: u64| ns as f64 / 1e3 / landed as f64;
        let used = self.at_end.process_cpu_ns.saturating_sub(self.at_begin.process_cpu_ns);
        let spent = self.at_end.tiles.iter().zip(&self.at_begin.tiles);
        let polled =
            spent.map(|(end, begin)| end.cpu_ns.saturating_sub(begin.cpu_ns).saturating_sub(busy_ns(end, begin)));
        let node = match self.node_cpu_ns {
            (Some(begin), Some(end)) => Some(per_txn(end.saturating_sub(begin))),
            _ => None,
        };
        CpuPerTxn { node, signatures: None, load: per_txn(used), polling: per_txn(polled.sum()) }
    }

    /// Returns how each tile spent the measured time.
    pub fn tile_use(&self) -> Vec<TileUse> {
        self.at_end.tiles.iter().zip(&self.at_begin.tiles).map(|(end, begin)| tile_use(end, begin)).collect()
    }

    /// Returns what limited the rate, with the figures that show it.
    pub fn bottleneck(&self) -> Bottleneck {
        self.watched.as_ref().map(WatchedNode::bottleneck).unwrap_or_default()
    }

    /// Returns the monitor's diagnosis of the measured time.
    pub fn diagnosis(&self) -> Option<Diagnosis> {
        self.watched.as_ref()?.diagnosis()
    }
}

/// Sums some of a tile's own counters, declared by `C`.
fn own<C: CounterSet>(node: &Node, tile: &str, names: &[&str]) -> u64 {
    let counters = node.workspace().counters(tile).expect("every tile has counters");
    let at = |name: &&str| {
        let position = C::DECLS.iter().position(|d| d.name == *name);
        LoopCounters::DECLS.len() + position.expect("a counter of the tile")
    };
    names.iter().map(at).map(|at| counters.words()[at].load(Ordering::Relaxed)).sum()
}

/// Time of useful work and housekeeping: without backpressure, waiting, or time in which the core ran another tile.
fn busy_ns(end: &TileCounts, begin: &TileCounts) -> u64 {
    let spent = |regime: &Regime| end.regimes[*regime as usize].saturating_sub(begin.regimes[*regime as usize]);
    let idle = [Regime::Backpressure, Regime::Wait, Regime::Elsewhere];
    Regime::ALL.iter().filter(|regime| !idle.contains(regime)).map(spent).sum()
}

fn tile_use(end: &TileCounts, begin: &TileCounts) -> TileUse {
    let spent: [u64; REGIMES] = std::array::from_fn(|i| end.regimes[i].saturating_sub(begin.regimes[i]));
    let total = spent.iter().sum::<u64>().max(1) as f64;
    let share = |regime: Regime| spent[regime as usize] as f64 / total;
    let (backpressure, wait, elsewhere) = (share(Regime::Backpressure), share(Regime::Wait), share(Regime::Elsewhere));
    TileUse {
        tile: end.name.clone(),
        core: end.core,
        busy: 1.0 - backpressure - wait - elsewhere,
        backpressure,
        wait,
        elsewhere,
    }
}

/// Whether tiles of this kind drop transactions: they report each one to the drop log, and count it in a counter whose
/// name begins with `dropped_`.
fn drops_transactions(kind: &str) -> bool {
    Kind::named(kind).is_some_and(|kind| kind.needs.contains(&TileNeed::Drops))
}

#[cfg(test)]
mod tests {
    use hearth_pipeline::kinds::KINDS;

    use super::*;

    fn counts(kind: &str, own: &[(&str, u64)]) -> TileCounts {
        let own = own.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        TileCounts { kind: kind.into(), name: format!("{kind}:0"), own, ..TileCounts::default() }
    }

    #[test]
    fn every_counter_of_dropped_transactions_is_summed() {
        for kind in KINDS {
            let counters = kind.spec(0).counters;
            let mut drops = counters.iter().filter(|counter| counter.name.starts_with("dropped_"));
            let has_drops = drops.any(|counter| counter.help.starts_with("Transactions dropped"));
            // Quic's streams have their own names for how they end.
            assert_eq!(has_drops, drops_transactions(kind.name) && kind.name != "quic", "{}", kind.name);
        }
    }

    #[test]
    fn a_bench_that_did_not_run_blames_no_node() {
        let zero = Instant::now();
        let at = |ms| zero + Duration::from_millis(ms);
        let mut seen = BenchObservations::default();
        (0..20).for_each(|nth| seen.note_progress(7, true, at(100 * nth)));
        assert_eq!(seen.longest_stall_s(), 1.9, "the node took nothing");
        seen.note_progress(7, true, at(5_900));
        (60..70).for_each(|nth| seen.note_progress(8, true, at(100 * nth)));
        assert_eq!(seen.longest_stall_s(), 1.9, "nobody looked for four seconds");
    }

    /// Losses at the server have a reason; some others went with a connection; the rest stays unexplained.
    #[test]
    fn unexplained_loss_stays_unresolved() {
        let with = |lost: u64| {
            let server =
                [("transactions", 85), ("streams_timed_out", 3), ("streams_unread", 2), ("streams_accepted", 88)];
            let tiles = vec![
                counts("benchs", &[("sent", 100), ("acknowledged", 98), ("lost", lost)]),
                counts("quic", &server),
                counts("verify", &[("dropped_signature", 5)]),
                counts("bank", &[("landed", 79), ("failed", 1)]),
            ];
            let seen = Snapshot { tiles, ..Snapshot::default() };
            let mut dropped = seen.dropped();
            let sum: u64 = dropped.values().sum();
            dropped.retain(|_, count| *count > 0);
            (seen.sent() - seen.ended() - sum, dropped.into_iter().collect::<Vec<_>>())
        };
        let of = |lost: u64| {
            let places = [
                ("benchs_lost", lost),
                ("quic_streams_timed_out", 3),
                ("quic_streams_unread", 2),
                ("verify_dropped_signature", 5),
            ];
            let places = places.into_iter().filter(|(_, count)| *count > 0);
            places.map(|(name, count)| (name.replace("dropped_", ""), count)).collect::<Vec<_>>()
        };
        assert_eq!(with(0), (10, of(0)));
        assert_eq!(with(4), (6, of(4)));
        // Some of them had arrived.
        assert_eq!(with(30), (0, of(10)));
    }
}
