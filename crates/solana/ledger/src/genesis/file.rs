//! The files of a genesis in a ledger folder: `genesis.bin`, and `chain.json` beside it.
//!
//! reads   both; a folder that a cluster's tools made has only the first
//! writes  both, each atomically, `genesis.bin` last: the chain exists once that does
//! memory  their content
//! drops   files that are cut, altered, contradict each other or are of an older version: a [`GenesisError`]
//!
//! `chain.json` holds what a node knows about the chain that began here and that `genesis.bin` cannot say: the
//! identity, the faucet, which accounts have public seeds, and the slot to start at.

use std::collections::HashSet;
use std::io::{BufReader, ErrorKind, Read};
use std::path::Path;

use hearth_crypto::sha256::sha256;
use hearth_wire::Pubkey;
use hearth_wire::base58::{decode_32, encode_32};
use serde::{Deserialize, Serialize};

use super::archive::{ARCHIVE_NAME, GENESIS_NAME, pack, unpack};
use super::{Genesis, GenesisConfig, GenesisError, binary, config, file_accounts};
use crate::account::Account;

/// The name of the file beside the genesis.
pub const CHAIN_NAME: &str = "chain.json";
/// Maximum size of a genesis in bytes.
pub const GENESIS_BYTES_MAX: u64 = 1 << 30;
/// Maximum size of `chain.json` in bytes: a name for each of a million accounts.
pub const CHAIN_BYTES_MAX: u64 = 64 << 20;
/// The genesis of versions before `genesis.bin`.
const OLDER_NAME: &str = "genesis.json";

impl Genesis {
    /// Writes `genesis.bin` at `path`, after `chain.json` beside it. Both are replaced atomically.
    pub fn save(&self, path: &Path) -> Result<(), GenesisError> {
        let chain = Chain::of(self);
        let file = ChainFile { checksum: chain.checksum(), chain };
        let mut chain = serde_json::to_string_pretty(&file).expect("it has only numbers and texts");
        chain.push('\n');
        Self::install(path, &self.to_bytes(), Some(chain.as_bytes()))
    }

    /// Writes `genesis.bin` at `path` and nothing beside it, as for a chain that others begin.
    pub fn save_alone(&self, path: &Path) -> Result<(), GenesisError> {
        Self::install(path, &self.to_bytes(), None)
    }

    /// Writes the bytes of a `genesis.bin` at `path`, after those of a `chain.json` beside it, each atomically. Removes
    /// what an earlier chain has left there.
    pub fn install(path: &Path, genesis: &[u8], chain: Option<&[u8]>) -> Result<(), GenesisError> {
        remove(&path.with_file_name(ARCHIVE_NAME))?;
        let chain_path = path.with_file_name(CHAIN_NAME);
        match chain {
            Some(chain) => write_whole(&chain_path, chain)?,
            None => remove(&chain_path)?,
        }
        write_whole(path, genesis)
    }

    /// Reads `genesis.bin` at `path`, and `chain.json` beside it if there is one.
    pub fn load(path: &Path) -> Result<Self, GenesisError> {
        let Some(bytes) = read_up_to(path, GENESIS_BYTES_MAX)? else {
            Self::refuse_older(path.parent().unwrap_or(Path::new(".")))?;
            let source = ErrorKind::NotFound.into();
            return Err(GenesisError::Io { action: "read", path: path.to_owned(), source });
        };
        let genesis = Self::from_bytes(&bytes).map_err(damaged(path))?;
        let chain_path = path.with_file_name(CHAIN_NAME);
        match read_up_to(&chain_path, CHAIN_BYTES_MAX)? {
            Some(chain) => genesis.with_chain(&chain).map_err(damaged(&chain_path)),
            None => Ok(genesis),
        }
    }

