//! gossip: messages between gossip and its consumers: news of nodes, of slots, and of votes.
//!
//! reads   messages
//! writes  messages
//! memory  the link's

use std::net::{Ipv4Addr, SocketAddrV4};

use hearth_consensus::{NEAR_WORDS, NearSlots};
use hearth_gossip::Peer;
use hearth_wire::Pubkey;

use super::TXN_MTU;
use super::codec::{Reader, TRUSTED, Writer, writer};

/// Largest [`PeerNews`] in bytes: a kind byte, a node's key, four addresses, stake and lowest slot.
pub const PEER_NEWS_MTU: usize = 1 + 32 + 4 * 6 + 2 * 8;
/// Largest [`TowerNews`] in bytes: a kind byte and a vote; slots take 553.
pub const TOWER_NEWS_MTU: usize = 1 + TXN_MTU;
/// Largest [`SlotNews`] in bytes: a kind byte, a slot, the length of the first shred, and two shreds.
pub const SLOT_NEWS_MTU: usize = 1 + 8 + 2 + 2 * TXN_MTU;
/// Largest [`Statement`] in bytes: a kind byte and a vote.
pub const STATEMENT_MTU: usize = 1 + TXN_MTU;

/// Gossip's news of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerNews {
    /// It is new or has changed.
    Known(Peer),
    /// It was silent for too long.
    Gone(Pubkey),
}

/// Gossip's news for consensus.
#[expect(clippy::large_enum_variant, reason = "it is written and read in place, and never kept")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TowerNews<'a> {
    /// News of a node.
    Peer(PeerNews),
    /// The transaction of another node's vote. Its signatures are not verified yet.
    Vote(&'a [u8]),
    /// Slots that another node has completely.
    Slots(Pubkey, NearSlots),
    /// A proof shows that this slot's leader made two blocks.
    Duplicate(u64),
    /// Another process that started later uses this node's key.
    Double,
}

/// A shred tile's news of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotNews<'a> {
    /// All of its shreds are here.
    Whole(u64),
    /// Its leader has made two blocks.
    Duplicate(u64),
    /// The same, with two shreds that its leader cannot have made for one block.
    Contradiction {
        /// The slot of both shreds.
        slot: u64,
        /// Two shreds that contradict each other, as they were received.
        shreds: [&'a [u8]; 2],
    },
}

/// A statement of consensus for gossip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statement<'a> {
    /// The transaction of this node's vote, to publish.
    Vote(&'a [u8]),
    /// Slots up to this one are no longer needed.
    Root(u64),
}

fn put_socket(w: &mut Writer<'_>, socket: Option<SocketAddrV4>) {
    // No socket can listen on port 0.
    let socket = socket.unwrap_or(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0));
    w.put(&socket.ip().octets()).u16(socket.port());
}

fn get_socket(r: &mut Reader<'_>) -> Option<SocketAddrV4> {
    let ip = Ipv4Addr::from(*r.bytes::<4>());
    let port = r.u16();
    (port != 0).then(|| SocketAddrV4::new(ip, port))
}

impl PeerNews {
    const KNOWN: u8 = 0;
    const GONE: u8 = 1;

    /// Writes the message; returns its size.
    pub fn write(&self, buffer: &mut [u8]) -> usize {
        let mut w = writer(buffer);
        match self {
            Self::Known(peer) => {
                w.u8(Self::KNOWN).put(&peer.identity);
                for socket in [peer.tvu, peer.serve_repair, peer.tpu_quic, peer.tpu_vote_quic] {
                    put_socket(&mut w, socket);
                }
                w.u64(peer.stake).u64(peer.lowest).at
            }
            Self::Gone(node) => w.u8(Self::GONE).put(node).at,
        }
    }

    /// Reads a message that [`Self::write`] made.
    pub fn read(message: &[u8]) -> Self {
        let mut r = Reader(message);
        match r.u8() {
            Self::KNOWN => Self::Known(Peer {
                identity: *r.bytes(),
                tvu: get_socket(&mut r),
                serve_repair: get_socket(&mut r),
                tpu_quic: get_socket(&mut r),
                tpu_vote_quic: get_socket(&mut r),
                stake: r.u64(),
                lowest: r.u64(),
            }),
            Self::GONE => Self::Gone(*r.bytes()),
            _ => unreachable!("{TRUSTED}"),
        }
    }
}

impl<'a> TowerNews<'a> {
    const VOTE: u8 = 2;
    const SLOTS: u8 = 3;
    const DUPLICATE: u8 = 4;
    const DOUBLE: u8 = 5;

    /// Writes the message; returns its size.
    pub fn write(&self, buffer: &mut [u8]) -> usize {
        if let Self::Peer(news) = self {
            return news.write(buffer);
        }
        let mut w = writer(buffer);
        match self {
            Self::Peer(_) => unreachable!("it is written above"),
            Self::Vote(transaction) => w.u8(Self::VOTE).put(transaction).at,
            Self::Slots(node, NearSlots { first, words }) => {
                w.u8(Self::SLOTS).put(node).u64(*first);
                words.iter().for_each(|word| {
                    w.u64(*word);
                });
                w.at
            }
            Self::Duplicate(slot) => w.u8(Self::DUPLICATE).u64(*slot).at,
            Self::Double => w.u8(Self::DOUBLE).at,
        }
    }

