//! A run: time, the nodes, what goes wrong with them, and who is turned when.
//!
//! reads   a plan
//! writes  an [`Outcome`]
//! memory  the nodes, the network, what is to happen
//!
//! Time jumps from one instant at which something happens to the next. At each, what has arrived is handed over, what
//! is due goes wrong, and each node that has something to do is turned, in the order of their numbers: all in one
//! thread.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hearth_ledger::snapshot::{SnapshotError, SnapshotFile, prove};
use hearth_node::capture::recorder::SessionTotals;
use hearth_node::config::Validator;
use hearth_pipeline::links::PortKind;
use hearth_pipeline::tower::final_slot;
use hearth_wire::shred::SLOT;

use crate::check::{Checker, Invariant, Violation, counted, heals_within_ns, lamports};
use crate::clients::Clients;
use crate::digest::Digest;
use crate::disk::{SimDisk, folders};
use crate::hostile;
use crate::net::ArrivedDatagram;
use crate::network::{MS, Network, NetworkFaults, Traffic, ip};
use crate::node::{Node, NodeStart, SLOT_MS, Setup, StartError, secret, secret_word, validator, wipe};
use crate::plan::{Fault, Kind, Plan};
use crate::session::RecordedNode;
use crate::snapshots;
use crate::trace::{SlotEvent, Trace};

/// Nanoseconds of a slot.
const SLOT_NS: u64 = SLOT_MS * MS;
/// The first block is there by then: nodes wait 20 s for each other where a chain begins.
const BEGINS_WITHIN_NS: u64 = 120_000 * MS;
/// How often a node whose files may be damaged ends before its operator gives it up.
const ENDS_MAX: u64 = 3;
/// Faults in which the victim may end by itself, or wait long for its disk.
const MAY_END: [Kind; 4] = [Kind::DiskFull, Kind::WriteErrors, Kind::SlowDisk, Kind::Equivocate];
/// How often clients do something.
const CLIENTS_EVERY_NS: u64 = 200 * MS;
/// How often strangers do.
const STRANGERS_EVERY_NS: u64 = 50 * MS;
/// A node that has ended is started again after so long.
const RESTART_NS: u64 = 2_000 * MS;
/// How often the end of a run is checked until the tiles' counters must add up: gauges are updated each millisecond.
const LAST_LOOKS: u64 = 50;

/// The outcome of a run: how much happened, and the violation that ended it, if any.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The plan that was run.
    pub plan: Plan,
    /// All that happened, in one number.
    pub digest: u64,
    /// How long it took, on virtual time, nanoseconds.
    pub virtual_ns: u64,
    /// The newest slot that a node without damage has executed.
    pub newest_slot: u64,
    /// Kinds of faults that took effect: one planned for a node that is down does not.
    pub faults: BTreeSet<Kind>,
    /// Blocks that were rooted.
    pub rooted: usize,
    /// Transactions that clients sent, and that they saw confirmed.
    pub transactions: (u64, usize),
    /// How often nodes started, summed over all nodes; the first starts count.
    pub starts: u64,
    /// Epochs whose stakes are others than those of the epoch before.
    pub stake_changes: usize,
    /// Snapshots that were completed or abandoned, and starts of nodes on a snapshot.
    pub snapshots: (u64, u64),
    /// Counts of the network's datagrams.
    pub traffic: Traffic,
    /// The invariant that was broken, and the second at which that was seen.
    pub violation: Option<(Violation, f64)>,
    /// The lines of the slot that was traced.
    pub trace: Vec<String>,
}

/// An event that is due at some time of the run.
#[derive(Clone, Copy, Debug)]
enum Act {
    Begin(usize),
    End(usize),
    Start(usize),
    Clients,
    Strangers,
}

/// A node, whether it runs or not.
struct Site {
    who: Validator,
    folder: PathBuf,
    disk: Arc<SimDisk>,
    node: Option<Node>,
    starts: u64,
    drift_ppm: i64,
    set_ns: i64,
    /// Its disk may fail it, or it equivocates: it may end by itself.
    may_end: bool,
    /// A write went astray: its files may be damaged, and it may stand still or be down for good.
    is_damaged: bool,
    /// How often it has ended by itself.
    ends: u64,
    is_down_for_good: bool,
}

