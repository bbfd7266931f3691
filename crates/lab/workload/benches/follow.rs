//! follow: what a transaction costs a node that executes a block of another node: parsing, signatures, hashes,
//! execution, the bank hash. Shreds, disk and votes are left out.
//!
//! reads   generated blocks of transfers: 2,000 as at 5,000 per second, and 920 in entries of two as at 2,300
//! writes  one line per figure, nanoseconds per transaction
//! memory  100 MB of blocks, 128 MB of signature tables
//!
//! cargo bench -p hearth-workload --bench follow

use std::sync::Arc;
use std::time::Duration;

use hearth_testkit::bench::{Bench, Unit};
use hearth_workload::Work;
use hearth_workload::follow::{Chain, Follower, Shape};

const TABLES: usize = 128 << 20;

fn main() {
    let bench = Bench::from_args().with_rounds(21, Duration::from_millis(200));
    let full = Shape { blocks: 20, transfers: 2_000, entry: 64, signers: 1_021 };
    let shapes = [
        ("2,000 transfers, 1,021 signers", full),
        ("2,000 transfers, 50,021 signers", Shape { signers: 50_021, ..full }),
        ("920 transfers, 1,021 signers", Shape { transfers: 920, entry: 2, ..full }),
    ];
    for (name, shape) in shapes {
        let chain = Arc::new(Chain::new(shape));
        for workers in [1, 2] {
            let mut follower = Follower::new(&chain, workers, TABLES);
            // Until frequent signers have tables.
            (0..2 * shape.blocks).for_each(|_| _ = follower.round());
            let name = format!("{name}, {workers} thread{}", if workers == 1 { "" } else { "s" });
            bench.run(&name, Unit::NanosPerItem, Some(15e3), || follower.round());
        }
    }
}
