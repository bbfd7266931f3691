//! Ping and pong: who answers a token is really at the address.
//!
//! reads   128 bytes
//! writes  128 bytes
//! memory  none
//! source  `solana-gossip` 4.2.2, `ping_pong.rs`; the servers of repair use the same two

use super::read::{Reader, Result};
use crate::consts::{Hash, Pubkey, Signature};

/// Bytes of a ping, and of a pong.
pub const PING_SIZE: usize = 128;

/// What is hashed before the token: a pong's hash is SHA-256 over this and the 32 bytes of the token.
pub const PONG_DOMAIN: [u8; 16] = *b"SOLANA_PING_PONG";

/// A question that only who is at the address can answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ping {
    /// Who asks.
    pub from: Pubkey,
    /// What the answer is made of.
    pub token: [u8; 32],
    /// `from`'s, over the token.
    pub signature: Signature,
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pong {
    /// Who answers.
    pub from: Pubkey,
    /// Of [`PONG_DOMAIN`] and the token.
    pub hash: Hash,
    /// `from`'s, over the hash.
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
