//! request_plan: chooses what to request next from what is missing.
//!
//! reads   shred's reports of slots; whole slots; the executed and final slots; slots with votes; how far shred accepts
//! writes  requests, the most urgent first
//! memory  none of its own
//! source  `solana-core` 4.2.2, `repair_service.rs`; `docs/cluster-protocol.md`, section 3

use std::collections::{BTreeMap, BTreeSet};

use hearth_wire::repair::RequestContent;

use crate::links::SlotGaps;

/// An unanswered request is repeated after this long.
pub(super) const AGAIN_NS: u64 = 150_000_000;
/// Slots whose ancestors are requested at a time.
pub(super) const ORPHANS_WANTED: usize = 5;
/// Shreds in a response to a request for ancestors.
pub(super) const ANCESTORS: usize = 11;
/// Slots after the newest executed one whose missing shreds are requested. Shred lists the missing shreds of this many
/// of its lowest slots.
pub(crate) const SLOTS_WANTED: usize = 32;
/// Slots beyond these that are requested, too, where slots are requested blindly.
pub(super) const PROBED: usize = 8;
/// Slots examined for that, and below the newest executed one.
pub(super) const SLOTS_LOOKED_AT: u64 = 1_024;
/// How many slots beyond the final one shreds are accepted for, at least; half an epoch if that is more.
const SLOTS_AHEAD_MIN: u64 = 500;

/// Returns the highest slot whose shreds are accepted while `root` is final, if its leader is known.
pub(crate) fn highest_accepted(root: u64, slots_per_epoch: u64) -> u64 {
    root.saturating_add(SLOTS_AHEAD_MIN.max(slots_per_epoch / 2))
}

/// The known state of slots.
pub(super) struct KnownSlots<'a> {
    /// The newest executed slot.
    pub executed: u64,
    /// Slots up to this one are not wanted.
    pub root: u64,
    /// Slots of which some shreds have arrived, but not all.
    pub begun: &'a BTreeMap<u64, SlotGaps>,
    /// Whole slots, and their parents.
    pub whole: &'a BTreeMap<u64, u64>,
    /// Slots with votes by stake.
    pub voted: &'a [u64],
    /// If the cluster is beyond all slots whose shreds are accepted: the last of these. No shred shows that there are
    /// blocks up to there.
    pub accepted_to: Option<u64>,
    /// Chooses which slots beyond the next ones are requested blindly: increase it by one to continue with the next.
    pub probe: u64,
}

impl KnownSlots<'_> {
    /// The first slot whose shreds are requested: `below` slots below the newest executed one are examined, but no
    /// final slot.
    pub fn from(&self, below: u64) -> u64 {
        self.root.max(self.executed.saturating_sub(below)) + 1
    }

    /// Returns what is missing of the next slots, the oldest first; before it unknown ancestors, and after it slots of
    /// which only votes were heard. If the cluster is beyond what shred accepts, the next slots are requested blindly,
    /// and a few of those beyond: nobody answers if all of the next ones were skipped.
    pub fn wanted(&self, below: u64) -> Vec<RequestContent> {
        let (executed, from) = (self.executed, self.from(below));
        let to = executed + SLOTS_LOOKED_AT;
        let begun = || self.begun.range(from..);
        let whole = || self.whole.range(from..);
        let highest_whole = whole().next_back().map(|(slot, _)| *slot);
        let highest_begun = begun().next_back().map(|(slot, _)| *slot);
        let newest = highest_begun.max(highest_whole).max(self.accepted_to).unwrap_or(executed);
        let of_begun = begun().filter_map(|(slot, gaps)| Some((*slot, gaps.parent?)));
        let parents: BTreeMap<u64, u64> = whole().map(|(slot, parent)| (*slot, *parent)).chain(of_begun).collect();
        let is_there = |slot: &u64| self.whole.contains_key(slot) || self.begun.contains_key(slot);
        // A block was built on an unknown parent: there is a fork.
        let lost = |parent: &u64| *parent >= from && !is_there(parent);
        let orphans = parents.iter().filter(|(_, parent)| lost(parent)).map(|(slot, _)| *slot);
        let mut wanted: Vec<RequestContent> =
            orphans.take(ORPHANS_WANTED).map(|slot| RequestContent::Orphan { slot }).collect();
        let named: BTreeSet<u64> = parents.values().copied().filter(lost).collect();
        // A fork has no blocks between a block and its parent; another fork has only those heard of.
        let skipped = between(parents.iter().map(|(slot, parent)| (*parent.max(&executed), *slot)), from, to);
        let is_heard_of = |slot: &u64| self.begun.contains_key(slot) || named.contains(slot);
        let slots = (from..=newest.min(to)).filter(|slot| !self.whole.contains_key(slot));
        let mut missing =
            slots.filter(|slot| is_heard_of(slot) || (*slot > executed && !skipped[(*slot - from) as usize]));
        let mut slots: BTreeSet<u64> = missing.by_ref().take(SLOTS_WANTED).collect();
        if self.accepted_to.is_some() {
            slots.extend(probed(&missing.collect::<Vec<_>>(), self.probe));
        }
        let unseen = self.voted.iter().copied().filter(|slot| (from..=to).contains(slot) && !is_there(slot));
        let unseen = unseen.filter(|slot| !slots.contains(slot));
        for slot in slots.iter().copied().chain(unseen) {
            let Some(gaps) = self.begun.get(&slot) else {
                wanted.push(RequestContent::Highest { slot, from: 0 });
                continue;
            };
            wanted.extend(gaps.shreds.iter().map(|index| RequestContent::Shred { slot, index: *index }));
            wanted.extend(gaps.highest_from.map(|from| RequestContent::Highest { slot, from }));
        }
        wanted
    }
}

