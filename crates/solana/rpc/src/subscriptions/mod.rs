//! Subscriptions: registers what clients subscribe to, and sends their notifications.
//!
//! reads   the ledger, every [`LOOK_EVERY`] while there are subscriptions; nothing while there are none
//! writes  notifications into the queue of each connection
//! memory  about 200 B per subscription, plus the account for an account subscription; a queue per connection; all
//!         bounded by [`Limits`]; the notifications of one subscription and poll; held-back notifications, at most
//!         [`notifications::HELD_BYTES_MAX`]
//! drops   subscriptions over the limits: error -32602, counted; a connection whose queue is full: closed, counted
//! source  `rpc_subscriptions.rs`, `rpc_pubsub.rs` of `solana-rpc` 4.2 for the shapes
//!
//! A poll reads five numbers of the ledger and examines subscriptions only if they have changed. An account that
//! changes twice between two polls is notified once, with its state at the commitment, the same that `getAccountInfo`
//! returns. Slots and roots are all notified, as far back as the ledger remembers.
//!
//! Logs, votes and program accounts come from the banks ([`hearth_ledger::notifier`]), which publish them only while a
//! client subscribes to them. They are held back until their slot reaches the subscription's commitment.

mod changes;
mod notifications;
mod watch;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use hearth_ledger::Ledger;
use hearth_ledger::notifier::Interests;
use hearth_serve::websocket::Utf8Bytes;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, mpsc};

use crate::config::Limits;
use crate::counters::{Counters, count};
use crate::jsonrpc::Failure;
use crate::methods::Api;
use changes::{ChangeCounters, Changes};
use notifications::{Notification, NotificationBuilder, held_bytes};
pub use watch::{Watch, unsubscribes};

/// Polling interval: half of a notification's latency budget.
const LOOK_EVERY: Duration = Duration::from_millis(10);
const _: () = assert!(2 * LOOK_EVERY.as_millis() <= 20, "a client is notified within 20 ms");

struct Subscription {
    connection: u64,
    watch: Watch,
}

struct Peer {
    queue: mpsc::Sender<Utf8Bytes>,
    own: HashSet<u64>,
}

#[derive(Default)]
struct State {
    last_id: u64,
    peers: HashMap<u64, Peer>,
    subscriptions: HashMap<u64, Subscription>,
    /// Whether there is a subscription that has not been examined.
    fresh: bool,
    /// Bytes held back until they reach their commitment.
    held_bytes: usize,
}

impl State {
    /// The kinds of events that the banks must publish for all subscriptions together.
    fn wanted(&self) -> Interests {
        let all = self.subscriptions.values().map(|found| found.watch.wanted());
        all.fold(Interests::default(), |a, b| Interests {
            logs: a.logs || b.logs,
            votes: a.votes || b.votes,
            accounts: a.accounts || b.accounts,
        })
    }

    fn forget(&mut self, id: u64) -> Option<Subscription> {
        let removed = self.subscriptions.remove(&id)?;
        self.held_bytes -= held_bytes(&removed.watch);
        Some(removed)
    }
}

/// All subscriptions of all connections.
pub struct SubscriptionHub {
    state: Mutex<State>,
    woken: Notify,
    ledger: Arc<Ledger>,
    limits: Limits,
    counters: Arc<Counters>,
}

