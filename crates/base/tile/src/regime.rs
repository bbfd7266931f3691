//! regime: where a tile's time goes: nine exclusive regimes that sum to all of it.
//!
//! writes  nanoseconds per regime into the tile's counters
//! source  the columns of Firedancer's monitor (hkeep, backp, wait, ovrnp, ovrnr, filt1, filt2, finish), and
//!         `elsewhere`: the time that a shared core gave to its other tiles

/// The occupation of a tile during a span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Regime {
    /// Housekeeping: flushing counters, heartbeats, timers of the loop itself.
    Housekeeping,
    /// A reliable consumer downstream has no room; includes parked time.
    Backpressure,
    /// Nothing to do; includes parked time.
    Wait,
    /// Lapped by a producer while looking for the next frag.
    OverrunPolling,
    /// Lapped by a producer while reading a frag.
    OverrunReading,
    /// Handling frags that were filtered by their metadata alone.
    FilteredBefore,
    /// Handling frags that were dropped after looking at the payload.
    FilteredAfter,
    /// Handling frags and polling with a result: the work that the tile exists for.
    Finish,
    /// The core was running other tiles.
    Elsewhere,
}

/// How many regimes there are.
pub const REGIMES: usize = 9;

impl Regime {
    /// All regimes, in the order of their counters.
    pub const ALL: [Regime; REGIMES] = [
        Regime::Housekeeping,
        Regime::Backpressure,
        Regime::Wait,
        Regime::OverrunPolling,
        Regime::OverrunReading,
        Regime::FilteredBefore,
        Regime::FilteredAfter,
        Regime::Finish,
        Regime::Elsewhere,
    ];

    /// The short name used in tables.
    pub const fn column(self) -> &'static str {
        match self {
            Regime::Housekeeping => "hkeep",
            Regime::Backpressure => "backp",
            Regime::Wait => "wait",
            Regime::OverrunPolling => "ovrnp",
            Regime::OverrunReading => "ovrnr",
            Regime::FilteredBefore => "filt1",
            Regime::FilteredAfter => "filt2",
            Regime::Finish => "finish",
            Regime::Elsewhere => "elsewhere",
        }
    }
}

/// A tile's time line: every nanosecond since the start belongs to exactly one regime.
#[derive(Debug)]
pub struct TimeLine {
    ns: [u64; REGIMES],
    last: u64,
}

impl TimeLine {
    /// Starts the time line at `now`.
    pub fn new(now: u64) -> Self {
        Self { ns: [0; REGIMES], last: now }
    }

    /// Assigns the time since the last call to `regime`.
    #[inline]
    pub fn spent(&mut self, regime: Regime, now: u64) {
        self.ns[regime as usize] += now.saturating_sub(self.last);
        self.last = self.last.max(now);
    }

    /// Assigns the time since the last call: `parked_ns` of it to `parked`, for lack of work or of room, and the rest
    /// to other tiles.
    pub fn resumed(&mut self, parked: Regime, parked_ns: u64, now: u64) {
        let gap = now.saturating_sub(self.last);
        let parked_ns = parked_ns.min(gap);
        self.ns[parked as usize] += parked_ns;
        self.ns[Regime::Elsewhere as usize] += gap - parked_ns;
        self.last = self.last.max(now);
    }

    /// The time up to which every nanosecond has a regime.
    pub fn until(&self) -> u64 {
        self.last
    }

    /// Nanoseconds per regime so far.
    pub fn ns(&self) -> &[u64; REGIMES] {
        &self.ns
    }

    /// Nanoseconds in the regimes in which the tile itself used the core.
    pub fn busy_ns(&self) -> u64 {
        [
            Regime::Housekeeping,
            Regime::OverrunPolling,
            Regime::OverrunReading,
            Regime::FilteredBefore,
            Regime::FilteredAfter,
            Regime::Finish,
        ]
        .iter()
        .map(|r| self.ns[*r as usize])
        .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regimes_sum_to_wall_time() {
        let mut line = TimeLine::new(100);
        line.spent(Regime::Finish, 150);
        line.resumed(Regime::Wait, 30, 250);
        line.spent(Regime::Backpressure, 260);
        line.spent(Regime::Wait, 255); // a clock that steps back costs nothing
        assert_eq!(line.ns().iter().sum::<u64>(), 160);
        assert_eq!(line.ns()[Regime::Wait as usize], 30);
        assert_eq!(line.ns()[Regime::Elsewhere as usize], 70);
        assert_eq!(line.busy_ns(), 50);
        assert_eq!(line.until(), 260);
    }
}
