//! A leader makes one block of each of its slots, whatever happens to its process and its disk.
//!
//! reads   shreds that leave the leader of their slot
//! writes  the first whose FEC set the leader has signed before with other contents
//! memory  a part of a signature for each FEC set
//! drops   nothing

use std::collections::BTreeMap;

use hearth_wire::shred::{SET_INDEX, SIGNATURE};

/// The FEC sets that leaders have sent of their own slots: by node, slot and set the first bytes of its signature.
#[derive(Default)]
pub struct SignedSets(BTreeMap<(usize, u64, u32), u64>);

impl SignedSets {
    /// A shred of a node's own slot leaves it. Says which set the node has signed twice.
    pub fn leave(&mut self, node: usize, slot: u64, shred: &[u8]) -> Option<String> {
        let set = u32::from_le_bytes(*shred.get(SET_INDEX..)?.first_chunk()?);
        // The signature is of the set's Merkle root, and the same in each of its shreds.
        let signature = u64::from_le_bytes(*shred.get(SIGNATURE)?.first_chunk()?);
        let first = *self.0.entry((node, slot, set)).or_insert(signature);
        (first != signature).then(|| format!("node {node} has signed two FEC sets {set} of its slot {slot}"))
    }
}

#[cfg(test)]
mod tests {
    use hearth_wire::shred::DATA_SHRED_SIZE;

    use super::*;

    #[test]
    fn another_set_of_a_slot_is_noticed() {
        let shred = |set: u8, signature: u8| {
            let mut shred = vec![0; DATA_SHRED_SIZE];
            (shred[SET_INDEX], shred[0]) = (set, signature);
            shred
        };
        let mut signed = SignedSets::default();
        assert_eq!(signed.leave(0, 7, &shred(0, 1)), None);
        assert_eq!(signed.leave(0, 7, &shred(0, 1)), None, "another shred of it");
        assert_eq!(signed.leave(0, 7, &shred(32, 2)), None, "the next set");
        assert_eq!(signed.leave(0, 8, &shred(0, 3)), None, "another slot");
        assert_eq!(signed.leave(1, 7, &shred(0, 4)), None, "another node");
        assert_eq!(signed.leave(0, 7, &[0; 20]), None, "no shred");
        assert!(signed.leave(0, 7, &shred(0, 5)).is_some());
    }
}
