//! command: shared code of all commands of the program, for any chain or tool.
//!
//! reads   signals, this process's arguments and threads, a node's JSON-RPC
//! writes  standard output and standard error
//!
//! A command prints lines with [`output`] and shows progress with [`progress`] or [`bar`]. [`stop`] reports requests to
//! end, and enforces them. [`exit_code`] maps the result to an exit code. [`service_manager`] tells systemd
//! that a node serves.

#![deny(clippy::print_stdout, clippy::print_stderr)] // `output` does not panic when nobody reads.

pub mod bar;
pub mod did_you_mean;
pub mod exit_code;
pub mod node_rpc;
pub mod numbers;
pub mod output;
pub mod progress;
pub mod secrets;
pub mod service_manager;
pub mod shell;
pub mod stop;
pub mod time;

/// Error message for lab features in a program built without the feature `lab`.
pub const NO_LAB: &str = "this hearth was built without the lab";
