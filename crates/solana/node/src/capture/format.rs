//! The file of a session's packets.
//!
//! reads   the bytes of such a file
//! writes  the same, chunk by chunk
//! memory  a chunk of [`CHUNK_BYTES`] while it is written; a whole session while it is read
//! drops   nothing: a file that is cut, changed, or lies about a length is refused, and the error says where
//! source  our own format
//!
//! ```text
//! file    "HEARTHSN" | version u32 | chunk*
//! chunk   compressed bytes u32 | bytes u32 | SHA-256 of both lengths and the compressed bytes 32 | zstd
//! bytes   record*: the header first, the end last
//! record  0 header   seed 32, clock's zero in Unix ns u64, IPv4 4, identity 32, has a vote account u8, it 32,
//!                    genesis hash 32, shred version u16, shreds of a slot u32, count u32, (IPv4 4, port u16)*
//!         1 packet   at u64, source u8, address 18, length u32, bytes
//!         2 parity   at u64, source u8, address 18, slot u64, set index u32, position u8, length u32, bytes
//!         3 rooted   slot u64, bank hash 32
//!         4 end      at u64, dropped packets u64
//! address IPv6 16, of IPv4 the mapped one | port u16
//! ```
//!
//! All integers are little endian. A record does not cross the end of a chunk, so a chunk is whole by itself.

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4};

use hearth_crypto::sha256::sha256;
use hearth_pipeline::capture::{CapturedPacket, PacketSource};
use hearth_wire::{Hash, Pubkey};

/// First bytes of the file.
const MAGIC: [u8; 8] = *b"HEARTHSN";
/// The version of the format.
pub const VERSION: u32 = 1;
/// A chunk is written once it has so many bytes.
const CHUNK_BYTES: usize = 2 << 20;
/// Maximum bytes of a chunk, compressed or not.
const CHUNK_BYTES_MAX: usize = 2 * CHUNK_BYTES;
/// Maximum bytes of a packet.
const PACKET_BYTES_MAX: usize = u16::MAX as usize;
const _: () = assert!(PACKET_BYTES_MAX + 1_024 < CHUNK_BYTES_MAX - CHUNK_BYTES);

/// Why bytes are not a session, and at which byte of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// The first bytes are those of another file.
    #[error("not a recorded session")]
    Magic,
    /// The version is another.
    #[error("a session of version {0}; this program reads version {VERSION}")]
    Version(u32),
    /// The file ends within a chunk.
    #[error("the file ends within the chunk at byte {0}")]
    Cut(usize),
    /// A chunk has another checksum than the file says.
    #[error("the chunk at byte {0} does not have its checksum")]
    Checksum(usize),
    /// A chunk has another length than it says, or too great a one.
    #[error("the chunk at byte {0} does not have the length that it says")]
    Length(usize),
    /// A record is not of a known form, or not where it may be.
    #[error("the chunk at byte {0} has a record that is none")]
    Record(usize),
    /// The last chunk does not have the record of the end: the node was killed, or the disk was full.
    #[error("the session has no end: the node was killed, or its disk was full")]
    NoEnd,
    /// A parity shred was left out, and the data shreds of its set do not give it.
    #[error("the parity of slot {slot}, set {set_index} cannot be made again")]
    Parity {
        /// The slot.
        slot: u64,
        /// The index of the set.
        set_index: u32,
    },
}

/// What the node was, when it began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionHeader {
    /// Draws the secrets of its tiles.
    pub seed: [u8; 32],
    /// Unix time at which its clock was zero, nanoseconds.
    pub unix_ns: u64,
    /// The address of its ports.
    pub ip: Ipv4Addr,
    /// Its identity.
    pub identity: Pubkey,
    /// The account that it votes with, if it votes. Its identity signs the votes.
    pub vote_account: Option<Pubkey>,
    /// The hash of its chain's genesis.
    pub genesis: Hash,
    /// The shred version of its chain.
    pub shred_version: u16,
    /// Maximum data shreds of a slot, as configured.
    pub shreds_per_slot_max: u32,
    /// Where it began to gossip.
    pub entrypoints: Vec<SocketAddrV4>,
}

/// A parity shred that is left out, since the data shreds of its set give it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOutParity {
    /// As [`CapturedPacket::at_ns`].
    pub at_ns: u64,
    /// Where it came from.
    pub source: PacketSource,
    /// The sender's address.
    pub from: SocketAddr,
    /// The slot.
    pub slot: u64,
    /// The index of the set's first data shred.
    pub set_index: u32,
    /// Its index among the set's parity shreds, below 32.
    pub position: u8,
    /// Its bytes behind the Merkle proof: the retransmitter's signature, if it has room for one.
    pub rest: Vec<u8>,
}

/// Something that happened in a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionEvent {
    /// A packet was received, or an own shred made.
    Packet(CapturedPacket),
    /// The same, of a parity shred that can be made again.
    Parity(LeftOutParity),
    /// The node has rooted a block. Packets that came later stand behind.
    Rooted {
        /// Its slot.
        slot: u64,
        /// The hash of its bank.
        bank_hash: Hash,
    },
}

