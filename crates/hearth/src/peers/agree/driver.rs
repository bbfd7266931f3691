//! driver: what the thread does in a turn: it carries messages between replay and tower, and does their I/O.
//!
//! reads   gossip's news, the clocks, answers of others
//! writes  what replay and tower have to say to store, poh, shred, gossip, and leaders
//! memory  see mod.rs
//! drops   see mod.rs

use std::sync::Arc;
use std::time::{Duration, Instant};

use hearth_cluster::board::Board;
use hearth_cluster::consensus::Tower;
use hearth_cluster::reports::Dump;
use hearth_cluster::view::Views;
use hearth_ledger::Ledger;
use hearth_ledger::blockstore::Reader;
use hearth_pipeline::poh::Parent;
use hearth_pipeline::replay::PoolExecutor;
use hearth_pipeline::replay::position::{self, LeaderControl, Position, PositionError};
use hearth_pipeline::store::Agreed;
use hearth_pipeline::tower::{Config, Core, Folder, Now, Output, TowerError, saved_tower};
use hearth_tile::{CounterDecl, CounterSet};
use hearth_wire::base58::encode_32;
use hearth_wire::{Hash, Pubkey};

use super::ancestors::Asker;
use super::differs::Parted;
use super::gossip_link::GossipLink;
use super::vote::Voter;
use super::{AgreeError, Maker, Start};
use crate::peers::{Words, gossip, now_ms};
use crate::replay::{self, ReplayError};
use crate::say::note;

hearth_tile::counters! {
    /// What the thread counts beside replay and tower.
    pub struct Counts {
        /// Votes and roots that gossip was to be told of and had no room for.
        lost_messages: Counter,
        /// Votes that a newer one replaced before txsend had room for them.
        replaced_votes: Counter,
        /// Questions to others for the ancestors of a block that is not executed here, again ones included.
        asked_ancestors: Counter,
        /// Answers to them.
        told_ancestors: Counter,
    }
}

/// All that is counted, in the order of the words.
pub fn counter_decls() -> impl Iterator<Item = &'static CounterDecl> {
    position::Counters::DECLS.iter().chain(hearth_pipeline::tower::Counters::DECLS).chain(Counts::DECLS)
}

impl LeaderControl for Maker {
    fn reset(&mut self, parent: Parent) {
        self.lead.reset(parent);
        self.wake.wake();
    }

    fn make(&mut self, slot: u64) {
        self.lead.make(slot);
        self.wake.wake();
    }

    fn retract(&mut self) -> bool {
        self.lead.retract()
    }

    fn making(&self) -> Option<u64> {
        self.lead.making()
    }
}

/// The thread's state.
pub struct Driver {
    node: Pubkey,
    ledger: Arc<Ledger>,
    position: Position<Reader, PoolExecutor, Maker>,
    tower: Core,
    folder: Folder,
    agreed: Arc<Agreed>,
    views: Arc<Views>,
    gossip: GossipLink,
    board: Arc<Board>,
    voter: Option<Voter>,
    asker: Asker,
    /// Since when time is counted.
    since: Instant,
    counts: Counts,
}

impl Driver {
    /// Begins at the ledger's last block.
    pub fn new(start: Start) -> Result<Self, AgreeError> {
        let Start { node, ledger, genesis, reader, block_id, agreed, maker, voter, asker, .. } = start;
        let Start { views, mut gossip, board, .. } = start;
        let slot = Duration::from_millis(genesis.config().slot_ms);
        let saved = saved_tower(&start.folder, &node).map_err(TowerError::from)?;
        let config = Config {
            node,
            vote_account: voter.as_ref().map(|voter| voter.account),
            leads: maker.is_some(),
            is_begin: start.is_begin,
            slot,
        };
        let records = start.recording.is_some();
        let pool = replay::pool(replay::TABLE_BYTES, start.recording);
        let executor = PoolExecutor::new(pool, replay::rules(&genesis), records);
        let position = Position::new(Arc::clone(&ledger), block_id, reader, executor, maker);
        let begins = position.start(saved.as_ref().and_then(Tower::root).map(|root| root.slot));
        let (root, since) = (begins.block.bank.id.slot, Instant::now());
        let tower = Core::new(config, begins, saved, now(since))?;
        agreed.confirm(root);
        gossip.set_root(root);
        let folder = Folder(start.folder);
        let counts = Counts::default();
        let mut driver =
            Self { node, ledger, position, tower, folder, agreed, views, gossip, board, voter, asker, since, counts };
        driver.flush()?;
        Ok(driver)
    }

    /// Does what is to be done; whether there was anything.
    ///
    /// # Errors
    /// The node can no longer be in its cluster.
    pub fn turn(&mut self) -> Result<bool, AgreeError> {
        self.hear()?;
        let mut work = self.ask_others();
        let has_executed = self.position.turn();
        // What it has to say may be why it failed.
        self.carry_events();
        work |= self.check(has_executed)?;
        self.tower.poll(now(self.since), &mut self.folder)?;
        work |= self.flush()?;
        if let Some(voter) = &mut self.voter {
            work |= voter.flush();
        }
        Ok(work)
    }

