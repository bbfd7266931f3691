//! Contact info: a node's identity, version and sockets.
//!
//! reads   the data of a value of kind 11, after its tag
//! writes  the same
//! memory  a [`ContactInfo`] has a fixed size, with 14 sockets; parsing allocates nothing
//! drops   what the cluster refuses: 16-byte addresses, duplicate or unused addresses, duplicate sockets, extensions
//! source  `solana-gossip` 4.2.2, `contact_info.rs`; `solana-version` 4.2.2
//!
//! ```text
//! pubkey 32 | wallclock varint, ms | outset u64, µs | shred version u16
//! version: major, minor, patch varint u16 | commit u32 | feature set u32 | client varint u16
//! addresses: compact-u16 n, each: tag u32 0, 4 B
//! sockets: compact-u16 n, each: key u8, index of its address u8, port above the one before varint u16
//! extensions: compact-u16 0
//! ```

use std::fmt;
use std::net::{Ipv4Addr, SocketAddrV4};

use super::MAX_WALLCLOCK;
use super::read::{GossipErrorKind, Reader, Result, write_u32, write_u64, write_varint};
use crate::compact;
use crate::consts::Pubkey;

/// Number of socket kinds.
pub const SOCKETS: usize = 14;

/// The purpose of a socket. The number is the key on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum SocketKind {
    /// Gossip, UDP; the IP echo server uses the same TCP port.
    Gossip = 0,
    /// Repair requests over QUIC.
    ServeRepairQuic = 1,
    /// JSON-RPC requests over HTTP, TCP.
    Rpc = 2,
    /// The RPC's WebSocket, TCP.
    RpcPubsub = 3,
    /// Repair requests of other nodes, UDP.
    ServeRepair = 4,
    /// Transactions over UDP; no longer in use.
    Tpu = 5,
    /// Forwarded transactions over UDP; no longer in use.
    TpuForwards = 6,
    /// Forwarded transactions over QUIC.
    TpuForwardsQuic = 7,
    /// Transactions of clients, over QUIC.
    TpuQuic = 8,
    /// Votes sent to the node as leader, UDP.
    TpuVote = 9,
    /// Shreds from the turbine tree, UDP.
    Tvu = 10,
    /// Shreds over QUIC; no longer in use.
    TvuQuic = 11,
    /// Votes sent to the node as leader, over QUIC.
    TpuVoteQuic = 12,
    /// Votes of Alpenglow, the consensus protocol that is to replace Tower BFT.
    Alpenglow = 13,
}

const _: () = assert!(SocketKind::Alpenglow as usize == SOCKETS - 1);

/// The version of a node's software.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Version {
    /// Major version; unlike the minor one it carries no other bits.
    pub major: u16,
    /// Minor version; the top two bits are the kind of release: 0 stable, 1 rc, 2 beta, 3 alpha.
    pub minor: u16,
    /// Patch version; for a release that is not stable, its number within its kind.
    pub patch: u16,
    /// First four bytes of the commit.
    pub commit: u32,
    /// First four bytes of the hash of its features.
    pub feature_set: u32,
    /// Client program: 0 SolanaLabs, 1 Jito, 2 Frankendancer, 3 Agave, 4 Paladin, 5 Firedancer, 6 AgaveBam, 7 Sig;
    /// other numbers are accepted.
    pub client: u16,
}

impl fmt::Display for Version {
    /// In the RPC's format: `4.2.2`, `4.3.0-rc.1`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor, patch) = (self.major, self.minor & 0x3fff, self.patch);
        match self.minor >> 14 {
            0 => write!(f, "{major}.{minor}.{patch}"),
            1 => write!(f, "{major}.{minor}.0-rc.{patch}"),
            2 => write!(f, "{major}.{minor}.0-beta.{patch}"),
            _ => write!(f, "{major}.{minor}.0-alpha.{patch}"),
        }
    }
}

/// A node's description of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContactInfo {
    /// The node's identity, whose signature the value carries.
    pub pubkey: Pubkey,
    /// Creation time in Unix milliseconds; below [`MAX_WALLCLOCK`].
    pub wallclock: u64,
    /// Start time of its process in Unix microseconds.
    pub outset: u64,
    /// Shred version of its chain.
    pub shred_version: u16,
    /// Version of its software.
    pub version: Version,
    /// Indexed by [`SocketKind`]; `None` for a missing or unusable socket.
    pub sockets: [Option<SocketAddrV4>; SOCKETS],
}

/// Whether an address can be sent to at all.
fn is_usable(address: &SocketAddrV4) -> bool {
    address.port() != 0 && !address.ip().is_unspecified() && !address.ip().is_multicast()
}

impl ContactInfo {
    /// A node without sockets.
    pub fn new(pubkey: Pubkey, outset: u64, shred_version: u16, version: Version) -> Self {
        Self { pubkey, wallclock: 0, outset, shred_version, version, sockets: [None; SOCKETS] }
    }

    /// The socket of a kind.
    pub fn socket(&self, kind: SocketKind) -> Option<SocketAddrV4> {
        self.sockets[kind as usize]
    }

