//! pipeline: the tiles, one folder each, in the order in which a packet meets them.
//!
//! `net` → `quic` → `verify` → `dedup` → `pack` → `bank` → `poh` → `shred` → `store`; in a cluster `store` → `replay` ⇄
//! `exec`, `replay` ⇄ `tower` → `txsend`; `gossip` learns which nodes there are and what they vote for, on behalf of
//! `tower`; `repair` requests what `shred` lacks, and `rserve` serves it from `store`; `sign` answers `shred`,
//! `repair`, `rserve`, `tower`, `txsend` and `gossip`, `metric` reads every tile's counters; `benchg` → `benchs`
//! generate load, `bencho` observes it.
//!
//! [`kinds`] declares each kind of tile; [`topology`] defines which links join them; [`links`] defines the messages on
//! each link; [`node::apart`] runs a tile in a process of its own.

pub mod bank;
pub mod benchg;
pub mod bencho;
pub mod benchs;
pub mod capture;
pub mod cluster_view;
pub mod dedup;
pub mod drops;
pub mod exec;
pub mod failure;
pub mod gossip;
pub mod identity;
pub mod key_pipe;
pub mod kinds;
pub mod links;
pub mod metric;
pub mod net;
pub mod node;
pub mod pack;
pub mod poh;
pub mod quic;
pub mod repair;
pub mod replay;
pub mod rserve;
pub mod shred;
pub mod sign;
pub mod store;
pub mod tag_cache;
mod timer;
pub mod topology;
pub mod tower;
pub mod txsend;
pub mod verify;
pub mod voters;
