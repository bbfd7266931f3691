//! Exit codes: each error that can end a command defines its own.
//!
//! An error becomes a [`Failure`] only if it implements [`ExitCode`], so no command can be forgotten here. A panic ends
//! the process with 101.

use std::error::Error;
use std::{fmt, io};

use hearth_keys::KeyError;

/// Exit code of a command that failed.
pub const FAILED: u8 = 1;
/// The command line or the configuration is wrong.
pub const WRONG_USE: u8 = 2;
/// Exit code for a machine or a comparison that falls short of the requirement.
pub const MISSED: u8 = 3;
/// The chain has rules that this program lacks. A restart does not help, another version of the program may.
pub const UNSUPPORTED_CHAIN: u8 = 6;
/// The command was interrupted: the shell's code for SIGINT.
pub const INTERRUPTED: u8 = 130;

/// An error that a command can end with.
pub trait ExitCode: Error {
    /// The code that the process ends with.
    fn exit_code(&self) -> u8 {
        FAILED
    }

    /// Whether the command has printed the error as its result, so that no message follows.
    fn is_printed(&self) -> bool {
        false
    }
}

impl ExitCode for io::Error {}

impl ExitCode for serde_json::Error {}

impl ExitCode for toml::ser::Error {}

impl ExitCode for KeyError {}

/// The error of any command.
pub struct Failure(Box<dyn ExitCode>);

impl Failure {
    /// The code that the process ends with.
    pub fn exit_code(&self) -> u8 {
        self.0.exit_code()
    }

    /// Whether the command has printed the error as its result.
    pub fn is_printed(&self) -> bool {
        self.0.is_printed()
    }
}

impl<E: ExitCode + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(Box::new(error))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
