//! driver: what the thread does in a turn.
//!
//! reads   the block store, gossip's news, poh's word, the clock
//! writes  the ledger, orders, votes; slots that are voted for and not here, to the shred tile
//! memory  see mod.rs
//! drops   see mod.rs

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use hearth_cluster::consensus::{
    Action, BankId, Clock, Config, Consensus, EpochStakes, FrozenBank, LeaderView, Lockout, Stakes, TICKS_PER_SLOT,
    Tower, TowerVote, VoteAccount, VoteStake,
};
use hearth_cluster::reports::Dump;
use hearth_ledger::blockstore::{Block, Reader, SlotInfo};
use hearth_ledger::tower::Voted;
use hearth_ledger::{Ledger, SlotHistory};
use hearth_pipeline::exec::Place;
use hearth_pipeline::poh::Parent;
use hearth_pipeline::replay::{Job, Pool};
use hearth_tile::CounterSet;
use hearth_wire::base58::encode_32;
use hearth_wire::{Hash, Pubkey, Txn};

use super::claims::{AHEAD, Claims};
use super::differs::Parted;
use super::forks::{Forks, Frozen};
use super::join_wait::{JoinWait, VoteRefresh, VoteTally, Wait};
use super::{AgreeError, Start, saved, vote};
use crate::peers::{Words, gossip, now_ms};
use crate::replay::{self, ReplayError};
use crate::say::note;

/// A slot that is voted for and not here is asked for no further than so many above what is executed.
const ASKED_AHEAD: u64 = 1_024;
/// A slot is asked for once more than 1/20 of the stake has voted for it: an account with next to no stake could name
/// slots that never existed.
const ASKED_BY: u128 = 20;
/// Slots above the root in which a block to execute is looked for: those of seven hours.
const LOOKED_AT: usize = 65_536;

hearth_tile::counters! {
    /// What agreement counts.
    pub struct Counts {
        /// Blocks of others that were executed.
        executed_blocks: Counter,
        /// Transactions in blocks of others that were executed.
        executed_transactions: Counter,
        /// Blocks that cannot be executed: they break the cluster's rules.
        dead_blocks: Counter,
        /// Times that the ledger left a fork for another.
        forks_left: Counter,
        /// Blocks executed again, on the way to another fork.
        executed_again_blocks: Counter,
        /// Votes sent, those that were sent again included.
        votes: Counter,
        /// Votes of others heard in gossip that count.
        heard_votes: Counter,
        /// Votes of others heard in gossip that do not: not signed by who may, or old.
        refused_votes: Counter,
        /// Turns as a leader that were begun, each of one slot.
        begun_slots: Counter,
        /// Own blocks that too few were seen to have.
        unseen_blocks: Counter,
        /// Votes and roots that gossip was to be told of and had no room for.
        lost_messages: Counter,
        /// Slots above the root whose leaders are proved to have made two blocks.
        duplicate_slots: Counter,
        /// Slots whose block here is not the one that the cluster has, and was dropped.
        dumped_slots: Counter,
        /// Votes not sent yet since the disk did not take the tower, and roots that it did not take.
        unsaved: Counter,
        /// Questions to others for the ancestors of a block that is not executed here, again ones included.
        asked_ancestors: Counter,
        /// Answers to them.
        told_ancestors: Counter,
        /// The newest slot that is executed.
        head_slot: Gauge,
        /// The newest slot that two thirds of the stake have voted for.
        confirmed_slot: Gauge,
        /// The newest slot that this node has rooted: it will not leave it.
        root_slot: Gauge,
        /// Blocks above the root, of all forks.
        unrooted_blocks: Gauge,
    }
}

/// A block that cannot be executed.
struct Dead {
    /// Its id, where it breaks a rule on the very parent that it was made on.
    block_id: Option<Hash>,
    why: String,
}

