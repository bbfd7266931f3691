//! `hearth keys`: key pairs in the file form of the Solana tools.
//!
//! reads   a JSON array of 64 numbers: the seed, then the public key
//! writes  the same, readable by the owner alone
//! source  the `solana-keygen` file form

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use hearth_crypto::ed25519::SigningKey;
use zeroize::Zeroizing;

/// Room for the text of a key file, taken at once: what grows leaves copies behind. A key's has 320 bytes at most.
const TEXT_MAX: usize = 4096;

/// Why a key cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read or written.
    #[error("cannot {action} the key {}: {source}", path.display())]
    Io {
        /// `read` or `write`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The folder is missing. It is not made: a mistyped path would hide the key.
    #[error("cannot write the key {}: there is no folder {}", path.display(), folder.display())]
    NoFolder {
        /// The file.
        path: PathBuf,
        /// The folder it should be in.
        folder: PathBuf,
    },
    /// The file holds no key.
    #[error("{} is no key file: {why}; expected a JSON array of 64 numbers as `hearth keys new` writes", path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The file is there already.
    #[error("{} exists; a key is never overwritten (delete it, or choose another name)", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
}

/// An identity: its seed and its public key.
pub struct Identity {
    /// The seed; wiped when dropped.
    pub seed: Zeroizing<[u8; 32]>,
    /// The public key.
    pub public: [u8; 32],
}

impl Identity {
    fn from_seed(seed: [u8; 32]) -> Self {
        Self { public: SigningKey::from_seed(&seed).public_key(), seed: Zeroizing::new(seed) }
    }

    /// A fresh key, in memory alone.
    pub fn random() -> Self {
        let mut seed = [0; 32];
        hearth_tile::sys::random::fill(&mut seed);
        Self::from_seed(seed)
    }

    /// The public key in base58.
    pub fn address(&self) -> String {
        bs58::encode(self.public).into_string()
    }
}

/// Makes a key and writes it to a file that does not exist yet, in a folder that does.
pub fn create(path: &Path) -> Result<Identity, KeyError> {
    let identity = Identity::random();
    let io = |source| KeyError::Io { action: "write", path: path.into(), source };
    if let Some(folder) = path.parent().filter(|f| !f.as_os_str().is_empty() && !f.exists()) {
        return Err(KeyError::NoFolder { path: path.into(), folder: folder.into() });
    }
    let mut file = match fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => return Err(KeyError::Exists { path: path.into() }),
        Err(e) => return Err(io(e)),
    };
    let numbers = Zeroizing::new([identity.seed.as_slice(), &identity.public].concat());
    let mut text = Zeroizing::new(Vec::with_capacity(TEXT_MAX));
    serde_json::to_writer(&mut *text, &*numbers).expect("numbers");
    file.write_all(&text).and_then(|()| file.sync_all()).map_err(io)?;
    Ok(identity)
}

/// Reads a key.
pub fn read(path: &Path) -> Result<Identity, KeyError> {
    let io = |source| KeyError::Io { action: "read", path: path.into(), source };
    let mut text = Zeroizing::new(String::with_capacity(TEXT_MAX));
    fs::File::open(path).and_then(|file| file.take(TEXT_MAX as u64).read_to_string(&mut text)).map_err(io)?;
    let form = |why: String| KeyError::Form { path: path.into(), why };
    let numbers: Zeroizing<Vec<u8>> = Zeroizing::new(serde_json::from_str(&text).map_err(|e| form(e.to_string()))?);
    let (seed, public) = numbers.split_first_chunk::<32>().ok_or_else(|| form("it is too short".into()))?;
    let identity = Identity::from_seed(*seed);
    if public != identity.public {
        return Err(form("its second half is not the public key of its first".into()));
    }
    Ok(identity)
}

/// Reads a key, or makes it if the file is not there.
pub fn read_or_create(path: &Path) -> Result<Identity, KeyError> {
    if path.exists() { read(path) } else { create(path) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_written_once_and_read_back() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(create(&folder.path().join("deep/id.json")), Err(KeyError::NoFolder { .. })));
        assert!(!folder.path().join("deep").exists());
        let path = folder.path().join("id.json");
        let made = create(&path).unwrap();
        assert_eq!(read(&path).unwrap().public, made.public);
        assert!(matches!(create(&path), Err(KeyError::Exists { .. })));
        fs::write(&path, "[1,2,3]").unwrap();
        assert!(matches!(read(&path), Err(KeyError::Form { .. })));
        fs::write(&path, serde_json::to_string(&vec![7u8; 64]).unwrap()).unwrap();
        assert!(read(&path).is_err_and(|e| e.to_string().contains("second half")));
    }
}
