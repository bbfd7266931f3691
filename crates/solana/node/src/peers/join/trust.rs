//! trust: decides which of the peers' snapshots a joining node may take.
//!
//! reads   the stakes of the genesis; the configuration's nodes; nodes' announcements of snapshots in gossip
//! writes  the snapshot to take
//! memory  40 B per node with stake
//! drops   snapshots with too few vouchers
//!
//! A snapshot that matches the hash announced by its node proves nothing about the chain: anyone can make up a state
//! and announce its hash. So nodes with more than a third of the stake of the genesis, who cannot all be malicious,
//! must announce that hash. Where the configuration names nodes, as `--known-validator` of Agave does, one of these
//! must, and no other counts; any node may serve it, unless `--only-known-rpc` is set. Without known nodes Agave takes
//! the highest of any peer; here that is an option.

use std::collections::BTreeMap;

use hearth_ledger::Genesis;
use hearth_ledger::stakes::stakes_at_genesis;
use hearth_wire::Pubkey;
use hearth_wire::base58::encode_32;

use hearth_gossip::board::AnnouncedSnapshot;

/// The nodes whose announcements count.
pub struct Trust {
    /// Nodes named by the configuration.
    known: Vec<Pubkey>,
    /// Whether these alone may serve a snapshot.
    only_known: bool,
    stakes: BTreeMap<Pubkey, u64>,
}

impl Trust {
    /// Trusts the stake of the genesis or, if `known` is not empty, each of those nodes alone; with `only_known` these
    /// must serve the snapshot, too.
    pub fn new(genesis: &Genesis, known: &[Pubkey], only_known: bool) -> Self {
        Self { known: known.to_vec(), only_known, stakes: stakes_at_genesis(genesis) }
    }

    /// Whether a snapshot may be downloaded from a node.
    pub fn may_serve(&self, node: &Pubkey) -> bool {
        !self.only_known || self.known.contains(node)
    }

    fn stake(&self, node: &Pubkey) -> u128 {
        self.stakes.get(node).copied().unwrap_or(0).into()
    }

    /// The newest available snapshot with enough vouchers, from the node with the most stake among those that serve it.
    pub fn newest(
        &self,
        offers: &[AnnouncedSnapshot],
        may_be_had: impl Fn(&AnnouncedSnapshot) -> bool,
    ) -> Option<AnnouncedSnapshot> {
        let found = offers.iter().filter(|it| may_be_had(it)).filter(|it| self.is_vouched(offers, it));
        found.max_by_key(|it| (it.slot, same(offers, it).count(), self.stake(&it.identity))).copied()
    }

    /// Whether the newest incremental archive that a node announces has enough vouchers as well.
    pub fn is_incremental_vouched(&self, offers: &[AnnouncedSnapshot], it: &AnnouncedSnapshot) -> bool {
        let of = |offer: &AnnouncedSnapshot| {
            offer.incremental.map(|(slot, hash)| AnnouncedSnapshot { slot, hash, ..*offer })
        };
        let offers: Vec<AnnouncedSnapshot> = same(offers, it).filter_map(of).collect();
        of(it).is_some_and(|it| self.is_vouched(&offers, &it))
    }

    fn is_vouched(&self, offers: &[AnnouncedSnapshot], it: &AnnouncedSnapshot) -> bool {
        let total: u128 = self.stakes.values().map(|stake| u128::from(*stake)).sum();
        match self.known.is_empty() {
            true => 3 * same(offers, it).map(|other| self.stake(&other.identity)).sum::<u128>() > total,
            false => same(offers, it).any(|other| self.known.contains(&other.identity)),
        }
    }

    /// Decides on a snapshot whose vouchers hold only `part` per cent of the stake of the genesis, and returns a
    /// notice that says so. It is taken only if `takes_unvouched` is set and no nodes are known.
    pub fn unvouched(
        &self,
        (found, part): (AnnouncedSnapshot, u128),
        takes_unvouched: bool,
    ) -> (Option<AnnouncedSnapshot>, String) {
        let (slot, node) = (found.slot, encode_32(&found.identity));
        if !self.known.is_empty() {
            let notice = format!(
                "the snapshot of slot {slot} is not taken, nor another: none of the nodes that \
                 snapshots.known_validators (--known-validator) names announces its hash"
            );
            return (None, notice);
        }
        if !takes_unvouched {
            let notice = format!(
                "the snapshot of slot {slot} is not taken, nor another: nodes with {part} % of the stake of the genesis \
                 announce its hash, and more than a third would have to. --known-validator \
                 (snapshots.known_validators) names nodes whose word is enough; snapshots.take_unvouched = true takes \
                 a snapshot on anybody's word"
            );
            return (None, notice);
        }
        let notice = format!(
            "that the snapshot of slot {slot} is of this chain rests on the word of {node}, who serves it, and {part} % \
             of the stake of the genesis"
        );
        (Some(found), notice)
    }

