//! The votes of the genesis' validators: most are right and in time, some are late, some are wrong.

use std::collections::VecDeque;
use std::ops::Range;

use solana_account::ReadableAccount;
use solana_hash::Hash;
use solana_keypair::Keypair;
use solana_runtime::bank::Bank;
use solana_signer::Signer;
use solana_vote_interface::instruction as vote;
use solana_vote_interface::state::{Lockout, MAX_LOCKOUT_HISTORY, TowerSync, Vote, VoteStateUpdate, VoteStateV4};

use crate::block::Block;
use crate::genesis::GENESIS_TIME;
use crate::world::{Validator, World};

/// How the validators of a scenario vote.
#[derive(Default)]
pub struct Voting {
    /// Slots in which nobody votes.
    pub silent: Vec<Range<u64>>,
    /// Validators that never vote, by their number.
    pub absent: Vec<usize>,
    /// Percent of votes for a block before the parent.
    pub late_percent: u64,
    /// Percent of blocks that leave a validator's vote out.
    pub missing_percent: u64,
    /// Percent of votes that the program must refuse.
    pub wrong_percent: u64,
    /// Whether the instructions before tower sync are used too; the chain must lack their deprecation.
    pub legacy: bool,
    /// Seconds that a validator's clock runs ahead, for the validators in turn.
    pub clock_skew: Vec<i64>,
}

/// Lets each validator vote in `block`.
pub fn cast(block: &mut Block<'_>, world: &World, voting: &Voting) {
    let slot = block.bank.slot();
    if voting.silent.iter().any(|silent| silent.contains(&slot)) {
        return;
    }
    for (n, validator) in world.validators.iter().enumerate() {
        if voting.absent.contains(&n) || block.rng.chance(voting.missing_percent) {
            continue;
        }
        let skew = voting.clock_skew.get(n).copied().unwrap_or_default();
        vote_of(block, validator, voting, skew);
    }
}

/// Lets a validator vote in `block`, with a clock that runs `skew` seconds ahead.
pub fn vote_of(block: &mut Block<'_>, validator: &Validator, voting: &Voting, skew: i64) {
    let parent = block.parent.clone();
    let Some(state) = vote_state(&block.bank, validator) else { return };
    let late = if block.rng.chance(voting.late_percent) { block.rng.between(1, 12) } else { 0 };
    let mut chain = vec![parent.clone()];
    chain.extend(parent.parents());
    let target = &chain[(late as usize).min(chain.len() - 1)];
    let last = state.votes.back().map(|vote| vote.slot());
    if last.is_some_and(|last| last >= target.slot()) {
        return;
    }
    let mut update = next_tower(&state, target.slot());
    update.hash = target.hash();
    // A validator's clock: a slot takes 400 ms, and a vote is never earlier than the one before it.
    let now = GENESIS_TIME + block.bank.slot() as i64 * 2 / 5 + skew + block.rng.below(3) as i64;
    update.timestamp = Some(now.max(state.last_timestamp.timestamp));
    if block.rng.chance(voting.wrong_percent) {
        spoil(block, &mut update);
    }
    send(block, validator, voting, update);
}

/// Sends a tower in one of the instructions that carry one.
fn send(block: &mut Block<'_>, validator: &Validator, voting: &Voting, update: TowerSync) {
    let (account, voter) = (validator.vote.pubkey(), validator.voter.pubkey());
    let kind = if voting.legacy { block.rng.below(8) } else { block.rng.below(20) };
    let TowerSync { lockouts, root, hash, timestamp, .. } = update.clone();
    let old = VoteStateUpdate { lockouts, root, hash, timestamp };
    let newest = old.lockouts.back().map(Lockout::slot).unwrap_or_default();
    let single = Vote { slots: vec![newest], hash, timestamp };
    let instruction = match (voting.legacy, kind) {
        (true, 0 | 1) => vote::vote(&account, &voter, single),
        (true, 2) => vote::vote_switch(&account, &voter, single, Hash::new_from_array([4; 32])),
        (true, 3) => vote::update_vote_state(&account, &voter, old),
        (true, 4) => vote::compact_update_vote_state(&account, &voter, old),
        (true, 5) => vote::compact_update_vote_state_switch(&account, &voter, old, hash),
        (false, 0) => vote::compact_update_vote_state(&account, &voter, old),
        (_, 6 | 7) => vote::tower_sync_switch(&account, &voter, update, hash),
        _ => vote::tower_sync(&account, &voter, update),
    };
    let blockhash = block.blockhash();
    block.send_with(&[instruction], &[&validator.identity, &validator.voter], blockhash);
}

/// Returns the state of a validator's vote account in `bank`.
pub fn vote_state(bank: &Bank, validator: &Validator) -> Option<VoteStateV4> {
    let account = bank.get_account(&validator.vote.pubkey())?;
    VoteStateV4::deserialize(account.data(), &validator.vote.pubkey()).ok()
}

/// Returns the tower of `state` after a vote for `slot`, without hash and time.
pub fn next_tower(state: &VoteStateV4, slot: u64) -> TowerSync {
    let mut tower: Vec<(u64, u32)> = state.votes.iter().map(|vote| (vote.slot(), vote.confirmation_count())).collect();
    let mut root = state.root_slot;
    while tower.last().is_some_and(|(at, count)| at + 2u64.pow(*count) < slot) {
        tower.pop();
    }
    if tower.len() == MAX_LOCKOUT_HISTORY {
        root = Some(tower.remove(0).0);
    }
    tower.push((slot, 1));
    let depth = tower.len();
    // A vote's lockout doubles once more votes stand above it than it has confirmations; the new vote has its one.
    for (at, (_, count)) in tower.iter_mut().enumerate().take(depth - 1) {
        if depth > at + *count as usize {
            *count += 1;
        }
    }
    let lockouts: VecDeque<Lockout> =
        tower.into_iter().map(|(slot, count)| Lockout::new_with_confirmation_count(slot, count)).collect();
    TowerSync { lockouts, root, hash: Hash::default(), timestamp: None, block_id: Hash::default() }
}

/// Makes a tower that the vote program refuses, each time in another way.
fn spoil(block: &mut Block<'_>, update: &mut TowerSync) {
    let newest = update.lockouts.back().map(Lockout::slot).unwrap_or_default();
    match block.rng.below(9) {
        0 => update.hash = Hash::new_from_array([7; 32]),
        1 => update.lockouts.push_back(Lockout::new(newest + 1)),
        2 => update.lockouts.clear(),
        3 => update.lockouts.push_back(Lockout::new(newest)),
        4 => update.root = update.lockouts.front().map(Lockout::slot),
        5 => update.timestamp = Some(0),
        6 => flatten(update, 1),
        7 => {
            update.root = None;
            update.lockouts = std::iter::once(Lockout::new(newest.saturating_sub(40))).collect();
        }
        _ => flatten(update, 33),
    }
}

/// Gives every vote the same number of confirmations.
fn flatten(update: &mut TowerSync, count: u32) {
    for lockout in &mut update.lockouts {
        *lockout = Lockout::new_with_confirmation_count(lockout.slot(), count);
    }
}

/// A vote signed by a key that may not sign it.
pub fn forged(block: &mut Block<'_>, validator: &Validator, thief: &Keypair) {
    let Some(state) = vote_state(&block.bank, validator) else { return };
    let mut update = next_tower(&state, block.parent.slot());
    update.hash = block.parent.hash();
    let instruction = vote::tower_sync(&validator.vote.pubkey(), &thief.pubkey(), update);
    block.send(&[instruction], &[thief]);
}
