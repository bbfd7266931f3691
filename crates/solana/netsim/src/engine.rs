//! Simulates a slot on virtual time: every datagram of the simulated sets, from the leader to the last node.
//!
//! reads   the nodes, their tree for each shred, the map
//! writes  when each node had each set, bytes that each sent and received
//! memory  4 B per node and shred for the trees, 16 B per node and set, 16 B per datagram in flight
//! drops   datagrams, by the loss of the map; datagrams to dead nodes; datagrams that arrive after the horizon
//!
//! Nodes send one datagram after the other at their region's rate. A node retransmits shreds from the tree, and those
//! that it recovers once it has 32 of a set's 64 shreds; it requests missing shreds as nodes of the cluster do. The
//! leader's uplink starts with the backlog of the sets before the simulated ones; those of other nodes start empty, as
//! the trees of these sets are not drawn.

use hearth_netem::World;
use hearth_turbine::{Node, NodeSet, Scratch, ShredId, children};
use hearth_wire::Pubkey;
use hearth_wire::shred::{CODE_PER_SET, DATA_PER_SET, SHREDS_PER_SET, ShredKind};

use super::queue::{Event, Kind, Queue};
use super::traffic;

const MS: u64 = 1_000_000;
/// A set is requested this long after it, or a later one, was first seen.
const PATIENCE: u64 = 250 * MS;
/// Interval until it is requested again.
const AGAIN: u64 = 150 * MS;
/// The simulation ends this long after the slot's last shred.
const HORIZON: u64 = 10_000 * MS;
/// A time that is never reached.
pub const NEVER: u64 = u64::MAX;

/// A slot to simulate.
pub struct Slot<'a> {
    /// The map: regions, their rates, and the links between them.
    pub world: &'a World,
    /// The nodes, and their trees.
    pub nodes: &'a NodeSet,
    /// The region of each node, by index.
    pub regions: &'a [usize],
    /// Which nodes are dead.
    pub dead: &'a [bool],
    /// Index of the leader.
    pub leader: usize,
    /// The slot's number: other slots have other trees.
    pub number: u64,
    /// Duration in nanoseconds, over which the leader cuts the sets at equal intervals.
    pub ns: u64,
    /// Number of its sets.
    pub sets: u64,
    /// Number of simulated sets, which are the last ones.
    pub simulated: u16,
    /// Maximum number of children.
    pub fanout: usize,
    /// Seed of the random numbers.
    pub seed: u64,
}

/// The result of a simulated slot.
#[derive(Clone, Debug, Default)]
pub struct SlotResult {
    /// When each node had the whole block, in ns after the leader cut the last set; [`NEVER`] if it did not.
    pub whole: Vec<u64>,
    /// Bytes of the simulated sets that each node sent.
    pub sent: Vec<u64>,
    /// Bytes of the simulated sets that each node received.
    pub received: Vec<u64>,
    /// Data shreds received by repair.
    pub repaired: u64,
    /// Number of datagrams sent.
    pub datagrams: u64,
}

/// The trees of all simulated shreds.
struct Trees {
    count: usize,
    fanout: usize,
    /// For each shred the nodes' indices, in the order of its tree.
    order: Vec<u16>,
    /// For each shred and node, the node's position in that order.
    position: Vec<u16>,
}

impl Trees {
    fn new(slot: &Slot<'_>, nodes: usize) -> Self {
        let leader: Pubkey = slot.nodes.nodes()[slot.leader].identity;
        let shreds = usize::from(slot.simulated) * SHREDS_PER_SET;
        let count = nodes - 1;
        let (mut order, mut position) = (Vec::with_capacity(shreds * count), vec![0; shreds * nodes]);
        let (mut scratch, mut drawn) = (Scratch::default(), Vec::new());
        for shred in 0..shreds {
            let (set, index) = (nth(slot, shred / SHREDS_PER_SET), shred % SHREDS_PER_SET);
            let (kind, place, size) = match index < DATA_PER_SET {
                true => (ShredKind::Data, index, DATA_PER_SET),
                false => (ShredKind::Code, index - DATA_PER_SET, CODE_PER_SET),
            };
            let id = ShredId { slot: slot.number, kind, index: (set as usize * size + place) as u32 };
            slot.nodes.order(&id, &leader, &mut scratch, &mut drawn);
            for (at, node) in drawn.iter().enumerate() {
                position[shred * nodes + *node as usize] = at as u16;
            }
            order.extend(drawn.iter().map(|node| *node as u16));
        }
        Self { count, fanout: slot.fanout, order, position }
    }
}

