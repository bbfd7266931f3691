//! The accounts that a load sends from, and the file that holds their keys.
//!
//! reads   a key file, JSON: `{"chain": "solana", "accounts": [{"address": "…", "secret": "…"}]}`, in base58
//! writes  the same, readable by its owner alone and replaced atomically
//! memory  500 B per account
//! drops   nothing: a damaged file is refused, with the index of the damaged account

use std::path::Path;

use hearth_crypto::ed25519::SigningKey;
use hearth_wire::Pubkey;
use hearth_wire::base58::{decode_32, encode_32};
use serde::{Deserialize, Serialize};

use crate::account::{self, AccountError, WriteMode};

/// An account that can sign.
pub struct Account {
    /// Public key of the account.
    pub address: Pubkey,
    /// Signing key of the account.
    pub key: SigningKey,
    seed: [u8; 32],
}

impl Account {
    /// An account from its secret, the seed of its key.
    pub fn new(seed: [u8; 32]) -> Self {
        let key = SigningKey::from_seed(&seed);
        Self { address: key.public_key(), key, seed }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyFile {
    chain: String,
    accounts: Vec<Entry>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    address: String,
    secret: String,
}

/// Generates accounts from the system's random bytes.
pub fn generate(count: usize) -> Result<Vec<Account>, AccountError> {
    let account = |_| {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(AccountError::Entropy)?;
        Ok(Account::new(seed))
    };
    (0..count).map(account).collect()
}

/// Writes a key file. An existing file is replaced only once the new one is complete.
pub fn save(path: &Path, accounts: &[Account], place: WriteMode) -> Result<(), AccountError> {
    let entry = |account: &Account| Entry {
        address: encode_32(&account.address).to_string(),
        secret: encode_32(&account.seed).to_string(),
    };
    account::write(path, &KeyFile { chain: "solana".into(), accounts: accounts.iter().map(entry).collect() }, place)
}

/// Reads a key file and verifies each account.
pub fn load(path: &Path) -> Result<Vec<Account>, AccountError> {
    let file: KeyFile = account::read(path, "Solana")?;
    let damaged = |index, why: String| AccountError::Damaged { path: path.into(), index, why };
    let entries = file.accounts.into_iter().enumerate();
    entries
        .map(|(index, entry)| {
            let seed = decode_32(&entry.secret).map_err(|why| damaged(index, why.to_string()))?;
            let account = Account::new(seed);
            let address = encode_32(&account.address).to_string();
            match address == entry.address {
                true => Ok(account),
                false => Err(damaged(index, format!("the secret is that of {address}, not of {}", entry.address))),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn keys_come_back_and_damage_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.json");
        let accounts = generate(3).unwrap();
        save(&path, &accounts, WriteMode::New).unwrap();
        let back: Vec<_> = load(&path).unwrap().iter().map(|account| account.address).collect();
        assert_eq!(back, accounts.iter().map(|account| account.address).collect::<Vec<_>>());
        let text = fs::read_to_string(&path).unwrap();
        let second = encode_32(&accounts[1].address).to_string();
        fs::write(&path, text.replace(&second, &encode_32(&[7; 32]))).unwrap();
        let why = load(&path).err().unwrap().to_string();
        assert!(why.contains("account 1") && why.contains(&second), "{why}");
        fs::write(&path, &text[..text.len() / 2]).unwrap();
        assert!(load(&path).err().unwrap().to_string().contains("is not a key file of a load"));
    }

    #[test]
    fn keys_of_the_other_chain_are_refused_in_words() {
        let folder = tempfile::tempdir().unwrap();
        let (ours, theirs) = (folder.path().join("a.json"), folder.path().join("b.json"));
        save(&ours, &generate(1).unwrap(), WriteMode::New).unwrap();
        account::save(&theirs, &account::generate(1).unwrap(), WriteMode::New).unwrap();
        let why = load(&theirs).err().unwrap().to_string();
        assert!(why.contains("has keys of Ethereum, and the node speaks Solana"), "{why}");
        let why = account::load(&ours).err().unwrap().to_string();
        assert!(why.contains("has keys of Solana, and the node speaks Ethereum"), "{why}");
    }
}
