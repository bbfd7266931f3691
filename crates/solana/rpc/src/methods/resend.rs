//! The resend queue: hands transactions to the pipeline again until their block is confirmed or they cannot land.
//!
//! reads   statuses, heights
//! writes  the same wire bytes into the pipeline, every [`Limits::resend_every`](crate::Limits)
//! memory  [`Limits::resend_queue`](crate::Limits) transactions of at most 1,232 bytes
//! drops   transactions over that limit, which are sent once only, and those whose blockhash has expired, both counted;
//!         those dropped for a permanent reason
//! source  `send_transaction_service.rs` of `solana-send-transaction-service` 4.2, for three rules: the interval; a
//!         transaction with a nonce is retried for as long as one with a fresh blockhash; a transaction is kept while
//!         its block may still be abandoned for another fork

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use hearth_ledger::Commitment;
use hearth_ledger::blockhash::last_valid_block_height;
use hearth_ledger::drop_log::DropReason;
use hearth_wire::{Signature, Txn};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use super::Api;
use crate::counters::{Counters, count};

struct QueuedTransaction {
    wire: Box<[u8]>,
    /// The last block height at which it can land.
    last_height: u64,
    /// How often it may still be resent.
    left: u64,
    due: Instant,
}

/// The time and the chain's height at one pass.
#[derive(Clone, Copy)]
struct PassTime {
    time: Instant,
    height: u64,
    /// When a transaction resent in this pass is due again.
    again_at: Instant,
}

/// The state of a queued transaction.
#[derive(Clone, Copy, PartialEq, Eq)]
enum QueuedState {
    /// It is in no block of this fork.
    Missing,
    /// It is in a block that may still be abandoned for another fork.
    Landed,
    /// It is in a block that will not be abandoned, or it can no longer land.
    Done,
}

/// Transactions to resend until they land or expire, by their first signature.
#[derive(Default)]
pub struct ResendQueue {
    waiting: Mutex<HashMap<Signature, QueuedTransaction>>,
    woken: Notify,
}

impl ResendQueue {
    fn waiting(&self) -> MutexGuard<'_, HashMap<Signature, QueuedTransaction>> {
        self.waiting.lock()
    }

    /// The wire bytes of this transaction, if it is queued.
    fn wire(&self, signature: &Signature) -> Option<Box<[u8]>> {
        self.waiting().get(signature).map(|one| one.wire.clone())
    }

    /// Returns the missing transactions that are due, and removes those that are done or out of retries.
    fn due(
        &self,
        now: PassTime,
        standing: impl Fn(&Signature, &[u8]) -> QueuedState,
        counters: &Counters,
    ) -> Vec<Box<[u8]>> {
        let PassTime { time, height, again_at } = now;
        let mut due = Vec::new();
        let mut waiting = self.waiting();
        waiting.retain(|signature, one| {
            if one.due > time {
                return true;
            }
            match standing(signature, &one.wire) {
                QueuedState::Done => return false,
                QueuedState::Landed => {
                    one.due = again_at;
                    return true;
                }
                QueuedState::Missing => {}
            }
            if one.left == 0 || one.last_height < height {
                count(counters.resend_given_up());
                return false;
            }
            (one.left, one.due) = (one.left - 1, again_at);
            due.push(one.wire.clone());
            true
        });
        counters.resend_waiting().store(waiting.len() as u64, Relaxed);
        due
    }
}

impl Api {
    /// Resends a transaction at most `times`, until its block is confirmed or its blockhash expires.
    pub fn resend_until_landed(&self, txn: &Txn<'_>, times: Option<u64>) {
        let times = times.unwrap_or(u64::MAX);
        // Without statuses the node cannot tell whether it has landed.
        if times == 0 || !self.transaction_history {
            return;
        }
        let blockhashes = self.ledger.blockhashes();
        // A transaction with a nonce is kept as long as if its blockhash were the newest.
        let height = blockhashes.height_of(txn.recent_blockhash()).unwrap_or(blockhashes.last_height());
        let one = QueuedTransaction {
            wire: txn.bytes().into(),
            last_height: last_valid_block_height(height),
            left: times,
            due: Instant::now() + self.limits.resend_every,
        };
        let mut waiting = self.resend.waiting();
        if waiting.len() >= self.limits.resend_queue && !waiting.contains_key(txn.first_signature()) {
            count(self.counters.resend_refused());
            return;
        }
        waiting.insert(*txn.first_signature(), one);
        self.counters.resend_waiting().store(waiting.len() as u64, Relaxed);
        drop(waiting);
        self.resend.woken.notify_one();
    }

