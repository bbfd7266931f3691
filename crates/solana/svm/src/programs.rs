//! The genesis accounts of a chain besides its builtin programs: the cluster's programs that have become ordinary ones,
//! SPL's, the mint of wrapped SOL, the stake program's former configuration, and the accounts of features.
//!
//! reads   the released binaries in `solana-program-binaries`
//! writes  accounts for the genesis
//! memory  0.8 MB while they are made
//! source  `solana-test-validator` 4.2, `genesis_utils.rs` of `solana-runtime` 4.2

use solana_account::{AccountSharedData, ReadableAccount};
use solana_program_binaries::{
    bpf_loader_program_account, bpf_loader_upgradeable_program_accounts, core_bpf_programs, spl_programs,
};
use solana_program_runtime::program_cache_entry::ProgramCacheEntry;
use solana_program_runtime::program_metrics::LoadProgramMetrics;
use solana_pubkey::Pubkey;
use solana_rent::Rent;

use hearth_ledger::features::{self, Feature};
use hearth_ledger::rent::minimum_balance;
use hearth_ledger::{Account, ActiveFeatures};
use hearth_wire::base58::decode_32;
use hearth_wire::consts::{BPF_LOADER_UPGRADEABLE, CONFIG_PROGRAM, LAMPORTS_PER_SOL};

use crate::convert::from_engine;
use crate::environment::virtual_machine;

const TOKEN: &str = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA";
const NATIVE_MINT: &str = "So11111111111111111111111111111111111111112";
const STAKE_CONFIG: &str = "StakeConfig11111111111111111111111111111111";
/// The size of an SPL Token mint, and the offsets of its decimals and its initialized flag.
const MINT_BYTES: usize = 82;
const MINT_DECIMALS: usize = 44;
const MINT_IS_INITIALIZED: usize = 45;

/// The genesis accounts for programs, wrapped SOL and the features of a local chain, [`features::mainnet`].
pub fn genesis_accounts() -> Vec<(hearth_wire::Pubkey, Account)> {
    genesis_accounts_with(features::mainnet())
}

/// The same for a chain with other features.
pub fn genesis_accounts_with(features: impl Iterator<Item = &'static Feature>) -> Vec<(hearth_wire::Pubkey, Account)> {
    let rent = Rent::default();
    let features: Vec<&Feature> = features.collect();
    let is_active = |id: &Pubkey| features.iter().any(|feature| feature.id == *id.as_array());
    let programs = spl_programs(&rent).into_iter().chain(core_bpf_programs(&rent, is_active));
    let mut accounts: Vec<_> = programs.map(|(key, account)| (key.to_bytes(), from_engine(&account))).collect();
    accounts.extend(features::feature_accounts(features.iter().copied()));
    accounts.extend([native_mint(), stake_config()]);
    accounts.sort_unstable_by_key(|(key, _)| *key);
    accounts
}

/// Whether another program may replace the one at this address: SPL's, and the cluster's that are ordinary ones.
pub fn is_replaceable(address: &hearth_wire::Pubkey) -> bool {
    let rent = Rent::default();
    let programs = spl_programs(&rent).into_iter().chain(core_bpf_programs(&rent, |_| true));
    programs.into_iter().any(|(key, account)| key.as_array() == address && account.executable())
}

/// The mint of wrapped SOL: nine decimals, no mint or freeze authority. SPL Token refuses to wrap without it, and none
/// of its instructions can create it.
fn native_mint() -> (hearth_wire::Pubkey, Account) {
    let mut mint = [0; MINT_BYTES];
    mint[MINT_DECIMALS] = 9;
    mint[MINT_IS_INITIALIZED] = 1;
    let mut account = Account::with_data(LAMPORTS_PER_SOL, address(TOKEN), &mint);
    account.rent_epoch = 1;
    (address(NATIVE_MINT), account)
}

/// The former configuration of the stake program: no keys, a quarter of the stake per epoch, 12/255 slashed.
fn stake_config() -> (hearth_wire::Pubkey, Account) {
    let data = [&[0][..], &0.25f64.to_le_bytes(), &[12]].concat();
    (address(STAKE_CONFIG), Account::with_data(minimum_balance(data.len()), CONFIG_PROGRAM, &data))
}

fn address(text: &str) -> hearth_wire::Pubkey {
    decode_32(text).expect("the text of an address")
}

