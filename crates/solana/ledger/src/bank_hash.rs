//! Bank hashes: computed after a slot's end, in pieces, by any thread with spare time.
//!
//! reads   what each slot changed ([`crate::accounts::changes`])
//! writes  the accounts' lattice hash, each bank's hash, the slot hashes sysvar, the lamports of all accounts, the
//!         index of vote and stake accounts
//! memory  the changes of one shard at a time; 512 bank hashes of 40 B; 32 B per vote or stake account; where forks are
//!         kept, a point for each block above the root (bank_hash/points.rs)
//! drops   the values that slots replaced, once they are final or take more than [`PAST_BYTES_MAX`], or where forks are
//!         kept [`Forks::bytes_max`](crate::ledger::Forks): reads at an older commitment are then answered from the
//!         oldest slot that is kept, and say so
//! source  `freeze` and `new_from_parent` of `solana-runtime` 4.2 for what the hash covers
//!
//! A bank's hash is part of the next bank's state, in the slot hashes sysvar. Transfers do not read sysvars, so the
//! next slot begins without it, and the sysvar is written as soon as the hash is known: at the latest before anything
//! runs that can read it ([`BankHasher::complete`]), or before the slot ends.

mod points;

use std::collections::{BTreeSet, VecDeque};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};

use hearth_mutation::{Mutation, active};
use hearth_wire::consts::{STAKE_PROGRAM, VOTE_PROGRAM};
use hearth_wire::{Hash, Pubkey};
use parking_lot::{Mutex, MutexGuard};
use solana_hard_forks::HardForks;

use crate::account::Account;
use crate::accounts::changes::Change;
use crate::accounts::{Accounts, SHARDS};
use crate::hard_forks::bank_hash_with;
use crate::lattice::Lattice;
use crate::sysvars;
use points::Points;

/// Bytes of data that take as long to hash as a small account.
const BYTES_AS_AN_ACCOUNT: usize = 8192;
/// Number of bank hashes that are kept.
const RECENT: usize = 512;
/// Maximum bytes of old account values that keep non-final slots readable: about five slots of 400 ms at 100,000
/// transfers a second, each between accounts of its own.
const PAST_BYTES_MAX: usize = 64 << 20;

/// An ended slot whose hash must be computed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndedSlot {
    pub(crate) slot: u64,
    pub(crate) era: u32,
    pub(crate) signatures: u64,
    pub(crate) blockhash: Hash,
    /// The era of the newest final slot: nobody reads the state before its end.
    pub(crate) final_era: u32,
    /// Bytes kept for rewinding to the end of this slot, besides the account values that it replaced.
    pub(crate) kept_bytes: usize,
    /// The oldest slot that the ledger may rewind to; this slot if forks are not kept.
    pub(crate) oldest_slot: u64,
}

/// The vote and stake accounts, by address.
#[derive(Clone, Debug, Default)]
pub(crate) struct StakeIndex {
    pub(crate) votes: BTreeSet<Pubkey>,
    pub(crate) stakes: BTreeSet<Pubkey>,
}

impl StakeIndex {
    fn note(&mut self, key: &Pubkey, before: &Account, after: &Account) {
        for (program, keys) in [(VOTE_PROGRAM, &mut self.votes), (STAKE_PROGRAM, &mut self.stakes)] {
            let is = after.lamports != 0 && after.owner == program;
            let was = before.lamports != 0 && before.owner == program;
            if is && !was {
                keys.insert(*key);
            } else if was && !is {
                keys.remove(key);
            }
        }
    }
}

/// The hashing state at the end of a slot, from which hashing can resume.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Hashes {
    /// The slot at whose end the state was captured.
    pub(crate) slot: u64,
    /// The lattice sum of all accounts, in the format of [`Lattice::to_bytes`].
    lattice: Vec<u8>,
    lamports: u64,
    /// The banks' hashes by slot, the newest last.
    hashes: VecDeque<(u64, Hash)>,
}

impl Hashes {
    /// The state at the end of `slot`, with the hash of its bank and that of its parent's, both with their slots.
    pub(crate) fn at(parent: (u64, Hash), last: (u64, Hash), lattice: &Lattice, lamports: u64) -> Self {
        Self { slot: last.0, lattice: lattice.to_bytes().to_vec(), lamports, hashes: VecDeque::from([parent, last]) }
    }

