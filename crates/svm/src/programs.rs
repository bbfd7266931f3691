//! What a chain has at its beginning beside the node's own programs: the cluster's programs that are
//! ordinary ones by now, SPL's, and the accounts of the active features.
//!
//! reads   the released binaries that `solana-program-binaries` ships
//! writes  accounts for the genesis
//! memory  0.8 MB while it is made
//! source  `solana-test-validator` 4.2, `genesis_utils.rs` of `solana-runtime` 4.2

use solana_account::{AccountSharedData, ReadableAccount};
use solana_program_binaries::{
    bpf_loader_program_account, bpf_loader_upgradeable_program_accounts, core_bpf_programs, spl_programs,
};
use solana_program_runtime::program_cache_entry::ProgramCacheEntry;
use solana_program_runtime::program_metrics::LoadProgramMetrics;
use solana_pubkey::Pubkey;
use solana_rent::Rent;

use hearth_ledger::Account;
use hearth_ledger::rent::minimum_balance;
use hearth_wire::consts::{BPF_LOADER_UPGRADEABLE, FEATURE_PROGRAM};

use crate::convert::from_engine;
use crate::environment::{Environment, active_features};

/// The accounts that a chain has at its beginning for programs and features.
pub fn genesis_accounts() -> Vec<(hearth_wire::Pubkey, Account)> {
    let rent = Rent::default();
    let features = active_features();
    let programs = spl_programs(&rent).into_iter().chain(core_bpf_programs(&rent, |id| features.is_active(id)));
    let mut accounts: Vec<_> = programs.map(|(key, account)| (key.to_bytes(), from_engine(&account))).collect();
    accounts.extend(features.active().keys().map(|feature| (feature.to_bytes(), feature_account())));
    accounts.sort_unstable_by_key(|(key, _)| *key);
    accounts
}

/// Whether a chain has a program there that another may stand for: SPL's, and the cluster's that are ordinary ones.
pub fn is_replaceable(address: &hearth_wire::Pubkey) -> bool {
    let rent = Rent::default();
    let programs = spl_programs(&rent).into_iter().chain(core_bpf_programs(&rent, |_| true));
    programs.into_iter().any(|(key, account)| key.as_array() == address && account.executable())
}

/// The account of a feature that is active since slot 0: one byte that says so, and the slot.
fn feature_account() -> Account {
    let mut data = [0; 9];
    data[0] = 1;
    Account::with_data(minimum_balance(data.len()), FEATURE_PROGRAM, &data)
}

/// Whether a program could be deployed: its ELF file is well formed and its code verifies.
pub fn verify(elf: &[u8]) -> Result<(), String> {
    let environment = Environment::new().programs;
    let loader = Pubkey::new_from_array(BPF_LOADER_UPGRADEABLE);
    let entry = ProgramCacheEntry::new(&loader, environment, 0, 0, elf, elf.len(), &mut LoadProgramMetrics::default());
    entry.map(|_| ()).map_err(|why| why.to_string())
}

/// The account of a program that can never change, by the second loader.
pub fn fixed_program(address: &hearth_wire::Pubkey, elf: &[u8]) -> (hearth_wire::Pubkey, Account) {
    let (key, account) = bpf_loader_program_account(&Pubkey::new_from_array(*address), elf, &Rent::default());
    (key.to_bytes(), from_engine(&AccountSharedData::from(account)))
}

/// The two accounts of a program that can be upgraded by nobody but `authority`, which nobody is when
/// it is all zeros.
pub fn upgradeable_program(
    address: &hearth_wire::Pubkey,
    elf: &[u8],
    authority: &hearth_wire::Pubkey,
) -> [(hearth_wire::Pubkey, Account); 2] {
    let accounts = bpf_loader_upgradeable_program_accounts(&Pubkey::new_from_array(*address), elf, &Rent::default());
    accounts.map(|(key, mut account)| {
        if !account.executable {
            // After the kind (4 bytes), the slot (8) and that there is an authority (1).
            account.data[13..45].copy_from_slice(authority);
        }
        (key.to_bytes(), from_engine(&AccountSharedData::from(account)))
    })
}
