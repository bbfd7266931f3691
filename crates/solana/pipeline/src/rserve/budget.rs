//! Bytes that may be read or sent in a second, by all hosts and by one.
//!
//! reads   what is to be paid, by whom, when
//! writes  whether it may be
//! memory  [`HOSTS_MAX`] hosts, 60 B each
//! drops   the host that has paid nothing for longest, whose share is whole again
//! source  our own; Agave's server has one bucket for all
//!
//! Each host has a share of its own, and may go on beyond it as long as there is more than half of what there is for
//! all: alone it has all, and however much it wants, half is left to others.

use std::net::IpAddr;

use hearth_gossip::Bounded;

/// Hosts that are remembered.
const HOSTS_MAX: usize = 65_536;
/// A host's share is one of so many.
const SHARES: u64 = 4;

/// What would have to be paid is more than there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoBudget;

/// Who asks, and when, ms.
#[derive(Clone, Copy, Debug)]
pub(super) struct Payer {
    pub host: IpAddr,
    pub now: u64,
}

/// Bytes that may be taken in a second.
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

/// What there is for all, and of it for each.
pub(super) struct Budget {
    pub total: Bucket,
    hosts: Bounded<IpAddr, Bucket>,
}

impl Budget {
    /// Bytes that it takes at most.
    pub const MEMORY: u64 = Bounded::<IpAddr, Bucket>::bytes(HOSTS_MAX);

    pub fn new(per_s: u64) -> Self {
        Self { total: Bucket::new(per_s, 0), hosts: Bounded::new(HOSTS_MAX) }
    }

    /// Takes bytes, if there are any for this host.
    pub fn pay(&mut self, bytes: u64, Payer { host, now }: Payer) -> Result<(), NoBudget> {
        let per_s = self.total.per_s;
        self.total.fill(now);
        let own = self.hosts.entry(host, || Bucket::new(per_s / SHARES, now));
        own.fill(now);
        // What is larger than a share is paid with a whole one.
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
            "a share each, while there is some"
        );
        // A second later all is there again; in steady flow one that is alone has all that flows.
        assert_eq!((count(1, 2_000), count(1, 2_100), count(1, 2_200)), (40, 8, 8));
    }
}
