//! Transactions that call programs, on a ledger of their own.

mod common;
mod differential;
mod features;
mod headers;
mod loader;
mod programs;
