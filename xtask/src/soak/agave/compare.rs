//! Bank hashes of two nodes, slot by slot: the sysvar `SlotHashes` has those of the last 512 slots.
//!
//! reads   `SlotHashes` of both nodes, at commitment `confirmed`
//! memory  32 bytes a slot and node

use std::collections::BTreeMap;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::{Value, json};

use super::nodes::Remote;

const SLOT_HASHES: &str = "SysvarS1otHashes111111111111111111111111111";
/// A slot in 8 bytes, and a hash.
const ENTRY: usize = 40;

/// The hashes that were seen of two nodes.
#[derive(Default)]
pub struct Hashes {
    /// Slots before this one do not count.
    first: u64,
    ours: BTreeMap<u64, [u8; 32]>,
    theirs: BTreeMap<u64, [u8; 32]>,
}

impl Hashes {
    /// Creates a comparison of the slots from `first` on.
    pub fn since(first: u64) -> Self {
        Self { first, ..Self::default() }
    }

    /// Adds what both nodes have now. A node that does not answer adds nothing.
    pub fn look(&mut self, ours: &Remote, theirs: &Remote) {
        let first = self.first;
        let counts = move |(slot, _): &(u64, [u8; 32])| *slot >= first;
        let [here, there] = [ours, theirs].map(|node| hashes(node).unwrap_or_default().into_iter().filter(counts));
        self.ours.extend(here);
        self.theirs.extend(there);
    }

    /// The number of slots of which both nodes' hashes are known, and those of them that differ.
    pub fn compared(&self) -> (usize, Vec<u64>) {
        let both = self.ours.iter().filter_map(|(slot, hash)| Some((*slot, hash, self.theirs.get(slot)?)));
        let different = both.clone().filter(|(_, ours, theirs)| ours != theirs).map(|(slot, ..)| slot).collect();
        (both.count(), different)
    }

    /// Returns the faults: a hash that differs, or fewer slots in common than there must be.
    pub fn wrong(&self, at_least: usize) -> Vec<String> {
        let (common, different) = self.compared();
        let mut wrong: Vec<String> =
            different.iter().map(|slot| format!("slot {slot}: the bank hashes differ")).collect();
        if common < at_least {
            wrong.push(format!("only {common} slots have a bank hash of both nodes; expected {at_least} at least"));
        }
        wrong
    }

    /// The number of slots compared.
    pub fn figures(&self) -> Value {
        let (common, different) = self.compared();
        json!({ "compared": common, "equal": common - different.len(), "last": self.ours.keys().next_back() })
    }
}

fn hashes(node: &Remote) -> Option<Vec<(u64, [u8; 32])>> {
    let options = json!({ "encoding": "base64", "commitment": "confirmed" });
    let account = node.call("getAccountInfo", json!([SLOT_HASHES, options])).ok()?;
    parse(&BASE64_STANDARD.decode(account["value"]["data"][0].as_str()?).ok()?)
}

/// Parses the sysvar's data: a count in 8 bytes, then the entries.
fn parse(data: &[u8]) -> Option<Vec<(u64, [u8; 32])>> {
    let (count, entries) = data.split_first_chunk()?;
    let count = usize::try_from(u64::from_le_bytes(*count)).ok()?;
    let entries = entries.get(..count.checked_mul(ENTRY)?)?;
    let entry = |entry: &[u8]| {
        let (slot, hash) = entry.split_first_chunk()?;
        Some((u64::from_le_bytes(*slot), hash.try_into().ok()?))
    };
    entries.chunks_exact(ENTRY).map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_slot_hashes_are_refused() {
        let mut data = 2_u64.to_le_bytes().to_vec();
        for slot in [9_u64, 7] {
            data.extend(slot.to_le_bytes());
            data.extend([slot as u8; 32]);
        }
        assert_eq!(parse(&data), Some(vec![(9, [9; 32]), (7, [7; 32])]));
        assert_eq!(parse(&data[..data.len() - 1]), None);
    }

    #[test]
    fn a_different_hash_is_wrong() {
        let hashes = Hashes {
            first: 0,
            ours: BTreeMap::from([(1, [1; 32]), (2, [2; 32])]),
            theirs: BTreeMap::from([(2, [3; 32]), (4, [4; 32])]),
        };
        assert_eq!(hashes.compared(), (1, vec![2]));
        assert_eq!(hashes.wrong(1), ["slot 2: the bank hashes differ"]);
        assert_eq!(hashes.wrong(2).len(), 2);
    }
}
