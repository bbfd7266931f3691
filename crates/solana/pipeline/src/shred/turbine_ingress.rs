//! turbine_ingress: passes other leaders' shreds through five stages, in one direction.
//!
//! reads   `net_shred`: datagrams from Turbine, and repair responses; `gossip_shred`: the nodes of the cluster;
//!         `replay_shred`: blocks that consensus has dumped; `tower_shred`: own blocks to send again; the ledger's
//!         leader schedule and stakes
//! writes  `shred_store`: complete sets, blocks to void; `shred_net`: shreds for the tree's children; `shred_sign`:
//!         roots of last sets; `shred_repair`: what is missing; `shred_gossip`: equivocating leaders and whole slots
//! memory  64 own sets to send again; the [`Receiver`]'s; that of the stages, of gaps.rs, signing.rs and [`Answers`]:
//!         at most [`memory`]; 120 B for each node of the cluster
//! drops   shreds that a stage refuses, each by its reason; shreds for children when net has no room; unsolicited
//!         repair responses: all counted
//! source  `docs/cluster-protocol.md`, sections 2 and 3
//!
//! [`parse`] → [`check`](super::check) → [`resolve`](super::resolve) → [`retransmit`](super::retransmit) →
//! [`deliver`](super::deliver). A stage has one entry point, and knows nothing of the later ones.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use hearth_ledger::blockstore::FecSetRecord;
use hearth_tile::{Host, InitError, Out, Port, Tile};
use hearth_wire::repair::Answer;
use hearth_wire::shred::Shred as Piece;
use hearth_wire::{Pubkey, Signature};

use super::arrival::{Arrival, ShredRefusal, ShredSource};
use super::cluster::Cluster;
use super::counters::Counters;
use super::deliver::Deliver;
use super::gaps::{self, GapReports};
use super::parse::parse;
use super::receiver::{Receiver, ReceiverConfig, ResolvedShred};
use super::retransmit::Retransmit;
use super::set::FecSet;
use super::signing::SigningQueue;
use super::trees::Trees;
use crate::links::{Datagram, PeerNews, PortKind, SHRED_REPAIR};
use crate::repair::LOOK_NS;
use crate::repair::nonce::{Answers, Kind};
use crate::timer::next_look;

/// How often to check for missing shreds while none are known to be missing and shreds arrive: short compared with the
/// time that a shred takes down the tree.
const IDLE_LOOK_NS: u64 = 25_000_000;
/// How often to wake the core for that check while nothing arrives and nothing is due: as often as for tower and
/// repair.
const QUIET_LOOK_NS: u64 = 50_000_000;
/// Maximum sets of own blocks that wait to be sent again.
const RESENT_SETS: usize = 64;

/// The outputs of the path.
#[derive(Clone, Copy)]
pub(super) struct Ports {
    pub net: Port,
    pub sign: Port,
    pub store: Port,
    pub gossip: Port,
}

/// The path of received shreds: parses, verifies, retransmits and rebuilds, and hands complete sets to store.
pub(super) struct Ingress {
    cluster: Cluster,
    receiver: Receiver,
    trees: Trees,
    retransmit: Retransmit,
    hand_on: Deliver,
    answers: Answers,
    gaps: GapReports,
    signing: SigningQueue,
    /// When to check for missing shreds if the core is awake.
    look_at: u64,
    /// When to wake the core for that check if nothing arrives.
    wake_at: u64,
    /// Whether anything arrived since the last check.
    has_news: bool,
    /// Sets of own blocks to send again.
    resending: VecDeque<FecSet>,
    store: Port,
}

impl Ingress {
    pub fn new(cluster: Cluster, host: &mut Host<'_>, ports: Ports) -> Result<Self, InitError> {
        let gaps = host.output(SHRED_REPAIR)?;
        host.elective(gaps);
        let root = cluster.ledger.recent_blocks(1)[0].slot;
        Ok(Self {
            receiver: Receiver::new(cluster.receiver.clone(), root),
            trees: Trees::new(&cluster),
            retransmit: Retransmit::new(ports.net),
            hand_on: Deliver::new(&cluster, ports.store, ports.gossip),
            answers: Answers::new(cluster.nonces),
            gaps: GapReports::new(gaps),
            resending: VecDeque::new(),
            signing: SigningQueue::new(ports.sign),
            cluster,
            look_at: 0,
            wake_at: 0,
            has_news: false,
            store: ports.store,
        })
    }

    /// Sends what a burst of shreds has left for this node's children.
    pub fn end_burst(&mut self, out: &mut Out<'_, impl Tile<Counters = Counters>>) {
        self.retransmit.send(out);
    }

