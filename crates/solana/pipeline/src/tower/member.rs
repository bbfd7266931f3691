//! member: connects tower to the links of a node in a cluster.
//!
//! reads   `replay_tower`, reliable: chunks of an [`Event`]; `gossip_tower`, reliable: other nodes, their votes and
//!         slots, slots with equivocating leaders; `repair_tower`, reliable: other nodes' answers about the ancestors
//!         of a block
//! writes  `tower_replay`, elective: a `Command`; `tower_gossip`, elective: a signed vote, and the root; `tower_shred`,
//!         elective: own blocks to send again; `tower_repair`, elective: slots to request, and which nodes to ask for
//!         the ancestors of a block; `tower_rserve`, elective: confirmed blocks
//! memory  that of [`View`] and of [`Questions`]; an event; messages that wait for room: commands of one step and of
//!         [`COMMANDS`] votes of other nodes, the newest vote, the root, slots above the root twice, [`CONFIRMED_MAX`]
//!         confirmed blocks
//! drops   a vote that waits for room on `tower_gossip`, if a newer one that contains it replaces it; unsolicited
//!         answers about ancestors: counted; waiting confirmed blocks that rserve would have forgotten
//!
//! No cycle of tiles can deadlock. Tower takes events whether or not there is room for their outputs. Each vote of
//! another node becomes a command for replay, so gossip's news stays in its link while [`COMMANDS`] of them wait;
//! replay takes commands at any time. Between tower and gossip neither direction blocks:
//!
//! - `gossip_tower` loses nothing. If it is full, gossip continues and keeps the unsent news in its table, where a
//!   node's newer vote replaces an older one.
//! - `tower_gossip`: gossip takes its messages even while it waits for room itself. If the link is full anyway, tower
//!   continues and keeps only the newest vote and the newest root.
//!
//! The same holds between tower and repair. Questions for which `tower_repair` has no room stay due. Tower takes
//! whatever arrives on `repair_tower`. If that link is full anyway, repair drops the answer, and tower asks that node
//! again.

use std::collections::{BTreeSet, VecDeque};

use hearth_consensus::BankId;
use hearth_consensus::ancestors::{CONFIRMED_MAX, Candidate, Questions};
use hearth_tile::{Frag, Host, In, InitError, Out, Port, Tile};
use hearth_wire::Pubkey;

use super::codec::Pieces;
use super::core::{Clocks, Core, Output, TowerError};
use super::has_room;
use super::messages::Event;
use crate::cluster_view::{RepairPeer, View};
use crate::links::{
    AncestorAnswer, AncestorQuestion, FAILED, GOSSIP_TOWER, PeerNews, REPAIR_TOWER, REPLAY_TOWER, Statement,
    TOWER_GOSSIP, TOWER_REPAIR, TOWER_REPLAY, TOWER_RSERVE, TOWER_SHRED, TowerNews, VOTED,
};
use crate::timer::next_look;

/// How often a node that makes blocks reads the clock and asks for ancestors, and how soon consensus acts on gossip's
/// news.
const TICK_NS: u64 = 10_000_000;
/// The same for a node that makes no blocks.
const IDLE_TICK_NS: u64 = 50_000_000;
/// Maximum commands published per turn. While this many wait, gossip's news stays in its link.
const COMMANDS: usize = 16;
/// Maximum questions for ancestors per tick.
const QUESTIONS: usize = 64;
/// Maximum slots to request that wait for room: the lowest.
const WANTED_MAX: usize = 1_024;

/// The tile's links in a cluster, and messages that wait for room on them.
pub(super) struct Member {
    /// Questions for the ancestors of blocks that are not executed here.
    questions: Questions,
    /// Whether an answer arrived since they were last counted.
    has_answers: bool,
    /// The other nodes; those that serve shreds can answer questions for ancestors.
    nodes: View,
    events: Pieces,
    from_replay: In,
    from_gossip: In,
    from_repair: In,
    to_replay: Port,
    to_gossip: Port,
    to_shred: Port,
    to_repair: Port,
    to_rserve: Port,
    /// Waiting for room: commands; the newest vote and the newest root, for gossip.
    commands: VecDeque<Vec<u8>>,
    vote: Option<Vec<u8>>,
    root: Option<u64>,
    /// Waiting for room: own slots to send again, slots to request, and confirmed blocks.
    resends: BTreeSet<u64>,
    wanted: BTreeSet<u64>,
    confirmed: VecDeque<BankId>,
    /// When to read the clock again.
    tick_at: u64,
    /// The earliest time at which consensus acts on news at once: a while after the last tick.
    at_once_from: u64,
}

