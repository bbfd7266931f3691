//! Measures the nodes' rates over comparable time windows.
//!
//! reads   each node's RPC, and its workspace for the bytes that it sends and receives
//! writes  [`Second`]s, [`Window`]s
//! memory  a line per node
//!
//! A follower executes a whole block at once, so its count rises in steps, sometimes of two blocks. A window extends
//! from one slot's end to another's, the same slots for all nodes: the same blocks, over the time that each node took.

use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use hearth_command::node_rpc::{self, Rpc};
use hearth_command::stop::StopSignal;
use serde::Serialize;

use super::load::Load;
use crate::local::LocalError;
use crate::local::member::Cluster;
use crate::local::status::ChainSample;

/// Transactions per second that votes alone never reach.
const IS_LOADED: f64 = 50.0;
/// Time limit for a load to start, and for followers to catch up with the leader.
const PATIENCE: Duration = Duration::from_secs(120);
/// Slots that a leader may produce between a sample and its stop.
const STOPPED_WITHIN: u64 = 10;
/// Polling interval for a new slot.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// How long to wait for a slot.
const SLOT_MAX: Duration = Duration::from_secs(5);

/// A node's traffic since the previous sample.
#[derive(Clone, Copy, Debug, Default)]
pub struct Traffic {
    /// Bits per second sent by each net tile.
    pub sent_bps: f64,
    /// Bits per second received.
    pub received_bps: f64,
    /// The fraction of the time in which its blocks were full.
    pub full: f64,
}

/// Samples the traffic in a node's workspace.
pub type Meter = Box<dyn FnMut() -> Traffic>;

/// Opens the meter of the node with the workspace at this path; `None` if there is none. The lab's monitor reads
/// workspaces, and the chain crates do not depend on the lab, so the program provides it.
pub type OpenMeter = fn(&Path) -> Option<Meter>;

/// The activity of each node in a second, the leader first.
#[derive(Clone, Debug, Serialize)]
pub struct Second {
    /// Seconds since the first sample.
    pub at_s: f64,
    /// Transactions per second that each node executed, votes included.
    pub txn_per_s: Vec<f64>,
    /// Slots behind the leader.
    pub slots_behind: Vec<u64>,
    /// Bits per second sent by each net tile.
    pub sent_bps: Vec<f64>,
    /// Bits per second received.
    pub received_bps: Vec<f64>,
    /// The fraction of the time in which the leader's blocks were full.
    pub full: f64,
}

impl Second {
    /// Formats the second as a line.
    pub fn line(&self) -> String {
        let least = self.txn_per_s[1..].iter().copied().fold(f64::INFINITY, f64::min);
        let most = self.txn_per_s[1..].iter().copied().fold(0.0, f64::max);
        format!(
            "  {:>4.0} s  leader {:>8.0}  followers {least:>8.0} to {most:>8.0} TPS  {:>2} slots behind at most  leader \
             sends {:>7.1} Mb/s",
            self.at_s,
            self.txn_per_s[0],
            self.slots_behind.iter().max().unwrap_or(&0),
            self.sent_bps[0] / 1e6
        )
    }
}

/// A time window in which each node's rate is known: from the end of one slot to that of another, the same for all.
pub struct Window {
    /// Each node when it reached the first slot.
    pub begin: Edge,
    /// Each node when it reached the last slot.
    pub end: Edge,
}

/// Each node when it reached a slot.
pub struct Edge {
    slot: u64,
    looks: Vec<ChainSample>,
}

impl Window {
    /// Each node's transactions per second. The slots are the same for all, so the leader's count is used for their
    /// contents; a node that has not reached the last slot in time is measured by its own count.
    pub fn rates(&self) -> Vec<f64> {
        let count = |edge: &Edge| edge.looks[0].transactions;
        let made = count(&self.end).saturating_sub(count(&self.begin)) as f64;
        let rate = |(end, begin): (&ChainSample, &ChainSample)| match begin.slot >= self.begin.slot
            && end.slot >= self.end.slot
        {
            true => made / (end.at - begin.at).as_secs_f64().max(1e-3),
            false => end.rate_since(begin),
        };
        self.end.looks.iter().zip(&self.begin.looks).map(rate).collect()
    }