/// The thread's state.
pub struct Driver {
    start: Start,
    consensus: Consensus,
    forks: Forks,
    claims: Claims,
    /// Slots whose blocks cannot be executed.
    dead: BTreeMap<u64, Dead>,
    pool: Pool,
    /// What is built on, and since when.
    reset: (u64, Instant),
    /// The newest block that is confirmed and was not on the ledger's line yet.
    confirmed: Option<BankId>,
    /// The newest slot that two thirds have rooted.
    finalized: u64,
    /// The slot that poh makes: the ledger is poh's.
    making: Option<u64>,
    /// What consensus wants of the ledger meanwhile.
    later: VecDeque<Action>,
    /// Slots above the root that poh was told to make.
    begun: BTreeSet<u64>,
    /// The versions of slots that were dropped: the store has them until the shred tile has heard of it.
    dumped: BTreeMap<u64, Hash>,
    /// A vote whose tower is not on disk yet, and the tower.
    unsaved: Option<(TowerVote, Vec<u8>)>,
    join_wait: Option<JoinWait>,
    /// The last vote that was sent over gossip.
    refresh: Option<VoteRefresh>,
    tally: VoteTally,
    /// Epochs whose stakes consensus knows.
    epochs: BTreeSet<u64>,
    slot_ns: u128,
    counts: Counts,
}

impl Driver {
    /// Begins at the ledger's last block.
    pub fn new(mut start: Start) -> Result<Self, AgreeError> {
        let ledger = &start.ledger;
        let tower = saved::tower(&start.folder, &start.node)?;
        let head = ledger.recent_blocks(1)[0];
        let (slot, hash) = ledger.hash_all();
        let is_begin = start.is_begin;
        let root = Frozen {
            id: BankId { slot, hash },
            parent: head.parent,
            block_id: start.block_id,
            blockhash: head.blockhash,
        };
        let epoch = ledger.epoch_schedule().epoch(slot);
        let first_slot = ledger.epoch_schedule().first_slot(epoch);
        let stakes = Stakes::new(first_slot, epoch_stakes(ledger, epoch).unwrap_or_default());
        let config = Config {
            node: start.node,
            vote_account: start.voter.as_ref().map(|voter| voter.account),
            // Who has lost what it voted for and made must neither vote nor lead otherwise than it did. Who alone has
            // stake would wait for ever, and nobody else builds on what it does not have.
            waits_for_rooted_vote: tower.is_none() && !is_begin && have_others_stake(ledger, epoch, &start.node),
        };
        let bank = FrozenBank {
            id: root.id,
            parent: root.id,
            block_id: root.block_id,
            leader: leader(ledger, slot).unwrap_or_default(),
            votes: vote_accounts(ledger, slot, None),
        };
        let rooted = tower.as_ref().and_then(Tower::root).map(|root| root.slot);
        let ancestors = ancestors(ledger, slot, rooted);
        let consensus = Consensus::new(config, hearth_cluster::consensus::Start { bank, ancestors }, stakes, tower)?;
        start.agreed.confirm(slot);
        start.gossip.set_root(slot);
        // Where all begin again, each waits to hear where the others stand.
        let last_vote = start.voter.as_ref().zip(consensus.last_vote());
        let last_vote = last_vote.map(|(voter, vote)| voter.transaction(&vote, head.blockhash));
        if let Some(vote) = &last_vote {
            start.gossip.say(vote);
        }
        Ok(Self {
            consensus,
            forks: Forks::new(root),
            claims: Claims::default(),
            dead: BTreeMap::new(),
            pool: replay::pool(replay::TABLE_BYTES, start.recording.clone()),
            reset: (slot, Instant::now()),
            confirmed: None,
            finalized: 0,
            making: None,
            later: VecDeque::new(),
            begun: BTreeSet::new(),
            dumped: BTreeMap::new(),
            unsaved: None,
            join_wait: have_others_stake(ledger, epoch, &start.node).then(|| {
                let known = start.reader.last_slot().map_or(slot, |last| last.max(slot));
                JoinWait::new(known, Instant::now())
            }),
            refresh: last_vote.map(|vote| VoteRefresh::new(vote, Instant::now())),
            tally: VoteTally::default(),
            epochs: BTreeSet::from([epoch]),
            slot_ns: u128::from(start.genesis.config().slot_ms) * 1_000_000,
            counts: Counts::default(),
            start,
        })
    }

