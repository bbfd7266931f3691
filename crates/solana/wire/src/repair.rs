//! Repair datagrams: requests for shreds, and their responses.
//!
//! reads   one datagram
//! writes  the same
//! memory  none: a request has a fixed size
//! drops   datagrams that are not exactly a request in its canonical form: a [`RepairError`]; unsigned requests and
//!         those of Alpenglow have an unknown tag
//! source  `solana-core` 4.2.2, `repair/serve_repair.rs`, `repair_response.rs`; `docs/cluster-protocol.md`, section 3
//!
//! ```text
//! request  tag u32 | signature 64 | sender 32 | recipient 32 | time u64, ms | nonce u32 | body
//!          tag 8  one data shred          slot u64, index u64      160 B
//!              9  the highest from on     slot u64, index u64      160 B
//!              10 the highest of ancestors slot u64                152 B
//!              11 hashes of ancestors     slot u64                152 B
//! pong     tag 7 | 128 B                                           132 B
//! answer   shred | nonce u32                                     1,207 B
//! ping     tag 0 | 128 B                                           132 B
//! to 11    tag 0 | count u64 | (slot u64, hash 32)* | nonce u32  1,216 B at most
//!          tag 1 | 128 B, a ping                                   132 B
//! ```
//!
//! The signature covers everything but itself.

use crate::consts::{Hash, Pubkey, Signature};
use crate::gossip::{PING_SIZE, Ping, Pong};
use crate::shred::DATA_SHRED_SIZE;

const PONG: u32 = 7;
const WINDOW_INDEX: u32 = 8;
const HIGHEST_WINDOW_INDEX: u32 = 9;
const ORPHAN: u32 = 10;
const ANCESTOR_HASHES: u32 = 11;
/// Tag of a ping among the responses.
const PING: u32 = 0;
/// Tags of a response to a request for ancestor hashes.
const HASHES: u32 = 0;
const HASHES_PING: u32 = 1;

/// Size of a request's header, before its body.
const HEADER_SIZE: usize = 4 + 64 + 32 + 32 + 8 + 4;
/// Size of the longest request.
pub const REQUEST_SIZE_MAX: usize = HEADER_SIZE + 16;
/// Size of a response with a shred.
pub const ANSWER_SIZE: usize = DATA_SHRED_SIZE + 4;
/// Size of a pong among requests, and of a ping among responses.
pub const PING_DATAGRAM_SIZE: usize = 4 + PING_SIZE;
/// Maximum hashes of a response: a block and its ancestors.
pub const ANCESTORS_MAX: usize = 30;
/// Size of an ancestor in a response: slot and hash.
const ANCESTOR_SIZE: usize = 8 + 32;
/// Size of such a response without the hashes.
const HASHES_SIZE: usize = 4 + 8 + 4;
/// Maximum size of a response with hashes.
pub const HASHES_SIZE_MAX: usize = HASHES_SIZE + ANCESTORS_MAX * ANCESTOR_SIZE;

const _: () = assert!(HEADER_SIZE == 144 && REQUEST_SIZE_MAX == 160 && PING_DATAGRAM_SIZE == 132);
const _: () = assert!(HASHES_SIZE_MAX == 1_216);
const _: () = assert!(!is_hashes_size(PING_DATAGRAM_SIZE) && !is_hashes_size(ANSWER_SIZE));

/// The content of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestContent {
    /// One data shred of a slot.
    Shred {
        /// The slot of the shred's block.
        slot: u64,
        /// The shred's index in it.
        index: u32,
    },
    /// The data shred with the highest index, if that is at least `from`.
    Highest {
        /// The slot of the shred's block.
        slot: u64,
        /// Lowest index of an acceptable shred.
        from: u32,
    },
    /// The highest data shreds of a slot and of its ancestors.
    Orphan {
        /// The newest slot, from which the server goes back to parents.
        slot: u64,
    },
    /// The bank hashes of a slot and its ancestors, if the cluster has confirmed it: [`AncestorHashes`].
    Ancestors {
        /// The newest slot, from which the server goes back to parents.
        slot: u64,
    },
}

impl RequestContent {
    /// The slot of the request.
    pub fn slot(&self) -> u64 {
        match self {
            Self::Shred { slot, .. }
            | Self::Highest { slot, .. }
            | Self::Orphan { slot }
            | Self::Ancestors { slot } => *slot,
        }
    }
}

/// Why a datagram is not a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RepairError {
    /// Its length does not match its tag.
    #[error("{0} bytes are no request of its tag")]
    Length(usize),
    /// The tag is not one of a supported request.
    #[error("no request has the tag {0}")]
    Tag(u32),
    /// The index is beyond any slot's.
    #[error("no slot has a shred {0}")]
    Index(u64),
}

