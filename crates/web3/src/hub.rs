//! Subscriptions: who wants to be told what.
//!
//! reads   new blocks, hashes of transactions that came into the pool
//! writes  notifications into the queues of connections
//! memory  a subscription its criteria; a connection at most [`Limits::queued_notifications`](crate::Limits) texts
//! drops   connections whose queue is full: closed, counted; subscriptions over the limits: error -32005, counted
//! source  `eth_subscribe` of go-ethereum 1.16

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use alloy_primitives::B256;
use hearth_evm::block::Block;
use hearth_evm::tx::SharedTx;
use hearth_serve::websocket::Utf8Bytes;
use tokio::sync::mpsc;

use crate::config::Limits;
use crate::counters::{Counters, count};
use crate::criteria::Criteria;
use crate::failure::Failure;
use crate::json;
use crate::jsonrpc::notification;
use crate::methods::shapes::{self, Place};

/// What a subscriber wants to be told.
#[derive(Clone, Debug)]
pub enum Watch {
    /// Every block.
    Heads,
    /// Every log of these.
    Logs(Box<Criteria>),
    /// Every transaction that comes into the pool: its hash, or all of it.
    Pending {
        /// All of it.
        whole: bool,
    },
    /// Whether the node is behind. It never is: there is nothing it could be behind of.
    Syncing,
}

struct Peer {
    queue: mpsc::Sender<Utf8Bytes>,
    /// By their quoted numbers.
    own: HashMap<String, Watch>,
}

#[derive(Default)]
struct State {
    last_number: u64,
    peers: HashMap<u64, Peer>,
    subscriptions: usize,
}

/// Everything that is subscribed.
pub struct Hub {
    state: Mutex<State>,
    limits: Limits,
    counters: Arc<Counters>,
}

