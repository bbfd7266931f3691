//! The genesis file, and the file of additional accounts beside it.
//!
//! writes  both files, each atomically
//! memory  their content
//! drops   a file that is truncated, altered or of another version: a [`GenesisError`] that says so

use std::io::ErrorKind;
use std::path::Path;

use hearth_wire::Pubkey;
use hearth_wire::base58::{decode_32, encode_32};
use serde::{Deserialize, Serialize};

use super::config::check;
use super::{Genesis, GenesisConfig, GenesisError, extra, hash_of};

/// Version of the genesis file's layout.
const FILE_VERSION: u32 = 2;
/// Extension of the file of additional accounts.
pub(super) const EXTRA_EXTENSION: &str = "accounts";

impl Genesis {
    /// Writes the genesis file atomically, after the file of additional accounts.
    pub fn save(&self, path: &Path) -> Result<(), GenesisError> {
        let extra = extra::encode(&self.config.extra_accounts);
        write_whole(&path.with_extension(EXTRA_EXTENSION), &extra)?;
        let body = Body::of(self);
        let file = File { checksum: body.checksum(), genesis: body };
        let mut text = serde_json::to_string(&file).expect("a genesis has only numbers and texts");
        text.push('\n');
        write_whole(path, text.as_bytes())
    }

    /// Reads a file that [`Genesis::save`] wrote.
    pub fn load(path: &Path) -> Result<Self, GenesisError> {
        let failed = |source| GenesisError::Io { action: "read", path: path.to_owned(), source };
        let damaged = |path: &Path| {
            let path = path.to_owned();
            move |what| GenesisError::Damaged { path, what }
        };
        let bytes = std::fs::read(path).map_err(failed)?;
        let text = String::from_utf8(bytes).map_err(|_| damaged(path)("it is not UTF-8".to_owned()))?;
        let mut genesis = parse(&text).map_err(damaged(path))?;
        let extra_path = path.with_extension(EXTRA_EXTENSION);
        let failed = |source: std::io::Error| match source.kind() {
            ErrorKind::NotFound => GenesisError::Missing { path: extra_path.clone(), file: path.to_owned() },
            _ => GenesisError::Io { action: "read", path: extra_path.clone(), source },
        };
        let bytes = std::fs::read(&extra_path).map_err(failed)?;
        genesis.config.extra_accounts = extra::decode(&bytes).map_err(damaged(&extra_path))?;
        check(&genesis.config).map_err(damaged(path))?;
        let hash = hash_of(&genesis.config, &genesis.funded);
        if hash != genesis.hash {
            let (found, said) = (encode_32(&hash), encode_32(&genesis.hash));
            return Err(damaged(path)(format!("its content has the hash {found}, it says {said}")));
        }
        Ok(genesis)
    }
}

fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), GenesisError> {
    let failed = |source| GenesisError::Io { action: "write", path: path.to_owned(), source };
    let part = path.with_extension("part");
    std::fs::write(&part, bytes).map_err(failed)?;
    std::fs::File::open(&part).and_then(|file| file.sync_all()).map_err(failed)?;
    std::fs::rename(&part, path).map_err(failed)?;
    // Blocks are synced with their folder: a power failure must not leave them without their genesis.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)
}

/// The genesis file: its content and a checksum. The hash also covers the additional accounts.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    checksum: u32,
    genesis: Body,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    version: u32,
    hash: String,
    hashes_per_tick: Option<u64>,
    ticks_per_slot: u64,
    slot_ms: u64,
    slots_per_epoch: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    genesis_slot: u64,
    creation_time: u64,
    identity: String,
    identity_lamports: u64,
    faucet: String,
    faucet_lamports: u64,
    initial_lamports: u64,
    funded_accounts: Vec<String>,
}

impl Body {
    fn of(genesis: &Genesis) -> Self {
        let config = &genesis.config;
        Self {
            version: FILE_VERSION,
            hash: encode_32(&genesis.hash).to_string(),
            hashes_per_tick: config.hashes_per_tick,
            ticks_per_slot: config.ticks_per_slot,
            slot_ms: config.slot_ms,
            slots_per_epoch: config.slots_per_epoch,
            genesis_slot: config.genesis_slot,
            creation_time: config.creation_time,
            identity: encode_32(&config.identity).to_string(),
            identity_lamports: config.identity_lamports,
            faucet: encode_32(&config.faucet).to_string(),
            faucet_lamports: config.faucet_lamports,
            initial_lamports: config.initial_lamports,
            funded_accounts: genesis.funded.iter().map(|key| encode_32(key).to_string()).collect(),
        }
    }

    fn checksum(&self) -> u32 {
        crc32fast::hash(serde_json::to_string(self).expect("a genesis has only numbers and texts").as_bytes())
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Parses a file, without the additional accounts and before the hash is verified.
fn parse(text: &str) -> Result<Genesis, String> {
    let file: File = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let body = file.genesis;
    if body.version != FILE_VERSION {
        let version = body.version;
        return Err(format!("it has version {version}, of another release; this program reads {FILE_VERSION}"));
    }
    let checksum = body.checksum();
    if checksum != file.checksum {
        return Err(format!("its checksum is {checksum}, it says {}", file.checksum));
    }
    let key = |what: &str, text: &str| decode_32(text).map_err(|error| format!("{what} {text:?}: {error}"));
    let funded: Vec<Pubkey> =
        body.funded_accounts.iter().map(|text| key("funded account", text)).collect::<Result<_, _>>()?;
    let config = GenesisConfig {
        fund_initial_accounts: funded.len(),
        initial_lamports: body.initial_lamports,
        identity: key("identity", &body.identity)?,
        identity_lamports: body.identity_lamports,
        faucet: key("faucet", &body.faucet)?,
        faucet_lamports: body.faucet_lamports,
        hashes_per_tick: body.hashes_per_tick,
        ticks_per_slot: body.ticks_per_slot,
        slot_ms: body.slot_ms,
        slots_per_epoch: body.slots_per_epoch,
        genesis_slot: body.genesis_slot,
        creation_time: body.creation_time,
        extra_accounts: vec![],
    };
    let hash = key("hash", &body.hash)?;
    Ok(Genesis { config, funded, hash })
}