impl Member {
    pub(super) fn new(core: &Core, host: &mut Host<'_>) -> Result<Self, InitError> {
        let (to_replay, to_gossip) = (host.output(TOWER_REPLAY)?, host.output(TOWER_GOSSIP)?);
        let (to_shred, to_repair) = (host.output(TOWER_SHRED)?, host.output(TOWER_REPAIR)?);
        let to_rserve = host.output(TOWER_RSERVE)?;
        // Events are taken even while there is no room; otherwise two tiles could wait for each other.
        let all = [to_replay, to_gossip, to_shred, to_repair, to_rserve];
        all.into_iter().for_each(|port| host.elective(port));
        Ok(Self {
            questions: Questions::default(),
            has_answers: false,
            nodes: View::new(*core.node()),
            events: Pieces::default(),
            from_replay: host.input(REPLAY_TOWER)?,
            from_gossip: host.input(GOSSIP_TOWER)?,
            from_repair: host.input(REPAIR_TOWER)?,
            to_replay,
            to_gossip,
            to_shred,
            to_repair,
            to_rserve,
            commands: VecDeque::new(),
            vote: None,
            // Gossip starts with the ledger's final slot.
            root: Some(core.count.root_slot),
            resends: BTreeSet::new(),
            wanted: BTreeSet::new(),
            confirmed: VecDeque::new(),
            tick_at: 0,
            at_once_from: 0,
        })
    }

    /// Whether to take a frag now: a vote of another node becomes a command, and no other input may wait behind those.
    pub(super) fn takes(&self, input: In) -> bool {
        input != self.from_gossip || self.commands.len() < COMMANDS
    }

    /// Whether everything that consensus last decided is on its way to replay.
    pub(super) fn is_free(&self) -> bool {
        self.commands.is_empty()
    }

    /// Whether replay reports that the node can no longer follow its cluster; replay itself reports why.
    pub(super) fn is_failure(&self, frag: &Frag<'_>) -> bool {
        frag.input() == self.from_replay && frag.control() == FAILED
    }

    /// Takes a frag from replay, gossip or repair; returns whether consensus should act on it at once. Consensus acts
    /// on news of gossip and repair at the next tick, which is soon: one step serves many votes. If the last tick was a
    /// while ago, it acts now, since the core is awake.
    ///
    /// # Errors
    /// Another process runs with this identity.
    pub(super) fn on_frag(
        &mut self,
        frag: &Frag<'_>,
        core: &mut Core,
        out: &Out<'_, impl Tile>,
    ) -> Result<bool, TowerError> {
        if frag.input() == self.from_replay {
            let event = self.events.push(frag.payload(), frag.control());
            return Ok(event.map(|event| core.on_event(Event::decode(event), Clocks::at(out))).is_some());
        }
        if frag.input() == self.from_repair {
            self.on_answer(AncestorAnswer::read(frag.payload()), core);
        } else {
            self.on_news(TowerNews::read(frag.payload()), core)?;
        }
        let now = out.now();
        let soon = if now >= self.at_once_from { now } else { next_look(now, TICK_NS) };
        self.tick_at = self.tick_at.min(soon);
        Ok(false)
    }

    /// Handles a message of gossip: a peer, a vote, or a claim about a slot.
    fn on_news(&mut self, news: TowerNews<'_>, core: &mut Core) -> Result<(), TowerError> {
        match news {
            TowerNews::Peer(PeerNews::Known(peer)) => self.nodes.put(&peer),
            TowerNews::Peer(PeerNews::Gone(node)) => self.nodes.remove(&node),
            TowerNews::Vote(transaction) => core.on_vote(transaction),
            TowerNews::Slots(node, near) => core.on_slots(&node, near.slots()),
            TowerNews::Duplicate(slot) => core.on_duplicate(slot),
            TowerNews::Double => return Err(TowerError::Double),
        }
        Ok(())
    }

    /// Handles a node's answer about the ancestors of a block; consensus sees it at the next tick.
    fn on_answer(&mut self, answer: AncestorAnswer, core: &mut Core) {
        let AncestorAnswer { node, hashes } = answer;
        if self.questions.answer(&node, hashes) {
            core.count.answered_ancestors += 1;
            self.has_answers = true;
        } else {
            core.count.dropped_ancestors += 1;
        }
    }