    /// Does what is to be done; whether there was anything.
    ///
    /// # Errors
    /// The node can no longer be in its cluster.
    pub fn turn(&mut self) -> Result<bool, AgreeError> {
        self.hear()?;
        if let Some(refresh) = &mut self.refresh
            && refresh.is_due(Instant::now())
        {
            self.start.gossip.say(&refresh.transaction);
        }
        let is_making = self.start.maker.as_ref().is_some_and(|maker| maker.lead.making().is_some());
        let mut work = self.ask_others();
        if !is_making {
            work |= match self.making {
                Some(slot) => self.own_block(slot)?,
                None => self.replay_one()?,
            };
        }
        let is_joining = self.is_joining();
        let (bank, since) = self.reset;
        let ticks = since.elapsed().as_nanos() * u128::from(TICKS_PER_SLOT) / self.slot_ns;
        let clock = Clock { now_ms: now_ms(), tick_height: (bank + 1) * TICKS_PER_SLOT + ticks as u64 };
        self.save()?;
        let is_busy = self.making.is_some() || is_joining || self.is_elsewhere(clock.tick_height);
        let Start { node, ledger, reader, .. } = &self.start;
        let view = View { node, ledger, reader, dead: &self.dead, begun: &self.begun, is_busy };
        for action in self.consensus.step(clock, &view) {
            work = true;
            self.act(action)?;
        }
        Ok(work)
    }

    /// Tells what was counted.
    pub fn count(&mut self, words: &Words) {
        self.counts.unrooted_blocks = self.forks.len() as u64 - 1;
        self.counts.lost_messages = self.start.gossip.lost();
        if let Some(words) = words.get() {
            self.counts.flush(words.words());
        }
    }

    /// Takes what gossip has heard, and which leaders were found to have made two blocks.
    fn hear(&mut self) -> Result<(), AgreeError> {
        let heard = self.start.gossip.heard();
        if heard.is_double {
            return Err(AgreeError::Double);
        }
        for slot in heard.duplicates {
            // One of a slot that is rooted, or far away, is no news.
            self.counts.duplicate_slots += u64::from(self.consensus.on_duplicate(slot).is_ok());
        }
        let mut unseen = BTreeSet::new();
        for transaction in heard.votes {
            let voted = vote::heard(&self.start.ledger, &transaction);
            let told = voted.map(|voted| {
                let id = BankId { slot: voted.slot, hash: voted.bank_hash };
                self.consensus.on_vote(&voted.account, id).is_ok()
            });
            self.counts.heard_votes += u64::from(told == Some(true));
            self.counts.refused_votes += u64::from(told != Some(true));
            unseen.extend(voted.filter(|voted| self.heard_of(voted)).map(|voted| voted.slot));
            voted.map_or(Ok(()), |voted| self.claimed(voted))?;
        }
        unseen.into_iter().for_each(|slot| self.start.views.reports.voted(slot));
        for (node, slots) in heard.slots {
            slots.iter().for_each(|slot| self.consensus.on_has_slot(&node, *slot));
        }
        Ok(())
    }

    /// Records a vote. Returns whether enough stake has voted for this slot to ask for it: a near slot without a whole
    /// block here.
    fn heard_of(&mut self, voted: &Voted) -> bool {
        let Some(stakes) = self.stakes_at(voted.slot) else { return false };
        if stakes.vote(&voted.account).is_none_or(|vote| vote.stake == 0) {
            return false;
        }
        self.tally.record(voted.account, voted.slot);
        let is_near = voted.slot > self.consensus.root().slot && voted.slot <= self.forks.newest() + ASKED_AHEAD;
        let is_here = self.forks.get(voted.slot).is_some() || self.begun.contains(&voted.slot);
        is_near
            && !is_here
            && self.start.reader.slot(voted.slot).is_none_or(|info| !info.whole)
            && self.tally.exceeds_share(&stakes, ASKED_BY, |slot| slot == voted.slot)
    }

    /// Asks others for ancestors, where consensus wants it; whether there was an answer.
    fn ask_others(&mut self) -> bool {
        let Start { asker, gossip, ledger, .. } = &mut self.start;
        let chain = asker.turn(gossip.repair(), ledger);
        (self.counts.asked_ancestors, self.counts.told_ancestors) = (asker.counters().asked, asker.counters().answers);
        let Some(chain) = chain else { return false };
        self.consensus.on_ancestors(&chain);
        true
    }

    /// Poh has made a slot to its end: its block is as others', once it is on disk.
    fn own_block(&mut self, slot: u64) -> Result<bool, AgreeError> {
        let Start { ledger, reader, .. } = &self.start;
        let Some(Block { info, block_id, .. }) = reader.block(slot).map_err(ReplayError::from)? else {
            return Ok(false);
        };
        if !info.whole {
            return Ok(false);
        }
        self.making = None;
        let block = ledger.recent_blocks(1)[0];
        debug_assert_eq!((block.slot, block.parent), (slot, info.parent_slot), "nobody else has the ledger meanwhile");
        self.froze(slot, info.parent_slot, block_id)?;
        while let Some(action) = self.later.pop_front() {
            self.act(action)?;
        }
        Ok(true)
    }

