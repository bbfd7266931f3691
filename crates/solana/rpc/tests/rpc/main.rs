//! The RPC as its clients see it: over HTTP and WebSocket, on a chain whose slots the test drives.

mod accounts;
mod admin;
mod bad_input;
mod common;
mod dashboard;
mod epochs;
mod fate;
mod http;
mod inflation;
mod methods;
mod subscriptions;
mod transactions;
mod websocket;
