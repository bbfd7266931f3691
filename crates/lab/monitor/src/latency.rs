//! The age of transactions, since their receipt, when they reach each tile, are executed and are on disk.
//!
//! reads   the histograms of all tiles at two moments
//! writes  a [`Stage`] for each, tiles of a kind together; a table of them

use std::fmt::Write;

use hearth_tile::latency::{Histogram, TAKEN};
use serde::Serialize;

/// The age of transactions at a stage, in microseconds since receipt, accurate to an eighth.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Stage {
    /// The kind of tile that receives them, or an event: `executed`, `durable`.
    pub stage: String,
    /// Number of transactions recorded.
    pub count: u64,
    /// Median age, in microseconds.
    pub p50_us: f64,
    /// 90th percentile of the age, in microseconds.
    pub p90_us: f64,
    /// 99th percentile of the age, in microseconds.
    pub p99_us: f64,
    /// Greatest age, in microseconds.
    pub max_us: f64,
}

/// Histograms by stage, in the order of the data flow.
#[derive(Clone, Debug, Default)]
pub struct Stages(Vec<(String, Histogram)>);

impl Stages {
    /// Adds a tile's histogram by its kind and the histogram's name. Histograms that do not start at receipt are
    /// ignored.
    pub fn add(&mut self, kind: &str, name: &str, histogram: &Histogram) {
        let Some(stage) = name.strip_prefix("received_to_") else { return };
        self.put(if name == TAKEN.name { kind } else { stage }, histogram);
    }

    /// Adds a histogram of this stage.
    pub(crate) fn put(&mut self, stage: &str, histogram: &Histogram) {
        match self.0.iter_mut().find(|(known, _)| known == stage) {
            Some((_, sum)) => sum.add(histogram),
            None => self.0.push((stage.into(), histogram.clone())),
        }
    }

    /// Returns what was recorded after `earlier`, without empty stages.
    pub fn since(&self, earlier: &Self) -> Vec<Stage> {
        let none = Histogram::default();
        let of = |(stage, now): &(String, Histogram)| {
            let then = earlier.0.iter().find(|(known, _)| known == stage).map_or(&none, |(_, then)| then);
            let between = now.since(then);
            let at = |q| between.quantile_us(q);
            Some(Stage {
                stage: stage.clone(),
                count: between.count(),
                p50_us: at(0.5)?,
                p90_us: at(0.9)?,
                p99_us: at(0.99)?,
                max_us: between.max_us() as f64,
            })
        };
        self.0.iter().filter_map(of).collect()
    }
}

/// Writes the table for people, with a heading.
pub fn write_stages(s: &mut String, stages: &[Stage]) -> std::fmt::Result {
    let mut lead = "latency";
    if !stages.is_empty() {
        writeln!(s, "  {lead:<10} {:<16}{:>10}{:>10}{:>10}{:>10}", "from receipt to", "p50", "p90", "p99", "max")?;
        lead = "";
    }
    for Stage { stage, p50_us, p90_us, p99_us, max_us, .. } in stages {
        let [p50, p90, p99, max] = [p50_us, p90_us, p99_us, max_us].map(|us| time(*us));
        writeln!(s, "  {lead:<10} {stage:<16}{p50:>10}{p90:>10}{p99:>10}{max:>10}")?;
    }
    Ok(())
}

/// Formats microseconds with two or three digits.
pub fn time(us: f64) -> String {
    match us {
        ..1e3 => format!("{us:.0} µs"),
        ..1e4 => format!("{:.2} ms", us / 1e3),
        ..1e5 => format!("{:.1} ms", us / 1e3),
        ..1e6 => format!("{:.0} ms", us / 1e3),
        _ => format!("{:.2} s", us / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_come_in_the_order_of_the_flow_and_tiles_of_a_kind_together() {
        let of = |us: &[u32]| {
            let mut histogram = Histogram::default();
            us.iter().for_each(|us| histogram.record(*us));
            histogram
        };
        let stages = |tiles: [&[u32]; 4]| {
            let names = [
                ("verify", TAKEN.name),
                ("verify", TAKEN.name),
                ("bank", TAKEN.name),
                ("bank", "received_to_executed"),
            ];
            let mut stages = Stages::default();
            names.iter().zip(tiles).for_each(|((kind, name), us)| stages.add(kind, name, &of(us)));
            stages
        };
        let (begin, end) =
            (stages([&[9_000_000], &[], &[], &[]]), stages([&[9_000_000, 7], &[100], &[], &[2_000; 10]]));
        let measured = end.since(&begin);
        let names: Vec<_> = measured.iter().map(|s| (s.stage.as_str(), s.count)).collect();
        assert_eq!(names, [("verify", 2), ("executed", 10)], "nothing came to the bank");
        assert!((measured[1].p99_us - 2_000.0).abs() <= 250.0, "{measured:?}");
        let mut text = String::new();
        write_stages(&mut text, &measured).unwrap();
        assert!(text.starts_with("  latency    from receipt to") && text.contains("verify"), "{text}");
        assert!(text.lines().last().unwrap().contains("ms"), "{text}");
        text.clear();
        write_stages(&mut text, &[]).unwrap();
        assert_eq!(text, "");
    }
}