    /// When there is work to do without any input.
    pub fn deadline(&self) -> u64 {
        if self.has_news { self.look_at.min(self.wake_at) } else { self.wake_at }
    }

    /// Takes over another identity of the node, if there is one.
    pub fn look_at_identity(&mut self) {
        if let Some(own) = self.cluster.identity.changed() {
            self.receiver.set_own(own);
            self.trees.set_own(own);
        }
    }

    /// Applies gossip's news of a node.
    pub fn peer(&mut self, news: PeerNews) {
        self.trees.peer(news);
    }

    /// Records that this node produces a slot.
    pub fn makes(&mut self, slot: u64) {
        self.receiver.makes(slot);
    }

    /// Processes a datagram from a shred socket.
    pub fn datagram(&mut self, datagram: &Datagram<'_>, out: &mut Out<'_, impl Tile<Counters = Counters>>) {
        match datagram.port {
            PortKind::Repair => self.answer(datagram, out),
            _ => {
                out.count.shreds_received += 1;
                self.receive(datagram.data, ShredSource::Turbine, out);
            }
        }
    }

    fn answer(&mut self, datagram: &Datagram<'_>, out: &mut Out<'_, impl Tile<Counters = Counters>>) {
        // Pings go to repair.
        let Some(Answer::Shred(bytes, nonce)) = Answer::parse(datagram.data) else {
            out.count.dropped_malformed += 1;
            return;
        };
        let piece = Piece::parse(bytes).ok();
        let Some(kind) = piece.and_then(|shred| self.answers.awaited(nonce, &shred, out.now())) else {
            out.count.dropped_unasked += 1;
            return;
        };
        out.count.shreds_repaired += 1;
        out.count.shreds_repaired_highest += u64::from(matches!(kind, Kind::Highest { .. }));
        out.count.shreds_repaired_orphan += u64::from(kind == Kind::Orphan);
        self.receive(bytes, ShredSource::Repair, out);
    }

    /// Passes a shred through all stages.
    fn receive(&mut self, bytes: &[u8], source: ShredSource, out: &mut Out<'_, impl Tile<Counters = Counters>>) {
        self.has_news = true;
        let Self { cluster, receiver, trees, retransmit, hand_on, signing, .. } = self;
        let arrival = Arrival { source, now_ns: out.now() };
        let shred = match parse(bytes, source, &receiver.limits()) {
            Ok(shred) => shred,
            Err(why) => return count(why, out.count),
        };
        match accept(cluster, receiver, trees, &shred, arrival) {
            Ok(resolved) => {
                out.count.shreds_taken += 1;
                retransmit.resolved(trees, signing, &shred, source, &resolved, out);
                hand_on.resolved(&resolved, out);
            }
            Err(why) => {
                count(why, out.count);
                hand_on.findings(receiver.findings(), out);
            }
        }
    }

    /// Replaces the block of a slot by another one.
    ///
    /// The slot identifies the block, so the message carries no block id. Replay dumps only blocks that it executed or
    /// found invalid, which are whole: until this call the receiver and the store keep that block and refuse shreds of
    /// all others. Replay executes another block of the slot only after store has voided this one, so the slot's next
    /// dump follows this call.
    pub fn dump(&mut self, slot: u64, out: &mut Out<'_, impl Tile<Counters = Counters>>) {
        if slot <= self.receiver.root() {
            return;
        }
        let mut roots = vec![];
        let _ = self.cluster.blocks.sets(slot, |set| roots.push(set.merkle_root));
        self.has_news = true;
        self.receiver.dump(slot, roots);
        self.hand_on.dump(slot, out);
    }

    /// Returns where this node, as the leader, sends each shred of a set: the roots of their trees.
    pub fn roots(&mut self, shreds: &[&[u8]], now: u64, roots: &mut BTreeMap<SocketAddr, Vec<usize>>) {
        self.trees.roots(shreds, now, roots);
    }

    /// Reports that an own slot is whole.
    pub fn own_is_whole(&mut self, slot: u64, out: &mut Out<'_, impl Tile<Counters = Counters>>) {
        self.hand_on.whole(slot, out);
    }

