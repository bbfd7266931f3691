//! validator: a node with stake from genesis, as named in the configuration.
//!
//! reads   `identity vote-account SOL`
//! writes  its accounts
//! drops   malformed text: an error that says what is expected

use std::fmt;
use std::str::FromStr;

use hearth_crypto::sha256::sha256;
use hearth_ledger::Account;
use hearth_ledger::stakes::validator_accounts;
use hearth_wire::Pubkey;
use hearth_wire::base58::{decode_32, encode_32};
use hearth_wire::consts::LAMPORTS_PER_SOL;

/// SOL of its identity, for the fees of its votes.
const IDENTITY_SOL: u64 = 500;

/// A node with stake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validator {
    /// The public identity key of the node.
    pub identity: Pubkey,
    /// The address of its vote account.
    pub vote: Pubkey,
    /// Its stake in SOL.
    pub sol: u64,
}

/// Why a text is not a validator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValidatorError {
    /// The text does not have three words.
    #[error("`{0}` is not an `identity vote-account SOL`: two addresses, and a whole number")]
    Form(String),
    /// An address is invalid.
    #[error("`{0}` is not an address")]
    Address(String),
    /// The stake is invalid.
    #[error("`{0}` is not a whole number of SOL from 1 to 1,000,000,000")]
    Sol(String),
}

impl FromStr for Validator {
    type Err = ValidatorError;

    fn from_str(text: &str) -> Result<Self, ValidatorError> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let &[identity, vote, sol] = &words[..] else { return Err(ValidatorError::Form(text.into())) };
        let address = |word: &str| decode_32(word).map_err(|_| ValidatorError::Address(word.into()));
        let amount = sol.parse().ok().filter(|sol| (1..=1_000_000_000).contains(sol));
        let amount = amount.ok_or_else(|| ValidatorError::Sol(sol.into()))?;
        Ok(Self { identity: address(identity)?, vote: address(vote)?, sol: amount })
    }
}

impl fmt::Display for Validator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", encode_32(&self.identity), encode_32(&self.vote), self.sol)
    }
}

impl Validator {
    /// Its identity with lamports for fees, its vote account, and the stake account.
    pub fn accounts(&self) -> impl Iterator<Item = (Pubkey, Account)> + use<> {
        // Nobody needs the stake account's key: the identity may withdraw it.
        let stake = sha256(&[b"the stake of genesis", &self.vote]);
        let staked = validator_accounts(&self.vote, &stake, &self.identity, self.sol * LAMPORTS_PER_SOL);
        let identity = (self.identity, Account::wallet(IDENTITY_SOL * LAMPORTS_PER_SOL));
        [identity].into_iter().chain(staked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "11111111111111111111111111111112";

    #[test]
    fn value_is_read_or_a_suggestion_made() {
        let parse = |text: &str| text.parse::<Validator>();
        let why = parse(&format!(" {ONE}  {ONE}0 7")).unwrap_err();
        assert!(matches!(why, ValidatorError::Address(_)), "no digit of base 58");
        let text = format!("{ONE} Vote111111111111111111111111111111111111111 7");
        let validator = parse(&text).unwrap();
        assert_eq!(validator.to_string(), text);
        assert_eq!((validator.identity[31], validator.sol, validator.accounts().count()), (1, 7, 3));
        for (text, word) in [("", "identity"), ("a b", "identity"), ("x y 1", "address")] {
            assert!(parse(text).unwrap_err().to_string().contains(word), "{text}");
        }
        for sol in ["0", "-1", "1.5", "1000000001"] {
            assert_eq!(parse(&format!("{ONE} {ONE} {sol}")), Err(ValidatorError::Sol(sol.into())));
        }
    }
}
