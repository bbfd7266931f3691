//! join_wait: how far the cluster is according to its votes, and how long a freshly started node waits for it.
//!
//! reads   gossip votes, stakes; monotonic time
//! writes  whether the node still waits, whether it counts slots from now on, when it refreshes its last vote
//! memory  40 B per vote account with stake, and one vote
//! drops   votes older than the account's newest
//!
//! A block made too early builds on an old parent if the cluster is ahead of this node. At the start of a chain the
//! other nodes may not be up yet: votes cast among few nodes would lock those out when the others continue without
//! them.

use std::collections::BTreeMap;
use std::time::Duration;

use hearth_ledger::stakes::EpochStakes;
use hearth_wire::Pubkey;

/// Maximum wait of a joining node for news of the cluster before it makes its own blocks. After that, a cluster with
/// too few live nodes continues.
const JOIN_FOR: Duration = Duration::from_secs(20);
/// The same at the start of a chain, as long as nodes are heard from but too few to confirm a block: if each half of
/// the stake began on its own, the votes for one fork would lock nodes out of the other. After that, they begin anyway.
const BEGIN_FOR: Duration = Duration::from_secs(120);
/// Interval at which the operator is told of that.
const NOTE_EVERY: Duration = Duration::from_secs(10);
/// The newest slot heard is the cluster's tip once no newer one arrives for this long. Votes arrive in any order, and a
/// running cluster votes every slot, 0.4 s.
const SURE_FOR: Duration = Duration::from_millis(500);
/// A node has caught up once it has executed all but this many of the slots with votes.
const NEAR: u64 = 4;
/// Interval after which a vote without a successor is sent over gossip again: other nodes may have just started, and an
/// older send reaches them slowly.
const REFRESH_EVERY: Duration = Duration::from_secs(1);
/// Maximum resends of one vote.
const REFRESHES: u32 = 30;

/// The newest slot that each vote account with stake has voted for in gossip.
#[derive(Debug, Default)]
pub struct VoteTally(BTreeMap<Pubkey, u64>);

/// How far the other nodes are, by their votes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterTip {
    /// The newest slot that more than a third of the stake has voted for or beyond: less stake may lie. 0 if too few
    /// votes were heard.
    pub newest: u64,
    /// Whether more than two thirds of the stake were heard from, including this node.
    pub is_known: bool,
    /// Whether another node with stake was heard from.
    pub is_heard: bool,
}

impl VoteTally {
    /// Records the vote of an account with stake.
    pub fn record(&mut self, account: Pubkey, slot: u64) {
        let newest = self.0.entry(account).or_default();
        *newest = slot.max(*newest);
    }

    /// Returns how far the other nodes are; `own` is this node's account.
    pub fn cluster_tip(&self, stakes: &EpochStakes, own: Option<&Pubkey>) -> ClusterTip {
        let others = self.0.iter().filter(|(account, _)| Some(*account) != own);
        let mut heard: Vec<(u64, u128)> = others.map(|(account, slot)| (*slot, stake(stakes, account))).collect();
        heard.sort_unstable_by_key(|(slot, _)| std::cmp::Reverse(*slot));
        let own = own.map_or(0, |own| stake(stakes, own));
        let known: u128 = heard.iter().map(|(_, stake)| stake).sum::<u128>() + own;
        let is_heard = heard.iter().any(|(_, stake)| *stake > 0);
        let mut sum = 0;
        let found = heard.into_iter().find(|(_, stake)| {
            sum += stake;
            3 * sum > u128::from(stakes.total())
        });
        let newest = found.map_or(0, |(slot, _)| slot);
        ClusterTip { newest, is_known: 3 * known > 2 * u128::from(stakes.total()), is_heard }
    }

    /// Returns whether the last votes of more than 1/`divisor` of the stake are for slots that `matches` accepts.
    pub fn exceeds_share(&self, stakes: &EpochStakes, divisor: u128, matches: impl Fn(u64) -> bool) -> bool {
        let voted = self.0.iter().filter(|(_, slot)| matches(**slot));
        let sum: u128 = voted.map(|(account, _)| stake(stakes, account)).sum();
        divisor * sum > u128::from(stakes.total())
    }
}

fn stake(stakes: &EpochStakes, account: &Pubkey) -> u128 {
    stakes.vote(account).map_or(0, |vote| u128::from(vote.stake))
}

/// State of a joining node's wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The node lacks newer blocks of the cluster, or cannot tell yet whether there are any.
    Still,
    /// It has caught up with the cluster.
    Over,
    /// No node has a newer block, or no node answers: slots count from now. Nodes start to wait at different times;
    /// counting from there, two nodes would lead at once.
    OverFromNow,
}

/// The wait of a node that has just started in a cluster where other nodes have stake.
#[derive(Debug)]
pub struct JoinWait {
    /// The newest slot in the store at startup.
    known: u64,
    /// The smallest distance to the cluster so far, in slots.
    behind: u64,
    /// When the node stops waiting, unless it gets nearer to the cluster before.
    until: Duration,
    /// Since when no node of the known stake has had a newer block.
    tip_since: Option<Duration>,
    /// When a chain begins although too little of its stake is known.
    begin_at: Duration,
    /// Whether the chain has no block yet, and some of the other stake is known but too little to confirm one.
    lacks_stake: bool,
    /// When the operator is next told of that.
    note_at: Duration,
}

