//! The accounts that a load sends from, and the file that holds their keys.
//!
//! reads   a key file, JSON: `{"accounts": [{"address": "0x…", "secret": "0x…"}]}`
//! writes  the same, readable by its owner alone and replaced atomically; a lock on it
//! memory  100 B an account
//! drops   nothing: a damaged file is refused, with the index of the damaged account
//!
//! Two loads with the same keys would use each other's nonces, so every user of a key file holds its [`KeyLock`].

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use alloy_primitives::{Address, B256};
use hearth_crypto::secp256k1::Signer;
use serde::{Deserialize, Serialize};

/// Why accounts cannot be read, written or made.
#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    /// The file cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Why the file could not be read or written, as the system says it.
        source: io::Error,
    },
    /// The file is no key file.
    #[error("{path} is not a key file of a load: {source}")]
    Shape {
        /// Path of the file.
        path: PathBuf,
        /// The parser's error, with its position.
        source: serde_json::Error,
    },
    /// One account in the file is damaged.
    #[error("{path}, account {index}: {why}")]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// Index of the account, from 0.
        index: usize,
        /// A description of the fault.
        why: String,
    },
    /// The file holds keys for another chain.
    #[error("{path} has keys of {theirs}, and the node speaks {ours}: name a key file made for it")]
    OtherChain {
        /// Path of the file.
        path: PathBuf,
        /// The chain that the keys are for.
        theirs: &'static str,
        /// The chain that the node belongs to.
        ours: &'static str,
    },
    /// Another process holds the file's lock.
    #[error(
        "{path} is in use by {by}: two loads with the same keys take each other's nonces; wait for it, or name another"
    )]
    InUse {
        /// Path of the file.
        path: PathBuf,
        /// The process that holds the lock.
        by: String,
    },
    /// A new file was to be written, but the path exists.
    #[error("{} is there already: use it with --load, or name another", .0.display())]
    There(PathBuf),
    /// The text is not a secret key.
    #[error("`{0}` is not a secret key: expected 64 hexadecimal digits")]
    Secret(String),
    /// The system provides no random bytes.
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

/// Exclusive lock on a key file, held until this is dropped.
#[derive(Debug)]
pub struct KeyLock {
    /// Closing the file releases the lock.
    _file: fs::File,
}

impl KeyLock {
    /// Locks the file, or names the process that holds the lock. On a file system without locks this succeeds and locks
    /// nothing.
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

/// Finds the process that locks a file, from lines like `1: FLOCK  ADVISORY  WRITE 512 08:01:4711 0 EOF`.
fn holder(locks: &str, inode: u64) -> Option<u32> {
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, "FLOCK", _, _, pid, file, ..] = words[..] else { return None };
        let is_it = file.rsplit(':').next()?.parse::<u64>() == Ok(inode);
        pid.parse().ok().filter(|pid| is_it && *pid > 0)
    })
}

/// Returns the address of a signer.
pub fn address(signer: &Signer) -> Address {
    Address::from(signer.address())
}

/// Parses a secret key in hexadecimal, with or without `0x`.
pub fn parse_secret(text: &str) -> Result<Signer, AccountError> {
    let wrong = || AccountError::Secret(text.into());
    let secret: B256 = text.trim().parse().map_err(|_| wrong())?;
    Signer::new(&secret).map_err(|_| wrong())
}

/// Generates accounts from the system's random bytes.
pub fn generate(count: usize) -> Result<Vec<Signer>, AccountError> {
    let mut signers = Vec::with_capacity(count);
    while signers.len() < count {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).map_err(AccountError::Entropy)?;
        // One draw in 2^128 is not a valid key.
        signers.extend(Signer::new(&secret));
    }
    Ok(signers)
}

/// Whether writing a key file may replace an existing one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteMode {
    /// It may: the new file contains the existing file's keys.
    Replace,
    /// It may not: an existing file may hold keys of funded accounts.
    New,
}

/// Writes a key file. An existing file is replaced only once the new one is complete.
pub fn save(path: &Path, signers: &[Signer], place: WriteMode) -> Result<(), AccountError> {
    let accounts = signers.iter().map(|s| Entry { address: address(s), secret: s.secret().into() }).collect();
    write(path, &KeyFile { accounts }, place)
}