    /// Whether the ledger is consensus': an own slot that poh has not begun is taken back.
    fn has_ledger(&mut self) -> bool {
        if let Some(slot) = self.making
            && self.start.maker.as_ref().is_some_and(|maker| maker.lead.retract())
        {
            self.making = None;
            self.begun.remove(&slot);
            self.consensus.on_retracted(slot);
        }
        self.making.is_none()
    }

    /// Whether the ledger is at a slot's block or above it.
    fn is_on_line(&self, slot: u64) -> bool {
        self.start.ledger.summary(slot).is_some()
    }

    /// Executes a block that is whole, if there is one.
    fn replay_one(&mut self) -> Result<bool, AgreeError> {
        let Some(info) = self.next() else { return Ok(false) };
        let Some(block) = self.start.reader.block(info.slot).map_err(ReplayError::from)? else { return Ok(false) };
        if !self.is_chained(&info)? {
            self.died(info.slot, None, &"its first set is chained to another block than the parent here");
            return Ok(true);
        }
        self.go_to(info.parent_slot)?;
        let Start { ledger, genesis, agreed, .. } = &self.start;
        let parent_hash = ledger.recent_blocks(1)[0].blockhash;
        match self.pool.block(ledger, replay::job(genesis, &block, parent_hash), &block.data) {
            Ok(done) => {
                if self.start.recording.is_some() {
                    agreed.record(info.slot, done.batches);
                }
                self.counts.executed_blocks += 1;
                self.counts.executed_transactions += done.block.counts.committed;
                self.froze(info.slot, info.parent_slot, block.block_id)?;
                self.compare(&block, &done.votes)?;
            }
            Err(why) => {
                // The slot may have begun.
                ledger.rewind(info.parent_slot)?;
                self.died(info.slot, Some(block.block_id), &why);
                self.is_not_refuted(info.slot)?;
            }
        }
        Ok(true)
    }

    /// The next block to execute: one on the head first, then the oldest.
    fn next(&self) -> Option<SlotInfo> {
        let head = self.start.ledger.recent_blocks(1)[0].slot;
        let root = self.consensus.root().slot;
        let is_open = |info: &SlotInfo| {
            let is_new = self.forks.get(info.slot).is_none() && !self.dead.contains_key(&info.slot);
            info.whole && is_new && self.forks.get(info.parent_slot).is_some() && !self.is_dumped(info.slot)
        };
        let found = self.start.reader.slots(root + 1.., LOOKED_AT);
        let mut open = found.into_iter().filter(is_open);
        let first = open.next()?;
        if first.parent_slot == head {
            return Some(first);
        }
        Some(open.find(|info| info.parent_slot == head).unwrap_or(first))
    }

    /// Whether the store still has the version of a slot that was dropped.
    fn is_dumped(&self, slot: u64) -> bool {
        let Some(dumped) = self.dumped.get(&slot) else { return false };
        self.start.reader.block(slot).ok().flatten().is_none_or(|block| block.block_id == *dumped)
    }

