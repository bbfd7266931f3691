//! solo: consensus of a node that is its own cluster: it has all the stake, makes every block, and gossip is off.
//!
//! reads   `store_tower`, reliable: the newest block that is durable with all before it; its bank hash, which this tile
//!         helps to compute if the banks are idle
//! writes  to [`Core`]: that block; to the ledger: what is confirmed and what is final
//! memory  a block
//! drops   blocks superseded by a newer one before their turn: the vote for the newer one covers them
//!
//! Poh builds each block on the previous one, so there are no forks to choose from and nothing to re-execute: consensus
//! receives each block as replay would report it. The node's account counts by the votes that it has cast, landed or
//! not, and no other account counts: a chain in which another node has stake still makes progress.
//!
//! There is no tower on disk. Blocks are durable before the node votes for them, and are part of its chain after a
//! restart: the last block is then the root, since no other node can have built on another one. The timestamp of the
//! last vote is in the vote account, which accepts no vote with an earlier one.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use hearth_consensus::{AccountVotes, BankId, FrozenBank, Lockouts, Tower as Votes};
use hearth_ledger::stakes::{EpochStakes, VoteStake};
use hearth_ledger::{Ledger, VoteState};
use hearth_tile::{Frag, Host, InitError, Out, Tile};
use hearth_wire::{Hash, Pubkey};

use super::core::{Clocks, Config as CoreConfig, Core, Output};
use super::messages::{Command, Event, FrozenBlock, Start};
use super::saved::{Files, SavedError};
use crate::links::STORE_TOWER;
use crate::voters::Voters;

/// When to check again whether a durable block can be voted for.
const LOOK_AGAIN_NS: u64 = 200_000;
/// Changed accounts hashed per turn.
const HASHED_IN_TURN: usize = 128;
/// The weight of the node's account: all the stake that counts.
const STAKE: u64 = 1;

/// Drives consensus for a node that is its own cluster.
pub struct SoloDriver {
    ledger: Arc<Ledger>,
    node: Pubkey,
    /// The account that it votes with; if `None`, durable blocks count as confirmed.
    account: Option<Pubkey>,
    /// The last block reported to consensus.
    last: BankId,
    /// Slot and id of the newest durable block, until it is reported to consensus.
    durable: Option<(u64, Hash)>,
    look_at: u64,
}

impl SoloDriver {
    /// Starts at the ledger's last block, with the given id, and returns consensus with that block as its root. The
    /// node votes if the chain has an account for which it is the authorized voter.
    pub fn new(ledger: Arc<Ledger>, node: Pubkey, block_id: Hash, slot: Duration, now: Clocks) -> (Core, Self) {
        let (account, state) = vote_account(&ledger, &node).unzip();
        let (block, (root, hash)) = (ledger.recent_blocks(1)[0], ledger.hash_all());
        let id = BankId { slot: root, hash };
        let alone = Self { ledger, node, account, last: id, durable: None, look_at: 0 };
        let schedule = *alone.ledger.epoch_schedule();
        let mut stakes = EpochStakes::default();
        stakes.epoch = schedule.epoch(root);
        stakes.votes =
            account.map(|vote| VoteStake { vote, node, collector: node, stake: STAKE }).into_iter().collect();
        let lockouts = Lockouts { votes: vec![], root: Some(root) };
        let start = Start {
            block: alone.block(id, block_id, block.blockhash, &lockouts),
            ancestors: vec![],
            schedule,
            epochs: vec![Arc::new(stakes)],
            stored: vec![],
        };
        let voters = Voters::one(node);
        let config =
            CoreConfig { node, vote_account: account, voters, leads: false, gossips: false, is_begin: false, slot };
        let votes = state.map(|state| {
            let (slot, unix_s) = state.last_timestamp;
            Votes::new(id).with_timestamp(slot, unix_s)
        });
        (Core::new(config, start, votes, now).expect("a tower that begins at the root fits it"), alone)
    }