/// A session in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// What the node was.
    pub header: SessionHeader,
    /// What happened, in order.
    pub events: Vec<SessionEvent>,
    /// When it ended, on the node's clock, nanoseconds.
    pub end_ns: u64,
    /// Packets that were received and are not there.
    pub dropped: u64,
}

/// Writes a session.
pub struct SessionWriter<W: Write> {
    to: W,
    level: i32,
    chunk: Vec<u8>,
    /// Bytes of all records, before compression.
    bytes: u64,
}

impl<W: Write> SessionWriter<W> {
    /// Begins a session; `level` is zstd's.
    ///
    /// # Errors
    /// The system's.
    pub fn new(mut to: W, header: &SessionHeader, level: i32) -> io::Result<Self> {
        to.write_all(&MAGIC)?;
        to.write_all(&VERSION.to_le_bytes())?;
        let mut chunk = Vec::with_capacity(CHUNK_BYTES_MAX);
        put_header(&mut chunk, header);
        Ok(Self { to, level, bytes: chunk.len() as u64, chunk })
    }

    /// Adds an event.
    ///
    /// # Errors
    /// The system's.
    ///
    /// # Panics
    /// A packet is longer than UDP's longest.
    pub fn add(&mut self, event: &SessionEvent) -> io::Result<()> {
        let before = self.chunk.len();
        put_event(&mut self.chunk, event);
        self.bytes += (self.chunk.len() - before) as u64;
        if self.chunk.len() < CHUNK_BYTES { Ok(()) } else { self.write_chunk() }
    }

    /// Bytes of all that was added, before compression.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Ends the session; returns what it was written to.
    ///
    /// # Errors
    /// The system's.
    pub fn end(mut self, end_ns: u64, dropped: u64) -> io::Result<W> {
        self.chunk.push(4);
        self.chunk.extend_from_slice(&end_ns.to_le_bytes());
        self.chunk.extend_from_slice(&dropped.to_le_bytes());
        self.write_chunk()?;
        self.to.flush()?;
        Ok(self.to)
    }

    fn write_chunk(&mut self) -> io::Result<()> {
        let packed = zstd::bulk::compress(&self.chunk, self.level)?;
        let packed_bytes = (packed.len() as u32).to_le_bytes();
        let bytes = (self.chunk.len() as u32).to_le_bytes();
        let checksum = sha256(&[&packed_bytes, &bytes, &packed]);
        for part in [&packed_bytes[..], &bytes[..], &checksum[..], &packed[..]] {
            self.to.write_all(part)?;
        }
        self.chunk.clear();
        Ok(())
    }
}

fn put_header(to: &mut Vec<u8>, header: &SessionHeader) {
    to.push(0);
    to.extend_from_slice(&header.seed);
    to.extend_from_slice(&header.unix_ns.to_le_bytes());
    to.extend_from_slice(&header.ip.octets());
    to.extend_from_slice(&header.identity);
    to.push(u8::from(header.vote_account.is_some()));
    to.extend_from_slice(&header.vote_account.unwrap_or_default());
    to.extend_from_slice(&header.genesis);
    to.extend_from_slice(&header.shred_version.to_le_bytes());
    to.extend_from_slice(&header.shreds_per_slot_max.to_le_bytes());
    to.extend_from_slice(&(header.entrypoints.len() as u32).to_le_bytes());
    for entrypoint in &header.entrypoints {
        to.extend_from_slice(&entrypoint.ip().octets());
        to.extend_from_slice(&entrypoint.port().to_le_bytes());
    }
}

fn put_event(to: &mut Vec<u8>, event: &SessionEvent) {
    match event {
        SessionEvent::Packet(packet) => {
            to.push(1);
            put_arrival(to, packet.at_ns, packet.source, packet.from);
            put_bytes(to, &packet.data);
        }
        SessionEvent::Parity(parity) => {
            to.push(2);
            put_arrival(to, parity.at_ns, parity.source, parity.from);
            to.extend_from_slice(&parity.slot.to_le_bytes());
            to.extend_from_slice(&parity.set_index.to_le_bytes());
            to.push(parity.position);
            put_bytes(to, &parity.rest);
        }
        SessionEvent::Rooted { slot, bank_hash } => {
            to.push(3);
            to.extend_from_slice(&slot.to_le_bytes());
            to.extend_from_slice(bank_hash);
        }
    }
}

fn put_arrival(to: &mut Vec<u8>, at_ns: u64, source: PacketSource, from: SocketAddr) {
    to.extend_from_slice(&at_ns.to_le_bytes());
    to.push(source as u8);
    let ip = match from.ip() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    };
    to.extend_from_slice(&ip.octets());
    to.extend_from_slice(&from.port().to_le_bytes());
}

fn put_bytes(to: &mut Vec<u8>, bytes: &[u8]) {
    assert!(bytes.len() <= PACKET_BYTES_MAX, "no datagram is as long");
    to.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    to.extend_from_slice(bytes);
}

