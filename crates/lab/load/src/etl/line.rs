//! Parses one line of a log for what it says about blocks.
//!
//! reads   CometBFT's plain and JSON lines, from Tendermint 0.33 to CometBFT 0.38, also in zerolog's console format or
//!         Docker's wrapping; our node's block line; lines like `tps,begin_block,31,31,td_height 781,…`
//! writes  a row for each complete record
//! memory  the line
//! drops   records that are cut off or interleaved with another write: counted as damaged
//!
//! Two processes that write to one file, or one that is killed in mid-line, leave lines with parts of several records.
//! So a line is split wherever another record begins, and the last word before the split is discarded: it may be half a
//! number.

use std::sync::LazyLock;

use chrono::{DateTime, NaiveDateTime};
use regex::bytes::Regex;
use serde_json::Value;

use super::row::{Column, HEIGHT_MAX, Row};

/// How a record begins.
static HEAD: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"(?-u)(?P<plain>[A-Z_]\[\d{4}-\d\d-\d\d\|\d\d:\d\d:\d\d\.\d{3}\] )",
        r"|(?P<rfc3339>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:?\d\d)) +[A-Z]{3,5} ",
        r"|\b\d{1,2}:\d\d[AP]M [A-Z]{3} ",
        r"|(?P<tps>tps,(?:begin_block|end_block|commit),)",
        r#"|(?P<json>\{\s*")"#,
    ))
    .expect("a pattern")
});

/// Colours and other terminal escape sequences.
static ORDERS: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(?-u)\x1b\[[0-9;?]*[A-Za-z]").expect("a pattern"));

/// A pattern that every line about blocks matches, so that all others are skipped cheaply.
static OURS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?-u)(?:[Ee]xecuted|inalized) block|ommitted state|block |td_height").expect("one"));

/// Depth of JSON within JSON: Docker wraps a line of the program in its own.
const DEPTH_MAX: u8 = 2;
/// Parts of a line that begin like JSON but are invalid are tried at most this often.
const JSON_PARTS_MAX: usize = 32;

/// Counts of the records in a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Complete records about blocks.
    pub of_use: u64,
    /// Records about blocks that are incomplete.
    pub damaged: u64,
}

impl Verdict {
    const OF_USE: Self = Self { of_use: 1, damaged: 0 };
    const DAMAGED: Self = Self { of_use: 0, damaged: 1 };
    const OTHER: Self = Self { of_use: 0, damaged: 0 };

    fn add(&mut self, other: Self) {
        self.of_use += other.of_use;
        self.damaged += other.damaged;
    }
}

/// Parses a line, without its line end, and adds a row for each record about a block.
pub fn parse(line: &[u8], rows: &mut Vec<Row>) -> Verdict {
    parse_within(line, rows, 0)
}

fn parse_within(line: &[u8], rows: &mut Vec<Row>, depth: u8) -> Verdict {
    let mut verdict = Verdict::default();
    let without = line.contains(&0x1b).then(|| ORDERS.replace_all(line, &b""[..]));
    let line = without.as_deref().unwrap_or(line);
    // In our node's coloured lines the escape sequences stand between the words.
    if !OURS.is_match(line) {
        return verdict;
    }
    let (mut at, mut json_parts) = (0, 0);
    while let Some(head) = HEAD.captures_at(line, at) {
        let whole = head.get(0).expect("the match");
        if head.name("json").is_some() {
            json_parts += 1;
            let (end, found) = json(&line[whole.start()..], rows, depth);
            verdict.add(found);
            at = end.map_or(whole.end(), |end| whole.start() + end);
            if json_parts > JSON_PARTS_MAX {
                break;
            }
            continue;
        }
        let next = HEAD.find_at(line, whole.end()).map(|next| next.start());
        let record = &line[whole.end()..next.unwrap_or(line.len())];
        let record = if next.is_some() { trusted(record) } else { record };
        let found = match head.name("tps") {
            Some(stage) => tps(stage.as_bytes(), record, rows),
            None => words(time(&head), record, rows),
        };
        verdict.add(found);
        at = next.unwrap_or(line.len());
    }
    verdict
}

/// The record without its last word, which another write may have cut.
fn trusted(record: &[u8]) -> &[u8] {
    let end = record.iter().rposition(u8::is_ascii_whitespace).map_or(0, |space| space + 1);
    &record[..end]
}

