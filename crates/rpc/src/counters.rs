//! What the RPC counts.
//!
//! reads   nothing
//! writes  one word a counter, from any thread
//! memory  one word each

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counters of a server; they only grow, but for those that say «now».
#[derive(Debug, Default)]
pub struct Counters {
    /// Requests read, each of a batch and those over WebSocket included.
    pub requests: AtomicU64,
    /// Requests that were answered with an error.
    pub errors: AtomicU64,
    /// Bodies refused before they were read as JSON-RPC: too long, too slow, not JSON by their header.
    pub bodies_refused: AtomicU64,
    /// Transactions handed to the pipeline, airdrops included.
    pub transactions_in: AtomicU64,
    /// Transactions that a simulation refused before they were sent.
    pub preflight_refused: AtomicU64,
    /// Transactions for which the pipeline had no room.
    pub refused_busy: AtomicU64,
    /// Airdrops handed to the pipeline.
    pub airdrops: AtomicU64,
    /// Connections accepted, HTTP and WebSocket.
    pub connections: AtomicU64,
    /// Connections open now.
    pub connections_open: AtomicU64,
    /// Connections closed at once: over the limit.
    pub connections_refused: AtomicU64,
    /// Times that a connection could not be taken because the process has no room for one more file.
    pub accepts_failed: AtomicU64,
    /// Subscriptions made.
    pub subscriptions: AtomicU64,
    /// Subscriptions now.
    pub subscriptions_open: AtomicU64,
    /// Subscriptions refused: over a limit.
    pub subscriptions_refused: AtomicU64,
    /// Notifications queued for a connection.
    pub notifications: AtomicU64,
    /// WebSocket connections closed because the client did not read or did not answer.
    pub websockets_dropped: AtomicU64,
}

impl Counters {
    /// Each counter by its name.
    pub fn values(&self) -> [(&'static str, u64); 16] {
        let value = |counter: &AtomicU64| counter.load(Relaxed);
        [
            ("requests", value(&self.requests)),
            ("errors", value(&self.errors)),
            ("bodies_refused", value(&self.bodies_refused)),
            ("transactions_in", value(&self.transactions_in)),
            ("preflight_refused", value(&self.preflight_refused)),
            ("refused_busy", value(&self.refused_busy)),
            ("airdrops", value(&self.airdrops)),
            ("connections", value(&self.connections)),
            ("connections_open", value(&self.connections_open)),
            ("connections_refused", value(&self.connections_refused)),
            ("accepts_failed", value(&self.accepts_failed)),
            ("subscriptions", value(&self.subscriptions)),
            ("subscriptions_open", value(&self.subscriptions_open)),
            ("subscriptions_refused", value(&self.subscriptions_refused)),
            ("notifications", value(&self.notifications)),
            ("websockets_dropped", value(&self.websockets_dropped)),
        ]
    }
}

/// Adds one.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

/// Counts one open thing until it is dropped.
pub(crate) struct Open<C: AsRef<Counters>>(C, fn(&Counters) -> &AtomicU64);

impl<C: AsRef<Counters>> Open<C> {
    pub(crate) fn new(counters: C, which: fn(&Counters) -> &AtomicU64) -> Self {
        count(which(counters.as_ref()));
        Self(counters, which)
    }
}

impl<C: AsRef<Counters>> Drop for Open<C> {
    fn drop(&mut self) {
        self.1(self.0.as_ref()).fetch_sub(1, Relaxed);
    }
}
