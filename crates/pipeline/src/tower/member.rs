//! member: tower between the links of a node in a cluster.
//!
//! reads   `replay_tower`, reliable: pieces of an [`Event`]; `gossip_tower`, reliable: nodes, votes and slots of
//!         others, slots whose leaders made two blocks; by [`AncestorClient`], the blocks that others have below one
//! writes  `tower_replay`, elective: a [`Command`](super::Command); `tower_gossip`, elective: a signed vote, and the
//!         root; slots to ask for, blocks to send again and confirmed ones, in [`Views`]
//! memory  that of [`View`]; an event; what waits for room: commands of one step and of [`COMMANDS`] votes of others,
//!         the newest vote, the root
//! drops   a vote that waits for room in gossip when a newer one comes, which says all that it said: counted
//! source  –
//!
//! No tile waits for another in a circle. Tower takes events whether or not there is room for what comes of them. Each
//! vote of another node is a command for replay, so that the news of gossip stays in its link while [`COMMANDS`] of
//! them wait; replay takes commands at any time. Between tower and gossip neither direction blocks:
//!
//! - `gossip_tower` loses nothing. Where it is full, gossip goes on, and keeps in its table what it has not said; there
//!   a newer vote of a node takes the place of an older one.
//! - `tower_gossip`: gossip takes what comes there whatever it waits for itself. Where the link is full all the same,
//!   tower goes on, and keeps the newest vote and the newest root: one that a newer one replaces is dropped.

use std::collections::VecDeque;
use std::sync::Arc;

use hearth_cluster::ancestors;
use hearth_cluster::consensus::BankId;
use hearth_cluster::gossip::RepairPeer;
use hearth_cluster::view::{View, Views};
use hearth_tile::{Frag, Host, In, InitError, Out, Port};

use super::codec::Pieces;
use super::core::{Core, Now, Output, TowerError};
use super::messages::Event;
use super::tile::{Tower, has_room};
use crate::links::{GOSSIP_TOWER, PeerNews, REPLAY_TOWER, Statement, TOWER_GOSSIP, TOWER_REPLAY, TowerNews};

/// Commands that one turn publishes at most. While so many wait, gossip's news is left where it is.
const COMMANDS: usize = 16;

/// Asks other nodes which blocks they have below one. The node gives the tile one that has a socket.
pub trait AncestorClient: Send {
    /// Asks for the ancestors of the block of this slot, until there is an answer or the slot is rooted.
    fn ask(&mut self, slot: u64);

    /// Slots up to this one are of no interest any more.
    fn set_root(&mut self, root: u64);

    /// Asks these nodes what is due, and takes what they say. Returns a slot's block and its ancestors, once enough
    /// stake agrees.
    fn turn(&mut self, servers: &[RepairPeer]) -> Option<Vec<BankId>>;

    /// What became of questions since the beginning.
    fn counters(&self) -> ancestors::Counters;
}

/// What tower shares with other tiles and threads of the node.
pub struct Membership {
    /// What consensus says of blocks, for shred, repair and rserve.
    pub views: Arc<Views>,
    /// What asks for ancestors.
    pub ancestors: Box<dyn AncestorClient>,
}

/// The node's place among others.
pub(super) struct Member {
    shared: Membership,
    /// The other nodes, of which those that serve shreds know ancestors.
    nodes: View,
    events: Pieces,
    from_replay: In,
    from_gossip: In,
    to_replay: Port,
    to_gossip: Port,
    /// What waits for room: commands; the newest vote and the newest root, for gossip.
    commands: VecDeque<Vec<u8>>,
    vote: Option<Vec<u8>>,
    root: Option<u64>,
}

