//! The server's counters.
//!
//! writes  one word a counter, from any thread
//! memory  one word each

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub(crate) use hearth_serve::counters::count;
use hearth_serve::{CountedEvent, Counts};

macro_rules! counters {
    ($($(#[doc = $help:literal])+ $name:ident,)*) => {
        /// Counters of a server.
        #[derive(Debug, Default)]
        pub struct Counters {
            $($(#[doc = $help])+ pub $name: AtomicU64,)*
        }

        impl Counters {
            /// Names, meanings and values, in the order of declaration.
            pub fn all(&self) -> Vec<(&'static str, &'static str, u64)> {
                vec![$((stringify!($name), concat!($($help),+), self.$name.load(Relaxed)),)*]
            }
        }
    };
}

counters! {
    /// The port on which the server listens.
    http_port,
    /// Requests read, each of a batch and those over WebSocket included.
    requests,
    /// Requests that were answered with an error.
    errors,
    /// Bodies refused before they were read as JSON-RPC: too long, too slow, not JSON by their header.
    bodies_refused,
    /// Requests refused because of their `Host` or `Origin`.
    pages_refused,
    /// Requests refused because one address sent more than its rate.
    requests_limited,
    /// Transactions handed to the chain.
    transactions_in,
    /// Transactions handed to the chain and refused by it.
    transactions_refused,
    /// Bursts in which transactions were handed to the chain.
    bursts,
    /// Calls, estimates, traces and log queries refused because the queue was full.
    heavy_refused,
    /// Calls, estimates, traces and log queries that ran out of time.
    heavy_timeouts,
    /// Connections that were accepted.
    connections,
    /// Connections open now.
    connections_open,
    /// Connections answered with 503 and closed: over the limit, and none was idle.
    connections_refused,
    /// Idle connections closed to make room for new ones.
    connections_idle_closed,
    /// Times that a connection could not be accepted because the process has no free file descriptor.
    accepts_failed,
    /// Subscriptions that were made.
    subscriptions,
    /// Subscriptions that are open now.
    subscriptions_open,
    /// Subscriptions refused: over a limit.
    subscriptions_refused,
    /// Notifications queued for subscribers.
    notifications,
    /// Notifications lost: pending transactions that subscribers did not get, and times that events of the chain came
    /// too fast. Subscribers then still get all blocks, but no notice of a reorganization meanwhile.
    notifications_missed,
    /// WebSocket connections closed because the client did not read or did not answer.
    websockets_dropped,
    /// Dashboard streams opened.
    dashboards,
    /// Dashboard streams open now.
    dashboards_open,
    /// Dashboard streams refused: over the limit.
    dashboards_refused,
    /// Dashboard streams closed because the client did not read.
    dashboards_dropped,
    /// Filters that are installed now.
    filters_open,
    /// Filters refused: over the limit.
    filters_refused,
    /// Filters removed because they were not polled for too long.
    filters_expired,
}

impl Counts for Counters {
    fn word(&self, what: CountedEvent) -> &AtomicU64 {
        match what {
            CountedEvent::Requests => &self.requests,
            CountedEvent::Errors => &self.errors,
            CountedEvent::Connections => &self.connections,
            CountedEvent::ConnectionsOpen => &self.connections_open,
            CountedEvent::ConnectionsRefused => &self.connections_refused,
            CountedEvent::ConnectionsIdleClosed => &self.connections_idle_closed,
            CountedEvent::AcceptsFailed => &self.accepts_failed,
            CountedEvent::WebsocketsDropped => &self.websockets_dropped,
            CountedEvent::Dashboards => &self.dashboards,
            CountedEvent::DashboardsOpen => &self.dashboards_open,
            CountedEvent::DashboardsRefused => &self.dashboards_refused,
            CountedEvent::DashboardsDropped => &self.dashboards_dropped,
        }
    }
}

/// Returns whether this counter may fall.
pub fn is_gauge(name: &str) -> bool {
    name == "http_port" || name.ends_with("_open")
}

/// Adds `many` to a counter.
pub(crate) fn count_many(counter: &AtomicU64, many: usize) {
    counter.fetch_add(many as u64, Relaxed);
}