    /// Returns the share of the rate that one slot of the window is worth. Two rates closer than this are equal: each
    /// node's window begins and ends somewhere within a slot.
    pub fn slot_share(&self) -> f64 {
        1.0 / self.end.slot.saturating_sub(self.begin.slot).max(1) as f64
    }

    /// The leader's duration of the window.
    pub fn seconds(&self) -> f64 {
        (self.end.looks[0].at - self.begin.looks[0].at).as_secs_f64()
    }
}

/// A follower that did not catch up with the leader in time.
#[derive(Debug)]
pub struct LaggingFollower {
    node: String,
    slots: u64,
}

impl fmt::Display for LaggingFollower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node, slots } = self;
        write!(f, "{node} is {slots} slots behind what the leader had {} s ago", PATIENCE.as_secs())
    }
}

/// Samples the chain and the traffic of all nodes, and computes what changed in between.
pub struct Watcher<'a> {
    cluster: &'a Cluster,
    rpcs: Vec<Rpc>,
    meters: Vec<Meter>,
    begun: Instant,
    before: Vec<ChainSample>,
}

impl<'a> Watcher<'a> {
    /// Takes the first sample.
    pub fn of(cluster: &'a Cluster, open_meter: OpenMeter) -> Result<Self, LocalError> {
        let rpcs = cluster.nodes.iter().map(|node| node_rpc::at(&node.rpc())).collect::<Result<Vec<_>, _>>()?;
        let meter = |number: usize| {
            let path = cluster.workspace(&cluster.nodes[number]);
            open_meter(&path).ok_or_else(|| gone(cluster, number))
        };
        let meters = (0..cluster.nodes.len()).map(meter).collect::<Result<_, _>>()?;
        let mut watcher = Self { cluster, rpcs, meters, begun: Instant::now(), before: vec![] };
        watcher.before = watcher.looks()?;
        Ok(watcher)
    }

    fn look(&mut self, number: usize) -> Result<ChainSample, LocalError> {
        let cluster = self.cluster;
        ChainSample::take(&self.rpcs[number]).ok_or_else(|| gone(cluster, number))
    }

    fn looks(&mut self) -> Result<Vec<ChainSample>, LocalError> {
        (0..self.rpcs.len()).map(|number| self.look(number)).collect()
    }

    /// Samples the leader's slot and transaction count.
    pub fn leader(&mut self) -> Result<ChainSample, LocalError> {
        self.look(0)
    }

    /// Waits until a load has started.
    pub fn wait_for_load(&mut self, load: &mut Load, stop: &StopSignal) -> Result<(), LocalError> {
        let begun = Instant::now();
        let mut before = self.leader()?;
        loop {
            wait(Duration::from_millis(500), stop)?;
            let now = self.leader()?;
            if now.rate_since(&before) > IS_LOADED {
                return Ok(());
            }
            let said = || std::fs::read_to_string(self.cluster.folder.join("load.log")).unwrap_or_default();
            if !load.is_alive() {
                return Err(LocalError::Ended { node: "the load".into(), said: format!("\n{}", said()) });
            }
            if begun.elapsed() > PATIENCE {
                return Err(LocalError::Mute { node: "the load".into(), said: format!("\n{}", said()) });
            }
            before = now;
        }
    }

    /// Waits for a second, and returns the activity since the last sample.
    pub fn second(&mut self, stop: &StopSignal) -> Result<Second, LocalError> {
        wait(Duration::from_secs(1), stop)?;
        let now = self.looks()?;
        let traffic: Vec<Traffic> = self.meters.iter_mut().map(|meter| meter()).collect();
        let second = Second {
            at_s: self.begun.elapsed().as_secs_f64(),
            txn_per_s: now.iter().zip(&self.before).map(|(now, before)| now.rate_since(before)).collect(),
            slots_behind: now.iter().map(|look| now[0].slot.saturating_sub(look.slot)).collect(),
            sent_bps: traffic.iter().map(|node| node.sent_bps).collect(),
            received_bps: traffic.iter().map(|node| node.received_bps).collect(),
            full: traffic[0].full,
        };
        self.before = now;
        Ok(second)
    }

