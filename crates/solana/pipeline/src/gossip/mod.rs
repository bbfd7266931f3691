//! gossip: who is in the cluster and what each node says, with the state machine of [`hearth_gossip`].
//!
//! reads   `net_gossip` ×N, reliable: datagrams; `sign_gossip`, reliable: signatures; `shred_gossip` ×S, reliable:
//!         slots that are whole here, and equivocating leaders; `tower_gossip`, reliable: the node's votes and its
//!         root; the ledger's stakes, leaders and snapshots
//! writes  `gossip_net`, elective: datagrams to send; `gossip_sign`, elective: messages to sign; `gossip_shred`,
//!         `gossip_repair`, `gossip_txsend`, elective: the nodes of the cluster, each again when it changes;
//!         `gossip_tower`, elective: the same, other nodes' votes and slots, and slots with equivocating leaders; the
//!         [`Board`], for the RPC
//! memory  the table and everything else that [`protocol::Config::bytes_max`] sums up; the datagrams of one message's
//!         response, while net has no room; 160 B per node for each of four consumers; [`WHOLE_MAX`] and
//!         [`DUPLICATES_MAX`] slots
//! drops   what the state machine refuses, by its counters; votes and slots of nodes without stake, and slots with
//!         equivocating leaders while consensus does not read, counted. Without room on the link to net it takes no
//!         datagrams, and net drops what arrives. A vote that is replaced before consensus has room for it is skipped
//! source  `docs/gossip.md`
//!
//! The tile holds no key: see `crate::sign`. It timestamps its values by the wall clock of its host, and sleeps by the
//! monotonic clock.

mod announcer;
mod counters;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use hearth_consensus::NearSlots;
use hearth_gossip::board::Board;
use hearth_gossip::{self as protocol, Cursor, DuplicateProof, Event, Outbox, Peer};
use hearth_ledger::blockstore::Reader;
use hearth_ledger::stakes::EpochStakes;
use hearth_ledger::{Commitment, Ledger};
use hearth_tile::latency::{LatencyDecl, TAKEN};
use hearth_tile::{Filter, Frag, FragMeta, Host, In, InitError, Out, Poll, Port, Tile, WaitFor};
use hearth_wire::gossip::{ContactInfo, CrdsData, CrdsKind, CrdsValue};
use hearth_wire::{Hash, Pubkey};
use parking_lot::Mutex;

use crate::identity::IdentityWatch;
use crate::links::{
    Datagram, GOSSIP_NET, GOSSIP_REPAIR, GOSSIP_SHRED, GOSSIP_SIGN, GOSSIP_SIGN_DEPTH, GOSSIP_TOWER, GOSSIP_TXSEND,
    NET_GOSSIP, Outgoing, PortKind, SHRED_GOSSIP, SIGN_GOSSIP, SlotNews, Statement, TOWER_GOSSIP, TowerNews,
};
use crate::timer::next_look;
use announcer::Announcer;

pub use counters::Counters;

const MS: u64 = 1_000_000;
/// How long changes of nodes and slots wait for others, so that many are handled at once.
const NEWS_NS: u64 = 100 * MS;
/// How often to refresh the stakes and the lowest available slot.
const STAKES_NS: u64 = 5_000 * MS;
/// Maximum sleep in milliseconds, so that a wall clock that was set back is noticed.
const SLEEP_MAX_MS: u64 = 500;
/// Timers are rounded up to a multiple of this, like those of tower and repair, so that one wake-up serves all. It is
/// half the interval between two pushes.
const GRID_NS: u64 = 5 * MS;
/// Slot length in milliseconds, as the cluster counts it for timeouts.
const SLOT_MS: u64 = 400;
/// Maximum whole slots that wait to be published: beyond that they are published at once.
const WHOLE_MAX: usize = 4_096;
/// Maximum slots with equivocating leaders that wait for room.
const DUPLICATES_MAX: usize = 4_096;
/// Values passed to consensus per turn: a list of slots may take 50 µs.
const TOLD_AT_ONCE: usize = 16;

/// Number of consumers of node news.
const READERS: u64 = 4;

