//! account_history: reads accounts as they were at the end of a recent slot.
//!
//! reads   accounts, and the notes of what later slots changed ([`changes`](super::changes))
//! memory  the notes of what was replaced since the oldest pinned era, within the bound on all notes
//! drops   nothing: a request for a time before the oldest readable one is answered for that one
//!
//! A shard's notes are forgotten under its lock, after the oldest readable era was raised. So a reader that takes the
//! lock and then checks that era finds all newer notes. A reader that reads more than once pins its era: else the
//! second account might be of a later slot than the first.

use std::sync::atomic::Ordering::Relaxed;

use hearth_wire::Pubkey;

use super::{Accounts, SHARDS};
use crate::account::Account;

impl Accounts {
    /// The oldest era for whose end accounts can be read.
    pub(crate) fn oldest_era(&self) -> u32 {
        self.oldest.load(Relaxed)
    }

    /// Makes ends of eras before this one unreadable, so that their notes can be forgotten.
    pub(crate) fn raise_oldest(&self, era: u32) {
        self.oldest.fetch_max(era, Relaxed);
    }

    /// [`Self::raise_oldest`] to what `oldest` returns for the oldest pinned era, `u32::MAX` if there is none. No era
    /// is pinned meanwhile.
    pub(crate) fn raise_oldest_with(&self, oldest: impl FnOnce(u32) -> u32) {
        let pins = self.pins.lock();
        let pinned = pins.keys().next().copied().unwrap_or(u32::MAX);
        self.raise_oldest(oldest(pinned));
    }

    /// Keeps the end of an era readable, or of the oldest readable one if that is later, until the pin is dropped or
    /// memory for it lacks.
    pub(crate) fn pin(&self, era: u32) -> Pin<'_> {
        let mut pins = self.pins.lock();
        let era = era.max(self.oldest_era());
        *pins.entry(era).or_default() += 1;
        Pin { accounts: self, era }
    }

    /// Calls `read` on an account as it was at the end of `era`.
    pub(crate) fn with_at<T>(&self, key: &Pubkey, era: u32, read: impl FnOnce(&Account) -> T) -> Option<T> {
        let key = self.hashed(key);
        let contents = self.shard(&key).read();
        let era = era.max(self.oldest_era());
        let entry = contents.table.find(key.hash, |entry| entry.key == key.key)?;
        let account = contents.at_end_of(era, entry);
        (account.lamports != 0).then(|| read(account))
    }

    /// Visits every account as it was at the end of `era`, shard by shard.
    pub(crate) fn for_each_at(&self, era: u32, mut visit: impl FnMut(&Pubkey, &Account)) {
        for shard in 0..SHARDS {
            let contents = self.shards[shard].read();
            let era = era.max(self.oldest_era());
            for entry in &contents.table {
                let account = contents.at_end_of(era, entry);
                if account.lamports != 0 {
                    visit(&entry.key, account);
                }
            }
        }
    }
}

/// Keeps the end of an era readable.
pub(crate) struct Pin<'a> {
    accounts: &'a Accounts,
    era: u32,
}

impl Pin<'_> {
    /// The era that is pinned.
    pub(crate) const fn era(&self) -> u32 {
        self.era
    }
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        let mut pins = self.accounts.pins.lock();
        if let Some(count) = pins.get_mut(&self.era) {
            *count -= 1;
            if *count == 0 {
                pins.remove(&self.era);
            }
        }
    }
}
