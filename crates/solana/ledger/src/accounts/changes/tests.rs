//! Changes against a model that copies all accounts at the end of each slot.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::accounts::SHARDS;

fn key(n: u8) -> Pubkey {
    [n; 32]
}

fn take_all(accounts: &Accounts, era: u32) -> Vec<Change> {
    let mut changes = vec![];
    for shard in 0..SHARDS {
        accounts.take_changes(era, shard, |change| changes.push(change));
    }
    changes.sort_by_key(|change| change.key);
    changes
}

#[derive(Clone, Debug)]
enum Step {
    Store(u8, u64),
    Update(u8, u64),
    EndSlot,
    Take,
    /// Makes this many of the oldest states unreadable.
    Forget(u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..12u8, 0..4u64).prop_map(|(n, lamports)| Step::Store(n, lamports)),
        2 => (0..12u8, 0..4u64).prop_map(|(n, lamports)| Step::Update(n, lamports)),
        2 => Just(Step::EndSlot),
        1 => Just(Step::Take),
        1 => (0..4u32).prop_map(Step::Forget),
    ]
}

type State = BTreeMap<Pubkey, Account>;

fn state_of(accounts: &Accounts) -> State {
    let mut state = State::new();
    accounts.for_each(|key, account| assert!(state.insert(*key, account.clone()).is_none()));
    state
}

fn expected(before: &State, after: &State) -> Vec<Change> {
    let keys: std::collections::BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let at = |state: &State, key| state.get(key).cloned().unwrap_or_default();
    let changes = keys.into_iter().map(|key| Change { key: *key, before: at(before, key), after: at(after, key) });
    changes.filter(|change| change.before != change.after).collect()
}

fn state_at(accounts: &Accounts, era: u32) -> State {
    let mut state = State::new();
    accounts.for_each_at(era, |key, account| assert!(state.insert(*key, account.clone()).is_none()));
    for n in 0..12 {
        assert_eq!(accounts.with_at(&key(n), era, Account::clone), state.get(&key(n)).cloned());
    }
    state
}

/// Makes the states before the end of `oldest` unreadable.
fn forget(accounts: &Accounts, oldest: u32) {
    accounts.raise_oldest(oldest);
    (0..SHARDS).for_each(|shard| accounts.forget(shard));
}

proptest! {
    #[test]
    fn whenever_they_are_taken_they_are_what_the_slot_did(steps in proptest::collection::vec(step(), 1..200)) {
        let accounts = Accounts::new();
        (0..6).for_each(|n| accounts.store(&key(n), Account::with_data(1, [9; 32], &[n])));
        accounts.note_changes();
        // The state at the end of each slot, by era; the number of eras taken, and the oldest readable one.
        let mut ends = vec![state_of(&accounts)];
        let (mut taken, mut oldest) = (0, 0);
        for step in steps.into_iter().chain([Step::EndSlot]).chain((0..200).map(|_| Step::Take)) {
            match step {
                Step::Store(n, lamports) => accounts.store(&key(n), Account::wallet(lamports)),
                Step::Update(n, lamports) => accounts.update(&key(n), |account| account.lamports = lamports),
                Step::EndSlot => {
                    ends.push(state_of(&accounts));
                    prop_assert_eq!(accounts.end_era() as usize, ends.len() - 1);
                }
                Step::Take if taken + 1 < ends.len() => {
                    taken += 1;
                    prop_assert_eq!(take_all(&accounts, taken as u32), expected(&ends[taken - 1], &ends[taken]));
                }
                Step::Take => {}
                Step::Forget(count) => {
                    oldest = (oldest + count).min(taken as u32);
                    forget(&accounts, oldest);
                    prop_assert_eq!(accounts.count(), state_of(&accounts).len());
                }
            }
            for era in 0..ends.len() as u32 {
                prop_assert_eq!(&state_at(&accounts, era), &ends[era.max(oldest) as usize]);
            }
        }
        prop_assert_eq!(taken + 1, ends.len());
        forget(&accounts, taken as u32);
        for shard in &accounts.shards {
            let contents = shard.read();
            let notes = &contents.notes;
            prop_assert!(notes.older.is_empty() && notes.list.is_empty() && contents.dead == 0);
        }
    }
}

#[test]
fn an_account_that_ends_as_it_began_has_not_changed() {
    let accounts = Accounts::new();
    accounts.store(&key(1), Account::wallet(5));
    accounts.note_changes();
    accounts.store(&key(1), Account::wallet(0));
    accounts.store(&key(1), Account::wallet(5));
    accounts.store(&key(2), Account::wallet(7));
    accounts.store(&key(2), Account::wallet(0));
    let era = accounts.end_era();
    assert_eq!(take_all(&accounts, era), []);
    assert_eq!((accounts.count(), accounts.load(&key(1))), (1, Some(Account::wallet(5))));
}
