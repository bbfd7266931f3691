//! command: what every command of the program shares, whichever chain or tool it is for.
//!
//! reads   signals, this process's arguments and threads, a node's JSON-RPC
//! writes  standard output and standard error
//!
//! A command says lines with [`output`] and shows how far it is with [`progress`] or [`bar`]. [`stop`] says when it is
//! asked to end, and sees to it that it does. What it ends with becomes an exit code by [`exit_code`].

#![deny(clippy::print_stdout, clippy::print_stderr)] // `output` does not panic when nobody reads.

pub mod bar;
pub mod did_you_mean;
pub mod exit_code;
pub mod node_rpc;
pub mod numbers;
pub mod output;
pub mod progress;
pub mod secrets;
pub mod shell;
pub mod stop;

/// What a program that was built without the feature `lab` says where something of the lab is asked for.
pub const NO_LAB: &str = "this hearth was built without the lab";
