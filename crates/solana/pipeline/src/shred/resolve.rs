//! resolve: the third stage of a shred's path: adds it to its set, which is complete once any 32 of its 64 shreds are
//! here.
//!
//! reads   a shred that its slot's leader has signed
//! writes  the slot's state; the set and its recovered shreds; as findings, contradictions of leaders and slots whose
//!         stored sets are void
//! memory  the sets and slots of the [`Receiver`]
//! drops   shreds that contradict their slot, belong to another block than the accepted one, or find no room:
//!         [`ShredRefusal`]
//! source  `solana-ledger` 4.2.2, `blockstore.rs`; `docs/cluster-protocol.md`, section 2

use std::collections::BTreeMap;

use hearth_wire::Pubkey;
use hearth_wire::shred::{DATA_PER_SET, Shred};

use super::arrival::{Arrival, ShredRefusal, ShredSource};
use super::block_versions::{Link, SetRefusal};
use super::check::VerifiedShred;
use super::fec_resolver::{Assembly, SetYield};
use super::finding::Finding;
use super::receiver::{
    CompletedSet, ENDED_SETS_MAX, Incoming, RECENT_MAX, Receiver, RecoveredSet, ResolvedShred, SetProgress,
};

impl Receiver {
    /// Keeps a shred, and completes its set if possible.
    ///
    /// # Errors
    /// Why the shred was not kept.
    pub(super) fn resolve(
        &mut self,
        shred: &Shred<'_>,
        genuine: VerifiedShred,
        arrival: Arrival,
    ) -> Result<ResolvedShred<'_>, ShredRefusal> {
        let (leader, root) = (genuine.leader, genuine.root);
        let kept = self.keep(shred, genuine, arrival);
        self.note_answer(shred.slot(), arrival, kept.err());
        let completes = kept? == Set::Complete;
        let (slot, set_index) = (shred.slot(), shred.set_index());
        let ends = completes && self.whole.contains(&slot);
        let progress = SetProgress { slot, leader, set_index, completes, ends };
        let completed = if completes { self.completed() } else { None };
        Ok(ResolvedShred { progress, root, completed, findings: &self.findings })
    }

    fn keep(&mut self, shred: &Shred<'_>, genuine: VerifiedShred, arrival: Arrival) -> Result<Set, ShredRefusal> {
        let VerifiedShred { leader, root, leaf, proofs } = genuine;
        let key @ (slot, _) = (shred.slot(), shred.set_index());
        self.check_slot(shred)?;
        match proofs {
            None => {
                self.note_slot(shred, leader, arrival)?;
                self.sets.get_mut(&key).expect("its slot was noted before").keep(shred, &leaf);
            }
            Some(proofs) => {
                self.admit(key, (root, shred.chained_root()), arrival.source)?;
                self.note_slot(shred, leader, arrival)?;
                self.make_room(key, arrival.now_ns)?;
                let memory = self.free.pop().unwrap_or_default();
                self.sets.insert(key, Assembly::begin(shred, (leaf, proofs), memory));
                self.slots.get_mut(&slot).expect("it was just noted").begun += 1;
            }
        }
        if !self.sets[&key].is_enough() {
            return Ok(Set::Begun);
        }
        self.complete(key)?;
        Ok(Set::Complete)
    }

    /// Counts which block repair responses belong to, for partial slots: consensus decides between whole blocks.
    pub(super) fn note_answer(&mut self, slot: u64, arrival: Arrival, refused: Option<ShredRefusal>) {
        if arrival.source != ShredSource::Repair {
            return;
        }
        let is_open = !self.whole.contains(&slot) && self.versions.is_open(slot);
        match refused {
            None => self.contests.kept(slot),
            Some(ShredRefusal::Equivocation | ShredRefusal::Dumped) if is_open => {
                self.contests.other(slot, arrival.now_ns)
            }
            Some(_) => {}
        }
    }

    /// The most recently completed set.
    pub(super) fn completed(&self) -> Option<CompletedSet<'_>> {
        let RecoveredSet { key, recovered, parent_slot } = self.done?;
        Some(CompletedSet { set: self.recent.get(&key)?.set(), parent_slot, recovered })
    }

    /// Decides whether a set may start next to the known sets of its slot.
    fn admit(&mut self, key @ (slot, _): (u64, u32), link: Link, source: ShredSource) -> Result<(), ShredRefusal> {
        let mut versions = std::mem::take(&mut self.versions);
        let verdict = versions.admit(key, link, source == ShredSource::Repair, |set| self.link(slot, set));
        if verdict == Err(SetRefusal::Torn) {
            let begun = self.sets.range((slot, 0)..=(slot, u32::MAX));
            let begun = begun.map(|((_, set), assembly)| (*set, (*assembly.root(), *assembly.chained_root())));
            let complete = self.slots.get(&slot).map(|incoming| incoming.complete.clone()).unwrap_or_default();
            versions.tear(slot, &complete.into_iter().chain(begun).collect());
            self.forget(slot);
            self.forget_recent(slot);
            self.findings.push(Finding::Torn(slot));
        }
        self.versions = versions;
        verdict.map_err(|barred| match barred {
            SetRefusal::Other => ShredRefusal::Dumped,
            SetRefusal::Torn => ShredRefusal::BrokenSet,
        })
    }

    /// Checks that a genuine shred's claims about its slot are possible.
    fn check_slot(&mut self, shred: &Shred<'_>) -> Result<(), ShredRefusal> {
        let set_index = shred.set_index();
        let Some(incoming) = self.slots.get_mut(&shred.slot()) else { return Ok(()) };
        // A contradictory shred says nothing about the accepted block.
        let is_beyond = incoming.last.is_some_and(|last| set_index > last);
        let is_another_parent =
            shred.parent_slot().is_some_and(|parent| incoming.parent_slot.is_some_and(|known| known != parent));
        let ends_before =
            shred.ends_slot() && (incoming.last.is_some_and(|last| last != set_index) || incoming.highest > set_index);
        if !is_beyond && !is_another_parent && !ends_before {
            return Ok(());
        }
        incoming.equivocates = true;
        let (highest, last) = (incoming.highest, incoming.last.unwrap_or_default());
        if is_beyond {
            self.note_conflict(shred, last, Some(DATA_PER_SET - 1));
        } else if ends_before {
            self.note_conflict(shred, highest, None);
        }
        Err(ShredRefusal::Equivocation)
    }

    /// Records a genuine shred's claims about its slot.
    fn note_slot(&mut self, shred: &Shred<'_>, leader: Pubkey, arrival: Arrival) -> Result<(), ShredRefusal> {
        let (slot, set_index) = (shred.slot(), shred.set_index());
        if !self.slots.contains_key(&slot) && self.slots.len() >= self.config.slots_max {
            // Evict the newest, since all slots before it are needed first; else a stalled slot, which is withheld or
            // nowhere available.
            let newest = self.slots.keys().next_back().copied().filter(|newest| *newest > slot);
            let goes = newest.or_else(|| self.stands(slot, arrival.now_ns, |_| true)).ok_or(ShredRefusal::NoRoom)?;
            self.evict(goes);
        }
        // If a set had to be requested, no more of its shreds are on their way.
        let now_ns = if arrival.source == ShredSource::Repair { 0 } else { arrival.now_ns };
        if !self.slots.contains_key(&slot) {
            self.findings.push(Finding::Begun(slot));
        }
        let incoming = self.slots.entry(slot).or_insert_with(|| Incoming {
            leader,
            parent_slot: None,
            newest_ns: now_ns,
            highest: set_index,
            last: None,
            complete: BTreeMap::new(),
            heard: BTreeMap::new(),
            begun: 0,
            kept_ns: arrival.now_ns,
            equivocates: false,
        });
        incoming.kept_ns = arrival.now_ns;
        incoming.heard.entry(set_index).or_insert(now_ns);
        incoming.parent_slot = shred.parent_slot().or(incoming.parent_slot);
        if shred.ends_slot() {
            incoming.last = Some(set_index);
        }
        if set_index > incoming.highest {
            (incoming.highest, incoming.newest_ns) = (set_index, now_ns);
        }
        Ok(())
    }

    /// Recovers the missing shreds, and keeps the set to be handed out.
    fn complete(&mut self, key: (u64, u32)) -> Result<(), ShredRefusal> {
        let (slot, set_index) = key;
        let mut assembly = self.sets.remove(&key).expect("a shred of it was just kept");
        let came = assembly.present();
        let made = assembly.make(&self.code);
        if made == SetYield::Lacks {
            self.sets.insert(key, assembly);
            return Err(ShredRefusal::BrokenSet);
        }
        // Do not report shreds as recovered if they are not what the leader signed.
        let recovered = if made == SetYield::All { !came } else { 0 };
        let incoming = self.slots.get_mut(&slot).expect("its slot was just noted");
        incoming.begun -= 1;
        let header = assembly.set().header();
        let parent_slot = slot - u64::from(header.parent_offset);
        let contradicts = incoming.parent_slot.is_some_and(|parent| parent != parent_slot)
            || incoming.last.is_some_and(|last| header.ends_slot != (last == set_index))
            || (header.ends_slot && incoming.highest > set_index);
        if contradicts {
            incoming.equivocates = true;
            return Err(ShredRefusal::Equivocation);
        }
        incoming.parent_slot = Some(parent_slot);
        if header.ends_slot {
            incoming.last = Some(set_index);
        }
        incoming.complete.insert(set_index, (*assembly.root(), *assembly.chained_root()));
        if incoming.is_whole() {
            self.end(slot);
        }
        self.keep_recent(key, assembly);
        self.done = Some(RecoveredSet { key, recovered, parent_slot });
        Ok(())
    }

    fn end(&mut self, slot: u64) {
        self.whole.insert(slot);
        self.contests.remove(slot);
        if let Some(mut ended) = self.slots.remove(&slot) {
            ended.heard.clear();
            self.ended_sets += ended.complete.len();
            self.ended.insert(slot, ended);
        }
        self.forget(slot);
        while self.ended_sets > ENDED_SETS_MAX
            && let Some((_, oldest)) = self.ended.pop_first()
        {
            self.ended_sets -= oldest.complete.len();
        }
    }

    fn keep_recent(&mut self, key: (u64, u32), assembly: Assembly) {
        self.recent_order.push_back(key);
        if let Some(before) = self.recent.insert(key, assembly) {
            self.recent_order.retain(|other| *other != key);
            self.recent_order.push_back(key);
            self.free(before);
        }
        if self.recent.len() > RECENT_MAX
            && let Some(oldest) = self.recent_order.pop_front().and_then(|oldest| self.recent.remove(&oldest))
        {
            self.free(oldest);
        }
    }
}

/// The state of a set after a shred of it was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Set {
    /// It needs more shreds.
    Begun,
    /// All shreds that count are here.
    Complete,
}
