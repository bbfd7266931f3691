//! The log: a record for each block that changed this ledger, appended and never changed.
//!
//! ```text
//! file    magic 8 | chain id u64 | crc u32, then records
//! record  length u32 | crc of offset and length u32 | crc of the body u32 | body
//! body    number u64 | block hash 32 | commitment in the header 32 | commitment afterwards 32
//!         | transactions | what came from the EVM
//! ```
//!
//! What the log ends with and is no record is one that a killed process was writing, or what the machine's end left of
//! some: the log ends before it, and the chain says whether that is far enough. Before a record that was on disk it is
//! damage, and the ledger does not open. Numbers are little endian, checksums CRC-32.
//!
//! memory  one record

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use alloy_primitives::{Address, B256, Bytes};

use super::LedgerError;
use crate::address::OwnerKey;
use crate::asset::at_end;
use crate::codec::{Reader, Writer};
use crate::prism::Incoming;

const MAGIC: &[u8; 8] = b"HRTHUTX1";
const FILE_HEAD: u64 = 8 + 8 + 4;
const RECORD_HEAD: u64 = 12;
/// Longer than any block's record: 4 MiB of transactions, and logs of the EVM that cost 3,000 gas each.
const RECORD_MAX: u32 = 1 << 30;

/// What a block did here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// The block's number.
    pub number: u64,
    /// The block's hash.
    pub hash: B256,
    /// What stands for the set in its header.
    pub header: B256,
    /// What stands for the set after it.
    pub after: B256,
    /// Transactions of this ledger, as they came.
    pub txs: Vec<Bytes>,
    /// What the EVM's transactions brought.
    pub incoming: Vec<Incoming>,
}

impl Record {
    fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.fixed(&self.number.to_le_bytes()).fixed(&self.hash.0).fixed(&self.header.0).fixed(&self.after.0);
        writer.count(self.txs.len());
        for tx in &self.txs {
            writer.bytes(tx);
        }
        writer.count(self.incoming.len());
        for one in &self.incoming {
            writer.fixed(&one.transaction.0).fixed(&one.log.to_le_bytes()).fixed(&one.sender.0.0);
            writer.fixed(&one.owner.0).fixed(&one.amount.to_le_bytes());
        }
        writer.done()
    }

    fn decode(body: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(body);
        let number = reader.u64()?;
        let mut word = || reader.fixed().map(B256::new);
        let (hash, header, after) = (word()?, word()?, word()?);
        // Counts are not believed: memory is taken as items come.
        let mut txs = Vec::new();
        for _ in 0..reader.u32()? {
            txs.push(Bytes::copy_from_slice(reader.bytes()?));
        }
        let mut incoming = Vec::new();
        for _ in 0..reader.u32()? {
            incoming.push(Incoming {
                transaction: B256::new(reader.fixed()?),
                log: reader.u32()?,
                sender: Address::new(reader.fixed()?),
                owner: OwnerKey(reader.fixed()?),
                amount: reader.u64()?,
            });
        }
        at_end(&reader).then_some(Self { number, hash, header, after, txs, incoming })
    }
}

/// Where the bytes are.
enum Medium {
    Memory(Vec<u8>),
    File(Arc<File>, PathBuf),
}

/// The log.
pub struct Log {
    medium: Medium,
    chain_id: u64,
    /// Where the next record goes.
    end: u64,
    /// Whether the file has its head. One that has none gets it with its first record: until then a file that was cut
    /// stays what it is.
    begun: bool,
}

impl Log {
    /// The log of that name, a new one where there is none; `None` keeps it in memory. Records are to be read with
    /// [`Log::read`] before any is written: where they end is not known before.
    pub fn open(path: Option<&Path>, chain_id: u64) -> Result<Self, LedgerError> {
        let head = file_head(chain_id);
        let mut begun = true;
        let medium = match path.map(Path::to_path_buf) {
            None => Medium::Memory(head.to_vec()),
            Some(path) => {
                let said = |error| LedgerError::Io(path.clone(), error);
                let mut options = OpenOptions::new();
                let file = options.read(true).write(true).create(true).truncate(false).open(&path).map_err(said)?;
                let length = file.metadata().map_err(said)?.len();
                let mut found = [0; FILE_HEAD as usize];
                // Shorter than its head, or zeros alone, is one that was never begun in earnest.
                if length < FILE_HEAD || is_zero(&file).map_err(said)? {
                    begun = false;
                    // The name itself lasts, too.
                    let dir = path.parent().unwrap_or(Path::new("."));
                    File::open(dir).and_then(|dir| dir.sync_all()).map_err(said)?;
                } else {
                    file.read_exact_at(&mut found, 0).map_err(said)?;
                    if found != head {
                        let what = match found[..8] == *MAGIC && crc(&[&found[..16]]) == le(&found[16..]) {
                            true => "it is of another chain",
                            false => "it is no log of this ledger",
                        };
                        return Err(LedgerError::Corrupt { path, offset: 0, what });
                    }
                }
                Medium::File(Arc::new(file), path)
            }
        };
        Ok(Self { medium, chain_id, end: FILE_HEAD, begun })
    }

