//! The folder of a session.
//!
//! reads   the ledger folder of a node that begins; a folder of a session
//! writes  the same
//! memory  the genesis; all packets of a session that is read
//!
//! | File | What |
//! |---|---|
//! | `session.bin` | packets, roots, and what the node was: [`mod@super::format`] |
//! | `genesis.bin.zst`, `chain.json`, `hard-forks.json` | the chain's genesis; the others if the ledger folder has them |
//! | `identity.json` | the node's identity key |
//! | `snapshots/`, `snapshot-*`, `incremental-snapshot-*` | what the node began with beside, if anything |

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use hearth_ledger::genesis::{CHAIN_NAME, GENESIS_BYTES_MAX, GENESIS_NAME, HARD_FORKS_NAME};

use super::CaptureError;
use super::format::Session;
use super::sets;

/// The file of the packets.
pub const SESSION: &str = "session.bin";
/// The same while the session is recorded.
pub const UNFINISHED: &str = "session.part";
/// The same while it is written in short, at the end.
pub(super) const SHORTENED: &str = "session.new";
/// The file of the identity key.
pub const IDENTITY: &str = "identity.json";
const GENESIS: &str = "genesis.bin.zst";
const SNAPSHOTS: &str = "snapshots";
/// How archives of the cluster are named.
const ARCHIVES: [&str; 2] = ["snapshot-", "incremental-snapshot-"];
/// zstd's level for what is written once.
pub(super) const LEVEL: i32 = 19;

/// The files that a node begins with.
pub struct Beginning<'a> {
    /// The ledger folder of the recorded node.
    pub ledger: &'a Path,
    /// The folder of its snapshots.
    pub snapshots: &'a Path,
    /// The file of its identity key, which is copied and not read here.
    pub identity: &'a Path,
}

/// The file system's errors at a path.
fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CaptureError + use<> {
    let path = path.to_owned();
    move |source| CaptureError::Io { action, path, source }
}

impl Beginning<'_> {
    /// Copies the files into the folder of a new session, which is not there yet or empty.
    ///
    /// # Errors
    /// Something is in the folder, or a file cannot be copied.
    pub fn copy_to(&self, folder: &Path) -> Result<(), CaptureError> {
        make_empty(folder)?;
        let genesis = self.ledger.join(GENESIS_NAME);
        let bytes = fs::read(&genesis).map_err(failed("read", &genesis))?;
        let packed = folder.join(GENESIS);
        let written = zstd::bulk::compress(&bytes, LEVEL).and_then(|bytes| fs::write(&packed, bytes));
        written.map_err(failed("write", &packed))?;
        copy_beside(self.ledger, folder)?;
        let identity = folder.join(IDENTITY);
        copy_key(self.identity, &identity).map_err(failed("write", &identity))?;
        copy_files(self.snapshots, &folder.join(SNAPSHOTS), |_| true)?;
        copy_files(self.ledger, folder, is_archive)
    }
}

/// Makes the ledger folder that the node of a session began with, but for its identity.
///
/// # Errors
/// A file cannot be copied.
pub fn restore_ledger(session: &Path, ledger: &Path) -> Result<(), CaptureError> {
    fs::create_dir_all(ledger).map_err(failed("write", ledger))?;
    let packed = session.join(GENESIS);
    let file = File::open(&packed).map_err(failed("read", &packed))?;
    let mut bytes = vec![];
    let unpacked = zstd::Decoder::new(file).and_then(|from| from.take(GENESIS_BYTES_MAX).read_to_end(&mut bytes));
    unpacked.map_err(failed("read", &packed))?;
    let genesis = ledger.join(GENESIS_NAME);
    fs::write(&genesis, bytes).map_err(failed("write", &genesis))?;
    copy_beside(session, ledger)?;
    copy_files(&session.join(SNAPSHOTS), &ledger.join(SNAPSHOTS), |_| true)?;
    copy_files(session, ledger, is_archive)
}

/// Reads a session, with all its packets.
///
/// # Errors
/// The file cannot be read or is damaged.
pub fn read(session: &Path) -> Result<Session, CaptureError> {
    let path = session.join(SESSION);
    let bytes = fs::read(&path).map_err(failed("read", &path))?;
    sets::read(&bytes).map_err(|why| CaptureError::Format { path, why })
}

/// The folders of sessions directly below a folder, by name; none if there is no such folder.
///
/// # Errors
/// The folder cannot be listed.
pub fn sessions_below(folder: &Path) -> Result<Vec<PathBuf>, CaptureError> {
    if !folder.exists() {
        return Ok(vec![]);
    }
    let mut found = vec![];
    for entry in fs::read_dir(folder).map_err(failed("read", folder))? {
        let path = entry.map_err(failed("read", folder))?.path();
        if path.join(SESSION).exists() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Makes a file that its owner alone can read. It is an error if the file is there.
pub(super) fn create_private(path: &Path) -> io::Result<File> {
    fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Makes the folder of a new session. A snapshot that lay there would be taken for one that the node began with.
///
/// # Errors
/// Something is in the folder, or it cannot be made.
pub fn make_empty(folder: &Path) -> Result<(), CaptureError> {
    fs::create_dir_all(folder).map_err(failed("write", folder))?;
    let mut entries = fs::read_dir(folder).map_err(failed("read", folder))?;
    if entries.next().is_some() { Err(CaptureError::NotEmpty(folder.to_owned())) } else { Ok(()) }
}

/// Copies the file of a key. The copy is private even if the first file is not.
fn copy_key(from: &Path, to: &Path) -> io::Result<()> {
    let mut from = File::open(from)?;
    let mut to = create_private(to)?;
    io::copy(&mut from, &mut to).map(drop)
}

fn is_archive(name: &str) -> bool {
    ARCHIVES.iter().any(|start| name.starts_with(start))
}

/// Copies what is known of a chain beside its genesis.
fn copy_beside(from: &Path, to: &Path) -> Result<(), CaptureError> {
    for name in [CHAIN_NAME, HARD_FORKS_NAME] {
        let copy = to.join(name);
        if from.join(name).exists() {
            fs::copy(from.join(name), &copy).map_err(failed("write", &copy))?;
        }
    }
    Ok(())
}

/// Copies the files of a folder, without those of its folders, whose names are wanted.
fn copy_files(from: &Path, to: &Path, is_wanted: impl Fn(&str) -> bool) -> Result<(), CaptureError> {
    if !from.exists() {
        return Ok(());
    }
    for entry in fs::read_dir(from).map_err(failed("read", from))? {
        let path = entry.map_err(failed("read", from))?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()).filter(|name| is_wanted(name)) else {
            continue;
        };
        if path.is_file() {
            fs::create_dir_all(to).map_err(failed("write", to))?;
            let copy = to.join(name);
            fs::copy(&path, &copy).map_err(failed("write", &copy))?;
        }
    }
    Ok(())
}
