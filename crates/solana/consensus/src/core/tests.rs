//! A single node: its inputs and its actions.

use std::sync::Arc;

use super::super::leader::{CONSECUTIVE_SLOTS, LeaderView, TICKS_PER_SLOT};
use super::super::stakes::{VoteStake, VoteWeights};
use super::super::tower::Lockouts;
use super::super::types::{AccountVotes, TowerVote};
use super::*;
use crate::{MAX_ELSEWHERE, VoteError};

mod identity;

const NODES: u8 = 4;

fn id(slot: u64) -> BankId {
    BankId { slot, hash: [slot as u8; 32] }
}

fn other(slot: u64) -> BankId {
    BankId { slot, hash: [200; 32] }
}

fn node(name: u8) -> Pubkey {
    [name + 100; 32]
}

/// Four nodes lead four slots each in turn; this is node 0.
struct View;

impl LeaderView for View {
    fn leader(&self, slot: u64) -> Option<Pubkey> {
        Some(node((slot / CONSECUTIVE_SLOTS % u64::from(NODES)) as u8))
    }

    fn has_shreds(&self, _: u64) -> bool {
        false
    }

    fn has_child(&self, _: u64, _: u64) -> bool {
        false
    }
}

fn account(name: u8, slots: impl IntoIterator<Item = u64>) -> AccountVotes {
    let mut lockouts = Lockouts::default();
    slots.into_iter().for_each(|slot| assert!(lockouts.process(slot)));
    let (votes, root) = (lockouts.votes, lockouts.root);
    AccountVotes { key: [name; 32], stake: 10, votes, root, last_timestamp: (0, 0) }
}

fn frozen(id: BankId, parent: BankId, votes: Vec<AccountVotes>) -> FrozenBank {
    let leader = View.leader(id.slot).expect("always one");
    FrozenBank { id, parent, block_id: [7; 32], leader, votes }
}

fn config() -> Config {
    Config { node: node(0), vote_account: Some([0; 32]), waits_for_rooted_vote: false }
}

fn started(config: Config, root: u64, tower: Option<Tower>) -> Consensus {
    let one = |name| VoteStake { vote: [name; 32], node: node(name), collector: node(name), stake: 10 };
    let stakes = VoteWeights::new(&(0..NODES).map(one).collect::<Vec<_>>());
    let accounts = (0..NODES).map(|name| account(name, [])).collect();
    let start = Start { bank: frozen(id(root), id(root), accounts), ancestors: (0..root).collect() };
    Consensus::new(config, start, Stakes::new(0, Arc::new(stakes)), tower).expect("fits")
}

/// The same, while another block is in progress.
struct Busy;

impl LeaderView for Busy {
    fn leader(&self, slot: u64) -> Option<Pubkey> {
        View.leader(slot)
    }

    fn has_shreds(&self, slot: u64) -> bool {
        View.has_shreds(slot)
    }

    fn has_child(&self, parent: u64, before: u64) -> bool {
        View.has_child(parent, before)
    }

    fn is_busy(&self) -> bool {
        true
    }
}

/// Far from any own turn, unless a tick height is given.
fn step(consensus: &mut Consensus, now_ms: u64) -> Vec<Action> {
    consensus.step(Clock { now_ms, tick_height: 0 }, &View)
}

fn votes(actions: &[Action]) -> Vec<&TowerVote> {
    fn vote(action: &Action) -> Option<&TowerVote> {
        if let Action::Vote { vote, .. } = action { Some(vote) } else { None }
    }
    actions.iter().filter_map(vote).collect()
}

/// A chain of banks from `from` on, in each of which everyone has voted for all before; the node votes for each.
fn line(consensus: &mut Consensus, from: u64, to: u64) -> Vec<Action> {
    let mut all = Vec::new();
    for slot in from..=to {
        let voted = (0..NODES).map(|name| account(name, 1..slot)).collect();
        consensus.on_frozen(frozen(id(slot), id(slot - 1), voted), slot * 400).expect("frozen");
        all.extend(step(consensus, slot * 400));
    }
    all
}

