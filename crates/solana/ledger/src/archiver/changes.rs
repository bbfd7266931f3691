//! changes: what a state has otherwise than a full archive, so that an incremental one on it can be written.
//!
//! reads   the full archive, once as a stream, all of it checked; the ledger
//! memory  37 B for each account that is as it was, and as for [`read_state`]: 100 B an account while it is read
//! drops   nothing: an archive of another chain, or of no earlier slot, is an error

use std::collections::HashSet;
use std::path::Path;

use hearth_wire::Pubkey;

use crate::account::Account;
use crate::accounts::Accounts;
use crate::archive::{
    AccountReceiver, ArchiveError, ArchiveName, BankFields, ChainParameters, Fault, Progress, read_state,
};
use crate::ledger::Ledger;
use crate::slot_history::SlotHistory;

/// The differences of a ledger's state from a full archive.
pub struct Changes {
    base: u64,
    beginning: ChainParameters,
    /// Accounts that are in the archive as they are now.
    same: HashSet<Pubkey>,
    /// Accounts that are in the archive and no longer exist, sorted.
    gone: Vec<Pubkey>,
}

impl Changes {
    /// The differences of the state at the end of the ledger's last block. `progress` learns how far the archive is
    /// read.
    ///
    /// # Errors
    ///
    /// The archive is damaged, no full one, of another chain, or not of an earlier slot.
    pub fn since(
        full: &Path,
        ledger: &Ledger,
        progress: &mut dyn FnMut(&ArchiveName, Progress),
    ) -> Result<Self, ArchiveError> {
        let accounts = ledger.accounts();
        let mut comparing = ComparingReceiver { accounts, same: HashSet::new(), gone: HashSet::new(), progress };
        let fields = read_state(full, None, &mut comparing)?.contents.fields;
        is_earlier(ledger, &fields).map_err(|fault| ArchiveError::of(full, fault))?;
        let ComparingReceiver { same, gone, .. } = comparing;
        let mut gone = Vec::from_iter(gone);
        gone.sort_unstable();
        Ok(Self { base: fields.slot, beginning: ChainParameters::of_bank(&fields), same, gone })
    }

    /// The slot of the full archive.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Whether an account of the state differs from the archive.
    pub(super) fn has(&self, key: &Pubkey) -> bool {
        !self.same.contains(key)
    }

    /// The accounts that no longer exist.
    pub(super) fn gone(&self) -> &[Pubkey] {
        &self.gone
    }

    /// Succeeds if the archive can be of the chain of a newer bank.
    pub(super) fn check(&self, newer: &BankFields) -> Result<(), Fault> {
        self.beginning.check(newer)
    }
}

/// Succeeds if a bank is of an earlier block of the ledger's chain, as far as that is known.
fn is_earlier(ledger: &Ledger, fields: &BankFields) -> Result<(), Fault> {
    let slot = ledger.recent_blocks(1)[0].slot;
    if fields.slot >= slot {
        return Err(Fault::NotEarlier { base: fields.slot, slot });
    }
    let is_block = SlotHistory::of(ledger).is_none_or(|history| history.may_have(fields.slot));
    let is_same = ledger.bank_hash(fields.slot).is_none_or(|hash| hash == fields.hash);
    if is_block && is_same {
        Ok(())
    } else {
        Err(Fault::OtherChain("the bank's hash, or whether its slot has a block,"))
    }
}

/// Compares accounts as they come. A later version of one replaces what is known by an earlier one.
struct ComparingReceiver<'a> {
    accounts: &'a Accounts,
    same: HashSet<Pubkey>,
    gone: HashSet<Pubkey>,
    progress: &'a mut dyn FnMut(&ArchiveName, Progress),
}

impl AccountReceiver for ComparingReceiver<'_> {
    fn store(&mut self, key: &Pubkey, account: &Account) {
        match self.accounts.with(key, |now| now == account) {
            Some(true) => self.same.insert(*key),
            Some(false) => self.same.remove(key),
            None if account.lamports > 0 => self.gone.insert(*key),
            None => self.gone.remove(key),
        };
    }

    fn progress(&mut self, archive: &ArchiveName, progress: Progress) {
        (self.progress)(archive, progress);
    }
}
