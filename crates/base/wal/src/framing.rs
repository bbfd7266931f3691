//! The on-disk format of a log's records, as defined by the log's owner, and the faults that it can detect.

/// The bytes around a record's body. A framing must never change, since files on disk use it.
pub trait Framing {
    /// Bytes before a record's body.
    const HEAD: usize;
    /// Every record begins at a multiple of this many bytes.
    const ALIGN: u64 = 1;
    /// The constant beginning of every head, by which a record is found after damage. Empty if heads share no prefix:
    /// then every offset is tried.
    const MARK: &'static [u8] = b"";

    /// Returns the length of the record whose head, [`Framing::HEAD`] bytes, is at offset `at`: head and padding
    /// included, at least the head.
    ///
    /// # Errors
    /// The bytes are not the head of a record at that offset.
    fn length(&self, head: &[u8], at: u64) -> Result<u64, Fault>;

    /// Checks the record that fills `record` exactly and is at offset `at`. Its length has been read with
    /// [`Framing::length`].
    ///
    /// # Errors
    /// The record is not what was written there.
    fn verify(&self, record: &[u8], at: u64) -> Result<(), Fault>;
}

/// Why bytes at a place are not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Fewer bytes than a head.
    #[error("the record's header is cut off")]
    HeaderCut,
    /// The mark at the beginning of every head is missing.
    #[error("no record begins here")]
    Magic,
    /// A length that no record can have.
    #[error("impossible record length {0}")]
    Length(u32),
    /// The record is longer than the rest of the file.
    #[error("the record is cut off: {length} bytes, {available} are there")]
    Cut {
        /// The record's length in bytes.
        length: u64,
        /// Bytes from the record's start to the end of the file.
        available: u64,
    },
    /// The checksum does not match.
    #[error("checksum mismatch: {stored:08x} is written, {computed:08x} was computed")]
    Checksum {
        /// The checksum in the record's head.
        stored: u32,
        /// The checksum of the bytes found.
        computed: u32,
    },
    /// The checksum is right but the content is not of this format.
    #[error("unknown record kind {0} or malformed body")]
    Body(u32),
}

impl Fault {
    /// The fault of two checksums that differ.
    ///
    /// # Errors
    /// [`Fault::Checksum`] where they do.
    pub fn unless_equal(stored: u32, computed: u32) -> Result<(), Self> {
        if stored == computed { Ok(()) } else { Err(Self::Checksum { stored, computed }) }
    }

    /// Describes the fault without numbers.
    pub fn what(self) -> &'static str {
        match self {
            Self::HeaderCut | Self::Cut { .. } => "the file ends within a record",
            Self::Magic | Self::Length(_) => "no record begins here",
            Self::Checksum { .. } => "a record's checksum is wrong",
            Self::Body(_) => "a record is not of this format",
        }
    }
}

/// Returns the CRC-32 (IEEE) of `parts`, one behind the other.
pub fn crc(parts: &[&[u8]]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    parts.iter().for_each(|part| hasher.update(part));
    hasher.finalize()
}
