//! tile: tower on a core, between links.
//!
//! reads   `replay_tower`, reliable: pieces of an [`Event`]; `gossip_tower`, reliable: nodes, votes and slots of
//!         others, slots whose leaders made two blocks; `sign_tower`, reliable: the signatures of a vote's message;
//!         `repair_tower`, reliable: the blocks that others have below one
//! writes  `tower_replay`, elective: a `Command`; `tower_sign`, elective: the message of a vote; `tower_txsend`,
//!         elective: a signed vote; `tower_gossip`, elective: a signed vote, and the root; `tower_shred`, elective: own
//!         blocks to send again; `tower_repair`, elective: slots to ask for, and whom to ask for the ancestors of a
//!         block; `tower_rserve`, elective: confirmed blocks
//! memory  that of [`Core`], of [`View`] and of [`Questions`]; an event; what waits for room: commands of one step and
//!         of [`COMMANDS`] votes of others, a message, the newest vote twice, the root, slots above the root twice,
//!         [`CONFIRMED_MAX`] confirmed blocks
//! drops   a vote that waits for room in txsend or in gossip when a newer one comes, which says all that it said;
//!         answers about ancestors that are not waited for: counted; of confirmed blocks that wait for room those that
//!         rserve would have forgotten
//! source  –
//!
//! No tile waits for another in a circle. Tower takes events and signatures whether or not there is room for what comes
//! of them. Each vote of another node is a command for replay, so that the news of gossip stays in its link while
//! [`COMMANDS`] of them wait; replay takes commands at any time. Between tower and gossip neither direction blocks:
//!
//! - `gossip_tower` loses nothing. Where it is full, gossip goes on, and keeps in its table what it has not said; there
//!   a newer vote of a node takes the place of an older one.
//! - `tower_gossip`: gossip takes what comes there whatever it waits for itself. Where the link is full all the same,
//!   tower goes on, and keeps the newest vote and the newest root: one that a newer one replaces is dropped.
//!
//! Nor between tower and repair. Questions for which `tower_repair` has no room stay due. Tower takes whatever comes on
//! `repair_tower`; where that is full all the same, repair drops the answer, and tower asks that node again.
//!
//! No key is here: sign has it. Another thread writes and syncs the files ([`Writer`](super::Writer)), since a sync
//! takes milliseconds and other tiles may share the core. A vote waits for it; the tile does not. A disk that fails for
//! another reason than that it is full ends the node: a vote whose tower is lost may contradict the next. So does
//! another process with this node's identity. Then the tile says so ([`Failure`]) and does nothing more.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use hearth_cluster::ancestors::{CONFIRMED_MAX, Questions};
use hearth_cluster::consensus::BankId;
use hearth_cluster::view::View;
use hearth_tile::{Clock, Filter, Frag, FragMeta, Host, In, InitError, Out, Poll, Port, Tile, WaitFor};
use hearth_wire::{Pubkey, Signature};

use super::codec::Pieces;
use super::core::{Core, Counters, Now, Output, TowerError};
use super::messages::Event;
use super::saved::Files;
use crate::failure::Failure;
use crate::links::{
    AncestorAnswer, AncestorQuestion, FAILED, GOSSIP_TOWER, PeerNews, REPAIR_TOWER, REPLAY_TOWER, SIGN_TOWER,
    Statement, TOWER_GOSSIP, TOWER_REPAIR, TOWER_REPLAY, TOWER_RSERVE, TOWER_SHRED, TOWER_SIGN, TOWER_TXSEND,
    TowerNews, VOTED,
};
use crate::repair::next_look;

/// How often the time is looked at, and questions for ancestors are asked, by a node that makes blocks; and how soon
/// consensus acts on what gossip said.
const TICK_NS: u64 = 10_000_000;
/// How often a node does that which makes no blocks.
const IDLE_TICK_NS: u64 = 50_000_000;
/// Commands that one turn publishes at most. While so many wait, gossip's news is left where it is.
const COMMANDS: usize = 16;
/// Questions for ancestors that one tick asks at most.
const QUESTIONS: usize = 64;

/// What the tile is made from.
pub struct Config {
    /// Consensus, where it begins.
    pub core: Core,
    /// Where tower and root are kept.
    pub files: Box<dyn Files + Send>,
    /// Where the tile says why it ends.
    pub failure: Failure<TowerError>,
}

