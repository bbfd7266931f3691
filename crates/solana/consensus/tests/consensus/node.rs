//! A node: consensus, with a validator's surroundings: store, replay, repair, votes for its blocks.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use hearth_consensus::{
    Action, BankId, Clock, Config, Consensus, InputError, LeaderView, Stakes, Start, TICKS_PER_SLOT, Tower, TowerVote,
};

use crate::world::{Block, World, identity, vote_account};

/// Duration of a tick: 6.25 ms.
pub const TICK_US: u64 = 6_250;
pub const SLOT_US: u64 = TICK_US * TICKS_PER_SLOT;
/// Unix time at the start of the simulation.
const EPOCH_MS: u64 = 1_700_000_000_000;
/// Votes per account that a leader keeps for its blocks.
const POOL: usize = 32;

/// The state that survives a crash.
#[derive(Default)]
pub struct Disk {
    pub tower: Option<Vec<u8>>,
    /// One version per slot.
    pub blocks: BTreeMap<u64, Rc<Block>>,
    /// Own slots that were started.
    begun: BTreeSet<u64>,
    /// Roots, the oldest first.
    pub roots: Vec<BankId>,
}

/// The state of a running node.
pub struct RunningNode {
    pub consensus: Consensus,
    frozen: BTreeMap<u64, BankId>,
    dead: BTreeSet<u64>,
    /// Slots to request from others, with the version if known.
    pub wanted: BTreeMap<u64, Option<[u8; 32]>>,
    pub asked: BTreeSet<u64>,
    pub pool: BTreeMap<usize, Vec<TowerVote>>,
    pub reset: (BankId, u64),
    pub building: Option<(u64, BankId)>,
}

pub struct Node {
    pub index: usize,
    pub disk: Disk,
    pub running: Option<RunningNode>,
    /// Number of starts: messages for an earlier life are ignored.
    pub life: u32,
    /// Whether it once lost its blocks, and started from another node's state.
    pub has_lost: bool,
}

/// A leader's view, answered from the store.
struct View<'a> {
    world: &'a World,
    disk: &'a Disk,
    dead: &'a BTreeSet<u64>,
}

impl LeaderView for View<'_> {
    fn leader(&self, slot: u64) -> Option<[u8; 32]> {
        Some(identity(self.world.leader(slot)))
    }

    fn has_shreds(&self, slot: u64) -> bool {
        self.disk.blocks.contains_key(&slot) || self.disk.begun.contains(&slot)
    }

    fn has_child(&self, parent: u64, before: u64) -> bool {
        let mut above = self.disk.blocks.range(parent + 1..before.max(parent + 1));
        above.any(|(slot, block)| block.parent.slot == parent && !self.dead.contains(slot))
    }
}

/// The starting point of a node.
#[derive(Clone, Copy, Debug)]
pub enum StartPoint {
    /// Its own newest root.
    Root,
    /// The same with a copy of its tower from before its last votes.
    OldTower,
    /// An older root of its own.
    Older(usize),
    /// The root of another node: its own blocks are lost.
    Other(BankId),
}

impl Node {
    pub fn new(index: usize, genesis: BankId) -> Self {
        let disk = Disk { roots: vec![genesis], ..Disk::default() };
        Self { index, disk, running: None, life: 0, has_lost: false }
    }

    pub fn start(&mut self, world: &World, from: StartPoint, now_us: u64) -> Result<(), String> {
        let root = match from {
            StartPoint::Root | StartPoint::OldTower => *self.disk.roots.last().expect("genesis"),
            StartPoint::Older(back) => self.disk.roots[self.disk.roots.len().saturating_sub(back + 1)],
            StartPoint::Other(root) => {
                self.disk.blocks.clear();
                self.disk.begun.clear();
                self.disk.roots = vec![root];
                root
            }
        };
        self.life += 1;
        let is_lost = matches!(from, StartPoint::Other(_));
        self.has_lost |= is_lost;
        let config = Config {
            node: identity(self.index),
            vote_account: Some(vote_account(self.index)),
            // A node that lost its blocks must not produce other versions of them.
            waits_for_rooted_vote: is_lost,
        };
        let tower = self.disk.tower.as_ref().map(|bytes| Tower::restore(bytes, &identity(self.index)));
        let tower = tower.transpose().map_err(|error| error.to_string())?;
        let stakes = Stakes::new(0, Arc::new(world.vote_weights()));
        let ancestors = world.chain(root).skip(1).map(|id| id.slot).collect();
        let start = Start { bank: world.blocks[&root].frozen(true), ancestors };
        let mut consensus = Consensus::new(config, start, stakes, tower).map_err(|error| error.to_string())?;
        if matches!(from, StartPoint::OldTower) {
            consensus.settle_first();
        }
        self.running = Some(RunningNode {
            consensus,
            frozen: [(root.slot, root)].into(),
            dead: BTreeSet::new(),
            wanted: BTreeMap::new(),
            asked: BTreeSet::new(),
            pool: BTreeMap::new(),
            reset: (root, now_us),
            building: None,
        });
        self.replay(now_us)
    }

    /// Runs a step of consensus.
    pub fn step(&mut self, world: &World, now_us: u64) -> Vec<Action> {
        let Some(running) = &mut self.running else { return Vec::new() };
        let (bank, since) = running.reset;
        let tick_height = (bank.slot + 1) * TICKS_PER_SLOT + (now_us - since) / TICK_US;
        let clock = Clock { now_ms: EPOCH_MS + now_us / 1_000, tick_height };
        let view = View { world, disk: &self.disk, dead: &running.dead };
        running.consensus.step(clock, &view)
    }

