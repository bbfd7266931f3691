//! store_queue: confirmed slots and transaction metadata on their way to store.
//!
//! reads   confirmed slots; batches of metadata of executed blocks
//! writes  `replay_store`, elective
//! memory  batches, [`BYTES_MAX`] at most; 32 B per block with waiting metadata
//! drops   all batches of a block if they do not fit: the caller counts their transactions, and store learns the
//!         number, so that it does not wait for them
//!
//! Replay must not wait for store, and store takes everything, so the queue is short: it holds one block's metadata
//! until store has had its turns. A transfer takes about 170 B, so a block full of transfers takes 12 MB. With logs a
//! block may take 100 MB: 10 kB for each 10,000 compute units.
//!
//! Messages leave in order of arrival: store has all metadata of a block before it learns that the block is confirmed.

use std::collections::VecDeque;

use hearth_ledger::history::Batch;
use hearth_tile::{Host, InitError, Out, Port, Tile};

use crate::links::{CONFIRMED, HISTORY_BEGINS, MORE, REPLAY_STORE};

/// Maximum bytes of batches that wait for room on the link.
pub const BYTES_MAX: usize = 128 << 20;
/// Maximum messages published per turn: 16 batches of 64 transfers are 176 KiB to copy.
const MESSAGES_PER_TURN: usize = 16;

/// A message to store about a slot.
#[derive(Debug)]
enum Message {
    /// A block's batches follow; none if the metadata of its `dropped` transactions was dropped.
    Begins { dropped: u64 },
    /// A batch, sent in pieces.
    Batch(Vec<u8>),
    /// The cluster has confirmed the block of this slot.
    Confirmed,
}

/// Messages that wait for room on the link to store.
pub(super) struct StoreQueue {
    port: Port,
    /// Largest piece of a batch.
    mtu: usize,
    /// Slots, and messages about them.
    waiting: VecDeque<(u64, Message)>,
    /// Bytes of the batches that wait, with their places in the queue.
    bytes: usize,
    /// Bytes of the first batch that were sent.
    sent: usize,
}

impl StoreQueue {
    /// Opens the link to store.
    ///
    /// # Errors
    /// The tile has no such output.
    pub fn new(host: &mut Host<'_>) -> Result<Self, InitError> {
        let port = host.output(REPLAY_STORE)?;
        host.elective(port);
        Ok(Self { port, mtu: host.mtu(port), waiting: VecDeque::new(), bytes: 0, sent: 0 })
    }

    /// Queues that the cluster has confirmed the block of this slot.
    pub fn confirm(&mut self, slot: u64) {
        match self.waiting.back_mut() {
            // A confirmed slot confirms its ancestors too.
            Some((newest, Message::Confirmed)) => *newest = slot.max(*newest),
            _ => self.waiting.push_back((slot, Message::Confirmed)),
        }
    }

    /// Queues the metadata of an executed block. Returns the number of transactions whose metadata was dropped for lack
    /// of room.
    pub fn record(&mut self, slot: u64, batches: Vec<Vec<u8>>) -> u64 {
        let size: usize = batches.iter().map(|batch| size_in_queue(batch)).sum();
        if self.bytes + size > BYTES_MAX {
            let dropped: u64 = batches.iter().map(|batch| u64::from(Batch::read(batch).count)).sum();
            self.waiting.push_back((slot, Message::Begins { dropped }));
            return dropped;
        }
        self.bytes += size;
        self.waiting.push_back((slot, Message::Begins { dropped: 0 }));
        self.waiting.extend(batches.into_iter().map(|batch| (slot, Message::Batch(batch))));
        0
    }

    /// Publishes as much as there is room for. Returns whether it published anything.
    pub fn send<T: Tile>(&mut self, out: &mut Out<'_, T>) -> bool {
        let mut has_sent = false;
        for _ in 0..MESSAGES_PER_TURN {
            let Some((slot, message)) = self.waiting.front() else { break };
            if out.credits(self.port, 1) == 0 {
                out.held_up();
                break;
            }
            has_sent = true;
            match message {
                Message::Begins { dropped } => {
                    out.publish_control(self.port, *slot, HISTORY_BEGINS, &dropped.to_le_bytes());
                }
                Message::Batch(batch) => {
                    let end = batch.len().min(self.sent + self.mtu);
                    let is_last = end == batch.len();
                    let control = if is_last { 0 } else { MORE };
                    out.publish_control(self.port, *slot, control, &batch[self.sent..end]);
                    if !is_last {
                        self.sent = end;
                        continue;
                    }
                    self.sent = 0;
                    self.bytes -= size_in_queue(batch);
                }
                Message::Confirmed => out.publish_control(self.port, *slot, CONFIRMED, &[]),
            }
            self.waiting.pop_front();
        }
        has_sent
    }
}

