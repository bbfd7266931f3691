//! core: tower's decisions on each message and at each instant, without I/O.
//!
//! reads   replay's events; gossip's votes, slots and duplicates; signatures; the time
//! writes  commands for replay, votes, questions; the two files
//! memory  see mod.rs
//! drops   see mod.rs
//! source  `replay_stage.rs` of `solana-core` 4.2; docs/consensus.md

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use hearth_consensus::{
    self as consensus, Action, BankId, Clock, Consensus, FrozenBank, LeaderView, Lockouts, Stakes, StartError,
    TICKS_PER_SLOT, Tower, TowerVote, VoteWeights,
};
use hearth_ledger::epoch::EpochSchedule;
use hearth_ledger::stakes::{EpochStakes, VoteStake};
use hearth_mutation::{Mutation, active};
use hearth_wire::message::Message;
use hearth_wire::vote::VoteTarget;
use hearth_wire::{Pubkey, Signature};

use super::blocks::{Blocks, TowerBlock};
use super::join_wait::{JoinWait, VoteRefresh, VoteTally, Wait};
use super::messages::{Command, Event, FrozenBlock, Start, StoredBlock};
use super::saved::{Files, SavedError};
use super::votes::{self, VoteReader};
use crate::identity::IdentityWatch;
use crate::voters::Voters;
use identity::IdentityChange;

mod identity;

/// How far above the executed slots tower requests a slot that has votes and is missing here.
const ASKED_AHEAD: u64 = 1_024;
/// A slot is requested once more than 1/20 of the stake has voted for it: an account with next to no stake could name
/// slots that never existed.
const ASKED_BY: u128 = 20;

hearth_tile::counters! {
    /// The counters of tower.
    pub struct Counters {
        /// Votes sent to leaders, those that were sent again included.
        votes: Counter,
        /// Votes that a newer one replaced before they were on disk, or txsend, or pack of a node alone, had room for
        /// them.
        replaced_votes: Counter,
        /// Votes of others heard in gossip that count.
        heard_votes: Counter,
        /// Votes of others in gossip that do not count: old, or not signed by the authorized voter.
        refused_votes: Counter,
        /// Leader slots begun.
        begun_slots: Counter,
        /// Own blocks that too few were seen to have.
        unseen_blocks: Counter,
        /// Slots above the root whose leaders are proved to have made two blocks.
        duplicate_slots: Counter,
        /// Votes not sent yet since the disk did not take the tower, and roots that it did not take.
        unsaved: Counter,
        /// Votes that a newer one replaced before gossip had room for them.
        unpublished_votes: Counter,
        /// Requests to other nodes for the ancestors of a block that is not executed here, repeated ones included.
        asked_ancestors: Counter,
        /// Answers to these questions.
        answered_ancestors: Counter,
        /// Answers dropped since they are not waited for any more.
        dropped_ancestors: Counter,
        /// Times that the tower took votes from the vote account that this process had not cast.
        adopted_towers: Counter,
        /// Changes of the node's identity.
        identity_changes: Counter,
        /// The newest slot that this node has rooted: it will not leave it.
        root_slot: Gauge,
        /// Blocks above the root, of all forks.
        unrooted_blocks: Gauge,
    }
}

/// Why a node can no longer vote.
#[derive(Debug, thiserror::Error)]
pub enum TowerError {
    /// Saving or loading the tower or the root failed.
    #[error(transparent)]
    Saved(#[from] SavedError),
    /// The tower does not fit the chain.
    #[error("{0}; the chain in the ledger folder is not the one that this node has voted on")]
    Start(#[from] StartError),
    /// Two processes run with the same identity.
    #[error(
        "another process runs with this node's identity, and began later: one identity is one node (consensus.identity_path)"
    )]
    Double,
}

/// The identity of the node, and its role in the cluster.
#[derive(Clone, Debug)]
pub struct Config {
    /// The node's identity, until the operator changes it.
    pub node: Pubkey,
    /// The account that it votes with, if it votes.
    pub vote_account: Option<Pubkey>,
    /// The keys that may sign its votes.
    pub voters: Voters,
    /// Whether it makes blocks in its leader slots.
    pub leads: bool,
    /// Whether it publishes its votes in gossip.
    pub gossips: bool,
    /// Whether the chain is new: no block exists yet, executed or not.
    pub is_begin: bool,
    /// The length of a slot.
    pub slot: Duration,
}

