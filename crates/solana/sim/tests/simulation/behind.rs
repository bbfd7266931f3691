//! A node that misses whole epochs catches up: it knows neither their leaders nor their stakes.

use hearth_sim::plan::{Fault, Kind, Plan};
use hearth_sim::world::run;

/// Slots that the node misses: five epochs, of which it knows the leaders of two at most.
const MISSED: u64 = 160;

/// A seed in which a node misses [`MISSED`] slots, and nothing else goes wrong.
fn plan(seed: u64, kind: Kind) -> Plan {
    let faults = vec![Fault { kind, from_slot: 8, slots: MISSED, amount: 0 }];
    Plan { victim: 1, faults, ..Plan::of(seed) }
}

#[test]
fn node_that_is_epochs_behind_catches_up() {
    for kind in [Kind::LateJoin, Kind::FarBehind] {
        // Node 1 is given a snapshot of a peer in seed 2, and not in seed 0.
        for (seed, has_snapshot) in [(0, false), (2, true)] {
            let outcome = run(&plan(seed, kind), None);
            assert_eq!(outcome.violation, None, "{} in seed {seed}", kind.name());
            assert!(outcome.faults.contains(&kind) && outcome.newest_slot > MISSED, "{outcome:?}");
            assert_eq!(outcome.snapshots.1 > 0, has_snapshot, "{} in seed {seed}", kind.name());
        }
    }
}
