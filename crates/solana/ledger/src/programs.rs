//! The cluster's reserved addresses: builtin programs, and keys that no transaction may write.
//!
//! writes  yes or no, and the accounts with which a chain begins
//! memory  31 addresses and a filter of 256 bits
//! source  `solana-builtins`, `agave-reserved-account-keys`, `solana-builtins-default-costs` 4.2, every feature active

use std::sync::LazyLock;

use hearth_wire::base58::decode_32;
use hearth_wire::consts::*;

use crate::account::Account;

/// Addresses that occur only here: programs and accounts that were abandoned or moved.
const RESERVED_TEXTS: [&str; 3] = [
    "StakeConfig11111111111111111111111111111111",
    "ZkE1Gama1Proof11111111111111111111111111111",
    "ZkTokenProof1111111111111111111111111111111",
];

const RESERVED: [Pubkey; 28] = [
    ADDRESS_LOOKUP_TABLE_PROGRAM,
    BPF_LOADER,
    BPF_LOADER_DEPRECATED,
    BPF_LOADER_UPGRADEABLE,
    COMPUTE_BUDGET_PROGRAM,
    CONFIG_PROGRAM,
    ED25519_PROGRAM,
    FEATURE_PROGRAM,
    LOADER_V4,
    SECP256K1_PROGRAM,
    SECP256R1_PROGRAM,
    STAKE_PROGRAM,
    SYSTEM_PROGRAM,
    VOTE_PROGRAM,
    SYSVAR_CLOCK,
    SYSVAR_EPOCH_REWARDS,
    SYSVAR_EPOCH_SCHEDULE,
    SYSVAR_FEES,
    SYSVAR_INSTRUCTIONS,
    SYSVAR_LAST_RESTART_SLOT,
    SYSVAR_RECENT_BLOCKHASHES,
    SYSVAR_RENT,
    SYSVAR_REWARDS,
    SYSVAR_SLOT_HASHES,
    SYSVAR_SLOT_HISTORY,
    SYSVAR_STAKE_HISTORY,
    NATIVE_LOADER,
    SYSVAR_OWNER,
];

/// The reserved addresses in order, and a filter on their first bytes.
struct ReservedKeys {
    sorted: Vec<Pubkey>,
    first_bytes: [bool; 256],
}

static RESERVED_SET: LazyLock<ReservedKeys> = LazyLock::new(|| {
    let texts = RESERVED_TEXTS.map(|text| decode_32(text).expect("the text of an address"));
    let mut sorted: Vec<Pubkey> = RESERVED.into_iter().chain(texts).collect();
    sorted.sort_unstable();
    let mut first_bytes = [false; 256];
    sorted.iter().for_each(|key| first_bytes[usize::from(key[0])] = true);
    ReservedKeys { sorted, first_bytes }
});

/// Whether no transaction may write the account: a sysvar or a builtin program.
#[inline]
pub fn is_reserved(key: &Pubkey) -> bool {
    let reserved = &*RESERVED_SET;
    reserved.first_bytes[usize::from(key[0])] && reserved.sorted.binary_search(key).is_ok()
}

/// Whether a call of the program gets 3,000 compute units by default instead of 200,000.
#[inline]
pub fn is_cheap_builtin(key: &Pubkey) -> bool {
    const CHEAP: [&Pubkey; 8] = [
        &SYSTEM_PROGRAM,
        &COMPUTE_BUDGET_PROGRAM,
        &BPF_LOADER_UPGRADEABLE,
        &BPF_LOADER_DEPRECATED,
        &BPF_LOADER,
        &LOADER_V4,
        &SECP256K1_PROGRAM,
        &ED25519_PROGRAM,
    ];
    CHEAP.contains(&key)
}

/// A builtin program that a chain has only with a feature.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GatedProgram {
    pub(crate) key: Pubkey,
    name: &'static str,
    /// The address of the feature.
    pub(crate) feature: Pubkey,
}

impl GatedProgram {
    /// The account of the program, whose data is its name.
    pub(crate) fn account(&self) -> Account {
        Account::native_program(self.name)
    }
}

/// The builtin programs that a chain has only with a feature.
pub(crate) fn gated_programs() -> [GatedProgram; 2] {
    use agave_feature_set::{zk_elgamal_proof_program_enabled, zk_token_sdk_enabled};
    let program = |text, name, feature| {
        let key = decode_32(text).expect("the text of an address");
        GatedProgram { key, name, feature }
    };
    [
        program(RESERVED_TEXTS[1], "zk_elgamal_proof_program", zk_elgamal_proof_program_enabled::ID.to_bytes()),
        program(RESERVED_TEXTS[2], "zk_token_proof_program", zk_token_sdk_enabled::ID.to_bytes()),
    ]
}

/// Whether `owner` is a loader, which may own programs.
pub fn is_loader(owner: &Pubkey) -> bool {
    [NATIVE_LOADER, BPF_LOADER_UPGRADEABLE, BPF_LOADER, BPF_LOADER_DEPRECATED, LOADER_V4].contains(owner)
}

/// The accounts of the builtin programs, with which every chain begins.
pub fn builtin_accounts() -> Vec<(Pubkey, Account)> {
    let mut accounts: Vec<_> = [
        (SYSTEM_PROGRAM, "solana_system_program"),
        (VOTE_PROGRAM, "solana_vote_program"),
        (BPF_LOADER_DEPRECATED, "solana_bpf_loader_program"),
        (BPF_LOADER, "solana_bpf_loader_program"),
        (BPF_LOADER_UPGRADEABLE, "solana_bpf_loader_upgradeable_program"),
        (COMPUTE_BUDGET_PROGRAM, "compute_budget_program"),
        // Precompiles have no name.
        (ED25519_PROGRAM, ""),
        (SECP256K1_PROGRAM, ""),
        (SECP256R1_PROGRAM, ""),
    ]
    .into_iter()
    .map(|(key, name)| (key, Account::native_program(name)))
    .collect();
    accounts.extend(gated_programs().map(|program| (program.key, program.account())));
    accounts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn native_programs_are_as_the_bank_adds_them() {
        let accounts = builtin_accounts();
        assert!(accounts.iter().all(|(_, account)| account.executable && account.lamports == 1));
        assert!(accounts.iter().all(|(_, account)| account.rent_epoch == 0));
    }

    #[test]
    fn knows_the_reserved() {
        assert_eq!(RESERVED_SET.sorted.len(), 31);
        assert!(RESERVED_SET.sorted.windows(2).all(|pair| pair[0] != pair[1]));
        assert!(is_reserved(&SYSTEM_PROGRAM) && is_reserved(&SYSVAR_CLOCK));
        assert!(!is_reserved(&INCINERATOR) && !is_reserved(&MEMO_PROGRAM) && !is_reserved(&[7; 32]));
        assert!(builtin_accounts().iter().all(|(key, account)| is_reserved(key) && is_loader(&account.owner)));
    }
}
