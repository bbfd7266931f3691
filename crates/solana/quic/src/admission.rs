//! Admission control: number and rate of connections, in total, per address and per key.
//!
//! reads   addresses and keys of connections, the caller's time
//! writes  a verdict
//! memory  at most 65,536 addresses (about 100 B each) and one peer per open connection
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
    /// The table of addresses is full, and this address is not in it.
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

/// The identity that a peer's connections share. A key counts only if it has stake, since anybody can make others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PeerId {
    /// The Ed25519 public key of the peer's certificate.
    Key([u8; 32]),
    /// The peer's IPv4 address or IPv6 /64.
    Address(IpAddr),
}

impl PeerId {
    /// The peer at an address, if it has no stake.
    pub(crate) fn of_address(ip: IpAddr) -> Self {
        Self::Address(bucket_address(ip))
    }
}

/// The streams that were read from a peer in the current window of the throttle, over all of its connections.
pub(crate) struct Window {
    pub(crate) start: Instant,
    pub(crate) count: u32,
}

/// A peer with open connections.
struct CountedPeer {
    open: usize,
    window: Window,
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
    /// First packets without and with a token. Those with one have their own share, so that clients that have answered
    /// a Retry are not crowded out by those that never will.
    initials: [Bucket; 2],
    initials_rate: f64,
    // SipHash: peers choose these keys.
    addresses: HashMap<IpAddr, Address>,
    peers: HashMap<PeerId, CountedPeer>,
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
            addresses: HashMap::new(),
            peers: HashMap::new(),
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

    /// A peer, which may have `max` connections, has opened one: false if it has that many already.
    pub(crate) fn enter_peer(&mut self, peer: PeerId, max: usize, now: Instant) -> bool {
        let open = self.peers.get(&peer).map_or(0, |counted| counted.open);
        if open >= max {
            return false;
        }
        let fresh = || CountedPeer { open: 0, window: Window { start: now, count: 0 } };
        self.peers.entry(peer).or_insert_with(fresh).open += 1;
        true
    }

    /// A connection of a peer that has entered has ended.
    pub(crate) fn leave_peer(&mut self, peer: &PeerId) {
        let counted = self.peers.get_mut(peer).expect("it has entered");
        counted.open -= 1;
        if counted.open == 0 {
            self.peers.remove(peer);
        }
    }

    /// The window of a peer that has entered.
    pub(crate) fn window(&mut self, peer: &PeerId) -> &mut Window {
        &mut self.peers.get_mut(peer).expect("it has entered").window
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
            connects_per_ip_per_minute: 6,
            connects_per_second: 10,
            connects_burst: 10,
            ..ServerConfig::agave()
        }
    }

    #[test]
    fn address_has_a_rate() {
        let start = Instant::now();
        let mut door = Admission::new(&config(), start);
        let ip: IpAddr = "10.0.0.1".parse().unwrap();
        for _ in 0..6 {
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
        let peer = |host: &str| PeerId::of_address(host.parse().unwrap());
        assert_eq!(peer("fd00::1"), peer("fd00::ffff:1"));
        assert_ne!(peer("fd00::1"), peer("fd00:0:0:1::1"));
        assert_eq!(peer("10.0.0.1"), peer("::ffff:10.0.0.1"));
        assert_ne!(peer("10.0.0.1"), peer("10.0.0.2"));
    }

    #[test]
    fn peer_has_a_count_and_one_window() {
        let start = Instant::now();
        let mut door = Admission::new(&config(), start);
        let [one, other] = [PeerId::Key([1; 32]), PeerId::Key([2; 32])];
        assert!(door.enter_peer(one, 2, start) && door.enter_peer(one, 2, start));
        assert!(!door.enter_peer(one, 2, start));
        assert!(door.enter_peer(other, 2, start));
        door.window(&one).count = 7;
        assert_eq!((door.window(&one).count, door.window(&other).count), (7, 0));
        door.leave_peer(&one);
        assert!(door.enter_peer(one, 2, start));
        assert_eq!(door.window(&one).count, 7, "its other connection is still open");
        door.leave_peer(&one);
        door.leave_peer(&one);
        assert!(door.enter_peer(one, 2, start));
        assert_eq!(door.window(&one).count, 0);
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