    /// Reads the bytes of a `genesis.bin`. The error says what is wrong with them.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        Ok(Self::begun(binary::decode(bytes)?, vec![], sha256(&[bytes])))
    }

    /// The bytes of `genesis.bin` for a genesis that was created here. For one that was read they may lack what has no
    /// effect, such as the names of former processors.
    pub fn to_bytes(&self) -> Vec<u8> {
        binary::encode(&self.config, &file_accounts(&self.config, &self.funded))
    }

    /// Adds what the bytes of a `chain.json` say. The error says what is wrong with them.
    pub fn with_chain(mut self, bytes: &[u8]) -> Result<Self, String> {
        let ChainFile { checksum, chain } = serde_json::from_slice(bytes).map_err(|why| why.to_string())?;
        let found = chain.checksum();
        if found != checksum {
            return Err(format!("its checksum is {found}, it says {checksum}"));
        }
        let hash = key("genesis hash", &chain.genesis_hash)?;
        if hash != self.hash {
            let (said, found) = (encode_32(&hash), encode_32(&self.hash));
            return Err(format!("it is of the genesis {said}, and {GENESIS_NAME} is {found}"));
        }
        let count = self.config.extra_accounts.len();
        self.funded = chain.funded_accounts.iter().map(|text| key("funded account", text)).collect::<Result<_, _>>()?;
        chain.settle(&mut self.config, &self.funded)?;
        config::check(&self.config)?;
        if file_accounts(&self.config, &self.funded).len() != count {
            return Err("it names accounts that the genesis does not have".to_owned());
        }
        Ok(self)
    }

    /// Fails if the folder has the chain of a version whose genesis this program cannot read.
    pub fn refuse_older(folder: &Path) -> Result<(), GenesisError> {
        let (older, ours) = (folder.join(OLDER_NAME), folder.join(GENESIS_NAME));
        if older.exists() && !ours.exists() && is_ours(&older) {
            return Err(GenesisError::Older { path: older });
        }
        Ok(())
    }

    /// Writes `genesis.bin` at `path` from the archive beside it, if there is an archive and no `genesis.bin`. Returns
    /// whether it did.
    ///
    /// # Errors
    /// The archive has no genesis that this program can run, or a file cannot be read or written.
    pub fn unpack_archive(path: &Path) -> Result<bool, GenesisError> {
        let archive = path.with_file_name(ARCHIVE_NAME);
        if path.exists() || !archive.exists() {
            return Ok(false);
        }
        let failed = |source| GenesisError::Io { action: "read", path: archive.clone(), source };
        let packed = BufReader::new(std::fs::File::open(&archive).map_err(failed)?);
        let bytes = unpack(packed, GENESIS_BYTES_MAX).map_err(damaged(&archive))?;
        Self::from_bytes(&bytes).map_err(damaged(&archive))?;
        write_whole(path, &bytes)?;
        Ok(true)
    }

    /// Writes `genesis.tar.bz2` beside the `genesis.bin` at `path`, unless it is there.
    pub fn write_archive(path: &Path) -> Result<(), GenesisError> {
        let archive = path.with_file_name(ARCHIVE_NAME);
        if archive.exists() {
            return Ok(());
        }
        let missing = || GenesisError::Io { action: "read", path: path.to_owned(), source: ErrorKind::NotFound.into() };
        let bytes = read_up_to(path, GENESIS_BYTES_MAX)?.ok_or_else(missing)?;
        let failed = |source| GenesisError::Io { action: "write", path: archive.clone(), source };
        write_whole(&archive, &pack(&bytes).map_err(failed)?)
    }
}

/// Whether a `genesis.json` is of an earlier version of this program, and not another program's.
pub fn is_ours(path: &Path) -> bool {
    let mut start = [0; 12];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && start == *b"{\"checksum\":"
}

pub(super) fn damaged(path: &Path) -> impl Fn(String) -> GenesisError {
    let path = path.to_owned();
    move |what| GenesisError::Damaged { path: path.clone(), what }
}