    /// The record at the end of those read so far, and its place; `None` where there is none. Records of blocks up to
    /// `synced` were on disk: what is no record before one of these is damage, and no torn tail.
    pub fn next(&mut self, synced: u64) -> Result<Option<(u64, Record)>, LedgerError> {
        let (length, offset) = (self.length()?, self.end);
        if length < offset + RECORD_HEAD {
            return Ok(None);
        }
        let read = self.size(offset).and_then(|size| match length < offset + RECORD_HEAD + u64::from(size) {
            true => Ok(None),
            false => Ok(Some((u64::from(size), self.read(offset)?))),
        });
        match read {
            Ok(Some((size, record))) => {
                self.end = offset + RECORD_HEAD + size;
                Ok(Some((offset, record)))
            }
            Err(LedgerError::Corrupt { .. })
                if self.next_whole(offset, length)?.is_none_or(|number| number > synced) =>
            {
                Ok(None)
            }
            read => read.map(|_| None),
        }
    }

    /// The block of the first whole record that begins somewhere after `offset`.
    fn next_whole(&self, offset: u64, length: u64) -> Result<Option<u64>, LedgerError> {
        let mut rest = vec![0; usize::try_from(length - offset).expect("a log fits into the memory")];
        self.fill(&mut rest, offset)?;
        let whole = |at: usize| {
            let (head, body) = rest[at..].split_at_checked(RECORD_HEAD as usize)?;
            let checked = crc(&[&(offset + at as u64).to_le_bytes(), &head[..4]]) == le(&head[4..8]);
            let body = body.get(..le(head) as usize).filter(|_| checked)?;
            let number = u64::from_le_bytes(*body.first_chunk()?);
            (crc(&[body]) == le(&head[8..])).then_some(number)
        };
        Ok((1..rest.len()).find_map(whole))
    }

    /// The record at `offset`, which a reader was told.
    pub fn read(&self, offset: u64) -> Result<Record, LedgerError> {
        let size = self.size(offset)?;
        let mut body = vec![0; size as usize];
        self.fill(&mut body, offset + RECORD_HEAD)?;
        let mut written = [0; 4];
        self.fill(&mut written, offset + 8)?;
        if crc(&[&body]) != u32::from_le_bytes(written) {
            return Err(self.corrupt(offset, "a record does not match its checksum"));
        }
        Record::decode(&body).ok_or_else(|| self.corrupt(offset, "a record is not of this format"))
    }

    /// The same log, to be read or appended to without whatever guards this one; `None` where it lies in memory.
    pub fn reader(&self) -> Option<Self> {
        match &self.medium {
            Medium::Memory(_) => None,
            Medium::File(file, path) => {
                let (medium, end, begun) = (Medium::File(file.clone(), path.clone()), self.end, self.begun);
                Some(Self { medium, chain_id: self.chain_id, end, begun })
            }
        }
    }

    /// The length of the record at `offset`.
    fn size(&self, offset: u64) -> Result<u32, LedgerError> {
        let mut head = [0; 8];
        self.fill(&mut head, offset)?;
        let size = le(&head);
        if crc(&[&offset.to_le_bytes(), &head[..4]]) != le(&head[4..]) || size > RECORD_MAX {
            return Err(self.corrupt(offset, "a record's head does not match its checksum"));
        }
        Ok(size)
    }

    /// Appends a record and says where it is. Whatever lay beyond the last is cut off.
    pub fn append(&mut self, record: &Record) -> Result<u64, LedgerError> {
        let body = record.encode();
        let offset = self.end;
        let size = u32::try_from(body.len()).expect("a block is smaller than 4 GiB").to_le_bytes();
        let mut bytes = Vec::with_capacity(body.len() + RECORD_HEAD as usize);
        bytes.extend(size);
        bytes.extend(crc(&[&offset.to_le_bytes(), &size]).to_le_bytes());
        bytes.extend(crc(&[&body]).to_le_bytes());
        bytes.extend(body);
        self.truncate(offset)?;
        match &mut self.medium {
            Medium::Memory(all) => all.extend(&bytes),
            Medium::File(file, path) => {
                let said = |error| LedgerError::Io(path.clone(), error);
                if !self.begun {
                    file.write_all_at(&file_head(self.chain_id), 0).map_err(said)?;
                }
                file.write_all_at(&bytes, offset).map_err(said)?;
            }
        }
        self.begun = true;
        self.end = offset + bytes.len() as u64;
        Ok(offset)
    }

