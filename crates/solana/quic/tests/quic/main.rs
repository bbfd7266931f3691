//! Both sides of the protocol on virtual time, over a network that loses, doubles and reorders.

mod common;
mod deferred;
mod hostile;
mod memory;
mod stake;
mod transfer;
