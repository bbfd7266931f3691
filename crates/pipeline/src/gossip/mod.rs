//! gossip: who is in the cluster and what each node says, with the state machine of [`hearth_cluster::gossip`].
//!
//! reads   `net_gossip` ×N, reliable: datagrams; `sign_gossip`, reliable: signatures; stakes, leaders and roots, in the
//!         ledger; what shred reports of slots, and the votes of consensus
//! writes  `gossip_net`, elective: datagrams to send; `gossip_sign`, elective: what is to be signed; the [`Board`]: views
//!         of the cluster for the tiles and the RPC, votes and slots of others for consensus
//! memory  the table and what else [`protocol::Config::bytes_max`] sums up; the datagrams of one message's answer, while
//!         net has no room
//! drops   what the state machine refuses, by its counters; votes and slots of nodes without stake, counted. Without
//!         room at net it takes nothing, and net drops what comes to it
//! source  `docs/gossip.md`
//!
//! The tile holds no key: see `crate::sign`. It stamps what it says by the wall clock of its host, and sleeps by the
//! clock that never goes back.

mod counters;

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;

use hearth_cluster::board::Board;
use hearth_cluster::gossip::{self as protocol, Cursor, DuplicateProof, Event, Outbox};
use hearth_cluster::reports::Contradiction;
use hearth_ledger::blockstore::Reader;
use hearth_ledger::stakes::EpochStakes;
use hearth_ledger::{Commitment, Ledger};
use hearth_tile::latency::{LatencyDecl, TAKEN};
use hearth_tile::{Filter, Frag, FragMeta, Host, In, InitError, Out, Poll, Port, Tile, WaitFor};
use hearth_wire::Pubkey;
use hearth_wire::gossip::ContactInfo;

use crate::links::{Datagram, GOSSIP_NET, GOSSIP_SIGN, GOSSIP_SIGN_DEPTH, NET_GOSSIP, Outgoing, PortKind, SIGN_GOSSIP};

pub use counters::Counters;

const MS: u64 = 1_000_000;
/// How often what gossip knows is posted for others.
const POST_NS: u64 = 100 * MS;
/// How often the stakes are looked at, and the lowest slot that is kept.
const STAKES_NS: u64 = 5_000 * MS;
/// The longest sleep, ms: a wall clock that was set back is noticed after that.
const SLEEP_MAX_MS: u64 = 500;
/// Milliseconds of a slot as the cluster counts them for timeouts.
const SLOT_MS: u64 = 400;

/// What the tile is made of.
#[derive(Clone)]
pub struct Config {
    /// Whom to begin with, and what bounds the tables.
    pub protocol: protocol::Config,
    /// What the node says of itself.
    pub own: ContactInfo,
    /// Whose stakes count, who leads, what is final.
    pub ledger: Arc<Ledger>,
    /// The blocks that the node serves to others.
    pub blocks: Reader,
    /// Where it posts what it knows.
    pub board: Arc<Board>,
}

/// The tile.
pub struct Gossip {
    machine: protocol::Gossip,
    ledger: Arc<Ledger>,
    blocks: Reader,
    board: Arc<Board>,
    net: Port,
    sign: Port,
    signatures: In,
    outbox: Outbox,
    /// Datagrams of the outbox that net has.
    sent: usize,
    /// When these are due, on the host's clock.
    tick_ns: u64,
    post_ns: u64,
    stakes_ns: u64,
    /// How far votes and slots were read.
    votes: Cursor,
    slots: Cursor,
    /// The slot that gossip takes to be final; none before the first look.
    root: Option<u64>,
    /// Nodes with stake; none where nobody has any.
    voters: HashSet<Pubkey>,
}

impl Tile for Gossip {
    const NAME: &'static str = "gossip";
    const BURST: usize = 0;
    /// A datagram may have ten signatures to check, and other tiles may share the core.
    const FRAGS_PER_RUN: usize = 4;
    const LATENCIES: &'static [LatencyDecl] =
        &[LatencyDecl { help: "Time from the receipt of a datagram until this tile takes it in hand.", ..TAKEN }];
    type Config = Config;
    type Counters = Counters;