impl Member {
    pub(super) fn new(shared: Membership, core: &Core, host: &mut Host<'_>) -> Result<Self, InitError> {
        let (to_replay, to_gossip) = (host.output(TOWER_REPLAY)?, host.output(TOWER_GOSSIP)?);
        // Events are taken even while there is no room: else two tiles could wait for each other.
        [to_replay, to_gossip].into_iter().for_each(|port| host.elective(port));
        Ok(Self {
            shared,
            nodes: View::new(*core.node()),
            events: Pieces::default(),
            from_replay: host.input(REPLAY_TOWER)?,
            from_gossip: host.input(GOSSIP_TOWER)?,
            to_replay,
            to_gossip,
            commands: VecDeque::new(),
            vote: None,
            // Gossip begins at what the ledger has as final.
            root: Some(core.count.root_slot),
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

    /// Takes what replay or gossip says; whether consensus should act on it at once. It acts on gossip's at the next
    /// tick: one step does for many votes.
    ///
    /// # Errors
    /// Another process is this node.
    pub(super) fn on_frag(&mut self, frag: &Frag<'_>, core: &mut Core, now: Now) -> Result<bool, TowerError> {
        if frag.input() == self.from_replay {
            let event = self.events.push(frag.payload(), frag.control());
            return Ok(event.map(|event| core.on_event(Event::decode(event), now)).is_some());
        }
        match TowerNews::read(frag.payload()) {
            TowerNews::Peer(PeerNews::Known(peer)) => self.nodes.put(&peer),
            TowerNews::Peer(PeerNews::Gone(node)) => self.nodes.remove(&node),
            TowerNews::Vote(transaction) => core.on_vote(transaction),
            TowerNews::Slots(node, near) => core.on_slots(&node, near.slots()),
            TowerNews::Duplicate(slot) => core.on_duplicate(slot),
            TowerNews::Double => return Err(TowerError::Double),
        }
        Ok(false)
    }

    /// Takes answers about ancestors, and asks what is due.
    pub(super) fn ask_ancestors(&mut self, core: &mut Core) {
        let ancestors = &mut self.shared.ancestors;
        if let Some(chain) = ancestors.turn(self.nodes.repair()) {
            core.on_ancestors(&chain);
        }
        let counters = ancestors.counters();
        core.count.asked_ancestors = counters.asked;
        core.count.told_ancestors = counters.answers;
    }

    /// Does what the core wants done of others, or keeps it until there is room.
    pub(super) fn obey(&mut self, output: Output, core: &mut Core) {
        let reports = &self.shared.views.reports;
        match output {
            Output::Replay(command) => self.commands.push_back(command.encode()),
            Output::Gossip(transaction) => {
                let before = self.vote.replace(transaction);
                core.count.unpublished_votes += u64::from(before.is_some());
            }
            Output::Want(slot) => reports.voted(slot),
            Output::Resend(slot) => reports.resend(slot),
            Output::AskAncestors(slot) => self.shared.ancestors.ask(slot),
            Output::Root(slot) => {
                self.root = Some(slot);
                self.shared.ancestors.set_root(slot);
            }
            Output::Confirmed(id) => self.shared.views.confirmed.push(id),
            Output::Sign { .. } | Output::Vote(_) => unreachable!("the tile does these itself"),
        }
    }

    /// Publishes what waits for replay, as far as there is room; whether there was anything.
    pub(super) fn publish_commands(&mut self, out: &mut Out<'_, Tower>) -> bool {
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

    /// Publishes what waits for gossip, as far as there is room; whether there was anything.
    pub(super) fn publish_statements(&mut self, out: &mut Out<'_, Tower>) -> bool {
        let mut has_published = false;
        if let Some(slot) = self.root.take_if(|_| has_room(self.to_gossip, out)) {
            out.publish_with(self.to_gossip, 0, |buffer| Statement::Root(slot).write(buffer));
            has_published = true;
        }
        if let Some(vote) = self.vote.take_if(|_| has_room(self.to_gossip, out)) {
            out.publish_with(self.to_gossip, 0, |buffer| Statement::Vote(&vote).write(buffer));
            has_published = true;
        }
        has_published
    }
}
