//! dedup: transactions a second through the tile, links included.
//!
//! reads   made-up transactions of 215 bytes under random tags
//! writes  one line per figure; the tag cache alone has its figures in the bench `pack`
//! memory  2^22 tags
//!
//! cargo bench -p hearth-pipeline --bench dedup_tile

use std::hint::black_box;

use hearth_pipeline::dedup::{Config, Dedup};
use hearth_testkit::bench::{Bench, Unit};
use hearth_testkit::random::Random;
use hearth_tile::rig::Rig;

/// Transactions in one piece of work: half of what a rig's link holds.
const ROUND: usize = 128;
const IN: &str = "verify_dedup:0";
const OUT: &str = "dedup_pack";
const TRANSACTION: [u8; 215] = [0x5a; 215];

/// A round of transactions, those whose number `repeats` under the tag of the one before.
fn round(rig: &mut Rig<Dedup>, random: &mut Random, repeats: impl Fn(usize) -> bool) -> u64 {
    let (mut tag, mut fresh) = (0, 0);
    for n in 0..ROUND {
        if !repeats(n) {
            (tag, fresh) = (random.word(), fresh + 1);
        }
        rig.give(IN, tag, &TRANSACTION);
    }
    rig.run();
    let passed = rig.drain(OUT, |tag, payload| {
        black_box((tag, payload));
    });
    assert_eq!(passed, fresh);
    ROUND as u64
}

fn main() {
    let bench = Bench::from_args();
    let config = Config::default();
    let mut rig = Rig::<Dedup>::new(&config, &[IN], &[OUT]);
    let mut random = Random(1);
    (0..config.history / ROUND).for_each(|_| {
        round(&mut rig, &mut random, |_| false);
    });
    bench.run("dedup tile, all new, history full", Unit::PerSecond, Some(1e6), || {
        round(&mut rig, &mut random, |_| false)
    });
    bench.run("dedup tile, half duplicates", Unit::PerSecond, Some(1e6), || {
        round(&mut rig, &mut random, |n| n % 2 == 1)
    });
}