/// The content of a file of at most `bytes_max` bytes; `None` if there is no file.
pub(super) fn read_up_to(path: &Path, bytes_max: u64) -> Result<Option<Vec<u8>>, GenesisError> {
    let failed = |source| GenesisError::Io { action: "read", path: path.to_owned(), source };
    let file = match std::fs::File::open(path) {
        Err(none) if none.kind() == ErrorKind::NotFound => return Ok(None),
        file => file.map_err(failed)?,
    };
    let mut bytes = vec![];
    file.take(bytes_max + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > bytes_max {
        return Err(damaged(path)(format!("it has more than {bytes_max} bytes")));
    }
    Ok(Some(bytes))
}

/// Removes a file, if it is there.
pub(super) fn remove(path: &Path) -> Result<(), GenesisError> {
    match std::fs::remove_file(path) {
        // Below a file there is nothing to remove; whatever makes the folder says so.
        Err(source) if !matches!(source.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Err(GenesisError::Io { action: "write", path: path.to_owned(), source })
        }
        _ => Ok(()),
    }
}

/// Writes a file of the chain atomically and durably.
pub(super) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), GenesisError> {
    let failed = |source| GenesisError::Io { action: "write", path: path.to_owned(), source };
    let part = path.with_extension("part");
    let written = std::fs::write(&part, bytes)
        .and_then(|()| std::fs::File::open(&part)?.sync_all())
        .and_then(|()| std::fs::rename(&part, path));
    if let Err(why) = written {
        // A full disk must not keep half a file.
        let _ = std::fs::remove_file(&part);
        return Err(failed(why));
    }
    // Blocks are synced with their folder: a power failure must not leave them without their genesis.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)
}

fn key(what: &str, text: &str) -> Result<Pubkey, String> {
    decode_32(text).map_err(|error| format!("{what} {text:?}: {error}"))
}

/// `chain.json`: its content, and a checksum of that.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ChainFile {
    checksum: u32,
    chain: Chain,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Chain {
    genesis_hash: String,
    identity: String,
    identity_lamports: u64,
    faucet: String,
    faucet_lamports: u64,
    start_slot: u64,
    initial_lamports: u64,
    funded_accounts: Vec<String>,
}

impl Chain {
    fn of(genesis: &Genesis) -> Self {
        let config = &genesis.config;
        Self {
            genesis_hash: encode_32(&genesis.hash).to_string(),
            identity: encode_32(&config.identity).to_string(),
            identity_lamports: config.identity_lamports,
            faucet: encode_32(&config.faucet).to_string(),
            faucet_lamports: config.faucet_lamports,
            start_slot: config.genesis_slot,
            initial_lamports: config.initial_lamports,
            funded_accounts: genesis.funded.iter().map(|key| encode_32(key).to_string()).collect(),
        }
    }

    fn checksum(&self) -> u32 {
        crc32fast::hash(serde_json::to_string(self).expect("it has only numbers and texts").as_bytes())
    }

    /// Moves the accounts that it names out of the extra ones of a configuration that was just decoded.
    fn settle(&self, config: &mut GenesisConfig, funded: &[Pubkey]) -> Result<(), String> {
        config.identity = key("identity", &self.identity)?;
        config.faucet = key("faucet", &self.faucet)?;
        config.identity_lamports = self.identity_lamports;
        config.faucet_lamports = self.faucet_lamports;
        config.initial_lamports = self.initial_lamports;
        config.fund_initial_accounts = funded.len();
        config.genesis_slot = self.start_slot;
        let funded: HashSet<&Pubkey> = funded.iter().collect();
        let GenesisConfig { identity, identity_lamports, faucet, faucet_lamports, initial_lamports, .. } = *config;
        config.extra_accounts.retain(|(key, account)| {
            let is = |lamports| *account == Account::wallet(lamports);
            let is_named = (*key == identity && is(identity_lamports))
                || (*key == faucet && is(faucet_lamports))
                || (funded.contains(key) && is(initial_lamports));
            !is_named
        });
        Ok(())
    }
}
