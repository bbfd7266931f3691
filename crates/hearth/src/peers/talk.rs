//! The node's votes on their way to gossip, and what it hears there of others' votes and slots.
//!
//! reads   votes, from consensus; values that came to gossip
//! writes  the same, to gossip's thread and to consensus
//! memory  [`QUEUE_MAX`] of each, 1.2 KB at most
//! drops   the oldest beyond that, counted: a vote is followed by the next, and slots are told again
//! source  –

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};

use hearth_wire::Pubkey;

/// What waits at most, each way.
const QUEUE_MAX: usize = 4_096;

/// Something that another node said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// A vote's transaction; its signatures are not checked.
    Vote(Vec<u8>),
    /// A node has these slots, all above the root.
    Slots(Pubkey, Vec<u64>),
}

/// Both ways.
#[derive(Default)]
pub struct Talk {
    say: Mutex<VecDeque<Vec<u8>>>,
    heard: Mutex<VecDeque<Heard>>,
    root: AtomicU64,
    lost: AtomicU64,
}

impl Talk {
    /// A vote's transaction, to be said by gossip's thread.
    pub fn say(&self, vote: Vec<u8>) {
        self.push(&self.say, vote);
    }

    /// All that is to be said.
    pub fn to_say(&self) -> VecDeque<Vec<u8>> {
        std::mem::take(&mut *self.say.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Gossip's thread has heard something.
    pub fn hear(&self, what: Heard) {
        self.push(&self.heard, what);
    }

    /// All that was heard since the last call.
    pub fn heard(&self) -> VecDeque<Heard> {
        std::mem::take(&mut *self.heard.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Slots up to this one are of no interest any more.
    pub fn set_root(&self, root: u64) {
        self.root.store(root, SeqCst);
    }

    /// The newest slot that is of no interest.
    pub fn root(&self) -> u64 {
        self.root.load(SeqCst)
    }

    /// What was dropped since nobody took it.
    pub fn lost(&self) -> u64 {
        self.lost.load(SeqCst)
    }

    fn push<T>(&self, queue: &Mutex<VecDeque<T>>, what: T) {
        let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.len() == QUEUE_MAX {
            queue.pop_front();
            self.lost.fetch_add(1, SeqCst);
        }
        queue.push_back(what);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_stay() {
        let talk = Talk::default();
        for slot in 0..QUEUE_MAX as u64 + 3 {
            talk.hear(Heard::Slots([1; 32], vec![slot]));
        }
        talk.say(vec![7]);
        let heard = talk.heard();
        assert_eq!((heard.len(), talk.lost()), (QUEUE_MAX, 3));
        assert_eq!(heard[0], Heard::Slots([1; 32], vec![3]));
        assert_eq!((talk.heard().len(), talk.to_say()), (0, [vec![7]].into()));
    }
}