    /// Each node when it reaches the leader's next slot, or where it is if that takes too long.
    pub fn edge(&mut self, stop: &StopSignal) -> Result<Edge, LocalError> {
        let slot = self.looks()?.iter().map(|look| look.slot).max().unwrap_or(0) + 1;
        let mut found: Vec<Option<ChainSample>> = vec![None; self.rpcs.len()];
        let begun = Instant::now();
        while found.iter().any(Option::is_none) {
            for (number, found) in found.iter_mut().enumerate().filter(|(_, found)| found.is_none()) {
                let now = self.look(number)?;
                if now.slot >= slot || begun.elapsed() > SLOT_MAX {
                    *found = Some(now);
                }
            }
            wait(LOOK_EVERY, stop)?;
        }
        Ok(Edge { slot, looks: found.into_iter().flatten().collect() })
    }

    /// As [`Watcher::catch_up`], but a follower that does not catch up is an error, since nothing can be measured.
    pub fn all_there(&mut self, stop: &StopSignal) -> Result<ChainSample, LocalError> {
        self.catch_up(stop)?.map_err(|behind| LocalError::Behind(behind.to_string()))
    }

    /// Waits until all followers have executed what the leader had; returns a sample of the last of them.
    pub fn catch_up(&mut self, stop: &StopSignal) -> Result<Result<ChainSample, LaggingFollower>, LocalError> {
        let leader = self.leader()?;
        let begun = Instant::now();
        loop {
            let looks = self.looks()?;
            let last = looks.iter().enumerate().min_by_key(|(_, look)| look.slot).expect("a cluster has nodes");
            if last.1.slot >= leader.slot {
                let at = looks.iter().map(|look| look.at).max().unwrap_or(begun);
                let least = looks.iter().map(|look| look.transactions).min().unwrap_or(0);
                return Ok(Ok(ChainSample { at, slot: leader.slot, transactions: least.min(leader.transactions) }));
            }
            if begun.elapsed() > PATIENCE {
                let (number, look) = last;
                let node = self.cluster.nodes[number].name.clone();
                return Ok(Err(LaggingFollower { node, slots: leader.slot - look.slot }));
            }
            wait(LOOK_EVERY * 5, stop)?;
        }
    }
}

/// The leader's newest slot.
pub fn newest(cluster: &Cluster) -> Result<u64, LocalError> {
    let look = node_rpc::at(&cluster.leader().rpc()).ok().and_then(|rpc| ChainSample::take(&rpc));
    look.map(|look| look.slot).ok_or_else(|| gone(cluster, 0))
}

/// Waits until the leader produces blocks beyond those that it had at slot `before`, when it was stopped.
pub fn goes_on(cluster: &Cluster, before: u64, stop: &StopSignal) -> Result<(), LocalError> {
    let begun = Instant::now();
    while newest(cluster)? <= before + STOPPED_WITHIN {
        if begun.elapsed() > PATIENCE {
            return Err(LocalError::Mute { node: cluster.leader().name.clone(), said: cluster.last_words(0) });
        }
        wait(LOOK_EVERY * 10, stop)?;
    }
    Ok(())
}

/// The error for a node that does not answer.
pub fn gone(cluster: &Cluster, number: usize) -> LocalError {
    let node = &cluster.nodes[number];
    let (name, said) = (node.name.clone(), cluster.last_words(number));
    match node.process.is_some_and(|process| process.is_alive()) {
        true => LocalError::Mute { node: name, said },
        false => LocalError::Ended { node: name, said },
    }
}

/// Waits, unless the command is stopped.
pub fn wait(time: Duration, stop: &StopSignal) -> Result<(), LocalError> {
    if stop.is_set() {
        return Err(LocalError::Stopped);
    }
    std::thread::sleep(time);
    Ok(())
}
