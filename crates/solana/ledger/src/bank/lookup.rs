//! Resolves the addresses that a transaction loads from lookup tables.
//!
//! reads   a transaction's lookups, the tables' accounts, the slot hashes sysvar
//! writes  [`LoadedAddresses`]
//! memory  32 bytes per address, at most 256 per transaction
//! drops   an invalid lookup: the error for which the transaction is refused
//! source  `solana-address-lookup-table-interface` 3 (layout, activity), `accounts.rs` of `solana-accounts-db` 4.2
//!         (errors)
//!
//! The result depends on the slot, not on the moment within it: an address counts from the slot after the one that
//! added it, and a deactivated table keeps working until its deactivation slot has left the slot hashes.

use hearth_wire::consts::{ADDRESS_LOOKUP_TABLE_PROGRAM, SYSVAR_SLOT_HASHES};
use hearth_wire::{Pubkey, Txn};

use crate::account::Account;
use crate::accounts::Accounts;
use crate::error::TransactionError;

/// Size of a table's header, before its addresses.
const TABLE_META_BYTES: usize = 56;
/// The deactivation slot of an active table.
const NEVER: u64 = u64::MAX;

/// Addresses from lookup tables, which follow the transaction's own in its numbering.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadedAddresses {
    addresses: Vec<Pubkey>,
    writable_count: usize,
}

impl LoadedAddresses {
    /// All addresses, the writable ones first.
    pub fn all(&self) -> &[Pubkey] {
        &self.addresses
    }

    /// The addresses that are loaded as writable, in the order of the lookups.
    pub fn writable(&self) -> &[Pubkey] {
        &self.addresses[..self.writable_count]
    }

    /// The addresses that are loaded as read-only, in the order of the lookups.
    pub fn readonly(&self) -> &[Pubkey] {
        &self.addresses[self.writable_count..]
    }

    /// A digest of the addresses in order, keyed by a secret of the process, with which a bank checks that a
    /// transaction's tables still yield the addresses that the scheduler has locked.
    pub fn digest(&self, accounts: &Accounts) -> u64 {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        let start = self.writable_count as u64;
        self.addresses.iter().fold(start, |sum, key| sum.wrapping_mul(ODD).wrapping_add(accounts.hashed(key).hash))
    }

    /// Resolves the lookups of `txn` in a block of `slot`.
    pub fn resolve(txn: &Txn<'_>, accounts: &Accounts, slot: u64) -> Result<Self, TransactionError> {
        let (mut addresses, mut readonly) = (Vec::with_capacity(txn.loaded_count()), vec![]);
        for lookup in txn.address_table_lookups() {
            let account = accounts.load(lookup.account_key).ok_or(TransactionError::AddressLookupTableNotFound)?;
            let table = Table::read(&account)?;
            if !table.is_active(accounts, slot) {
                return Err(TransactionError::AddressLookupTableNotFound);
            }
            let usable = table.usable_addresses(slot)?;
            let find = |&index: &u8| {
                usable.get(usize::from(index)).copied().ok_or(TransactionError::InvalidAddressLookupTableIndex)
            };
            for index in lookup.writable_indexes {
                addresses.push(find(index)?);
            }
            for index in lookup.readonly_indexes {
                readonly.push(find(index)?);
            }
        }
        let writable_count = addresses.len();
        addresses.append(&mut readonly);
        Ok(Self { addresses, writable_count })
    }
}

/// A parsed lookup table.
struct Table<'a> {
    deactivation_slot: u64,
    last_extended_slot: u64,
    last_extended_start: u8,
    addresses: &'a [Pubkey],
}

impl<'a> Table<'a> {
    fn read(account: &'a Account) -> Result<Self, TransactionError> {
        if account.owner != ADDRESS_LOOKUP_TABLE_PROGRAM {
            return Err(TransactionError::InvalidAddressLookupTableOwner);
        }
        Self::parse(account.data()).ok_or(TransactionError::InvalidAddressLookupTableData)
    }

    fn parse(data: &'a [u8]) -> Option<Self> {
        let (addresses, []) = data.get(TABLE_META_BYTES..)?.as_chunks() else { return None };
        let (kind, rest) = data.split_first_chunk()?;
        let (deactivation_slot, rest) = rest.split_first_chunk()?;
        let (last_extended_slot, rest) = rest.split_first_chunk()?;
        let (&last_extended_start, rest) = rest.split_first()?;
        // The table's authority: present or absent, and no other value.
        (u32::from_le_bytes(*kind) == 1 && matches!(rest.first(), Some(0 | 1))).then_some(Self {
            deactivation_slot: u64::from_le_bytes(*deactivation_slot),
            last_extended_slot: u64::from_le_bytes(*last_extended_slot),
            last_extended_start,
            addresses,
        })
    }

    fn is_active(&self, accounts: &Accounts, slot: u64) -> bool {
        self.deactivation_slot == NEVER
            || self.deactivation_slot == slot
            // The parent slot has a block, since the table was deactivated in it, and is the newest of the slot hashes.
            || self.deactivation_slot.checked_add(1) == Some(slot)
            || accounts
                .with(&SYSVAR_SLOT_HASHES, |recent| has_slot(recent.data(), self.deactivation_slot))
                .unwrap_or(false)
    }

