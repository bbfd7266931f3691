//! Publishes new blocks to subscribers.
//!
//! reads   published blocks, in order, at the moment at which readers see them
//! writes  to each subscriber's queue
//! memory  at most [`QUEUE`] events per subscriber; their blocks stay in memory until they are taken
//! drops   the events of a subscriber whose queue is full; it finds [`ChainEvent::Lagged`] in their place
//!
//! Events are numbered from 1. A reader that notes the count can tell for each event whether it came later.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::block::Block;

/// Events that wait for one subscriber, at most.
pub const QUEUE: usize = 1024;

/// A change of the chain.
#[derive(Clone, Debug)]
pub enum ChainEvent {
    /// A new head, on top of the head before.
    Block(Arc<Block>),
    /// The chain went back to this block, which is the head again; the second are those that are no more, newest first.
    Reorg(Arc<Block>, Vec<Arc<Block>>),
    /// The subscriber did not take its events: some are missing here.
    Lagged,
}

type Wake = Box<dyn Fn() + Send + Sync>;

/// A subscription; dropping it ends it.
pub struct Events {
    queue: Arc<Queue>,
}

struct Queue {
    events: Mutex<VecDeque<(u64, ChainEvent)>>,
    came: Condvar,
    wake: Option<Wake>,
}

impl Events {
    /// Returns the next event, if there is one.
    pub fn try_next(&self) -> Option<ChainEvent> {
        self.queue.events.lock().pop_front().map(|(_, event)| event)
    }

    /// Waits up to `patience` for the next event.
    pub fn next_within(&self, patience: Duration) -> Option<ChainEvent> {
        self.next_numbered_within(patience).map(|(_, event)| event)
    }

    /// Waits up to `patience` for the next event and its number. [`ChainEvent::Lagged`] has the number of the last
    /// missing one.
    pub fn next_numbered_within(&self, patience: Duration) -> Option<(u64, ChainEvent)> {
        let end = Instant::now() + patience;
        let mut events = self.queue.events.lock();
        loop {
            if let Some(event) = events.pop_front() {
                return Some(event);
            }
            let left = end.checked_duration_since(Instant::now())?;
            self.queue.came.wait_for(&mut events, left);
        }
    }
}

/// All subscriptions to the chain's events.
#[derive(Default)]
pub(super) struct EventSubscribers {
    subscribers: Mutex<Subscribers>,
}

#[derive(Default)]
struct Subscribers {
    events: u64,
    queues: Vec<Weak<Queue>>,
}

/// Subscribers with an event that they have not been woken for yet.
#[must_use]
pub(super) struct PendingWakeups(Vec<Arc<Queue>>);

impl EventSubscribers {
    /// How many events there have been.
    pub(super) fn events(&self) -> u64 {
        self.subscribers.lock().events
    }

    pub(super) fn subscribe(&self, wake: Option<Wake>) -> Events {
        let queue = Arc::new(Queue { events: Mutex::default(), came: Condvar::new(), wake });
        let mut subscribers = self.subscribers.lock();
        // Subscribers that are gone would be kept until the next event, which an idle chain does not have.
        subscribers.queues.retain(|queue| queue.strong_count() > 0);
        subscribers.queues.push(Arc::downgrade(&queue));
        drop(subscribers);
        Events { queue }
    }

    /// Queues an event at the moment at which readers see it: the caller holds the lock of the published blocks.
    pub(super) fn tell(&self, event: &ChainEvent) -> PendingWakeups {
        let mut subscribers = self.subscribers.lock();
        subscribers.events += 1;
        subscribers.queues.retain(|queue| queue.strong_count() > 0);
        let live: Vec<Arc<Queue>> = subscribers.queues.iter().filter_map(Weak::upgrade).collect();
        for queue in &live {
            let mut events = queue.events.lock();
            if events.len() >= QUEUE {
                events.clear();
                events.push_back((subscribers.events - 1, ChainEvent::Lagged));
            }
            events.push_back((subscribers.events, event.clone()));
        }
        PendingWakeups(live)
    }
}

impl PendingWakeups {
    /// Wakes them, when no lock is held any more.
    pub(super) fn wake(self) {
        for queue in self.0 {
            queue.came.notify_all();
            if let Some(wake) = &queue.wake {
                wake();
            }
        }
    }
}