/// The number within the slot of a simulated set.
fn nth(slot: &Slot<'_>, set: usize) -> u64 {
    slot.sets - u64::from(slot.simulated) + set as u64
}

/// When the leader has cut `count` of the slot's sets.
fn cut_so_many(slot: &Slot<'_>, count: u64) -> u64 {
    // Half a billion sets of a minute exceed 64 bits.
    (u128::from(count) * u128::from(slot.ns) / u128::from(slot.sets)) as u64
}

/// When the leader cuts a simulated set.
fn cut(slot: &Slot<'_>, set: usize) -> u64 {
    cut_so_many(slot, nth(slot, set) + 1)
}

/// When the leader has sent the sets before the simulated ones.
fn sent_before(slot: &Slot<'_>, byte_ns: f64) -> u64 {
    let sets = nth(slot, 0);
    if sets == 0 {
        return 0;
    }
    let line = |sets: u64| ((sets * traffic::set()) as f64 * byte_ns) as u64;
    // If the uplink is too slow it is busy from the first set on; otherwise it is free before each set.
    let slow = cut_so_many(slot, 1).saturating_add(line(sets));
    let fast = cut_so_many(slot, sets).saturating_add(line(1));
    slow.max(fast)
}

struct Engine<'a> {
    slot: &'a Slot<'a>,
    trees: Trees,
    queue: Queue,
    random: fastrand::Rng,
    sets: usize,
    /// For each node and set, the shreds that it has.
    have: Vec<u64>,
    /// For each node and set, since when it is complete.
    whole: Vec<u64>,
    /// For each node, the number of sets that it checks.
    looked: Vec<u16>,
    /// When each node's uplink is free.
    free: Vec<u64>,
    /// The end of the simulation.
    end: u64,
    /// Nanoseconds per byte, by region.
    byte_ns: Vec<f64>,
    /// Cumulative weights by which nodes are chosen for repair.
    asked: Vec<u64>,
    course: SlotResult,
}

/// Simulates a slot until 10 s after the leader cut the last set, and returns what each node had and sent.
pub fn run(slot: &Slot<'_>) -> SlotResult {
    let mut engine = Engine::new(slot);
    engine.begin();
    while let Some(event) = engine.queue.pop() {
        engine.happen(event);
    }
    let (sets, last) = (engine.sets, cut(slot, engine.sets - 1));
    engine.course.whole = (0..slot.nodes.nodes().len())
        .map(|node| {
            let of = &engine.whole[node * sets..(node + 1) * sets];
            let latest = of.iter().copied().max().unwrap_or(NEVER);
            if latest == NEVER { NEVER } else { latest.saturating_sub(last) }
        })
        .collect();
    engine.course
}

impl<'a> Engine<'a> {
    fn new(slot: &'a Slot<'a>) -> Self {
        let (nodes, sets) = (slot.nodes.nodes().len(), usize::from(slot.simulated));
        let mut sum = 0;
        let weigh = |node: &Node| {
            // Micro-lamports would not fit.
            sum += (node.stake / 1_000_000).max(1);
            sum
        };
        let byte_ns: Vec<f64> = slot.world.regions.iter().map(|region| 8.0 / region.rate_gbps).collect();
        let mut free = vec![0; nodes];
        free[slot.leader] = sent_before(slot, byte_ns[slot.regions[slot.leader]]);
        Self {
            trees: Trees::new(slot, nodes),
            queue: Queue::default(),
            random: fastrand::Rng::with_seed(slot.seed),
            sets,
            have: vec![0; nodes * sets],
            whole: vec![NEVER; nodes * sets],
            looked: vec![0; nodes],
            free,
            end: cut(slot, sets - 1) + HORIZON,
            byte_ns,
            asked: slot.nodes.nodes().iter().map(weigh).collect(),
            course: SlotResult { sent: vec![0; nodes], received: vec![0; nodes], ..SlotResult::default() },
            slot,
        }
    }

