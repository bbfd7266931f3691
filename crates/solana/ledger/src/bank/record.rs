//! What a transaction did, for those who ask afterwards: simulations and the history.
//!
//! reads   a transaction that landed, the balances of its accounts
//! writes  a [`Record`]
//! memory  about 1 KB a transaction, only while recording
//! source  `message_processor.rs` of `solana-svm` 4.2 and `stable_log.rs` of `solana-program-runtime`
//!         4.2 for the lines

use hearth_wire::base58::encode_32;
use hearth_wire::{Pubkey, Txn};

/// What a transaction did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Log lines.
    pub logs: Vec<String>,
    /// Calls of programs by programs: for each instruction that made some, its index and the calls.
    pub inner: Vec<(u8, Vec<InnerCall>)>,
    /// Program and data of what was returned last.
    pub return_data: Option<(Pubkey, Vec<u8>)>,
    /// Lamports before and after, of each account: the static ones, then the loaded.
    pub balances: Vec<(u64, u64)>,
    /// Token balances before.
    pub tokens_before: Vec<TokenAmount>,
    /// Token balances after.
    pub tokens_after: Vec<TokenAmount>,
    /// Addresses from lookup tables, locked for writing.
    pub loaded_writable: Vec<Pubkey>,
    /// Addresses from lookup tables, read only.
    pub loaded_readonly: Vec<Pubkey>,
}

/// A call of a program by a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InnerCall {
    /// Index of the called program among the transaction's accounts.
    pub program_id_index: u8,
    /// Indexes of the accounts passed.
    pub accounts: Vec<u8>,
    /// The input.
    pub data: Vec<u8>,
    /// Depth of the call: 2 for what a top-level instruction calls.
    pub stack_height: u8,
}

/// The balance of a token account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenAmount {
    /// Which account of the transaction.
    pub account_index: u8,
    /// The token's mint.
    pub mint: Pubkey,
    /// Who may spend it.
    pub owner: Pubkey,
    /// The token program.
    pub program_id: Pubkey,
    /// How much, in the smallest unit.
    pub amount: u64,
    /// Decimals of the mint.
    pub decimals: u8,
}

/// The lines of a transaction made of transfers, each of which succeeded: the programs called say
/// nothing of their own.
pub(super) fn transfer_logs(txn: &Txn<'_>) -> Vec<String> {
    let mut logs = Vec::with_capacity(2 * txn.instruction_count());
    for instruction in txn.instructions() {
        let program = encode_32(&txn.account_keys()[usize::from(instruction.program_id_index)]);
        logs.push(format!("Program {program} invoke [1]"));
        logs.push(format!("Program {program} success"));
    }
    logs
}
