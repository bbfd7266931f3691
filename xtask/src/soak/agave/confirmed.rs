//! Confirmed blocks of both nodes: their transactions, and who made them.
//!
//! reads   `getBlocks`, `getBlock`, `getSlotLeaders`
//! memory  the signatures of the blocks of a part, the slots of a scenario

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::nodes::Remote;

/// A confirmed block: its hash, and the signatures of its transactions.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Block {
    hash: Value,
    signatures: Value,
}

/// The confirmed blocks of a node from a slot on.
pub struct Chain {
    node: Remote,
    first: u64,
    /// The next slot to ask for.
    next: u64,
    blocks: BTreeMap<u64, Block>,
}

impl Chain {
    pub const fn from(node: Remote, first: u64) -> Self {
        Self { node, first, next: first, blocks: BTreeMap::new() }
    }

    /// Adds what has been confirmed since. A node that does not answer adds nothing: it is asked again.
    pub fn look(&mut self) {
        let Some(last) = self.node.slot("confirmed").filter(|last| *last >= self.next) else { return };
        let Ok(slots) = slots(self.node, self.next, last) else { return };
        for slot in slots {
            let Some(block) = block(self.node, slot) else { return };
            self.blocks.insert(slot, block);
            self.next = slot + 1;
        }
        self.next = last + 1;
    }

    /// Names the slots whose block one node has and the other has not, up to the last that both were asked for: nothing
    /// confirmed may be missing on either.
    pub fn lost(&self, other: &Self) -> Vec<String> {
        let (first, end) = (self.first.max(other.first), self.next.min(other.next));
        let slots: BTreeSet<u64> = self.blocks.keys().chain(other.blocks.keys()).copied().collect();
        let within = slots.range(first..end.max(first));
        within.filter_map(|slot| self.lost_in(*slot, other)).collect()
    }

    fn lost_in(&self, slot: u64, other: &Self) -> Option<String> {
        let only = |node: Remote| Some(format!("slot {slot} is confirmed on {} alone", node.0));
        match (self.blocks.get(&slot), other.blocks.get(&slot)) {
            (Some(_), None) => only(self.node),
            (None, Some(_)) => only(other.node),
            (Some(here), Some(there)) if here.hash != there.hash => {
                Some(format!("slot {slot}: two blocks are confirmed"))
            }
            (Some(here), Some(there)) if here.signatures != there.signatures => {
                Some(format!("slot {slot}: the transactions of the confirmed block differ"))
            }
            _ => None,
        }
    }

    /// The slot up to which its blocks are known.
    pub const fn read_to(&self) -> u64 {
        self.next
    }

    /// The slots of its blocks.
    pub fn slots(&self) -> impl Iterator<Item = u64> {
        self.blocks.keys().copied()
    }

    /// Returns the blocks that each leader made of its slots.
    pub fn production(&self) -> Production {
        let mut production = Production::default();
        let mut first = self.first;
        while first < self.next {
            let count = (self.next - first).min(LEADERS_MAX);
            let Ok(leaders) = self.node.call("getSlotLeaders", json!([first, count])) else { break };
            for (slot, leader) in (first..).zip(leaders.as_array().into_iter().flatten()) {
                production.add(leader.as_str().unwrap_or_default(), slot, self.blocks.contains_key(&slot));
            }
            first += count;
        }
        production
    }
}

/// Leaders of so many slots are asked for at once: a node may name those of one epoch only.
const LEADERS_MAX: u64 = 32;

/// The slots of a node's confirmed blocks.
fn slots(node: Remote, first: u64, last: u64) -> Result<Vec<u64>, String> {
    let slots = node.call("getBlocks", json!([first, last, { "commitment": "confirmed" }]))?;
    Ok(slots.as_array().into_iter().flatten().filter_map(Value::as_u64).collect())
}

fn block(node: Remote, slot: u64) -> Option<Block> {
    let options = json!({
        "commitment": "confirmed", "transactionDetails": "signatures", "rewards": false,
        "maxSupportedTransactionVersion": 0,
    });
    let mut block = node.call("getBlock", json!([slot, options])).ok()?;
    Some(Block { hash: block["blockhash"].take(), signatures: block["signatures"].take() })
}

/// Returns the confirmed slots that a node no longer has, of those after its first block.
pub fn missing(node: Remote, confirmed: &BTreeSet<u64>) -> Result<Vec<u64>, String> {
    let first = node.call("getFirstAvailableBlock", json!([]))?.as_u64().unwrap_or(0);
    let (Some(begin), Some(end)) = (confirmed.range(first..).next(), confirmed.last()) else { return Ok(vec![]) };
    let there: BTreeSet<u64> = slots(node, *begin, *end)?.into_iter().collect();
    Ok(confirmed.range(first..).filter(|slot| !there.contains(slot)).copied().collect())
}

/// By leader: its slots, and whether they have a confirmed block.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Production(BTreeMap<String, BTreeMap<u64, bool>>);

impl Production {
    fn add(&mut self, leader: &str, slot: u64, is_made: bool) {
        self.0.entry(leader.to_owned()).or_default().insert(slot, is_made);
    }

    /// Slots that a node led and slots that it skipped.
    pub fn of(&self, leader: &str) -> (u64, u64) {
        let Some(slots) = self.0.get(leader) else { return (0, 0) };
        let skipped = slots.values().filter(|is_made| !**is_made).count();
        (slots.len() as u64, skipped as u64)
    }

    /// The slots that a node led.
    pub fn led(&self, leader: &str) -> BTreeSet<u64> {
        self.0.get(leader).into_iter().flat_map(BTreeMap::keys).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::nodes::{AGAVE, OURS};
    use super::*;

    fn chain(node: Remote, blocks: &[(u64, &str)]) -> Chain {
        let block = |hash: &str| Block { hash: hash.into(), signatures: json!([]) };
        let blocks = blocks.iter().map(|(slot, hash)| (*slot, block(hash))).collect();
        Chain { node, first: 1, next: 10, blocks }
    }

    #[test]
    fn confirmed_blocks_are_on_both() {
        let ours = chain(OURS, &[(1, "a"), (2, "b"), (4, "d")]);
        assert_eq!(ours.lost(&chain(AGAVE, &[(1, "a"), (2, "b"), (4, "d")])), [""; 0]);
        let lost = ours.lost(&chain(AGAVE, &[(1, "a"), (2, "c"), (3, "d")]));
        assert_eq!(lost.len(), 3, "{lost:?}");
        assert!(lost[0].contains("two blocks") && lost[1].contains("127.0.0.1 alone"), "{lost:?}");
    }

    #[test]
    fn slots_not_asked_for_are_not_lost() {
        let mut theirs = chain(AGAVE, &[(1, "a")]);
        theirs.next = 2;
        assert_eq!(chain(OURS, &[(1, "a"), (2, "b")]).lost(&theirs), [""; 0]);
    }

    #[test]
    fn skipped_slots_are_counted() {
        let mut production = Production::default();
        for (slot, is_made) in (4..).zip([true, false, true, true]) {
            production.add("a", slot, is_made);
        }
        assert_eq!(production.of("a"), (4, 1));
        assert_eq!(production.led("a"), BTreeSet::from([4, 5, 6, 7]));
        assert_eq!(production.of("b"), (0, 0));
    }
}
