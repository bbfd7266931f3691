//! changed_accounts: which accounts a recent block changed, so that operators of two diverging nodes can find the
//! difference.
//!
//! reads   the notes of what slots changed, while they are kept: where forks are kept, back to the root
//! writes  a page of accounts
//! memory  32 B per account that the block changed, during a request

use hearth_wire::{Hash, Pubkey};

use super::Ledger;
use crate::lattice::account_hash;

/// A page of a block's changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotChanges {
    /// The slot of the block.
    pub slot: u64,
    /// The slot of the parent block.
    pub parent: u64,
    /// The hash of its bank.
    pub bank_hash: Hash,
    /// Accounts whose state differs from the end of the parent block, by address.
    pub accounts: Vec<ChangedAccount>,
    /// Whether there are more after the last.
    pub more: bool,
}

/// The state of a changed account at the end of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangedAccount {
    /// Address of the account.
    pub key: Pubkey,
    /// The balance; zero if the account was deleted.
    pub lamports: u64,
    /// The program that owns the account.
    pub owner: Pubkey,
    /// Whether it is a program.
    pub executable: bool,
    /// Size of its data in bytes.
    pub space: usize,
    /// Its part of the bank's hash: [`account_hash`].
    pub hash: Hash,
}

impl Ledger {
    /// The changes by the block of `slot`: at most `limit` accounts, by address, after `after`. `None` if the current
    /// fork has no such block with a known hash, or its notes are no longer kept.
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
        let changed_account = |key: &Pubkey| {
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
        let changed_account = keys.iter().map(changed_account).collect();
        // If its notes were forgotten or the block was abandoned meanwhile, the page would have gaps.
        let is_kept = accounts.oldest_era() < era && at() == Some((era, parent));
        is_kept.then_some(SlotChanges { slot, parent, bank_hash, accounts: changed_account, more })
    }
}
