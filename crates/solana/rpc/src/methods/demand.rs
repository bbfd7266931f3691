//! Slots on demand: a client that polls for a newer blockhash triggers a slot.
//!
//! reads   the blockhash of each answer
//! writes  a request for a slot, to the chain
//! memory  a hash and two instants
//! drops   triggers within a second of the last one, so a client that polls forever ages blockhashes by one slot a
//!         second
//! source  `_pollNewBlockhash` of `@solana/web3.js` 1.98: it polls every 200 ms for up to 10 s until the hash changes,
//!         when a transaction would be identical to one that it has sent before

use std::time::{Duration, Instant};

use hearth_wire::Hash;
use parking_lot::Mutex;

use super::Api;

/// A client that asks again within this time waits for a new blockhash. A dashboard that polls once a second does not.
const AGAIN_WITHIN: Duration = Duration::from_millis(900);
/// Minimum interval between two slots triggered this way.
const CALL_EVERY: Duration = Duration::from_secs(1);

/// The last blockhash handed out, and the last trigger.
#[derive(Default)]
pub struct Calls(Mutex<DemandState>);

#[derive(Clone, Copy, Default)]
struct DemandState {
    last: Option<(Hash, Instant)>,
    called: Option<Instant>,
}

impl Calls {
    /// Records that a client receives `blockhash`; returns whether that triggers a slot.
    fn note(&self, blockhash: &Hash, now: Instant) -> bool {
        let mut asked = self.0.lock();
        let within = |since: Instant, time| now.saturating_duration_since(since) < time;
        let again = asked.last.is_some_and(|(hash, at)| hash == *blockhash && within(at, AGAIN_WITHIN));
        let calls = again && !asked.called.is_some_and(|at| within(at, CALL_EVERY));
        asked.last = Some((*blockhash, now));
        if calls {
            asked.called = Some(now);
        }
        calls
    }
}

impl Api {
    /// Called when a client receives `blockhash` as the newest. If one received it just before and the chain stands
    /// still, the chain produces a slot.
    pub fn blockhash_is_reported(&self, blockhash: &Hash) {
        let stands = self.limits.slots_may_stand && self.ledger.working_bank().is_none();
        if stands && self.calls.note(blockhash, Instant::now()) {
            (self.call_for_slot)(self.ledger.open_slot());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asking_again_calls_once_a_second() {
        let (calls, start) = (Calls::default(), Instant::now());
        let is_waiting = |hash: u8, ms| calls.note(&[hash; 32], start + Duration::from_millis(ms));
        assert!(!is_waiting(1, 0) && is_waiting(1, 200), "the second time");
        assert!(!is_waiting(1, 400) && !is_waiting(1, 1100), "within a second of the call");
        assert!(is_waiting(1, 1300));
        assert!(!is_waiting(2, 2400), "another hash");
        for ms in (3400..10_000).step_by(1000) {
            assert!(!is_waiting(2, ms), "who asks once a second does not wait for it");
        }
    }
}