fn time(head: &regex::bytes::Captures<'_>) -> Option<i64> {
    let text = |name| head.name(name).and_then(|part| std::str::from_utf8(part.as_bytes()).ok());
    if let Some(plain) = text("plain") {
        let time = NaiveDateTime::parse_from_str(plain.get(1..)?.trim(), "[%Y-%m-%d|%H:%M:%S%.3f]").ok()?;
        return Some(time.and_utc().timestamp_millis());
    }
    rfc3339(text("rfc3339")?)
}

fn rfc3339(text: &str) -> Option<i64> {
    let parsed =
        DateTime::parse_from_rfc3339(text).or_else(|_| DateTime::parse_from_str(text, "%Y-%m-%dT%H:%M:%S%.f%z"));
    Some(parsed.ok()?.timestamp_millis())
}

/// Parses a number that fits a column.
fn number(text: &[u8]) -> Option<i64> {
    let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| digits)?.parse().ok()
}

/// Access to a record's fields.
trait Fields {
    /// Returns a field as a number.
    fn number(&self, name: &str) -> Option<i64>;
    /// Returns whether the record has the field.
    fn has(&self, name: &str) -> bool;
    /// Returns whether a module other than `state` wrote the record.
    fn is_of_another_module(&self) -> bool;
}

/// Words of the form `name=value`.
struct Words<'a>(Vec<(&'a [u8], &'a [u8])>);

impl Fields for Words<'_> {
    fn number(&self, name: &str) -> Option<i64> {
        number(self.0.iter().find(|(key, _)| *key == name.as_bytes())?.1)
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(key, _)| *key == name.as_bytes())
    }

    fn is_of_another_module(&self) -> bool {
        self.0.iter().any(|(key, value)| *key == b"module" && *value != b"state")
    }
}

impl Fields for Value {
    fn number(&self, name: &str) -> Option<i64> {
        match self.get(name)? {
            Self::String(text) => number(text.as_bytes()),
            value => value.as_i64().filter(|value| *value >= 0),
        }
    }

    fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    fn is_of_another_module(&self) -> bool {
        self.get("module").is_some_and(|module| module != "state")
    }
}

/// Parses a record of words: a message, then fields.
fn words(time: Option<i64>, record: &[u8], rows: &mut Vec<Row>) -> Verdict {
    let all = record.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let mut all = all.map(|word| (word, word.iter().position(|byte| *byte == b'='))).peekable();
    let mut message = String::new();
    while let Some((word, None)) = all.next_if(|(_, equals)| equals.is_none()) {
        if !message.is_empty() {
            message.push(' ');
        }
        message.push_str(&String::from_utf8_lossy(word));
    }
    let fields = all.filter_map(|(word, equals)| equals.map(|at| (&word[..at], &word[at + 1..]))).collect();
    say(&message, time, &Words(fields), rows)
}

/// Parses a record in JSON: returns where it ends, and what it was.
fn json(text: &[u8], rows: &mut Vec<Row>, depth: u8) -> (Option<usize>, Verdict) {
    let mut values = serde_json::Deserializer::from_slice(text).into_iter::<Value>();
    let Some(Ok(value)) = values.next() else {
        // Another record may begin within it, so only the part before that counts as this one.
        let own = HEAD.find_at(text, 1).map_or(text, |next| &text[..next.start()]);
        return (None, if OURS.is_match(own) { Verdict::DAMAGED } else { Verdict::OTHER });
    };
    let end = Some(values.byte_offset());
    if let Some(inner) = value.get("log").and_then(Value::as_str).filter(|_| depth < DEPTH_MAX) {
        return (end, parse_within(inner.trim_end().as_bytes(), rows, depth + 1));
    }
    let text = |names: &[&str]| names.iter().find_map(|name| value.get(*name)).cloned().unwrap_or_default();
    let time = match text(&["ts", "time", "timestamp"]) {
        Value::String(text) => rfc3339(&text),
        // Seconds or milliseconds since 1970.
        Value::Number(time) => time.as_f64().map(|time| if time < 1e11 { time * 1e3 } else { time } as i64),
        _ => None,
    };
    let message = text(&["_msg", "message", "msg"]);
    (end, say(message.as_str().unwrap_or_default(), time, &value, rows))
}

