//! The server before a real chain, asked over sockets.
//!
//! reads   answers of the server
//! writes  requests, by std's sockets on 127.0.0.1
//! memory  a small chain a test

mod accounts;
mod anvil_names;
mod bad_input;
mod blobs;
mod calls;
mod dashboard;
mod dev;
mod durable;
mod endless;
mod explorer;
mod history;
mod instant;
mod metrics;
mod node;
mod outputs;
mod parity;
mod rules;
mod simulate;
mod subscriptions;
mod traces;
mod transactions;
