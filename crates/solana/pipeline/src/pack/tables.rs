//! tables: resolves accounts from lookup tables, and holds transactions whose tables do not resolve yet.
//!
//! reads   the ledger's accounts
//! writes  the addresses to lock
//! memory  at most [`Tables::BYTES`], only while transactions wait
//! drops   transactions that waited in vain for two slots or found the waiting room full; the caller counts them
//! source  the cluster's rules for lookup tables, see [`LoadedAddresses`]
//!
//! Addresses that a transaction adds to a table count from the next slot on. A client that creates a table and uses it
//! at once is therefore at most one slot early: its transaction waits here until the next slots start, when all effects
//! of the previous one are in the accounts.
//!
//! The accounts resolved here are locked; the bank resolves again when it executes. Tables only grow, a later slot
//! resolves no less, and an ended table resolves nothing: the bank finds the same addresses or rejects the transaction.
//! It receives the digest of what was locked, and rejects any difference.

use std::sync::Arc;

use hearth_ledger::Ledger;
use hearth_ledger::bank::LoadedAddresses;
use hearth_wire::Txn;

use super::TXN_BYTES;

/// Maximum transactions that wait for their lookup tables.
pub(super) const ROOM: usize = 1024;
/// Slot starts that a transaction waits for: the one after the slot that creates its table, and one more because the
/// creating transaction may itself have waited for a slot.
const SLOTS: u8 = 2;

/// How a transaction arrived.
#[derive(Clone, Copy)]
pub struct Arrival {
    /// Keyed hash of its first signature.
    pub tag: u64,
    /// When it entered the node.
    pub origin_us: u32,
    /// The reward to rank it by, if not its own.
    pub reward: Option<u64>,
}

/// A transaction whose tables must be resolved, perhaps again.
pub struct UnresolvedTransaction {
    /// The transaction's wire bytes, signatures included.
    pub bytes: Box<[u8]>,
    /// How it arrived, which pack needs once the tables are resolved.
    pub arrival: Arrival,
    slots_left: u8,
}

impl UnresolvedTransaction {
    /// Wraps a new arrival.
    pub fn new(txn: &Txn<'_>, arrival: Arrival) -> Self {
        Self { bytes: txn.bytes().into(), arrival, slots_left: SLOTS }
    }
}

/// Lookup tables at pack's view of the ledger.
pub struct Tables {
    ledger: Option<Arc<Ledger>>,
    /// The current slot, or the last one.
    pub slot: u64,
    waiting: Vec<UnresolvedTransaction>,
}

impl Tables {
    /// Maximum memory of waiting transactions.
    pub const BYTES: u64 = (ROOM * (size_of::<UnresolvedTransaction>() + TXN_BYTES)) as u64;

    /// Creates the resolver for a ledger; without one nothing resolves.
    pub fn new(ledger: Option<Arc<Ledger>>) -> Self {
        Self { ledger, slot: 0, waiting: vec![] }
    }

    /// Returns the accounts of a transaction's tables, if they all resolve in the current slot.
    pub fn resolve(&self, txn: &Txn<'_>) -> Option<LoadedAddresses> {
        LoadedAddresses::resolve(txn, self.ledger.as_ref()?.accounts(), self.slot).ok()
    }

    /// The digest of resolved accounts, for the bank to compare.
    pub fn digest(&self, loaded: &LoadedAddresses) -> u64 {
        loaded.digest(self.ledger.as_ref().expect("it has resolved them").accounts())
    }

    /// Keeps a transaction until the next slot starts; returns false if it has waited long enough or there is no room.
    pub fn wait(&mut self, waiting: UnresolvedTransaction) -> bool {
        let may = self.ledger.is_some() && waiting.slots_left > 0 && self.waiting.len() < ROOM;
        if may {
            self.waiting.push(waiting);
        }
        may
    }

    /// Returns all waiting transactions, since a slot has started.
    pub fn take_waiting(&mut self) -> Vec<UnresolvedTransaction> {
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.iter_mut().for_each(|one| one.slots_left -= 1);
        waiting
    }

    /// How many transactions wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }
}
