//! identity: tower's part in a change of the node's identity, and votes that the identity cast elsewhere.
//!
//! reads   the operator's request; the time
//! writes  the identity, for every tile; the tower's file
//! source  `solana-core` 4.2.2, `replay_stage.rs`; docs/validator.md
//!
//! A change takes place between two blocks of this node: the shreds of one block have one signer. While it is awaited
//! the node casts no vote and begins no slot. Its tower is put away before any other tile learns of the change, so that
//! the operator may copy it to another machine as soon as the change is reported.

use std::task::Poll;
use std::time::Duration;

use hearth_consensus::{Adoption, NewIdentity, SETTLED_SLOTS, StartError};
use hearth_wire::Pubkey;
use hearth_wire::base58::encode_32;

use super::{Clocks, Core, Files, Output, TowerError};
use crate::identity::{IdentityWatch, Role};

/// How long a change waits for the end of an own block.
const BLOCK_FOR: Duration = Duration::from_secs(5);
/// How long it waits until an ended one is whole in the store, and with that signed.
const STORED_FOR: Duration = Duration::from_secs(1);
/// How often the operator is warned of votes that are not this process's.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// A change that is under way.
#[derive(Debug)]
pub(super) struct IdentityChange {
    node: Pubkey,
    role: Role,
    since: Duration,
    /// Since when no own block is in progress.
    unled_since: Option<Duration>,
    /// Whether the tower is being put away: from then on nothing but its result decides.
    is_tower_moving: bool,
}

impl Core {
    /// Lets the operator change the identity.
    #[must_use]
    pub fn with_identity(mut self, watch: IdentityWatch) -> Self {
        self.identity = Some(watch);
        self
    }

    /// For a node whose tower may lack votes of its account: it takes these, and votes once they are old.
    pub fn settle_first(&mut self) {
        self.consensus.settle_first();
        // A node that alone has stake would wait for ever.
        if self.join_wait.is_some() {
            self.consensus.lead_after_a_rooted_vote();
        }
    }

    /// Warns if votes of the account were taken that another process cast. That one may have made blocks, too, which
    /// are not here: none is made before a vote that is cast from now on is rooted.
    pub(super) fn note_adoption(&mut self, now: Clocks) {
        let Some(Adoption { bank, landed, newest }) = self.consensus.take_adoption() else { return };
        self.count.adopted_towers += 1;
        if self.have_others_stake(&self.config.node) {
            self.consensus.lead_after_a_rooted_vote();
        }
        if self.warned_at.is_some_and(|at| now.monotonic < at + WARN_EVERY) {
            return;
        }
        self.warned_at = Some(now.monotonic);
        let newest = newest.map_or_else(|| "no slot".to_owned(), |slot| format!("slot {slot}"));
        tracing::warn!(
            "the vote account has votes up to slot {landed} in the block of slot {}, and this node's tower, up to \
             {newest}, lacks some of them: they were cast elsewhere by this identity; the tower takes them over. One \
             identity is one node",
            bank.slot
        );
    }

    /// Carries on with a change of the identity. Returns whether one is under way: then consensus decides nothing.
    ///
    /// # Errors
    /// Writing a vote's tower failed.
    pub(super) fn is_leaving(&mut self, now: Clocks, files: &mut dyn Files) -> Result<bool, TowerError> {
        if let Some((node, role)) = self.identity.as_mut().and_then(IdentityWatch::take_request) {
            match role.tower.clone().map(|tower| self.consensus.aligned(tower)).transpose() {
                Ok(_) => {
                    let (since, unled_since) = (now.monotonic, None);
                    self.leaving = Some(IdentityChange { node, role, since, unled_since, is_tower_moving: false });
                }
                Err(why) => self.refuse(misfit(&why)),
            }
        }
        let Some(IdentityChange { since, is_tower_moving, .. }) = self.leaving else { return Ok(false) };
        if !is_tower_moving {
            self.save(files)?;
            if !self.has_ended_blocks(now) {
                if now.monotonic >= since + BLOCK_FOR {
                    self.refuse("an own block does not end; try again".to_owned());
                }
                return Ok(self.leaving.is_some());
            }
            let is_unsaved = self.unsaved.is_some() && now.monotonic < since + BLOCK_FOR;
            if is_unsaved {
                return Ok(true);
            }
        }
        match files.leave(&self.config.node) {
            Poll::Pending => {
                self.leaving.iter_mut().for_each(|leaving| leaving.is_tower_moving = true);
                return Ok(true);
            }
            Poll::Ready(Err(why)) => self.refuse(why.to_string()),
            Poll::Ready(Ok(())) => self.enter(),
        }
        Ok(false)
    }

