//! signing: what waits for this node's signature, beside the sets that it makes itself.
//!
//! reads   requests, pings, and roots of sets that are sent on
//! writes  `shred_sign`: what of them is to be signed
//! memory  [`UNSIGNED_MAX`] questions
//! drops   nothing: who asks looks for room first
//! source  –

use std::collections::VecDeque;
use std::net::SocketAddr;

use hearth_tile::{Out, Port};

use super::tile::Shred;

/// Questions that wait for their answers.
pub(super) const UNSIGNED_MAX: usize = 64;
/// The tag of such a question has this bit.
pub(super) const TAG: u64 = 1 << 63;

/// What waits for a signature.
pub(super) enum Unsigned {
    /// A request of repair.
    Request { to: SocketAddr, bytes: Vec<u8> },
    /// An answer to a ping.
    Pong { to: SocketAddr, hash: [u8; 32] },
    /// The root of a slot's last set, which is sent on.
    Root { slot: u64 },
}

/// The questions, in the order asked.
pub(super) struct Signing {
    port: Port,
    next_tag: u64,
    waiting: VecDeque<Unsigned>,
}

impl Signing {
    pub fn new(port: Port) -> Self {
        Self { port, next_tag: TAG, waiting: VecDeque::new() }
    }

    /// Whether one more can be asked.
    pub fn has_room(&self, out: &mut Out<'_, Shred>) -> bool {
        self.waiting.len() < UNSIGNED_MAX && out.credits(self.port, 1) > 0
    }

    pub fn ask(&mut self, unsigned: Unsigned, question: &[u8], out: &mut Out<'_, Shred>) {
        out.publish(self.port, self.next_tag, question);
        self.next_tag += 1;
        self.waiting.push_back(unsigned);
    }

    /// What the answer with this tag is for.
    pub fn answered(&mut self, tag: u64) -> Unsigned {
        let oldest = self.next_tag - self.waiting.len() as u64;
        assert_eq!(tag, oldest, "sign answers in the order asked");
        self.waiting.pop_front().expect("an answer to a question")
    }
}
