//! The workload of both sides: pairs of wallets or token accounts, and microblocks of transfers within them.

use hearth_ledger::Account;
use hearth_ledger::rent::minimum_balance;
use hearth_testkit::random::Random;
use hearth_wire::base58::decode_32;
use hearth_wire::message::{AccountMeta, Instruction, Message};
use hearth_wire::program::system;
use hearth_wire::{Hash, Pubkey};

/// Transactions per microblock, which one call executes.
pub const MICROBLOCK: usize = 64;
/// Account pairs per thread.
pub const PAIRS: usize = 512;

/// The kind of transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Lamports, by the system program.
    Transfer,
    /// Tokens of one mint.
    Token,
}

/// The address of account `n`.
pub fn address(n: u64) -> Pubkey {
    Random(n).key()
}

fn token_program() -> Pubkey {
    decode_32("TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA").expect("an address")
}

const MINT: u64 = u64::MAX / 8;

/// The payer of a pair, and the two accounts of it.
fn pair(kind: Kind, n: u64) -> (Pubkey, Pubkey, Pubkey) {
    match kind {
        Kind::Transfer => (address(4 * n), address(4 * n), address(4 * n + 1)),
        Kind::Token => (address(4 * n), address(4 * n + 2), address(4 * n + 3)),
    }
}

/// The accounts of pairs `first..first + PAIRS`, and the mint.
pub fn accounts(kind: Kind, first: u64) -> Vec<(Pubkey, Account)> {
    let mut accounts = vec![];
    for n in first..first + PAIRS as u64 {
        let (payer, from, to) = pair(kind, n);
        accounts.push((payer, Account::wallet(1 << 50)));
        match kind {
            Kind::Transfer => accounts.push((to, Account::wallet(1 << 50))),
            Kind::Token => accounts.extend([from, to].map(|key| (key, token_account(&payer)))),
        }
    }
    let mint = [&[0; 36][..], &u64::MAX.to_le_bytes(), &[2, 1], &[0; 36]].concat();
    accounts.push((address(MINT), Account::with_data(minimum_balance(82), token_program(), &mint)));
    accounts
}

/// Mint, owner, amount, no delegate, initialised, not native, none delegated, no close authority.
fn token_account(owner: &Pubkey) -> Account {
    let mut data = [&address(MINT)[..], owner, &(1u64 << 40).to_le_bytes()].concat();
    data.resize(165, 0);
    data[108] = 1;
    Account::with_data(minimum_balance(165), token_program(), &data)
}

/// The bytes of a transfer within pair `n`, in alternating directions.
pub fn bytes(kind: Kind, n: u64, turn: u64, blockhash: &Hash) -> Vec<u8> {
    let (payer, from, to) = pair(kind, n);
    let instruction = match kind {
        Kind::Transfer => system::transfer(&from, &to, 1 + turn),
        Kind::Token => {
            let (from, to) = if turn.is_multiple_of(2) { (from, to) } else { (to, from) };
            let accounts = vec![
                AccountMeta::writable(from, false),
                AccountMeta::writable(to, false),
                AccountMeta::readonly(payer, true),
            ];
            let data = [&[3][..], &(1 + turn).to_le_bytes()].concat();
            Instruction { program_id: token_program(), accounts, data }
        }
    };
    let message = Message::compile(&payer, &[instruction], blockhash).expect("it fits");
    message.sign_with(|_, _| {
        let mut signature = [0; 64];
        signature[..32].copy_from_slice(&address(n.wrapping_mul(1 << 20) + turn));
        signature
    })
}
