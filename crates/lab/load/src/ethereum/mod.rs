//! Load on a node that speaks Ethereum's JSON-RPC: raw transactions go to it in batches.
//!
//! reads   the node's answers and blocks; a key file
//! writes  transactions; a [`Report`](crate::report::Report)
//! memory  with signing ahead about 300 B a transaction, else 100 B for each that was sent
//! drops   nothing: every transaction that was sent ends in one of [`Outcome`](crate::outcome::Outcome)
//!
//! The walk: accounts ([`account`](crate::account)) → money for them ([`fund`]) → contracts where some are called
//! ([`run::set_up`]) → what to send ([`workload`]) → send it ([`sender`], of each account by its [`queue`]) → read
//! blocks beside that ([`collect`]) → count ([`run`]). [`inspect`] shows what a node has.

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