/// Maximum bytes of the tile, besides its links.
pub fn bytes_max(config: &protocol::Config) -> u64 {
    // The table may briefly exceed its limit by a tenth; removed nodes are removed for every consumer.
    let nodes = (config.origins_max + config.origins_max / 10) as u64;
    config.bytes_max() + READERS * nodes * announcer::PEER_BYTES + 8 * (WHOLE_MAX + DUPLICATES_MAX) as u64
}

/// The configuration of gossip.
#[derive(Clone)]
pub struct Config {
    /// Entrypoints and limits of the tables.
    pub protocol: protocol::Config,
    /// This node's contact info.
    pub own: ContactInfo,
    /// Its identity; it begins with that of the contact info.
    pub identity: IdentityWatch,
    /// The ledger, for stakes, leaders and the final slot.
    pub ledger: Arc<Ledger>,
    /// Reads the blocks that the node serves to others.
    pub blocks: Reader,
    /// The cluster's archives that this node serves, which are announced in place of the ledger's own snapshots.
    pub archives: Arc<AnnouncedArchives>,
    /// Receives the known nodes, for the RPC.
    pub board: Arc<Board>,
}

/// Archives of snapshots that a node serves: slot and hash of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServedArchives {
    /// Slot and hash of the full archive.
    pub full: (u64, Hash),
    /// One that builds on it, of a later slot.
    pub incremental: Option<(u64, Hash)>,
}

/// The archives that are announced. A node that writes newer ones replaces them.
#[derive(Debug, Default)]
pub struct AnnouncedArchives(Mutex<Option<ServedArchives>>);

impl AnnouncedArchives {
    /// Announces these from now on.
    pub fn set(&self, archives: Option<ServedArchives>) {
        *self.0.lock() = archives;
    }

    /// The archives that are announced now; `None` if there are none.
    pub fn get(&self) -> Option<ServedArchives> {
        *self.0.lock()
    }
}

/// Runs the state machine between its links.
pub struct Gossip {
    machine: protocol::Gossip,
    identity: IdentityWatch,
    ledger: Arc<Ledger>,
    blocks: Reader,
    archives: Arc<AnnouncedArchives>,
    board: Arc<Board>,
    net: Port,
    sign: Port,
    tower: Port,
    signatures: In,
    statements: In,
    slot_news: Vec<In>,
    announcers: Vec<Announcer>,
    outbox: Outbox,
    /// How many datagrams of the outbox were sent to net.
    sent: usize,
    /// Next deadlines, on the host's clock; that of news counts only if there is any.
    tick_ns: u64,
    news_ns: u64,
    stakes_ns: u64,
    /// Up to which change of the nodes the consumers were notified.
    peer_changes: Option<u64>,
    /// Slots that are whole here and not published yet.
    whole: Vec<u64>,
    /// Up to where votes and slots were read.
    votes: Cursor,
    slots: Cursor,
    /// Consensus needs nothing about slots up to this one.
    root: u64,
    /// The slot that gossip treats as final; `None` before the first refresh.
    finalized: Option<u64>,
    /// Slots with equivocating leaders, to be reported to consensus.
    duplicates: VecDeque<u64>,
    /// Whether another process has this node's key and consensus was not notified yet.
    is_double: bool,
    /// Whether news for consensus remains, for lack of room or of time.
    has_more_news: bool,
    /// Nodes with stake; empty if no node has any.
    voters: HashSet<Pubkey>,
}

impl Tile for Gossip {
    const NAME: &'static str = "gossip";
    const BURST: usize = 0;
    /// A datagram may need ten signature checks, and other tiles may share the core.
    const FRAGS_PER_RUN: usize = 4;
    const LATENCIES: &'static [LatencyDecl] =
        &[LatencyDecl { help: "Time from the receipt of a datagram until this tile reads it.", ..TAKEN }];
    type Config = Config;
    type Counters = Counters;

