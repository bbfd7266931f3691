//! A newcomer's walk: from a bench with a bottleneck, by the advice of the monitor on a terminal and of the dashboard
//! in a browser, to a faster one.
//!
//! If `BROWSER` names a Chromium, and Node.js has the packages of the clients' tests, a page is checked too; `cargo
//! xtask test --only walk` runs it so.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::node::{Setup, hearth, wait_until};
use super::terminal::Terminal;

/// By how much the change must help at least. With two cores to itself it is ten times; where other programs have most
/// of them, less.
const FASTER: f64 = 1.5;

#[test]
fn advice_of_the_monitor_makes_a_bench_faster() {
    let mut setup = Setup::new("walk");
    // The default of a bench; the tests' nodes have less.
    setup.with("tiles.pack.max_pending_transactions", 65_524).with("development.genesis.fund_initial_accounts", 1024);
    // Blocks fill up by reserved compute units and come half as often as on a cluster: some 6,000 txn/s, whatever the
    // machine could do.
    let shown: toml::Table = readme_file().parse().expect("the README's file is TOML");
    with_all(&mut setup, "", &shown);
    let file = setup.folder.path().join("my.toml");
    fs::rename(setup.config(), &file).unwrap();

    let mut bench = Terminal::start(command("bench", &file).args(["--warmup", "2", "--duration", "120"]), 100, 60);
    bench.shows(&["dashboard: http://", " 1 s "]);
    let mut monitor = Terminal::start(&mut command("monitor", &file), 80, 24);
    let (says, advice) = steady_diagnosis(&monitor);
    if std::env::var_os("BROWSER").is_some() {
        let shown = dashboard_says(setup.ports.rpc, &advice);
        assert_eq!(shown["advice"], advice);
        let sentence = without_numbers(shown["says"].as_str().unwrap());
        assert!(without_numbers(&says).starts_with(&sentence), "{says}\n{sentence}");
    }
    monitor.keys("q");
    assert!(monitor.ended().success(), "{}", monitor.screen());
    bench.shows(&[" 8 s "]);
    bench.interrupt();
    let before = rate(&mut bench);

    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("\n[tiles.pack]\n"), "a file with tables: {text}");
    fs::write(&file, with_set(&text, &advice)).unwrap();
    let mut bench = Terminal::start(command("bench", &file).args(["--warmup", "2", "--duration", "6"]), 100, 60);
    let after = rate(&mut bench);
    println!("{before:.0} txn/s: {says}\n{after:.0} txn/s with `{advice}`");
    assert!(after > FASTER * before, "{before:.0} txn/s, then {after:.0}: {says}");
}

/// The file that the README gives for a bench that something holds back.
fn readme_file() -> String {
    let readme = include_str!("../../../../README.md");
    let (_, after) = readme.split_once("with this `my.toml`:\n\n").expect("the README gives a file");
    // Indented as code, within a step of the list.
    let block = after.lines().take_while(|line| line.is_empty() || line.starts_with("        "));
    block.map(|line| format!("{}\n", line.trim_start())).collect()
}

/// Adds all keys of these tables.
fn with_all(setup: &mut Setup, path: &str, tables: &toml::Table) {
    for (key, value) in tables {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        match value {
            toml::Value::Table(inner) => with_all(setup, &path, inner),
            _ => _ = setup.with(&path, value.clone()),
        }
    }
}

/// Returns the file with a key set as the README advises: `a.b.key = value` changes `key` under `[a.b]`, or adds it
/// there, or appends a new header and key at the end.
fn with_set(text: &str, advice: &str) -> String {
    let (path, value) = advice.split_once(" = ").expect("a key and its value");
    let (table, key) = path.rsplit_once('.').expect("a key of a table");
    let (header, set) = (format!("[{table}]"), format!("{key} = {value}"));
    let mut lines: Vec<&str> = text.lines().collect();
    match lines.iter().position(|line| *line == header) {
        Some(at) => {
            let mut of_table = lines[at + 1..].iter().take_while(|line| !line.starts_with('['));
            let found = of_table.position(|line| line.split('=').next().is_some_and(|name| name.trim() == key));
            match found {
                Some(found) => lines[at + 1 + found] = &set,
                None => lines.insert(at + 1, &set),
            }
        }
        None => lines.extend(["", &header, &set]),
    }
    lines.join("\n") + "\n"
}