/// The tile.
pub struct Tower {
    core: Core,
    files: Box<dyn Files + Send>,
    /// Questions for the ancestors of blocks that are not executed here.
    questions: Questions,
    /// Whether one was answered since they were counted.
    has_answers: bool,
    failure: Failure<TowerError>,
    has_failed: bool,
    /// The other nodes, of which those that serve shreds know ancestors.
    nodes: View,
    events: Pieces,
    from_replay: In,
    from_gossip: In,
    from_repair: In,
    to_replay: Port,
    to_sign: Port,
    to_txsend: Port,
    to_gossip: Port,
    to_shred: Port,
    to_repair: Port,
    to_rserve: Port,
    /// What waits for room: commands; the newest message to be signed, with its number; the newest vote, for txsend and
    /// for gossip; the newest root, for gossip.
    commands: VecDeque<Vec<u8>>,
    unsigned: Option<(u64, Vec<u8>)>,
    vote: Option<Vec<u8>>,
    gossip_vote: Option<Vec<u8>>,
    root: Option<u64>,
    /// Own slots to be sent again, slots to ask for, and confirmed blocks, that wait for room.
    resends: BTreeSet<u64>,
    wanted: BTreeSet<u64>,
    confirmed: VecDeque<BankId>,
    /// Whether something came since the last step.
    is_due: bool,
    /// When the time is looked at again.
    tick_at: u64,
}

impl Tile for Tower {
    const NAME: &'static str = "tower";
    // Of each vote two signatures may be checked: others on the core get their turn after a few.
    const FRAGS_PER_RUN: usize = 4;
    type Config = Config;
    type Counters = Counters;

    fn new(config: Config, host: &mut Host<'_>) -> Result<Self, InitError> {
        let Config { core, mut files, failure } = config;
        files.on_finished(host.waker());
        host.input(SIGN_TOWER)?;
        let (to_replay, to_sign) = (host.output(TOWER_REPLAY)?, host.output(TOWER_SIGN)?);
        let (to_txsend, to_gossip) = (host.output(TOWER_TXSEND)?, host.output(TOWER_GOSSIP)?);
        let (to_shred, to_repair) = (host.output(TOWER_SHRED)?, host.output(TOWER_REPAIR)?);
        let to_rserve = host.output(TOWER_RSERVE)?;
        // Events and signatures are taken even while there is no room: else two tiles could wait for each other.
        let all = [to_replay, to_sign, to_txsend, to_gossip, to_shred, to_repair, to_rserve];
        all.into_iter().for_each(|port| host.elective(port));
        Ok(Self {
            nodes: View::new(*core.node()),
            // Gossip begins at what the ledger has as final.
            root: Some(core.count.root_slot),
            core,
            files,
            questions: Questions::default(),
            has_answers: false,
            failure,
            has_failed: false,
            events: Pieces::default(),
            from_replay: host.input(REPLAY_TOWER)?,
            from_gossip: host.input(GOSSIP_TOWER)?,
            from_repair: host.input(REPAIR_TOWER)?,
            to_replay,
            to_sign,
            to_txsend,
            to_gossip,
            to_shred,
            to_repair,
            to_rserve,
            resends: BTreeSet::new(),
            wanted: BTreeSet::new(),
            confirmed: VecDeque::new(),
            commands: VecDeque::new(),
            unsigned: None,
            vote: None,
            gossip_vote: None,
            is_due: true,
            tick_at: 0,
        })
    }

    fn filter(&mut self, _: &FragMeta, input: In) -> Filter {
        // A vote of another node becomes a command, and nothing else that comes may wait behind those.
        let must_wait = input == self.from_gossip && self.commands.len() >= COMMANDS;
        if must_wait { Filter::Later } else { Filter::Take }
    }

