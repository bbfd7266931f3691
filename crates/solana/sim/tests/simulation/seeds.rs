//! Two hundred seeds on all cores.

use std::time::Instant;

use hearth_sim::plan::{Kind, NODES, Plan};
use hearth_sim::runs::{run_seeds, threads};

/// Each kind of fault must take effect in at least this many of the test command's seeds.
const SEEDS_OF_A_KIND: u64 = 20;
const SEEDS: u64 = 200;
/// Each seed's run must reach at least this slot.
const SLOTS: u64 = 100;

#[test]
fn two_hundred_seeds_hold() {
    let count = std::env::var("HEARTH_SIM_SEEDS").map_or(SEEDS, |text| text.parse().expect("a number of seeds"));
    let begun = Instant::now();
    let tally = run_seeds((0, count), threads(), |_| true, |_| ());
    println!("{} s: {}", begun.elapsed().as_secs(), tally.text());
    let failed = tally.failed.iter().map(|outcome| {
        let (violation, second) = outcome.violation.as_ref().expect("it failed");
        let again = format!("cargo run --release --package hearth-sim --bin simulate -- {}", outcome.plan.options());
        format!("{} at {second:.3} s: {}\n  {again}", violation.invariant.name(), violation.what)
    });
    let failed: Vec<_> = failed.collect();
    assert!(failed.is_empty(), "{} of {count} seeds failed:\n{}", failed.len(), failed.join("\n"));
    assert_eq!(tally.seeds, count);
    assert!(tally.least_slots.is_some_and(|slots| slots >= SLOTS), "a seed has {:?} slots", tally.least_slots);
    assert!(tally.rooted > 30 * count, "{} blocks are rooted", tally.rooted);
    assert!(tally.confirmed > 20 * count, "clients saw {} transactions confirmed", tally.confirmed);
    assert!(tally.stake_changes > count / 2, "stakes changed in {} epochs", tally.stake_changes);
    if count >= SEEDS {
        assert!(tally.snapshots.0 > 3 * count, "{} snapshots were taken", tally.snapshots.0);
        assert!(tally.snapshots.1 > 0, "no node has started on a snapshot");
        for (kind, name) in Kind::ALL {
            let seeds = tally.faults.get(&kind).copied().unwrap_or(0);
            assert!(seeds >= SEEDS_OF_A_KIND, "{name} took effect in {seeds} seeds");
        }
    }
}

#[test]
fn a_seed_has_four_nodes_and_a_hundred_slots() {
    for seed in 0..SEEDS {
        let plan = Plan::of(seed);
        assert!(plan.nodes >= 4 && plan.nodes == NODES && plan.slots >= SLOTS && plan.victim < plan.nodes);
    }
}
