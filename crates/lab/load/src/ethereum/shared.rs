//! What all senders of a run share: the pace, what they send, what they pay.
//!
//! memory  some tens of fee levels

use std::sync::atomic::AtomicUsize;

use alloy_primitives::Address;
use parking_lot::Mutex;

use super::workload::{Terms, Workload};
use crate::options::Pace;
use crate::run_clock::Course;

/// What dearer transactions pay more: three blocks' worth of the fastest rise are a factor of 1.4.
const DEARER: u128 = 8;

/// What all senders share.
pub struct Shared<'a> {
    /// The pace.
    pub pace: Pace,
    /// How many a request has at most: fewer than asked for where the node refuses that many.
    pub batch: AtomicUsize,
    /// How many senders there are.
    pub senders: usize,
    /// What they send.
    pub workload: Workload,
    /// What they pay.
    pub fees: Fees,
    /// To whom: the accounts of the load.
    pub targets: &'a [Address],
    /// What all threads share, whatever they send.
    pub course: &'a Course,
}

/// What transactions pay: fees rise when a node asks for more. Each level that the run has had is kept, some tens at
/// most, so that what was sent at one can be signed again as it was.
pub struct Fees(Mutex<Vec<Terms>>);

impl Fees {
    /// These to begin with.
    pub fn new(terms: Terms) -> Self {
        Self(Mutex::new(vec![terms]))
    }

    /// All levels, today's last.
    pub fn all(&self) -> Vec<Terms> {
        self.0.lock().clone()
    }

    /// Today's.
    pub fn today(&self) -> Terms {
        *self.0.lock().last().expect("there is one from the beginning")
    }

    /// A node asks for more than `max_fee`.
    pub(super) fn dearer(&self, max_fee: u128) {
        let mut levels = self.0.lock();
        let today = *levels.last().expect("there is one from the beginning");
        let higher = max_fee.saturating_mul(DEARER);
        if today.max_fee <= max_fee && higher > today.max_fee {
            levels.push(Terms { max_fee: higher, ..today });
        }
    }
}
