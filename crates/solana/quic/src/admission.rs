//! Admission control: number and rate of connections, in total, per address and per key.
//!
//! reads   addresses and keys of connections, the caller's time
//! writes  a verdict
//! memory  at most 65,536 addresses (about 100 B each) and one key per open connection
//! drops   nothing itself; the server counts each refusal by its reason
//! source  token buckets; Agave's limits by address and key

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use crate::config::ServerConfig;

/// Addresses remembered at once.
const ADDRESSES_MAX: usize = 1 << 16;
/// The table of addresses is swept no more often than this.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// Why a connection attempt was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Too many new connections in all.
    Rate,
    /// Too many new connections from this address.
    IpRate,
    /// Too many connections from this address.
    IpCount,
    /// Too many addresses.
    IpTable,
}

/// A token bucket. Its owner sets the fill rate, in tokens per second, and the capacity.
struct Bucket {
    tokens: f64,
    filled: Instant,
}

impl Bucket {
    fn full(burst: f64, now: Instant) -> Self {
        Self { tokens: burst, filled: now }
    }

    fn fill(&mut self, rate: f64, burst: f64, now: Instant) {
        let elapsed = now.saturating_duration_since(self.filled).as_secs_f64();
        self.tokens = (self.tokens + elapsed * rate).min(burst);
        self.filled = now;
    }

    fn has(&self) -> bool {
        self.tokens >= 1.0
    }

    fn take(&mut self) -> bool {
        let has = self.has();
        self.tokens -= f64::from(u8::from(has));
        has
    }
}

struct Address {
    open: usize,
    bucket: Bucket,
}

/// Bytes that the addresses of one server take at most: the table doubles when seven of eight places are taken.
pub const ADDRESSES_BYTES_MAX: usize = 2 * ADDRESSES_MAX * (size_of::<(IpAddr, Address)>() + 1);

/// Decides on a server's new connections.
pub(crate) struct Admission {
    all: Bucket,
    all_rate: f64,
    all_burst: f64,
    ip_rate: f64,
    ip_burst: f64,
    per_ip: usize,
    /// First packets without and with a token. Those with one have their own share, so that clients that have answered
    /// a Retry are not crowded out by those that never will.
    initials: [Bucket; 2],
    initials_rate: f64,
    // SipHash: peers choose these keys.
    addresses: HashMap<IpAddr, Address>,
    keys: HashMap<[u8; 32], usize>,
    swept: Instant,
}

impl Admission {
    pub(crate) fn new(config: &ServerConfig, now: Instant) -> Self {
        let all_rate = f64::from(config.connects_per_second);
        let all_burst = f64::from(config.connects_burst.max(1));
        let initials_rate = f64::from(config.initials_per_second);
        Self {
            initials: [(); 2].map(|()| Bucket::full(initials_rate, now)),
            initials_rate,
            all: Bucket::full(all_burst, now),
            all_rate,
            all_burst,
            ip_rate: f64::from(config.connects_per_ip_per_minute) / 60.0,
            ip_burst: f64::from(config.connects_per_ip_per_minute.max(1)),
            per_ip: config.connections_per_ip,
            addresses: HashMap::new(),
            keys: HashMap::new(),
            swept: now,
        }
    }

    /// Whether to spend time on a first packet. Deriving its keys and answering costs 6 µs (the bench's "flood"); other
    /// stray datagrams cost next to nothing.
    pub(crate) fn initial(&mut self, has_token: bool, now: Instant) -> bool {
        let bucket = &mut self.initials[usize::from(has_token)];
        // At most a tenth of a second's worth at once.
        bucket.fill(self.initials_rate, (self.initials_rate / 10.0).max(1.0), now);
        bucket.take()
    }

    /// Admits one more connection from `ip`, if allowed; each must be followed by one [`Self::leave`] when it ends.
    pub(crate) fn enter(&mut self, ip: IpAddr, now: Instant) -> Result<(), Refusal> {
        let ip = bucket_address(ip);
        self.all.fill(self.all_rate, self.all_burst, now);
        if !self.all.has() {
            return Err(Refusal::Rate);
        }
        if self.addresses.len() >= ADDRESSES_MAX && !self.addresses.contains_key(&ip) {
            self.sweep(now);
            if self.addresses.len() >= ADDRESSES_MAX {
                return Err(Refusal::IpTable);
            }
        }
        let address =
            self.addresses.entry(ip).or_insert_with(|| Address { open: 0, bucket: Bucket::full(self.ip_burst, now) });
        address.bucket.fill(self.ip_rate, self.ip_burst, now);
        if !address.bucket.has() {
            return Err(Refusal::IpRate);
        }
        if address.open >= self.per_ip {
            return Err(Refusal::IpCount);
        }
        address.bucket.take();
        address.open += 1;
        self.all.take();
        Ok(())
    }

    /// A connection from `ip` has ended.
    pub(crate) fn leave(&mut self, ip: IpAddr) {
        let address = self.addresses.get_mut(&bucket_address(ip)).expect("it has entered");
        address.open -= 1;
    }

    /// A connection has shown `key`, which may have `max` connections: false if it has that many already.
    pub(crate) fn enter_key(&mut self, key: [u8; 32], max: usize) -> bool {
        let open = self.keys.entry(key).or_default();
        let admitted = *open < max;
        if admitted {
            *open += 1;
        } else if *open == 0 {
            self.keys.remove(&key);
        }
        admitted
    }

