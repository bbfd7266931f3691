//! Filters: polling for clients without a WebSocket.
//!
//! reads   the clock; how far the chain is
//! writes  what has changed since the last question
//! memory  a filter its criteria; one of pending transactions at most [`Limits::filter_hashes`](crate::Limits) hashes
//! drops   filters that are not polled for too long; filters over the limit: error -32005; hashes that do not fit;
//!         counted
//! source  `eth/filters` of go-ethereum 1.16
//!
//! A filter of blocks or logs remembers only the number of the next block to deliver. After a reorganization it
//! continues where the chain does. Two concurrent requests for one filter are answered one after the other. The next
//! request delivers what could not be delivered.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use alloy_primitives::{B256, U256};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::OwnedMutexGuard;

use crate::config::Limits;
use crate::counters::{Counters, count, count_many};
use crate::criteria::Criteria;
use crate::failure::Failure;
use crate::json;

#[derive(Debug)]
enum Kind {
    /// Blocks from this number on.
    Blocks(u64),
    /// Logs of blocks from this number on.
    Logs(Box<Criteria>, u64),
    Pending(Vec<B256>),
}

/// A position in the chain's events.
#[derive(Clone, Copy, Debug)]
pub struct EventPosition {
    /// The number of the last event before it.
    pub event: u64,
    /// The number that the next block has.
    pub next: u64,
}

struct Filter {
    kind: Kind,
    /// The number of the last event, of the chain or the pool, that came before it.
    after: u64,
    asked: Instant,
    /// Held while a request for this filter is answered.
    turn: Arc<tokio::sync::Mutex<()>>,
}

/// The changes for a filter.
#[derive(Clone, Debug)]
pub enum Changes {
    /// Blocks of a range.
    Blocks {
        /// The number of the first block.
        from: u64,
        /// The number after that of the last block.
        to: u64,
    },
    /// Logs of a range of blocks.
    Logs {
        /// The criteria of the filter, which the logs must match.
        criteria: Criteria,
        /// The number of the first block.
        from: u64,
        /// The number after that of the last block.
        to: u64,
    },
    /// Transactions that came into the pool.
    Pending(Vec<B256>),
}

/// Changes while they are delivered: they count as delivered only after [`Delivery::delivered`].
pub struct Delivery<'a> {
    filters: &'a Filters,
    id: U256,
    /// The changes since the last delivery.
    pub changes: Changes,
    delivered: bool,
    _turn: OwnedMutexGuard<()>,
}

impl Delivery<'_> {
    /// Records that the changes are delivered, but for blocks from `next` on.
    pub fn delivered(mut self, next: u64) {
        self.delivered = true;
        if let Changes::Blocks { from, .. } | Changes::Logs { from, .. } = self.changes {
            self.filters.go_back(&self.id, next.max(from));
        }
    }
}

impl Drop for Delivery<'_> {
    fn drop(&mut self) {
        if self.delivered {
            return;
        }
        match &mut self.changes {
            Changes::Blocks { from, .. } | Changes::Logs { from, .. } => self.filters.go_back(&self.id, *from),
            Changes::Pending(hashes) => self.filters.give_back(&self.id, std::mem::take(hashes)),
        }
    }
}

/// The installed filters of all clients.
pub struct Filters {
    filters: Mutex<HashMap<U256, Filter>>,
    limits: Limits,
    counters: Arc<Counters>,
}

impl Filters {
    /// Creates an empty set.
    pub fn new(limits: Limits, counters: Arc<Counters>) -> Self {
        Self { filters: Mutex::default(), limits, counters }
    }