/// The current time, by two clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clocks {
    /// Time since an arbitrary instant; it never goes back.
    pub monotonic: Duration,
    /// Unix time in milliseconds; the clock may step backwards.
    pub unix_ms: u64,
}

/// An action for the caller. Outputs are handled in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send this command to replay.
    Replay(Command),
    /// Get the message of a vote signed by each of its signers, and pass the signatures to [`Core::on_signed`]. Its
    /// tower is on disk.
    Sign {
        /// The vote's number, which the signatures come back with.
        number: u64,
        /// The message to sign.
        message: Message,
    },
    /// Send a vote to the leaders of the next slots.
    Vote(Vec<u8>),
    /// Publish a vote in gossip.
    Gossip(Vec<u8>),
    /// Request the block of this slot, or the next ones if it is far ahead: other nodes have voted for it.
    Want(u64),
    /// Send this node's block of a slot again.
    Resend(u64),
    /// Ask other nodes for the ancestors of this slot's block, until [`Core::on_ancestors`] receives them.
    AskAncestors(u64),
    /// Slots up to this one are no longer needed.
    Root(u64),
    /// More than two thirds of the stake voted for this block or one above it.
    Confirmed(BankId),
    /// The node has this identity now: what waits in the name of the old one is of no use.
    Identity(Pubkey),
}

/// A vote that is waiting for its signatures.
#[derive(Debug)]
struct UnsignedVote {
    number: u64,
    message: Message,
    /// The block that it votes for; `None` for the previous run's last vote, which goes to gossip only.
    id: Option<BankId>,
}

/// Consensus with its inputs and pending outputs.
pub struct Core {
    config: Config,
    consensus: Consensus,
    schedule: EpochSchedule,
    epochs: BTreeMap<u64, Arc<EpochStakes>>,
    /// The authorized voters of accounts with stake.
    voters: BTreeMap<Pubkey, Pubkey>,
    /// The own account's authorized voter in each epoch: forks may be in two of them.
    own_voters: BTreeMap<u64, Pubkey>,
    vote_reader: VoteReader,
    blocks: Blocks,
    /// The last block that replay executed.
    head: TowerBlock,
    stored: BTreeMap<u64, StoredBlock>,
    /// Slots whose blocks cannot be executed.
    dead: BTreeSet<u64>,
    /// Slots whose blocks replay was commanded to drop, and has not dropped yet.
    dumping: VecDeque<u64>,
    /// Own slots above the root that replay was commanded to start.
    begun: BTreeSet<u64>,
    /// The own slot in progress.
    making: Option<u64>,
    has_backlog: bool,
    /// The block to build on, and since when: slots count from the moment of that decision, because the time of the
    /// following slots runs for all nodes. Poh learns of it later, once the ledger is free, such as at the end of an
    /// own slot. That shifts no own slot: poh hashes missing ticks as fast as it can when it must produce the slot.
    /// Consecutive slots of one turn follow poh's own schedule, whatever this says, since the slot on an own block
    /// starts when that block is known here.
    reset: (u64, Duration),
    /// A vote whose tower is being written to disk, and the tower. It is sent even if a newer one waits: if the disk is
    /// slower than the votes, no vote would leave otherwise.
    unsaved: Option<(TowerVote, Vec<u8>)>,
    /// The newest vote after that one.
    next_vote: Option<(TowerVote, Vec<u8>)>,
    unsigned: Option<UnsignedVote>,
    /// How many votes were submitted for signing.
    numbered: u64,
    join_wait: Option<JoinWait>,
    /// The last vote published in gossip.
    refresh: Option<VoteRefresh>,
    tally: VoteTally,
    /// Slots with enough votes to request them.
    wanted: BTreeSet<u64>,
    /// The operator's requests for another identity, if that is possible, and a change that is under way.
    identity: Option<IdentityWatch>,
    leaving: Option<IdentityChange>,
    /// When the operator was last warned of votes that were cast elsewhere.
    warned_at: Option<Duration>,
    out: Vec<Output>,
    /// Counters of tower, which the tile publishes.
    pub count: Counters,
}