    fn begin(&mut self) {
        let leader = self.slot.leader as u16;
        for set in 0..self.sets {
            let at = cut(self.slot, set);
            self.push(Event { at, node: leader, set: set as u16, kind: Kind::Cut, shred: 0, from: leader });
        }
    }

    fn push(&mut self, event: Event) {
        if event.at <= self.end {
            self.queue.push(event);
        }
    }

    fn happen(&mut self, event: Event) {
        let Event { at, node, set, kind, shred, from } = event;
        let (node, set) = (usize::from(node), usize::from(set));
        match kind {
            Kind::Cut => self.cut(at, node, set),
            Kind::Shred => {
                self.course.received[node] += bytes(shred);
                self.arrive(at, node, set, shred, true);
            }
            Kind::Repaired => {
                self.course.received[node] += traffic::answer();
                self.arrive(at, node, set, shred, false);
            }
            Kind::Check => self.check(at, node, set),
            Kind::Ask => {
                self.course.received[node] += traffic::request();
                if self.have[node * self.sets + set] >> shred & 1 == 1 {
                    self.send(at, node, usize::from(from), (set, shred, Kind::Repaired), traffic::answer());
                }
            }
            Kind::Over => self.look(at, node, self.sets, 0),
        }
    }

    fn cut(&mut self, at: u64, leader: usize, set: usize) {
        self.have[leader * self.sets + set] = u64::MAX;
        self.whole[leader * self.sets + set] = at;
        for shred in 0..SHREDS_PER_SET {
            let tree = set * SHREDS_PER_SET + shred;
            if self.trees.count > 0 {
                let root = usize::from(self.trees.order[tree * self.trees.count]);
                self.send(at, leader, root, (set, shred as u8, Kind::Shred), bytes(shred as u8));
            }
        }
        if set + 1 == self.sets {
            // While new shreds arrive no node asks where the slot ends.
            self.over(at.max(self.free[leader]).saturating_add(PATIENCE + AGAIN), leader as u16);
        }
    }

    fn over(&mut self, at: u64, from: u16) {
        for node in (0..self.slot.dead.len()).filter(|node| !self.slot.dead[*node]) {
            self.push(Event { at, node: node as u16, set: 0, kind: Kind::Over, shred: 0, from });
        }
    }

    fn arrive(&mut self, at: u64, node: usize, set: usize, shred: u8, is_turbine: bool) {
        let cell = node * self.sets + set;
        self.look(at, node, set + 1, PATIENCE);
        if self.have[cell] >> shred & 1 == 1 {
            return;
        }
        self.have[cell] |= 1 << shred;
        match is_turbine {
            true => self.send_on(at, node, set, shred),
            false => self.course.repaired += 1,
        }
        if self.have[cell].count_ones() as usize == DATA_PER_SET {
            self.whole[cell] = at;
            let recovered = !self.have[cell];
            self.have[cell] = u64::MAX;
            for shred in (0..SHREDS_PER_SET as u8).filter(|shred| recovered >> shred & 1 == 1) {
                self.send_on(at, node, set, shred);
            }
        }
    }

    fn send_on(&mut self, at: u64, node: usize, set: usize, shred: u8) {
        let tree = set * SHREDS_PER_SET + usize::from(shred);
        let position = usize::from(self.trees.position[tree * self.slot.dead.len() + node]);
        for child in children(position, self.trees.fanout, self.trees.count) {
            let to = usize::from(self.trees.order[tree * self.trees.count + child]);
            self.send(at, node, to, (set, shred, Kind::Shred), bytes(shred));
        }
    }