    /// Whether no own block is in progress, and the last is whole in the store.
    fn has_ended_blocks(&mut self, now: Clocks) -> bool {
        let root = self.consensus.root().slot;
        let is_over = |slot: &u64| self.dead.contains(slot) || self.stored.get(slot).is_some_and(|it| it.is_whole);
        let are_stored = self.begun.range(root + 1..).all(is_over);
        let Some(leaving) = self.leaving.as_mut() else { return false };
        if self.making.is_some() {
            leaving.unled_since = None;
            return false;
        }
        let unled_since = *leaving.unled_since.get_or_insert(now.monotonic);
        are_stored || now.monotonic >= unled_since + STORED_FOR
    }

    /// Takes the new identity, and lets all tiles know.
    fn enter(&mut self) {
        let Some(IdentityChange { node, role, .. }) = self.leaving.take() else { return };
        let Role { vote_account, leads, tower } = role;
        let has_tower = tower.is_some();
        // Blocks that the identity made elsewhere may not be here.
        let waits_for_rooted_vote = vote_account.is_some() && self.have_others_stake(&node);
        // Whether it fits comes first: sign cannot give the key back.
        if let Err(why) = tower.clone().map(|tower| self.consensus.aligned(tower)).transpose() {
            return self.refuse(misfit(&why));
        }
        if let Err(why) = self.identity.as_ref().map_or(Ok(()), IdentityWatch::send_key) {
            return self.refuse(format!("the tile sign does not take the new key: {why}; try again"));
        }
        let new = NewIdentity { node, vote_account, tower, waits_for_rooted_vote };
        self.consensus.set_identity(new).expect("the tower fits");
        let old = std::mem::replace(&mut self.config.node, node);
        self.config.vote_account = vote_account;
        self.config.leads = leads;
        let epoch = self.schedule.epoch(self.head.id.slot);
        let voter = vote_account.and_then(|account| self.voters.get(&account)).copied();
        self.own_voters = voter.map(|voter| (epoch, voter)).into_iter().collect();
        // Votes of the old identity: sign would refuse them.
        self.unsaved = None;
        self.next_vote = None;
        self.unsigned = None;
        self.refresh = None;
        self.config.voters.set_identity(&old, node);
        self.identity.iter_mut().for_each(IdentityWatch::commit);
        self.count.identity_changes += 1;
        self.out.push(Output::Identity(node));
        let votes = match (vote_account, has_tower) {
            (None, _) => "does not vote".to_owned(),
            (Some(_), true) if !self.consensus.is_settling() => "votes by its tower".to_owned(),
            (Some(_), _) => format!(
                "takes its votes from its vote account, and votes once the newest of them is {SETTLED_SLOTS} slots old"
            ),
        };
        tracing::info!("the identity is {} and was {}; it {votes}", encode_32(&node), encode_32(&old));
    }

    /// Whether any stake is another node's.
    fn have_others_stake(&self, node: &Pubkey) -> bool {
        let stakes = self.stakes(self.blocks.newest());
        stakes.is_none_or(|stakes| stakes.votes.iter().any(|vote| vote.stake > 0 && vote.node != *node))
    }

    /// Gives up the change that is under way, and tells the operator why.
    fn refuse(&mut self, why: String) {
        tracing::warn!("the identity stays {}: {why}", encode_32(&self.config.node));
        self.leaving = None;
        self.identity.iter().for_each(|watch| watch.refuse(why.clone()));
    }
}

/// The reason for a refusal of an identity by its tower.
fn misfit(why: &StartError) -> String {
    format!("the tower of the new identity does not fit this node's chain: {why}")
}
