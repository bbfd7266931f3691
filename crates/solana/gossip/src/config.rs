//! The configuration of gossip, and the cluster's constants.
//!
//! source  `solana-gossip` 4.2.2 for every constant that has a name there; bounds of memory beyond `ORIGINS_MAX` are
//!         our own

use std::net::SocketAddrV4;

use hearth_wire::PACKET_DATA_SIZE;

/// How long a node without stake stays known after it was last heard of, and the maximum clock difference, in ms.
pub const TIMEOUT_MS: u64 = 15_000;
/// Interval at which our own contact info is signed again and the active set rotates, in ms.
pub const REFRESH_MS: u64 = TIMEOUT_MS / 2;
/// Interval of pull requests, in ms.
pub const PULL_MS: u64 = 500;
/// Interval at which expired values are dropped, in ms.
pub const PURGE_MS: u64 = 500;
/// Maximum time that a new value waits for others to fill its datagram, in ms.
pub const PUSH_MS: u64 = 10;
/// Nodes not heard of for this long are neither pulled from nor pushed to, in ms.
pub const ACTIVE_MS: u64 = 60_000;
/// How long pull requests include the hash of a replaced value, so that it is not sent again, in ms.
pub const PURGED_MS: u64 = 5 * TIMEOUT_MS;
/// The same for a refused value, in ms.
pub const FAILED_MS: u64 = 20_000;
/// How long a pong is valid, in ms.
pub const PONG_MS: u64 = 1_280_000;
/// Minimum interval between pings to a node, in ms; the cluster's nodes use it from the first ping on. Here a lost ping
/// is repeated sooner: after [`PING_FIRST_MS`], then after twice that, and so on up to this.
pub const PING_MS: u64 = 20_000;
/// Time until a first ping that was not answered is repeated, in ms; see [`PING_MS`].
pub const PING_FIRST_MS: u64 = 1_000;
/// Delay after a ping until our own contact info is signed again, in ms. The cluster's nodes do not do that.
pub const AFTER_PING_MS: u64 = 1_000;
/// A clock that steps back by more than this was set back; smaller steps are jitter, in ms.
pub const STEP_MS: u64 = 1_000;
/// How long a prune message is valid, in ms.
pub const PRUNE_MS: u64 = 500;
/// Number of nodes to which a value is pushed.
pub const FANOUT: usize = 9;
/// Number of nodes from which these are drawn.
pub const ACTIVE_SET: usize = 12;
/// Maximum sends (values times nodes) in one round of pushes.
pub const PUSHES_MAX: usize = 1 << 12;
/// With fewer nodes than this in the map of stakes every value is passed on.
pub const STAKE_FILTER_NODES: usize = 500;
/// Maximum nodes whose values are kept.
pub const ORIGINS_MAX: usize = 8_192;
/// Maximum pings, and pongs, that are remembered.
pub const PINGS_MAX: usize = 126_976;
/// Maximum hashes of values with recently verified signatures.
pub const CHECKED_MAX: usize = 4_096;
/// Maximum contact infos that wait for a pong.
pub const HELD_MAX: usize = 1_024;
/// Maximum requests for this node's signature.
pub const REQUESTS_MAX: usize = 1_024;
/// The share of these for messages that others provoke: pings, pongs and prunes.
pub const ANSWER_REQUESTS_MAX: usize = REQUESTS_MAX / 4 * 3;
/// How long to wait for a signature, in ms.
pub const SIGN_MS: u64 = 5_000;
/// Maximum remembered hashes of replaced values, and of refused ones.
pub const HASHES_MAX: usize = 65_536;
/// Maximum IP addresses with a request budget.
pub const HOSTS_MAX: usize = 16_384;
/// Values that may be scanned for a host at once, and per second.
pub const SCAN_BURST: u64 = 1_048_576;
/// Values per second by which a host's scan budget refills, up to [`SCAN_BURST`].
pub const SCAN_PER_S: u64 = 262_144;
/// Bytes per second of pull responses for each node with stake, of which at least two are assumed.
pub const ANSWERS_PER_S: u64 = 10 * 1_024;
/// The burst of these, in tenths of a second's worth.
pub const ANSWERS_BURST_TENTHS: u64 = 5;
/// The shortest value: signature, tag, node, slot, time, and the other fields of a lowest slot.
const VALUE_SIZE_MIN: usize = 64 + 4 + 1 + 32 + 8 + 8;
/// Overhead of a value in bytes.
const ENTRY_BYTES: usize = 400;
/// Bytes of a remembered hash, with its time.
const HASH_BYTES: usize = 40;
/// Bytes of a ping and its pong.
const PING_BYTES: usize = 250;
/// Bytes of an IP address's request budget.
const HOST_BYTES: usize = 80;
/// Lamports in one SOL.
pub const SOL: u64 = hearth_wire::consts::LAMPORTS_PER_SOL;

