//! Tests with real logs, complete and damaged, written to a database file.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use hearth_testkit::http::serve_calls;
use proptest::prelude::*;
use serde_json::json;

use super::live::{Blocks, Heights};
use super::log::{Counts, LINE_BYTES_MAX, Log, stream};
use super::row::{COLUMNS, Column, MergeCounts, Row};
use super::sqlite::Database;
use super::store::{Sample, Store};
use super::summary::summary;
use super::{EtlCounts, Sources, line, table};

/// CometBFT 0.38 with our node as its application, in both log formats, and our node's own log.
const PLAIN: &str = include_str!("fixtures/cometbft-0.38-plain.log");
const JSON: &str = include_str!("fixtures/cometbft-0.38-json.log");
const OURS: &str = include_str!("fixtures/hearth.log");
/// Lines in the formats of older releases and other programs.
const OTHERS: &str = include_str!("fixtures/others.log");

fn rows(text: &[u8]) -> (BTreeMap<u64, Row>, Counts) {
    let (mut rows, mut counts, mut batch) = (vec![], Counts::default(), super::row::Batch::default());
    for line in text.split(|byte| *byte == b'\n') {
        let verdict = line::parse(line, &mut rows);
        counts.of_use += verdict.of_use;
        counts.damaged += verdict.damaged;
    }
    rows.into_iter().for_each(|row| batch.add(row));
    (batch.rows, counts)
}

fn stored(database: &mut Database) -> Vec<Row> {
    let mut rows = vec![];
    database
        .each(0..=u64::MAX, &mut |row| {
            rows.push(row.clone());
            true
        })
        .unwrap();
    rows
}

fn collect(database: &mut Database, log: &Path) -> EtlCounts {
    let mut sources = Sources { logs: vec![Log::new(log)], ..Sources::default() };
    sources.pass(database, &|| false).unwrap();
    sources.found()
}

fn append(path: &Path, text: &[u8]) {
    OpenOptions::new().create(true).append(true).open(path).unwrap().write_all(text).unwrap();
}

#[test]
fn plain_and_json_of_a_real_run() {
    let (plain, counts) = rows(PLAIN.as_bytes());
    assert_eq!((plain.len(), counts.damaged), (4, 0));
    let (json, counts) = rows(JSON.as_bytes());
    assert_eq!((json.len(), counts.damaged), (4, 0));
    for row in plain.values().chain(json.values()) {
        let known = [Column::Finalized, Column::Executed, Column::Committed, Column::Results];
        assert!(known.iter().all(|column| row.get(*column).is_some()), "{row:?}");
    }
}

#[test]
fn our_lines_join_with_cometbfts_by_height() {
    let (both, counts) = rows(format!("{PLAIN}{OURS}").as_bytes());
    assert_eq!((both.len(), counts.damaged), (4, 0));
    for row in both.values() {
        let (results, txs) = (row.get(Column::Results).unwrap(), row.get(Column::Txs).unwrap());
        assert!(results <= txs, "an envelope has many: {row:?}");
        assert_eq!(row.get(Column::GasUsed).unwrap(), 21_000 * txs);
        let late = row.get(Column::Node).unwrap() - row.get(Column::Finalized).unwrap();
        assert!(late.abs() < 1000, "{late} ms apart");
    }
}

#[test]
fn other_forms() {
    let (found, counts) = rows(OTHERS.as_bytes());
    let of = |height: u64| found[&height].clone();
    let first = of(191);
    assert_eq!(first.get(Column::Executed), Some(1_649_297_827_759));
    assert_eq!([Column::Valid, Column::Invalid, Column::Results].map(|it| first.get(it)), [3368, 666, 4034].map(Some));
    let stages = of(781);
    assert_eq!(
        [Column::Begin, Column::End, Column::Commit].map(|it| stages.get(it)),
        [31_000, 6_000, 62_000].map(Some)
    );
    for height in 500..=505 {
        let row = of(height);
        let pair = (row.get(Column::Valid), row.get(Column::Invalid));
        assert_eq!(pair, (Some(height as i64 - 490), Some(1)), "{height}");
        let has_time = row.get(Column::Executed).is_some();
        assert_eq!(has_time, height != 501, "a clock without a date is none: {height}");
    }
    let time = |height| of(height).get(Column::Executed);
    assert_eq!((time(500), time(502)), (Some(1_700_000_000_123), Some(1_700_000_000_123)));
    assert_eq!(of(510).get(Column::Results), Some(12));
    assert_eq!((found.len(), counts.damaged), (9, 0));
}