impl SubscriptionHub {
    /// A hub without subscriptions, for the ledger and within the limits of `api`.
    pub fn new(api: &Api) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State::default()),
            woken: Notify::new(),
            ledger: Arc::clone(&api.ledger),
            limits: api.limits,
            counters: Arc::clone(&api.counters),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Registers a connection; returns its number and its queue of outgoing messages. The queue ends if the client is
    /// too slow.
    pub fn join(&self) -> (u64, mpsc::Receiver<Utf8Bytes>) {
        let (queue, receiver) = mpsc::channel(self.limits.queued_notifications.max(1));
        let mut state = self.state();
        state.last_id += 1;
        let number = state.last_id;
        state.peers.insert(number, Peer { queue, own: HashSet::new() });
        (number, receiver)
    }

    /// Removes a connection and its subscriptions.
    pub fn leave(&self, connection: u64) {
        self.remove_peer(&mut self.state(), connection);
    }

    /// Whether a connection has subscriptions.
    pub fn is_subscribed(&self, connection: u64) -> bool {
        self.state().peers.get(&connection).is_some_and(|peer| !peer.own.is_empty())
    }

    /// Adds a subscription and returns its number.
    pub fn subscribe(&self, connection: u64, mut watch: Watch) -> Result<u64, Failure> {
        if let Watch::Account { key, commitment, last, .. } = &mut watch {
            *last = self.ledger.state(*commitment).account(key);
        }
        let mut state = self.state();
        let State { last_id, peers, subscriptions, .. } = &mut *state;
        let (all_max, own_max) = (self.limits.subscriptions, self.limits.subscriptions_per_connection);
        let refuse = |message: String| {
            count(self.counters.subscriptions_refused());
            Err(Failure::invalid_params(message))
        };
        let Some(peer) = peers.get_mut(&connection) else {
            return refuse("the connection is being closed: its notifications were not read".into());
        };
        if peer.own.len() >= own_max {
            return refuse(format!("a connection may have {own_max} subscriptions at a time"));
        }
        if subscriptions.len() >= all_max {
            return refuse(format!("the node serves {all_max} subscriptions at a time"));
        }
        *last_id += 1;
        let id = *last_id;
        peer.own.insert(id);
        subscriptions.insert(id, Subscription { connection, watch });
        count(self.counters.subscriptions());
        state.fresh = true;
        self.note_subscriptions(&state);
        drop(state);
        self.woken.notify_one();
        Ok(id)
    }

    /// Removes a subscription of this kind and connection; returns whether there was one.
    pub fn unsubscribe(&self, connection: u64, name: &str, id: u64) -> bool {
        let mut state = self.state();
        let is_it = |found: &Subscription| found.connection == connection && found.watch.name() == name;
        let there = state.subscriptions.get(&id).is_some_and(is_it);
        if there {
            self.remove(&mut state, id);
        }
        there
    }

    fn remove(&self, state: &mut State, id: u64) {
        if let Some(removed) = state.forget(id) {
            if let Some(peer) = state.peers.get_mut(&removed.connection) {
                peer.own.remove(&id);
            }
            self.note_subscriptions(state);
        }
    }

    fn remove_peer(&self, state: &mut State, connection: u64) {
        if let Some(peer) = state.peers.remove(&connection) {
            for id in peer.own {
                state.forget(id);
            }
            self.note_subscriptions(state);
        }
    }

    /// Updates the subscription count and what the banks publish.
    fn note_subscriptions(&self, state: &State) {
        self.counters.subscriptions_open().store(state.subscriptions.len() as u64, Relaxed);
        self.ledger.tap().set_wanted(state.wanted());
    }

    /// Polls the ledger while there are subscriptions, and sleeps otherwise. Never returns.
    pub async fn watch(self: Arc<Self>) {
        loop {
            self.woken.notified().await;
            let mut seen = ChangeCounters::now(&self.ledger);
            while self.look(&mut seen) {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        }
    }

    /// Notifies what has changed since `seen`; returns whether there are still subscriptions.
    fn look(&self, seen: &mut ChangeCounters) -> bool {
        let now = ChangeCounters::now(&self.ledger);
        // Read after the numbers, so that a slot's transactions are known when the slot reaches its commitment.
        let tapped = self.ledger.tap().take();
        self.counters.notifications_missed().fetch_add(tapped.missed, Relaxed);
        let mut state = self.state();
        let fresh = std::mem::take(&mut state.fresh);
        if fresh || now != *seen || !tapped.landed.is_empty() || !tapped.changed.is_empty() {
            let changes = Changes::between(&self.ledger, seen, now, fresh, tapped);
            self.tell_all(&mut state, &changes);
            *seen = now;
        }
        !state.subscriptions.is_empty()
    }

    /// Notifies one subscription after the other, and returns the number of notifications made. Those of one are
    /// delivered before the next one's are made: thousands of subscriptions on connections that are full cost neither
    /// time nor memory.
    fn tell_all(&self, state: &mut State, changes: &Changes) -> usize {
        let mut made = 0;
        let ids: Vec<u64> = state.subscriptions.keys().copied().collect();
        for id in ids {
            let State { subscriptions, held_bytes, .. } = state;
            // An earlier notification may have overflowed its connection, which removes its subscriptions.
            let Some(subscription) = subscriptions.get_mut(&id) else { continue };
            let mut builder = NotificationBuilder { changes, ledger: &self.ledger, held_bytes, notifications: vec![] };
            builder.tell(id, &mut subscription.watch);
            let notifications = builder.notifications;
            made += notifications.len();
            self.deliver(state, notifications);
        }
        made
    }

    fn deliver(&self, state: &mut State, notifications: Vec<Notification>) {
        for Notification { id, text, last } in notifications {
            // An earlier notification may have overflowed its connection, which removes its subscriptions.
            let Some(connection) = state.subscriptions.get(&id).map(|found| found.connection) else { continue };
            let Some(peer) = state.peers.get(&connection) else { continue };
            let sent = text.map(|text| peer.queue.try_send(text));
            if !matches!(sent, Some(Ok(()))) {
                count(self.counters.websockets_dropped());
                self.remove_peer(state, connection);
                continue;
            }
            count(self.counters.notifications());
            if last {
                self.remove(state, id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use hearth_ledger::builders;
    use hearth_ledger::notifier::DrainedNotifications;

    use super::*;

    #[test]
    fn full_connection_costs_no_more_notifications() {
        let hub = SubscriptionHub {
            state: Mutex::default(),
            woken: Notify::new(),
            ledger: builders::ledger(1),
            limits: Limits { queued_notifications: 1, ..Limits::default() },
            counters: Arc::default(),
        };
        let (full, _unread) = hub.join();
        for _ in 0..100 {
            assert!(hub.subscribe(full, Watch::Slot).is_ok());
        }
        let now = ChangeCounters::now(&hub.ledger);
        let mut changes = Changes::between(&hub.ledger, &now, now, true, DrainedNotifications::default());
        changes.slots = vec![(1, 0)];
        // The second is one too many.
        assert_eq!(hub.tell_all(&mut hub.state(), &changes), 2);
        assert!(hub.state().subscriptions.is_empty());

        let (other, mut read) = hub.join();
        assert!(hub.subscribe(other, Watch::Slot).is_ok());
        assert_eq!(hub.tell_all(&mut hub.state(), &changes), 1);
        assert!(read.try_recv().is_ok_and(|text| text.contains("slotNotification")));
    }
}
