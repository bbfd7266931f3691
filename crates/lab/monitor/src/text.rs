//! Formats a sample as plain text, for pipes and files.
//!
//! reads   a [`Sample`], its [`Diagnosis`], and the rates before it
//! writes  lines: the activity, the diagnosis, the two tables

use crate::columns::{Column, LINKS, fitting, padded, tiles_of};
use crate::diagnosis::Diagnosis;
use crate::latency::{Stage, time};
use crate::sample::Sample;

/// Bars of eight heights.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Formats the whole sample at a width; `rates` are the recent rates, the newest last.
pub fn snapshot(sample: &Sample, diagnosis: &Diagnosis, rates: &[f64], width: usize) -> String {
    let mut text = format!(
        "{}  {}\n{diagnosis}\n{}{}\n",
        headline(sample),
        sparkline(rates, 24),
        latencies(sample),
        sample.bandwidth.line()
    );
    table(&mut text, tiles_of(sample), &sample.tiles, width);
    // An EVM node has none.
    if !sample.links.is_empty() {
        text.push('\n');
        table(&mut text, LINKS, &sample.links, width);
    }
    text
}

/// Describes the node and its activity.
pub(crate) fn headline(sample: &Sample) -> String {
    let Sample { node, pid, slot, txn_per_s, .. } = sample;
    let (slots, pool) = if sample.is_evm() { ("block", "the pool") } else { ("slot", "pack") };
    let mut text = format!("{node} (pid {pid})  {slots} {slot}  {} txn/s", grouped(*txn_per_s));
    if sample.failed_per_s >= 0.5 {
        text += &format!(", {} failed", grouped(sample.failed_per_s));
    }
    let dropped: f64 = sample.dropped_per_s.values().sum();
    if dropped >= 0.5 {
        let worst = sample.dropped_per_s.iter().max_by(|a, b| a.1.total_cmp(b.1));
        let worst = worst.map_or(String::new(), |(reason, _)| format!(" (most: {reason})"));
        text += &format!(", {} dropped{worst}", grouped(dropped));
    }
    if sample.pending > 0 {
        text += &format!(", {} wait in {pool}", grouped(sample.pending as f64));
    }
    text
}

/// A quantile of a stage: its name and its value.
type Quantile = (&'static str, fn(&Stage) -> f64);

const ALL: [Quantile; 4] =
    [("p50", |at| at.p50_us), ("p90", |at| at.p90_us), ("p99", |at| at.p99_us), ("max", |at| at.max_us)];

/// Describes the latency of each stage; empty if nothing was received.
pub(crate) fn latencies(sample: &Sample) -> String {
    quantiles(sample, &ALL)
}

/// The same with only the median and the 99th percentile, for little room.
pub(crate) fn latencies_in_short(sample: &Sample) -> String {
    quantiles(sample, &[ALL[0], ALL[2]])
}

fn quantiles(sample: &Sample, which: &[Quantile]) -> String {
    let join = |parts: Vec<String>| parts.join(" / ");
    let of = |at: &Stage| format!("{} {}", at.stage, join(which.iter().map(|(_, get)| time(get(at))).collect()));
    let stages: Vec<String> = sample.latency.iter().map(of).collect();
    let names = join(which.iter().map(|(name, _)| (*name).to_owned()).collect());
    if stages.is_empty() { String::new() } else { format!("{names} from receipt to {}\n", stages.join(", ")) }
}

/// Draws the last values as bars, scaled to the highest.
pub(crate) fn sparkline(rates: &[f64], width: usize) -> String {
    let shown = &rates[rates.len().saturating_sub(width)..];
    let highest = shown.iter().copied().fold(0.0, f64::max);
    let level = |rate: &f64| if highest > 0.0 { (rate / highest * 7.0).round() as usize } else { 0 };
    shown.iter().map(|rate| BARS[level(rate).min(7)]).collect()
}

fn table<T>(text: &mut String, columns: &'static [Column<T>], rows: &[T], width: usize) {
    let columns = fitting(columns, width);
    let mut line = |cells: Vec<String>| {
        text.push_str(cells.join(" ").trim_end());
        text.push('\n');
    };
    line(columns.iter().map(|column| padded(column, column.heading)).collect());
    for row in rows {
        line(columns.iter().map(|column| padded(column, &(column.cell)(row))).collect());
    }
}

/// Formats a value without decimals and with commas, as `12,345`; a negative one is 0.
pub(crate) fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.max(0.0));
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{LinkSample, TileSample};
    use crate::{Advice, Finding};

    #[test]
    fn a_snapshot_says_what_it_does_what_that_means_and_shows_the_tables() {
        let tile = TileSample { tile: "verify:0".into(), core: Some(3), stale_s: Some(0.001), ..TileSample::default() };
        let link = LinkSample { link: "quic_verify:0".into(), total_per_s: 12_345.0, ..LinkSample::default() };
        let mut sample = Sample { node: "hearth".into(), pid: 7, slot: 42, txn_per_s: 98_765.4, ..Sample::default() };
        (sample.tiles, sample.links) = (vec![tile], vec![link]);
        let (stage, count) = ("executed".into(), 9);
        sample.latency =
            vec![Stage { stage, count, p50_us: 1_500.0, p90_us: 2_500.0, p99_us: 4_800.0, max_us: 9_100.0 }];
        sample.dropped_per_s = [("verify_signature".to_owned(), 12.0)].into();
        let advice =
            Some(Advice { key: Some("layout.verify_tile_count".into()), value: None, says: "add verify tiles".into() });
        let says = "verify is the limit".into();
        let diagnosis = Diagnosis { finding: Finding::KindFull, kind: Some("verify".into()), says, advice };
        let text = snapshot(&sample, &diagnosis, &[1.0, 8.0], 200);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "hearth (pid 7)  slot 42  98,765 txn/s, 12 dropped (most: verify_signature)  ▂█");
        assert_eq!(lines[1], "verify is the limit; add verify tiles (`layout.verify_tile_count`)");
        assert_eq!(lines[2], "p50 / p90 / p99 / max from receipt to executed 1.50 ms / 2.50 ms / 4.80 ms / 9.10 ms");
        assert_eq!(latencies_in_short(&sample), "p50 / p99 from receipt to executed 1.50 ms / 4.80 ms\n");
        assert!(lines[4].starts_with("tile      core") && lines[5].starts_with("verify:0     3"), "{text}");
        assert!(lines[7].starts_with("link") && lines[8].contains("12.3K"), "{text}");
        let exec = TileSample { tile: "exec:0".into(), kind: "exec".into(), ..TileSample::default() };
        let evm = Sample { tiles: vec![exec], pending: 3, dropped_per_s: Default::default(), ..sample.clone() };
        assert_eq!(headline(&evm), "hearth (pid 7)  block 42  98,765 txn/s, 3 wait in the pool");
        let narrow = snapshot(&sample, &diagnosis, &[], 40);
        assert!(narrow.lines().skip(4).all(|line| line.chars().count() <= 40), "{narrow}");
    }
}
