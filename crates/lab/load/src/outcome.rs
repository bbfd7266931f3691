//! The outcome of each transaction: exactly one of four.
//!
//! writes  counts, latencies
//! memory  100 B for each transaction under way, for 200 thousand refused ones and as many that were signed again; 64
//!         reasons of refusals
//! drops   nothing: reasons beyond the 64th are counted as one
//!
//! The blocks decide, not the node's answers: a transaction that was refused, or found the pool full, and is
//! nevertheless in a block counts as included.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use alloy_primitives::B256;
use alloy_primitives::map::B256HashMap;
use hdrhistogram::Histogram;
use parking_lot::{Condvar, Mutex, MutexGuard};

const REASONS_MAX: usize = 64;
/// Transactions of a block that are counted under one lock.
const INCLUDED_TOGETHER: usize = 256;
/// How many refused transactions are remembered: a block may still show that they were accepted.
const REFUSED_MAX: usize = 200_000;
/// How many transactions that were signed again are remembered: a block may still contain the old bytes.
const ALIASES_MAX: usize = 200_000;
/// The longest latency that is recorded exactly, in µs: an hour. Longer ones count as that.
const LATENCY_US_MAX: u64 = 3_600_000_000;

/// The outcome of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// In a block; its receipt says whether it succeeded.
    Included,
    /// Refused by the node, with this message.
    Rejected(String),
    /// Accepted by the node, which no longer knows it.
    Dropped,
    /// Still pending, or its outcome could not be found out.
    Unknown,
}

/// A transaction without an outcome yet.
#[derive(Clone, Copy)]
struct OpenTx {
    /// When it was first due.
    due: Instant,
    /// Whether it counts: it was sent after the warm-up.
    measured: bool,
    /// Whether a node has accepted it.
    taken: bool,
}

/// Returns an empty histogram of µs.
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_US_MAX, 3).expect("bounds in order")
}

/// Adds a duration to a histogram of µs.
pub fn record(histogram: &mut Histogram<u64>, time: Duration) {
    record_many(histogram, time, 1);
}

/// Adds a duration to a histogram of µs, `count` times.
pub fn record_many(histogram: &mut Histogram<u64>, time: Duration, count: u64) {
    let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX).clamp(1, LATENCY_US_MAX);
    histogram.saturating_record_n(micros, count);
}

/// Counts of transactions by outcome, up to now.
pub struct Counts {
    /// Transactions sent, each once however often it was sent again.
    pub sent: u64,
    /// Transactions in a block.
    pub included: u64,
    /// Refused transactions, by reason.
    pub rejected: BTreeMap<String, u64>,
    /// Transactions that were accepted but that the node no longer knows.
    pub dropped: u64,
    /// Transactions still pending at the end.
    pub unknown: u64,
    /// From the due time to when the block could be read, for transactions sent in the measured time.
    pub latency_us: Histogram<u64>,
}

impl Counts {
    /// Returns the number of refused transactions.
    pub fn rejected_sum(&self) -> u64 {
        self.rejected.values().sum()
    }
}

/// All transactions of a run.
pub struct Outcomes {
    state: Mutex<State>,
    fewer: Condvar,
}

#[derive(Default)]
struct State {
    under_way: B256HashMap<OpenTx>,
    /// Transactions to be sent again, because the node had no room.
    held: B256HashMap<OpenTx>,
    refused: B256HashMap<(OpenTx, Arc<str>)>,
    /// From the hash of a transaction before it was signed again to its hash now.
    aliases: B256HashMap<B256>,
    counts: Counts,
    last_included: Option<Instant>,
    /// When the last block was read, and the longest time between two.
    last_block: (Option<Instant>, Duration),
}

impl Default for Counts {
    fn default() -> Self {
        let (rejected, latency_us) = (BTreeMap::new(), histogram());
        Self { sent: 0, included: 0, rejected, dropped: 0, unknown: 0, latency_us }
    }
}

impl Default for Outcomes {
    fn default() -> Self {
        Self { state: Mutex::default(), fewer: Condvar::new() }
    }
}

impl State {
    /// Takes back a refusal.
    fn pardon(&mut self, hash: &B256) -> Option<OpenTx> {
        let (sent, reason) = self.refused.remove(hash)?;
        if let Some(count) = self.counts.rejected.get_mut(&*reason) {
            *count -= 1;
            if *count == 0 {
                self.counts.rejected.remove(&*reason);
            }
        }
        Some(sent)
    }

