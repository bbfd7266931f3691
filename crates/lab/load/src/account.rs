//! Accounts that a load sends from, and the file that keeps their keys.
//!
//! reads   a key file, JSON: `{"accounts": [{"address": "0x…", "secret": "0x…"}]}`
//! writes  the same, readable by its owner alone, whole or not at all; a lock on it
//! memory  100 B an account
//! drops   nothing: a damaged file is refused, with the account that is wrong
//!
//! Two loads with the same keys would take each other's nonces, so whoever uses a key file holds its [`KeyLock`].

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
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
    /// Another process uses it.
    #[error(
        "{path} is in use by {by}: two loads with the same keys take each other's nonces; wait for it, or name another"
    )]
    InUse {
        /// The file.
        path: PathBuf,
        /// Which process.
        by: String,
    },
    /// There is one already where a new one was to be.
    #[error("{} is there already: use it with --load, or name another", .0.display())]
    There(PathBuf),
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

/// A key file that no other load uses while this lives.
#[derive(Debug)]
pub struct KeyLock {
    /// The lock ends with it.
    _file: fs::File,
}

impl KeyLock {
    /// Locks the file, or says which process has done so. Where a file system knows no locks nothing is locked.
    pub fn take(path: &Path) -> Result<Self, AccountError> {
        let file = fs::File::open(path).map_err(|source| AccountError::File { path: path.into(), source })?;
        match file.try_lock() {
            Ok(()) | Err(fs::TryLockError::Error(_)) => Ok(Self { _file: file }),
            Err(fs::TryLockError::WouldBlock) => {
                let inode = file.metadata().map(|data| data.ino()).unwrap_or_default();
                let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
                let by = holder(&locks, inode).map_or("another process".into(), |pid| format!("process {pid}"));
                Err(AccountError::InUse { path: path.into(), by })
            }
        }
    }
}

/// The process that holds the lock of a file, out of lines as `1: FLOCK  ADVISORY  WRITE 512 08:01:4711 0 EOF`.
fn holder(locks: &str, inode: u64) -> Option<u32> {
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, "FLOCK", _, _, pid, file, ..] = words[..] else { return None };
        let is_it = file.rsplit(':').next()?.parse::<u64>() == Ok(inode);
        pid.parse().ok().filter(|pid| is_it && *pid > 0)
    })
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

/// Whether a key file may take another's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It may: it has the keys of the one that is there.
    Replace,
    /// It may not: the keys in it may be those of accounts with money.
    New,
}

/// Writes a key file; one that takes another's place does so when it is whole.
pub fn save(path: &Path, signers: &[Signer], place: Place) -> Result<(), AccountError> {
    let accounts = signers.iter().map(|s| Entry { address: address(s), secret: s.secret().into() }).collect();
    write(path, &KeyFile { accounts }, place)
}

/// Writes a file that its owner alone may read, whole or not at all.
pub(super) fn write(path: &Path, content: &impl Serialize, place: Place) -> Result<(), AccountError> {
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
        match place {
            Place::Replace => fs::rename(&temporary, path),
            // A link is made only where nothing is: another command may have made its file meanwhile.
            Place::New => match fs::hard_link(&temporary, path) {
                Ok(()) => fs::remove_file(&temporary),
                Err(why) if why.kind() == io::ErrorKind::AlreadyExists || path.exists() => {
                    fs::remove_file(&temporary)?;
                    Err(io::ErrorKind::AlreadyExists.into())
                }
                // A file system without links.
                Err(_) => fs::rename(&temporary, path),
            },
        }
    };
    write().map_err(|source| match place {
        Place::New if source.kind() == io::ErrorKind::AlreadyExists => AccountError::There(path.into()),
        _ => AccountError::File { path: path.into(), source },
    })
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
        save(&path, &signers, Place::New).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let back: Vec<_> = load(&path).unwrap().iter().map(Signer::secret).collect();
        assert_eq!(back, signers.iter().map(Signer::secret).collect::<Vec<_>>());
    }

    #[test]
    fn a_new_file_takes_no_place_of_another() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.json");
        let (first, second) = (generate(1).unwrap(), generate(2).unwrap());
        save(&path, &first, Place::New).unwrap();
        let why = save(&path, &second, Place::New).unwrap_err();
        assert!(matches!(why, AccountError::There(_)), "{why}");
        assert_eq!(load(&path).unwrap()[0].secret(), first[0].secret());
        save(&path, &second, Place::Replace).unwrap();
        assert_eq!(load(&path).unwrap().len(), 2);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
    }

    #[test]
    fn a_file_in_use_is_refused_with_its_process() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.json");
        save(&path, &generate(1).unwrap(), Place::New).unwrap();
        let lock = KeyLock::take(&path).unwrap();
        let why = KeyLock::take(&path).unwrap_err().to_string();
        assert!(why.contains("is in use by") && why.contains("take each other's nonces"), "{why}");
        drop(lock);
        KeyLock::take(&path).unwrap();
        let locks = "1: POSIX  ADVISORY  WRITE 7 08:01:99 0 EOF\n2: FLOCK  ADVISORY  WRITE 512 08:01:99 0 EOF\n";
        assert_eq!((holder(locks, 99), holder(locks, 9), holder("", 99)), (Some(512), None, None));
    }

    #[test]
    fn a_damaged_file_is_named_with_the_account() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.json");
        save(&path, &generate(2).unwrap(), Place::New).unwrap();
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
