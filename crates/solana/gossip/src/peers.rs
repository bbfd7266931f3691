//! What gossip knows, for those who use it.
//!
//! reads   the table
//! writes  contact infos, peers by what they are for, values as they came
//! memory  none beyond what is handed out
//! source  `solana-gossip` 4.2.2, `cluster_info.rs`

use std::net::SocketAddrV4;

use hearth_wire::Pubkey;
use hearth_wire::gossip::{ContactInfo, CrdsData, CrdsKind, CrdsValue, Label, SnapshotHashes, SocketKind};

use super::Gossip;
use super::table::Entry;

/// A node of the cluster, with those of its addresses that something may be sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The node.
    pub identity: Pubkey,
    /// Where it takes shreds.
    pub tvu: Option<SocketAddrV4>,
    /// Where it takes requests for shreds.
    pub serve_repair: Option<SocketAddrV4>,
    /// Where it takes transactions over QUIC.
    pub tpu_quic: Option<SocketAddrV4>,
    /// Where it takes votes over QUIC.
    pub tpu_vote_quic: Option<SocketAddrV4>,
    /// Its stake, lamports.
    pub stake: u64,
    /// The lowest slot of which it says that it has shreds; 0 where it says nothing.
    pub lowest: u64,
}

/// How far a reader has read the values of a kind. A new one begins with what there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor(u64);

/// The port by which Agave 4.2 names the sockets that it no longer has, such as the TPU over UDP: nodes of older
/// releases would take a node without them for one that takes no transactions at all.
const PLACEHOLDER_PORT: u16 = 1;

fn parsed(entry: &Entry) -> CrdsValue<'_> {
    CrdsValue::parse(&entry.bytes).expect("what is in the table was parsed before")
}

impl Gossip {
    /// Every node that gossip knows, this one too: what getClusterNodes lists.
    pub fn contact_infos(&self) -> impl Iterator<Item = &ContactInfo> {
        let contacts = self.table.kind_since(CrdsKind::ContactInfo, 0).filter_map(|entry| entry.contact.as_deref());
        contacts.filter(|contact| self.gossip_address(contact).is_some())
    }

    /// A node.
    pub fn contact_info(&self, identity: &Pubkey) -> Option<&ContactInfo> {
        self.table.contact(identity)
    }

    /// The socket of a node for something, if something may be sent there and somebody listens.
    pub fn socket(&self, contact: &ContactInfo, kind: SocketKind) -> Option<SocketAddrV4> {
        contact.socket(kind).filter(|address| self.is_reachable(address))
    }

    fn is_reachable(&self, address: &SocketAddrV4) -> bool {
        address.port() != PLACEHOLDER_PORT && self.config.is_allowed(address)
    }

    /// A node with those of its sockets alone that something may be sent to.
    pub fn reachable(&self, contact: &ContactInfo) -> ContactInfo {
        let sockets = contact.sockets.map(|socket| socket.filter(|address| self.is_reachable(address)));
        ContactInfo { sockets, ..*contact }
    }

    /// Every node that gossip knows, this one too, as tiles need it.
    pub fn peers(&self) -> impl Iterator<Item = Peer> {
        self.contact_infos().map(|contact| {
            let socket = |kind| self.socket(contact, kind);
            Peer {
                identity: contact.pubkey,
                tvu: socket(SocketKind::Tvu),
                serve_repair: socket(SocketKind::ServeRepair),
                tpu_quic: socket(SocketKind::TpuQuic),
                tpu_vote_quic: socket(SocketKind::TpuVoteQuic),
                stake: self.stakes.of(&contact.pubkey),
                lowest: self.lowest_slot(&contact.pubkey).unwrap_or(0),
            }
        })
    }

    /// Grows whenever [`Self::peers`] may give something else than before, or a node may have another snapshot.
    pub fn peer_changes(&self) -> u64 {
        self.table.peer_changes()
    }

    /// The lowest slot of which a node says that it has shreds.
    pub fn lowest_slot(&self, identity: &Pubkey) -> Option<u64> {
        let label = Label { pubkey: *identity, kind: CrdsKind::LowestSlot, index: 0 };
        match parsed(self.table.get(&label)?).data() {
            CrdsData::LowestSlot(lowest) => Some(lowest.lowest),
            _ => None,
        }
    }

    /// The snapshots that a node says it serves.
    pub fn snapshot_hashes(&self, identity: &Pubkey) -> Option<SnapshotHashes> {
        let label = Label { pubkey: *identity, kind: CrdsKind::SnapshotHashes, index: 0 };
        match parsed(self.table.get(&label)?).data() {
            CrdsData::SnapshotHashes(hashes) => Some(hashes.clone()),
            _ => None,
        }
    }

    /// Values of a kind that came since the cursor was used last, in the order in which they came, this node's too. One
    /// that was replaced meanwhile is not among them. The signatures of the transactions in votes are not checked.
    pub fn values<'a>(&'a self, kind: CrdsKind, cursor: &mut Cursor) -> impl Iterator<Item = CrdsValue<'a>> + use<'a> {
        let from = std::mem::replace(&mut cursor.0, self.table.next_ordinal());
        self.table.kind_since(kind, from).map(parsed)
    }

    /// The next value of a kind that came since the cursor was used last: for a reader who may have no room for the
    /// one behind it.
    pub fn next_value<'a>(&'a self, kind: CrdsKind, cursor: &mut Cursor) -> Option<CrdsValue<'a>> {
        let entry = self.table.kind_since(kind, cursor.0).next();
        cursor.0 = entry.map_or(self.table.next_ordinal(), |entry| entry.ordinal + 1);
        entry.map(parsed)
    }
}
