//! The tower's rules, and its file format.

use proptest::prelude::*;

use super::*;

pub(super) fn bank(slot: u64) -> BankId {
    BankId { slot, hash: [slot as u8; 32] }
}

fn vote(slot: u64) -> LastVote {
    LastVote { id: bank(slot), block_id: [9; 32] }
}

pub(super) fn voted(slots: impl IntoIterator<Item = u64>) -> Tower {
    let mut tower = Tower::new(bank(0));
    for slot in slots {
        if let Some(root) = tower.vote(vote(slot)) {
            tower.set_root(bank(root));
        }
    }
    tower
}

fn counts(tower: &Tower) -> Vec<(u64, u32)> {
    tower.lockouts.votes.iter().map(|vote| (vote.slot, vote.confirmation_count)).collect()
}

#[test]
fn votes_double_lockouts_and_the_32nd_roots() {
    let tower = voted(1..=4);
    assert_eq!(counts(&tower), [(1, 4), (2, 3), (3, 2), (4, 1)]);
    let tower = voted(1..=31);
    assert_eq!((tower.root(), tower.lockouts.votes[0].confirmation_count), (Some(bank(0)), 31));
    let tower = voted(1..=32);
    assert_eq!((tower.root(), tower.lockouts.votes.len()), (Some(bank(1)), 31));
}

#[test]
fn expired_votes_go_and_deeper_stacks_double() {
    // The vote for 3 bound until 5 and for 2 until 6, so that 7 finds 1 alone, which binds until 9.
    assert_eq!(counts(&voted([1, 2, 3, 7])), [(1, 3), (7, 1)]);
    assert_eq!(counts(&voted([1, 2, 3, 7, 8])), [(1, 3), (7, 2), (8, 1)]);
    assert_eq!(counts(&voted([1, 2, 3, 7, 8, 9])), [(1, 4), (7, 3), (8, 2), (9, 1)]);
    assert_eq!(counts(&voted([1, 2, 3, 10])), [(10, 1)]);
}

#[test]
fn vote_binds_until_its_last_slot() {
    let tower = voted([1, 2, 3]);
    let other_fork = |slot| tower.is_locked_out(slot, |slot| slot == 0);
    assert!([3, 4, 6, 9].into_iter().all(other_fork));
    assert!(!other_fork(10));
    assert!(!tower.is_locked_out(4, |slot| slot < 4) && tower.is_locked_out(3, |_| true));
    // 2 and 3 have expired at 7; 1 has not.
    assert!(!tower.is_locked_out(7, |slot| slot < 2) && tower.is_locked_out(7, |slot| slot == 0));
    assert!(tower.is_locked_out(100, |_| false), "the root is on no chain");
}

#[test]
fn time_goes_forward_and_once_a_slot() {
    let mut tower = voted([5]);
    assert_eq!(tower.timestamp(5, 100), Some(100));
    assert_eq!((tower.timestamp(5, 101), tower.timestamp(6, 99)), (None, None));
    assert_eq!(tower.refreshed_timestamp(), Some(101));
    assert_eq!(tower.timestamp(6, 101), Some(101));
    assert_eq!(tower.refreshed_timestamp(), None, "the last vote is for 5");
}

#[test]
fn newer_timestamp_of_the_account_is_adopted() {
    let mut lost = voted([5]);
    lost.adopt_timestamp(0, 0);
    assert_eq!(lost, voted([5]), "no vote of the account had a timestamp");
    lost.adopt_timestamp(7, 100);
    assert_eq!(lost.timestamp(8, 99), None);
    assert_eq!(lost.timestamp(7, 100), None);
    assert_eq!(lost.timestamp(8, 100), Some(100));
    // A timestamp from the tower itself may land later.
    lost.adopt_timestamp(7, 100);
    assert_eq!(lost.timestamp(9, 99), None);
    lost.adopt_timestamp(8, 103);
    assert_eq!(lost.timestamp(9, 102), None);
    assert_eq!(lost.timestamp(9, 103), Some(103));
    let mut from_start = voted([]);
    from_start.adopt_timestamp(0, 100);
    assert_eq!(from_start.timestamp(1, 99), None, "a time that the account has from genesis");
}

#[test]
fn newer_root_drops_only_the_votes_below() {
    let start = voted([1, 2, 3, 4]);
    let mut tower = start.clone();
    tower.align(bank(10), &[0, 1, 2, 5, 6]).expect("descends from 0");
    assert_eq!((counts(&tower), tower.root()), (vec![(3, 2), (4, 1)], Some(bank(10))));
    assert_eq!(tower.last_vote(), Some(vote(4)));
    let mut tower = start.clone();
    tower.align(bank(10), &[0, 1, 2, 3, 4]).expect("descends from 0");
    assert_eq!((counts(&tower), tower.last_vote()), (vec![], None));
    let mut older = voted(1..=40);
    let before = older.clone();
    older.align(bank(3), &[0, 1, 2]).expect("older than the tower");
    assert_eq!(older, before);
}

#[test]
fn bank_off_the_root_is_refused() {
    let tower = voted(1..=35);
    assert_eq!(tower.root(), Some(bank(4)));
    let align = |slot, ancestors: &[u64]| tower.clone().align(bank(slot), ancestors);
    assert_eq!(align(10, &[3, 5, 6]), Err(AlignError::Diverged(4)));
    assert_eq!(align(10, &[6, 5]), Err(AlignError::TooOld(4)));
    assert_eq!(align(10, &[]), Err(AlignError::TooOld(4)));
    assert_eq!(align(10, &[4]), Ok(()));
    let mut tower = tower.clone();
    assert_eq!(tower.align(BankId { slot: 4, hash: [77; 32] }, &[]), Err(AlignError::Diverged(4)));
}