#[test]
fn lines_that_are_cut_or_mixed_say_nothing_wrong() {
    let whole = "I[2022-04-07|02:17:07.759] Executed block module=state height=191 validTxs=3368 invalidTxs=666";
    // The line is cut at any byte and another begins, as after a kill.
    for cut in 0..whole.len() {
        let next = "I[2022-04-07|02:17:08.001] Executed block module=state height=7 validTxs=1 invalidTxs=0";
        let (found, counts) = rows(format!("{}{next}\n{}", &whole[..cut], &whole[cut..]).as_bytes());
        assert_eq!(found[&7].get(Column::Valid), Some(1), "{cut}");
        assert!(found.keys().all(|height| [7, 191].contains(height)), "{cut}: {found:?}");
        if let Some(row) = found.get(&191) {
            assert_eq!(row.get(Column::Invalid), Some(666), "{cut}");
        }
        assert!(counts.of_use >= 1);
    }
    let coloured = format!("\x1b[32m{}\x1b[0m", whole.replace(" module", " \x1b[1mmodule"));
    assert_eq!(rows(coloured.as_bytes()).0[&191].get(Column::Valid), Some(3368));
    // After a power loss: zeros up to where the next line begins.
    let zeros = [&[0; 700][..], whole.as_bytes()].concat();
    assert_eq!(rows(&zeros).0[&191].get(Column::Valid), Some(3368));
    assert_eq!(
        rows(whole.replace("3368", "33\0008").as_bytes()),
        (BTreeMap::new(), Counts { damaged: 1, ..Counts::default() })
    );
    for broken in [
        whole.replace("666", "66x"),
        whole.replace("191", "-5"),
        whole.replace("191", "9007199254740993"),
        whole.replace(" invalidTxs=666", ""),
        r#"{"_msg":"executed block","height":5,"num_valid_txs":1"#.to_owned(),
        "tps,commit,2,60,62,td_height 78".to_owned(),
    ] {
        let (found, counts) = rows(broken.as_bytes());
        assert_eq!((found.len(), counts.damaged), (0, 1), "{broken}");
    }
    // Other modules may also mention blocks.
    for other in [
        whole.replace("module=state", "module=app"),
        "I[2022-04-07|02:17:07.759] Timed out module=consensus height=4 msg=\"no executed block\"".to_owned(),
        "an executed block height=5 validTxs=1 invalidTxs=1".to_owned(),
    ] {
        assert_eq!(rows(other.as_bytes()), (BTreeMap::new(), Counts::default()), "{other}");
    }
}