/// Writes a file atomically, readable by its owner alone.
pub(super) fn write(path: &Path, content: &impl Serialize, place: WriteMode) -> Result<(), AccountError> {
    let text = serde_json::to_string_pretty(content).expect("plain data");
    let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
    let write = || {
        // A leftover file of that name might be readable by others, or be a link.
        if let Err(why) = fs::remove_file(&temporary)
            && why.kind() != io::ErrorKind::NotFound
        {
            return Err(why);
        }
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        match place {
            WriteMode::Replace => fs::rename(&temporary, path),
            // A hard link fails if the path exists: another command may have created the file meanwhile.
            WriteMode::New => match fs::hard_link(&temporary, path) {
                Ok(()) => fs::remove_file(&temporary),
                Err(why) if why.kind() == io::ErrorKind::AlreadyExists || path.exists() => {
                    fs::remove_file(&temporary)?;
                    Err(io::ErrorKind::AlreadyExists.into())
                }
                // The file system has no hard links.
                Err(_) => fs::rename(&temporary, path),
            },
        }
    };
    write().map_err(|source| match place {
        WriteMode::New if source.kind() == io::ErrorKind::AlreadyExists => AccountError::There(path.into()),
        _ => AccountError::File { path: path.into(), source },
    })
}

/// The part of a key file that names its chain. Ethereum's files do not name one.
#[derive(Deserialize)]
struct KeyFileChain {
    chain: Option<String>,
}

/// Reads a key file of this chain.
pub(super) fn read<T: for<'de> Deserialize<'de>>(path: &Path, ours: &'static str) -> Result<T, AccountError> {
    let text = fs::read_to_string(path).map_err(|source| AccountError::File { path: path.into(), source })?;
    let shape = |source| AccountError::Shape { path: path.into(), source };
    let kept: KeyFileChain = serde_json::from_str(&text).map_err(shape)?;
    let theirs = if kept.chain.as_deref() == Some("solana") { "Solana" } else { "Ethereum" };
    match theirs == ours {
        true => serde_json::from_str(&text).map_err(shape),
        false => Err(AccountError::OtherChain { path: path.into(), theirs, ours }),
    }
}

/// Reads a key file and verifies each account.
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
    fn keys_are_read_back_and_private() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.json");
        let signers = generate(3).unwrap();
        save(&path, &signers, WriteMode::New).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let back: Vec<_> = load(&path).unwrap().iter().map(Signer::secret).collect();
        assert_eq!(back, signers.iter().map(Signer::secret).collect::<Vec<_>>());
    }

    #[test]
    fn a_new_file_takes_no_place_of_another() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.json");
        let (first, second) = (generate(1).unwrap(), generate(2).unwrap());
        save(&path, &first, WriteMode::New).unwrap();
        let why = save(&path, &second, WriteMode::New).unwrap_err();
        assert!(matches!(why, AccountError::There(_)), "{why}");
        assert_eq!(load(&path).unwrap()[0].secret(), first[0].secret());
        save(&path, &second, WriteMode::Replace).unwrap();
        assert_eq!(load(&path).unwrap().len(), 2);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
    }

    #[test]
    fn a_file_in_use_is_refused_with_its_process() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.json");
        save(&path, &generate(1).unwrap(), WriteMode::New).unwrap();
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
        save(&path, &generate(2).unwrap(), WriteMode::New).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let other = format!("{:#x}", address(&generate(1).unwrap()[0]));
        let second = text.rfind("\"address\": \"").unwrap() + 12;
        fs::write(&path, format!("{}{other}{}", &text[..second], &text[second + 42..])).unwrap();
        let why = load(&path).unwrap_err().to_string();
        assert!(why.contains("account 1") && why.contains("the secret is that of"), "{why}");
        fs::write(&path, &text[..text.len() / 2]).unwrap();
        let why = load(&path).unwrap_err().to_string();
        assert!(why.contains("is not a key file of a load") && why.contains("line"), "{why}");
    }
}
