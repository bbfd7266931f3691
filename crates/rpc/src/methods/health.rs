//! Whether the node is well: its slots go on, and the disk keeps up with them.
//!
//! reads   the ledger's slots; the clock
//! writes  yes, or what is wrong
//! memory  a slot and an instant
//! source  `rpc_health.rs` of `solana-rpc` 4.2 for the distance and the answers

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hearth_ledger::Commitment;
use serde_json::{Value, json};

use super::Api;
use crate::jsonrpc::Failure;
use crate::params::Params;

/// Slots that may be processed and not durable, or go by without a new one, before a node is unwell.
pub const HEALTHY_SLOTS: u64 = 128;

/// When the newest slot was first seen.
pub struct Progress {
    seen: Mutex<Option<(u64, Instant)>>,
    patience: Duration,
}

impl Progress {
    pub fn new(slot_ms: u64) -> Self {
        Self { seen: Mutex::new(None), patience: Duration::from_millis(slot_ms.saturating_mul(HEALTHY_SLOTS)) }
    }

    /// How long no slot has come after `slot`, if that is too long.
    fn stalled(&self, slot: u64) -> Option<Duration> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match *seen {
            Some((last, since)) if last == slot => Some(since.elapsed()).filter(|time| *time > self.patience),
            _ => {
                *seen = Some((slot, Instant::now()));
                None
            }
        }
    }
}

impl Api {
    /// Whether the node is well.
    pub fn health(&self) -> Result<(), Failure> {
        let (slot, durable) = (self.ledger.slot(Commitment::Processed), self.ledger.slot(Commitment::Confirmed));
        let behind = slot.saturating_sub(durable);
        if behind > HEALTHY_SLOTS {
            return Err(Failure::unhealthy(format!("the disk is {behind} slots behind"), Some(behind)));
        }
        match self.progress.stalled(slot) {
            Some(time) => Err(Failure::unhealthy(format!("slot {slot} is the last since {} s", time.as_secs()), None)),
            None => Ok(()),
        }
    }

    pub fn get_health(&self, params: Params<'_>) -> Result<Value, Failure> {
        params.at_most(0)?;
        self.health().map(|()| json!("ok"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_that_stays_is_a_stall() {
        let patient = Progress::new(1_000_000);
        assert_eq!((patient.stalled(5), patient.stalled(5)), (None, None));
        let progress = Progress { seen: Mutex::new(None), patience: Duration::ZERO };
        assert_eq!(progress.stalled(5), None);
        let deadline = Instant::now() + Duration::from_secs(10);
        while progress.stalled(5).is_none() {
            assert!(Instant::now() < deadline);
        }
        assert_eq!(progress.stalled(6), None);
    }
}
