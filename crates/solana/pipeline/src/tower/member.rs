//! member: tower between the links of a node in a cluster.
//!
//! reads   `replay_tower`, reliable: pieces of an [`Event`]; `gossip_tower`, reliable: nodes, votes and slots of
//!         others, slots whose leaders made two blocks; `repair_tower`, reliable: the blocks that others have below one
//! writes  `tower_replay`, elective: a `Command`; `tower_gossip`, elective: a signed vote, and the root; `tower_shred`,
//!         elective: own blocks to send again; `tower_repair`, elective: slots to ask for, and whom to ask for the
//!         ancestors of a block; `tower_rserve`, elective: confirmed blocks
//! memory  that of [`View`] and of [`Questions`]; an event; what waits for room: commands of one step and of
//!         [`COMMANDS`] votes of others, the newest vote, the root, slots above the root twice, [`CONFIRMED_MAX`]
//!         confirmed blocks
//! drops   a vote that waits for room in gossip when a newer one comes, which says all that it said; answers about
//!         ancestors that are not waited for: counted; of confirmed blocks that wait for room those that rserve would
//!         have forgotten
//!
//! No tile waits for another in a circle. Tower takes events whether or not there is room for what comes of them. Each
//! vote of another node is a command for replay, so that the news of gossip stays in its link while [`COMMANDS`] of
//! them wait; replay takes commands at any time. Between tower and gossip neither direction blocks:
//!
//! - `gossip_tower` loses nothing. Where it is full, gossip goes on, and keeps in its table what it has not said; there
//!   a newer vote of a node takes the place of an older one.
//! - `tower_gossip`: gossip takes what comes there whatever it waits for itself. Where the link is full all the same,
//!   tower goes on, and keeps the newest vote and the newest root: one that a newer one replaces is dropped.
//!
//! Nor between tower and repair. Questions for which `tower_repair` has no room stay due. Tower takes whatever comes on
//! `repair_tower`; where that is full all the same, repair drops the answer, and tower asks that node again.

use std::collections::{BTreeSet, VecDeque};

use hearth_consensus::BankId;
use hearth_consensus::ancestors::{CONFIRMED_MAX, Candidate, Questions};
use hearth_tile::{Frag, Host, In, InitError, Out, Port, Tile};
use hearth_wire::Pubkey;

use super::codec::Pieces;
use super::core::{Core, Now, Output, TowerError};
use super::has_room;
use super::messages::Event;
use crate::cluster_view::{RepairPeer, View};
use crate::links::{
    AncestorAnswer, AncestorQuestion, FAILED, GOSSIP_TOWER, PeerNews, REPAIR_TOWER, REPLAY_TOWER, Statement,
    TOWER_GOSSIP, TOWER_REPAIR, TOWER_REPLAY, TOWER_RSERVE, TOWER_SHRED, TowerNews, VOTED,
};
use crate::timer::next_look;

/// How often the time is looked at, and questions for ancestors are asked, by a node that makes blocks; and how soon
/// consensus acts on what gossip said.
const TICK_NS: u64 = 10_000_000;
/// How often a node does that which makes no blocks.
const IDLE_TICK_NS: u64 = 50_000_000;
/// Commands that one turn publishes at most. While so many wait, gossip's news is left where it is.
const COMMANDS: usize = 16;
/// Questions for ancestors that one tick asks at most.
const QUESTIONS: usize = 64;

/// The tile's links in a cluster, and what waits in it for room in them.
pub(super) struct Member {
    /// Questions for the ancestors of blocks that are not executed here.
    questions: Questions,
    /// Whether one was answered since they were counted.
    has_answers: bool,
    /// The other nodes, of which those that serve shreds know ancestors.
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
    /// What waits for room: commands; the newest vote and the newest root, for gossip.
    commands: VecDeque<Vec<u8>>,
    vote: Option<Vec<u8>>,
    root: Option<u64>,
    /// Own slots to be sent again, slots to ask for, and confirmed blocks, that wait for room.
    resends: BTreeSet<u64>,
    wanted: BTreeSet<u64>,
    confirmed: VecDeque<BankId>,
    /// When the time is looked at again.
    tick_at: u64,
    /// From when on news is acted on at once: a while after the last tick.
    at_once_from: u64,
}