impl Core {
    /// Starts at a root, with the saved tower, if there is one.
    ///
    /// # Errors
    /// The tower belongs to another chain.
    pub fn new(config: Config, start: Start, saved: Option<Tower>, now: Clocks) -> Result<Self, TowerError> {
        let Start { block, ancestors, schedule, epochs, stored } = start;
        let FrozenBlock { bank, blockhash, voters } = block;
        let root = bank.id.slot;
        let frozen = TowerBlock { id: bank.id, parent: bank.parent.slot, block_id: bank.block_id, blockhash };
        let epochs: BTreeMap<u64, _> = epochs.into_iter().map(|stakes| (stakes.epoch, stakes)).collect();
        let epoch = schedule.epoch(root);
        let current = epochs.get(&epoch);
        let is_other = |vote: &VoteStake| vote.stake > 0 && vote.node != config.node;
        let have_others_stake = current.is_none_or(|stakes| stakes.votes.iter().any(is_other));
        let has_lost = saved.is_none() && !config.is_begin;
        // Of a tower that another program began the hash of the root is not known.
        let is_moved = saved.as_ref().is_some_and(|tower| tower.root().is_none());
        let rules = consensus::Config {
            node: config.node,
            vote_account: config.vote_account,
            // A node that has lost its votes and blocks must not make a block of a slot again. Nor must one that moved
            // here: the blocks that the other program made are not in this store. A node that alone has stake would
            // wait for ever, and nobody else builds on what it does not have.
            waits_for_rooted_vote: (has_lost || is_moved) && have_others_stake,
        };
        let weights = |stakes: &Arc<EpochStakes>| Arc::new(VoteWeights::new(&stakes.votes));
        let stakes = Stakes::new(schedule.first_slot(epoch), current.map(weights).unwrap_or_default());
        let mut consensus = Consensus::new(rules, consensus::Start { bank, ancestors }, stakes, saved)?;
        for (epoch, stakes) in &epochs {
            consensus.on_epoch(schedule.first_slot(*epoch), weights(stakes));
        }
        let newest = stored.last().map_or(root, |block| block.slot);
        let join_wait = have_others_stake.then(|| JoinWait::new(newest.max(root), now.monotonic));
        let own_voters = own_voter(&config, &voters).map(|voter| (epoch, voter)).into_iter().collect();
        let mut core = Self {
            config,
            consensus,
            schedule,
            epochs,
            voters: voters.into_iter().collect(),
            own_voters,
            vote_reader: VoteReader::default(),
            blocks: Blocks::new(frozen),
            head: frozen,
            // Until replay reports that there is nothing to execute.
            has_backlog: stored.iter().any(|block| block.is_whole),
            stored: stored.into_iter().map(|block| (block.slot, block)).collect(),
            dead: BTreeSet::new(),
            dumping: VecDeque::new(),
            begun: BTreeSet::new(),
            making: None,
            reset: (root, now.monotonic),
            unsaved: None,
            next_vote: None,
            unsigned: None,
            numbered: 0,
            join_wait,
            refresh: None,
            tally: VoteTally::default(),
            wanted: BTreeSet::new(),
            identity: None,
            leaving: None,
            warned_at: None,
            out: vec![],
            count: Counters { root_slot: root, ..Counters::default() },
        };
        // When all nodes restart, each waits to learn where the others are.
        if let Some(last) = core.consensus.last_vote().filter(|_| core.config.gossips) {
            core.sign(&last, None);
        }
        Ok(core)
    }

    /// The node's identity, which the operator may change while it runs.
    pub fn node(&self) -> &Pubkey {
        &self.config.node
    }

    /// The votes that bind the node.
    pub(super) fn lockouts(&self) -> &Lockouts {
        self.consensus.tower().lockouts()
    }

    /// Whether a vote is being signed.
    pub(super) fn is_signing(&self) -> bool {
        self.unsigned.is_some()
    }

    /// Whether it makes blocks in its leader slots.
    pub fn leads(&self) -> bool {
        self.config.leads
    }