    fn new(config: Config, host: &mut Host<'_>) -> Result<Self, InitError> {
        let (net, sign, tower) = (host.output(GOSSIP_NET)?, host.output(GOSSIP_SIGN)?, host.output(GOSSIP_TOWER)?);
        let readers: [Port; READERS as usize] =
            [host.output(GOSSIP_SHRED)?, host.output(GOSSIP_REPAIR)?, host.output(GOSSIP_TXSEND)?, tower];
        host.input(NET_GOSSIP)?;
        [net, sign].into_iter().chain(readers).for_each(|port| host.elective(port));
        let now_ms = host.clock().wall_ns() / MS;
        let Config { protocol, own, identity, ledger, blocks, archives, board } = config;
        Ok(Self {
            machine: protocol::Gossip::new(protocol, own, host.secret(), now_ms),
            identity,
            root: ledger.slot(Commitment::Finalized),
            ledger,
            blocks,
            archives,
            board,
            net,
            sign,
            tower,
            signatures: host.input(SIGN_GOSSIP)?,
            statements: host.input(TOWER_GOSSIP)?,
            slot_news: host.inputs_named(SHRED_GOSSIP),
            announcers: readers.map(Announcer::new).into(),
            outbox: Outbox::default(),
            sent: 0,
            tick_ns: 0,
            news_ns: 0,
            stakes_ns: 0,
            peer_changes: None,
            whole: vec![],
            votes: Cursor::default(),
            slots: Cursor::default(),
            finalized: None,
            duplicates: VecDeque::new(),
            is_double: false,
            has_more_news: false,
            voters: HashSet::new(),
        })
    }

    fn filter(&mut self, _: &FragMeta, input: In) -> Filter {
        // Only input from other nodes and signatures produce datagrams at once.
        let is_quiet = input == self.statements || self.slot_news.contains(&input);
        if is_quiet || self.outbox.is_empty() { Filter::Take } else { Filter::Later }
    }

    fn on_frag(&mut self, frag: Frag<'_>, out: &mut Out<'_, Self>) {
        let now_ms = out.wall_ns() / MS;
        match frag.input() {
            input if input == self.signatures => {
                if frag.payload().is_empty() {
                    self.machine.refused(frag.tag());
                } else {
                    let signature = frag.payload().try_into().expect("sign answers with a signature, or nothing");
                    self.machine.signed(now_ms, frag.tag(), signature, &mut self.outbox);
                }
            }
            input if input == self.statements => self.on_statement(Statement::read(frag.payload()), now_ms),
            input if self.slot_news.contains(&input) => self.on_slot(SlotNews::read(frag.payload()), now_ms, out),
            _ => {
                let Datagram { from, data, .. } = Datagram::read(frag.payload());
                self.machine.receive(now_ms, from, data, &mut self.outbox);
            }
        }
        self.send(out);
    }

    fn end_burst(&mut self, out: &mut Out<'_, Self>) {
        self.events(out);
        self.notify_tower(out);
        self.have_signed(out);
        self.set_timer(out);
    }

    fn poll(&mut self, out: &mut Out<'_, Self>) -> Poll {
        let has_told = self.has_more_news && self.notify_tower(out);
        if !self.outbox.is_empty() && !self.send(out) {
            return if has_told { Poll::Busy } else { Poll::Idle };
        }
        if out.now() < self.due_ns() {
            return if has_told { Poll::Busy } else { Poll::Idle };
        }
        if out.now() >= self.stakes_ns {
            self.stakes_ns = next_look(out.now(), STAKES_NS);
            self.look_at_ledger(out);
        }
        self.machine.tick(out.wall_ns() / MS, &mut self.outbox);
        if self.has_news() && out.now() >= self.news_ns {
            self.news_ns = next_look(out.now(), NEWS_NS);
            self.publish_news(out);
        }
        self.notify_tower(out);
        self.have_signed(out);
        self.send(out);
        self.set_timer(out);
        Poll::Busy
    }

    fn housekeep(&mut self, out: &mut Out<'_, Self>) {
        if let Some(identity) = self.identity.changed() {
            self.machine.set_identity(identity, out.wall_ns() / MS);
            self.is_double = false;
            // What it says of itself is due.
            self.tick_ns = 0;
            self.stakes_ns = 0;
        }
        out.count.protocol = *self.machine.counters();
    }

    fn wait_for(&self, wait: &mut WaitFor) {
        // While datagrams are pending the tile waits for room, which net announces.
        wait.until(self.outbox.is_empty().then(|| self.due_ns()));
    }
}

impl Gossip {
    fn due_ns(&self) -> u64 {
        let news = if self.has_news() { self.news_ns } else { u64::MAX };
        self.tick_ns.min(self.stakes_ns).min(news)
    }

    /// Whether there is news for other tiles, or whole slots to publish.
    fn has_news(&self) -> bool {
        self.peer_changes != Some(self.machine.peer_changes())
            || !self.whole.is_empty()
            || self.announcers.iter().any(Announcer::is_behind)
    }

