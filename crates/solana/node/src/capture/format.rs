//! The file of a session's packets.
//!
//! reads   the bytes of such a file
//! writes  the same, chunk by chunk
//! memory  a chunk of [`CHUNK_BYTES`] and all addresses while it is written; a whole session while it is read
//! drops   nothing: a file that is cut, changed, or lies about a length is refused, and the error says where
//! source  our own format
//!
//! ```text
//! file    "HEARTHSN" | version u32 | chunk*
//! chunk   compressed bytes u32 | bytes u32 | SHA-256 of both lengths and the compressed bytes 32 | zstd
//! bytes   record*: the header first, the end last
//! record  0 header   seed 32, clock's zero in Unix ns u64, IPv4 4, identity 32, has a vote account u8, it 32,
//!                    genesis hash 32, shred version u16, shreds of a slot u32, count u32, (IPv4 4, port u16)*
//!         1 packet   arrival, length varint, bytes
//!         2 shred    arrival, which varint: zigzag of 64 × its set's number in the file + its place in the set, less
//!                    one more than that of the shred record before; length varint, bytes that follow the proof
//!         3 rooted   slot u64, bank hash 32
//!         4 end      at u64, dropped packets u64
//!         5 set      slot u64, parent offset u16, shred version u16, set index u32, tick u8, flags u8,
//!                    chained root 32, signature 64, length varint, entry bytes; flags are 1 ends a batch, 2 ends the
//!                    slot, 4 resigned
//! arrival zigzag of the time since the arrival before varint, source u8, number of the address varint, address if new
//! address IPv6 16, of IPv4 the mapped one | port u16
//! varint  7 bits a byte, the lowest first; the highest bit of a byte says that more follow
//! ```
//!
//! All other integers are little endian. A record does not cross the end of a chunk, but refers to those before: times,
//! addresses and sets. [`super::sets`] says which shreds a set gives.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4};

use hearth_crypto::sha256::sha256;
use hearth_pipeline::capture::{CapturedPacket, PacketSource};
use hearth_pipeline::shred::SetHeader;
use hearth_wire::shred::SHREDS_PER_SET;
use hearth_wire::{Hash, Pubkey, Signature};

/// First bytes of the file.
const MAGIC: [u8; 8] = *b"HEARTHSN";
/// The version of the format.
pub const VERSION: u32 = 2;
/// A chunk is written once it has so many bytes.
const CHUNK_BYTES: usize = 2 << 20;
/// Maximum bytes of a chunk, compressed or not.
const CHUNK_BYTES_MAX: usize = 2 * CHUNK_BYTES;
/// Maximum bytes of a packet.
const PACKET_BYTES_MAX: usize = u16::MAX as usize;
/// Maximum bytes behind the Merkle proof of a shred: the retransmitter's signature, and the nonce of a response.
const REST_BYTES_MAX: usize = 64 + 4;
/// Flags of a stored set, a bit each.
const ENDS_BATCH: u8 = 1;
const ENDS_SLOT: u8 = 2;
const RESIGNED: u8 = 4;
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
    /// A set that is stored in short is none that a leader makes.
    #[error("the shreds of slot {slot}, set {set_index} cannot be made again")]
    Set {
        /// The slot of the set's block.
        slot: u64,
        /// The index of the set's first data shred.
        set_index: u32,
    },
    /// A shred is of a set that does not precede it.
    #[error("a shred is of set {0} of the file, which does not precede it")]
    NoSet(u32),
}

/// The identity, the addresses and the chain of the node when it began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionHeader {
    /// Draws the secrets of its tiles.
    pub seed: [u8; 32],
    /// Unix time at which its clock was zero, nanoseconds.
    pub unix_ns: u64,
    /// The address of its ports.
    pub ip: Ipv4Addr,
    /// The node's public identity key.
    pub identity: Pubkey,
    /// The account that it votes with, if it votes. Its identity signs the votes.
    pub vote_account: Option<Pubkey>,
    /// The hash of its chain's genesis.
    pub genesis: Hash,
    /// The shred version of its chain.
    pub shred_version: u16,
    /// Maximum data shreds of a slot, as configured.
    pub shreds_per_slot_max: u32,
    /// The gossip addresses of its entrypoints.
    pub entrypoints: Vec<SocketAddrV4>,
}

/// A FEC set, stored once for all its packets: what its leader made the 64 shreds of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShredSet {
    /// The fields of its shreds' headers.
    pub header: SetHeader,
    /// The Merkle root of the set before.
    pub chained_root: Hash,
    /// The leader's signature of its Merkle root.
    pub signature: Signature,
    /// The entry bytes of all its data shreds, at most [`SetHeader::capacity`].
    pub entry_bytes: Vec<u8>,
}

/// A packet with a shred that its set gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredShred {
    /// Nanoseconds on the node's clock, as in [`CapturedPacket::at_ns`].
    pub at_ns: u64,
    /// The port that received it, or `Own` for a shred of this node.
    pub source: PacketSource,
    /// The address and the port of its sender.
    pub from: SocketAddr,
    /// The number of its set in the file, from 0.
    pub set: u32,
    /// Its index among the set's shreds, data first, below 64.
    pub place: u8,
    /// Its bytes behind the Merkle proof, at most 68: the retransmitter's signature, if it has room for one, and the
    /// nonce of a response to repair.
    pub rest: Vec<u8>,
}

