//! demand: decides whether a slot should start when slots come on demand instead of by the clock.
//!
//! reads   pack's pending work; requested slots; confirmed and finalized slots; whether an epoch boundary is in
//!         progress
//! writes  yes or no, and when to ask again
//! memory  a few words
//!
//! After work, as many slots follow as its block needs to become final, each as soon as the previous one is confirmed.
//! Then the chain stands still: blockhashes do not age and nothing is written. The start of a node counts as work, and
//! so does a requested slot. The chain does not stop in the middle of an epoch boundary, because transactions would
//! then find stakes locked.

/// How often to check whether a block is confirmed, in nanoseconds.
const LOOK_NS: u64 = 1_000_000;

/// Parameters of slots on demand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OnDemand {
    /// Start a slot without work this long after the last one, in nanoseconds; `None`: never.
    pub idle_ns: Option<u64>,
}

/// The demand for slots so far.
#[derive(Clone, Copy, Debug)]
pub struct Demand {
    rules: OnDemand,
    /// Work is waiting for a slot.
    work_waits: bool,
    /// The last slot that had work.
    work_slot: u64,
    /// The newest slot that was requested.
    called_slot: u64,
    /// When the last slot ended.
    ended_ns: u64,
}

/// How far the chain and its confirmation are.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// The last slot that ended.
    pub ended: u64,
    /// The newest confirmed slot.
    pub confirmed: u64,
    /// The newest finalized slot.
    pub finalized: u64,
    /// Whether an epoch boundary is in progress.
    pub is_epoch_turning: bool,
}

impl Demand {
    /// Creates the demand at startup; `slot` starts next.
    pub fn new(rules: OnDemand, slot: u64, now_ns: u64) -> Self {
        Self { rules, work_waits: false, work_slot: slot, called_slot: 0, ended_ns: now_ns }
    }

    /// Records that pack has work and no slot is in progress.
    pub fn work_waits(&mut self) {
        self.work_waits = true;
    }

    /// Records a request for this slot.
    pub fn call_for(&mut self, slot: u64) {
        self.called_slot = self.called_slot.max(slot);
    }

    /// Records that a slot had work.
    pub fn worked(&mut self, slot: u64) {
        self.work_slot = slot;
    }

    /// Records that a slot has ended.
    pub fn ended(&mut self, now_ns: u64) {
        self.ended_ns = now_ns;
    }

    /// Starts a slot if one should start; otherwise returns when to ask again, or `None` to wait for an event.
    pub fn begin(&mut self, at: Progress, now_ns: u64) -> Result<(), Option<u64>> {
        let is_called = self.called_slot > at.ended;
        if is_called {
            self.work_slot = self.work_slot.max(self.called_slot);
        }
        let settles = at.finalized < self.work_slot;
        let idle_at = self.rules.idle_ns.map(|idle| self.ended_ns.saturating_add(idle));
        let due = self.work_waits
            || is_called
            || at.is_epoch_turning
            || (settles && at.confirmed >= at.ended)
            || idle_at.is_some_and(|at| now_ns >= at);
        if due {
            self.work_waits = false;
            return Ok(());
        }
        let look_at = settles.then_some(now_ns + LOOK_NS);
        Err(look_at.into_iter().chain(idle_at).min())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn at(ended: u64, confirmed: u64, finalized: u64) -> Progress {
        Progress { ended, confirmed, finalized, is_epoch_turning: false }
    }

    #[test]
    fn work_begins_a_slot_and_others_until_its_own_is_final() {
        let mut demand = Demand::new(OnDemand::default(), 1, 0);
        assert_eq!(demand.begin(at(0, 0, 0), 0), Ok(()), "the start is work");
        assert_eq!(demand.begin(at(5, 4, 0), 9), Err(Some(9 + LOOK_NS)), "5 is not confirmed");
        assert_eq!(demand.begin(at(5, 5, 0), 9), Ok(()));
        assert_eq!(demand.begin(at(33, 32, 1), 9), Err(None), "1 is final, confirmed or not");
        demand.work_waits();
        assert_eq!(demand.begin(at(33, 32, 1), 9), Ok(()), "work does not wait for the disk");
        demand.worked(34);
        assert_eq!(demand.begin(at(34, 34, 2), 9), Ok(()));
        assert_eq!(demand.begin(at(66, 66, 34), 9), Err(None));
    }

    #[test]
    fn a_slot_comes_that_is_called_for_and_is_made_final() {
        let mut demand = Demand::new(OnDemand::default(), 1, 0);
        demand.call_for(10);
        demand.call_for(4);
        assert_eq!(demand.begin(at(10, 1, 1), 0), Err(None), "it has been");
        assert_eq!(demand.begin(at(9, 1, 1), 0), Ok(()));
        assert_eq!(demand.begin(at(10, 9, 9), 0), Err(Some(LOOK_NS)), "10 is not confirmed");
        assert_eq!(demand.begin(at(10, 10, 10), 0), Err(None));
    }

    #[test]
    fn an_epoch_turns_without_work() {
        let mut demand = Demand::new(OnDemand::default(), 1, 0);
        assert_eq!(demand.begin(Progress { is_epoch_turning: true, ..at(31, 30, 30) }, 0), Ok(()));
        assert_eq!(demand.begin(at(33, 30, 30), 0), Err(None));
    }

    #[test]
    fn idle_chain_may_make_slots_at_intervals() {
        let mut demand = Demand::new(OnDemand { idle_ns: Some(10 * MS) }, 1, 0);
        demand.ended(5 * MS);
        assert_eq!(demand.begin(at(9, 9, 1), 14 * MS), Err(Some(15 * MS)));
        assert_eq!(demand.begin(at(9, 9, 1), 15 * MS), Ok(()));
    }
}