    /// Adds a socket; an unusable one is left out.
    pub fn with(mut self, kind: SocketKind, address: SocketAddrV4) -> Self {
        self.sockets[kind as usize] = Some(address).filter(is_usable);
        self
    }

    /// Whether it replaces `other`, of the same node: by outset, then by wallclock. `None` if both are equal.
    pub fn overrides(&self, other: &Self) -> Option<bool> {
        match (self.outset, self.wallclock).cmp(&(other.outset, other.wallclock)) {
            std::cmp::Ordering::Less => Some(false),
            std::cmp::Ordering::Greater => Some(true),
            std::cmp::Ordering::Equal => None,
        }
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self> {
        let (pubkey, at) = (reader.array()?, reader.at());
        let wallclock = reader.varint(64)?;
        Reader::check(wallclock < MAX_WALLCLOCK, GossipErrorKind::Range, at)?;
        let (outset, shred_version) = (reader.u64()?, reader.u16()?);
        let version = Version {
            major: reader.varint_u16()?,
            minor: reader.varint_u16()?,
            patch: reader.varint_u16()?,
            commit: reader.u32()?,
            feature_set: reader.u32()?,
            client: reader.varint_u16()?,
        };
        let sockets = read_sockets(reader)?;
        let at = reader.at();
        // The cluster drops extensions when it parses, so the signature would not match.
        Reader::check(reader.short_count()? == 0, GossipErrorKind::NotEmpty, at)?;
        Ok(Self { pubkey, wallclock, outset, shred_version, version, sockets })
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.pubkey);
        write_varint(self.wallclock, out);
        write_u64(self.outset, out);
        out.extend_from_slice(&self.shred_version.to_le_bytes());
        let Version { major, minor, patch, commit, feature_set, client } = self.version;
        [major, minor, patch].iter().for_each(|number| write_varint(u64::from(*number), out));
        write_u32(commit, out);
        write_u32(feature_set, out);
        write_varint(u64::from(client), out);
        let mut sockets: Vec<(u16, u8, Ipv4Addr)> = (0u8..)
            .zip(&self.sockets)
            .filter_map(|(key, socket)| socket.map(|socket| (socket.port(), key, *socket.ip())))
            .collect();
        sockets.sort_unstable();
        let mut addresses: Vec<Ipv4Addr> = Vec::new();
        for (_, _, address) in &sockets {
            if !addresses.contains(address) {
                addresses.push(*address);
            }
        }
        compact::write(addresses.len() as u16, out);
        for address in &addresses {
            write_u32(0, out);
            out.extend_from_slice(&address.octets());
        }
        compact::write(sockets.len() as u16, out);
        let mut last = 0;
        for (port, key, address) in sockets {
            let index = addresses.iter().position(|a| *a == address).expect("it was added above");
            out.extend_from_slice(&[key, index as u8]);
            write_varint(u64::from(port - last), out);
            last = port;
        }
        compact::write(0, out);
    }
}

/// A set of bytes.
#[derive(Default)]
struct Bytes([u64; 4]);

impl Bytes {
    /// Adds a byte; returns whether it is new.
    fn insert(&mut self, byte: u8) -> bool {
        let (word, bit) = (&mut self.0[usize::from(byte / 64)], 1 << (byte % 64));
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }
}

fn read_sockets(reader: &mut Reader<'_>) -> Result<[Option<SocketAddrV4>; SOCKETS]> {
    let at = reader.at();
    let count = reader.short_count()?;
    // An index has one byte, and every address must be used.
    Reader::check(count <= 256, GossipErrorKind::Address, at)?;
    let mut addresses = reader.clone();
    for index in 0..count {
        let at = reader.at();
        Reader::check(reader.u32()? == 0, GossipErrorKind::Address, at)?;
        let address: [u8; 4] = reader.array()?;
        let mut before = addresses.clone();
        for _ in 0..index {
            let (_, other) = (before.u32()?, before.array::<4>()?);
            Reader::check(other != address, GossipErrorKind::Address, at)?;
        }
    }
    let addresses = addresses.take(8 * count)?.as_chunks::<8>().0;
    let (mut keys, mut used, mut port) = (Bytes::default(), Bytes::default(), 0u16);
    let mut sockets = [None; SOCKETS];
    let mut used_count = 0;
    for _ in 0..reader.short_count()? {
        let at = reader.at();
        let (key, index, offset) = (reader.u8()?, reader.u8()?, reader.varint_u16()?);
        let wrong = Reader::error(GossipErrorKind::Socket, at);
        let [_, _, _, _, a, b, c, d] = *addresses.get(usize::from(index)).ok_or(wrong)?;
        port = port.checked_add(offset).ok_or(wrong)?;
        Reader::check(keys.insert(key), GossipErrorKind::Socket, at)?;
        used_count += usize::from(used.insert(index));
        if let Some(socket) = sockets.get_mut(usize::from(key)) {
            *socket = Some(SocketAddrV4::new(Ipv4Addr::new(a, b, c, d), port)).filter(is_usable);
        }
    }
    Reader::check(used_count == count, GossipErrorKind::Address, at)?;
    Ok(sockets)
}