    /// Whether it holds everything that [`BankHasher::restore`] needs.
    pub(crate) fn is_whole(&self) -> bool {
        Lattice::from_bytes(&self.lattice).is_some() && self.hashes.back().is_some_and(|(slot, _)| *slot == self.slot)
    }

    /// A complete sample for tests.
    #[cfg(test)]
    pub(crate) fn sample(slot: u64) -> Self {
        let lattice = Lattice::default().to_bytes().to_vec();
        Self { slot, lattice, lamports: 7, hashes: VecDeque::from([(slot, [5; 32])]) }
    }

    /// The lattice sum of all accounts.
    pub(crate) fn lattice(&self) -> Lattice {
        Lattice::from_bytes(&self.lattice).unwrap_or_default()
    }

    /// The bank hash of a slot, if it is kept.
    pub(crate) fn of(&self, slot: u64) -> Option<Hash> {
        self.hashes.iter().rev().find(|(of, _)| *of == slot).map(|(_, hash)| *hash)
    }

    /// The hash of this slot's bank.
    pub(crate) fn bank_hash(&self) -> Hash {
        self.hashes.back().map_or([0; 32], |(_, hash)| *hash)
    }
}

struct State {
    lattice: Lattice,
    index: StakeIndex,
    lamports: u64,
    hash_accounts: bool,
    hard_forks: HardForks,
    /// Bank hashes by slot, the newest last; never empty.
    hashes: VecDeque<(u64, Hash)>,
    under_way: Option<UnderWay>,
    /// Eras whose replaced values are kept, with their size in bytes; the oldest first.
    past: VecDeque<(u32, usize)>,
    past_bytes_max: usize,
    points: Option<Points>,
    /// The next slot has begun and its sysvar lacks the hash in progress.
    child_waits: bool,
    /// Whether to retain the state at the end of the slot in progress.
    keep: bool,
    kept: Option<Hashes>,
}

struct UnderWay {
    slot: EndedSlot,
    /// The next shard whose changes must be hashed.
    shard: usize,
    taken: Vec<Change>,
    /// Bytes of the values that the slot replaced.
    replaced_bytes: usize,
}

/// Computes the bank hashes.
pub(crate) struct BankHasher {
    state: Mutex<State>,
    behind: AtomicBool,
    /// Lamports of all accounts at the end of the newest hashed slot.
    capitalization: AtomicU64,
}

impl BankHasher {
    /// Hashes all accounts as the state of `slot`, where the chain starts or resumes.
    pub(crate) fn new(accounts: &Accounts, parent: &Hash, slot: EndedSlot, hash_accounts: bool) -> Self {
        let (lattice, index, lamports) = hash_all(accounts);
        let hash = lattice.bank_hash(parent, slot.signatures, &slot.blockhash);
        let hashes = VecDeque::from([(slot.slot, hash)]);
        Self::of(State::new(lattice, index, lamports, hash_accounts, hashes))
    }

    /// Resumes from the end of a slot, whose state `accounts` holds.
    pub(crate) fn restore(accounts: &Accounts, from: Hashes, hash_accounts: bool) -> Self {
        let index = index_all(accounts);
        Self::of(State::new(from.lattice(), index, from.lamports, hash_accounts, from.hashes))
    }

    fn of(state: State) -> Self {
        let capitalization = AtomicU64::new(state.lamports);
        Self { state: Mutex::new(state), behind: AtomicBool::new(false), capitalization }
    }

    /// Sets the hard forks, which change the hashes of slots that end from now on.
    pub(crate) fn set_hard_forks(&self, hard_forks: HardForks) {
        self.state().hard_forks = hard_forks;
    }

    /// Retains the hashing state at the end of `slot`, which has just ended, until it is fetched.
    pub(crate) fn keep(&self, slot: u64) {
        let mut state = self.state();
        // A tile may already have finished its hash.
        (state.keep, state.kept) = match state.newest().0 == slot {
            true => (false, Some(state.hashes())),
            false => (true, None),
        };
    }