    /// Handles an event from replay.
    pub fn on_event(&mut self, event: Event, now: Clocks) {
        match event {
            Event::Epoch(stakes) => {
                let weights = Arc::new(VoteWeights::new(&stakes.votes));
                self.consensus.on_epoch(self.schedule.first_slot(stakes.epoch), weights);
                self.epochs.insert(stakes.epoch, stakes);
            }
            Event::Frozen(block) => self.froze(*block, now),
            // A block being dropped: replay executes another version, and reports that.
            Event::Dead(slot) if self.dumping.iter().any(|dumped| *dumped <= slot) => {}
            Event::Dead(slot) => {
                self.dead.insert(slot);
                // The only error is that the slot has been rooted meanwhile.
                let _ = self.consensus.on_dead(slot);
            }
            Event::Retracted(slot) => {
                self.making = self.making.filter(|making| *making != slot);
                self.begun.remove(&slot);
                self.consensus.on_retracted(slot);
            }
            Event::Dumped(slot) => {
                let done = self.dumping.pop_front();
                assert_eq!(done, Some(slot), "replay drops blocks in the order of the commands");
            }
            Event::Stored(block) => {
                self.stored.insert(block.slot, block);
            }
            Event::Voided(slot) => {
                self.stored.remove(&slot);
            }
            Event::Backlog(has_backlog) => self.has_backlog = has_backlog,
        }
    }

    fn froze(&mut self, block: FrozenBlock, now: Clocks) {
        let FrozenBlock { bank, blockhash, voters } = block;
        let FrozenBank { id, parent, block_id, .. } = bank;
        self.making = self.making.filter(|making| *making != id.slot);
        if self.dumping.contains(&id.slot) {
            return; // It is the version that is being dropped: what comes after `Dumped` is another.
        }
        if self.blocks.get(parent.slot).is_none_or(|block| block.id != parent) {
            return; // It was dropped, or left behind by a root, while this was on its way.
        }
        self.head = TowerBlock { id, parent: parent.slot, block_id, blockhash };
        self.blocks.add(self.head);
        let epoch = self.schedule.epoch(id.slot);
        if epoch != self.schedule.epoch(parent.slot) {
            self.voters.clear(); // The block names all.
        }
        self.own_voters.extend(own_voter(&self.config, &voters).map(|voter| (epoch, voter)));
        self.voters.extend(voters);
        // Consensus rejects it while waiting for the tower's root, or if it drops the parent in the next step.
        let _ = self.consensus.on_frozen(bank, now.unix_ms);
    }

    /// Handles a vote transaction that gossip received; its signatures are not verified yet.
    pub fn on_vote(&mut self, transaction: &[u8]) {
        let voted = self.vote_reader.read(transaction, &self.voters);
        let counts = voted.is_some_and(|voted| {
            let id = BankId { slot: voted.slot, hash: voted.bank_hash };
            self.consensus.on_vote(&voted.account, id).is_ok()
        });
        self.count.heard_votes += u64::from(counts);
        self.count.refused_votes += u64::from(!counts);
        let Some(voted) = voted else { return };
        self.note_vote(&voted);
        self.out.push(Output::Replay(Command::Voted(voted)));
    }

    /// Records a vote, and requests its slot once enough stake has voted for it, if it is near and not whole here. A
    /// slot that is far ahead tells repair how far the cluster is, of which less than a third of the stake may lie.
    fn note_vote(&mut self, voted: &VoteTarget) {
        // A node that is epochs behind knows no stakes of the vote's epoch. It must learn anyway how far the
        // cluster is: most of its stake is where it was.
        let known = self.stakes(voted.slot);
        let is_near = known.is_some() && voted.slot <= self.blocks.newest() + ASKED_AHEAD;
        let Some(stakes) = known.or_else(|| self.epochs.values().next_back().cloned()) else { return };
        if stakes.vote(&voted.account).is_none_or(|vote| vote.stake == 0) {
            return;
        }
        self.tally.record(voted.account, voted.slot);
        let is_here = self.blocks.get(voted.slot).is_some()
            || self.begun.contains(&voted.slot)
            || self.stored.get(&voted.slot).is_some_and(|stored| stored.is_whole);
        if voted.slot <= self.consensus.root().slot || is_here {
            return;
        }
        let is_enough = match is_near {
            true => self.tally.exceeds_share(&stakes, ASKED_BY, |slot| slot == voted.slot),
            false => self.tally.exceeds_share(&stakes, 3, |slot| slot >= voted.slot),
        };
        if is_enough {
            self.wanted.insert(voted.slot);
        }
    }

