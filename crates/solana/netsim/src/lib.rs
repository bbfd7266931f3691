//! netsim: simulates how blocks spread over clusters that this machine cannot run: every datagram on virtual time, over
//! the real Turbine trees.
//!
//! reads   a [`Plan`]: nodes, load, stake, a map, loss and dead nodes
//! writes  a [`Report`]: time until nodes have the block, what nodes send and receive, what is repaired
//! memory  36 B per node and simulated shred, for each concurrent seed, and 16 B per node for each reported one;
//!         [`MEMORY_MAX`] in all, by that estimate
//!
//! A slot is cut into FEC sets as transactions arrive. Of a slot with many sets only the last ones are simulated: a
//! block is complete when all its sets are, and earlier ones rarely arrive later. The leader's backlog of earlier sets
//! is included in its uplink. That of other nodes is not: nodes that must send more than they can are reported, and the
//! times are then lower bounds.

mod calibrate;
mod engine;
mod queue;
mod stakes;
mod text;
mod traffic;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::{io, thread};

use hearth_netem::World;
use hearth_turbine::{Cipher, Contact, FANOUT, Node, NodeSet};
use hearth_wire::shred::SHREDS_PER_SET;
use parking_lot::Mutex;
use serde::Serialize;

pub use self::calibrate::{Bandwidth, Calibration, Growth, SHOWN, ShownLoad, calibrate};
use self::engine::{NEVER, Slot, SlotResult};
use self::queue::Event;
pub use self::stakes::Stakes;
pub use self::text::{calibration_text, text};

/// Maximum nodes: their indices have two bytes.
pub const NODES_MAX: usize = 50_000;
/// A fanout above the number of nodes does not change the tree.
const FANOUT_MAX: usize = NODES_MAX;
/// Maximum memory of a simulation in bytes: a system with less would kill it without a message.
pub const MEMORY_MAX: u64 = 4 << 30;
/// Bytes per node and shred while its slot is simulated: positions in the tree, and a datagram in a buffer that may be
/// half empty. With 2,000 nodes and 64 sets, two slots at once, 14 were measured.
const SHRED_MEMORY: u64 = 4 + 2 * size_of::<Event>() as u64;
const _: () = assert!(SHRED_MEMORY == 36);
/// Number of points of a curve.
const POINTS: usize = 200;

/// The simulation to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Number of nodes, including the leader.
    pub nodes: usize,
    /// Transfers per second that the leader puts into its block.
    pub tps: f64,
    /// Duration of a slot in milliseconds.
    pub slot_ms: f64,
    /// The distribution of stake.
    pub stakes: Stakes,
    /// The map: regions, and the links between them.
    pub world: World,
    /// The fraction of dead nodes; the leader is never dead.
    pub dead: f64,
    /// Maximum number of children.
    pub fanout: usize,
    /// Number of simulated slots, each with another seed, leader and tree.
    pub seeds: u32,
    /// The seed of the first slot; each further slot has the next number.
    pub seed: u64,
    /// Maximum simulated FEC sets of a slot, which are the last ones.
    pub sets: u16,
    /// The region of the leader; drawn by stake if `None`.
    pub leader: Option<usize>,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            nodes: 2_000,
            tps: 1e6,
            slot_ms: 400.0,
            stakes: Stakes::default(),
            world: World::shipped(),
            dead: 0.0,
            fanout: FANOUT,
            seeds: 4,
            seed: 1,
            sets: 64,
            leader: None,
        }
    }
}

/// Why a simulation cannot run.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The plan is invalid.
    #[error("{0}")]
    Asked(String),
    /// The system cannot start a thread.
    #[error("no thread can be begun: {0}")]
    Thread(#[from] io::Error),
}

