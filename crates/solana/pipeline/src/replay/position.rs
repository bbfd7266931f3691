//! position: where the ledger is, and what executes on it next.
//!
//! reads   tower's commands; the contents of the store; which slot poh is producing
//! writes  the ledger, through an executor; [`Output`]s
//! memory  120 B per block above the root; 40 B per slot that the store has above it, for up to 65,536; a block; what
//!         [`super::vote_hashes`] keeps; events of [`CHANGES_PER_LOOK_MAX`] stored slots
//! drops   blocks that cannot be executed: counted
//!
//! The ledger is at one block, the head. To execute a block on another parent, the ledger first moves there: back to
//! the common ancestor, then forward by re-executing blocks. While poh produces a slot the ledger belongs to poh, and
//! during execution it is between two blocks: commands that need the ledger wait.
//!
//! A [turn](Position::turn) executes a bounded piece of a block; the turn at a block's end hashes what the block
//! changed. This module reads no clock, file or socket: the caller supplies the store, the executor and poh.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use hearth_consensus::{BankId, FrozenBank};
use hearth_ledger::blockstore::{Block, Reader, SlotInfo, StoreError};
use hearth_ledger::stakes::EpochStakes;
use hearth_ledger::{Ledger, RewindError, SlotError, SlotHistory};
use hearth_mutation::{Mutation, active};
use hearth_wire::vote::VoteTarget;
use hearth_wire::{Hash, Pubkey};

use super::ReplayError;
use super::vote_hashes::{AHEAD, VoteHashes};
use crate::poh::Parent;
use crate::tower::{Blocks, Command, Event, FrozenBlock, SLOTS_MAX, Start, StoredBlock, TowerBlock};

/// Maximum changes of stored slots reported to tower per look; after a start the store may have all of [`SLOTS_MAX`].
pub const CHANGES_PER_LOOK_MAX: usize = 1_024;

hearth_tile::counters! {
    /// The counters of replay.
    pub struct Counters {
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
        /// Slots whose block here is not the one that the cluster has, and was dropped.
        dumped_slots: Counter,
        /// Transactions whose metadata was dropped, because store had not yet read earlier metadata.
        dropped_metadata: Counter,
        /// The newest slot that is executed.
        head_slot: Gauge,
        /// The newest slot that two thirds of the stake have voted for.
        confirmed_slot: Gauge,
    }
}

/// The stored blocks, as replay reads them.
pub trait BlockSource {
    /// Returns slots with any data, from `from` on, ascending, at most `count`.
    fn slots(&self, from: u64, count: usize) -> Vec<SlotInfo>;

    /// Reads what the store has of a block.
    ///
    /// # Errors
    /// The store cannot be read.
    fn block(&self, slot: u64) -> Result<Option<Block>, StoreError>;

    /// Returns the Merkle root to which a block's first FEC set is chained: its parent's last.
    ///
    /// # Errors
    /// The store cannot be read.
    fn chained_root(&self, slot: u64) -> Result<Option<Hash>, StoreError>;
}

impl BlockSource for Reader {
    fn slots(&self, from: u64, count: usize) -> Vec<SlotInfo> {
        Self::slots(self, from.., count)
    }

    fn block(&self, slot: u64) -> Result<Option<Block>, StoreError> {
        Self::block(self, slot)
    }

    fn chained_root(&self, slot: u64) -> Result<Option<Hash>, StoreError> {
        Self::chained_root(self, slot)
    }
}

/// The result of executing a block.
#[derive(Debug, Default)]
pub struct ExecutionSummary {
    /// Number of its transactions.
    pub transactions: u64,
    /// Its votes signed by authorized voters.
    pub votes: Vec<VoteTarget>,
    /// The effects of its transactions, if a history is kept.
    pub batches: Option<Vec<Vec<u8>>>,
}

/// Executes blocks, one at a time, in bounded pieces.
pub trait BlockExecutor {
    /// Starts a block on the ledger's head. `is_known` means it executed before, so its signatures are already
    /// verified.
    fn begin(&mut self, ledger: &Ledger, block: Block, is_known: bool);