    fn new(config: Config, host: &mut Host<'_>) -> Result<Self, InitError> {
        let (net, sign) = (host.output(GOSSIP_NET)?, host.output(GOSSIP_SIGN)?);
        host.input(NET_GOSSIP)?;
        [net, sign].into_iter().for_each(|port| host.elective(port));
        let now_ms = host.clock().wall_ns() / MS;
        let waker = host.waker();
        config.board.talk.set_wake(move || waker.wake());
        let Config { protocol, own, ledger, blocks, board } = config;
        Ok(Self {
            machine: protocol::Gossip::new(protocol, own, host.secret(), now_ms),
            ledger,
            blocks,
            board,
            net,
            sign,
            signatures: host.input(SIGN_GOSSIP)?,
            outbox: Outbox::default(),
            sent: 0,
            tick_ns: 0,
            post_ns: 0,
            stakes_ns: 0,
            votes: Cursor::default(),
            slots: Cursor::default(),
            root: None,
            voters: HashSet::new(),
        })
    }

    fn filter(&mut self, _: &FragMeta, _: In) -> Filter {
        // What comes may have to be answered.
        if self.outbox.is_empty() { Filter::Take } else { Filter::Later }
    }

    fn on_frag(&mut self, frag: Frag<'_>, out: &mut Out<'_, Self>) {
        let now_ms = out.wall_ns() / MS;
        if frag.input() == self.signatures {
            let signature = frag.payload().try_into().expect("sign gives signatures");
            self.machine.signed(now_ms, frag.tag(), signature, &mut self.outbox);
        } else {
            let Datagram { from, data, .. } = Datagram::read(frag.payload());
            self.machine.receive(now_ms, from, data, &mut self.outbox);
        }
        self.send(out);
    }

    fn end_burst(&mut self, out: &mut Out<'_, Self>) {
        self.hear(out);
        self.events();
        self.have_signed(out);
        self.set_timer(out);
    }

    fn poll(&mut self, out: &mut Out<'_, Self>) -> Poll {
        if !self.outbox.is_empty() && !self.send(out) {
            return Poll::Idle;
        }
        let has_votes = self.say(out);
        if !has_votes && out.now() < self.due_ns() {
            return Poll::Idle;
        }
        if out.now() >= self.stakes_ns {
            self.stakes_ns = out.now() + STAKES_NS;
            self.stakes();
            self.lowest(out);
        }
        self.machine.tick(out.wall_ns() / MS, &mut self.outbox);
        if out.now() >= self.post_ns {
            self.post_ns = out.now() + POST_NS;
            self.slots(out);
            self.snapshot(out);
            self.board.post(&self.machine);
        }
        self.have_signed(out);
        self.send(out);
        self.set_timer(out);
        Poll::Busy
    }

    fn housekeep(&mut self, out: &mut Out<'_, Self>) {
        out.count.protocol = *self.machine.counters();
    }

    fn wait_for(&self) -> WaitFor {
        // With datagrams in hand it waits for room, which net announces.
        WaitFor { deadline: self.outbox.is_empty().then(|| self.due_ns()), ..WaitFor::default() }
    }
}

impl Gossip {
    fn due_ns(&self) -> u64 {
        self.tick_ns.min(self.post_ns).min(self.stakes_ns)
    }

    /// Sets when the state machine has something to do again.
    fn set_timer(&mut self, out: &Out<'_, Self>) {
        let wait_ms = self.machine.next_tick().saturating_sub(out.wall_ns() / MS);
        self.tick_ns = out.now() + wait_ms.min(SLEEP_MAX_MS) * MS;
    }

    /// Gives datagrams to net, as far as there is room. Whether all are gone.
    fn send(&mut self, out: &mut Out<'_, Self>) -> bool {
        for (to, data) in self.outbox.iter().skip(self.sent) {
            if out.credits(self.net, 1) == 0 {
                out.held_up();
                return false;
            }
            out.publish_with(self.net, 0, |buffer| {
                buffer[Outgoing::HEADER..][..data.len()].copy_from_slice(data);
                Outgoing::write_header(buffer, (SocketAddr::V4(to), PortKind::Gossip), 0, data.len())
            });
            self.sent += 1;
        }
        self.outbox.clear();
        self.sent = 0;
        true
    }

    /// Has signed what is to be, as far as sign can answer at once.
    fn have_signed(&mut self, out: &mut Out<'_, Self>) {
        while self.machine.requests_in_flight() < GOSSIP_SIGN_DEPTH && out.credits(self.sign, 1) > 0 {
            let Some(request) = self.machine.next_request() else { return };
            out.publish_control(self.sign, request.tag, request.kind as u16, &request.bytes);
        }
    }

    /// Says what consensus wants said. Whether there was anything.
    fn say(&mut self, out: &Out<'_, Self>) -> bool {
        let votes = self.board.talk.to_say();
        for vote in &votes {
            // The only error is that it is no vote, and this node makes none that is not.
            let _ = self.machine.publish_vote(vote, out.wall_ns() / MS);
        }
        !votes.is_empty()
    }

