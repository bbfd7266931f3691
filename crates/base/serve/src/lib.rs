//! serve: what every server of a node is made of, whatever its clients speak.
//!
//! reads   connections, requests' heads and bodies
//! writes  answers of its own where a request does not come to the service: too many, too long, too slow
//! memory  [`server::Bounds`] and [`body::BodyBounds`] bound it: connections, and the size of what each may send
//! drops   idle connections where there is no place for a new one, connections over the limit, and clients that do not
//!         read: counted by the server's [`Counts`]
//!
//! The walk: [`server`] (sockets, threads, connections and their end) → the caller's [`Service`] → [`body`] for a
//! request's body, [`jsonrpc`] for what it asks, [`mod@file`] for an answer out of a file, or [`websocket`] for a
//! connection that goes on. [`gate`] knows who asks, [`rate`] how often. [`fault`] keeps the paths in the node's own
//! errors for its log. [`dashboard`] is a page for browsers, which asks the service of the same address.

pub mod body;
pub mod counters;
pub mod dashboard;
pub mod fault;
pub mod file;
pub mod gate;
pub mod jsonrpc;
mod places;
pub mod rate;
pub mod server;
mod stream;
pub mod websocket;

pub use axum::body::{Body, Bytes};
pub use axum::http;
pub use counters::{Counted, Counts};
pub use server::{Connection, Listener, Server, Service};
