//! Gossip's wire format: messages, the values in them, and the IP echo protocol.
//!
//! reads   one datagram, of at most 1,232 B
//! writes  the same
//! memory  views borrow; a message has at most ten values, and lists in values are bounded by the received bytes
//! drops   datagrams that are not exactly a message in its canonical form: a [`GossipError`] with a kind and an offset
//! source  `solana-gossip` 4.2.2, `protocol.rs` and the files that the modules name; `docs/cluster-protocol.md`
//!
//! ```text
//! tag u32: 0 pull request   filter, value of kind 11
//!          1 pull response  from 32, values
//!          2 push           from 32, values
//!          3 prune          from 32, data of the prune
//!          4 ping           128 B
//!          5 pong           128 B
//! values: u64 n, each: signature 64, tag u32, data
//! ```

mod contact;
mod filter;
pub mod ip_echo;
mod ping;
mod prune;
mod read;
mod slots;
mod value;
mod vote;

pub use contact::{ContactInfo, SOCKETS, SocketKind, Version};
pub use filter::{Bloom, BloomFilter, CrdsFilter, MASK_BITS_MIN, bloom_hash, hash_prefix, mask_of};
pub use ping::{PING_SIZE, PONG_DOMAIN, Ping, Pong};
pub use prune::{MAX_PRUNES, PruneData};
pub use read::{GossipError, GossipErrorKind};
pub use slots::{MAX_SLOTS_PER_RUN, SlotBits, SlotRun};
pub use value::{
    CrdsData, CrdsKind, CrdsValue, DuplicateShred, EpochSlots, Label, LowestSlot, Restart, SnapshotHashes, Vote,
};

use crate::consts::{PACKET_DATA_SIZE, Pubkey, Signature};
use read::{Reader, Result, write_u32, write_u64};

/// Upper bound of times in ms, exclusive.
pub const MAX_WALLCLOCK: u64 = 1_000_000_000_000_000;
/// Upper bound of slots, exclusive.
pub const MAX_SLOT: u64 = 1_000_000_000_000_000;
/// Upper bound of vote indices in received values, exclusive.
pub const VOTE_INDEX_END: u8 = 32;
/// Upper bound of vote indices in sent values, exclusive.
pub const MAX_VOTES: u8 = 12;
/// Upper bound of [`EpochSlots`] indices, exclusive.
pub const EPOCH_SLOTS_INDEX_END: u8 = 255;
/// Upper bound of [`DuplicateShred`] indices, exclusive.
pub const MAX_DUPLICATE_SHREDS: u16 = 512;
/// The [`DuplicateShred::shred_type`] to send.
pub const DUPLICATE_SHRED_TYPE: u8 = 0x5a;
/// Bytes before the values of a push or of a pull response.
pub const VALUES_HEADER: usize = 4 + 32 + 8;
/// Maximum size of a value: the rest of a datagram.
pub const VALUE_SIZE_MAX: usize = PACKET_DATA_SIZE - VALUES_HEADER;

const SIGNATURE_SIZE: usize = size_of::<Signature>();

const _: () = assert!(VALUE_SIZE_MAX == 1_188);

const PULL_REQUEST: u32 = 0;
const PULL_RESPONSE: u32 = 1;
const PUSH: u32 = 2;
const PRUNE: u32 = 3;
const PING: u32 = 4;
const PONG: u32 = 5;

/// A gossip message: one datagram, which begins with a tag of four bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant)]
pub enum Protocol<'a> {
    /// Requests values that are not in a filter.
    PullRequest {
        /// The values that the caller has.
        filter: CrdsFilter<'a>,
        /// The caller's contact info.
        caller: CrdsValue<'a>,
    },
    /// Values in response to a pull request.
    PullResponse {
        /// The claimed sender, which is not signed.
        from: Pubkey,
        /// Views of the datagram; their signatures are not verified yet.
        values: Vec<CrdsValue<'a>>,
    },
    /// Values that the sender has and passes on without a request.
    Push {
        /// The claimed sender, which is not signed.
        from: Pubkey,
        /// Views of the datagram; their signatures are not verified yet.
        values: Vec<CrdsValue<'a>>,
    },
    /// Asks not to be sent values of some nodes.
    Prune(PruneData<'a>),
    /// Asks a node to prove its address.
    Ping(Ping),
    /// Proves with a hash of the ping's token that the sender receives at its address.
    Pong(Pong),
}