    /// Resends due transactions while any are queued, and sleeps otherwise. Never returns.
    pub async fn resend_all(self: Arc<Self>) {
        loop {
            self.resend.woken.notified().await;
            while !self.resend.waiting().is_empty() {
                tokio::time::sleep(self.limits.resend_every / 4).await;
                self.resend_due(Instant::now());
            }
        }
    }

    /// Whether `wire`, which was sent over RPC, was dropped permanently.
    fn cannot_land(&self, signature: &Signature, wire: &[u8]) -> bool {
        let dropped = self.fates.of(signature).and_then(|fate| fate.dropped);
        dropped.is_some_and(|dropped| match dropped.reason {
            // Someone else may have sent garbage under its signature.
            DropReason::VerifySignature | DropReason::VerifyMalformed | DropReason::QuicSize => {
                !Txn::parse(wire).is_ok_and(|txn| (self.verify)(&txn))
            }
            reason => !reason.may_land(),
        })
    }

    /// Whether this transaction is being resent until it lands.
    pub fn is_resent(&self, signature: &Signature) -> bool {
        self.resend.wire(signature).is_some_and(|wire| !self.cannot_land(signature, &wire))
    }

    fn resend_due(&self, time: Instant) {
        let height = self.ledger.block_height(Commitment::Processed);
        let now = PassTime { time, height, again_at: time + self.limits.resend_every };
        let standing = |signature: &Signature, wire: &[u8]| match self.ledger.signature_status(signature) {
            Some(status) if status.commitment == Commitment::Processed => QueuedState::Landed,
            Some(_) => QueuedState::Done,
            None if self.cannot_land(signature, wire) => QueuedState::Done,
            None => QueuedState::Missing,
        };
        for wire in self.resend.due(now, standing, &self.counters) {
            // If the pipeline is full, it is retried at the next interval.
            if self.hand_over(&wire, true).is_ok() {
                count(self.counters.resent());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const NONE: [u8; 0] = [];
    const EVERY: Duration = Duration::from_secs(2);

    #[test]
    fn each_is_resent_until_final_or_expired() {
        let (queue, counters) = (ResendQueue::default(), Counters::default());
        let start = Instant::now();
        for (n, left, last_height) in
            [(1, u64::MAX, 100), (2, u64::MAX, 10), (3, 1, 100), (4, u64::MAX, 100), (5, 1, 100)]
        {
            let one = QueuedTransaction { wire: [n].into(), last_height, left, due: start + EVERY };
            queue.waiting().insert([n; 64], one);
        }
        let due = |at: u32, height| {
            let time = start + EVERY * at;
            let now = PassTime { time, height, again_at: time + EVERY };
            let standing = |signature: &Signature, _: &[u8]| match signature[0] {
                4 => QueuedState::Done,
                // The fork with its block is abandoned after the second pass.
                5 if at < 3 => QueuedState::Landed,
                _ => QueuedState::Missing,
            };
            let mut due = queue.due(now, standing, &counters);
            due.sort();
            due.concat()
        };
        assert_eq!(due(0, 1), NONE);
        assert_eq!(due(1, 10), [1, 2, 3]);
        assert_eq!(due(1, 10), NONE);
        assert_eq!(due(2, 11), [1]);
        assert_eq!(counters.resend_given_up().load(Relaxed), 2);
        assert_eq!(due(3, 100), [1, 5]);
        assert_eq!(due(4, 101), NONE);
        assert_eq!((counters.resend_given_up().load(Relaxed), counters.resend_waiting().load(Relaxed)), (4, 0));
    }
}
