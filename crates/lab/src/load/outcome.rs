//! What became of each transaction: exactly one of four ends.
//!
//! reads   –
//! writes  counts, latencies
//! memory  100 B for each transaction under way; the reasons of refusals, 64 at most
//! drops   nothing: reasons beyond the 64th are counted as one

use std::collections::{BTreeMap, HashMap};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use alloy_primitives::B256;
use hdrhistogram::Histogram;

const REASONS_MAX: usize = 64;
/// The longest latency that is told exactly, in µs: an hour. Longer ones count as that.
const LATENCY_US_MAX: u64 = 3_600_000_000;

/// The end of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is in a block; whether it succeeded there is told by its receipt.
    Included,
    /// The node refused it, with these words.
    Rejected(String),
    /// The node took it, and knows it no more.
    Dropped,
    /// It waits in the pool, or nobody answered.
    Unknown,
}

/// A transaction under way.
#[derive(Clone, Copy)]
struct Sent {
    /// When it was to be sent.
    due: Instant,
    /// Whether it counts: sent after the warm-up.
    measured: bool,
}

/// A histogram of µs.
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_US_MAX, 3).expect("bounds in order")
}

/// Adds a duration to a histogram of µs.
pub fn record(histogram: &mut Histogram<u64>, time: Duration) {
    histogram.saturating_record(u64::try_from(time.as_micros()).unwrap_or(u64::MAX).clamp(1, LATENCY_US_MAX));
}

/// Counts so far.
pub struct Counts {
    /// Handed to the node, each once however often it was sent again.
    pub sent: u64,
    /// In a block.
    pub included: u64,
    /// Refused, by reason.
    pub rejected: BTreeMap<String, u64>,
    /// Taken, and known no more.
    pub dropped: u64,
    /// Still waiting at the end.
    pub unknown: u64,
    /// From when it was due to when its block could be read, of those sent in the measured time.
    pub latency_us: Histogram<u64>,
}

impl Counts {
    /// Refused ones, whatever the reason.
    pub fn rejected_sum(&self) -> u64 {
        self.rejected.values().sum()
    }
}

/// All transactions of a run.
pub struct Outcomes {
    state: Mutex<State>,
    fewer: Condvar,
}

struct State {
    under_way: HashMap<B256, Sent>,
    counts: Counts,
}

impl Default for Outcomes {
    fn default() -> Self {
        let counts =
            Counts { sent: 0, included: 0, rejected: BTreeMap::new(), dropped: 0, unknown: 0, latency_us: histogram() };
        Self { state: Mutex::new(State { under_way: HashMap::new(), counts }), fewer: Condvar::new() }
    }
}

impl Outcomes {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics with it")
    }

    /// Before they are sent, as a block may be read before the node's answer. Due at one time.
    pub fn sending<'a>(&self, hashes: impl Iterator<Item = &'a B256>, due: Instant, measured: bool) {
        let state = &mut *self.state();
        for hash in hashes {
            if state.under_way.insert(*hash, Sent { due, measured }).is_none() {
                state.counts.sent += 1;
            }
        }
    }

    /// Refused. One that is in a block already was not.
    pub fn rejected(&self, hash: &B256, reason: &str) {
        let state = &mut *self.state();
        if state.under_way.remove(hash).is_some() {
            count_reason(&mut state.counts.rejected, reason);
            self.fewer.notify_all();
        }
    }

    /// Not taken this time, and to be sent anew: it was not sent.
    pub fn withdrawn(&self, hash: &B256) {
        let state = &mut *self.state();
        if state.under_way.remove(hash).is_some() {
            state.counts.sent -= 1;
            self.fewer.notify_all();
        }
    }

    /// A block has been read; gives how many of its transactions are ours.
    pub fn included(&self, hashes: &[B256], at: Instant) -> u64 {
        let state = &mut *self.state();
        let mut ours = 0;
        for hash in hashes {
            let Some(sent) = state.under_way.remove(hash) else { continue };
            ours += 1;
            if sent.measured {
                record(&mut state.counts.latency_us, at.saturating_duration_since(sent.due));
            }
        }
        state.counts.included += ours;
        self.fewer.notify_all();
        ours
    }

    /// How many are under way.
    pub fn under_way(&self) -> usize {
        self.state().under_way.len()
    }

    /// Whether this one has not ended yet.
    pub fn is_under_way(&self, hash: &B256) -> bool {
        self.state().under_way.contains_key(hash)
    }

    /// Waits until fewer than `limit` are under way, for `patience` at most; gives whether they are.
    pub fn wait_below(&self, limit: usize, patience: Duration) -> bool {
        let state = self.state();
        let (state, _) = self
            .fewer
            .wait_timeout_while(state, patience, |state| state.under_way.len() >= limit)
            .expect("nobody panics with it");
        state.under_way.len() < limit
    }

    /// Those still under way.
    pub fn left(&self) -> Vec<B256> {
        self.state().under_way.keys().copied().collect()
    }

    /// Ends one that is left.
    pub fn end(&self, hash: &B256, outcome: &Outcome) {
        let state = &mut *self.state();
        if state.under_way.remove(hash).is_some() {
            match outcome {
                Outcome::Included => state.counts.included += 1,
                Outcome::Rejected(reason) => count_reason(&mut state.counts.rejected, reason),
                Outcome::Dropped => state.counts.dropped += 1,
                Outcome::Unknown => state.counts.unknown += 1,
            }
        }
    }

    /// Reads the counts.
    pub fn with<T>(&self, read: impl FnOnce(&Counts) -> T) -> T {
        read(&self.state().counts)
    }
}

fn count_reason(reasons: &mut BTreeMap<String, u64>, reason: &str) {
    let reason = generic(reason);
    let known = reasons.contains_key(&reason) || reasons.len() < REASONS_MAX;
    *reasons.entry(if known { reason } else { "other reasons".into() }).or_default() += 1;
}

/// A reason without its numbers and addresses, so that equal ones are counted together.
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
        outcomes.withdrawn(&hash(4));
        assert_eq!(outcomes.left(), [hash(5)]);
        outcomes.end(&hash(5), &Outcome::Dropped);
        outcomes.with(|counts| {
            assert_eq!((counts.sent, counts.included, counts.rejected_sum(), counts.dropped), (5, 2, 2, 1));
            assert_eq!(counts.rejected["nonce too low: next nonce …, tx nonce …"], 2);
            assert_eq!(counts.latency_us.len(), 2);
            assert!(counts.latency_us.max().abs_diff(5000) < 10);
        });
    }
}
