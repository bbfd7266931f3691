//! `cargo xtask test`: the one command that runs every test.
//!
//! reads   the working tree; `RUSTFLAGS`
//! writes  build outputs; standard output: a heading per step, its time, and at the end the sum of all runners; with
//!         `--list` the steps' names and nothing else
//! memory  one line of output at a time

use std::process::Command;
use std::time::{Duration, Instant};

use crate::run::{self, Args, cargo, cargo_nightly, run_seeing, target_dir};
use crate::{agave, clients, cometbft, dependencies, dist, fuzz, generated, official, prometheus, redis, tidy};

/// How long mutations are tried, over all fuzz targets together.
const FUZZ_SECONDS: u64 = 60;

/// Tests that have passed and failed, over all runners.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Tally {
    passed: u64,
    failed: u64,
}

impl Tally {
    /// Adds up a line of the form `test result: ok. 3 passed; 0 failed; …`, and no other.
    fn see(&mut self, line: &str) {
        let Some((_, counts)) = line.strip_prefix("test result: ").and_then(|rest| rest.split_once(". ")) else {
            return;
        };
        for count in counts.split(';') {
            match count.trim().split_once(' ').map(|(number, what)| (number.parse::<u64>(), what)) {
                Some((Ok(number), "passed")) => self.passed += number,
                Some((Ok(number), "failed")) => self.failed += number,
                _ => {}
            }
        }
    }
}

/// Completed steps, and the totals of their runners.
#[derive(Default)]
struct Steps<'a> {
    /// Part of the names of the steps to run; all when empty.
    only: &'a str,
    /// Print the steps' names and run none.
    list: bool,
    tally: Tally,
    times: Vec<(&'static str, Duration)>,
}

impl Steps<'_> {
    /// Runs a step under its heading. A step whose runner reports no count is one test.
    fn step(&mut self, name: &'static str, run: impl FnOnce(&mut Tally) -> Result<(), String>) -> Result<(), String> {
        if !name.contains(self.only) {
            return Ok(());
        }
        if self.list {
            println!("{name}");
            self.times.push((name, Duration::ZERO));
            return Ok(());
        }
        println!("\n== {name}");
        let (start, mut tally) = (Instant::now(), Tally::default());
        let result = run(&mut tally);
        let time = start.elapsed();
        if result.is_err() {
            tally.failed = tally.failed.max(1);
        } else if tally == Tally::default() {
            tally.passed = 1;
        }
        self.tally.passed += tally.passed;
        self.tally.failed += tally.failed;
        self.times.push((name, time));
        println!("== {name}: {} after {:.1} s", if result.is_ok() { "passed" } else { "FAILED" }, time.as_secs_f64());
        result.map_err(|why| format!("{name}: {why}"))
    }

    fn print(&self) {
        println!("\n== time");
        for (name, time) in &self.times {
            println!("{:>8.1} s  {name}", time.as_secs_f64());
        }
        let sum: Duration = self.times.iter().map(|(_, time)| time).sum();
        println!("{:>8.1} s  in all\n", sum.as_secs_f64());
        println!("{} passed, {} failed", self.tally.passed, self.tally.failed);
    }
}

/// `cargo xtask test [--list] [--only WORD]`
pub fn run(args: &[&str]) -> Result<(), String> {
    let mut args = Args::new(args);
    let list = args.switch("--list");
    let only = args.value("--only")?.unwrap_or_default();
    args.end()?;
    let mut steps = Steps { only, list, ..Steps::default() };
    if !list {
        println!("build outputs in {}", target_dir().display());
    }
    let result = all(&mut steps);
    if steps.times.is_empty() {
        return Err(format!("no step's name contains {only:?}"));
    }
    if !list {
        steps.print();
    }
    result
}