#[test]
fn tower_is_saved_before_its_vote() {
    let mut consensus = started(config(), 0, None);
    assert_eq!(step(&mut consensus, 0), [Action::Reset(id(0)), Action::Begin { slot: 1, parent: id(0) }]);
    consensus.on_frozen(frozen(id(5), id(0), vec![]), 0).expect("frozen");
    let actions = step(&mut consensus, 1_700_000_000_000);
    let [Action::Vote { vote, saved }, Action::Reset(reset)] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!((vote.id, *reset, vote.is_switch, vote.timestamp), (id(5), id(5), false, Some(1_700_000_000)));
    assert_eq!((vote.root, vote.votes.len(), vote.block_id, vote.blockhash_of), (Some(0), 1, [7; 32], id(5)));
    let tower = Tower::restore(saved, &node(0)).expect("its own");
    assert_eq!(tower.last_vote().map(|last| last.id), Some(id(5)));
    assert!(step(&mut consensus, 0).is_empty(), "nothing is new");
}

/// The timestamp of a vote for slot 5 at `now_s`. The account's last timestamp is 1,000 s, either in the bank that the
/// node starts from or in that of slot 5.
fn vote_timestamp(now_s: u64, is_at_start: bool) -> Option<i64> {
    let one = VoteStake { vote: [0; 32], node: node(0), collector: node(0), stake: 10 };
    let stakes = Stakes::new(0, Arc::new(VoteWeights::new(&[one])));
    let dated = AccountVotes { last_timestamp: (2, 1_000), ..account(0, []) };
    let (before, after) = if is_at_start { (dated, vec![]) } else { (account(0, []), vec![dated]) };
    let start = Start { bank: frozen(id(3), id(3), vec![before]), ancestors: (0..3).collect() };
    let mut consensus = Consensus::new(config(), start, stakes, None).expect("fits");
    consensus.on_frozen(frozen(id(5), id(3), after), 0).expect("frozen");
    let actions = step(&mut consensus, now_s * 1_000);
    let votes = votes(&actions);
    let [vote] = votes[..] else { panic!("{actions:?}") };
    vote.timestamp
}

#[test]
fn vote_has_no_timestamp_before_the_accounts() {
    for is_at_start in [true, false] {
        assert_eq!(vote_timestamp(999, is_at_start), None);
        assert_eq!(vote_timestamp(1_000, is_at_start), Some(1_000));
    }
}

#[test]
fn retracted_slot_may_begin_again() {
    let mut consensus = started(config(), 0, None);
    let clock = Clock { now_ms: 0, tick_height: TICKS_PER_SLOT };
    assert_eq!(consensus.step(clock, &Busy), [Action::Reset(id(0))]);
    assert_eq!(consensus.step(clock, &View), [Action::Begin { slot: 1, parent: id(0) }]);
    consensus.on_retracted(9);
    assert!(consensus.step(clock, &View).is_empty(), "it is being made");
    consensus.on_retracted(1);
    assert_eq!(consensus.step(clock, &View), [Action::Begin { slot: 1, parent: id(0) }]);
}

#[test]
fn roots_follow_32_votes_and_bound_memory() {
    let mut consensus = started(config(), 0, None);
    let actions = line(&mut consensus, 1, 100);
    let rooted: Vec<BankId> = actions
        .iter()
        .flat_map(|action| if let Action::Root(ids) = action { &ids[..] } else { &[] })
        .copied()
        .collect();
    assert_eq!(rooted, (1..=69).map(id).collect::<Vec<_>>());
    assert_eq!((consensus.root(), consensus.banks_len()), (id(69), 32));
    assert_eq!((consensus.tracker.voters(&id(69)).count(), consensus.banks.len()), (0, 32));
    let finalized = actions.iter().rev().find_map(|action| match action {
        Action::Finalized(slot) => Some(*slot),
        _ => None,
    });
    // In bank 100 the others voted for 1 to 99: 68 is the oldest of their 31 remaining votes.
    assert_eq!(finalized, Some(68));
    assert_eq!(consensus.on_dead(69), Err(InputError::Old));
    assert_eq!(consensus.on_duplicate(69), Err(InputError::Old));
    assert_eq!(consensus.on_duplicate(60_000), Err(InputError::Far));
    assert_eq!(consensus.on_frozen(frozen(other(90), id(89), vec![]), 0), Err(InputError::Known));
    assert_eq!(consensus.on_frozen(frozen(id(102), id(101), vec![]), 0), Err(InputError::UnknownParent));
}

