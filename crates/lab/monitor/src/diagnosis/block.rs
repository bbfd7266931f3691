//! Slots and blocks: a chain that cannot hash as fast as its slots should come; a block that is full before its slot
//! ends, so that no core, however fast, puts more into it.
//!
//! reads   of a [`Sample`] how late slots are, for how long blocks were full, and of what
//! writes  a [`Diagnosis`]

use super::{Diagnosis, FULL, Finding, NOTABLE, percent};
use crate::sample::Sample;

/// What a block can run out of, by the counters' names: what it is called, and what to do about it.
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

/// A key, its value, and that in words.
type Remedy = (&'static str, &'static str, &'static str);

/// Later than a moment in which the core did something else.
const LATE_S: f64 = 0.5;
/// The cluster's.
const CLUSTER_HASHES_PER_TICK: f64 = 62_500.0;
/// Below this many hashes in a tick it is no hashing that makes slots late.
const LOW_POWER: f64 = 1_000.0;

/// Slots that come late make blocks too few, and then these are full, too.
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

/// Only then it is hashing that slots wait for: a poh that is held up, whose core others have, or that rests begins
/// them late by what the later rules tell.
fn is_hashing_all_the_time(sample: &Sample) -> bool {
    let poh = sample.tiles.iter().find(|tile| tile.kind == "poh" && tile.regimes.blocked() < NOTABLE);
    let core = poh.and_then(|poh| sample.cores.iter().find(|core| Some(core.core) == poh.core));
    core.is_some_and(|core| core.busy >= FULL && core.taken < NOTABLE)
}

/// Whatever else is busy, lifting this limit is what lets more in.
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
