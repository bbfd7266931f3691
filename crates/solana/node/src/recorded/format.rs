//! The files of a recorded ledger.
//!
//! reads   `genesis.bin.zst` and `blocks.jsonl.zst` of a folder
//! memory  all blocks of the ledger; a line has at most 1 GiB, a genesis too
//! drops   a file that is cut or of another form: a [`RecordedError`] that names the line
//! source  our own format; `oracle/bank` writes it

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hearth_ledger::{Genesis, TransactionError};
use hearth_wire::base58::decode_32;
use serde::{Deserialize, Deserializer};

use super::RecordedError;

/// Maximum bytes of a genesis, and of a line.
const BYTES_MAX: u64 = 1 << 30;
const GENESIS: &str = "genesis.bin.zst";
const BLOCKS: &str = "blocks.jsonl.zst";

/// A block as the cluster's bank made it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Block {
    /// The slot in which it was produced.
    pub slot: u64,
    /// The slot of its parent; 0 for slot 0.
    pub parent: u64,
    /// The number of blocks before it.
    pub height: u64,
    /// The identity of the slot's leader.
    #[serde(deserialize_with = "key")]
    pub leader: [u8; 32],
    /// The hash of its last tick.
    #[serde(deserialize_with = "key")]
    pub blockhash: [u8; 32],
    /// The hash of its bank.
    #[serde(deserialize_with = "key")]
    pub bank_hash: [u8; 32],
    /// Its clock in Unix seconds.
    pub time: i64,
    /// Lamports of all accounts at its end.
    pub capitalization: u64,
    /// The transactions in it, in order.
    pub txs: Vec<LandedTransaction>,
    /// Transactions that the bank refused.
    #[serde(default)]
    pub refused: Vec<RefusedTransaction>,
    /// The payments to accounts at its beginning and its end.
    #[serde(default)]
    pub rewards: Vec<Reward>,
    /// Whether its slot is a hard fork.
    #[serde(default)]
    pub hard_fork: bool,
}

/// A transaction that is part of a block.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct LandedTransaction {
    /// The signed transaction as sent; base64 in the file.
    #[serde(rename = "tx", deserialize_with = "bytes")]
    pub bytes: Vec<u8>,
    /// The error, if it failed.
    pub err: Option<TransactionError>,
    /// The fee that its payer paid, in lamports.
    pub fee: u64,
    /// Compute units that it used.
    pub units: u64,
    /// The lines of its log, in order.
    pub logs: Vec<String>,
    /// The accounts that it changed, by address, each with a digest of its content; empty if it is gone.
    pub changed: BTreeMap<String, String>,
}

/// A transaction that a bank refused.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct RefusedTransaction {
    /// The signed transaction as sent; base64 in the file.
    #[serde(rename = "tx", deserialize_with = "bytes")]
    pub bytes: Vec<u8>,
    /// Why the bank refused it.
    pub err: TransactionError,
    /// How many of the block's transactions were executed before it; `None` if that was not recorded.
    pub after: Option<usize>,
}

/// A payment by the chain.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Reward {
    /// The account that received it.
    #[serde(deserialize_with = "key")]
    pub key: [u8; 32],
    /// The amount in lamports.
    pub lamports: i64,
    /// The account's balance afterwards.
    pub balance: u64,
    /// `Fee`, `Staking`, `DeactivatedStake` or `Voting`.
    pub kind: String,
}

fn key<'de, D: Deserializer<'de>>(from: D) -> Result<[u8; 32], D::Error> {
    decode_32(&String::deserialize(from)?).map_err(serde::de::Error::custom)
}

fn bytes<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
    STANDARD.decode(String::deserialize(from)?).map_err(serde::de::Error::custom)
}

/// A ledger in memory.
#[derive(Debug)]
pub struct RecordedLedger {
    /// The genesis on which its blocks build.
    pub genesis: Genesis,
    /// Its blocks in the order in which they were made, slot 0 first.
    pub blocks: Vec<Block>,
}

impl RecordedLedger {
    /// Reads the ledger in `folder`.
    pub fn read(folder: &Path) -> Result<Self, RecordedError> {
        let path = folder.join(GENESIS);
        let failed = |source| RecordedError::Io { path: path.clone(), source };
        let mut bytes = vec![];
        unpacked(&path).and_then(|file| file.take(BYTES_MAX).read_to_end(&mut bytes)).map_err(failed)?;
        let genesis = Genesis::from_bytes(&bytes).map_err(|why| RecordedError::Genesis { path: path.clone(), why })?;
        Ok(Self { genesis, blocks: read_blocks(&folder.join(BLOCKS))? })
    }
}

fn unpacked(path: &Path) -> io::Result<impl Read + use<>> {
    zstd::Decoder::new(File::open(path)?)
}

pub(super) fn read_blocks(path: &Path) -> Result<Vec<Block>, RecordedError> {
    let lines = unpacked(path).map_err(|source| RecordedError::Io { path: path.into(), source })?;
    parse_blocks(BufReader::new(lines), path)
}

/// Reads the unpacked lines of a file of blocks, and checks their order; `path` is for the messages.
///
/// # Errors
/// A line is no block, or the blocks are out of order.
pub fn parse_blocks(mut lines: impl BufRead, path: &Path) -> Result<Vec<Block>, RecordedError> {
    let failed = |source| RecordedError::Io { path: path.into(), source };
    let mut blocks = vec![];
    loop {
        let mut line = vec![];
        lines.by_ref().take(BYTES_MAX).read_until(b'\n', &mut line).map_err(failed)?;
        if line.is_empty() {
            break;
        }
        let block = serde_json::from_slice(&line).map_err(|source| RecordedError::Line {
            path: path.into(),
            line: blocks.len() + 1,
            source,
        })?;
        blocks.push(block);
    }
    check_order(path, &blocks)?;
    Ok(blocks)
}

/// Checks that slot 0 comes first, and each block after its parent, once.
fn check_order(path: &Path, blocks: &[Block]) -> Result<(), RecordedError> {
    let mut slots = std::collections::HashSet::new();
    for (index, block) in blocks.iter().enumerate() {
        let fits = match index {
            0 => block.slot == 0,
            _ => block.parent < block.slot && slots.contains(&block.parent),
        };
        if !fits || !slots.insert(block.slot) {
            return Err(RecordedError::Order { path: path.into(), slot: block.slot });
        }
    }
    if blocks.is_empty() { Err(RecordedError::Order { path: path.into(), slot: 0 }) } else { Ok(()) }
}

/// The folders at or below `folder` that hold a recorded ledger, by name.
pub fn ledgers_below(folder: &Path) -> Result<Vec<PathBuf>, RecordedError> {
    let failed = |source| RecordedError::Io { path: folder.into(), source };
    if folder.join(BLOCKS).exists() {
        return Ok(vec![folder.into()]);
    }
    let mut below = vec![];
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.file_type().map_err(failed)?.is_dir() {
            below.extend(ledgers_below(&entry.path())?);
        }
    }
    below.sort();
    Ok(below)
}