/// A repair request without its signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Identity of the requesting node, which signs.
    pub sender: Pubkey,
    /// Identity of the serving node; a server refuses a request to another one.
    pub recipient: Pubkey,
    /// Unix time in milliseconds.
    pub time_ms: u64,
    /// Nonce by which the response is recognized.
    pub nonce: u32,
    /// The requested shreds or hashes.
    pub wanted: RequestContent,
}

/// A datagram to a repair server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepairDatagram {
    /// An answer to a ping.
    Pong(Pong),
    /// A request, and the sender's signature over [`signed_bytes`].
    Request(Request, Signature),
}

impl Request {
    /// Serializes the request, with room for the signature: see [`set_signature`].
    pub fn write(&self) -> Vec<u8> {
        let (tag, slot, index) = match self.wanted {
            RequestContent::Shred { slot, index } => (WINDOW_INDEX, slot, Some(index)),
            RequestContent::Highest { slot, from } => (HIGHEST_WINDOW_INDEX, slot, Some(from)),
            RequestContent::Orphan { slot } => (ORPHAN, slot, None),
            RequestContent::Ancestors { slot } => (ANCESTOR_HASHES, slot, None),
        };
        let mut bytes = Vec::with_capacity(REQUEST_SIZE_MAX);
        bytes.extend_from_slice(&tag.to_le_bytes());
        bytes.extend_from_slice(&[0; 64]);
        bytes.extend_from_slice(&self.sender);
        bytes.extend_from_slice(&self.recipient);
        bytes.extend_from_slice(&self.time_ms.to_le_bytes());
        bytes.extend_from_slice(&self.nonce.to_le_bytes());
        bytes.extend_from_slice(&slot.to_le_bytes());
        if let Some(index) = index {
            bytes.extend_from_slice(&u64::from(index).to_le_bytes());
        }
        bytes
    }
}

impl RepairDatagram {
    /// Parses exactly one datagram. The signature is not verified.
    ///
    /// # Errors
    ///
    /// Why the datagram is not a supported request.
    pub fn parse(bytes: &[u8]) -> Result<Self, RepairError> {
        let wrong = RepairError::Length(bytes.len());
        let tag = u32::from_le_bytes(*bytes.first_chunk().ok_or(wrong)?);
        let size = match tag {
            PONG => PING_DATAGRAM_SIZE,
            WINDOW_INDEX | HIGHEST_WINDOW_INDEX => HEADER_SIZE + 16,
            ORPHAN | ANCESTOR_HASHES => HEADER_SIZE + 8,
            tag => return Err(RepairError::Tag(tag)),
        };
        if bytes.len() != size {
            return Err(wrong);
        }
        if tag == PONG {
            return Ok(Self::Pong(Pong::parse(bytes[4..].try_into().expect("128 bytes"))));
        }
        let slot = u64_at(bytes, HEADER_SIZE);
        let index = || {
            let index = u64_at(bytes, HEADER_SIZE + 8);
            u32::try_from(index).map_err(|_| RepairError::Index(index))
        };
        let wanted = match tag {
            WINDOW_INDEX => RequestContent::Shred { slot, index: index()? },
            HIGHEST_WINDOW_INDEX => RequestContent::Highest { slot, from: index()? },
            ORPHAN => RequestContent::Orphan { slot },
            _ => RequestContent::Ancestors { slot },
        };
        let request = Request {
            sender: array(bytes, 68),
            recipient: array(bytes, 100),
            time_ms: u64_at(bytes, 132),
            nonce: u32::from_le_bytes(array(bytes, 140)),
            wanted,
        };
        Ok(Self::Request(request, array(bytes, 4)))
    }
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("N bytes")
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array(bytes, at))
}

/// The signed bytes of a request: everything but the signature.
pub fn signed_bytes(request: &[u8]) -> Vec<u8> {
    [&request[..4], &request[68..]].concat()
}

/// Writes the signature into a request.
pub fn set_signature(request: &mut [u8], signature: &Signature) {
    request[4..68].copy_from_slice(signature);
}

/// Whether these are the signed bytes of a request by `sender`.
pub fn is_repair_request(signed: &[u8], sender: &Pubkey) -> bool {
    let Some(tag) = signed.first_chunk() else { return false };
    let size = match u32::from_le_bytes(*tag) {
        WINDOW_INDEX | HIGHEST_WINDOW_INDEX => REQUEST_SIZE_MAX - 64,
        ORPHAN | ANCESTOR_HASHES => REQUEST_SIZE_MAX - 64 - 8,
        _ => return false,
    };
    signed.len() == size && signed[4..36] == *sender
}

