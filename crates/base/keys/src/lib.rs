//! keys: ed25519 key pairs in locked memory, and their files in the form of the Solana tools.
//!
//! reads   a JSON array of 64 numbers: the seed, then the public key
//! writes  the same, readable by the owner alone
//! memory  a locked page for each key in use: [`Keypair`]; a file's text, which is wiped
//! source  the `solana-keygen` file format
//!
//! A seed is written only to its page, number by number as it is parsed. A node hands its key to the tile sign; until
//! then, while it joins a cluster, it signs with the key itself.

mod keypair;

use std::fmt;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::Deserializer;
use serde::de::{Error as _, SeqAccess, Visitor};
use zeroize::Zeroizing;

pub use keypair::{Keypair, LockError};

/// Buffer for the text of a key file, allocated up front: a growing buffer leaves copies behind. A key's text has 320
/// bytes at most.
const TEXT_MAX: usize = 4096;

/// The bit of a file's mode by which users who are neither its owner nor in its group may read it.
const READABLE_BY_OTHERS: u32 = 0o004;

/// Why a key cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read or written.
    #[error("cannot {action} the key {}: {source}", path.display())]
    Io {
        /// The failed operation, `read` or `write`.
        action: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Why the file could not be read or written, as the system says it.
        source: std::io::Error,
    },
    /// The folder is missing. It is not made: a mistyped path would hide the key.
    #[error("cannot write the key {}: there is no folder {}", path.display(), folder.display())]
    NoFolder {
        /// Path of the file.
        path: PathBuf,
        /// The folder it should be in.
        folder: PathBuf,
    },
    /// The path is not that of a regular file. To open a pipe would wait for another process to write to it.
    #[error("the key {} is {what}; a key is in a regular file", path.display())]
    Kind {
        /// The path that was given for the key.
        path: PathBuf,
        /// What is there, with its article.
        what: &'static str,
    },
    /// The file holds no key.
    #[error("{} is not a key file: {why}; expected a JSON array of 64 numbers as `hearth keys new` writes", path.display())]
    Form {
        /// Path of the file.
        path: PathBuf,
        /// Why it is invalid.
        why: String,
    },
    /// Every user of the machine can read the file.
    #[error(
        "the key {} can be read by every user of this machine (mode {mode:o}), so it is no secret; `chmod 600 {}` keeps \
         it to its owner",
        path.display(),
        path.display()
    )]
    Readable {
        /// Path of the file.
        path: PathBuf,
        /// The file's permission bits, the lowest nine of its mode.
        mode: u32,
    },
    /// There is no locked page for it.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The file is there already.
    #[error("{} exists; a key is never overwritten (delete it, or choose another name)", path.display())]
    Exists {
        /// Path of the file.
        path: PathBuf,
    },
}

/// An identity: its key pair and its public key.
pub struct Identity {
    /// The key pair, in a locked page; wiped when dropped.
    pub keypair: Keypair,
    /// The public key, 32 bytes.
    pub public: [u8; 32],
}

impl Identity {
    fn new(keypair: Keypair) -> Self {
        Self { public: keypair.public_key(), keypair }
    }

    /// A fresh key, in memory alone.
    fn random() -> Result<Self, KeyError> {
        let fill = |seed: &mut [u8; 32]| {
            hearth_tile::sys::random::fill(seed);
            Ok(())
        };
        Keypair::new(fill).map(Self::new).map_err(KeyError::Lock)
    }

    /// The public key in base58.
    pub fn address(&self) -> String {
        bs58::encode(self.public).into_string()
    }
}

/// Makes a key and writes it to a file that does not exist yet, in a folder that does.
pub fn create(path: &Path) -> Result<Identity, KeyError> {
    let identity = Identity::random()?;
    let io = |source| KeyError::Io { action: "write", path: path.into(), source };
    if let Some(folder) = path.parent().filter(|f| !f.as_os_str().is_empty() && !f.exists()) {
        return Err(KeyError::NoFolder { path: path.into(), folder: folder.into() });
    }
    let mut file = match fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => return Err(KeyError::Exists { path: path.into() }),
        Err(e) => return Err(io(e)),
    };
    let numbers = Zeroizing::new([identity.keypair.seed().as_slice(), &identity.public].concat());
    let mut text = Zeroizing::new(Vec::with_capacity(TEXT_MAX));
    serde_json::to_writer(&mut *text, &*numbers).expect("numbers");
    file.write_all(&text).and_then(|()| file.sync_all()).map_err(io)?;
    Ok(identity)
}

/// Reads a key file.
pub fn read(path: &Path) -> Result<Identity, KeyError> {
    read_file(open(path)?.0, path)
}

/// Reads the file of a key that a node is to sign with: one that every user can read is refused.
pub fn read_private(path: &Path) -> Result<Identity, KeyError> {
    let (file, found) = open(path)?;
    let mode = found.mode() & 0o777;
    if mode & READABLE_BY_OTHERS != 0 {
        return Err(KeyError::Readable { path: path.into(), mode });
    }
    read_file(file, path)
}

