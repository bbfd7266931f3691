//! The binary from a user's view: started as a process, reached through its ports, stopped or killed.
//!
//! Each test has its own name, ports and folder, so that all may run in parallel. No test sleeps: every wait is for a
//! condition, with a deadline.

mod archives;
mod bench;
mod beside;
mod client;
mod cluster;
mod cluster_soak;
mod cluster_up;
mod cometbft;
mod configure;
mod counts;
mod dashboard;
mod demand;
mod developer;
mod durability;
mod ending;
mod evm;
mod exit_codes;
mod fates;
mod faults;
mod follow;
mod history;
mod hostile;
mod hostile_soak;
mod idle;
mod isolation;
mod keys;
mod kills;
mod load_ethereum;
mod load_solana;
mod metrics;
mod mistakes;
mod monitor;
mod node;
mod profile;
mod restart;
mod service;
mod set_identity;
mod storm;
mod target;
mod terminal;
mod tune_build;
mod tune_layout;
mod tune_machine;
mod two_blocks;
mod unwatchable;
mod validator;
mod validators;
mod votes;
mod walk;
mod wallet;
