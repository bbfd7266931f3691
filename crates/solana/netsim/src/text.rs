//! Formats the results as text.
//!
//! reads   a [`Report`]
//! writes  text
//! memory  that text

use std::fmt::Write;

use super::{Bandwidth, Calibration, Growth, Report, Seed};

/// Formats the report as a table with one line per slot.
pub fn text(report: &Report) -> String {
    let mut out = String::new();
    let [sets, simulated] = report.sets;
    let _ = writeln!(
        out,
        "{} nodes ({} dead), stake {}, {:.0} transfers a second, fanout {}: {sets} FEC sets a slot, {}",
        report.nodes,
        report.dead,
        report.stakes,
        report.tps,
        report.fanout,
        if simulated < sets { format!("of which the last {simulated} are simulated") } else { "all simulated".into() }
    );
    let _ = writeln!(out, "\nms from the slot's last shred until so much of all stake has the block; Mb/s\n");
    let heads = [
        "seed",
        "50 %",
        "90 %",
        "99 %",
        "99 % live",
        "without",
        "repaired",
        "leader out",
        "in",
        "out",
        "most out",
        "overloaded",
    ];
    let rows = report.seeds.iter().map(row);
    table(&mut out, &heads.map(String::from), &rows.collect::<Vec<_>>());
    let _ = writeln!(
        out,
        "\nin, out: the median follower; most out: the one that sends most; overloaded: nodes that have more to send \
         than their region's rate, so that with each slot it comes later. Beside shreds the leader sends {:.0} Mb/s by \
         a model of its answers to those who load it, fitted to two figures: that is not on its line.",
        report.leader_other_bps / 1e6
    );
    if report.seeds.iter().any(|seed| seed.leader_overloaded || seed.overloaded > 0) {
        let _ = writeln!(
            out,
            "Where nodes are overloaded times are lower bounds: the leader's line begins with what the slot's earlier \
             sets have left on it, those of followers begin empty, and of slots before nothing is left on any."
        );
    }
    if simulated < sets {
        let _ = writeln!(
            out,
            "Of {simulated} sets the last one to be whole comes a little sooner than of all {sets} (--sets)."
        );
    }
    out
}

fn row(seed: &Seed) -> Vec<String> {
    let ms = |at: Option<f64>| at.map_or("never".into(), |ms| format!("{ms:.0}"));
    let mbps = |bps: f64| format!("{:.0}", bps / 1e6);
    vec![
        seed.seed.to_string(),
        ms(seed.stake_ms[0]),
        ms(seed.stake_ms[1]),
        ms(seed.stake_ms[2]),
        ms(seed.live_stake_ms[2]),
        seed.without.to_string(),
        format!("{:.3} %", seed.repaired * 100.0),
        mbps(seed.leader_out_bps),
        mbps(seed.follower_in_bps[0]),
        mbps(seed.follower_out_bps[0]),
        mbps(seed.follower_out_bps[1]),
        match (seed.leader_overloaded, seed.overloaded) {
            (true, 0) => "leader".into(),
            (true, others) => format!("leader, {others}"),
            (false, others) => others.to_string(),
        },
    ]
}

/// Returns the calibration as two tables.
pub fn calibration_text(calibration: &Calibration) -> String {
    let mut out = String::new();
    let heads = ["", "transactions/s", "talk Mb/s", "ours Mb/s", "of it modelled", "difference"];
    let row = |row: &Bandwidth| {
        vec![
            row.of.to_owned(),
            format!("{:.0}", row.tps),
            format!("{:.0}", row.shown_bps / 1e6),
            format!("{:.0}", row.ours_bps / 1e6),
            format!("{:.0}", row.modelled_bps / 1e6),
            difference_text(row.difference()),
        ]
    };
    table(&mut out, &heads.map(String::from), &calibration.bandwidths.iter().map(row).collect::<Vec<_>>());
    let heads = ["\nsecond load / first load", "talk", "ours"];
    let row = |row: &Growth| vec![row.of.to_owned(), format!("{:.1}", row.shown), format!("{:.1}", row.ours)];
    table(&mut out, &heads.map(String::from), &calibration.growth.iter().map(row).collect::<Vec<_>>());
    let _ = writeln!(
        out,
        "\nShreds and transfers follow from their sizes on the wire. What the leader sends besides shreds is a model with \
         two parameters, fitted to the talk's two figures for the leader. The leader's rows are therefore no evidence."
    );
    out
}

/// A difference of less than a twentieth of a percent is none.
fn difference_text(share: f64) -> String {
    let text = format!("{:+.1} %", share * 100.0);
    if text.ends_with("0.0 %") && text.len() == "+0.0 %".len() { "0".into() } else { text }
}

fn table(out: &mut String, heads: &[String], rows: &[Vec<String>]) {
    let width = |at: usize| rows.iter().chain([&heads.to_vec()]).map(|row| row[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    for row in [&heads.to_vec()].into_iter().chain(rows) {
        let cells = row.iter().zip(&widths).enumerate().map(|(at, (cell, width))| match at {
            0 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        let _ = writeln!(out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_difference_has_no_sign() {
        let texts = [0.0004, -0.0004, -0.0, 0.0006, -0.051, 1.0].map(difference_text);
        assert_eq!(texts, ["0", "0", "0", "+0.1 %", "-5.1 %", "+100.0 %"]);
    }
}