struct World {
    plan: Plan,
    setup: Setup,
    sites: Vec<Site>,
    network: Network,
    clients: Clients,
    checker: Checker,
    trace: Trace,
    digest: Digest,
    random: fastrand::Rng,
    agenda: BTreeMap<(u64, u64), Act>,
    acts: u64,
    active: Vec<bool>,
    /// Kinds of faults that took effect.
    effective: BTreeSet<Kind>,
    now: u64,
    /// When the first block was there.
    began_at: Option<u64>,
    /// Snapshots that were completed or abandoned, and starts on one.
    snapshots: (u64, u64),
    /// The newest slot of which the victim made two blocks.
    equivocated: u64,
    /// The newest slot when the last fault was over.
    goal: Option<u64>,
    /// The node whose session is recorded, if any.
    recorded: Option<RecordedNode>,
    /// The folders of all nodes, removed at the end.
    _folders: tempfile::TempDir,
}

/// Runs a plan to its end, or until something does not hold.
///
/// # Panics
/// The machine has no room for the nodes' files.
pub fn run(plan: &Plan, traced: Option<u64>) -> Outcome {
    finish(&mut World::new(plan.clone(), Trace::of(traced)), traced)
}

/// As [`run`], and records the session of a node into a folder. Returns what was recorded, too. The node must start
/// once: a session is that of one start.
///
/// # Panics
/// As [`run`]; the session cannot be written.
pub fn run_recorded(plan: &Plan, node: usize, folder: &Path) -> (Outcome, SessionTotals) {
    let mut world = World::new(plan.clone(), Trace::of(None));
    world.recorded = Some(RecordedNode::new(&world.setup, plan.seed, node, folder));
    let outcome = finish(&mut world, None);
    let recorded = world.recorded.take().expect("it was put there");
    let end_ns = world.sites[node].node.as_ref().map_or(0, Node::clock_ns);
    (outcome, recorded.end(end_ns))
}

/// Runs a world to its end.
fn finish(world: &mut World, traced: Option<u64>) -> Outcome {
    let result = world.run();
    let violation = result.err().map(|violation| (violation, world.now as f64 / 1e9));
    if let Some((violation, _)) = &violation {
        world.digest.bytes(violation.what.as_bytes());
    }
    if traced.is_some() {
        world.trace_counters();
    }
    Outcome {
        digest: world.digest.value(),
        virtual_ns: world.now,
        newest_slot: world.newest_slot(),
        faults: std::mem::take(&mut world.effective),
        rooted: world.checker.rooted_blocks(),
        transactions: (world.clients.sent(), world.checker.confirmed_transactions()),
        starts: world.sites.iter().map(|site| site.starts).sum(),
        stake_changes: world.checker.stake_changes(),
        snapshots: world.snapshots,
        traffic: world.network.traffic,
        violation,
        trace: std::mem::take(&mut world.trace).lines(),
        plan: world.plan.clone(),
    }
}

impl World {
    /// Adds what each node's tiles have counted to what is traced.
    fn trace_counters(&mut self) {
        let Self { sites, trace, now, .. } = self;
        for (number, site) in sites.iter_mut().enumerate() {
            let Some(node) = &mut site.node else { continue };
            node.flush();
            for tile in node.tiles() {
                let counts = node.counts(tile).filter(|(_, count)| *count > 0);
                let counts: Vec<_> = counts.map(|(name, count)| format!("{name} {count}")).collect();
                trace.say(*now, number, &format!("{tile}: {}", counts.join(", ")));
            }
        }
    }