#[test]
fn newer_own_votes_are_adopted_above_root() {
    let mut tower = voted(1..=35);
    let votes = voted(1..=50).lockouts.votes;
    tower.adopt(&votes, Some(bank(2)), vote(50));
    assert_eq!((tower.root(), &tower.lockouts.votes), (Some(bank(4)), &votes));
    tower.adopt(&votes, Some(bank(21)), vote(50));
    assert_eq!((tower.root(), tower.lockouts.votes[0].slot), (Some(bank(21)), 22));
}

#[test]
fn votes_extend_those_that_landed() {
    let extends = |own: &Tower, landed: &Tower| {
        let Lockouts { votes, root } = landed.lockouts();
        own.lockouts().extends(votes, *root)
    };
    for slots in [0, 1, 5, 31, 40] {
        for later in [0, 1, 31, 60] {
            assert!(extends(&voted(1..=slots + later), &voted(1..=slots)), "{slots} and {later} more");
        }
    }
    // A vote has expired before the next one.
    assert!(extends(&voted([1, 2, 3, 9]), &voted([1, 2, 3])));
    assert!(!extends(&voted([1, 2, 4]), &voted([1, 2, 3])), "3 binds up to 5");
    assert!(!extends(&voted([1, 2]), &voted([1, 2, 3])), "no vote here is as new");
    assert!(!extends(&voted([1, 2, 4, 5]), &voted([1, 2, 3, 4])), "3 is missing");
    let fewer = voted((1..=10).chain(20..=22));
    assert!(!extends(&fewer, &voted(1..=20)), "of 1 the account has the longer lockout");
    assert!(!extends(&voted(1..=31), &voted(1..=40)), "an older root");
}

#[test]
fn votes_keep_what_others_forbid() {
    let keep = |new: &Tower, own: &Tower, slot, chain: &[u64]| {
        new.lockouts().keep(own.lockouts(), slot, |slot| chain.contains(&slot))
    };
    let chain: Vec<u64> = (1..=20).collect();
    assert!(keep(&voted(1..=9), &voted(1..=9), 10, &chain));
    assert!(keep(&voted(1..=9), &voted([]), 10, &chain));
    // 4 is missing, and a vote above it binds as long.
    assert!(keep(&voted([1, 5, 6, 7]), &voted([1, 4, 5]), 8, &chain));
    assert!(!keep(&voted([1, 7]), &voted([1, 4, 5, 6]), 8, &chain), "4 binds longer than 7");
    assert!(keep(&voted([1, 20]), &voted([1, 4, 5, 6]), 20, &chain), "none binds any more");
    assert!(!keep(&voted([1, 2, 3]), &voted([1, 2, 3]), 4, &[1, 2]), "3 is on another fork");
    let rooted = voted(1..=40);
    assert!(keep(&rooted, &voted(1..=9), 41, &chain), "all are rooted or there");
}

#[test]
fn only_a_whole_saved_tower_is_restored() {
    let node = [3; 32];
    for tower in [Tower::default(), Tower::new(bank(7)), voted([5]), voted(1..=60), voted([1, 2, 3, 90])] {
        let bytes = tower.save(&node);
        assert_eq!(Tower::restore(&bytes, &node), Ok(tower));
        assert_eq!(Tower::restore(&bytes, &[4; 32]).map_err(|error| error.kind), Err(SavedErrorKind::Node));
        for end in 0..bytes.len() {
            assert!(Tower::restore(&bytes[..end], &node).is_err(), "{end} bytes");
        }
        for at in 0..bytes.len() {
            let mut bytes = bytes.clone();
            bytes[at] ^= 1;
            assert!(Tower::restore(&bytes, &node).is_err(), "byte {at}");
        }
    }
}

/// A naive model of the lockouts: each vote with the maximum number of slots that were on top of it at once.
#[derive(Default)]
struct Model(Vec<(u64, usize)>);

impl Model {
    fn vote(&mut self, slot: u64) -> Option<u64> {
        while let Some((last, deepest)) = self.0.last()
            && last + (1 << deepest) < slot
        {
            self.0.pop();
        }
        let root = (self.0.len() == 31).then(|| self.0.remove(0).0);
        self.0.push((slot, 1));
        let depth = self.0.len();
        for (index, (_, deepest)) in self.0.iter_mut().enumerate() {
            // A vote counts itself and those on top, once the stack is deeper than it ever was above it.
            if depth - index > *deepest {
                *deepest += 1;
            }
        }
        root
    }
}

proptest! {
    #[test]
    fn lockouts_are_those_of_a_model(gaps in prop::collection::vec(prop_oneof![8 => 1u64..3, 1 => 3u64..400], 1..200)) {
        let (mut tower, mut model, mut slot) = (Tower::new(bank(0)), Model::default(), 0);
        for gap in gaps {
            slot += gap;
            let root = tower.vote(vote(slot));
            prop_assert_eq!(root, model.vote(slot));
            let ours: Vec<_> = counts(&tower).into_iter().map(|(slot, count)| (slot, count as usize)).collect();
            prop_assert_eq!(&ours, &model.0);
            let bytes = tower.save(&[1; 32]);
            prop_assert_eq!(Tower::restore(&bytes, &[1; 32]), Ok(tower.clone()));
        }
    }

    #[test]
    fn any_bytes_are_an_error_and_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let mut bytes = bytes;
        prop_assert!(Tower::restore(&bytes, &[0; 32]).is_err());
        bytes.splice(0..0, *b"hrtower\x01");
        prop_assert!(Tower::restore(&bytes, &[0; 32]).is_err());
    }
}
