//! Values that the file writes as text: each is parsed once, when the file is read.
//!
//! The errors here name the text and the expected form; file, line and key precede them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;
use std::{fmt, io, vec};

use hearth_wire::Pubkey;
use hearth_wire::base58::{decode_32, encode_32};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::validator::Validator;

/// Declares keys whose value is one of several words.
macro_rules! choices {
    ($($(#[doc = $doc:literal])+ pub enum $name:ident {
        $($(#[doc = $help:literal])+ $choice:ident = $word:literal,)+
    })+) => {
        $(
            $(#[doc = $doc])+
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub enum $name {
                $($(#[doc = $help])+ $choice,)+
            }

            impl FromStr for $name {
                type Err = String;

                fn from_str(text: &str) -> Result<Self, String> {
                    match text {
                        $($word => Ok(Self::$choice),)+
                        _ => Err(format!("`{text}` is none of {}", [$($word),+].join(", "))),
                    }
                }
            }

            impl fmt::Display for $name {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str(match self {
                        $(Self::$choice => $word,)+
                    })
                }
            }
        )+
    };
}

choices! {
    /// Pages of the workspace.
    pub enum PageSize {
        /// The system's usual ones.
        Normal = "normal",
        /// Pages of 2 MiB, which the operator must have reserved.
        Huge = "huge",
        /// Pages of 1 GiB, which the operator must have reserved.
        Gigantic = "gigantic",
    }

    /// When a chain begins its next slot.
    pub enum SlotTiming {
        /// One after the other.
        Clock = "clock",
        /// When there is work.
        OnDemand = "on-demand",
    }

    /// Limits on peers of the TPU.
    pub enum PeerLimits {
        /// No peer is throttled, which fits local tests.
        Local = "local",
        /// The cluster's values, by stake.
        Production = "production",
    }

    /// How pack fills a block.
    pub enum ScheduleStrategy {
        /// As fast as the banks go.
        Perf = "perf",
        /// Over the whole slot.
        Balanced = "balanced",
    }
}

/// The tiles that have a process of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// No tile: all are threads of the node's process.
    None,
    /// The tile sign, which has the key.
    Auto,
}

impl FromStr for Isolation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self::None),
            "auto" => Ok(Self::Auto),
            // A process for each group of tiles.
            "groups" => Err("`groups` is not supported yet; `auto` gives the tile sign a process of its own".into()),
            _ => Err(format!("`{text}` is neither `none` nor `auto`")),
        }
    }
}

impl fmt::Display for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Auto => "auto",
        })
    }
}

/// An address of the chain, in base58.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address(pub Pubkey);

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        decode_32(text).map(Self).map_err(|_| format!("`{text}` is not an address"))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&encode_32(&self.0))
    }
}

/// A gossip entrypoint: `host:port`, where the host is an IPv4 address or a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entrypoint(String);

impl FromStr for Entrypoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match is_entrypoint(text) {
            true => Ok(Self(text.into())),
            false => Err(format!("`{text}` is not a `host:port`, the host an IPv4 address or a name")),
        }
    }
}

impl fmt::Display for Entrypoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl ToSocketAddrs for Entrypoint {
    type Iter = vec::IntoIter<SocketAddr>;

    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        self.0.to_socket_addrs()
    }
}

fn is_entrypoint(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let is_name = |host: &str| {
        let is_label = |label: &str| {
            (1..=63).contains(&label.len())
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
        };
        host.split('.').all(is_label) && host.bytes().any(|byte| byte.is_ascii_alphabetic())
    };
    let is_port = port.parse::<u16>().is_ok_and(|port| port != 0);
    is_port && (host.parse::<Ipv4Addr>().is_ok() || is_name(host))
}

/// Our own value types are read and written as text.
macro_rules! as_text {
    ($($kind:ty),+) => {
        $(
            impl Serialize for $kind {
                fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                    to.collect_str(self)
                }
            }

            impl<'de> Deserialize<'de> for $kind {
                fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                    String::deserialize(from)?.parse().map_err(D::Error::custom)
                }
            }
        )+
    };
}

as_text!(PageSize, SlotTiming, PeerLimits, Isolation, ScheduleStrategy, Address, Entrypoint, Validator);

/// Reads an IP address.
pub fn ip<'de, D: Deserializer<'de>>(from: D) -> Result<IpAddr, D::Error> {
    parsed(&String::deserialize(from)?, "IP address")
}

/// Reads an IPv4 address.
pub fn ipv4<'de, D: Deserializer<'de>>(from: D) -> Result<Ipv4Addr, D::Error> {
    parsed(&String::deserialize(from)?, "IPv4 address")
}

/// Reads a list of `ip:port`.
pub fn sockets<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<SocketAddr>, D::Error> {
    Vec::<String>::deserialize(from)?.iter().map(|text| parsed(text, "`ip:port`")).collect()
}

fn parsed<T: FromStr, E: Error>(text: &str, what: &str) -> Result<T, E> {
    text.parse().map_err(|_| E::custom(format_args!("`{text}` is no {what}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn isolation_is_a_word_of_those_that_there_are() {
        for word in ["none", "auto"] {
            assert_eq!(word.parse::<Isolation>().unwrap().to_string(), word);
        }
        assert!("groups".parse::<Isolation>().unwrap_err().contains("not supported yet"));
        assert!("all".parse::<Isolation>().unwrap_err().contains("neither `none` nor `auto`"));
    }

    #[test]
    fn entrypoints_may_have_names() {
        for good in ["127.0.0.1:8001", "localhost:8001", "entrypoint.mainnet-beta.example.com:8001"] {
            assert_eq!(good.parse::<Entrypoint>().unwrap().to_string(), good);
        }
        let too_long = format!("{}:8001", "a".repeat(64));
        for bad in
            ["localhost", "localhost:", "localhost:0", "host:99999", "a..b:1", "1.2.3:1", "a b:1", "[::1]:1", ":1"]
                .into_iter()
                .chain([too_long.as_str()])
        {
            assert!(bad.parse::<Entrypoint>().is_err(), "{bad}");
        }
    }
}
