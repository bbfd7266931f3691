//! The threads of a node that is in a cluster, beside its tiles: gossip, repair's server, agreement; and how it joins.
//!
//! reads   datagrams, requests; the block store
//! writes  views of the cluster for the tiles and the RPC; the ledger; poh's orders
//! memory  gossip's table, see `docs/gossip.md`; a few sets
//!
//! The walk: [`join`] (who is there, their genesis) → [`gossip`] (stays in touch) → the tiles take shreds → [`agree`]
//! executes what is whole, votes and takes turns; [`repair`] serves what others lack, [`forward`] sends
//! on what clients hand in.

pub mod agree;
mod echo;
pub mod forward;
pub mod gossip;
pub mod join;
pub mod repair;
pub mod socket;
pub mod talk;

use std::net::{SocketAddr, SocketAddrV4};
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use hearth_tile::topology::{CounterSpec, ServiceSpec};
use hearth_tile::{CounterKind, CounterSet};

use crate::config::Config;

/// Where a node in a cluster listens beside its other ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterPorts {
    /// Gossip, UDP; the IP echo server, TCP.
    pub gossip: SocketAddrV4,
    /// Shreds down the tree.
    pub tvu: SocketAddrV4,
    /// Shreds that were asked for.
    pub repair: SocketAddrV4,
    /// Requests for shreds.
    pub serve_repair: SocketAddrV4,
}

impl ClusterPorts {
    /// Those of a configuration, if the node is in a cluster and its address is one.
    pub fn of(config: &Config) -> Option<Self> {
        let (gossip, tiles) = (&config.gossip, &config.tiles);
        let ip = gossip.bind_address.parse().ok()?;
        gossip.enabled.then(|| Self {
            gossip: SocketAddrV4::new(ip, gossip.port),
            tvu: SocketAddrV4::new(ip, tiles.shred.shred_listen_port),
            repair: SocketAddrV4::new(ip, tiles.repair.repair_client_listen_port),
            serve_repair: SocketAddrV4::new(ip, tiles.repair.repair_serve_listen_port),
        })
    }

    /// What others are told of another listener: one at all addresses is reached where gossip is. Gossip knows IPv4
    /// alone.
    pub fn told(&self, listener: SocketAddr) -> Option<SocketAddrV4> {
        match listener {
            _ if listener.ip().is_unspecified() => Some(SocketAddrV4::new(*self.gossip.ip(), listener.port())),
            SocketAddr::V4(address) => Some(address),
            SocketAddr::V6(_) => None,
        }
    }
}

/// What the threads count, by the names of their regions in the workspace.
pub fn services() -> [ServiceSpec; 4] {
    let gossip = hearth_cluster::gossip::Counters::HELP.iter().map(|(name, help)| CounterSpec {
        name: (*name).into(),
        kind: CounterKind::Counter,
        help: (*help).into(),
    });
    let gossip = gossip.chain(gossip::Counts::DECLS.iter().map(CounterSpec::from));
    let repair = repair::Counts::DECLS.iter().map(CounterSpec::from);
    let agree = agree::Counts::DECLS.iter().map(CounterSpec::from);
    let links = socket::Counts::DECLS.iter().map(CounterSpec::from);
    [
        ServiceSpec { name: GOSSIP.into(), counters: gossip.collect() },
        ServiceSpec { name: REPAIR.into(), counters: repair.collect() },
        ServiceSpec { name: AGREE.into(), counters: agree.collect() },
        ServiceSpec { name: LINKS.into(), counters: links.collect() },
    ]
}

/// Gossip's name among the services.
pub const GOSSIP: &str = "gossip";
/// That of repair's server.
pub const REPAIR: &str = "repair";
/// That of the thread that executes, chooses among forks, and votes.
pub const AGREE: &str = "agree";
/// That of the emulated links of these threads' sockets.
pub const LINKS: &str = "links";

/// Where a thread counts, once the workspace is there.
pub type Words = Arc<OnceLock<hearth_ring::Counters>>;

/// The nodes to begin with.
pub fn entrypoints(config: &Config) -> Vec<SocketAddrV4> {
    let given = &config.gossip.entrypoints;
    given.iter().map(|address| address.parse().expect("checked when the configuration was read")).collect()
}

/// Milliseconds of Unix time.
fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_at_all_addresses_is_told_where_gossip_is() {
        let mut config = Config::default();
        (config.gossip.enabled, config.gossip.bind_address) = (true, "203.0.113.7".into());
        let ports = ClusterPorts::of(&config).unwrap();
        let told = |listener: &str| ports.told(listener.parse().unwrap()).map(|address| address.to_string());
        assert_eq!(told("0.0.0.0:8899").as_deref(), Some("203.0.113.7:8899"));
        assert_eq!(told("[::]:8899").as_deref(), Some("203.0.113.7:8899"));
        assert_eq!(told("198.51.100.1:8899").as_deref(), Some("198.51.100.1:8899"));
        assert_eq!(told("[2001:db8::1]:8899"), None);
        config.gossip.enabled = false;
        assert_eq!(ClusterPorts::of(&config), None);
    }
}
