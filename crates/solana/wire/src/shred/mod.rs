//! Shreds: the pieces in which a block travels, with Merkle proofs and an erasure code.
//!
//! reads   the bytes of one shred
//! writes  headers, into the caller's buffer
//! memory  a [`Shred`] borrows; nothing is allocated
//! drops   bytes that are not a shred: a [`ShredError`] at its offset
//! source  `solana-ledger` 4.2, shred.rs, shred/merkle.rs, shred/filter.rs
//!
//! ```text
//! common   signature 64, variant u8, slot u64, index u32, shred version u16, set index u32   83 B
//! data     common, parent offset u16, flags u8, size u16        88 B │ entry bytes, zeros
//! code     common, data count u16, code count u16, position u16 89 B │ parity
//! both     … chained root 32, proof 20 × n, [retransmitter's signature 64]
//! ```
//!
//! All integers are little endian. A block is a sequence of sets, each of 32 data shreds and their 32 parity shreds;
//! the leader signs the Merkle root over the 64, and each set contains the root of the previous one. The last set of a
//! block has room for the retransmitter's signature.

mod encode;
mod layout;
mod parse;

pub use encode::{CodeHeader, CommonHeader, DataHeader, flags_for};
pub use layout::*;
pub use parse::{CodeFields, DataFields, Fields, Shred, ShredError, ShredErrorKind};
