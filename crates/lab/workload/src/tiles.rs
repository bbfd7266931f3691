//! Measures the time of a transaction in each tile, including its links.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use crate::times::Times;
use crate::{Work, bank, dedup, pack, poh, quic, shred, verify};

/// Minimum duration of a round.
const ROUND: Duration = Duration::from_millis(20);

/// The tiles, in the order in which a transaction meets them.
pub struct Tiles(Vec<(&'static str, Box<dyn Work>)>);

/// The measured times of each tile.
pub struct TileTimes(Vec<(&'static str, Times)>);

impl Tiles {
    /// Creates each tile with its load.
    pub fn new() -> Self {
        Self(vec![
            ("quic", Box::new(quic::Pair::new(quic::Tile::new()))),
            ("verify", Box::new(verify::Load::new(verify::TABLES))),
            ("dedup", Box::new(dedup::Load::new(0))),
            ("pack", Box::new(pack::Load::new())),
            ("bank", Box::new(bank::Load::new())),
            ("poh", Box::new(poh::Load::new())),
            ("shred", Box::new(shred::Load::new())),
        ])
    }

    /// Measures the tiles alternately, in this many rounds after one that is not measured; none if stopped. Alternating
    /// exposes all tiles to the same disturbances.
    pub fn measure(&mut self, rounds: u32, is_stopped: &dyn Fn() -> bool) -> Option<TileTimes> {
        let mut all = vec![Vec::new(); self.0.len()];
        for round in 0..=rounds {
            for ((_, work), ns) in self.0.iter_mut().zip(&mut all) {
                if is_stopped() {
                    return None;
                }
                let took = nanos(work.as_mut());
                if round > 0 {
                    ns.push(took);
                }
            }
        }
        let names = self.0.iter().map(|(name, _)| *name);
        Some(TileTimes(names.zip(all.into_iter().map(Times::of)).collect()))
    }
}

impl Default for Tiles {
    fn default() -> Self {
        Self::new()
    }
}

/// Runs a round of work; returns nanoseconds per transaction.
fn nanos(work: &mut dyn Work) -> f64 {
    let (begin, mut done) = (Instant::now(), 0);
    loop {
        done += work.round();
        let elapsed = begin.elapsed();
        if elapsed >= ROUND {
            return elapsed.as_secs_f64() * 1e9 / done as f64;
        }
    }
}

impl TileTimes {
    /// Returns each tile with its times.
    pub fn each(&self) -> impl Iterator<Item = (&'static str, &Times)> {
        self.0.iter().map(|(name, times)| (*name, times))
    }

    /// Returns the nanoseconds of a transaction in all tiles: the sum of the medians.
    pub fn sum(&self) -> f64 {
        self.each().map(|(_, times)| times.median).sum()
    }

    /// Returns a JSON object, in which `tiles_ns` is the sum.
    pub fn json(&self) -> Value {
        let tiles: Map<String, Value> = self.each().map(|(name, times)| (name.into(), times.json())).collect();
        json!({ "tiles": tiles, "tiles_ns": self.sum() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tile_works_and_the_sum_is_that_of_all() {
        let mut tiles = Tiles::new();
        let taken = tiles.measure(1, &|| false).expect("not stopped");
        let json = taken.json();
        let each: Vec<f64> = ["quic", "verify", "dedup", "pack", "bank", "poh", "shred"]
            .iter()
            .map(|name| json["tiles"][name]["median"].as_f64().expect("a time"))
            .collect();
        assert!(each.iter().all(|ns| *ns > 0.0), "{json}");
        assert!((json["tiles_ns"].as_f64().expect("a sum") - each.iter().sum::<f64>()).abs() < 1e-6, "{json}");
        assert!(tiles.measure(1, &|| true).is_none());
    }
}