#[test]
fn node_without_vote_account_roots_silently() {
    let mut consensus = started(Config { vote_account: None, ..config() }, 0, None);
    let actions = line(&mut consensus, 1, 40);
    assert!(votes(&actions).is_empty());
    assert_eq!(consensus.root(), id(9));
}

#[test]
fn frozen_block_is_confirmed_with_its_ancestors() {
    let mut consensus = started(config(), 0, None);
    for name in 0..3 {
        assert_eq!(consensus.on_vote(&[name; 32], id(6)), Ok(()));
    }
    assert_eq!(consensus.on_vote(&[2; 32], id(6)), Err(VoteError::Known));
    let confirmed = |consensus: &mut Consensus| {
        let of = |action| if let Action::Confirmed(id) = action { Some(id.slot) } else { None };
        step(consensus, 0).into_iter().filter_map(of).collect::<Vec<u64>>()
    };
    consensus.on_frozen(frozen(id(5), id(0), vec![]), 0).expect("frozen");
    assert!(confirmed(&mut consensus).is_empty());
    consensus.on_frozen(frozen(id(6), id(5), vec![]), 0).expect("frozen");
    assert_eq!(confirmed(&mut consensus), [5, 6]);
    assert_eq!(consensus.duplicate_confirmed(6), Some(id(6).hash));
    assert_eq!(consensus.duplicate_confirmed(5), Some(id(5).hash), "what is below it is agreed upon too");
    assert!(consensus.forks().is_confirmed(&id(5)));
}

#[test]
fn start_reports_the_last_vote_or_genesis() {
    let vote_of = |consensus: &Consensus| {
        let vote = consensus.last_vote()?;
        Some((vote.id, vote.votes.iter().map(|lockout| lockout.slot).collect::<Vec<_>>(), vote.root))
    };
    let mut consensus = started(config(), 0, None);
    assert_eq!(vote_of(&consensus), Some((id(0), vec![0], Some(0))));
    assert_eq!(consensus.tower().last_vote(), None, "it binds to nothing");
    consensus.on_frozen(frozen(id(5), id(0), vec![]), 0).expect("frozen");
    step(&mut consensus, 1_000_000);
    assert_eq!(vote_of(&consensus), Some((id(5), vec![5], Some(0))));
    let again = started(config(), 0, Some(consensus.tower().clone()));
    assert_eq!(vote_of(&again), Some((id(5), vec![5], Some(0))));
    assert_eq!(vote_of(&started(config(), 9, None)), None, "who has lost its tower knows of none");
    let lost = Config { waits_for_rooted_vote: true, ..config() };
    assert_eq!(vote_of(&started(lost, 0, None)), None, "a lost tower has no genesis vote either");
}

#[test]
fn lost_vote_is_refreshed() {
    let mut consensus = started(config(), 0, None);
    consensus.on_frozen(frozen(id(5), id(0), vec![]), 0).expect("frozen");
    assert_eq!(votes(&step(&mut consensus, 1_000_000)).len(), 1);
    // Another fork becomes heavier, but not enough for a switch; the own one gets banks without the vote.
    consensus.on_frozen(frozen(id(4), id(0), vec![]), 0).expect("frozen");
    consensus.on_frozen(frozen(id(7), id(4), vec![account(1, [4])]), 0).expect("frozen");
    let mut refreshed = Vec::new();
    for slot in 8..50 {
        let parent = if slot == 8 { 5 } else { slot - 1 };
        consensus.on_frozen(frozen(id(slot), id(parent), vec![]), 0).expect("frozen");
        let actions = step(&mut consensus, 1_000_000 + 400 * slot);
        refreshed.extend(actions.into_iter().filter_map(|action| match action {
            Action::Refresh(vote) => Some((slot, vote.id.slot, vote.blockhash_of.slot, vote.timestamp)),
            _ => None,
        }));
    }
    assert_eq!(refreshed, [(24, 5, 24, Some(1_001)), (41, 5, 41, Some(1_002))]);
    assert_eq!(consensus.refusal(), Some(Refusal::Switch(crate::Switch::FailedThreshold)));
}

