//! Rules about slots and blocks: a chain that cannot hash as fast as its slots should come; a block that is full before
//! its slot ends, so that no faster core could add to it.
//!
//! reads   from a [`Sample`] how late slots are, for how long blocks were full, and which limit they reached
//! writes  a [`Diagnosis`]

use super::{Diagnosis, FULL, Finding, NOTABLE, percent};
use crate::sample::Sample;

/// The limits of a block by the counters' names: what each is called, and its remedy.
const LIMITS: [(&str, &str, Option<Remedy>); 4] = [
    (
        "compute",
        "compute units",
        Some(("development.bench.larger_max_cost_per_block", "true", "lift the limit on them")),
    ),
    ("bytes", "shreds", Some(("development.bench.larger_shred_limits_per_block", "true", "lift the limit on them"))),
    ("growth", "room for new account data", None),
    ("microblocks", "hashes", Some(("development.genesis.hashes_per_tick", "0", "hash no more than ticks need"))),
];

/// A key, its value, and the advice in words.
type Remedy = (&'static str, &'static str, &'static str);

/// More seconds of delay than a short interruption of the core explains.
const LATE_S: f64 = 0.5;
/// The cluster's hashes per tick.
const CLUSTER_HASHES_PER_TICK: f64 = 62_500.0;
/// Below this many hashes per tick, hashing does not delay slots.
const LOW_POWER: f64 = 1_000.0;

/// Checked before full blocks: late slots mean too few blocks, which are then full, too.
pub(super) fn slots_late(sample: &Sample) -> Option<Diagnosis> {
    let Sample { slots_late_s, hashes_per_tick, .. } = *sample;
    if slots_late_s < LATE_S || hashes_per_tick < LOW_POWER || !is_hashing_all_the_time(sample) {
        return None;
    }
    let says = format!(
        "poh is the limit: slots begin {slots_late_s:.1} s late, since it cannot do {hashes_per_tick:.0} hashes in a tick"
    );
    let fewer = if hashes_per_tick > 1.1 * CLUSTER_HASHES_PER_TICK { CLUSTER_HASHES_PER_TICK } else { 0.0 };
    let found = Diagnosis::new(Finding::SlotsLate, Some("poh"), says);
    Some(found.advise_value("development.genesis.hashes_per_tick", format!("{fewer}"), "ask for fewer"))
}

/// Only a poh that hashes all the time delays slots by hashing. One that is blocked, idle, or on a core that others use
/// is late for a reason that later rules report.
fn is_hashing_all_the_time(sample: &Sample) -> bool {
    let poh = sample.tiles.iter().find(|tile| tile.kind == "poh" && tile.regimes.blocked() < NOTABLE);
    let core = poh.and_then(|poh| sample.cores.iter().find(|core| Some(core.core) == poh.core));
    core.is_some_and(|core| core.busy >= FULL && core.taken < NOTABLE)
}

/// Whatever else is busy, only lifting this limit lets more transactions in.
pub(super) fn block_full(sample: &Sample) -> Option<Diagnosis> {
    let of_block = LIMITS.iter().filter_map(|limit| Some((limit, *sample.block_full.get(limit.0)?)));
    let ((_, what, remedy), share) =
        of_block.max_by(|a, b| a.1.total_cmp(&b.1)).filter(|(_, share)| *share >= NOTABLE)?;
    let says = format!(
        "the block is the limit: for {} of the time it has no {what} left, and transactions wait for the next",
        percent(share)
    );
    let found = Diagnosis::new(Finding::BlockFull, Some("pack"), says);
    Some(match remedy {
        Some((key, value, says)) => found.advise_value(key, *value, *says),
        None => found,
    })
}
