//! Agave's own bank, driven through random ledgers: each is written in the form that `hearth ledger replay --recorded`
//! reads, with the hash of every bank and, for every transaction, its result, logs, fee, compute units and the
//! accounts that it changed.
//!
//! reads   genesis files and snapshot archives that the command line names
//! writes  ledgers, lists of accounts and snapshot archives into the folders that the command line names
//! memory  a few hundred megabytes
//! source  `solana-runtime` 4.2.2, unmodified
//!
//! See README.md for the commands and for how long a build takes.

mod acts;
mod block;
mod chain;
mod genesis;
mod programs;
mod record;
mod replay;
mod rng;
mod scenario;
mod snapshot;
mod votes;
mod world;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use serde_json::json;
use solana_account::ReadableAccount;
use solana_runtime::bank::Bank;
use solana_sha256_hasher::hash;

use crate::block::Filter;
use crate::chain::{Chain, Request};
use crate::record::Recorder;
use crate::scenario::Scenario;

const USAGE: &str = "\
bank list                                        the scenarios
bank record --scenario NAME --seed N --out DIR [--blocks N] [--only RANGES]
                                                 writes one ledger; N slots at most, and of the
                                                 transactions only those numbered, as in 0-9,12
bank record-all --out DIR [--seed N (1)]         writes each scenario into a folder of its name
bank replay --recorded DIR                       executes recorded ledgers below DIR again, in seconds
bank accounts --scenario NAME --seed N --slot S [--blocks N] [--only RANGES] [--data]
                                                 prints all accounts after the block of slot S
bank snapshot --scenario NAME --seed N --slot S [--incremental S] --out DIR
                                                 writes snapshot archives and genesis.bin
bank verify-snapshot --genesis FILE --archive FILE [--incremental FILE]
                                                 loads archives and prints slot, hash, capitalization
bank measure-snapshot --genesis FILE --archive FILE
                                                 loads a full archive and writes it again, in seconds";

/// Seeds beyond the first that `record-all` gives to scenarios which mix everything.
const MORE: [(&str, u64); 1] = [("everything-forks", 2)];

type Result<T> = std::result::Result<T, String>;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bank: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[String]) -> Result<()> {
    let Some((command, rest)) = args.split_first() else { return Err(format!("no command\n{USAGE}")) };
    let options = Options::parse(rest)?;
    match command.as_str() {
        "list" => {
            scenario::all().iter().for_each(|scenario| println!("{:20} {}", scenario.name, scenario.about));
            Ok(())
        }
        "record" => record(&options.scenario()?, &options, options.number("seed")?.unwrap_or(1), &options.path("out")?),
        "record-all" => record_all(&options),
        "replay" => replay::run(&options.path("recorded")?),
        "accounts" => accounts(&options),
        "snapshot" => snapshot(&options),
        "verify-snapshot" => {
            let incremental = options.values.get("incremental").map(PathBuf::from);
            snapshot::verify(&options.path("genesis")?, &options.path("archive")?, incremental.as_deref())
        }
        "measure-snapshot" => snapshot::measure(&options.path("genesis")?, &options.path("archive")?),
        _ => Err(format!("unknown command {command}\n{USAGE}")),
    }
}

/// The options of a command line: `--name value`, or `--data` alone.
struct Options {
    values: BTreeMap<String, String>,
}

impl Options {
    fn parse(args: &[String]) -> Result<Self> {
        let mut values = BTreeMap::new();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let name = arg.strip_prefix("--").ok_or_else(|| format!("{arg} is not an option\n{USAGE}"))?;
            let value = if name == "data" { Some("yes") } else { args.next().map(String::as_str) };
            values.insert(name.into(), value.ok_or_else(|| format!("--{name} needs a value"))?.into());
        }
        Ok(Self { values })
    }

    fn text(&self, name: &str) -> Result<&str> {
        self.values.get(name).map(String::as_str).ok_or_else(|| format!("--{name} is missing\n{USAGE}"))
    }

    fn path(&self, name: &str) -> Result<PathBuf> {
        self.text(name).map(PathBuf::from)
    }

    fn number(&self, name: &str) -> Result<Option<u64>> {
        let number = |text: &String| text.parse().map_err(|_| format!("--{name} {text}: not a number"));
        self.values.get(name).map(number).transpose()
    }

    fn scenario(&self) -> Result<Scenario> {
        let name = self.text("scenario")?;
        scenario::named(name).ok_or_else(|| format!("no scenario is called {name}; see `bank list`"))
    }

    /// `--only 0-9,12`: ranges with both ends, or `none`.
    fn filter(&self) -> Result<Filter> {
        let Some(text) = self.values.get("only") else { return Ok(Filter::default()) };
        if text == "none" {
            return Ok(Filter { only: vec![0..0] });
        }
        let wrong = || format!("--only {text}: not ranges such as 0-9,12");
        let range = |part: &str| {
            let (from, to) = part.split_once('-').unwrap_or((part, part));
            let (from, to): (u64, u64) = (from.parse().ok()?, to.parse().ok()?);
            Some(from..to + 1)
        };
        let only = text.split(',').map(|part| range(part).ok_or_else(wrong)).collect::<Result<Vec<_>>>()?;
        Ok(Filter { only })
    }
}

