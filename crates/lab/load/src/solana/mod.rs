//! Load on a node that speaks Solana's JSON-RPC: transactions go to its TPU by QUIC, as wallets' and bots' do.
//!
//! reads   the node's answers and blocks; a key file
//! writes  transactions; a [`Report`](crate::report::Report)
//! memory  see [`sender`] and [`Outcomes`](crate::outcome::Outcomes): 400 B for each transaction that no block has yet
//! drops   nothing: every transaction that was sent ends in one of [`Outcome`](crate::outcome::Outcome)
//!
//! The walk is that of [`crate`]: accounts ([`keys`]) → money for them ([`fund`]) → a token where one is sent
//! ([`setup`]) → what to send ([`workload`]) → send it ([`sender`], over [`tpu`](crate::tpu) or RPC) → read blocks
//! beside that ([`collect`]) → count ([`run`]). [`inspect`] shows what a node has.
//!
//! A transaction is known here by the first half of its signature: that half is a point which its key and its bytes
//! determine, so two transactions never share it.

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