/// Returns [`PROBED`] of these slots, those after the ones of the probe before; after the last comes the first.
fn probed(slots: &[u64], probe: u64) -> impl Iterator<Item = u64> {
    let first = probe.wrapping_mul(PROBED as u64) as usize;
    (0..PROBED.min(slots.len())).map(move |index| slots[first.wrapping_add(index) % slots.len()])
}

/// For each slot in `from..to`, whether it is between the two of a pair. A leader may name a parent far back, and
/// blocks far ahead: each pair costs the same.
fn between(pairs: impl Iterator<Item = (u64, u64)>, from: u64, to: u64) -> Vec<bool> {
    let mut changes = vec![0i32; (to + 2 - from) as usize];
    for (below, above) in pairs {
        let (begin, end) = ((below + 1).clamp(from, to + 1), above.clamp(from, to + 1));
        if begin < end {
            changes[(begin - from) as usize] += 1;
            changes[(end - from) as usize] -= 1;
        }
    }
    let mut open = 0;
    let running = changes.into_iter().map(|change| {
        open += change;
        open > 0
    });
    running.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_between_blocks_are_found_within_bounds() {
        let slots = |pairs: &[(u64, u64)]| -> Vec<u64> {
            let found = between(pairs.iter().copied(), 10, 20);
            (10..=20).filter(|slot| found[(*slot - 10) as usize]).collect()
        };
        assert_eq!(slots(&[(11, 14), (13, 15), (17, 18)]), [12, 13, 14]);
        assert_eq!(slots(&[(2, 12), (18, 70_000)]), [10, 11, 19, 20]);
        assert!(slots(&[(1, 5), (30, 40), (12, 12)]).is_empty());
        // A set with all slots of these ranges would not fit into memory.
        assert_eq!(between((0..1 << 16).map(|n| (n, u64::MAX)), 10, 20).iter().filter(|is| **is).count(), 11);
    }

    #[test]
    fn ancestors_come_first_and_skipped_slots_never() {
        let gaps = |slot, parent, shreds: &[u32]| {
            (slot, SlotGaps { slot, parent, highest_from: None, shreds: shreds.to_vec() })
        };
        // 12 was built on 9, so 10 and 11 are on no known fork; 15 on 13, of which nothing is here.
        let begun = BTreeMap::from([gaps(12, Some(9), &[3]), gaps(15, Some(13), &[]), gaps(14, None, &[7, 8])]);
        let whole = BTreeMap::from([(9, 8)]);
        let voted = [17, 9, 3];
        let known = KnownSlots {
            executed: 9,
            root: 4,
            begun: &begun,
            whole: &whole,
            voted: &voted,
            accepted_to: None,
            probe: 0,
        };
        let expected = [
            RequestContent::Orphan { slot: 15 },
            RequestContent::Shred { slot: 12, index: 3 },
            RequestContent::Highest { slot: 13, from: 0 },
            RequestContent::Shred { slot: 14, index: 7 },
            RequestContent::Shred { slot: 14, index: 8 },
            // Nothing of 15 is due; 17 has votes, 9 is whole, 3 is final.
            RequestContent::Highest { slot: 17, from: 0 },
        ];
        // Slot 9, whose parent 8 is unknown, is an orphan too when looking that far below.
        assert_eq!(known.wanted(0), expected);
        assert_eq!(known.wanted(1_024)[..2], [RequestContent::Orphan { slot: 9 }, expected[0]]);
        let (begun, whole) = (BTreeMap::new(), BTreeMap::new());
        let idle = KnownSlots { root: 9, begun: &begun, whole: &whole, voted: &[], ..known };
        assert_eq!(idle.wanted(1_024), []);
    }

    #[test]
    fn next_slots_are_requested_blindly_where_the_cluster_is_beyond_what_is_accepted() {
        let highest = |slot| RequestContent::Highest { slot, from: 0 };
        let (begun, whole) = (BTreeMap::new(), BTreeMap::from([(12, 9)]));
        let known = KnownSlots {
            executed: 9,
            root: 9,
            begun: &begun,
            whole: &whole,
            voted: &[],
            accepted_to: Some(15),
            probe: 0,
        };
        // 12 was built on 9: 10 and 11 have no block on its fork.
        assert_eq!(known.wanted(1_024), [13, 14, 15].map(highest));
        // All of the next slots may have been skipped: some of those beyond are requested in turn.
        let first_beyond = 13 + SLOTS_WANTED as u64;
        for (probe, first) in [(0, first_beyond), (1, first_beyond + PROBED as u64)] {
            let wanted = KnownSlots { accepted_to: Some(9_000), probe, ..known }.wanted(0);
            let expected = (13..first_beyond).chain(first..first + PROBED as u64).map(highest);
            assert_eq!(wanted, expected.collect::<Vec<_>>());
        }
        assert_eq!(probed(&[3, 4, 5], 7).collect::<BTreeSet<_>>(), BTreeSet::from([3, 4, 5]));
        assert_eq!(probed(&[], 7).count(), 0);
    }
}