/// A record of a file between its header and its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredEvent {
    /// An event as it was.
    Event(SessionEvent),
    /// A set of shreds that follow. Nothing happened.
    Set(ShredSet),
    /// A packet in short.
    Shred(StoredShred),
}

/// Something that happened in a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionEvent {
    /// A packet was received, or an own shred made.
    Packet(CapturedPacket),
    /// The node has rooted a block. Packets that came later stand behind.
    Rooted {
        /// The slot of the rooted block.
        slot: u64,
        /// The hash of its bank.
        bank_hash: Hash,
    },
}

/// A session in memory; of records, before the packets are made again that are stored in short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session<E = SessionEvent> {
    /// The node as it was when the session began.
    pub header: SessionHeader,
    /// The events of the session, in order.
    pub events: Vec<E>,
    /// When it ended, on the node's clock, nanoseconds.
    pub end_ns: u64,
    /// Packets that were received and are not there.
    pub dropped: u64,
}

/// Writes a session as a file of compressed chunks.
pub struct SessionWriter<W: Write> {
    to: W,
    level: i32,
    chunk: Vec<u8>,
    /// Bytes of all records, before compression.
    bytes: u64,
    encoder: Encoder,
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
        Ok(Self { to, level, bytes: chunk.len() as u64, chunk, encoder: Encoder::default() })
    }

    /// Adds an event.
    ///
    /// # Errors
    /// The system's.
    ///
    /// # Panics
    /// A packet is longer than UDP's longest.
    pub fn add(&mut self, event: &SessionEvent) -> io::Result<()> {
        self.put(|encoder, chunk| encoder.event(chunk, event))
    }

    /// Adds an event, or what is stored in short.
    ///
    /// # Errors
    /// The system's.
    ///
    /// # Panics
    /// A packet is longer than UDP's longest, or a set's entry bytes are.
    pub fn add_stored(&mut self, stored: &StoredEvent) -> io::Result<()> {
        self.put(|encoder, chunk| match stored {
            StoredEvent::Event(event) => encoder.event(chunk, event),
            StoredEvent::Set(set) => put_set(chunk, set),
            StoredEvent::Shred(shred) => encoder.shred(chunk, shred),
        })
    }

    fn put(&mut self, record: impl FnOnce(&mut Encoder, &mut Vec<u8>)) -> io::Result<()> {
        let before = self.chunk.len();
        record(&mut self.encoder, &mut self.chunk);
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

/// The values to which the next written record refers.
#[derive(Default)]
struct Encoder {
    /// The time of the previous packet, to which a record gives the difference.
    at_ns: u64,
    /// Each address with its number.
    addresses: BTreeMap<SocketAddr, u64>,
    /// One more than the last shred record's set and place.
    next_shred: u64,
}

impl Encoder {
    fn event(&mut self, to: &mut Vec<u8>, event: &SessionEvent) {
        match event {
            SessionEvent::Packet(packet) => {
                to.push(1);
                self.arrival(to, packet.at_ns, packet.source, packet.from);
                put_bytes(to, &packet.data);
            }
            SessionEvent::Rooted { slot, bank_hash } => {
                to.push(3);
                to.extend_from_slice(&slot.to_le_bytes());
                to.extend_from_slice(bank_hash);
            }
        }
    }

    fn shred(&mut self, to: &mut Vec<u8>, shred: &StoredShred) {
        to.push(2);
        self.arrival(to, shred.at_ns, shred.source, shred.from);
        let number = u64::from(shred.set) * SHREDS_PER_SET as u64 + u64::from(shred.place);
        put_varint(to, zigzag(number.wrapping_sub(self.next_shred)));
        self.next_shred = number + 1;
        put_bytes(to, &shred.rest);
    }

    fn arrival(&mut self, to: &mut Vec<u8>, at_ns: u64, source: PacketSource, from: SocketAddr) {
        put_varint(to, zigzag(at_ns.wrapping_sub(self.at_ns)));
        self.at_ns = at_ns;
        to.push(source as u8);
        let new = self.addresses.len() as u64;
        let number = *self.addresses.entry(from).or_insert(new);
        put_varint(to, number);
        if number == new {
            put_address(to, from);
        }
    }
}

fn put_address(to: &mut Vec<u8>, address: SocketAddr) {
    let ip = match address.ip() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    };
    to.extend_from_slice(&ip.octets());
    to.extend_from_slice(&address.port().to_le_bytes());
}

fn put_set(to: &mut Vec<u8>, set: &ShredSet) {
    let ShredSet { header, chained_root, signature, entry_bytes } = set;
    let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
    let ends = flag(header.ends_batch, ENDS_BATCH) | flag(header.ends_slot, ENDS_SLOT);
    to.push(5);
    to.extend_from_slice(&header.slot.to_le_bytes());
    to.extend_from_slice(&header.parent_offset.to_le_bytes());
    to.extend_from_slice(&header.version.to_le_bytes());
    to.extend_from_slice(&header.set_index.to_le_bytes());
    to.push(header.reference_tick);
    to.push(ends | flag(header.resigned, RESIGNED));
    to.extend_from_slice(chained_root);
    to.extend_from_slice(signature);
    put_bytes(to, entry_bytes);
}

