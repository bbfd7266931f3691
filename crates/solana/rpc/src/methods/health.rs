//! Node health: slots advance, the disk keeps up, tiles are alive, and pending transactions are executed.
//!
//! reads   the ledger's slots and transactions; the tiles' liveness and pending work; the clock
//! memory  a slot, a number and two instants
//! source  `rpc_health.rs` of `solana-rpc` 4.2 for the distance and the answers

use std::time::{Duration, Instant};

use hearth_ledger::Commitment;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::Api;
use crate::config::Liveness;
use crate::jsonrpc::Failure;
use crate::params::Params;

/// The node is unhealthy when this many slots are processed but not durable, or pass without a new one.
pub const HEALTHY_SLOTS: u64 = 128;

/// Transactions may stay pending without any execution for at least this long, or two slots if that is longer.
const STANDSTILL: Duration = Duration::from_secs(20);

/// When the newest slot was first seen.
pub struct Progress {
    seen: Mutex<Option<(u64, Instant)>>,
    patience: Duration,
    work: Standstill,
}

/// Since when the slot and the count of executed transactions have not changed while transactions were pending.
struct Standstill {
    seen: Mutex<Option<((u64, u64), Instant)>>,
    patience: Duration,
}

impl Standstill {
    /// How long nothing was executed, if that exceeds the limit.
    fn since(&self, at: (u64, u64), pending: u64) -> Option<Duration> {
        let mut seen = self.seen.lock();
        match *seen {
            Some((last, since)) if last == at && pending > 0 => {
                Some(since.elapsed()).filter(|time| *time > self.patience)
            }
            _ => {
                *seen = (pending > 0).then(|| (at, Instant::now()));
                None
            }
        }
    }
}

impl Progress {
    /// Expects a slot every `slot_ms`, unless slots are produced on demand.
    pub fn new(slot_ms: u64, slots_may_stand: bool) -> Self {
        let slots = |count| Duration::from_millis(slot_ms.saturating_mul(count));
        let work = Standstill { seen: Mutex::new(None), patience: STANDSTILL.max(slots(2)) };
        let patience = if slots_may_stand { Duration::MAX } else { slots(HEALTHY_SLOTS) };
        Self { seen: Mutex::new(None), patience, work }
    }

    /// How long there has been no slot after `slot`, if that exceeds the limit.
    fn stalled(&self, slot: u64) -> Option<Duration> {
        let mut seen = self.seen.lock();
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
    /// Fails with the reason if the node is unhealthy.
    pub fn health(&self) -> Result<(), Failure> {
        let (slot, durable) = (self.ledger.slot(Commitment::Processed), self.ledger.slot(Commitment::Confirmed));
        let behind = slot.saturating_sub(durable);
        if behind > HEALTHY_SLOTS {
            return Err(Failure::unhealthy(format!("the disk is {behind} slots behind"), Some(behind)));
        }
        let Liveness { silent, pending } = (self.liveness)();
        if let Some((parts, time)) = silent {
            return Err(Failure::unhealthy(format!("{parts} stood still for {} s", time.as_secs()), None));
        }
        let executed = self.ledger.transaction_count(Commitment::Processed);
        if let Some(time) = self.progress.work.since((slot, executed), pending) {
            let what = format!("{pending} transactions wait, and none was executed for {} s", time.as_secs());
            return Err(Failure::unhealthy(what, None));
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
        let patient = Progress::new(1_000_000, false);
        assert_eq!((patient.stalled(5), patient.stalled(5)), (None, None));
        let progress = Progress { patience: Duration::ZERO, ..Progress::new(0, false) };
        assert_eq!(progress.stalled(5), None);
        let deadline = Instant::now() + Duration::from_secs(10);
        while progress.stalled(5).is_none() {
            assert!(Instant::now() < deadline);
        }
        assert_eq!(progress.stalled(6), None);
    }

    #[test]
    fn waiting_transactions_must_be_executed() {
        let work = |patience| Standstill { seen: Mutex::new(None), patience };
        let patient = work(STANDSTILL);
        assert_eq!((patient.since((5, 9), 3), patient.since((5, 9), 3)), (None, None));
        let work = work(Duration::ZERO);
        assert_eq!(work.since((5, 9), 3), None);
        let deadline = Instant::now() + Duration::from_secs(60);
        while work.since((5, 9), 3).is_none() {
            assert!(Instant::now() < deadline);
        }
        // Each of these is progress.
        assert_eq!(work.since((5, 10), 3), None);
        assert_eq!(work.since((6, 10), 3), None);
        assert_eq!(work.since((6, 10), 0), None);
        assert_eq!(work.since((6, 10), 1), None, "it has waited for no time");
    }
}