    /// Whether a block was made on the version of its parent that was executed here.
    fn is_chained(&self, info: &SlotInfo) -> Result<bool, AgreeError> {
        let parent = self.forks.get(info.parent_slot).map(|parent| parent.block_id);
        let mut is_chained = false;
        let visit = |set: &hearth_ledger::blockstore::FecSetRecord<'_>| {
            is_chained |= set.fec_set_index == 0 && Some(set.chained_root) == parent;
        };
        self.start.reader.sets(info.slot, visit).map_err(ReplayError::from)?;
        Ok(is_chained)
    }

    fn died(&mut self, slot: u64, block_id: Option<Hash>, why: &dyn std::fmt::Display) {
        note(format_args!("the block of slot {slot} is not executed: {why}"));
        self.counts.dead_blocks += 1;
        self.dead.insert(slot, Dead { block_id, why: why.to_string() });
        // The only error is that its slot is rooted meanwhile.
        let _ = self.consensus.on_dead(slot);
    }

    /// The head is a block that was not known to consensus.
    fn froze(&mut self, slot: u64, parent: u64, block_id: Hash) -> Result<(), AgreeError> {
        let ledger = &self.start.ledger;
        ledger.hash_all();
        let frozen = ledger.frozen(slot).expect("the head is hashed");
        let id = BankId { slot, hash: frozen.bank_hash };
        tell_epochs(ledger, (slot, parent), &mut self.epochs, &mut self.consensus);
        let parent_id = self.forks.get(parent).expect("its parent was executed").id;
        let block = Frozen { id, parent, block_id, blockhash: frozen.blockhash };
        self.forks.add(block);
        self.claims.froze(&block);
        let leader = leader(ledger, slot).unwrap_or_default();
        let votes = vote_accounts(ledger, slot, Some(&frozen.votes));
        let frozen = FrozenBank { id, parent: parent_id, block_id, leader, votes };
        // Where consensus waits for the tower's root, or drops the parent in the next step, it does not take it.
        let _ = self.consensus.on_frozen(frozen, now_ms());
        self.counts.head_slot = slot;
        self.tell_confirmed();
        self.is_not_refuted(slot)
    }

    /// Holds the votes that are in a block, at these places, against what came out here.
    fn compare(&mut self, block: &Block, votes: &[Place]) -> Result<(), AgreeError> {
        let ledger = Arc::clone(&self.start.ledger);
        let txns = votes.iter().map(|place| Txn::parse(place.of(&block.data)).expect("it was executed"));
        txns.filter_map(|txn| vote::cast(&ledger, &txn)).try_for_each(|voted| self.claimed(voted))
    }

    /// Holds a vote against what came out here, or will.
    fn claimed(&mut self, voted: Voted) -> Result<(), AgreeError> {
        let slot = voted.slot;
        let is_near = slot > self.consensus.root().slot && slot <= self.forks.newest() + AHEAD;
        let ours = self.forks.get(slot);
        if !is_near || ours.is_some_and(|ours| ours.id.hash == voted.bank_hash) {
            return Ok(());
        }
        // Anybody can have a vote account.
        if self.stakes_at(slot).is_none_or(|stakes| stakes.vote(&voted.account).is_none_or(|vote| vote.stake == 0)) {
            return Ok(());
        }
        self.claims.note(voted);
        self.is_not_refuted(slot)
    }

    /// # Errors
    /// Others have come to another hash than this node for the block of a slot, or to one at all where it is dead here.
    fn is_not_refuted(&self, slot: u64) -> Result<(), AgreeError> {
        if let Some(Dead { block_id: Some(block_id), why }) = self.dead.get(&slot)
            && self.stakes_at(slot).is_some_and(|stakes| self.claims.have(slot, block_id, &stakes))
        {
            return Err(AgreeError::Dead { slot, why: why.clone() });
        }
        let refuted = self.forks.get(slot).zip(self.stakes_at(slot)).and_then(|(ours, stakes)| {
            let theirs = self.claims.refute(ours, &stakes)?;
            Some(self.mismatch(slot, theirs, ours.id.hash))
        });
        refuted.map_or(Ok(()), Err)
    }

    fn stakes_at(&self, slot: u64) -> Option<Arc<hearth_ledger::stakes::EpochStakes>> {
        let ledger = &self.start.ledger;
        ledger.epoch_stakes(ledger.epoch_schedule().epoch(slot))
    }

    /// What the node ends with: it asks others where the two states part.
    fn mismatch(&self, slot: u64, theirs: Hash, ours: Hash) -> AgreeError {
        note(format_args!(
            "slot {slot} has another bank hash here than its leader voted for: asking which account differs"
        ));
        let Start { ledger, node, board, .. } = &self.start;
        let leader = leader(ledger, slot).unwrap_or_default();
        let differs = Parted { ledger, node: *node, slot, theirs, leader }.told(&gossip::nodes(board));
        let [theirs, ours] = [theirs, ours].map(|hash| encode_32(&hash).to_string());
        AgreeError::Mismatch { slot, theirs, ours, differs }
    }

    /// Takes the ledger to a block that was executed before.
    fn go_to(&mut self, slot: u64) -> Result<(), AgreeError> {
        let Start { ledger, genesis, reader, agreed, .. } = &self.start;
        if ledger.recent_blocks(1)[0].slot == slot && ledger.working_bank().is_none() {
            return Ok(());
        }
        let line = ledger.line_from(0).into_iter().collect();
        let (back, path) = self.forks.path(&line, slot).expect("executed blocks hang together above the root");
        ledger.rewind(back)?;
        self.counts.forks_left += 1;
        for slot in path {
            let Some(block) = reader.block(slot).map_err(ReplayError::from)? else {
                return Err(AgreeError::NotTheSame(slot));
            };
            let parent_hash = ledger.recent_blocks(1)[0].blockhash;
            // It was executed before, so its signatures are right.
            let job = Job { is_known: true, ..replay::job(genesis, &block, parent_hash) };
            let done = self.pool.block(ledger, job, &block.data).map_err(ReplayError::from)?;
            if self.start.recording.is_some() {
                agreed.record(slot, done.batches);
            }
            self.counts.executed_again_blocks += 1;
            let executed = *self.forks.get(slot).expect("it is on the path");
            if ledger.hash_all().1 != executed.id.hash {
                return Err(AgreeError::NotTheSame(slot));
            }
            tell_epochs(ledger, (slot, executed.parent), &mut self.epochs, &mut self.consensus);
        }
        self.tell_confirmed();
        Ok(())
    }

    fn act(&mut self, action: Action) -> Result<(), AgreeError> {
        let wants_ledger = match &action {
            Action::Reset(_) | Action::Begin { .. } | Action::Dump { .. } => true,
            Action::Root(rooted) => rooted.last().is_some_and(|root| !self.is_on_line(root.slot)),
            _ => false,
        };
        if wants_ledger && !self.has_ledger() {
            self.later.push_back(action);
            return Ok(());
        }
        match action {
            Action::Vote { vote, saved } => {
                self.unsaved = Some((vote, saved));
                self.save()?;
            }
            Action::Refresh(vote) if self.unsaved.is_none() => self.vote(&vote),
            // What is not on disk yet is sent when it is.
            Action::Refresh(_) => {}
            Action::Reset(id) => self.build_on(id),
            Action::Root(rooted) => self.root(&rooted)?,
            Action::Confirmed(id) => {
                self.start.views.confirmed.push(id);
                self.confirmed = Some(id);
                self.tell_confirmed();
            }
            Action::Finalized(slot) => {
                self.finalized = slot;
                self.tell_final();
            }
            Action::Begin { slot, parent } => {
                self.go_to(parent.slot)?;
                self.begin(slot);
            }
            Action::Dump { slot, .. } => self.dump(slot)?,
            Action::AskAncestors(slot) => {
                note(format_args!(
                    "the cluster has a block for slot {slot} that is not executed here: asking which ones it is built on"
                ));
                self.start.asker.ask(slot);
            }
            Action::Rebroadcast(slot) => {
                self.counts.unseen_blocks += 1;
                self.start.views.reports.resend(slot);
            }
        }
        Ok(())
    }

    /// Puts the tower of the newest vote on disk, and sends the vote then. A disk that is full has room later.
    fn save(&mut self) -> Result<(), AgreeError> {
        let Some((vote, tower)) = self.unsaved.take() else { return Ok(()) };
        match saved::save_tower(&self.start.folder, &tower) {
            Ok(()) => self.vote(&vote),
            Err(why) if why.is_full() => {
                self.counts.unsaved += 1;
                self.unsaved = Some((vote, tower));
            }
            Err(why) => return Err(why.into()),
        }
        Ok(())
    }

    /// Returns whether the node still waits for the cluster.
    fn is_joining(&mut self) -> bool {
        let stakes = self.stakes_at(self.forks.newest());
        let Some(join_wait) = &mut self.join_wait else { return false };
        let own = self.start.voter.as_ref().map(|voter| voter.account);
        let others = stakes.map(|stakes| self.tally.cluster_tip(&stakes, own.as_ref())).unwrap_or_default();
        let now = Instant::now();
        let wait = join_wait.poll(now, others, self.forks.newest(), self.reset.0);
        if wait == Wait::OverFromNow {
            self.reset.1 = now;
        }
        if wait != Wait::Still {
            self.join_wait = None;
        }
        wait == Wait::Still
    }

    /// Whether the node leads, more than a third of the stake has voted for what was not executed here, and there is a
    /// block to execute: it may be of the fork that they are on; each block and vote of its own binds it to another.
    fn is_elsewhere(&self, tick_height: u64) -> bool {
        let Start { node, ledger, .. } = &self.start;
        if leader(ledger, tick_height / TICKS_PER_SLOT).as_ref() != Some(node) {
            return false;
        }
        let Some(stakes) = self.stakes_at(self.forks.newest()) else { return false };
        let root = self.consensus.root().slot;
        let is_known =
            |slot: u64| self.forks.get(slot).is_some() || self.begun.contains(&slot) || self.dead.contains_key(&slot);
        self.tally.exceeds_share(&stakes, 3, |slot| slot > root && !is_known(slot)) && self.next().is_some()
    }

    fn vote(&mut self, vote: &TowerVote) {
        let Some(voter) = &mut self.start.voter else { return };
        let ledger = &self.start.ledger;
        let named = self.forks.get(vote.blockhash_of.slot).map(|block| block.blockhash);
        let transaction = voter.transaction(vote, named.unwrap_or_else(|| ledger.recent_blocks(1)[0].blockhash));
        voter.send(&transaction);
        self.counts.votes += 1;
        let account = voter.account;
        self.refresh = Some(VoteRefresh::new(transaction.clone(), Instant::now()));
        self.start.gossip.say(&transaction);
        // One that is sent again is known.
        let _ = self.consensus.on_vote(&account, vote.id);
    }

    fn build_on(&mut self, id: BankId) {
        self.reset = (id.slot, Instant::now());
        let Some(block) = self.forks.get(id.slot) else { return };
        if let Some(maker) = &self.start.maker {
            let Frozen { block_id, blockhash, .. } = *block;
            maker.lead.reset(Parent { slot: id.slot, blockhash, block_id });
            maker.wake.wake();
        }
    }

    fn begin(&mut self, slot: u64) {
        let Some(maker) = &self.start.maker else { return };
        maker.lead.make(slot);
        maker.wake.wake();
        self.making = Some(slot);
        self.begun.insert(slot);
        self.counts.begun_slots += 1;
    }

    fn root(&mut self, rooted: &[BankId]) -> Result<(), AgreeError> {
        let Some(root) = rooted.last() else { return Ok(()) };
        // From another fork it could not get there any more.
        if !self.is_on_line(root.slot) {
            self.go_to(root.slot)?;
        }
        match saved::save_root(&self.start.folder, *root) {
            Err(why) if !why.is_full() => return Err(why.into()),
            // An older one is as good, and the next is soon.
            saved => self.counts.unsaved += u64::from(saved.is_err()),
        }
        self.forks.set_root(root.slot);
        self.claims.set_root(root.slot);
        self.dead = self.dead.split_off(&root.slot);
        self.dumped = self.dumped.split_off(&root.slot);
        self.begun = self.begun.split_off(&root.slot);
        let epoch = self.start.ledger.epoch_schedule().epoch(root.slot);
        self.epochs = self.epochs.split_off(&epoch);
        self.start.gossip.set_root(root.slot);
        self.start.asker.set_root(root.slot);
        self.counts.root_slot = root.slot;
        self.tell_final();
        Ok(())
    }

    /// What two thirds have rooted, and this node too, is final.
    fn tell_final(&self) {
        self.start.ledger.mark_rooted(self.finalized.min(self.consensus.root().slot));
    }

    /// Tells store what is confirmed, once the ledger is on its line.
    fn tell_confirmed(&mut self) {
        let Some(id) = self.confirmed.filter(|id| self.forks.has(id)) else { return };
        if self.is_on_line(id.slot) {
            self.start.agreed.confirm(id.slot);
            self.counts.confirmed_slot = id.slot;
            self.confirmed = None;
        }
    }

    /// This node's version of a slot is not the cluster's.
    fn dump(&mut self, slot: u64) -> Result<(), AgreeError> {
        note(format_args!("slot {slot} has another block in the cluster than here: this one is dropped"));
        self.counts.dumped_slots += 1;
        let known = self.forks.get(slot).map(|block| block.block_id);
        let stored = || self.start.reader.block(slot).ok().flatten().map(|block| block.block_id);
        if let Some(block_id) = known.or_else(stored) {
            self.dumped.insert(slot, block_id);
        }
        if let Some(parent) = self.forks.get(slot).map(|block| block.parent) {
            let head = self.start.ledger.recent_blocks(1)[0].slot;
            let gone = self.forks.dump(slot);
            if gone.contains(&head) {
                self.start.ledger.rewind(parent)?;
            }
        }
        self.dead.split_off(&slot);
        // Which of the other versions has the bank hash that is wanted is known when it is executed.
        self.start.views.reports.dump(Dump { slot, wanted: None });
        Ok(())
    }
}

