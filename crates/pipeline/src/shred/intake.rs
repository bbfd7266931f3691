//! intake: what a node in a cluster does with shreds that others made: takes, sends on, asks for what is missing.
//!
//! reads   `net_shred`: datagrams from Turbine, and answers of repair; `gossip_shred`: the nodes of the cluster; blocks
//!         that consensus has dumped, and slots that it heard votes for; who leads a slot and who has stake, in the
//!         ledger
//! writes  `shred_store`: sets that are complete, blocks that are to be dumped; `shred_net`: shreds for the tree's
//!         children, requests and pongs; `shred_sign`: what of those is to be signed; `shred_gossip`: leaders that made
//!         two blocks, and slots that are whole
//! memory  64 own sets that are to be sent again; 120 B for each node of the cluster; the [`Receiver`]'s; those of
//!         asking.rs, relay.rs and signing.rs
//! drops   shreds that the receiver refuses, each by its reason; those for children when net has no room; answers
//!         that nobody asked for, and pings that are not their sender's: all counted
//! source  `solana-turbine` 4.2.2, `retransmit_stage.rs`; `solana-core` 4.2.2, `repair_service.rs`;
//!         `docs/cluster-protocol.md`, sections 2 and 3

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use hearth_cluster::reports::Dump;
use hearth_cluster::view::{View, Views};
use hearth_crypto::ed25519::{Verifier, VerifierConfig};
use hearth_ledger::Ledger;
use hearth_ledger::blockstore::{FecSetRecord, Reader};
use hearth_tile::{Host, Out, Port};
use hearth_wire::gossip::Pong;
use hearth_wire::repair::{self, Answer};
use hearth_wire::shred::Shred as Piece;
use hearth_wire::{Hash, Signature};

use super::asking::Asking;
use super::conflict::{Conflict, Ours};
use super::receiver::{Receiver, ReceiverConfig, Refused, Taken, Unknown, Way};
use super::relay::Relay;
use super::set::FecSet;
use super::signing::{Signing, Unsigned};
use super::tile::{Counters, Shred};
use crate::links::{DUMP, Datagram, Outgoing, PeerNews, PortKind, SlotNews};

/// How often it is looked for what is missing.
const LOOK_NS: u64 = 5_000_000;
/// Bytes for the tables of keys that sign pings and last sets.
const TABLE_BYTES: usize = 1 << 20;
/// Sets of own blocks that wait to be sent again.
const RESENT_SETS: usize = 64;

/// The store is read so often for the proof of a contradiction.
const PROOF_TRIES: u8 = 3;

/// Who follows whom.
#[derive(Clone)]
pub struct Cluster {
    /// What to take.
    pub receiver: ReceiverConfig,
    /// The chain.
    pub ledger: Arc<Ledger>,
    /// The blocks that are there.
    pub blocks: Reader,
    /// What consensus says of single slots.
    pub views: Arc<Views>,
}

/// Takes shreds.
pub(super) struct Intake {
    cluster: Cluster,
    view: View,
    receiver: Receiver,
    relay: Relay,
    asking: Asking,
    signing: Signing,
    /// Of pings and of those who send shreds on.
    verifier: Verifier,
    look_at: u64,
    /// Sets of own blocks that are to be sent again.
    resending: VecDeque<FecSet>,
    /// How often the store was looked into for a shred that a leader contradicts.
    tries: BTreeMap<u64, u8>,
    /// Of the slots this tile takes those with this remainder.
    share: (u64, u64),
    net: Port,
    store: Port,
    gossip: Port,
    /// News of slots that gossip had no room for.
    lost_news: u64,
}

impl Intake {
    pub fn new(cluster: Cluster, host: &mut Host<'_>, [net, sign, store, gossip]: [Port; 4]) -> Self {
        let root = cluster.ledger.recent_blocks(1)[0].slot;
        let own = cluster.receiver.own;
        Self {
            receiver: Receiver::new(cluster.receiver.clone(), root),
            relay: Relay::new(own, net),
            asking: Asking::new(own, host),
            resending: VecDeque::new(),
            signing: Signing::new(sign),
            verifier: Verifier::new(VerifierConfig { cache_bytes: TABLE_BYTES, ..VerifierConfig::default() }),
            cluster,
            view: View::new(own),
            look_at: 0,
            tries: BTreeMap::new(),
            share: (host.index() as u64, host.peers() as u64),
            net,
            store,
            gossip,
            lost_news: 0,
        }
    }

    /// What gossip says of a node.
    pub fn peer(&mut self, news: PeerNews) {
        match news {
            PeerNews::Known(peer) => self.view.put(&peer),
            PeerNews::Gone(node) => self.view.remove(&node),
        }
    }

    /// Tells gossip of a slot, where there is room.
    fn tell(&mut self, news: SlotNews<'_>, out: &mut Out<'_, Shred>) {
        if out.credits(self.gossip, 1) == 0 {
            self.lost_news += 1;
        } else {
            out.publish_with(self.gossip, 0, |buffer| news.write(buffer));
        }
    }

    /// When there is something to do although nothing comes in.
    pub fn deadline(&self) -> u64 {
        self.look_at
    }

