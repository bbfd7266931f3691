//! `cargo xtask soak`: checks too slow for every commit, run by hand.
//!
//! reads   the command line
//! writes  progress, and as its last line one JSON object: the soak's name, whether it passed, its figures

mod agave;
mod bank;
mod bank_speed;
mod bench;
mod bench_pairs;
mod cli;
mod cluster;
mod comet;
mod coverage;
mod ethereum;
mod faults;
mod fuzz;
mod gossip;
mod hostile;
mod kill9;
mod load;
mod observe;
mod official;
mod oracle;
mod rpc;
mod simulate;
mod simulate_evm;
mod snapshot_speed;

use serde_json::{Value, json};

pub use agave::page as agave_page;
pub use hostile::page as hostile_page;

use crate::run::Args;

/// The result of a soak: figures, and failures.
struct Outcome {
    figures: Value,
    wrong: Vec<String>,
}

/// A soak: name, options, description and function.
struct Soak {
    name: &'static str,
    options: &'static str,
    about: &'static str,
    run: fn(Args<'_>) -> Result<Outcome, String>,
}

const SOAKS: [Soak; 23] = [
    Soak {
        name: "agave",
        options: "--programs DIR [--scenario NAME,… (all)] [--minutes N (10) | --seconds N] [--rate N (100)] [--slot-ms N (400)] [--epoch-slots N] [--behind SLOTS (100)] [--nodes N (1)] [--json FILE] [--capture DIR] [--binary FILE]",
        about: "unmodified agave-validators beside our nodes (follow, vote, lead, join, handover, faults, equivocate, cli): bank hashes, blocks, answers and commands are compared",
        run: agave::run,
    },
    Soak {
        name: "bank",
        options: "--blocks N (5000) [--seed N] [--scenario NAME] [--binary FILE]",
        about: "new random ledgers of the cluster's own bank, replayed by `hearth ledger replay --recorded`; one that differs is shrunk (15 to 25 minutes to build once)",
        run: bank::run,
    },
    Soak {
        name: "bank-speed",
        options: "[--rounds N (5)] [--seed N (1)] [--binary FILE]",
        about: "full blocks of transfers, votes and tokens, replayed by the cluster's own bank and by `hearth ledger replay --recorded` in turn: how many times as fast (25 to 40 minutes to build once)",
        run: bank_speed::run,
    },
    Soak {
        name: "bench",
        options: "--minutes N (10) [--binary FILE] [--config FILE]",
        about: "`hearth bench` at full load: no stall over a second, memory flat, every transaction accounted for",
        run: bench::run,
    },
    Soak {
        name: "bench-pairs",
        options: "--before FILE [--pairs N (10)] [--seconds N (20)] [--binary FILE]",
        about: "`hearth bench` of an earlier binary and of this one in turn: the interval of the median ratio excludes a loss of 5 %",
        run: bench_pairs::run,
    },
    Soak {
        name: "cli",
        options: "[--binary FILE] [--solana FILE]",
        about: "the `solana` command line against `hearth run`: epoch-info, gossip, validators, airdrop, transfer, confirm",
        run: cli::run,
    },
    Soak {
        name: "cluster",
        options: "--minutes N (10) [--loss PERCENT (5)] [--kill-every SECONDS (30)] [--cut-every SECONDS (0)] [--rate N (1000)] [--validators N (1)] [--seed N]",
        about: "ten nodes of `hearth cluster up` under load: none ends by itself, all recover within 30 s and have the same blocks, every transaction lands",
        run: cluster::run,
    },
    Soak {
        name: "comet",
        options: "--seeds N (50)",
        about: "the EVM ledger under a real CometBFT: both killed in any order under load, and all blocks executed once more",
        run: comet::run,
    },
    Soak {
        name: "coverage",
        options: "[--recorded DIR]",
        about: "which share of svm, bank, epochs, rewards and stakes the recorded ledgers reach, and which lines they miss (needs llvm-cov; builds the program once more)",
        run: coverage::run,
    },
    Soak {
        name: "ethereum",
        options: "--rounds N (3) --seconds N (30) [--kind transfer|erc20] [--binary FILE] [--anvil FILE] [--geth FILE]",
        about: "`hearth evm run` under `hearth load run`, beside anvil and `geth --dev` where they are there: rate, CPU time, nothing lost",
        run: ethereum::run,
    },
    Soak {
        name: "faults",
        options: "--mutations N (300) [--seed N] [--only solana|ethereum]",
        about: "each kind of file that a Solana and an Ethereum node write, damaged in N ways each: nothing acknowledged is missing without a word",
        run: faults::run,
    },
    Soak {
        name: "fuzz",
        options: "--minutes N (10)",
        about: "the fuzz targets: with coverage where cargo-fuzz and a nightly toolchain are installed, else seeded mutations",
        run: fuzz::run,
    },
    Soak {
        name: "gossip",
        options: "--nodes N (3) [--binary FILE] [--peer FILE]",
        about: "a node of the cluster's own gossip beside ours: each finds all others (needs clang and protoc; 30 CPU minutes once)",
        run: gossip::run,
    },
    Soak {
        name: "hostile",
        options: "--seconds N (10) [--rate N (1000)] [--attack NAME] [--json FILE]",
        about: "attacks at stated rates within half a core, on a Solana and on an EVM node: legitimate transactions land, in time, and memory is bounded",
        run: hostile::run,
    },
    Soak {
        name: "kill9",
        options: "--kills N (100) [--seed N]",
        about: "`hearth run` driven flat out by `hearth bench`, killed and started again: what was confirmed is there, and an undisturbed replay gives the same hashes",
        run: kill9::run,
    },
    Soak {
        name: "load",
        options: "--seconds N (600) [--rate N (2000)] [--binary FILE]",
        about: "`hearth load run` on `hearth run` and on `hearth evm run` at once: memory flat, every transaction in a block",
        run: load::run,
    },
    Soak {
        name: "observe",
        options: "--pairs N (12) --seconds N (6) [--rate N] [--binary FILE]",
        about: "what it costs `hearth bench` to be watched: monitor on a terminal, dashboard in a browser, metrics scraped each second",
        run: observe::run,
    },
    Soak {
        name: "official",
        options: "DIR [--page FILE]",
        about: "Ethereum's official tests below DIR against the EVM ledger, whole trees of them; the score as a page",
        run: official::run,
    },
    Soak {
        name: "oracle",
        options: "",
        about: "the cluster's own shredder generates the vectors again: they equal the committed ones (needs clang)",
        run: oracle::run,
    },
    Soak {
        name: "rpc",
        options: "--seconds N (20) [--binary FILE]",
        about: "how long clients of `hearth run` wait, alone and at two thirds of its most: processed, confirmed, answered",
        run: rpc::run,
    },
    Soak {
        name: "simulate",
        options: "[--hours N | --seeds N (200)] [--first SEED] [--seed SEED] [--threads N]",
        about: "whole nodes of a cluster on virtual time, with faults drawn from seeds: whatever goes wrong, what must hold does",
        run: simulate::run,
    },
    Soak {
        name: "simulate-evm",
        options: "--seeds N (20) [--seed N]",
        about: "the EVM chain's node on a simulated disk: it ends at every step of each seed's run, or its disk fails, and what was promised is there",
        run: simulate_evm::run,
    },
    Soak {
        name: "snapshot-speed",
        options: "[--accounts N (1000000)] [--rounds N (3)]",
        about: "an archive of a large state, written and read by the cluster's own bank and here: seconds, and memory here (25 to 40 minutes to build once)",
        run: snapshot_speed::run,
    },
];

/// `cargo xtask soak …`
pub fn run(args: &[&str]) -> Result<(), String> {
    let Some((name, rest)) = args.split_first().filter(|(name, _)| **name != "list") else {
        SOAKS.iter().for_each(|soak| println!("soak {} {}\n    {}", soak.name, soak.options, soak.about));
        return Ok(());
    };
    let soak = SOAKS.iter().find(|soak| soak.name == *name);
    let soak = soak.ok_or_else(|| format!("no soak is called {name}; see `cargo xtask soak list`"))?;
    let outcome = (soak.run)(Args::new(rest))?;
    println!("{}", line(soak.name, &outcome));
    let Some(first) = outcome.wrong.first() else { return Ok(()) };
    Err(format!("soak {name}: {} things are wrong; the first: {first}", outcome.wrong.len()))
}

/// Formats the last line: the figures between the name and the failures.
fn line(name: &str, outcome: &Outcome) -> Value {
    let mut line = json!({ "soak": name, "passed": outcome.wrong.is_empty(), "wrong": outcome.wrong });
    if let (Some(line), Some(figures)) = (line.as_object_mut(), outcome.figures.as_object()) {
        line.extend(figures.clone());
    }
    line
}

/// A text for a page, without what would end a table's cell or begin a tag.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_holds_the_figures() {
        let outcome = Outcome { figures: json!({ "rounds": 3 }), wrong: vec!["late".into()] };
        let expected = json!({ "soak": "kill9", "passed": false, "wrong": ["late"], "rounds": 3 });
        assert_eq!(line("kill9", &outcome), expected);
    }

    #[test]
    fn unknown_soaks_are_refused() {
        assert!(run(&["sleep"]).unwrap_err().contains("soak list"));
        assert_eq!(run(&["list"]), Ok(()));
    }
}
