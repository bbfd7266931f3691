//! The token program (SPL Token): mints, token accounts, transfers.
//!
//! writes  [`Instruction`]s
//! memory  none beyond the result
//! source  `spl-token-interface`: a tag of one byte, numbers in little endian

use crate::consts::{Pubkey, TOKEN_PROGRAM};
use crate::message::{AccountMeta, Instruction};

/// Size of a mint in bytes.
pub const MINT_SIZE: u64 = 82;
/// Size of a token account in bytes.
pub const ACCOUNT_SIZE: u64 = 165;

fn instruction(accounts: Vec<AccountMeta>, data: Vec<u8>) -> Instruction {
    Instruction { program_id: TOKEN_PROGRAM, accounts, data }
}

fn amount_data(tag: u8, amount: u64) -> Vec<u8> {
    let mut data = vec![tag];
    data.extend_from_slice(&amount.to_le_bytes());
    data
}

/// Initializes `mint`, an account of [`MINT_SIZE`] bytes owned by the program, without a freeze authority.
pub fn initialize_mint(mint: &Pubkey, authority: &Pubkey, decimals: u8) -> Instruction {
    let mut data = vec![20, decimals];
    data.extend_from_slice(authority);
    data.push(0);
    instruction(vec![AccountMeta::writable(*mint, false)], data)
}

/// Initializes `account`, of [`ACCOUNT_SIZE`] bytes owned by the program, as a token account of `owner` for `mint`.
pub fn initialize_account(account: &Pubkey, mint: &Pubkey, owner: &Pubkey) -> Instruction {
    let mut data = vec![18];
    data.extend_from_slice(owner);
    instruction(vec![AccountMeta::writable(*account, false), AccountMeta::readonly(*mint, false)], data)
}

/// Mints `amount` tokens to the account `to`.
pub fn mint_to(mint: &Pubkey, to: &Pubkey, authority: &Pubkey, amount: u64) -> Instruction {
    let accounts = vec![
        AccountMeta::writable(*mint, false),
        AccountMeta::writable(*to, false),
        AccountMeta::readonly(*authority, true),
    ];
    instruction(accounts, amount_data(7, amount))
}

/// Transfers `amount` from one token account to another, authorized by the first one's `owner`.
pub fn transfer(from: &Pubkey, to: &Pubkey, owner: &Pubkey, amount: u64) -> Instruction {
    let accounts = vec![
        AccountMeta::writable(*from, false),
        AccountMeta::writable(*to, false),
        AccountMeta::readonly(*owner, true),
    ];
    instruction(accounts, amount_data(3, amount))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_have_the_lengths_that_the_program_reads() {
        let key = [3; 32];
        assert_eq!(initialize_mint(&key, &key, 6).data.len(), 35);
        assert_eq!(initialize_account(&key, &key, &key).data.len(), 33);
        assert_eq!(mint_to(&key, &key, &key, 5).data, [7, 5, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(transfer(&key, &key, &key, 256).data, [3, 0, 1, 0, 0, 0, 0, 0, 0]);
    }
}
