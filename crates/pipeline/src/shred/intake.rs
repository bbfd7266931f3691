//! intake: what a node in a cluster does with shreds that others made: takes, sends on, asks for what is missing.
//!
//! reads   `net_shred`: datagrams from Turbine, and answers of repair; the views that gossip's thread puts in; who
//!         leads a
//!         slot and who has stake, in the ledger
//! writes  `shred_store`: sets that are complete; `shred_net`: shreds for the tree's children, requests and pongs;
//!         `shred_sign`: what of those is to be signed
//! memory  the [`Receiver`]'s; [`ASKED_MAX`] requests; the nodes of two epochs
//! drops   shreds that the receiver refuses, each by its reason; those for children when net has no room; answers
//!         that nobody
//!         asked for: all counted
//! source  `solana-turbine` 4.2.2, `retransmit_stage.rs`; `solana-core` 4.2.2, `repair_service.rs`;
//!         `docs/cluster-protocol.md`, sections 2 and 3

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use hearth_cluster::turbine::{Cipher, Contact, NodeSet, Scratch, ShredId};
use hearth_cluster::view::{View, Views};
use hearth_ledger::Ledger;
use hearth_ledger::blockstore::Reader;
use hearth_tile::{Host, Out, Port};
use hearth_wire::gossip::Pong;
use hearth_wire::repair::{self, Answer, Request, Wanted};
use hearth_wire::shred::Shred as Piece;
use hearth_wire::{Pubkey, Signature};

use super::receiver::{Receiver, ReceiverConfig, Refused, Way};
use super::tile::{Counters, Shred};
use crate::links::{Datagram, Outgoing, PONG, PortKind};

/// How often it is looked for what is missing.
const LOOK_NS: u64 = 5_000_000;
/// What is under way down the tree comes within so long; Agave waits as long.
const PATIENCE_NS: u64 = 250_000_000;
/// A request that has no answer is made again after so long.
const AGAIN_NS: u64 = 150_000_000;
/// An answer counts for so long.
const EXPIRED_NS: u64 = 60_000_000_000;
/// Requests that wait for an answer.
const ASKED_MAX: usize = 16_384;
/// Requests that wait to be signed.
const UNSIGNED_MAX: usize = 64;
/// Slots after the newest that is executed of which missing shreds are asked for.
const SLOTS_WANTED: usize = 32;
/// Slots that are looked at for that.
const SLOTS_LOOKED_AT: u64 = 1_024;
/// Nodes of an epoch are made anew after so long, if gossip knows others.
const NODES_NS: u64 = 1_000_000_000;
/// The tag of what is to be signed for this part of the tile has this bit.
pub(super) const TAG: u64 = 1 << 63;

/// Who follows whom.
#[derive(Clone)]
pub struct Cluster {
    /// What to take.
    pub receiver: ReceiverConfig,
    /// The chain.
    pub ledger: Arc<Ledger>,
    /// The blocks that are there.
    pub blocks: Reader,
    /// What gossip knows.
    pub views: Arc<Views>,
}

/// What waits for a signature.
enum Unsigned {
    Request { to: SocketAddr, bytes: Vec<u8> },
    Pong { to: SocketAddr, hash: [u8; 32] },
}

/// The nodes that a shred goes among.
struct Nodes {
    set: NodeSet,
    view: u64,
    made_ns: u64,
}

/// Takes shreds.
pub(super) struct Intake {
    cluster: Cluster,
    receiver: Receiver,
    own: Pubkey,
    nodes: BTreeMap<u64, Nodes>,
    scratch: Scratch,
    children: Vec<usize>,
    /// By nonce: what was asked for, and when. Those of an answer that is late are forgotten.
    asked: HashMap<u32, (Wanted, u64)>,
    /// When something was asked for last.
    asked_at: HashMap<Wanted, u64>,
    unsigned: VecDeque<Unsigned>,
    next_tag: u64,
    random: u64,
    look_at: u64,
    net: Port,
    sign: Port,
    store: Port,
}

impl Intake {
    pub fn new(cluster: &Cluster, host: &mut Host<'_>, [net, sign, store]: [Port; 3]) -> Self {
        let root = cluster.ledger.recent_blocks(1)[0].slot;
        Self {
            receiver: Receiver::new(cluster.receiver.clone(), root),
            own: cluster.receiver.own,
            cluster: cluster.clone(),
            nodes: BTreeMap::new(),
            scratch: Scratch::default(),
            children: vec![],
            asked: HashMap::new(),
            asked_at: HashMap::new(),
            unsigned: VecDeque::new(),
            next_tag: TAG,
            random: host.entropy() | 1,
            look_at: 0,
            net,
            sign,
            store,
        }
    }

