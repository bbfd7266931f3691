//! points: the hashing state at the end of each block that the ledger can rewind to.
//!
//! reads   the state that each block left when its hash was computed
//! writes  the hashing state, rewound; which vote accounts a block changed
//! memory  2.1 KB per block above the root, 32 B per vote account that it changed
//! drops   points below the oldest slot that the ledger can rewind to

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::Ordering::*;

use hearth_wire::consts::VOTE_PROGRAM;
use hearth_wire::{Hash, Pubkey};

use super::{BankHasher, State};
use crate::account::Account;
use crate::accounts::Accounts;
use crate::lattice::Lattice;

/// The hashing state at the end of a block.
struct Point {
    slot: u64,
    lattice: Lattice,
    lamports: u64,
    /// The vote accounts that differ from the end of the parent block.
    voted: Vec<Pubkey>,
}

/// The points of the blocks from the oldest possible rewind target on, the newest last; never empty.
pub(super) struct Points {
    points: VecDeque<Point>,
    /// Vote accounts that the slot in progress has changed.
    voting: Vec<Pubkey>,
}

impl Points {
    /// Records a changed account of the slot in progress.
    pub(super) fn note(&mut self, key: &Pubkey, before: &Account, after: &Account) {
        if [before, after].iter().any(|account| account.lamports != 0 && account.owner == VOTE_PROGRAM) {
            self.voting.push(*key);
        }
    }

    /// Ends the slot in progress, which is now hashed.
    pub(super) fn end(&mut self, slot: u64, lattice: &Lattice, lamports: u64, oldest_slot: u64) {
        let mut voted = std::mem::take(&mut self.voting);
        voted.sort_unstable();
        self.points.push_back(Point { slot, lattice: lattice.clone(), lamports, voted });
        while self.points.len() > 1 && self.points[0].slot < oldest_slot {
            self.points.pop_front();
        }
    }

    fn point(&self, slot: u64) -> Option<&Point> {
        self.points.binary_search_by_key(&slot, |point| point.slot).ok().map(|at| &self.points[at])
    }
}

impl BankHasher {
    /// Starts to keep points for rewinds, at first that of the newest block. `bytes_max` bounds the bytes kept for
    /// rewinds and for reads of blocks that are not final.
    pub(crate) fn keep_points(&self, bytes_max: usize) {
        let mut state = self.state();
        let (slot, lattice, lamports) = (state.newest().0, state.lattice.clone(), state.lamports);
        let newest = Point { slot, lattice, lamports, voted: state.index.votes.iter().copied().collect() };
        state.points = Some(Points { points: VecDeque::from([newest]), voting: vec![] });
        state.past_bytes_max = bytes_max;
    }

    /// Rewinds to the end of `slot`, of this era, which must have a point; the accounts are rewound with it. All ended
    /// slots must be hashed, and there must be no concurrent writer.
    pub(crate) fn rewind(&self, accounts: &Accounts, slot: u64, era: u32) {
        let mut state = self.state();
        assert!(state.under_way.is_none(), "the newest block is hashed before the chain goes back");
        let State { index, past, hashes, points, kept, .. } = &mut *state;
        // Eras in progress are in no index.
        let last_era = past.back().map_or(era, |(era, _)| *era);
        accounts.rewind(era, |undone| {
            if undone.era <= last_era {
                index.note(undone.key, undone.from, undone.to);
            }
        });
        past.truncate(past.partition_point(|(of, _)| *of <= era));
        hashes.truncate(hashes.partition_point(|(of, _)| *of <= slot));
        kept.take_if(|kept| kept.slot > slot);
        let points = points.as_mut().expect("only where points are kept the chain goes back");
        points.points.truncate(points.points.partition_point(|point| point.slot <= slot));
        let point = points.point(slot).expect("a point for each block that may be gone back to");
        (state.lattice, state.lamports) = (point.lattice.clone(), point.lamports);
        self.capitalization.store(state.lamports, Relaxed);
    }

    /// The bank hash of `slot`, and the sorted vote accounts that differ from its parent; all of them for the block
    /// with which this ledger started. `None` if that is not known yet, or no longer.
    pub(crate) fn voted(&self, slot: u64) -> Option<(Hash, Vec<Pubkey>)> {
        let state = self.state();
        let voted = state.points.as_ref()?.point(slot)?.voted.clone();
        state.hash_of(slot).map(|hash| (hash, voted))
    }

    /// The vote accounts that may have existed at the end of `slot`: all current ones, and those changed since then.
    pub(crate) fn vote_accounts_since(&self, slot: u64) -> BTreeSet<Pubkey> {
        let state = self.state();
        let later = state.points.iter().flat_map(|points| &points.points).filter(|point| point.slot > slot);
        state.index.votes.iter().copied().chain(later.flat_map(|point| point.voted.iter().copied())).collect()
    }

    /// Bytes kept for past states, and their limit.
    pub(crate) fn past_bytes(&self) -> (usize, usize) {
        let state = self.state();
        (state.past.iter().map(|(_, bytes)| bytes).sum(), state.past_bytes_max)
    }
}