impl Member {
    pub(super) fn new(core: &Core, host: &mut Host<'_>) -> Result<Self, InitError> {
        let (to_replay, to_gossip) = (host.output(TOWER_REPLAY)?, host.output(TOWER_GOSSIP)?);
        let (to_shred, to_repair) = (host.output(TOWER_SHRED)?, host.output(TOWER_REPAIR)?);
        let to_rserve = host.output(TOWER_RSERVE)?;
        // Events are taken even while there is no room: else two tiles could wait for each other.
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
            // Gossip begins at what the ledger has as final.
            root: Some(core.count.root_slot),
            resends: BTreeSet::new(),
            wanted: BTreeSet::new(),
            confirmed: VecDeque::new(),
            tick_at: 0,
            at_once_from: 0,
        })
    }

    /// Whether a frag is taken now: a vote of another node becomes a command, and nothing else that comes may wait
    /// behind those.
    pub(super) fn takes(&self, input: In) -> bool {
        input != self.from_gossip || self.commands.len() < COMMANDS
    }

    /// Whether all that consensus said last is on its way to replay.
    pub(super) fn is_free(&self) -> bool {
        self.commands.is_empty()
    }

    /// Whether replay says that the node can no longer be in its cluster; it says itself why.
    pub(super) fn is_failure(&self, frag: &Frag<'_>) -> bool {
        frag.input() == self.from_replay && frag.control() == FAILED
    }

    /// Takes what replay, gossip or repair says; whether consensus should act on it at once. It acts on what gossip and
    /// repair say at the next tick, which is soon: one step does for many votes. Where the last tick is a while ago
    /// that is now, since the core is awake.
    ///
    /// # Errors
    /// Another process is this node.
    pub(super) fn on_frag(
        &mut self,
        frag: &Frag<'_>,
        core: &mut Core,
        out: &Out<'_, impl Tile>,
    ) -> Result<bool, TowerError> {
        if frag.input() == self.from_replay {
            let event = self.events.push(frag.payload(), frag.control());
            return Ok(event.map(|event| core.on_event(Event::decode(event), Now::at(out))).is_some());
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

    /// Takes what gossip says.
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

    /// Takes what a node says of the ancestors of a block; consensus hears of it at the next tick.
    fn on_answer(&mut self, answer: AncestorAnswer, core: &mut Core) {
        let AncestorAnswer { node, hashes } = answer;
        if self.questions.answer(&node, hashes) {
            core.count.answered_ancestors += 1;
            self.has_answers = true;
        } else {
            core.count.dropped_ancestors += 1;
        }
    }

    /// Whether it is time to look at the clock.
    pub(super) fn is_tick(&self, now_ns: u64) -> bool {
        now_ns >= self.tick_at
    }

    /// When the time is looked at again.
    pub(super) fn tick_at(&self) -> u64 {
        self.tick_at
    }

    /// Looks at the clock: asks for ancestors, and sets the next time. Returns whether it asked for anything.
    pub(super) fn tick(&mut self, core: &mut Core, out: &mut Out<'_, impl Tile>) -> bool {
        let now = out.now();
        self.tick_at = next_look(now, if core.leads() { TICK_NS } else { IDLE_TICK_NS });
        self.at_once_from = now + TICK_NS;
        self.ask_ancestors(core, out)
    }

    /// Has repair ask what is due, as far as there is room, and says to consensus what enough stake agrees on. Returns
    /// whether it asked for anything.
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
        tracing::warn!("the cluster has a block for slot {slot} that is not executed here: asking what it is built on");
        self.questions.ask(slot);
    }

    /// Applies an output of consensus that concerns other tiles: what is to be sent waits until its link has room.
    pub(super) fn apply(&mut self, output: Output, core: &mut Core) {
        match output {
            Output::Replay(command) => self.commands.push_back(command.encode()),
            Output::Gossip(transaction) => {
                let before = self.vote.replace(transaction);
                core.count.unpublished_votes += u64::from(before.is_some());
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
            Output::Sign { .. } | Output::Vote(_) => unreachable!("the tile does these itself"),
        }
    }

    /// Forgets what waits for replay, and the vote that waits for gossip.
    pub(super) fn end(&mut self) {
        self.commands.clear();
        self.vote = None;
    }

    /// Publishes what waits for replay, as far as there is room; whether there was anything.
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

    /// Publishes what waits for gossip, shred, repair and rserve, as far as there is room; whether there was anything.
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
