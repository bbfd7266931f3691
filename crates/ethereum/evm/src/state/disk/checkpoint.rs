//! A checkpoint: the whole state in one file, written in the background, and read at the start.
//!
//! writes  a header and frames of about a mebibyte, each with its checksum; the last one counts what came before
//! memory  a frame
//! source  the file gets its name only once it is complete and synced

use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use alloy_primitives::map::HashMap;
use alloy_primitives::{Address, B256, Bytes, KECCAK256_EMPTY, U256};
use hearth_wal::store_file::{self, StoreWriter};

use super::super::{Account, Entry, StateView};
use super::bytes::{ByteReader, checksum};
use super::files::{UNFINISHED, finish};
use super::{StateError, damaged, io};

const MAGIC: [u8; 8] = *b"hearthC1";
const FRAME: usize = 1 << 20;
/// A frame's greatest length: one more entry than its size, and a code of any length that is ever allowed.
const FRAME_MAX: usize = 64 << 20;

const CODE: u8 = 1;
const ACCOUNT: u8 = 2;
const STORAGE: u8 = 3;
const END: u8 = 4;

/// The header: which state the file is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// The hash of block zero.
    pub(crate) genesis: B256,
    /// Records of the log before it.
    pub(crate) sequence: u64,
    /// The height of the state's block.
    pub(crate) number: u64,
    /// The root of the state.
    pub(crate) state_root: B256,
    /// The hashes of the last blocks, this one's last.
    pub(crate) hashes: Vec<B256>,
}

impl Header {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(self.genesis.as_slice());
        bytes.extend_from_slice(&self.sequence.to_le_bytes());
        bytes.extend_from_slice(&self.number.to_le_bytes());
        bytes.extend_from_slice(self.state_root.as_slice());
        bytes.extend(self.hashes.iter().flat_map(|hash| hash.0));
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let mut take = ByteReader(bytes);
        if take.array()? != MAGIC {
            return None;
        }
        let (genesis, sequence, number) = (take.array()?.into(), take.u64()?, take.u64()?);
        let state_root = take.array()?.into();
        let (hashes, rest) = take.0.as_chunks::<32>();
        let hashes: Vec<B256> = hashes.iter().map(|hash| (*hash).into()).collect();
        (rest.is_empty() && !hashes.is_empty()).then_some(Self { genesis, sequence, number, state_root, hashes })
    }
}

/// Writes everything in `view` to `path`, which appears when it is whole. Ends early where `stop` is set: `false`.
pub(crate) fn write(
    path: &Path,
    view: &StateView,
    genesis: B256,
    sequence: u64,
    stop: &AtomicBool,
) -> Result<bool, StateError> {
    write_entries(path, view, view.dump(), genesis, sequence, stop)
}

/// As [`write()`], with the entries given.
pub(crate) fn write_entries(
    path: &Path,
    view: &StateView,
    entries: impl Iterator<Item = Entry>,
    genesis: B256,
    sequence: u64,
    stop: &AtomicBool,
) -> Result<bool, StateError> {
    let unfinished = path.with_extension(UNFINISHED);
    let file = StoreWriter::create(&unfinished).map_err(io("cannot create", &unfinished))?;
    let hashes = view.version.hashes().to_vec();
    let header = Header { genesis, sequence, number: view.number(), state_root: view.state_root(), hashes };
    let mut out = Frames { file, path: unfinished, counts: [0; 3] };
    let whole = out.everything(&header, entries, stop);
    let whole = whole.and_then(|whole| {
        if whole {
            out.file.sync().map_err(io("cannot sync", &out.path))?;
            finish(&out.path, path)?;
        }
        Ok(whole)
    });
    if !matches!(whole, Ok(true)) {
        // The remains do not count; removing them frees space on a full disk.
        let _ = store_file::remove(&out.path);
    }
    whole
}

struct Frames {
    file: StoreWriter,
    path: PathBuf,
    counts: [u64; 3],
}

impl Frames {
    fn everything(
        &mut self,
        header: &Header,
        entries: impl Iterator<Item = Entry>,
        stop: &AtomicBool,
    ) -> Result<bool, StateError> {
        self.frame(&header.encode())?;
        let mut numbers: HashMap<B256, u32> = HashMap::default();
        let mut frame = Vec::with_capacity(FRAME + 1024);
        for entry in entries {
            self.entry(&entry, &mut numbers, &mut frame);
            if frame.len() >= FRAME {
                self.frame(&frame)?;
                frame.clear();
                if stop.load(Ordering::Relaxed) {
                    return Ok(false);
                }
            }
        }
        frame.push(END);
        frame.extend(self.counts.iter().flat_map(|count| count.to_le_bytes()));
        self.frame(&frame)?;
        Ok(true)
    }

    fn entry(&mut self, entry: &Entry, numbers: &mut HashMap<B256, u32>, out: &mut Vec<u8>) {
        match entry {
            Entry::Code { hash, code } => {
                let number = numbers.len() as u32 + 1;
                numbers.insert(*hash, number);
                self.counts[0] += 1;
                out.push(CODE);
                out.extend_from_slice(&(code.len() as u32).to_le_bytes());
                out.extend_from_slice(code);
            }
            Entry::Account { address, account } => {
                self.counts[1] += 1;
                out.push(ACCOUNT);
                out.extend_from_slice(address.as_slice());
                out.extend_from_slice(&account.nonce.to_le_bytes());
                out.extend_from_slice(&account.balance.to_le_bytes::<32>());
                // Codes were listed first; an account's code is among them, or there is none.
                let number = numbers.get(&account.code_hash).copied().unwrap_or(0);
                out.extend_from_slice(&number.to_le_bytes());
            }
            Entry::Storage { address, slot, value } => {
                self.counts[2] += 1;
                out.push(STORAGE);
                out.extend_from_slice(address.as_slice());
                out.extend_from_slice(&slot.to_be_bytes::<32>());
                out.extend_from_slice(&value.to_be_bytes::<32>());
            }
        }
    }

