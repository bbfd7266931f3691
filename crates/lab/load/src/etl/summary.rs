//! Sums up the stored rows.
//!
//! reads   all rows of the store, twice
//! writes  a [`Summary`], as text and JSON
//! memory  16 B for each block, and 8 B for each stage of it
//!
//! Times are in milliseconds. A rate counts valid transactions of blocks whose distance to the block before is known. A
//! block's transactions arrived during that time, so those of the first block count in no rate.

use std::fmt::Write;
use std::ops::RangeInclusive;

use serde::Serialize;

use super::row::{COLUMNS, Column, Kind, Row};
use super::store::{Store, StoreError};

/// Clocks, best first. The time between two blocks uses one clock, never two.
const CLOCKS: [Column; 5] = [Column::Executed, Column::Finalized, Column::Node, Column::Committed, Column::Header];
/// Columns that count transactions, best first.
const TRANSACTIONS: [Column; 3] = [Column::Txs, Column::Valid, Column::Results];

/// Percentiles of times, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The median, in milliseconds.
    pub p50: f64,
    /// 90th percentile, in milliseconds.
    pub p90: f64,
    /// 99th percentile, in milliseconds.
    pub p99: f64,
    /// The longest time, in milliseconds.
    pub max: f64,
}

/// The median of a stage.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Stage {
    /// Name of the column.
    pub name: &'static str,
    /// Number of blocks with a known value, among those with transactions if there are any.
    pub blocks: usize,
    /// Median of the stage's time, in milliseconds.
    pub median_ms: f64,
}

/// The figures of the rows.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// Number of heights with a row.
    pub heights: u64,
    /// The first and the last height.
    pub range: Option<(u64, u64)>,
    /// Heights in between without a row.
    pub missing: u64,
    /// Name of the column used as clock.
    pub clock: Option<&'static str>,
    /// The first and the last time of that column, in milliseconds since 1970.
    pub span_ms: Option<(i64, i64)>,
    /// Name of the column used to count transactions.
    pub counted: Option<&'static str>,
    /// Sum of the transactions.
    pub transactions: u64,
    /// Valid transactions by CometBFT, of the heights where that is known.
    pub valid: Option<u64>,
    /// Invalid transactions by CometBFT, as for `valid`.
    pub invalid: Option<u64>,
    /// Sum of the gas used.
    pub gas: Option<u64>,
    /// Transactions per second, from the block before the first non-empty one to the last non-empty one.
    pub tps: Option<f64>,
    /// Seconds that this rate covers.
    pub seconds: f64,
    /// Transactions per second over all blocks, including empty ones before and after the load.
    pub tps_whole: Option<f64>,
    /// Times from block to block; none if the clock has only whole seconds.
    pub block_ms: Option<Spread>,
    /// Mean time from block to block.
    pub block_mean_ms: Option<f64>,
    /// Blocks earlier than their predecessor: they count in no rate.
    pub backwards: u64,
    /// Medians of the stages.
    pub stages: Vec<Stage>,
    /// Number of metrics samples.
    pub samples: u64,
}

/// Milliseconds since the block before, and the block's transactions.
type Step = (i64, u64);

#[derive(Default)]
struct Coverage {
    known: [u64; COLUMNS.len()],
}

impl Coverage {
    /// The column that is known for the most heights; the first of several.
    fn most(&self, columns: &[Column]) -> Option<Column> {
        let known = |column: &Column| self.known[*column as usize];
        let most = columns.iter().map(known).max().filter(|most| *most > 0)?;
        columns.iter().copied().find(|column| known(column) == most)
    }
}

fn name(column: Column) -> &'static str {
    COLUMNS[column as usize].1
}

fn sum(sum: &mut Option<u64>, value: Option<i64>) {
    if let Some(value) = value {
        *sum = Some(sum.unwrap_or(0).saturating_add(value.max(0) as u64));
    }
}

/// Sums up the rows of some heights.
pub fn summary(store: &mut dyn Store, heights: RangeInclusive<u64>) -> Result<Summary, StoreError> {
    let mut coverage = Coverage::default();
    store.each(heights.clone(), &mut |row| {
        for (known, value) in coverage.known.iter_mut().zip(row.values) {
            *known += u64::from(value.is_some());
        }
        true
    })?;
    // Whole seconds are used only if there is nothing better.
    let clock = coverage.most(&CLOCKS).or_else(|| coverage.most(&[Column::Web3]));
    let counted = coverage.most(&TRANSACTIONS);
    let mut found = Summary { clock: clock.map(name), counted: counted.map(name), ..Summary::default() };
    let mut last: Option<(u64, Option<i64>)> = None;
    let (mut steps, mut stages) = (Vec::<Step>::new(), Stages::default());
    store.each(heights, &mut |row| {
        let of = |column: Option<Column>| column.and_then(|column| row.get(column));
        let (time, transactions) = (of(clock), of(counted).unwrap_or(0).max(0) as u64);
        found.heights += 1;
        found.transactions = found.transactions.saturating_add(transactions);
        found.range = Some((found.range.map_or(row.height, |(first, _)| first), row.height));
        sum(&mut found.valid, row.get(Column::Valid));
        sum(&mut found.invalid, row.get(Column::Invalid));
        sum(&mut found.gas, row.get(Column::GasUsed).or(row.get(Column::ResultsGas)));
        if let Some(time) = time {
            let (first, last) = found.span_ms.unwrap_or((time, time));
            found.span_ms = Some((first.min(time), last.max(time)));
        }
        let before = last.replace((row.height, time)).filter(|(height, _)| height + 1 == row.height);
        if let (Some((_, Some(before))), Some(time)) = (before, time) {
            match time.checked_sub(before).filter(|step| *step >= 0) {
                Some(step) => steps.push((step, transactions)),
                None => found.backwards += 1,
            }
        }
        stages.add(row, transactions > 0);
        true
    })?;
    if let Some((first, last)) = found.range {
        found.missing = last - first + 1 - found.heights;
    }
    (found.tps_whole, _) = rate(&steps);
    let begin = steps.iter().position(|(_, transactions)| *transactions > 0).unwrap_or(0);
    let end = steps.iter().rposition(|(_, transactions)| *transactions > 0).map_or(0, |last| last + 1);
    (found.tps, found.seconds) = rate(&steps[begin..end.max(begin)]);
    let mut times: Vec<i64> = steps.iter().map(|(step, _)| *step).collect();
    found.block_mean_ms = (!times.is_empty()).then(|| times.iter().sum::<i64>() as f64 / times.len() as f64);
    // With whole seconds no percentile is a real block time.
    found.block_ms = if clock == Some(Column::Web3) { None } else { spread(&mut times) };
    found.stages = stages.medians();
    found.samples = store.samples()?;
    Ok(found)
}

