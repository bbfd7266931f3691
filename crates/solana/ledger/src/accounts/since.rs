//! since: which accounts changed since the end of an era, for archives that hold no more than these.
//!
//! reads   the era of the last write of each account; the accounts that left their table
//! memory  36 B, in a table at most 7/8 full, for each deleted account until the next full archive
//! drops   nothing: an account that was written and is as it was counts, too
//!
//! The era of an account's last write stays with it after the note of what that write replaced is forgotten. What no
//! longer is in a table is remembered beside it, where [`Accounts::remember_deleted`] was called.

use std::collections::HashSet;
use std::sync::atomic::Ordering::Relaxed;

use hearth_wire::Pubkey;

use super::{Accounts, SHARDS};

/// Deleted accounts, 40 B each, beyond which no more archives build on the full one, so that they can be forgotten.
pub(crate) const DELETED_MAX: usize = 1 << 22;

impl Accounts {
    /// Remembers which accounts are deleted from now on, so that [`Accounts::changed_since`] has them.
    pub(crate) fn remember_deleted(&self) {
        self.remembers.store(true, Relaxed);
    }

    /// The accounts of a shard that were written or deleted after the end of `era`, and maybe more.
    pub(crate) fn changed_since(&self, shard: usize, era: u32) -> HashSet<Pubkey> {
        let contents = self.shards[shard].read();
        let written = contents.table.iter().filter(|entry| entry.noted.era > era).map(|entry| entry.key);
        let deleted = contents.deleted.iter().filter(|(_, of)| **of > era).map(|(key, _)| *key);
        written.chain(deleted).collect()
    }

    /// Forgets which accounts were deleted up to the end of `era`.
    pub(crate) fn forget_deleted(&self, era: u32) {
        for shard in self.shards.iter() {
            let mut contents = shard.write();
            contents.deleted.retain(|_, of| *of > era);
            contents.deleted.shrink_to_fit();
        }
    }

    /// The number of deleted accounts that are remembered.
    pub(crate) fn deleted_count(&self) -> usize {
        (0..SHARDS).map(|shard| self.shards[shard].read().deleted.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::account::Account;

    fn key(n: u8) -> Pubkey {
        [n; 32]
    }

    fn since(accounts: &Accounts, era: u32) -> BTreeSet<u8> {
        (0..SHARDS).flat_map(|shard| accounts.changed_since(shard, era)).map(|key| key[0]).collect()
    }

    fn forget_notes(accounts: &Accounts, era: u32) {
        accounts.raise_oldest(era);
        (0..SHARDS).for_each(|shard| accounts.forget(shard));
    }

    #[test]
    fn writes_and_deletions_since_are_known() {
        let accounts = Accounts::new();
        (1..=5).for_each(|n| accounts.store(&key(n), Account::wallet(1)));
        accounts.note_changes();
        accounts.remember_deleted();
        accounts.store(&key(1), Account::wallet(2));
        let base = accounts.end_era();
        assert_eq!(since(&accounts, base), BTreeSet::new());
        accounts.store(&key(2), Account::wallet(2));
        accounts.store(&key(3), Account::wallet(0));
        accounts.store(&key(6), Account::wallet(1));
        let newest = accounts.end_era();
        accounts.store(&key(6), Account::wallet(0));
        assert_eq!(since(&accounts, base), BTreeSet::from([2, 3, 6]));
        assert_eq!(since(&accounts, newest), BTreeSet::from([6]));
        let last = accounts.end_era();
        // The entries of deleted accounts go with the notes of what they were.
        forget_notes(&accounts, last);
        assert_eq!((accounts.count(), accounts.deleted_count()), (4, 2));
        assert_eq!(since(&accounts, base), BTreeSet::from([2, 3, 6]));
        accounts.store(&key(3), Account::wallet(1));
        assert_eq!(since(&accounts, base), BTreeSet::from([2, 3, 6]));
        accounts.forget_deleted(newest);
        assert_eq!((since(&accounts, last), accounts.deleted_count()), (BTreeSet::from([3]), 1));
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
            8 => (0..16u8, 0..3u64).prop_map(|(who, lamports)| Step::Store(who, lamports)),
            4 => Just(Step::EndEra),
            1 => (0..3usize).prop_map(Step::Forget),
            1 => (0..3usize).prop_map(Step::Rewind),
        ]
    }

    /// The balances at the end of an era.
    type Ends = Vec<(u32, [u64; 16])>;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]
        /// Whatever is left of the chain: an account that is not as it was at the end of the base has changed since.
        #[test]
        fn no_difference_is_missed(steps in proptest::collection::vec(step(), 0..160)) {
            let accounts = Accounts::new();
            (0..8).for_each(|n| accounts.store(&key(n), Account::wallet(1)));
            accounts.note_changes();
            accounts.remember_deleted();
            let balances = || -> [u64; 16] {
                std::array::from_fn(|n| accounts.load(&key(n as u8)).map_or(0, |account| account.lamports))
            };
            let base = (accounts.end_era(), balances());
            let mut ends: Ends = vec![base];
            for step in steps {
                match step {
                    Step::Store(who, lamports) => accounts.store(&key(who), Account::wallet(lamports)),
                    Step::EndEra => ends.push((accounts.end_era(), balances())),
                    Step::Forget(behind) => {
                        ends.drain(..ends.len().saturating_sub(1 + behind));
                        forget_notes(&accounts, ends[0].0);
                    }
                    Step::Rewind(behind) => {
                        ends.truncate(ends.len().saturating_sub(behind).max(1));
                        accounts.rewind(ends[ends.len() - 1].0, |_| {});
                    }
                }
                let (changed, now) = (since(&accounts, base.0), balances());
                for n in 0..16u8 {
                    let at = usize::from(n);
                    prop_assert!(now[at] == base.1[at] || changed.contains(&n), "account {n}");
                }
            }
        }
    }
}