    /// Executes a bounded piece of the current block.
    fn step(&mut self, ledger: &Ledger) -> Progress;
}

/// Progress on a block.
#[derive(Debug)]
pub enum Progress {
    /// There is more to do.
    Busy,
    /// Nothing can be done until a worker reports.
    Waits,
    /// It has ended or is invalid; then its slot may have started without ending.
    Ended(Result<ExecutionSummary, ReplayError>),
}

/// Controls poh. The ledger belongs to poh while poh produces a slot.
pub trait LeaderControl {
    /// Build on this block from now on.
    fn reset(&mut self, parent: Parent);

    /// Produce a slot on the block given last.
    fn make(&mut self, slot: u64);

    /// Retracts a slot that has not started. Returns false if it has, or if that is not known yet; in the latter case
    /// [`Position::retracted`] follows if it had not.
    fn retract(&mut self) -> bool;

    /// The slot ordered or in progress.
    fn making(&self) -> Option<u64>;
}

/// An action for the caller.
#[derive(Debug)]
pub enum Output {
    /// Report this event to tower.
    Tower(Event),
    /// Report to store that the block of this slot and its ancestors are confirmed.
    Confirmed(u64),
    /// Report the effects of a block's transactions to store.
    Record {
        /// The slot whose block has the transactions.
        slot: u64,
        /// The batches of the history.
        batches: Vec<Vec<u8>>,
    },
    /// Make the store drop the block of this slot, so that another takes its place.
    Dump(u64),
    /// The block of a slot cannot be executed.
    Died {
        /// The slot whose block is dead.
        slot: u64,
        /// Why the block cannot be executed, for the log.
        why: String,
    },
}

/// Why a node can no longer follow its cluster.
#[derive(Debug)]
pub enum PositionError {
    /// The store cannot be read.
    Store(StoreError),
    /// The ledger cannot leave a fork.
    Rewind(RewindError),
    /// A block that executed before fails to execute again.
    Again(ReplayError),
    /// A block had another hash than the first time.
    NotTheSame(u64),
    /// More than a third of the stake has another bank hash for the same block.
    Refuted {
        /// The slot of the block on whose bank hash the nodes differ.
        slot: u64,
        /// The bank hash that the stake names.
        theirs: Hash,
        /// The bank hash computed here.
        ours: Hash,
    },
    /// More than a third of the stake has executed a block that fails here.
    RefutedDead {
        /// The slot of the block that fails here.
        slot: u64,
        /// Why it fails here.
        why: String,
    },
    /// With a block the chain has a feature that this program lacks.
    Feature(SlotError),
}

impl From<StoreError> for PositionError {
    fn from(why: StoreError) -> Self {
        Self::Store(why)
    }
}

impl From<RewindError> for PositionError {
    fn from(why: RewindError) -> Self {
        Self::Rewind(why)
    }
}

/// A block that cannot be executed.
struct Dead {
    /// Its id, if it breaks a rule on the parent that it was made for.
    block_id: Option<Hash>,
    why: String,
}

/// The block being executed.
#[derive(Clone, Copy, Debug)]
enum Task {
    /// A new one, on this parent.
    New { slot: u64, parent: u64, block_id: Hash },
    /// A re-execution on the way to another fork.
    Again { slot: u64 },
}

/// Blocks to re-execute, in order, and what to do after them.
#[derive(Debug)]
struct ReplayPath {
    path: VecDeque<u64>,
    then: NextStep,
}

/// The next step once the ledger has arrived at a block.
#[derive(Clone, Copy, Debug)]
enum NextStep {
    /// Execute the block of this slot on top of it.
    Execute { slot: u64, parent: u64 },
    /// Make poh produce this slot on top of it.
    Make(u64),
    /// Make it the root.
    Root(u64),
}

