//! Unmodified agave-validators beside our nodes, in a network namespace that has only loopback.
//!
//! reads   the log of each agave-validator, both nodes' RPC
//! writes  keys, chains and logs into a temporary folder, which stays if something is wrong; the file of results
//! memory  the bank hashes and the signatures of the slots of a part
//! source  agave-validator, solana-genesis and solana 4.2.2, built by the caller; docs/agave.md says how

mod agave_node;
mod archive;
mod catch_up;
mod cli;
mod cluster;
mod commands;
mod compare;
mod confirmed;
mod equivocate;
mod faults;
mod fields;
mod follow;
mod genesis;
mod handover;
mod hearth_node;
mod join;
mod lab;
mod lead;
mod load;
mod net;
mod nodes;
mod repairs;
mod result;
mod socket_drops;
mod solana;
mod stakes;
mod vote;
mod vote_times;
mod votes;
mod window;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Map, Value, json};

use lab::Lab;
pub use result::page;

use super::Outcome;
use crate::run::{self, Args, TempFolder};

/// Set in the process that runs inside the namespace.
const INSIDE: &str = "HEARTH_SOAK_INSIDE";
/// Slots of these lengths are measured.
const SLOT_MS: std::ops::RangeInclusive<u64> = 400..=4_000;

/// A scenario: name, an older name, description and function.
struct Scenario {
    name: &'static str,
    alias: &'static str,
    about: &'static str,
    run: fn(&Lab) -> Result<Outcome, String>,
}

static SCENARIOS: [Scenario; 8] = [
    Scenario {
        name: "follow",
        alias: "",
        about: "Agave begins; Hearth, without stake, follows from genesis, from Agave's archives, and from far behind; answers are compared field by field",
        run: follow::follow,
    },
    Scenario {
        name: "vote",
        alias: "",
        about: "Hearth votes with a quarter of the stake, then with half: it is never delinquent, and earns Agave's credits",
        run: vote::vote,
    },
    Scenario {
        name: "lead",
        alias: "turns",
        about: "each has half of the stake and both lead in turn, over the end of an epoch; loads by RPC and by QUIC; then Hearth begins a chain of solana-genesis",
        run: lead::lead,
    },
    Scenario {
        name: "join",
        alias: "",
        about: "Hearth begins; Agave, with a quarter of the stake, takes genesis and archive over RPC, follows, votes and leads, and catches up",
        run: join::join,
    },
    Scenario {
        name: "handover",
        alias: "snapshot",
        about: "an archive of ours starts Agave, whose bank hash is ours; a node of ours joins with Agave's archives",
        run: handover::scenario,
    },
    Scenario {
        name: "faults",
        alias: "",
        about: "loss, a partition, kill -9 of either, stakes and a feature that change at an epoch's end, a node that joins meanwhile",
        run: faults::faults,
    },
    Scenario {
        name: "equivocate",
        alias: "",
        about: "there are two blocks of a slot that Hearth leads, and Agave gets the other one first",
        run: equivocate::equivocate,
    },
    Scenario {
        name: "cli",
        alias: "",
        about: "the solana command line against both nodes: the same output and the same exit codes",
        run: cli::cli,
    },
];

