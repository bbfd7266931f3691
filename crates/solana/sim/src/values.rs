//! What a node passes on of others' gossip does not grow older.
//!
//! reads   values that leave a node by gossip, in their order
//! writes  the first that is older than one of its label that left before
//! memory  a time for each label and node
//! drops   a node's own values, whose clock may be set back; contact infos, which go by the begin of a process first

use std::collections::BTreeMap;

use hearth_wire::Pubkey;
use hearth_wire::gossip::{CrdsKind, CrdsValue, Label};

/// For each node, the time of the newest value that has left it since it started, by label.
pub struct PassedOn(Vec<BTreeMap<Label, u64>>);

impl PassedOn {
    /// Makes the record of a cluster of `nodes` nodes.
    pub fn new(nodes: usize) -> Self {
        Self(vec![BTreeMap::new(); nodes])
    }

    /// A node starts: its table of gossip is empty.
    pub fn forget(&mut self, node: usize) {
        self.0[node].clear();
    }

    /// Values leave a node, whose identity is given. Says which is older than one that left before.
    pub fn leave(&mut self, node: usize, own: &Pubkey, values: &[CrdsValue<'_>]) -> Option<String> {
        values.iter().map(|value| (value.label(), value.wallclock())).find_map(|(label, wallclock)| {
            if label.pubkey == *own || label.kind == CrdsKind::ContactInfo {
                return None;
            }
            self.note(node, label, wallclock)
        })
    }

    fn note(&mut self, node: usize, label: Label, wallclock: u64) -> Option<String> {
        let newest = self.0[node].entry(label).or_insert(wallclock);
        if wallclock < *newest {
            let Label { kind, index, .. } = label;
            return Some(format!("node {node} passes on {kind:?} {index} of {wallclock} ms after that of {newest} ms"));
        }
        *newest = wallclock;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_value_is_noticed() {
        let mut passed = PassedOn::new(2);
        let label = |index| Label { pubkey: [1; 32], kind: CrdsKind::Vote, index };
        assert_eq!(passed.note(0, label(3), 50), None);
        assert_eq!(passed.note(0, label(3), 50), None, "the same again");
        assert_eq!(passed.note(0, label(4), 40), None, "another label");
        assert_eq!(passed.note(1, label(3), 40), None, "another node");
        assert!(passed.note(0, label(3), 49).is_some());
        passed.forget(0);
        assert_eq!(passed.note(0, label(3), 49), None, "after a start");
    }
}