    fn frame(&mut self, bytes: &[u8]) -> Result<(), StateError> {
        let mut head = [0; 8];
        head[..4].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
        head[4..].copy_from_slice(&checksum(0, bytes).to_le_bytes());
        let written = self.file.write_all(&head).and_then(|()| self.file.write_all(bytes));
        written.map_err(io("cannot write", &self.path))
    }
}

/// A file being read: its header, then its entries.
pub(crate) struct Checkpoint {
    path: PathBuf,
    file: BufReader<File>,
    /// The state it is of.
    pub(crate) header: Header,
    offset: usize,
    frame: Vec<u8>,
    at: usize,
    codes: Vec<B256>,
    counts: [u64; 3],
    ended: bool,
}

impl Checkpoint {
    /// Opens a file and reads its header.
    pub(crate) fn open(path: &Path) -> Result<Self, StateError> {
        let file = BufReader::new(File::open(path).map_err(io("cannot open", path))?);
        let header = Header { genesis: B256::ZERO, sequence: 0, number: 0, state_root: B256::ZERO, hashes: Vec::new() };
        let (frame, codes) = (Vec::new(), vec![KECCAK256_EMPTY]);
        let path = path.to_path_buf();
        let mut read = Self { path, file, header, offset: 0, frame, at: 0, codes, counts: [0; 3], ended: false };
        read.next_frame()?;
        read.header = Header::decode(&read.frame).ok_or_else(|| damaged(&read.path, 0, "not a state's file"))?;
        read.at = read.frame.len();
        Ok(read)
    }

    fn next_frame(&mut self) -> Result<(), StateError> {
        let from = self.offset;
        let mut head = [0; 8];
        let short = |error: std::io::Error, path: &Path| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => damaged(path, from, "the file ends before its last frame does"),
            _ => io("cannot read", path)(error),
        };
        self.file.read_exact(&mut head).map_err(|error| short(error, &self.path))?;
        let mut take = ByteReader(&head);
        let (len, sum) = (take.u32().unwrap_or(0) as usize, take.u32().unwrap_or(0));
        if len > FRAME_MAX {
            return Err(damaged(&self.path, from, format!("a frame of {len} bytes")));
        }
        self.frame.resize(len, 0);
        self.file.read_exact(&mut self.frame).map_err(|error| short(error, &self.path))?;
        if checksum(0, &self.frame) != sum {
            return Err(damaged(&self.path, from, format!("the checksum of a frame of {len} bytes is wrong")));
        }
        (self.at, self.offset) = (0, from + 8 + len);
        Ok(())
    }

    fn entry(&mut self) -> Result<Option<Entry>, StateError> {
        if self.at == self.frame.len() {
            self.next_frame()?;
        }
        let begin = self.offset - self.frame.len();
        let mut take = ByteReader(&self.frame[self.at..]);
        let entry = decode(&mut take, &self.codes, &self.counts);
        let Some(entry) = entry else {
            return Err(damaged(&self.path, begin + self.at, "no entry of a state begins here"));
        };
        self.at = self.frame.len() - take.0.len();
        match &entry {
            None => return Ok(None),
            Some(Entry::Code { hash, .. }) => {
                self.codes.push(*hash);
                self.counts[0] += 1;
            }
            Some(Entry::Account { .. }) => self.counts[1] += 1,
            Some(Entry::Storage { .. }) => self.counts[2] += 1,
        }
        Ok(entry)
    }
}

/// Decodes the next entry. The inner `None` is the end, if the counts match; the outer one is an error.
fn decode(take: &mut ByteReader<'_>, codes: &[B256], counts: &[u64; 3]) -> Option<Option<Entry>> {
    Some(match take.byte()? {
        CODE => {
            let len = take.u32()? as usize;
            let code = Bytes::copy_from_slice(take.slice(len)?);
            Some(Entry::Code { hash: hearth_crypto::keccak::keccak256(&code).into(), code })
        }
        ACCOUNT => {
            let (address, nonce) = (Address::from(take.array()?), take.u64()?);
            let (balance, code) = (U256::from_le_bytes(take.array::<32>()?), take.u32()?);
            let account = Account { nonce, balance, code_hash: *codes.get(code as usize)? };
            Some(Entry::Account { address, account })
        }
        STORAGE => {
            let address = Address::from(take.array()?);
            let (slot, value) = (U256::from_be_bytes(take.array::<32>()?), U256::from_be_bytes(take.array::<32>()?));
            Some(Entry::Storage { address, slot, value })
        }
        END if [take.u64()?, take.u64()?, take.u64()?] == *counts => None,
        _ => return None,
    })
}

impl Iterator for Checkpoint {
    type Item = Result<Entry, StateError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let entry = self.entry().transpose();
        self.ended = !matches!(entry, Some(Ok(_)));
        entry
    }
}