    /// Goes on after what was appended to `other`, which is the same log.
    pub fn go_on_after(&mut self, other: &Self) {
        self.end = other.end;
        self.begun = other.begun;
    }

    /// Cuts off the record at `offset` and all after it.
    pub fn truncate(&mut self, offset: u64) -> Result<(), LedgerError> {
        if self.length()? > offset {
            match &mut self.medium {
                Medium::Memory(all) => all.truncate(usize::try_from(offset).expect("it is in memory")),
                Medium::File(file, path) => {
                    file.set_len(offset).map_err(|error| LedgerError::Io(path.clone(), error))?;
                }
            }
        }
        self.end = offset;
        Ok(())
    }

    /// Begins to read from the first record again.
    pub fn restart(&mut self) {
        self.end = FILE_HEAD;
    }

    /// What puts everything written so far on the disk for good, while the log goes on.
    pub fn syncer(&self) -> impl FnOnce() -> Result<(), LedgerError> + use<> {
        let file = match &self.medium {
            Medium::Memory(_) => None,
            Medium::File(file, path) => Some((file.clone(), path.clone())),
        };
        move || file.map_or(Ok(()), |(file, path)| file.sync_data().map_err(|error| LedgerError::Io(path, error)))
    }

    fn path(&self) -> PathBuf {
        match &self.medium {
            Medium::Memory(_) => "memory".into(),
            Medium::File(_, path) => path.clone(),
        }
    }

    /// Where the next record goes.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// That it ends before the chain does.
    pub fn behind(&self) -> LedgerError {
        LedgerError::Behind { path: self.path(), offset: self.end }
    }

    /// Takes the file away.
    pub fn remove(self) -> Result<(), LedgerError> {
        match self.medium {
            Medium::Memory(_) => Ok(()),
            Medium::File(_, path) => std::fs::remove_file(&path).map_err(|error| LedgerError::Io(path, error)),
        }
    }

    /// That what is at `offset` is not what it must be.
    pub fn corrupt(&self, offset: u64, what: &'static str) -> LedgerError {
        LedgerError::Corrupt { path: self.path(), offset, what }
    }

    fn length(&self) -> Result<u64, LedgerError> {
        match &self.medium {
            Medium::Memory(all) => Ok(all.len() as u64),
            Medium::File(file, path) => {
                file.metadata().map(|meta| meta.len()).map_err(|error| LedgerError::Io(path.clone(), error))
            }
        }
    }

    fn fill(&self, into: &mut [u8], offset: u64) -> Result<(), LedgerError> {
        match &self.medium {
            Medium::Memory(all) => {
                let from = usize::try_from(offset).expect("it is in memory");
                into.copy_from_slice(&all[from..from + into.len()]);
                Ok(())
            }
            Medium::File(file, path) => {
                file.read_exact_at(into, offset).map_err(|error| LedgerError::Io(path.clone(), error))
            }
        }
    }
}

fn is_zero(file: &File) -> std::io::Result<bool> {
    let (mut chunk, mut offset) = (vec![0; 1 << 16], 0);
    loop {
        match file.read_at(&mut chunk, offset)? {
            0 => return Ok(true),
            bytes if chunk[..bytes].iter().any(|byte| *byte != 0) => return Ok(false),
            bytes => offset += bytes as u64,
        }
    }
}

fn file_head(chain_id: u64) -> [u8; FILE_HEAD as usize] {
    let mut head = [0; FILE_HEAD as usize];
    head[..8].copy_from_slice(MAGIC);
    head[8..16].copy_from_slice(&chain_id.to_le_bytes());
    let crc = crc(&[&head[..16]]);
    head[16..].copy_from_slice(&crc.to_le_bytes());
    head
}

pub(super) fn crc(parts: &[&[u8]]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    parts.iter().for_each(|part| hasher.update(part));
    hasher.finalize()
}

/// The first four bytes as a number.
fn le(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(*bytes.first_chunk().expect("four bytes"))
}