    /// The retained state at the end of `slot`, once its hash is known.
    pub(crate) fn kept(&self, slot: u64) -> Option<Hashes> {
        self.state().kept.take_if(|kept| kept.slot == slot)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Ends a slot. The hash of the slot before must be complete.
    pub(crate) fn end(&self, slot: EndedSlot) {
        let mut state = self.state();
        assert!(state.under_way.is_none(), "slot {} ends before the hash of its parent is known", slot.slot);
        state.under_way = Some(UnderWay { slot, shard: 0, taken: vec![], replaced_bytes: 0 });
        self.behind.store(true, Release);
    }

    /// Begins a slot on the newest ended one.
    pub(crate) fn begin(&self, accounts: &Accounts) {
        let mut state = self.state();
        match state.under_way {
            Some(_) => state.child_waits = true,
            None => state.publish_slot_hash(accounts),
        }
    }

    /// Whether an ended slot has no hash yet.
    #[inline]
    pub(crate) fn is_behind(&self) -> bool {
        self.behind.load(Acquire)
    }

    /// Hashes at most `limit` changed accounts, where a large one counts for several, unless another thread is at it.
    /// Returns whether there was any work.
    pub(crate) fn some(&self, accounts: &Accounts, limit: usize) -> bool {
        if !self.is_behind() {
            return false;
        }
        let Some(mut state) = self.state.try_lock() else { return false };
        self.work(&mut state, accounts, limit);
        true
    }

    /// Finishes all hashing: afterwards the hash of the newest ended slot is known, and the sysvars of the slot in
    /// progress are complete.
    #[inline]
    pub(crate) fn complete(&self, accounts: &Accounts) {
        if self.is_behind() {
            self.work(&mut self.state(), accounts, usize::MAX);
        }
    }

    fn work(&self, state: &mut State, accounts: &Accounts, limit: usize) {
        let Some(mut under_way) = state.under_way.take() else { return };
        let mut left = limit;
        if under_way.shard == 0 {
            let final_era = under_way.slot.final_era;
            accounts.raise_oldest_with(|pinned| state.oldest_past(final_era.min(pinned)));
        }
        while left > 0 {
            while under_way.taken.is_empty() && under_way.shard < SHARDS {
                let UnderWay { slot, shard, taken, replaced_bytes } = &mut under_way;
                *replaced_bytes += accounts.take_changes(slot.era, *shard, |change| taken.push(change));
                accounts.forget(*shard);
                *shard += 1;
            }
            let Some(change) = under_way.taken.pop() else {
                let bytes = under_way.replaced_bytes + under_way.slot.kept_bytes;
                state.past.push_back((under_way.slot.era, bytes));
                return self.finish(state, accounts, &under_way.slot);
            };
            let bytes = change.before.data().len() + change.after.data().len();
            left = left.saturating_sub(1 + bytes / BYTES_AS_AN_ACCOUNT);
            state.take(&change);
        }
        state.under_way = Some(under_way);
    }

    fn finish(&self, state: &mut State, accounts: &Accounts, slot: &EndedSlot) {
        let (parent_slot, parent) = state.newest();
        let hash = state.lattice.bank_hash(&parent, slot.signatures, &slot.blockhash);
        let hash = bank_hash_with(&state.hard_forks, slot.slot, parent_slot, hash);
        state.hashes.push_back((slot.slot, hash));
        while state.hashes.get(RECENT).is_some_and(|(of, _)| *of <= slot.oldest_slot) {
            state.hashes.pop_front();
        }
        let State { points, lattice, lamports, .. } = &mut *state;
        points.iter_mut().for_each(|points| points.end(slot.slot, lattice, *lamports, slot.oldest_slot));
        self.capitalization.store(state.lamports, Relaxed);
        if std::mem::take(&mut state.keep) {
            state.kept = Some(state.hashes());
        }
        if std::mem::take(&mut state.child_waits) {
            state.publish_slot_hash(accounts);
        }
        self.behind.store(false, Release);
    }

    /// The bank hash of `slot`, if it is known and recent.
    pub(crate) fn hash_of(&self, slot: u64) -> Option<Hash> {
        self.state().hash_of(slot)
    }

    /// The newest slot with a known bank hash, and that hash.
    pub(crate) fn newest(&self) -> (u64, Hash) {
        self.state().newest()
    }

    /// The lattice sum of all accounts at the end of the newest hashed slot.
    pub(crate) fn lattice(&self) -> Lattice {
        self.state().lattice.clone()
    }

    /// Lamports of all accounts at the end of the newest hashed slot.
    pub(crate) fn capitalization(&self) -> u64 {
        self.capitalization.load(Relaxed)
    }

    /// The vote and stake accounts at the end of the newest hashed slot.
    pub(crate) fn stake_index(&self) -> StakeIndex {
        self.state().index.clone()
    }
}

impl State {
    fn new(
        lattice: Lattice,
        index: StakeIndex,
        lamports: u64,
        hash_accounts: bool,
        hashes: VecDeque<(u64, Hash)>,
    ) -> Self {
        Self {
            lattice,
            index,
            lamports,
            hash_accounts,
            hard_forks: HardForks::default(),
            hashes,
            under_way: None,
            past: VecDeque::new(),
            past_bytes_max: PAST_BYTES_MAX,
            points: None,
            child_waits: false,
            keep: false,
            kept: None,
        }
    }