/// The results of a slot. Times are in milliseconds after the leader cut the slot's last set.
#[derive(Clone, Debug, Serialize)]
pub struct Seed {
    /// The seed of the slot, which is also its slot number.
    pub seed: u64,
    /// Time until 50, 90 and 99 % of the stake had the block; `None` if they never had it.
    pub stake_ms: [Option<f64>; 3],
    /// The same for the stake of live nodes.
    pub live_stake_ms: [Option<f64>; 3],
    /// Live nodes that never had it.
    pub without: usize,
    /// The fraction of the needed data shreds that came by repair.
    pub repaired: f64,
    /// The leader's rate of shreds and repair responses, in b/s.
    pub leader_out_bps: f64,
    /// The followers' receive rate, in b/s: median and maximum.
    pub follower_in_bps: [f64; 2],
    /// The followers' send rate, in b/s: median and maximum.
    pub follower_out_bps: [f64; 2],
    /// Send and receive rates of each live follower in b/s, in descending order of the former.
    pub followers_bps: Vec<[f64; 2]>,
    /// Points of time and of the fraction of the stake that had the block.
    pub curve: Vec<[f64; 2]>,
    /// Followers that must send more than their region's rate: their backlog grows with each slot.
    pub overloaded: usize,
    /// Whether this holds for the leader. The times include its backlog of the slot's earlier sets.
    pub leader_overloaded: bool,
    /// Number of simulated datagrams.
    pub datagrams: u64,
}

/// The results of all slots.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Number of nodes, the leader and dead ones included.
    pub nodes: usize,
    /// Number of dead nodes.
    pub dead: usize,
    /// Transfers per second that the leader puts into its block.
    pub tps: f64,
    /// The distribution of stake.
    pub stakes: String,
    /// Maximum number of children.
    pub fanout: usize,
    /// FEC sets of a slot, and how many of them were simulated.
    pub sets: [u64; 2],
    /// The leader's traffic besides shreds, by a model, in b/s.
    pub leader_other_bps: f64,
    /// The results of each slot.
    pub seeds: Vec<Seed>,
}

impl Plan {
    fn check(&self) -> Result<(), PlanError> {
        let asked = |what: String| Err(PlanError::Asked(what));
        if !(2..=NODES_MAX).contains(&self.nodes) {
            let of = match &self.stakes {
                Stakes::File(path) => format!("{}: stakes of {} nodes", path.display(), self.nodes),
                _ => format!("{} nodes", self.nodes),
            };
            return asked(format!("{of}: from 2 to {NODES_MAX} can be simulated"));
        }
        for (name, value, least, most) in [
            ("transactions a second", self.tps, 1.0, 1e9),
            ("milliseconds of a slot", self.slot_ms, 1.0, 60_000.0),
            ("the part of dead nodes", self.dead, 0.0, 0.99),
        ] {
            if !(least..=most).contains(&value) {
                return asked(format!("{name}: {value} is not from {least} to {most}"));
            }
        }
        if !(1..=FANOUT_MAX).contains(&self.fanout) {
            return asked(format!("a fanout of {}: from 1 to {FANOUT_MAX} can be simulated", self.fanout));
        }
        if self.seeds == 0 || self.sets == 0 {
            return asked("a seed and a set are needed, each 1 at least".into());
        }
        Ok(())
    }

    /// How many slots fit into memory at once.
    fn at_once(&self) -> Result<usize, PlanError> {
        let asked = |what: String| Err(PlanError::Asked(what));
        let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
        let nodes = self.nodes as u64;
        let seed_bytes = 16 * (nodes + POINTS as u64);
        // The other half is for slots in progress.
        let seeds_max = MEMORY_MAX / 2 / seed_bytes;
        if u64::from(self.seeds) > seeds_max {
            return asked(format!(
                "what {} seeds tell of {nodes} nodes takes some {:.1} GiB: ask for {seeds_max} at most (--seeds)",
                self.seeds,
                gib(u64::from(self.seeds) * seed_bytes)
            ));
        }
        let room = MEMORY_MAX - u64::from(self.seeds) * seed_bytes;
        let set = nodes * SHREDS_PER_SET as u64 * SHRED_MEMORY;
        let sets = u64::from(self.simulated(self.sets_of_slot()));
        match room / (sets * set) {
            0 => asked(format!(
                "{sets} sets of {nodes} nodes take some {:.1} GiB of memory, and a simulation takes {:.1} at most: ask \
                 for {} sets at most (--sets), or fewer nodes",
                gib(sets * set),
                gib(MEMORY_MAX),
                room / set
            )),
            slots => Ok(usize::try_from(slots).unwrap_or(usize::MAX)),
        }
    }

