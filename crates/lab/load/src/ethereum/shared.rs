//! State that all senders of a run share: the pace, the workload, the fees.
//!
//! memory  some tens of fee levels

use std::sync::atomic::AtomicUsize;

use alloy_primitives::Address;
use parking_lot::Mutex;

use super::workload::{Terms, Workload};
use crate::options::SendOptions;
use crate::run_clock::RunState;

/// Factor by which a fee is raised after a refusal: the fastest rise over three blocks is a factor of 1.4.
const DEARER: u128 = 8;

/// State that all senders share.
pub struct Shared<'a> {
    /// The pace of the run.
    pub pace: SendOptions,
    /// The most transactions in a request: fewer than requested if the node refuses that many.
    pub batch: AtomicUsize,
    /// Number of senders, which share the accounts and the rate.
    pub senders: usize,
    /// The transactions to send.
    pub workload: Workload,
    /// The fees to pay.
    pub fees: Fees,
    /// The accounts of the load, which are paid.
    pub targets: &'a [Address],
    /// State of the run, the same on all chains.
    pub course: &'a RunState,
}

/// The fees of transactions, which rise when a node asks for more. Every level of the run is kept, at most some tens,
/// so that a transaction can be signed again with its original fees.
pub struct Fees(Mutex<Vec<Terms>>);

impl Fees {
    /// Starts with these fees.
    pub fn new(terms: Terms) -> Self {
        Self(Mutex::new(vec![terms]))
    }

    /// Returns all levels, today's last.
    pub fn all(&self) -> Vec<Terms> {
        self.0.lock().clone()
    }

    /// Returns the fees that new transactions pay.
    pub fn today(&self) -> Terms {
        *self.0.lock().last().expect("there is one from the beginning")
    }

    /// Raises the fees after a node refused `max_fee` as too low.
    pub(super) fn dearer(&self, max_fee: u128) {
        let mut levels = self.0.lock();
        let today = *levels.last().expect("there is one from the beginning");
        let higher = max_fee.saturating_mul(DEARER);
        if today.max_fee <= max_fee && higher > today.max_fee {
            levels.push(Terms { max_fee: higher, ..today });
        }
    }
}
