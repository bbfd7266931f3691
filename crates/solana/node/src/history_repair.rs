//! Repairs a history that startup finds damaged or behind the state, by replaying blocks from an older state.
//!
//! reads   the findings of opening the history; which blocks and snapshots exist
//! writes  truncates the history before the blocks to record again; a notice for each damaged range
//! memory  a slot number per block
//! drops   blocks that no state on disk leads to: the notice names the slots
//!
//! The outcome of a transaction is known only by executing it. So repairing a lost part of the history costs a start
//! from an older state: that of a snapshot before the lost part, or the genesis, with every block after it.

use std::collections::BTreeSet;

use hearth_command::output::note;
use hearth_ledger::Genesis;
use hearth_ledger::blockstore::Reader;
use hearth_ledger::history::{Damage, History};
use hearth_ledger::snapshot::SnapshotError;

use crate::config::Config;
use crate::restore::{self, RestoreError, RestoredState, StateFolders};

/// A missing part of the history.
struct Gap {
    /// The last block before it in the history; 0 if there is none.
    after: u64,
    /// The first block after it in the history; `None` if there is none.
    until: Option<u64>,
    /// The damage and its location.
    why: String,
}

/// The state to start from, and the part of the history that stays.
pub struct Plan {
    /// The state to start from.
    pub restored: RestoredState,
    /// Reopen the history up to this slot; the blocks after it are replayed and recorded.
    pub cut_after: Option<u64>,
    /// When replaying from an older state than the newest, blocks up to this slot are final.
    pub final_slot: u64,
}

/// Chooses the state to start from: the newest, unless an older one lets the blocks missing in the history be replayed.
pub fn plan(
    config: &Config,
    (genesis, folders): (&Genesis, &StateFolders),
    history: Option<&mut History>,
    blocks: &Reader,
    mut refused: impl FnMut(&SnapshotError),
) -> Result<Plan, RestoreError> {
    let snapshots: Vec<u64> = folders.states()?.iter().map(|state| state.slot).collect();
    folders.check_bases(!snapshots.is_empty() || blocks.first_slot().is_some())?;
    let newest = snapshots.first().copied().unwrap_or(genesis.config().genesis_slot);
    let gaps = history.map_or(vec![], |history| gaps(history, blocks, newest));
    let mut walk = Walk::back_from(newest, |slot| readable_parent(blocks, slot));
    for gap in gaps {
        let after = gap.after;
        let states = snapshots.iter().copied().chain([genesis.config().genesis_slot]);
        for state in states.filter(|state| *state <= after) {
            if !walk.reaches(state) {
                continue;
            }
            let restored = match restore::up_to(config, genesis, folders, state, &mut refused) {
                // The node starts from a newer state; only this way to the history's gap is closed.
                Err(RestoreError::Archive(why)) => {
                    note(format_args!("notice: {why}; it is not used"));
                    continue;
                }
                restored => restored?,
            };
            // If a snapshot is damaged the state is older, and blocks after it may be missing.
            let Some(restored) = restored.filter(|restored| restored.slot() == state) else { continue };
            let why = gap.why;
            let executed = match newest > state {
                true => format!("those of slots {} to {newest}", state + 1),
                // A start replays the blocks after the newest snapshot in any case.
                false => "all".to_owned(),
            };
            note(format_args!(
                "notice: {why}; the history behind slot {after} is recorded again from the blocks: {executed} are \
                 executed, from the state of slot {state}"
            ));
            return Ok(Plan { restored, cut_after: Some(after), final_slot: newest });
        }
        note(format_args!("notice: {}; {}", gap.why, gap.lost()));
    }
    let restored = restore::newest(config, genesis, folders, refused)?;
    Ok(Plan { restored, cut_after: None, final_slot: 0 })
}

impl Gap {
    fn of(damage: &Damage) -> Self {
        Self { after: damage.after_slot, until: damage.until_slot, why: damage.to_string() }
    }

