//! Ping and pong: a node that answers a token has proven its address.
//!
//! reads   128 bytes
//! writes  128 bytes
//! source  `solana-gossip` 4.2.2, `ping_pong.rs`; repair servers use the same format

use super::read::{Reader, Result};
use crate::consts::{Hash, Pubkey, Signature};

/// Bytes of a ping, and of a pong.
pub const PING_SIZE: usize = 128;

/// Domain prefix of a pong's hash, which is SHA-256 over this and the 32 bytes of the token.
pub const PONG_DOMAIN: [u8; 16] = *b"SOLANA_PING_PONG";

/// A challenge that only a node at the address can answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ping {
    /// The identity of the sender, which signs.
    pub from: Pubkey,
    /// The token to hash.
    pub token: [u8; 32],
    /// The sender's signature over the token.
    pub signature: Signature,
}

/// The answer to a [`Ping`], signed by the node that answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pong {
    /// The identity of the node that answers, which signs.
    pub from: Pubkey,
    /// The hash of [`PONG_DOMAIN`] and the token.
    pub hash: Hash,
    /// The sender's signature over the hash.
    pub signature: Signature,
}

const _: () = assert!(size_of::<Ping>() == PING_SIZE && size_of::<Pong>() == PING_SIZE);

impl Ping {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self> {
        Ok(Self { from: reader.array()?, token: reader.array()?, signature: reader.array()? })
    }

    /// Parses exactly a ping, without the tag of any protocol.
    pub fn parse(bytes: &[u8; PING_SIZE]) -> Self {
        Self::read(&mut Reader::new(bytes)).expect("128 bytes")
    }

    /// Appends its 128 bytes.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.from);
        out.extend_from_slice(&self.token);
        out.extend_from_slice(&self.signature);
    }
}

impl Pong {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self> {
        Ok(Self { from: reader.array()?, hash: reader.array()?, signature: reader.array()? })
    }

    /// Parses exactly a pong, without the tag of any protocol.
    pub fn parse(bytes: &[u8; PING_SIZE]) -> Self {
        Self::read(&mut Reader::new(bytes)).expect("128 bytes")
    }

    /// Appends its 128 bytes.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.from);
        out.extend_from_slice(&self.hash);
        out.extend_from_slice(&self.signature);
    }
}