/// The rest of some bytes. Each read is `None` if there are too few.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (first, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(first)
    }

    fn bytes(&mut self) -> Option<Vec<u8>> {
        let count = self.u32()? as usize;
        self.take(count.min(PACKET_BYTES_MAX + 1)).filter(|_| count <= PACKET_BYTES_MAX).map(<[u8]>::to_vec)
    }

    fn arrival(&mut self) -> Option<(u64, PacketSource, SocketAddr)> {
        let at_ns = self.u64()?;
        let source = *PacketSource::ALL.get(usize::from(self.u8()?))?;
        let ip = Ipv6Addr::from(self.array::<16>()?).to_canonical();
        Some((at_ns, source, SocketAddr::new(ip, self.u16()?)))
    }

    /// The header, behind the number of its record.
    fn header(&mut self) -> Option<SessionHeader> {
        let seed = self.array()?;
        let unix_ns = self.u64()?;
        let ip = Ipv4Addr::from(self.array::<4>()?);
        let identity = self.array()?;
        let votes = self.u8()? != 0;
        let vote_account = Some(self.array()?).filter(|_| votes);
        let genesis = self.array()?;
        let shred_version = self.u16()?;
        let shreds_per_slot_max = self.u32()?;
        let mut entrypoints = vec![];
        for _ in 0..self.u32()? {
            let ip = Ipv4Addr::from(self.array::<4>()?);
            entrypoints.push(SocketAddrV4::new(ip, self.u16()?));
        }
        Some(SessionHeader {
            seed,
            unix_ns,
            ip,
            identity,
            vote_account,
            genesis,
            shred_version,
            shreds_per_slot_max,
            entrypoints,
        })
    }

    /// An event, behind the number of its record.
    fn event(&mut self, number: u8) -> Option<SessionEvent> {
        match number {
            1 => {
                let (at_ns, source, from) = self.arrival()?;
                Some(SessionEvent::Packet(CapturedPacket { at_ns, source, from, data: self.bytes()? }))
            }
            2 => {
                let (at_ns, source, from) = self.arrival()?;
                let slot = self.u64()?;
                let set_index = self.u32()?;
                let position = self.u8()?;
                let rest = self.bytes()?;
                Some(SessionEvent::Parity(LeftOutParity { at_ns, source, from, slot, set_index, position, rest }))
            }
            3 => Some(SessionEvent::Rooted { slot: self.u64()?, bank_hash: self.array()? }),
            _ => None,
        }
    }
}

/// Reads a session.
///
/// # Errors
/// The bytes are not a whole session: why, and where.
pub fn read(bytes: &[u8]) -> Result<Session, FormatError> {
    let mut file = Fields(bytes);
    if file.array::<8>() != Some(MAGIC) {
        return Err(FormatError::Magic);
    }
    let version = file.u32().ok_or(FormatError::Cut(0))?;
    if version != VERSION {
        return Err(FormatError::Version(version));
    }
    let (mut header, mut events, mut end) = (None, vec![], None);
    while !file.0.is_empty() {
        let at = bytes.len() - file.0.len();
        let chunk = read_chunk(&mut file, at)?;
        let mut records = Fields(&chunk);
        while let Some(number) = records.u8() {
            let wrong = FormatError::Record(at);
            // The header is first, and nothing comes behind the end.
            if end.is_some() || header.is_some() == (number == 0) {
                return Err(wrong);
            }
            match number {
                0 => header = Some(records.header().ok_or(wrong)?),
                4 => end = Some((records.u64().ok_or(wrong)?, records.u64().ok_or(wrong)?)),
                number => events.push(records.event(number).ok_or(wrong)?),
            }
        }
    }
    match (header, end) {
        (Some(header), Some((end_ns, dropped))) => Ok(Session { header, events, end_ns, dropped }),
        _ => Err(FormatError::NoEnd),
    }
}

/// Reads the chunk that begins at byte `at` of the file.
fn read_chunk(file: &mut Fields<'_>, at: usize) -> Result<Vec<u8>, FormatError> {
    let cut = FormatError::Cut(at);
    let lengths = file.array::<8>().ok_or(cut)?;
    let checksum = file.array::<32>().ok_or(cut)?;
    let (packed_bytes, bytes) = lengths.split_at(4);
    let length = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("4 bytes")) as usize;
    let packed_length = length(packed_bytes);
    let raw_length = length(bytes);
    if packed_length > CHUNK_BYTES_MAX || raw_length > CHUNK_BYTES_MAX {
        return Err(FormatError::Length(at));
    }
    let packed = file.take(packed_length).ok_or(cut)?;
    if sha256(&[&lengths, packed]) != checksum {
        return Err(FormatError::Checksum(at));
    }
    let chunk = zstd::bulk::decompress(packed, raw_length).map_err(|_| FormatError::Length(at))?;
    if chunk.len() == raw_length { Ok(chunk) } else { Err(FormatError::Length(at)) }
}

/// Bytes of the file before its first chunk; and of a chunk before its content: two lengths and a checksum.
#[cfg(test)]
pub(super) const HEADS: (usize, usize) = (MAGIC.len() + 4, 4 + 4 + 32);
