//! The accounts that a transaction write-locks, after the cluster's demotions.
//!
//! reads   a parsed transaction, the addresses loaded from its lookup tables, the reserved keys
//! writes  a set of account indexes
//! memory  32 bytes on the stack
//! source  `is_maybe_writable` and `LoadedMessage::is_writable` of `solana-message` 4.2

use super::Txn;
use crate::account_set::AccountSet;
use crate::consts::{BPF_LOADER_UPGRADEABLE, Pubkey};

impl Txn<'_> {
    /// The accounts that instructions call as programs.
    pub fn invoked_programs(&self) -> AccountSet {
        let mut programs = AccountSet::default();
        self.instructions().for_each(|instruction| programs.insert(instruction.program_id_index));
        programs
    }

    /// The write-locked accounts: those that the message marks writable, except reserved ones (`is_reserved`: sysvars
    /// and built-in programs) and those called as programs, unless the upgradeable loader is among the accounts.
    ///
    /// `loaded` are the addresses from the lookup tables, writable first, then read-only. If it is empty because there
    /// are none or they are not known yet, the loaded accounts count as writable where the message says so, and the
    /// loader is searched in the static accounts only.
    pub fn write_locks(&self, loaded: &[Pubkey], mut is_reserved: impl FnMut(&Pubkey) -> bool) -> AccountSet {
        let keys = self.account_keys();
        let loader_present = keys.iter().chain(loaded).any(|key| *key == BPF_LOADER_UPGRADEABLE);
        let demoted = if loader_present { AccountSet::default() } else { self.invoked_programs() };
        let mut locks = AccountSet::default();
        for index in 0..=u8::MAX {
            let at = usize::from(index);
            if at >= self.account_count() {
                break;
            }
            let key = keys.get(at).or_else(|| loaded.get(at - keys.len()));
            if self.is_writable(at) && !demoted.contains(at) && !key.is_some_and(&mut is_reserved) {
                locks.insert(index);
            }
        }
        locks
    }
}
