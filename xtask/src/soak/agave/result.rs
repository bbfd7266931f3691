//! The file of results, and the page that shows it.
//!
//! reads   the results of earlier runs
//! writes  the results of a scenario in their place, and the page's text

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::super::escaped;
use super::{Lab, Outcome};
use crate::run;

/// Fields of a row that have columns; the others are in the last one.
const COLUMNS: [&str; 16] = [
    "part",
    "passed",
    "slots",
    "seconds",
    "compared",
    "equal",
    "last",
    "sent",
    "landed",
    "lost",
    "led_ours",
    "skipped_ours",
    "led_agave",
    "skipped_agave",
    "cpu_us_ours",
    "cpu_us_agave",
];
const HEAD: &str = "| Part | Held | Slots compared, equal | Sent, landed | Skipped: Hearth, Agave \
                    | CPU: Hearth, Agave | More |\n|---|---|---|---|---|---|---|\n";
/// Maximum characters of a line that says what did not hold.
const LINE_MAX: usize = 300;

/// Puts the results of a scenario into the file, in place of its earlier ones, and prints their table.
pub fn save(file: &Path, scenario: &str, lab: &Lab, outcome: &Outcome) -> Result<(), String> {
    let cannot = |error: String| format!("{}: {error}", file.display());
    let text = match std::fs::read_to_string(file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => "{}".to_owned(),
        read => read.map_err(|error| cannot(error.to_string()))?,
    };
    let first_line = |program: &Path| -> Result<String, String> {
        let said = run::output(Command::new(program).arg("--version"))?;
        Ok(said.lines().next().unwrap_or_default().to_owned())
    };
    let result = json!({
        "date": run::output(Command::new("date").args(["-u", "+%F"]))?.trim(),
        "hearth": first_line(&lab.hearth)?,
        "agave": first_line(&lab.programs.join("agave-validator"))?,
        "slot_ms": lab.slot_ms,
        "epoch_slots": lab.epoch_slots,
        "seconds": lab.seconds,
        "rate": lab.rate,
        "nodes": lab.nodes,
        "rows": outcome.figures["rows"],
        "wrong": outcome.wrong,
    });
    println!("{}", section(scenario, &result));
    let text = merged(&text, scenario, result).map_err(|error| cannot(error.to_string()))?;
    // A soak that is killed here must not take the earlier results along.
    let whole = file.with_extension("new");
    let written = std::fs::write(&whole, text).and_then(|()| std::fs::rename(&whole, file));
    written.map_err(|error| cannot(error.to_string()))
}

/// A file's text with the results of a scenario in place of its earlier ones. Those of the others stay.
fn merged(text: &str, scenario: &str, result: Value) -> serde_json::Result<String> {
    let mut all: Value = serde_json::from_str(text)?;
    all["scenarios"][scenario] = result;
    Ok(serde_json::to_string_pretty(&all)? + "\n")
}

/// The page of a file of results.
pub fn page(text: &str) -> Result<String, String> {
    let all: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mut page = "# What was seen beside Agave\n\n[Beside Agave](agave.md) describes each scenario and how to run \
                    it. This page shows the results in `docs/agave.json`.\n\n\
                    - *Held*: whether everything held that the scenario checks.\n\
                    - *Slots compared, equal*: slots for which both nodes have a bank hash, and those with the same \
                    hash.\n\
                    - *Sent, landed*: transactions of all loads.\n\
                    - *Skipped*: leader slots without a confirmed block, of all slots that the node led.\n\
                    - *CPU*: user and system time of the whole process for each transaction that landed, in \
                    microseconds.\n  It includes votes, shreds and RPC.\n\
                    - *Last shred to vote*: the time from the last shred of another leader's block to the vote for \
                    it, by each\n  node's log.\n\
                    - *Socket drops*: datagrams that the kernel dropped because a socket's buffer was full.\n"
        .to_owned();
    for (scenario, result) in all["scenarios"].as_object().into_iter().flatten() {
        page += "\n";
        page += &section(scenario, result);
    }
    Ok(page)
}