/// What a leader asks.
struct View<'a> {
    node: &'a Pubkey,
    ledger: &'a Ledger,
    reader: &'a Reader,
    dead: &'a BTreeMap<u64, Dead>,
    begun: &'a BTreeSet<u64>,
    is_busy: bool,
}

impl LeaderView for View<'_> {
    fn leader(&self, slot: u64) -> Option<Pubkey> {
        leader(self.ledger, slot)
    }

    fn has_shreds(&self, slot: u64) -> bool {
        self.reader.slot(slot).is_some() || self.begun.contains(&slot)
    }

    fn is_busy(&self) -> bool {
        self.is_busy
    }

    fn has_child(&self, parent: u64, before: u64) -> bool {
        let above = self.reader.slots(parent + 1..before.max(parent + 1), LOOKED_AT);
        let is_own = |slot| leader(self.ledger, slot).as_ref() == Some(self.node);
        above.iter().any(|info| info.parent_slot == parent && !self.dead.contains_key(&info.slot) && !is_own(info.slot))
    }
}

/// Slots of the blocks below the ledger's last one, that of `slot`: down to the tower's root where the sysvar that
/// lists them goes back so far; a snapshot may be of much later.
fn ancestors(ledger: &Ledger, slot: u64, rooted: Option<u64>) -> Vec<u64> {
    let line = ledger.line_from(0);
    let oldest = line.first().copied().unwrap_or(slot);
    let recent = line.into_iter().filter(|below| *below < slot);
    match SlotHistory::of(ledger).zip(rooted.filter(|root| *root < oldest)) {
        Some((history, root)) => (root..oldest).filter(|slot| history.has(*slot)).chain(recent).collect(),
        None => recent.collect(),
    }
}

