//! budget: limits the bytes read or sent per second, in total and per host.
//!
//! reads   the cost of a request, its host, the time
//! writes  whether it may proceed
//! memory  [`HOSTS_MAX`] hosts, 60 B each
//! drops   the host that has been idle longest, whose share is full again anyway
//! source  Agave's server has a single bucket for all hosts
//!
//! Each host has a share of its own, and may exceed it while more than half of the total is left: a lone host can use
//! half of the stored budget and the whole refill rate, and however much it wants, half is left to others.

use std::net::IpAddr;

use hearth_gossip::Bounded;

/// Hosts that are remembered.
const HOSTS_MAX: usize = 65_536;
/// Each host's share is the total divided by this.
const SHARES: u64 = 4;

/// The request would cost more than is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoBudget;

/// The requesting host, and the time in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Payer {
    pub host: IpAddr,
    pub now: u64,
}

/// A token bucket, in bytes per second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    per_s: u64,
    pub left: u64,
    pub filled_at: u64,
}

impl Bucket {
    fn new(per_s: u64, now: u64) -> Self {
        Self { per_s, left: per_s, filled_at: now }
    }

    fn fill(&mut self, now: u64) {
        let filled = now.saturating_sub(self.filled_at).min(1_000) * (self.per_s / 1_000);
        self.filled_at = now;
        self.left = (self.left + filled).min(self.per_s);
    }
}

/// The total budget, and each host's share of it.
pub(super) struct Budget {
    pub total: Bucket,
    hosts: Bounded<IpAddr, Bucket>,
}

impl Budget {
    /// Maximum bytes of the state.
    pub const MEMORY: u64 = Bounded::<IpAddr, Bucket>::bytes(HOSTS_MAX);

    pub fn new(per_s: u64) -> Self {
        Self { total: Bucket::new(per_s, 0), hosts: Bounded::new(HOSTS_MAX) }
    }

    /// Takes bytes from the budget, if they are left for this host.
    pub fn pay(&mut self, bytes: u64, Payer { host, now }: Payer) -> Result<(), NoBudget> {
        let per_s = self.total.per_s;
        self.total.fill(now);
        let own = self.hosts.entry(host, || Bucket::new(per_s / SHARES, now));
        own.fill(now);
        // A cost above a full share is covered by a full share.
        let is_within = own.left >= bytes.min(per_s / SHARES);
        let is_for_others = self.total.left < bytes + if is_within { 0 } else { per_s / 2 };
        if is_for_others {
            return Err(NoBudget);
        }
        own.left = own.left.saturating_sub(bytes);
        self.total.left -= bytes;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_gets_half_of_a_shared_budget() {
        let mut budget = Budget::new(8_000);
        let mut pay = |host: u8, now| budget.pay(100, Payer { host: [10, 0, 0, host].into(), now }).is_ok();
        let mut count = |host, now| (0..200).filter(|_| pay(host, now)).count();
        assert_eq!(count(1, 1_000), 40, "half");
        assert_eq!(
            [count(2, 1_000), count(3, 1_000), count(4, 1_000)],
            [20, 20, 0],
            "each host gets its share until the total is used up"
        );
        // A second later the budget is full again; in a steady flow, a lone host gets the whole refill.
        assert_eq!((count(1, 2_000), count(1, 2_100), count(1, 2_200)), (40, 8, 8));
    }
}
