//! The headers that loaders put before a program: its code's address and its deployment slot.
//!
//! reads   accounts of programs
//! writes  the slot, where a chain begins with a program of another chain
//! source  `UpgradeableLoaderState` of `solana-loader-v3-interface`, `LoaderV4State` of `solana-loader-v4-interface`

use hearth_wire::Pubkey;
use hearth_wire::consts::{BPF_LOADER_UPGRADEABLE, LOADER_V4};

use crate::account::Account;

/// Account kinds of the upgradeable loader: the first four bytes.
const PROGRAM: [u8; 4] = 2u32.to_le_bytes();
const PROGRAM_DATA: [u8; 4] = 3u32.to_le_bytes();
/// Header of loader v4: slot, authority, status.
const LOADER_V4_BYTES: usize = 8 + 32 + 8;

/// The address of the account with an upgradeable program's code.
pub fn code_address(program: &Account) -> Option<Pubkey> {
    let is_upgradeable = program.owner == BPF_LOADER_UPGRADEABLE;
    let address = program.data().strip_prefix(&PROGRAM).filter(|_| is_upgradeable)?;
    address.first_chunk::<32>().copied()
}

/// The deployment slot in an account with code. The loaders without upgrades store none.
pub fn deployment_slot(account: &Account) -> Option<u64> {
    let at = slot_offset(account)?;
    account.data()[at..].first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

/// Sets the deployment slot to 0, so that the code counts as deployed before the chain began.
pub fn clear_deployment_slot(account: &mut Account) {
    if deployment_slot(account).unwrap_or(0) == 0 {
        return;
    }
    let at = slot_offset(account).expect("it has a slot");
    let mut data = account.data().to_vec();
    data[at..at + 8].fill(0);
    account.set_shared_data(data.into());
}

fn slot_offset(account: &Account) -> Option<usize> {
    let data = account.data();
    match account.owner {
        BPF_LOADER_UPGRADEABLE if data.starts_with(&PROGRAM_DATA) && data.len() >= 12 => Some(4),
        LOADER_V4 if data.len() >= LOADER_V4_BYTES => Some(0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(owner: Pubkey, parts: &[&[u8]]) -> Account {
        Account::with_data(1, owner, &parts.concat())
    }

    #[test]
    fn the_slot_is_found_and_cleared() {
        let slot = 200u64.to_le_bytes();
        let code = account(BPF_LOADER_UPGRADEABLE, &[&PROGRAM_DATA, &slot, &[1], &[9; 40]]);
        let v4 = account(LOADER_V4, &[&slot, &[7; 40], b"code"]);
        for (mut account, at) in [(code, 4), (v4, 0)] {
            assert_eq!(deployment_slot(&account), Some(200));
            let mut wanted = account.data().to_vec();
            wanted[at] = 0;
            clear_deployment_slot(&mut account);
            assert_eq!(deployment_slot(&account), Some(0));
            assert_eq!(account.data(), wanted);
        }
    }

    #[test]
    fn other_accounts_stay_as_they_are() {
        let slot = 200u64.to_le_bytes();
        let others = [
            account(BPF_LOADER_UPGRADEABLE, &[&PROGRAM, &[7; 32]]),
            account(BPF_LOADER_UPGRADEABLE, &[&PROGRAM_DATA, &slot[..7]]),
            account(BPF_LOADER_UPGRADEABLE, &[]),
            account(LOADER_V4, &[&slot, &[7; 39]]),
            account([5; 32], &[&PROGRAM_DATA, &slot, &[0; 40]]),
        ];
        for mut other in others {
            let before = other.clone();
            assert_eq!(deployment_slot(&other), None);
            clear_deployment_slot(&mut other);
            assert_eq!(other, before);
        }
    }

    #[test]
    fn a_program_names_its_code() {
        assert_eq!(code_address(&account(BPF_LOADER_UPGRADEABLE, &[&PROGRAM, &[7; 32]])), Some([7; 32]));
        assert_eq!(code_address(&account(BPF_LOADER_UPGRADEABLE, &[&PROGRAM, &[7; 33]])), Some([7; 32]), "the rest");
        assert_eq!(code_address(&account(BPF_LOADER_UPGRADEABLE, &[&PROGRAM, &[7; 31]])), None);
        assert_eq!(code_address(&account(BPF_LOADER_UPGRADEABLE, &[&PROGRAM_DATA, &[7; 32]])), None);
        assert_eq!(code_address(&account(LOADER_V4, &[&PROGRAM, &[7; 32]])), None);
    }
}
