//! signing: the roots of retransmitted last sets that wait for this node's signature, besides those of its own sets.
//!
//! reads   roots of retransmitted sets
//! writes  `shred_sign`: these roots
//! memory  [`UNSIGNED_MAX`] slots
//! drops   nothing: the caller checks for room first
//! source  `docs/cluster-protocol.md`, section 2.4

use std::collections::VecDeque;

use hearth_tile::{Out, Port, Tile};
use hearth_wire::Hash;

/// Maximum roots that wait for their signatures.
const UNSIGNED_MAX: usize = 64;
/// Bit that marks the tag of such a root.
pub(super) const TAG: u64 = 1 << 63;

/// The slots of the waiting roots, in the order of the requests.
pub(super) struct SigningQueue {
    port: Port,
    next_tag: u64,
    waiting: VecDeque<u64>,
}

impl SigningQueue {
    pub fn new(port: Port) -> Self {
        Self { port, next_tag: TAG, waiting: VecDeque::new() }
    }

    /// Whether one more signature can be requested.
    pub fn has_room(&self, out: &mut Out<'_, impl Tile>) -> bool {
        self.waiting.len() < UNSIGNED_MAX && out.credits(self.port, 1) > 0
    }

    pub fn ask(&mut self, slot: u64, root: &Hash, out: &mut Out<'_, impl Tile>) {
        out.publish(self.port, self.next_tag, root);
        self.next_tag += 1;
        self.waiting.push_back(slot);
    }

    /// Returns the slot whose last root was signed under this tag.
    pub fn answered(&mut self, tag: u64) -> u64 {
        let oldest = self.next_tag - self.waiting.len() as u64;
        assert_eq!(tag, oldest, "sign answers in the order asked");
        self.waiting.pop_front().expect("an answer to a question")
    }
}