#[test]
fn json_within_json() {
    let inner = r#"{"_msg":"executed block","height":5,"module":"state","num_valid_txs":2,"num_invalid_txs":0}"#;
    let (found, counts) = rows(format!(r#"{{"_msg":"fina{inner}"#).as_bytes());
    assert_eq!((found[&5].get(Column::Valid), counts.of_use), (Some(2), 1));
    let docker = serde_json::json!({ "log": format!("{inner}\n"), "stream": "stderr" }).to_string();
    assert_eq!(rows(docker.as_bytes()).0[&5].get(Column::Valid), Some(2));
    let deep = (0..9).fold(inner.to_owned(), |text, _| serde_json::json!({ "log": text }).to_string());
    assert_eq!(rows(deep.as_bytes()).0.len(), 0);
}

#[test]
fn a_log_that_grows_is_read_from_where_it_ended() {
    let folder = tempfile::tempdir().unwrap();
    let (log, mut database) = (folder.path().join("log"), Database::open(&folder.path().join("load.db")).unwrap());
    let half = PLAIN.len() / 2 + 7;
    append(&log, &PLAIN.as_bytes()[..half]);
    let first = collect(&mut database, &log);
    assert_eq!(first.logs.unfinished, 1);
    append(&log, &PLAIN.as_bytes()[half..]);
    let second = collect(&mut database, &log);
    assert_eq!(first.logs.lines + second.logs.lines, PLAIN.lines().count() as u64);
    assert_eq!(first.logs.bytes + second.logs.bytes, PLAIN.len() as u64);
    assert_eq!((second.logs.unfinished, second.logs.begun_anew), (0, 0));
    let all = stored(&mut database);
    assert_eq!(all, rows(PLAIN.as_bytes()).0.into_values().collect::<Vec<_>>());
    // A second read finds nothing new.
    assert_eq!(collect(&mut database, &log), EtlCounts::default());
    // Another file of the same name, even a longer one, and a truncated one.
    fs::write(&log, format!("{OTHERS}{PLAIN}")).unwrap();
    let second = collect(&mut database, &log);
    assert_eq!((second.logs.begun_anew, second.contradictions, second.repeated), (1, 0, 0));
    fs::write(&log, OTHERS).unwrap();
    assert_eq!(collect(&mut database, &log).logs.begun_anew, 1);
    assert_eq!(stored(&mut database).len(), 13);
}

#[test]
fn lines_before_a_rotation_are_not_lost() {
    let folder = tempfile::tempdir().unwrap();
    let (log, mut database) = (folder.path().join("log"), Database::open(&folder.path().join("load.db")).unwrap());
    let mut sources = Sources { logs: vec![Log::new(&log)], ..Sources::default() };
    let lines: Vec<&str> = PLAIN.split_inclusive('\n').collect();
    let (one, rest) = lines.split_at(lines.len() / 3);
    let (two, three) = rest.split_at(rest.len() / 2);
    append(&log, one.concat().as_bytes());
    sources.pass(&mut database, &|| false).unwrap();
    append(&log, two.concat().as_bytes());
    fs::rename(&log, folder.path().join("log.1")).unwrap();
    // The file is missing for a moment.
    sources.pass(&mut database, &|| false).unwrap();
    append(&log, three.concat().as_bytes());
    sources.pass(&mut database, &|| false).unwrap();
    assert_eq!(stored(&mut database), rows(PLAIN.as_bytes()).0.into_values().collect::<Vec<_>>());
    assert_eq!(sources.found().logs.lines, lines.len() as u64);
}

#[test]
fn compressed_logs_and_long_lines() {
    let folder = tempfile::tempdir().unwrap();
    let mut database = Database::open(&folder.path().join("load.db")).unwrap();
    let log = folder.path().join("log.gz");
    let mut gz = flate2::write::GzEncoder::new(vec![], Default::default());
    gz.write_all(PLAIN.as_bytes()).unwrap();
    let bytes = gz.finish().unwrap();
    // A truncated copy: its complete part counts, the error says so, and the rest comes with the whole file.
    fs::write(&log, &bytes[..bytes.len() / 2]).unwrap();
    let mut sources = Sources { logs: vec![Log::new(&log)], ..Sources::default() };
    let why = sources.pass(&mut database, &|| false).unwrap_err();
    assert!(why.may_pass() && why.to_string().contains("the compressed file breaks off"), "{why}");
    let half = sources.found().logs;
    assert!(half.damaged == 1 && half.lines > 0 && !stored(&mut database).is_empty(), "{half:?}");
    // An unchanged file is not read again.
    sources.pass(&mut database, &|| false).unwrap();
    assert_eq!(sources.found().logs, half);
    fs::write(&log, &bytes).unwrap();
    sources.pass(&mut database, &|| false).unwrap();
    assert_eq!(stored(&mut database), rows(PLAIN.as_bytes()).0.into_values().collect::<Vec<_>>());
    assert_eq!(collect(&mut database, &log).logs.lines, 0);
    // Corrupt bytes in the middle never heal, so nothing waits for that.
    let mut damaged = bytes.clone();
    damaged[bytes.len() / 2..][..40].fill(0xff);
    let damaged_log = folder.path().join("damaged.gz");
    fs::write(&damaged_log, damaged).unwrap();
    let mut sources = Sources { logs: vec![Log::new(&damaged_log)], ..Sources::default() };
    let why = sources.pass(&mut database, &|| false).unwrap_err();
    assert!(!why.may_pass() && why.to_string().contains("damaged.gz: after "), "{why}");
    // The other logs are still read, and a permanent error is reported before a transient one.
    let mut database = Database::open(&folder.path().join("beside.db")).unwrap();
    let (missing, plain) = (folder.path().join("missing"), folder.path().join("plain"));
    append(&plain, PLAIN.as_bytes());
    let logs = [&missing, &damaged_log, &plain].map(|path| Log::new(path)).into();
    let mut sources = Sources { logs, ..Sources::default() };
    let why = sources.pass(&mut database, &|| false).unwrap_err();
    assert!(!why.may_pass() && why.to_string().contains("damaged.gz: after "), "{why}");
    assert_eq!(stored(&mut database), rows(PLAIN.as_bytes()).0.into_values().collect::<Vec<_>>());
    let long = folder.path().join("long");
    append(&long, &vec![b'x'; 10 << 20]);
    append(&long, format!("\n{OTHERS}").as_bytes());
    append(&long, &vec![b'y'; LINE_BYTES_MAX]);
    append(&long, b"\n");
    let found = collect(&mut database, &long);
    assert_eq!((found.logs.damaged, found.logs.lines), (1, OTHERS.lines().count() as u64 + 2));
}

#[test]
fn node_without_the_requested_history_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let mut database = Database::open(&folder.path().join("load.db")).unwrap();
    let mut ask = |node: Blocks| {
        let mut sources = Sources { blocks: vec![node], ..Sources::default() };
        let why = sources.pass(&mut database, &|| false);
        (why, sources.found().asked)
    };
    let wanted = |from, to| Heights { from, to };
    let timeout = Duration::from_secs(20);
    // CometBFT reports that it has heights 90 to 100.
    let comet = serve_calls(|method, params| match method {
        "status" => Ok(json!({
            "node_info": { "network": "net" },
            "sync_info": { "earliest_block_height": "90", "latest_block_height": "100" },
        })),
        "blockchain" => {
            let least: u64 = params["minHeight"].as_str().unwrap().parse().unwrap();
            let meta = |height: u64| json!({ "header": { "height": height.to_string() }, "num_txs": "1" });
            Ok(json!({ "block_metas": (least.max(90)..=100).map(meta).collect::<Vec<_>>() }))
        }
        _ => Err((-32603, "could not find results".into())),
    });
    for (from, to) in [(Some(5), Some(10)), (Some(5), None)] {
        let (why, asked) = ask(Blocks::comet(&comet, timeout, wanted(from, to)).unwrap());
        let why = why.unwrap_err();
        assert!(!why.may_pass() && why.to_string().contains("height 5 any more, its first is 90"), "{why}");
        assert_eq!(asked, 0);
    }
    // Without a first height it begins with the first available one.
    let (read, asked) = ask(Blocks::comet(&comet, timeout, wanted(None, None)).unwrap());
    assert!(read.is_ok() && asked == 11, "{asked}");
    // An Ethereum node only refuses.
    let web3 = serve_calls(|method, params| match method {
        "eth_blockNumber" => Ok(json!("0x64")),
        "eth_chainId" => Ok(json!("0x1")),
        _ if params[0] == "0x0" => Ok(json!({ "hash": "0x00" })),
        _ => Err((4444, "pruned history unavailable".into())),
    });
    let (why, _) = ask(Blocks::web3(&web3, timeout, wanted(Some(5), None)).unwrap());
    let why = why.unwrap_err();
    assert!(!why.may_pass() && why.to_string().contains("does not keep height 5 any more (pruned"), "{why}");
}

#[test]
fn a_stream_is_read_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let mut database = Database::open(&folder.path().join("load.db")).unwrap();
    let (mut counts, mut merged) = (Counts::default(), MergeCounts::default());
    let text: &'static [u8] = PLAIN.as_bytes();
    stream(text, &mut database, &mut counts, &mut merged, &|| false).unwrap();
    assert_eq!((counts.lines, merged.new), (PLAIN.lines().count() as u64, 4));
}