    /// Counts the load's transactions in a block.
    fn include(&mut self, hashes: &[B256], at: Instant) -> u64 {
        let mut ours = 0;
        for hash in hashes {
            let Some(sent) = self.take(hash).or_else(|| self.take_alias(hash)) else { continue };
            ours += 1;
            if sent.measured {
                record(&mut self.counts.latency_us, at.saturating_duration_since(sent.due));
            }
        }
        self.counts.included += ours;
        ours
    }

    /// Removes a transaction that is in a block, and returns its record if it is ours.
    fn take(&mut self, hash: &B256) -> Option<OpenTx> {
        if let Some(sent) = self.under_way.remove(hash) {
            return Some(sent);
        }
        if let Some(sent) = self.held.remove(hash) {
            self.counts.sent += 1;
            return Some(sent);
        }
        self.pardon(hash)
    }

    /// Like `take`, but for the hash from before it was signed again.
    fn take_alias(&mut self, hash: &B256) -> Option<OpenTx> {
        let mut hash = *hash;
        while let Some(after) = self.aliases.remove(&hash) {
            if let Some(sent) = self.take(&after) {
                return Some(sent);
            }
            hash = after;
        }
        None
    }
}

impl Outcomes {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Records that transactions are about to be sent, because a block may be read before the node's answer. A
    /// transaction that is sent again keeps its first due time.
    pub fn sending<'a>(&self, hashes: impl Iterator<Item = &'a B256>, due: Instant, measured: bool) {
        let state = &mut *self.state();
        for hash in hashes {
            if state.under_way.contains_key(hash) {
                continue;
            }
            let before = state.take(hash);
            if before.is_none() {
                state.counts.sent += 1;
            }
            state.under_way.insert(*hash, before.unwrap_or(OpenTx { due, measured, taken: false }));
        }
    }

    /// The same for transactions that are sent again. One that has ended meanwhile, because a block contained it
    /// despite the node's answer, is not counted twice.
    pub fn sending_again<'a>(&self, hashes: impl Iterator<Item = &'a B256>) {
        let state = &mut *self.state();
        for hash in hashes {
            if !state.under_way.contains_key(hash)
                && let Some(sent) = state.take(hash)
            {
                state.under_way.insert(*hash, sent);
            }
        }
    }

    /// Records that a node accepted these.
    pub fn taken<'a>(&self, hashes: impl Iterator<Item = &'a B256>) {
        let state = &mut *self.state();
        for hash in hashes {
            if let Some(sent) = state.under_way.get_mut(hash) {
                sent.taken = true;
            }
        }
    }

    /// Records a refusal. It is ignored if a block already contains the transaction.
    pub fn rejected(&self, hash: &B256, reason: &str) {
        let state = &mut *self.state();
        if let Some(sent) = state.under_way.remove(hash) {
            let reason = count_reason(&mut state.counts.rejected, reason);
            if state.refused.len() < REFUSED_MAX {
                state.refused.insert(*hash, (sent, reason));
            }
            self.fewer.notify_all();
        }
    }

    /// Records that a transaction was not accepted this time and is to be sent again.
    pub fn held(&self, hash: &B256) {
        let state = &mut *self.state();
        if let Some(sent) = state.under_way.remove(hash) {
            state.held.insert(*hash, sent);
            state.counts.sent -= 1;
            self.fewer.notify_all();
        }
    }

    /// Records that a held or pending transaction has new bytes. A block may still contain the old ones, if another
    /// node accepted them.
    pub fn resigned(&self, before: &B256, after: &B256) {
        let state = &mut *self.state();
        if let Some(sent) = state.held.remove(before) {
            state.held.insert(*after, sent);
        } else if let Some(sent) = state.under_way.remove(before) {
            state.under_way.insert(*after, sent);
        } else {
            return;
        }
        if before != after && state.aliases.len() < ALIASES_MAX {
            state.aliases.insert(*before, *after);
        }
    }

    /// Returns how many transactions wait to be sent again. At the end of a run, these were due and never accepted.
    pub fn unsent(&self) -> usize {
        self.state().held.len()
    }

    /// Records that a block was read. Returns how many of its transactions are ours.
    pub fn included(&self, hashes: &[B256], at: Instant) -> u64 {
        let mut ours = 0;
        // In chunks, so that senders do not wait for a whole block.
        for some in hashes.chunks(INCLUDED_TOGETHER) {
            ours += self.state().include(some, at);
            std::thread::yield_now();
        }
        let state = &mut *self.state();
        let since = state.last_block.0.map_or(Duration::ZERO, |before| at.saturating_duration_since(before));
        state.last_block = (Some(at), state.last_block.1.max(since));
        if ours > 0 {
            state.last_included = Some(at);
        }
        self.fewer.notify_all();
        ours
    }

    /// Returns when a block with some of ours was last read.
    pub fn last_included(&self) -> Option<Instant> {
        self.state().last_included
    }

    /// Sets the expected block time until the first block is read.
    pub fn expect_blocks_every(&self, time: Duration) {
        let state = &mut *self.state();
        state.last_block.1 = state.last_block.1.max(time);
    }

    /// Returns the longest time between two blocks, measured or expected.
    pub fn longest_block_time(&self) -> Duration {
        self.state().last_block.1
    }

    /// Returns how many are under way.
    pub fn under_way(&self) -> usize {
        self.state().under_way.len()
    }

    /// Returns whether this one has no outcome yet.
    pub fn is_under_way(&self, hash: &B256) -> bool {
        self.state().under_way.contains_key(hash)
    }

    /// Returns how many of these have ended, up to the first that has not.
    pub fn ended_of(&self, hashes: impl Iterator<Item = B256>) -> usize {
        let state = self.state();
        hashes.take_while(|hash| !state.under_way.contains_key(hash)).count()
    }

    /// Returns whether a block may still contain this one: it is under way, was refused, or is to be sent again.
    pub fn is_open(&self, hash: &B256) -> bool {
        let state = self.state();
        state.under_way.contains_key(hash) || state.held.contains_key(hash) || state.refused.contains_key(hash)
    }

    /// Waits until fewer than `limit` are under way, for `patience` at most. Returns whether they are.
    pub fn wait_below(&self, limit: usize, patience: Duration) -> bool {
        let mut state = self.state();
        self.fewer.wait_while_for(&mut state, |state| state.under_way.len() >= limit, patience);
        state.under_way.len() < limit
    }

    /// Returns the hashes still under way.
    pub fn left(&self) -> Vec<B256> {
        self.state().under_way.keys().copied().collect()
    }

    /// Ends a remaining transaction that the node does not know: it was dropped if the node had accepted it.
    pub fn end_unknown_to_the_node(&self, hash: &B256) {
        let taken = self.state().under_way.get(hash).is_some_and(|sent| sent.taken);
        self.end(hash, if taken { &Outcome::Dropped } else { &Outcome::Unknown });
    }

    /// Ends a remaining transaction.
    pub fn end(&self, hash: &B256, outcome: &Outcome) {
        let state = &mut *self.state();
        if state.under_way.remove(hash).is_some() {
            match outcome {
                Outcome::Included => state.counts.included += 1,
                Outcome::Rejected(reason) => {
                    count_reason(&mut state.counts.rejected, reason);
                }
                Outcome::Dropped => state.counts.dropped += 1,
                Outcome::Unknown => state.counts.unknown += 1,
            }
        }
    }

    /// Passes the counts to `read`, under the lock.
    pub fn with<T>(&self, read: impl FnOnce(&Counts) -> T) -> T {
        read(&self.state().counts)
    }
}

