//! Fork choice on small trees, and against a recomputation.

use super::*;

fn id(slot: u64, version: u8) -> BankId {
    BankId { slot, hash: [version; 32] }
}

fn at(slot: u64) -> BankId {
    id(slot, 1)
}

/// ```text
/// 0 ─ 1 ─┬─ 2 ─ 4 ─ 6
///        └─ 3 ─ 5
/// ```
fn tree() -> Forks {
    let mut forks = Forks::new(at(0));
    for (slot, parent) in [(1, 0), (2, 1), (3, 1), (4, 2), (5, 3), (6, 4)] {
        forks.add(at(slot), at(parent)).expect("a tree");
    }
    forks
}

fn account(name: u8) -> Pubkey {
    [name; 32]
}

#[test]
fn lower_slot_wins_until_votes_weigh_more() {
    let mut forks = tree();
    assert_eq!(forks.heaviest(), at(6));
    forks.vote([(account(1), at(5), 10)]);
    assert_eq!((forks.heaviest(), forks.weight(&at(1)), forks.weight(&at(3))), (at(5), 10, 10));
    forks.vote([(account(2), at(2), 10)]);
    assert_eq!(forks.heaviest(), at(6), "a tie goes to 2, the lower slot, and on from there");
    forks.vote([(account(3), at(3), 1)]);
    assert_eq!((forks.heaviest(), forks.heaviest_above(&at(2))), (at(5), Some(at(6))));
    assert_eq!(forks.deepest_above(&at(1)), Some(at(6)));
}

#[test]
fn smaller_hash_wins_a_tie() {
    let mut forks = tree();
    forks.add(id(2, 0), at(1)).expect("a version of 2");
    assert_eq!(forks.heaviest(), id(2, 0));
    forks.vote([(account(1), at(4), 1)]);
    assert_eq!(forks.heaviest(), at(6));
}

#[test]
fn an_account_counts_once_by_its_newest_vote() {
    let mut forks = tree();
    forks.add(id(3, 0), at(1)).expect("a version of 3");
    forks.vote([(account(1), at(3), 5)]);
    forks.vote([(account(1), at(2), 5)]);
    assert_eq!((forks.weight(&at(2)), forks.weight(&at(3))), (0, 5), "an older slot");
    forks.vote([(account(1), id(3, 0), 5), (account(1), at(3), 5), (account(1), at(9), 5)]);
    assert_eq!(forks.weight(&id(3, 0)), 5, "a smaller hash of the same slot, and not back");
    forks.vote([(account(1), at(6), 7)]);
    assert_eq!([at(1), at(2), at(3), id(3, 0)].map(|id| forks.weight(&id)), [7, 7, 0, 0]);
    assert_eq!(forks.latest_vote(&account(1)), Some(at(6)));
}

#[test]
fn invalid_bank_waits_for_a_confirmed_descendant() {
    let mut forks = tree();
    forks.vote([(account(1), at(6), 9), (account(2), at(5), 1)]);
    forks.mark_invalid(&at(2));
    assert_eq!((forks.heaviest(), forks.invalid_ancestor(&at(6))), (at(5), Some(2)));
    assert_eq!(forks.weight(&at(1)), 10, "it weighs all the same");
    assert_eq!(forks.heaviest_above(&at(4)), Some(at(4)), "what is built on it is no candidate either");
    assert_eq!(forks.deepest_above(&at(2)), Some(at(6)));
    forks.add(at(7), at(6)).expect("on 6");
    assert!(!forks.is_candidate(&at(7)));
    forks.mark_invalid(&at(6));
    assert_eq!(forks.mark_confirmed(&at(4)), [at(4), at(2), at(1), at(0)]);
    assert_eq!((forks.heaviest(), forks.invalid_ancestor(&at(7))), (at(4), Some(6)));
    assert!(forks.mark_confirmed(&at(4)).is_empty());
    assert_eq!(forks.mark_confirmed(&at(7)), [at(7), at(6)]);
    forks.mark_invalid(&at(2));
    assert_eq!(forks.heaviest(), at(7), "what is confirmed stays valid");
}