    fn lost(&self) -> String {
        let first = self.after + 1;
        let slots = match self.until {
            Some(until) => format!("{first} to {}", until - 1),
            None => format!("{first} and later"),
        };
        format!(
            "what became of transactions in slots {slots} cannot be read or recorded again: no state in front of them \
             is left with all blocks behind it"
        )
    }
}

/// The stored blocks that are missing in the history, in chain order.
fn gaps(history: &mut History, blocks: &Reader, newest: u64) -> Vec<Gap> {
    let recovery = history.recovery();
    for table in &recovery.rebuilt_tables {
        note(format_args!("notice: {table}; made again from its segment, nothing is lost"));
    }
    if let Some(torn) = &recovery.torn {
        note(format_args!("notice: {torn}, nor behind it: the unfinished end of the history is cut off"));
    }
    let mut gaps: Vec<Gap> = recovery.damage.iter().map(Gap::of).collect();
    let (last, found) = (history.last_slot(), history.take_found_slots());
    let line = line(blocks, last.max(newest));
    // Gaps without a damaged range: between two recorded blocks, or up to the state's block.
    if let Some(first) = found.first() {
        let hole = line.range(first + 1..last.max(first + 1)).find(|slot| found.binary_search(slot).is_err()).copied();
        if let Some(hole) = hole {
            let at = found.partition_point(|slot| *slot < hole);
            let (after, until) = (found[at - 1], found.get(at).copied());
            let why = format!("the history lacks slot {hole}, whose block is stored");
            gaps.push(Gap { after, until, why });
        }
    }
    if newest > last && line.contains(&newest) {
        let why = format!("the history ends at slot {last}, the newest snapshot is of slot {newest}");
        gaps.push(Gap { after: last, until: Some(newest + 1), why });
    }
    gaps.sort_by_key(|gap| gap.after);
    gaps
}

/// The slots of the stored blocks that lead to `tip`.
fn line(blocks: &Reader, tip: u64) -> BTreeSet<u64> {
    let mut line = BTreeSet::new();
    let mut at = tip;
    while let Some(info) = blocks.slot(at).filter(|info| info.whole && info.parent_slot < at) {
        line.insert(at);
        at = info.parent_slot;
    }
    line
}

/// The parent of a stored, readable block.
fn readable_parent(blocks: &Reader, slot: u64) -> Option<u64> {
    let info = blocks.slot(slot).filter(|info| info.whole && info.parent_slot < slot)?;
    matches!(blocks.block(slot), Ok(Some(_))).then_some(info.parent_slot)
}

/// Walks a slot's ancestors, only as far as requested, reading each block once.
struct Walk<P> {
    parent_of: P,
    /// The slots reached so far. From the state of any of them all blocks up to the last can be replayed.
    reached: BTreeSet<u64>,
    /// The next slot; `None` if its block cannot be read.
    at: Option<u64>,
}

impl<P: FnMut(u64) -> Option<u64>> Walk<P> {
    fn back_from(slot: u64, parent_of: P) -> Self {
        Self { parent_of, reached: BTreeSet::from([slot]), at: Some(slot) }
    }

    /// Whether all blocks above `slot` exist.
    fn reaches(&mut self, slot: u64) -> bool {
        while let Some(at) = self.at.filter(|at| *at > slot) {
            self.at = (self.parent_of)(at);
            self.reached.extend(self.at);
        }
        self.reached.contains(&slot)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn every_block_is_read_once() {
        let read = RefCell::new(vec![]);
        // Slots 7 and 4 are skipped; the block of slot 2 is missing.
        let parent_of = |slot: u64| {
            read.borrow_mut().push(slot);
            match slot {
                2 => None,
                5 | 8 => Some(slot - 2),
                _ => Some(slot - 1),
            }
        };
        let mut walk = Walk::back_from(9, parent_of);
        let reached: Vec<u64> = (0..=9).rev().filter(|slot| walk.reaches(*slot)).collect();
        assert_eq!(reached, [9, 8, 6, 5, 3, 2]);
        assert!(walk.reaches(6), "a state that was passed before");
        assert_eq!(*read.borrow(), [9, 8, 6, 5, 3, 2]);
    }
}
