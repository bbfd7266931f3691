//! The log: one record per block that changed this ledger, append-only.
//!
//! ```text
//! file    magic 8 | chain id u64 | crc u32, then records
//! record  length u32 | crc of offset and length u32 | crc of the body u32 | body, as [`frames`] has them
//! body    number u64 | block hash 32 | commitment in the header 32 | commitment afterwards 32
//!         | transactions | what came from the EVM
//! ```
//!
//! An incomplete record at the end is one that a killed process was writing, or that a power loss truncated: the log
//! ends before it, and the chain decides whether that is far enough. An invalid record before one that was synced is
//! damage, and the ledger does not open. The head is on disk before the first record is written. Numbers are little
//! endian, checksums CRC-32.
//!
//! memory  one record

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use alloy_primitives::{Address, B256, Bytes};
use hearth_wal::frames::{self, Frame, HEAD};
use hearth_wal::store_file::{self, OpenMode, StoreFile};
use hearth_wal::{Appender, Disk, Fault, Memory, Source, Step, Walk, crc, files, is_blank, read_record, write_all};

use super::LedgerError;
use crate::address::OwnerKey;
use crate::asset::at_end;
use crate::codec::{Reader, Writer};
use crate::prism::Incoming;

const MAGIC: &[u8; 8] = b"HRTHUTX1";
const FILE_HEAD: u64 = 8 + 8 + 4;

/// A block's effect on this ledger.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Height of the block.
    pub number: u64,
    /// Hash of the block.
    pub hash: B256,
    /// The set's commitment in the block's header.
    pub header: B256,
    /// The set's commitment after the block.
    pub after: B256,
    /// Transactions of this ledger, as they came.
    pub txs: Vec<Bytes>,
    /// Transfers from the EVM in this block.
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

/// The log. A clone is the same one, to be read or appended to without whatever guards this one; once something was
/// appended, it takes the other's place.
#[derive(Clone)]
pub struct Log {
    /// `None` for a log in memory.
    path: Option<PathBuf>,
    source: Arc<dyn Source>,
    /// The place of the next record.
    end: Appender,
    chain_id: u64,
    /// Whether the file has its head. A new file gets its head with its first record: until then a truncated file stays
    /// as it is.
    begun: bool,
}

impl Log {
    /// Opens the log of that name, or creates it; `None` keeps it in memory. Read all records with [`Log::next`] before
    /// writing any: only then is the end known.
    pub fn open(path: Option<&Path>, chain_id: u64) -> Result<Self, LedgerError> {
        let Some(path) = path else {
            let memory = Arc::new(Memory::default());
            return Ok(Self::over(memory.clone(), memory, None, chain_id, false));
        };
        let said = |error| LedgerError::Io(path.to_owned(), error);
        let file = StoreFile::open(path, OpenMode::Any).map_err(said)?;
        let mut found = [0; FILE_HEAD as usize];
        let length = Source::read(&**file.file(), &mut found, 0).map_err(said)?;
        // Shorter than its head, or zeros alone, is one that was never begun in earnest.
        let begun = length == found.len() && !is_blank(&**file.file()).map_err(said)?;
        if !begun {
            // The name itself lasts, too.
            files::sync_dir(path.parent().unwrap_or(Path::new("."))).map_err(said)?;
        } else if found != file_head(chain_id) {
            let what = match found[..8] == *MAGIC && crc(&[&found[..16]]) == le(&found[16..]) {
                true => "it is of another chain",
                false => "it is not a log of this ledger",
            };
            return Err(LedgerError::Corrupt { path: path.to_owned(), offset: 0, what });
        }
        Ok(Self::over(file.file().clone(), file.disk().clone(), Some(path.to_owned()), chain_id, begun))
    }

    fn over(source: Arc<dyn Source>, disk: Arc<dyn Disk>, path: Option<PathBuf>, chain_id: u64, begun: bool) -> Self {
        let mut end = Appender::new(disk, FILE_HEAD);
        end.move_to(FILE_HEAD);
        Self { path, source, end, chain_id, begun }
    }

