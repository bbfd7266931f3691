//! The score as a page of the docs.

use std::fmt::Write;

use crate::expected::ExpectedFailures;
use crate::files::Suite;
use crate::score::{Row, Score};

const HEAD: &str = "# Official tests

This page is written by a program: `hearth-evm-official DIR --page FILE` runs [Ethereum's official
tests](https://github.com/ethereum/tests), the fixtures of
[execution-spec-tests](https://github.com/ethereum/execution-spec-tests) and the recorded RPC tests of the [execution
API](https://github.com/ethereum/execution-apis) against the EVM ledger. `cargo xtask test` runs those in the folder
that `HEARTH_OFFICIAL_TESTS` names, and `cargo xtask soak official DIR` whole trees.

Each case runs in order and on two threads, and a block whose parent is in the same case also ahead of its parent's
hash. It passes if all paths agree and reach the test's result: the state root and the logs, the block's hash, or a
refusal.

";

const OF_RPC: &str = "
## RPC

The chain of these tests, from proof of work to the newest fork, is imported with both paths and served over HTTP.
Answers must be equal to the recorded ones, errors by their code and data, and valid by the schemas that the execution
API publishes. Where a test asks for the schema alone, it decides alone; a trace, which the schema leaves open, must
have the form of the recorded one. Two recorded answers of `eth_simulateV1` are not valid themselves, by the message of
an error; they decide alone.

| Method | Passed | Failed as expected | Failed |
|---|---:|---:|---:|
";

/// The page of a score.
pub fn of(score: &Score, expected: &ExpectedFailures) -> String {
    let mut out = HEAD.to_owned();
    out.push_str("| Suite | Fork | Passed | Failed as expected | Failed | Not run |\n|---|---|---:|---:|---:|---:|\n");
    let mut all = Row::default();
    let mut of_rpc = Row::default();
    for ((suite, fork), row) in &score.rows {
        if *suite == Suite::Rpc.name() {
            of_rpc.add(row);
        } else {
            line(&mut out, suite, if fork.is_empty() { "–" } else { fork.as_str() }, row);
        }
        all.add(row);
    }
    if of_rpc != Row::default() {
        line(&mut out, Suite::Rpc.name(), "–", &of_rpc);
    }
    line(&mut out, "**all**", "", &all);
    if of_rpc != Row::default() {
        by_method(&mut out, score);
    }
    if !score.listed.is_empty() {
        out.push_str("\n## What fails, and why\n\n");
        for (name, words) in &expected.causes {
            let of_cause = score.listed.iter().filter(|(at, _)| expected.lines[**at].cause == *name);
            let count: usize = of_cause.map(|(_, count)| count).sum();
            if count > 0 {
                let _ = writeln!(out, "- **{name}**, {count} cases: {words}");
            }
        }
    }
    if !score.unrun.is_empty() {
        out.push_str("\n## What is not run\n\n");
        for (why, count) in &score.unrun {
            let _ = writeln!(out, "- {count} cases: {why}.");
        }
    }
    out
}

/// The recorded tests, a line for each method.
fn by_method(out: &mut String, score: &Score) {
    out.push_str(OF_RPC);
    for ((_, method), row) in score.rows.iter().filter(|((suite, _), _)| *suite == Suite::Rpc.name()) {
        let Row { passed, expected, failed, .. } = row;
        let _ = writeln!(out, "| `{method}` | {passed} | {expected} | {failed} |");
    }
}

fn line(out: &mut String, suite: &str, fork: &str, row: &Row) {
    let Row { passed, expected, failed, unrun } = row;
    let _ = writeln!(out, "| {suite} | {fork} | {passed} | {expected} | {failed} | {unrun} |");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::score::Ending;

    #[test]
    fn a_page_has_a_row_for_each_fork_and_the_causes() {
        let expected = ExpectedFailures::listed().expect("it reads");
        let mut score = Score::default();
        score.add(Suite::State, "Cancun", "a", Ending::Passed, &expected);
        score.add(
            Suite::State,
            "Cancun",
            "stSStoreTest/InitCollisionParis.json",
            Ending::Failed("b".into()),
            &expected,
        );
        score.add(Suite::Rlp, "", "c", Ending::Unrun("nobody can"), &expected);
        assert!(!of(&score, &expected).contains("## RPC"));
        score.add(Suite::Rpc, "eth_call", "d", Ending::Passed, &expected);
        score.add(Suite::Rpc, "eth_getLogs", "e", Ending::Failed("f".into()), &expected);
        let page = of(&score, &expected);
        let parts = [
            "| state | Cancun | 1 | 1 | 0 | 0 |",
            "| RLP | – | 0 | 0 | 0 | 1 |",
            "| RPC | – | 1 | 0 | 1 | 0 |",
            "| `eth_call` | 1 | 0 | 0 |",
            "eip-7610",
            "nobody can.",
        ];
        for part in parts {
            assert!(page.contains(part), "{page}");
        }
    }
}
