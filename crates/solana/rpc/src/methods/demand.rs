//! Slots on demand: who asks twice for the newest blockhash waits for another, and gets a slot.
//!
//! reads   which blockhash clients are told
//! writes  a call for a slot, to the chain
//! memory  a hash and two instants
//! drops   calls within a second of the last: who asks for blockhashes without end ages them by a slot a second
//! source  `_pollNewBlockhash` of `@solana/web3.js` 1.98: it asks every 200 ms, for 10 s, until the hash is another,
//!         when a transaction would be the same as one that it has sent before

use std::time::{Duration, Instant};

use hearth_wire::Hash;
use parking_lot::Mutex;

use super::Api;

/// Who asks again within this time waits for another blockhash. A dashboard that asks once a second does not.
const AGAIN_WITHIN: Duration = Duration::from_millis(900);
/// From one slot that was called for so to the next.
const CALL_EVERY: Duration = Duration::from_secs(1);

/// What was asked last.
#[derive(Default)]
pub struct Calls(Mutex<Asked>);

#[derive(Clone, Copy, Default)]
struct Asked {
    last: Option<(Hash, Instant)>,
    called: Option<Instant>,
}

impl Calls {
    /// Notes that a client is told `blockhash`; whether it waits for another.
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
    /// A client is told that `blockhash` is the newest: if it has been told just before, and the chain stands, the
    /// chain goes on by a slot.
    pub fn blockhash_is_told(&self, blockhash: &Hash) {
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
        let told = |hash: u8, ms| calls.note(&[hash; 32], start + Duration::from_millis(ms));
        assert!(!told(1, 0) && told(1, 200), "the second time");
        assert!(!told(1, 400) && !told(1, 1100), "within a second of the call");
        assert!(told(1, 1300));
        assert!(!told(2, 2400), "another hash");
        for ms in (3400..10_000).step_by(1000) {
            assert!(!told(2, ms), "who asks once a second does not wait for it");
        }
    }
}
