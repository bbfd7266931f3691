//! gaps: reports what is missing of the started slots to repair.
//!
//! reads   the [`Receiver`]
//! writes  `shred_repair`: what is missing of each slot, whenever that changes
//! memory  the last message for each started slot, at most 276 B
//! drops   nothing: a report for which the link has no room is sent at the next check

use std::collections::{BTreeMap, BTreeSet};

use hearth_tile::{Out, Port, Tile};

use super::block_versions::SLOTS_MAX as SLOTS_ANEW_MAX;
use super::receiver::{MissingShreds, Receiver, ReceiverConfig};
use crate::links::{GAPS_MAX, SLOT_GAPS, SLOT_GONE, SLOT_WHOLE, SlotGaps};
use crate::repair::PATIENCE_NS;
use crate::repair::request_plan::SLOTS_WANTED;

/// Maximum bytes of the last messages for all slots.
pub(super) const fn memory(receiver: &ReceiverConfig) -> u64 {
    // Two entries each: tree nodes are half full at worst.
    ((receiver.slots_max + SLOTS_ANEW_MAX) * (SlotGaps::MTU + 2 * size_of::<(u64, Vec<u8>)>())) as u64
}

/// Reports gaps to repair.
pub(super) struct GapReports {
    port: Port,
    /// The last message sent for each slot.
    sent: BTreeMap<u64, Vec<u8>>,
    /// Whether anything is missing, or remains unreported for lack of room.
    is_lacking: bool,
    /// Whether the link had no room for everything.
    is_held_up: bool,
    /// When more becomes missing without any arrival.
    due_at: Option<u64>,
}

impl GapReports {
    pub fn new(port: Port) -> Self {
        Self { port, sent: BTreeMap::new(), is_lacking: false, is_held_up: false, due_at: None }
    }

    /// Whether anything is known to be missing, or remains to be reported.
    pub fn is_lacking(&self) -> bool {
        self.is_lacking
    }

    /// Whether a report is waiting for room.
    pub fn is_held_up(&self) -> bool {
        self.is_held_up
    }

    /// When there is more to report without any arrival, as of the last report.
    pub fn due_at(&self) -> Option<u64> {
        self.due_at
    }

    /// Reports changes. Individual missing shreds are listed for the lowest slots only, because those come first.
    pub fn report(&mut self, receiver: &Receiver, out: &mut Out<'_, impl Tile>) {
        let root = receiver.root();
        self.is_lacking = true;
        self.is_held_up = true;
        if self.sent.first_key_value().is_some_and(|(slot, _)| *slot <= root) {
            self.sent = self.sent.split_off(&(root + 1));
        }
        let begun: BTreeSet<u64> = receiver.slots().filter(|slot| *slot > root).collect();
        let ended: Vec<u64> = self.sent.keys().copied().filter(|slot| !begun.contains(slot)).collect();
        for slot in ended {
            if out.credits(self.port, 1) == 0 {
                return;
            }
            let parent = receiver.whole_parent(slot);
            let control = if parent.is_some() { SLOT_WHOLE } else { SLOT_GONE };
            let message = SlotGaps { slot, parent, ..SlotGaps::default() }.encode();
            out.publish_control(self.port, slot, control, &message);
            self.sent.remove(&slot);
        }
        let now = out.now();
        let mut is_lacking = begun.len() > SLOTS_WANTED;
        let dues = begun.iter().take(SLOTS_WANTED).filter_map(|slot| receiver.due_after(*slot, now, PATIENCE_NS));
        self.due_at = dues.min();
        for (place, slot) in begun.into_iter().enumerate() {
            let MissingShreds { shreds, highest_from } = match place {
                0..SLOTS_WANTED => receiver.missing(slot, now, PATIENCE_NS, GAPS_MAX),
                _ => MissingShreds { shreds: vec![], highest_from: None },
            };
            is_lacking |= highest_from.is_some() || !shreds.is_empty();
            let message = SlotGaps { slot, parent: receiver.parent(slot), highest_from, shreds }.encode();
            if self.sent.get(&slot) == Some(&message) {
                continue;
            }
            if out.credits(self.port, 1) == 0 {
                return;
            }
            out.publish_control(self.port, slot, SLOT_GAPS, &message);
            self.sent.insert(slot, message);
        }
        self.is_lacking = is_lacking;
        self.is_held_up = false;
    }
}
