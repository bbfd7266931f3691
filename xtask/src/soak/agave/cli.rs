//! The `solana` command line against both nodes.
//!
//! reads   what the commands print
//! writes  keys and programs into the scenario's folder; a table of the commands
//! memory  the outputs of two commands

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::cluster::Cluster;
use super::commands::{ALLOWED, READS, WRITES, Words, comparable, first_difference, masked, words};
use super::genesis::Genesis;
use super::handover::{QUARTER, handed};
use super::load::{BY_RPC, Load, Sent};
use super::nodes::{AGAVE, OURS, Remote};
use super::solana::{self, Said, TIMED_OUT};
use super::{Lab, Outcome};
use crate::clients::assemble;
use crate::run;

/// A command that changes the chain must end within so many seconds, and one that reads.
const WRITE_S: u64 = 120;
const READ_S: u64 = 30;
/// Commands that read are run again for so long while the outputs differ: several blocks' time on a busy machine.
const TRY_FOR: Duration = Duration::from_secs(60);
const TRY_EVERY: Duration = Duration::from_secs(1);
/// Transfers by Agave's TPU client through each node while both are under load, and seconds of that load.
const BY_TPU: u64 = 8;
const LOADED_S: u64 = 60;
/// SOL of each side's payer.
const FUNDS: &str = "1000";

/// A node, and the keys of the commands that it gets.
struct Side<'a> {
    lab: &'a Lab,
    node: Remote,
    name: &'static str,
    /// Words that commands printed: a signature, a table's address, and files of programs.
    known: BTreeMap<&'static str, String>,
}

impl Words for Side<'_> {
    fn key_file(&self, name: &str) -> Result<String, String> {
        Ok(self.lab.new_key(&format!("{}-{name}", self.name))?.to_string_lossy().into_owned())
    }

    fn address(&self, name: &str) -> Result<String, String> {
        self.key_file(name)?;
        self.lab.address(&format!("{}-{name}", self.name))
    }

    fn known(&self, name: &str) -> Result<String, String> {
        self.known.get(name).cloned().ok_or_else(|| format!("no command printed a {name}"))
    }
}

impl<'a> Side<'a> {
    /// A side with a payer that has funds, and programs to deploy.
    fn funded(lab: &'a Lab, node: Remote, name: &'static str) -> Result<Self, String> {
        let mut side = Self { lab, node, name, known: BTreeMap::new() };
        for (program, source) in [("counter", "add64 r4, 1\n"), ("by-ten", "add64 r4, 10\n")] {
            let elf = lab.folder.join(format!("{program}.so"));
            assemble("counter.s", &elf, |text| text.replace("add64 r4, 1\n", source))?;
            side.known.insert(program, elf.to_string_lossy().into_owned());
        }
        let payer = side.address("payer")?;
        solana::must(lab, node, &["transfer", "--allow-unfunded-recipient", &payer, FUNDS])?;
        Ok(side)
    }

    /// Runs a command, and remembers what later ones need.
    fn write(&mut self, command: &str) -> Said {
        let said = self.say(command, WRITE_S);
        if command.starts_with("transfer") && !self.known.contains_key("signature") {
            self.known.extend(said.signature().map(|signature| ("signature", signature)));
        }
        let table = said.text.lines().find_map(|line| line.trim().strip_prefix("Lookup Table Address:"));
        self.known.extend(table.map(|table| ("table", table.trim().to_owned())));
        said
    }

    /// Runs a command. What cannot run is an output like another.
    fn say(&self, command: &str, seconds: u64) -> Said {
        self.said(self.node, command, seconds).unwrap_or_else(|why| Said { code: None, text: why })
    }

    fn said(&self, node: Remote, command: &str, seconds: u64) -> Result<Said, String> {
        let words = words(command, self)?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        solana::say(self.lab, node, &self.lab.key(&format!("{}-payer", self.name)), &words, seconds)
    }
}

/// The answers of both nodes to a command.
struct Compared {
    command: &'static str,
    codes: [Option<i32>; 2],
    difference: Option<String>,
}