#[test]
fn figures_are_those_of_the_rows() {
    let folder = tempfile::tempdir().unwrap();
    let mut database = Database::open(&folder.path().join("load.db")).unwrap();
    let mut batch = super::row::Batch::default();
    // Blocks of half a second, ten empty ones at both ends, a gap, and a clock that goes back once.
    for height in (1..=60).filter(|height| *height != 33) {
        let valid = if (11..=50).contains(&height) { 100 } else { 0 };
        let time = 1_700_000_000_000 + 500 * height as i64 - if height == 45 { 5_000 } else { 0 };
        batch.add(Row::new(height).with(Column::Executed, time).with(Column::Valid, valid).with(Column::Invalid, 7));
    }
    database.merge(&batch, None).unwrap();
    let sample = Sample { time_ms: 1, url: "u".into(), values: BTreeMap::new() };
    database.add_sample(&sample).unwrap();
    let found = summary(&mut database, 0..=u64::MAX).unwrap();
    assert_eq!((found.heights, found.missing, found.range), (59, 1, Some((1, 60))));
    assert_eq!((found.valid, found.invalid, found.transactions), (Some(3900), Some(59 * 7), 3900));
    assert_eq!((found.backwards, found.samples), (1, 1));
    // 36 blocks of half a second, and one that seems to take five more.
    assert_eq!(found.seconds, 36.0 * 0.5 + 5.5);
    assert_eq!(found.tps, Some(3700.0 / found.seconds));
    assert_eq!(found.block_ms.map(|spread| (spread.p50, spread.max)), Some((500.0, 5500.0)));
    assert!(found.text().contains("1 missing"), "{}", found.text());
    let none = summary(&mut database, 100..=200).unwrap();
    assert_eq!((none.heights, none.text().as_str()), (0, "no blocks\n"));
}

