//! wire: the network formats of the cluster, and nothing else.
//!
//! reads   byte slices as they arrive: transactions, votes, entries, shreds, gossip
//! writes  byte buffers that the caller owns
//! memory  parsers borrow and allocate nothing; builders own one `Vec` for what they build
//! drops   nothing itself: each refusal is a `Copy` error with a kind and a byte offset, which the caller counts
//! source  the wire formats of the cluster's published crates (`solana-message`, `solana-transaction`, `solana-entry`),
//!         which are the oracles of this crate's tests
//!
//! No I/O, no clock, no threads, no unsafe code.

pub mod account_set;
pub mod base58;
pub mod compact;
pub mod consts;
pub mod entry;
pub mod gossip;
pub mod hash64;
pub mod message;
pub mod program;
pub mod repair;
pub mod shred;
pub mod tower_file;
pub mod transfer;
pub mod txn;
pub mod vote;

pub use account_set::AccountSet;
pub use consts::{Hash, PACKET_DATA_SIZE, Pubkey, Signature};
pub use hash64::{TagHasher, hash64};
pub use transfer::TransferTemplate;
pub use txn::{CompiledInstruction, ParseError, ParseErrorKind, Txn, Version};
