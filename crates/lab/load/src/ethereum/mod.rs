//! Load on a node that speaks Ethereum's JSON-RPC: sends raw transactions in batches.
//!
//! reads   the node's answers and blocks; a key file
//! writes  transactions; a [`Report`](crate::report::Report)
//! memory  about 300 B per transaction when signing ahead, otherwise 100 B per sent transaction
//! drops   nothing: every transaction that was sent ends in one of [`Outcome`](crate::outcome::Outcome)
//!
//! The stages: accounts ([`account`](crate::account)) → money for them ([`fund`]) → contracts if the load calls any
//! ([`run::set_up`]) → what to send ([`workload`]) → send it ([`sender`], with a [`queue`] per account) → read blocks
//! meanwhile ([`collect`]) → count ([`run`]). [`inspect`] shows the state of a node.

pub mod collect;
pub mod fund;
pub mod inspect;
pub mod node;
pub mod queue;
pub mod run;
pub mod sender;
mod setup;
pub mod shared;
pub mod workload;

pub use node::Node;
