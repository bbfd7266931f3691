//! changed: which accounts a recent block has changed, so that two nodes that disagree on it can find where.
//!
//! reads   the notes of what slots changed, as long as they are kept: where forks are kept, back to the root
//! writes  a page of accounts
//! memory  32 B an account that the block changed, while it is asked
//! drops   nothing

use hearth_wire::{Hash, Pubkey};

use super::Ledger;
use crate::lattice::account_hash;

/// A page of what a block changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotChanges {
    /// The block's slot.
    pub slot: u64,
    /// The slot of the block before.
    pub parent: u64,
    /// The hash of its bank.
    pub bank_hash: Hash,
    /// Accounts that ended it otherwise than they began it, by address.
    pub accounts: Vec<ChangedAccount>,
    /// Whether there are more behind the last.
    pub more: bool,
}

/// An account at the end of a block that has changed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangedAccount {
    /// Its address.
    pub key: Pubkey,
    /// Zero: it has ceased to exist.
    pub lamports: u64,
    /// Its program.
    pub owner: Pubkey,
    /// Whether it is a program.
    pub executable: bool,
    /// Bytes of its data.
    pub space: usize,
    /// What of it goes into the bank's hash: [`account_hash`].
    pub hash: Hash,
}

impl Ledger {
    /// What the block of `slot` changed: at most `limit` accounts, by address, those behind `after`. `None` where the
    /// line has no such block whose hash is known, or what it replaced is not kept any more.
    pub fn slot_changes(&self, slot: u64, after: Option<&Pubkey>, limit: usize) -> Option<SlotChanges> {
        let accounts = &self.shared.accounts;
        let at = || {
            let chain = self.chain();
            let at = chain.find(slot)?;
            Some((chain.eras[at], chain.blocks[at].parent))
        };
        let (era, parent) = at()?;
        let bank_hash = self.shared.hashing.hash_of(slot)?;
        let mut keys = vec![];
        accounts.changed_keys(era, |key| {
            if after.is_none_or(|after| key > after) {
                keys.push(*key);
            }
        });
        keys.sort_unstable();
        let more = keys.len() > limit;
        keys.truncate(limit);
        let told = |key: &Pubkey| {
            let account = accounts.with_at(key, era, |account| ChangedAccount {
                key: *key,
                lamports: account.lamports,
                owner: account.owner,
                executable: account.executable,
                space: account.data().len(),
                hash: account_hash(key, account),
            });
            let gone =
                ChangedAccount { key: *key, lamports: 0, owner: [0; 32], executable: false, space: 0, hash: [0; 32] };
            account.unwrap_or(gone)
        };
        let told = keys.iter().map(told).collect();
        // Had its notes been forgotten, or the block been left, meanwhile, the page would have holes.
        let is_kept = accounts.oldest_era() < era && at() == Some((era, parent));
        is_kept.then_some(SlotChanges { slot, parent, bank_hash, accounts: told, more })
    }
}