    /// The oldest era to keep readable: the wanted one, or a later one if that would take too much memory.
    fn oldest_past(&mut self, wanted: u32) -> u32 {
        let mut bytes: usize = self.past.iter().map(|(_, bytes)| bytes).sum();
        let (mut oldest, max) = (wanted, self.past_bytes_max);
        while let Some((era, of_era)) = self.past.front().filter(|(era, _)| *era <= oldest || bytes > max) {
            (oldest, bytes) = (oldest.max(*era), bytes - of_era);
            self.past.pop_front();
        }
        oldest
    }

    /// The hashing state at the end of the newest hashed slot.
    fn hashes(&self) -> Hashes {
        let older = self.hashes.len().saturating_sub(RECENT);
        let (lattice, hashes) = (self.lattice.to_bytes().to_vec(), self.hashes.iter().skip(older).copied().collect());
        Hashes { slot: self.newest().0, lattice, lamports: self.lamports, hashes }
    }

    fn hash_of(&self, slot: u64) -> Option<Hash> {
        self.hashes.binary_search_by_key(&slot, |(slot, _)| *slot).ok().map(|at| self.hashes[at].1)
    }

    fn newest(&self) -> (u64, Hash) {
        *self.hashes.back().expect("the first slot has a hash")
    }

    fn take(&mut self, change: &Change) {
        let is_left_out = active(Mutation::UnhashedChange) && change.key[0].is_multiple_of(4);
        if self.hash_accounts && !is_left_out {
            self.lattice.subtract(&change.key, &change.before);
            self.lattice.add(&change.key, &change.after);
        }
        self.lamports = self.lamports.wrapping_sub(change.before.lamports).wrapping_add(change.after.lamports);
        self.index.note(&change.key, &change.before, &change.after);
        if let Some(points) = &mut self.points {
            points.note(&change.key, &change.before, &change.after);
        }
    }

    /// Adds the newest hash to the slot hashes sysvar of the slot in progress.
    fn publish_slot_hash(&self, accounts: &Accounts) {
        let (slot, hash) = self.newest();
        sysvars::add_slot_hash(accounts, slot, &hash);
    }
}

/// Finds the vote and stake accounts among all accounts.
fn index_all(accounts: &Accounts) -> StakeIndex {
    let mut index = StakeIndex::default();
    accounts.for_each(|key, account| {
        if account.owner == VOTE_PROGRAM {
            index.votes.insert(*key);
        } else if account.owner == STAKE_PROGRAM {
            index.stakes.insert(*key);
        }
    });
    index
}

/// Sums all accounts, on all cores.
pub(crate) fn hash_all(accounts: &Accounts) -> (Lattice, StakeIndex, u64) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(SHARDS);
    let part = |thread: usize| {
        let (mut lattice, mut index, mut lamports) = (Lattice::default(), StakeIndex::default(), 0u64);
        for shard in (thread..SHARDS).step_by(threads) {
            let _ = accounts.scan_shard(shard, &mut |key, account| {
                lattice.add(key, account);
                lamports = lamports.checked_add(account.lamports).expect("fewer lamports than 2^64");
                index.note(key, &Account::default(), account);
                ControlFlow::<()>::Continue(())
            });
        }
        (lattice, index, lamports)
    };
    std::thread::scope(|scope| {
        let parts: Vec<_> = (0..threads).map(|thread| scope.spawn(move || part(thread))).collect();
        let (mut lattice, mut index, mut lamports) = (Lattice::default(), StakeIndex::default(), 0u64);
        for part in parts {
            let (sum, found, amount) = part.join().expect("hashing does not panic");
            lattice.add_all(&sum);
            index.votes.extend(found.votes);
            index.stakes.extend(found.stakes);
            lamports = lamports.checked_add(amount).expect("fewer lamports than 2^64");
        }
        (lattice, index, lamports)
    })
}

#[cfg(test)]
mod tests;