impl JoinWait {
    /// Starts the wait. `known` is the newest slot in the store.
    pub fn new(known: u64, now: Duration) -> Self {
        let until = now + JOIN_FOR;
        let (begin_at, note_at) = (now + BEGIN_FOR, until);
        Self { known, behind: u64::MAX, until, tip_since: None, begin_at, lacks_stake: false, note_at }
    }

    /// Decides whether the wait is over. It lasts while the node lacks the cluster's newer blocks, or while too little
    /// stake has shown that there are none. It is extended while the node gets nearer, or while some of a new chain's
    /// other stake is known but too little. `executed` is the newest executed slot, `base` the one on which the node
    /// would build.
    pub fn poll(&mut self, now: Duration, others: ClusterTip, executed: u64, base: u64) -> Wait {
        let behind = others.newest.saturating_sub(executed);
        let is_new = others.newest > self.known;
        if is_new && behind < self.behind {
            (self.behind, self.until) = (behind, now + JOIN_FOR);
        }
        if !others.is_known || is_new || behind > 0 {
            self.tip_since = None;
        }
        let has_caught_up = is_new && executed > self.known && behind <= NEAR;
        let has_tip = others.is_known && !is_new && behind == 0;
        let is_sure = has_tip && now >= *self.tip_since.get_or_insert(now) + SURE_FOR;
        self.lacks_stake = others.is_heard && !others.is_known && self.known.max(others.newest).max(executed) == 0;
        if self.lacks_stake {
            // Once there is enough, time is left to be sure of it.
            self.until = self.until.max(self.begin_at.min(now + 2 * SURE_FOR));
        }
        match has_caught_up || is_sure || now >= self.until {
            false => Wait::Still,
            true if !is_new && base <= self.known => Wait::OverFromNow,
            true => Wait::Over,
        }
    }

    /// Returns whether to tell the operator at `now` that the chain waits for more of its stake, and counts it as told
    /// if so.
    pub fn is_note_due(&mut self, now: Duration) -> bool {
        let is_due = self.lacks_stake && now >= self.note_at;
        if is_due {
            self.note_at = now + NOTE_EVERY;
        }
        is_due
    }
}

/// The last vote sent over gossip, and when to send it again.
#[derive(Debug)]
pub struct VoteRefresh {
    /// The wire bytes of the vote's transaction.
    pub transaction: Vec<u8>,
    again_at: Duration,
    left: u32,
}

impl VoteRefresh {
    /// Starts from a vote that was sent at `now`.
    pub fn new(transaction: Vec<u8>, now: Duration) -> Self {
        Self { transaction, again_at: now + REFRESH_EVERY, left: REFRESHES }
    }

