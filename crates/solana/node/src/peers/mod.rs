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
pub mod gossip;
pub mod ip_echo;
pub mod join;
pub mod socket;

use std::fmt::Display;
use std::io;
use std::net::{SocketAddr, SocketAddrV4, ToSocketAddrs};

use hearth_command::output::note;

use join::JoinError;

/// The nodes to begin with: every IPv4 address that a host's name has. A name that is not known now is left out where
/// another one is.
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

    #[test]
    fn unknown_entrypoint_is_skipped_beside_known() {
        let known = |at: &str| vec![at.parse::<SocketAddrV4>().unwrap()];
        assert_eq!(entrypoints(&["localhost:8001", "127.0.0.1:8001"]).unwrap(), known("127.0.0.1:8001"));
        // Longer than a label may be, so that no server is asked for it.
        let unknown = format!("{}:8001", "a".repeat(64));
        let why = entrypoints(&[unknown.as_str()]).unwrap_err().to_string();
        assert!(why.contains("gossip.entrypoints") && why.contains(&unknown), "{why}");
        assert_eq!(entrypoints(&[unknown.as_str(), "127.0.0.1:8002"]).unwrap(), known("127.0.0.1:8002"));
    }
}
