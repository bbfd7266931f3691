//! Load on any node that speaks Ethereum's JSON-RPC or Solana's, from outside: `hearth load`.
//!
//! reads   the node's answers and blocks; a key file; for [`etl`] see there
//! writes  transactions; a [`report::Report`]
//! memory  see [`ethereum`] and [`solana`]
//! drops   nothing: every transaction that was sent ends in one of [`outcome::Outcome`]
//!
//! Nothing here depends on a node's internals: the same load drives ours and any other. [`connect`] finds out which
//! chain a node belongs to.
//!
//! The stages, on either chain: accounts → money for them (`funding_tree`) → what to send ([`tx_mix`]) → send it, at a
//! rate or as fast as the node accepts it ([`run_clock`]) → read blocks meanwhile ([`blocks`]) → count (`summary`) → a
//! [`report`] → compare ([`compare`]). [`etl`] collects block data from logs and nodes.

pub mod account;
pub mod blocks;
pub mod chain;
mod command;
pub mod compare;
pub mod connect;
pub mod error;
pub mod ethereum;
pub mod etl;
mod funding_tree;
mod heights;
pub mod inspect;
mod liveness;
pub mod options;
pub mod outcome;
pub mod page;
mod pprof;
pub mod process;
pub mod profile;
pub mod progress;
pub mod ramp;
pub mod reading;
pub mod receipts;
pub mod refusal;
pub mod report;
pub mod retry;
pub mod rpc;
pub mod run_clock;
mod runner;
pub mod series;
pub mod solana;
mod spans;
mod summary;
pub mod tpu;
pub mod tx_mix;
mod window;

pub use command::{CoinTransfer, CommandError, OpenPurse, Options, Purse, PurseError, run};
