//! What is counted here, in words that the server's own counters have.
//!
//! reads   nothing
//! writes  one word a counter, from any thread
//! memory  none: the words are the caller's

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What is counted here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// Requests of JSON-RPC read, each of a batch.
    Requests,
    /// Requests of JSON-RPC answered with an error.
    Errors,
    /// Connections accepted.
    Connections,
    /// Connections open now.
    ConnectionsOpen,
    /// Connections answered with 503 and closed: over the limit, and none was idle.
    ConnectionsRefused,
    /// Idle connections closed to make room for new ones.
    ConnectionsIdleClosed,
    /// Times that a connection could not be taken because the process has no room for one more file.
    AcceptsFailed,
    /// WebSocket connections closed because the client did not read or did not answer.
    WebsocketsDropped,
    /// Streams of dashboards begun.
    Dashboards,
    /// Streams of dashboards open now.
    DashboardsOpen,
    /// Requests of dashboards refused: streams over the limit, or a name that is not this machine's.
    DashboardsRefused,
    /// Streams of dashboards ended because the client did not read.
    DashboardsDropped,
}

/// A server's counters.
pub trait Counts: Send + Sync + 'static {
    /// The word in which this is counted.
    fn word(&self, what: Counted) -> &AtomicU64;
}

/// Adds one.
pub fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

/// Counts one open thing until it is dropped.
pub struct Open {
    counters: Arc<dyn Counts>,
    what: Counted,
}

impl Open {
    /// One more.
    pub fn new(counters: Arc<dyn Counts>, what: Counted) -> Self {
        count(counters.word(what));
        Self { counters, what }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.counters.word(self.what).fetch_sub(1, Relaxed);
    }
}
