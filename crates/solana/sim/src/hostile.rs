//! What strangers and a hostile node send beside what the protocol says.
//!
//! reads   what was sent before; blocks of the hostile node
//! writes  datagrams
//! memory  none of its own

use hearth_crypto::sha256::sha256;
use hearth_pipeline::links::PortKind;
use hearth_pipeline::shred::{FecSet, Shredder, ShredderConfig};
use hearth_wire::Hash;
use hearth_wire::entry::write_entry;
use hearth_wire::shred::Shred;

use crate::network::Network;
use crate::node::{Node, TICKS_PER_SLOT, keypair};

/// Every port that takes something of strangers.
const PORTS: [PortKind; 6] =
    [PortKind::Gossip, PortKind::Tvu, PortKind::Repair, PortKind::ServeRepair, PortKind::Udp, PortKind::Quic];

/// Strangers send so many datagrams to a port of each node: what they have seen there, and noise.
pub fn flood(network: &mut Network, now: u64, nodes: usize, port: PortKind, count: u64) {
    for number in 0..count {
        let seen = network.captured(port).filter(|_| number % 4 > 0);
        let data = seen.unwrap_or_else(|| network.noise());
        network.send_strange(now, (number as usize) % nodes, port, data);
    }
}

/// Noise to all ports of each node.
pub fn noise(network: &mut Network, now: u64, nodes: usize) {
    for node in 0..nodes {
        for port in PORTS {
            let data = network.noise();
            network.send_strange(now, node, port, data);
        }
    }
}

/// How a block begins: what another block of its slot needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beginning {
    /// The slot of both blocks.
    pub slot: u64,
    parent: u64,
    /// The id of the parent's block, to which they are chained.
    parent_id: Hash,
    version: u16,
    /// The hash of their first tick.
    first_tick: Hash,
}

/// The newest block of a node, if it made that itself, right after its parent, and above slot `after`; and the shreds
/// of another block of that slot on the same parent, without transactions, which the node's key has signed.
pub fn other_block(node: &Node, seed: u64, version: u16, after: u64) -> Option<(u64, Vec<Vec<u8>>)> {
    let head = node.ledger.recent_blocks(1).first().copied()?;
    let key = keypair(seed, node.number());
    let is_own = node.ledger.leader_at(head.slot)?.node == key.public_key();
    if !is_own || head.slot <= after || head.parent + 1 != head.slot {
        return None;
    }
    let blockhash = node.ledger.summary(head.parent)?.blockhash;
    let block_id = node.blocks.block(head.parent).ok()??.block_id;
    let first_tick = sha256(&[&blockhash]);
    let beginning = Beginning { slot: head.slot, parent: head.parent, parent_id: block_id, version, first_tick };
    let shreds = beginning.block_of_ticks(TICKS_PER_SLOT, |root| key.sign(root))?;
    Some((head.slot, shreds))
}

impl Beginning {
    /// Reads a block's first data shred. `None` for any other shred, and if the block does not begin with a tick of one
    /// hash.
    pub fn of(shred: &[u8]) -> Option<Self> {
        let shred = Shred::parse(shred).ok()?;
        let entries = shred.entry_bytes().filter(|_| shred.index() == 0)?;
        // The number of entries; then of the first one hashes, hash and the number of transactions.
        let (_, entry) = entries.split_first_chunk::<8>()?;
        let (hashes, entry) = entry.split_first_chunk::<8>()?;
        let (first_tick, entry) = entry.split_first_chunk::<32>()?;
        let transactions = entry.first_chunk::<8>()?;
        let is_tick = u64::from_le_bytes(*hashes) == 1 && u64::from_le_bytes(*transactions) == 0;
        let (slot, parent) = (shred.slot(), shred.parent_slot()?);
        let (parent_id, version, first_tick) = (shred.chained_root(), shred.version(), *first_tick);
        is_tick.then_some(Self { slot, parent, parent_id, version, first_tick })
    }

    /// The shreds of a block of ticks alone, at low power. `sign` signs the roots of its sets.
    pub fn block_of_ticks(&self, ticks: u64, sign: impl Fn(&Hash) -> [u8; 64]) -> Option<Vec<Vec<u8>>> {
        let config = ShredderConfig { version: self.version, ..ShredderConfig::default() };
        let mut shredder = Shredder::new(config, self.parent_id);
        shredder.begin_slot(self.slot, self.parent).ok()?;
        let mut hash = self.first_tick;
        for tick in 0..ticks {
            let mut entry = vec![];
            write_entry(1, &hash, 0, &[], &mut entry);
            shredder.push(&entry, tick as u8).ok()?;
            hash = sha256(&[&hash]);
        }
        shredder.end_batch(true);
        let (mut set, mut shreds) = (FecSet::new(), vec![]);
        while shredder.next_set(&mut set) {
            let signature = sign(set.root());
            set.sign(&signature);
            shreds.extend(set.shreds().map(<[u8]>::to_vec));
        }
        Some(shreds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_block_is_one_set_of_its_slot() {
        let beginning = Beginning { slot: 7, parent: 6, parent_id: [2; 32], version: 3, first_tick: [1; 32] };
        let shreds = beginning.block_of_ticks(TICKS_PER_SLOT, |_| [9; 64]).unwrap();
        assert_eq!(shreds.len(), 64);
        for shred in &shreds {
            let slot = &shred[hearth_wire::shred::SLOT..][..8];
            assert_eq!((&shred[..64], slot), (&[9; 64][..], &7u64.to_le_bytes()[..]));
        }
        assert_eq!(Beginning::of(&shreds[0]), Some(beginning));
        assert!(shreds[1..].iter().all(|shred| Beginning::of(shred).is_none()));
    }
}