    fn new(plan: Plan, trace: Trace) -> Self {
        let (seed, nodes) = (plan.seed, plan.nodes);
        let setup = Setup::new(seed, nodes);
        let folders = folders();
        let sites = (0..nodes).map(|node| {
            let folder = folders.path().join(node.to_string());
            std::fs::create_dir(&folder).expect("there is room for folders");
            let drift_ppm = plan.fault(Kind::ClockDrift).filter(|_| node == plan.victim).map_or(0, |fault| {
                let amount = fault.amount as i64;
                if fault.from_slot % 2 == 0 { amount } else { -amount }
            });
            Site {
                who: validator(seed, node),
                folder,
                disk: SimDisk::new(secret_word(seed, node, "disk")),
                node: None,
                starts: 0,
                drift_ppm,
                set_ns: 0,
                may_end: false,
                is_damaged: false,
                ends: 0,
                is_down_for_good: false,
            }
        });
        let sites: Vec<Site> = sites.collect();
        let identities = sites.iter().map(|site| site.who.identity).collect();
        let mut world = Self {
            setup,
            sites,
            network: Network::new(nodes, secret_word(seed, 0, "network")),
            clients: Clients::new(seed, nodes),
            checker: Checker::new(identities),
            trace,
            digest: Digest::default(),
            random: fastrand::Rng::with_seed(secret_word(seed, 0, "world")),
            agenda: BTreeMap::new(),
            acts: 0,
            // Who joins late is not there from the start on.
            active: plan.faults.iter().map(|fault| fault.kind == Kind::LateJoin).collect(),
            effective: BTreeSet::new(),
            now: 0,
            began_at: None,
            snapshots: (0, 0),
            equivocated: 0,
            goal: None,
            recorded: None,
            _folders: folders,
            plan,
        };
        for node in 0..nodes {
            let is_late = world.plan.fault(Kind::LateJoin).is_some() && node == world.plan.victim;
            if !is_late {
                // Processes do not begin in the same instant.
                let at = world.random.u64(0..300) * MS;
                world.plan_act(at, Act::Start(node));
            }
        }
        world
    }

    fn plan_act(&mut self, at: u64, act: Act) {
        self.acts += 1;
        self.agenda.insert((at, self.acts), act);
    }

    fn run(&mut self) -> Result<(), Violation> {
        while !self.is_done()? {
            self.now = self.next_instant();
            while let Some((node, arrived)) = self.network.due(self.now) {
                self.arrive(node, arrived);
            }
            while let Some(act) = self.next_act() {
                self.act(act)?;
            }
            for node in 0..self.sites.len() {
                let wakes = self.sites[node].node.as_ref().is_some_and(|node| node.wake_at <= self.now);
                if wakes {
                    self.turn(node)?;
                }
            }
        }
        self.last_look()
    }

    fn next_act(&mut self) -> Option<Act> {
        let (at, _) = *self.agenda.first_key_value()?.0;
        if at > self.now {
            return None;
        }
        self.agenda.pop_first().map(|(_, act)| act)
    }

    fn next_instant(&self) -> u64 {
        let nodes = self.sites.iter().filter_map(|site| site.node.as_ref()).map(|node| node.wake_at);
        let agenda = self.agenda.first_key_value().map(|((at, _), _)| *at);
        let next = nodes.chain(agenda).chain(self.network.next_ns()).min();
        next.unwrap_or(self.now + SLOT_NS).max(self.now)
    }

    /// A node gets a datagram; one that is down does not.
    fn arrive(&mut self, number: usize, arrived: ArrivedDatagram) {
        let Some(node) = &mut self.sites[number].node else { return };
        if let Some(slot) = self.trace.slot()
            && matches!(arrived.port, PortKind::Tvu | PortKind::Repair)
            && slot_of(&arrived.data) == Some(slot)
        {
            self.trace.learnt(self.now, number, SlotEvent::ShredCame, &format!(" ({:?})", arrived.port));
        }
        node.wire.lock().arrived.push_back(arrived);
        node.wake_at = self.now;
    }

