//! rewind: restores all accounts to their state at the end of an earlier slot.
//!
//! reads   the notes of what later slots replaced ([`changes`](super::changes))
//! writes  the accounts; removes those notes
//! drops   accounts that did not exist then
//!
//! A shard is rewound under its lock, so a concurrent reader finds either the old or the new value. A read at the end
//! of an undone era returns the state at the end of the era that the accounts were rewound to: eras are never reused,
//! so no reader mixes two forks. A snapshot cut stays valid: what it has not read yet is preserved, as before any other
//! store.

use std::sync::atomic::Ordering::Relaxed;

use hearth_mutation::{Mutation, active};
use hearth_wire::Pubkey;

use super::changes::Note;
use super::{Accounts, Contents, HashedKey, SHARDS};
use crate::account::Account;

/// A change that was undone.
pub(crate) struct UndoneChange<'a> {
    /// The era that had made the change.
    pub(crate) era: u32,
    /// Address of the restored account.
    pub(crate) key: &'a Pubkey,
    /// The value at the end of that era; without lamports it did not exist.
    pub(crate) from: &'a Account,
    /// The value now; without lamports it does not exist.
    pub(crate) to: &'a Account,
}

impl Accounts {
    /// Rewinds to the end of `era`, and visits the undone changes, the newest first. The notes of all later eras must
    /// be present, and there must be no concurrent writer.
    pub(crate) fn rewind(&self, era: u32, mut undone: impl FnMut(&UndoneChange<'_>)) {
        let cut = self.cut.load(Relaxed);
        for shard in 0..SHARDS {
            let mut contents = self.shards[shard].write();
            while let Some((of, mut list)) = contents.notes.take_after(era) {
                list.drain(..).for_each(|note| self.undo(&mut contents, (cut, of), note, &mut undone));
                contents.notes.recycle(list);
            }
        }
    }

    fn undo(
        &self,
        contents: &mut Contents,
        (cut, era): (u32, u32),
        note: Note,
        undone: &mut impl FnMut(&UndoneChange<'_>),
    ) {
        let key = HashedKey { key: note.key, hash: self.seed.address(&note.key) };
        contents.keep(cut, &key);
        // Without a note, no later `forget` would remove the entry.
        let gone = note.before.lamports == 0 && !contents.notes.has(note.earlier);
        let deleted_in = note.earlier.era;
        let Contents { table, dead, .. } = contents;
        let entry = table.find_mut(key.hash, |entry| entry.key == key.key);
        let entry = entry.expect("an account stays in its table while there are notes of it");
        let stays = entry.account.lamports != 0 && note.before.lamports != 0;
        if active(Mutation::MissedUndo) && stays && key.key[0] % 2 == 1 {
            entry.noted = note.earlier;
            return;
        }
        *dead += usize::from(entry.account.lamports != 0 && note.before.lamports == 0);
        *dead -= usize::from(entry.account.lamports == 0 && note.before.lamports != 0);
        let from = std::mem::replace(&mut entry.account, note.before);
        entry.noted = note.earlier;
        undone(&UndoneChange { era, key: &key.key, from: &from, to: &entry.account });
        if gone {
            self.remove(contents, &key, deleted_in);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn key(n: u8) -> Pubkey {
        [n; 32]
    }

    type Model = BTreeMap<u8, u64>;

    fn all(accounts: &Accounts) -> Model {
        let mut all = Model::new();
        accounts.for_each(|key, account| assert!(all.insert(key[0], account.lamports).is_none()));
        all
    }

    fn past(accounts: &Accounts, era: u32) -> Model {
        let mut all = Model::new();
        accounts.for_each_at(era, |key, account| assert!(all.insert(key[0], account.lamports).is_none()));
        all
    }

    /// Bytes of all notes and accounts.
    fn held(accounts: &Accounts) -> (usize, usize) {
        let entries = accounts.shards.iter().map(|shard| shard.read().table.len()).sum();
        (entries, accounts.shards.iter().map(|shard| shard.read().dead).sum())
    }

    #[derive(Clone, Debug)]
    enum Step {
        Store(u8, u64),
        EndEra,
        Forget(usize),
        Rewind(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            8 => (0..24u8, 0..4u64).prop_map(|(who, lamports)| Step::Store(who, lamports)),
            3 => Just(Step::EndEra),
            1 => (0..4usize).prop_map(Step::Forget),
            1 => (0..4usize).prop_map(Step::Rewind),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]
        #[test]
        fn accounts_go_back_to_what_they_were(steps in proptest::collection::vec(step(), 0..200)) {
            let accounts = Accounts::new();
            (0..8).for_each(|n| accounts.store(&key(n), Account::wallet(9)));
            accounts.note_changes();
            // The ends of eras that the store can rewind to, the newest last.
            let mut ends = vec![(0u32, all(&accounts))];
            let mut now = ends[0].1.clone();
            for step in steps {
                match step {
                    Step::Store(who, lamports) => {
                        accounts.store(&key(who), Account::wallet(lamports));
                        if lamports == 0 { now.remove(&who) } else { now.insert(who, lamports) };
                    }
                    Step::EndEra => ends.push((accounts.end_era(), now.clone())),
                    Step::Forget(behind) => {
                        ends.drain(..ends.len().saturating_sub(1 + behind));
                        accounts.raise_oldest(ends[0].0);
                        (0..SHARDS).for_each(|shard| accounts.forget(shard));
                    }
                    Step::Rewind(behind) => {
                        ends.truncate(ends.len().saturating_sub(behind).max(1));
                        let (era, then) = ends.last().unwrap().clone();
                        let mut before = now.clone();
                        accounts.rewind(era, |UndoneChange { key, from, to, .. }| {
                            assert_eq!(before.get(&key[0]).copied().unwrap_or(0), from.lamports);
                            before.insert(key[0], to.lamports);
                        });
                        before.retain(|_, lamports| *lamports != 0);
                        prop_assert_eq!(&before, &then);
                        now = then;
                    }
                }
                prop_assert_eq!(&all(&accounts), &now);
                prop_assert_eq!(accounts.count(), now.len());
            }
            for (era, then) in &ends {
                prop_assert_eq!(&past(&accounts, *era), then, "at the end of era {}", era);
            }
            let era = accounts.end_era();
            accounts.raise_oldest(era);
            (0..SHARDS).for_each(|shard| accounts.forget(shard));
            prop_assert_eq!(held(&accounts), (now.len(), 0), "nothing is left of accounts that are no more");
        }
    }

    #[test]
    fn a_cut_is_as_of_its_moment_though_the_accounts_go_back() {
        let accounts = Accounts::new();
        accounts.store(&key(1), Account::wallet(1));
        accounts.store(&key(2), Account::wallet(1));
        accounts.note_changes();
        accounts.store(&key(2), Account::wallet(2));
        accounts.store(&key(3), Account::wallet(2));
        accounts.store(&key(1), Account::wallet(0));
        accounts.end_era();
        accounts.cut();
        accounts.store(&key(3), Account::wallet(3));
        accounts.rewind(0, |_| {});
        assert_eq!(all(&accounts), Model::from([(1, 1), (2, 1)]));
        let read = (0..SHARDS).flat_map(|shard| accounts.read_cut(shard));
        let read: Model = read.map(|(key, account)| (key[0], account.lamports)).collect();
        assert_eq!(read, Model::from([(2, 2), (3, 2)]));
    }
}
