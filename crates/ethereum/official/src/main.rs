//! Ethereum's official tests, run against the EVM ledger: `hearth-evm-official DIR [--page FILE]`.
//!
//! reads   a folder of tests in the layout of ethereum/tests and of the fixtures of execution-spec-tests; the list of
//!         failures that are expected; the recorded tests of the execution API, with their chain
//! writes  each case that is not as expected, and the score; with `--page` the score as a page
//! memory  one file of tests at a time
//! source  <https://github.com/ethereum/tests>, <https://github.com/ethereum/execution-spec-tests>,
//!         <https://github.com/ethereum/execution-apis>
//!
//! ```text
//!  files ─► suite by what a case holds ─► blocks, state, transactions, rlp, trie ─► score ─► page
//!                                             each case on every path                ▲  ▲
//!  chain.rlp ─► a chain ─► its server ─► rpc: recorded requests and answers ─────────┘  │
//!                                                                     expected.txt ─────┘
//! ```
//!
//! A case runs in order, on two threads, and, where it has a parent in the same case, ahead of its parent's hash. It
//! passes if all agree and reach the test's result. A listed failure that passes fails the run, so that the list
//! stays true.

mod accounts;
mod blocks;
mod expected;
mod files;
mod forks;
mod hex;
mod page;
mod rlp;
mod rpc;
mod score;
mod state;
mod transactions;
mod trie;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use expected::ExpectedFailures;
use files::{NoCases, Suite};
use score::{Ending, Score};

const USAGE: &str = "usage: hearth-evm-official DIR [--page FILE]

Runs the tests below DIR: state, blockchain, transaction, RLP and trie tests of Ethereum's public repositories, and
the recorded RPC tests of its execution API.
--page FILE writes the score there as a page.";

/// The score's name for the forks of the execution API's chain.
const OF_ITS_CHAIN: &str = "HomesteadToBPO2";
/// Cases that are shown one by one before only their number is.
const SHOWN: usize = 100;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let (folder, page) = match args[..] {
        [folder] => (folder, None),
        [folder, "--page", page] | ["--page", page, folder] => (folder, Some(PathBuf::from(page))),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(Path::new(folder), page.as_deref()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Whether all cases ended as expected.
fn run(folder: &Path, page: Option<&Path>) -> Result<bool, String> {
    let expected = ExpectedFailures::listed()?;
    let files = files::below(folder)?;
    // A panic is a failed case, and said as such.
    std::panic::set_hook(Box::new(|_| {}));
    let mut score = Score::default();
    for file in &files {
        let cases = match file.cases() {
            Ok(cases) => cases,
            Err(why) => {
                let ending = match why {
                    NoCases::Pointer => Ending::Unrun("its file is only a Git LFS pointer"),
                    NoCases::Unreadable(why) => Ending::Failed(why),
                };
                score.add(Suite::Unknown, "", &file.name, ending, &expected);
                continue;
            }
        };
        for (name, case) in &cases {
            let name = format!("{}/{name}", file.name);
            for (fork, part, ending) in one(file.suite(case), case) {
                score.add(file.suite(case), &fork, &format!("{name}{part}"), ending, &expected);
            }
        }
    }
    let _ = std::panic::take_hook();
    for rpc::CaseResult { method, name, ending } in rpc::run(folder)? {
        let suite = if method.is_empty() { Suite::Blocks } else { Suite::Rpc };
        let of = if method.is_empty() { OF_ITS_CHAIN } else { method.as_str() };
        score.add(suite, of, &name, ending, &expected);
    }
    score.close(&expected);
    for line in score.wrong().iter().take(SHOWN) {
        println!("{line}");
    }
    if score.wrong().len() > SHOWN {
        println!("… and {} more", score.wrong().len() - SHOWN);
    }
    print!("{}", score.table());
    // In the form that `cargo test` ends with, by which results are added up.
    let (passed, failed) = (score.passed(), score.wrong().len());
    let word = if failed == 0 { "ok" } else { "FAILED" };
    println!("test result: {word}. {passed} passed; {failed} failed");
    if passed == 0 {
        return Err(format!("{}: no test was run there", folder.display()));
    }
    if let Some(path) = page {
        let text = page::of(&score, &expected);
        std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(failed == 0)
}

/// The endings of a case, each with the fork it ran under and what tells it from others of the same name.
fn one(suite: Suite, case: &serde_json::Value) -> Vec<(String, String, Ending)> {
    let run = || match suite {
        Suite::Blocks => blocks::run(case),
        Suite::State => state::run(case),
        Suite::Transactions => transactions::run(case),
        Suite::Rlp => vec![(String::new(), String::new(), rlp::run(case))],
        Suite::Trie(kind) => vec![(String::new(), String::new(), trie::run(kind, case))],
        // Recorded tests are no cases of files in JSON.
        Suite::Rpc | Suite::Unknown => {
            vec![(String::new(), String::new(), Ending::Unrun("no suite that is known here"))]
        }
    };
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let what = panic.downcast_ref::<String>().cloned();
        let what = what.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        let what = format!("panicked: {}", what.unwrap_or_default());
        vec![(String::new(), String::new(), Ending::Failed(what))]
    })
}
