//! Queries of gossip's table by other parts of the node.
//!
//! reads   the table
//! writes  contact infos, peers by purpose, values as they arrived
//! source  `solana-gossip` 4.2.2, `cluster_info.rs`

use std::net::SocketAddrV4;

use hearth_wire::Pubkey;
use hearth_wire::gossip::{ContactInfo, CrdsData, CrdsKind, CrdsValue, Label, SnapshotHashes, SocketKind};

use super::Gossip;
use super::table::Entry;

/// A node of the cluster, with its usable addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Public key that identifies the node in gossip and in the leader schedule.
    pub identity: Pubkey,
    /// TVU: shreds from Turbine.
    pub tvu: Option<SocketAddrV4>,
    /// Address that takes repair requests.
    pub serve_repair: Option<SocketAddrV4>,
    /// TPU: transactions over QUIC.
    pub tpu_quic: Option<SocketAddrV4>,
    /// TPU: votes over QUIC.
    pub tpu_vote_quic: Option<SocketAddrV4>,
    /// Its stake in lamports.
    pub stake: u64,
    /// The lowest slot for which it claims to have shreds; 0 if unknown.
    pub lowest: u64,
}

/// A reader's position among the values of a kind. A new cursor starts with the existing values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor(u64);

/// The port by which Agave 4.2 marks sockets that it no longer has, such as the TPU over UDP: nodes of older releases
/// would treat a node without them as one that takes no transactions at all.
const PLACEHOLDER_PORT: u16 = 1;

fn parsed(entry: &Entry) -> CrdsValue<'_> {
    CrdsValue::parse(&entry.bytes).expect("what is in the table was parsed before")
}

impl Gossip {
    /// All known nodes, including this one, for getClusterNodes.
    pub fn contact_infos(&self) -> impl Iterator<Item = &ContactInfo> {
        let contacts = self.table.kind_since(CrdsKind::ContactInfo, 0).filter_map(|entry| entry.contact.as_deref());
        contacts.filter(|contact| self.gossip_address(contact).is_some() && !self.is_former(contact))
    }

    /// Whether a contact info is of this node, by a key that it has had before: it names this node's gossip socket.
    pub(super) fn is_former(&self, contact: &ContactInfo) -> bool {
        let own = self.own.socket(SocketKind::Gossip);
        contact.pubkey != self.own.pubkey && own.is_some() && contact.socket(SocketKind::Gossip) == own
    }

    /// The contact info of a node.
    pub fn contact_info(&self, identity: &Pubkey) -> Option<&ContactInfo> {
        self.table.contact(identity)
    }

    /// A node's socket for a purpose, if it exists and may be used.
    pub fn socket(&self, contact: &ContactInfo, kind: SocketKind) -> Option<SocketAddrV4> {
        contact.socket(kind).filter(|address| self.is_reachable(address))
    }

    fn is_reachable(&self, address: &SocketAddrV4) -> bool {
        address.port() != PLACEHOLDER_PORT && self.config.is_allowed(address)
    }

    /// A node's contact info with only its usable sockets.
    pub fn reachable(&self, contact: &ContactInfo) -> ContactInfo {
        let sockets = contact.sockets.map(|socket| socket.filter(|address| self.is_reachable(address)));
        ContactInfo { sockets, ..*contact }
    }

    /// All known nodes, including this one, in the form that tiles need.
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

    /// A counter that grows whenever the result of [`Self::peers`] or a node's snapshot may have changed.
    pub fn peer_changes(&self) -> u64 {
        self.table.peer_changes()
    }

    /// The lowest slot for which a node claims to have shreds.
    pub fn lowest_slot(&self, identity: &Pubkey) -> Option<u64> {
        let label = Label { pubkey: *identity, kind: CrdsKind::LowestSlot, index: 0 };
        match parsed(self.table.get(&label)?).data() {
            CrdsData::LowestSlot(lowest) => Some(lowest.lowest),
            _ => None,
        }
    }

    /// The snapshots that a node claims to serve.
    pub fn snapshot_hashes(&self, identity: &Pubkey) -> Option<SnapshotHashes> {
        let label = Label { pubkey: *identity, kind: CrdsKind::SnapshotHashes, index: 0 };
        match parsed(self.table.get(&label)?).data() {
            CrdsData::SnapshotHashes(hashes) => Some(hashes.clone()),
            _ => None,
        }
    }

    /// Values of a kind that arrived since the cursor's last use, in order of arrival, including this node's own.
    /// Values that were replaced meanwhile are skipped. The signatures of vote transactions are not verified.
    pub fn values<'a>(&'a self, kind: CrdsKind, cursor: &mut Cursor) -> impl Iterator<Item = CrdsValue<'a>> + use<'a> {
        let from = std::mem::replace(&mut cursor.0, self.table.next_ordinal());
        self.table.kind_since(kind, from).map(parsed)
    }

    /// The next value of a kind since the cursor's last use: for a reader that may lack room for the one after it.
    pub fn next_value<'a>(&'a self, kind: CrdsKind, cursor: &mut Cursor) -> Option<CrdsValue<'a>> {
        let entry = self.table.kind_since(kind, cursor.0).next();
        cursor.0 = entry.map_or(self.table.next_ordinal(), |entry| entry.ordinal + 1);
        entry.map(parsed)
    }
}
