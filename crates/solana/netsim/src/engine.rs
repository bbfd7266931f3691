//! A slot on virtual time: every datagram of the sets that are simulated, from the leader to the last node.
//!
//! reads   the nodes, their tree for each shred, the map
//! writes  when each node had each set, bytes that each sent and received
//! memory  4 B a node and shred for the trees, 16 B a node and set, 16 B a datagram under way
//! drops   datagrams, by the loss of the map; what is sent to dead nodes; what comes when nobody is waited for any more
//!
//! Nodes send one datagram after the other at the rate of their region. A node sends on what comes down the tree, and
//! what it recovers once 32 of a set's 64 shreds are there; it asks for what is missing as nodes of the cluster do.
//! The leader's line begins with what the sets before those that are simulated have left on it; those of others begin
//! empty, as the trees of these sets are not drawn.

use hearth_netem::World;
use hearth_turbine::{Node, NodeSet, Scratch, ShredId, children};
use hearth_wire::Pubkey;
use hearth_wire::shred::{CODE_PER_SET, DATA_PER_SET, SHREDS_PER_SET, ShredKind};

use super::queue::{Event, Kind, Queue};
use super::traffic;

const MS: u64 = 1_000_000;
/// A set is asked for when it, or a later one, was first seen so long ago.
const PATIENCE: u64 = 250 * MS;
/// And once more after so long.
const AGAIN: u64 = 150 * MS;
/// So long after the slot's last shred nobody is waited for any more.
const HORIZON: u64 = 10_000 * MS;
/// A time that does not come.
pub const NEVER: u64 = u64::MAX;

/// A slot that is to be simulated.
pub struct Slot<'a> {
    /// Where nodes are.
    pub world: &'a World,
    /// The nodes, and their trees.
    pub nodes: &'a NodeSet,
    /// The region of each, by its place.
    pub regions: &'a [usize],
    /// Which of them do nothing.
    pub dead: &'a [bool],
    /// The place of the leader.
    pub leader: usize,
    /// The slot's number: other slots have other trees.
    pub number: u64,
    /// How long it is, ns.
    pub ns: u64,
    /// Sets that it has.
    pub sets: u64,
    /// Sets that are simulated: the last ones.
    pub simulated: u16,
    /// How many a node sends to, at most.
    pub fanout: usize,
    /// Where randomness begins.
    pub seed: u64,
}

/// What became of it.
#[derive(Clone, Debug, Default)]
pub struct Course {
    /// When each node had the whole block, ns after the leader cut the last set; [`NEVER`] where it did not.
    pub whole: Vec<u64>,
    /// Bytes that each node sent, of the sets that were simulated.
    pub sent: Vec<u64>,
    /// And received.
    pub received: Vec<u64>,
    /// Data shreds that came since they were asked for.
    pub repaired: u64,
    /// Datagrams that were sent.
    pub datagrams: u64,
}

/// The trees of all shreds that are simulated.
struct Trees {
    count: usize,
    fanout: usize,
    /// For each shred the places, in the order of its tree.
    order: Vec<u16>,
    /// For each shred and place, where it is in that order.
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

/// The number in its slot of a set that is simulated.
fn nth(slot: &Slot<'_>, set: usize) -> u64 {
    slot.sets - u64::from(slot.simulated) + set as u64
}

/// When the leader has cut so many of the slot's sets.
fn cut_so_many(slot: &Slot<'_>, count: u64) -> u64 {
    // Half a billion sets of a minute are beyond 64 bits.
    (u128::from(count) * u128::from(slot.ns) / u128::from(slot.sets)) as u64
}

/// When the leader cuts a set that is simulated.
fn cut(slot: &Slot<'_>, set: usize) -> u64 {
    cut_so_many(slot, nth(slot, set) + 1)
}

/// When the leader has sent the sets before those that are simulated.
fn sent_before(slot: &Slot<'_>, byte_ns: f64) -> u64 {
    let sets = nth(slot, 0);
    if sets == 0 {
        return 0;
    }
    let line = |sets: u64| ((sets * traffic::set()) as f64 * byte_ns) as u64;
    // A line that is too slow is never free from the first set on; one that is not is free before each.
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
    /// For each node and set the shreds that are there.
    have: Vec<u64>,
    /// And since when all are.
    whole: Vec<u64>,
    /// For each node how many sets it looks after.
    looked: Vec<u16>,
    /// When each has sent what it has to send.
    free: Vec<u64>,
    /// Nothing happens after that.
    end: u64,
    /// Nanoseconds that a byte takes, by region.
    byte_ns: Vec<f64>,
    /// Sums of the weights by which a node is asked.
    asked: Vec<u64>,
    course: Course,
}

/// Simulates a slot.
pub fn run(slot: &Slot<'_>) -> Course {
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
            course: Course { sent: vec![0; nodes], received: vec![0; nodes], ..Course::default() },
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
            // As long as something new comes nobody asks where the slot ends.
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

    /// From now on the node looks after all sets before this one.
    fn look(&mut self, at: u64, node: usize, until: usize, patience: u64) {
        for set in usize::from(self.looked[node])..until {
            let (node, set) = (node as u16, set as u16);
            self.push(Event { at: at + patience, node, set, kind: Kind::Check, shred: 0, from: node });
        }
        self.looked[node] = self.looked[node].max(until as u16);
    }

    fn check(&mut self, at: u64, node: usize, set: usize) {
        let have = self.have[node * self.sets + set];
        // With 32 of any the rest is recovered: no more than these are asked for.
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

/// Of a shred's datagram: data shreds of a set come first.
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
        // The leader, which has all stake but one lamport, is asked.
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
        // The first 12 data shreds are there and any 8 code shreds: 12 more of 20 are enough.
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
