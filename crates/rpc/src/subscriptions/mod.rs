//! Subscriptions: what clients want to be told, and telling them.
//!
//! reads   the ledger, every [`LOOK_EVERY`] while there are subscriptions; nothing while there are none
//! writes  notifications into the queue of each connection
//! memory  about 200 B a subscription, and the account where it is one; a queue a connection. All bounded by
//!         [`Limits`]
//! drops   subscriptions over the limits: error -32602, counted; a connection whose queue is full: closed, counted
//! source  `rpc_subscriptions.rs`, `rpc_pubsub.rs` of `solana-rpc` 4.2 for the shapes
//!
//! A look costs four numbers of the ledger; what is subscribed is examined only where they have changed. An account
//! that changes twice between two looks is told once, as it is then, and as the newest state has it whatever the
//! commitment: the same as `getAccountInfo` says. Slots and roots are all told, as far back as the ledger remembers.

mod changes;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::extract::ws::Utf8Bytes;
use hearth_ledger::{Account, Commitment, Ledger};
use hearth_wire::{Pubkey, Signature};
use tokio::sync::{Notify, mpsc};

use crate::config::Limits;
use crate::counters::{Counters, count};
use crate::encoding::account::AccountFormat;
use crate::jsonrpc::Failure;
use crate::methods::Api;
use changes::{Changes, Seen, Told};

/// Between two looks at the ledger: half of what a notification may be late.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// What a client wants to be told.
#[derive(Clone, Debug)]
pub enum Watch {
    /// That a transaction has reached a commitment; once.
    Signature {
        /// The transaction's first signature.
        signature: Signature,
        /// The commitment.
        commitment: Commitment,
        /// Whether it shall also be told when it is first seen.
        received: bool,
    },
    /// That an account has changed.
    Account {
        /// Its address.
        key: Pubkey,
        /// How it shall be written.
        format: AccountFormat,
        /// As it was told last.
        last: Option<Account>,
    },
    /// That a slot has begun.
    Slot,
    /// That a slot has become final.
    Root,
}

impl Watch {
    /// The name of the subscription: `signature` of `signatureSubscribe`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Signature { .. } => "signature",
            Self::Account { .. } => "account",
            Self::Slot => "slot",
            Self::Root => "root",
        }
    }
}

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
    /// Whether something is subscribed that has not been examined.
    fresh: bool,
}

/// Everything that is subscribed.
pub struct Hub {
    state: Mutex<State>,
    woken: Notify,
    ledger: Arc<Ledger>,
    limits: Limits,
    counters: Arc<Counters>,
}

impl Hub {
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
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a connection in: its number, and the queue from which it sends. The queue ends when the client was
    /// too slow.
    pub fn join(&self) -> (u64, mpsc::Receiver<Utf8Bytes>) {
        let (queue, receiver) = mpsc::channel(self.limits.queued_notifications.max(1));
        let mut state = self.state();
        state.last_id += 1;
        let number = state.last_id;
        state.peers.insert(number, Peer { queue, own: HashSet::new() });
        (number, receiver)
    }

    /// Forgets a connection and its subscriptions.
    pub fn leave(&self, connection: u64) {
        self.remove_peer(&mut self.state(), connection);
    }

    /// Subscribes; the number of the subscription.
    pub fn subscribe(&self, connection: u64, mut watch: Watch) -> Result<u64, Failure> {
        if let Watch::Account { key, last, .. } = &mut watch {
            *last = self.ledger.account(key);
        }
        let mut state = self.state();
        let State { last_id, peers, subscriptions, .. } = &mut *state;
        let (all_max, own_max) = (self.limits.subscriptions, self.limits.subscriptions_per_connection);
        let refuse = |message: String| {
            count(&self.counters.subscriptions_refused);
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
        count(&self.counters.subscriptions);
        self.counters.subscriptions_open.store(subscriptions.len() as u64, Relaxed);
        state.fresh = true;
        drop(state);
        self.woken.notify_one();
        Ok(id)
    }

    /// Ends a subscription of this kind and of this connection; whether there was one.
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
        if let Some(removed) = state.subscriptions.remove(&id) {
            if let Some(peer) = state.peers.get_mut(&removed.connection) {
                peer.own.remove(&id);
            }
            self.counters.subscriptions_open.store(state.subscriptions.len() as u64, Relaxed);
        }
    }

    fn remove_peer(&self, state: &mut State, connection: u64) {
        if let Some(peer) = state.peers.remove(&connection) {
            for id in peer.own {
                state.subscriptions.remove(&id);
            }
            self.counters.subscriptions_open.store(state.subscriptions.len() as u64, Relaxed);
        }
    }

    /// Looks at the ledger for as long as anything is subscribed, sleeps otherwise; without end.
    pub async fn watch(self: Arc<Self>) {
        loop {
            self.woken.notified().await;
            let mut seen = Seen::now(&self.ledger);
            while self.look(&mut seen) {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        }
    }

    /// Tells what has changed since `seen`; whether anything is still subscribed.
    fn look(&self, seen: &mut Seen) -> bool {
        let now = Seen::now(&self.ledger);
        let mut state = self.state();
        let fresh = std::mem::take(&mut state.fresh);
        if fresh || now != *seen {
            let changes = Changes::between(&self.ledger, seen, now, fresh);
            let mut told = Vec::new();
            for (&id, subscription) in &mut state.subscriptions {
                changes.tell(&self.ledger, id, &mut subscription.watch, &mut told);
            }
            *seen = now;
            self.deliver(&mut state, told);
        }
        !state.subscriptions.is_empty()
    }

    fn deliver(&self, state: &mut State, told: Vec<Told>) {
        for Told { id, text, last } in told {
            // It may have gone with a connection that an earlier one was too much for.
            let Some(connection) = state.subscriptions.get(&id).map(|found| found.connection) else { continue };
            let Some(peer) = state.peers.get(&connection) else { continue };
            if peer.queue.try_send(text).is_err() {
                count(&self.counters.websockets_dropped);
                self.remove_peer(state, connection);
                continue;
            }
            count(&self.counters.notifications);
            if last {
                self.remove(state, id);
            }
        }
    }
}