#[test]
fn minority_version_is_dropped_without_proof() {
    let mut consensus = started(config(), 0, None);
    consensus.on_frozen(frozen(id(5), id(0), vec![]), 0).expect("frozen");
    step(&mut consensus, 0);
    consensus.on_frozen(frozen(id(6), id(5), vec![]), 0).expect("frozen");
    assert_eq!(votes(&step(&mut consensus, 0))[0].id, id(6));
    consensus.on_duplicate(5).expect("above the root");
    let begin = Action::Begin { slot: 1, parent: id(0) };
    assert_eq!(step(&mut consensus, 0), [Action::Reset(id(0)), begin], "no other candidate is left");
    assert_eq!(consensus.refusal(), Some(Refusal::Switch(crate::Switch::FailedRollback)));
    for name in 1..4 {
        consensus.on_vote(&[name; 32], other(5)).expect("counted");
    }
    assert_eq!(step(&mut consensus, 0), [Action::Dump(5)]);
    assert_eq!(consensus.duplicate_confirmed(5), Some(other(5).hash), "what the other must come to");
    assert_eq!(consensus.on_frozen(frozen(id(8), id(6), vec![]), 0), Err(InputError::UnknownParent));
    consensus.on_frozen(frozen(other(5), id(0), vec![]), 0).expect("the other version");
    assert!(votes(&step(&mut consensus, 0)).is_empty(), "6 was voted for");
    consensus.on_frozen(frozen(id(9), other(5), vec![]), 0).expect("frozen");
    let actions = step(&mut consensus, 0);
    assert_eq!(votes(&actions).iter().map(|vote| (vote.id, vote.is_switch)).collect::<Vec<_>>(), [(id(9), true)]);
}

#[test]
fn first_differing_ancestor_of_dead_block_is_dumped() {
    let mut consensus = started(config(), 0, None);
    consensus.on_frozen(frozen(id(5), id(0), vec![]), 0).expect("frozen");
    step(&mut consensus, 0);
    consensus.on_dead(6).expect("no bank");
    for name in 1..4 {
        consensus.on_vote(&[name; 32], other(6)).expect("counted");
    }
    assert_eq!(step(&mut consensus, 0), [Action::AskAncestors(6)]);
    consensus.on_ancestors(&[other(6), other(5), id(0)]);
    assert_eq!(step(&mut consensus, 0)[0], Action::Dump(5));
    assert_eq!(consensus.duplicate_confirmed(5), Some(other(5).hash));
    consensus.on_frozen(frozen(other(5), id(0), vec![]), 0).expect("the other version");
    consensus.on_frozen(frozen(other(6), other(5), vec![]), 0).expect("dead no more");
    // If all ancestors are the cluster's, the dead block itself is the wrong version.
    consensus.on_dead(8).expect("no bank");
    for name in 1..4 {
        consensus.on_vote(&[name; 32], id(8)).expect("counted");
    }
    consensus.on_ancestors(&[id(8), other(6), other(5)]);
    let actions = step(&mut consensus, 0);
    assert!(actions.contains(&Action::Dump(8)), "{actions:?}");
}

#[test]
fn newer_tower_waits_for_its_root() {
    let mut before = started(config(), 0, None);
    let mut actions = line(&mut before, 1, 40);
    let saved = actions.drain(..).rev().find_map(|action| match action {
        Action::Vote { saved, .. } => Some(saved),
        _ => None,
    });
    let tower = Tower::restore(&saved.expect("voted"), &node(0)).expect("its own");
    let mut consensus = started(config(), 3, Some(tower));
    let actions = line(&mut consensus, 4, 8);
    assert!(actions.iter().all(|action| matches!(action, Action::Confirmed(_))), "{actions:?}");
    let actions = line(&mut consensus, 9, 40);
    assert_eq!(actions.iter().filter(|action| matches!(action, Action::Root(_))).count(), 1);
    assert_eq!((consensus.root(), votes(&actions).len()), (id(9), 0), "all that was voted for before");
    assert_eq!(votes(&line(&mut consensus, 41, 41)).len(), 1);
}