/// Opens a regular file, or what a link to one names.
fn open(path: &Path) -> Result<(fs::File, fs::Metadata), KeyError> {
    let io = |source| KeyError::Io { action: "read", path: path.into(), source };
    let found = fs::metadata(path).map_err(io)?;
    if !found.is_file() {
        return Err(KeyError::Kind { path: path.into(), what: kind(found.file_type()) });
    }
    Ok((fs::File::open(path).map_err(io)?, found))
}

fn kind(found: fs::FileType) -> &'static str {
    match found {
        found if found.is_dir() => "a folder",
        found if found.is_fifo() => "a pipe",
        found if found.is_socket() => "a socket",
        _ => "a device",
    }
}

fn read_file(file: fs::File, path: &Path) -> Result<Identity, KeyError> {
    let io = |source| KeyError::Io { action: "read", path: path.into(), source };
    let mut text = Zeroizing::new(String::with_capacity(TEXT_MAX));
    file.take(TEXT_MAX as u64).read_to_string(&mut text).map_err(io)?;
    parse(&text, path)
}

/// Reads the text of a key file; `path` is for the messages.
///
/// # Errors
/// The text is not a key, or there is no locked page for one.
pub fn parse(text: &str, path: &Path) -> Result<Identity, KeyError> {
    let form = |why: String| KeyError::Form { path: path.into(), why };
    let mut public = [0; 32];
    let keypair = Keypair::new(|seed| {
        let mut json = serde_json::Deserializer::from_str(text);
        let parsed = json.deserialize_seq(Numbers { seed, public: &mut public }).and_then(|()| json.end());
        parsed.map_err(|why| form(why.to_string()))
    })?;
    let identity = Identity::new(keypair);
    if public != identity.public {
        return Err(form("its second half is not the public key of its first".into()));
    }
    Ok(identity)
}

/// Where the 64 numbers of a key file go as they are parsed. A `Vec` that grows would leave copies of the seed behind.
struct Numbers<'a> {
    seed: &'a mut [u8; 32],
    public: &'a mut [u8; 32],
}

impl<'de> Visitor<'de> for Numbers<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("64 numbers")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut numbers: A) -> Result<(), A::Error> {
        for place in self.seed.iter_mut().chain(self.public) {
            *place = numbers.next_element()?.ok_or_else(|| A::Error::custom("it is too short"))?;
        }
        match numbers.next_element::<u8>()? {
            None => Ok(()),
            Some(_) => Err(A::Error::custom("it is too long")),
        }
    }
}

/// Reads a key that a node is to sign with, or makes it if the file is not there.
pub fn read_or_create(path: &Path) -> Result<Identity, KeyError> {
    if path.exists() { read_private(path) } else { create(path) }
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

    #[test]
    fn a_key_that_everybody_can_read_is_refused_for_signing() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("id.json");
        let made = create(&path).unwrap();
        for (mode, is_private) in [(0o600, true), (0o640, true), (0o644, false), (0o604, false)] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let read_so = read_private(&path).map(|identity| identity.public);
            match read_so {
                Ok(public) => assert!(is_private && public == made.public, "{mode:o}"),
                Err(why) => {
                    assert!(!is_private && why.to_string().contains(&format!("mode {mode:o}")), "{mode:o}: {why}");
                }
            }
            assert_eq!(read(&path).unwrap().public, made.public, "its address is no secret");
        }
        assert!(matches!(read_or_create(&path), Err(KeyError::Readable { .. })));
    }

    #[test]
    fn only_a_regular_file_is_a_key() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&pipe, &link).unwrap();
        let others = [
            (pipe.as_path(), "a pipe"),
            (link.as_path(), "a pipe"),
            (folder.path(), "a folder"),
            (Path::new("/dev/null"), "a device"),
        ];
        for (path, what) in others {
            for read in [read, read_private, read_or_create] {
                let why = read(path).map(|identity| identity.public).unwrap_err().to_string();
                assert!(why.contains(&format!("is {what}; ")), "{why}");
            }
        }
        let file = folder.path().join("id.json");
        let made = create(&file).unwrap();
        let link = folder.path().join("link.json");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert_eq!(read_private(&link).unwrap().public, made.public, "a link to a file is one");
    }

    #[test]
    fn key_file_has_64_numbers() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("id.json");
        let mut numbers =
            [create(&path).unwrap().keypair.seed().to_vec(), read(&path).unwrap().public.to_vec()].concat();
        let why = |numbers: &[u8], tail: &str| {
            fs::write(&path, serde_json::to_string(numbers).unwrap() + tail).unwrap();
            read(&path).map(|identity| identity.public).map_err(|why| why.to_string())
        };
        assert_eq!(why(&numbers, "\n").unwrap(), numbers[32..]);
        assert!(why(&numbers, ",").unwrap_err().contains("trailing"));
        assert!(why(&numbers[..40], "").unwrap_err().contains("too short"));
        numbers.push(1);
        assert!(why(&numbers, "").unwrap_err().contains("too long"));
    }
}
