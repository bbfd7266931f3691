//! The hashes of transactions that have become executable, for subscribers and filters.
//!
//! reads   hashes, as the pool takes transactions
//! writes  to each reader all hashes since its last look
//! memory  one ring of [`RING`] × 32 B for all readers
//! drops   hashes that a reader has not taken before the ring wrapped; the reader learns how many

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use alloy_primitives::B256;
use parking_lot::{Condvar, Mutex};

/// Hashes that are kept for slow readers.
pub const RING: usize = 16_384;

#[derive(Debug, Default)]
struct Ring {
    hashes: VecDeque<B256>,
    /// The number of the first hash in `hashes`, counted from the start of the pool.
    first: u64,
}

impl Ring {
    fn end(&self) -> u64 {
        self.first + self.hashes.len() as u64
    }
}

type Wake = dyn Fn() + Send + Sync;

#[derive(Default)]
pub(super) struct Source {
    ring: Mutex<Ring>,
    news: Condvar,
    readers: AtomicUsize,
    wakes: Mutex<Vec<Weak<Wake>>>,
}

impl std::fmt::Debug for Source {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Source").field("readers", &self.readers).finish_non_exhaustive()
    }
}

impl Source {
    /// Adds hashes at the moment at which readers of the pool see them: the caller holds the pool's lock. Returns
    /// whether there is a reader to [wake](Self::wake).
    pub(super) fn push(&self, hashes: &[B256]) -> bool {
        if hashes.is_empty() || self.readers.load(Ordering::Acquire) == 0 {
            return false;
        }
        let mut ring = self.ring.lock();
        ring.hashes.extend(hashes);
        let over = ring.hashes.len().saturating_sub(RING);
        ring.hashes.drain(..over);
        ring.first += over as u64;
        true
    }

    /// Wakes the readers. The caller holds no lock.
    pub(super) fn wake(&self) {
        self.news.notify_all();
        // A reader's function may subscribe or leave: none of our locks is held while it runs.
        let wakes: Vec<_> = self.wakes.lock().iter().filter_map(Weak::upgrade).collect();
        wakes.iter().for_each(|wake| wake());
    }

    /// Returns the number of hashes so far.
    pub(super) fn hashes(&self) -> u64 {
        self.ring.lock().end()
    }

    pub(super) fn subscribe(self: &Arc<Self>, wake: Option<Arc<Wake>>) -> Feed {
        if let Some(wake) = &wake {
            let mut wakes = self.wakes.lock();
            wakes.retain(|wake| wake.strong_count() > 0);
            wakes.push(Arc::downgrade(wake));
        }
        self.readers.fetch_add(1, Ordering::AcqRel);
        let next = self.ring.lock().end();
        Feed { source: self.clone(), next, _wake: wake }
    }
}

/// Transactions that have become executable since a reader's last read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeedBatch {
    /// The hashes, in order.
    pub hashes: Vec<B256>,
    /// Number of hashes before these, lost ones included.
    pub before: u64,
    /// Number of hashes that were lost because this reader was too slow.
    pub missed: u64,
}

/// A reader's position in the ring.
pub struct Feed {
    source: Arc<Source>,
    next: u64,
    _wake: Option<Arc<Wake>>,
}

impl std::fmt::Debug for Feed {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Feed").field("next", &self.next).finish_non_exhaustive()
    }
}

impl Feed {
    /// Takes all new hashes without waiting.
    pub fn take(&mut self) -> FeedBatch {
        let ring = self.source.ring.lock();
        let missed = ring.first.saturating_sub(self.next);
        let skipped = self.next.saturating_sub(ring.first) as usize;
        let hashes = ring.hashes.iter().skip(skipped).copied().collect();
        let before = self.next.max(ring.first);
        self.next = ring.end();
        FeedBatch { hashes, before, missed }
    }

    /// Waits for new hashes, at most for `timeout`. Returns whether there are any.
    pub fn wait(&self, timeout: Duration) -> bool {
        let mut ring = self.source.ring.lock();
        self.source.news.wait_while_for(&mut ring, |ring| ring.end() == self.next, timeout);
        ring.end() != self.next
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.source.readers.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashes(range: std::ops::Range<u64>) -> Vec<B256> {
        range.map(|number| B256::from(alloy_primitives::U256::from(number))).collect()
    }

    #[test]
    fn reader_gets_later_events_and_its_losses() {
        let source = Arc::new(Source::default());
        let push = |range| {
            if source.push(&hashes(range)) {
                source.wake();
            }
        };
        push(0..3);
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = calls.clone();
        let mut feed = source.subscribe(Some(Arc::new(move || {
            counted.fetch_add(1, Ordering::Relaxed);
        })));
        let mut late = source.subscribe(None);
        assert_eq!(feed.take(), FeedBatch::default(), "nobody read before, so nothing was kept");
        assert!(!feed.wait(Duration::from_millis(1)));
        push(3..5);
        assert!(feed.wait(Duration::from_secs(10)));
        assert_eq!(feed.take(), FeedBatch { hashes: hashes(3..5), before: 0, missed: 0 });
        let many = RING as u64 + 10;
        push(5..many);
        let all = late.take();
        assert_eq!(all.missed, many - 3 - RING as u64);
        assert_eq!((all.before, source.hashes()), (all.missed, many - 3), "what nobody read is not counted");
        assert_eq!(all.hashes, hashes(many - RING as u64..many));
        assert_eq!(feed.take().hashes.len(), RING);
        assert_eq!(calls.load(Ordering::Relaxed), 2);
        drop((feed, late));
        push(0..1);
        assert_eq!(calls.load(Ordering::Relaxed), 2);
    }
}
