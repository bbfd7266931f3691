//! The same seed is the same run, with any number of threads.

use hearth_sim::plan::Plan;
use hearth_sim::runs::run_seeds;
use hearth_sim::world::run;

#[test]
fn a_seed_is_the_same_run_whatever_runs_beside_it() {
    let seeds = (1_000, 4);
    let alone = run_seeds(seeds, 1, |_| true, |_| ());
    let beside = run_seeds(seeds, 3, |_| true, |_| ());
    assert_eq!(alone.digests.len(), 4);
    assert_eq!(alone.digests, beside.digests);
    let digests: std::collections::BTreeSet<_> = alone.digests.values().collect();
    assert_eq!(digests.len(), 4, "each seed is a run of its own");
}

#[test]
fn a_trace_says_who_knew_what_and_changes_nothing() {
    let plan = Plan::of(3).only("none").expect("no faults are always there");
    let (plain, traced) = (run(&plan, None), run(&plan, Some(20)));
    assert_eq!(plain.violation, None);
    assert_eq!(plain.digest, traced.digest);
    assert!(plain.trace.is_empty());
    for what in ["sends its first shred", "gets its first shred", "has executed it", "has rooted it"] {
        assert!(traced.trace.iter().any(|line| line.contains(what)), "{what}: {:#?}", traced.trace);
    }
}
