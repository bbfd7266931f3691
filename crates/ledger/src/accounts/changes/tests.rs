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
    (0..SHARDS).for_each(|shard| accounts.take_changes(era, shard, |change| changes.push(change)));
    changes.sort_by_key(|change| change.key);
    changes
}

#[derive(Clone, Debug)]
enum Step {
    Store(u8, u64),
    Update(u8, u64),
    EndSlot,
    Take,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..12u8, 0..4u64).prop_map(|(n, lamports)| Step::Store(n, lamports)),
        2 => (0..12u8, 0..4u64).prop_map(|(n, lamports)| Step::Update(n, lamports)),
        2 => Just(Step::EndSlot),
        1 => Just(Step::Take),
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

proptest! {
    #[test]
    fn whenever_they_are_taken_they_are_what_the_slot_did(steps in proptest::collection::vec(step(), 1..200)) {
        let accounts = Accounts::new();
        (0..6).for_each(|n| accounts.store(&key(n), Account::with_data(1, [9; 32], &[n])));
        accounts.note_changes();
        // The state at the end of each slot whose changes are not taken, and of the one before.
        let mut ends = VecDeque::from([state_of(&accounts)]);
        let mut eras = VecDeque::new();
        for step in steps.into_iter().chain([Step::EndSlot]).chain((0..200).map(|_| Step::Take)) {
            match step {
                Step::Store(n, lamports) => accounts.store(&key(n), Account::wallet(lamports)),
                Step::Update(n, lamports) => accounts.update(&key(n), |account| account.lamports = lamports),
                Step::EndSlot => {
                    ends.push_back(state_of(&accounts));
                    eras.push_back(accounts.end_era());
                }
                Step::Take => {
                    let Some(era) = eras.pop_front() else { continue };
                    let before = ends.pop_front().expect("one more than slots");
                    prop_assert_eq!(take_all(&accounts, era), expected(&before, &ends[0]));
                    prop_assert_eq!(accounts.count(), state_of(&accounts).len());
                }
            }
        }
        prop_assert!(eras.is_empty());
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
