//! The network on virtual time: delays, losses, partitions, crashes, and the oracle that checks every step.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::rc::Rc;

use hearth_consensus::{Action, BankId, TowerVote};

use crate::node::{Node, SLOT_US, StartPoint};
use crate::oracle::Oracle;
use crate::world::{Block, World, identity};

/// Interval of a node's timer.
const TIMER_US: u64 = 25_000;
/// Timers between two rounds of repair, and between two requests for another node's knowledge.
const REPAIR_TIMERS: u64 = 8;
const PULL_TIMERS: u64 = 40;
/// Blocks in a repair response: the block and its ancestors.
const REPAIR_BLOCKS: usize = 11;

#[derive(Clone)]
enum Message {
    Block(Rc<Block>),
    Vote(usize, Rc<TowerVote>),
    Duplicate(u64),
    WantSlot(u64, Option<[u8; 32]>),
    WantAncestors(u64),
    Ancestors(Rc<Vec<BankId>>),
    Pull,
    Has(Rc<Vec<u64>>),
}

enum Event {
    Deliver { from: usize, to: usize, message: Message },
    Timer { node: usize, life: u32, count: u64 },
    Finish { node: usize, life: u32, slot: u64 },
}

/// The state of the network.
#[derive(Clone, Debug)]
pub struct NetworkFaults {
    pub loss: f64,
    pub delay_us: (u64, u64),
    /// The group of each node: only nodes of the same group hear each other.
    pub groups: Vec<usize>,
    /// A leader that equivocates, and the fraction of the others that gets its first version.
    pub equivocator: Option<(usize, f64)>,
    /// Probability that a node crashes between saving a vote and sending it.
    pub crash_at_vote: f64,
}

impl NetworkFaults {
    pub fn good(nodes: usize) -> Self {
        Self { loss: 0.01, delay_us: (5_000, 60_000), groups: vec![0; nodes], equivocator: None, crash_at_vote: 0.0 }
    }
}

pub struct Network {
    pub world: World,
    pub nodes: Vec<Node>,
    pub oracle: Oracle,
    pub weather: NetworkFaults,
    pub now_us: u64,
    pub random: fastrand::Rng,
    /// Versions that nodes dumped for another.
    pub dumps: usize,
    events: BinaryHeap<Reverse<(u64, u64)>>,
    waiting: BTreeMap<u64, Event>,
    count: u64,
}

impl Network {
    pub fn new(stakes: Vec<u64>, seed: u64) -> Result<Self, String> {
        let mut random = fastrand::Rng::with_seed(seed);
        let nodes = stakes.len();
        let world = World::new(stakes, &mut random);
        let genesis = world.genesis;
        let mut network = Self {
            nodes: (0..nodes).map(|index| Node::new(index, genesis)).collect(),
            oracle: Oracle::new(genesis, nodes),
            weather: NetworkFaults::good(nodes),
            world,
            now_us: 0,
            random,
            dumps: 0,
            events: BinaryHeap::new(),
            waiting: BTreeMap::new(),
            count: 0,
        };
        (0..nodes).try_for_each(|node| network.start(node, StartPoint::Root))?;
        Ok(network)
    }

    fn at(&mut self, time_us: u64, event: Event) {
        self.count += 1;
        self.events.push(Reverse((time_us, self.count)));
        self.waiting.insert(self.count, event);
    }

    pub fn is_up(&self, node: usize) -> bool {
        self.nodes[node].running.is_some()
    }

    pub fn crash(&mut self, node: usize) {
        self.nodes[node].running = None;
    }

    pub fn start(&mut self, node: usize, from: StartPoint) -> Result<(), String> {
        if self.is_up(node) {
            return Ok(());
        }
        self.nodes[node].start(&self.world, from, self.now_us)?;
        let life = self.nodes[node].life;
        let first = self.now_us + self.random.u64(1..TIMER_US);
        self.at(first, Event::Timer { node, life, count: 0 });
        self.act(node)
    }

