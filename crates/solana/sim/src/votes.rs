//! What votes must keep to: a node's own, and those by which a block counts as confirmed.
//!
//! reads   towers as they come to disk, votes as they leave a node, blocks
//! writes  the first thing that does not hold
//! memory  a hash for each block that was executed, and for each vote

use std::collections::BTreeMap;
use std::path::Path;

use hearth_consensus::{BankId, Tower};
use hearth_ledger::BlockSummary;
use hearth_pipeline::tower::saved_tower;
use hearth_wire::gossip::{CrdsData, CrdsValue};
use hearth_wire::vote::{VoteTarget, voted_for};
use hearth_wire::{Hash, Pubkey, Txn};

/// The votes of one node, as far as they are known.
#[derive(Default)]
struct Voter {
    /// The blocks that it voted for: their towers are on disk.
    votes: Vec<BankId>,
    /// The newest slot whose vote has left.
    newest: u64,
    /// The tower on disk at that time.
    tower: Option<Tower>,
    /// By slot, the hash of the bank that each vote that has left is for.
    left: BTreeMap<u64, Hash>,
}

impl Voter {
    /// Notes a vote that leaves. Returns its slot if an earlier one was for another block there.
    fn note(&mut self, voted: &VoteTarget) -> Option<u64> {
        let first = *self.left.entry(voted.slot).or_insert(voted.bank_hash);
        (first != voted.bank_hash).then_some(voted.slot)
    }
}

/// The votes of all nodes.
pub struct Votes {
    voters: Vec<Voter>,
    /// The slot of each block and its parent's bank hash, by the block's bank hash.
    blocks: BTreeMap<Hash, (u64, Hash)>,
}

impl Votes {
    /// Makes the record of a cluster of `nodes` nodes.
    pub fn new(nodes: usize) -> Self {
        Self { voters: (0..nodes).map(|_| Voter::default()).collect(), blocks: BTreeMap::new() }
    }

    /// A node has executed these blocks, of one line, the newest first.
    pub fn executed(&mut self, blocks: &[BlockSummary]) {
        for pair in blocks.windows(2) {
            if let (Some(hash), Some(parent)) = (pair[0].bank_hash, pair[1].bank_hash) {
                self.blocks.insert(hash, (pair[0].slot, parent));
            }
        }
    }

    /// A node has put the towers of these votes on disk.
    pub fn saved(&mut self, node: usize, votes: &mut Vec<BankId>) {
        self.voters[node].votes.append(votes);
    }

    /// Looks up a slot in the chain that ends with a block.
    fn at(&self, mut hash: Hash, slot: u64) -> ChainAtSlot {
        loop {
            match self.blocks.get(&hash) {
                None => return ChainAtSlot::Unknown,
                Some((at, _)) if *at == slot => return ChainAtSlot::Has(hash),
                Some((at, _)) if *at < slot => return ChainAtSlot::Lacks,
                Some((_, parent)) => hash = *parent,
            }
        }
    }

    /// Whether more than two thirds of the stake may have voted for this block or one above it. `stakes` are the
    /// lamports of each node in the epoch of the slot.
    pub fn may_be_confirmed(&self, slot: u64, hash: Hash, stakes: &[u64]) -> bool {
        let has_voted = |voter: &Voter| {
            let newer = voter.votes.iter().rev().filter(|vote| vote.slot >= slot);
            newer
                .map(|vote| self.at(vote.hash, slot))
                .any(|line| line == ChainAtSlot::Unknown || line == ChainAtSlot::Has(hash))
        };
        let voted = self.voters.iter().zip(stakes).filter(|(voter, _)| has_voted(voter));
        let voted: u128 = voted.map(|(_, stake)| u128::from(*stake)).sum();
        let all: u128 = stakes.iter().map(|stake| u128::from(*stake)).sum();
        3 * voted > 2 * all
    }