#[test]
fn a_root_drops_other_forks_and_older_votes() {
    let mut forks = tree();
    forks.vote([(account(1), at(5), 9), (account(2), at(1), 1), (account(3), at(4), 2)]);
    let dropped = forks.set_root(at(2));
    assert_eq!(dropped, [at(0), at(1), at(3), at(5)]);
    assert_eq!((forks.root(), forks.parent(&at(2)), forks.heaviest(), forks.len()), (at(2), None, at(6), 3));
    // The vote for 5 is newer than any for 4, so its account stays there.
    forks.vote([(account(1), at(4), 9), (account(2), at(4), 1)]);
    assert_eq!(forks.weight(&at(2)), 3);
    forks.vote([(account(1), at(6), 9)]);
    assert_eq!(forks.weight(&at(2)), 12);
}

#[test]
fn chains_and_common_ancestors() {
    let forks = tree();
    assert_eq!(forks.chain(&at(4)).collect::<Vec<_>>(), [at(4), at(2), at(1), at(0)]);
    assert_eq!((forks.common(&at(6), &at(5)), forks.common(&at(2), &at(6))), (Some(at(1)), Some(at(2))));
    assert_eq!((forks.on_chain(&at(6), 2), forks.on_chain(&at(6), 3)), (Some(at(2)), None));
    assert!(forks.descends(&at(6), &at(6)) && forks.descends(&at(6), &at(1)) && !forks.descends(&at(6), &at(3)));
    assert!(!forks.descends(&at(9), &at(1)) && forks.chain(&at(9)).next().is_none());
    assert_eq!(forks.distance(&at(1), &at(6)), Some(3));
}

#[test]
fn invalid_banks_are_refused() {
    let mut forks = tree();
    assert_eq!(forks.add(at(6), at(5)), Err(ForkError::Known));
    assert_eq!(forks.add(at(9), at(8)), Err(ForkError::UnknownParent));
    assert_eq!(forks.add(id(4, 2), at(4)), Err(ForkError::Order));
}

/// The heaviest bank, recomputed from scratch.
fn counted(forks: &Forks, parents: &[(BankId, BankId)], votes: &BTreeMap<Pubkey, (BankId, u64)>) -> BankId {
    let weight = |id: &BankId| {
        let on_it = |voted: &BankId| forks.chain(voted).any(|below| below == *id);
        votes.values().filter(|(voted, _)| on_it(voted)).map(|(_, stake)| stake).sum::<u64>()
    };
    let mut at = forks.root();
    loop {
        let children = parents.iter().filter(|(_, parent)| *parent == at).map(|(id, _)| *id);
        let mut best: Option<(u64, BankId)> = None;
        for child in children.filter(|child| forks.is_candidate(child)) {
            let weight = weight(&child);
            if best.is_none_or(|(most, id)| weight > most || (weight == most && child < id)) {
                best = Some((weight, child));
            }
        }
        match best {
            Some((_, child)) => at = child,
            None => return at,
        }
    }
}

#[test]
fn weights_are_those_of_a_count_from_scratch() {
    for seed in 0..200 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut forks = Forks::new(id(0, 0));
        let mut parents: Vec<(BankId, BankId)> = Vec::new();
        let mut votes: BTreeMap<Pubkey, (BankId, u64)> = BTreeMap::new();
        for slot in 1..60 {
            let known: Vec<BankId> = forks.banks().copied().collect();
            let parent = known[known.len() - 1 - random.usize(..known.len().min(5))];
            let new = id(slot.max(parent.slot + 1), random.u8(..3));
            if forks.add(new, parent).is_ok() {
                parents.push((new, parent));
            }
            for _ in 0..random.usize(..4) {
                let (account, voted) = ([random.u8(..6); 32], known[random.usize(..known.len())]);
                let stake = 10 + u64::from(account[0] % 3);
                forks.vote([(account, voted, stake)]);
                let is_newer = |(last, _): &(BankId, u64)| {
                    voted.slot > last.slot || (voted.slot == last.slot && voted.hash < last.hash)
                };
                if votes.get(&account).is_none_or(is_newer) {
                    votes.insert(account, (voted, stake));
                }
            }
            match random.u8(..30) {
                0 => forks.mark_invalid(&known[random.usize(..known.len())]),
                1 => drop(forks.mark_confirmed(&known[random.usize(..known.len())])),
                2 => {
                    let root = known[random.usize(..known.len())];
                    forks.set_root(root);
                    votes.retain(|_, (voted, _)| voted.slot >= root.slot);
                }
                _ => {}
            }
            assert_eq!(forks.heaviest(), counted(&forks, &parents, &votes), "seed {seed}, slot {slot}");
        }
    }
}
