//! Load on a node that speaks Ethereum's JSON-RPC or Solana's.
//!
//! reads   the node's answers and blocks; a key file
//! writes  transactions; a [`report::Report`]
//! memory  with signing ahead about 300 B a transaction, else 100 B for each that was sent
//! drops   nothing: every transaction that was sent ends in one of [`outcome::Outcome`]
//!
//! The walk: accounts ([`account`]) → money for them ([`fund`]) → what to send ([`workload`]) → send it, at a rate or
//! as fast as the node takes it ([`sender`]) → read blocks beside that ([`collect`]) → count ([`report`])
//! → compare ([`compare`]). [`look`] shows what a node has.

pub mod account;
pub mod asked;
pub mod blocks;
pub mod chain;
pub mod collect;
pub mod compare;
pub mod course;
mod figures;
pub mod fund;
mod heights;
pub mod look;
pub mod mix;
pub mod outcome;
pub mod page;
pub mod patient;
mod pprof;
pub mod process;
pub mod profile;
pub mod queue;
pub mod ramp;
pub mod refusal;
pub mod report;
pub mod rpc;
pub mod run;
pub mod sender;
pub mod series;
mod setup;
mod silence;
pub mod solana;
mod spans;
mod tree;
mod window;
pub mod workload;
