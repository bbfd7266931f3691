//! vote_hashes: the bank hashes that votes name, compared with those that this node computes.
//!
//! reads   votes by who may cast them, of gossip and of blocks; blocks as they are executed
//! writes  the hash that others have for a block which came to another one here
//! memory  130 B for each vote account and slot: of votes for blocks that are not executed here yet, and of those that
//!         name another hash than came out
//! drops   votes for slots more than [`AHEAD`] above what is executed: the blocks that they land in tell them again
//!
//! A voter can name any hash. More than a third of the stake are not all hostile: the hash that they name for the very
//! block that was executed here is the right one.

use std::collections::BTreeMap;

use hearth_ledger::stakes::EpochStakes;
use hearth_wire::vote::Voted;
use hearth_wire::{Hash, Pubkey};

use crate::tower::Frozen;

/// How far above what is executed votes are kept, slots.
pub const AHEAD: u64 = 32;

/// By slot, what each vote account has named last.
#[derive(Debug, Default)]
pub struct VoteHashes(BTreeMap<u64, BTreeMap<Pubkey, Voted>>);

/// Bytes that this takes at most with so many vote accounts and blocks above the root.
pub(super) const fn memory(accounts: u64, blocks: u64) -> u64 {
    130 * accounts * (AHEAD + blocks)
}

impl VoteHashes {
    /// An account that may vote has voted.
    pub fn note(&mut self, voted: Voted) {
        self.0.entry(voted.slot).or_default().insert(voted.account, voted);
    }

    /// A block was executed: forgets who names its hash.
    pub fn froze(&mut self, block: &Frozen) {
        let Some(hashes) = self.0.get_mut(&block.id.slot) else { return };
        hashes.retain(|_, voted| voted.bank_hash != block.id.hash);
        if hashes.is_empty() {
            self.0.remove(&block.id.slot);
        }
    }

    /// The hash that more than a third of the stake names for this block, if it is not the one that it came to here.
    pub fn refute(&self, block: &Frozen, stakes: &EpochStakes) -> Option<Hash> {
        let mut named: BTreeMap<Hash, u128> = BTreeMap::new();
        for voted in self.0.get(&block.id.slot)?.values() {
            if voted.block_id == block.block_id && voted.bank_hash != block.id.hash {
                let stake = stakes.vote(&voted.account).map_or(0, |vote| vote.stake);
                *named.entry(voted.bank_hash).or_default() += u128::from(stake);
            }
        }
        named.into_iter().find(|(_, stake)| 3 * stake > u128::from(stakes.total())).map(|(hash, _)| hash)
    }

    /// Whether more than a third of the stake has voted for this version of a slot, with any hash: all of them have
    /// executed it.
    pub fn have(&self, slot: u64, block_id: &Hash, stakes: &EpochStakes) -> bool {
        let votes =
            self.0.get(&slot).into_iter().flat_map(BTreeMap::values).filter(|voted| voted.block_id == *block_id);
        let stake = |voted: &Voted| stakes.vote(&voted.account).map_or(0, |vote| u128::from(vote.stake));
        3 * votes.map(stake).sum::<u128>() > u128::from(stakes.total())
    }

    /// What is rooted is not doubted any more.
    pub fn set_root(&mut self, root: u64) {
        self.0 = self.0.split_off(&(root + 1));
    }
}

#[cfg(test)]
mod tests {
    use hearth_cluster::consensus::BankId;
    use hearth_ledger::stakes::VoteStake;

    use super::*;

    fn block(slot: u64, hash: u8, block_id: u8) -> Frozen {
        let id = BankId { slot, hash: [hash; 32] };
        Frozen { id, parent: slot - 1, block_id: [block_id; 32], blockhash: [0; 32] }
    }

    fn voted(account: u8, slot: u64, hash: u8, block_id: u8) -> Voted {
        Voted { account: [account; 32], slot, bank_hash: [hash; 32], block_id: [block_id; 32] }
    }

    /// Accounts 1, 2 and so on.
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
            // Who names another one later has named that.
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
        // So many have executed what is dead here, whatever they came to.
        let versions = [5, 6].map(|block_id| voted(1, 8, 2, block_id));
        for (version, is_had) in versions.into_iter().zip([false, true]) {
            hashes.note(version);
            assert_eq!(hashes.have(8, &[6; 32], &stakes), is_had);
        }
        hashes.set_root(8);
        assert!(hashes.0.is_empty());
    }
}
