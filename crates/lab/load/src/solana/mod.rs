//! Load on a node that speaks Solana's JSON-RPC: sends transactions to its TPU over QUIC, as wallets and bots do.
//!
//! reads   the node's answers and blocks; a key file
//! writes  transactions; a [`Report`](crate::report::Report)
//! memory  see [`sender`] and [`Outcomes`](crate::outcome::Outcomes): 400 B for each transaction that is not yet in a
//!         block
//! drops   nothing: every transaction that was sent ends in one of [`Outcome`](crate::outcome::Outcome)
//!
//! The stages are those of [`crate`]: accounts ([`keys`]) → money for them ([`fund`]) → a token if one is sent
//! ([`setup`]) → what to send ([`workload`]) → send it ([`sender`], over [`tpu`](crate::tpu) or RPC) → read blocks
//! meanwhile ([`collect`]) → count ([`run`]). [`inspect`] shows the state of a node.
//!
//! A transaction is identified by the first half of its signature: a curve point determined by the key and the message,
//! so two transactions never share it.

pub mod collect;
mod deliver;
pub mod fund;
pub mod inspect;
pub mod keys;
pub mod node;
pub mod retry;
pub mod run;
pub mod sender;
pub mod setup;
pub mod workload;

pub use node::Node;
