//! The accounts that transactions take from lookup tables, and the transactions whose tables do not give them yet.
//!
//! reads   the ledger's accounts
//! writes  addresses, to be locked
//! memory  [`Tables::BYTES`] at most, only while transactions wait
//! drops   what waits in vain for two slots, or finds the waiting room full: the caller counts it
//! source  what a table gives is a rule of the cluster, see [`LoadedAddresses`]
//!
//! Addresses that a transaction adds to a table count from the next slot on. So a client that makes a table and uses
//! it at once is early by a slot at most: its transaction waits here until the next slots begin, by when all that the
//! one before did is in the accounts.
//!
//! What is resolved here is locked; the bank resolves again when it executes. Tables only grow, a slot that is later
//! gives no less, and an ended table gives nothing: the bank finds the same addresses or refuses the transaction. It
//! is told the digest of what was locked, and refuses what differs.

use std::sync::Arc;

use hearth_ledger::Ledger;
use hearth_ledger::bank::LoadedAddresses;
use hearth_wire::Txn;

use super::TXN_BYTES;

/// Transactions that wait at a time.
const ROOM: usize = 1024;
/// Begins of slots that one waits for: of that after the slot in which its table is made, and of one more, since
/// what makes the table may itself have waited for a slot.
const SLOTS: u8 = 2;

/// How a transaction came.
#[derive(Clone, Copy)]
pub struct Arrival {
    /// Keyed hash of its first signature.
    pub tag: u64,
    /// When it entered the node.
    pub origin_us: u32,
    /// What it counts for, where that is not what it pays.
    pub reward: Option<u64>,
}

/// A transaction whose tables are to be looked up, perhaps again.
pub struct Waiting {
    /// Its wire bytes.
    pub bytes: Box<[u8]>,
    /// How it came.
    pub arrival: Arrival,
    slots_left: u8,
}

impl Waiting {
    /// One that has just come.
    pub fn new(txn: &Txn<'_>, arrival: Arrival) -> Self {
        Self { bytes: txn.bytes().into(), arrival, slots_left: SLOTS }
    }
}

/// Lookup tables, as pack sees them.
pub struct Tables {
    ledger: Option<Arc<Ledger>>,
    /// The slot under way, or the last one.
    pub slot: u64,
    waiting: Vec<Waiting>,
}

impl Tables {
    /// Memory of those that wait, at most.
    pub const BYTES: u64 = (ROOM * (size_of::<Waiting>() + TXN_BYTES)) as u64;

    /// The tables of a ledger; without one nothing is resolved.
    pub fn new(ledger: Option<Arc<Ledger>>) -> Self {
        Self { ledger, slot: 0, waiting: vec![] }
    }

    /// The accounts of a transaction's tables, if they give them in the slot under way.
    pub fn resolve(&self, txn: &Txn<'_>) -> Option<LoadedAddresses> {
        LoadedAddresses::resolve(txn, self.ledger.as_ref()?.accounts(), self.slot).ok()
    }

    /// What stands for them, for the bank to compare.
    pub fn digest(&self, loaded: &LoadedAddresses) -> u64 {
        loaded.digest(self.ledger.as_ref().expect("it has resolved them").accounts())
    }

    /// Keeps a transaction until the next slot begins; false when it has waited long enough or there is no room.
    pub fn wait(&mut self, waiting: Waiting) -> bool {
        let may = self.ledger.is_some() && waiting.slots_left > 0 && self.waiting.len() < ROOM;
        if may {
            self.waiting.push(waiting);
        }
        may
    }

    /// Takes all that wait, since a slot has begun.
    pub fn take_waiting(&mut self) -> Vec<Waiting> {
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.iter_mut().for_each(|one| one.slots_left -= 1);
        waiting
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }
}