    /// Runs until a time, or until `is_done`, checked once per slot, returns true. Returns whether it did.
    pub fn run(&mut self, until_us: u64, is_done: impl Fn(&Self) -> bool) -> Result<bool, String> {
        let mut next_look = self.now_us;
        while let Some(Reverse((time, at))) = self.events.peek().copied() {
            if time > until_us {
                break;
            }
            self.events.pop();
            self.now_us = time;
            let event = self.waiting.remove(&at).expect("an event for each time");
            self.happen(event)?;
            if time >= next_look {
                if is_done(self) {
                    return Ok(true);
                }
                next_look = time + SLOT_US;
            }
        }
        self.now_us = until_us;
        Ok(false)
    }

    pub fn run_slots(&mut self, slots: u64) -> Result<(), String> {
        self.run(self.now_us + slots * SLOT_US, |_| false).map(|_| ())
    }

    /// Slots above all roots of which nodes hold two versions while no node has seen 52 % behind either: from there the
    /// rules do not guarantee progress.
    pub fn unresolved(&self) -> Vec<u64> {
        let mut held: BTreeMap<u64, BTreeSet<BankId>> = BTreeMap::new();
        for (slot, block) in self.nodes.iter().flat_map(|node| node.disk.blocks.range(self.oracle.root.slot + 1..)) {
            held.entry(*slot).or_default().insert(block.id);
        }
        let is_agreed = |slot: u64| {
            let mut running = self.nodes.iter().filter_map(|node| node.running.as_ref());
            running.any(|running| running.consensus.duplicate_confirmed(slot).is_some())
        };
        held.retain(|slot, versions| versions.len() > 1 && !is_agreed(*slot));
        held.into_keys().collect()
    }

    /// One line per node, for a failing seed.
    pub fn state(&self) -> String {
        let line = |(node, one): (usize, &Node)| match &one.running {
            None => format!("node {node} is dead\n"),
            Some(running) => {
                let consensus = &running.consensus;
                let last = consensus.tower().last_vote().map(|last| last.id);
                let (root, heaviest, why) = (consensus.root(), consensus.forks().heaviest(), consensus.refusal());
                let votes: Vec<_> =
                    consensus.tower().lockouts().votes.iter().map(|v| (v.slot, v.confirmation_count)).collect();
                format!(
                    "node {node}, stake {}: root {root:?}, votes {votes:?}, last vote {last:?}, heaviest {heaviest:?}, \
                     builds on {:?}, no vote: {why:?}\n",
                    self.world.stakes[node], running.reset.0
                )
            }
        };
        self.nodes.iter().enumerate().map(line).collect()
    }

    fn send(&mut self, from: usize, to: usize, message: Message) {
        let weather = &self.weather;
        if from == to || weather.groups[from] != weather.groups[to] || self.random.f64() < weather.loss {
            return;
        }
        let delay = self.random.u64(weather.delay_us.0..=weather.delay_us.1);
        self.at(self.now_us + delay, Event::Deliver { from, to, message });
    }

    fn send_all(&mut self, from: usize, message: &Message) {
        (0..self.nodes.len()).for_each(|to| self.send(from, to, message.clone()));
    }

    /// Another running node, at random.
    fn peer(&mut self, node: usize) -> Option<usize> {
        let is_peer = |other: &usize| *other != node && self.is_up(*other);
        let peers: Vec<usize> = (0..self.nodes.len()).filter(is_peer).collect();
        self.random.choice(peers)
    }

