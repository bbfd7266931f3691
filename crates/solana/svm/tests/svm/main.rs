//! Transactions that call programs, on a ledger of their own.

mod common;
mod differential;
mod headers;
mod loader;
mod programs;