    /// Reports missing shreds to repair, and processes contested slots, if it is time to.
    pub fn work(&mut self, out: &mut Out<'_, impl Tile<Counters = Counters>>) {
        let now = out.now();
        if now < self.look_at.min(self.wake_at) {
            return;
        }
        let executed = self.cluster.ledger.recent_blocks(1)[0].slot;
        let root = executed.min(self.final_slot());
        self.receiver.set_root(root);
        self.hand_on.set_root(root);
        while out.credits(self.store, 1) > 0
            && let Some(slot) = self.receiver.take_lost(now)
        {
            self.hand_on.dump(slot, out);
        }
        let evicted = self.receiver.evicted();
        (out.count.evicted_sets, out.count.evicted_slots) = (evicted.sets, evicted.slots);
        out.count.forgotten_roots = self.receiver.forgotten_roots();
        self.hand_on.tell_again(out);
        out.count.reports_lost = self.hand_on.lost();
        self.gaps.report(&self.receiver, out);
        let is_idle = !self.gaps.is_lacking() && self.resending.is_empty();
        self.look_at = next_look(now, if is_idle { IDLE_LOOK_NS } else { LOOK_NS });
        self.has_news = false;
        self.wake_at = self.next_wake(now);
    }

    /// When there is work to do without any input.
    fn next_wake(&self, now: u64) -> u64 {
        let waits = self.gaps.is_held_up() || self.hand_on.has_untold() || !self.resending.is_empty();
        if waits {
            return self.look_at;
        }
        let due = self.gaps.due_at().map_or(u64::MAX, |due| due.next_multiple_of(LOOK_NS));
        next_look(now, QUIET_LOOK_NS).min(due)
    }

    /// Reads the beginning of an own block to send again: nodes that receive it request the rest.
    pub fn read_again(&mut self, slot: u64) {
        self.has_news = true;
        let (version, resending) = (self.cluster.receiver.version, &mut self.resending);
        let read = |record: &FecSetRecord<'_>| {
            if resending.len() < RESENT_SETS {
                resending.extend(FecSet::of_record(record, version));
            }
        };
        // Tower asks again for a block that cannot be read now.
        let _ = self.cluster.blocks.sets(slot, read);
    }

    /// Returns a set of an own block to send again.
    pub fn resend(&mut self) -> Option<FecSet> {
        self.resending.pop_front()
    }

    /// The newest finalized slot: new blocks build on it or on later ones.
    fn final_slot(&self) -> u64 {
        self.cluster.ledger.slot(hearth_ledger::Commitment::Finalized)
    }

    /// Handles the signature of a slot's last root.
    pub fn signed(&mut self, tag: u64, signature: &Signature, out: &mut Out<'_, impl Tile<Counters = Counters>>) {
        let slot = self.signing.answered(tag);
        self.retransmit.signed(&mut self.trees, slot, signature, out);
    }
}

/// Maximum bytes for other leaders' shreds, in each shred tile.
pub const fn memory(receiver: &ReceiverConfig) -> u64 {
    receiver.memory() + Answers::MEMORY + gaps::memory(receiver) + (RESENT_SETS * FecSet::MEMORY) as u64
}

/// Verifies a shred and its retransmitter, and keeps it.
fn accept<'a>(
    cluster: &Cluster,
    receiver: &'a mut Receiver,
    trees: &mut Trees,
    shred: &Piece<'_>,
    arrival: Arrival,
) -> Result<ResolvedShred<'a>, ShredRefusal> {
    let leader = |slot| -> Option<Pubkey> { cluster.ledger.leader_at(slot).map(|leader| leader.node) };
    let is_whole = |slot| cluster.blocks.slot(slot).is_some_and(|info| info.whole);
    let genuine = receiver.check(shred, arrival, leader, is_whole)?;
    trees.check_sender(shred, &genuine, arrival)?;
    receiver.resolve(shred, genuine, arrival)
}

fn count(why: ShredRefusal, count: &mut Counters) {
    let counter = match why {
        ShredRefusal::Malformed => &mut count.dropped_malformed,
        ShredRefusal::Version => &mut count.dropped_version,
        ShredRefusal::Ahead => &mut count.dropped_ahead,
        ShredRefusal::Old => &mut count.dropped_old,
        ShredRefusal::Rules => &mut count.dropped_rules,
        ShredRefusal::NoLeader => &mut count.dropped_no_leader,
        ShredRefusal::Own => &mut count.dropped_own,
        ShredRefusal::Duplicate => &mut count.dropped_duplicate,
        ShredRefusal::Proof => &mut count.dropped_proof,
        ShredRefusal::Signature => &mut count.dropped_signature,
        ShredRefusal::Equivocation => &mut count.dropped_equivocation,
        ShredRefusal::NoRoom => &mut count.dropped_no_room,
        ShredRefusal::BrokenSet => &mut count.dropped_broken_set,
        ShredRefusal::Dumped => &mut count.dropped_dumped,
        ShredRefusal::Sender => &mut count.dropped_sender,
    };
    *counter += 1;
}
