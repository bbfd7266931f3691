//! deliver: the last stage of a shred's path: completed sets go to store, findings to gossip.
//!
//! reads   completed sets; findings; the block store, for the other shred of a contradiction
//! writes  `shred_store`: sets, and slots whose stored sets are void; `shred_gossip`: equivocating leaders and whole
//!         slots
//! memory  9 B for each slot after the final one whose leader equivocated; [`UNTOLD_MAX`] contradictions, 2.4 KB each
//! drops   slot news for which gossip has no room, counted
//! source  `solana-core` 4.2.2, `window_service.rs`

use std::collections::BTreeMap;

use hearth_ledger::blockstore::Reader;
use hearth_tile::{Out, Port, Tile};

use super::cluster::Cluster;
use super::counters::Counters;
use super::equivocation_proof::PROOFS_MAX;
use super::finding::{Conflict, ContradictedShred, Finding};
use super::receiver::ResolvedShred;
use super::set::FecSet;
use super::store_message::write_message;
use crate::links::{DUMP, SlotNews};

/// Maximum contradictions that wait for room on the link to gossip.
const UNTOLD_MAX: usize = 64;

/// The state of the report of an equivocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Proof {
    /// Nothing yet: the store lacked the other shred this many times.
    Sought(u8),
    /// The equivocation was reported.
    Reported,
}

/// Passes sets and findings to store and gossip.
pub(super) struct Deliver {
    store: Port,
    gossip: Port,
    version: u16,
    blocks: Reader,
    /// The slots whose leaders equivocated.
    proofs: BTreeMap<u64, Proof>,
    /// Contradictions that wait for room on the link to gossip, one per slot.
    untold: BTreeMap<u64, Conflict>,
    /// Slot news dropped because gossip had no room.
    lost: u64,
}

impl Deliver {
    pub fn new(cluster: &Cluster, store: Port, gossip: Port) -> Self {
        Self {
            store,
            gossip,
            version: cluster.receiver.version,
            blocks: cluster.blocks.clone(),
            proofs: BTreeMap::new(),
            untold: BTreeMap::new(),
            lost: 0,
        }
    }

    /// Passes on what a kept shred revealed and completed. Findings come first, so that voiding precedes the set.
    pub fn resolved(&mut self, resolved: &ResolvedShred<'_>, out: &mut Out<'_, impl Tile<Counters = Counters>>) {
        self.findings(resolved.findings, out);
        let Some(completed) = &resolved.completed else { return };
        out.count.sets_completed += 1;
        out.count.shreds_recovered += u64::from(completed.recovered.count_ones());
        let slot = resolved.progress.slot;
        out.publish_with(self.store, slot, |buffer| write_message(completed.set, completed.parent_slot, buffer));
        if resolved.progress.ends {
            tracing::debug!("slot {slot} is whole");
            self.whole(slot, out);
        }
    }

    /// Reports that a slot is whole.
    pub fn whole(&mut self, slot: u64, out: &mut Out<'_, impl Tile<Counters = Counters>>) {
        self.tell(SlotNews::Whole(slot), out);
    }

    /// How much slot news was dropped because gossip had no room.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Sends slot news to gossip if there is room.
    fn tell(&mut self, news: SlotNews<'_>, out: &mut Out<'_, impl Tile<Counters = Counters>>) {
        if out.credits(self.gossip, 1) == 0 {
            self.lost += 1;
        } else {
            out.publish_with(self.gossip, 0, |buffer| news.write(buffer));
        }
    }

    /// Passes on a shred's findings, whether or not the shred was kept.
    pub fn findings(&mut self, findings: &[Finding], out: &mut Out<'_, impl Tile<Counters = Counters>>) {
        for finding in findings {
            match finding {
                Finding::Begun(slot) if self.blocks.slot(*slot).is_none() => {}
                Finding::Begun(slot) | Finding::Evicted(slot) => {
                    out.publish_control(self.store, *slot, DUMP, &[]);
                    out.count.voided_slots += 1;
                }
                Finding::Torn(slot) => self.dump(*slot, out),
                Finding::Contradiction(conflict) => self.contradiction(conflict, out),
            }
        }
    }

    /// Makes store forget a slot's block, so that another can take its place.
    pub fn dump(&self, slot: u64, out: &mut Out<'_, impl Tile<Counters = Counters>>) {
        out.publish_control(self.store, slot, DUMP, &[]);
        out.count.slots_dumped += 1;
    }

    /// Forgets slots up to and including `root`.
    pub fn set_root(&mut self, root: u64) {
        if self.proofs.first_key_value().is_some_and(|(slot, _)| *slot <= root) {
            self.proofs = self.proofs.split_off(&(root + 1));
        }
        self.untold = self.untold.split_off(&(root + 1));
    }

    /// Whether contradictions are waiting for room on the link to gossip.
    pub fn has_untold(&self) -> bool {
        !self.untold.is_empty()
    }

    /// Reports waiting contradictions as far as there is room.
    pub fn tell_again(&mut self, out: &mut Out<'_, impl Tile<Counters = Counters>>) {
        while out.credits(self.gossip, 1) > 0
            && let Some((_, conflict)) = self.untold.pop_first()
        {
            self.contradiction(&conflict, out);
        }
    }

    /// Reports, once per slot, that a leader has contradicted itself, with the two shreds that prove it.
    fn contradiction(&mut self, conflict: &Conflict, out: &mut Out<'_, impl Tile<Counters = Counters>>) {
        let Conflict { slot, theirs, ours } = conflict;
        let before = match self.proofs.get(slot) {
            Some(Proof::Reported) => return,
            Some(Proof::Sought(times)) => *times,
            None => 0,
        };
        if out.credits(self.gossip, 1) == 0 {
            self.untold.entry(*slot).or_insert_with(|| conflict.clone());
            if self.untold.len() > UNTOLD_MAX {
                self.untold.pop_last();
                self.lost += 1;
            }
            return;
        }
        let ours = match ours {
            ContradictedShred::Shred(bytes) => Some(bytes.clone()),
            ContradictedShred::Stored { set_index, place } => self.stored(*slot, *set_index, *place),
        };
        match ours {
            Some(ours) => self.tell(SlotNews::Contradiction { slot: *slot, shreds: [&ours, theirs] }, out),
            // A shred that is not on disk yet may be there when the next contradiction arrives.
            None if before + 1 < PROOFS_MAX => {
                self.proofs.insert(*slot, Proof::Sought(before + 1));
                return;
            }
            // Sets with another layout than ours cannot be rebuilt from storage: report the equivocation without proof.
            None => self.tell(SlotNews::Duplicate(*slot), out),
        }
        self.proofs.insert(*slot, Proof::Reported);
        out.count.duplicate_slots += 1;
    }

    /// Reads a data shred of a stored set.
    fn stored(&self, slot: u64, set_index: u32, place: usize) -> Option<Vec<u8>> {
        let (mut found, version) = (None, self.version);
        // Treat a read error like a missing shred.
        let _ = self.blocks.sets(slot, |set| {
            if set.fec_set_index == set_index {
                found = FecSet::of_record(set, version);
            }
        });
        found?.shreds().nth(place).map(<[u8]>::to_vec)
    }
}
