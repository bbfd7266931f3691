//! One node on a simulated disk, by seed and on virtual time: it is killed at every step, loses power, meets a full or
//! a failing disk, restarts, and is compared with a model without any of these.
//!
//! `HEARTH_SEED` is the first seed, 1 by default; `HEARTH_SIMULATE_SEEDS` sets their number, and `HEARTH_CASE` runs one
//! case alone. See docs/simulation-evm.md.

mod cases;
mod model;
mod node;
mod restart;
mod run;
mod traffic;

use cases::Simulation;

/// Every 16th end of a run is tried where a run is compared with itself.
const STRIDE: usize = 16;

fn number(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text}: expected a number")))
}

#[test]
fn every_end_leaves_what_was_promised() {
    let (first, seeds) = (number("HEARTH_SEED", 1), number("HEARTH_SIMULATE_SEEDS", 1));
    for seed in first..first + seeds {
        let mut simulation = Simulation::new(seed);
        if let Ok(case) = std::env::var("HEARTH_CASE") {
            simulation.check(case.parse().unwrap());
            continue;
        }
        for case in simulation.cases(1) {
            simulation.check(case);
        }
        let counts = simulation.counts;
        println!("seed {seed}: digest {:08x}, {counts:?}", simulation.digest());
        assert!(
            counts.cases > 400 && counts.lost_blocks > 10 && counts.gave_up > 0 && counts.went_on > 0,
            "{counts:?}"
        );
    }
}

#[test]
fn same_seed_is_the_same_run() {
    let seed = number("HEARTH_SEED", 1);
    let run = |seed| {
        let mut simulation = Simulation::new(seed);
        for case in simulation.cases(STRIDE) {
            simulation.check(case);
        }
        (simulation.digest(), simulation.counts)
    };
    assert_eq!(run(seed), run(seed), "seed {seed}");
    assert_ne!(run(seed).0, run(seed + 1).0, "seed {seed}");
}