pub fn run(mut args: Args<'_>) -> Result<Outcome, String> {
    if std::env::var_os(INSIDE).is_none() {
        return Err(inside(&args)?);
    }
    let seconds = 60 * args.number("--minutes", 10)?;
    let programs = args.value("--programs")?.ok_or("--programs DIR: where agave-validator and solana-genesis are")?;
    let programs = std::fs::canonicalize(programs).map_err(|error| format!("--programs {programs}: {error}"))?;
    let mut lab = Lab {
        folder: PathBuf::new(),
        programs,
        hearth: PathBuf::new(),
        seconds: args.number("--seconds", seconds)?,
        rate: args.number("--rate", 100)?,
        slot_ms: args.number("--slot-ms", 400)?,
        epoch_slots: Some(args.number("--epoch-slots", u64::MAX)?).filter(|slots| *slots < u64::MAX),
        behind: args.number("--behind", 100)?,
        nodes: args.number("--nodes", 1)?,
        sessions: None,
    };
    let sessions =
        args.value("--capture")?.map(std::path::absolute).transpose().map_err(|error| format!("--capture: {error}"))?;
    let (given, file, hearth) = (args.value("--scenario")?, args.value("--json")?, args.value("--binary")?);
    args.end()?;
    if !SLOT_MS.contains(&lab.slot_ms) {
        return Err(format!("--slot-ms {}: expected {} to {}", lab.slot_ms, SLOT_MS.start(), SLOT_MS.end()));
    }
    let chosen = chosen(given)?;
    lab.hearth = run::hearth(hearth)?;
    run::run(Command::new("ip").args(["link", "set", "lo", "up"]))?;
    let (mut figures, mut wrong) = (Map::new(), vec![]);
    for scenario in chosen {
        lab.sessions = sessions.as_ref().map(|folder| folder.join(scenario.name));
        let outcome = run_one(scenario, &mut lab)?;
        if let Some(file) = file {
            result::save(Path::new(file), scenario.name, &lab, &outcome)?;
        }
        figures.insert(scenario.name.into(), outcome.figures);
        wrong.extend(outcome.wrong.into_iter().map(|why| format!("{}: {why}", scenario.name)));
    }
    Ok(Outcome { figures: Value::Object(figures), wrong })
}

/// The scenarios that are named, by commas; all without a name.
fn chosen(given: Option<&str>) -> Result<Vec<&'static Scenario>, String> {
    let Some(given) = given else { return Ok(SCENARIOS.iter().collect()) };
    let named = |name: &str| {
        let found = SCENARIOS.iter().find(|scenario| scenario.name == name || scenario.alias == name);
        let known = || SCENARIOS.iter().map(|scenario| format!("\n    {}: {}", scenario.name, scenario.about));
        found.ok_or_else(|| format!("--scenario {name}: expected one of{}", known().collect::<String>()))
    };
    given.split(',').filter(|name| !name.is_empty()).map(named).collect()
}

/// Runs a scenario in a folder of its own. What ends it early is what is wrong.
fn run_one(scenario: &Scenario, lab: &mut Lab) -> Result<Outcome, String> {
    println!("{}: {}", scenario.name, scenario.about);
    let folder = TempFolder::new("soak-agave")?;
    lab.folder = folder.path().to_path_buf();
    let outcome = (scenario.run)(lab).unwrap_or_else(|why| Outcome { figures: json!({}), wrong: vec![why] });
    println!("{}: {}", scenario.name, super::line(scenario.name, &outcome));
    if !outcome.wrong.is_empty() {
        println!("the logs are in {}", lab.folder.display());
        std::mem::forget(folder);
    }
    Ok(outcome)
}

/// Runs this command once more in a network namespace of its own, with the same arguments, and ends with its exit
/// code: agave-validator binds all addresses, and finds no others than loopback's there. Returns why it could not.
fn inside(args: &Args<'_>) -> Result<String, String> {
    let xtask = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--net", "--"]).arg(xtask).args(["soak", "agave"]).args(args.rest());
    let status = command.env(INSIDE, "1").status().map_err(|error| format!("cannot start unshare: {error}"))?;
    match status.code() {
        Some(code) => std::process::exit(code),
        None => Ok(format!("`{}` ended with {status}", run::shown(&command))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenarios_have_their_older_names() {
        let names =
            |given: &str| -> Vec<&'static str> { chosen(Some(given)).unwrap().iter().map(|one| one.name).collect() };
        assert_eq!(names("turns,follow"), ["lead", "follow"]);
        assert_eq!(chosen(None).unwrap().len(), SCENARIOS.len());
        assert!(chosen(Some("turn")).is_err_and(|why| why.contains("follow: Agave begins")));
    }
}
