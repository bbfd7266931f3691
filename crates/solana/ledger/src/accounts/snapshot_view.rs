//! snapshot_view: a consistent snapshot of all accounts at a slot's end, read while banks continue to write.
//!
//! reads   the shards, one at a time
//! memory  one shard's accounts (data is shared, not copied), and for each account written since the cut in a shard
//!         that has not been read yet its previous value: 112 B and its data
//! source  copy on write, with an account as the page
//!
//! Nothing is stored between the end of a slot and the start of the next. A cut is made there, by raising the store's
//! number. The first store to an account in a shard with an older number preserves the value that it replaces. A shard,
//! a thousandth of all accounts, is read under its read lock.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;

use hearth_mutation::{Mutation, active};
use hearth_wire::Pubkey;

use super::{Accounts, Contents, HashedKey, SHARDS};
use crate::account::Account;

/// The values that stores to one shard have replaced since the last cut.
#[derive(Debug, Default)]
pub(super) struct ReplacedValues {
    /// The last cut for which the shard was read.
    cut: u32,
    before: HashMap<Pubkey, Option<Account>>,
}

impl Contents {
    /// Before a store: preserves the current value, unless the shard was read for this cut or an earlier value is
    /// preserved.
    #[inline]
    pub(super) fn keep(&mut self, cut: u32, key: &HashedKey) {
        if self.kept.cut != cut && !active(Mutation::LostCut) {
            let before = self.find(key).cloned();
            self.kept.before.entry(key.key).or_insert(before);
        }
    }
}

impl Accounts {
    /// Shards to read after a cut, numbered from 0.
    pub(crate) const SHARDS: usize = SHARDS;

    /// Makes a cut: until each shard is read, stores preserve what they replace. To be called between two slots.
    pub(crate) fn cut(&self) {
        self.cut.fetch_add(1, Relaxed);
    }

    /// The accounts of a shard at the last cut. To be called once per shard.
    pub(crate) fn read_cut(&self, shard: usize) -> Vec<(Pubkey, Account)> {
        let mut accounts = vec![];
        let _ = self.scan_shard(shard, &mut |key, account| {
            accounts.push((*key, account.clone()));
            std::ops::ControlFlow::<()>::Continue(())
        });
        // A writer that stored between the two locks has preserved the previous value.
        let mut before = self.end_cut(shard);
        if !before.is_empty() {
            accounts.retain_mut(|(key, account)| match before.remove(key) {
                None => true,
                Some(None) => false,
                Some(Some(old)) => {
                    *account = old;
                    true
                }
            });
            // Accounts that were deleted since the cut.
            accounts.extend(before.into_iter().filter_map(|(key, account)| Some((key, account?))));
        }
        accounts
    }

    /// Abandons a cut: nothing is preserved for it any more.
    pub(crate) fn forget_cut(&self) {
        (0..SHARDS).for_each(|shard| drop(self.end_cut(shard)));
    }

    fn end_cut(&self, shard: usize) -> HashMap<Pubkey, Option<Account>> {
        let mut contents = self.shards[shard].write();
        contents.kept.cut = self.cut.load(Relaxed);
        std::mem::take(&mut contents.kept.before)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    fn key(n: u32) -> Pubkey {
        let mut key = [0; 32];
        key[..4].copy_from_slice(&n.to_le_bytes());
        key
    }

    fn read(accounts: &Accounts) -> HashMap<Pubkey, Account> {
        let all: Vec<_> = (0..Accounts::SHARDS).flat_map(|shard| accounts.read_cut(shard)).collect();
        let (count, map) = (all.len(), all.into_iter().collect::<HashMap<_, _>>());
        assert_eq!(map.len(), count, "no address twice");
        map
    }

    #[test]
    fn snapshot_view_is_of_one_instant() {
        const COUNT: u32 = 40_000;
        let accounts = Accounts::new();
        (0..COUNT).for_each(|n| accounts.store(&key(n), Account::wallet(1)));
        let mut generation = 1;
        for _ in 0..5 {
            accounts.cut();
            let expected: HashMap<_, _> =
                (0..2 * COUNT).filter_map(|n| Some((key(n), accounts.load(&key(n))?))).collect();
            let stop = AtomicBool::new(false);
            let found = std::thread::scope(|scope| {
                for thread in 0..3u32 {
                    let (accounts, stop) = (&accounts, &stop);
                    scope.spawn(move || {
                        let mut step = u64::from(thread);
                        while !stop.load(Relaxed) {
                            // Changes, deletes and creates accounts of its own, some of them twice.
                            let n =
                                (step.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u32 % (2 * COUNT / 3) * 3 + thread;
                            let lamports = generation + step % 3;
                            accounts.store(&key(n), Account::wallet(if step % 4 == 0 { 0 } else { lamports }));
                            accounts.update(&key(n), |account| account.lamports *= 2);
                            step += 1;
                        }
                    });
                }
                let found = read(&accounts);
                stop.store(true, Relaxed);
                found
            });
            assert_eq!(found.len(), expected.len());
            assert!(found == expected, "generation {generation}");
            generation += 1;
        }
    }

    #[test]
    fn nothing_is_kept_without_a_cut_or_after_it() {
        let accounts = Accounts::new();
        let kept = || accounts.shards.iter().map(|shard| shard.read().kept.before.len()).sum::<usize>();
        accounts.store(&key(1), Account::wallet(1));
        assert_eq!(kept(), 0);
        accounts.cut();
        accounts.store(&key(1), Account::wallet(2));
        accounts.store(&key(1), Account::wallet(3));
        accounts.store(&key(2), Account::wallet(3));
        assert_eq!(kept(), 2);
        assert_eq!(read(&accounts), HashMap::from([(key(1), Account::wallet(1))]));
        accounts.store(&key(1), Account::wallet(4));
        assert_eq!(kept(), 0);
        accounts.cut();
        accounts.store(&key(1), Account::wallet(0));
        accounts.forget_cut();
        assert_eq!(kept(), 0);
        accounts.cut();
        assert_eq!(read(&accounts), HashMap::from([(key(2), Account::wallet(3))]));
    }
}