fn record_all(options: &Options) -> Result<()> {
    let out = options.path("out")?;
    let seed = options.number("seed")?.unwrap_or(1);
    for scenario in scenario::all() {
        record(&scenario, options, seed, &out.join(scenario.name))?;
        for (_, more) in MORE.iter().filter(|(name, _)| *name == scenario.name) {
            let seed = seed + more - 1;
            record(&scenario, options, seed, &out.join(format!("{}-{seed}", scenario.name)))?;
        }
    }
    Ok(())
}

/// Writes a ledger, and prints what it holds as a line of JSON.
fn record(scenario: &Scenario, options: &Options, seed: u64, out: &Path) -> Result<()> {
    let start = Instant::now();
    let slots = options.number("blocks")?;
    let request = Request { scenario, seed, slots, filter: options.filter()?, roots: true };
    let accounts = tempfile::tempdir().map_err(|error| error.to_string())?;
    std::fs::create_dir_all(out).map_err(|error| format!("{}: {error}", out.display()))?;
    let mut chain = Chain::new(&request, accounts.path());
    let mut recorder = Recorder::new(out, &chain.genesis).map_err(|error| error.to_string())?;
    let mut last = Default::default();
    chain.run(&mut recorder, |bank| last = (bank.slot(), bank.hash()));
    let blocks = recorder.count;
    recorder.finish().map_err(|error| error.to_string())?;
    let counts = &chain.counts;
    let size = |name: &str| std::fs::metadata(out.join(name)).map_or(0, |file| file.len());
    println!(
        "{}",
        json!({
            "scenario": scenario.name, "seed": seed, "slot": last.0, "bank_hash": last.1.to_string(), "blocks": blocks,
            "made": counts.made, "succeeded": counts.succeeded, "failed": counts.failed, "refused": counts.refused,
            "bytes": size("genesis.bin.zst") + size("blocks.jsonl.zst"), "bytes_genesis": size("genesis.bin.zst"),
            "seconds": start.elapsed().as_secs_f64(), "errors": counts.errors, "programs": counts.programs,
        })
    );
    Ok(())
}

/// Prints every account after a block, so that a difference can be found.
fn accounts(options: &Options) -> Result<()> {
    let scenario = options.scenario()?;
    let slot = options.number("slot")?.ok_or("--slot is missing")?;
    let slots = Some(options.number("blocks")?.unwrap_or(slot).max(slot));
    let seed = options.number("seed")?.unwrap_or(1);
    let request = Request { scenario: &scenario, seed, slots, filter: options.filter()?, roots: true };
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let with_data = options.values.contains_key("data");
    Chain::new(&request, folder.path()).run(&mut Recorder::silent(), |bank| {
        if bank.slot() == slot {
            print_accounts(bank, with_data);
        }
    });
    Ok(())
}

fn print_accounts(bank: &Bank, with_data: bool) {
    let mut lines = vec![];
    let scanned = bank.scan_all_accounts(|found| {
        let Some((key, account, _)) = found else { return };
        if account.lamports() > 0 {
            let data = account.data();
            let hex = || data.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            lines.push(format!(
                "{key} lamports {} owner {} executable {} rent_epoch {} bytes {} sha256 {} {}",
                account.lamports(),
                account.owner(),
                account.executable(),
                account.rent_epoch(),
                data.len(),
                hash(data),
                if with_data { hex() } else { String::new() },
            ));
        }
    });
    scanned.expect("the bank is not being dropped");
    lines.sort();
    lines.iter().for_each(|line| println!("{line}"));
}

fn snapshot(options: &Options) -> Result<()> {
    let scenario = options.scenario()?;
    let slot = options.number("slot")?.ok_or("--slot is missing")?;
    let incremental = options.number("incremental")?;
    let seed = options.number("seed")?.unwrap_or(1);
    let slots = Some(incremental.unwrap_or(slot).max(slot));
    let request = Request { scenario: &scenario, seed, slots, filter: options.filter()?, roots: false };
    snapshot::write(&request, slot, incremental, &options.path("out")?)
}
