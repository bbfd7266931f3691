//! The RPC's counters.
//!
//! writes  one word per counter, from any thread, into the memory that the caller provides
//! memory  one word each

use std::ops::Deref;
use std::sync::atomic::AtomicU64;

pub(crate) use hearth_serve::counters::count;
use hearth_serve::{CountedEvent, Counts};
use hearth_tile::{CounterDecl, CounterKind};

/// Memory of the counters: a region of the node's workspace, where observers see them, or private memory.
pub type CounterMemory = Box<dyn Deref<Target = [AtomicU64]> + Send + Sync>;

macro_rules! counters {
    ($($(#[doc = $help:literal])+ $name:ident: $kind:ident,)*) => {
        #[allow(non_camel_case_types, reason = "named as the counters are")]
        enum Index {
            $($name,)*
        }

        impl Counters {
            /// The counters' declarations, in the order of their words.
            pub const DECLS: &'static [CounterDecl] = &[
                $(CounterDecl {
                    name: stringify!($name),
                    kind: CounterKind::$kind,
                    help: hearth_tile::counters::trimmed(concat!($($help),+)),
                },)*
            ];

            $(
                $(#[doc = $help])+
                pub fn $name(&self) -> &AtomicU64 {
                    &self.words[Index::$name as usize]
                }
            )*
        }
    };
}

/// The counters of one server.
pub struct Counters {
    words: CounterMemory,
}

counters! {
    /// Requests read, each of a batch and those over WebSocket included.
    requests: Counter,
    /// Requests that were answered with an error.
    errors: Counter,
    /// Bodies refused before they were read as JSON-RPC: too long, too slow, not JSON by their header.
    bodies_refused: Counter,
    /// Requests refused: over the rate that one address may have.
    requests_limited: Counter,
    /// Requests refused: they are for the node's owner.
    admin_refused: Counter,
    /// Transactions handed to the pipeline, airdrops included.
    transactions_in: Counter,
    /// Transactions that were not sent on: a simulation failed, or a signature, or a lookup table.
    preflight_refused: Counter,
    /// Transactions for which the pipeline had no room.
    refused_busy: Counter,
    /// Transactions resent because they had not landed.
    resent: Counter,
    /// Transactions that wait to be resent.
    resend_waiting: Gauge,
    /// Transactions that are no longer handed over: their blockhash has expired, or that was often enough.
    resend_given_up: Counter,
    /// Transactions that were handed over once only: too many wait already.
    resend_refused: Counter,
    /// Airdrops handed to the pipeline.
    airdrops: Counter,
    /// The port of JSON-RPC over HTTP.
    http_port: Gauge,
    /// Connections accepted, HTTP and WebSocket.
    connections: Counter,
    /// Connections open now.
    connections_open: Gauge,
    /// Connections answered with 503 and closed: over the limit, and none was idle.
    connections_refused: Counter,
    /// Idle connections closed to make room for new ones.
    connections_idle_closed: Counter,
    /// Connections that could not be accepted, because the process cannot open another file.
    accepts_failed: Counter,
    /// Subscriptions that clients have made.
    subscriptions: Counter,
    /// Subscriptions that clients hold now.
    subscriptions_open: Gauge,
    /// Subscriptions refused: over a limit.
    subscriptions_refused: Counter,
    /// Notifications queued for a connection.
    notifications: Counter,
    /// Transactions and accounts missing from notifications, because more had landed than the queue holds.
    notifications_missed: Counter,
    /// WebSocket connections closed because the client did not read or did not answer.
    websockets_dropped: Counter,
    /// Dashboard streams started.
    dashboards: Counter,
    /// Streams of dashboards open now.
    dashboards_open: Gauge,
    /// Requests of dashboards refused: streams over the limit, or a name that is not this machine's.
    dashboards_refused: Counter,
    /// Streams of dashboards ended because the client did not read.
    dashboards_dropped: Counter,
}

impl Counters {
    /// Counters in `words`, which must have exactly [`Counters::DECLS`] words.
    pub fn in_words(words: CounterMemory) -> Self {
        assert!(words.len() >= Self::DECLS.len(), "too few words for the RPC's counters");
        Self { words }
    }
}

impl Default for Counters {
    fn default() -> Self {
        let words: Vec<AtomicU64> = Self::DECLS.iter().map(|_| AtomicU64::new(0)).collect();
        Self::in_words(Box::new(words))
    }
}

impl Counts for Counters {
    fn word(&self, what: CountedEvent) -> &AtomicU64 {
        match what {
            CountedEvent::Requests => self.requests(),
            CountedEvent::Errors => self.errors(),
            CountedEvent::Connections => self.connections(),
            CountedEvent::ConnectionsOpen => self.connections_open(),
            CountedEvent::ConnectionsRefused => self.connections_refused(),
            CountedEvent::ConnectionsIdleClosed => self.connections_idle_closed(),
            CountedEvent::AcceptsFailed => self.accepts_failed(),
            CountedEvent::WebsocketsDropped => self.websockets_dropped(),
            CountedEvent::Dashboards => self.dashboards(),
            CountedEvent::DashboardsOpen => self.dashboards_open(),
            CountedEvent::DashboardsRefused => self.dashboards_refused(),
            CountedEvent::DashboardsDropped => self.dashboards_dropped(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_ledger::drop_log::DropReason;

    #[test]
    fn every_reason_of_the_rpc_is_counted() {
        let ours = DropReason::ALL.iter().filter(|reason| reason.tile() == "rpc");
        assert!(ours.clone().count() > 0);
        for reason in ours {
            assert!(Counters::DECLS.iter().any(|decl| decl.name == reason.counter()), "{reason:?}");
        }
    }
}
