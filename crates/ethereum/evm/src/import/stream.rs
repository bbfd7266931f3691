//! Reads a file of blocks, block by block.
//!
//! reads   RLP items, one after the other
//! writes  the bytes of each, with their offset
//! memory  one block, of at most [`BLOCK_BYTES_MAX`] bytes: memory is allocated as bytes arrive, not as a head promises
//! drops   nothing: truncated or too long input is an error with its offset

use std::io::{self, Read};

use super::rlp::{HEAD_MAX, head};
use super::{GivenBlock, InvalidBlock, RlpFault, decode_block};

/// The most bytes of a block. From Osaka on the rules let it have an eighth of this; before, gas bounds it: four per
/// byte of data, so that this is a block of 256 million gas.
pub const BLOCK_BYTES_MAX: u64 = 64 << 20;

/// Why there is no next block.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The system does not read.
    #[error("byte {offset}: cannot read: {source}")]
    Io {
        /// How far it was read.
        offset: u64,
        /// Why it failed, as the operating system says it.
        source: io::Error,
    },
    /// The bytes are no block.
    #[error(transparent)]
    Block(#[from] InvalidBlock),
}

/// The blocks of a file, in order. Behind an error there is nothing more.
pub struct BlockReader<R> {
    source: R,
    /// Bytes read from `source` so far.
    offset: u64,
    /// The bytes of the item that is being read.
    bytes: Vec<u8>,
    is_over: bool,
}

impl<R: Read> BlockReader<R> {
    /// Reads the blocks in `source`, with small reads: give one with a buffer.
    pub fn new(source: R) -> Self {
        Self { source, offset: 0, bytes: Vec::new(), is_over: false }
    }

    /// How many bytes have been read.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Bytes for which there is room.
    #[cfg(test)]
    pub(super) fn bytes_held(&self) -> usize {
        self.bytes.capacity()
    }

    /// Reads until there are `length` bytes of the item; whether there are.
    fn fill(&mut self, length: u64) -> Result<bool, ReadError> {
        let missing = length - self.bytes.len() as u64;
        let read = self.source.by_ref().take(missing).read_to_end(&mut self.bytes);
        let read = read.map_err(|source| ReadError::Io { offset: self.offset, source })?;
        self.offset += read as u64;
        Ok(self.bytes.len() as u64 == length)
    }

    fn read(&mut self) -> Result<Option<GivenBlock>, ReadError> {
        let at = self.offset;
        self.bytes.clear();
        let fault = |what: String| ReadError::Block(RlpFault::new(at, what).into());
        let head = loop {
            match head(&self.bytes).map_err(|what| fault(what.into()))? {
                Some(head) => break head,
                None if self.bytes.len() == HEAD_MAX => return Err(fault("it is not an RLP head".into())),
                None if self.fill(self.bytes.len() as u64 + 1)? => {}
                None if self.bytes.is_empty() => return Ok(None),
                None => return Err(fault("the file ends within a block".into())),
            }
        };
        if !head.is_list {
            return Err(fault("expected a list: a block is one".into()));
        }
        let length = head.length as u64;
        let length = head.payload.checked_add(length).filter(|length| *length <= BLOCK_BYTES_MAX);
        let too_long = || fault(format!("a block of {} bytes, more than {BLOCK_BYTES_MAX}", head.payload));
        if !self.fill(length.ok_or_else(too_long)?)? {
            let (is, wanted) = (self.bytes.len(), head.length as u64 + head.payload);
            return Err(fault(format!("the file ends within a block: it has {is} bytes of {wanted}")));
        }
        Ok(Some(decode_block(&self.bytes, at)?))
    }
}

impl<R: Read> Iterator for BlockReader<R> {
    type Item = Result<GivenBlock, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let next = self.read().transpose();
        self.is_over = !matches!(next, Some(Ok(_)));
        next
    }
}
