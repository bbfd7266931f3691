//! stakes: feeds the current epoch's stakes to quic, which must not access the ledger.
//!
//! reads   the epoch's stakes in the ledger
//! writes  chunks of the table of staked identities
//! memory  [`BYTES_MAX`]
//! drops   the smallest stakes beyond [`STAKED_MAX`]: these identities count as unstaked
//! source  `staked_validators_cache.rs` of `solana-core` 4.2.2

use std::collections::BTreeMap;
use std::sync::Arc;

use hearth_ledger::stakes::EpochStakes;
use hearth_ledger::{Commitment, Ledger};
use hearth_wire::Pubkey;

use crate::links::{STAKED_MAX, StakesPiece};

/// Bytes of a table being sent.
pub(super) const BYTES_MAX: usize = STAKED_MAX * size_of::<(Pubkey, u64)>();

/// The table being sent.
#[derive(Default)]
pub(super) struct StakeFeed {
    /// The stakes it was built from: another epoch's or another fork's require a new table.
    source: Option<Arc<EpochStakes>>,
    table: Vec<(Pubkey, u64)>,
    /// Number of its identities sent so far.
    sent: usize,
}

impl StakeFeed {
    /// Starts a new table if the stakes of the next slot's epoch differ from the last table's.
    pub(super) fn look(&mut self, ledger: &Ledger) {
        let epoch = ledger.epoch_schedule().epoch(ledger.slot(Commitment::Processed) + 1);
        // At the start of an epoch they may be unknown: the last table holds until then.
        let Some(stakes) = ledger.epoch_stakes(epoch) else { return };
        if !self.source.as_ref().is_some_and(|source| Arc::ptr_eq(source, &stakes)) {
            self.table = by_identity(&stakes, STAKED_MAX);
            self.sent = 0;
            self.source = Some(stakes);
        }
    }

    /// Whether there is a chunk to send.
    pub(super) fn has_piece(&self) -> bool {
        self.sent < self.table.len()
    }

    /// Writes the next chunk; returns its length in bytes.
    pub(super) fn write_piece(&mut self, buffer: &mut [u8]) -> usize {
        let bytes = StakesPiece::write(buffer, &self.table, self.sent);
        self.sent = self.table.len().min(self.sent + StakesPiece::LEN_MAX);
        if self.sent == self.table.len() {
            self.table = vec![];
            self.sent = 0;
        }
        bytes
    }
}

/// Sums the lamports of each identity over all its vote accounts; beyond `max` identities, keeps those with the most.
fn by_identity(stakes: &EpochStakes, max: usize) -> Vec<(Pubkey, u64)> {
    let mut identities = BTreeMap::<Pubkey, u64>::new();
    for vote in stakes.votes.iter().filter(|vote| vote.stake > 0) {
        *identities.entry(vote.node).or_default() += vote.stake;
    }
    let mut table: Vec<_> = identities.into_iter().collect();
    if table.len() > max {
        table.sort_unstable_by_key(|(identity, lamports)| (std::cmp::Reverse(*lamports), *identity));
        table.truncate(max);
    }
    table
}

#[cfg(test)]
mod tests {
    use hearth_ledger::stakes::VoteStake;

    use super::*;

    #[test]
    fn stakes_add_up_by_identity() {
        let of = [(1, 5), (2, 9), (1, 6), (3, 0), (4, 1)];
        let vote = |(at, (node, stake)): (usize, &(u8, u64))| VoteStake {
            vote: [at as u8; 32],
            node: [*node; 32],
            collector: [*node; 32],
            stake: *stake,
        };
        let mut stakes = EpochStakes::default();
        stakes.votes = of.iter().enumerate().map(vote).collect();
        assert_eq!(by_identity(&stakes, 3), [([1; 32], 11), ([2; 32], 9), ([4; 32], 1)]);
        assert_eq!(by_identity(&stakes, 2), [([1; 32], 11), ([2; 32], 9)]);
    }
}
