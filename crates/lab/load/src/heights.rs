//! Records when each block of a node could first be read, however long the load takes to read it.
//!
//! reads   the newest block number, polled while blocks are read
//! memory  24 B for each answer with a higher number, until the reader has passed it
//!
//! On a node with hundreds of blocks a second the reader may fall seconds behind. That delay is the load's, not the
//! node's: latency ends when the node first reported a block's number, and the reader's delay is reported separately.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// How often the node is asked for its newest number.
pub const POLL: Duration = Duration::from_millis(20);

/// The block numbers that a node has reported.
#[derive(Default)]
pub struct Heights(Mutex<State>);

#[derive(Default)]
struct State {
    /// Block numbers with the time at which the node first reported one that high, both ascending.
    named: VecDeque<(u64, Instant)>,
    newest: Option<u64>,
    /// When the node was last asked.
    asked: Option<Instant>,
    /// The block that the node reported but cannot serve yet.
    not_yet: Option<u64>,
    /// The time of the block before.
    before: Option<Instant>,
}

impl Heights {
    /// Records that the node reports this number as its newest.
    pub fn note(&self, newest: u64, at: Instant) {
        let state = &mut *self.0.lock();
        state.asked = Some(at);
        if state.newest.is_none_or(|before| newest > before) {
            state.newest = Some(newest);
            state.named.push_back((newest, at));
        }
    }

    /// Records that the node could not serve a block it had reported. It becomes readable only when the node serves it.
    pub fn cannot_give(&self, number: u64) {
        self.0.lock().not_yet = Some(number);
    }

    /// Returns when a block could first be read that was read at `read`. Blocks must be passed in order.
    pub fn readable(&self, number: u64, read: Instant) -> Instant {
        let state = &mut *self.0.lock();
        while state.named.front().is_some_and(|(named, _)| *named < number) {
            state.named.pop_front();
        }
        let named = state.named.front().map(|(_, at)| *at).filter(|_| state.not_yet != Some(number));
        let at = named.map_or(read, |at| at.min(read));
        let at = state.before.map_or(at, |before| at.max(before));
        state.before = Some(at);
        at
    }

    /// Polls the newest number whenever the reader has not done so for a while, until `stop`.
    pub fn watch<E>(&self, newest: impl Fn() -> Result<u64, E>, stop: &AtomicBool) {
        while !stop.load(Ordering::Acquire) {
            thread::sleep(POLL);
            let asked = self.0.lock().asked;
            if asked.is_some_and(|asked| asked.elapsed() < POLL) {
                continue;
            }
            // Errors are reported by the reader.
            if let Ok(newest) = newest() {
                self.note(newest, Instant::now());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_readable_when_its_number_was_named() {
        let zero = Instant::now();
        let at = |ms| zero + Duration::from_millis(ms);
        let heights = Heights::default();
        heights.note(10, at(0));
        heights.note(10, at(20));
        heights.note(14, at(40));
        heights.note(13, at(50));
        heights.note(20, at(60));
        // The reader gets there four seconds later.
        let read = at(4000);
        let readable: Vec<_> = (9..=20).map(|number| heights.readable(number, read) - zero).collect();
        let ms = |ms| Duration::from_millis(ms);
        assert_eq!(readable, [vec![ms(0); 2], vec![ms(40); 4], vec![ms(60); 6]].concat());
        assert_eq!(heights.readable(21, read), read, "nobody has named it");
    }

    #[test]
    fn a_block_that_the_node_could_not_give_is_readable_when_it_does() {
        let zero = Instant::now();
        let at = |ms| zero + Duration::from_millis(ms);
        let heights = Heights::default();
        heights.note(6, at(0));
        heights.cannot_give(5);
        assert_eq!(heights.readable(5, at(300)), at(300));
        assert_eq!(heights.readable(6, at(310)), at(300), "no block is readable before the one before it");
    }

    #[test]
    fn the_node_is_asked_while_the_reader_is_busy() {
        let (heights, stop, number) = (Heights::default(), AtomicBool::new(false), std::cell::Cell::new(0));
        heights.watch(
            || {
                number.set(number.get() + 1);
                stop.store(number.get() == 3, Ordering::Release);
                if number.get() == 2 { Err(()) } else { Ok(number.get()) }
            },
            &stop,
        );
        let now = Instant::now();
        assert!(heights.readable(1, now) < heights.readable(3, now) && heights.readable(3, now) < now);
    }
}
