//! Decisions on small trees.

use std::sync::Arc;

use super::super::stakes::{VoteStake, VoteWeights};
use super::super::tower::{LastVote, Lockouts};
use super::super::types::AccountVotes;
use super::*;

const ACCOUNTS: u8 = 10;

fn id(slot: u64) -> BankId {
    BankId { slot, hash: [slot as u8; 32] }
}

/// Ten vote accounts with 10 lamports each; this node votes with account 0.
struct World {
    forks: Forks,
    banks: BTreeMap<BankId, Bank>,
    tower: Tower,
    stakes: Stakes,
    seen: BTreeMap<Pubkey, BankId>,
    propagation: Propagation,
}

impl World {
    fn new() -> Self {
        let one = |name| {
            let node = [name + 100; 32];
            VoteStake { vote: [name; 32], node, collector: node, stake: 10 }
        };
        let all: Vec<VoteStake> = (0..ACCOUNTS).map(one).collect();
        let accounts = (0..ACCOUNTS).map(|name| account(name, &[]));
        let root = Bank::new(0, ([0; 32], [0; 32]), None, accounts.collect(), |slot| slot == 0);
        Self {
            forks: Forks::new(id(0)),
            banks: [(id(0), root)].into(),
            tower: Tower::new(id(0)),
            stakes: Stakes::new(0, Arc::new(VoteWeights::new(&all))),
            seen: BTreeMap::new(),
            propagation: Propagation::default(),
        }
    }

    /// Adds a bank in which each of these accounts has voted for these slots.
    fn add(&mut self, slot: u64, parent: u64, voters: std::ops::Range<u8>, slots: &[u64]) {
        self.forks.add(id(slot), id(parent)).expect("a tree");
        let changed: Vec<AccountVotes> = voters.map(|name| account(name, slots)).collect();
        for one in &changed {
            let voted = one.last_vote().and_then(|slot| self.forks.on_chain(&id(parent), slot));
            self.forks.vote(voted.map(|voted| (one.key, voted, 10)));
        }
        let is_ancestor = |slot| self.forks.on_chain(&id(parent), slot).is_some();
        let bank = Bank::new(slot, ([0; 32], [0; 32]), Some(&self.banks[&id(parent)]), changed, is_ancestor);
        self.banks.insert(id(slot), bank);
    }

    fn vote(&mut self, slots: impl IntoIterator<Item = u64>) {
        for slot in slots {
            self.tower.vote(LastVote { id: id(slot), block_id: [0; 32] });
        }
    }

    fn gossip(&mut self, voters: std::ops::Range<u8>, slot: u64) {
        self.seen.extend(voters.map(|name| ([name; 32], id(slot))));
    }

    fn view(&self) -> View<'_> {
        View {
            forks: &self.forks,
            banks: &self.banks,
            tower: &self.tower,
            stakes: &self.stakes,
            seen: &self.seen,
            propagation: &self.propagation,
            vote_account: Some(&[0; 32]),
        }
    }

    fn decide(&self) -> Decision {
        self.view().decide()
    }
}

fn account(name: u8, slots: &[u64]) -> AccountVotes {
    let mut lockouts = Lockouts { votes: Vec::new(), root: Some(0) };
    slots.iter().for_each(|slot| assert!(lockouts.process(*slot)));
    let (votes, root) = (lockouts.votes, lockouts.root);
    AccountVotes { key: [name; 32], stake: 10, votes, root, last_timestamp: (0, 0) }
}

/// This node voted for 1, 2, 3; the others build on 1:
/// ```text
/// 0 ─ 1 ─┬─ 2 ─ 3
///        └─ 4 ─ 20
/// ```
fn two_forks(voters: std::ops::Range<u8>) -> World {
    let mut world = World::new();
    world.add(1, 0, 0..0, &[]);
    world.add(2, 1, 0..0, &[]);
    world.add(3, 2, 0..1, &[1, 2]);
    world.add(4, 1, 0..0, &[]);
    world.add(20, 4, voters, &[1, 4]);
    world.vote([1, 2, 3]);
    world
}

#[test]
fn heaviest_bank_gets_one_vote() {
    let mut world = World::new();
    assert_eq!(world.decide(), Decision { vote: Err(Refusal::LockedOut), reset: Some(id(0)) });
    world.add(1, 0, 0..0, &[]);
    assert_eq!(world.decide(), Decision { vote: Ok((id(1), false)), reset: Some(id(1)) });
    world.vote([1]);
    assert_eq!(world.decide(), Decision { vote: Err(Refusal::LockedOut), reset: Some(id(1)) });
}

#[test]
fn fork_switch_needs_38_percent_elsewhere() {
    // The vote for 4 binds those who voted 1, 4 until 6, after this node's 3. Their fork has more votes than this
    // node's.
    let three = two_forks(1..4);
    assert_eq!(three.forks.heaviest(), id(20));
    let stay = Decision { vote: Err(Refusal::Switch(Switch::FailedThreshold)), reset: Some(id(3)) };
    assert_eq!(three.decide(), stay);
    let four = two_forks(1..5);
    assert_eq!(four.decide(), Decision { vote: Ok((id(20), true)), reset: Some(id(20)) });
}

#[test]
fn newer_gossip_votes_count_once_for_a_switch() {
    let mut world = two_forks(1..4);
    world.gossip(1..4, 20);
    assert_eq!(world.view().switch(&id(20)), Switch::FailedThreshold);
    world.gossip(4..5, 2);
    assert_eq!(world.view().switch(&id(20)), Switch::FailedThreshold, "older than the last vote, and no other fork");
    world.gossip(4..5, 20);
    assert_eq!(world.view().switch(&id(20)), Switch::Proof);
}