    /// Turns a node, takes what it sends, and looks at it.
    fn turn(&mut self, number: usize) -> Result<(), Violation> {
        self.note_effects(number);
        let site = &mut self.sites[number];
        let Some(node) = &mut site.node else { return Ok(()) };
        let result = node.run(self.now);
        self.recorded.iter_mut().filter(|recorded| recorded.node == number).for_each(RecordedNode::step);
        if site.disk.is_off() {
            self.trace.say(self.now, number, "loses its power");
            self.effective.insert(Kind::PowerLoss);
            self.stop(number);
            return Ok(());
        }
        if let Err(why) = result {
            return self.ended(number, &why);
        }
        let sent = std::mem::take(&mut node.wire.lock().sent);
        let Validator { identity, vote, .. } = site.who;
        let equivocates = number == self.plan.victim && self.plan.fault(Kind::Equivocate).is_some();
        let is_honest = !site.is_damaged && !equivocates;
        for datagram in sent {
            if datagram.from == PortKind::Gossip {
                self.checker.leaves(number, &site.folder, (&identity, &vote), &datagram.data)?;
            }
            if let Some(slot) = self.trace.slot()
                && datagram.from == PortKind::Tvu
                && slot_of(&datagram.data) == Some(slot)
            {
                self.trace.learnt(self.now, number, SlotEvent::SentShred, "");
            }
            if is_honest
                && datagram.from == PortKind::Tvu
                && let Some(slot) = slot_of(&datagram.data)
                && node.ledger.leader_at(slot).is_some_and(|leader| leader.node == identity)
            {
                self.checker.makes(number, slot, &datagram.data)?;
            }
            self.network.send(self.now, number, datagram, &mut self.digest);
        }
        let has_disk = !site.may_end;
        self.checker.look(self.now, node, has_disk, &mut self.trace)?;
        for snapshot in node.take_snapshots() {
            self.checker.snapshot(node, &snapshot)?;
            self.trace.say(self.now, number, &snapshot_text(&snapshot));
            self.digest.word(snapshot.map_or(u64::MAX, |file| file.slot));
            self.snapshots.0 += 1;
        }
        self.note_begin(number);
        if number == self.plan.victim && self.amount(Kind::Equivocate).is_some() {
            self.equivocate(number);
        }
        Ok(())
    }

    /// Notes which faults a node that is turned now meets.
    fn note_effects(&mut self, number: usize) {
        if number != self.plan.victim {
            return;
        }
        let active = self.plan.faults.iter().zip(&self.active).filter(|(_, active)| **active);
        let kinds = active.map(|(fault, _)| fault.kind).filter(|kind| kind.changes_running_victim());
        self.effective.extend(kinds);
    }

    /// Sends another block of the slot that a node has just made.
    fn equivocate(&mut self, number: usize) {
        let Some(node) = &self.sites[number].node else { return };
        let version = self.setup.genesis.shred_version();
        let Some((slot, shreds)) = hostile::other_block(node, self.plan.seed, version, self.equivocated) else {
            return;
        };
        self.equivocated = slot;
        self.trace.say(self.now, number, &format!("makes another block of slot {slot}"));
        for to in (0..self.sites.len()).filter(|to| *to != number) {
            for shred in &shreds {
                self.network.send_beside(self.now, number, to, shred.clone());
            }
        }
    }

    /// The first block is the time from which slots are counted.
    fn note_begin(&mut self, number: usize) {
        let Some(node) = &self.sites[number].node else { return };
        let head = node.ledger.recent_blocks(1).first().map_or(0, |block| block.slot);
        self.digest.word(head);
        self.digest.word(node.ledger.root().unwrap_or(0));
        if self.began_at.is_some() || head == 0 {
            return;
        }
        self.began_at = Some(self.now);
        for index in 0..self.plan.faults.len() {
            let Fault { from_slot, slots, .. } = self.plan.faults[index];
            self.plan_act(self.now + from_slot * SLOT_NS, Act::Begin(index));
            self.plan_act(self.now + (from_slot + slots) * SLOT_NS, Act::End(index));
        }
        self.plan_act(self.now + CLIENTS_EVERY_NS, Act::Clients);
        self.plan_act(self.now + STRANGERS_EVERY_NS, Act::Strangers);
    }

    /// A node is down from now on; nothing of it is left but its folder.
    fn stop(&mut self, number: usize) {
        self.sites[number].node = None;
        self.trace.forget(number);
    }

    /// A node has ended by itself: it may where its disk has failed it, and is started again then.
    fn ended(&mut self, number: usize, why: &str) -> Result<(), Violation> {
        self.trace.say(self.now, number, &format!("ends: {why}"));
        let site = &self.sites[number];
        if !site.may_end && !site.is_damaged {
            return Err(Violation::new(Invariant::Lives, format!("node {number} ends: {why}")));
        }
        self.stop(number);
        let site = &mut self.sites[number];
        site.ends += 1;
        site.is_down_for_good |= site.is_damaged && site.ends >= ENDS_MAX;
        self.plan_act(self.now + RESTART_NS, Act::Start(number));
        Ok(())
    }