fn rate(steps: &[Step]) -> (Option<f64>, f64) {
    let (time, transactions) = steps
        .iter()
        .fold((0.0, 0.0), |(time, all), (step, transactions)| (time + *step as f64 / 1e3, all + *transactions as f64));
    ((time > 0.0).then(|| transactions / time), time)
}

fn spread(times: &mut [i64]) -> Option<Spread> {
    times.sort_unstable();
    // The least value that this share of all values does not exceed.
    let of = |share: f64| times.get(((times.len() as f64 * share).ceil() as usize).max(1) - 1).map(|time| *time as f64);
    Some(Spread { p50: of(0.5)?, p90: of(0.9)?, p99: of(0.99)?, max: of(1.0)? })
}

/// The stages of blocks with transactions, and of empty ones.
#[derive(Default)]
struct Stages {
    loaded: [Vec<i64>; COLUMNS.len()],
    empty: [Vec<i64>; COLUMNS.len()],
}

impl Stages {
    fn add(&mut self, row: &Row, loaded: bool) {
        let kept = if loaded { &mut self.loaded } else { &mut self.empty };
        for ((values, value), (_, _, kind, _)) in kept.iter_mut().zip(row.values).zip(COLUMNS) {
            values.extend(value.filter(|_| *kind == Kind::Duration));
        }
    }

    fn medians(self) -> Vec<Stage> {
        let all = self.loaded.into_iter().zip(self.empty).zip(COLUMNS);
        let stage = |((loaded, empty), (_, name, ..)): ((Vec<i64>, Vec<i64>), &(Column, &'static str, Kind, _))| {
            let mut values = if loaded.is_empty() { empty } else { loaded };
            let median_ms = spread(&mut values)?.p50 / 1e3;
            Some(Stage { name, blocks: values.len(), median_ms })
        };
        all.filter_map(stage).collect()
    }
}

/// Formats a time for people.
fn date(ms: i64) -> String {
    let time = chrono::DateTime::from_timestamp_millis(ms);
    time.map_or_else(|| format!("{ms} ms"), |time| time.format("%Y-%m-%d %H:%M:%S%.3f").to_string())
}

impl Summary {
    /// Formats the summary as text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut line = |name: &str, value: String| writeln!(text, "{name:<18}{value}").expect("a string");
        let Some((first, last)) = self.range else { return "no blocks\n".into() };
        line("heights", format!("{} ({first} to {last}, {} missing)", self.heights, self.missing));
        if let (Some((begin, end)), Some(clock)) = (self.span_ms, self.clock) {
            let seconds = end.saturating_sub(begin) as f64 / 1e3;
            line("time", format!("{} to {}, {seconds:.3} s, by {clock}", date(begin), date(end)));
        }
        let counted = match self.counted {
            Some("results") => ", by results: the log does not say which are valid".into(),
            Some(counted) => format!(", by {counted}"),
            None => String::new(),
        };
        line("transactions", format!("{}{counted}", self.transactions));
        if let (Some(valid), Some(invalid)) = (self.valid, self.invalid) {
            line("by CometBFT", format!("{valid} valid, {invalid} invalid"));
        }
        if let Some(gas) = self.gas {
            line("gas", format!("{gas}"));
        }
        if let Some(tps) = self.tps {
            let whole = self.tps_whole.unwrap_or_default();
            line("rate", format!("{tps:.1} txn/s over {:.3} s under load ({whole:.1} with all blocks)", self.seconds));
        }
        if let Some(Spread { p50, p90, p99, max }) = self.block_ms {
            line("block time", format!("p50 {p50} ms, p90 {p90}, p99 {p99}, max {max}"));
        }
        if let (None, Some(mean)) = (self.block_ms, self.block_mean_ms) {
            line(
                "block time",
                format!("{mean:.0} ms in the mean; the clock has whole seconds, and may run ahead under load"),
            );
        }
        if self.backwards > 0 {
            line("backwards", format!("{} blocks were earlier than the one before: no rate has them", self.backwards));
        }
        for Stage { name, blocks, median_ms } in &self.stages {
            line(name.trim_end_matches("_us"), format!("median {median_ms:.3} ms of {blocks} blocks"));
        }
        if self.samples > 0 {
            line("samples", format!("{} of metrics", self.samples));
        }
        text
    }
}