/// The sender's wall clock in milliseconds, by the signed bytes of a request; `None` for fewer bytes than that.
pub fn signed_time_ms(signed: &[u8]) -> Option<u64> {
    signed.get(68..76)?.try_into().ok().map(u64::from_le_bytes)
}

/// Serializes the datagram of a pong, tag included.
pub fn write_pong(pong: &Pong) -> Vec<u8> {
    let mut bytes = PONG.to_le_bytes().to_vec();
    pong.write(&mut bytes);
    bytes
}

/// Serializes the datagram of a ping, tag included.
pub fn write_ping(ping: &Ping) -> Vec<u8> {
    let mut bytes = PING.to_le_bytes().to_vec();
    ping.write(&mut bytes);
    bytes
}

/// A datagram from a repair server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer<'a> {
    /// The server wants to verify the requester's address.
    Ping(Ping),
    /// An unverified shred, and the nonce of the request.
    Shred(&'a [u8], u32),
}

impl<'a> Answer<'a> {
    /// Parses a datagram; `None` if it is neither.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        if bytes.len() == PING_DATAGRAM_SIZE {
            let is_ping = u32::from_le_bytes(array(bytes, 0)) == PING;
            return is_ping.then(|| Self::Ping(Ping::parse(bytes[4..].try_into().expect("128 bytes"))));
        }
        let (shred, nonce) = bytes.split_last_chunk()?;
        (shred.len() == DATA_SHRED_SIZE).then(|| Self::Shred(shred, u32::from_le_bytes(*nonce)))
    }
}

/// The response to a request for [`RequestContent::Ancestors`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AncestorHashes {
    /// The server wants to verify the requester's address.
    Ping(Ping),
    /// Slots and their bank hashes, the newest first, at most [`ANCESTORS_MAX`], and the nonce of the request; empty if
    /// the server has not confirmed the slot.
    Hashes(Vec<(u64, Hash)>, u32),
}

/// Whether a response with ancestor hashes may have this size. No ping and no response with a shred has it.
pub const fn is_hashes_size(size: usize) -> bool {
    size >= HASHES_SIZE && size <= HASHES_SIZE_MAX && (size - HASHES_SIZE) % ANCESTOR_SIZE == 0
}

