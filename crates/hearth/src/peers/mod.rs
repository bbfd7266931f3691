//! What makes a node one of a cluster, beside its tiles: how it joins, and why it can no longer be in it.
//!
//! reads   the configuration; while the node joins: gossip, and the genesis and a snapshot of other nodes; after that,
//!         requests to the IP echo server
//! writes  the genesis and the snapshot, in the ledger's folder; answers to requests; what the tile gossip is made of
//! memory  while a node joins, gossip's table, see `docs/gossip.md`
//!
//! The walk: [`join`] (who is there, their genesis) → the tile gossip stays in touch, others take shreds, execute what
//! is whole, vote and take turns; [`divergence`] says why a node can no longer be in its cluster.

pub mod divergence;
pub mod echo;
pub mod gossip;
pub mod join;
pub mod socket;

use std::io;
use std::net::{SocketAddr, SocketAddrV4, ToSocketAddrs};

use crate::config::Config;
use crate::say::note;
use join::JoinError;

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

/// The nodes to begin with: every IPv4 address that a host's name has. A name that is not known now is left out where
/// another one is.
pub fn entrypoints(config: &Config) -> Result<Vec<SocketAddrV4>, JoinError> {
    let (mut found, mut unknown) = (vec![], None);
    for entrypoint in &config.gossip.entrypoints {
        match resolve(entrypoint) {
            Ok(addresses) => {
                let new: Vec<_> = addresses.into_iter().filter(|address| !found.contains(address)).collect();
                found.extend(new);
            }
            Err(source) => {
                let why = JoinError::Unresolved { entrypoint: entrypoint.clone(), source };
                if let Some(before) = unknown.replace(why) {
                    note(format_args!("notice: {before}"));
                }
            }
        }
    }
    match unknown {
        Some(why) if found.is_empty() => Err(why),
        Some(why) => {
            note(format_args!("notice: {why}; the node begins with the others"));
            Ok(found)
        }
        None => Ok(found),
    }
}

/// The IPv4 addresses of `host:port`.
fn resolve(entrypoint: &str) -> io::Result<Vec<SocketAddrV4>> {
    let all = entrypoint.to_socket_addrs()?;
    let found: Vec<SocketAddrV4> = all
        .filter_map(|address| match address {
            SocketAddr::V4(v4) => Some(v4),
            SocketAddr::V6(_) => None,
        })
        .collect();
    if found.is_empty() { Err(io::Error::other("it has no IPv4 address")) } else { Ok(found) }
}

/// Whether this is `host:port`, with an IPv4 address or a name as the host.
pub fn is_entrypoint(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let is_name = |host: &str| {
        let is_label = |label: &str| {
            (1..=63).contains(&label.len())
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
        };
        host.split('.').all(is_label) && host.bytes().any(|byte| byte.is_ascii_alphabetic())
    };
    let is_port = port.parse::<u16>().is_ok_and(|port| port != 0);
    is_port && (host.parse::<std::net::Ipv4Addr>().is_ok() || is_name(host))
}

/// Milliseconds of Unix time.
fn now_ms() -> u64 {
    hearth_ring::unix_time().as_millis() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entrypoints_may_have_names() {
        for good in ["127.0.0.1:8001", "localhost:8001", "entrypoint.mainnet-beta.example.com:8001"] {
            assert!(is_entrypoint(good), "{good}");
        }
        for bad in
            ["localhost", "localhost:", "localhost:0", "host:99999", "a..b:1", "1.2.3:1", "a b:1", "[::1]:1", ":1"]
        {
            assert!(!is_entrypoint(bad), "{bad}");
        }
        let mut config = Config::default();
        config.gossip.entrypoints = vec!["localhost:8001".into(), "127.0.0.1:8001".into()];
        assert_eq!(entrypoints(&config).unwrap(), ["127.0.0.1:8001".parse().unwrap()]);
        // Longer than a label may be, so that no server is asked for it.
        let unknown = format!("{}:8001", "a".repeat(64));
        assert!(!is_entrypoint(&unknown));
        config.gossip.entrypoints = vec![unknown.clone()];
        let why = entrypoints(&config).unwrap_err().to_string();
        assert!(why.contains("gossip.entrypoints") && why.contains(&unknown), "{why}");
        config.gossip.entrypoints.push("127.0.0.1:8002".into());
        assert_eq!(entrypoints(&config).unwrap(), ["127.0.0.1:8002".parse().unwrap()]);
    }

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