    /// When there is something to do although nothing comes in.
    pub fn deadline(&self) -> u64 {
        self.look_at
    }

    /// A datagram that came for shreds.
    pub fn datagram(&mut self, datagram: &Datagram<'_>, out: &mut Out<'_, Shred>) {
        match datagram.port {
            PortKind::Repair => self.answer(datagram, out),
            _ => {
                out.count.shreds_received += 1;
                self.take(datagram.data, Way::Turbine, out);
            }
        }
    }

    fn answer(&mut self, datagram: &Datagram<'_>, out: &mut Out<'_, Shred>) {
        match Answer::parse(datagram.data) {
            Some(Answer::Ping(ping)) => {
                let view = self.cluster.views.newest();
                let is_peer = view.repair.iter().any(|peer| SocketAddr::from(peer.serve_repair) == datagram.from);
                if !is_peer || self.unsigned.len() >= UNSIGNED_MAX || out.credits(self.sign, 1) == 0 {
                    out.count.dropped_unasked += 1;
                    return;
                }
                out.count.repair_pings += 1;
                let hash = hearth_cluster::gossip::pong_hash(&ping.token);
                let question = [&PONG[..], &ping.token].concat();
                self.ask_for_signature(Unsigned::Pong { to: datagram.from, hash }, &question, out);
            }
            Some(Answer::Shred(bytes, nonce)) => {
                let fits = self.asked.get(&nonce).is_some_and(|(wanted, _)| is_answered(wanted, bytes));
                if !fits {
                    out.count.dropped_unasked += 1;
                    return;
                }
                out.count.shreds_repaired += 1;
                if !matches!(self.asked.get(&nonce), Some((Wanted::Orphan { .. }, _))) {
                    self.asked.remove(&nonce);
                }
                self.take(bytes, Way::Repair, out);
            }
            None => out.count.dropped_malformed += 1,
        }
    }

    fn take(&mut self, bytes: &[u8], way: Way, out: &mut Out<'_, Shred>) {
        let (ledger, blocks) = (&self.cluster.ledger, &self.cluster.blocks);
        let leader = |slot| ledger.leader_at(slot).map(|leader| leader.node);
        let is_whole = |slot| blocks.slot(slot).is_some_and(|info| info.whole);
        let taken = match self.receiver.take(bytes, way, out.now(), leader, is_whole) {
            Ok(taken) => taken,
            Err(why) => return count(why, out.count),
        };
        out.count.shreds_taken += 1;
        if way == Way::Turbine {
            self.send_on(bytes, &taken.leader, out);
        }
        if !taken.completes {
            return;
        }
        let done = self.receiver.completed().expect("it was just completed");
        out.count.sets_completed += 1;
        out.count.shreds_recovered += u64::from(done.recovered.count_ones());
        let set = done.set;
        out.publish_with(self.store, taken.slot, |buffer| super::tile::write_message(set, done.parent_slot, buffer));
        let recovered = set.shreds().enumerate().filter(|(place, _)| done.recovered >> place & 1 == 1);
        let recovered: Vec<Vec<u8>> = recovered.map(|(_, shred)| shred.to_vec()).collect();
        for shred in &recovered {
            self.send_on(shred, &taken.leader, out);
        }
    }

    /// Gives a shred to this node's children in its tree.
    fn send_on(&mut self, bytes: &[u8], leader: &Pubkey, out: &mut Out<'_, Shred>) {
        let Ok(shred) = piece(bytes) else { return };
        let id = ShredId { slot: shred.slot(), kind: shred.variant().kind, index: shred.index() };
        let epoch = self.cluster.ledger.epoch_schedule().epoch(id.slot);
        self.freshen(epoch, out.now());
        let nodes = &self.nodes[&epoch].set;
        if nodes.retransmit(&id, leader, &mut self.scratch, &mut self.children).is_err() {
            return;
        }
        for child in &self.children {
            let Some(to) = nodes.nodes()[*child].address else { continue };
            if out.credits(self.net, 1) == 0 {
                out.count.dropped_shreds += 1;
                continue;
            }
            send(self.net, (to, PortKind::Tvu), shred.bytes(), out);
            out.count.shreds_sent_on += 1;
        }
    }