    pub fn begun(&mut self, slot: u64) {
        self.disk.begun.insert(slot);
    }

    /// Receives a block. Returns true if the node holds another version of it.
    pub fn take(&mut self, block: &Rc<Block>, now_us: u64) -> Result<bool, String> {
        let Some(running) = &mut self.running else { return Ok(false) };
        let slot = block.id.slot;
        if slot <= running.consensus.root().slot {
            return Ok(false);
        }
        if let Some(held) = self.disk.blocks.get(&slot) {
            return Ok(held.id != block.id);
        }
        if let Some(Some(hash)) = running.wanted.get(&slot)
            && *hash != block.id.hash
        {
            return Ok(true);
        }
        running.wanted.remove(&slot);
        self.disk.blocks.insert(slot, Rc::clone(block));
        self.replay(now_us)?;
        Ok(false)
    }

    /// Replays what it can: blocks whose parent is frozen here, in the version they were built on.
    fn replay(&mut self, now_us: u64) -> Result<(), String> {
        let Some(running) = &mut self.running else { return Ok(()) };
        loop {
            let root = running.consensus.root().slot;
            let is_open = |slot: &u64| !running.frozen.contains_key(slot) && !running.dead.contains(slot);
            let held = self.disk.blocks.range(root + 1..).filter(|(slot, _)| is_open(slot));
            let next =
                held.map(|(_, block)| block).find(|block| running.frozen.contains_key(&block.parent.slot)).cloned();
            let Some(block) = next else { break };
            if running.frozen[&block.parent.slot] == block.parent {
                match running.consensus.on_frozen(block.frozen(false), EPOCH_MS + now_us / 1_000) {
                    Ok(()) => drop(running.frozen.insert(block.id.slot, block.id)),
                    // The parent will be dumped by the next step, or is below a root that was awaited.
                    Err(InputError::UnknownParent | InputError::Old) => break,
                    Err(error) => return Err(format!("{:?}: {error}", block.id)),
                }
            } else {
                running.dead.insert(block.id.slot);
                running.consensus.on_dead(block.id.slot).map_err(|error| format!("{:?}: {error}", block.id))?;
            }
        }
        let root = running.consensus.root().slot;
        for block in self.disk.blocks.range(root + 1..).map(|(_, block)| block) {
            if block.parent.slot > root && !self.disk.blocks.contains_key(&block.parent.slot) {
                running.wanted.entry(block.parent.slot).or_insert(None);
            }
        }
        Ok(())
    }

    /// Removes our version of a slot with its descendants; what stays is replayed.
    pub fn dump(&mut self, world: &World, slot: u64, now_us: u64) -> Result<(), String> {
        let Some(running) = &mut self.running else { return Ok(()) };
        self.disk.blocks.remove(&slot);
        if let Some(ours) = running.frozen.remove(&slot) {
            running.frozen.retain(|_, id| !world.descends(*id, ours));
        }
        running.dead.retain(|dead| *dead < slot);
        let wanted = running.consensus.duplicate_confirmed(slot);
        running.wanted.insert(slot, wanted);
        self.replay(now_us)
    }

    /// Sets new roots: blocks below need no more replay.
    pub fn rooted(&mut self, world: &World, rooted: &[BankId], now_us: u64) -> Result<(), String> {
        let Some(running) = &mut self.running else { return Ok(()) };
        let last = *self.disk.roots.last().expect("genesis");
        self.disk.roots.extend(rooted.iter().filter(|id| **id > last));
        let root = running.consensus.root();
        running.frozen.retain(|_, id| world.descends(*id, root));
        running.dead = running.dead.split_off(&root.slot);
        running.wanted = running.wanted.split_off(&(root.slot + 1));
        running.asked.retain(|slot| *slot > root.slot);
        self.replay(now_us)
    }

    /// Receives a vote: counts it, keeps it for own blocks, and learns of missing blocks.
    pub fn vote(&mut self, voter: usize, vote: &TowerVote) {
        let Some(running) = &mut self.running else { return };
        // A vote that was counted is known, and one for an old slot is ignored.
        let _counted = running.consensus.on_vote(&vote_account(voter), vote.id);
        let pool = running.pool.entry(voter).or_default();
        if pool.last().is_none_or(|last| last.id.slot < vote.id.slot) {
            pool.push(vote.clone());
            if pool.len() > POOL {
                pool.remove(0);
            }
        }
        self.hear_of(vote.id.slot);
    }

    /// Learns that others have a slot.
    pub fn hear_of(&mut self, slot: u64) {
        let Some(running) = &mut self.running else { return };
        if slot > running.consensus.root().slot && !self.disk.blocks.contains_key(&slot) {
            running.wanted.entry(slot).or_insert(None);
        }
    }

    /// The slots that are frozen or rooted here.
    pub fn has(&self) -> Vec<u64> {
        let frozen = self.running.iter().flat_map(|running| running.frozen.keys());
        let roots = self.disk.roots.iter().map(|id| id.slot);
        roots.chain(frozen.copied()).collect()
    }

    /// The bank of a slot, if the cluster is known here to have agreed on it.
    pub fn agreed(&self, slot: u64) -> Option<BankId> {
        let running = self.running.as_ref()?;
        let rooted = self.disk.roots.iter().copied().find(|id| id.slot == slot);
        let ours = || running.frozen.get(&slot).copied();
        let is_agreed = |ours: &BankId| running.consensus.duplicate_confirmed(slot) == Some(ours.hash);
        rooted.or_else(|| ours().filter(is_agreed))
    }
}
