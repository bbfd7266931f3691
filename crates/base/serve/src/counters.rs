//! Counts events of a server, in counters that the caller owns.
//!
//! writes  one word per counter, from any thread

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Events that the servers of this crate count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountedEvent {
    /// Requests of JSON-RPC read, each of a batch.
    Requests,
    /// Requests of JSON-RPC answered with an error.
    Errors,
    /// Connections accepted and served, those that displaced an idle one included.
    Connections,
    /// Connections open now, WebSocket ones included.
    ConnectionsOpen,
    /// Connections closed with 503: over the limit, and none was idle.
    ConnectionsRefused,
    /// Idle connections closed to make room for new ones.
    ConnectionsIdleClosed,
    /// Connections that could not be accepted, because the process cannot open another file.
    AcceptsFailed,
    /// WebSocket connections closed because the client did not read or did not answer.
    WebsocketsDropped,
    /// Streams of dashboards opened since the start.
    Dashboards,
    /// Streams of dashboards open now.
    DashboardsOpen,
    /// Requests of dashboards refused: streams over the limit, or a name that is not this machine's.
    DashboardsRefused,
    /// Streams of dashboards ended because the client did not read.
    DashboardsDropped,
}

/// Counters of a server.
pub trait Counts: Send + Sync + 'static {
    /// The word in which this is counted.
    fn word(&self, what: CountedEvent) -> &AtomicU64;
}

/// Adds one to a counter.
pub fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

/// Counts an open connection or stream until it is dropped.
pub struct OpenGuard {
    counters: Arc<dyn Counts>,
    what: CountedEvent,
}

impl OpenGuard {
    /// Counts one more open item.
    pub fn new(counters: Arc<dyn Counts>, what: CountedEvent) -> Self {
        count(counters.word(what));
        Self { counters, what }
    }
}

impl Drop for OpenGuard {
    fn drop(&mut self) {
        self.counters.word(self.what).fetch_sub(1, Relaxed);
    }
}
