//! Publishes landed transactions and changed accounts to the RPC's subscriptions.
//!
//! reads   landed transactions and changed accounts, from the banks' threads
//! writes  a queue that the listener drains
//! memory  at most [`BYTES_MAX`], and only while there is a listener
//! drops   items for which the queue has no room: counted, and the count reported to the listener
//!
//! Without a listener it costs a bank one load per microblock.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use hearth_wire::consts::VOTE_PROGRAM;
use hearth_wire::{Pubkey, Txn};
use parking_lot::{Mutex, MutexGuard};

use crate::account::Account;
use crate::error::TransactionError;

/// Maximum bytes in the queue.
pub const BYTES_MAX: usize = 64 << 20;

/// The events that the listener subscribes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interests {
    /// Transactions with their log lines, votes included.
    pub logs: bool,
    /// Simple votes, without their log lines.
    pub votes: bool,
    /// Accounts that transactions changed.
    pub accounts: bool,
}

impl Interests {
    /// Whether it subscribes to anything.
    pub fn any(self) -> bool {
        self != Self::default()
    }
}

/// A transaction that landed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LandedTransaction {
    /// The slot in which it landed.
    pub slot: u64,
    /// The transaction's bytes as on the wire.
    pub wire: Box<[u8]>,
    /// Addresses from lookup tables, the writable ones first.
    pub loaded: Vec<Pubkey>,
    /// The error, if it failed.
    pub err: Option<TransactionError>,
    /// Log lines; empty if only votes are wanted.
    pub logs: Vec<String>,
    /// Whether it is a simple vote.
    pub is_vote: bool,
}

/// An account that was changed by transactions of a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountUpdate {
    /// The slot of the change.
    pub slot: u64,
    /// Address of the changed account.
    pub key: Pubkey,
    /// The state after the change; without lamports if it was deleted.
    pub account: Account,
}

/// The drained contents of the queue.
#[derive(Debug, Default)]
pub struct DrainedNotifications {
    /// Transactions in the order of their banks' threads.
    pub landed: Vec<LandedTransaction>,
    /// Accounts, once for each microblock that changed them.
    pub changed: Vec<AccountUpdate>,
    /// Number of transactions and accounts for which there was no room.
    pub missed: u64,
}

#[derive(Debug, Default)]
struct Queue {
    tapped: DrainedNotifications,
    bytes: usize,
}

/// The queue, and what its listener wants.
#[derive(Debug, Default)]
pub struct Notifier {
    wanted: AtomicU8,
    queue: Mutex<Queue>,
}

const LOGS: u8 = 1;
const VOTES: u8 = 2;
const ACCOUNTS: u8 = 4;

impl Notifier {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock()
    }

    /// Sets what the listener wants; if that is nothing the queue is cleared.
    pub fn set_wanted(&self, wanted: Interests) {
        let bit = |flag: bool, bit: u8| if flag { bit } else { 0 };
        let bits = bit(wanted.logs, LOGS) | bit(wanted.votes, VOTES) | bit(wanted.accounts, ACCOUNTS);
        self.wanted.store(bits, Relaxed);
        if bits == 0 {
            *self.queue() = Queue::default();
        }
    }

    /// The events that the listener subscribes to.
    #[inline]
    pub fn wanted(&self) -> Interests {
        let bits = self.wanted.load(Relaxed);
        Interests { logs: bits & LOGS != 0, votes: bits & VOTES != 0, accounts: bits & ACCOUNTS != 0 }
    }

    /// Takes everything out of the queue, for the listener.
    pub fn take(&self) -> DrainedNotifications {
        std::mem::take(&mut *self.queue()).tapped
    }

    /// Adds the results of a microblock.
    pub fn add(&self, landed: impl Iterator<Item = LandedTransaction>, changed: impl Iterator<Item = AccountUpdate>) {
        let mut queue = self.queue();
        let Queue { tapped, bytes } = &mut *queue;
        let mut has_room = |size: usize| {
            let fits = *bytes + size <= BYTES_MAX;
            *bytes += if fits { size } else { 0 };
            fits
        };
        let DrainedNotifications { landed: all, changed: accounts, missed } = tapped;
        for one in landed {
            let size = size_of::<LandedTransaction>()
                + one.wire.len()
                + one.logs.iter().map(|line| 24 + line.len()).sum::<usize>();
            if has_room(size) { all.push(one) } else { *missed += 1 }
        }
        for one in changed {
            let size = size_of::<AccountUpdate>() + one.account.data().len();
            if has_room(size) { accounts.push(one) } else { *missed += 1 }
        }
    }
}

/// Whether a transaction is a simple vote, as validators send them.
pub fn is_vote(txn: &Txn<'_>) -> bool {
    let mut instructions = txn.instructions();
    let first = instructions.next();
    let program = |index: u8| txn.account_keys().get(usize::from(index));
    first.is_some_and(|first| program(first.program_id_index) == Some(&VOTE_PROGRAM))
        && instructions.next().is_none()
        && txn.signatures().len() <= 2
        && txn.loaded_count() == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(size: usize) -> AccountUpdate {
        AccountUpdate { slot: 1, key: [1; 32], account: Account::with_data(1, [2; 32], &vec![1; size]) }
    }

    #[test]
    fn takes_what_is_there_once() {
        let tap = Notifier::default();
        assert!(!tap.wanted().any());
        let wanted = Interests { accounts: true, ..Interests::default() };
        tap.set_wanted(wanted);
        assert_eq!(tap.wanted(), wanted);
        tap.add(std::iter::empty(), [changed(1), changed(2)].into_iter());
        assert_eq!(tap.take().changed, [changed(1), changed(2)]);
        assert!(tap.take().changed.is_empty());
        tap.add(std::iter::empty(), [changed(1)].into_iter());
        tap.set_wanted(Interests::default());
        assert!(tap.take().changed.is_empty());
    }

    #[test]
    fn events_without_room_are_counted() {
        let tap = Notifier::default();
        tap.set_wanted(Interests { accounts: true, ..Interests::default() });
        tap.add(std::iter::empty(), (0..10).map(|_| changed(10 << 20)));
        let tapped = tap.take();
        assert_eq!((tapped.changed.len(), tapped.missed), (6, 4));
        tap.add(std::iter::empty(), [changed(1)].into_iter());
        assert_eq!(tap.take().missed, 0);
    }
}