impl Compared {
    /// Whether it ran and ended at both nodes: two that could not run say the same.
    fn has_run(&self) -> bool {
        self.codes.iter().all(|code| code.is_some_and(|code| code != TIMED_OUT))
    }

    fn line(&self) -> String {
        let code = |code: Option<i32>| code.map_or("none".to_owned(), |code| code.to_string());
        let result = self.difference.as_ref().map_or("equal".to_owned(), |line| format!("differs: {line}"));
        let (ours, theirs) = (code(self.codes[0]), code(self.codes[1]));
        format!("| `{}` | {} | {ours}, {theirs} |", self.command, result.replace('|', "\\|"))
    }

    /// Returns the fault: it did not run or end, it has other exit codes, or an output that differs and may not.
    fn wrong(&self) -> Option<String> {
        if !self.has_run() {
            return Some(format!("`{}` did not run, or did not end in time", self.command));
        }
        if self.codes[0] != self.codes[1] {
            return Some(format!(
                "`{}`: exit codes {:?} here, {:?} at Agave",
                self.command, self.codes[0], self.codes[1]
            ));
        }
        let is_allowed = ALLOWED.iter().any(|(command, _)| *command == self.command);
        self.difference.as_ref().filter(|_| !is_allowed).map(|line| format!("`{}`: {line}", self.command))
    }
}

/// Runs all commands against both nodes.
pub fn cli(lab: &Lab) -> Result<Outcome, String> {
    if !solana::is_there(lab) {
        return Err(format!("there is no `solana` in {}", lab.programs.display()));
    }
    let genesis = Genesis { staked: &QUARTER, epoch_slots: lab.epoch_slots(256), has_pending: false };
    let cluster = handed(lab, &genesis)?;
    Ok(cluster.through(|cluster| {
        let mut compared = vec![];
        let mut ours = Side::funded(lab, OURS, "cli-ours")?;
        let mut theirs = Side::funded(lab, AGAVE, "cli-agave")?;
        for command in WRITES {
            let (here, there) = (ours.write(command), theirs.write(command));
            let difference = first_difference(&masked(&here.text), &masked(&there.text));
            added(&mut compared, Compared { command, codes: [here.code, there.code], difference });
        }
        let slot = [OURS, AGAVE].iter().filter_map(|node| node.slot("finalized")).min();
        let block = slot.map(block_before).transpose()?.flatten().ok_or("no finalized block")?;
        theirs.known.insert("slot", block.to_string());
        for command in READS {
            added(&mut compared, read(&theirs, command));
        }
        finished(cluster, &compared);
        lookup_tables(lab, cluster);
        under_load(lab, cluster, [&ours, &theirs])?;
        cluster.together(lab, "after the commands", lab.part(4), &BY_RPC)
    }))
}

