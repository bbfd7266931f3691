//! Telling subscribers of new blocks.
//!
//! reads   what the writer publishes, in order
//! writes  to each subscriber's queue
//! memory  of a subscriber at most [`QUEUE`] events; the blocks they tell of stay in memory until they are taken
//! drops   the events of a subscriber whose queue is full; it finds [`ChainEvent::Lagged`] in their place

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::lock;
use crate::block::Block;

/// Events that wait for one subscriber, at most.
pub const QUEUE: usize = 1024;

/// What happened to the chain.
#[derive(Clone, Debug)]
pub enum ChainEvent {
    /// A new head.
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
    events: Mutex<VecDeque<ChainEvent>>,
    came: Condvar,
    wake: Option<Wake>,
}

impl Events {
    /// What has come, if anything.
    pub fn try_next(&self) -> Option<ChainEvent> {
        lock(&self.queue.events).pop_front()
    }

    /// What comes next within `patience`.
    pub fn next_within(&self, patience: Duration) -> Option<ChainEvent> {
        let end = Instant::now() + patience;
        let mut events = lock(&self.queue.events);
        loop {
            if let Some(event) = events.pop_front() {
                return Some(event);
            }
            let left = end.checked_duration_since(Instant::now())?;
            events = self.queue.came.wait_timeout(events, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// All subscriptions.
#[derive(Default)]
pub(super) struct Hub {
    queues: Mutex<Vec<Weak<Queue>>>,
}

impl Hub {
    pub(super) fn subscribe(&self, wake: Option<Wake>) -> Events {
        let queue = Arc::new(Queue { events: Mutex::default(), came: Condvar::new(), wake });
        lock(&self.queues).push(Arc::downgrade(&queue));
        Events { queue }
    }

    pub(super) fn tell(&self, event: &ChainEvent) {
        let live: Vec<Arc<Queue>> = {
            let mut queues = lock(&self.queues);
            queues.retain(|queue| queue.strong_count() > 0);
            queues.iter().filter_map(Weak::upgrade).collect()
        };
        for queue in live {
            let mut events = lock(&queue.events);
            if events.len() >= QUEUE {
                events.clear();
                events.push_back(ChainEvent::Lagged);
            }
            events.push_back(event.clone());
            drop(events);
            queue.came.notify_all();
            if let Some(wake) = &queue.wake {
                wake();
            }
        }
    }
}