    fn start(&mut self, number: usize) -> Result<(), Violation> {
        let site = &mut self.sites[number];
        if site.node.is_some() || site.is_down_for_good {
            return Ok(());
        }
        site.disk.restart().expect("the files of a node that is down can be cut");
        let recorded = self.recorded.as_mut().filter(|recorded| recorded.node == number);
        let place = NodeStart {
            seed: self.plan.seed,
            number,
            starts: site.starts,
            folder: &site.folder,
            disk: &site.disk,
            now: self.now,
            drift_ppm: site.drift_ppm,
            set_ns: site.set_ns,
            key: secret(self.plan.seed, number, "identity"),
            vote: Some(site.who.vote),
            leads: true,
            ip: ip(number),
            session: recorded.as_ref().map(|recorded| recorded.recording.clone()),
        };
        match Node::start(&self.setup, &place) {
            Ok(node) => {
                if let Some(recorded) = recorded {
                    recorded.begin(&self.setup, &place, &node);
                }
                site.starts += 1;
                self.snapshots.1 += u64::from(snapshots::newest(&site.folder).is_some());
                let ledger = &node.ledger;
                let total = lamports(ledger);
                self.checker.started(number, total);
                self.digest.word(ledger.recent_blocks(1).first().map_or(0, |block| block.slot));
                self.trace.say(self.now, number, "starts");
                site.node = Some(node);
                Ok(())
            }
            Err(why) => self.did_not_start(number, &why),
        }
    }

    /// A start may fail if the disk has failed the node: it is tried again, or the operator removes the damaged chain.
    fn did_not_start(&mut self, number: usize, why: &StartError) -> Result<(), Violation> {
        self.trace.say(self.now, number, &format!("does not start: {why:?}"));
        let site = &mut self.sites[number];
        match why {
            StartError::Damaged(_) if site.is_damaged => {
                wipe(&site.folder).expect("files can be removed");
                site.is_down_for_good = true;
                Ok(())
            }
            _ if site.may_end => {
                self.plan_act(self.now + RESTART_NS, Act::Start(number));
                Ok(())
            }
            why => Err(Violation::new(Invariant::Lives, format!("node {number} does not start: {why:?}"))),
        }
    }

    fn act(&mut self, act: Act) -> Result<(), Violation> {
        match act {
            Act::Start(number) => self.start(number),
            Act::Begin(index) => {
                self.active[index] = true;
                self.begin(self.plan.faults[index]);
                Ok(())
            }
            Act::End(index) => {
                self.active[index] = false;
                self.end(self.plan.faults[index])
            }
            Act::Clients => self.let_clients_act(),
            Act::Strangers => {
                self.let_strangers_act();
                Ok(())
            }
        }
    }

    fn begin(&mut self, fault: Fault) {
        let victim = self.plan.victim;
        self.digest.word(fault.kind as u64);
        self.trace.say(self.now, victim, &format!("{} begins", fault.kind.name()));
        let site = &mut self.sites[victim];
        let is_effective = match fault.kind {
            Kind::PowerLoss => false, // Once it goes.
            Kind::Crash | Kind::FarBehind => site.node.is_some(),
            kind => !kind.changes_running_victim(),
        };
        self.effective.extend(is_effective.then_some(fault.kind));
        match fault.kind {
            Kind::Crash | Kind::FarBehind => self.stop(victim),
            Kind::PowerLoss => site.disk.lose_power_after(fault.amount),
            Kind::DiskFull => site.disk.leave(Some(fault.amount)),
            Kind::WriteErrors => site.disk.refuse_writes(true),
            Kind::SlowDisk => site.disk.slow(Some(fault.amount * MS)),
            Kind::Misdirected => {
                site.is_damaged = true;
                site.disk.misdirect();
            }
            Kind::ClockStep => {
                let by = (fault.amount * MS) as i64;
                let by = if fault.from_slot % 2 == 0 { by } else { -by };
                site.set_ns += by;
                site.node.iter().for_each(|node| node.set_wall(by));
            }
            _ => self.network.weather = self.weather(),
        }
        self.sites[victim].may_end |= MAY_END.contains(&fault.kind);
    }

