//! The tiles that make blocks: pack, bank, poh, shred and store, each alone on a rig, including its links.
//!
//! reads   synthetic transfers of 215 bytes, 64 per microblock; `HEARTH_BENCH_DIR` for store (otherwise /dev/shm if it
//!         exists, else the temporary folder)
//! writes  one line per figure, in transactions per second, or the equivalent in entries and sets; yardsticks are the
//!         libraries that the tiles drive, doing the same without links
//! memory  16 MB for each link of a rig; store: at most 1 GB of files, removed at the end
//!
//! cargo bench -p hearth-workload --bench block

mod bank;
mod pack;
mod poh;
mod shred;
mod store;

use hearth_testkit::bench::Bench;

fn main() {
    let bench = Bench::from_args();
    pack::transfers(&bench);
    bank::transfers(&bench);
    poh::microblocks(&bench);
    shred::entries(&bench);
    store::sets(&bench);
}
