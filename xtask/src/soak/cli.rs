//! The `solana` command line against `hearth run`, where that binary is installed.
//!
//! reads   the commands' output
//! writes  the commands that passed; one line if the binary is missing
//! memory  the output of one command

use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::Outcome;
use crate::node::{Node, free_ports};
use crate::run::{self, Args, TempFolder};

/// Recipient of the payments.
const RECEIVER: &str = "4uQeVj5tqViQh7yWWGStvkEG1Zmhx6uasJtWCJziofM";

pub fn run(mut args: Args<'_>) -> Result<Outcome, String> {
    let (binary, solana) = (args.value("--binary")?, args.value("--solana")?.unwrap_or("solana"));
    args.end()?;
    if !run::answers(Command::new(solana).arg("--version")) {
        println!("solana: not installed; skipped");
        return Ok(Outcome { figures: json!({ "skipped": "no solana binary" }), wrong: Vec::new() });
    }
    let version = run::output(Command::new(solana).arg("--version"))?.trim().to_owned();
    let binary = run::hearth(binary)?;
    let folder = TempFolder::new("soak-cli")?;
    let port = free_ports()?;
    let node = Node::start(&binary, folder.path(), port)?;
    let key = folder.path().join("payer.json");
    run::output(Command::new(&binary).args(["keys", "new"]).arg(&key))?;
    let (mut passed, mut wrong) = (Vec::new(), Vec::new());
    let mut signature = String::new();
    let commands: [&[&str]; 6] = [
        &["epoch-info"],
        &["gossip"],
        &["validators"],
        &["airdrop", "10"],
        &["transfer", "--allow-unfunded-recipient", RECEIVER, "1"],
        &["confirm"],
    ];
    for command in commands {
        let more = if command == ["confirm"] { vec![signature.as_str()] } else { Vec::new() };
        match solana_says(solana, port, &key, &[command, &more[..]].concat()) {
            Ok(said) if command != ["confirm"] || is_confirmed(&said) => {
                passed.push(command[0]);
                signature = signature_in(&said).unwrap_or(signature);
            }
            Ok(said) => wrong.push(format!("{}: it says {said:?}", command[0])),
            Err(why) => wrong.push(why),
        }
    }
    node.stop()?;
    Ok(Outcome { figures: json!({ "version": version, "passed": passed }), wrong })
}

fn solana_says(solana: &str, port: u16, key: &Path, arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new(solana);
    command.args(["--url", &format!("http://127.0.0.1:{port}"), "--keypair"]).arg(key).args(arguments);
    println!("$ {}", run::shown(&command));
    let said = run::output(&mut command)?;
    print!("{said}");
    Ok(said)
}

/// The signature that a command names.
fn signature_in(said: &str) -> Option<String> {
    let named = said.lines().find_map(|line| line.trim().strip_prefix("Signature:"));
    named.map(|signature| signature.trim().to_owned())
}

fn is_confirmed(said: &str) -> bool {
    said.lines().any(|line| matches!(line.trim(), "Confirmed" | "Finalized"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_and_confirmations_are_read() {
        assert_eq!(signature_in("Requesting airdrop\n\nSignature: 5abc\n"), Some("5abc".into()));
        assert_eq!(signature_in("Slot: 7"), None);
        assert!(is_confirmed("Finalized\n") && !is_confirmed("Not found\n"));
    }
}
