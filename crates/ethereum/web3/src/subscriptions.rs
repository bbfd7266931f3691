//! Routes new blocks and pending transactions to the subscribers of WebSockets.
//!
//! reads   new blocks, hashes of transactions that came into the pool
//! writes  events into the queues of connections ([`crate::subscriber_queue`])
//! memory  a subscription its criteria
//! drops   connections whose queue is too long: closed, counted; subscriptions over the limits: error -32005, counted
//! source  `eth_subscribe` of go-ethereum 1.16

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use alloy_primitives::B256;
use hearth_evm::block::Block;
use hearth_evm::tx::SharedTx;
use parking_lot::{Mutex, MutexGuard};

use crate::config::Limits;
use crate::counters::{Counters, count};
use crate::failure::Failure;
use crate::json;
use crate::subscriber_queue::{Event, OwnSubscriptions, QueueSender, Reader, Subscription, Watch, line};

struct Peer {
    teller: QueueSender,
    own: OwnSubscriptions,
}

#[derive(Default)]
struct State {
    last_number: u64,
    peers: HashMap<u64, Peer>,
    subscriptions: usize,
}

/// All subscriptions, by connection.
pub struct SubscriptionHub {
    state: Mutex<State>,
    limits: Limits,
    counters: Arc<Counters>,
}