    /// Tells what was counted.
    pub fn count(&mut self, words: &Words) {
        self.counts.lost_messages = self.gossip.lost();
        let Some(words) = words.get() else { return };
        let mut words = words.words();
        self.position.count.flush(words);
        words = &words[position::Counters::DECLS.len()..];
        self.tower.count.flush(words);
        words = &words[hearth_pipeline::tower::Counters::DECLS.len()..];
        self.counts.flush(words);
    }

    /// Takes what gossip has heard, and which leaders were found to have made two blocks.
    fn hear(&mut self) -> Result<(), AgreeError> {
        let heard = self.gossip.heard();
        if heard.is_double {
            return Err(AgreeError::Double);
        }
        heard.duplicates.iter().for_each(|slot| self.tower.on_duplicate(*slot));
        heard.votes.iter().for_each(|transaction| self.tower.on_vote(transaction));
        heard.slots.iter().for_each(|(node, slots)| self.tower.on_slots(node, slots));
        Ok(())
    }

    /// Asks others for ancestors, where consensus wants it; whether there was an answer.
    fn ask_others(&mut self) -> bool {
        let chain = self.asker.turn(self.gossip.repair(), &self.ledger);
        let counters = self.asker.counters();
        self.counts.asked_ancestors = counters.asked;
        self.counts.told_ancestors = counters.answers;
        let Some(chain) = chain else { return false };
        self.tower.on_ancestors(&chain);
        true
    }

    /// Carries what replay has to say to whom it is for.
    fn carry_events(&mut self) {
        for output in self.position.outputs() {
            match output {
                position::Output::Tower(event) => self.tower.on_event(event, now(self.since)),
                position::Output::Confirmed(slot) => self.agreed.confirm(slot),
                position::Output::Record { slot, batches } => self.agreed.record(slot, batches),
                position::Output::Dump(slot) => {
                    note(format_args!("slot {slot} has another block in the cluster than here: this one is dropped"));
                    self.views.reports.dump(Dump { slot, wanted: None });
                }
                position::Output::Died { slot, why } => {
                    note(format_args!("the block of slot {slot} is not executed: {why}"));
                }
            }
        }
    }

    /// Does what tower wants done; whether there was anything.
    fn flush(&mut self) -> Result<bool, AgreeError> {
        let mut work = false;
        loop {
            let outputs = self.tower.outputs();
            if outputs.is_empty() {
                return Ok(work);
            }
            work = true;
            for output in outputs {
                self.perform(output)?;
            }
        }
    }

    fn perform(&mut self, output: Output) -> Result<(), AgreeError> {
        let Self { views, gossip, voter, .. } = self;
        match output {
            Output::Replay(command) => {
                let done = self.position.command(command);
                self.check(done)?;
            }
            Output::Sign { number, message } => {
                let signatures = voter.as_ref().map(|voter| voter.sign(&message)).unwrap_or_default();
                self.tower.on_signed(number, &signatures, now(self.since));
            }
            Output::Vote(transaction) => {
                if let Some(voter) = voter {
                    self.counts.replaced_votes += u64::from(voter.send(transaction));
                }
            }
            Output::Gossip(transaction) => gossip.say(&transaction),
            Output::Want(slot) => views.reports.voted(slot),
            Output::Resend(slot) => views.reports.resend(slot),
            Output::AskAncestors(slot) => {
                note(format_args!(
                    "the cluster has a block for slot {slot} that is not executed here: asking which ones it is built on"
                ));
                self.asker.ask(slot);
            }
            Output::Root(slot) => {
                gossip.set_root(slot);
                self.asker.set_root(slot);
            }
            Output::Confirmed(id) => views.confirmed.push(id),
        }
        Ok(())
    }

    fn check<T>(&self, done: Result<T, PositionError>) -> Result<T, AgreeError> {
        done.map_err(|why| match why {
            PositionError::Store(why) => ReplayError::from(why).into(),
            PositionError::Rewind(why) => why.into(),
            PositionError::Again(why) => AgreeError::Again(why),
            PositionError::NotTheSame(slot) => AgreeError::NotTheSame(slot),
            PositionError::RefutedDead { slot, why } => AgreeError::Dead { slot, why },
            PositionError::Refuted { slot, theirs, ours } => self.mismatch(slot, theirs, ours),
        })
    }

    /// What the node ends with: it asks others where the two states part.
    fn mismatch(&self, slot: u64, theirs: Hash, ours: Hash) -> AgreeError {
        note(format_args!(
            "slot {slot} has another bank hash here than its leader voted for: asking which account differs"
        ));
        let leader = self.ledger.leader_at(slot).map(|leader| leader.node).unwrap_or_default();
        let parted = Parted { ledger: &self.ledger, node: self.node, slot, theirs, leader };
        let differs = parted.told(&gossip::nodes(&self.board));
        let [theirs, ours] = [theirs, ours].map(|hash| encode_32(&hash).to_string());
        AgreeError::Mismatch { slot, theirs, ours, differs }
    }
}

fn now(since: Instant) -> Now {
    Now { monotonic: since.elapsed(), unix_ms: now_ms() }
}