    /// A connection admitted under `key` has ended.
    pub(crate) fn leave_key(&mut self, key: &[u8; 32]) {
        let open = self.keys.get_mut(key).expect("it has entered");
        *open -= 1;
        if *open == 0 {
            self.keys.remove(key);
        }
    }

    /// Removes addresses without connections whose bucket is full again.
    fn sweep(&mut self, now: Instant) {
        if now.saturating_duration_since(self.swept) < SWEEP_INTERVAL {
            return;
        }
        self.swept = now;
        let (rate, burst) = (self.ip_rate, self.ip_burst);
        self.addresses.retain(|_, a| {
            a.bucket.fill(rate, burst, now);
            a.open > 0 || a.bucket.tokens < burst
        });
    }
}

/// Whether a datagram begins with an Initial packet, and if so whether that carries a token; read
/// from the invariant and unprotected part of the header (RFC 9000, section 17.2.2).
pub(crate) fn initial_token(datagram: &[u8]) -> Option<bool> {
    let (&first, rest) = datagram.split_first()?;
    // Long header, type 0. Version 0 is Version Negotiation, which is no Initial.
    if first & 0xb0 != 0x80 || rest.get(..4)? == [0; 4] {
        return None;
    }
    let destination = usize::from(*rest.get(4)?);
    let source_at = 5 + destination;
    let source = usize::from(*rest.get(source_at)?);
    rest.get(source_at + 1 + source).map(|&token_length| token_length != 0)
}

/// The owner of an IPv6 address usually owns its /64.
fn bucket_address(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V4(v4) => IpAddr::V4(v4),
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> ServerConfig {
        ServerConfig {
            connections_per_ip: 3,
            connects_per_ip_per_minute: 6,
            connects_per_second: 10,
            connects_burst: 10,
            ..ServerConfig::agave()
        }
    }

    #[test]
    fn address_has_count_and_rate() {
        let start = Instant::now();
        let mut door = Admission::new(&config(), start);
        let ip: IpAddr = "10.0.0.1".parse().unwrap();
        for _ in 0..3 {
            assert_eq!(door.enter(ip, start), Ok(()));
        }
        assert_eq!(door.enter(ip, start), Err(Refusal::IpCount));
        for _ in 0..3 {
            door.leave(ip);
        }
        for _ in 0..3 {
            assert_eq!(door.enter(ip, start), Ok(()));
            door.leave(ip);
        }
        assert_eq!(door.enter(ip, start), Err(Refusal::IpRate));
        assert_eq!(door.enter(ip, start + Duration::from_secs(9)), Err(Refusal::IpRate));
        assert_eq!(door.enter(ip, start + Duration::from_secs(11)), Ok(()));
    }

    #[test]
    fn total_rate_holds_over_addresses() {
        let start = Instant::now();
        let mut door = Admission::new(&config(), start);
        let ip = |n: u8| IpAddr::from([10, 0, 0, n]);
        for n in 0..10 {
            assert_eq!(door.enter(ip(n), start), Ok(()));
        }
        assert_eq!(door.enter(ip(10), start), Err(Refusal::Rate));
        assert_eq!(door.enter(ip(10), start + Duration::from_millis(101)), Ok(()));
        assert_eq!(door.enter(ip(11), start + Duration::from_millis(101)), Err(Refusal::Rate));
    }

    #[test]
    fn ipv6_counts_by_prefix_and_mapped_ipv4_as_ipv4() {
        let start = Instant::now();
        let mut door = Admission::new(&config(), start);
        for host in ["fd00::1", "fd00::2", "fd00::ffff:1"] {
            assert_eq!(door.enter(host.parse().unwrap(), start), Ok(()));
        }
        assert_eq!(door.enter("fd00::9".parse().unwrap(), start), Err(Refusal::IpCount));
        assert_eq!(door.enter("fd00:0:0:1::9".parse().unwrap(), start), Ok(()));
        for host in ["10.0.0.1", "::ffff:10.0.0.1", "10.0.0.1"] {
            assert_eq!(door.enter(host.parse().unwrap(), start), Ok(()));
        }
        assert_eq!(door.enter("10.0.0.1".parse().unwrap(), start), Err(Refusal::IpCount));
    }

    #[test]
    fn key_has_a_count() {
        let mut door = Admission::new(&config(), Instant::now());
        assert!(door.enter_key([1; 32], 2) && door.enter_key([1; 32], 2));
        assert!(!door.enter_key([1; 32], 2));
        assert!(door.enter_key([2; 32], 2));
        door.leave_key(&[1; 32]);
        assert!(door.enter_key([1; 32], 2));
    }

    #[test]
    fn full_table_refuses_until_swept() {
        let start = Instant::now();
        let limits = ServerConfig {
            connects_per_second: 1 << 20,
            connects_burst: 1 << 20,
            connects_per_ip_per_minute: 60,
            ..config()
        };
        let mut door = Admission::new(&limits, start);
        let ip = |n: u32| IpAddr::from(n.to_be_bytes());
        for n in 0..ADDRESSES_MAX as u32 {
            assert_eq!(door.enter(ip(n), start), Ok(()));
            if n > 0 {
                door.leave(ip(n));
            }
        }
        assert_eq!(door.enter(ip(1 << 20), start), Err(Refusal::IpTable));
        // Each bucket needs one second for the token that was taken.
        let later = start + Duration::from_secs(2);
        assert_eq!(door.enter(ip(1 << 20), later), Ok(()));
        assert_eq!(door.addresses.len(), 2, "the open one and the new one");
    }
}
