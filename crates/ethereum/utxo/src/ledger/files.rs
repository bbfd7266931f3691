//! Files on disk: generations, each a log of the records after a block and, unless that is block 0, the set after it,
//! so that rebuilding the set needs no earlier file.
//!
//! ```text
//! utxo.log                        the records from the first block on
//! utxo.N.base, utxo.N.log         the set after block N, and the records after it
//! base    magic 8 | chain id u64 | number u64 | block hash 32 | commitment in the header 32 | commitment afterwards 32
//!         | crc u32, then items: length u32 | crc u32 | bytes; a length of 0 is the end
//! ```
//!
//! A base gets its name only once it is complete and on disk. A generation without its base yet builds on the one
//! before.
//!
//! memory  one item

use std::fs::{self, File};
use std::io::{BufReader, BufWriter, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use alloy_primitives::B256;
use hearth_wal::store_file::{self, StoreWriter};
use hearth_wal::{crc, files};

use super::LedgerError;
use super::capture::SetAnchor;
use super::dump::{Item, SetBuilder};
use super::log::Log;

const MAGIC: &[u8; 8] = b"HRTHUTB1";
const HEAD: usize = 8 + 8 + 8 + 32 + 32 + 32 + 4;
/// No item is longer.
const ITEM_MAX: usize = 4096;

/// The set after a block, as bytes.
pub(super) enum Base {
    Memory(Vec<u8>),
    File(PathBuf),
}

/// A log and the base it starts from.
pub(super) struct Generation {
    /// The log holds records of blocks after this one.
    pub from: u64,
    /// The set after it, where it is whole.
    pub base: Option<Base>,
    pub log: Log,
}

impl Generation {
    /// Creates an empty generation.
    pub fn create(dir: Option<&Path>, chain_id: u64, from: u64) -> Result<Self, LedgerError> {
        Ok(Self { from, base: None, log: Log::open(dir.map(|dir| log_path(dir, from)).as_deref(), chain_id)? })
    }

    /// Takes its files away.
    pub fn remove(self) -> Result<(), LedgerError> {
        if let Some(Base::File(path)) = &self.base {
            store_file::remove(path).map_err(|error| LedgerError::Io(path.clone(), error))?;
        }
        self.log.remove()
    }
}

fn log_path(dir: &Path, from: u64) -> PathBuf {
    if from == 0 { dir.join("utxo.log") } else { dir.join(format!("utxo.{from}.log")) }
}

/// The path of the base of block `from`.
fn base_path(dir: &Path, from: u64) -> PathBuf {
    dir.join(format!("utxo.{from}.base"))
}

/// Removes the base of block `from`, if there is one: it belongs to a block that the chain has reverted.
pub(super) fn remove_base(dir: &Path, from: u64) -> Result<(), LedgerError> {
    let path = base_path(dir, from);
    match store_file::remove(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(LedgerError::Io(path, error)),
        _ => Ok(()),
    }
}

/// Opens the generations in `dir`, oldest first, or creates the first. Without a folder it is in memory.
pub(super) fn open(dir: Option<&Path>, chain_id: u64) -> Result<Vec<Generation>, LedgerError> {
    let Some(path) = dir else { return Ok(vec![Generation::create(None, chain_id, 0)?]) };
    let said = |error| LedgerError::Io(path.to_owned(), error);
    fs::create_dir_all(path).map_err(said)?;
    let mut from = Vec::new();
    for entry in fs::read_dir(path).map_err(said)? {
        let path = entry.map_err(said)?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some(rest) = name.strip_prefix("utxo.") else { continue };
        match rest {
            "log" => from.push(0),
            _ if rest.ends_with(".base.part") => store_file::remove(&path).map_err(said)?,
            _ => from.extend(rest.strip_suffix(".log").and_then(|number| number.parse::<u64>().ok())),
        }
    }
    from.sort_unstable();
    if from.is_empty() {
        from.push(0);
    }
    let open = |from| {
        let base = Some(base_path(path, from)).filter(|base| base.exists()).map(Base::File);
        Ok(Generation { base, ..Generation::create(dir, chain_id, from)? })
    };
    from.into_iter().map(open).collect()
}

/// Takes away every file of the ledger's set and records in `dir`, whatever is in them.
pub(super) fn clear(dir: &Path) -> Result<(), LedgerError> {
    let said = |error| LedgerError::Io(dir.to_owned(), error);
    for entry in fs::read_dir(dir).map_err(said)? {
        let path = entry.map_err(said)?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with("utxo.") && [".log", ".base", ".part"].iter().any(|end| name.ends_with(end)) {
            store_file::remove(&path).map_err(said)?;
        }
    }
    Ok(())
}

/// Writes a base to `out`.
fn write(
    out: &mut impl Write,
    chain_id: u64,
    footing: &SetAnchor,
    items: impl Iterator<Item = Result<Item, LedgerError>>,
    said: impl Fn(std::io::Error) -> LedgerError,
) -> Result<(), LedgerError> {
    let mut head = MAGIC.to_vec();
    head.extend(chain_id.to_le_bytes());
    head.extend(footing.number.to_le_bytes());
    [footing.hash, footing.header, footing.after].iter().for_each(|word| head.extend(word.0));
    head.extend(crc(&[&head]).to_le_bytes());
    out.write_all(&head).map_err(&said)?;
    for item in items {
        let bytes = item?.encode();
        out.write_all(&(bytes.len() as u32).to_le_bytes()).map_err(&said)?;
        out.write_all(&crc(&[&bytes]).to_le_bytes()).map_err(&said)?;
        out.write_all(&bytes).map_err(&said)?;
    }
    out.write_all(&[0; 4]).and_then(|()| out.flush()).map_err(&said)
}

/// Writes a base to its file, which appears when it is whole and on the disk.
pub(super) fn save(
    dir: &Path,
    chain_id: u64,
    footing: &SetAnchor,
    items: impl Iterator<Item = Result<Item, LedgerError>>,
) -> Result<PathBuf, LedgerError> {
    let path = base_path(dir, footing.number);
    let part = dir.join(format!("utxo.{}.base.part", footing.number));
    let said = |error| LedgerError::Io(part.clone(), error);
    let mut out = BufWriter::new(StoreWriter::create(&part).map_err(said)?);
    write(&mut out, chain_id, footing, items, said)?;
    out.get_ref().sync().map_err(said)?;
    files::finish(&part, &path).map_err(said)?;
    Ok(path)
}

/// Stores a base in `dir`, or in memory without a folder.
pub(super) fn keep(
    dir: Option<&Path>,
    chain_id: u64,
    footing: &SetAnchor,
    items: impl Iterator<Item = Result<Item, LedgerError>>,
) -> Result<Base, LedgerError> {
    match dir {
        Some(dir) => save(dir, chain_id, footing, items).map(Base::File),
        None => {
            let mut bytes = Vec::new();
            write(&mut bytes, chain_id, footing, items, |error| LedgerError::Io("memory".into(), error))?;
            Ok(Base::Memory(bytes))
        }
    }
}

impl Base {
    /// How many bytes it has.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::File(path) => fs::metadata(path).map_or(0, |file| file.len()),
        }
    }

    /// Loads the set of the base, and checks it against the base's own commitment.
    pub fn load(&self, chain_id: u64) -> Result<(SetAnchor, SetBuilder), LedgerError> {
        match self {
            Self::Memory(bytes) => load(&mut &bytes[..], chain_id, Path::new("memory")),
            Self::File(path) => {
                let file = File::open(path).map_err(|error| LedgerError::Io(path.clone(), error))?;
                load(&mut BufReader::new(file), chain_id, path)
            }
        }
    }
}