    fn on_frag(&mut self, frag: Frag<'_>, out: &mut Out<'_, Self>) {
        if self.has_failed {
            return;
        }
        let now = now(out.now(), out.wall_ns());
        match frag.input() {
            // Replay says itself why.
            input if input == self.from_replay && frag.control() == FAILED => self.end(),
            input if input == self.from_replay => {
                if let Some(event) = self.events.push(frag.payload(), frag.control()) {
                    self.core.on_event(Event::decode(event), now);
                    self.is_due = true;
                }
            }
            input if input == self.from_gossip => {
                self.on_news(TowerNews::read(frag.payload()));
                self.tick_at = self.tick_at.min(next_look(out.now(), TICK_NS));
            }
            input if input == self.from_repair => {
                self.on_answer(AncestorAnswer::read(frag.payload()));
                self.tick_at = self.tick_at.min(next_look(out.now(), TICK_NS));
            }
            _ => {
                let (signatures, rest) = frag.payload().as_chunks::<64>();
                assert!(rest.is_empty(), "sign answers with whole signatures");
                let signatures: &[Signature] = signatures;
                self.core.on_signed(frag.tag(), signatures, now);
                self.hand_out();
            }
        }
    }

    fn poll(&mut self, out: &mut Out<'_, Self>) -> Poll {
        // First, so that commands of votes do not keep consensus from going on.
        let mut has_published = self.publish(out);
        let is_tick = out.now() >= self.tick_at;
        self.is_due |= self.files.has_finished();
        // Consensus goes on once what it said last is on its way to replay.
        if (self.is_due || is_tick) && self.commands.is_empty() && !self.has_failed {
            self.is_due = false;
            if is_tick {
                self.tick_at = next_look(out.now(), if self.core.leads() { TICK_NS } else { IDLE_TICK_NS });
                has_published |= self.ask_ancestors(out);
            }
            let done = self.core.poll(now(out.now(), out.wall_ns()), &mut *self.files);
            self.hand_out();
            // After what it has said before.
            if let Err(why) = done {
                self.fail(why);
            }
            has_published |= self.publish(out);
        }
        *out.count = self.core.count;
        if has_published { Poll::Busy } else { Poll::Idle }
    }

    fn wait_for(&self) -> WaitFor {
        let looks = self.commands.is_empty() && !self.has_failed;
        WaitFor { deadline: looks.then_some(self.tick_at), ..WaitFor::default() }
    }
}

impl Tower {
    /// Takes what gossip says. Consensus acts on it at the next tick: one step does for many votes.
    fn on_news(&mut self, news: TowerNews<'_>) {
        match news {
            TowerNews::Peer(PeerNews::Known(peer)) => self.nodes.put(&peer),
            TowerNews::Peer(PeerNews::Gone(node)) => self.nodes.remove(&node),
            TowerNews::Vote(transaction) => {
                self.core.on_vote(transaction);
                self.hand_out();
            }
            TowerNews::Slots(node, near) => self.core.on_slots(&node, near.slots()),
            TowerNews::Duplicate(slot) => self.core.on_duplicate(slot),
            TowerNews::Double => self.fail(TowerError::Double),
        }
    }

    fn fail(&mut self, why: TowerError) {
        self.end();
        self.failure.set(why);
    }

    /// Does nothing more: no vote leaves that waits, and no slot is begun.
    fn end(&mut self) {
        self.has_failed = true;
        self.commands.clear();
        (self.unsigned, self.vote, self.gossip_vote) = (None, None, None);
    }

    /// Takes what a node says of the ancestors of a block; consensus hears of it at the next tick.
    fn on_answer(&mut self, answer: AncestorAnswer) {
        let AncestorAnswer { node, hashes } = answer;
        if self.questions.answer(&node, hashes) {
            self.core.count.told_ancestors += 1;
            self.has_answers = true;
        } else {
            self.core.count.dropped_ancestors += 1;
        }
    }

    /// Has repair ask what is due, as far as there is room, and says to consensus what enough stake agrees on. Returns
    /// whether it asked for anything.
    fn ask_ancestors(&mut self, out: &mut Out<'_, Self>) -> bool {
        if self.questions.is_idle() {
            return false;
        }
        let room = out.credits(self.to_repair, QUESTIONS).min(QUESTIONS);
        let due = self.questions.due(out.now() / 1_000_000, self.nodes.repair(), room);
        for (slot, node) in &due {
            out.publish(self.to_repair, 0, &AncestorQuestion { slot: *slot, node: *node }.encode());
        }
        self.core.count.asked_ancestors += due.len() as u64;
        let core = &self.core;
        let of = |slot, node: &Pubkey| core.stakes(slot).map_or(0, |stakes| stakes.of_node(node));
        let total = |slot| core.stakes(slot).map_or(0, |stakes| stakes.total());
        if std::mem::take(&mut self.has_answers)
            && let Some(chain) = self.questions.agreed(of, total)
        {
            self.core.on_ancestors(&chain);
        }
        !due.is_empty()
    }