    /// Reads a message that [`Self::write`] made.
    pub fn read(message: &'a [u8]) -> Self {
        let mut r = Reader(message);
        match r.u8() {
            Self::VOTE => Self::Vote(r.0),
            Self::SLOTS => {
                let (node, first, mut words) = (*r.bytes(), r.u64(), [0; NEAR_WORDS]);
                words.iter_mut().for_each(|word| *word = r.u64());
                Self::Slots(node, NearSlots { first, words })
            }
            Self::DUPLICATE => Self::Duplicate(r.u64()),
            Self::DOUBLE => Self::Double,
            _ => Self::Peer(PeerNews::read(message)),
        }
    }
}

impl<'a> SlotNews<'a> {
    /// Writes the message; returns its size.
    pub fn write(&self, buffer: &mut [u8]) -> usize {
        let mut w = writer(buffer);
        match self {
            Self::Whole(slot) => w.u8(0).u64(*slot).at,
            Self::Duplicate(slot) => w.u8(1).u64(*slot).at,
            Self::Contradiction { slot, shreds: [first, second] } => {
                w.u8(2).u64(*slot).u16(first.len() as u16).put(first).put(second).at
            }
        }
    }

    /// Reads a message that [`Self::write`] made.
    pub fn read(message: &'a [u8]) -> Self {
        let mut r = Reader(message);
        let (kind, slot) = (r.u8(), r.u64());
        match kind {
            0 => Self::Whole(slot),
            1 => Self::Duplicate(slot),
            2 => {
                let len = r.u16();
                let first = r.slice(usize::from(len));
                Self::Contradiction { slot, shreds: [first, r.0] }
            }
            _ => unreachable!("{TRUSTED}"),
        }
    }
}

impl<'a> Statement<'a> {
    /// Writes the message; returns its size.
    pub fn write(&self, buffer: &mut [u8]) -> usize {
        let mut w = writer(buffer);
        match self {
            Self::Vote(transaction) => w.u8(0).put(transaction).at,
            Self::Root(slot) => w.u8(1).u64(*slot).at,
        }
    }

    /// Reads a message that [`Self::write`] made.
    pub fn read(message: &'a [u8]) -> Self {
        let mut r = Reader(message);
        match r.u8() {
            0 => Self::Vote(r.0),
            1 => Self::Root(r.u64()),
            _ => unreachable!("{TRUSTED}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer() -> Peer {
        let address = |port| Some(SocketAddrV4::new([10, 1, 2, 3].into(), port));
        Peer {
            identity: [9; 32],
            tvu: address(8_001),
            serve_repair: None,
            tpu_quic: address(8_003),
            tpu_vote_quic: address(u16::MAX),
            stake: u64::MAX,
            lowest: 7,
        }
    }

    #[test]
    fn news_of_nodes_round_trip() {
        let mut buffer = [0; PEER_NEWS_MTU];
        for news in [PeerNews::Known(peer()), PeerNews::Gone([3; 32])] {
            let size = news.write(&mut buffer);
            assert_eq!(PeerNews::read(&buffer[..size]), news);
        }
        assert_eq!(PeerNews::Known(peer()).write(&mut buffer), PEER_NEWS_MTU);
    }

    #[test]
    fn news_for_consensus_round_trip() {
        let mut buffer = [0; TOWER_NEWS_MTU];
        let mut words = [0; NEAR_WORDS];
        (words[0], words[NEAR_WORDS - 1]) = (5, u64::MAX);
        let all = [
            TowerNews::Peer(PeerNews::Known(peer())),
            TowerNews::Peer(PeerNews::Gone([3; 32])),
            TowerNews::Vote(&[7; TXN_MTU]),
            TowerNews::Slots([8; 32], NearSlots { first: 101, words }),
            TowerNews::Duplicate(9),
            TowerNews::Double,
        ];
        for news in all {
            let size = news.write(&mut buffer);
            assert_eq!(TowerNews::read(&buffer[..size]), news);
        }
    }

    #[test]
    fn news_of_slots_round_trip() {
        let mut buffer = [0; SLOT_NEWS_MTU];
        let (long, short) = ([1; TXN_MTU], [2; 1_203]);
        let all = [
            SlotNews::Whole(5),
            SlotNews::Duplicate(u64::MAX),
            SlotNews::Contradiction { slot: 6, shreds: [&short, &long] },
            SlotNews::Contradiction { slot: 6, shreds: [&long, &long] },
            SlotNews::Contradiction { slot: 6, shreds: [&[], &[]] },
        ];
        for news in all {
            let size = news.write(&mut buffer);
            assert_eq!(SlotNews::read(&buffer[..size]), news);
        }
    }

    #[test]
    fn statements_round_trip() {
        let mut buffer = [0; STATEMENT_MTU];
        for statement in [Statement::Vote(&[7; TXN_MTU]), Statement::Root(12)] {
            let size = statement.write(&mut buffer);
            assert_eq!(Statement::read(&buffer[..size]), statement);
        }
    }
}