    /// Makes the node check all sets before `until` from now on.
    fn look(&mut self, at: u64, node: usize, until: usize, patience: u64) {
        for set in usize::from(self.looked[node])..until {
            let (node, set) = (node as u16, set as u16);
            self.push(Event { at: at + patience, node, set, kind: Kind::Check, shred: 0, from: node });
        }
        self.looked[node] = self.looked[node].max(until as u16);
    }

    fn check(&mut self, at: u64, node: usize, set: usize) {
        let have = self.have[node * self.sets + set];
        // With any 32 shreds the rest is recovered, so no more than these are requested.
        let lacks = DATA_PER_SET.saturating_sub(have.count_ones() as usize);
        if lacks == 0 {
            return;
        }
        for shred in (0..DATA_PER_SET as u8).filter(|shred| have >> shred & 1 == 0).take(lacks) {
            let sum = self.asked.last().copied().unwrap_or_default();
            let drawn = self.random.u64(0..sum);
            let peer = self.asked.partition_point(|end| *end <= drawn);
            if peer != node {
                self.send(at, node, peer, (set, shred, Kind::Ask), traffic::request());
            }
        }
        let (node, set) = (node as u16, set as u16);
        self.push(Event { at: at + AGAIN, node, set, kind: Kind::Check, shred: 0, from: node });
    }

    fn send(&mut self, at: u64, from: usize, to: usize, what: (usize, u8, Kind), bytes: u64) {
        let (regions, dead) = (self.slot.regions, self.slot.dead);
        let start = at.max(self.free[from]);
        let end = start.saturating_add((bytes as f64 * self.byte_ns[regions[from]]) as u64);
        self.free[from] = end;
        self.course.sent[from] += bytes;
        self.course.datagrams += 1;
        let link = self.slot.world.link(regions[from], regions[to]);
        if dead[to] || (link.loss > 0.0 && self.random.f64() < link.loss) {
            return;
        }
        let jitter_ms = -link.jitter_ms * (1.0 - self.random.f64()).ln();
        let at = end.saturating_add(((link.rtt_ms / 2.0 + jitter_ms) * MS as f64) as u64);
        let (set, shred, kind) = what;
        self.push(Event { at, node: to as u16, set: set as u16, kind, shred, from: from as u16 });
    }
}

/// The size of a shred's datagram: data shreds of a set come first.
fn bytes(shred: u8) -> u64 {
    traffic::shred(if usize::from(shred) < DATA_PER_SET { ShredKind::Data } else { ShredKind::Code })
}

#[cfg(test)]
mod tests {
    use hearth_turbine::{Cipher, Contact};

    use super::*;

    #[test]
    fn repair_asks_only_for_missing_shreds() {
        let world = World::shipped().without_loss();
        let contact = |name: u8| Contact { identity: [name; 32], address: Some(([127, 0, 0, name], 8_000).into()) };
        // The leader, with all stake but one lamport, is asked.
        let stakes = [([1; 32], 1 << 60), ([2; 32], 1)].into();
        let nodes = NodeSet::new(contact(1), &[contact(1), contact(2)], &stakes, Cipher::ChaCha8, false);
        let slot = Slot {
            world: &world,
            nodes: &nodes,
            regions: &[0, 0],
            dead: &[false, false],
            leader: 0,
            number: 1,
            ns: 400 * MS,
            sets: 1,
            simulated: 1,
            fanout: 200,
            seed: 1,
        };
        // The first 12 data shreds and 8 code shreds are present: 12 of the missing 20 are enough.
        for (present, wanted) in [(0xfff | 0x5555 << DATA_PER_SET, 12..24), (0, 0..32), (u64::MAX, 0..0)] {
            let mut engine = Engine::new(&slot);
            engine.have[1] = present;
            engine.check(0, 1, 0);
            let events = std::iter::from_fn(|| engine.queue.pop());
            let mut asked: Vec<u8> = events.filter(|event| event.kind == Kind::Ask).map(|event| event.shred).collect();
            asked.sort_unstable();
            assert_eq!(asked, wanted.collect::<Vec<u8>>(), "{present:x}");
        }
    }
}