impl<'a> Protocol<'a> {
    /// Parses exactly one datagram. No signature is verified.
    ///
    /// # Errors
    ///
    /// The first violated rule.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        Reader::check(bytes.len() <= PACKET_DATA_SIZE, GossipErrorKind::TooLong, PACKET_DATA_SIZE)?;
        let mut reader = Reader::new(bytes);
        let message = match reader.u32()? {
            PULL_REQUEST => {
                let (filter, at) = (CrdsFilter::read(&mut reader)?, reader.at());
                let caller = CrdsValue::read(&mut reader)?;
                let is_contact = matches!(caller.data(), CrdsData::ContactInfo(_));
                Reader::check(is_contact, GossipErrorKind::Caller, at)?;
                Self::PullRequest { filter, caller }
            }
            PULL_RESPONSE => Self::PullResponse { from: reader.array()?, values: read_values(&mut reader)? },
            PUSH => Self::Push { from: reader.array()?, values: read_values(&mut reader)? },
            PRUNE => {
                let (from, at): (Pubkey, _) = (reader.array()?, reader.at());
                let data = PruneData::read(&mut reader)?;
                Reader::check(data.pubkey == from, GossipErrorKind::Sender, at)?;
                Self::Prune(data)
            }
            PING => Self::Ping(Ping::read(&mut reader)?),
            PONG => Self::Pong(Pong::read(&mut reader)?),
            _ => return Err(Reader::error(GossipErrorKind::Tag, 0)),
        };
        reader.end().map(|()| message)
    }
}

/// Minimum size of a value: [`EpochSlots`] without runs. A signature, a tag, an index, a node, a count and a time.
const VALUE_SIZE_MIN: usize = SIGNATURE_SIZE + 4 + 1 + 32 + 8 + 8;

fn read_values<'a>(reader: &mut Reader<'a>) -> Result<Vec<CrdsValue<'a>>> {
    let count = reader.count(VALUE_SIZE_MIN)?;
    (0..count).map(|_| CrdsValue::read(reader)).collect()
}

/// Appends a pull request: `bloom` over part `part` of 2^`mask_bits` of the table, the caller's signed contact info.
pub fn write_pull_request(bloom: &BloomFilter, part: u64, mask_bits: u32, caller: &[u8], out: &mut Vec<u8>) {
    write_u32(PULL_REQUEST, out);
    filter::write_filter(bloom, part, mask_bits, out);
    out.extend_from_slice(caller);
}

/// Maximum 64-bit blocks of a filter with `keys` keys beside a caller's contact info of `caller_size` bytes.
pub const fn bloom_blocks_max(keys: usize, caller_size: usize) -> usize {
    let taken = 4 + BloomFilter::wire_size_of(0, keys) + 8 + 4 + caller_size;
    PACKET_DATA_SIZE.saturating_sub(taken) / 8
}

/// The message that carries values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// The header is that of a [`Protocol::PullResponse`].
    PullResponse,
    /// The header is that of a [`Protocol::Push`].
    Push,
}

/// Appends a message's header; `count` values must follow, each with its signature.
pub fn write_values_header(carrier: Carrier, from: &Pubkey, count: u64, out: &mut Vec<u8>) {
    let tag = match carrier {
        Carrier::PullResponse => PULL_RESPONSE,
        Carrier::Push => PUSH,
    };
    write_u32(tag, out);
    out.extend_from_slice(from);
    write_u64(count, out);
}

/// Appends a prune message.
pub fn write_prune(data: &PruneData<'_>, out: &mut Vec<u8>) {
    write_u32(PRUNE, out);
    out.extend_from_slice(&data.pubkey);
    data.write(out);
}

/// Appends a ping message.
pub fn write_ping(ping: &Ping, out: &mut Vec<u8>) {
    write_u32(PING, out);
    ping.write(out);
}

/// Appends a pong message.
pub fn write_pong(pong: &Pong, out: &mut Vec<u8>) {
    write_u32(PONG, out);
    pong.write(out);
}

const _: () = assert!(VALUE_SIZE_MAX / VALUE_SIZE_MIN == 10);