    /// Schedules the next tick of the state machine.
    fn set_timer(&mut self, out: &Out<'_, Self>) {
        let wait_ms = self.machine.next_tick().saturating_sub(out.wall_ns() / MS);
        let due_ns = out.now() + wait_ms * MS;
        self.tick_ns = match wait_ms {
            0 => due_ns,
            _ => due_ns.next_multiple_of(GRID_NS).min(out.now() + SLEEP_MAX_MS * MS),
        };
    }

    /// Sends datagrams to net as far as there is room. Returns whether all are sent.
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

    /// Submits messages to sign, at most as many as sign can answer at once: it never waits for room in its link back.
    fn have_signed(&mut self, out: &mut Out<'_, Self>) {
        while self.machine.requests_in_flight() < GOSSIP_SIGN_DEPTH && out.credits(self.sign, 1) > 0 {
            let Some(request) = self.machine.next_request() else { return };
            out.publish_control(self.sign, request.tag, request.kind as u16, &request.bytes);
        }
    }

    /// Publishes a statement of consensus.
    fn on_statement(&mut self, statement: Statement<'_>, now_ms: u64) {
        match statement {
            // This fails only for a transaction that is no vote, and consensus makes none such.
            Statement::Vote(transaction) => {
                let _ = self.machine.publish_vote(transaction, now_ms);
            }
            Statement::Root(slot) => self.root = self.root.max(slot),
        }
    }

    /// Handles a shred tile's news of a slot.
    fn on_slot(&mut self, news: SlotNews<'_>, now_ms: u64, out: &mut Out<'_, Self>) {
        match news {
            SlotNews::Whole(slot) => {
                self.whole.push(slot);
                if self.whole.len() >= WHOLE_MAX {
                    self.say_whole(now_ms);
                }
            }
            SlotNews::Duplicate(slot) => self.duplicate(slot, out),
            SlotNews::Contradiction { slot, shreds } => {
                // Two shreds fit into three chunks, and a slot with a known epoch is never too large.
                let published = self.machine.publish_duplicate(slot, shreds, now_ms);
                published.expect("two shreds keep all rules");
                self.machine.mark_duplicate(slot);
                self.duplicate(slot, out);
            }
        }
    }

    /// Queues a slot whose leader was proved to equivocate, for consensus.
    fn duplicate(&mut self, slot: u64, out: &mut Out<'_, Self>) {
        if self.duplicates.len() < DUPLICATES_MAX {
            self.duplicates.push_back(slot);
        } else {
            out.count.own.dropped_duplicates += 1;
        }
    }

    /// Handles events of the state machine that need immediate action.
    fn events(&mut self, out: &mut Out<'_, Self>) {
        while let Some(event) = self.machine.next_event() {
            match event {
                Event::DuplicateInstance { .. } => self.is_double = true,
                Event::DuplicateProof(proof) => self.proof(&proof, out),
            }
        }
    }

    /// Handles another node's proof that a leader equivocated.
    fn proof(&mut self, proof: &DuplicateProof, out: &mut Out<'_, Self>) {
        let leader = self.ledger.leader_at(proof.slot);
        if self.machine.check_proof(proof, leader.map(|leader| leader.node).as_ref()) {
            self.duplicate(proof.slot, out);
        }
    }

    /// Passes a bounded amount of other nodes' news to consensus as far as there is room; the rest stays in the table.
    /// Returns whether it passed anything.
    fn notify_tower(&mut self, out: &mut Out<'_, Self>) -> bool {
        self.has_more_news = false;
        let mut has_told = false;
        for _ in 0..TOLD_AT_ONCE {
            if out.credits(self.tower, 1) == 0 {
                break;
            }
            if std::mem::take(&mut self.is_double) {
                out.publish_with(self.tower, 0, |buffer| TowerNews::Double.write(buffer));
            } else if let Some(slot) = self.duplicates.pop_front() {
                out.publish_with(self.tower, 0, |buffer| TowerNews::Duplicate(slot).write(buffer));
            } else if let Some(value) = self.machine.next_value(CrdsKind::Vote, &mut self.votes) {
                publish_value(self.tower, (&value, &self.voters), (self.machine.identity(), self.root), out);
            } else if let Some(value) = self.machine.next_value(CrdsKind::EpochSlots, &mut self.slots) {
                publish_value(self.tower, (&value, &self.voters), (self.machine.identity(), self.root), out);
            } else {
                return has_told;
            }
            has_told = true;
        }
        self.has_more_news = true;
        has_told
    }

