//! Unmodified agave-validators beside our nodes, in a network namespace that has only loopback.
//!
//! reads   the log of each agave-validator, both nodes' RPC
//! writes  keys, chains and logs into a temporary folder, which stays if something is wrong
//! memory  the bank hashes of each slot that both nodes have
//! source  agave-validator and solana-genesis 4.2.2, built by the caller; docs/agave.md says how

mod compare;
mod nodes;
mod scenarios;

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Map, Value, json};

use super::Outcome;
use crate::run::{self, Args, TempFolder};

/// Set in the process that runs inside the namespace.
const INSIDE: &str = "HEARTH_SOAK_INSIDE";

/// A scenario: name, description and function.
struct Scenario {
    name: &'static str,
    about: &'static str,
    run: fn(&Lab) -> Result<Outcome, String>,
}

const SCENARIOS: [Scenario; 3] = [
    Scenario {
        name: "snapshot",
        about: "our snapshot starts Agave, whose bank hash is ours; a node of ours joins with Agave's archives and follows",
        run: scenarios::snapshot,
    },
    Scenario {
        name: "turns",
        about: "each has half of the stake: both lead in turn, ours is killed and started again, then Agave is",
        run: scenarios::turns,
    },
    Scenario {
        name: "join",
        about: "Agave joins a chain of ours, with a quarter of the stake: it takes genesis and snapshot over RPC, follows, votes and leads",
        run: scenarios::join,
    },
];

/// What every scenario needs.
struct Lab {
    folder: PathBuf,
    /// The folder of agave-validator and solana-genesis.
    programs: PathBuf,
    hearth: PathBuf,
    /// Seconds that the nodes run together.
    seconds: u64,
    /// Transactions a second.
    rate: u64,
}

pub fn run(mut args: Args<'_>) -> Result<Outcome, String> {
    if std::env::var_os(INSIDE).is_none() {
        return Err(inside(&args)?);
    }
    let programs = args.value("--programs")?.ok_or("--programs DIR: where agave-validator and solana-genesis are")?;
    let programs = std::fs::canonicalize(programs).map_err(|error| format!("--programs {programs}: {error}"))?;
    let (minutes, rate) = (args.number("--minutes", 10)?, args.number("--rate", 100)?);
    let (given, hearth) = (args.value("--scenario")?, args.value("--binary")?);
    args.end()?;
    let known = || SCENARIOS.iter().map(|scenario| format!("\n    {}: {}", scenario.name, scenario.about));
    if given.is_some_and(|name| SCENARIOS.iter().all(|scenario| scenario.name != name)) {
        return Err(format!("--scenario {}: expected one of{}", given.unwrap_or(""), known().collect::<String>()));
    }
    let hearth = run::hearth(hearth)?;
    run::run(Command::new("ip").args(["link", "set", "lo", "up"]))?;
    let (mut figures, mut wrong) = (Map::new(), vec![]);
    for scenario in SCENARIOS.iter().filter(|scenario| given.is_none_or(|name| name == scenario.name)) {
        println!("{}: {}", scenario.name, scenario.about);
        let folder = TempFolder::new("soak-agave")?;
        let lab = Lab {
            folder: folder.path().to_path_buf(),
            programs: programs.clone(),
            hearth: hearth.clone(),
            seconds: 60 * minutes,
            rate,
        };
        let outcome = (scenario.run)(&lab).unwrap_or_else(|why| Outcome { figures: json!({}), wrong: vec![why] });
        println!("{}: {}", scenario.name, super::line(scenario.name, &outcome));
        if !outcome.wrong.is_empty() {
            println!("the logs are in {}", lab.folder.display());
            std::mem::forget(folder);
        }
        figures.insert(scenario.name.into(), outcome.figures);
        wrong.extend(outcome.wrong.into_iter().map(|why| format!("{}: {why}", scenario.name)));
    }
    Ok(Outcome { figures: Value::Object(figures), wrong })
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
