//! Accounts that a load sends from, and the file that keeps their keys.
//!
//! reads   a key file, JSON: `{"accounts": [{"address": "0x…", "secret": "0x…"}]}`
//! writes  the same, readable by its owner alone, whole or not at all
//! memory  100 B an account
//! drops   nothing: a damaged file is refused, with the account that is wrong

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use alloy_primitives::{Address, B256};
use hearth_crypto::secp256k1::Signer;
use serde::{Deserialize, Serialize};

/// What is wrong with accounts.
#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    /// The file cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is no key file.
    #[error("{path} is no key file of a load: {source}")]
    Shape {
        /// The file.
        path: PathBuf,
        /// Where it goes wrong.
        source: serde_json::Error,
    },
    /// One account is damaged.
    #[error("{path}, account {index}: {why}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Which, from 0.
        index: usize,
        /// What is wrong.
        why: String,
    },
    /// It has the keys of another chain.
    #[error("{path} has keys of {theirs}, and the node speaks {ours}: name a key file made for it")]
    OtherChain {
        /// The file.
        path: PathBuf,
        /// Whose keys they are.
        theirs: &'static str,
        /// What the node is.
        ours: &'static str,
    },
    /// The text is no secret key.
    #[error("`{0}` is no secret key: expected 64 hexadecimal digits")]
    Secret(String),
    /// The system gives no random bytes.
    #[error("no random bytes for new keys: {0}")]
    Entropy(getrandom::Error),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyFile {
    accounts: Vec<Entry>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    address: Address,
    secret: B256,
}

/// The address of a signer.
pub fn address(signer: &Signer) -> Address {
    Address::from(signer.address())
}

/// A signer out of a secret in hexadecimal, with or without `0x`.
pub fn parse_secret(text: &str) -> Result<Signer, AccountError> {
    let wrong = || AccountError::Secret(text.into());
    let secret: B256 = text.trim().parse().map_err(|_| wrong())?;
    Signer::new(&secret).map_err(|_| wrong())
}

/// New accounts, of the system's random bytes.
pub fn generate(count: usize) -> Result<Vec<Signer>, AccountError> {
    let mut signers = Vec::with_capacity(count);
    while signers.len() < count {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).map_err(AccountError::Entropy)?;
        // One in 2^128 is no key.
        signers.extend(Signer::new(&secret));
    }
    Ok(signers)
}

/// Writes a key file; where there is one, it is replaced when the new one is whole.
pub fn save(path: &Path, signers: &[Signer]) -> Result<(), AccountError> {
    let accounts = signers.iter().map(|s| Entry { address: address(s), secret: s.secret().into() }).collect();
    write(path, &KeyFile { accounts })
}

/// Writes a file that its owner alone may read, whole or not at all.
pub(super) fn write(path: &Path, content: &impl Serialize) -> Result<(), AccountError> {
    let text = serde_json::to_string_pretty(content).expect("plain data");
    let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
    let write = || {
        // Another's file of that name might be read by others, or lead elsewhere.
        if let Err(why) = fs::remove_file(&temporary)
            && why.kind() != io::ErrorKind::NotFound
        {
            return Err(why);
        }
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    write().map_err(|source| AccountError::File { path: path.into(), source })
}

/// A key file's first look: whose keys it has. Those of Ethereum do not say so.
#[derive(Deserialize)]
struct Kept {
    chain: Option<String>,
}

/// Reads a key file of this chain.
pub(super) fn read<T: for<'de> Deserialize<'de>>(path: &Path, ours: &'static str) -> Result<T, AccountError> {
    let text = fs::read_to_string(path).map_err(|source| AccountError::File { path: path.into(), source })?;
    let shape = |source| AccountError::Shape { path: path.into(), source };
    let kept: Kept = serde_json::from_str(&text).map_err(shape)?;
    let theirs = if kept.chain.as_deref() == Some("solana") { "Solana" } else { "Ethereum" };
    match theirs == ours {
        true => serde_json::from_str(&text).map_err(shape),
        false => Err(AccountError::OtherChain { path: path.into(), theirs, ours }),
    }
}

/// Reads a key file, and checks each account.
pub fn load(path: &Path) -> Result<Vec<Signer>, AccountError> {
    let file: KeyFile = read(path, "Ethereum")?;
    let damaged = |index, why: String| AccountError::Damaged { path: path.into(), index, why };
    let entries = file.accounts.iter().enumerate();
    entries
        .map(|(index, entry)| {
            let signer = Signer::new(&entry.secret).map_err(|why| damaged(index, why.to_string()))?;
            match address(&signer) == entry.address {
                true => Ok(signer),
                false => {
                    Err(damaged(index, format!("the secret is that of {}, not of {}", address(&signer), entry.address)))
                }
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_back_and_nobody_else_reads_them() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.json");
        let signers = generate(3).unwrap();
        save(&path, &signers).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let back: Vec<_> = load(&path).unwrap().iter().map(Signer::secret).collect();
        assert_eq!(back, signers.iter().map(Signer::secret).collect::<Vec<_>>());
    }

    #[test]
    fn a_damaged_file_is_named_with_the_account() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.json");
        save(&path, &generate(2).unwrap()).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let other = format!("{:#x}", address(&generate(1).unwrap()[0]));
        let second = text.rfind("\"address\": \"").unwrap() + 12;
        fs::write(&path, format!("{}{other}{}", &text[..second], &text[second + 42..])).unwrap();
        let why = load(&path).unwrap_err().to_string();
        assert!(why.contains("account 1") && why.contains("the secret is that of"), "{why}");
        fs::write(&path, &text[..text.len() / 2]).unwrap();
        let why = load(&path).unwrap_err().to_string();
        assert!(why.contains("is no key file of a load") && why.contains("line"), "{why}");
    }
}