/// A scenario's heading, settings, table, and what did not hold.
fn section(scenario: &str, result: &Value) -> String {
    let shown = |name: &str| plain(&result[name]);
    let mut text = format!(
        "## {scenario}\n\n{}: {}, {}. Slots of {} ms, loads of {} transactions a second.\n\n{HEAD}",
        shown("date"),
        shown("hearth"),
        shown("agave"),
        shown("slot_ms"),
        shown("rate"),
    );
    for row in result["rows"].as_array().into_iter().flatten() {
        text += &line(row);
    }
    let wrong: Vec<&str> = result["wrong"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if !wrong.is_empty() {
        text += "\nWhat did not hold:\n\n";
        for why in wrong {
            let first: String = why.lines().next().unwrap_or_default().chars().take(LINE_MAX).collect();
            text += &format!("- {}\n", escaped(&first));
        }
    }
    text
}

/// A row of the table.
fn line(row: &Value) -> String {
    let skipped = |name: &str| match (&row[&format!("skipped_{name}")], &row[&format!("led_{name}")]) {
        (Value::Null, _) => "–".to_owned(),
        (skipped, led) => format!("{} of {}", plain(skipped), plain(led)),
    };
    let cells = [
        plain(&row["part"]),
        if row["passed"] == json!(true) { "yes" } else { "**no**" }.to_owned(),
        both(&row["compared"], &row["equal"]),
        both(&row["sent"], &row["landed"]),
        format!("{}, {}", skipped("ours"), skipped("agave")),
        both(&row["cpu_us_ours"], &row["cpu_us_agave"]),
        more(row),
    ];
    format!("| {} |\n", cells.join(" | "))
}

fn both(one: &Value, other: &Value) -> String {
    format!("{}, {}", plain(one), plain(other))
}

/// The fields without a column of their own.
fn more(row: &Value) -> String {
    let fields = row.as_object().into_iter().flatten().filter(|(name, _)| !COLUMNS.contains(&name.as_str()));
    let shown: Vec<String> =
        fields.map(|(name, value)| format!("{}: {}", name.replace('_', " "), plain(value))).collect();
    if shown.is_empty() { "–".to_owned() } else { shown.join("; ") }
}

/// A value as a reader likes it: text without quotes, lists and objects by commas.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => "–".to_owned(),
        Value::String(text) => escaped(text),
        Value::Array(values) if values.is_empty() => "none".to_owned(),
        Value::Array(values) => values.iter().map(plain).collect::<Vec<_>>().join(", "),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| format!("{} {}", name.replace('_', " "), plain(value)));
            fields.collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_a_table() {
        let row = json!({
            "part": "quiet", "passed": true, "compared": 9, "equal": 9, "sent": 4, "landed": 4, "led_ours": 8,
            "skipped_ours": 1, "led_agave": 8, "skipped_agave": 0, "cpu_us_ours": 70, "cpu_us_agave": 300,
            "catch_up_ours": { "slots": 5, "slots_per_s": 2.5 },
        });
        let expected = "| quiet | yes | 9, 9 | 4, 4 | 1 of 8, 0 of 8 | 70, 300 \
                        | catch up ours: slots 5, slots per s 2.5 |\n";
        assert_eq!(line(&row), expected);
        let bare = json!({ "part": "a|b", "passed": false });
        assert_eq!(line(&bare), "| a\\|b | **no** | –, – | –, – | –, – | –, – | – |\n");
    }

    #[test]
    fn results_of_other_scenarios_stay() {
        let first = merged("{}", "lead", json!({ "rows": [1] })).unwrap();
        let second = merged(&first, "vote", json!({ "rows": [2] })).unwrap();
        let third = merged(&second, "lead", json!({ "rows": [3] })).unwrap();
        let all: Value = serde_json::from_str(&third).unwrap();
        assert_eq!(all, json!({ "scenarios": { "lead": { "rows": [3] }, "vote": { "rows": [2] } } }));
        assert!(merged("cut off", "lead", json!({})).is_err());
    }

    #[test]
    fn page_has_each_scenario() {
        let all = json!({ "scenarios": { "lead": { "rows": [], "wrong": ["one\ntwo"] }, "vote": { "rows": [] } } });
        let page = page(&all.to_string()).unwrap();
        assert!(page.contains("\n## lead\n") && page.contains("- one\n") && page.contains("\n## vote\n"), "{page}");
        assert!(super::page("no JSON").is_err());
    }
}