    /// Whether it is time for a tick.
    pub(super) fn is_tick(&self, now_ns: u64) -> bool {
        now_ns >= self.tick_at
    }

    /// When the next tick is due.
    pub(super) fn tick_at(&self) -> u64 {
        self.tick_at
    }

    /// Runs a tick: asks for ancestors, and schedules the next one. Returns whether it asked for anything.
    pub(super) fn tick(&mut self, core: &mut Core, out: &mut Out<'_, impl Tile>) -> bool {
        let now = out.now();
        self.tick_at = next_look(now, if core.leads() { TICK_NS } else { IDLE_TICK_NS });
        self.at_once_from = now + TICK_NS;
        self.ask_ancestors(core, out)
    }

    /// Makes repair ask the due questions as far as there is room, and passes to consensus what enough stake agrees on.
    /// Returns whether it asked anything.
    fn ask_ancestors(&mut self, core: &mut Core, out: &mut Out<'_, impl Tile>) -> bool {
        if self.questions.is_idle() {
            return false;
        }
        let room = out.credits(self.to_repair, QUESTIONS).min(QUESTIONS);
        let candidate =
            |peer: &RepairPeer| Candidate { identity: peer.identity, stake: peer.stake, lowest: peer.lowest };
        let candidates = self.nodes.repair().iter().map(candidate);
        let due = self.questions.due(out.now() / 1_000_000, candidates, room);
        for (slot, node) in &due {
            out.publish(self.to_repair, 0, &AncestorQuestion { slot: *slot, node: *node }.encode());
        }
        core.count.asked_ancestors += due.len() as u64;
        let known: &Core = core;
        let of = |slot, node: &Pubkey| known.stakes(slot).map_or(0, |stakes| stakes.of_node(node));
        let total = |slot| known.stakes(slot).map_or(0, |stakes| stakes.total());
        if std::mem::take(&mut self.has_answers)
            && let Some(chain) = self.questions.agreed(of, total)
        {
            core.on_ancestors(&chain);
        }
        !due.is_empty()
    }

    fn start_asking(&mut self, slot: u64) {
        tracing::warn!("the cluster has a block for slot {slot} that is not executed here: asking for its ancestors");
        self.questions.ask(slot);
    }

    /// Applies an output of consensus that concerns other tiles: messages wait until their link has room.
    pub(super) fn apply(&mut self, output: Output, core: &mut Core) {
        match output {
            Output::Replay(command) => self.commands.push_back(command.encode()),
            Output::Gossip(transaction) => {
                let before = self.vote.replace(transaction);
                core.count.unpublished_votes += u64::from(before.is_some());
            }
            Output::Want(slot) => {
                self.wanted.insert(slot);
                if self.wanted.len() > WANTED_MAX {
                    self.wanted.pop_last();
                }
            }
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
            Output::Identity(node) => {
                self.vote = None;
                self.nodes.set_own(node);
            }
            Output::Sign { .. } | Output::Vote(_) => unreachable!("the tile does these itself"),
        }
    }

    /// Discards the commands that wait for replay, and the vote that waits for gossip.
    pub(super) fn end(&mut self) {
        self.commands.clear();
        self.vote = None;
    }

    /// Publishes waiting commands as far as there is room; returns whether it published any.
    pub(super) fn publish_commands(&mut self, out: &mut Out<'_, impl Tile>) -> bool {
        let wanted = self.commands.len().min(COMMANDS);
        let count = if wanted == 0 { 0 } else { out.credits(self.to_replay, wanted).min(wanted) };
        for command in self.commands.drain(..count) {
            out.publish(self.to_replay, 0, &command);
        }
        if count < wanted {
            out.held_up();
        }
        count > 0
    }

    /// Publishes what waits for gossip, shred, repair and rserve as far as there is room; returns whether it published
    /// any.
    pub(super) fn publish_statements(&mut self, out: &mut Out<'_, impl Tile>) -> bool {
        let mut has_published = false;
        if let Some(slot) = self.root.take_if(|_| has_room(self.to_gossip, out)) {
            out.publish_with(self.to_gossip, 0, |buffer| Statement::Root(slot).write(buffer));
            has_published = true;
        }
        if let Some(vote) = self.vote.take_if(|_| has_room(self.to_gossip, out)) {
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