    /// The account that the node votes with, if it votes.
    pub fn account(&self) -> Option<Pubkey> {
        self.account
    }

    /// From now on votes make blocks final.
    pub(super) fn begin(self, host: &mut Host<'_>) -> Result<Self, InitError> {
        host.input(STORE_TOWER)?;
        if self.account.is_some() {
            self.ledger.begin_voting(Some(self.last.slot));
        }
        Ok(self)
    }

    /// Handles store's report of a durable block.
    pub(super) fn on_durable(&mut self, frag: &Frag<'_>) {
        let slot = frag.tag();
        if self.account.is_none() {
            self.ledger.mark_stored(slot);
            return;
        }
        self.durable = Some((slot, frag.payload().try_into().expect("a block's id")));
    }

    /// Reports the newest durable block to consensus once its bank hash is known and the previous vote is signed.
    /// Returns whether it did.
    pub(super) fn report_block<T: Tile>(&mut self, core: &mut Core, out: &Out<'_, T>) -> bool {
        let Some((slot, block_id)) = self.durable.filter(|_| out.now() >= self.look_at && !core.is_signing()) else {
            return false;
        };
        // The banks compute it; if they are idle, this does.
        self.ledger.hash_some(HASHED_IN_TURN);
        let summary = self.ledger.summary(slot);
        let Some((summary, hash)) = summary.and_then(|summary| Some((summary, summary.bank_hash?))) else {
            // It may be whole on disk a moment before its slot has ended here, or its hash is still being computed.
            self.look_at = out.now() + LOOK_AGAIN_NS;
            return false;
        };
        self.durable = None;
        let id = BankId { slot, hash };
        let block = self.block(id, block_id, summary.blockhash, core.lockouts());
        self.last = id;
        core.on_event(Event::Frozen(Box::new(block)), Clocks::at(out));
        true
    }

    /// When there is work to do without any input.
    pub(super) fn look_at(&self, core: &Core) -> Option<u64> {
        self.durable.filter(|_| !core.is_signing()).map(|_| self.look_at)
    }

    /// Applies an output of consensus: marks confirmed and final blocks in the ledger, and ignores everything else.
    pub(super) fn apply(&self, output: &Output) {
        match output {
            Output::Confirmed(id) => drop(self.ledger.mark_stored(id.slot)),
            Output::Replay(Command::Finalized(slot)) => drop(self.ledger.mark_rooted(*slot)),
            _ => {}
        }
    }

    /// Builds a block on the last one, in which the node has cast these votes.
    fn block(&self, id: BankId, block_id: Hash, blockhash: Hash, cast: &Lockouts) -> FrozenBlock {
        // The tower has had the account's last timestamp since the start.
        let last_timestamp = (0, 0);
        let own = |key| AccountVotes { key, stake: STAKE, votes: cast.votes.clone(), root: cast.root, last_timestamp };
        let votes = self.account.map(own).into_iter().collect();
        let bank = FrozenBank { id, parent: self.last, block_id, leader: self.node, votes };
        FrozenBlock { bank, blockhash, voters: vec![] }
    }
}

/// Finds the vote account for which a node is the authorized voter, if the chain has one, with its state.
fn vote_account(ledger: &Ledger, node: &Pubkey) -> Option<(Pubkey, VoteState)> {
    let epoch = ledger.clock().epoch;
    let mut accounts = ledger.vote_accounts().into_iter();
    let own = accounts.find(|account| account.state.node == *node && account.state.voter(epoch) == Some(*node));
    own.map(|account| (account.key, account.state))
}

/// A lone node stores no tower and no root: after a restart the last block of its chain is the root.
pub struct NoFiles;

impl Files for NoFiles {
    fn save_tower(&mut self, _: &[u8]) -> Poll<Result<(), SavedError>> {
        Poll::Ready(Ok(()))
    }

    fn save_root(&mut self, _: BankId) -> Result<(), SavedError> {
        Ok(())
    }
}