/// The ledger's position, and the work towards the next one.
pub struct Position<S, X, P> {
    ledger: Arc<Ledger>,
    source: S,
    executor: X,
    /// Set if the node makes blocks.
    poh: Option<P>,
    root: u64,
    blocks: Blocks,
    vote_hashes: VoteHashes,
    /// Slots whose blocks cannot be executed.
    dead: BTreeMap<u64, Dead>,
    /// Dropped versions of slots: the store still has them until the shred tile has processed the drop.
    dumped: BTreeMap<u64, Hash>,
    /// The slots above the root in the store as tower knows them, in order.
    stored: Vec<SlotInfo>,
    /// Whether the last look left changes for the next one.
    is_behind: bool,
    /// The last backlog that was reported to tower.
    has_backlog: Option<bool>,
    /// The slot that poh is producing: the ledger belongs to it.
    making: Option<u64>,
    /// The block being executed.
    task: Option<Task>,
    /// The path of the ledger to another block, while it is under way.
    journey: Option<ReplayPath>,
    /// Tower's commands that wait for the ledger.
    later: VecDeque<Command>,
    /// The newest confirmed block that has not been on the ledger's fork yet.
    confirmed: Option<BankId>,
    /// The newest slot rooted by two thirds of the stake.
    finalized: u64,
    /// Epochs whose stakes tower knows.
    epochs: BTreeSet<u64>,
    out: Vec<Output>,
    /// Counters of replay, which the tile publishes.
    pub count: Counters,
}

impl<S: BlockSource, X: BlockExecutor, P: LeaderControl> Position<S, X, P> {
    /// Starts at the ledger's last block, with the given id, as the root.
    pub fn new(ledger: Arc<Ledger>, block_id: Hash, source: S, executor: X, poh: Option<P>) -> Self {
        let root = head(&ledger, block_id);
        let slot = root.id.slot;
        Self {
            epochs: epochs(&ledger, slot).into_iter().collect(),
            ledger,
            source,
            executor,
            poh,
            root: slot,
            blocks: Blocks::new(root),
            vote_hashes: VoteHashes::default(),
            dead: BTreeMap::new(),
            dumped: BTreeMap::new(),
            stored: vec![],
            is_behind: false,
            has_backlog: None,
            making: None,
            task: None,
            journey: None,
            later: VecDeque::new(),
            confirmed: None,
            finalized: 0,
            out: vec![],
            count: Counters { head_slot: slot, confirmed_slot: slot, ..Counters::default() },
        }
    }