    /// Simulates the slots, some concurrently.
    ///
    /// # Errors
    ///
    /// The plan is invalid.
    pub fn run(&self) -> Result<Report, PlanError> {
        // The plan determines allocations, so it is checked first, and again if a file sets the number of nodes.
        self.check()?;
        let stakes = self.stakes.of(self.nodes).map_err(PlanError::Asked)?;
        let plan = Self { nodes: stakes.len(), ..self.clone() };
        plan.check()?;
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let threads = cores.min(self.seeds as usize).min(plan.at_once()?);
        let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        thread::scope(|scope| {
            for _ in 0..threads {
                thread::Builder::new().name("simulate".into()).spawn_scoped(scope, || {
                    loop {
                        let nth = next.fetch_add(1, Ordering::Relaxed);
                        if nth >= plan.seeds as usize {
                            break;
                        }
                        let seed = plan.slot(&stakes, plan.seed.wrapping_add(nth as u64));
                        found.lock().push((nth, seed));
                    }
                })?;
            }
            io::Result::Ok(())
        })?;
        let mut seeds = found.into_inner();
        seeds.sort_unstable_by_key(|(nth, _)| *nth);
        let sets = plan.sets_of_slot();
        Ok(Report {
            nodes: plan.nodes,
            dead: plan.dead_nodes(),
            tps: plan.tps,
            stakes: plan.stakes.to_string(),
            fanout: plan.fanout,
            sets: [sets, u64::from(plan.simulated(sets))],
            leader_other_bps: traffic::leader_other(plan.tps),
            seeds: seeds.into_iter().map(|(_, seed)| seed).collect(),
        })
    }

    fn sets_of_slot(&self) -> u64 {
        traffic::sets(self.tps, self.slot_ms / 1e3)
    }

    fn simulated(&self, sets: u64) -> u16 {
        sets.min(u64::from(self.sets)) as u16
    }

    fn dead_nodes(&self) -> usize {
        ((self.nodes as f64 * self.dead).round() as usize).min(self.nodes - 1)
    }

    /// The region of each node by weight: each region gets its share, to the node.
    fn regions(&self, random: &mut fastrand::Rng) -> Vec<usize> {
        let sum: u64 = self.world.regions.iter().map(|region| u64::from(region.weight)).sum();
        let mut all = Vec::with_capacity(self.nodes);
        let mut until = 0;
        for (at, region) in self.world.regions.iter().enumerate() {
            until += u64::from(region.weight);
            let end = (self.nodes as f64 * until as f64 / sum as f64).round() as usize;
            all.resize(end.max(all.len()), at);
        }
        random.shuffle(&mut all);
        all
    }

    fn slot(&self, stakes: &[u64], seed: u64) -> Seed {
        let mut random = fastrand::Rng::with_seed(seed);
        let name = |node: usize| {
            let mut name = [0; 32];
            name[..8].copy_from_slice(&(node as u64).to_be_bytes());
            name
        };
        // The address is not used; it only marks the node as known to gossip.
        let contact = |node: usize| Contact { identity: name(node), address: Some(([127, 0, 0, 1], 8_000).into()) };
        let known: Vec<Contact> = (0..stakes.len()).map(contact).collect();
        let by_name = stakes.iter().enumerate().map(|(node, stake)| (name(node), *stake)).collect();
        let nodes = NodeSet::new(known[0], &known, &by_name, Cipher::ChaCha8, false);
        let regions = self.regions(&mut random);
        let leader = self.leader_of(&nodes, &regions, &mut random);
        let mut dead = vec![false; stakes.len()];
        let mut others: Vec<usize> = (0..stakes.len()).filter(|node| *node != leader).collect();
        random.shuffle(&mut others);
        others.iter().take(self.dead_nodes()).for_each(|node| dead[*node] = true);
        let sets = self.sets_of_slot();
        let slot = Slot {
            world: &self.world,
            nodes: &nodes,
            regions: &regions,
            dead: &dead,
            leader,
            number: seed,
            ns: (self.slot_ms * 1e6) as u64,
            sets,
            simulated: self.simulated(sets),
            fanout: self.fanout,
            seed: random.u64(..),
        };
        self.seed_result(&slot, engine::run(&slot), seed)
    }