fn all(steps: &mut Steps<'_>) -> Result<(), String> {
    steps.step("tidy", |_| tidy::run())?;
    steps.step("dependencies: a node without the lab's", |_| dependencies::check_without_lab())?;
    steps.step("dependencies: each compiled once", |_| dependencies::check_once())?;
    steps.step("dependencies: licences, sources, bans", |_| dependencies::deny())?;
    steps.step("check: a node without the lab", |_| dependencies::compile_without_lab())?;
    steps.step("cargo test", |tally| {
        let args = ["test", "--release", "--locked", "--workspace", "--no-fail-fast"];
        run_seeing(cargo().args(args), |line| tally.see(line))
    })?;
    steps.step("loom: interleavings of the ring and of wake-ups", |tally| {
        run_seeing(&mut loom(), |line| tally.see(line))
    })?;
    steps.step("miri: ring, and the portable paths of crypto", |tally| match miri() {
        Some(commands) => {
            commands.into_iter().try_for_each(|mut command| run_seeing(&mut command, |line| tally.see(line)))
        }
        None => {
            println!("not installed, skipped");
            Ok(())
        }
    })?;
    steps.step("fuzz: the corpus, and a minute of mutations", |tally| {
        run_seeing(&mut fuzz::mutations(FUZZ_SECONDS), |line| tally.see(line))
    })?;
    steps.step("doc: no warnings", |_| {
        // With private items, since the crates' pages link to them.
        let flags = with_flags("RUSTDOCFLAGS", "-D warnings -A rustdoc::private_intra_doc_links");
        let args = ["doc", "--release", "--locked", "--workspace", "--no-deps", "--document-private-items", "--quiet"];
        run::run(cargo().args(args).env("RUSTDOCFLAGS", flags))
    })?;
    steps.step("build: hearth", |_| run::hearth(None).map(drop))?;
    steps.step("gen: generated pages", |_| generated::check(&run::hearth(None)?, &run::root()))?;
    steps.step("dist: what an archive holds", |_| dist::check(&run::hearth(None)?))?;
    steps.step("prometheus: metrics, alerts, dashboard", |_| prometheus::check(&run::hearth(None)?))?;
    steps.step("redis: what is collected from logs, with kill -9 half way", |tally| {
        redis::test(|line| tally.see(line))
    })?;
    // Three seeds to kill by; `xtask soak comet` takes fifty.
    steps.step("cometbft: four validators, catching up, joining by a snapshot, kill -9 in any order", |tally| {
        cometbft::test(3, |line| tally.see(line)).map(drop)
    })?;
    steps.step("official tests of Ethereum: blocks, states, transactions, RLP, tries", |tally| {
        official::test(|line| tally.see(line))
    })?;
    steps.step("clients from npm: web3.js, kit, SPL Token, Anchor", |_| clients::npm(&run::hearth(None)?))?;
    steps.step("browser: the dashboard in Chromium", |_| clients::browser(&run::hearth(None)?))?;
    steps.step("browser: the dashboard of a cluster", |_| clients::browser_cluster(&run::hearth(None)?))?;
    steps.step("browser: the dashboard of an EVM chain", |_| clients::browser_ethereum(&run::hearth(None)?))?;
    steps.step("browser: the page of a load", |_| clients::browser_load(&run::hearth(None)?))?;
    steps.step("browser: the page of a study", |_| clients::browser_tune(&run::hearth(None)?))?;
    steps.step("walk: from a bottleneck to its remedy, by monitor and browser", |tally| {
        clients::walk(|line| tally.see(line))
    })?;
    steps.step("clients from PyPI: solana-py, solders", |_| clients::python(&run::hearth(None)?))?;
    steps.step("clients of Ethereum from npm: ethers, web3.js, viem, ethereumjs; schemas", |_| {
        clients::ethereum_npm(&run::hearth(None)?)
    })?;
    steps.step("tools of Ethereum from npm: cast, forge, Hardhat, OpenZeppelin", |_| {
        clients::ethereum_tools(&run::hearth(None)?)
    })?;
    steps.step("loads on nodes from npm: anvil, Hardhat", |_| clients::loads(&run::hearth(None)?))?;
    steps.step("client of Ethereum from PyPI: web3.py", |_| clients::ethereum_python(&run::hearth(None)?))?;
    steps.step("numpy: what studies say", |_| clients::statistics(&run::hearth(None)?))?;
    steps.step("agave: one cluster with its validator, where it is built", |_| agave::test(|| run::hearth(None)))
}

/// The value of a variable with flags, with more of them.
fn with_flags(name: &str, more: &str) -> String {
    let set = std::env::var(name).unwrap_or_default();
    if set.is_empty() { more.into() } else { format!("{set} {more}") }
}

/// Loom replaces atomics in the whole build, so it has its own target folder.
fn loom() -> Command {
    let mut command = cargo();
    command.args(["test", "--release", "--locked", "--package", "hearth-ring", "--package", "hearth-tile", "--lib"]);
    command.env("RUSTFLAGS", with_flags("RUSTFLAGS", "--cfg loom")).env("CARGO_TARGET_DIR", target_dir().join("loom"));
    command
}

/// Runs Miri over the crates with unsafe code, if a toolchain has it.
fn miri() -> Option<Vec<Command>> {
    let toolchain =
        [cargo, cargo_nightly].into_iter().find(|cargo| run::answers(cargo().args(["miri", "--version"])))?;
    // For crypto, skip property tests and anything that takes seconds: Miri is a thousand times slower than native
    // code.
    let crypto = ["sha256::tests::published", "reed_solomon::field", "ed25519::field::tests::constants"];
    let packages = [("hearth-ring", &[][..]), ("hearth-crypto", &crypto)];
    let command = |(package, filter): (&str, &[&str])| {
        let mut command = toolchain();
        command.args(["miri", "test", "--locked", "--package", package, "--lib", "--"]).args(filter);
        command.env("MIRIFLAGS", "-Zmiri-disable-isolation").env("CARGO_TARGET_DIR", target_dir().join("miri"));
        command
    };
    Some(packages.map(command).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_cargo_test_add_up() {
        let mut tally = Tally::default();
        for line in [
            "running 3 tests",
            "test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 4 filtered out; finished in 0.10s",
            "test result: FAILED. 7 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s",
            "the test result: ok. 5 passed; 5 failed",
        ] {
            tally.see(line);
        }
        assert_eq!(tally, Tally { passed: 19, failed: 2 });
    }

    #[test]
    fn a_listed_step_is_not_run() {
        let mut steps = Steps { list: true, ..Steps::default() };
        steps.step("listed", |_| Err("it ran".into())).unwrap();
        assert_eq!(steps.times.len(), 1);
        assert_eq!(steps.tally, Tally::default());
    }

    #[test]
    fn a_step_counts_as_one_test_where_its_runner_counts_none() {
        let mut steps = Steps::default();
        steps.step("good", |_| Ok(())).unwrap();
        assert_eq!(steps.step("bad", |_| Err("why".into())), Err("bad: why".into()));
        steps
            .step("many", |tally| {
                tally.passed = 5;
                Ok(())
            })
            .unwrap();
        // It did not even compile: a failure, though no test ran.
        steps
            .step("broken", |tally| {
                tally.passed = 2;
                Err("exit status: 101".into())
            })
            .unwrap_err();
        assert_eq!(steps.tally, Tally { passed: 8, failed: 2 });
        assert_eq!(steps.times.len(), 4);
    }
}