    /// Handles gossip's news that a node has these slots.
    pub fn on_slots(&mut self, node: &Pubkey, slots: impl IntoIterator<Item = u64>) {
        slots.into_iter().for_each(|slot| self.consensus.on_has_slot(node, slot));
    }

    /// Handles a proof that a slot's leader made two blocks.
    pub fn on_duplicate(&mut self, slot: u64) {
        // A slot that is rooted or far away is no news.
        self.count.duplicate_slots += u64::from(self.consensus.on_duplicate(slot).is_ok());
    }

    /// Handles the agreed ancestors of the block in [`Output::AskAncestors`], itself included.
    pub fn on_ancestors(&mut self, chain: &[BankId]) {
        self.consensus.on_ancestors(chain);
    }

    /// Handles the signatures for a vote's message, in the order of its signers. Signatures of any vote but the last
    /// are useless.
    ///
    /// # Panics
    /// If there are no signatures, because sign refused the vote, and no key was removed. It would refuse all others
    /// too, and a lone node would never confirm anything again.
    pub fn on_signed(&mut self, number: u64, signatures: &[Signature], now: Clocks) {
        if signatures.is_empty() && self.config.voters.were_removed() {
            // The vote was on its way when its key was removed.
            return;
        }
        assert!(!signatures.is_empty(), "sign refused the node's own vote");
        let Some(UnsignedVote { message, id, .. }) = self.unsigned.take_if(|unsigned| unsigned.number == number) else {
            return;
        };
        let mut left = signatures.iter();
        let transaction = message.sign_with(|_, _| *left.next().expect("one for each signer"));
        if let Some(id) = id {
            tracing::debug!("the vote for slot {} is signed", id.slot);
            self.out.push(Output::Vote(transaction.clone()));
            let account = self.config.vote_account.expect("only a node that votes has votes signed");
            // A vote that is sent again is already known.
            let _ = self.consensus.on_vote(&account, id);
        }
        if self.config.gossips {
            self.refresh = Some(VoteRefresh::new(transaction.clone(), now.monotonic));
            self.out.push(Output::Gossip(transaction));
        }
    }

