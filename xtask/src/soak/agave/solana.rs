//! The `solana` command line, unmodified.
//!
//! reads   what a command prints
//! memory  the output of one command

use std::path::Path;
use std::process::{Command, Stdio};

use super::Lab;
use super::nodes::Remote;

/// A command must end within so many seconds.
const WITHIN_S: u64 = 90;

/// The exit code of a command that did not end in time: that of `timeout`.
pub const TIMED_OUT: i32 = 124;

/// The output of a command, and its exit code: [`TIMED_OUT`] if it did not end in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    pub code: Option<i32>,
    pub text: String,
}

impl Said {
    /// The signature that the output names.
    pub fn signature(&self) -> Option<String> {
        let named = self.text.lines().find_map(|line| line.trim().strip_prefix("Signature:"));
        named.map(|signature| signature.trim().to_owned())
    }
}

/// Whether the program is there.
pub fn is_there(lab: &Lab) -> bool {
    lab.programs.join("solana").is_file()
}

/// Runs a command against a node. `payer` is the file of the key that signs.
pub fn say(lab: &Lab, node: Remote, payer: &Path, words: &[&str], seconds: u64) -> Result<Said, String> {
    let mut command = Command::new("timeout");
    command.arg(seconds.to_string()).arg(lab.programs.join("solana"));
    command.args(["--url", &node.url(), "--keypair"]).arg(payer).args(words);
    // Its settings are in the home folder: it finds none.
    command.env("HOME", &lab.folder).current_dir(&lab.folder).stdin(Stdio::null());
    let output = command.output().map_err(|error| format!("cannot start `solana {}`: {error}", words.join(" ")))?;
    let text = [&output.stdout[..], &output.stderr[..]].map(|part| String::from_utf8_lossy(part).into_owned());
    Ok(Said { code: output.status.code(), text: text.concat() })
}

/// Runs a command that must succeed, paid by the faucet.
pub fn must(lab: &Lab, node: Remote, words: &[&str]) -> Result<Said, String> {
    println!("$ solana --url {} {}", node.url(), words.join(" "));
    let said = say(lab, node, &lab.key("faucet"), words, WITHIN_S)?;
    match said.code {
        Some(0) => Ok(said),
        code => Err(format!("`solana {}` at {}: exit code {code:?}: {}", words.join(" "), node.0, said.text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signature_is_found_in_the_output() {
        let said = |text: &str| Said { code: Some(0), text: text.to_owned() };
        assert_eq!(said("x\n\nSignature: 5abc\n").signature(), Some("5abc".into()));
        assert_eq!(said("Slot: 7").signature(), None);
    }
}