    /// If none has enough vouchers: the available snapshot announced by the most stake, then by the most nodes, and
    /// that stake in per cent.
    pub fn most_reported(
        &self,
        offers: &[AnnouncedSnapshot],
        may_be_had: impl Fn(&AnnouncedSnapshot) -> bool,
    ) -> Option<(AnnouncedSnapshot, u128)> {
        let stake = |it: &AnnouncedSnapshot| same(offers, it).map(|other| self.stake(&other.identity)).sum::<u128>();
        let found = offers.iter().filter(|it| may_be_had(it));
        let most = found.max_by_key(|it| (stake(it), same(offers, it).count(), it.slot))?;
        let total: u128 = self.stakes.values().map(|stake| u128::from(*stake)).sum();
        Some((*most, 100 * stake(most) / total.max(1)))
    }
}

/// The announcements equal to `it`.
fn same<'a>(offers: &'a [AnnouncedSnapshot], it: &'a AnnouncedSnapshot) -> impl Iterator<Item = &'a AnnouncedSnapshot> {
    offers.iter().filter(move |other| (other.slot, other.hash) == (it.slot, it.hash))
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddrV4};

    use hearth_ledger::GenesisConfig;
    use hearth_ledger::stakes::validator_accounts;

    use super::*;

    /// Trust with nodes 1, 2 and so on that have these stakes.
    fn trust(stakes: &[u64], known: &[Pubkey]) -> Trust {
        let accounts = |(node, sol): (u8, &u64)| {
            validator_accounts(&[100 + node; 32], &[200 + node; 32], &[node; 32], sol * 1_000_000_000)
        };
        let extra_accounts = (1..).zip(stakes).flat_map(accounts).collect();
        let development = GenesisConfig::development([1; 32], [99; 32], 1_700_000_000);
        let genesis =
            Genesis::create(GenesisConfig { extra_accounts, fund_initial_accounts: 1, ..development }, |_| {}).unwrap();
        Trust::new(&genesis, known, false)
    }

    fn offer(node: u8, slot: u64, hash: u8) -> AnnouncedSnapshot {
        let rpc = Some(SocketAddrV4::new(Ipv4Addr::LOCALHOST, node.into()));
        AnnouncedSnapshot { identity: [node; 32], rpc, slot, hash: [hash; 32], incremental: None }
    }

    fn newest(trust: &Trust, all: &[AnnouncedSnapshot]) -> Option<AnnouncedSnapshot> {
        trust.newest(all, |it| it.rpc.is_some())
    }

    #[test]
    fn strangers_cannot_vouch_for_what_they_made_up() {
        let alone = trust(&[1_000], &[]);
        let (stranger, leader) = (offer(9, 900, 6), offer(1, 800, 5));
        assert_eq!(newest(&alone, &[stranger, leader]), Some(leader), "though the other's is newer");
        assert_eq!(newest(&alone, &[stranger, offer(8, 900, 6), offer(7, 900, 6)]), None);
        // The leader vouches for one state of the slot only, not for another.
        assert_eq!(newest(&alone, &[offer(9, 800, 6), leader, offer(8, 800, 6)]), Some(leader));
    }

    #[test]
    fn more_than_a_third_of_the_stake_vouches_whoever_serves() {
        let four = trust(&[1_000; 4], &[]);
        let one_ahead = [offer(1, 900, 5), offer(2, 800, 4), offer(3, 800, 4), offer(9, 800, 4)];
        assert_eq!(newest(&four, &one_ahead).map(|it| it.slot), Some(800));
        assert_ne!(newest(&four, &one_ahead).map(|it| it.identity), Some([9; 32]), "who has stake is asked first");
        let says_only = |node| AnnouncedSnapshot { rpc: None, ..offer(node, 900, 5) };
        assert_eq!(newest(&four, &[says_only(1), says_only(2), offer(9, 900, 5)]), Some(offer(9, 900, 5)));
        assert_eq!(newest(&four, &[says_only(1), offer(9, 900, 5)]), None);
        let third = trust(&[1_000; 3], &[]);
        assert_eq!(newest(&third, &[offer(1, 900, 5)]), None, "a third is not more than one");
    }

    #[test]
    fn only_known_nodes_count_and_suffice() {
        let known = trust(&[1_000; 4], &[[9; 32]]);
        assert_eq!(newest(&known, &[offer(1, 900, 5), offer(2, 900, 5), offer(9, 700, 4)]), Some(offer(9, 700, 4)));
        assert_eq!(newest(&known, &[offer(1, 900, 5), offer(2, 900, 5), offer(3, 900, 5)]), None, "it says nothing");
        // Any node may serve what a known one announces, unless the configuration says otherwise.
        let says_only = AnnouncedSnapshot { rpc: None, ..offer(9, 700, 4) };
        assert_eq!(newest(&known, &[offer(7, 700, 4), says_only]), Some(offer(7, 700, 4)));
        assert_eq!(newest(&known, &[offer(7, 700, 3), says_only]), None, "of another state");
        assert!(known.may_serve(&[7; 32]));
        let only = Trust { only_known: true, ..known };
        assert!(only.may_serve(&[9; 32]) && !only.may_serve(&[7; 32]));
    }

    #[test]
    fn an_unvouched_snapshot_is_taken_only_if_the_operator_says_so() {
        let (stake, known) = (trust(&[1_000; 4], &[]), trust(&[1_000; 4], &[[9; 32]]));
        let found = (offer(1, 900, 5), 25);
        let (taken, notice) = stake.unvouched(found, false);
        assert!(taken.is_none() && notice.contains("nodes with 25 % of the stake"), "{notice}");
        let (taken, notice) = stake.unvouched(found, true);
        assert_eq!(taken, Some(offer(1, 900, 5)));
        assert!(notice.contains("rests on the word of"), "{notice}");
        for takes_unvouched in [false, true] {
            let (taken, notice) = known.unvouched(found, takes_unvouched);
            assert!(taken.is_none() && notice.contains("none of the nodes that"), "{notice}");
        }
    }

    #[test]
    fn incremental_archives_need_vouchers_of_their_own() {
        let four = trust(&[1_000; 4], &[]);
        let on = |node, hash: u8| AnnouncedSnapshot { incremental: Some((950, [hash; 32])), ..offer(node, 900, 5) };
        let (first, other) = (on(1, 7), AnnouncedSnapshot { incremental: Some((950, [7; 32])), ..offer(3, 900, 6) });
        assert!(four.is_incremental_vouched(&[first, on(2, 7)], &first));
        assert!(!four.is_incremental_vouched(&[first, on(2, 8)], &first), "a fourth of the stake");
        assert!(!four.is_incremental_vouched(&[first, other], &first), "on another full one");
        assert!(
            !four.is_incremental_vouched(&[offer(1, 900, 5), offer(2, 900, 5)], &offer(1, 900, 5)),
            "there is none"
        );
        let known = trust(&[1_000; 4], &[[9; 32]]);
        assert!(known.is_incremental_vouched(&[on(9, 7)], &on(9, 7)));
    }

    #[test]
    fn where_too_few_vouch_most_stake_wins_and_then_most() {
        let trust = trust(&[1_000], &[]);
        let all = [offer(7, 900, 6), offer(8, 800, 5), offer(9, 800, 5)];
        let most = |trust: &Trust, all: &[AnnouncedSnapshot]| {
            trust.most_reported(all, |_| true).map(|(it, part)| (it.slot, part))
        };
        assert_eq!((newest(&trust, &all), most(&trust, &all)), (None, Some((800, 0))));
        // One with stake outweighs any number without.
        let four = self::trust(&[1_000; 4], &[]);
        assert_eq!(most(&four, &[offer(1, 700, 4), all[1], all[2]]), Some((700, 25)));
        assert_eq!(trust.most_reported(&[], |_| true), None);
    }
}