    fn end(&mut self, fault: Fault) -> Result<(), Violation> {
        let victim = self.plan.victim;
        self.digest.word(fault.kind as u64 | 1 << 32);
        self.trace.say(self.now, victim, &format!("{} ends", fault.kind.name()));
        let site = &mut self.sites[victim];
        match fault.kind {
            Kind::PowerLoss if site.node.is_some() && !site.disk.is_off() => {
                // It wrote too little for that: then the power goes between two writes.
                self.effective.insert(Kind::PowerLoss);
                self.stop(victim);
            }
            Kind::DiskFull => site.disk.leave(None),
            Kind::WriteErrors => site.disk.refuse_writes(false),
            Kind::SlowDisk => site.disk.slow(None),
            Kind::FarBehind | Kind::LateJoin => self.give_snapshot(victim)?,
            _ => self.network.weather = self.weather(),
        }
        let fails = |index: usize| self.active[index] && MAY_END.contains(&self.plan.faults[index].kind);
        let is_still_failing = (0..self.active.len()).any(fails);
        self.sites[victim].may_end = is_still_failing;
        let keeps_down = [Kind::Crash, Kind::FarBehind, Kind::PowerLoss, Kind::LateJoin];
        let is_down = (0..self.active.len())
            .any(|index| self.active[index] && keeps_down.contains(&self.plan.faults[index].kind));
        if is_down { Ok(()) } else { self.start(victim) }
    }

    /// In every other seed, who runs a node that was down copies a peer's newest snapshot, where that is ahead of what
    /// the node has rooted. In the others the node has to catch up block by block.
    fn give_snapshot(&mut self, to: usize) -> Result<(), Violation> {
        let site = &self.sites[to];
        if site.node.is_some() || secret_word(self.plan.seed, to, "given a snapshot").is_multiple_of(2) {
            return Ok(());
        }
        let others = self.sites.iter().enumerate().filter(|(number, other)| *number != to && !other.is_damaged);
        let newest = others.filter_map(|(_, other)| snapshots::newest(&other.folder)).max_by_key(|file| file.slot);
        let own = final_slot(&site.folder, &site.who.identity).ok().flatten().unwrap_or(0);
        let Some(file) = newest.filter(|file| file.slot > own) else { return Ok(()) };
        if let Err(why) = prove(&file.path, self.setup.genesis.hash()) {
            return Err(Violation::new(Invariant::Snapshots, format!("that of a peer is refused: {why}")));
        }
        snapshots::copy(&file, &site.folder).expect("there is room for a snapshot");
        self.trace.say(self.now, to, &format!("is given a snapshot of slot {}", file.slot));
        Ok(())
    }

    /// The network under the faults of now.
    fn weather(&self) -> NetworkFaults {
        let victim = self.plan.victim;
        let mut weather = NetworkFaults::default();
        for (fault, _) in self.plan.faults.iter().zip(&self.active).filter(|(_, active)| **active) {
            let amount = fault.amount;
            match fault.kind {
                Kind::Loss => weather.loss = amount,
                Kind::Delay => weather.delay = amount,
                Kind::Reorder => weather.jitter = amount,
                Kind::Duplicate => weather.duplicate = amount,
                Kind::OneWay => weather.mute = Some(victim),
                Kind::Partition => (weather.mute, weather.deaf) = (Some(victim), Some(victim)),
                Kind::Withhold | Kind::Equivocate => weather.withhold = Some((victim, amount)),
                Kind::Garbage => weather.garbage = Some((victim, amount)),
                _ => {}
            }
        }
        weather
    }

    /// How much of this there is now.
    fn amount(&self, kind: Kind) -> Option<u64> {
        let active = self.plan.faults.iter().zip(&self.active).filter(|(_, active)| **active);
        active.map(|(fault, _)| fault).find(|fault| fault.kind == kind).map(|fault| fault.amount)
    }