/// The configuration of gossip.
#[derive(Clone, Debug)]
pub struct Config {
    /// The entrypoints: gossip addresses of nodes known by other means.
    pub entrypoints: Vec<SocketAddrV4>,
    /// Whether addresses of private networks and of this host are accepted. Off on public clusters.
    pub allow_private: bool,
    /// Maximum nodes whose values are kept, exceeded by at most a tenth for a moment. Nodes with the least stake are
    /// evicted first, and among these the newest.
    pub origins_max: usize,
    /// Maximum bytes of all values; beyond that nodes are evicted in the same order.
    pub table_bytes_max: usize,
    /// Maximum bytes of a node's values if it has stake, or if no node has any.
    pub origin_bytes_max: usize,
    /// Maximum bytes of the values of a node without stake.
    pub unstaked_origin_bytes_max: usize,
    /// Maximum nodes without stake per IP address.
    pub unstaked_per_host_max: u32,
    /// Bytes of tables that speed up the verification of nodes' signatures, at 17 KB per node.
    pub verifier_bytes_max: usize,
    /// Whether every address counts as verified. Only for the replay of a recorded session: its pongs answer the pings
    /// of the recorded node.
    pub trusts_addresses: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            entrypoints: Vec::new(),
            allow_private: false,
            origins_max: ORIGINS_MAX,
            table_bytes_max: 512 << 20,
            origin_bytes_max: 1 << 20,
            unstaked_origin_bytes_max: 64 << 10,
            unstaked_per_host_max: 256,
            verifier_bytes_max: 32 << 20,
            trusts_addresses: false,
        }
    }
}

impl Config {
    /// Maximum memory of gossip in bytes, with everything at its bound and the shortest values. A cluster of some
    /// thousand nodes takes a hundredth of that.
    pub fn bytes_max(&self) -> u64 {
        let values = self.table_bytes_max + self.table_bytes_max / VALUE_SIZE_MIN * ENTRY_BYTES;
        let hashes = 2 * HASHES_MAX * HASH_BYTES + CHECKED_MAX * 3 * HASH_BYTES;
        let waiting = (HELD_MAX + REQUESTS_MAX) * PACKET_DATA_SIZE;
        let others = PINGS_MAX * PING_BYTES + HOSTS_MAX * HOST_BYTES;
        (values + hashes + waiting + others + self.verifier_bytes_max) as u64
    }

    /// Whether an address may be used, for a node and for sending.
    pub fn is_allowed(&self, address: &SocketAddrV4) -> bool {
        let ip = address.ip();
        let is_sound = address.port() != 0 && !ip.is_unspecified() && !ip.is_multicast();
        is_sound && (self.allow_private || !(ip.is_private() || ip.is_loopback()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_addresses_are_refused() {
        let (open, private) = (Config::default(), Config { allow_private: true, ..Config::default() });
        for (address, is_open, is_private) in [
            ("8.8.8.8:5", true, true),
            ("8.8.8.8:0", false, false),
            ("0.0.0.0:5", false, false),
            ("224.0.0.1:5", false, false),
            ("127.0.0.1:5", false, true),
            ("10.1.2.3:5", false, true),
            ("172.16.0.1:5", false, true),
            ("192.168.0.1:5", false, true),
        ] {
            let address = address.parse().unwrap();
            assert_eq!((open.is_allowed(&address), private.is_allowed(&address)), (is_open, is_private), "{address}");
        }
    }
}
