//! dedup: transactions per second through the tile, including its links.
//!
//! reads   synthetic transactions of 215 bytes with random tags
//! writes  one line per figure; the tag cache alone is measured in the bench `pack` of the pipeline
//! memory  2^22 tags
//!
//! cargo bench -p hearth-workload --bench dedup

use hearth_testkit::bench::{Bench, Unit};
use hearth_workload::Work;
use hearth_workload::dedup::Load;

fn main() {
    let bench = Bench::from_args();
    for (name, repeats) in [("dedup tile, all new, history full", 0), ("dedup tile, half duplicates", 2)] {
        let mut load = Load::new(repeats);
        bench.run(name, Unit::PerSecond, Some(1e6), || load.round());
    }
}
