//! The token of a run: creates a mint, and a funded token account for each of the load's accounts.
//!
//! reads   statuses of the transactions; the rent-exempt balance of an account
//! writes  a mint, paid by the first account; token accounts, paid by their owners
//! memory  the transactions
//! source  `solana-pubkey`: an address with a seed is SHA-256 of base, seed and owner

use hearth_crypto::ed25519::SigningKey;
use hearth_crypto::sha256::sha256;
use hearth_wire::Pubkey;
use hearth_wire::consts::TOKEN_PROGRAM;
use hearth_wire::message::{Instruction, Message};
use hearth_wire::program::compute_budget::ComputeBudgetInstruction;
use hearth_wire::program::{system, token};

use super::deliver::{End, deliver};
use super::keys::Account;
use super::node::{Blockhash, Node};
use super::retry::RetryingNode;
use super::workload::{Kind, Mix};
use crate::error::LoadError;
use crate::progress::Progress;
use crate::retry::NoAnswer;

/// How often expired transactions are signed again.
const TRIES: usize = 3;
/// Token balance of each account.
const AMOUNT: u64 = 1_000_000_000_000;
/// More compute units than creating and filling a token account takes, in any version of the program.
const UNITS: u32 = 40_000;
/// More bytes than the token program and its accounts have.
const BYTES: u32 = 512 << 10;

/// Derives an address from an account and a seed, for a program to own.
fn with_seed(base: &Pubkey, seed: &str, owner: &Pubkey) -> Pubkey {
    sha256(&[base, seed.as_bytes(), owner])
}

/// The most that the token costs an account, in lamports: its token account, and the mint, which the first one pays
/// for.
pub fn cost(ask: &RetryingNode<'_>) -> Result<u64, NoAnswer> {
    let rent = |bytes| ask.ask(|node| node.rent_exempt(bytes));
    Ok(rent(token::ACCOUNT_SIZE)? + rent(token::MINT_SIZE)? + 4 * ask.ask(Node::fee)?)
}

/// Creates the token if the mix sends one. Returns each account's token account.
pub fn set_up(
    node: &Node,
    accounts: &[Account],
    mix: &Mix,
    stop: &dyn Fn() -> bool,
    on_progress: &mut impl FnMut(Progress<'_>),
) -> Result<Vec<Pubkey>, LoadError> {
    if !mix.has(Kind::Token) {
        return Ok(vec![]);
    }
    on_progress(Progress::Step("creating the token, and an account for it of every account"));
    let mut random = [0; 8];
    // A seed that was used before would name an existing account.
    getrandom::fill(&mut random).map_err(|why| LoadError::SetUp { what: "a new seed", why: why.to_string() })?;
    let seed = format!("load-{:016x}", u64::from_le_bytes(random));
    let first = accounts.first().ok_or(LoadError::SetUp { what: "the token", why: "no account".into() })?;
    let mint = with_seed(&first.address, &seed, &TOKEN_PROGRAM);
    let ask = RetryingNode { node, stop };
    let rent = |bytes| ask.ask(|node| node.rent_exempt(bytes));
    let (mint_rent, rent) = (rent(token::MINT_SIZE)?, rent(token::ACCOUNT_SIZE)?);
    let make_mint = [
        system::create_account_with_seed(&first.address, &mint, &seed, mint_rent, token::MINT_SIZE, &TOKEN_PROGRAM),
        token::initialize_mint(&mint, &first.address, 6),
    ];
    let sign_mint = |_: usize, blockhash: &Blockhash| sign(&make_mint, &[first], blockhash);
    all_land(&ask, "creating the mint", 1, sign_mint)?;
    let seed = seed + "-of";
    let tokens: Vec<Pubkey> =
        accounts.iter().map(|account| with_seed(&account.address, &seed, &TOKEN_PROGRAM)).collect();
    let sign_account = |index: usize, blockhash: &Blockhash| {
        let (owner, account) = (&accounts[index], &tokens[index]);
        let size = token::ACCOUNT_SIZE;
        let instructions = [
            ComputeBudgetInstruction::SetLoadedAccountsDataSizeLimit(BYTES).instruction(),
            ComputeBudgetInstruction::SetComputeUnitLimit(UNITS).instruction(),
            system::create_account_with_seed(&owner.address, account, &seed, rent, size, &TOKEN_PROGRAM),
            token::initialize_account(account, &mint, &owner.address),
            token::mint_to(&mint, account, &first.address, AMOUNT),
        ];
        sign(&instructions, &[owner, first], blockhash)
    };
    all_land(&ask, "creating a token account", accounts.len(), sign_account)?;
    Ok(tokens)
}

fn sign(instructions: &[Instruction], signers: &[&Account], blockhash: &Blockhash) -> Vec<u8> {
    let message = Message::compile(&signers[0].address, instructions, &blockhash.hash).expect("so few fit a packet");
    let key_of = |address: &Pubkey| -> &SigningKey {
        &signers.iter().find(|signer| signer.address == *address).expect("each signer is given").key
    };
    message.sign_with(|address, message| key_of(address).sign(message))
}

/// Delivers `count` transactions, and signs expired ones again.
fn all_land(
    ask: &RetryingNode<'_>,
    what: &'static str,
    count: usize,
    sign: impl Fn(usize, &Blockhash) -> Vec<u8>,
) -> Result<(), LoadError> {
    let mut open: Vec<usize> = (0..count).collect();
    for _ in 0..TRIES {
        let blockhash = ask.ask(Node::blockhash)?;
        let raws: Vec<_> = open.iter().map(|&index| sign(index, &blockhash)).collect();
        let ends = deliver(ask, &raws, &blockhash, |_| {})?;
        let mut expired = vec![];
        for (index, end) in open.into_iter().zip(ends) {
            match end {
                End::Landed => {}
                End::Failed(why) => return Err(LoadError::SetUp { what, why }),
                End::Expired => expired.push(index),
                End::Stopped => return Err(LoadError::Stopped),
            }
        }
        if expired.is_empty() {
            return Ok(());
        }
        open = expired;
    }
    Err(LoadError::SetUp { what, why: format!("{} expired {TRIES} times without a block", open.len()) })
}

#[cfg(test)]
mod tests {
    use hearth_wire::base58::encode_32;

    use super::*;

    #[test]
    fn an_address_with_a_seed_is_as_the_cluster_has_it() {
        let address = with_seed(&[0; 32], "limber chicken: 4/45", &[0; 32]);
        assert_eq!(&*encode_32(&address), "9h1HyLCW5dZnBVap8C5egQ9Z6pHyjsh5MNy83iPqqRuq");
    }
}