#[test]
fn a_key_is_changed_in_its_table_or_added() {
    let text = "[a.b]\nkey = 1\n\n[c]\nother = 2\n";
    assert_eq!(with_set(text, "a.b.key = 7"), "[a.b]\nkey = 7\n\n[c]\nother = 2\n");
    assert_eq!(with_set(text, "c.key = 7"), "[a.b]\nkey = 1\n\n[c]\nkey = 7\nother = 2\n");
    assert_eq!(with_set(text, "d.key = 7"), format!("{text}\n[d]\nkey = 7\n"));
}

/// `hearth COMMAND --config FILE`, in the file's folder.
fn command(command: &str, file: &Path) -> Command {
    let mut process = hearth();
    process.arg(command).arg("--config").arg(file).current_dir(file.parent().expect("a file lies in a folder"));
    process
}

/// Returns the monitor's diagnosis and the configuration line that it names, once both are the same for three slots,
/// since a load that has just begun has another bottleneck.
fn steady_diagnosis(monitor: &Terminal) -> (String, String) {
    let mut since: Option<(String, u64)> = None;
    wait_until("a diagnosis that stays and names a key and its value", || {
        let screen = monitor.screen();
        let Some((slot, says, advice)) = read(&screen) else {
            since = None;
            return Err(screen);
        };
        match &since {
            Some((same, first)) if *same == advice && slot >= first + 3 => Ok((says, advice)),
            Some((same, _)) if *same == advice => Err(screen),
            _ => {
                since = Some((advice, slot));
                Err(screen)
            }
        }
    })
}

/// Parses slot, sentence and `key = value` from the monitor's screen: the sentence follows the bars and ends with text
/// between backticks.
fn read(screen: &str) -> Option<(u64, String, String)> {
    let slot = screen.split_once("slot ")?.1.split_whitespace().next()?.parse().ok()?;
    let is_bars = |line: &&str| !line.is_empty() && line.chars().all(|bar| ('▁'..='█').contains(&bar));
    let bars = screen.lines().map(str::trim_end).find(is_bars)?;
    let words: Vec<&str> = screen.split_once(bars)?.1.split_whitespace().collect();
    let text = words.join(" ");
    let mut parts = text.splitn(3, '`');
    let (says, advice) = (parts.next()?, parts.next()?);
    let is_whole = advice.contains(" = ") && parts.next().is_some();
    is_whole.then(|| (slot, says.to_owned(), advice.to_owned()))
}

/// Figures change from one second to the next.
fn without_numbers(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_ascii_digit()).collect()
}

/// Returns the dashboard's text in a real browser, once it shows the advice.
fn dashboard_says(port: u16, advice: &str) -> Value {
    let scripts = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/clients/npm");
    let mut script = Command::new("node");
    script.arg("says.mjs").current_dir(scripts);
    script.env("RPC_URL", format!("http://127.0.0.1:{port}")).env("ADVICE", advice);
    let output = script.output().expect("node starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("one line of JSON")
}

/// The mean of the summary, once the bench has ended.
fn rate(bench: &mut Terminal) -> f64 {
    let status = bench.ended();
    let screen = bench.shows(&["  txn/s      mean "]);
    assert!(status.success(), "{status}: {screen}");
    let mean = screen.split_once("txn/s      mean ").and_then(|(_, rest)| rest.split_whitespace().next());
    let mean = mean.and_then(|mean| mean.replace(',', "").parse().ok());
    mean.unwrap_or_else(|| panic!("no mean in:\n{screen}"))
}
