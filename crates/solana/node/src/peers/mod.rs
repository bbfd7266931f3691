//! A node's membership in a cluster, besides its tiles: joining, and detecting a divergence.
//!
//! reads   the configuration; while joining: gossip, and the genesis and a snapshot of peers; afterwards, requests to
//!         the IP echo server
//! writes  the genesis and the snapshot, in the ledger folder; responses; the configuration of the gossip tile
//! memory  while joining, gossip's table, see `docs/gossip.md`
//!
//! [`join`] finds the peers and their genesis; then the gossip tile stays in touch, and other tiles take shreds, replay
//! whole blocks, vote and lead; [`divergence`] explains why a node no longer fits its cluster.

pub mod divergence;
pub mod gossip;
pub mod ip_echo;
pub mod join;
pub mod socket;

use std::fmt::Display;
use std::io;
use std::net::{SocketAddr, SocketAddrV4, ToSocketAddrs};

use hearth_command::output::note;
use hearth_wire::Pubkey;

use crate::config::Config;
use join::JoinError;

/// The entrypoints: every IPv4 address of each host name. An unresolvable name is left out if another one resolves.
pub fn entrypoints<T: ToSocketAddrs + Display>(given: &[T]) -> Result<Vec<SocketAddrV4>, JoinError> {
    let (mut found, mut unknown) = (vec![], None);
    for entrypoint in given {
        match resolve(entrypoint) {
            Ok(addresses) => {
                let new: Vec<_> = addresses.into_iter().filter(|address| !found.contains(address)).collect();
                found.extend(new);
            }
            Err(source) => {
                let why = JoinError::Unresolved { entrypoint: entrypoint.to_string(), source };
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

/// The nodes whose word on snapshots counts. Where only these may serve one there must be some: else none could be
/// taken, and nothing would say why.
pub fn known_validators(config: &Config) -> Result<Vec<Pubkey>, JoinError> {
    let known: Vec<Pubkey> = config.snapshots.known_validators.iter().map(|address| address.0).collect();
    let none_may_serve = config.snapshots.only_known_rpc && known.is_empty();
    if none_may_serve { Err(JoinError::NoKnownValidators) } else { Ok(known) }
}

/// The IPv4 addresses of `host:port`.
fn resolve(entrypoint: &impl ToSocketAddrs) -> io::Result<Vec<SocketAddrV4>> {
    let all = entrypoint.to_socket_addrs()?;
    let found: Vec<SocketAddrV4> = all
        .filter_map(|address| match address {
            SocketAddr::V4(v4) => Some(v4),
            SocketAddr::V6(_) => None,
        })
        .collect();
    if found.is_empty() { Err(io::Error::other("it has no IPv4 address")) } else { Ok(found) }
}

/// Milliseconds of Unix time.
fn now_ms() -> u64 {
    hearth_ring::unix_time().as_millis() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Address;

    #[test]
    fn only_known_validators_must_be_named() {
        let mut config = Config::default();
        assert!(known_validators(&config).unwrap().is_empty());
        config.snapshots.only_known_rpc = true;
        assert!(matches!(known_validators(&config), Err(JoinError::NoKnownValidators)));
        config.snapshots.known_validators = vec![Address([7; 32])];
        assert_eq!(known_validators(&config).unwrap(), [[7; 32]]);
    }

    #[test]
    fn unknown_entrypoint_is_skipped_beside_known() {
        let known = |at: &str| vec![at.parse::<SocketAddrV4>().unwrap()];
        assert_eq!(entrypoints(&["localhost:8001", "127.0.0.1:8001"]).unwrap(), known("127.0.0.1:8001"));
        // Longer than a label may be, so that no name server is queried.
        let unknown = format!("{}:8001", "a".repeat(64));
        let why = entrypoints(&[unknown.as_str()]).unwrap_err().to_string();
        assert!(why.contains("gossip.entrypoints") && why.contains(&unknown), "{why}");
        assert_eq!(entrypoints(&[unknown.as_str(), "127.0.0.1:8002"]).unwrap(), known("127.0.0.1:8002"));
    }
}