    /// Removes expired filters, and returns the others.
    fn live(&self) -> MutexGuard<'_, HashMap<U256, Filter>> {
        let mut filters = self.filters.lock();
        let before = filters.len();
        filters.retain(|_, filter| filter.asked.elapsed() < self.limits.filter_life);
        count_many(&self.counters.filters_expired, before - filters.len());
        self.counters.filters_open.store(filters.len() as u64, Relaxed);
        filters
    }

    /// Adds a filter. `begin` gives its kind, and the number of the last event before it, at a moment when no event can
    /// be published until the filter is there.
    fn add(&self, begin: impl FnOnce() -> (Kind, u64)) -> Result<String, Failure> {
        let mut filters = self.live();
        if filters.len() >= self.limits.filters {
            count(&self.counters.filters_refused);
            return Err(Failure::limit("too many filters are installed: uninstall some, or wait until some expire"));
        }
        // Ids are unguessable, so that no client reads another's filter.
        let id = U256::from_be_slice(&crate::ids::unguessable());
        let (kind, after) = begin();
        filters.insert(id, Filter { kind, after, asked: Instant::now(), turn: Arc::default() });
        self.counters.filters_open.store(filters.len() as u64, Relaxed);
        Ok(json::quantity_256(&id))
    }

    /// Adds a filter for blocks after the head of `now`; returns its number, quoted.
    pub fn add_blocks(&self, now: impl FnOnce() -> EventPosition) -> Result<String, Failure> {
        self.add(|| {
            let EventPosition { event, next } = now();
            (Kind::Blocks(next), event)
        })
    }

    /// Adds a filter for logs of blocks after the head of `now`.
    pub fn add_logs(&self, criteria: Criteria, now: impl FnOnce() -> EventPosition) -> Result<String, Failure> {
        self.add(|| {
            let EventPosition { event, next } = now();
            (Kind::Logs(Box::new(criteria), next), event)
        })
    }

    /// Adds a filter for transactions that enter the pool after the first `now()` ones.
    pub fn add_pending(&self, now: impl FnOnce() -> u64) -> Result<String, Failure> {
        self.add(|| (Kind::Pending(Vec::new()), now()))
    }

    /// Removes a filter; returns whether it existed.
    pub fn remove(&self, id: &U256) -> bool {
        let mut filters = self.live();
        let was_there = filters.remove(id).is_some();
        self.counters.filters_open.store(filters.len() as u64, Relaxed);
        was_there
    }

    /// The criteria of a filter of logs.
    pub fn criteria(&self, id: &U256) -> Result<Criteria, Failure> {
        match self.live().get_mut(id) {
            Some(Filter { kind: Kind::Logs(criteria, _), asked, .. }) => {
                *asked = Instant::now();
                Ok((**criteria).clone())
            }
            _ => Err(not_found()),
        }
    }

    /// Returns the changes since the last answered request; `next` is the number that the next block will have.
    pub async fn changes(&self, id: &U256, next: impl Fn() -> u64) -> Result<Delivery<'_>, Failure> {
        let turn = Arc::clone(&self.live().get(id).ok_or_else(not_found)?.turn);
        let turn = turn.lock_owned().await;
        let mut filters = self.live();
        let filter = filters.get_mut(id).ok_or_else(not_found)?;
        filter.asked = Instant::now();
        let next = next();
        // Never backwards: a reorganization calls `rewind` itself.
        let advance = |from: &mut u64| std::mem::replace(from, next.max(*from));
        let changes = match &mut filter.kind {
            Kind::Blocks(from) => Changes::Blocks { from: advance(from), to: next },
            Kind::Logs(criteria, from) => {
                Changes::Logs { criteria: (**criteria).clone(), from: advance(from), to: next }
            }
            Kind::Pending(hashes) => Changes::Pending(std::mem::take(hashes)),
        };
        Ok(Delivery { filters: self, id: *id, changes, delivered: false, _turn: turn })
    }

    /// Delivers to a filter from block `next` on, if not from an earlier one.
    fn go_back(&self, id: &U256, next: u64) {
        if let Some(Filter { kind: Kind::Blocks(from) | Kind::Logs(_, from), .. }) = self.live().get_mut(id) {
            *from = (*from).min(next);
        }
    }

    /// Delivers these transactions to a filter again.
    fn give_back(&self, id: &U256, mut hashes: Vec<B256>) {
        if let Some(Filter { kind: Kind::Pending(newer), .. }) = self.live().get_mut(id) {
            hashes.append(newer);
            count_many(&self.counters.notifications_missed, hashes.len().saturating_sub(self.limits.filter_hashes));
            hashes.truncate(self.limits.filter_hashes);
            *newer = hashes;
        }
    }

    /// Records a reorganization, which was event `number`: the next block will have number `next`.
    pub fn rewind(&self, number: u64, next: u64) {
        for filter in self.live().values_mut().filter(|filter| number > filter.after) {
            if let Kind::Blocks(from) | Kind::Logs(_, from) = &mut filter.kind {
                *from = (*from).min(next);
            }
        }
    }

    /// Adds transactions that entered the pool after `before` others.
    pub fn publish_pending(&self, before: u64, new: &[B256]) {
        for filter in self.live().values_mut() {
            let known = filter.after.saturating_sub(before).min(new.len() as u64);
            let new = &new[known as usize..];
            if let Kind::Pending(hashes) = &mut filter.kind {
                let room = self.limits.filter_hashes.saturating_sub(hashes.len());
                hashes.extend(new.iter().take(room));
                count_many(&self.counters.notifications_missed, new.len().saturating_sub(room));
            }
        }
    }
}

