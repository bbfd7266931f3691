//! Samples of the chain's speed, one per minute of the chain's time.
//!
//! reads   blocks as they end
//! writes  samples
//! memory  720 samples of 48 B: twelve hours
//! source  `sample_performance_service.rs` of `solana-core` 4.2, which uses wall-clock time. This one uses the clock
//!         sysvar, so that replaying a chain gives the same samples

use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Minimum length of a sample in seconds.
const SAMPLE_SECONDS: i64 = 60;
/// Number of samples that are kept.
const SAMPLES: usize = 720;

/// The chain's activity during about a minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct PerformanceSample {
    /// The slot that ended the sample.
    pub slot: u64,
    /// Number of slots since the previous sample, those without a block included.
    pub slots: u64,
    /// Number of transactions, votes included.
    pub transactions: u64,
    /// Number of transactions that were not votes.
    pub non_vote_transactions: u64,
    /// Length in seconds by the chain's clock, at least 60.
    pub seconds: u16,
}

/// The position where a sample starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Mark {
    pub(crate) slot: u64,
    pub(crate) transactions: u64,
    pub(crate) unix_timestamp: i64,
}

/// The most recent samples.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Samples {
    began: Mark,
    /// Votes since the sample started.
    votes: u64,
    /// Shared by the copies of blocks that the ledger can rewind to, since it changes once a minute.
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

    /// Records the end of a block that contains `votes` votes.
    pub(crate) fn note(&mut self, now: Mark, votes: u64) {
        let began = self.began;
        self.votes += votes;
        let seconds = now.unix_timestamp.saturating_sub(began.unix_timestamp);
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

    /// At most `count` samples, the newest first.
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