fn load(input: &mut impl Read, chain_id: u64, path: &Path) -> Result<(SetAnchor, SetBuilder), LedgerError> {
    let damaged = |offset, what| LedgerError::Corrupt { path: path.to_owned(), offset, what };
    let mut head = [0; HEAD];
    input.read_exact(&mut head).map_err(|_| damaged(0, "it is too short"))?;
    let (said, sum) = head.split_at(HEAD - 4);
    if said[..8] != MAGIC[..] || crc(&[said]).to_le_bytes() != sum {
        return Err(damaged(0, "it is not a base of this ledger"));
    }
    let long = |at: usize| u64::from_le_bytes(*said[at..].first_chunk().expect("eight bytes"));
    if long(8) != chain_id {
        return Err(damaged(0, "it is of another chain"));
    }
    let word = |at: usize| B256::from_slice(&said[at..at + 32]);
    let footing = SetAnchor { number: long(16), hash: word(24), header: word(56), after: word(88) };
    let (mut loading, mut offset) = (SetBuilder::default(), HEAD as u64);
    loop {
        let mut four = || {
            let mut bytes = [0; 4];
            input.read_exact(&mut bytes).map(|()| u32::from_le_bytes(bytes))
        };
        let length = four().map_err(|_| damaged(offset, "it ends before its end"))? as usize;
        if length == 0 {
            break;
        }
        let sum = four().map_err(|_| damaged(offset, "it ends before its end"))?;
        let mut bytes = vec![0; length.min(ITEM_MAX)];
        input.read_exact(&mut bytes).map_err(|_| damaged(offset, "it ends before its end"))?;
        let item = Item::decode(&bytes).filter(|_| crc(&[&bytes]) == sum);
        let taken = item.and_then(|item| loading.add(item).ok());
        taken.ok_or_else(|| damaged(offset, "an item does not match its checksum, or is out of order"))?;
        offset += 8 + length as u64;
    }
    if loading.commitment() != footing.after {
        return Err(damaged(0, "its commitment is not that of its items"));
    }
    Ok((footing, loading))
}