impl SubscriptionHub {
    /// Creates a hub without subscriptions.
    pub fn new(limits: Limits, counters: Arc<Counters>) -> Self {
        Self { state: Mutex::default(), limits, counters }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Registers a connection; returns its number and its queue. The queue ends when the client was too slow.
    pub fn join(&self) -> (u64, Reader) {
        let (teller, reader) = line(Arc::clone(&self.counters));
        let mut state = self.state();
        state.last_number += 1;
        let number = state.last_number;
        state.peers.insert(number, Peer { teller, own: OwnSubscriptions::default() });
        (number, reader)
    }

    /// Removes a connection and its subscriptions.
    pub fn leave(&self, connection: u64) {
        self.remove(&mut self.state(), connection);
    }

    fn remove(&self, state: &mut State, connection: u64) {
        if let Some(peer) = state.peers.remove(&connection) {
            state.subscriptions -= peer.own.len();
            self.note(state);
        }
    }

    fn note(&self, state: &State) {
        self.counters.subscriptions_open.store(state.subscriptions as u64, Relaxed);
    }

    /// Returns whether a connection has subscriptions.
    pub fn is_subscribed(&self, connection: u64) -> bool {
        self.state().peers.get(&connection).is_some_and(|peer| !peer.own.is_empty())
    }

    /// Subscribes to what comes after `now`, the number of the last event of the chain or the pool. Returns the
    /// subscription's number, quoted. `now` is called at a moment when no event can be published until the subscription
    /// is there.
    pub fn subscribe(&self, connection: u64, watch: Watch, now: impl FnOnce() -> u64) -> Result<String, Failure> {
        let mut state = self.state();
        let (all_max, own_max) = (self.limits.subscriptions, self.limits.subscriptions_per_connection);
        let refuse = |why: &str| {
            count(&self.counters.subscriptions_refused);
            Err(Failure::limit(why))
        };
        if state.subscriptions >= all_max {
            return refuse("the node serves as many subscriptions as it can");
        }
        let number = json::data(&crate::ids::unguessable());
        let Some(peer) = state.peers.get_mut(&connection) else {
            return refuse("the connection is being closed: its notifications were not read");
        };
        if peer.own.len() >= own_max {
            return refuse("the connection has as many subscriptions as it may have");
        }
        Arc::make_mut(&mut peer.own).push(Subscription { number: number.as_str().into(), watch, after: now() });
        state.subscriptions += 1;
        count(&self.counters.subscriptions);
        self.note(&state);
        Ok(number)
    }

    /// Ends a subscription of this connection; returns whether it existed. `number` is quoted.
    pub fn unsubscribe(&self, connection: u64, number: &str) -> bool {
        let mut state = self.state();
        let was_there = state.peers.get_mut(&connection).is_some_and(|peer| {
            let at = peer.own.iter().position(|own| *own.number == *number);
            at.map(|at| Arc::make_mut(&mut peer.own).swap_remove(at)).is_some()
        });
        if was_there {
            state.subscriptions -= 1;
            self.note(&state);
        }
        was_there
    }

    /// Publishes a new block, which was the event of that number.
    pub fn publish_block(&self, number: u64, block: &Arc<Block>) {
        self.tell(Event::Made(number, Arc::clone(block)));
    }

    /// Publishes the removal of a block: its logs.
    pub fn publish_removed(&self, number: u64, block: &Arc<Block>) {
        self.tell(Event::Gone(number, Arc::clone(block)));
    }

    /// Publishes transactions that entered the pool after `before` others; `find` returns a whole one.
    pub fn publish_pending(&self, before: u64, hashes: &[B256], find: impl Fn(&B256) -> Option<SharedTx>) {
        let whole = self.wants(|watch| matches!(watch, Watch::Pending { whole: true }));
        let txs = hashes.iter().map(|hash| (*hash, if whole { find(hash) } else { None }));
        self.tell(Event::Pending(before, txs.collect()));
    }

    /// Whether any subscription is for transactions.
    pub fn wants_pending(&self) -> bool {
        self.wants(|watch| matches!(watch, Watch::Pending { .. }))
    }

    fn wants(&self, is_it: impl Fn(&Watch) -> bool) -> bool {
        self.state().peers.values().any(|peer| peer.own.iter().any(|own| is_it(&own.watch)))
    }

    fn tell(&self, event: Event) {
        let (bytes, event) = (event.bytes(), Arc::new(event));
        let (bytes_max, patience) = (self.limits.queued_bytes, self.limits.patience);
        let mut state = self.state();
        let mut too_slow = Vec::new();
        for (&connection, peer) in &state.peers {
            let concerned = peer.own.iter().any(|own| event.concerns(own));
            if concerned && !peer.teller.tell(&event, &peer.own, bytes, bytes_max, patience) {
                too_slow.push(connection);
            }
        }
        for connection in too_slow {
            count(&self.counters.websockets_dropped);
            self.remove(&mut state, connection);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hub(limits: Limits) -> SubscriptionHub {
        SubscriptionHub::new(limits, Arc::default())
    }

    fn block(number: u64) -> Arc<Block> {
        let header = alloy_consensus::Header { number, ..Default::default() };
        let (txs, receipts, ommers, withdrawals) = Default::default();
        Arc::new(Block { hash: header.hash_slow(), header, txs, receipts, ommers, withdrawals })
    }

    #[test]
    fn heads_are_reported_until_the_subscription_ends() {
        let hub = hub(Limits::default());
        let (connection, mut queue) = hub.join();
        let number = hub.subscribe(connection, Watch::Heads, || 0).unwrap();
        hub.publish_block(1, &block(7));
        let notification: serde_json::Value = serde_json::from_str(&queue.try_recv().unwrap()).unwrap();
        assert_eq!(
            (&notification["method"], &notification["params"]["result"]["number"]),
            (&"eth_subscription".into(), &"0x7".into())
        );
        assert_eq!(format!("{}", notification["params"]["subscription"]), number);
        assert!(!hub.unsubscribe(connection + 1, &number));
        assert!(hub.unsubscribe(connection, &number));
        assert!(!hub.unsubscribe(connection, &number));
        hub.publish_block(1, &block(8));
        assert_eq!(queue.try_recv(), None);
        assert_eq!(hub.counters.subscriptions_open.load(Relaxed), 0);
    }

    #[test]
    fn slow_subscriber_is_dropped_and_counted() {
        let three = 3 * Event::Made(1, block(1)).bytes();
        let hub = hub(Limits { queued_bytes: three, ..Default::default() });
        let (slow, mut unread) = hub.join();
        let (fast, mut read) = hub.join();
        for connection in [slow, fast] {
            hub.subscribe(connection, Watch::Heads, || 0).unwrap();
        }
        for number in 1..=10 {
            hub.publish_block(1, &block(number));
            read.try_recv().unwrap();
        }
        assert_eq!(hub.counters.websockets_dropped.load(Relaxed), 1);
        assert_eq!(hub.counters.subscriptions_open.load(Relaxed), 1);
        // What was queued is still there, then the queue ends.
        assert_eq!(std::iter::from_fn(|| unread.try_recv()).count(), 3);
        assert!(hearth_serve::websocket::Queue::is_closed(&unread));
        assert_eq!(hub.subscribe(slow, Watch::Heads, || 0).unwrap_err().code(), -32005);
    }

    #[test]
    fn subscriptions_are_bounded() {
        let hub = hub(Limits { subscriptions: 3, subscriptions_per_connection: 2, ..Default::default() });
        let ((one, _one), (two, _two)) = (hub.join(), hub.join());
        hub.subscribe(one, Watch::Syncing, || 0).unwrap();
        hub.subscribe(one, Watch::Heads, || 0).unwrap();
        hub.subscribe(one, Watch::Heads, || 0).unwrap_err();
        hub.subscribe(two, Watch::Heads, || 0).unwrap();
        hub.subscribe(two, Watch::Heads, || 0).unwrap_err();
        hub.leave(one);
        hub.subscribe(two, Watch::Heads, || 0).unwrap();
        assert_eq!(hub.counters.subscriptions_refused.load(Relaxed), 2);
    }
}