    /// Returns the actions due since the last call, in order.
    pub fn outputs(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.out)
    }

    /// Executes a piece of a block, starts one, or takes over one that poh has produced; returns whether there was
    /// anything to do. The store's contents are as [`Position::look`] last found them.
    ///
    /// # Errors
    /// The node can no longer follow its cluster.
    pub fn turn(&mut self) -> Result<bool, PositionError> {
        if let Some(task) = self.task {
            return self.step(task);
        }
        if self.poh.as_ref().is_some_and(|poh| poh.making().is_some()) {
            return Ok(false);
        }
        match self.making {
            Some(slot) => self.own_block(slot),
            None => self.begin_next(),
        }
    }

    /// Whether a block is being executed.
    pub fn is_executing(&self) -> bool {
        self.task.is_some()
    }

    /// The executor, to hand out its orders and take their reports.
    pub fn executor(&mut self) -> &mut X {
        &mut self.executor
    }

    /// Poh, if the node makes blocks.
    pub fn poh(&mut self) -> Option<&mut P> {
        self.poh.as_mut()
    }

    /// Handles poh's confirmation that the ordered slot was retracted.
    ///
    /// # Errors
    /// The node can no longer follow its cluster.
    pub fn retracted(&mut self, slot: u64) -> Result<(), PositionError> {
        if self.making.take_if(|making| *making == slot).is_some() {
            self.report(Event::Retracted(slot));
        }
        self.catch_up()
    }

    /// Reads which slots the store has, and reports changes to tower: at most [`CHANGES_PER_LOOK_MAX`] slots, the
    /// lowest first.
    pub fn look(&mut self) {
        let found = self.source.slots(self.root + 1, SLOTS_MAX);
        let mut before = std::mem::take(&mut self.stored).into_iter().peekable();
        let mut stored = Vec::with_capacity(found.len());
        let mut changes = 0;
        // Counts a change; returns whether this look still has room to report it.
        let mut has_room = || {
            changes += 1;
            changes <= CHANGES_PER_LOOK_MAX
        };
        for info in found {
            while let Some(gone) = before.next_if(|known| known.slot < info.slot) {
                if has_room() {
                    self.report(Event::Voided(gone.slot));
                } else {
                    stored.push(gone);
                }
            }
            let known = before.next_if(|known| known.slot == info.slot);
            if known.is_some_and(|known| known.whole == info.whole && known.parent_slot == info.parent_slot) {
                stored.push(info);
            } else if has_room() {
                self.report(Event::Stored(stored_block(&info)));
                stored.push(info);
            } else {
                stored.extend(known);
            }
        }
        for gone in before {
            if has_room() {
                self.report(Event::Voided(gone.slot));
            } else {
                stored.push(gone);
            }
        }
        self.stored = stored;
        self.is_behind = changes > CHANGES_PER_LOOK_MAX;
        self.report_backlog();
    }

    /// Whether tower does not know the store's whole contents yet: another look reports more.
    pub fn is_behind(&self) -> bool {
        self.is_behind
    }

    /// Reports to tower whether a block waits to be executed. The answer is "no" only once everything has been looked
    /// at.
    fn report_backlog(&mut self) {
        let has_backlog = self.next().is_some();
        if self.is_behind && !has_backlog {
            return;
        }
        if self.has_backlog.replace(has_backlog) != Some(has_backlog) {
            self.report(Event::Backlog(has_backlog));
        }
    }

    /// Executes a command from tower.
    ///
    /// # Errors
    /// The node can no longer follow its cluster.
    pub fn command(&mut self, command: Command) -> Result<(), PositionError> {
        let needs_ledger = match &command {
            Command::BuildOn(_) | Command::Begin { .. } | Command::Dump(_) => true,
            Command::Root(root) => !self.is_on_line(root.slot),
            Command::Confirmed(_) | Command::Finalized(_) | Command::Voted(_) => false,
        };
        if needs_ledger {
            self.later.push_back(command);
            return self.catch_up();
        }
        self.perform(command)
    }

    /// Executes the commands that waited for the ledger, while replay has it.
    fn catch_up(&mut self) -> Result<(), PositionError> {
        while !self.later.is_empty() && self.has_ledger() {
            let command = self.later.pop_front().expect("it is not empty");
            self.perform(command)?;
        }
        Ok(())
    }

    fn perform(&mut self, command: Command) -> Result<(), PositionError> {
        match command {
            Command::BuildOn(id) => self.build_on(id),
            Command::Begin { slot, parent } => self.go(parent.slot, NextStep::Make(slot))?,
            // From another fork the ledger could not get there any more once the root moves.
            Command::Root(id) if !self.is_on_line(id.slot) => self.go(id.slot, NextStep::Root(id.slot))?,
            Command::Root(id) => self.set_root(id.slot),
            Command::Confirmed(id) => {
                self.confirmed = Some(id);
                self.report_confirmed();
            }
            Command::Finalized(slot) => {
                self.finalized = slot;
                self.mark_final();
            }
            Command::Dump(slot) => self.dump(slot)?,
            Command::Voted(voted) => self.compare(voted)?,
        }
        Ok(())
    }

    fn report(&mut self, event: Event) {
        self.out.push(Output::Tower(event));
    }

    /// Whether replay owns the ledger and it is at a block. Retracts an own slot that poh has not started.
    fn has_ledger(&mut self) -> bool {
        if self.task.is_some() {
            return false;
        }
        if let Some(slot) = self.making
            && self.poh.as_mut().is_some_and(P::retract)
        {
            self.making = None;
            self.report(Event::Retracted(slot));
        }
        self.making.is_none()
    }

    /// Whether the ledger is at a slot's block or a descendant of it.
    fn is_on_line(&self, slot: u64) -> bool {
        self.ledger.summary(slot).is_some()
    }

    /// Takes over a slot that poh has completed: its block counts like any other once it is on disk.
    fn own_block(&mut self, slot: u64) -> Result<bool, PositionError> {
        if !self.stored.iter().any(|info| info.slot == slot && info.whole) {
            return Ok(false);
        }
        let Some(Block { info, block_id, .. }) = self.source.block(slot)? else { return Ok(false) };
        self.making = None;
        let block = self.ledger.recent_blocks(1)[0];
        debug_assert_eq!((block.slot, block.parent), (slot, info.parent_slot), "nobody else has the ledger meanwhile");
        self.froze(slot, info.parent_slot, block_id)?;
        self.catch_up()?;
        // Producing a block takes a while: let tower decide by the latest state.
        self.look();
        Ok(true)
    }

    /// Starts to execute a whole block, if there is one.
    fn begin_next(&mut self) -> Result<bool, PositionError> {
        let Some(info) = self.next() else { return Ok(false) };
        let (slot, parent) = (info.slot, info.parent_slot);
        let is_here = |now: &SlotInfo| now.slot == slot && now.whole && now.parent_slot == parent;
        if !self.source.slots(slot, 1).first().is_some_and(is_here) {
            // The store has had another version of it since the last look.
            self.look();
            return Ok(true);
        }
        let wanted = self.blocks.get(parent).map(|parent| parent.block_id);
        if self.source.chained_root(slot)? != wanted && !active(Mutation::UnchainedBlock) {
            self.died(slot, None, "its first set is chained to another block than the parent here".into());
            self.look();
            return Ok(true);
        }
        self.go(parent, NextStep::Execute { slot, parent })?;
        Ok(true)
    }

    /// Continues with the current block; returns false while it waits for workers.
    fn step(&mut self, task: Task) -> Result<bool, PositionError> {
        let end = match self.executor.step(&self.ledger) {
            Progress::Busy => return Ok(true),
            Progress::Waits => return Ok(false),
            Progress::Ended(end) => end,
        };
        // Executing a block takes a while: let tower decide by the latest state.
        self.look();
        self.task = None;
        match task {
            Task::New { slot, parent, block_id } => self.ended(slot, parent, block_id, end)?,
            Task::Again { slot } => self.ended_again(slot, end)?,
        }
        self.catch_up()?;
        self.look();
        Ok(true)
    }

    /// Handles the end of a new block.
    fn ended(
        &mut self,
        slot: u64,
        parent: u64,
        block_id: Hash,
        end: Result<ExecutionSummary, ReplayError>,
    ) -> Result<(), PositionError> {
        match end {
            Ok(ExecutionSummary { transactions, votes, batches }) => {
                self.record(slot, batches);
                self.count.executed_blocks += 1;
                self.count.executed_transactions += transactions;
                self.froze(slot, parent, block_id)?;
                votes.into_iter().try_for_each(|voted| self.compare(voted))
            }
            // Other nodes may find the block good: this program must not judge it, nor vote for another.
            Err(ReplayError::Slot { source: why @ SlotError::Feature { .. }, .. }) => Err(PositionError::Feature(why)),
            Err(why) => {
                // The slot may have started.
                self.ledger.rewind(parent)?;
                self.died(slot, Some(block_id), why.with_cluster_name());
                self.is_not_refuted(slot)
            }
        }
    }

    /// Handles the end of a re-execution on the way to another fork.
    fn ended_again(&mut self, slot: u64, end: Result<ExecutionSummary, ReplayError>) -> Result<(), PositionError> {
        let executed = end.map_err(PositionError::Again)?;
        self.record(slot, executed.batches);
        self.count.executed_again_blocks += 1;
        let before = *self.blocks.get(slot).expect("it is on the path");
        if self.ledger.hash_all().1 != before.id.hash {
            return Err(PositionError::NotTheSame(slot));
        }
        self.report_epochs(slot, before.parent);
        self.advance()
    }

    /// The next block to execute: preferably one on the head, else the oldest.
    fn next(&self) -> Option<SlotInfo> {
        let head = self.ledger.recent_blocks(1)[0].slot;
        let is_open = |info: &&SlotInfo| {
            let is_new = self.blocks.get(info.slot).is_none() && !self.dead.contains_key(&info.slot);
            info.whole && is_new && self.blocks.get(info.parent_slot).is_some() && !self.is_dumped(info.slot)
        };
        let mut open = self.stored.iter().filter(is_open);
        let first = open.next()?;
        if first.parent_slot == head {
            return Some(*first);
        }
        Some(*open.find(|info| info.parent_slot == head).unwrap_or(first))
    }

    /// Whether the store still has the dropped version of a slot.
    fn is_dumped(&self, slot: u64) -> bool {
        let Some(dumped) = self.dumped.get(&slot) else { return false };
        self.source.block(slot).ok().flatten().is_none_or(|block| block.block_id == *dumped)
    }

    fn record(&mut self, slot: u64, batches: Option<Vec<Vec<u8>>>) {
        self.out.extend(batches.map(|batches| Output::Record { slot, batches }));
    }

    fn died(&mut self, slot: u64, block_id: Option<Hash>, why: String) {
        self.count.dead_blocks += 1;
        self.out.push(Output::Died { slot, why: why.clone() });
        self.dead.insert(slot, Dead { block_id, why });
        self.report(Event::Dead(slot));
    }

    /// Handles a new head that tower does not know.
    fn froze(&mut self, slot: u64, parent: u64, block_id: Hash) -> Result<(), PositionError> {
        self.ledger.hash_all();
        let frozen = self.ledger.frozen(slot).expect("the head is hashed");
        let id = BankId { slot, hash: frozen.bank_hash };
        self.report_epochs(slot, parent);
        let parent_id = self.blocks.get(parent).expect("its parent was executed").id;
        let block = TowerBlock { id, parent, block_id, blockhash: frozen.blockhash };
        self.blocks.add(block);
        self.vote_hashes.froze(&block);
        self.count.head_slot = slot;
        // Before tower receives it: it must not vote for a block against which so much stake has voted.
        self.is_not_refuted(slot)?;
        let event = Event::Frozen(Box::new(frozen_block(&self.ledger, &block, parent_id, Some(&frozen.votes))));
        self.report(event);
        self.report_confirmed();
        Ok(())
    }

    /// Reports to tower the stakes that it does not know, and those that this fork has changed: by a block and its
    /// parent.
    fn report_epochs(&mut self, slot: u64, parent: u64) {
        let schedule = self.ledger.epoch_schedule();
        let begins = schedule.epoch(slot) != schedule.epoch(parent);
        for epoch in epochs(&self.ledger, slot) {
            let is_new = self.epochs.insert(epoch) || begins;
            if let Some(stakes) = self.ledger.epoch_stakes(epoch).filter(|_| is_new) {
                self.report(Event::Epoch(stakes));
            }
        }
    }

    /// Moves the ledger to a block that executed before, and then does `then`.
    fn go(&mut self, slot: u64, then: NextStep) -> Result<(), PositionError> {
        if self.ledger.recent_blocks(1)[0].slot == slot && self.ledger.working_bank().is_none() {
            return self.arrive(then);
        }
        let line = self.ledger.line_from(0).into_iter().collect();
        let (back, path) = self.blocks.path(&line, slot).expect("executed blocks hang together above the root");
        self.ledger.rewind(back)?;
        self.count.forks_left += 1;
        self.journey = Some(ReplayPath { path: path.into(), then });
        self.advance()
    }

    /// Starts the next block on the way, or arrives.
    fn advance(&mut self) -> Result<(), PositionError> {
        let Some(journey) = &mut self.journey else { return Ok(()) };
        let Some(slot) = journey.path.pop_front() else {
            let then = journey.then;
            self.journey = None;
            self.report_confirmed();
            return self.arrive(then);
        };
        let Some(block) = self.source.block(slot)? else { return Err(PositionError::NotTheSame(slot)) };
        self.executor.begin(&self.ledger, block, true);
        self.task = Some(Task::Again { slot });
        Ok(())
    }

    /// Does what the ledger moved here for.
    fn arrive(&mut self, then: NextStep) -> Result<(), PositionError> {
        match then {
            NextStep::Execute { slot, parent } => {
                let is_it = |block: &Block| block.info.whole && block.info.parent_slot == parent;
                let Some(block) = self.source.block(slot)?.filter(is_it) else {
                    // It was voided since, or another version is here in part.
                    self.look();
                    return Ok(());
                };
                self.task = Some(Task::New { slot, parent, block_id: block.block_id });
                self.executor.begin(&self.ledger, block, false);
            }
            NextStep::Make(slot) => {
                let Some(poh) = &mut self.poh else { return Ok(()) };
                poh.make(slot);
                self.making = Some(slot);
            }
            NextStep::Root(slot) => self.set_root(slot),
        }
        Ok(())
    }

    fn build_on(&mut self, id: BankId) {
        let Some(block) = self.blocks.get(id.slot) else { return };
        let TowerBlock { block_id, blockhash, .. } = *block;
        if let Some(poh) = &mut self.poh {
            poh.reset(Parent { slot: id.slot, blockhash, block_id });
        }
    }

    fn set_root(&mut self, root: u64) {
        self.root = root;
        self.blocks.set_root(root);
        self.vote_hashes.set_root(root);
        self.dead = self.dead.split_off(&root);
        self.dumped = self.dumped.split_off(&root);
        self.stored.retain(|info| info.slot > root);
        let epoch = self.ledger.epoch_schedule().epoch(root);
        self.epochs = self.epochs.split_off(&epoch);
        self.mark_final();
    }

    /// Marks as final what two thirds of the stake and this node have rooted.
    fn mark_final(&self) {
        self.ledger.mark_rooted(self.finalized.min(self.root));
    }

    /// Reports confirmed blocks to store, once they are on the ledger's fork.
    fn report_confirmed(&mut self) {
        let Some(id) = self.confirmed.filter(|id| self.blocks.has(id)) else { return };
        if self.is_on_line(id.slot) {
            self.out.push(Output::Confirmed(id.slot));
            self.count.confirmed_slot = id.slot;
            self.confirmed = None;
        }
    }

    /// Drops this node's version of a slot, which is not the cluster's.
    fn dump(&mut self, slot: u64) -> Result<(), PositionError> {
        self.count.dumped_slots += 1;
        let known = self.blocks.get(slot).map(|block| block.block_id);
        let stored = || self.source.block(slot).ok().flatten().map(|block| block.block_id);
        if let Some(block_id) = known.or_else(stored) {
            self.dumped.insert(slot, block_id);
        }
        if let Some(parent) = self.blocks.get(slot).map(|block| block.parent) {
            let head = self.ledger.recent_blocks(1)[0].slot;
            let gone = self.blocks.dump(slot);
            if gone.contains(&head) {
                self.ledger.rewind(parent)?;
            }
        }
        self.dead.split_off(&slot);
        // Which other version has the wanted bank hash is known only after its execution.
        self.out.push(Output::Dump(slot));
        self.report(Event::Dumped(slot));
        Ok(())
    }

    /// Compares a vote with the bank hash computed here, now or later.
    fn compare(&mut self, voted: VoteTarget) -> Result<(), PositionError> {
        let slot = voted.slot;
        let is_near = slot > self.root && slot <= self.blocks.newest() + AHEAD;
        let ours = self.blocks.get(slot);
        if !is_near || ours.is_some_and(|ours| ours.id.hash == voted.bank_hash) {
            return Ok(());
        }
        // Anyone can own a vote account.
        if self.stakes(slot).is_none_or(|stakes| stakes.vote(&voted.account).is_none_or(|vote| vote.stake == 0)) {
            return Ok(());
        }
        self.vote_hashes.note(voted);
        self.is_not_refuted(slot)
    }

    /// # Errors
    /// Other nodes have another hash for the block of a slot, or have executed it although it is dead here.
    fn is_not_refuted(&self, slot: u64) -> Result<(), PositionError> {
        if let Some(Dead { block_id: Some(block_id), why }) = self.dead.get(&slot)
            && self.stakes(slot).is_some_and(|stakes| self.vote_hashes.have(slot, block_id, &stakes))
        {
            return Err(PositionError::RefutedDead { slot, why: why.clone() });
        }
        let refuted = self.blocks.get(slot).zip(self.stakes(slot)).and_then(|(ours, stakes)| {
            let theirs = self.vote_hashes.refute(ours, &stakes)?;
            Some(PositionError::Refuted { slot, theirs, ours: ours.id.hash })
        });
        refuted.map_or(Ok(()), Err)
    }

    fn stakes(&self, slot: u64) -> Option<Arc<EpochStakes>> {
        self.ledger.epoch_stakes(self.ledger.epoch_schedule().epoch(slot))
    }
}