    /// Tells consensus of what others say.
    fn hear(&mut self, out: &mut Out<'_, Self>) {
        let own = *self.machine.identity();
        let (votes, slots) = (self.machine.votes(&mut self.votes), self.machine.epoch_slots(&mut self.slots));
        let others = votes.chain(slots).filter(|value| value.label().pubkey != own);
        let counts = |node: &Pubkey| self.voters.is_empty() || self.voters.contains(node);
        out.count.own.unstaked_values += self.board.talk.hear(others, counts);
    }

    /// Looks at what the node must know at once.
    fn events(&mut self) {
        while let Some(event) = self.machine.next_event() {
            match event {
                Event::DuplicateInstance { .. } => self.board.set_double(),
                Event::DuplicateProof(proof) => self.proof(&proof),
            }
        }
    }

    /// Somebody says that a leader made two blocks.
    fn proof(&mut self, proof: &DuplicateProof) {
        let leader = self.ledger.leader_at(proof.slot);
        if self.machine.check_proof(proof, leader.map(|leader| leader.node).as_ref()) {
            self.board.views.reports.duplicate(proof.slot);
        }
    }

    /// Says what is known of single slots: which are whole here, and whose leaders made two blocks.
    fn slots(&mut self, out: &Out<'_, Self>) {
        let (root, now_ms) = (self.ledger.slot(Commitment::Finalized), out.wall_ns() / MS);
        if self.root.replace(root) != Some(root) {
            self.machine.set_root(root, self.ledger.slots_per_epoch());
        }
        let reports = &self.board.views.reports;
        for Contradiction { slot, shreds } in reports.take_contradictions() {
            // Two shreds are three pieces, and a slot that has an epoch is no larger than any.
            let published = self.machine.publish_duplicate(slot, shreds.each_ref().map(Vec::as_slice), now_ms);
            published.expect("two shreds keep all rules");
            self.machine.mark_duplicate(slot);
            reports.duplicate(slot);
        }
        let mut whole = reports.take_whole();
        whole.sort_unstable();
        self.machine.publish_epoch_slots(&whole, now_ms).expect("slots that have leaders are no larger than any");
    }

    /// Says which snapshot this node serves, when it has another than the one that it says it has.
    fn snapshot(&mut self, out: &Out<'_, Self>) {
        let Some(newest) = self.ledger.snapshots().and_then(|snapshots| snapshots.newest()) else { return };
        let known = self.machine.snapshot_hashes(self.machine.identity());
        if known.is_none_or(|known| known.full != newest) {
            let published = self.machine.publish_snapshots(newest, &[], out.wall_ns() / MS);
            published.expect("one snapshot keeps all rules");
        }
    }

    /// Says how far back this node can serve others; gossip says it anew only where it has changed.
    fn lowest(&mut self, out: &Out<'_, Self>) {
        if let Some(lowest) = self.blocks.first_slot() {
            let published = self.machine.publish_lowest_slot(lowest, out.wall_ns() / MS);
            published.expect("a slot that is kept is no larger than any");
        }
    }

    fn stakes(&mut self) {
        let ledger = &self.ledger;
        let epoch = ledger.epoch_schedule().epoch(ledger.slot(Commitment::Finalized));
        let mut stakes: HashMap<Pubkey, u64> = HashMap::new();
        for vote in of_next(epoch, |epoch| ledger.epoch_stakes(epoch)).iter().flat_map(|stakes| &stakes.votes) {
            *stakes.entry(vote.node).or_default() += vote.stake;
        }
        self.voters = voters([epoch, epoch + 1].map(|epoch| ledger.epoch_stakes(epoch)));
        self.machine.set_stakes(stakes, ledger.slots_per_epoch() * SLOT_MS);
    }
}

/// What is known of the epoch after the root's: all of gossip counts by its stakes. Where it is not known, that of the
/// root's own.
fn of_next<T>(root: u64, known: impl Fn(u64) -> Option<T>) -> Option<T> {
    known(root + 1).or_else(|| known(root))
}

/// The nodes that have stake in one of these epochs.
fn voters(epochs: [Option<Arc<EpochStakes>>; 2]) -> HashSet<Pubkey> {
    let votes = epochs.iter().flatten().flat_map(|stakes| &stakes.votes);
    votes.filter(|vote| vote.stake > 0).map(|vote| vote.node).collect()
}

#[cfg(test)]
mod tests;