    fn usable_addresses(&self, slot: u64) -> Result<&'a [Pubkey], TransactionError> {
        let count = match slot > self.last_extended_slot {
            true => self.addresses.len(),
            false => usize::from(self.last_extended_start),
        };
        self.addresses.get(..count).ok_or(TransactionError::InvalidAddressLookupTableData)
    }
}

/// Whether the slot hashes contain `slot`: a count of 8 bytes, then a slot and a hash each.
fn has_slot(slot_hashes: &[u8], slot: u64) -> bool {
    let (entries, _) = slot_hashes.get(8..).unwrap_or_default().as_chunks::<40>();
    entries.iter().any(|entry| entry[..8] == slot.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use hearth_wire::message::Message;
    use hearth_wire::program::system;

    use super::*;
    use crate::account::Account;
    use crate::{Genesis, GenesisConfig, Ledger, LedgerConfig};

    fn table(deactivated: u64, extended: u64, start: u8, addresses: &[Pubkey]) -> Vec<u8> {
        let mut data = 1u32.to_le_bytes().to_vec();
        data.extend(deactivated.to_le_bytes());
        data.extend(extended.to_le_bytes());
        data.extend([start, 1]);
        data.resize(TABLE_META_BYTES, 0);
        data.extend(addresses.as_flattened());
        data
    }

    fn account(data: &[u8]) -> Account {
        Account::with_data(1, ADDRESS_LOOKUP_TABLE_PROGRAM, data)
    }

    #[test]
    fn new_addresses_count_from_the_next_slot() {
        let account = account(&table(NEVER, 5, 1, &[[1; 32], [2; 32]]));
        let table = Table::read(&account).ok().expect("a table");
        assert_eq!(table.usable_addresses(5), Ok(&[[1; 32]][..]));
        assert_eq!(table.usable_addresses(6), Ok(&[[1; 32], [2; 32]][..]));
    }

    #[test]
    fn other_addresses_have_another_digest() {
        let accounts = Accounts::new();
        let digest = |addresses: &[Pubkey], writable_count| {
            LoadedAddresses { addresses: addresses.to_vec(), writable_count }.digest(&accounts)
        };
        let (a, b) = ([1; 32], [2; 32]);
        assert_eq!(digest(&[a, b], 1), digest(&[a, b], 1));
        let others = [digest(&[b, a], 1), digest(&[a, b], 2), digest(&[a], 1), digest(&[a, a], 1), digest(&[], 0)];
        assert!(!others.contains(&digest(&[a, b], 1)));
    }

    #[test]
    fn a_table_lasts_while_its_end_is_recent() {
        let accounts = Accounts::new();
        let ended = account(&table(7, 1, 0, &[]));
        let ended = Table::read(&ended).ok().expect("a table");
        assert!(ended.is_active(&accounts, 7) && ended.is_active(&accounts, 8) && !ended.is_active(&accounts, 9));
        let mut recent = 1u64.to_le_bytes().to_vec();
        recent.extend(7u64.to_le_bytes());
        recent.extend([9; 32]);
        accounts.store(&SYSVAR_SLOT_HASHES, Account::with_data(1, [0; 32], &recent));
        assert!(ended.is_active(&accounts, 9));
    }

    /// Replay calls this before any transaction has executed; the parent is in the slot hashes once it is hashed.
    #[test]
    fn accounts_of_an_ended_table_are_touched_before_the_parent_is_hashed() {
        let genesis = Genesis::create(GenesisConfig::development([1; 32], [2; 32], 0), |_| {}).unwrap();
        let ledger = Ledger::new(&genesis, LedgerConfig::default());
        ledger.accounts().store(&[200; 32], account(&table(1, 0, 0, &[[11; 32]])));
        ledger.begin_slot(1, 0).unwrap();
        ledger.end_slot(1, [1; 32]).unwrap();
        ledger.begin_slot(3, 1).unwrap();
        let legacy = Message::compile(&[5; 32], &[system::transfer(&[5; 32], &[6; 32], 1)], &[1; 32]).unwrap();
        let message = [&[0x80][..], legacy.bytes(), &[1], &[200; 32], &[1, 0, 0]].concat();
        let bytes = [&[1][..], &[7; 64], &message].concat();
        let mut touched = vec![];
        ledger.bank(3).unwrap().touched(&Txn::parse(&bytes).unwrap(), &mut touched);
        let loaded = ledger.accounts().hashed(&[11; 32]).hash;
        assert!(touched.contains(&(loaded, true)), "{} accounts", touched.len());
    }

    #[test]
    fn refuses_what_is_no_table() {
        let invalid = Some(TransactionError::InvalidAddressLookupTableData);
        for data in [&[][..], &[1; 55], &table(NEVER, 1, 0, &[])[..55], &[0; 56], &[&[1; 56][..], &[1]].concat()] {
            assert_eq!(Table::read(&account(data)).err(), invalid, "{data:?}");
        }
        let foreign = Account::with_data(1, [3; 32], &table(NEVER, 1, 0, &[]));
        assert_eq!(Table::read(&foreign).err(), Some(TransactionError::InvalidAddressLookupTableOwner));
        let beyond = account(&table(NEVER, 5, 3, &[[1; 32]]));
        assert_eq!(Table::read(&beyond).ok().expect("a table").usable_addresses(5).err(), invalid);
    }
}