impl Hub {
    /// A hub without subscriptions.
    pub fn new(limits: Limits, counters: Arc<Counters>) -> Self {
        Self { state: Mutex::default(), limits, counters }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a connection in: its number, and the queue from which it sends. The queue ends when the client was
    /// too slow.
    pub fn join(&self) -> (u64, mpsc::Receiver<Utf8Bytes>) {
        let (queue, receiver) = mpsc::channel(self.limits.queued_notifications.max(1));
        let mut state = self.state();
        state.last_number += 1;
        let number = state.last_number;
        state.peers.insert(number, Peer { queue, own: HashMap::new() });
        (number, receiver)
    }

    /// Forgets a connection and its subscriptions.
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

    /// Subscribes: the number of the subscription, quoted.
    pub fn subscribe(&self, connection: u64, watch: Watch) -> Result<String, Failure> {
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
        peer.own.insert(number.clone(), watch);
        state.subscriptions += 1;
        count(&self.counters.subscriptions);
        self.note(&state);
        Ok(number)
    }

    /// Ends a subscription of this connection; whether there was one. `number` is quoted.
    pub fn unsubscribe(&self, connection: u64, number: &str) -> bool {
        let mut state = self.state();
        let was_there = state.peers.get_mut(&connection).is_some_and(|peer| peer.own.remove(number).is_some());
        if was_there {
            state.subscriptions -= 1;
            self.note(&state);
        }
        was_there
    }

    /// Tells of a new block.
    pub fn tell_block(&self, block: &Block) {
        let mut head = None;
        self.tell(|number, watch, send| match watch {
            Watch::Heads => {
                let head = head.get_or_insert_with(|| shapes::head(block));
                send(notification(number, head));
            }
            Watch::Logs(criteria) => tell_logs(block, criteria, false, |log| send(notification(number, log))),
            Watch::Pending { .. } | Watch::Syncing => {}
        });
    }

    /// Tells of a block that is no more: of its logs.
    pub fn tell_gone(&self, block: &Block) {
        self.tell(|number, watch, send| {
            if let Watch::Logs(criteria) = watch {
                tell_logs(block, criteria, true, |log| send(notification(number, log)));
            }
        });
    }

    /// Tells of transactions that came into the pool; `find` gives the whole of one.
    pub fn tell_pending(&self, hashes: &[B256], find: impl Fn(&B256) -> Option<SharedTx>) {
        self.tell(|number, watch, send| {
            let Watch::Pending { whole } = watch else { return };
            for hash in hashes {
                let mut text = String::new();
                match (whole, whole.then(|| find(hash)).flatten()) {
                    (true, Some(tx)) => shapes::push_transaction(&mut text, &tx, None),
                    // Given up in the meantime.
                    (true, None) => continue,
                    (false, _) => json::push_data(&mut text, hash.as_slice()),
                }
                send(notification(number, &text));
            }
        });
    }

    /// Whether anybody wants to be told of transactions.
    pub fn wants_pending(&self) -> bool {
        let wants = |peer: &Peer| peer.own.values().any(|watch| matches!(watch, Watch::Pending { .. }));
        self.state().peers.values().any(wants)
    }

    fn tell(&self, mut texts: impl FnMut(&str, &Watch, &mut dyn FnMut(String))) {
        let mut state = self.state();
        let mut too_slow = Vec::new();
        for (&connection, peer) in &state.peers {
            let mut is_too_slow = false;
            for (number, watch) in &peer.own {
                texts(number, watch, &mut |text: String| {
                    if !is_too_slow {
                        is_too_slow = peer.queue.try_send(text.into()).is_err();
                        count(&self.counters.notifications);
                    }
                });
            }
            if is_too_slow {
                too_slow.push(connection);
            }
        }
        for connection in too_slow {
            count(&self.counters.websockets_dropped);
            self.remove(&mut state, connection);
        }
    }
}

fn tell_logs(block: &Block, criteria: &Criteria, is_gone: bool, mut tell: impl FnMut(&str)) {
    if !criteria.may_be_in(&block.header.logs_bloom) {
        return;
    }
    let mut log_index = 0;
    for (index, receipt) in block.receipts.iter().enumerate() {
        for log in &receipt.logs {
            if criteria.matches(log) {
                let mut text = String::new();
                shapes::push_log(&mut text, log, &Place { block, index }, log_index, is_gone);
                tell(&text);
            }
            log_index += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hub(limits: Limits) -> Hub {
        Hub::new(limits, Arc::default())
    }

    fn block(number: u64) -> Block {
        let header = alloy_consensus::Header { number, ..Default::default() };
        let (txs, receipts, withdrawals) = Default::default();
        Block { hash: header.hash_slow(), header, txs, receipts, withdrawals }
    }

    #[test]
    fn heads_are_told_until_the_subscription_ends() {
        let hub = hub(Limits::default());
        let (connection, mut queue) = hub.join();
        let number = hub.subscribe(connection, Watch::Heads).unwrap();
        hub.tell_block(&block(7));
        let told: serde_json::Value = serde_json::from_str(&queue.try_recv().unwrap()).unwrap();
        assert_eq!((&told["method"], &told["params"]["result"]["number"]), (&"eth_subscription".into(), &"0x7".into()));
        assert_eq!(format!("{}", told["params"]["subscription"]), number);
        assert!(!hub.unsubscribe(connection + 1, &number));
        assert!(hub.unsubscribe(connection, &number));
        assert!(!hub.unsubscribe(connection, &number));
        hub.tell_block(&block(8));
        queue.try_recv().unwrap_err();
        assert_eq!(hub.counters.subscriptions_open.load(Relaxed), 0);
    }

    #[test]
    fn who_does_not_read_is_dropped_and_counted() {
        let hub = hub(Limits { queued_notifications: 3, ..Default::default() });
        let (slow, mut unread) = hub.join();
        let (fast, mut read) = hub.join();
        for connection in [slow, fast] {
            hub.subscribe(connection, Watch::Heads).unwrap();
        }
        for number in 1..=10 {
            hub.tell_block(&block(number));
            read.try_recv().unwrap();
        }
        assert_eq!(hub.counters.websockets_dropped.load(Relaxed), 1);
        assert_eq!(hub.counters.subscriptions_open.load(Relaxed), 1);
        // What was queued is still there, then the queue ends.
        assert_eq!(std::iter::from_fn(|| unread.try_recv().ok()).count(), 3);
        assert!(unread.is_closed());
        assert_eq!(hub.subscribe(slow, Watch::Heads).unwrap_err().code(), -32005);
    }

    #[test]
    fn subscriptions_are_bounded() {
        let hub = hub(Limits { subscriptions: 3, subscriptions_per_connection: 2, ..Default::default() });
        let ((one, _one), (two, _two)) = (hub.join(), hub.join());
        hub.subscribe(one, Watch::Syncing).unwrap();
        hub.subscribe(one, Watch::Heads).unwrap();
        hub.subscribe(one, Watch::Heads).unwrap_err();
        hub.subscribe(two, Watch::Heads).unwrap();
        hub.subscribe(two, Watch::Heads).unwrap_err();
        hub.leave(one);
        hub.subscribe(two, Watch::Heads).unwrap();
        assert_eq!(hub.counters.subscriptions_refused.load(Relaxed), 2);
    }
}