    /// This node makes a slot.
    pub fn makes(&mut self, slot: u64) {
        self.receiver.makes(slot);
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
                self.asking.ping((&ping, datagram.from), &self.view, &mut self.verifier, &mut self.signing, out);
            }
            Some(Answer::Shred(bytes, nonce)) => {
                if !self.asking.is_awaited(nonce, bytes) {
                    out.count.dropped_unasked += 1;
                    return;
                }
                out.count.shreds_repaired += 1;
                self.take(bytes, Way::Repair, out);
            }
            None => out.count.dropped_malformed += 1,
        }
    }

    fn take(&mut self, bytes: &[u8], way: Way, out: &mut Out<'_, Shred>) {
        let now = out.now();
        let Self { cluster, view, relay, verifier, .. } = self;
        let leader = |slot| cluster.ledger.leader_at(slot).map(|leader| leader.node);
        let is_whole = |slot| cluster.blocks.slot(slot).is_some_and(|info| info.whole);
        let sender = |shred: &Piece<'_>, leader: &_, root: &_| {
            way == Way::Repair || relay.is_sender_signed((cluster, view), (shred, leader, root), verifier, now)
        };
        let taken = self.receiver.take_if(bytes, way, now, leader, is_whole, sender);
        self.void_unknown(out);
        let taken = match taken {
            Ok(taken) => taken,
            Err(why) => return self.refused(why, out),
        };
        out.count.shreds_taken += 1;
        let Some(root) = self.receiver.set_root_of(taken.slot, taken.set_index) else { return };
        if way == Way::Turbine {
            self.relay.send_on((&self.cluster, &self.view), bytes, (&taken.leader, root), &mut self.signing, out);
        }
        if taken.completes {
            self.completed(&taken, root, out);
        }
    }

    /// Has the store forget what the receiver does not know: that a set of the same slot is of another block would not
    /// be noticed.
    fn void_unknown(&mut self, out: &mut Out<'_, Shred>) {
        for unknown in self.receiver.take_unknown() {
            let slot = match unknown {
                Unknown::Begun(slot) if self.cluster.blocks.slot(slot).is_none() => continue,
                Unknown::Begun(slot) | Unknown::Evicted(slot) => slot,
            };
            out.publish_control(self.store, slot, DUMP, &[]);
            out.count.voided_slots += 1;
        }
    }

    fn completed(&mut self, taken: &Taken, root: Hash, out: &mut Out<'_, Shred>) {
        let done = self.receiver.completed().expect("it was just completed");
        out.count.sets_completed += 1;
        out.count.shreds_recovered += u64::from(done.recovered.count_ones());
        let set = done.set;
        out.publish_with(self.store, taken.slot, |buffer| super::tile::write_message(set, done.parent_slot, buffer));
        let recovered = set.shreds().enumerate().filter(|(place, _)| done.recovered >> place & 1 == 1);
        for (_, shred) in recovered {
            self.relay.send_on((&self.cluster, &self.view), shred, (&taken.leader, root), &mut self.signing, out);
        }
        if taken.ends {
            self.tell(SlotNews::Whole(taken.slot), out);
        }
    }

    fn refused(&mut self, why: Refused, out: &mut Out<'_, Shred>) {
        count(why, out.count);
        match why {
            Refused::Equivocation => {
                if let Some(conflict) = self.receiver.take_conflict() {
                    self.contradiction(conflict, out);
                }
            }
            Refused::BrokenSet => {
                if let Some(slot) = self.receiver.take_torn() {
                    self.dump_stored(slot, out);
                }
            }
            _ => {}
        }
    }

    /// Tells that a leader has contradicted itself, with the two shreds that prove it.
    fn contradiction(&mut self, conflict: Conflict, out: &mut Out<'_, Shred>) {
        let Conflict { slot, theirs, ours } = conflict;
        let ours = match ours {
            Ours::Shred(bytes) => Some(bytes),
            Ours::Stored { set_index, place } => self.stored(slot, set_index, place),
        };
        match ours {
            Some(ours) => self.tell(SlotNews::Contradiction { slot, shreds: [&ours, &theirs] }, out),
            // What is not on disk yet may be when the next one comes.
            None if self.tries_left(slot) => return,
            // Sets that are not filled as ours are cannot be made again from what is stored: no proof, yet it is so.
            None => self.tell(SlotNews::Duplicate(slot), out),
        }
        self.receiver.told(slot);
        out.count.duplicate_slots += 1;
    }

    /// Whether the other shred of a contradiction may be looked for once more.
    fn tries_left(&mut self, slot: u64) -> bool {
        self.tries = self.tries.split_off(&(self.receiver.root() + 1));
        let tries = self.tries.entry(slot).or_default();
        *tries += 1;
        *tries < PROOF_TRIES
    }

    /// A data shred of a set that is stored.
    fn stored(&self, slot: u64, set_index: u32, place: usize) -> Option<Vec<u8>> {
        let (mut found, version) = (None, self.cluster.receiver.version);
        // What cannot be read is not here.
        let _ = self.cluster.blocks.sets(slot, |set| {
            if set.fec_set_index == set_index {
                found = FecSet::of_record(set, version);
            }
        });
        found?.shreds().nth(place).map(<[u8]>::to_vec)
    }

    /// Has another block of a slot taken in the place of the one that is here.
    fn dump(&mut self, Dump { slot, wanted }: Dump, out: &mut Out<'_, Shred>) {
        if slot <= self.receiver.root() {
            return;
        }
        let mut roots = vec![];
        let _ = self.cluster.blocks.sets(slot, |set| roots.push(set.merkle_root));
        self.receiver.dump(slot, roots, wanted);
        self.dump_stored(slot, out);
    }

    fn dump_stored(&mut self, slot: u64, out: &mut Out<'_, Shred>) {
        out.publish_control(self.store, slot, DUMP, &[]);
        out.count.slots_dumped += 1;
    }

    /// Where this node, as the leader, sends each shred of a set: the roots of their trees.
    pub fn roots(&mut self, shreds: &[&[u8]], now: u64, roots: &mut BTreeMap<SocketAddr, Vec<usize>>) {
        self.relay.roots((&self.cluster, &self.view), shreds, now, roots);
    }

    /// A slot of this node's own is whole.
    pub fn own_is_whole(&mut self, slot: u64, out: &mut Out<'_, Shred>) {
        self.tell(SlotNews::Whole(slot), out);
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
        let (index, peers) = self.share;
        let mut dumps = self.cluster.views.reports.take_dumps(|slot| slot % peers == index);
        // A burst of frags is what a turn has room for.
        while let Some(dump) = dumps.pop() {
            match out.credits(self.store, 1) {
                0 => self.cluster.views.reports.dump(dump),
                _ => self.dump(dump, out),
            }
        }
        while out.credits(self.store, 1) > 0
            && let Some(slot) = self.receiver.take_lost(now)
        {
            self.dump_stored(slot, out);
        }
        for slot in self.cluster.views.reports.take_resends() {
            self.read_again(slot);
        }
        for slot in self.cluster.views.reports.take_voted(|slot| slot % peers == index) {
            self.asking.voted_for(slot, now);
        }
        let evicted = self.receiver.evicted();
        (out.count.evicted_sets, out.count.evicted_slots) = (evicted.sets, evicted.slots);
        out.count.reports_lost = self.lost_news + self.cluster.views.reports.lost();
        self.asking.work((&self.cluster, &self.receiver, &self.view), self.share, &mut self.signing, out)
    }

    /// Reads the beginning of an own block, to be sent again: who has that asks for the rest.
    fn read_again(&mut self, slot: u64) {
        let (version, resending) = (self.cluster.receiver.version, &mut self.resending);
        let read = |record: &FecSetRecord<'_>| {
            if resending.len() < RESENT_SETS {
                resending.extend(FecSet::of_record(record, version));
            }
        };
        // What cannot be read now is asked for again.
        let _ = self.cluster.blocks.sets(slot, read);
    }

    /// A set of an own block that is to be sent again.
    pub fn resend(&mut self) -> Option<FecSet> {
        self.resending.pop_front()
    }

    /// What no block that comes will build on any more.
    fn final_slot(&self) -> u64 {
        self.cluster.ledger.slot(hearth_ledger::Commitment::Finalized)
    }

    /// What was to be signed is: off it goes.
    pub fn signed(&mut self, tag: u64, signature: &Signature, out: &mut Out<'_, Shred>) {
        let (to, bytes) = match self.signing.answered(tag) {
            Unsigned::Root { slot } => return self.relay.signed((&self.cluster, &self.view), slot, signature, out),
            Unsigned::Request { to, mut bytes } => {
                repair::set_signature(&mut bytes, signature);
                (to, bytes)
            }
            Unsigned::Pong { to, hash } => {
                let from = self.cluster.receiver.own;
                (to, repair::write_pong(&Pong { from, hash, signature: *signature }))
            }
        };
        if out.credits(self.net, 1) == 0 {
            out.count.dropped_shreds += 1;
        } else {
            send(self.net, (to, PortKind::Repair), &bytes, out);
        }
    }
}

pub(super) fn send(net: Port, to: (SocketAddr, PortKind), data: &[u8], out: &mut Out<'_, Shred>) {
    out.publish_with(net, 0, |buffer| {
        buffer[Outgoing::HEADER..][..data.len()].copy_from_slice(data);
        Outgoing::write_header(buffer, to, 0, data.len())
    });
}

/// The shred in front of what may be behind it.
pub(super) fn piece(bytes: &[u8]) -> Result<Piece<'_>, Refused> {
    use hearth_wire::shred::{VARIANT, Variant};
    let variant = bytes.get(VARIANT).and_then(|byte| Variant::from_byte(*byte)).ok_or(Refused::Malformed)?;
    let bytes = bytes.get(..variant.kind.size()).ok_or(Refused::Malformed)?;
    Piece::parse(bytes).map_err(|_| Refused::Malformed)
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
        Refused::Dumped => &mut count.dropped_dumped,
        Refused::Sender => &mut count.dropped_sender,
    };
    *counter += 1;
}
