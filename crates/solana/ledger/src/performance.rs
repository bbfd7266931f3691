//! Samples of the chain's speed, one a minute of the chain's time.
//!
//! reads   blocks as they end
//! writes  samples
//! memory  720 samples of 48 B: twelve hours
//! source  `sample_performance_service.rs` of `solana-core` 4.2, which goes by the wall's time; ours
//!         goes by the clock sysvar, so that a chain that is executed again gives the same samples

use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Seconds of a sample, at least.
const SAMPLE_SECONDS: i64 = 60;
/// Samples that are kept.
const SAMPLES: usize = 720;

/// What the chain did in about a minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct PerformanceSample {
    /// The slot that ended it.
    pub slot: u64,
    /// Slots in it.
    pub slots: u64,
    /// Transactions in it.
    pub transactions: u64,
    /// Those that were no votes.
    pub non_vote_transactions: u64,
    /// Its length in seconds.
    pub seconds: u16,
}

/// Where a sample stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Mark {
    pub(crate) slot: u64,
    pub(crate) transactions: u64,
    pub(crate) unix_timestamp: i64,
}

/// The newest samples.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Samples {
    began: Mark,
    /// Votes since then.
    votes: u64,
    /// Shared by the copies of blocks that may be gone back to, since it changes once a minute.
    #[serde(serialize_with = "write", deserialize_with = "read")]
    samples: Arc<VecDeque<PerformanceSample>>,
}

fn write<S: Serializer>(samples: &Arc<VecDeque<PerformanceSample>>, to: S) -> Result<S::Ok, S::Error> {
    (**samples).serialize(to)
}

fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Arc<VecDeque<PerformanceSample>>, D::Error> {
    VecDeque::deserialize(from).map(Arc::new)
}

impl Samples {
    pub(crate) fn new(began: Mark) -> Self {
        Self { began, votes: 0, samples: Arc::default() }
    }

    /// A block has ended, with so many votes in it.
    pub(crate) fn note(&mut self, now: Mark, votes: u64) {
        let began = self.began;
        self.votes += votes;
        let seconds = now.unix_timestamp - began.unix_timestamp;
        if seconds < SAMPLE_SECONDS {
            return;
        }
        let samples = Arc::make_mut(&mut self.samples);
        samples.push_front(PerformanceSample {
            slot: now.slot,
            slots: now.slot - began.slot,
            transactions: now.transactions - began.transactions,
            non_vote_transactions: now.transactions - began.transactions - std::mem::take(&mut self.votes),
            seconds: seconds.try_into().unwrap_or(u16::MAX),
        });
        samples.truncate(SAMPLES);
        self.began = now;
    }

    /// At most `count`, the newest first.
    pub(crate) fn newest(&self, count: usize) -> Vec<PerformanceSample> {
        self.samples.iter().take(count).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_a_minute() {
        let mut samples = Samples::new(Mark { unix_timestamp: 1_000, ..Mark::default() });
        for slot in 1..=400 {
            let unix_timestamp = 1_000 + slot as i64 * 2 / 5;
            samples.note(Mark { slot, transactions: 10 * slot, unix_timestamp }, 1);
        }
        let newest = samples.newest(9);
        assert_eq!((newest.len(), samples.newest(1)), (2, newest[..1].to_vec()));
        let first =
            PerformanceSample { slot: 150, slots: 150, transactions: 1_500, non_vote_transactions: 1_350, seconds: 60 };
        assert_eq!((newest[1], newest[0].slot), (first, 300));
    }
}
