//! serve: the common parts of a node's servers, for any protocol on top.
//!
//! reads   connections, requests' heads and bodies
//! writes  its own responses if a request does not reach the service: too many, too long, too slow
//! memory  bounded by [`server::Bounds`] and [`body::BodyBounds`]: connections, and the size of each client's requests;
//!         by [`body::BodyRoom`]: long requests and answers over HTTP together
//! drops   idle connections if a new one needs the place, connections over the limit, and clients that do not read:
//!         counted by the server's [`Counts`]
//!
//! Data flow: [`server`] (sockets, threads, connections and their end) → the caller's [`Service`] → [`body`] for a
//! request's body, [`jsonrpc`] for its calls, [`mod@file`] for answers from a file, or [`websocket`] for a lasting
//! connection. [`origin`] checks the origin of requests, [`rate`] their frequency. [`fault`] keeps the paths in the
//! node's own errors out of answers. [`dashboard`] is a page for browsers, which uses the service of the same address.

pub mod body;
mod connection_slots;
pub mod counters;
pub mod dashboard;
pub mod fault;
pub mod file;
pub mod jsonrpc;
pub mod origin;
pub mod rate;
pub mod server;
mod stream;
pub mod websocket;

pub use axum::body::{Body, Bytes};
pub use axum::http;
pub use counters::{CountedEvent, Counts};
pub use server::{Connection, Listener, Server, Service};