    /// Returns the next record and its offset; `None` at the end. Records of blocks up to `synced` were on disk: an
    /// invalid record before one of these is damage rather than a torn tail.
    pub fn next(&mut self, synced: u64) -> Result<Option<(u64, Record)>, LedgerError> {
        let (offset, mut buffer) = (self.end.end(), Vec::new());
        let read = read_record(&*self.source, Frame, offset, &mut buffer).map_err(|error| self.failed(error))?;
        let decoded = read.and_then(|bytes| {
            let record = Record::decode(&bytes[HEAD..]).ok_or(Fault::Body(0))?;
            Ok((offset + bytes.len() as u64, record))
        });
        match decoded {
            Ok((end, record)) => {
                self.end.move_to(end);
                Ok(Some((offset, record)))
            }
            Err(Fault::HeaderCut | Fault::Cut { .. }) => Ok(None),
            Err(fault) => match self.next_whole(offset)? {
                Some(number) if number <= synced => Err(self.corrupt(offset, fault.what())),
                _ => Ok(None),
            },
        }
    }

    /// Returns the block of the first whole record that begins anywhere after `offset`.
    fn next_whole(&self, offset: u64) -> Result<Option<u64>, LedgerError> {
        let mut walk = Walk::new(&*self.source, Frame, offset, self.length()?);
        loop {
            match walk.step().map_err(|error| self.failed(error))? {
                Step::Record { bytes, at, .. } if at > offset => {
                    let number = bytes[HEAD..].first_chunk();
                    if let Some(number) = number {
                        return Ok(Some(u64::from_le_bytes(*number)));
                    }
                }
                Step::End => return Ok(None),
                _ => {}
            }
        }
    }

    /// Reads the record at a known offset.
    pub fn read(&self, offset: u64) -> Result<Record, LedgerError> {
        let mut buffer = Vec::new();
        let read = read_record(&*self.source, Frame, offset, &mut buffer).map_err(|error| self.failed(error))?;
        let bytes = read.map_err(|fault| self.corrupt(offset, fault.what()))?;
        Record::decode(&bytes[HEAD..]).ok_or_else(|| self.corrupt(offset, Fault::Body(0).what()))
    }

    /// Appends a record and returns its offset. Anything beyond the last record is truncated.
    pub fn append(&mut self, record: &Record) -> Result<u64, LedgerError> {
        let (body, offset) = (record.encode(), self.end.end());
        let mut bytes = Vec::with_capacity(HEAD + body.len());
        frames::push(&mut bytes, offset, &[&body]);
        if !self.begun {
            let head = file_head(self.chain_id);
            let written = write_all(&**self.end.disk(), &mut [IoSlice::new(&head)], 0);
            // A record that outlives the head at the machine's end would be one in a file that is no log.
            let written = written.and_then(|()| self.end.disk().sync());
            written.map_err(|error| self.failed(error))?;
        }
        let appended = self.end.append(&mut [IoSlice::new(&bytes)]);
        appended.map_err(|error| self.failed(error))?;
        self.begun = true;
        Ok(offset)
    }

    /// Cuts off the record at `offset` and all after it.
    pub fn truncate(&mut self, offset: u64) -> Result<(), LedgerError> {
        if self.length()? > offset {
            let cut = self.end.cut(offset);
            cut.map_err(|error| self.failed(error))?;
        }
        self.end.move_to(offset);
        Ok(())
    }

    /// Begins to read from the first record again.
    pub fn restart(&mut self) {
        self.end.move_to(FILE_HEAD);
    }

    /// Returns a function that syncs everything written so far, while the log stays in use.
    pub fn syncer(&self) -> impl FnOnce() -> Result<(), LedgerError> + use<> {
        let (disk, path) = (self.end.disk().clone(), self.path());
        move || disk.sync().map_err(|error| LedgerError::Io(path, error))
    }

    fn path(&self) -> PathBuf {
        self.path.clone().unwrap_or_else(|| "memory".into())
    }

    /// Returns the offset of the next record, in bytes.
    pub fn end(&self) -> u64 {
        self.end.end()
    }

    /// Returns the error that it ends before the chain does.
    pub fn behind(&self) -> LedgerError {
        LedgerError::Behind { path: self.path(), offset: self.end() }
    }

    /// Takes the file away.
    pub fn remove(self) -> Result<(), LedgerError> {
        let Some(path) = self.path else { return Ok(()) };
        store_file::remove(&path).map_err(|error| LedgerError::Io(path, error))
    }

    /// Returns an error for damaged contents at `offset`.
    pub fn corrupt(&self, offset: u64, what: &'static str) -> LedgerError {
        LedgerError::Corrupt { path: self.path(), offset, what }
    }

    fn failed(&self, error: io::Error) -> LedgerError {
        LedgerError::Io(self.path(), error)
    }

    fn length(&self) -> Result<u64, LedgerError> {
        self.source.length().map_err(|error| self.failed(error))
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

/// The first four bytes as a number.
fn le(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(*bytes.first_chunk().expect("four bytes"))
}
