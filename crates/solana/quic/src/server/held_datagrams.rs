//! The memory held by a connection's unread datagrams: counted exactly, and bounded.
//!
//! quinn keeps a stream's bytes as slices of their datagrams, so one unread byte can hold a whole datagram. Here every
//! datagram gets one extra byte, whose handle stays here: while it is not the only handle, part of the datagram is
//! still unread in the connection.
//!
//! reads   handles of datagrams given to quinn
//! writes  a verdict: whether the connection holds more than it may
//! memory  a handle a datagram that waits, charged to the connection with the datagram
//! drops   nothing itself; the server closes the connection and counts it
//! source  `quinn_proto`'s assembler, which lends slices and copies them together only from 32 KiB a stream on

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use crate::config::held_bytes_max;

/// Memory of a datagram besides its bytes: a place in a queue that has grown to twice its need (2 × 40), the
/// shared handle (40), and the allocator's own (2 × 16), rounded up.
const OVERHEAD: usize = 160;
const _: () = assert!(OVERHEAD >= 2 * size_of::<Datagram>() + 40 + 32);

struct Datagram {
    mark: Bytes,
    charge: usize,
}

/// The datagrams that a connection holds, oldest first.
pub(super) struct HeldDatagrams {
    datagrams: VecDeque<Datagram>,
    /// Their total charge; includes those that were read but not checked since.
    bytes: usize,
    limit: usize,
}

/// A copy of a datagram, and the handle that tells whether anything of the copy is still held.
pub(super) fn marked_copy(datagram: &[u8]) -> (BytesMut, Bytes) {
    let mut copy = BytesMut::with_capacity(datagram.len() + 1);
    copy.extend_from_slice(datagram);
    copy.extend_from_slice(&[0]);
    let mark = copy.split_off(datagram.len()).freeze();
    (copy, mark)
}

impl HeldDatagrams {
    pub(super) fn new(streams_concurrent: u32) -> Self {
        Self { datagrams: VecDeque::new(), bytes: 0, limit: held_bytes_max(streams_concurrent) }
    }

    /// Bytes held; never more than the limit after a [`Self::push`] that returned true.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Raises the number of streams that the connection may have.
    pub(super) fn raise_streams(&mut self, streams_concurrent: u32) {
        self.limit = self.limit.max(held_bytes_max(streams_concurrent));
    }

    /// Adds a datagram of `length` bytes with its `mark`, after quinn has processed it. False if the connection now
    /// holds too much.
    #[must_use]
    pub(super) fn push(&mut self, mark: Bytes, length: usize) -> bool {
        self.release();
        if mark.is_unique() {
            return true;
        }
        let charge = length + OVERHEAD;
        self.bytes += charge;
        self.datagrams.push_back(Datagram { mark, charge });
        if self.bytes <= self.limit {
            return true;
        }
        // Some behind the oldest may have been read. A full check must stay rare, so a quarter of the limit must be
        // free afterwards.
        let freed = &mut self.bytes;
        self.datagrams.retain(|datagram| {
            let held = !datagram.mark.is_unique();
            *freed -= if held { 0 } else { datagram.charge };
            held
        });
        self.bytes <= self.limit - self.limit / 4
    }

    /// Releases the oldest datagrams that have been read.
    pub(super) fn release(&mut self) {
        while let Some(oldest) = self.datagrams.front()
            && oldest.mark.is_unique()
        {
            self.bytes -= oldest.charge;
            self.datagrams.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::HELD_BYTES_LEAST;

    #[test]
    fn a_datagram_counts_while_any_slice_of_it_lives() {
        let mut held = HeldDatagrams::new(1);
        let (copy, mark) = marked_copy(&[7; 1000]);
        assert_eq!(copy.len(), 1000);
        let mut whole = copy.freeze();
        let slice = whole.split_off(999);
        assert!(held.push(mark, 1000));
        assert_eq!(held.bytes(), 1000 + OVERHEAD);
        drop(whole);
        held.release();
        assert_eq!(held.bytes(), 1000 + OVERHEAD, "one byte holds it");
        assert_eq!(slice, [7][..]);
        drop(slice);
        held.release();
        assert_eq!(held.bytes(), 0);
        let (copy, mark) = marked_copy(&[7; 1000]);
        drop(copy);
        assert!(held.push(mark, 1000));
        assert_eq!(held.bytes(), 0, "what nobody holds is not entered");
    }

    /// Datagrams of which the first is never read: the others are found anyway, and what is held stays within
    /// the limit.
    #[test]
    fn datagram_behind_a_slow_one_is_found() {
        let (first, mark) = marked_copy(&[1; 1000]);
        let mut held = HeldDatagrams::new(1);
        assert!(held.push(mark, 1000));
        let (mut all, mut accepted) = (vec![first.freeze()], 0);
        for n in 0..10_000 {
            let (copy, mark) = marked_copy(&[2; 1000]);
            // One in a hundred is kept.
            let copy = copy.freeze();
            let kept = (n % 100 == 0).then(|| copy.clone());
            if !held.push(mark, 1000) {
                break;
            }
            drop(copy);
            all.extend(kept);
            assert!(held.bytes() <= HELD_BYTES_LEAST);
            accepted += 1;
        }
        assert!(accepted > 3000, "{accepted}");
        let three_quarters = HELD_BYTES_LEAST * 3 / 4 / (1000 + OVERHEAD);
        assert!(all.len().abs_diff(three_quarters) <= 1, "{} of {three_quarters}", all.len());
    }
}