    fn happen(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Deliver { to, .. } if !self.is_up(to) => Ok(()),
            Event::Deliver { from, to, message } => {
                self.deliver(from, to, message)?;
                self.act(to)
            }
            Event::Timer { node, life, .. } | Event::Finish { node, life, .. }
                if self.nodes[node].life != life || !self.is_up(node) =>
            {
                Ok(())
            }
            Event::Timer { node, life, count } => {
                if count % REPAIR_TIMERS == 0 {
                    self.repair(node);
                }
                if count % PULL_TIMERS == 0
                    && let Some(peer) = self.peer(node)
                {
                    self.send(node, peer, Message::Pull);
                }
                self.at(self.now_us + TIMER_US, Event::Timer { node, life, count: count + 1 });
                self.act(node)
            }
            Event::Finish { node, slot, .. } => {
                self.finish(node, slot)?;
                self.act(node)
            }
        }
    }

    fn repair(&mut self, node: usize) {
        let Some(running) = &self.nodes[node].running else { return };
        let wanted: Vec<_> = running.wanted.iter().map(|(slot, hash)| (*slot, *hash)).collect();
        let asked: Vec<u64> = running.asked.iter().copied().collect();
        let (oldest, newest) = (wanted.iter().take(8), wanted.iter().skip(8).rev().take(8));
        for (slot, hash) in oldest.chain(newest).copied().collect::<Vec<_>>() {
            let Some(peer) = self.peer(node) else { return };
            self.send(node, peer, Message::WantSlot(slot, hash));
        }
        for slot in asked {
            let Some(peer) = self.peer(node) else { return };
            self.send(node, peer, Message::WantAncestors(slot));
        }
    }

    fn deliver(&mut self, from: usize, to: usize, message: Message) -> Result<(), String> {
        let now_us = self.now_us;
        match message {
            Message::Block(block) => {
                if self.nodes[to].take(&block, now_us)? {
                    self.duplicate(to, block.id.slot);
                    self.send_all(to, &Message::Duplicate(block.id.slot));
                }
            }
            Message::Vote(voter, vote) => self.nodes[to].vote(voter, &vote),
            Message::Duplicate(slot) => self.duplicate(to, slot),
            Message::WantSlot(slot, hash) => {
                let first =
                    self.nodes[to].disk.blocks.get(&slot).filter(|block| hash.is_none_or(|hash| block.id.hash == hash));
                let Some(first) = first.map(|block| block.id) else { return Ok(()) };
                let chain: Vec<BankId> = self.world.chain(first).take(REPAIR_BLOCKS).filter(|id| id.slot > 0).collect();
                for id in chain {
                    let held = self.nodes[to].disk.blocks.get(&id.slot).filter(|block| block.id == id).cloned();
                    held.into_iter().for_each(|block| self.send(to, from, Message::Block(block)));
                }
            }
            Message::WantAncestors(slot) => {
                if let Some(id) = self.nodes[to].agreed(slot) {
                    let chain: Vec<BankId> = self.world.chain(id).take(30).collect();
                    self.send(to, from, Message::Ancestors(Rc::new(chain)));
                }
            }
            Message::Ancestors(chain) => {
                if let Some(running) = &mut self.nodes[to].running
                    && running.asked.remove(&chain[0].slot)
                {
                    running.consensus.on_ancestors(&chain);
                }
            }
            Message::Pull => self.tell(to, from),
            Message::Has(slots) => {
                for slot in slots.iter() {
                    self.nodes[to].hear_of(*slot);
                    let running = self.nodes[to].running.as_mut().expect("up");
                    running.consensus.on_has_slot(&identity(from), *slot);
                }
            }
        }
        Ok(())
    }

    /// Sends a node's knowledge to another: each account's newest vote, and the slots it has.
    fn tell(&mut self, node: usize, to: usize) {
        let Some(running) = &self.nodes[node].running else { return };
        let newest = running.pool.iter().filter_map(|(voter, votes)| Some((*voter, Rc::new(votes.last()?.clone()))));
        for (voter, vote) in newest.collect::<Vec<_>>() {
            self.send(node, to, Message::Vote(voter, vote));
        }
        let slots = Rc::new(self.nodes[node].has());
        self.send(node, to, Message::Has(slots));
    }

    fn duplicate(&mut self, node: usize, slot: u64) {
        if let Some(running) = &mut self.nodes[node].running {
            // A rooted slot is agreed upon.
            let _old = running.consensus.on_duplicate(slot);
        }
    }

    /// Ends an own slot: broadcasts the block, or two versions of it.
    fn finish(&mut self, node: usize, slot: u64) -> Result<(), String> {
        let running = self.nodes[node].running.as_mut().expect("up");
        let Some((_, parent)) = running.building.take_if(|(building, _)| *building == slot) else { return Ok(()) };
        let block = self.world.make(slot, parent, &running.pool, 0);
        let equivocates = self.weather.equivocator.filter(|(who, _)| *who == node && self.random.bool());
        match equivocates {
            None => self.send_all(node, &Message::Block(Rc::clone(&block))),
            Some((_, part)) => {
                let other = self.world.make(slot, parent, &BTreeMap::new(), 1);
                for to in 0..self.nodes.len() {
                    let version = if self.random.f64() < part { &block } else { &other };
                    self.send(node, to, Message::Block(Rc::clone(version)));
                }
            }
        }
        self.nodes[node].take(&block, self.now_us).map(|_| ())
    }

    /// Carries out the actions of consensus until there are none.
    fn act(&mut self, node: usize) -> Result<(), String> {
        loop {
            let actions = self.nodes[node].step(&self.world, self.now_us);
            if actions.is_empty() {
                return Ok(());
            }
            for action in actions {
                self.do_one(node, action)?;
                if !self.is_up(node) {
                    return Ok(());
                }
            }
        }
    }

    fn do_one(&mut self, node: usize, action: Action) -> Result<(), String> {
        let now_us = self.now_us;
        match action {
            Action::Vote { vote, saved } => {
                self.nodes[node].disk.tower = Some(saved);
                // A saved vote binds, sent or not.
                self.oracle.voted(&self.world, node, &vote)?;
                if self.random.f64() < self.weather.crash_at_vote {
                    self.crash(node);
                    return Ok(());
                }
                self.send_vote(node, vote);
            }
            Action::Refresh(vote) => self.send_vote(node, vote),
            Action::Reset(bank) => {
                let running = self.nodes[node].running.as_mut().expect("up");
                running.reset = (bank, now_us);
                running.building = None;
            }
            Action::Root(rooted) => {
                self.oracle.rooted(&self.world, node, &rooted)?;
                self.nodes[node].rooted(&self.world, &rooted, now_us)?;
            }
            Action::Confirmed(id) => self.oracle.confirmed(&self.world, node, id)?,
            Action::Finalized(slot) => self.oracle.finalized(&self.world, node, slot)?,
            Action::Dump(slot) => {
                self.dumps += 1;
                self.nodes[node].dump(&self.world, slot, now_us)?;
            }
            Action::AskAncestors(slot) => {
                self.nodes[node].running.as_mut().expect("up").asked.insert(slot);
            }
            Action::Rebroadcast(slot) => {
                let block = self.nodes[node].disk.blocks.get(&slot).cloned();
                block.into_iter().for_each(|block| self.send_all(node, &Message::Block(block)));
            }
            Action::Begin { slot, parent } => {
                let life = self.nodes[node].life;
                self.nodes[node].begun(slot);
                let running = self.nodes[node].running.as_mut().expect("up");
                running.building = Some((slot, parent));
                // The slot ends with its last tick.
                let end = running.reset.1 + (slot - parent.slot) * SLOT_US;
                self.at(end.max(now_us), Event::Finish { node, life, slot });
            }
        }
        Ok(())
    }

    fn send_vote(&mut self, node: usize, vote: TowerVote) {
        self.nodes[node].vote(node, &vote);
        self.send_all(node, &Message::Vote(node, Rc::new(vote)));
    }
}
