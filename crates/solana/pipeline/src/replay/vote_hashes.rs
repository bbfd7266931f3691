//! vote_hashes: compares the bank hashes that votes name with those that this node computes.
//!
//! reads   votes by authorized voters, from gossip and from blocks; blocks as they are executed
//! writes  the hash that other nodes have for a block, if this node computed another one
//! memory  45 B per vote account and slot: for votes on blocks not executed here yet, and for those that name another
//!         hash than this node's; 140 B per version of a slot
//! drops   votes for slots more than [`AHEAD`] above the executed ones: they arrive again in the blocks in which they
//!         land
//!
//! A voter can name any hash. But more than a third of the stake is not all malicious: the hash that it names for the
//! very block executed here is the right one.

use std::collections::{BTreeMap, BTreeSet};

use hearth_ledger::stakes::EpochStakes;
use hearth_wire::vote::VoteTarget;
use hearth_wire::{Hash, Pubkey};

use crate::tower::TowerBlock;

/// How many slots above the executed ones votes are kept for. Consensus counts as many per account: it must not mistake
/// a block for another version whose votes are unknown here, because it would have the block dropped before they land.
pub const AHEAD: u64 = 2_048;

/// A version of a slot, with the accounts whose last vote for the slot names it.
#[derive(Debug)]
struct Version {
    bank_hash: Hash,
    block_id: Hash,
    voters: BTreeSet<Pubkey>,
}

impl Version {
    fn stake(&self, stakes: &EpochStakes) -> u128 {
        self.voters.iter().map(|voter| stakes.vote(voter).map_or(0, |vote| u128::from(vote.stake))).sum()
    }
}

/// By slot, what each vote account has last named.
#[derive(Debug, Default)]
pub struct VoteHashes(BTreeMap<u64, Vec<Version>>);

/// Maximum bytes for this many vote accounts and blocks above the root.
pub(super) const fn memory(accounts: u64, blocks: u64) -> u64 {
    130 * accounts * (AHEAD + blocks)
}

impl VoteHashes {
    /// Records a vote by an authorized voter.
    pub fn note(&mut self, voted: VoteTarget) {
        let VoteTarget { account, slot, bank_hash, block_id } = voted;
        let versions = self.0.entry(slot).or_default();
        versions.retain_mut(|version| !version.voters.remove(&account) || !version.voters.is_empty());
        match versions.iter_mut().find(|version| (version.bank_hash, version.block_id) == (bank_hash, block_id)) {
            Some(version) => drop(version.voters.insert(account)),
            None => versions.push(Version { bank_hash, block_id, voters: [account].into() }),
        }
    }

    /// Records an executed block: forgets the voters that name its hash.
    pub fn froze(&mut self, block: &TowerBlock) {
        let Some(versions) = self.0.get_mut(&block.id.slot) else { return };
        versions.retain(|version| version.bank_hash != block.id.hash);
        if versions.is_empty() {
            self.0.remove(&block.id.slot);
        }
    }

    /// Returns the hash that more than a third of the stake names for this block, if it differs from the one computed
    /// here.
    pub fn refute(&self, block: &TowerBlock, stakes: &EpochStakes) -> Option<Hash> {
        let others = self.of(block.id.slot, &block.block_id).filter(|version| version.bank_hash != block.id.hash);
        let mut refuting = others.filter(|version| 3 * version.stake(stakes) > u128::from(stakes.total()));
        refuting.next().map(|version| version.bank_hash)
    }

    /// Whether more than a third of the stake has voted for this version of a slot, with any hash: all of that stake
    /// has executed it.
    pub fn have(&self, slot: u64, block_id: &Hash, stakes: &EpochStakes) -> bool {
        3 * self.of(slot, block_id).map(|version| version.stake(stakes)).sum::<u128>() > u128::from(stakes.total())
    }

    fn of(&self, slot: u64, block_id: &Hash) -> impl Iterator<Item = &Version> {
        self.0.get(&slot).into_iter().flatten().filter(move |version| version.block_id == *block_id)
    }

    /// Forgets slots up to and including `root`: rooted blocks are no longer in doubt.
    pub fn set_root(&mut self, root: u64) {
        self.0 = self.0.split_off(&(root + 1));
    }
}

#[cfg(test)]
mod tests {
    use hearth_consensus::BankId;
    use hearth_ledger::stakes::VoteStake;

    use super::*;

    fn block(slot: u64, hash: u8, block_id: u8) -> TowerBlock {
        let id = BankId { slot, hash: [hash; 32] };
        TowerBlock { id, parent: slot - 1, block_id: [block_id; 32], blockhash: [0; 32] }
    }

    fn voted(account: u8, slot: u64, hash: u8, block_id: u8) -> VoteTarget {
        VoteTarget { account: [account; 32], slot, bank_hash: [hash; 32], block_id: [block_id; 32] }
    }

    /// Stakes of accounts 1, 2 and so on.
    fn stakes(of: &[u64]) -> EpochStakes {
        let stake = |(number, stake): (u8, &u64)| {
            let key = [number; 32];
            VoteStake { vote: key, node: key, collector: key, stake: *stake }
        };
        let mut stakes = EpochStakes::default();
        stakes.votes = (1..).zip(of).map(stake).collect();
        stakes
    }

    #[test]
    fn more_than_a_third_of_the_stake_refutes_whatever_comes_first() {
        let stakes = stakes(&[30, 4, 33, 33]);
        for first in [true, false] {
            let (mut hashes, block) = (VoteHashes::default(), block(7, 1, 5));
            let votes = [voted(1, 7, 2, 5), voted(3, 7, 1, 5), voted(4, 7, 3, 5)];
            if first {
                hashes.froze(&block);
            }
            votes.into_iter().for_each(|voted| hashes.note(voted));
            assert_eq!(hashes.refute(&block, &stakes), None, "two thirds, of two hashes");
            hashes.note(voted(2, 7, 2, 5));
            hashes.froze(&block);
            assert_eq!(hashes.refute(&block, &stakes), Some([2; 32]), "34 of 100");
            // A later vote for another version replaces this one.
            hashes.note(voted(2, 7, 9, 5));
            assert_eq!(hashes.refute(&block, &stakes), None);
        }
    }

    #[test]
    fn votes_for_another_version_do_not_refute() {
        let (mut hashes, stakes) = (VoteHashes::default(), stakes(&[60, 40]));
        hashes.note(voted(1, 7, 2, 6));
        assert_eq!(hashes.refute(&block(7, 1, 5), &stakes), None);
        hashes.froze(&block(7, 1, 5));
        // Once that version is executed, it does.
        assert_eq!(hashes.refute(&block(7, 3, 6), &stakes), Some([2; 32]));
        assert_eq!(hashes.refute(&block(7, 2, 6), &stakes), None);
        hashes.froze(&block(7, 2, 6));
        assert!(hashes.0.is_empty());
        // That much stake has executed what is dead here, with whatever hash.
        let versions = [5, 6].map(|block_id| voted(1, 8, 2, block_id));
        for (version, is_had) in versions.into_iter().zip([false, true]) {
            hashes.note(version);
            assert_eq!(hashes.have(8, &[6; 32], &stakes), is_had);
        }
        hashes.set_root(8);
        assert!(hashes.0.is_empty());
    }
}