    fn leader_of(&self, nodes: &NodeSet, regions: &[usize], random: &mut fastrand::Rng) -> usize {
        if let Some(region) = self.leader {
            return regions.iter().position(|of| *of == region).unwrap_or_default();
        }
        let sum: u128 = nodes.nodes().iter().map(|node| u128::from(node.stake)).sum();
        let mut drawn = random.u128(0..sum.max(1));
        let is_there = |node: &Node| match drawn.checked_sub(u128::from(node.stake)) {
            Some(rest) => {
                drawn = rest;
                false
            }
            None => true,
        };
        nodes.nodes().iter().position(is_there).unwrap_or_default()
    }

    fn seed_result(&self, slot: &Slot<'_>, course: SlotResult, seed: u64) -> Seed {
        let stake = |node: usize| slot.nodes.nodes()[node].stake as f64;
        let all: f64 = (0..self.nodes).map(stake).sum();
        let live: f64 = (0..self.nodes).filter(|node| !slot.dead[*node]).map(stake).sum();
        let mut times: Vec<(u64, f64)> =
            (0..self.nodes).map(|node| (course.whole[node], stake(node))).filter(|(at, _)| *at != NEVER).collect();
        times.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let scale = 8.0 * (slot.sets as f64 / f64::from(slot.simulated)) / (self.slot_ms / 1e3);
        let is_follower = |node: &usize| *node != slot.leader && !slot.dead[*node];
        let followers: Vec<usize> = (0..self.nodes).filter(is_follower).collect();
        let mut followers_bps: Vec<[f64; 2]> = followers
            .iter()
            .map(|node| [course.sent[*node] as f64 * scale, course.received[*node] as f64 * scale])
            .collect();
        followers_bps.sort_unstable_by(|a, b| b[0].total_cmp(&a[0]));
        let rate_bps = |node: usize| self.world.regions[slot.regions[node]].rate_gbps * 1e9;
        let is_overloaded = |node: usize| course.sent[node] as f64 * scale > rate_bps(node);
        let needed = followers.len() as f64 * f64::from(slot.simulated) * 32.0;
        Seed {
            seed,
            stake_ms: [0.5, 0.9, 0.99].map(|part| reached(&times, part * all)),
            live_stake_ms: [0.5, 0.9, 0.99].map(|part| reached(&times, part * live)),
            without: followers.iter().filter(|node| course.whole[**node] == NEVER).count(),
            repaired: if needed > 0.0 { course.repaired as f64 / needed } else { 0.0 },
            leader_out_bps: course.sent[slot.leader] as f64 * scale,
            follower_in_bps: middle_and_most(followers_bps.iter().map(|one| one[1])),
            follower_out_bps: middle_and_most(followers_bps.iter().map(|one| one[0])),
            curve: curve(&times, all),
            followers_bps,
            overloaded: followers.iter().filter(|node| is_overloaded(**node)).count(),
            leader_overloaded: is_overloaded(slot.leader),
            datagrams: course.datagrams,
        }
    }
}

/// When this much stake had the block, in ms.
fn reached(times: &[(u64, f64)], stake: f64) -> Option<f64> {
    let mut sum = 0.0;
    // Sums in different orders differ in the last digit.
    let enough = stake * (1.0 - 1e-9);
    let found = times.iter().find(|(_, has)| {
        sum += has;
        sum >= enough
    });
    found.map(|(at, _)| *at as f64 / 1e6)
}

fn middle_and_most(values: impl Iterator<Item = f64>) -> [f64; 2] {
    let mut all: Vec<f64> = values.collect();
    all.sort_unstable_by(f64::total_cmp);
    [all.get(all.len() / 2).copied().unwrap_or_default(), all.last().copied().unwrap_or_default()]
}

/// Points of time and stake, evenly spaced among the nodes.
fn curve(times: &[(u64, f64)], all: f64) -> Vec<[f64; 2]> {
    let mut sum = 0.0;
    let points: Vec<[f64; 2]> = times
        .iter()
        .map(|(at, stake)| {
            sum += stake;
            [*at as f64 / 1e6, sum / all]
        })
        .collect();
    let step = points.len().div_ceil(POINTS).max(1);
    let last = points.last().copied();
    let mut some: Vec<[f64; 2]> = points.into_iter().step_by(step).collect();
    some.extend(last);
    some
}

#[cfg(test)]
mod tests;