fn leader(ledger: &Ledger, slot: u64) -> Option<Pubkey> {
    ledger.leader_at(slot).map(|leader| leader.node)
}

fn epoch_stakes(ledger: &Ledger, epoch: u64) -> Option<Arc<EpochStakes>> {
    let stakes = ledger.epoch_stakes(epoch)?;
    let of =
        |vote: &hearth_ledger::stakes::VoteStake| VoteStake { vote: vote.vote, node: vote.node, stake: vote.stake };
    Some(Arc::new(EpochStakes::new(&stakes.votes.iter().map(of).collect::<Vec<_>>())))
}

/// Tells consensus of stakes that it does not know, and of those that this fork has set anew: by a block and its
/// parent.
fn tell_epochs(ledger: &Ledger, (slot, parent): (u64, u64), known: &mut BTreeSet<u64>, consensus: &mut Consensus) {
    let schedule = ledger.epoch_schedule();
    let begins = schedule.epoch(slot) != schedule.epoch(parent);
    for epoch in [schedule.epoch(slot), schedule.leader_schedule_epoch(slot)] {
        let is_new = known.insert(epoch) || begins;
        if let Some(stakes) = epoch_stakes(ledger, epoch).filter(|_| is_new) {
            consensus.on_epoch(schedule.first_slot(epoch), stakes);
        }
    }
}

/// Whether there is stake of others, who may have gone on without this node.
fn have_others_stake(ledger: &Ledger, epoch: u64, node: &Pubkey) -> bool {
    let stakes = ledger.epoch_stakes(epoch);
    stakes.is_none_or(|stakes| stakes.votes.iter().any(|vote| vote.stake > 0 && vote.node != *node))
}

/// These vote accounts, or all, as they stand in the block of a slot.
fn vote_accounts(ledger: &Ledger, slot: u64, keys: Option<&[Pubkey]>) -> Vec<VoteAccount> {
    let lockout =
        |vote: &hearth_ledger::Lockout| Lockout { slot: vote.slot, confirmation_count: vote.confirmation_count };
    let of = |account: hearth_ledger::validators::VoteAccount| VoteAccount {
        key: account.key,
        stake: account.stake,
        votes: account.state.votes.iter().map(lockout).collect(),
        root: account.state.root,
    };
    ledger.vote_accounts_at(slot, keys).unwrap_or_default().into_iter().map(of).collect()
}