    /// Returns whether to send the vote again at `now`, and counts it as sent if so.
    pub fn is_due(&mut self, now: Duration) -> bool {
        let is_due = self.left > 0 && now >= self.again_at;
        if is_due {
            (self.again_at, self.left) = (now + REFRESH_EVERY, self.left - 1);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use hearth_ledger::stakes::VoteStake;

    use super::*;

    /// Stakes of accounts 1, 2 and so on.
    fn stakes(of: &[u64]) -> EpochStakes {
        let stake = |(number, stake): (u8, &u64)| {
            let key = [number; 32];
            VoteStake { vote: key, node: key, collector: key, stake: *stake }
        };
        let mut stakes = EpochStakes::default();
        stakes.votes = (1..).zip(of).map(stake).collect();
        stakes
    }

    fn known(newest: u64) -> ClusterTip {
        ClusterTip { newest, is_known: true, is_heard: true }
    }

    /// Nobody was heard from, unless there is a newest slot.
    fn unknown(newest: u64) -> ClusterTip {
        ClusterTip { newest, is_known: false, is_heard: newest > 0 }
    }

    /// Some stake has voted for the genesis.
    const FEW: ClusterTip = ClusterTip { newest: 0, is_known: false, is_heard: true };

    /// Polls with each of: milliseconds since the start, the cluster's tip, the newest executed slot.
    fn waits(known: u64, looks: &[(u64, ClusterTip, u64)]) -> Vec<Wait> {
        let start = Duration::from_secs(77);
        let mut wait = JoinWait::new(known, start);
        let at = |ms| start + Duration::from_millis(ms);
        looks.iter().map(|(ms, others, executed)| wait.poll(at(*ms), *others, *executed, *executed)).collect()
    }

    use Wait::{Over, OverFromNow, Still};

    #[test]
    fn wait_ends_once_known_stake_has_nothing_newer() {
        let looks = [(9_000, unknown(0), 0), (9_100, known(0), 0), (9_599, known(0), 0), (9_600, known(0), 0)];
        assert_eq!(waits(0, &looks), [Still, Still, Still, OverFromNow]);
        // Nobody else is there.
        assert_eq!(waits(0, &[(19_999, unknown(0), 0), (20_000, unknown(0), 0)]), [Still, OverFromNow]);
    }

    #[test]
    fn chain_does_not_begin_with_too_little_of_its_stake() {
        // Two of three equal stakes are not more than two thirds.
        let looks = [(20_000, FEW, 0), (60_000, FEW, 0), (60_100, known(0), 0), (60_600, known(0), 0)];
        assert_eq!(waits(0, &looks), [Still, Still, Still, OverFromNow]);
        assert_eq!(waits(0, &[(119_999, FEW, 0), (120_000, FEW, 0)]), [Still, OverFromNow]);
        // Others have begun, or the chain has blocks: it waits as long as for nobody.
        assert_eq!(waits(0, &[(19_999, FEW, 3), (20_000, FEW, 3)]), [Still, Over]);
        assert_eq!(waits(7, &[(19_999, FEW, 7), (20_000, FEW, 7)]), [Still, OverFromNow]);
    }

    #[test]
    fn lack_of_stake_is_noted_each_ten_seconds() {
        let mut wait = JoinWait::new(0, Duration::ZERO);
        let mut notes = |others: ClusterTip, seconds: std::ops::Range<u64>| {
            let is_noted = |second: &u64| {
                let now = Duration::from_secs(*second);
                wait.poll(now, others, 0, 0) == Still && wait.is_note_due(now)
            };
            seconds.filter(is_noted).collect::<Vec<u64>>()
        };
        assert_eq!(notes(FEW, 0..55), [20, 30, 40, 50]);
        assert_eq!(notes(known(0), 55..56), [0; 0], "there is enough");
    }

    #[test]
    fn late_joiner_catches_up_first() {
        let looks = [(100, known(3), 0), (1_000, known(4), 0), (2_000, known(9), 4), (2_100, known(9), 5)];
        assert_eq!(waits(0, &looks), [Still, Still, Still, Over]);
    }

    #[test]
    fn old_votes_do_not_end_the_wait() {
        // The store has slots up to 10, of which 9 and 10 are not executed.
        let looks = [(100, known(7), 8), (400, known(10), 8), (900, known(10), 8), (950, known(14), 10)];
        assert_eq!(waits(10, &looks), [Still; 4]);
        assert_eq!(waits(10, &[looks[3], (1_000, known(14), 14)]), [Still, Over]);
        // All nodes had stopped: the wait ends once all is executed and no node has had more for a while.
        assert_eq!(waits(10, &[looks[1], (500, known(10), 10), (1_000, known(10), 10)]), [Still, Still, OverFromNow]);
    }

    #[test]
    fn progress_extends_the_wait() {
        let looks = [
            (19_000, unknown(100), 10),
            (38_000, unknown(110), 50),
            (57_000, unknown(120), 50),
            (58_000, unknown(120), 50),
        ];
        assert_eq!(waits(10, &looks), [Still, Still, Still, Over], "20 s without coming nearer");
    }

    #[test]
    fn slots_continue_from_own_base() {
        assert_eq!(waits(0, &[(20_000, unknown(0), 12)]), [Over], "the node builds on 12");
    }

    #[test]
    fn tip_needs_a_third_known_needs_two_thirds() {
        let (stakes, mut tally) = (stakes(&[30, 4, 33, 33]), VoteTally::default());
        let own = [4; 32];
        assert_eq!(tally.cluster_tip(&stakes, Some(&own)), unknown(0));
        tally.record(own, 99);
        tally.record([1; 32], 8);
        tally.record([1; 32], 7);
        assert_eq!(tally.cluster_tip(&stakes, Some(&own)), FEW, "30 of 100; its own vote says nothing new");
        tally.record([2; 32], 5);
        assert_eq!(tally.cluster_tip(&stakes, Some(&own)), known(5), "34 of 100 have voted for 5 or above it");
        assert_eq!(tally.cluster_tip(&stakes, None), known(8));
        tally.record([3; 32], 6);
        assert_eq!(tally.cluster_tip(&stakes, Some(&own)), known(6));
        // An account without stake does not count.
        tally.record([9; 32], 1_000);
        assert_eq!(tally.cluster_tip(&stakes, Some(&own)), known(6));
        assert!(tally.exceeds_share(&stakes, 3, |slot| slot == 6 || slot == 5));
        assert!(!tally.exceeds_share(&stakes, 3, |slot| slot == 6), "33 of 100");
        assert!(
            !tally.exceeds_share(&stakes, 20, |slot| slot == 5) && tally.exceeds_share(&stakes, 26, |slot| slot == 5)
        );
    }

    #[test]
    fn vote_is_refreshed_each_second_30_times() {
        let start = Duration::from_secs(77);
        let mut refresh = VoteRefresh::new(vec![], start);
        let due =
            (0..1_000).filter(|tenth| refresh.is_due(start + Duration::from_millis(100 * tenth))).collect::<Vec<_>>();
        assert_eq!((due.len(), due[0], due[1], due[29]), (30, 10, 20, 300));
    }
}