fn count_reason(reasons: &mut BTreeMap<String, u64>, reason: &str) -> Arc<str> {
    let reason = generic(reason);
    let known = reasons.contains_key(&reason) || reasons.len() < REASONS_MAX;
    let reason = if known { reason } else { "other reasons".into() };
    let kept: Arc<str> = reason.as_str().into();
    *reasons.entry(reason).or_default() += 1;
    kept
}

/// Replaces the numbers and addresses of a reason, so that equal ones are counted together.
fn generic(reason: &str) -> String {
    let mut words = reason.split_whitespace().map(|word| {
        let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
        let number = bare.starts_with("0x") || (!bare.is_empty() && bare.chars().all(|c| c.is_ascii_digit()));
        if number { word.replace(bare, "…") } else { word.to_owned() }
    });
    let first = words.next().unwrap_or_default();
    words.fold(first, |text, word| text + " " + &word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(n: u8) -> B256 {
        B256::repeat_byte(n)
    }

    #[test]
    fn each_ends_once() {
        let outcomes = Outcomes::default();
        let now = Instant::now();
        let all: Vec<_> = (0..6).map(hash).collect();
        outcomes.sending(all.iter(), now, true);
        outcomes.sending(all[..1].iter(), now, true); // sent again
        assert_eq!(outcomes.included(&[hash(0), hash(1), hash(99)], now + Duration::from_millis(5)), 2);
        outcomes.rejected(&hash(0), "nonce too low: next nonce 1, tx nonce 0"); // it is in a block
        outcomes.rejected(&hash(2), "nonce too low: next nonce 7, tx nonce 3");
        outcomes.rejected(&hash(3), "nonce too low: next nonce 8, tx nonce 3");
        outcomes.held(&hash(4));
        assert_eq!(outcomes.unsent(), 1);
        assert_eq!(outcomes.left(), [hash(5)]);
        outcomes.end(&hash(5), &Outcome::Dropped);
        outcomes.with(|counts| {
            assert_eq!((counts.sent, counts.included, counts.rejected_sum(), counts.dropped), (5, 2, 2, 1));
            assert_eq!(counts.rejected["nonce too low: next nonce …, tx nonce …"], 2);
            assert_eq!(counts.latency_us.len(), 2);
            assert!(counts.latency_us.max().abs_diff(5000) < 10);
        });
    }

    #[test]
    fn resent_transaction_keeps_its_due_time() {
        let outcomes = Outcomes::default();
        let now = Instant::now();
        let later = now + Duration::from_secs(1);
        outcomes.sending([hash(1)].iter(), now, true);
        outcomes.held(&hash(1));
        outcomes.resigned(&hash(1), &hash(2));
        assert!(outcomes.wait_below(1, Duration::ZERO), "a held transaction is not under way");
        outcomes.sending([hash(2)].iter(), later, true);
        outcomes.included(&[hash(1), hash(2)], later + Duration::from_secs(1));
        outcomes.with(|counts| {
            assert_eq!((counts.sent, counts.included), (1, 1));
            assert!(counts.latency_us.max().abs_diff(2_000_000) < 2_000, "{}", counts.latency_us.max());
        });
    }

    #[test]
    fn block_overrules_a_refusal() {
        let outcomes = Outcomes::default();
        let now = Instant::now();
        outcomes.sending([hash(1), hash(2), hash(3)].iter(), now, true);
        outcomes.rejected(&hash(1), "no");
        outcomes.rejected(&hash(2), "no");
        outcomes.held(&hash(3));
        assert_eq!(outcomes.included(&[hash(1), hash(3)], now), 2);
        outcomes.sending([hash(2)].iter(), now, true);
        outcomes.with(|counts| {
            assert_eq!((counts.sent, counts.included, counts.rejected_sum(), counts.rejected.len()), (3, 2, 0, 0));
        });
        assert_eq!(outcomes.left(), [hash(2)]);
        // Sending transactions again that a block already contains does not count them twice.
        outcomes.sending_again([hash(1), hash(2), hash(3)].iter());
        assert_eq!(outcomes.left(), [hash(2)]);
        assert_eq!(outcomes.with(|counts| (counts.sent, counts.included)), (3, 2));
    }

    #[test]
    fn block_may_contain_the_old_bytes() {
        let outcomes = Outcomes::default();
        let now = Instant::now();
        outcomes.sending([hash(1), hash(4)].iter(), now, true);
        outcomes.held(&hash(1));
        outcomes.resigned(&hash(1), &hash(2));
        outcomes.sending_again([hash(2)].iter());
        outcomes.resigned(&hash(2), &hash(3));
        assert!(outcomes.is_open(&hash(3)) && !outcomes.is_open(&hash(1)) && !outcomes.is_open(&hash(2)));
        assert_eq!(outcomes.included(&[hash(1)], now), 1, "another node had accepted the old bytes");
        assert_eq!(outcomes.included(&[hash(3), hash(2), hash(1)], now), 0);
        outcomes.sending_again([hash(3)].iter());
        assert_eq!(outcomes.left(), [hash(4)]);
        assert_eq!(outcomes.with(|counts| (counts.sent, counts.included)), (2, 1));
    }
}