/// Checks that a program runs with the features of [`features::mainnet`]: its ELF file is well formed and its code
/// verifies.
pub fn verify(elf: &[u8]) -> Result<(), String> {
    let active = features::mainnet().map(|feature| (feature.id, 0));
    let environment = virtual_machine(&ActiveFeatures::new(active));
    let loader = Pubkey::new_from_array(BPF_LOADER_UPGRADEABLE);
    let entry = ProgramCacheEntry::new(&loader, environment, 0, 0, elf, elf.len(), &mut LoadProgramMetrics::default());
    entry.map(|_| ()).map_err(|why| why.to_string())
}

/// The account of an immutable program, owned by the second loader.
pub fn fixed_program(address: &hearth_wire::Pubkey, elf: &[u8]) -> (hearth_wire::Pubkey, Account) {
    let (key, account) = bpf_loader_program_account(&Pubkey::new_from_array(*address), elf, &Rent::default());
    (key.to_bytes(), from_engine(&AccountSharedData::from(account)))
}

/// The two accounts of a program that only `authority` can upgrade, or nobody if it is all zeros.
pub fn upgradeable_program(
    address: &hearth_wire::Pubkey,
    elf: &[u8],
    authority: &hearth_wire::Pubkey,
) -> [(hearth_wire::Pubkey, Account); 2] {
    let accounts = bpf_loader_upgradeable_program_accounts(&Pubkey::new_from_array(*address), elf, &Rent::default());
    accounts.map(|(key, mut account)| {
        if !account.executable {
            // After the kind (4 bytes), the slot (8) and the tag of a present authority (1).
            account.data[13..45].copy_from_slice(authority);
        }
        (key.to_bytes(), from_engine(&AccountSharedData::from(account)))
    })
}

#[cfg(test)]
mod tests {
    use hearth_wire::consts::FEATURE_PROGRAM;

    use super::*;

    /// The programs of the genesis of `solana-test-validator` 4.2.2, and whether the upgradeable loader owns them.
    const PROGRAMS: [(&str, bool); 10] = [
        (TOKEN, true),
        ("TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb", true),
        ("Memo4c2pN8afCj432Lb7RMVKi9PbQnnW7ewFFaV3oAH", true),
        ("Memo1UhkJRfHyvLMcVucJwxXeuD728EqVDDwQDxFMNo", false),
        ("MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr", false),
        ("ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL", false),
        ("AddressLookupTab1e1111111111111111111111111", true),
        ("Config1111111111111111111111111111111111111", true),
        ("Feature111111111111111111111111111111111111", true),
        ("Stake11111111111111111111111111111111111111", true),
    ];

    #[test]
    fn a_chain_begins_as_the_clusters_test_node() {
        let accounts = genesis_accounts();
        let of = |text: &str| accounts.iter().find(|(key, _)| *key == address(text)).map(|(_, account)| account);
        for (text, upgradeable) in PROGRAMS {
            let account = of(text).unwrap_or_else(|| panic!("{text} is missing"));
            assert!(account.executable, "{text}");
            assert_eq!(account.owner == BPF_LOADER_UPGRADEABLE, upgradeable, "{text}");
        }
        let mint = of(NATIVE_MINT).expect("the mint of wrapped SOL");
        assert_eq!((mint.lamports, mint.rent_epoch, mint.owner), (LAMPORTS_PER_SOL, 1, address(TOKEN)));
        let mut data = vec![0; 82];
        data[44..46].copy_from_slice(&[9, 1]);
        assert_eq!(mint.data(), data);
        let config = of(STAKE_CONFIG).expect("the stake program's former settings");
        assert_eq!(config.data(), [0, 0, 0, 0, 0, 0, 0, 0xd0, 0x3f, 12]);
        assert_eq!((config.lamports, config.owner), (minimum_balance(10), CONFIG_PROGRAM));
        // The rest is only the data of upgradeable programs, and the features.
        let of_programs = PROGRAMS.len() + PROGRAMS.iter().filter(|(_, upgradeable)| *upgradeable).count();
        let features = accounts.iter().filter(|(_, account)| account.owner == FEATURE_PROGRAM).count();
        assert_eq!(features, features::mainnet().count());
        assert_eq!(accounts.len(), of_programs + features + 2);
    }
}