/// Builds tower's initial state at the ledger's last block, with the given id; `rooted` is the slot of tower's own
/// root.
pub fn start(ledger: &Ledger, block_id: Hash, source: &impl BlockSource, rooted: Option<u64>) -> Start {
    let root = head(ledger, block_id);
    let slot = root.id.slot;
    Start {
        block: frozen_block(ledger, &root, root.id, None),
        ancestors: ancestors(ledger, slot, rooted),
        schedule: *ledger.epoch_schedule(),
        epochs: epochs(ledger, slot).into_iter().filter_map(|epoch| ledger.epoch_stakes(epoch)).collect(),
        stored: source.slots(slot + 1, SLOTS_MAX).iter().map(stored_block).collect(),
    }
}

fn stored_block(info: &SlotInfo) -> StoredBlock {
    StoredBlock { slot: info.slot, parent: info.parent_slot, is_whole: info.whole }
}

/// Builds the report of an executed block to tower: `votes` are the vote accounts that it changed, or `None` for all.
fn frozen_block(ledger: &Ledger, block: &TowerBlock, parent: BankId, votes: Option<&[Pubkey]>) -> FrozenBlock {
    let TowerBlock { id, block_id, blockhash, .. } = *block;
    let epoch = ledger.epoch_schedule().epoch(id.slot);
    let accounts = ledger.votes_at(id.slot, votes).unwrap_or_default();
    // An epoch's authorized voters come from all accounts: a change takes effect at the start of an epoch.
    let begins_epoch = votes.is_some() && ledger.epoch_schedule().epoch(parent.slot) != epoch;
    let all = begins_epoch.then(|| ledger.votes_at(id.slot, None).unwrap_or_default());
    let voters = all.as_ref().unwrap_or(&accounts).iter().filter(|(account, _)| account.stake > 0);
    let voters = voters.filter_map(|(account, voter)| Some((account.key, (*voter)?))).collect();
    let leader = ledger.leader_at(id.slot).map(|leader| leader.node).unwrap_or_default();
    let votes = accounts.into_iter().map(|(account, _)| account).collect();
    FrozenBlock { bank: FrozenBank { id, parent, block_id, leader, votes }, blockhash, voters }
}