fn put_bytes(to: &mut Vec<u8>, bytes: &[u8]) {
    assert!(bytes.len() <= PACKET_BYTES_MAX, "no datagram is as long");
    put_varint(to, bytes.len() as u64);
    to.extend_from_slice(bytes);
}

fn put_varint(to: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

/// A difference as a number that is small if it is near zero, above or below.
const fn zigzag(difference: u64) -> u64 {
    (difference << 1) ^ (difference >> 63).wrapping_neg()
}

const fn unzigzag(number: u64) -> u64 {
    (number >> 1) ^ (number & 1).wrapping_neg()
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

    fn varint(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if (bits << shift) >> shift != bits {
                return None;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    /// Bytes behind their length, at most `max`.
    fn bytes(&mut self, max: usize) -> Option<Vec<u8>> {
        let count = self.varint().filter(|count| *count <= max as u64)?;
        self.take(count as usize).map(<[u8]>::to_vec)
    }

    fn address(&mut self) -> Option<SocketAddr> {
        let ip = Ipv6Addr::from(self.array::<16>()?).to_canonical();
        Some(SocketAddr::new(ip, self.u16()?))
    }

    /// A set, behind the number of its record.
    fn set(&mut self) -> Option<ShredSet> {
        let slot = self.u64()?;
        let parent_offset = self.u16()?;
        let version = self.u16()?;
        let set_index = self.u32()?;
        let reference_tick = self.u8()?;
        let flags = self.u8().filter(|flags| flags & !(ENDS_BATCH | ENDS_SLOT | RESIGNED) == 0)?;
        let header = SetHeader {
            slot,
            parent_offset,
            version,
            set_index,
            reference_tick,
            ends_batch: flags & ENDS_BATCH != 0,
            ends_slot: flags & ENDS_SLOT != 0,
            resigned: flags & RESIGNED != 0,
        };
        let chained_root = self.array()?;
        let signature = self.array()?;
        Some(ShredSet { header, chained_root, signature, entry_bytes: self.bytes(PACKET_BYTES_MAX)? })
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
}

/// The values to which the next record to read refers.
#[derive(Default)]
struct Decoder {
    at_ns: u64,
    addresses: Vec<SocketAddr>,
    next_shred: u64,
}

impl Decoder {
    /// An event, behind the number of its record.
    fn event(&mut self, from: &mut Fields<'_>, number: u8) -> Option<StoredEvent> {
        match number {
            1 => {
                let (at_ns, source, sender) = self.arrival(from)?;
                let data = from.bytes(PACKET_BYTES_MAX)?;
                Some(StoredEvent::Event(SessionEvent::Packet(CapturedPacket { at_ns, source, from: sender, data })))
            }
            2 => self.shred(from).map(StoredEvent::Shred),
            3 => {
                let slot = from.u64()?;
                Some(StoredEvent::Event(SessionEvent::Rooted { slot, bank_hash: from.array()? }))
            }
            5 => from.set().map(StoredEvent::Set),
            _ => None,
        }
    }

    fn shred(&mut self, from: &mut Fields<'_>) -> Option<StoredShred> {
        let (at_ns, source, sender) = self.arrival(from)?;
        let number = self.next_shred.wrapping_add(unzigzag(from.varint()?));
        let set = u32::try_from(number / SHREDS_PER_SET as u64).ok()?;
        let place = (number % SHREDS_PER_SET as u64) as u8;
        self.next_shred = number + 1;
        Some(StoredShred { at_ns, source, from: sender, set, place, rest: from.bytes(REST_BYTES_MAX)? })
    }

    fn arrival(&mut self, from: &mut Fields<'_>) -> Option<(u64, PacketSource, SocketAddr)> {
        self.at_ns = self.at_ns.wrapping_add(unzigzag(from.varint()?));
        let source = *PacketSource::ALL.get(usize::from(from.u8()?))?;
        let number = usize::try_from(from.varint()?).ok()?;
        if number == self.addresses.len() {
            self.addresses.push(from.address()?);
        }
        Some((self.at_ns, source, *self.addresses.get(number)?))
    }
}

/// Reads the records of a session. [`super::sets::read`] makes all its packets of them.
///
/// # Errors
/// The bytes are not a whole session: why, and where.
pub fn read(bytes: &[u8]) -> Result<Session<StoredEvent>, FormatError> {
    let mut file = Fields(bytes);
    if file.array::<8>() != Some(MAGIC) {
        return Err(FormatError::Magic);
    }
    let version = file.u32().ok_or(FormatError::Cut(0))?;
    if version != VERSION {
        return Err(FormatError::Version(version));
    }
    let (mut header, mut events, mut end) = (None, vec![], None);
    let mut decoder = Decoder::default();
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
                number => events.push(decoder.event(&mut records, number).ok_or(wrong)?),
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