#[test]
fn tables_have_all_rows() {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;
    let folder = tempfile::tempdir().unwrap();
    let mut database = Database::open(&folder.path().join("load.db")).unwrap();
    let log = folder.path().join("log");
    append(&log, format!("{PLAIN}{OURS}{OTHERS}").as_bytes());
    collect(&mut database, &log);
    let all = stored(&mut database);
    let csv = folder.path().join("blocks.csv");
    assert_eq!(table::csv(&csv, &mut database, 0..=u64::MAX).unwrap(), all.len() as u64);
    let text = fs::read_to_string(&csv).unwrap();
    let mut lines = text.lines();
    assert!(lines.next().unwrap().starts_with("height,finalized_ms,"));
    for (line, row) in lines.zip(&all) {
        let values: Vec<Option<i64>> = line.split(',').map(|value| value.parse().ok()).collect();
        assert_eq!((values[0], &values[1..]), (Some(row.height as i64), &row.values[..]));
    }
    let path = folder.path().join("blocks.parquet");
    assert_eq!(table::parquet(&path, &mut database, 0..=u64::MAX).unwrap(), all.len() as u64);
    let reader = SerializedFileReader::new(fs::File::open(&path).unwrap()).unwrap();
    let mut read = vec![];
    for record in reader.get_row_iter(None).unwrap() {
        let record = record.unwrap();
        let values: Vec<Option<i64>> = record
            .get_column_iter()
            .map(|(_, field)| match field {
                Field::Long(value) => Some(*value),
                _ => None,
            })
            .collect();
        let mut row = Row::new(values[0].unwrap() as u64);
        row.values.copy_from_slice(&values[1..]);
        read.push(row);
    }
    assert_eq!((read, COLUMNS.len()), (all, reader.metadata().file_metadata().schema_descr().num_columns() - 1));
    assert!(table::csv(&folder.path().join("nowhere/x"), &mut database, 0..=9).is_err());
    let left = fs::read_dir(folder.path())
        .unwrap()
        .filter(|it| it.as_ref().unwrap().path().extension() == Some("part".as_ref()));
    assert_eq!(left.count(), 0);
}

proptest! {
    #[test]
    fn no_bytes_are_too_much(text in prop::collection::vec(any::<u8>(), 0..400)) {
        rows(&text);
        super::live::figures(&String::from_utf8_lossy(&text));
    }

    #[test]
    fn nor_are_broken_lines(cuts in prop::collection::vec((0_usize..6000, 0_usize..200, any::<u8>()), 0..20)) {
        let mut text = [PLAIN, JSON, OURS, OTHERS].concat().into_bytes();
        for (at, length, byte) in cuts {
            let at = at % text.len();
            let end = (at + length).min(text.len());
            text.splice(at..end, [byte]);
        }
        rows(&text);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn twice_is_once(
        cuts in prop::collection::vec(0.0..1.0_f64, 1..4),
        noise in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        let text = [PLAIN.as_bytes(), &noise, OURS.as_bytes(), OTHERS.as_bytes(), JSON.as_bytes()].concat();
        let folder = tempfile::tempdir().unwrap();
        let mut once = Database::open(&folder.path().join("once.db")).unwrap();
        let whole = folder.path().join("whole");
        append(&whole, &text);
        let expected = collect(&mut once, &whole);
        let mut parts = Database::open(&folder.path().join("parts.db")).unwrap();
        let log = folder.path().join("log");
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| (cut * text.len() as f64) as usize).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let mut of_use = 0;
        for part in cuts.windows(2) {
            append(&log, &text[part[0]..part[1]]);
            of_use += collect(&mut parts, &log).logs.of_use;
        }
        prop_assert_eq!(of_use, expected.logs.of_use);
        prop_assert_eq!(stored(&mut parts), stored(&mut once));
    }
}