/// Bytes that a batch takes in the queue.
fn size_in_queue(batch: &[u8]) -> usize {
    batch.len() + size_of::<(u64, Message)>()
}

#[cfg(test)]
mod tests {
    use hearth_tile::rig::{DEPTH, Rig};
    use hearth_tile::{Frag, Poll};

    use super::*;

    /// A tile that consists only of the queue.
    struct Sender(StoreQueue);

    impl Tile for Sender {
        const NAME: &'static str = "sender";
        type Config = ();
        type Counters = ();

        fn new(_: (), host: &mut Host<'_>) -> Result<Self, InitError> {
            Ok(Self(StoreQueue::new(host)?))
        }

        fn on_frag(&mut self, _: Frag<'_>, _: &mut Out<'_, Self>) {}

        fn poll(&mut self, out: &mut Out<'_, Self>) -> Poll {
            if self.0.send(out) { Poll::Busy } else { Poll::Idle }
        }
    }

    fn rig(mtu: usize) -> Rig<Sender> {
        Rig::with_mtu((), &[], &[REPLAY_STORE], mtu)
    }

    fn batch(slot: u64, count: u16, size: usize) -> Vec<u8> {
        let mut bytes = slot.to_le_bytes().to_vec();
        bytes.extend(7u64.to_le_bytes());
        bytes.extend(count.to_le_bytes());
        bytes.resize(18 + size, 1);
        bytes
    }

    #[test]
    fn metadata_precedes_confirmation() {
        let mut rig = rig(20);
        let queue = &mut rig.tile().0;
        assert_eq!(queue.record(5, vec![batch(5, 2, 32), batch(5, 1, 2)]), 0);
        queue.confirm(5);
        rig.run();
        let frags = rig.take_frags(REPLAY_STORE);
        let parts: Vec<(u64, u16, usize)> =
            frags.iter().map(|(slot, control, payload)| (*slot, *control, payload.len())).collect();
        let pieces = [(5, MORE, 20), (5, MORE, 20), (5, 0, 10)];
        assert_eq!(parts[0], (5, HISTORY_BEGINS, 8));
        assert_eq!(parts[1..4], pieces);
        assert_eq!(parts[4..], [(5, 0, 20), (5, CONFIRMED, 0)]);
        let joined: Vec<u8> = frags[1..4].iter().flat_map(|(_, _, piece)| piece).copied().collect();
        assert_eq!(joined, batch(5, 2, 32));
        assert_eq!(rig.tile().0.bytes, 0);
    }

    #[test]
    fn later_confirmation_includes_earlier() {
        let mut rig = rig(20);
        let queue = &mut rig.tile().0;
        queue.confirm(1);
        queue.confirm(2);
        queue.record(4, vec![]);
        queue.confirm(4);
        queue.confirm(3);
        rig.run();
        let frags = rig.take_frags(REPLAY_STORE);
        let begins = (4, HISTORY_BEGINS, vec![0; 8]);
        assert_eq!(frags, [(2, CONFIRMED, vec![]), begins, (4, CONFIRMED, vec![])]);
    }

    #[test]
    fn full_link_delays_and_loses_nothing() {
        let mut rig = rig(64);
        let count = DEPTH as u16 + 10;
        rig.tile().0.record(5, (0..count).map(|number| batch(5, number, 0)).collect());
        rig.run();
        assert!(rig.backpressure().0);
        let mut frags = rig.take_frags(REPLAY_STORE);
        assert_eq!(frags.len(), DEPTH as usize);
        rig.run();
        frags.extend(rig.take_frags(REPLAY_STORE));
        let numbers: Vec<u16> = frags[1..].iter().map(|(_, _, batch)| Batch::read(batch).count).collect();
        assert!(numbers.into_iter().eq(0..count));
    }

    #[test]
    fn store_learns_what_did_not_fit() {
        let mut rig = rig(20);
        let queue = &mut rig.tile().0;
        assert_eq!(queue.record(5, vec![batch(5, 1, BYTES_MAX - 200), batch(5, 2, 300)]), 3);
        assert_eq!(queue.record(6, vec![batch(6, 1, 50)]), 0, "a smaller block fits");
        assert_eq!(queue.record(7, vec![batch(7, 4, BYTES_MAX - 100)]), 4, "not beside what waits");
        rig.run();
        let frags = rig.take_frags(REPLAY_STORE);
        let dropped = |count: u64| count.to_le_bytes().to_vec();
        assert_eq!(frags[0], (5, HISTORY_BEGINS, dropped(3)));
        assert_eq!(frags[1], (6, HISTORY_BEGINS, dropped(0)));
        assert_eq!(frags.last(), Some(&(7, HISTORY_BEGINS, dropped(4))));
        assert_eq!(rig.tile().0.bytes, 0);
    }
}
