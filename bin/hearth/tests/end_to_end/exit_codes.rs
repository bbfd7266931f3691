//! The exit code of each command's failures. Nothing is started: each command line fails before.

use std::fs;

use super::node::{hearth, output};

const FAILED: i32 = 1;
const WRONG_USE: i32 = 2;

const SIGNATURE: &str = "5VERv8NMvzbJMEkV8xnrLkEaWRtSz9CosKDYjCJjBRnbJLgp8uirBgmQpjKhoR4tjF3ZpRzrFmBV6UjKdiSZkQUW";

/// Command lines, run in a folder that holds nothing but `text`, a file without meaning.
const LINES: [(&str, i32); 49] = [
    ("bench --conflict 2", WRONG_USE),
    ("bench --config none.toml", WRONG_USE),
    ("bench --json none/result.json", FAILED),
    ("run --config none.toml", WRONG_USE),
    ("run --name a/b", WRONG_USE),
    ("validator", WRONG_USE),
    ("validator --config none.toml", WRONG_USE),
    ("validator --entrypoint nowhere", WRONG_USE),
    ("validator --no-voting contact-info", WRONG_USE),
    ("validator exit --ledger none", FAILED),
    ("catchup --url nowhere", WRONG_USE),
    ("catchup --url http://127.0.0.1:1", FAILED),
    ("why nothing", WRONG_USE),
    ("why --url ftp://127.0.0.1 SIGNATURE", WRONG_USE),
    ("why --url http://127.0.0.1:1 SIGNATURE", FAILED),
    ("monitor --name nobody-has-this-name", FAILED),
    ("profile --url nowhere", WRONG_USE),
    ("profile --url http://127.0.0.1:1", FAILED),
    ("profile bench --url http://127.0.0.1:1", WRONG_USE),
    ("profile bench --html none/report.html", FAILED),
    ("genesis create --ledger none --bootstrap-validator text text text", WRONG_USE),
    ("genesis show text", FAILED),
    ("ledger verify --name a/b", WRONG_USE),
    ("ledger verify --ledger none", FAILED),
    ("ledger tower show --ledger none", FAILED),
    ("ledger tower import --ledger none", WRONG_USE),
    ("ledger snapshot info text", FAILED),
    ("ledger snapshot verify", WRONG_USE),
    ("ledger blocks --ledger none", FAILED),
    ("load compare text text", WRONG_USE),
    ("load compare none none", FAILED),
    ("load etl", WRONG_USE),
    ("load etl --csv none/rows.csv", FAILED),
    ("tune analyze none.csv --reference a --fail-on-worse --rule article", WRONG_USE),
    ("tune analyze none.csv", FAILED),
    ("tune build none.toml", WRONG_USE),
    ("tune layout --minutes 0", WRONG_USE),
    ("tune machine --requirements none.toml", WRONG_USE),
    ("tune machine --json none/scores.json", FAILED),
    ("cluster simulate --map none.toml", WRONG_USE),
    ("cluster simulate --html none/page.html", FAILED),
    ("cluster up --folder cluster --map none.toml", WRONG_USE),
    ("cluster status --folder none", FAILED),
    ("evm run --mnemonic word", WRONG_USE),
    ("evm run --mnemonic-file none", FAILED),
    ("configure check --config none.toml", WRONG_USE),
    ("keys pubkey none.json", FAILED),
    ("wallet address none.json", FAILED),
    ("config check none.toml", WRONG_USE),
];

#[test]
fn each_failure_keeps_its_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("text"), "no report\n").unwrap();
    for (line, code) in LINES {
        let words = line.split(' ').map(|word| if word == "SIGNATURE" { SIGNATURE } else { word });
        let failed = output(hearth().args(words).current_dir(folder.path()));
        let said = String::from_utf8_lossy(&failed.stderr);
        assert_eq!(failed.status.code(), Some(code), "{line}: {said}");
        assert!(said.lines().any(|line| line.starts_with("error: ")), "{line}: {said}");
    }
}
