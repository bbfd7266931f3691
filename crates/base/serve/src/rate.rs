//! Limits the request rate of an address.
//!
//! reads   client addresses, the clock
//! writes  yes or no
//! memory  40 B per address; at most [`ADDRESSES_MAX`], of which the longest silent are forgotten first
//! drops   requests over the rate; the caller counts them
//! source  a token bucket that holds one second's worth

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Instant;

use parking_lot::Mutex;

/// Addresses that are remembered.
const ADDRESSES_MAX: usize = 8_192;

#[derive(Clone, Copy)]
struct Bucket {
    /// Requests allowed at `since` without waiting.
    tokens: f64,
    since: Instant,
}

/// The rate of every address.
pub struct RateLimit {
    per_second: f64,
    buckets: Mutex<HashMap<IpAddr, Bucket>>,
}

impl RateLimit {
    /// At most `per_second` requests of an address; 0 lets all through.
    pub fn new(per_second: u32) -> Self {
        Self { per_second: per_second.into(), buckets: Mutex::default() }
    }

    /// Whether an address may make this many requests now.
    pub fn admits(&self, address: IpAddr, requests: usize) -> bool {
        self.per_second == 0.0 || self.admits_at(address, requests, Instant::now())
    }

    fn admits_at(&self, address: IpAddr, requests: usize, now: Instant) -> bool {
        let most = self.per_second;
        let refilled = |bucket: &Bucket| {
            let seconds = now.saturating_duration_since(bucket.since).as_secs_f64();
            (bucket.tokens + seconds * most).min(most)
        };
        let mut buckets = self.buckets.lock();
        if buckets.len() >= ADDRESSES_MAX && !buckets.contains_key(&address) {
            buckets.retain(|_, bucket| refilled(bucket) < most);
            if buckets.len() >= ADDRESSES_MAX {
                return false;
            }
        }
        let bucket = buckets.entry(address).or_insert(Bucket { tokens: most, since: now });
        let tokens = refilled(bucket);
        // A batch longer than a second's worth goes through a full bucket, and leaves it in debt.
        let enough = tokens >= (requests as f64).min(most);
        *bucket = Bucket { tokens: if enough { tokens - requests as f64 } else { tokens }, since: now };
        enough
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 1));
    const TWO: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 2));

    #[test]
    fn an_address_gets_its_rate_and_no_more() {
        let limit = RateLimit::new(10);
        let start = Instant::now();
        assert_eq!((0..20).filter(|_| limit.admits_at(ONE, 1, start)).count(), 10);
        assert!(limit.admits_at(TWO, 1, start));
        let half = start + Duration::from_millis(500);
        assert_eq!((0..20).filter(|_| limit.admits_at(ONE, 1, half)).count(), 5);
        // However long it was quiet, it has saved up one second.
        let later = start + Duration::from_secs(60);
        assert_eq!((0..20).filter(|_| limit.admits_at(ONE, 1, later)).count(), 10);
    }

    #[test]
    fn a_long_batch_is_paid_for_afterwards() {
        let limit = RateLimit::new(10);
        let start = Instant::now();
        assert!(limit.admits_at(ONE, 30, start));
        assert!(!limit.admits_at(ONE, 1, start + Duration::from_secs(2)));
        assert!(limit.admits_at(ONE, 1, start + Duration::from_millis(2_150)));
    }

    #[test]
    fn no_limit_admits_all_and_remembers_none() {
        let limit = RateLimit::new(0);
        assert!((0..1_000).all(|_| limit.admits(ONE, 1_000)));
        assert!(limit.buckets.lock().is_empty());
    }

    #[test]
    fn quiet_addresses_make_room() {
        let limit = RateLimit::new(1);
        let start = Instant::now();
        let address = |n: usize| IpAddr::from([10, 0, (n >> 8) as u8, n as u8]);
        assert!((0..ADDRESSES_MAX).all(|n| limit.admits_at(address(n), 1, start)));
        assert!(!limit.admits_at(TWO, 1, start));
        assert!(limit.admits_at(TWO, 1, start + Duration::from_secs(1)));
        assert_eq!(limit.buckets.lock().len(), 1);
    }
}