impl AncestorHashes {
    /// Parses exactly one datagram; `None` if it is neither.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let (tag, rest) = bytes.split_first_chunk()?;
        match u32::from_le_bytes(*tag) {
            HASHES_PING => Some(Self::Ping(Ping::parse(rest.try_into().ok()?))),
            HASHES => {
                let (count, rest) = rest.split_first_chunk()?;
                let (hashes, nonce) = rest.split_last_chunk()?;
                let count = usize::try_from(u64::from_le_bytes(*count)).ok()?;
                if count > ANCESTORS_MAX || hashes.len() != count * ANCESTOR_SIZE {
                    return None;
                }
                let hashes = hashes.chunks_exact(ANCESTOR_SIZE).map(|one| (u64_at(one, 0), array(one, 8)));
                Some(Self::Hashes(hashes.collect(), u32::from_le_bytes(*nonce)))
            }
            _ => None,
        }
    }

    /// Serializes the response.
    ///
    /// # Panics
    ///
    /// There are more than [`ANCESTORS_MAX`] hashes.
    pub fn write(&self) -> Vec<u8> {
        match self {
            Self::Ping(ping) => {
                let mut bytes = HASHES_PING.to_le_bytes().to_vec();
                ping.write(&mut bytes);
                bytes
            }
            Self::Hashes(hashes, nonce) => {
                assert!(hashes.len() <= ANCESTORS_MAX, "{} hashes", hashes.len());
                let mut bytes = HASHES.to_le_bytes().to_vec();
                bytes.extend_from_slice(&(hashes.len() as u64).to_le_bytes());
                for (slot, hash) in hashes {
                    bytes.extend_from_slice(&slot.to_le_bytes());
                    bytes.extend_from_slice(hash);
                }
                bytes.extend_from_slice(&nonce.to_le_bytes());
                bytes
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn wanted() -> impl Strategy<Value = RequestContent> {
        prop_oneof![
            (any::<u64>(), any::<u32>()).prop_map(|(slot, index)| RequestContent::Shred { slot, index }),
            (any::<u64>(), any::<u32>()).prop_map(|(slot, from)| RequestContent::Highest { slot, from }),
            any::<u64>().prop_map(|slot| RequestContent::Orphan { slot }),
            any::<u64>().prop_map(|slot| RequestContent::Ancestors { slot }),
        ]
    }

    proptest! {
        #[test]
        fn requests_round_trip(
            sender: [u8; 32], recipient: [u8; 32], time_ms: u64, nonce: u32, wanted in wanted(), signature: u8
        ) {
            let request = Request { sender, recipient, time_ms, nonce, wanted };
            let mut bytes = request.write();
            prop_assert!(is_repair_request(&signed_bytes(&bytes), &sender));
            prop_assert!(!is_repair_request(&signed_bytes(&bytes), &[1; 32]) || sender == [1; 32]);
            set_signature(&mut bytes, &[signature; 64]);
            prop_assert_eq!(RepairDatagram::parse(&bytes), Ok(RepairDatagram::Request(request, [signature; 64])));
            bytes.push(0);
            prop_assert!(RepairDatagram::parse(&bytes).is_err());
        }

        #[test]
        fn nothing_panics(bytes in proptest::collection::vec(any::<u8>(), 0..1300), tag in 0u8..16) {
            let mut bytes = bytes;
            let _ = (RepairDatagram::parse(&bytes), Answer::parse(&bytes), AncestorHashes::parse(&bytes));
            if bytes.len() >= 4 {
                bytes[..4].copy_from_slice(&[tag, 0, 0, 0]);
                let _ = (RepairDatagram::parse(&bytes), AncestorHashes::parse(&bytes));
                let _ = is_repair_request(&bytes, &[0; 32]);
            }
        }

        #[test]
        fn hashes_of_ancestors_round_trip(
            hashes in proptest::collection::vec(any::<(u64, [u8; 32])>(), 0..=ANCESTORS_MAX), nonce: u32
        ) {
            let answer = AncestorHashes::Hashes(hashes, nonce);
            let mut bytes = answer.write();
            prop_assert_eq!(AncestorHashes::parse(&bytes), Some(answer));
            bytes.pop();
            prop_assert_eq!(AncestorHashes::parse(&bytes), None);
        }
    }

    #[test]
    fn offsets_are_the_clusters() {
        let wanted = RequestContent::Shred { slot: 5, index: 7 };
        let bytes = Request { sender: [1; 32], recipient: [2; 32], time_ms: 3, nonce: 4, wanted }.write();
        assert_eq!((bytes.len(), bytes[0], bytes[68], bytes[100], bytes[132]), (160, 8, 1, 2, 3));
        assert_eq!((bytes[140], bytes[144], bytes[152]), (4, 5, 7));
        // A root has 32 bytes, which the signed bytes of a request never have.
        assert!(!is_repair_request(&[8; 32], &[8; 32]));
        for tag in [0, 6, 12, 13, 14] {
            let bytes = [&[tag, 0, 0, 0][..], &[0; 156]].concat();
            assert_eq!(RepairDatagram::parse(&bytes), Err(RepairError::Tag(tag.into())));
        }
    }

    #[test]
    fn answers_are_distinguished_by_length() {
        let ping = Ping { from: [1; 32], token: [2; 32], signature: [3; 64] };
        assert_eq!(Answer::parse(&write_ping(&ping)), Some(Answer::Ping(ping)));
        let pong = Pong { from: [1; 32], hash: [2; 32], signature: [3; 64] };
        assert_eq!(RepairDatagram::parse(&write_pong(&pong)), Ok(RepairDatagram::Pong(pong)));
        let answer = [&[9; DATA_SHRED_SIZE][..], &7u32.to_le_bytes()].concat();
        assert_eq!(Answer::parse(&answer), Some(Answer::Shred(&[9; DATA_SHRED_SIZE], 7)));
        assert_eq!(Answer::parse(&answer[1..]), None);
        let bytes = AncestorHashes::Ping(ping).write();
        assert_eq!((bytes.len(), &bytes[..4]), (PING_DATAGRAM_SIZE, &1u32.to_le_bytes()[..]));
        assert_eq!(AncestorHashes::parse(&bytes), Some(AncestorHashes::Ping(ping)));
        assert_eq!(AncestorHashes::parse(&bytes[1..]), None);
        // More than an answer may have.
        let count = ANCESTORS_MAX as u64 + 1;
        let bytes = [&[0; 4][..], &count.to_le_bytes(), &vec![0; count as usize * ANCESTOR_SIZE + 4]].concat();
        assert_eq!(AncestorHashes::parse(&bytes), None);
    }
}