/// Converts a message about a block into a row.
fn say(message: &str, time: Option<i64>, fields: &dyn Fields, rows: &mut Vec<Row>) -> Verdict {
    let message = message.trim_end();
    let row = if message.starts_with("hearth_evm::") && message.ends_with(" block") {
        our_block(time, fields)
    } else if fields.is_of_another_module() {
        return Verdict::OTHER;
    } else if message.eq_ignore_ascii_case("finalized block") {
        finalized(time, fields)
    } else if message.eq_ignore_ascii_case("executed block") {
        executed(time, fields)
    } else if message.eq_ignore_ascii_case("committed state") {
        committed(time, fields)
    } else {
        return Verdict::OTHER;
    };
    match row {
        Some(row) => {
            rows.push(row);
            Verdict::OF_USE
        }
        None => Verdict::DAMAGED,
    }
}

fn of_height(fields: &dyn Fields, name: &str) -> Option<Row> {
    row_of(fields.number(name)?)
}

fn row_of(height: i64) -> Option<Row> {
    u64::try_from(height).ok().filter(|height| *height <= HEIGHT_MAX).map(Row::new)
}

fn finalized(time: Option<i64>, fields: &dyn Fields) -> Option<Row> {
    let results = fields.number("num_txs_res")?;
    // The last field but one of the plain form: if it is present, no number before it is cut off.
    fields.number("num_val_updates")?;
    Some(of_height(fields, "height")?.with(Column::Finalized, time).with(Column::Results, results))
}

fn executed(time: Option<i64>, fields: &dyn Fields) -> Option<Row> {
    let row = of_height(fields, "height")?.with(Column::Executed, time);
    let pair = |valid, invalid| fields.number(valid).zip(fields.number(invalid));
    let counts = pair("validTxs", "invalidTxs").or_else(|| pair("num_valid_txs", "num_invalid_txs"));
    match counts {
        Some((valid, invalid)) => {
            let results = valid.checked_add(invalid)?;
            Some(row.with(Column::Valid, valid).with(Column::Invalid, invalid).with(Column::Results, results))
        }
        // Since 0.38 this record has no count.
        None => fields.has("app_hash").then_some(row),
    }
}

fn committed(time: Option<i64>, fields: &dyn Fields) -> Option<Row> {
    if !["app_hash", "appHash", "block_app_hash"].iter().any(|name| fields.has(name)) {
        return None;
    }
    let results = fields.number("num_txs").or_else(|| fields.number("txs"));
    if results.is_none() && (fields.has("num_txs") || fields.has("txs")) {
        return None;
    }
    Some(of_height(fields, "height")?.with(Column::Committed, time).with(Column::Results, results))
}

fn our_block(time: Option<i64>, fields: &dyn Fields) -> Option<Row> {
    let columns = [
        (Column::Txs, "txs"),
        (Column::GasUsed, "gas_used"),
        (Column::Begin, "begin_us"),
        (Column::Check, "check_us"),
        (Column::Deliver, "deliver_us"),
        (Column::End, "end_us"),
        (Column::Commit, "commit_us"),
        (Column::EvmCommit, "evm_commit_us"),
    ];
    let row = of_height(fields, "number")?.with(Column::Node, time);
    columns.into_iter().try_fold(row, |row, (column, name)| Some(row.with(column, fields.number(name)?)))
}

/// Parses `tps,begin_block,31,31,td_height 781,end of begin_block`: a stage and its milliseconds, the last of them the
/// sum.
fn tps(stage: &[u8], record: &[u8], rows: &mut Vec<Row>) -> Verdict {
    let column = match stage {
        b"tps,begin_block," => Column::Begin,
        b"tps,end_block," => Column::End,
        _ => Column::Commit,
    };
    let parts: Vec<&[u8]> = record.split(|byte| *byte == b',').collect();
    let at = parts.iter().position(|part| part.starts_with(b"td_height "));
    let row = at.filter(|at| parts.get(at + 1).is_some_and(|end| end.starts_with(b"end of "))).and_then(|at| {
        let height = number(parts[at].strip_prefix(b"td_height ")?)?;
        let micros = number(parts[..at].last()?)?.checked_mul(1000)?;
        Some(row_of(height)?.with(column, micros))
    });
    match row {
        Some(row) => {
            rows.push(row);
            Verdict::OF_USE
        }
        None => Verdict::DAMAGED,
    }
}
