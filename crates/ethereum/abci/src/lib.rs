//! CometBFT's application protocol, ABCI 2 as of CometBFT 0.38: messages, and a server for its four connections.
//!
//! CometBFT opens four connections to the application: consensus, mempool, query and snapshot. Each has its own thread
//! ([`server`]), so that CheckTx proceeds while FinalizeBlock runs; the ledger behind [`Application`] decides what they
//! share. A frame ([`frame`]) is the length of a Protobuf message as a varint, then the message; answers come in the
//! order of the requests and are sent when CometBFT asks for a flush.
//!
//! source  CometBFT's `spec/abci` and `proto/tendermint/abci/types.proto`; Protobuf's wire format

pub mod address;
pub mod application;
pub mod client;
pub mod frame;
pub mod request;
pub mod response;
pub mod server;
pub mod types;

pub use address::Address;
pub use application::{Application, Exception};
pub use client::Client;
pub use server::Server;

pub use bytes::Bytes;