    /// Returns the actions due since the last call, in order.
    pub fn outputs(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.out)
    }

    /// Does what is due.
    ///
    /// # Errors
    /// Writing the tower failed for another reason than a full disk; its vote is not sent.
    pub fn poll(&mut self, now: Clocks, files: &mut dyn Files) -> Result<(), TowerError> {
        self.out.extend(std::mem::take(&mut self.wanted).into_iter().map(Output::Want));
        if let Some(refresh) = &mut self.refresh
            && refresh.is_due(now.monotonic)
        {
            self.out.push(Output::Gossip(refresh.transaction.clone()));
        }
        if self.is_leaving(now, files)? {
            return Ok(());
        }
        let is_joining = self.is_joining(now);
        let (bank, since) = self.reset;
        let elapsed = now.monotonic.saturating_sub(since).as_nanos();
        let ticks = elapsed * u128::from(TICKS_PER_SLOT) / self.config.slot.as_nanos();
        let clock = Clock { now_ms: now.unix_ms, tick_height: (bank + 1) * TICKS_PER_SLOT + ticks as u64 };
        self.save(files)?;
        let is_busy = self.making.is_some() || is_joining || self.is_elsewhere(clock.tick_height);
        let Self { config, schedule, epochs, stored, dead, begun, consensus, .. } = self;
        let leaders = Leaders { schedule, epochs };
        let view = View { node: &config.node, leads: config.leads, leaders, stored, dead, begun, is_busy };
        for action in consensus.step(clock, &view) {
            self.act(action, now, files)?;
        }
        self.note_adoption(now);
        self.count.unrooted_blocks = self.blocks.count() as u64 - 1;
        Ok(())
    }

    fn act(&mut self, action: Action, now: Clocks, files: &mut dyn Files) -> Result<(), TowerError> {
        match action {
            Action::Vote { vote, saved } => {
                if active(Mutation::EarlyVote) {
                    self.sign(&vote, Some(vote.id));
                }
                match self.unsaved {
                    None => self.unsaved = Some((vote, saved)),
                    Some(_) => {
                        let before = self.next_vote.replace((vote, saved));
                        self.count.replaced_votes += u64::from(before.is_some());
                    }
                }
                self.save(files)?;
            }
            Action::Refresh(vote) if self.unsaved.is_none() => self.sign(&vote, Some(vote.id)),
            // A vote that is not on disk yet is sent once it is.
            Action::Refresh(_) => {}
            Action::Reset(id) => {
                self.reset = (id.slot, now.monotonic);
                self.send(Command::BuildOn(id));
            }
            Action::Root(rooted) => self.root(&rooted, files)?,
            Action::Confirmed(id) => {
                self.out.push(Output::Confirmed(id));
                self.send(Command::Confirmed(id));
            }
            Action::Finalized(slot) => self.send(Command::Finalized(slot)),
            Action::Begin { slot, parent } => {
                self.making = Some(slot);
                self.begun.insert(slot);
                self.count.begun_slots += 1;
                self.send(Command::Begin { slot, parent });
            }
            Action::Dump(slot) => {
                self.blocks.dump(slot);
                self.dead.split_off(&slot);
                self.dumping.push_back(slot);
                self.send(Command::Dump(slot));
            }
            Action::AskAncestors(slot) => self.out.push(Output::AskAncestors(slot)),
            Action::Rebroadcast(slot) => {
                self.count.unseen_blocks += 1;
                self.out.push(Output::Resend(slot));
            }
        }
        Ok(())
    }

    fn send(&mut self, command: Command) {
        self.out.push(Output::Replay(command));
    }

    /// Writes the tower of a vote to disk and then requests its signatures; afterwards the same for the newest vote. A
    /// full disk is retried.
    fn save(&mut self, files: &mut dyn Files) -> Result<(), TowerError> {
        while let Some((vote, tower)) = self.unsaved.take() {
            let is_skipped = active(Mutation::SkippedTower) && !vote.id.slot.is_multiple_of(8);
            let saved = if is_skipped { Poll::Ready(Ok(())) } else { files.save_tower(&tower) };
            match saved {
                Poll::Ready(Ok(())) => {
                    self.sign(&vote, Some(vote.id));
                    self.unsaved = self.next_vote.take();
                }
                Poll::Pending => {
                    self.unsaved = Some((vote, tower));
                    break;
                }
                Poll::Ready(Err(why)) if why.is_full() => {
                    self.count.unsaved += 1;
                    self.unsaved = self.next_vote.take().or(Some((vote, tower)));
                    break;
                }
                Poll::Ready(Err(why)) => return Err(why.into()),
            }
        }
        Ok(())
    }

    /// Submits a vote for signing, replacing an unsigned one.
    fn sign(&mut self, vote: &TowerVote, id: Option<BankId>) {
        let Some(account) = self.config.vote_account else { return };
        let named = self.blocks.get(vote.blockhash_of.slot).unwrap_or(&self.head);
        let authorized = self.own_voters.get(&self.schedule.epoch(named.id.slot));
        // The key may not be here, or the operator may have removed all: then the node only keeps its tower.
        let Some(voter) = self.config.voters.choose(authorized, &self.config.node) else { return };
        let message = votes::message(vote, &self.config.node, &voter, &account, named.blockhash);
        self.numbered += 1;
        self.out.push(Output::Sign { number: self.numbered, message: message.clone() });
        self.unsigned = Some(UnsignedVote { number: self.numbered, message, id });
    }

    fn root(&mut self, rooted: &[BankId], files: &mut dyn Files) -> Result<(), TowerError> {
        let Some(root) = rooted.last() else { return Ok(()) };
        match files.save_root(*root) {
            Err(why) if !why.is_full() => return Err(why.into()),
            // An older root is as good, and the next one comes soon.
            saved => self.count.unsaved += u64::from(saved.is_err()),
        }
        self.blocks.set_root(root.slot);
        self.dead = self.dead.split_off(&root.slot);
        self.begun = self.begun.split_off(&root.slot);
        self.stored = self.stored.split_off(&(root.slot + 1));
        self.epochs = self.epochs.split_off(&self.schedule.epoch(root.slot));
        self.own_voters = self.own_voters.split_off(&self.schedule.epoch(root.slot));
        self.count.root_slot = root.slot;
        self.out.push(Output::Root(root.slot));
        self.send(Command::Root(*root));
        Ok(())
    }

    /// Whether the node is still waiting for the cluster.
    fn is_joining(&mut self, now: Clocks) -> bool {
        let newest = self.blocks.newest();
        let stakes = self.stakes(newest);
        let Some(join_wait) = &mut self.join_wait else { return false };
        let own = self.config.vote_account.as_ref();
        let others = stakes.map(|stakes| self.tally.cluster_tip(&stakes, own)).unwrap_or_default();
        let wait = join_wait.poll(now.monotonic, others, newest, self.reset.0);
        if wait == Wait::OverFromNow {
            self.reset.1 = now.monotonic;
        }
        if wait != Wait::Still {
            self.join_wait = None;
        } else if join_wait.is_note_due(now.monotonic) {
            tracing::warn!("the chain has not begun: waiting for votes of more than two thirds of its stake");
        }
        wait == Wait::Still
    }

    /// Whether the node leads, more than a third of the stake has voted for blocks not executed here, and there is a
    /// block to execute. It may belong to their fork, while each own block and vote binds this node to another one.
    fn is_elsewhere(&self, tick_height: u64) -> bool {
        if !self.has_backlog || self.leader(tick_height / TICKS_PER_SLOT) != Some(self.config.node) {
            return false;
        }
        let Some(stakes) = self.stakes(self.blocks.newest()) else { return false };
        let root = self.consensus.root().slot;
        let is_known =
            |slot: u64| self.blocks.get(slot).is_some() || self.begun.contains(&slot) || self.dead.contains(&slot);
        self.tally.exceeds_share(&stakes, 3, |slot| slot > root && !is_known(slot))
    }

    /// The stakes of a slot's epoch, if known.
    pub fn stakes(&self, slot: u64) -> Option<Arc<EpochStakes>> {
        self.epochs.get(&self.schedule.epoch(slot)).cloned()
    }

    fn leader(&self, slot: u64) -> Option<Pubkey> {
        Leaders { schedule: &self.schedule, epochs: &self.epochs }.of(slot)
    }
}

