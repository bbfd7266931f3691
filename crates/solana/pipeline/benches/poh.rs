//! poh: the chain as its tile drives it, and the verification of a block.
//!
//! reads   the bench's name filter
//! writes  one line per figure
//! memory  one block of 64 ticks
//! source  mainnet's chain is 10 M hashes per second: 62,500 per tick, 160 ticks per second
//!
//! cargo bench -p hearth-pipeline --bench poh

use hearth_crypto::sha256::sha256_chain;
use hearth_pipeline::poh::chain::{Config, PohChain, Step};
use hearth_pipeline::poh::check::verify_entries;
use hearth_testkit::bench::{Bench, Unit};
use hearth_wire::entry::{Entries, write_batch_header, write_entry};

const HASHES_PER_TICK: u64 = 62_500;
fn main() {
    let bench = Bench::from_args();
    // The clock advances by a tick's time whenever there is nothing to do.
    let mut chain = PohChain::new(Config::default(), 1, 0, [7; 32], 0).expect("the rules are the mainnet's");
    let mut now = 0;
    let as_the_tile = || {
        let mut hashes = 0;
        while hashes < HASHES_PER_TICK {
            match chain.step(now) {
                Step::SlotBegan { slot, .. } => chain.done_packing(slot, 0).expect("none is within the limit"),
                Step::Tick(entry) => hashes += entry.num_hashes,
                Step::Early(when) => now = when + 6_250_000,
                Step::Hashed | Step::Waiting => {}
            }
        }
        hashes
    };
    let mut hash = [7; 32];
    let bare = || {
        hash = sha256_chain(hash, HASHES_PER_TICK);
        HASHES_PER_TICK
    };
    // The chain's own overhead besides the hashing, which has its own bench in crypto.
    bench.paired("poh hash as the tile does, hashes", Unit::PerSecond, Some(0.9), as_the_tile, bare);

    // In low power, only microblocks are hashed.
    now = 0;
    let low_power = Config { hashes_per_tick: None, ..Config::default() };
    let mut chain = PohChain::new(low_power, 1, 0, [7; 32], 0).expect("low power has no rules to break");
    bench.run("poh mix in, microblocks", Unit::PerSecond, Some(1e6), || {
        let mut mixed = 0;
        loop {
            match chain.step(now) {
                Step::Tick(entry) if entry.last => return mixed,
                Step::Waiting => {
                    while let Some((slot, id)) = chain.wants() {
                        chain.mix(slot, id, Some([id as u8; 32])).expect("it is the one wanted");
                        mixed += 1;
                    }
                    chain.done_packing(chain.slot(), mixed).expect("as many as were mixed in");
                }
                Step::Early(when) => now = when,
                Step::Tick(_) | Step::Hashed | Step::SlotBegan { .. } => {}
            }
        }
    });

    let block = block();
    let entries: Vec<_> = Entries::parse(&block).and_then(Iterator::collect).expect("a block");
    for threads in [1, 2] {
        bench.run(&format!("poh verify a block, {threads} threads, hashes"), Unit::PerSecond, None, || {
            verify_entries(&[7; 32], &entries, Some(HASHES_PER_TICK), 64, threads).expect("a valid block");
            64 * HASHES_PER_TICK
        });
    }
}

/// Makes a block of 64 ticks without transactions.
fn block() -> Vec<u8> {
    let mut hash = [7; 32];
    let mut block = vec![];
    write_batch_header(64, &mut block);
    for _ in 0..64 {
        hash = sha256_chain(hash, HASHES_PER_TICK);
        write_entry(HASHES_PER_TICK, &hash, 0, &[], &mut block);
    }
    block
}
