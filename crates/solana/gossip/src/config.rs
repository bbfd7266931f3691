//! What gossip is told at its start, and the cluster's constants.
//!
//! reads   nothing
//! writes  numbers
//! memory  none
//! source  `solana-gossip` 4.2.2 for every constant that has a name there; bounds of memory beyond `ORIGINS_MAX` are
//!         ours

use std::net::SocketAddrV4;

use hearth_wire::PACKET_DATA_SIZE;

/// How long a node without stake is known after it was last heard of, and how far clocks may be apart, ms.
pub const TIMEOUT_MS: u64 = 15_000;
/// How often the own contact info is signed anew, and the set of nodes that is pushed to changes, ms.
pub const REFRESH_MS: u64 = TIMEOUT_MS / 2;
/// How often others are asked for what is missing, ms.
pub const PULL_MS: u64 = 500;
/// How often what has run out is dropped, ms.
pub const PURGE_MS: u64 = 500;
/// What is new waits no longer than this for others to fill its datagram, ms.
pub const PUSH_MS: u64 = 10;
/// Nodes that were not heard of for this long are neither asked nor pushed to, ms.
pub const ACTIVE_MS: u64 = 60_000;
/// How long the hash of a value that was replaced is told to others, so that they do not send it, ms.
pub const PURGED_MS: u64 = 5 * TIMEOUT_MS;
/// The same for one that was refused, ms.
pub const FAILED_MS: u64 = 20_000;
/// For how long a pong counts, ms.
pub const PONG_MS: u64 = 1_280_000;
/// The least time between a ping to a node and the next, ms: of the cluster's nodes from the first on. Here a lost ping
/// is repeated sooner: after [`PING_FIRST_MS`], then after twice that, and so on up to this.
pub const PING_MS: u64 = 20_000;
/// See [`PING_MS`].
pub const PING_FIRST_MS: u64 = 1_000;
/// After a ping the own contact info is signed anew this much later, ms. The cluster's nodes do not do that.
pub const AFTER_PING_MS: u64 = 1_000;
/// A clock that goes back by more than this was set back, ms; by less it only wavers.
pub const STEP_MS: u64 = 1_000;
/// A prune message counts for so long, ms.
pub const PRUNE_MS: u64 = 500;
/// Nodes that a value is pushed to.
pub const FANOUT: usize = 9;
/// Nodes of which these are drawn.
pub const ACTIVE_SET: usize = 12;
/// A value is pushed to so many nodes in one go at most, all values together.
pub const PUSHES_MAX: usize = 1 << 12;
/// With fewer nodes than this in the map of stakes every value is passed on.
pub const STAKE_FILTER_NODES: usize = 500;
/// Nodes of which values are kept.
pub const ORIGINS_MAX: usize = 8_192;
/// Pings, and pongs, that are remembered.
pub const PINGS_MAX: usize = 126_976;
/// Hashes of values whose signature was checked of late.
pub const CHECKED_MAX: usize = 4_096;
/// Contact infos that wait for a pong.
pub const HELD_MAX: usize = 1_024;
/// What waits for this node's signature.
pub const REQUESTS_MAX: usize = 1_024;
/// Of which so much may be what others make it say: pings, pongs and prunes.
pub const ANSWER_REQUESTS_MAX: usize = REQUESTS_MAX / 4 * 3;
/// How long a signature is waited for, ms.
pub const SIGN_MS: u64 = 5_000;
/// Hashes of replaced values that are remembered, and of refused ones.
pub const HASHES_MAX: usize = 65_536;
/// Addresses whose requests are accounted.
pub const HOSTS_MAX: usize = 16_384;
/// What a host may have scanned for it at once, and in a second.
pub const SCAN_BURST: u64 = 1_048_576;
/// See [`SCAN_BURST`].
pub const SCAN_PER_S: u64 = 262_144;
/// Bytes a second of answers to pull requests, for each node with stake; for two at least.
pub const ANSWERS_PER_S: u64 = 10 * 1_024;
/// Of which so many seconds' worth may come at once, in tenths.
pub const ANSWERS_BURST_TENTHS: u64 = 5;
/// The shortest value: signature, tag, node, slot, time, and what a lowest slot has beside it.
const VALUE_SIZE_MIN: usize = 64 + 4 + 1 + 32 + 8 + 8;
/// Of a value, beside its bytes.
const ENTRY_BYTES: usize = 400;
/// Of a remembered hash, with its time.
const HASH_BYTES: usize = 40;
/// Of a ping and its pong.
const PING_BYTES: usize = 250;
/// Of an address whose requests are accounted.
const HOST_BYTES: usize = 80;
/// Lamports in one SOL.
pub const SOL: u64 = hearth_wire::consts::LAMPORTS_PER_SOL;

/// What gossip is told.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where to begin: the gossip addresses of nodes that are known by other means.
    pub entrypoints: Vec<SocketAddrV4>,
    /// Whether addresses of private networks and of this host count. Off on public clusters.
    pub allow_private: bool,
    /// Nodes of which values are kept; a tenth more for a moment. Those with the least stake go first, of these the
    /// ones that came last.
    pub origins_max: usize,
    /// Bytes of all values; beyond that nodes go by the same order.
    pub table_bytes_max: usize,
    /// Bytes of a node's values: of one with stake, or of any where none has.
    pub origin_bytes_max: usize,
    /// Bytes of the values of a node without stake.
    pub unstaked_origin_bytes_max: usize,
    /// Nodes without stake at one IP address.
    pub unstaked_per_host_max: u32,
    /// Bytes of tables that make signatures of a node quicker to check, at 17 KB a node.
    pub verifier_bytes_max: usize,
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
        }
    }
}

impl Config {
    /// What gossip takes at most, bytes: everything at its bound, with the shortest of values. A cluster of some
    /// thousand nodes takes a hundredth of that.
    pub fn bytes_max(&self) -> u64 {
        let values = self.table_bytes_max + self.table_bytes_max / VALUE_SIZE_MIN * ENTRY_BYTES;
        let hashes = 2 * HASHES_MAX * HASH_BYTES + CHECKED_MAX * 3 * HASH_BYTES;
        let waiting = (HELD_MAX + REQUESTS_MAX) * PACKET_DATA_SIZE;
        let others = PINGS_MAX * PING_BYTES + HOSTS_MAX * HOST_BYTES;
        (values + hashes + waiting + others + self.verifier_bytes_max) as u64
    }

    /// Whether something may be sent to an address, and a node may be at it.
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
    fn addresses_that_nobody_can_be_at_are_refused() {
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