#[test]
fn later_branches_are_no_switch_proof() {
    let mut world = two_forks(1..2);
    world.add(30, 2, 0..0, &[]);
    world.gossip(2..9, 30);
    assert_eq!(world.view().switch(&id(20)), Switch::FailedThreshold);
    assert_eq!(world.view().switch(&id(30)), Switch::Proof);
}

#[test]
fn lockout_forbids_a_switch_despite_proof() {
    let mut world = two_forks(1..5);
    world.add(5, 1, 0..0, &[]);
    world.gossip(1..9, 5);
    // The vote for 3 binds until 5, for 2 until 6; 1 is an ancestor.
    assert_eq!(world.view().switch(&id(5)), Switch::Proof);
    assert_eq!(world.view().refusal(&id(5)), Some(Refusal::LockedOut));
    assert_eq!(world.view().refusal(&id(20)), None);
}

/// A chain of banks 1..=`slots`, in the last of which `voters` have voted for all but the last; so has this node.
fn line(slots: u64, voters: u8) -> World {
    let mut world = World::new();
    let voted: Vec<u64> = (1..slots).collect();
    for slot in 1..slots {
        world.add(slot, slot - 1, 0..0, &[]);
    }
    world.add(slots, slots - 1, 0..voters, &voted);
    world.vote(voted);
    world
}

#[test]
fn ninth_vote_needs_the_threshold() {
    assert_eq!(line(8, 0).decide().vote, Ok((id(8), false)), "the tower is not deep enough to ask");
    assert_eq!(line(9, 6).decide().vote, Err(Refusal::Threshold));
    assert_eq!(line(9, 6).decide().reset, Some(id(9)));
    assert_eq!(line(9, 7).decide().vote, Ok((id(9), false)));
}

#[test]
fn vote_without_longer_lockout_needs_no_threshold() {
    let mut world = line(21, 0);
    assert_eq!(world.decide().vote, Err(Refusal::Threshold));
    // At 40 the votes for 1 to 16 still bind; with eight votes on top, 9 binds as long as before.
    world.add(40, 21, 0..0, &[]);
    let bound = world.tower.lockouts().votes.iter().filter(|vote| vote.binds_at(40)).map(|vote| vote.slot);
    assert!(bound.eq(1..=16));
    assert_eq!(world.decide().vote, Ok((id(40), false)));
}

#[test]
fn unpropagated_own_block_gets_no_votes_above() {
    let mut world = World::new();
    world.add(1, 0, 0..0, &[]);
    world.add(2, 1, 0..0, &[]);
    let stakes = Arc::clone(world.stakes.of(1));
    world.propagation.add(id(1), None, &[100; 32], stakes, 0);
    for slot in [1, 2] {
        world.banks.get_mut(&id(slot)).expect("added").own = Some(id(1));
    }
    assert_eq!(world.decide().vote, Err(Refusal::Propagation));
    assert_eq!(world.view().refusal(&id(1)), None, "an own block itself may be voted for");
    for name in 1..4 {
        world.propagation.seen(Some(id(1)), &[name; 32]);
    }
    assert_eq!(world.decide().vote, Ok((id(2), false)));
}

#[test]
fn duplicate_forces_rollback_and_lost_block_any_fork() {
    let mut world = two_forks(1..1);
    world.forks.mark_invalid(&id(2));
    world.forks.mark_invalid(&id(4));
    let back = Decision { vote: Err(Refusal::Switch(Switch::FailedRollback)), reset: Some(id(1)) };
    assert_eq!(world.decide(), back);
    world.add(21, 1, 0..0, &[]);
    // Its own fork is invalid, but there is no switch proof: it stays at the deepest bank of its fork.
    assert_eq!(world.decide(), Decision { vote: Err(Refusal::Switch(Switch::FailedThreshold)), reset: Some(id(3)) });
    world.banks.remove(&id(2));
    world.banks.remove(&id(3));
    assert_eq!(world.decide(), Decision { vote: Ok((id(21), true)), reset: Some(id(21)) });
}

#[test]
fn lost_last_block_needs_newer_votes() {
    let mut world = World::new();
    world.add(1, 0, 0..0, &[]);
    world.add(20, 1, 0..9, &[1]);
    world.vote([5, 12]);
    assert_eq!(world.decide(), Decision { vote: Err(Refusal::Switch(Switch::FailedThreshold)), reset: None });
    world.gossip(1..5, 20);
    assert_eq!(world.view().switch(&id(20)), Switch::Proof);
    assert_eq!(world.decide().vote, Ok((id(20), true)));
    world.vote([18]);
    assert_eq!(world.decide().vote, Err(Refusal::LockedOut), "the lost vote for 18 binds until 20");
}

#[test]
fn expired_vote_is_followed_on_its_fork() {
    let mut world = two_forks(1..4);
    let mut parent = 3;
    for slot in 30..30 + MAX_SLOT_HASHES {
        world.add(slot, parent, 0..0, &[]);
        parent = slot;
    }
    assert_eq!(world.decide().vote, Err(Refusal::Switch(Switch::FailedThreshold)));
    world.add(parent + 1, parent, 0..0, &[]);
    assert_eq!(world.decide().vote.map(|(id, is_switch)| (id.slot, is_switch)), Ok((parent + 1, false)));
}