/// The ledger's last block.
fn head(ledger: &Ledger, block_id: Hash) -> TowerBlock {
    let block = ledger.recent_blocks(1)[0];
    let (slot, hash) = ledger.hash_all();
    TowerBlock { id: BankId { slot, hash }, parent: block.parent, block_id, blockhash: block.blockhash }
}

/// The epochs that matter once the block of a slot exists: its own, and the latest one whose leaders are then known.
fn epochs(ledger: &Ledger, slot: u64) -> [u64; 2] {
    let schedule = ledger.epoch_schedule();
    [schedule.epoch(slot), schedule.leader_schedule_epoch(slot)]
}

/// Slots of the ancestors of the ledger's last block, in `slot`: down to the tower's root if the sysvar that lists them
/// goes back that far; a snapshot may be much newer.
fn ancestors(ledger: &Ledger, slot: u64, rooted: Option<u64>) -> Vec<u64> {
    let line = ledger.line_from(0);
    let oldest = line.first().copied().unwrap_or(slot);
    let recent = line.into_iter().filter(|below| *below < slot);
    match SlotHistory::of(ledger).zip(rooted.filter(|root| *root < oldest)) {
        Some((history, root)) => (root..oldest).filter(|slot| history.has(*slot)).chain(recent).collect(),
        None => recent.collect(),
    }
}

#[cfg(test)]
mod tests;