    /// Notifies the tiles of changed nodes and the RPC of all nodes, and publishes whole slots.
    fn publish_news(&mut self, out: &mut Out<'_, Self>) {
        let changes = self.machine.peer_changes();
        let is_behind = self.announcers.iter().any(Announcer::is_behind);
        if is_behind || self.peer_changes != Some(changes) {
            let peers: BTreeMap<Pubkey, Peer> = self.machine.peers().map(|peer| (peer.identity, peer)).collect();
            self.announcers.iter_mut().for_each(|announcer| announcer.announce(&peers, out));
        }
        if self.peer_changes.replace(changes) != Some(changes) {
            self.board.post(&self.machine);
        }
        self.say_whole(out.wall_ns() / MS);
    }

    fn say_whole(&mut self, now_ms: u64) {
        if self.whole.is_empty() {
            return;
        }
        self.whole.sort_unstable();
        self.machine.publish_epoch_slots(&self.whole, now_ms).expect("slots that have leaders are no larger than any");
        self.whole.clear();
    }

    /// Refreshes what changes rarely: stakes, the final slot, the lowest slot that this node serves, its snapshot.
    fn look_at_ledger(&mut self, out: &Out<'_, Self>) {
        self.stakes();
        let now_ms = out.wall_ns() / MS;
        let finalized = self.ledger.slot(Commitment::Finalized);
        if self.finalized.replace(finalized) != Some(finalized) {
            self.machine.set_root(finalized, self.ledger.slots_per_epoch());
        }
        if let Some(lowest) = self.blocks.first_slot() {
            // It is published again only if it has changed.
            let published = self.machine.publish_lowest_slot(lowest, now_ms);
            published.expect("a slot that is kept is no larger than any");
        }
        let own = || self.ledger.snapshots()?.newest().map(|full| ServedArchives { full, incremental: None });
        let known = self.machine.snapshot_hashes(self.machine.identity());
        let is_new = |served: &ServedArchives| {
            known.as_ref().is_none_or(|known| {
                known.full != served.full || known.incremental.first() != served.incremental.as_ref()
            })
        };
        if let Some(served) = self.archives.get().or_else(own).filter(is_new) {
            let published = self.machine.publish_snapshots(served.full, served.incremental.as_slice(), now_ms);
            published.expect("one snapshot, and one of a later slot, keep all rules");
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

/// Passes a vote or slots to consensus if they come from another node with stake.
fn publish_value(
    tower: Port,
    (value, voters): (&CrdsValue<'_>, &HashSet<Pubkey>),
    (own, root): (&Pubkey, u64),
    out: &mut Out<'_, Gossip>,
) {
    let node = value.label().pubkey;
    if node == *own {
        return;
    }
    if !voters.is_empty() && !voters.contains(&node) {
        out.count.own.unstaked_values += 1;
        return;
    }
    match value.data() {
        CrdsData::Vote(vote) => {
            out.publish_with(tower, 0, |buffer| TowerNews::Vote(vote.transaction).write(buffer));
        }
        CrdsData::EpochSlots(slots) => {
            let near = NearSlots::of(slots, root);
            if !near.is_empty() {
                out.publish_with(tower, 0, |buffer| TowerNews::Slots(node, near).write(buffer));
            }
        }
        _ => unreachable!("it was asked for votes and slots"),
    }
}

/// Returns what is known of the epoch after the root's, by whose stakes all of gossip counts; if it is not known, of
/// the root's own epoch.
fn of_next<T>(root: u64, known: impl Fn(u64) -> Option<T>) -> Option<T> {
    known(root + 1).or_else(|| known(root))
}

/// Returns the nodes with stake in one of these epochs.
fn voters(epochs: [Option<Arc<EpochStakes>>; 2]) -> HashSet<Pubkey> {
    let votes = epochs.iter().flatten().flat_map(|stakes| &stakes.votes);
    votes.filter(|vote| vote.stake > 0).map(|vote| vote.node).collect()
}

#[cfg(test)]
mod tests;