/// The authorized voter of the own account, if these name it.
fn own_voter(config: &Config, voters: &[(Pubkey, Pubkey)]) -> Option<Pubkey> {
    let account = config.vote_account?;
    voters.iter().find(|(of, _)| *of == account).map(|(_, voter)| *voter)
}

/// The leader schedule of the known epochs.
#[derive(Clone, Copy)]
struct Leaders<'a> {
    schedule: &'a EpochSchedule,
    epochs: &'a BTreeMap<u64, Arc<EpochStakes>>,
}

impl Leaders<'_> {
    fn of(&self, slot: u64) -> Option<Pubkey> {
        let (epoch, index) = self.schedule.epoch_and_index(slot);
        let epoch = epoch.saturating_sub(u64::from(active(Mutation::StaleSchedule)));
        let leaders = self.epochs.get(&epoch)?.leaders(self.schedule.slots_in_epoch(epoch));
        leaders.leader(index).map(|leader| leader.node)
    }
}

/// The leader logic's view of the node.
struct View<'a> {
    node: &'a Pubkey,
    /// Whether it makes blocks in its leader slots.
    leads: bool,
    leaders: Leaders<'a>,
    stored: &'a BTreeMap<u64, StoredBlock>,
    dead: &'a BTreeSet<u64>,
    begun: &'a BTreeSet<u64>,
    is_busy: bool,
}

impl LeaderView for View<'_> {
    fn leader(&self, slot: u64) -> Option<Pubkey> {
        // A node that makes no blocks here, or makes them by its own clock, has no leader slots.
        self.leads.then(|| self.leaders.of(slot)).flatten()
    }

    fn has_shreds(&self, slot: u64) -> bool {
        !active(Mutation::RepeatedSlot) && (self.stored.contains_key(&slot) || self.begun.contains(&slot))
    }

    fn is_busy(&self) -> bool {
        self.is_busy
    }

    fn has_child(&self, parent: u64, before: u64) -> bool {
        let mut above = self.stored.range(parent + 1..before.max(parent + 1));
        above.any(|(slot, stored)| {
            stored.parent == parent && !self.dead.contains(slot) && self.leaders.of(*slot).as_ref() != Some(self.node)
        })
    }
}