    /// Where this node, as the leader, sends each shred of a set: the roots of their trees.
    pub fn roots(&mut self, shreds: &[&[u8]], now: u64, roots: &mut BTreeMap<SocketAddr, Vec<usize>>) {
        for (place, bytes) in shreds.iter().enumerate() {
            let Ok(shred) = piece(bytes) else { continue };
            let id = ShredId { slot: shred.slot(), kind: shred.variant().kind, index: shred.index() };
            let epoch = self.cluster.ledger.epoch_schedule().epoch(id.slot);
            self.freshen(epoch, now);
            let nodes = &self.nodes[&epoch].set;
            if let Some(to) = nodes.root(&id, &self.own, &mut self.scratch).and_then(|node| node.address) {
                roots.entry(to).or_default().push(place);
            }
        }
    }

    /// Makes the nodes of an epoch, or makes them anew.
    fn freshen(&mut self, epoch: u64, now: u64) {
        let number = self.cluster.views.number();
        let is_fresh = |nodes: &Nodes| nodes.view == number || now < nodes.made_ns + NODES_NS;
        if self.nodes.get(&epoch).is_some_and(is_fresh) {
            return;
        }
        let view = self.cluster.views.newest();
        let mut stakes: HashMap<Pubkey, u64> = HashMap::new();
        for vote in self.cluster.ledger.epoch_stakes(epoch).iter().flat_map(|stakes| &stakes.votes) {
            *stakes.entry(vote.node).or_default() += vote.stake;
        }
        let own = Contact { identity: self.own, address: view.own_tvu.map(Into::into) };
        let set = NodeSet::new(own, &view.tvu, &stakes, Cipher::ChaCha20, false);
        self.nodes.insert(epoch, Nodes { set, view: number, made_ns: now });
        while self.nodes.len() > 2 {
            self.nodes.pop_first();
        }
    }

    /// Asks for what is missing, if it is time to. Whether it did.
    pub fn work(&mut self, out: &mut Out<'_, Shred>) -> bool {
        let now = out.now();
        if now < self.look_at {
            return false;
        }
        self.look_at = now + LOOK_NS;
        let executed = self.cluster.ledger.recent_blocks(1)[0].slot;
        self.receiver.set_root(executed.min(self.final_slot()));
        self.asked.retain(|_, (_, at)| now < *at + EXPIRED_NS);
        self.asked_at.retain(|_, at| now < *at + AGAIN_NS);
        let view = self.cluster.views.newest();
        if view.repair.is_empty() {
            return false;
        }
        let mut any = false;
        for wanted in self.wanted(executed, now) {
            if self.unsigned.len() >= UNSIGNED_MAX || self.asked.len() >= ASKED_MAX || out.credits(self.sign, 1) == 0 {
                break;
            }
            if !self.asked_at.contains_key(&wanted) {
                self.ask(wanted, &view, out);
                any = true;
            }
        }
        any
    }

    /// What no block that comes will build on any more.
    fn final_slot(&self) -> u64 {
        self.cluster.ledger.slot(hearth_ledger::Commitment::Finalized)
    }

    /// What is missing of the next slots, the oldest first.
    fn wanted(&self, executed: u64, now: u64) -> Vec<Wanted> {
        let whole = self.cluster.blocks.slots(executed + 1..=executed + SLOTS_LOOKED_AT, usize::MAX);
        let whole: BTreeMap<u64, u64> =
            whole.iter().filter(|info| info.whole).map(|info| (info.slot, info.parent_slot)).collect();
        let begun: Vec<u64> = self.receiver.slots().filter(|slot| *slot > executed).collect();
        let newest = begun.last().copied().max(whole.last_key_value().map(|(slot, _)| *slot)).unwrap_or(executed);
        // Between a block and its parent there is none.
        let parents = whole.iter().map(|(slot, parent)| (*slot, *parent));
        let parents = parents.chain(begun.iter().filter_map(|slot| Some((*slot, self.receiver.parent(*slot)?))));
        let skipped: BTreeSet<u64> = parents.flat_map(|(slot, parent)| parent.max(executed) + 1..slot).collect();
        let slots = (executed + 1..=newest.min(executed + SLOTS_LOOKED_AT))
            .filter(|slot| !whole.contains_key(slot) && !skipped.contains(slot));
        let mut wanted = vec![];
        for slot in slots.take(SLOTS_WANTED) {
            let missing = self.receiver.missing(slot, now, PATIENCE_NS, UNSIGNED_MAX);
            wanted.extend(missing.shreds.iter().map(|index| Wanted::Shred { slot, index: *index }));
            wanted.extend(missing.highest_from.map(|from| Wanted::Highest { slot, from }));
        }
        wanted
    }

