//! Describes a profile's figures.
//!
//! reads   the node's answer
//! writes  lines

use hearth_command::numbers::grouped;
use hearth_profile::Profile;
use serde_json::Value;

/// Describes what was sampled, each tile's share, and the cost.
pub fn of(taken: &Value) -> String {
    let number = |key: &str| taken[key].as_f64().unwrap_or_default();
    let samples = number("samples");
    let early = if taken["stopped"] == true { ", stopped early" } else { "" };
    let mut words = format!(
        "  profile    {}{early}: {samples:.0} samples in {:.1} s, {:.0} a second of CPU time\n",
        taken["asked"].as_str().unwrap_or_default(),
        number("seconds"),
        number("hz")
    );
    if let Some(slot) = taken["slot"].as_u64() {
        words += &format!("  block      of slot {slot}\n");
    }
    if let Some(block) = taken["block"].as_u64() {
        words += &format!("  block      {block}\n");
    }
    // An EVM node has none.
    if let Some(tiles) = taken["tiles"].as_object() {
        let tiles = tiles.iter().map(|(tile, n)| (tile.as_str(), n.as_u64().unwrap_or(0)));
        words += &tiles_of(tiles, samples as u64);
    }
    let of_it = Cost {
        taken: number("samplesTaken") as u64,
        due: number("samplesDue") as u64,
        share: number("samplerShare"),
        micros: number("sampleMicros"),
        cpu_seconds: number("cpuSeconds"),
        naming_seconds: number("namingSeconds"),
    };
    words += &cost(&of_it);
    let during = grouped(number("txnPerSecond") as u64);
    words += &match taken["txnPerSecondBefore"].as_f64() {
        Some(before) => {
            format!("             {} txn/s in the second before, {during} meanwhile\n", grouped(before as u64))
        }
        None => format!("             {during} txn/s meanwhile\n"),
    };
    words
}

/// Lists each kind of tile's share, the largest first.
pub fn tiles_of<'a>(tiles: impl Iterator<Item = (&'a str, u64)>, samples: u64) -> String {
    let mut tiles: Vec<(&str, u64)> = tiles.collect();
    tiles.sort_by_key(|(tile, own)| (std::cmp::Reverse(*own), *tile));
    let others = samples.saturating_sub(tiles.iter().map(|(_, own)| own).sum());
    let mut words = String::new();
    for (tile, own) in tiles.iter().chain(&[("no tile", others)]).filter(|(_, own)| *own > 0) {
        let what = match *tile {
            "loop" => "   a core's thread between its tiles",
            "no tile" => "   RPC, writing to disk and other threads",
            _ => "",
        };
        words += &format!("  {tile:<10} {:>5.1} %{what}\n", 100.0 * *own as f64 / samples.max(1) as f64);
    }
    if !tiles.is_empty() {
        words +=
            "             of the samples; tiles on one core share its thread, and the stack tells which is which\n";
    }
    words
}

/// The cost of taking a profile.
pub struct Cost {
    /// Samples taken of the whole process.
    pub taken: u64,
    /// Samples due by the CPU time used.
    pub due: u64,
    /// Share of the CPU time spent on taking them.
    pub share: f64,
    /// CPU time of one sample, microseconds.
    pub micros: f64,
    /// CPU time of the process meanwhile, seconds.
    pub cpu_seconds: f64,
    /// CPU time that symbolizing used afterwards, seconds.
    pub naming_seconds: f64,
}

impl Cost {
    /// Computes the cost of a profile of this process.
    pub fn of(profile: &Profile) -> Self {
        Self {
            taken: profile.taken,
            due: profile.due(),
            share: profile.share_of_sampler(),
            micros: profile.sample_ns / 1e3,
            cpu_seconds: profile.cpu_seconds,
            naming_seconds: profile.naming_seconds,
        }
    }
}

/// Describes the cost in words.
pub fn cost(cost: &Cost) -> String {
    let Cost { taken, due, share, micros, cpu_seconds, naming_seconds } = cost;
    let lost = match due.saturating_sub(*taken) {
        0 => "no sample was lost".into(),
        lost => format!("{lost} of {due} samples were lost"),
    };
    format!(
        "  cost       {:.2} % of {cpu_seconds:.1} s of CPU time ({micros:.1} µs a sample); {lost}\n             \
         {naming_seconds:.1} s of one core afterwards, to name the functions\n",
        100.0 * share
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn figures_in_words() {
        let taken = json!({
            "state": "done", "asked": "the next block", "slot": 7, "seconds": 0.4, "hz": 99, "samples": 80,
            "samplesTaken": 80, "samplesDue": 82, "cpuSeconds": 0.83, "sampleMicros": 6.25, "samplerShare": 0.000_6,
            "namingSeconds": 0.3, "tiles": { "bank": 20, "loop": 2, "verify": 52 },
            "txnPerSecondBefore": 100_000.0, "txnPerSecond": 99_000.4,
        });
        let expected = "  profile    the next block: 80 samples in 0.4 s, 99 a second of CPU time\n  \
            block      of slot 7\n  \
            verify      65.0 %\n  bank        25.0 %\n  loop         2.5 %   a core's thread between its tiles\n  \
            no tile      7.5 %   RPC, writing to disk and other threads\n             \
            of the samples; tiles on one core share its thread, and the stack tells which is which\n  \
            cost       0.06 % of 0.8 s of CPU time (6.2 µs a sample); 2 of 82 samples were lost\n             \
            0.3 s of one core afterwards, to name the functions\n             \
            100,000 txn/s in the second before, 99,000 meanwhile\n";
        assert_eq!(of(&taken), expected);
        let evm = json!({ "asked": "until the next block", "block": 7, "samples": 80, "txnPerSecond": 1200.4 });
        let text = of(&evm);
        assert!(text.contains("\n  block      7\n  cost ") && text.ends_with("\n             1,200 txn/s meanwhile\n"));
        let early = json!({ "asked": "10 s", "stopped": true, "samples": 80, "seconds": 2.0 });
        assert!(of(&early).starts_with("  profile    10 s, stopped early: 80 samples in 2.0 s"), "{}", of(&early));
    }

    #[test]
    fn nothing_sampled_is_nothing_shared() {
        assert_eq!(tiles_of(std::iter::empty(), 0), "");
        let none = Cost { taken: 9, due: 9, share: 0.0, micros: 0.0, cpu_seconds: 0.1, naming_seconds: 0.0 };
        assert!(cost(&none).contains("no sample was lost"));
    }
}