#[test]
fn a_lost_tower_is_taken_from_the_chain() {
    let mut consensus = started(config(), 0, None);
    let voted = (0..NODES).map(|name| account(name, 1..40)).collect::<Vec<_>>();
    for slot in 1..40 {
        consensus.on_frozen(frozen(id(slot), id(slot - 1), vec![]), 0).expect("frozen");
    }
    consensus.on_frozen(frozen(id(40), id(39), voted), 0).expect("frozen");
    assert_eq!(consensus.root(), id(8));
    assert_eq!(consensus.tower().last_vote().map(|last| last.id), Some(id(39)));
    assert_eq!(votes(&step(&mut consensus, 0)).len(), 1);
}

#[test]
fn votes_with_an_older_root_leave_the_towers() {
    // Another process voted for this node, on a fork that leaves out the root of this one's tower.
    let mut consensus = started(config(), 3, Some(Tower::new(id(9))));
    let mut parent = id(3);
    for slot in [4, 5, 6, 10] {
        consensus.on_frozen(frozen(id(slot), parent, vec![]), 0).expect("frozen");
        parent = id(slot);
    }
    let voted = AccountVotes { root: Some(5), ..account(0, [10]) };
    consensus.on_frozen(frozen(id(11), parent, vec![voted]), 0).expect("frozen");
    assert_eq!(consensus.tower().last_vote().map(|last| last.id), Some(id(10)));
    assert_eq!(consensus.tower().root(), Some(id(9)));
    assert_eq!(consensus.root(), id(3));
}

#[test]
fn turn_begins_slots_one_by_one() {
    let mut consensus = started(config(), 0, None);
    line(&mut consensus, 1, 15);
    let at = |consensus: &mut Consensus, tick_height| {
        let actions = consensus.step(Clock { now_ms: 6_001, tick_height }, &View);
        let begin = |action| if let Action::Begin { slot, parent } = action { Some((slot, parent.slot)) } else { None };
        actions.into_iter().filter_map(begin).collect::<Vec<_>>()
    };
    // It started 16 as soon as 15 existed.
    assert_eq!(consensus.building, Some(16));
    assert_eq!(at(&mut consensus, 18 * TICKS_PER_SLOT), [], "16 is under way");
    consensus.on_frozen(frozen(id(16), id(15), vec![]), 0).expect("frozen");
    assert_eq!(at(&mut consensus, 18 * TICKS_PER_SLOT), [(17, 16)], "the reset restarts the ticks");
    consensus.on_dead(17).expect("dropped");
    assert_eq!(at(&mut consensus, 18 * TICKS_PER_SLOT), [(18, 16)]);
}

#[test]
fn unseen_leader_rebroadcasts_and_makes_no_more() {
    let mut consensus = started(config(), 0, None);
    step(&mut consensus, 0);
    consensus.on_frozen(frozen(id(1), id(0), vec![]), 1_000).expect("frozen");
    step(&mut consensus, 1_000);
    consensus.on_dead(2).expect("dropped");
    let at =
        |consensus: &mut Consensus, now_ms| consensus.step(Clock { now_ms, tick_height: 16 * TICKS_PER_SLOT }, &View);
    assert_eq!(at(&mut consensus, 5_000), [Action::Rebroadcast(1)]);
    assert_eq!(at(&mut consensus, 5_001), []);
    assert_eq!(at(&mut consensus, 6_000), [Action::Rebroadcast(1)], "five seconds after it was made");
    consensus.on_has_slot(&node(2), 1);
    assert_eq!(at(&mut consensus, 7_000), [Action::Begin { slot: 16, parent: id(1) }]);
}

#[test]
fn unstaked_or_known_slots_change_nothing() {
    let mut consensus = started(config(), 0, None);
    consensus.on_frozen(frozen(id(1), id(0), vec![]), 0).expect("frozen");
    step(&mut consensus, 0);
    consensus.on_has_slot(&[9; 32], 1);
    consensus.on_has_slot(&[9; 32], 2);
    consensus.on_has_slot(&node(2), MAX_ELSEWHERE + 1);
    assert!(!consensus.is_changed && consensus.elsewhere.is_empty(), "no stake, or too far");
    consensus.on_has_slot(&node(2), 1);
    assert!(consensus.is_changed, "the own block is seen");
    step(&mut consensus, 0);
    consensus.on_has_slot(&node(2), 1);
    consensus.on_has_slot(&node(2), MAX_ELSEWHERE);
    assert!(!consensus.is_changed, "known, or not frozen here");
    assert_eq!(consensus.elsewhere.keys().collect::<Vec<_>>(), [&MAX_ELSEWHERE]);
}