    fn ask(&mut self, wanted: Wanted, view: &View, out: &mut Out<'_, Shred>) {
        // Any node may have it; one with stake is likelier to.
        let weight = |stake: u64| u128::from((stake / 2).max(1));
        let total: u128 = view.repair.iter().map(|peer| weight(peer.stake)).sum();
        let mut drawn = u128::from(self.draw()) % total.max(1);
        let Some(peer) = view.repair.iter().find(|peer| {
            let is_it = drawn < weight(peer.stake);
            drawn = drawn.saturating_sub(weight(peer.stake));
            is_it
        }) else {
            return;
        };
        let nonce = self.draw() as u32;
        let time_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_millis() as u64);
        let request = Request { sender: self.own, recipient: peer.identity, time_ms, nonce, wanted };
        let bytes = request.write();
        let signed = repair::signed_bytes(&bytes);
        self.asked.insert(nonce, (wanted, out.now()));
        self.asked_at.insert(wanted, out.now());
        self.ask_for_signature(Unsigned::Request { to: peer.serve_repair.into(), bytes }, &signed, out);
        out.count.repair_requests += 1;
    }

    fn ask_for_signature(&mut self, unsigned: Unsigned, question: &[u8], out: &mut Out<'_, Shred>) {
        out.publish(self.sign, self.next_tag, question);
        self.next_tag += 1;
        self.unsigned.push_back(unsigned);
    }

    /// What was to be signed is: off it goes.
    pub fn signed(&mut self, tag: u64, signature: &Signature, out: &mut Out<'_, Shred>) {
        let oldest = self.next_tag - self.unsigned.len() as u64;
        assert_eq!(tag, oldest, "sign answers in the order asked");
        let (to, bytes) = match self.unsigned.pop_front().expect("an answer to a question") {
            Unsigned::Request { to, mut bytes } => {
                repair::set_signature(&mut bytes, signature);
                (to, bytes)
            }
            Unsigned::Pong { to, hash } => {
                (to, repair::write_pong(&Pong { from: self.own, hash, signature: *signature }))
            }
        };
        if out.credits(self.net, 1) == 0 {
            out.count.dropped_shreds += 1;
        } else {
            send(self.net, (to, PortKind::Repair), &bytes, out);
        }
    }

    /// A number (xorshift64*). Who guesses a nonce still has to have the leader's signature.
    fn draw(&mut self) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

fn send(net: Port, to: (SocketAddr, PortKind), data: &[u8], out: &mut Out<'_, Shred>) {
    out.publish_with(net, 0, |buffer| {
        buffer[Outgoing::HEADER..][..data.len()].copy_from_slice(data);
        Outgoing::write_header(buffer, to, 0, data.len())
    });
}

/// The shred in front of what may be behind it.
fn piece(bytes: &[u8]) -> Result<Piece<'_>, Refused> {
    use hearth_wire::shred::{VARIANT, Variant};
    let variant = bytes.get(VARIANT).and_then(|byte| Variant::from_byte(*byte)).ok_or(Refused::Malformed)?;
    let bytes = bytes.get(..variant.kind.size()).ok_or(Refused::Malformed)?;
    Piece::parse(bytes).map_err(|_| Refused::Malformed)
}

/// Whether a shred is what was asked for.
fn is_answered(wanted: &Wanted, bytes: &[u8]) -> bool {
    let Ok(shred) = Piece::parse(bytes) else { return false };
    match wanted {
        Wanted::Shred { slot, index } => (shred.slot(), shred.index()) == (*slot, *index),
        Wanted::Highest { slot, from } => shred.slot() == *slot && shred.index() >= *from,
        Wanted::Orphan { slot } => shred.slot() <= *slot,
    }
}

fn count(why: Refused, count: &mut Counters) {
    let counter = match why {
        Refused::Malformed => &mut count.dropped_malformed,
        Refused::Version => &mut count.dropped_version,
        Refused::Ahead => &mut count.dropped_ahead,
        Refused::Old => &mut count.dropped_old,
        Refused::Rules => &mut count.dropped_rules,
        Refused::NoLeader => &mut count.dropped_no_leader,
        Refused::Own => &mut count.dropped_own,
        Refused::Duplicate => &mut count.dropped_duplicate,
        Refused::Proof => &mut count.dropped_proof,
        Refused::Signature => &mut count.dropped_signature,
        Refused::Equivocation => &mut count.dropped_equivocation,
        Refused::NoRoom => &mut count.dropped_no_room,
        Refused::BrokenSet => &mut count.dropped_broken_set,
    };
    *counter += 1;
}