fn not_found() -> Failure {
    Failure::server("filter not found")
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::ops::Range;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;

    use super::*;

    /// Polls a future that is ready at once.
    fn now<T>(future: impl Future<Output = T>) -> T {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => done,
            Poll::Pending => panic!("it waits"),
        }
    }

    /// Returns all blocks that a filter delivers.
    fn asked(filters: &Filters, id: &U256, next: u64) -> Range<u64> {
        let telling = now(filters.changes(id, || next)).unwrap();
        let Changes::Blocks { from, to } = telling.changes else { panic!("{:?}", telling.changes) };
        telling.delivered(next);
        from..to
    }

    fn filters(limits: Limits) -> Filters {
        Filters::new(limits, Arc::default())
    }

    /// Before any event, with that number next.
    fn at(next: u64) -> impl FnOnce() -> EventPosition {
        move || EventPosition { event: 0, next }
    }

    fn id(quoted: &str) -> U256 {
        quoted.trim_matches('"').parse().unwrap()
    }

    #[test]
    fn a_filter_tells_each_block_once() {
        let filters = filters(Limits::default());
        let id = id(&filters.add_blocks(at(5)).unwrap());
        assert_eq!(asked(&filters, &id, 5), 5..5);
        assert_eq!(asked(&filters, &id, 8), 5..8);
        assert_eq!(asked(&filters, &id, 8), 8..8);
        // Set back to block 5; then 6 and 7 are made again.
        filters.rewind(1, 6);
        assert_eq!(asked(&filters, &id, 8), 6..8);
        // A reorganization before the filter was installed does not concern it.
        let later = self::id(&filters.add_blocks(|| EventPosition { event: 2, next: 8 }).unwrap());
        filters.rewind(2, 5);
        assert!(asked(&filters, &later, 8).is_empty());
        assert_eq!(asked(&filters, &id, 8), 5..8);
        // A caller with an older head gets nothing, and takes nothing back.
        assert!(asked(&filters, &id, 7).is_empty());
        assert_eq!(asked(&filters, &id, 9), 8..9);
        assert!(filters.remove(&id));
        assert!(!filters.remove(&id));
        assert_eq!(now(filters.changes(&id, || 9)).err().unwrap().message(), "filter not found");
    }

    #[test]
    fn undelivered_entries_come_with_the_next_poll() {
        let filters = filters(Limits::default());
        let id = id(&filters.add_blocks(at(5)).unwrap());
        let range = |telling: &Delivery<'_>| match telling.changes {
            Changes::Blocks { from, to } => from..to,
            _ => panic!("{:?}", telling.changes),
        };
        let failed = now(filters.changes(&id, || 8)).unwrap();
        assert_eq!(range(&failed), 5..8);
        // Another request waits for the outcome of the first.
        let mut second = Box::pin(filters.changes(&id, || 9));
        assert!(second.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        drop(failed);
        let second = now(second).unwrap();
        assert_eq!(range(&second), 5..9);
        // Only a part was delivered, and meanwhile the chain was set back.
        second.delivered(8);
        filters.rewind(1, 7);
        assert_eq!(asked(&filters, &id, 9), 7..9);
    }

    #[test]
    fn hashes_that_wait_are_bounded() {
        let filters = filters(Limits { filter_hashes: 3, ..Default::default() });
        let id = id(&filters.add_pending(|| 1).unwrap());
        // The first was there before.
        filters.publish_pending(0, &[B256::ZERO; 3]);
        filters.publish_pending(3, &[B256::ZERO; 2]);
        let waiting = |telling: &Delivery<'_>| match &telling.changes {
            Changes::Pending(hashes) => hashes.len(),
            other => panic!("{other:?}"),
        };
        let failed = now(filters.changes(&id, || 0)).unwrap();
        assert_eq!(waiting(&failed), 3);
        assert_eq!(filters.counters.notifications_missed.load(Relaxed), 1);
        filters.publish_pending(5, &[B256::ZERO]);
        drop(failed);
        let changed = now(filters.changes(&id, || 0)).unwrap();
        assert_eq!((waiting(&changed), filters.counters.notifications_missed.load(Relaxed)), (3, 2));
        changed.delivered(0);
        assert_eq!(waiting(&now(filters.changes(&id, || 0)).unwrap()), 0);
    }

    #[test]
    fn filters_are_few_and_expire() {
        let short = Limits { filters: 1, filter_life: Duration::from_millis(5), ..Default::default() };
        let filters = filters(short);
        let first = id(&filters.add_blocks(at(0)).unwrap());
        while now(filters.changes(&first, || 0)).is_ok() && filters.add_blocks(at(0)).is_ok() {}
        hearth_testkit::wait_until("the first expires", || filters.add_blocks(at(0)).is_ok());
        assert_eq!(filters.counters.filters_open.load(Relaxed), 1);
        assert!(filters.counters.filters_expired.load(Relaxed) >= 1);
    }
}