/// Transfers by Agave's TPU client, to the leaders that each node names, while both nodes are under load.
fn under_load(lab: &Lab, cluster: &mut Cluster, sides: [&Side<'_>; 2]) -> Result<(), String> {
    let loads = Load::start_all(lab, &BY_RPC, lab.part(4).max(LOADED_S))?;
    let mut wrong = vec![];
    for number in 1..=BY_TPU {
        let command = format!("transfer --allow-unfunded-recipient --use-tpu-client %other 1.{number}");
        for side in sides {
            let said = side.say(&command, WRITE_S);
            if said.code != Some(0) {
                wrong.push(format!("`{command}` at {}: exit code {:?}: {}", side.node.0, said.code, said.text));
            }
        }
    }
    let sent = Sent::ended(loads);
    let mut row = sent.figures();
    row["by_tpu_client"] = json!(2 * BY_TPU - wrong.len() as u64);
    wrong.extend(sent.wrong);
    cluster.add("Agave's TPU client under load", row, wrong);
    Ok(())
}

/// Transactions that use address lookup tables, by web3.js and kit through each node, where npm's packages are
/// installed: the namespace has no network to fetch them.
fn lookup_tables(lab: &Lab, cluster: &mut Cluster) {
    let scripts = run::root().join("tests/clients/npm");
    if !scripts.join("node_modules").is_dir() || !run::answers(Command::new("node").arg("--version")) {
        return println!("lookup tables: skipped; `npm ci --ignore-scripts` in tests/clients/npm first");
    }
    let nodes = [OURS, AGAVE];
    let use_them = |node: Remote| {
        let mut script = Command::new("timeout");
        script.args(["300", "node", "tables.mjs"]).current_dir(&scripts).env("RPC_URL", node.url());
        run::run(script.env("FUNDER", lab.key("faucet"))).err().map(|why| format!("{}: {why}", node.0))
    };
    let wrong: Vec<String> = nodes.into_iter().filter_map(use_them).collect();
    cluster.add("lookup tables", json!({ "nodes": nodes.len() - wrong.len() }), wrong);
}

fn added(all: &mut Vec<Compared>, compared: Compared) {
    println!("{}", compared.line());
    all.push(compared);
}

/// The newest finalized block up to a slot, which Agave has.
fn block_before(slot: u64) -> Result<Option<u64>, String> {
    let first = slot.saturating_sub(16);
    let blocks = AGAVE.call("getBlocks", json!([first, slot, { "commitment": "finalized" }]))?;
    Ok(blocks.as_array().and_then(|blocks| blocks.last()?.as_u64()))
}

/// Runs a command against both nodes at the same time, and again while the outputs differ.
fn read(side: &Side<'_>, command: &'static str) -> Compared {
    let begin = Instant::now();
    loop {
        let said = |node: Remote| side.said(node, command, READ_S).unwrap_or_else(|why| Said { code: None, text: why });
        let [here, there] = std::thread::scope(|scope| {
            let here = scope.spawn(|| said(OURS));
            let there = said(AGAVE);
            [here.join().unwrap_or_else(|_| Said { code: None, text: "the thread panicked".into() }), there]
        });
        let shown = |said: &Said, node: Remote| comparable(command, &without_url(&said.text, node));
        let difference = first_difference(&shown(&here, OURS), &shown(&there, AGAVE));
        let is_allowed = ALLOWED.iter().any(|(allowed, _)| *allowed == command);
        if difference.is_none() || is_allowed || begin.elapsed() > TRY_FOR {
            return Compared { command, codes: [here.code, there.code], difference };
        }
        std::thread::sleep(TRY_EVERY);
    }
}

/// The output without the node's URL, which some commands print.
fn without_url(text: &str, node: Remote) -> String {
    text.replace(&node.url(), "URL")
}

/// Prints the table and adds a row.
fn finished(cluster: &mut Cluster, all: &[Compared]) {
    println!("\n| Command | Output | Exit codes: Hearth, Agave |\n|---|---|---|");
    all.iter().for_each(|compared| println!("{}", compared.line()));
    let differ: Vec<&str> =
        all.iter().filter(|compared| compared.difference.is_some()).map(|compared| compared.command).collect();
    let codes = all.iter().filter(|compared| compared.has_run() && compared.codes[0] == compared.codes[1]).count();
    let row: Value = json!({
        "commands": all.len(), "equal_outputs": all.len() - differ.len(), "equal_exit_codes": codes,
        "outputs_that_differ": differ,
    });
    cluster.add("commands", row, all.iter().filter_map(Compared::wrong).collect());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_and_outputs_are_judged() {
        let compared = |command: &'static str, codes: [i32; 2], line: Option<&str>| Compared {
            command,
            codes: codes.map(Some),
            difference: line.map(str::to_owned),
        };
        assert_eq!(compared("slot", [0, 0], None).wrong(), None);
        assert!(compared("slot", [0, 1], None).wrong().is_some_and(|why| why.contains("exit codes")));
        assert!(compared("slot", [0, 0], Some("x")).wrong().is_some());
        assert_eq!(compared("cluster-version", [0, 0], Some("x")).wrong(), None);
        assert!(compared("slot", [TIMED_OUT; 2], None).wrong().is_some());
        let missing = Compared { command: "slot", codes: [None; 2], difference: None };
        assert!(missing.wrong().is_some_and(|why| why.contains("did not run")));
        assert_eq!(compared("slot", [0, 0], Some("a|b")).line(), "| `slot` | differs: a\\|b | 0, 0 |");
    }
}
