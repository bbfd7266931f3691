//! `hearth validator contact-info`: what a running node says of itself in gossip.
//!
//! reads   the node's admin socket
//! writes  a line a socket, or JSON

use std::path::{Path, PathBuf};

use clap::Args;
use hearth_command::output::{self, CommandOutput};
use serde_json::Value;

use super::ValidatorError;
use crate::admin::AdminClient;

/// The lines, in Agave's words, and the fields that they show.
const LINES: [(&str, &str); 12] = [
    ("Identity", "id"),
    ("Gossip", "gossip"),
    ("TVU", "tvu"),
    ("TPU", "tpu"),
    ("TPU QUIC", "tpu_quic"),
    ("TPU Forwards", "tpu_forwards"),
    ("TPU Votes", "tpu_vote"),
    ("RPC", "rpc"),
    ("RPC Pubsub", "rpc_pubsub"),
    ("Serve Repair", "serve_repair"),
    ("Last Updated Timestamp", "last_updated_timestamp"),
    ("Shred Version", "shred_version"),
];

/// The arguments of `hearth validator contact-info`.
#[derive(Args)]
pub struct ContactInfoOptions {
    /// Write it as JSON to FILE, or to standard output without FILE.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub json: Option<PathBuf>,
}

impl ContactInfoOptions {
    /// Shows the contact info of the node of this ledger folder.
    pub(super) fn run(&self, folder: &Path, say: &CommandOutput) -> Result<(), ValidatorError> {
        let contact = AdminClient::connect(folder)?.call("contactInfo")?;
        match &self.json {
            Some(path) => output::json(path, format_args!("{contact:#}"), say)?,
            None => say.text(lines(&contact)),
        }
        Ok(())
    }
}

fn lines(contact: &Value) -> String {
    let value = |field: &str| match &contact[field] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    LINES.iter().map(|(name, field)| format!("{name}: {}\n", value(field))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_are_those_of_agave() {
        let text = lines(&json!({ "id": "abc", "gossip": "127.0.0.1:8001", "shred_version": 7 }));
        assert!(text.starts_with("Identity: abc\nGossip: 127.0.0.1:8001\n"), "{text}");
        assert!(text.ends_with("\nShred Version: 7\n"), "{text}");
        assert_eq!(text.lines().count(), LINES.len());
    }
}