#[test]
fn rooted_vote_lets_the_node_lead() {
    let begins = |actions: &[Action]| actions.iter().any(|action| matches!(action, Action::Begin { .. }));
    let mut consensus = started(Config { waits_for_rooted_vote: true, ..config() }, 0, None);
    let actions = line(&mut consensus, 1, 32);
    assert!(consensus.root().slot >= 1 && !begins(&actions));
    // The root must include the first vote, for 1: that is 2.
    assert!(begins(&line(&mut consensus, 33, 50)));
}

/// A tower imported from Agave's file, and its node.
fn moved(tower: &Tower) -> (Config, Tower) {
    let key = hearth_crypto::ed25519::SigningKey::from_seed(&[5; 32]);
    let me = key.public_key();
    let file = tower.to_agave(&me, |data| key.sign(data)).expect("it has voted");
    (Config { node: me, ..config() }, Tower::from_agave(&file, &me).expect("its own"))
}

#[test]
fn votes_of_another_program_bind() {
    let mut before = started(config(), 0, None);
    line(&mut before, 1, 4);
    let (config, tower) = moved(before.tower());
    let bound: Vec<(u64, u64)> =
        tower.lockouts().votes.iter().map(|vote| (vote.slot, vote.last_locked_out_slot())).collect();
    assert_eq!(bound, [(1, 17), (2, 10), (3, 7), (4, 6)]);
    // All others vote on a fork without slots 1 to 4.
    let voted_on = |tower: Option<Tower>| {
        let mut consensus = started(config.clone(), 0, tower);
        let mut voted = Vec::new();
        for slot in 5..=18 {
            let parent = if slot == 5 { id(0) } else { id(slot - 1) };
            let accounts = (1..NODES).map(|name| account(name, 5..slot)).collect();
            consensus.on_frozen(frozen(id(slot), parent, accounts), slot * 400).expect("frozen");
            voted.extend(votes(&step(&mut consensus, slot * 400)).iter().map(|vote| (vote.id.slot, vote.is_switch)));
        }
        voted
    };
    assert_eq!(voted_on(Some(tower)), [(18, true)], "the vote for slot 1 binds up to 17");
    assert_eq!(voted_on(None).first(), Some(&(5, false)), "without the file");
}

/// One node leads all slots.
struct Always(Pubkey);

impl LeaderView for Always {
    fn leader(&self, _: u64) -> Option<Pubkey> {
        Some(self.0)
    }

    fn has_shreds(&self, slot: u64) -> bool {
        View.has_shreds(slot)
    }

    fn has_child(&self, parent: u64, before: u64) -> bool {
        View.has_child(parent, before)
    }
}

#[test]
fn a_moved_node_leads_once_its_root_is_executed() {
    let mut before = started(config(), 0, None);
    line(&mut before, 1, 40);
    let (config, tower) = moved(before.tower());
    let me = config.node;
    let view = Always(me);
    // It starts below the tower's root, slot 9, whose hash is not in the file.
    let mut consensus = started(config, 3, Some(tower));
    let mut froze = |slot: u64, leader: Pubkey| {
        let voted = (0..NODES).map(|name| account(name, 1..slot)).collect();
        let bank = FrozenBank { leader, ..frozen(id(slot), id(slot - 1), voted) };
        consensus.on_frozen(bank, slot * 400).expect("frozen");
        let late = Clock { now_ms: slot * 400, tick_height: (slot + 50) * TICKS_PER_SLOT };
        let actions = consensus.step(late, &view);
        let begins = actions.iter().any(|action| matches!(action, Action::Begin { .. }));
        (begins, votes(&actions).len(), consensus.root())
    };
    for slot in 4..=8 {
        assert_eq!(froze(slot, node(1)), (false, 0, id(3)), "slot {slot}");
    }
    for slot in 9..=39 {
        assert_eq!(froze(slot, node(1)).1, 0, "all that was voted for before");
    }
    assert_eq!(froze(40, me), (true, 0, id(3)));
    let (_, voted, root) = froze(41, me);
    assert_eq!((voted, root), (1, id(10)));
}