    fn let_clients_act(&mut self) -> Result<(), Violation> {
        self.plan_act(self.now + CLIENTS_EVERY_NS, Act::Clients);
        let flood = self.amount(Kind::ClientFlood);
        let (to, asked) = (self.random.usize(0..self.sites.len()), self.random.usize(0..self.sites.len()));
        if let Some(node) = &mut self.sites[to].node {
            self.clients.send(node, &mut self.checker, &mut self.digest);
            node.wake_at = self.now;
        }
        for node in self.sites.iter_mut().filter_map(|site| site.node.as_mut()) {
            if let Some(count) = flood {
                self.clients.flood(node, count as usize);
                node.wake_at = self.now;
            }
        }
        match &self.sites[asked].node {
            Some(node) => self.clients.ask(node, &mut self.checker),
            None => Ok(()),
        }
    }

    fn let_strangers_act(&mut self) {
        self.plan_act(self.now + STRANGERS_EVERY_NS, Act::Strangers);
        let nodes = self.sites.len();
        for (kind, port) in [(Kind::GossipFlood, PortKind::Gossip), (Kind::RepairFlood, PortKind::ServeRepair)] {
            if let Some(count) = self.amount(kind) {
                hostile::flood(&mut self.network, self.now, nodes, port, count);
            }
        }
        if self.amount(Kind::Garbage).is_some() {
            hostile::noise(&mut self.network, self.now, nodes);
        }
    }

    /// Whether the run is at its end.
    fn is_done(&mut self) -> Result<bool, Violation> {
        let Some(began) = self.began_at else {
            let is_late = self.now > BEGINS_WITHIN_NS;
            let late = || Violation::new(Invariant::Heals, "there is no block two minutes after the start");
            return if is_late { Err(late()) } else { Ok(false) };
        };
        let healed_at = began + self.plan.heals_at() * SLOT_NS;
        if self.now < healed_at {
            return Ok(false);
        }
        let newest = self.newest_slot();
        let goal = *self.goal.get_or_insert(newest);
        let nodes = || self.sites.iter().filter(|site| !site.is_damaged);
        let root = |site: &Site| site.node.as_ref().and_then(|node| node.ledger.root()).unwrap_or(0);
        let have_rooted = nodes().all(|site| root(site) > goal);
        if have_rooted && newest >= self.plan.slots {
            return Ok(true);
        }
        // Those that have rooted it may still have slots to make.
        let since = if have_rooted { healed_at.max(began + self.plan.slots * SLOT_NS) } else { healed_at };
        if self.now > since + heals_within_ns() {
            let roots: Vec<u64> = nodes().map(root).collect();
            let what =
                format!("the roots are {roots:?} long after all was over at slot {goal}, the newest is {newest}");
            return Err(Violation::new(Invariant::Heals, what));
        }
        Ok(false)
    }

    /// The newest slot that a node without damage has executed.
    fn newest_slot(&self) -> u64 {
        let nodes = self.sites.iter().filter(|site| !site.is_damaged).filter_map(|site| site.node.as_ref());
        nodes.filter_map(|node| Some(node.ledger.recent_blocks(1).first()?.slot)).max().unwrap_or(0)
    }

    /// Checks the counters of all nodes once a run is over.
    fn last_look(&mut self) -> Result<(), Violation> {
        for site in &mut self.sites {
            let Some(node) = &mut site.node else { continue };
            let mut found = counted(node);
            for look in 1..=LAST_LOOKS {
                if found.is_ok() {
                    break;
                }
                node.run(self.now + look * 2 * MS).map_err(|why| Violation::new(Invariant::Lives, why))?;
                found = counted(node);
            }
            found?;
        }
        Ok(())
    }
}

/// The outcome of a snapshot, in words.
fn snapshot_text(snapshot: &Result<SnapshotFile, SnapshotError>) -> String {
    match snapshot {
        Ok(file) => format!("has a snapshot of slot {}", file.slot),
        Err(why) => format!("has no snapshot: {why}"),
    }
}

/// The slot that a shred says it is of.
fn slot_of(data: &[u8]) -> Option<u64> {
    data.get(SLOT..SLOT + 8).map(|slot| u64::from_le_bytes(*slot.first_chunk().expect("8 bytes")))
}