    /// Values leave a node by gossip, whose identity and vote account are given. Says what is wrong with a vote of
    /// its own in it: that it is for another block than an earlier one of the same slot, that its tower is not on disk,
    /// or that it breaks an earlier one.
    pub fn leave(
        &mut self,
        node: usize,
        folder: &Path,
        (own, account): (&Pubkey, &Pubkey),
        values: &[CrdsValue<'_>],
    ) -> Fault {
        let voter = &mut self.voters[node];
        let votes = own_votes(values, account);
        if let Some(slot) = votes.iter().find_map(|voted| voter.note(voted)) {
            return Fault::Twice(format!("node {node} votes for two blocks of slot {slot}"));
        }
        let newest = votes.into_iter().max_by_key(|voted| voted.slot).filter(|voted| voted.slot > voter.newest);
        let Some(voted) = newest else { return Fault::None };
        let Some(tower) = saved_tower(folder, own).ok().flatten() else {
            return Fault::NotOnDisk(format!("node {node} votes for slot {} without a tower", voted.slot));
        };
        let last = tower.last_vote().map_or(0, |vote| vote.id.slot);
        if last < voted.slot {
            let what = format!("node {node} votes for slot {}, its tower on disk ends with {last}", voted.slot);
            return Fault::NotOnDisk(what);
        }
        let broken = self.voters[node].tower.as_ref().and_then(|before| {
            let binding = before.lockouts().votes.iter().filter(|vote| vote.slot < voted.slot);
            let mut binding = binding.filter(|vote| vote.binds_at(voted.slot));
            binding.find(|vote| self.at(voted.bank_hash, vote.slot) == ChainAtSlot::Lacks).copied()
        });
        let voter = &mut self.voters[node];
        (voter.newest, voter.tower) = (voted.slot, Some(tower));
        broken.map_or(Fault::None, |vote| {
            let until = vote.last_locked_out_slot();
            Fault::Breaks(format!(
                "node {node} votes for slot {}, its vote for {} binds to {until}",
                voted.slot, vote.slot
            ))
        })
    }
}

/// The content of a chain at a slot: the bank hash of a block there, or none.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ChainAtSlot {
    Has(Hash),
    Lacks,
    Unknown,
}

/// A rule that a vote breaks when it leaves its node.
pub enum Fault {
    /// The vote breaks no rule that is checked here.
    None,
    /// An earlier one was for another block of the same slot.
    Twice(String),
    /// Its tower is not on disk.
    NotOnDisk(String),
    /// An earlier vote for another fork still binds.
    Breaks(String),
}

/// The votes with this account among values of gossip.
fn own_votes(values: &[CrdsValue<'_>], account: &Pubkey) -> Vec<VoteTarget> {
    let votes = values.iter().filter_map(|value| match value.data() {
        CrdsData::Vote(vote) => voted_for(&Txn::parse(vote.transaction).ok()?),
        _ => None,
    });
    votes.filter(|voted| voted.account == *account).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(slot: u64) -> Hash {
        let mut hash = [7; 32];
        hash[..8].copy_from_slice(&slot.to_le_bytes());
        hash
    }

    #[test]
    fn a_block_counts_by_votes_on_its_line() {
        let mut votes = Votes::new(4);
        // 1 ← 2 ← 3, and 4 on 1.
        for (slot, parent) in [(1, 0), (2, 1), (3, 2), (4, 1)] {
            votes.blocks.insert(hash(slot), (slot, hash(parent)));
        }
        let vote = |slot| BankId { slot, hash: hash(slot) };
        votes.saved(0, &mut vec![vote(2)]);
        votes.saved(1, &mut vec![vote(3)]);
        votes.saved(2, &mut vec![vote(4)]);
        assert!(!votes.may_be_confirmed(2, hash(2), &[1; 4]), "two of four are on its line");
        assert!(votes.may_be_confirmed(1, hash(1), &[1; 4]), "three are");
        assert!(votes.may_be_confirmed(2, hash(2), &[3, 2, 1, 1]), "these two have five sevenths");
        assert!(!votes.may_be_confirmed(1, hash(1), &[1, 1, 1, 2]), "the fourth has two fifths");
    }

    #[test]
    fn a_second_block_of_a_slot_is_noticed() {
        let mut voter = Voter::default();
        let voted = |slot, bank_hash| VoteTarget { account: [1; 32], slot, bank_hash, block_id: [2; 32] };
        assert_eq!(voter.note(&voted(3, hash(3))), None);
        assert_eq!(voter.note(&voted(3, hash(3))), None, "the same again");
        assert_eq!(voter.note(&voted(4, hash(4))), None);
        assert_eq!(voter.note(&voted(3, hash(9))), Some(3));
    }
}