    fn start_asking(&mut self, slot: u64) {
        tracing::warn!("the cluster has a block for slot {slot} that is not executed here: asking what it is built on");
        self.questions.ask(slot);
    }

    /// Sorts what the core wants done.
    fn hand_out(&mut self) {
        for output in self.core.outputs() {
            match output {
                Output::Replay(command) => self.commands.push_back(command.encode()),
                // One in place of it was made since: its signatures would be of no use.
                Output::Sign { number, message } => self.unsigned = Some((number, message.bytes().to_vec())),
                Output::Vote(transaction) => {
                    let before = self.vote.replace(transaction);
                    self.core.count.replaced_votes += u64::from(before.is_some());
                }
                Output::Gossip(transaction) => {
                    let before = self.gossip_vote.replace(transaction);
                    self.core.count.unpublished_votes += u64::from(before.is_some());
                }
                Output::Want(slot) => drop(self.wanted.insert(slot)),
                Output::Resend(slot) => drop(self.resends.insert(slot)),
                Output::AskAncestors(slot) => self.start_asking(slot),
                Output::Root(slot) => {
                    self.root = Some(slot);
                    self.resends = self.resends.split_off(&(slot + 1));
                    self.wanted = self.wanted.split_off(&(slot + 1));
                    self.questions.set_root(slot);
                }
                Output::Confirmed(id) => {
                    if self.confirmed.len() == CONFIRMED_MAX {
                        self.confirmed.pop_front();
                    }
                    self.confirmed.push_back(id);
                }
            }
        }
    }

    /// Publishes what waits, as far as there is room; whether there was anything.
    fn publish(&mut self, out: &mut Out<'_, Self>) -> bool {
        let wanted = self.commands.len().min(COMMANDS);
        let count = if wanted == 0 { 0 } else { out.credits(self.to_replay, wanted).min(wanted) };
        for command in self.commands.drain(..count) {
            out.publish(self.to_replay, 0, &command);
        }
        if count < wanted {
            out.held_up();
        }
        let mut has_published = count > 0;
        if let Some((number, message)) = self.unsigned.take_if(|_| has_room(self.to_sign, out)) {
            out.publish(self.to_sign, number, &message);
            has_published = true;
        }
        if let Some(vote) = self.vote.take_if(|_| has_room(self.to_txsend, out)) {
            out.set_received();
            out.publish(self.to_txsend, 0, &vote);
            out.set_origin(0);
            self.core.count.votes += 1;
            has_published = true;
        }
        if let Some(slot) = self.root.take_if(|_| has_room(self.to_gossip, out)) {
            out.publish_with(self.to_gossip, 0, |buffer| Statement::Root(slot).write(buffer));
            has_published = true;
        }
        if let Some(vote) = self.gossip_vote.take_if(|_| has_room(self.to_gossip, out)) {
            out.publish_with(self.to_gossip, 0, |buffer| Statement::Vote(&vote).write(buffer));
            has_published = true;
        }
        while !self.resends.is_empty() && has_room(self.to_shred, out) {
            out.publish(self.to_shred, self.resends.pop_first().expect("there is one"), &[]);
            has_published = true;
        }
        while !self.wanted.is_empty() && has_room(self.to_repair, out) {
            out.publish_control(self.to_repair, self.wanted.pop_first().expect("there is one"), VOTED, &[]);
            has_published = true;
        }
        while !self.confirmed.is_empty() && has_room(self.to_rserve, out) {
            let BankId { slot, hash } = self.confirmed.pop_front().expect("there is one");
            out.publish(self.to_rserve, slot, &hash);
            has_published = true;
        }
        has_published
    }
}

/// Whether an output that something waits for has room.
fn has_room(port: Port, out: &mut Out<'_, Tower>) -> bool {
    let has_room = out.credits(port, 1) > 0;
    if !has_room {
        out.held_up();
    }
    has_room
}

impl Now {
    /// The time of a host's clock.
    pub fn of(clock: &Clock) -> Self {
        now(clock.now(), clock.wall_ns())
    }
}

fn now(monotonic_ns: u64, wall_ns: u64) -> Now {
    Now { monotonic: Duration::from_nanos(monotonic_ns), unix_ms: wall_ns / 1_000_000 }
}
