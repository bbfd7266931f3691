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

/// The parent of a block, as what is built on it needs it.
struct Parent {
    slot: u64,
    blockhash: Hash,
    block_id: Hash,
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
    let parent = Parent { slot: head.parent, blockhash, block_id };
    let shreds = empty_block(head.slot, &parent, version, |root| key.sign(root))?;
    Some((head.slot, shreds))
}

/// The shreds of a block of ticks alone, at low power.
fn empty_block(slot: u64, parent: &Parent, version: u16, sign: impl Fn(&Hash) -> [u8; 64]) -> Option<Vec<Vec<u8>>> {
    let mut shredder = Shredder::new(ShredderConfig { version, ..ShredderConfig::default() }, parent.block_id);
    shredder.begin_slot(slot, parent.slot).ok()?;
    let mut hash = parent.blockhash;
    for tick in 0..TICKS_PER_SLOT {
        hash = sha256(&[&hash]);
        let mut entry = vec![];
        write_entry(1, &hash, 0, &[], &mut entry);
        shredder.push(&entry, tick as u8).ok()?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_block_is_one_set_of_its_slot() {
        let parent = Parent { slot: 6, blockhash: [1; 32], block_id: [2; 32] };
        let shreds = empty_block(7, &parent, 3, |_| [9; 64]).unwrap();
        assert_eq!(shreds.len(), 64);
        for shred in &shreds {
            let slot = &shred[hearth_wire::shred::SLOT..][..8];
            assert_eq!((&shred[..64], slot), (&[9; 64][..], &7u64.to_le_bytes()[..]));
        }
    }
}
