//! The record of a transaction's effects, for simulations and the history.
//!
//! reads   a transaction that landed, the balances of its accounts
//! writes  a [`Record`]
//! memory  about 1 KB per transaction, only while recording
//! source  `message_processor.rs` of `solana-svm` 4.2 and `stable_log.rs` of `solana-program-runtime` 4.2 for the lines

use hearth_wire::base58::encode_32;
use hearth_wire::{Pubkey, Txn};

/// The effects of a transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The log lines, as the cluster words them.
    pub logs: Vec<String>,
    /// Inner instructions: for each instruction that made some, its index and the calls.
    pub inner: Vec<(u8, Vec<InnerCall>)>,
    /// Program and data of the last return value.
    pub return_data: Option<(Pubkey, Vec<u8>)>,
    /// Lamports before and after, of each account: the static ones, then the loaded.
    pub balances: Vec<(u64, u64)>,
    /// Balances of its token accounts before it was executed.
    pub tokens_before: Vec<TokenAmount>,
    /// Balances of its token accounts after it was executed.
    pub tokens_after: Vec<TokenAmount>,
    /// Writable addresses from lookup tables.
    pub loaded_writable: Vec<Pubkey>,
    /// Read-only addresses from lookup tables.
    pub loaded_readonly: Vec<Pubkey>,
}

/// An inner instruction: a call by a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InnerCall {
    /// Index of the called program among the transaction's accounts.
    pub program_id_index: u8,
    /// Indices of the accounts passed.
    pub accounts: Vec<u8>,
    /// The bytes passed to the program as its arguments.
    pub data: Vec<u8>,
    /// Depth of the call: 2 if called by a top-level instruction.
    pub stack_height: u8,
}

/// The balance of a token account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenAmount {
    /// Index of the account in the transaction.
    pub account_index: u8,
    /// Address of the token's mint.
    pub mint: Pubkey,
    /// The owner of the tokens.
    pub owner: Pubkey,
    /// The program that owns the account: SPL Token, or Token-2022.
    pub program_id: Pubkey,
    /// The amount in the token's smallest unit.
    pub amount: u64,
    /// Decimals of the mint.
    pub decimals: u8,
}

/// The log of a transaction of successful transfers: the called programs log nothing of their own.
pub(super) fn transfer_logs(txn: &Txn<'_>) -> Vec<String> {
    let mut logs = Vec::with_capacity(2 * txn.instruction_count());
    for instruction in txn.instructions() {
        let program = encode_32(&txn.account_keys()[usize::from(instruction.program_id_index)]);
        let program: &str = &program;
        logs.extend([" invoke [1]", " success"].map(|end| ["Program ", program, end].concat()));
    }
    logs
}

#[cfg(test)]
mod tests {
    use hearth_wire::message::Message;
    use hearth_wire::program::system;

    use super::*;

    #[test]
    fn each_transfer_logs_its_call_and_success() {
        let transfers = [1, 2].map(|lamports| system::transfer(&[5; 32], &[6; 32], lamports));
        let message = Message::compile(&[5; 32], &transfers, &[1; 32]).unwrap();
        let bytes = [&[1][..], &[7; 64], message.bytes()].concat();
        let logs = transfer_logs(&Txn::parse(&bytes).unwrap());
        let of_one =
            ["Program 11111111111111111111111111111111 invoke [1]", "Program 11111111111111111111111111111111 success"];
        assert_eq!(logs, [of_one, of_one].concat());
    }
}
